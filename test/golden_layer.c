/* golden_layer.c -- golden/layers: every layer forward and backward.
 *
 * Each runner puts the case's inputs on the device, calls the same table of functions as net.c and
 * compares every output and gradient that the case names, by the tolerances it gives. */
#include <stdlib.h>
#include <string.h>

#include "test/golden.h"

/* What the runners share: shapes, device memory to free, the first error. */
struct layer_case {
	struct gold *g;
	struct dev *d;
	struct err *e;
	int n, c, h, w, bad;
	double rtol;
	float *mem[64];
	int nmem;
};

static double
par(const struct layer_case *t, const char *key, double dflt)
{
	char path[64];

	snprintf(path, sizeof path, "params.%s", key);
	return gold_num(t->g->j, path, dflt);
}

static int
ipar(const struct layer_case *t, const char *key, int dflt)
{
	return (int)par(t, key, dflt);
}

static enum act
act_of(const struct layer_case *t)
{
	static const char *const name[] = { "linear", "leaky", "logistic", "relu", "mish", "swish" };
	const char *s = gold_str(t->g->j, "params.activation", "linear");

	for (int i = 0; i < 6; i++)
		if (!strcmp(s, name[i]))
			return (enum act)i;
	die(1, "golden: activation '%s'?", s);
}

static float *
fresh(struct layer_case *t, size_t n)
{
	float *p = gold_put(t->d, NULL, n);

	t->d->ops->zero(t->d, p, n * sizeof *p);
	return t->mem[t->nmem++] = p;
}

static const struct st_tensor *
tensor(struct layer_case *t, const char *name)
{
	const struct st_tensor *x = t->g->st ? st_find(t->g->st, name) : NULL;

	if (!x)
		die(1, "golden: %s: no tensor '%s'", t->g->stem, name);
	return x;
}

/* Tensor NAME on the device; four dimensions become NHWC. */
static float *
input(struct layer_case *t, const char *name)
{
	const struct st_tensor *s = tensor(t, name);
	float *x = gold_floats(t->g, name, t->e), *y, *p;

	if (s->ndim == 4) {
		y = gold_nhwc(x, (int)s->dim[0], (int)s->dim[1], (int)s->dim[2], (int)s->dim[3]);
		free(x);
		x = y;
	}
	p = fresh(t, s->n);
	t->d->ops->put(t->d, p, x, s->n * sizeof *x);
	free(x);
	return p;
}

static float *
kernel(struct layer_case *t, const char *name)
{
	const struct st_tensor *s = tensor(t, name);
	float *x = gold_floats(t->g, name, t->e);
	float *y = gold_hwio(x, (int)s->dim[0], (int)s->dim[1], (int)s->dim[2]), *p = fresh(t, s->n);

	t->d->ops->put(t->d, p, y, s->n * sizeof *y);
	free(x);
	free(y);
	return p;
}

static double
atol_of(const struct layer_case *t, const char *name)
{
	yajl_val f = gold_get(t->g->j, "atol.fp32");
	const char *path[] = { name, NULL };	/* names may hold dots */
	yajl_val v = f ? yajl_tree_get(f, path, yajl_t_number) : NULL;

	return v ? YAJL_GET_DOUBLE(v) : 0;
}

static void
compare(struct layer_case *t, const char *name, const float *host)
{
	struct err e;

	if (gold_compare(t->g, name, host, atol_of(t, name), t->rtol, &e) && !t->bad++)
		*t->e = e;
}

/* Compare device values; transposed back when the tensor has four dimensions. */
static void
check(struct layer_case *t, const char *name, const float *dev)
{
	const struct st_tensor *s = tensor(t, name);
	float *x = gold_get_dev(t->d, dev, s->n), *y;

	if (s->ndim == 4) {
		y = gold_nchw(x, (int)s->dim[0], (int)s->dim[1], (int)s->dim[2], (int)s->dim[3]);
		free(x);
		x = y;
	}
	compare(t, name, x);
	free(x);
}

static void
check_kernel(struct layer_case *t, const char *name, const float *dev)
{
	const struct st_tensor *s = tensor(t, name);
	float *x = gold_get_dev(t->d, dev, s->n);
	float *y = gold_oihw(x, (int)s->dim[0], (int)s->dim[1], (int)s->dim[2]);

	compare(t, name, y);
	free(x);
	free(y);
}

static struct conv_shape
shape(const struct layer_case *t)
{
	struct conv_shape s = { t->n, t->h, t->w, t->c, 0, 0, ipar(t, "filters", 1), ipar(t, "size", 1),
		ipar(t, "stride_y", 1), ipar(t, "stride_x", 1), ipar(t, "padding", 0),
		ipar(t, "dilation", 1), ipar(t, "groups", 1) };

	s.oh = (s.h + 2 * s.pad - (s.size - 1) * s.dilation - 1) / s.stride_y + 1;
	s.ow = (s.w + 2 * s.pad - (s.size - 1) * s.dilation - 1) / s.stride_x + 1;
	return s;
}

static void *
workspace(struct layer_case *t, const struct conv_shape *s)
{
	return fresh(t, t->d->conv->workspace(t->d, s, 1) / sizeof(float) + 1);
}

/* dx written, then added to zero: both must do. */
static void
conv_backward(struct layer_case *t, const struct conv_shape *s, const float *dy, void *ws)
{
	size_t nx = tensor(t, "x")->n;
	float *x = input(t, "x"), *w = kernel(t, "w"), *dx = fresh(t, nx), *dw = fresh(t, tensor(t, "w")->n);

	t->d->conv->dgrad(t->d, s, dy, w, dx, 1, ws);
	check(t, "dx", dx);
	t->d->conv->dgrad(t->d, s, dy, w, dx, 0, ws);
	check(t, "dx", dx);
	t->d->conv->wgrad(t->d, s, x, dy, dw, ws);
	check_kernel(t, "dw", dw);
}

static void
run_conv(struct layer_case *t)
{
	struct conv_shape s = shape(t);
	int rows = s.n * s.oh * s.ow;
	float *y = fresh(t, (size_t)rows * s.k), *dy = input(t, "dy"), *db = fresh(t, s.k);
	void *ws = workspace(t, &s);

	t->d->conv->forward(t->d, &s, input(t, "x"), kernel(t, "w"), y, ws);
	t->d->bn->bias_act(t->d, y, rows, s.k, input(t, "b"), ACT_LINEAR, y);
	check(t, "y", y);
	t->d->bn->bias_act_back(t->d, y, dy, rows, s.k, ACT_LINEAR, db, ws);
	check(t, "db", db);
	conv_backward(t, &s, dy, ws);
}

static void
run_conv_bn_act(struct layer_case *t)
{
	struct conv_shape s = shape(t);
	int rows = s.n * s.oh * s.ow;
	size_t n = (size_t)rows * s.k;
	float *u = fresh(t, n), *y = fresh(t, n), *dy = input(t, "dy"), *gamma = input(t, "gamma");
	float *mean = fresh(t, s.k), *m2 = fresh(t, s.k), *beta = input(t, "beta"), *dg = fresh(t, s.k);
	float *db = fresh(t, s.k), *var;
	void *ws = workspace(t, &s);
	const struct bn_ops *b = t->d->bn;

	t->d->conv->forward(t->d, &s, input(t, "x"), kernel(t, "w"), u, ws);
	check(t, "conv", u);
	b->moments(t->d, u, rows, s.k, mean, m2, ws);
	check(t, "mean", mean);
	var = gold_get_dev(t->d, m2, s.k);
	for (int i = 0; i < s.k; i++)
		var[i] /= (float)rows;
	compare(t, "var_biased", var);
	free(var);
	b->apply(t->d, u, rows, s.k, mean, m2, (float)rows, gamma, beta, act_of(t), y, ws);
	check(t, "y", y);
	b->back_sums(t->d, u, dy, rows, s.k, mean, m2, (float)rows, gamma, beta, act_of(t), dg, db, ws);
	check(t, "dgamma", dg);
	check(t, "dbeta", db);
	b->back_apply(t->d, u, dy, rows, s.k, mean, m2, (float)rows, gamma, beta, act_of(t), dg, db, ws);
	conv_backward(t, &s, dy, ws);
}

/* The statistics a case names, from mean and m2; running values by each momentum. */
static void
check_statistics(struct layer_case *t, float *mean, float *m2, int count)
{
	float *m = gold_get_dev(t->d, m2, t->c), *v = (float *)xmalloc((size_t)t->c * sizeof *v);
	char name[64];

	check(t, "mean", mean);
	for (int i = 0; i < t->c; i++)
		v[i] = m[i] / (float)count;
	compare(t, "var_biased", v);
	for (int i = 0; i < t->c && count > 1; i++)
		v[i] = m[i] / (float)(count - 1);
	if (count > 1)
		compare(t, "var_unbiased", v);
	for (int i = 0; i < 3; i++) {
		const double by[] = { .1, .03, .01 };
		float *rm = input(t, "running_mean"), *rv = input(t, "running_var");

		t->d->bn->running(t->d, t->c, mean, m2, (float)count, (float)by[i], rm, rv);
		snprintf(name, sizeof name, "running_mean_m%g", by[i]);
		check(t, name, rm);
		snprintf(name, sizeof name, "running_var_unbiased_m%g", by[i]);
		if (count > 1)
			check(t, name, rv);
	}
	free(m);
	free(v);
}

/* normalise_by unbiased: count less one, and dbeta's mean still over count: scaled by hand. */
static void
run_bn_train(struct layer_case *t)
{
	int rows = t->n * t->h * t->w, c = t->c;
	int less = !strcmp(gold_str(t->g->j, "params.normalise_by", "biased"), "unbiased");
	struct conv_shape s = { t->n, t->h, t->w, c, t->h, t->w, c, 1, 1, 1, 0, 1, 1 };
	float *x = input(t, "x"), *gamma = input(t, "gamma"), *beta = input(t, "beta");
	float *y = fresh(t, (size_t)rows * c), *dy = input(t, "dy"), *mean = fresh(t, c), *m2 = fresh(t, c);
	float *dg = fresh(t, c), *db = fresh(t, c), *h;
	void *ws = workspace(t, &s);
	const struct bn_ops *b = t->d->bn;
	float count = (float)(rows - less);

	b->moments(t->d, x, rows, c, mean, m2, ws);
	check_statistics(t, mean, m2, rows);
	b->apply(t->d, x, rows, c, mean, m2, count, gamma, beta, ACT_LINEAR, y, ws);
	check(t, "y", y);
	b->back_sums(t->d, x, dy, rows, c, mean, m2, count, gamma, beta, ACT_LINEAR, dg, db, ws);
	check(t, "dgamma", dg);
	check(t, "dbeta", db);
	h = gold_get_dev(t->d, db, c);
	for (int i = 0; i < c; i++)
		h[i] *= count / (float)rows;
	t->d->ops->put(t->d, db, h, (size_t)c * sizeof *h);
	free(h);
	b->back_apply(t->d, x, dy, rows, c, mean, m2, count, gamma, beta, ACT_LINEAR, dg, db, ws);
	check(t, "dx", dy);
}

/* A frozen layer: statistics given, no gradient through them. */
static void
run_bn_infer(struct layer_case *t)
{
	int rows = t->n * t->h * t->w, c = t->c;
	struct conv_shape s = { t->n, t->h, t->w, c, t->h, t->w, c, 1, 1, 1, 0, 1, 1 };
	float *x = input(t, "x"), *gamma = input(t, "gamma"), *beta = input(t, "beta");
	float *y = fresh(t, (size_t)rows * c), *dy = input(t, "dy"), *mean = input(t, "running_mean");
	float *var = input(t, "running_var"), *dg = fresh(t, c), *db = fresh(t, c), *none = fresh(t, c);
	void *ws = workspace(t, &s);
	const struct bn_ops *b = t->d->bn;

	b->apply(t->d, x, rows, c, mean, var, 1, gamma, beta, ACT_LINEAR, y, ws);
	check(t, "y", y);
	b->back_sums(t->d, x, dy, rows, c, mean, var, 1, gamma, beta, ACT_LINEAR, dg, db, ws);
	check(t, "dgamma", dg);
	check(t, "dbeta", db);
	b->back_apply(t->d, x, dy, rows, c, mean, var, 1, gamma, beta, ACT_LINEAR, none, none, ws);
	check(t, "dx", dy);
}

static void
run_fold(struct layer_case *t)
{
	struct conv_shape s = shape(t);
	int rows = s.n * s.oh * s.ow, cg = s.c / s.groups;
	float *w = kernel(t, "w"), *bias = fresh(t, s.k), *y = fresh(t, (size_t)rows * s.k);

	t->d->bn->fold(t->d, w, s.size * s.size * cg, s.k, input(t, "gamma"), input(t, "beta"),
	    input(t, "running_mean"), input(t, "running_var"), bias);
	check_kernel(t, "w_folded", w);
	check(t, "b_folded", bias);
	t->d->conv->forward(t->d, &s, input(t, "x"), w, y, workspace(t, &s));
	t->d->bn->bias_act(t->d, y, rows, s.k, bias, ACT_LINEAR, y);
	check(t, "y", y);
}

static void
run_act(struct layer_case *t)
{
	int n = t->n * t->c * t->h * t->w;
	float *x = input(t, "x"), *y = fresh(t, n), *dy = input(t, "dy"), *dx = fresh(t, n);

	t->rtol = gold_num(t->g->j, "rtol.fp32", 0);
	t->d->layer->activate(t->d, n, act_of(t), x, y);
	check(t, "y", y);
	t->d->layer->activate_back(t->d, n, act_of(t), x, dy, dx, 1);
	check(t, "dx", dx);
	t->d->layer->activate_back(t->d, n, act_of(t), x, dy, dy, 0);
	check(t, "dx", dy);
}

/* outside 0 is a zero border made by hand: the 2019 port's own padding layer. */
static void
run_maxpool(struct layer_case *t)
{
	struct pool_shape s = { t->n, t->h, t->w, t->c, 0, 0, ipar(t, "size", 2), ipar(t, "stride_y", 1),
		ipar(t, "stride_x", 1), ipar(t, "padding_before", 0), ipar(t, "padding_before", 0) };
	int total = ipar(t, "padding_total", s.size - 1), zero = YAJL_IS_NUMBER(gold_get(t->g->j,
	    "params.outside"));
	const struct st_tensor *o = tensor(t, "y");
	float *x = input(t, "x"), *y = fresh(t, o->n), *dx = fresh(t, tensor(t, "x")->n), *big = x;
	int wide = t->w + total, more = t->h + total;
	size_t row = (size_t)t->w * t->c, each = (size_t)wide * t->c;
	unsigned char *tap = (unsigned char *)fresh(t, o->n / 4 + 1);

	s.oh = (s.h + total - s.size) / s.stride_y + 1;
	s.ow = (s.w + total - s.size) / s.stride_x + 1;
	if (zero) {			/* case padding_before is 0: rows and columns come after */
		big = fresh(t, (size_t)t->n * more * each);
		for (int i = 0; i < t->n * t->h; i++)
			t->d->ops->copy(t->d, big + (size_t)(i / t->h * more + i % t->h) * each, x + i * row,
			    row * sizeof *x);
		s.h = more;
		s.w = wide;
	}
	t->d->layer->maxpool(t->d, &s, big, y, tap);
	check(t, "y", y);
	if (zero)
		dx = fresh(t, (size_t)t->n * more * each);
	t->d->layer->maxpool_back(t->d, &s, input(t, "dy"), tap, dx, 1);
	for (int i = 0; zero && i < t->n * t->h; i++)
		t->d->ops->copy(t->d, x + i * row, dx + (size_t)(i / t->h * more + i % t->h) * each,
		    row * sizeof *x);
	check(t, "dx", zero ? x : dx);
	if (!zero) {
		t->d->layer->maxpool(t->d, &s, x, y, NULL);
		check(t, "y", y);
		t->d->layer->maxpool_back(t->d, &s, input(t, "dy"), tap, dx, 0);
		check(t, "dx", dx);
	}
}

static void
run_upsample(struct layer_case *t)
{
	int s = ipar(t, "stride", 2);
	float f = (float)par(t, "scale", 1), *y = fresh(t, tensor(t, "y")->n), *dx = fresh(t, tensor(t,
	    "x")->n);

	t->d->layer->upsample(t->d, t->n, t->h, t->w, t->c, s, f, input(t, "x"), y);
	check(t, "y", y);
	for (int add = 1; add >= 0; add--) {
		t->d->layer->upsample_back(t->d, t->n, t->h, t->w, t->c, s, f, input(t, "dy"), dx, add);
		check(t, "dx", dx);
	}
}

static void
run_route(struct layer_case *t)
{
	int groups = ipar(t, "groups", 1), id = ipar(t, "group_id", 0), rows = t->n * t->h * t->w, to = 0;
	yajl_val order = gold_get(t->g->j, "params.order");
	int yc = (int)tensor(t, "y")->dim[1];
	float *y = fresh(t, tensor(t, "y")->n), *dy = input(t, "dy"), *dx[8] = { NULL };
	char name[16];

	for (size_t i = 0; i < YAJL_GET_ARRAY(order)->len; i++) {
		const char *src = YAJL_GET_STRING(YAJL_GET_ARRAY(order)->values[i]);
		int k = src[1] - '0', c = (int)tensor(t, src)->dim[1], part = c / groups;

		if (!dx[k])
			dx[k] = fresh(t, tensor(t, src)->n);
		t->d->layer->slice(t->d, rows, part, input(t, src), c, part * id, y, yc, to, 0);
		t->d->layer->slice(t->d, rows, part, dy, yc, to, dx[k], c, part * id, 1);
		to += part;
	}
	check(t, "y", y);
	for (int k = 0; k < 8; k++)
		if (dx[k]) {
			snprintf(name, sizeof name, "dx%d", k);
			check(t, name, dx[k]);
		}
}

static void
run_shortcut(struct layer_case *t)
{
	const struct st_tensor *x = tensor(t, "x"), *f;
	int c = (int)x->dim[1], rows = (int)(x->n / x->dim[1]);
	float *y = input(t, "x"), *z = fresh(t, x->n), *dy = input(t, "dy"), *df;
	char name[16];

	for (int k = 0; k < 8; k++) {
		snprintf(name, sizeof name, "from%d", k);
		if (!(f = st_find(t->g->st, name)))
			break;
		t->d->layer->slice(t->d, rows, c < (int)f->dim[1] ? c : (int)f->dim[1], input(t, name),
		    (int)f->dim[1], 0, y, c, 0, 1);
	}
	t->d->layer->activate(t->d, (int)x->n, act_of(t), y, z);
	check(t, "y", z);
	t->d->layer->activate_back(t->d, (int)x->n, act_of(t), y, dy, dy, 0);
	check(t, "dx", dy);
	t->d->layer->accumulate(t->d, (int)x->n, dy, z, 0);
	check(t, "dx", z);
	for (int k = 0; k < 8; k++) {
		snprintf(name, sizeof name, "from%d", k);
		if (!(f = st_find(t->g->st, name)))
			break;
		df = fresh(t, f->n);
		t->d->layer->slice(t->d, rows, c < (int)f->dim[1] ? c : (int)f->dim[1], dy, c, 0, df,
		    (int)f->dim[1], 0, 1);
		snprintf(name, sizeof name, "dfrom%d", k);
		check(t, name, df);
	}
}

static void
run_scale(struct layer_case *t)
{
	int n = (int)tensor(t, "y")->n, wh = ipar(t, "scale_wh", 0), hw = t->h * t->w;
	int sam = !strcmp(gold_str(t->g->j, "op", ""), "sam");
	float *x = input(t, "x"), *f = input(t, "source"), *u = fresh(t, n), *y = fresh(t, n);
	float *dy = input(t, "dy"), *dx = fresh(t, tensor(t, "x")->n), *df = fresh(t, n);
	const struct layer_ops *o = t->d->layer;

	if (sam)
		o->sam(t->d, n, x, f, u);
	else
		o->scale(t->d, t->n, hw, t->c, wh, x, f, u);
	o->activate(t->d, n, act_of(t), u, y);
	check(t, "y", y);
	o->activate_back(t->d, n, act_of(t), u, dy, dy, 0);
	for (int add = 1; add >= 0; add--) {
		if (sam)
			o->sam_back(t->d, n, x, f, dy, dx, add, df, add);
		else
			o->scale_back(t->d, t->n, hw, t->c, wh, x, f, dy, dx, add, df, add);
		check(t, "dx", dx);
		check(t, "dsource", df);
	}
}

static void
run_reorg(struct layer_case *t)
{
	int s = ipar(t, "stride", 2), rev = ipar(t, "reverse", 0);
	int deep = !strcmp(gold_str(t->g->j, "op", ""), "reorg3d");
	float *x = input(t, "x"), *y = fresh(t, tensor(t, "y")->n), *dy = input(t, "dy");
	float *dx = fresh(t, tensor(t, "x")->n);
	const struct layer_ops *o = t->d->layer;

	if (deep)
		o->reorg3d(t->d, t->n, t->h, t->w, t->c, s, x, y);
	else
		o->reorg(t->d, t->n, t->h, t->w, t->c, s, rev, x, y);
	check(t, "y", y);
	for (int add = 1; add >= 0; add--) {
		if (deep)
			o->reorg3d_back(t->d, t->n, t->h, t->w, t->c, s, dy, dx, add);
		else
			o->reorg_back(t->d, t->n, t->h, t->w, t->c, s, rev, dy, dx, add);
		check(t, "dx", dx);
	}
}

static void
run_avgpool(struct layer_case *t)
{
	float *y = fresh(t, tensor(t, "y")->n), *dx = fresh(t, tensor(t, "x")->n), *dy = input(t, "dy");

	t->d->layer->avgpool(t->d, t->n, t->h * t->w, t->c, input(t, "x"), y);
	check(t, "y", y);
	for (int add = 1; add >= 0; add--) {
		t->d->layer->avgpool_back(t->d, t->n, t->h * t->w, t->c, dy, dx, add);
		check(t, "dx", dx);
	}
}

/* The mask is a matter of the generator; with it given, what is left is the product and 1/(1-p).
 * p = 0 keeps all: the identity of inference.  Ours must scale what it keeps like the mask does. */
static void
run_dropout(struct layer_case *t)
{
	int n = (int)tensor(t, "x")->n, kept = 0;
	float p = (float)par(t, "probability", .5), *x = input(t, "x"), *y = fresh(t, n), *dy = input(t, "dy");
	float *hx = gold_get_dev(t->d, x, n), *hy, *dx = fresh(t, n), *mask, *hd;

	if (strcmp(gold_str(t->g->j, "params.mode", "inference"), "training")) {
		t->d->layer->dropout(t->d, n, 0, 1, 0, x, y);
		check(t, "y", y);
		t->d->layer->dropout_back(t->d, n, 0, 1, 0, dy, dx, 1);
		check(t, "dx", dx);
		free(hx);
		return;
	}
	mask = input(t, "mask");
	t->d->layer->sam(t->d, n, x, mask, y);
	t->d->layer->sam(t->d, n, dy, mask, dx);
	t->d->layer->dropout(t->d, n, p, 7, 3, x, x);
	t->d->layer->dropout_back(t->d, n, p, 7, 3, dy, dy, 0);
	hy = gold_get_dev(t->d, x, n);
	hd = gold_get_dev(t->d, dy, n);
	for (int i = 0; i < n; i++) {
		kept += hy[i] != 0;
		if ((hy[i] != 0) != (hd[i] != 0) || (hy[i] != 0 && hy[i] != hx[i] / (1 - p)))
			t->bad += !t->bad && err_set(t->e, "dropout[%d]: %g from %g", i, hy[i], hx[i]);
	}
	if (kept < n * (1 - p) * .7f || kept > n * (1 - p) * 1.3f)
		t->bad += !t->bad && err_set(t->e, "dropout kept %d of %d at p = %g", kept, n, p);
	free(hy);
	free(hd);
	free(hx);
	hx = gold_get_dev(t->d, y, n);
	for (int i = 0; i < n; i++)
		hx[i] /= 1 - p;
	t->d->ops->put(t->d, y, hx, (size_t)n * sizeof *hx);
	check(t, "y", y);
	free(hx);
}

static void
run_head(struct layer_case *t)
{
	int anchors = ipar(t, "num", 0), classes = ipar(t, "classes", 1), rows = t->n * t->h * t->w;
	yajl_val mask = gold_get(t->g->j, "params.mask");
	float *x = input(t, "x"), *y = fresh(t, tensor(t, "y")->n);

	if (!strcmp(gold_str(t->g->j, "op", ""), "yolo"))
		t->d->layer->yolo(t->d, rows, (int)YAJL_GET_ARRAY(mask)->len, classes,
		    (float)par(t, "scale_x_y", 1), ipar(t, "new_coords", 0), x, y);
	else
		t->d->layer->region(t->d, rows, anchors, classes, ipar(t, "softmax", 1), x, y);
	check(t, "y", y);
}

static const struct {
	const char *op;
	void (*run)(struct layer_case *);
} runners[] = {
	{ "conv", run_conv }, { "conv-bn-act", run_conv_bn_act }, { "bn-train", run_bn_train },
	{ "bn-infer", run_bn_infer }, { "fold", run_fold }, { "act", run_act },
	{ "maxpool", run_maxpool }, { "upsample", run_upsample }, { "route", run_route },
	{ "shortcut", run_shortcut }, { "scale-channels", run_scale }, { "sam", run_scale },
	{ "reorg", run_reorg }, { "reorg3d", run_reorg }, { "avgpool", run_avgpool },
	{ "dropout", run_dropout }, { "yolo", run_head }, { "region", run_head }, { NULL, NULL },
};

int
gold_layer(struct gold *g, struct err *e)
{
	struct layer_case t = { .g = g, .d = g->dev, .e = e };
	const char *op = gold_str(g->j, "op", "?");
	int i = 0;

	t.n = ipar(&t, "batch", 1);
	t.c = ipar(&t, "c", 1);
	t.h = ipar(&t, "h", 1);
	t.w = ipar(&t, "w", 1);
	while (runners[i].op && strcmp(runners[i].op, op))
		i++;
	if (!runners[i].op) {
		err_set(e, "not built: %s", op);
		return 1;
	}
	runners[i].run(&t);
	while (t.nmem)
		t.d->ops->free(t.d, t.mem[--t.nmem]);
	return t.bad ? -1 : 0;
}
