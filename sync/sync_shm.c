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

/* out = sum of the ranks' numbers [from, to), rank 0 first.  of: where rank r's lie. */
static void
add(struct sync *s, void *of(struct meet *, int rank, int turn), int turn, int wide, size_t from,
    size_t to, void *out)
{
	for (int r = 0; r < s->size; r++)
		if (wide)
			add_doubles((double *)out, (const double *)of(s->meet, r, turn), from, to,
			    !r);
		else
			add_floats((float *)out, (const float *)of(s->meet, r, turn), from, to, !r);
}

static void *
slot_of(struct meet *m, int rank, int turn)
{
	(void)turn;
	return meet_slot(m, rank);
}

/* One barrier, for what is short. */
static int
sum_small(struct sync *s, const char *what, void *buf, size_t n, int wide, int host)
{
	size_t bytes = n * (wide ? sizeof(double) : sizeof(float));
	union { float f[MEET_SMALL / sizeof(float)]; double d[MEET_SMALL / sizeof(double)]; } out;
	int turn = meet_turn(s->meet);

	take(s, host, meet_small(s->meet, s->rank, turn), buf, bytes);
	if (meet_begin(s->meet, s->rank, s->deadline, what, n, &s->err))
		return -1;
	add(s, meet_small, turn, wide, 0, n, &out);
	give(s, host, buf, &out, bytes);
	return 0;
}

static int
sum_any(struct sync *s, const char *what, void *buf, size_t n, int wide, int host)
{
	size_t size = wide ? sizeof(double) : sizeof(float), per = MEET_SLOT / size;
	char *p = (char *)buf, *out = (char *)meet_slot(s->meet, s->size);

	if (n <= MEET_SMALL / size)
		return sum_small(s, what, buf, n, wide, host);
	for (size_t off = 0; off < n; off += per) {
		size_t m = n - off < per ? n - off : per, ranks = (size_t)s->size;
		size_t from = m * (size_t)s->rank / ranks, to = m * ((size_t)s->rank + 1) / ranks;

		take(s, host, meet_slot(s->meet, s->rank), p + off * size, m * size);
		if (off ? meet_wait(s->meet, s->rank, s->deadline, &s->err) :
		    meet_begin(s->meet, s->rank, s->deadline, what, n, &s->err))
			return -1;
		add(s, slot_of, 0, wide, from, to, out);
		if (meet_wait(s->meet, s->rank, s->deadline, &s->err))
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

	if (meet_begin(s->meet, s->rank, s->deadline, "bcast", n, &s->err))
		return -1;
	for (size_t off = 0, k = 0; off < n; off += per, k++) {
		size_t m = (n - off < per ? n - off : per) * sizeof *buf;
		void *slot = meet_slot(s->meet, (int)(k & 1));

		if (!s->rank)
			take(s, 0, slot, buf + off, m);
		if (meet_wait(s->meet, s->rank, s->deadline, &s->err))
			return -1;
		if (s->rank)
			give(s, 0, buf + off, slot, m);
	}
	return meet_wait(s->meet, s->rank, s->deadline, &s->err);
}

int
shm_barrier(struct sync *s)
{
	return meet_begin(s->meet, s->rank, s->deadline, "barrier", 0, &s->err);
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
