/* t-emu-layers.c -- the kernels of layers.cu: CPU against emulator. */
#include "test/emutest.h"

static void
maxpool(struct run *r, const void *arg)
{
	struct pool_shape s = *(const struct pool_shape *)arg;
	int nx = s.n * s.h * s.w * s.c, ny = s.n * s.oh * s.ow * s.c;
	void *x = acts(r, nx), *y = act_room(r, ny), *dy = acts(r, ny), *dx = acts(r, nx);
	unsigned char *tap = (unsigned char *)hold(r, (size_t)ny);

	r->d->layer->maxpool(r->d, &s, x, y, NULL);
	take_acts(r, y, ny);
	r->d->layer->maxpool(r->d, &s, x, y, tap);
	take_acts(r, y, ny);
	for (int add = 1; add >= 0; add--) {
		r->d->layer->maxpool_back(r->d, &s, dy, tap, dx, add);
		take_acts(r, dx, nx);
	}
}

struct map { int n, h, w, c, s, flag; };

static struct stride_shape
strides(const struct map *m, float scale)
{
	struct stride_shape s = { m->n, m->h, m->w, m->c, m->s, m->flag, scale };

	return s;
}

static void
upsample(struct run *r, const void *arg)
{
	const struct map *m = (const struct map *)arg;
	int nx = m->n * m->h * m->w * m->c, ny = nx * m->s * m->s;
	struct stride_shape s = strides(m, .5f);
	void *x = acts(r, nx), *y = act_room(r, ny), *dy = acts(r, ny), *dx = acts(r, nx);

	r->d->layer->upsample(r->d, &s, x, y);
	take_acts(r, y, ny);
	for (int add = 1; add >= 0; add--) {
		r->d->layer->upsample_back(r->d, &s, dy, dx, add);
		take_acts(r, dx, nx);
	}
}

static void
reorg(struct run *r, const void *arg)
{
	const struct map *m = (const struct map *)arg;
	int n = m->n * m->h * m->w * m->c;
	void *x = acts(r, n), *y = act_room(r, n), *dx = acts(r, n);
	struct stride_shape s = strides(m, 1);

	if (m->flag > 1)
		r->d->layer->reorg3d(r->d, &s, x, y);
	else
		r->d->layer->reorg(r->d, &s, x, y);
	take_acts(r, y, n);
	for (int add = 1; add >= 0; add--) {
		if (m->flag > 1)
			r->d->layer->reorg3d_back(r->d, &s, y, dx, add);
		else
			r->d->layer->reorg_back(r->d, &s, y, dx, add);
		take_acts(r, dx, n);
	}
	take_acts(r, x, n);		/* there and back is where it was */
	if (!same(r->out + r->n - 2 * n, r->out + r->n - n, n))
		die(1, "reorg: there and back is elsewhere");
}

static void
wiring(struct run *r, const void *arg)
{
	const struct map *m = (const struct map *)arg;
	int rows = m->n * m->h * m->w, c = m->c, n = rows * c;
	void *a = acts(r, n), *b = acts(r, rows * (c + 3)), *s = act_room(r, n), *t = acts(r, n);
	struct slice some = { rows, c - 1, b, c + 3, 2, a, c, 1 };
	struct slice more = { rows, c, b, c + 3, 1, a, c, 0 };
	const struct layer_ops *o = r->d->layer;

	o->slice(r->d, &some, 0);
	take_acts(r, a, n);
	o->slice(r->d, &more, 1);
	take_acts(r, a, n);
	o->accumulate(r->d, n, a, s, 0);
	o->accumulate(r->d, n, t, s, 1);
	take_acts(r, s, n);
	o->activate(r->d, n, (enum act)m->flag, s, t);
	take_acts(r, t, n);
	o->activate_back(r->d, n, (enum act)m->flag, s, a);
	take_acts(r, a, n);
}

static void
products(struct run *r, const void *arg)
{
	const struct map *m = (const struct map *)arg;
	int hw = m->h * m->w, n = m->n * hw * m->c, nx = m->flag ? m->n * hw : m->n * m->c;
	void *x = acts(r, nx), *f = acts(r, n), *y = act_room(r, n), *dy = acts(r, n),
	    *dx = acts(r, nx);
	void *df = acts(r, n), *z = acts(r, n);
	struct plane_shape s = { m->n, hw, m->c, m->flag };
	const struct layer_ops *o = r->d->layer;

	o->scale(r->d, &s, x, f, y);
	take_acts(r, y, n);
	for (int add = 1; add >= 0; add--) {
		o->scale_back_x(r->d, &s, f, dy, dx, add);
		o->scale_back_f(r->d, &s, x, dy, df, add);
		take_acts(r, dx, nx);
		take_acts(r, df, n);
	}
	o->sam(r->d, n, z, f, y);
	take_acts(r, y, n);
	for (int add = 1; add >= 0; add--) {
		o->sam_back(r->d, n, f, dy, y, add);
		o->sam_back(r->d, n, z, dy, df, add);
		take_acts(r, y, n);
		take_acts(r, df, n);
	}
}

static void
averages(struct run *r, const void *arg)
{
	const struct map *m = (const struct map *)arg;
	int hw = m->h * m->w, n = m->n * hw * m->c, ny = m->n * m->c;
	void *x = acts(r, n), *y = acts(r, ny), *dx = acts(r, n);
	struct plane_shape s = { m->n, hw, m->c, 0 };
	struct dropout far = { .5f, 99, (1ull << 40) + 3 }, odd = { .5f, 99, 5 };
	const struct layer_ops *o = r->d->layer;

	o->avgpool(r->d, &s, x, y);
	take_acts(r, y, ny);
	for (int add = 1; add >= 0; add--) {
		o->avgpool_back(r->d, &s, y, dx, add);
		take_acts(r, dx, n);
	}
	o->dropout(r->d, n, &far, x, dx);
	take_acts(r, dx, n);
	o->dropout_back(r->d, n, &odd, x, dx, 1);
	take_acts(r, dx, n);
}

static void
heads(struct run *r, const void *arg)
{
	const struct map *m = (const struct map *)arg;
	int rows = m->n * m->h * m->w, n = rows * m->c * (5 + m->s);
	void *x = acts(r, n), *y = act_room(r, n);
	struct head_shape s = { rows, m->c, m->s, 1.25f, m->flag, m->flag };

	r->d->layer->yolo(r->d, &s, x, y);
	take_acts(r, y, n);
	r->d->layer->region(r->d, &s, x, y);
	take_acts(r, y, n);
}

int
main(void)
{
	static const struct pool_shape pools[] = { { 2, 6, 8, 5, 3, 4, 2, 2, 2, 0, 0 },
		{ 1, 5, 4, 3, 5, 4, 5, 1, 1, 2, 2 }, { 2, 7, 5, 300, 4, 3, 3, 2, 2, 1, 1 },
		{ 1, 4, 4, 2, 4, 4, 13, 1, 1, 6, 6 } };
	static const struct map maps[] = { { 2, 4, 6, 4, 2, 0 }, { 1, 4, 2, 12, 2, 1 },
		{ 2, 2, 4, 3, 2, 2 }, { 1, 6, 3, 300, 3, 3 } };
	static const char *const act[] = { "linear", "leaky", "logistic", "relu", "mish", "swish" };

	for (int i = 0; i < 4; i++)
		emutest_both("maxpool", maxpool, &pools[i], 1, 3, 1);
	for (int i = 0; i < 4; i++)
		emutest_both("upsample", upsample, &maps[i], 1, 9, 1);
	for (int i = 0; i < 3; i++)
		emutest_both("reorg", reorg, &maps[i], 1, 9, 1);
	for (int a = ACT_LINEAR; a <= ACT_SWISH; a++) {
		struct map m = { 2, 3, 4, 5, 0, a };

		emutest_both(act[a], wiring, &m, a == ACT_LINEAR || a == ACT_RELU, 9, 1);
	}
	for (int flag = 0; flag < 2; flag++) {
		struct map m = { 2, 4, 2, 24, 0, flag }, h = { 2, 3, 1, 3, 4, flag };

		emutest_both("products", products, &m, 1, 9, 1);
		emutest_both("averages", averages, &m, 1, 9, 1);
		emutest_both("heads", heads, &h, 0, 99, 20);
		emutest_both("heads, logistic 0, 1/2 or 1", heads, &h, 1, 1, .005f);
	}
	return emutest_end();
}
