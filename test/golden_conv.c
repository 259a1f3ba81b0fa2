/* golden_conv.c -- golden/layers: convolution, batch-norm and what is made of both. */
#include <stdlib.h>
#include <string.h>

#include "test/golden_layer.h"

static struct conv_shape
shape(const struct layer_case *t)
{
	struct conv_shape s = { t->n, t->h, t->w, t->c, 0, 0, ipar(t, "filters", 1),
		ipar(t, "size", 1), ipar(t, "stride_y", 1), ipar(t, "stride_x", 1),
		ipar(t, "padding", 0), ipar(t, "dilation", 1), ipar(t, "groups", 1) };

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
	float *x = input(t, "x"), *w = kernel(t, "w"), *dx = fresh(t, nx);
	float *dw = fresh(t, tensor(t, "w")->n);

	t->d->conv->dgrad(t->d, s, dy, w, dx, 1, ws);
	check(t, "dx", dx);
	t->d->conv->dgrad(t->d, s, dy, w, dx, 0, ws);
	check(t, "dx", dx);
	t->d->conv->wgrad(t->d, s, x, dy, dw, ws);
	check_kernel(t, "dw", dw);
}

void
run_conv(struct layer_case *t)
{
	struct conv_shape s = shape(t);
	int rows = s.n * s.oh * s.ow;
	float *y = fresh(t, (size_t)rows * s.k), *dy = input(t, "dy"), *db = fresh(t, s.k);
	struct bn b = { .rows = rows, .c = s.k, .beta = input(t, "b"), .dbeta = db };
	void *ws = workspace(t, &s);

	t->d->conv->forward(t->d, &s, input(t, "x"), kernel(t, "w"), y, ws);
	t->d->bn->bias_act(t->d, &b, y, y);
	check(t, "y", y);
	t->d->bn->bias_act_back(t->d, &b, y, dy, ws);
	check(t, "db", db);
	conv_backward(t, &s, dy, ws);
}

void
run_conv_bn_act(struct layer_case *t)
{
	struct conv_shape s = shape(t);
	int rows = s.n * s.oh * s.ow;
	size_t n = (size_t)rows * s.k;
	float *u = fresh(t, n), *y = fresh(t, n), *dy = input(t, "dy"), *var;
	struct bn k = { rows, s.k, (float)rows, act_of(t), fresh(t, s.k), fresh(t, s.k),
		input(t, "gamma"), input(t, "beta"), fresh(t, s.k), fresh(t, s.k) };
	void *ws = workspace(t, &s);
	const struct bn_ops *b = t->d->bn;

	t->d->conv->forward(t->d, &s, input(t, "x"), kernel(t, "w"), u, ws);
	check(t, "conv", u);
	b->moments(t->d, &k, u, ws);
	check(t, "mean", k.mean);
	var = gold_get_dev(t->d, k.m2, s.k);
	for (int i = 0; i < s.k; i++)
		var[i] /= (float)rows;
	compare(t, "var_biased", var);
	free(var);
	b->apply(t->d, &k, u, y, ws);
	check(t, "y", y);
	b->back_sums(t->d, &k, u, dy, ws);
	check(t, "dgamma", k.dgamma);
	check(t, "dbeta", k.dbeta);
	b->back_apply(t->d, &k, u, dy, ws);
	conv_backward(t, &s, dy, ws);
}

/* The statistics a case names, from mean and m2; running values by each momentum. */
static void
check_statistics(struct layer_case *t, float *mean, float *m2, int count)
{
	float *m = gold_get_dev(t->d, m2, t->c), *v = (float *)xmalloc((size_t)t->c * sizeof *v);
	struct bn b = { .c = t->c, .mean = mean, .m2 = m2, .count = (float)count };
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

		t->d->bn->running(t->d, &b, (float)by[i], rm, rv);
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
void
run_bn_train(struct layer_case *t)
{
	int rows = t->n * t->h * t->w, c = t->c;
	int less = !strcmp(gold_str(t->g->j, "params.normalise_by", "biased"), "unbiased");
	struct conv_shape s = { t->n, t->h, t->w, c, t->h, t->w, c, 1, 1, 1, 0, 1, 1 };
	float *x = input(t, "x"), *y = fresh(t, (size_t)rows * c), *dy = input(t, "dy"), *h;
	struct bn k = { rows, c, (float)(rows - less), ACT_LINEAR, fresh(t, c), fresh(t, c),
		input(t, "gamma"), input(t, "beta"), fresh(t, c), fresh(t, c) };
	void *ws = workspace(t, &s);
	const struct bn_ops *b = t->d->bn;

	b->moments(t->d, &k, x, ws);
	check_statistics(t, k.mean, k.m2, rows);
	b->apply(t->d, &k, x, y, ws);
	check(t, "y", y);
	b->back_sums(t->d, &k, x, dy, ws);
	check(t, "dgamma", k.dgamma);
	check(t, "dbeta", k.dbeta);
	h = gold_get_dev(t->d, k.dbeta, c);
	for (int i = 0; i < c; i++)
		h[i] *= k.count / (float)rows;
	t->d->ops->put(t->d, k.dbeta, h, (size_t)c * sizeof *h);
	free(h);
	b->back_apply(t->d, &k, x, dy, ws);
	check(t, "dx", dy);
}

/* A frozen layer: statistics given, no gradient through them. */
void
run_bn_infer(struct layer_case *t)
{
	int rows = t->n * t->h * t->w, c = t->c;
	struct conv_shape s = { t->n, t->h, t->w, c, t->h, t->w, c, 1, 1, 1, 0, 1, 1 };
	float *x = input(t, "x"), *y = fresh(t, (size_t)rows * c), *dy = input(t, "dy");
	struct bn k = { rows, c, 1, ACT_LINEAR, input(t, "running_mean"), input(t, "running_var"),
		input(t, "gamma"), input(t, "beta"), fresh(t, c), fresh(t, c) };
	void *ws = workspace(t, &s);
	const struct bn_ops *b = t->d->bn;

	b->apply(t->d, &k, x, y, ws);
	check(t, "y", y);
	b->back_sums(t->d, &k, x, dy, ws);
	check(t, "dgamma", k.dgamma);
	check(t, "dbeta", k.dbeta);
	k.dgamma = k.dbeta = fresh(t, c);
	b->back_apply(t->d, &k, x, dy, ws);
	check(t, "dx", dy);
}

void
run_fold(struct layer_case *t)
{
	struct conv_shape s = shape(t);
	int rows = s.n * s.oh * s.ow, cg = s.c / s.groups;
	float *w = kernel(t, "w"), *bias = fresh(t, s.k), *y = fresh(t, (size_t)rows * s.k);
	struct bn b = { .rows = s.size * s.size * cg, .c = s.k, .mean = input(t, "running_mean"),
		.m2 = input(t, "running_var"), .gamma = input(t, "gamma"), .beta = input(t,
		"beta") };

	t->d->bn->fold(t->d, &b, w, bias);
	check_kernel(t, "w_folded", w);
	check(t, "b_folded", bias);
	t->d->conv->forward(t->d, &s, input(t, "x"), w, y, workspace(t, &s));
	b.rows = rows;
	b.beta = bias;
	t->d->bn->bias_act(t->d, &b, y, y);
	check(t, "y", y);
}
