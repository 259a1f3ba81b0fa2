/* t-emu-optim.c -- optim.cu under the emulator, at several block sizes, against the CPU build.
 *
 * On data whose every intermediate result is exact the two builds must agree bit for bit; on random
 * data the blocks must agree with each other, and with the CPU to rounding (it fuses
 * multiply-adds). */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "fn.h"

extern int emu_block, emu_grid, emu_exact;
extern const struct optim_ops optim_cpu, optim_emu;
static const int blocks[] = { 1, 4, 32, 64, 256 };
enum { NBLOCK = sizeof blocks / sizeof *blocks, MAXN = 20000, STATES = 4 };
static int count, failed;

static void
ok(int good, const char *what, int n, int block)
{
	printf("%sok %d - %s, n %d, block %d\n", good ? "" : "not ", ++count, what, n, block);
	failed += !good;
}

static void
get(struct dev *d, void *host, const void *src, size_t bytes)
{
	(void)d;
	memcpy(host, src, bytes);
}
static const struct dev_ops ops = { .get = get };
static struct dev dev = { .ops = &ops };

/* p, g and two states.  Integers: small; random: about 1. */
struct data { float p[MAXN], g[MAXN], s1[MAXN], s2[MAXN]; };
static struct data start, cpu, emu, first;

static void
fill(int integers)
{
	float *at[STATES] = { start.p, start.g, start.s1, start.s2 };

	for (int k = 0; k < STATES; k++)
		for (int i = 0; i < MAXN; i++) {
			uint32_t w[4];

			fn_philox(7, (uint64_t)k, (uint64_t)i, w);
			at[k][i] = integers ? (float)(w[0] % 15) - 7 : 2 * fn_unit(w[0]) - 1;
			if (k == 3)
				at[k][i] = integers ? 0 : fabsf(at[k][i]);
		}
	if (integers)
		memset(start.s1, 0, sizeof start.s1);
}

/* Every element-wise operation in a row, two steps of SGD first.  exact: powers of two only, and
 * one step of Adam from empty moments, whose root and quotient are exact. */
static void
work(const struct optim_ops *o, struct data *x, int n, int exact)
{
	static unsigned char group[MAXN / OPTIM_UNIT + 1];
	struct optim_rates r = { .lr = { .5f, .25f, 0 }, .decay = { .25f, 0, .5f } };
	double m = exact ? .5 : .9, b1 = exact ? .5 : .9, b2 = exact ? .75 : .999;

	if (!exact)
		r.lr[0] = .01f;
	for (size_t i = 0; i < sizeof group; i++)
		group[i] = (unsigned char)(i % 3);
	memcpy(x, &start, sizeof *x);
	for (int t = 0; t < 2; t++)
		o->sgd(&dev, (size_t)n, group, &r, x->p, x->g, x->s1, exact ? 2 : .3, m, t);
	if (exact) {
		memset(x->s1, 0, sizeof x->s1);
		memcpy(x->p, start.p, sizeof x->p);
	}
	r.decay[0] = exact ? 0 : .1f;
	r.decay[2] = 0;
	for (int k = 0; k < (exact ? 1 : 2); k++)
		o->adam(&dev, (size_t)n, group, &r, x->p, x->g, x->s1, x->s2, 1, b1, b2,
		    exact ? 1 : 1e-8, k, exact ? 1 : 3 + k);
	o->ema(&dev, (size_t)n, x->s1, x->p, exact ? .5 : .99);
	o->scale(&dev, (size_t)n, x->g, exact ? .5 : .7);
}

static int
same(const struct data *a, const struct data *b)
{
	return !memcmp(a, b, sizeof *a);
}

static int
near(const struct data *a, const struct data *b)
{
	const float *x = a->p, *y = b->p;

	for (int i = 0; i < STATES * MAXN; i++)
		if (!(fabsf(x[i] - y[i]) <= 4e-6f * fmaxf(1, fabsf(y[i]))))
			return 0;
	return 1;
}

static double
norm(const struct optim_ops *o, const float *g, int n)
{
	void *ws = xmalloc(o->workspace((size_t)n));
	double s = o->sumsq(&dev, (size_t)n, g, ws);

	free(ws);
	return s;
}

static void
one_size(int n)
{
	double want;

	fill(1);
	work(&optim_cpu, &cpu, n, 1);
	want = norm(&optim_cpu, start.g, n);
	for (int b = 0; b < NBLOCK; b++) {
		emu_block = blocks[b];
		emu_exact = 1;
		work(&optim_emu, &emu, n, 1);
		ok(same(&cpu, &emu), "exact data equal", n, emu_block);
		ok(norm(&optim_emu, start.g, n) == want, "exact sum of squares", n, emu_block);
		emu_exact = 0;
	}
	fill(0);
	work(&optim_cpu, &cpu, n, 0);
	want = norm(&optim_cpu, start.g, n);
	for (int b = 0; b < NBLOCK; b++) {
		double s;

		emu_block = blocks[b];
		work(&optim_emu, &emu, n, 0);
		if (!b)
			first = emu;
		s = norm(&optim_emu, start.g, n);
		ok(same(&first, &emu) && near(&cpu, &emu), "random data agree", n, emu_block);
		ok(fabs(s - want) <= 1e-13 * want, "random sum of squares", n, emu_block);
	}
}

static void
bad_numbers(void)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	static const int where[] = { 0, 63, 8191, 8192, MAXN - 1 };

	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 5; k++) {
			fill(0);
			for (int j = 0; j < MAXN; j++)
				start.g[j] = 3e38f;	/* large, but finite */
			ok(isfinite(norm(&optim_cpu, start.g, MAXN)), "3e38 is finite", MAXN, 0);
			start.g[where[k]] = bad[i];
			ok(!isfinite(norm(&optim_cpu, start.g, MAXN)), "a bad number is seen",
			    where[k], 0);
		}
}

int
main(void)
{
	static const int sizes[] = { 0, 1, 63, 64, 65, 1000, 8193, MAXN };
	double sum[4];

	for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
		one_size(sizes[i]);
	bad_numbers();
	fill(0);
	for (int t = 0; t < 4; t++) {
		omp_set_num_threads(t + 1);
		sum[t] = norm(&optim_cpu, start.g, MAXN);
		ok(sum[t] == sum[0], "the norm knows no threads", MAXN, t + 1);
	}
	printf("1..%d\n", count);
	return failed ? 1 : 0;
}
