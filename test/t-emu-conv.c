/* t-emu-conv.c -- convolution and batch-norm kernels: CPU against emulator. */
#include "test/emutest.h"

struct conv_case { const char *name; struct conv_shape s; };
static const struct conv_case cases[] = { /* n h w c, oh ow to fill in, k size sy sx pad dil g */
	{ "1x1", { 2, 5, 6, 8, 0, 0, 12, 1, 1, 1, 0, 1, 1 } },
	{ "1x1 stride 2", { 2, 5, 6, 8, 0, 0, 12, 1, 2, 2, 0, 1, 1 } },
	{ "3x3", { 2, 9, 7, 5, 0, 0, 6, 3, 1, 1, 1, 1, 1 } },
	{ "3x3 even", { 2, 12, 10, 16, 0, 0, 16, 3, 1, 1, 1, 1, 1 } },
	{ "3x3 no padding", { 1, 6, 7, 4, 0, 0, 3, 3, 1, 1, 0, 1, 1 } },
	{ "3x3 stride 2", { 2, 9, 8, 4, 0, 0, 6, 3, 2, 2, 1, 1, 1 } },
	{ "3x3 stride 2 1", { 1, 7, 8, 3, 0, 0, 5, 3, 2, 1, 1, 1, 1 } },
	{ "3x3 dilation 2 stride 2", { 2, 9, 9, 3, 0, 0, 4, 3, 2, 2, 2, 2, 1 } },
	{ "3x3 stride 4", { 1, 9, 9, 3, 0, 0, 4, 3, 4, 4, 1, 1, 1 } },
	{ "5x5 groups 2", { 1, 7, 6, 6, 0, 0, 8, 5, 1, 1, 2, 1, 2 } },
	{ "3x3 on one pixel", { 2, 1, 1, 4, 0, 0, 4, 3, 1, 1, 1, 1, 1 } },
	{ "5x5 on 3 channels", { 1, 9, 8, 3, 0, 0, 4, 5, 1, 1, 2, 1, 1 } },
	{ "1x1 of padded rows", { 1, 5, 5, 128, 0, 0, 192, 1, 1, 1, 0, 1, 1 } },
	{ "3x3 of padded rows", { 1, 5, 4, 128, 0, 0, 128, 3, 1, 1, 1, 1, 1 } },
	{ "stem", { 1, 10, 12, 3, 0, 0, 8, 3, 1, 1, 1, 1, 1 } },
	{ "depthwise 3x3", { 2, 7, 8, 6, 0, 0, 6, 3, 1, 1, 1, 1, 6 } },
	{ "depthwise 5x5 stride 2", { 2, 9, 8, 6, 0, 0, 6, 5, 2, 2, 2, 1, 6 } },
	{ "depthwise stride 1 2", { 1, 7, 9, 5, 0, 0, 5, 3, 1, 2, 1, 1, 5 } },
	{ "depthwise stride 3 dilation 2", { 1, 12, 13, 4, 0, 0, 4, 3, 3, 3, 2, 2, 4 } },
	{ "depthwise on one pixel", { 2, 1, 1, 3, 0, 0, 3, 5, 2, 2, 2, 1, 3 } },
	{ "depthwise no padding", { 1, 5, 6, 3, 0, 0, 3, 3, 2, 2, 0, 1, 3 } },
	{ "depthwise of 300", { 1, 4, 5, 300, 0, 0, 300, 3, 1, 1, 1, 1, 300 } },
	{ "depthwise of 300 stride 2", { 1, 4, 5, 300, 0, 0, 300, 3, 2, 2, 1, 1, 300 } },
	{ "depthwise, long rows", { 1, 3, 90, 3, 0, 0, 3, 3, 1, 1, 1, 1, 3 } },
	{ "depthwise, long rows stride 2", { 1, 3, 91, 7, 0, 0, 7, 3, 2, 2, 1, 1, 7 } },
	{ "depthwise times 2", { 2, 20, 18, 4, 0, 0, 8, 3, 1, 1, 1, 1, 4 } },
};

static void
conv(struct run *r, const void *arg)
{
	struct conv_shape s = *(const struct conv_shape *)arg;
	int nw = s.size * s.size * (s.c / s.groups) * s.k, nx = s.n * s.h * s.w * s.c, ny;
	void *x, *y, *dy, *dx, *ws;
	float *w, *dw;

	s.oh = (s.h + 2 * s.pad - (s.size - 1) * s.dilation - 1) / s.stride_y + 1;
	s.ow = (s.w + 2 * s.pad - (s.size - 1) * s.dilation - 1) / s.stride_x + 1;
	ny = s.n * s.oh * s.ow * s.k;
	x = acts(r, nx);
	w = data(r, nw);
	dy = acts(r, ny);
	y = act_room(r, ny);
	dx = acts(r, nx);
	dw = data(r, nw);
	ws = hold(r, r->d->conv->workspace(r->d, &s, 1));
	r->d->conv->forward(r->d, &s, x, w, y, ws);
	take_acts(r, y, ny);
	r->d->conv->dgrad(r->d, &s, dy, w, dx, 1, ws);
	take_acts(r, dx, nx);
	r->d->conv->dgrad(r->d, &s, dy, w, dx, 0, ws);
	take_acts(r, dx, nx);
	r->d->conv->wgrad(r->d, &s, x, dy, dw, ws);
	take(r, dw, nw);
}

/* The faster kinds.  Whole numbers times quarters are exact as well: they must be what the plain
 * kind gives. */
static void
fast(struct run *r, const void *arg)
{
	static float plain[OUT];
	int n;

	conv(r, arg);
	memcpy(plain, r->out, sizeof plain);
	n = r->n;
	r->n = 0;
	r->seed = 0;
	r->d->exact = 0;
	conv(r, arg);
	r->d->exact = 1;
	if (r->n != n || !same(plain, r->out, n))
		r->n = 0;		/* emutest calls that a failure */
}

struct bn_case { int rows, c; enum act act; int given; };

/* Multiples of 64 in 64 rows: means and deviations are exact. */
static void
moments(struct run *r, const void *arg)
{
	const struct bn_case *b = (const struct bn_case *)arg;
	float *mean = room(r, b->c), *m2 = room(r, b->c);
	float *part = data(r, 3 * (2 * b->c + 1)), *out = room(r, 2 * b->c + 1),
	    count[3] = { 4, 0, 12 };
	struct bn k = { .rows = b->rows, .c = b->c, .mean = mean, .m2 = m2 };
	void *y = acts(r, b->rows * b->c);
	void *ws = hold(r, r->d->bn->workspace(r->d, b->rows, b->c));

	r->d->bn->moments(r->d, &k, y, ws);
	take(r, mean, b->c);
	take(r, m2, b->c);
	for (int i = 0; i < 3; i++)
		r->d->ops->put(r->d, part + i * (2 * b->c + 1), &count[i], sizeof *count);
	r->d->bn->merge(r->d, part, 3, b->c, out);
	r->d->store->add(r->d, b->c, mean, out);
	take(r, out, 2 * b->c + 1);
}

static void
bias(struct run *r, const void *arg)
{
	const struct bn_case *b = (const struct bn_case *)arg;
	int n = b->rows * b->c;
	void *u = acts(r, n), *z = act_room(r, n), *dz = acts(r, n);
	float *bias = data(r, b->c), *db = data(r, b->c);
	struct bn k = { .rows = b->rows, .c = b->c, .beta = bias, .act = b->act, .dbeta = db };
	void *ws = hold(r, r->d->bn->workspace(r->d, b->rows, b->c));

	r->d->bn->bias_act(r->d, &k, u, z);
	take_acts(r, u, n);
	take_acts(r, z, n);
	r->d->bn->bias_act_back(r->d, &k, u, dz, ws);
	take_acts(r, dz, n);
	take(r, db, b->c);
}

/* A variance of 2^14, against which eps is nothing: deviations of 128 are whole numbers then. */
static void
give_moments(struct run *r, const struct bn_case *b, float *mean, float *m2)
{
	float at = 256, v = (float)b->rows * 16384;

	for (int i = 0; i < b->c; i++) {
		r->d->ops->put(r->d, mean + i, &at, sizeof at);
		r->d->ops->put(r->d, m2 + i, &v, sizeof v);
	}
}

static void
batchnorm(struct run *r, const void *arg)
{
	const struct bn_case *b = (const struct bn_case *)arg;
	int n = b->rows * b->c, c = b->c;
	void *y = acts(r, n), *z = act_room(r, n), *dz = acts(r, n);
	float *mean = room(r, c), *m2 = room(r, c), *gamma = data(r, c);
	float *beta = data(r, c), *dg = room(r, c), *db = room(r, c);
	float *rm = data(r, c), *rv = data(r, c), *w = data(r, 5 * c), *fb = room(r, c);
	void *ws = hold(r, r->d->bn->workspace(r->d, b->rows, c));
	const struct bn_ops *o = r->d->bn;
	struct bn k = { b->rows, c, (float)b->rows, b->act, mean, m2, gamma, beta, dg, db };

	o->moments(r->d, &k, y, ws);
	if (b->given)
		give_moments(r, b, mean, m2);
	o->apply(r->d, &k, y, z, ws);
	take_acts(r, z, n);
	o->back_sums(r->d, &k, y, dz, ws);
	take(r, dg, c);
	take(r, db, c);
	o->back_apply(r->d, &k, y, dz, ws);
	take_acts(r, dz, n);
	o->running(r->d, &k, b->given ? .5f : .1f, rm, rv);
	take(r, rm, c);
	take(r, rv, c);
	k.rows = 5;
	o->fold(r->d, &k, w, fb);
	take(r, w, 5 * c);
	take(r, fb, c);
}

static const struct conv_case winograd[] = {
	{ "winograd even", { 2, 6, 4, 64, 0, 0, 64, 3, 1, 1, 1, 1, 1 } },
	{ "winograd odd", { 3, 7, 5, 60, 0, 0, 72, 3, 1, 1, 1, 1, 1 } },
	{ "winograd of one pixel", { 1, 1, 1, 64, 0, 0, 64, 3, 1, 1, 1, 1, 1 } },
	{ "winograd, many tiles", { 2, 13, 12, 64, 0, 0, 128, 3, 1, 1, 1, 1, 1 } },
	{ "winograd, kernels shared", { 5, 4, 5, 256, 0, 0, 264, 3, 1, 1, 1, 1, 1 } },
};

/* Large taps on a large batch: partial sums that no int could count, unless strips get longer. */
static void
large(void)
{
	const struct conv_shape s = { 32, 416, 416, 3, 416, 416, 3, 63, 1, 1, 31, 1, 3 };
	struct dev_opts o = { .threads = 1, .exact = 1 };
	struct err e;
	struct dev *d = dev_open("cpu", &o, &e);
	int good = d && d->conv->workspace(d, &s, 1) <= (size_t)1 << 30;

	ok(good, "the workspace of large depthwise kernels");
	dev_close(d);
}

int
main(void)
{
	static const struct bn_case exact[] = { { 64, 5, ACT_LINEAR, 0 },
		{ 64, 256, ACT_RELU, 0 } };
	static const struct bn_case real[] = { { 37, 5, ACT_LEAKY, 0 }, { 70, 300, ACT_MISH, 0 },
		{ 1, 3, ACT_LINEAR, 0 }, { 4000, 6, ACT_RELU, 0 } };
	static const struct bn_case given[] = { { 64, 5, ACT_LINEAR, 1 },
		{ 128, 256, ACT_RELU, 1 } };

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		emutest_both(cases[i].name, conv, &cases[i].s, 1, 4, 1);
	for (size_t i = 0; i < sizeof winograd / sizeof *winograd; i++)
		emutest(winograd[i].name, fast, &winograd[i].s, 1, 4, 1);
	for (int i = 0; i < 2; i++) {
		emutest_both("moments", moments, &exact[i], 1, 3, 1.f / 64);
		emutest_both("bias and activation", bias, &exact[i], 1, 8, 1);
		emutest_both("batch-norm of whole numbers", batchnorm, &given[i], 1, 3, 1.f / 128);
	}
	for (int i = 0; i < 4; i++) {
		emutest_both("batch-norm", batchnorm, &real[i], 0, 999, 500);
		emutest_both("bias and activation", bias, &real[i], 0, 999, 500);
	}
	large();
	return emutest_end();
}
