/* emutest.h -- run operations on the CPU and under the emulator at several block sizes, storing
 * activations in float and in bfloat16; or, where the environment has EMUTEST_DEVICE=cuda, on that
 * device instead of the emulator.
 *
 * An operation fills r->out through take().  Its numbers must be the same bits at every block size;
 * where every intermediate result is exact (integers) they must be the CPU's, else close to them:
 * the two builds contract and order additions differently, and sums that differ in the last place
 * may be rounded to bfloat16 to either side. */
#ifndef EMUTEST_H
#define EMUTEST_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "test/tap.h"

#ifdef __cplusplus
extern "C" {
#endif
extern int emu_block, emu_grid, emu_exact;
struct dev *dev_emu(int bf16);
#ifdef __cplusplus
}
#endif

enum { OUT = 1 << 20 };
struct run {
	struct dev *d;
	unsigned seed;			/* of the next input */
	int range;			/* inputs are integers in -range..range */
	float div;			/* divided by this */
	void *mem[64];
	int nmem;
	float out[OUT];
	int n;
};

static void *
hold(struct run *r, size_t bytes)
{
	void *p = r->d->ops->alloc(r->d, bytes + 4);

	r->d->ops->zero(r->d, p, bytes);
	return r->mem[r->nmem++] = p;
}

static float *
room(struct run *r, int n)
{
	return (float *)hold(r, (size_t)n * sizeof(float));
}

static float *
data(struct run *r, int n)
{
	float *x = room(r, n), *h = (float *)xmalloc((size_t)n * sizeof *h);
	unsigned s = ++r->seed * 2654435761u;

	for (int i = 0; i < n; i++) {
		s = s * 1664525u + 1013904223u;
		h[i] = (float)((int)(s >> 8) % (r->range + 1)) * (s >> 30 & 1 ? -1.f :
		    1.f) / r->div;
	}
	r->d->ops->put(r->d, x, h, (size_t)n * sizeof *h);
	free(h);
	return x;
}

static void
take(struct run *r, const float *x, int n)
{
	if (r->n + n > OUT)
		die(1, "emutest: %d numbers and %d more", r->n, n);
	r->d->ops->get(r->d, r->out + r->n, x, (size_t)n * sizeof *x);
	r->n += n;
}

/* Activations: the same as the device stores them. */
static inline void *
act_room(struct run *r, int n)
{
	return hold(r, (size_t)n * (size_t)r->d->store->bytes);
}

static inline void *
acts(struct run *r, int n)
{
	float *x = data(r, n);
	void *y = act_room(r, n);

	r->d->store->narrow(r->d, n, x, y);
	return y;
}

static inline void
take_acts(struct run *r, const void *x, int n)
{
	float *y = (float *)r->d->ops->alloc(r->d, (size_t)n * sizeof *y);

	r->d->store->widen(r->d, n, x, y);
	take(r, y, n);
	r->d->ops->free(r->d, y);
}

typedef void operation(struct run *, const void *arg);

static void
perform(struct run *r, struct dev *d, operation *op, const void *arg, int range, float div)
{
	r->d = d;
	r->seed = 0;
	r->n = 0;
	r->range = range;
	r->div = div;
	op(r, arg);
	while (r->nmem)
		d->ops->free(d, r->mem[--r->nmem]);
}

static int
close_to(const float *a, const float *b, int n, double by)
{
	double most = 1e-30;

	for (int i = 0; i < n; i++)
		most = fabs(b[i]) > most ? fabs(b[i]) : most;
	for (int i = 0; i < n; i++)
		if (!(fabs((double)a[i] - b[i]) <= by * most + by * fabs(b[i])))
			return 0;
	return 1;
}

static int
same(const float *a, const float *b, int n)
{
	for (int i = 0; i < n; i++)
		if (!(a[i] == b[i]))
			return 0;
	return 1;
}

/* The emulator, or the device asked for; NULL: it has no bfloat16. */
static inline struct dev *
emutest_device(int bf16)
{
	const char *want = getenv("EMUTEST_DEVICE");
	struct dev_opts o = { .threads = 2, .exact = 1, .deterministic = 1, .bf16 = bf16 };
	struct err e;
	struct dev *d;

	if (!want)
		return dev_emu(bf16);
	if (!(d = dev_open(want, &o, &e)) && !(bf16 && strstr(e.msg, "bf16 wants")))
		die(1, "%s", e.msg);
	return d;
}

static void
emutest_in(int bf16, const char *name, operation *op, const void *arg, int exact, int range,
    float div)
{
	static const int blocks[] = { 1, 4, 32, 64, 256 };
	static struct run cpu, emu, first;
	static struct dev *hosts[2], *fakes[2];
	struct dev *host = hosts[bf16], *fake = fakes[bf16];
	struct dev_opts o = { .threads = 2, .exact = 1, .deterministic = 1, .bf16 = bf16,
		.emulate = 1 };
	struct err e;

	if (!host && !(host = hosts[bf16] = dev_open("cpu", &o, &e)))
		die(1, "%s", e.msg);
	if (!fake && !(fake = fakes[bf16] = emutest_device(bf16))) {
		skip(name, "this GPU has no bfloat16");
		return;
	}
	perform(&cpu, host, op, arg, range, div);
	for (int i = 0; i < (getenv("EMUTEST_DEVICE") ? 1 : 5); i++) {
		int good;

		emu_block = blocks[i];
		emu_exact = exact;
		perform(&emu, fake, op, arg, range, div);
		if (!i)
			perform(&first, fake, op, arg, range, div);
		emu_exact = 0;
		good = emu.n == cpu.n && emu.n > 0 && same(emu.out, first.out, emu.n) &&
		    (exact ? same(emu.out, cpu.out, cpu.n) :
		    close_to(emu.out, cpu.out, cpu.n, bf16 ? 1. / 128 : 2e-5));
		okf(good, "%s%s, block %d%s", name, bf16 ? ", bf16" : "", blocks[i],
		    exact ? ", exact" : "");
		for (int k = 0, shown = 0; !good && k < cpu.n && shown < 3; k++)
			if (!(emu.out[k] == cpu.out[k]) && ++shown)
				printf("# [%d] %.9g, CPU %.9g, block 1 %.9g\n", k, emu.out[k],
				    cpu.out[k], first.out[k]);
	}
}

static inline void
emutest(const char *name, operation *op, const void *arg, int exact, int range, float div)
{
	emutest_in(0, name, op, arg, exact, range, div);
}

static inline void
emutest_both(const char *name, operation *op, const void *arg, int exact, int range, float div)
{
	emutest_in(0, name, op, arg, exact, range, div);
	emutest_in(1, name, op, arg, exact, range, div);
}

static int
emutest_end(void)
{
	return done();
}

#endif
