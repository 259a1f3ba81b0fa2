/* t-emu-optim.c -- optim.cu under the emulator, at several block sizes, against the CPU build.
 *
 * On data whose every intermediate result is exact the two builds must agree bit for bit; on random
 * data the blocks must agree with each other, and with the CPU to rounding (it fuses
 * multiply-adds). */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "base/fn.h"
#include "test/tap.h"

extern int emu_block, emu_grid, emu_exact;
struct dev *dev_emu(void);
static const int blocks[] = { 1, 4, 32, 64, 256 };
enum { NBLOCK = sizeof blocks / sizeof *blocks, MAXN = 20000, STATES = 4 };

static void
ok_at(int good, const char *what, int n, int block)
{
	okf(good, "%s, n %d, block %d", what, n, block);
}

static struct dev *host, *other;	/* the CPU; the emulator, or what EMUTEST_DEVICE names */

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
operations(struct dev *d, struct data *x, const unsigned char *group, int n, int exact)
{
	const struct optim_ops *o = d->optim;
	struct optim_rates r = { .lr = { .5f, .25f, 0 }, .decay = { .25f, 0, .5f } };
	struct update u = { (size_t)n, group, &r, x->p, x->g, exact ? 2 : .3, x->s1, x->s2 };
	double m = exact ? .5 : .9, b1 = exact ? .5 : .9, b2 = exact ? .75 : .999;

	if (!exact)
		r.lr[0] = .01f;
	for (int t = 0; t < 2; t++)
		o->sgd(d, &u, m, t);
	u.gscale = 1;
	if (exact) {
		d->ops->zero(d, x->s1, sizeof x->s1);
		d->ops->put(d, x->p, start.p, sizeof x->p);
	}
	r.decay[0] = exact ? 0 : .1f;
	r.decay[2] = 0;
	for (int k = 0; k < (exact ? 1 : 2); k++) {
		struct adam a = { b1, b2, exact ? 1 : 1e-8, k, exact ? 1 : 3 + k };

		o->adam(d, &u, &a);
	}
	o->ema(d, (size_t)n, x->s1, x->p, exact ? .5 : .99);
	o->scale(d, (size_t)n, x->g, exact ? .5 : .7);
}

static void
work(struct dev *d, struct data *out, int n, int exact)
{
	unsigned char group[MAXN / OPTIM_UNIT + 1];
	struct data *x = (struct data *)d->ops->alloc(d, sizeof *x);
	unsigned char *g = (unsigned char *)d->ops->alloc(d, sizeof group);

	for (size_t i = 0; i < sizeof group; i++)
		group[i] = (unsigned char)(i % 3);
	d->ops->put(d, x, &start, sizeof *x);
	d->ops->put(d, g, group, sizeof group);
	operations(d, x, g, n, exact);
	d->ops->get(d, out, x, sizeof *x);
	d->ops->free(d, x);
	d->ops->free(d, g);
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
norm(struct dev *d, const float *g, int n)
{
	void *ws = d->ops->alloc(d, d->optim->workspace((size_t)n));
	float *x = (float *)d->ops->alloc(d, (size_t)n * sizeof *x + 4);
	double s;

	d->ops->put(d, x, g, (size_t)n * sizeof *x);
	s = d->optim->sumsq(d, (size_t)n, x, ws);
	d->ops->free(d, ws);
	d->ops->free(d, x);
	return s;
}

static int
blocks_used(void)			/* a device that is no emulator has its own */
{
	return getenv("EMUTEST_DEVICE") ? 1 : NBLOCK;
}

static void
one_size(int n)
{
	double want;

	fill(1);
	work(host, &cpu, n, 1);
	want = norm(host, start.g, n);
	for (int b = 0; b < blocks_used(); b++) {
		emu_block = blocks[b];
		emu_exact = 1;
		work(other, &emu, n, 1);
		ok_at(same(&cpu, &emu), "exact data equal", n, emu_block);
		ok_at(norm(other, start.g, n) == want, "exact sum of squares", n, emu_block);
		emu_exact = 0;
	}
	fill(0);
	work(host, &cpu, n, 0);
	want = norm(host, start.g, n);
	for (int b = 0; b < blocks_used(); b++) {
		double s;

		emu_block = blocks[b];
		work(other, &emu, n, 0);
		if (!b)
			first = emu;
		s = norm(other, start.g, n);
		ok_at(same(&first, &emu) && near(&cpu, &emu), "random data agree", n, emu_block);
		ok_at(fabs(s - want) <= 1e-13 * want, "random sum of squares", n, emu_block);
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
			ok_at(isfinite(norm(host, start.g, MAXN)), "3e38 is finite", MAXN, 0);
			start.g[where[k]] = bad[i];
			ok_at(!isfinite(norm(host, start.g, MAXN)), "a bad number is seen",
			    where[k], 0);
		}
}

int
main(void)
{
	static const int sizes[] = { 0, 1, 63, 64, 65, 1000, 8193, MAXN };
	const char *want = getenv("EMUTEST_DEVICE");
	struct dev_opts o = { .threads = 1, .exact = 1, .deterministic = 1 };
	struct err e;
	double sum[4];

	if (!(host = dev_open("cpu", &o, &e)) ||
	    !(other = want ? dev_open(want, &o, &e) : dev_emu()))
		die(1, "%s", e.msg);
	for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
		one_size(sizes[i]);
	bad_numbers();
	fill(0);
	for (int t = 0; t < 4; t++) {
		omp_set_num_threads(t + 1);
		sum[t] = norm(host, start.g, MAXN);
		ok_at(sum[t] == sum[0], "the norm knows no threads", MAXN, t + 1);
	}
	dev_close(host);
	dev_close(other);
	return done();
}
