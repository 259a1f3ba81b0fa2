/* fakenccl.cc -- NCCL without a GPU: sums between processes through a file in memory.
 *
 * The unique id is that file's name in /proc, while rank 0 lives.  As in NCCL nothing tells that a
 * rank is gone: who waits for it waits for ever, unless the communicator is aborted.  Calls on a
 * communicator return ncclInProgress first, and the state tells the rest. */
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/fakecuda.h"

enum { RANKS = 16 };
static const size_t PART = 1 << 16;	/* floats that go through at once */
struct shared {
	std::atomic<int> came, round, joined, device[RANKS];
	float slot[RANKS][PART];
};
struct ncclComm {
	shared *s;
	int n, rank, joining, polls;
	std::atomic<int> aborted, queued, done;
};
extern thread_local int fake_device;

static void
meet(ncclComm *c)
{
	int round = c->s->round;

	fake_pause();
	if (++c->s->came == c->n) {
		c->s->came = 0;
		c->s->round++;
	}
	while (c->s->round == round && !c->aborted)
		usleep(50);
	fake_resume();
}

/* The sum of all, or rank 0's numbers, to all; rank 0's come first. */
static void
exchange(ncclComm *c, const float *from, float *to, size_t n, int sum)
{
	for (size_t at = 0; at < n; at += PART) {
		size_t m = n - at < PART ? n - at : PART;

		memcpy(c->s->slot[c->rank], from + at, m * sizeof *from);
		meet(c);
		for (size_t i = 0; i < m && !c->aborted; i++) {
			float v = c->s->slot[0][i];

			for (int r = 1; r < c->n && sum; r++)
				v += c->s->slot[r][i];
			to[at + i] = v;
		}
		meet(c);
	}
	c->done++;
}

static ncclResult_t
collective(ncclComm *c, const void *from, void *to, size_t n, int sum, cudaStream_t stream)
{
	if (c->aborted)
		fake_wrong("nccl: a collective on a communicator that is aborted");
	if (!n)
		fake_wrong("nccl: a collective of nothing");
	fake_check("nccl's source", from, n * sizeof(float));
	fake_check("nccl's destination", to, n * sizeof(float));
	if (fake_fails("collective"))
		return ncclSystemError;
	c->queued++;
	c->polls = 1;
	fake_queue(stream, "nccl", [=] { exchange(c, (const float *)from, (float *)to, n, sum); });
	return ncclInProgress;
}

extern "C" {
ncclResult_t
ncclGetVersion(int *v)
{
	*v = (int)fake_number("FAKE_NCCL", 22800);
	return ncclSuccess;
}

ncclResult_t
ncclGetUniqueId(ncclUniqueId *id)
{
	int fd = memfd_create("fakenccl", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, sizeof(shared)))
		return ncclSystemError;
	snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", (int)getpid(), fd);
	return ncclSuccess;
}

ncclResult_t
ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	int fd = open(id.internal, O_RDWR | O_CLOEXEC);
	ncclComm *c = new ncclComm{};

	if (config->blocking || n > RANKS || rank >= n || fd < 0)
		return ncclInvalidArgument;
	c->s = (shared *)mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (c->s == MAP_FAILED)
		return ncclSystemError;
	c->n = n;
	c->rank = rank;
	c->joining = 1;
	c->s->device[rank] = fake_device;
	c->s->joined++;
	*out = c;
	return ncclInProgress;
}

/* Two ranks of one GPU are no ranks. */
ncclResult_t
ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
	*state = ncclInProgress;
	if (c->joining && c->s->joined < c->n)
		return ncclSuccess;
	c->joining = 0;
	for (int r = 0; r < c->n; r++)
		if (r != c->rank && c->s->device[r] == c->s->device[c->rank])
			*state = ncclInvalidUsage;
	if (*state == ncclInProgress && --c->polls < 0)
		*state = ncclSuccess;
	return ncclSuccess;
}

ncclResult_t
ncclCommFinalize(ncclComm_t c)
{
	if (c->queued != c->done)
		fake_wrong("nccl: the end comes before %d collectives", c->queued - c->done);
	c->polls = 2;
	return ncclInProgress;
}

ncclResult_t
ncclCommDestroy(ncclComm_t c)
{
	munmap(c->s, sizeof(shared));
	delete c;
	return ncclSuccess;
}

ncclResult_t
ncclCommAbort(ncclComm_t c)
{
	c->aborted = 1;
	return ncclSuccess;
}

ncclResult_t
ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
    cudaStream_t s)
{
	if (t != ncclFloat32 || op != ncclSum)
		return ncclInvalidArgument;
	return collective(c, from, to, n, 1, s);
}

ncclResult_t
ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t t, int root, ncclComm_t c,
    cudaStream_t s)
{
	if (t != ncclFloat32 || root)
		return ncclInvalidArgument;
	return collective(c, from, to, n, 0, s);
}

const char *
ncclGetErrorString(ncclResult_t r)
{
	return r == ncclInvalidUsage ? "invalid usage" : r == ncclSystemError ?
	    "unhandled system error" : "some error";
}

const char *
ncclGetLastError(ncclComm_t)
{
	return "";
}
}
