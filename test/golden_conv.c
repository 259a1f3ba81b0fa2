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
	void *ws = workspace(t, &s);

	t->d->conv->forward(t->d, &s, input(t, "x"), kernel(t, "w"), y, ws);
	t->d->bn->bias_act(t->d, y, rows, s.k, input(t, "b"), ACT_LINEAR, y);
	check(t, "y", y);
	t->d->bn->bias_act_back(t->d, y, dy, rows, s.k, ACT_LINEAR, db, ws);
	check(t, "db", db);
	conv_backward(t, &s, dy, ws);
}

void
run_conv_bn_act(struct layer_case *t)
{
	struct conv_shape s = shape(t);
	int rows = s.n * s.oh * s.ow;
	size_t n = (size_t)rows * s.k;
	float *u = fresh(t, n), *y = fresh(t, n), *dy = input(t, "dy"), *gamma = input(t, "gamma");
	float *mean = fresh(t, s.k), *m2 = fresh(t, s.k), *beta = input(t, "beta"),
	    *dg = fresh(t, s.k);
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
	b->back_sums(t->d, u, dy, rows, s.k, mean, m2, (float)rows, gamma, beta, act_of(t), dg, db,
	    ws);
	check(t, "dgamma", dg);
	check(t, "dbeta", db);
	b->back_apply(t->d, u, dy, rows, s.k, mean, m2, (float)rows, gamma, beta, act_of(t), dg, db,
	    ws);
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
void
run_bn_train(struct layer_case *t)
{
	int rows = t->n * t->h * t->w, c = t->c;
	int less = !strcmp(gold_str(t->g->j, "params.normalise_by", "biased"), "unbiased");
	struct conv_shape s = { t->n, t->h, t->w, c, t->h, t->w, c, 1, 1, 1, 0, 1, 1 };
	float *x = input(t, "x"), *gamma = input(t, "gamma"), *beta = input(t, "beta");
	float *y = fresh(t, (size_t)rows * c), *dy = input(t, "dy"), *mean = fresh(t, c),
	    *m2 = fresh(t, c);
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
void
run_bn_infer(struct layer_case *t)
{
	int rows = t->n * t->h * t->w, c = t->c;
	struct conv_shape s = { t->n, t->h, t->w, c, t->h, t->w, c, 1, 1, 1, 0, 1, 1 };
	float *x = input(t, "x"), *gamma = input(t, "gamma"), *beta = input(t, "beta");
	float *y = fresh(t, (size_t)rows * c), *dy = input(t, "dy"),
	    *mean = input(t, "running_mean");
	float *var = input(t, "running_var"), *dg = fresh(t, c), *db = fresh(t, c),
	    *none = fresh(t, c);
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

void
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
