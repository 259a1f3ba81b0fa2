/* t-sync.c -- ranks on one host add up rightly, in the order of the ranks, and meet each other. */
#include "test/ranks.h"
#include "test/tap.h"

/* ---- sums --------------------------------------------------------------------------------- */

static const size_t lengths[] = { 0, 1, 3, 1000, 4096, 4097, 524288, 524289, 10000000 };
enum { NLEN = sizeof lengths / sizeof *lengths };

static uint32_t
word(int rank, size_t i)
{
	uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + 12345u;

	x ^= x >> 15;
	x *= 2246822519u;
	return x ^ x >> 13;
}

static float
small_int(int rank, size_t i)
{
	return (float)(word(rank, i) % 15) - 7;
}

/* Of many sizes and both signs: the order of summation shows. */
static float
wild(int rank, size_t i)
{
	uint32_t w = word(rank, i);

	return ldexpf((float)(w >> 8) - 8388608, (int)(w % 20) - 30);
}

static int
right(const float *x, size_t n, int ranks, float (*f)(int, size_t), int *order)
{
	for (size_t i = 0; i < n; i++) {
		float up = f(0, i), down = f(ranks - 1, i);

		for (int r = 1; r < ranks; r++) {
			up += f(r, i);
			down += f(ranks - 1 - r, i);
		}
		*order |= up != down;
		if (memcmp(&x[i], &up, sizeof up))
			return 0;
	}
	return 1;
}

static int
sums(struct sync *s, float (*f)(int, size_t), int nlen, int *order)
{
	float *x = (float *)xmalloc(sizeof *x * lengths[nlen - 1]);
	int bad = 0;

	for (int k = 0; k < nlen && !bad; k++) {
		size_t n = lengths[k];

		for (size_t i = 0; i < n; i++)
			x[i] = f(s->rank, i);
		if (k % 2 ? s->ops->sum(s, x, n) : s->ops->start(s, x, n) || s->ops->wait(s))
			sync_fail(s, "sum");
		bad |= !right(x, n, s->size, f, order);
	}
	free(x);
	return bad ? 3 : 0;
}

static int
integers(struct sync *s)
{
	int order = 0;

	return sums(s, small_int, NLEN, &order);
}

static int
floats(struct sync *s)
{
	int order = 0, r = sums(s, wild, NLEN - 1, &order);

	if (!r && s->size > 2 && !order)
		return 4;		/* the data cannot tell the order */
	return r;
}

static int
hosts(struct sync *s)
{
	static const size_t n[] = { 0, 1, 2048, 2049, 600000 };
	double *x = (double *)xmalloc(sizeof *x * 600000), v;
	int bad = 0;

	for (int k = 0; k < 5; k++) {
		for (size_t i = 0; i < n[k]; i++)
			x[i] = 1. / (1 + word(s->rank, i));
		bad |= s->ops->sum_host(s, x, n[k]);
		for (size_t i = 0; i < n[k]; i++) {
			v = 1. / (1 + word(0, i));
			for (int r = 1; r < s->size; r++)
				v += 1. / (1 + word(r, i));
			bad |= x[i] != v;
		}
	}
	free(x);
	return bad ? 3 : 0;
}

static int
bcasts(struct sync *s)
{
	static const size_t n[] = { 0, 1, 524288, 1600007 };
	float *x = (float *)xmalloc(sizeof *x * 1600007);
	int bad = 0;

	for (int k = 0; k < 4; k++) {
		for (size_t i = 0; i < n[k]; i++)
			x[i] = small_int(s->rank, i);
		bad |= s->ops->bcast(s, x, n[k]);
		for (size_t i = 0; i < n[k]; i++)
			bad |= x[i] != small_int(0, i);
	}
	free(x);
	return bad ? 3 : 0;
}

/* All operations in a random order and pace: what one leaves behind must not reach the next. */
static int
mixed(struct sync *s)
{
	enum { MAX = 1200000 };
	float *x = (float *)xmalloc(sizeof *x * MAX);
	double d[100];
	int bad = 0;

	for (int k = 0; k < 150 && !bad; k++) {
		uint32_t w = word(99, (size_t)k), len = word(98, (size_t)k);
		size_t n = w % 8 == 7 ? len % MAX : len % 6000;

		if (word(s->rank, (size_t)k) % 16 == 0)
			nap(3);
		for (size_t i = 0; i < n; i++)
			x[i] = wild(s->rank, i + (size_t)k);
		for (int i = 0; i < 100; i++)
			d[i] = s->rank + i;
		if (w % 4 == 1) {
			bad |= s->ops->bcast(s, x, n);
			for (size_t i = 0; i < n; i++)
				bad |= x[i] != wild(0, i + (size_t)k);
		} else if (w % 4 == 2) {
			bad |= s->ops->sum_host(s, d, 100);
			for (int i = 0; i < 100; i++)
				bad |= d[i] != s->size * i + s->size * (s->size - 1) / 2;
		} else if (w % 4 == 3 && w % 8 == 3)
			bad |= s->ops->barrier(s);
		else {
			bad |= s->ops->sum(s, x, n);
			for (size_t i = 0; i < n && !bad; i++) {
				float v = wild(0, i + (size_t)k);

				for (int r = 1; r < s->size; r++)
					v += wild(r, i + (size_t)k);
				bad |= x[i] != v;
			}
		}
	}
	free(x);
	return bad ? 3 : 0;
}

static void
test_sums(int n)
{
	static const struct { const char *what; body *b; } t[] = { { "integers", integers },
		{ "floats in the ranks' order", floats }, { "doubles on the host", hosts },
		{ "broadcast", bcasts }, { "all kinds mixed", mixed } };

	for (int i = 0; i < 5; i++) {
		struct outcome o = run(start_ranks, t[i].b, n, 0, 0, 0);

		seen(o.status == 0 && !o.text[0], &o, t[i].what, n);
	}
}

static void
test_one(void)
{
	struct outcome o = { 0 };
	struct world w = { 0 };
	struct err e = { "" };
	struct sync *s = NULL;
	double d = 2;
	float f = 3;
	int status = 7;

	seen(sync_fork(&w, 1, &status) == 0 && (s = sync_open(&w, &dev, &e)) && s->size == 1 &&
	    !s->ops->sum(s, &f, 1) && !s->ops->sum_host(s, &d, 1) && !s->ops->barrier(s) &&
	    f == 3 && d == 2 && status == 7, &o, "alone", 1);
	sync_close(s);
	w.size = 2;
	w.transport = "nccl";
	seen(!sync_open(&w, &dev, &e) && strstr(e.msg, "device host has none"), &o, "no nccl here",
	    2);
	w.transport = "pigeon";
	seen(!sync_open(&w, &dev, &e) && strstr(e.msg, "want shm or nccl"), &o, "unknown transport",
	    2);
}

int
main(void)
{
	struct outcome o;

	prog = "t-sync";
	test_one();
	for (int n = 2; n <= 4; n++)
		test_sums(n);
	o = run(launch_ranks, mixed, 3, 10, 0, 0);
	seen(o.status == 0 && !o.lines, &o, "started one by one: all kinds mixed", 3);
	return done();
}
