/* t-threads.c -- convolution and batch-norm give the same bits at any number of threads, but where
 * the rows make one task only: its GEMM takes all threads, and sums as oneDNN likes. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "test/tap.h"

enum { DEVS = 3 };
static const struct conv_shape shapes[] = {
	{ 2, 26, 26, 3, 26, 26, 32, 3, 1, 1, 1, 1, 1 },
	{ 8, 26, 25, 64, 13, 13, 128, 3, 2, 2, 1, 1, 1 },
	{ 3, 13, 13, 128, 13, 13, 256, 3, 1, 1, 1, 1, 1 },
	{ 3, 13, 13, 384, 13, 13, 256, 3, 1, 1, 1, 1, 1 },
	{ 7, 13, 13, 256, 13, 13, 255, 1, 1, 1, 0, 1, 1 },
	{ 2, 19, 19, 48, 19, 19, 48, 5, 1, 1, 2, 1, 48 },
};

static float *
random_floats(struct dev *d, size_t n, unsigned seed)
{
	float *x = (float *)d->ops->alloc(d, n * sizeof *x);

	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		x[i] = (float)(seed >> 8) / (1 << 23) - 1;
	}
	return x;
}

/* y, dx, dw, then mean and m2 of y, dgamma and dbeta; free() it. */
static float *
results(int threads, const struct conv_shape *s, size_t *len)
{
	struct dev_opts o = { .threads = threads, .deterministic = 1 };
	struct err e;
	struct dev *d = dev_open("cpu", &o, &e);
	int rows = s->n * s->oh * s->ow;
	size_t nx = (size_t)s->n * s->h * s->w * s->c, ny = (size_t)rows * s->k;
	size_t nw = (size_t)s->size * s->size * (s->c / s->groups) * s->k, k = s->k;
	float *x = random_floats(d, nx, 1), *w = random_floats(d, nw, 2), *dy = random_floats(d, ny,
	    3);
	float *out = random_floats(d, ny + nx + nw + 4 * k, 4), *sums = out + ny + nx + nw;
	struct bn b = { rows, s->k, (float)rows, ACT_LEAKY, sums, sums + k, w, w, sums + 2 * k,
		sums + 3 * k };
	void *ws = d->ops->alloc(d, d->conv->workspace(d, s, 1));

	d->conv->forward(d, s, x, w, out, ws);
	d->conv->dgrad(d, s, dy, w, out + ny, 0, ws);
	d->conv->wgrad(d, s, x, dy, out + ny + nx, ws);
	d->bn->moments(d, &b, out, ws);
	d->bn->back_sums(d, &b, out, dy, ws);
	*len = ny + nx + nw + 4 * k;
	d->ops->free(d, ws);
	d->ops->free(d, x);
	d->ops->free(d, w);
	d->ops->free(d, dy);
	dev_close(d);
	return out;
}

int
main(void)
{
	static const int threads[DEVS] = { 1, 2, 5 };
	int n = (int)(sizeof shapes / sizeof *shapes);

	for (int i = 0; i < n; i++) {
		float *r[DEVS];
		size_t len = 0;
		int good = 1;

		for (int j = 0; j < DEVS; j++)
			r[j] = results(threads[j], &shapes[i], &len);
		for (int j = 1; j < DEVS; j++)
			good &= !memcmp(r[0], r[j], len * sizeof **r);
		for (int j = 0; j < DEVS; j++)
			free(r[j]);
		okf(good, "%dx%d %d to %d, groups %d: 1, 2, 5 threads", shapes[i].size,
		    shapes[i].size, shapes[i].c, shapes[i].k, shapes[i].groups);
	}
	return done();
}
