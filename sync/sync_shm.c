/* sync_shm.c -- sums and broadcasts through memory that the ranks share.
 *
 * A buffer goes through in rounds of a slot's length.  In a round each rank copies its numbers to
 * its slot; barrier; each adds up its own share of the slots, rank 0's first, into a common one;
 * barrier; each takes the whole sum.  So the order of summation is that of the ranks, all get the
 * same bits, and a rank adds n numbers per round however many ranks there are.
 *
 * A round may start while others still read the last one's sum: nobody adds before all have come
 * to the next barrier.  What fits MEET_SMALL takes one barrier: each rank adds up all of it, from
 * one of two places in turn.
 *
 * With several hosts each round goes on between them (sync_hosts.c): the first rank of a host gets
 * the sum so far before its ranks add, and the whole sum after.
 *
 * Numbers reach and leave the device by its get and put: memcpy on the CPU, a copy through the host
 * on CUDA, where this is the way of last resort (two ranks on one GPU, no NCCL). */
#include <string.h>

#include "sync/int.h"
#include "kernel/kernel.h"

static void
take(struct sync *s, int host, void *dst, const void *src, size_t bytes)
{
	if (host)
		memcpy(dst, src, bytes);
	else
		s->dev->ops->get(s->dev, dst, src, bytes);
}

static void
give(struct sync *s, int host, void *dst, const void *src, size_t bytes)
{
	if (host)
		memcpy(dst, src, bytes);
	else
		s->dev->ops->put(s->dev, dst, src, bytes);
}

static void
add_floats(float *out, const float *x, size_t from, size_t to, int first)
{
	for (size_t i = from; i < to; i++)
		out[i] = first ? x[i] : out[i] + x[i];
}

static void
add_doubles(double *out, const double *x, size_t from, size_t to, int first)
{
	for (size_t i = from; i < to; i++)
		out[i] = first ? x[i] : out[i] + x[i];
}

/* Of these ranks, some are on other hosts. */
static int
several(const struct sync *s)
{
	return s->seats < s->size;
}

/* out = sum of the ranks' numbers [from, to), rank 0 first; on a host that has others before it
 * their sum is there.  of: where seat r's lie. */
static void
add(struct sync *s, void *of(struct meet *, int seat, int turn), int turn, int wide, size_t from,
    size_t to, void *out)
{
	for (int r = 0; r < s->seats; r++)
		if (wide)
			add_doubles((double *)out, (const double *)of(s->meet, r, turn), from, to,
			    !(s->rank - s->seat + r));
		else
			add_floats((float *)out, (const float *)of(s->meet, r, turn), from, to,
			    !(s->rank - s->seat + r));
}

static void *
slot_of(struct meet *m, int seat, int turn)
{
	(void)turn;
	return meet_slot(m, seat);
}

int
shm_begin(struct sync *s, const char *what, size_t n)
{
	if (meet_begin(s->meet, s->seat, s->deadline, what, n, &s->err))
		return -1;
	return hosts_begin(s, what, n);
}

static int
wait_here(struct sync *s)
{
	return meet_wait(s->meet, s->seat, s->deadline, &s->err);
}

/* Shared bytes of host 0 on all hosts, there to be read afterwards. */
int
shm_bcast_host(struct sync *s, void *shared, size_t bytes)
{
	return !several(s) ? 0 : hosts_bcast(s, shared, bytes) || wait_here(s) ? -1 : 0;
}

/* A round of a sum: the slots are filled, and all have come. */
static int
add_round(struct sync *s, int wide, size_t m, void *out)
{
	size_t size = wide ? sizeof(double) : sizeof(float), seats = (size_t)s->seats;
	size_t from = m * (size_t)s->seat / seats, to = m * ((size_t)s->seat + 1) / seats;

	if (s->rank > s->seat && (hosts_before(s, out, m * size) || wait_here(s)))
		return -1;
	add(s, slot_of, 0, wide, from, to, out);
	if (wait_here(s))
		return -1;
	return several(s) && (hosts_after(s, out, m * size) || wait_here(s)) ? -1 : 0;
}

/* One barrier, for what is short. */
static int
sum_small(struct sync *s, const char *what, void *buf, size_t n, int wide, int host)
{
	size_t bytes = n * (wide ? sizeof(double) : sizeof(float));
	union { float f[MEET_SMALL / sizeof(float)]; double d[MEET_SMALL / sizeof(double)]; } out;
	int turn = meet_turn(s->meet);

	take(s, host, meet_small(s->meet, s->seat, turn), buf, bytes);
	if (meet_begin(s->meet, s->seat, s->deadline, what, n, &s->err))
		return -1;
	add(s, meet_small, turn, wide, 0, n, &out);
	give(s, host, buf, &out, bytes);
	return 0;
}

static int
sum_any(struct sync *s, const char *what, void *buf, size_t n, int wide, int host)
{
	size_t size = wide ? sizeof(double) : sizeof(float), per = MEET_SLOT / size;
	char *p = (char *)buf, *out = (char *)meet_slot(s->meet, s->seats);

	if (n <= MEET_SMALL / size && !several(s))
		return sum_small(s, what, buf, n, wide, host);
	if (!n)
		return shm_begin(s, what, n);
	for (size_t off = 0; off < n; off += per) {
		size_t m = n - off < per ? n - off : per;

		take(s, host, meet_slot(s->meet, s->seat), p + off * size, m * size);
		if ((off ? wait_here(s) : shm_begin(s, what, n)) || add_round(s, wide, m, out))
			return -1;
		give(s, host, p + off * size, out, m * size);
	}
	return 0;
}

static int
sum(struct sync *s, float *buf, size_t n)
{
	return sum_any(s, "sum", buf, n, 0, 0);
}

static int
wait_all(struct sync *s)
{
	(void)s;		/* start() has done all of it */
	return 0;
}

int
shm_sum_host(struct sync *s, double *buf, size_t n)
{
	return sum_any(s, "sum_host", buf, n, 1, 1);
}

/* Rounds alternate between two slots, so that one barrier a round is enough; the last makes sure
 * that all have read before anything else is written. */
static int
bcast(struct sync *s, float *buf, size_t n)
{
	size_t per = MEET_SLOT / sizeof *buf;

	if (shm_begin(s, "bcast", n))
		return -1;
	for (size_t off = 0, k = 0; off < n; off += per, k++) {
		size_t m = (n - off < per ? n - off : per) * sizeof *buf;
		void *slot = meet_slot(s->meet, (int)(k & 1));

		if (!s->rank)
			take(s, 0, slot, buf + off, m);
		if (hosts_bcast(s, slot, m) || wait_here(s))
			return -1;
		if (s->rank)
			give(s, 0, buf + off, slot, m);
	}
	return wait_here(s);
}

int
shm_barrier(struct sync *s)
{
	char c = 0;

	if (shm_begin(s, "barrier", 0))
		return -1;
	return several(s) && (hosts_bcast(s, &c, 1) || wait_here(s)) ? -1 : 0;
}

static void
close_shm(struct sync *s)
{
	(void)s;
}

static const struct sync_ops shm = { "shm", sum, sum, wait_all, shm_sum_host, bcast, shm_barrier,
	close_shm };

int
shm_open_sync(struct sync *s, struct err *e)
{
	(void)e;
	s->ops = &shm;
	return 0;
}
