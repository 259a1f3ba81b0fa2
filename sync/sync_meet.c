/* sync_meet.c -- what ranks of one host share: a mapping, a barrier, a reason for the end.
 *
 * The mapping has no name: it comes through a fork, or as a descriptor over a socket, so nothing is
 * left behind however the ranks end.  /dev/shm, 64 MB in containers, is not used.
 *
 * The barrier is a counter and a generation; waiters sleep on the generation.  No lock is held by
 * anyone, so a rank that is killed cannot take one along.  Sleepers look around ten times a second:
 * has anyone failed, has a missing rank ended, has none of the missing shown life for the whole
 * deadline?  The first who finds a reason writes it down, and all waits end with it. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sync/int.h"

struct hello { int32_t rank, size, first; };

static int
join_rank(const struct hello *, const char *name, double until, int *fd, int *peer, struct err
    *e);

static int
join_host(const struct hello *, const char *name, double until, int fd, int *peer, struct err *e);

enum { SLICE_MS = 100, SPIN = 3000, LONG_SLEEP = 1 };	/* seconds: more than a busy machine's */

/* What a rank last came to do.  Two, in turn: who is one operation ahead must not overwrite what
 * the others still compare; two ahead nobody can be. */
struct post { uint64_t n; char what[24]; };
struct seat {
	uint64_t arrived;		/* barriers that it came to */
	uint32_t left;			/* its process has ended */
	uint64_t beat, op;		/* signs of life; operations begun */
	struct post post[2];
	char pad[64];
};
struct shared {
	uint32_t count, gen;
	uint32_t failed;		/* 1: the reason is being written, 2: it can be read */
	uint64_t far;			/* life elsewhere, as the first rank sees it */
	char why[1024], id[256];
	char pad[64];
};
struct meet {
	struct shared *s;
	struct seat *seat;
	char *small, *slot;
	size_t len;
	int size, spin, turn, mine;	/* mine: the reason is this process's */
	int first;			/* rank of seat 0 */
	struct hosts *hosts;
	int *peer, npeer;	/* joined: sockets to the others; they hang up when one ends */
	char note[MEET_NOTE];
	pthread_mutex_t noting;
};

static size_t
page_up(size_t n)
{
	return (n + 4095) & ~(size_t)4095;
}

/* Where the parts lie; the whole length. */
static size_t
layout(int size, size_t *seat, size_t *small, size_t *slot)
{
	*seat = page_up(sizeof(struct shared));
	*small = *seat + page_up((size_t)size * sizeof(struct seat));
	*slot = *small + page_up((size_t)size * 2 * MEET_SMALL);
	return *slot + ((size_t)size + 1) * MEET_SLOT;
}

static struct meet *
attach(int size, int fd, struct err *e)
{
	size_t seat, small, slot, len = layout(size, &seat, &small, &slot);
	struct meet *m;
	cpu_set_t set;
	char *p;

	p = (char *)mmap(NULL, len, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	if (p == MAP_FAILED) {
		err_set(e, "cannot map %zu bytes shared by %d ranks: %s", len, size,
		    strerror(errno));
		return NULL;
	}
	m = (struct meet *)xcalloc(1, sizeof *m);
	m->s = (struct shared *)p;
	m->seat = (struct seat *)(p + seat);
	m->small = p + small;
	m->slot = p + slot;
	m->len = len;
	m->size = size;
	pthread_mutex_init(&m->noting, NULL);
	m->spin = !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) >= size ? SPIN : 0;
	return m;
}

struct meet *
meet_map(int size, struct err *e)
{
	return attach(size, -1, e);
}

void
meet_close(struct meet *m)
{
	if (!m)
		return;
	hosts_close(m->hosts);
	for (int i = 0; i < m->npeer; i++)
		if (m->peer[i] >= 0)
			close(m->peer[i]);
	free(m->peer);
	pthread_mutex_destroy(&m->noting);
	munmap(m->s, m->len);
	free(m);
}

/* The first makes the memory, the others get its descriptor. */
struct meet *
meet_join(int seat, int size, int first, const char *name, double deadline, struct err *e)
{
	struct hello me = { seat, size, first };
	int *peer = (int *)xmalloc((size_t)size * sizeof *peer), fd = -1, bad;
	size_t seats, small, slot, len = layout(size, &seats, &small, &slot);
	struct meet *m = NULL;
	struct stat st;

	if (seat)
		bad = join_rank(&me, name, now() + deadline, &fd, peer, e);
	else if ((fd = memfd_create("yolo", MFD_CLOEXEC)) < 0 || ftruncate(fd, (off_t)len))
		bad = err_set(e, "cannot make %zu bytes of shared memory: %s", len,
		    strerror(errno));
	else
		bad = join_host(&me, name, now() + deadline, fd, peer, e);
	if (!bad && (fstat(fd, &st) || (size_t)st.st_size != len))
		bad = err_set(e, "rank 0 runs another version of this program");
	if (!bad && (m = attach(size, fd, e))) {
		m->peer = peer;
		m->npeer = seat ? 1 : size;
		m->first = first;
	} else
		free(peer);
	if (fd >= 0)
		close(fd);
	return m;
}

int
meet_joined(const struct meet *m)
{
	return m->npeer > 0;
}

/* ---- failure and life --------------------------------------------------------------------- */

static void
wake(struct meet *m)
{
	syscall(SYS_futex, &m->s->gen, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int
meet_fail(struct meet *m, const char *why)
{
	uint32_t none = 0;
	int first = __atomic_compare_exchange_n(&m->s->failed, &none, 1, 0, __ATOMIC_ACQ_REL,
	    __ATOMIC_ACQUIRE);

	if (first) {
		snprintf(m->s->why, sizeof m->s->why, "%s", why);
		__atomic_store_n(&m->s->failed, 2, __ATOMIC_RELEASE);
	}
	wake(m);
	if (m->hosts)
		hosts_tell(m->hosts, meet_failed(m));
	return m->mine |= first;
}

const char *
meet_failed(struct meet *m)
{
	uint32_t f = __atomic_load_n(&m->s->failed, __ATOMIC_ACQUIRE);

	for (int i = 0; f == 1 && i < 1000; i++) {	/* its writer may have died in between */
		sched_yield();
		f = __atomic_load_n(&m->s->failed, __ATOMIC_ACQUIRE);
	}
	return f == 2 ? m->s->why : f ? "a rank failed" : NULL;
}

void
meet_left(struct meet *m, int rank)
{
	__atomic_store_n(&m->seat[rank].left, 1, __ATOMIC_RELEASE);
	wake(m);
}

void
meet_alive(struct meet *m, int rank)
{
	__atomic_add_fetch(&m->seat[rank].beat, 1, __ATOMIC_RELAXED);
}

uint64_t
meet_beats(struct meet *m, int but)
{
	uint64_t sum = 0;

	for (int i = 0; i < m->size; i++)
		if (i != but)
			sum += __atomic_load_n(&m->seat[i].beat, __ATOMIC_RELAXED);
	return sum + __atomic_load_n(&m->s->far, __ATOMIC_RELAXED);
}

uint64_t
meet_worked(struct meet *m)
{
	uint64_t sum = 0;

	for (int i = 0; i < m->size; i++)
		sum += __atomic_load_n(&m->seat[i].beat, __ATOMIC_RELAXED);
	return sum;
}

void
meet_far(struct meet *m)
{
	__atomic_add_fetch(&m->s->far, 1, __ATOMIC_RELAXED);
}

void
meet_tie(struct meet *m, struct hosts *o)
{
	m->hosts = o;
}

struct hosts *
meet_hosts(struct meet *m)
{
	return m->hosts;
}

uint64_t
meet_op(struct meet *m, int seat)
{
	return m->seat[seat].op;
}

void
meet_note(struct meet *m, const char *text)
{
	pthread_mutex_lock(&m->noting);
	snprintf(m->note, sizeof m->note, "%s", text);
	pthread_mutex_unlock(&m->noting);
}

const char *
meet_noted(struct meet *m, char out[MEET_NOTE])
{
	pthread_mutex_lock(&m->noting);
	snprintf(out, MEET_NOTE, "%s%.390s", *m->note ? "; " : "", m->note);
	pthread_mutex_unlock(&m->noting);
	return out;
}

double
meet_slept(double *last)
{
	double t = now(), slept = *last > 0 ? t - *last - SLICE_MS / 1e3 : 0;

	*last = t;
	return slept > LONG_SLEEP ? slept : 0;
}

/* Joined ranks have no parent that waits for them: a socket that hangs up tells. */
static void
look_at_peers(struct meet *m)
{
	for (int i = 0; i < m->npeer; i++) {
		struct pollfd p = { m->peer[i], POLLIN, 0 };

		if (m->peer[i] >= 0 && poll(&p, 1, 0) > 0)
			meet_left(m, i);
	}
}

/* ---- the barrier -------------------------------------------------------------------------- */

static const struct post *
post_of(const struct meet *m, int rank)
{
	const struct seat *s = &m->seat[rank];

	return &s->post[__atomic_load_n(&s->op, __ATOMIC_ACQUIRE) & 1];
}

/* A rank that has not come to the barrier at which this one is; -1: all have. */
static int
missing(struct meet *m, uint64_t mine, int left)
{
	for (int i = 0; i < m->size; i++)
		if (__atomic_load_n(&m->seat[i].arrived, __ATOMIC_ACQUIRE) < mine &&
		    (!left || __atomic_load_n(&m->seat[i].left, __ATOMIC_ACQUIRE)))
			return i;
	return -1;
}

static uint64_t
missing_beats(struct meet *m, uint64_t mine)
{
	uint64_t sum = 0;

	if (__atomic_load_n(&m->seat[0].arrived, __ATOMIC_ACQUIRE) < mine)
		sum = __atomic_load_n(&m->s->far, __ATOMIC_RELAXED);
	for (int i = 0; i < m->size; i++)
		if (__atomic_load_n(&m->seat[i].arrived, __ATOMIC_ACQUIRE) < mine)
			sum += __atomic_load_n(&m->seat[i].beat, __ATOMIC_RELAXED) + 1;
	return sum;
}

const char *
meet_doing(struct meet *m, int seat, char out[80])
{
	const struct post *p = post_of(m, seat);

	snprintf(out, 80, "%s %llu (%llu numbers)", p->what, (unsigned long long)m->seat[seat].op,
	    (unsigned long long)p->n);
	return out;
}

/* Writes the reason down, for all, unless there is one. */
static int
give_up(struct meet *m, int rank, int who, const char *how, struct err *e)
{
	struct seat *me = &m->seat[rank], *other = &m->seat[who];
	char host[65] = "", note[MEET_NOTE];
	struct err why;

	gethostname(host, sizeof host - 1);
	err_set(&why,
	    "rank %d %s: rank %d waits for it in %s %llu (%llu numbers), it was last in %s %llu; "
	    "both on %s%s",
	    m->first + who, how, m->first + rank, post_of(m, rank)->what,
	    (unsigned long long)me->op, (unsigned long long)post_of(m, rank)->n,
	    other->op ? post_of(m, who)->what : "operation", (unsigned long long)other->op,
	    host, meet_noted(m, note));
	meet_fail(m, why.msg);
	return err_set(e, "%s", meet_failed(m));
}

/* Look around: -1 when there is a reason to give up. */
static int
look(struct meet *m, int rank, uint64_t mine, double since, double deadline, struct err *e)
{
	const char *why = meet_failed(m);
	char how[64];
	int who;

	if (why)
		return err_set(e, "%s", why);
	look_at_peers(m);
	if ((who = missing(m, mine, 1)) >= 0)
		return give_up(m, rank, who, "has ended", e);
	if (now() - since > deadline && (who = missing(m, mine, 0)) >= 0) {
		snprintf(how, sizeof how, "stalled for %g s", deadline);
		return give_up(m, rank, who, how, e);
	}
	return 0;
}

/* For the first rank, while it waits for another host: all of this one wait for it. */
int
meet_lost(struct meet *m, struct err *e)
{
	const char *why = meet_failed(m);
	char host[65] = "", note[MEET_NOTE];
	struct err gone;

	if (why)
		return err_set(e, "%s", why);
	look_at_peers(m);
	for (int i = 0; i < m->size; i++)
		if (__atomic_load_n(&m->seat[i].left, __ATOMIC_ACQUIRE)) {
			gethostname(host, sizeof host - 1);
			err_set(&gone, "rank %d on %s has ended%s", m->first + i, host,
			    meet_noted(m, note));
			meet_fail(m, gone.msg);
			return err_set(e, "%s", meet_failed(m));
		}
	return 0;
}

int
meet_wait(struct meet *m, int rank, double deadline, struct err *e)
{
	struct timespec slice = { 0, SLICE_MS * 1000000L };
	uint32_t gen = __atomic_load_n(&m->s->gen, __ATOMIC_ACQUIRE);
	uint64_t mine = __atomic_add_fetch(&m->seat[rank].arrived, 1, __ATOMIC_ACQ_REL);
	uint64_t beats = 0;
	double since = now(), last = 0;
	int in = 1;

	meet_alive(m, rank);
	if (__atomic_add_fetch(&m->s->count, 1, __ATOMIC_ACQ_REL) == (uint32_t)m->size) {
		__atomic_store_n(&m->s->count, 0, __ATOMIC_RELAXED);
		__atomic_add_fetch(&m->s->gen, 1, __ATOMIC_ACQ_REL);
		wake(m);
		return 0;
	}
	for (int i = 0; i < m->spin && in; i++)
		in = __atomic_load_n(&m->s->gen, __ATOMIC_ACQUIRE) == gen;
	for (int round = 0; __atomic_load_n(&m->s->gen, __ATOMIC_ACQUIRE) == gen; round++) {
		uint64_t b = missing_beats(m, mine);

		since += meet_slept(&last);
		if (b != beats)
			since = now();
		beats = b;
		if (round && look(m, rank, mine, since, deadline, e))
			return __atomic_load_n(&m->s->gen, __ATOMIC_ACQUIRE) == gen ? -1 : 0;
		syscall(SYS_futex, &m->s->gen, FUTEX_WAIT, gen, &slice, NULL, 0);
	}
	return 0;
}

int
meet_begin(struct meet *m, int rank, double deadline, const char *what, size_t n, struct err *e)
{
	struct seat *me = &m->seat[rank];
	uint64_t op = me->op + 1;
	struct post *p = &me->post[op & 1];
	struct err why;

	p->n = n;
	snprintf(p->what, sizeof p->what, "%s", what);
	__atomic_store_n(&me->op, op, __ATOMIC_RELEASE);
	if (meet_wait(m, rank, deadline, e))
		return -1;
	for (int i = 1; i < m->size; i++) {
		const struct post *a = &m->seat[0].post[op & 1], *b = &m->seat[i].post[op & 1];

		if (a->n == b->n && !strcmp(a->what, b->what))
			continue;
		err_set(&why, "ranks disagree: operation %llu is %s of %llu numbers on rank %d, "
		    "%s of %llu on rank %d", (unsigned long long)op, a->what,
		    (unsigned long long)a->n, m->first, b->what, (unsigned long long)b->n,
		    m->first + i);
		meet_fail(m, why.msg);
		return err_set(e, "%s", meet_failed(m));
	}
	return 0;
}

void *
meet_small(struct meet *m, int rank, int turn)
{
	return m->small + ((size_t)rank * 2 + (size_t)turn) * MEET_SMALL;
}

void *
meet_slot(struct meet *m, int i)
{
	return m->slot + (size_t)i * MEET_SLOT;
}

void *
meet_id(struct meet *m)
{
	return m->s->id;
}

int
meet_turn(struct meet *m)
{
	return m->turn = !m->turn;
}

/* Processes that a launcher started find each other on one host.
 *
 * The first rank listens at an abstract socket (no file, gone with the process), checks that who
 * comes is this user's and a rank of this world, and hands out the descriptor of the shared memory.
 * The sockets stay open: they hang up when the process at the other end dies. */

static void
nap(void)
{
	struct timespec t = { 0, 20 * 1000000 };

	nanosleep(&t, NULL);
}

/* An abstract address: no file, gone with the socket. */
static socklen_t
address(struct sockaddr_un *a, const char *name)
{
	memset(a, 0, sizeof *a);
	a->sun_family = AF_UNIX;
	snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a->sun_path + 1));
}

/* Only processes of this user may join: the name is no secret. */
static int
own(int fd)
{
	struct ucred c;
	socklen_t len = sizeof c;

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) && c.uid == geteuid();
}

static int
readable(int fd, double until)
{
	double left = until - now();
	struct pollfd p = { fd, POLLIN, 0 };

	return left > 0 && poll(&p, 1, (int)(left * 1000) + 1) > 0;
}

static int
send_fd(int sock, int fd)
{
	union { struct cmsghdr h; char space[CMSG_SPACE(sizeof(int))]; } u;
	struct iovec v = { (char *)"m", 1 };
	struct msghdr m = { 0 };

	memset(&u, 0, sizeof u);
	m.msg_iov = &v;
	m.msg_iovlen = 1;
	m.msg_control = &u;
	m.msg_controllen = sizeof u;
	u.h.cmsg_level = SOL_SOCKET;
	u.h.cmsg_type = SCM_RIGHTS;
	u.h.cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(&u.h), &fd, sizeof fd);
	return sendmsg(sock, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static int
recv_fd(int sock)
{
	union { struct cmsghdr h; char space[CMSG_SPACE(sizeof(int))]; } u;
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { 0 };
	int fd;

	memset(&u, 0, sizeof u);
	m.msg_iov = &v;
	m.msg_iovlen = 1;
	m.msg_control = &u;
	m.msg_controllen = sizeof u;
	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != 1 || m.msg_controllen < CMSG_LEN(sizeof fd) ||
	    u.h.cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(&u.h), sizeof fd);
	return fd;
}

/* Take the others in, each once. */
static int
host(const struct hello *me, int lsock, int fd, double until, int *peer, struct err *e)
{
	int size = me->size;
	struct hello h;

	for (int missing = size - 1; missing;) {
		int sock;

		if (!readable(lsock, until)) {
			int r = 1;

			while (peer[r] >= 0)
				r++;
			return err_set(e, "rank %d did not come", me->first + r);
		}
		if ((sock = accept4(lsock, NULL, NULL, SOCK_CLOEXEC)) < 0)
			continue;
		if (!own(sock) || !readable(sock, until) || read(sock, &h, sizeof h) != sizeof h ||
		    h.rank < 1 || h.rank >= size || h.size != size || peer[h.rank] >= 0) {
			close(sock);		/* no rank of this world */
			continue;
		}
		if (h.first != me->first)
			return err_set(e, "rank %d is here, and so is %d: start the ranks of "
			    "a host one after the other (srun -m block, mpirun --map-by slot)",
			    me->first, h.first + h.rank);
		if (send_fd(sock, fd))
			return err_set(e, "rank %d went away again", h.first + h.rank);
		peer[h.rank] = sock;
		missing--;
	}
	return 0;
}

/* peer: sockets that stay open, [size] on rank 0 (own: -1), else one. */
static int
join_host(const struct hello *me, const char *name, double until, int fd, int *peer, struct err *e)
{
	int lsock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;
	struct sockaddr_un a;
	socklen_t len = address(&a, name);

	for (int i = 0; i < me->size; i++)
		peer[i] = -1;
	if (lsock < 0 || bind(lsock, (struct sockaddr *)&a, len) || listen(lsock, me->size))
		r = err_set(e, "ranks cannot meet at @%s: %s", name, strerror(errno));
	else
		r = host(me, lsock, fd, until, peer, e);
	if (lsock >= 0)
		close(lsock);
	return r;
}

static int
join_rank(const struct hello *h, const char *name, double until, int *fd, int *peer, struct err *e)
{
	int rank = h->first + h->rank;
	struct sockaddr_un a;
	socklen_t len = address(&a, name);
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), late = 0;

	while (sock >= 0 && connect(sock, (struct sockaddr *)&a, len) && !(late = now() > until))
		nap();
	if (late)
		err_set(e, "rank %d did not come to @%s; are all ranks on one host?", h->first,
		    name);
	else if (sock < 0 || !own(sock) || send(sock, h, sizeof *h, MSG_NOSIGNAL) != sizeof *h ||
	    !readable(sock, until) || (*fd = recv_fd(sock)) < 0)
		err_set(e, "rank %d was not taken in by rank %d at @%s", rank, h->first, name);
	else {
		*peer = sock;
		return 0;
	}
	if (sock >= 0)
		close(sock);
	return -1;
}
