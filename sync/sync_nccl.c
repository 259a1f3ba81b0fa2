/* sync_nccl.c -- sums and broadcasts between GPUs by NCCL.
 *
 * Collectives run on a stream of their own: each waits for what the device's stream has queued so
 * far, and wait() makes that stream wait for them.  NCCL is opened by dlopen at the first use; its
 * unique id goes through the ranks' mapping, and so do host sums and barriers (sync_shm.c).
 *
 * A collective whose peer is gone never ends, and neither does whoever waits for the stream.  So
 * the communicator does not block, and a thread looks at it: an error inside NCCL, a reason from
 * another rank, or no end within the deadline while no other rank shows life, ends the process;
 * the parent, or the others' watchers, end the rest. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sync/int.h"
#include "kernel/kernel.h"

enum { NCCL_LEAST = 21800, LOOK_MS = 100 };

#define FUNCTIONS(F) \
	F(ncclGetVersion) F(ncclGetUniqueId) F(ncclCommInitRankConfig) F(ncclCommGetAsyncError) \
	F(ncclCommFinalize) F(ncclCommDestroy) F(ncclCommAbort) F(ncclAllReduce) F(ncclBroadcast) \
	F(ncclGetErrorString) F(ncclGetLastError)
#define MEMBER(f) __typeof__(f) *f;
struct library {
	void *lib;
	FUNCTIONS(MEMBER)
};

struct nccl {
	struct library lib;
	ncclComm_t comm;
	cudaStream_t stream;
	cudaEvent_t ready, done, mark;	/* before a collective, after it; the watcher's */
	pthread_t watcher;
	pthread_mutex_t lock;		/* who is in NCCL; guards what follows too */
	pthread_cond_t end;
	int device, ending, watching;
	unsigned long queued, marked;	/* collectives queued; up to which the mark stands */
	char what[64];			/* the last one */
};

static int
library_open(struct library *l, struct err *e)
{
	const char *name = "libnccl.so.2";

	if (!(l->lib = dlopen(name, RTLD_NOW | RTLD_LOCAL)))
		return err_set(e, "nccl: %s: install the package libnccl2", dlerror());
#define LOAD(f) \
	if (!(*(void **)&l->f = dlsym(l->lib, #f))) \
		return err_set(e, "nccl: %s has no %s: update the package libnccl2", name, #f);
	FUNCTIONS(LOAD)
#undef LOAD
	return 0;
}

static int
cuda_ok(struct err *e, cudaError_t r, const char *what)
{
	return r == cudaSuccess ? 0 : err_set(e, "nccl: %s: %s", what, cudaGetErrorString(r));
}

/* A call into a communicator that does not block returns before it is done: wait for the result. */
static int
settle(struct sync *s, struct nccl *c, ncclResult_t r, const char *what, struct err *e)
{
	struct timespec nap = { 0, 200000 };
	double until = now() + s->deadline, last = 0;
	const char *why, *more;

	while (r == ncclInProgress || (r == ncclSuccess && c->comm)) {
		ncclResult_t state = ncclSuccess;

		r = c->lib.ncclCommGetAsyncError(c->comm, &state);
		if (r == ncclSuccess && state == ncclSuccess)
			return 0;
		if (r == ncclSuccess)
			r = state;
		if ((why = meet_failed(s->meet)))
			return err_set(e, "%s", why);
		until += meet_slept(&last);
		if (r == ncclInProgress && now() > until)
			return err_set(e, "nccl: %s of rank %d took longer than %g s", what,
			    s->rank, s->deadline);
		nanosleep(&nap, NULL);
	}
	if (r == ncclSuccess)
		return 0;
	more = c->lib.ncclGetLastError(c->comm);
	return err_set(e, "nccl: %s: %s%s%s", what, c->lib.ncclGetErrorString(r),
	    more && *more ? ": " : "", more ? more : "");
}

/* ---- the watcher -------------------------------------------------------------------------- */

/* End of this process, out of a thread: nothing that could wait for the GPU may run. */
static void
give_up(struct sync *s, struct nccl *c, const char *why)
{
	if (meet_fail(s->meet, why) && meet_joined(s->meet))
		warn("%s", why);
	alarm(5);			/* should the abort hang */
	c->lib.ncclCommAbort(c->comm);
	_exit(1);
}

/* Is all done that was queued before the mark?  -1: an error. */
static int
reached(struct nccl *c, struct err *e)
{
	ncclResult_t state = ncclSuccess;
	cudaError_t q;

	c->lib.ncclCommGetAsyncError(c->comm, &state);
	if (state != ncclSuccess && state != ncclInProgress)
		return err_set(e, "nccl: %s: %s", c->what, c->lib.ncclGetErrorString(state));
	q = cudaEventQuery(c->mark);
	if (q == cudaErrorNotReady)
		return 0;
	return q == cudaSuccess ? 1 : err_set(e, "nccl: %s: %s", c->what, cudaGetErrorString(q));
}

static void
wait_a_while(struct nccl *c)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += LOOK_MS * 1000000L;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&c->end, &c->lock, &t);
}

static void *
watch(void *arg)
{
	struct sync *s = (struct sync *)arg;
	struct nccl *c = (struct nccl *)s->priv;
	double since = 0, last = 0;
	char note[MEET_NOTE];
	uint64_t beats = 0;
	struct err e;

	cudaSetDevice(c->device);
	pthread_mutex_lock(&c->lock);
	for (; !c->ending; wait_a_while(c)) {
		uint64_t b = meet_beats(s->meet, s->seat);
		int r;

		if (!c->watching && c->queued != c->marked) {
			if (cuda_ok(&e, cudaEventRecord(c->mark, c->stream), "watch"))
				give_up(s, c, e.msg);
			c->marked = c->queued;
			c->watching = 1;
			since = now();
		}
		since += meet_slept(&last);
		if (b != beats)
			since = now();
		beats = b;
		if ((r = c->watching ? reached(c, &e) : 0) < 0)
			give_up(s, c, e.msg);
		if (r)
			c->watching = 0;
		else if (c->watching && meet_failed(s->meet))
			give_up(s, c, meet_failed(s->meet));
		else if (c->watching && now() - since > s->deadline) {
			err_set(&e,
			    "a rank stalled for %g s: rank %d waits in %s (operation %lu)%s",
			    s->deadline, s->rank, c->what, c->marked,
			    meet_noted(s->meet, note));
			give_up(s, c, e.msg);
		}
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* ---- operations --------------------------------------------------------------------------- */

/* To be called with the lock: what is queued on the device's stream comes first. */
static int
before(struct sync *s, struct nccl *c, const char *what, size_t n)
{
	snprintf(c->what, sizeof c->what, "%s of %zu numbers", what, n);
	meet_alive(s->meet, s->seat);
	if (cuda_ok(&s->err, cudaEventRecord(c->ready, (cudaStream_t)s->dev->stream), what))
		return -1;
	return cuda_ok(&s->err, cudaStreamWaitEvent(c->stream, c->ready, 0), what);
}

static int
start(struct sync *s, float *buf, size_t n)
{
	struct nccl *c = (struct nccl *)s->priv;
	int r;

	if (!n)
		return 0;
	pthread_mutex_lock(&c->lock);
	r = before(s, c, "sum", n);
	if (!r)
		r = settle(s, c, c->lib.ncclAllReduce(buf, buf, n, ncclFloat32, ncclSum, c->comm,
		    c->stream), "sum", &s->err);
	c->queued++;
	pthread_mutex_unlock(&c->lock);
	return r;
}

static int
wait_all(struct sync *s)
{
	struct nccl *c = (struct nccl *)s->priv;

	if (cuda_ok(&s->err, cudaEventRecord(c->done, c->stream), "wait"))
		return -1;
	return cuda_ok(&s->err, cudaStreamWaitEvent((cudaStream_t)s->dev->stream, c->done, 0),
	    "wait");
}

static int
sum(struct sync *s, float *buf, size_t n)
{
	return start(s, buf, n) ? -1 : wait_all(s);
}

static int
bcast(struct sync *s, float *buf, size_t n)
{
	struct nccl *c = (struct nccl *)s->priv;
	int r;

	if (!n)
		return 0;
	pthread_mutex_lock(&c->lock);
	r = before(s, c, "bcast", n);
	if (!r)
		r = settle(s, c, c->lib.ncclBroadcast(buf, buf, n, ncclFloat32, 0, c->comm,
		    c->stream), "bcast", &s->err);
	c->queued++;
	pthread_mutex_unlock(&c->lock);
	return r ? -1 : wait_all(s);
}

/* In order, while all is well; a communicator in trouble is aborted, which waits for no one. */
static void
close_nccl(struct sync *s)
{
	struct nccl *c = (struct nccl *)s->priv;
	struct err e;

	if (!c)
		return;
	if (c->watcher) {
		pthread_mutex_lock(&c->lock);
		c->ending = 1;
		pthread_cond_signal(&c->end);
		pthread_mutex_unlock(&c->lock);
		pthread_join(c->watcher, NULL);
	}
	if (c->comm && (meet_failed(s->meet) ||
	    settle(s, c, c->lib.ncclCommFinalize(c->comm), "end", &e)))
		c->lib.ncclCommAbort(c->comm);
	else if (c->comm)
		c->lib.ncclCommDestroy(c->comm);
	cudaEventDestroy(c->ready);
	cudaEventDestroy(c->done);
	cudaEventDestroy(c->mark);
	cudaStreamDestroy(c->stream);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->end);
	free(c);
	s->priv = NULL;
}

static const struct sync_ops nccl = { "nccl", sum, start, wait_all, shm_sum_host, bcast,
	shm_barrier, close_nccl };

/* ---- opening ------------------------------------------------------------------------------ */

static int
open_streams(struct nccl *c, struct err *e)
{
	unsigned plain = cudaEventDisableTiming;
	int least, most;

	if (cuda_ok(e, cudaGetDevice(&c->device), "device") ||
	    cuda_ok(e, cudaDeviceGetStreamPriorityRange(&least, &most), "stream") ||
	    cuda_ok(e, cudaStreamCreateWithPriority(&c->stream, cudaStreamNonBlocking, most),
	    "stream"))
		return -1;
	if (cuda_ok(e, cudaEventCreateWithFlags(&c->ready, plain), "event") ||
	    cuda_ok(e, cudaEventCreateWithFlags(&c->done, plain), "event"))
		return -1;
	return cuda_ok(e, cudaEventCreateWithFlags(&c->mark, plain), "event");
}

/* Rank 0 makes the id; the barrier between writing and reading it also sees that all want NCCL. */
static int
connect_ranks(struct sync *s, struct nccl *c, struct err *e)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	int version = 0;
	ncclUniqueId id;
	ncclResult_t r;

	if (library_open(&c->lib, e))
		return -1;
	c->lib.ncclGetVersion(&version);
	if (version < NCCL_LEAST)
		return err_set(e, "nccl: version %d.%d is too old: want 2.18 or newer",
		    version / 10000, version / 100 % 100);
	if (!s->rank) {
		if ((r = c->lib.ncclGetUniqueId(&id)) != ncclSuccess)
			return err_set(e, "nccl: unique id: %s", c->lib.ncclGetErrorString(r));
		memcpy(meet_id(s->meet), &id, sizeof id);
	}
	if (shm_begin(s, "nccl id", (size_t)s->size) ||
	    shm_bcast_host(s, meet_id(s->meet), sizeof id))
		return err_set(e, "%s", s->err.msg);
	memcpy(&id, meet_id(s->meet), sizeof id);
	config.blocking = 0;
	r = c->lib.ncclCommInitRankConfig(&c->comm, s->size, id, s->rank, &config);
	return settle(s, c, r, "start", e);
}

int
nccl_open_sync(struct sync *s, struct err *e)
{
	struct nccl *c = (struct nccl *)xcalloc(1, sizeof *c);

	s->priv = c;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->end, NULL);
	if (open_streams(c, e) || connect_ranks(s, c, e)) {
		meet_fail(s->meet, e->msg);	/* the others need not wait for this rank */
		close_nccl(s);
		return -1;
	}
	s->ops = &nccl;
	if (pthread_create(&c->watcher, NULL, watch, s)) {
		c->watcher = 0;
		close_nccl(s);
		return err_set(e, "nccl: cannot start a thread");
	}
	return 0;
}
