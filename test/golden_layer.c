/* golden_layer.c -- golden/layers: every layer forward and backward.
 *
 * Each runner puts the case's inputs on the device, calls the same table of functions as net.c and
 * compares every output and gradient that the case names, by the tolerances it gives. */
#include <stdlib.h>
#include <string.h>

#include "test/golden_layer.h"

double
par(const struct layer_case *t, const char *key, double dflt)
{
	char path[64];

	snprintf(path, sizeof path, "params.%s", key);
	return gold_num(t->g->j, path, dflt);
}

int
ipar(const struct layer_case *t, const char *key, int dflt)
{
	return (int)par(t, key, dflt);
}

enum act
act_of(const struct layer_case *t)
{
	static const char *const name[] = { "linear", "leaky", "logistic", "relu", "mish",
	    "swish" };
	const char *s = gold_str(t->g->j, "params.activation", "linear");

	for (int i = 0; i < 6; i++)
		if (!strcmp(s, name[i]))
			return (enum act)i;
	die(1, "golden: activation '%s'?", s);
}

float *
fresh(struct layer_case *t, size_t n)
{
	float *p = gold_put(t->d, NULL, n);

	t->d->ops->zero(t->d, p, n * sizeof *p);
	return t->mem[t->nmem++] = p;
}

const struct st_tensor *
tensor(struct layer_case *t, const char *name)
{
	const struct st_tensor *x = t->g->st ? st_find(t->g->st, name) : NULL;

	if (!x)
		die(1, "golden: %s: no tensor '%s'", t->g->stem, name);
	return x;
}

/* Tensor NAME on the device; four dimensions become NHWC. */
float *
input(struct layer_case *t, const char *name)
{
	const struct st_tensor *s = tensor(t, name);
	float *x = gold_floats(t->g, name, t->e), *y = NULL, *p;

	if (s->ndim == 4) {
		y = gold_nhwc(x, (int)s->dim[0], (int)s->dim[1], (int)s->dim[2], (int)s->dim[3]);
		p = (float *)gold_put_stored(t->d, y, s->n);
	} else
		p = gold_put(t->d, x, s->n);
	free(x);
	free(y);
	return t->mem[t->nmem++] = p;
}

float *
kernel(struct layer_case *t, const char *name)
{
	const struct st_tensor *s = tensor(t, name);
	float *x = gold_floats(t->g, name, t->e);
	float *y = gold_hwio(x, (int)s->dim[0], (int)s->dim[1], (int)s->dim[2]),
	    *p = fresh(t, s->n);

	t->d->ops->put(t->d, p, y, s->n * sizeof *y);
	free(x);
	free(y);
	return p;
}

/* atol or rel_l2 of a tensor, whose name may hold dots, in the precision at hand. */
double
tolerance(const struct layer_case *t, const char *kind, const char *name, double dflt)
{
	const char *path[] = { kind, t->g->bf16 ? "bf16" : "fp32", name, NULL };
	yajl_val v = yajl_tree_get(t->g->j, path, yajl_t_number);

	return v ? YAJL_GET_DOUBLE(v) : dflt;
}

void
compare(struct layer_case *t, const char *name, const float *host)
{
	double l2 = tolerance(t, "rel_l2", name, -1);
	struct err e;

	if (gold_compare(t->g, name, host, tolerance(t, "atol", name, 0), t->rtol, &e) ||
	    (l2 >= 0 && gold_compare_l2(t->g, name, host, l2, &e)))
		if (!t->bad++)
			*t->e = e;
}

/* Compare device values; transposed back when the tensor has four dimensions. */
void
check(struct layer_case *t, const char *name, const float *dev)
{
	const struct st_tensor *s = tensor(t, name);
	float *x = s->ndim == 4 ? gold_get_stored(t->d, dev, s->n) :
	    gold_get_dev(t->d, dev, s->n), *y;

	if (s->ndim == 4) {
		y = gold_nchw(x, (int)s->dim[0], (int)s->dim[1], (int)s->dim[2], (int)s->dim[3]);
		free(x);
		x = y;
	}
	compare(t, name, x);
	free(x);
}

void
check_kernel(struct layer_case *t, const char *name, const float *dev)
{
	const struct st_tensor *s = tensor(t, name);
	float *x = gold_get_dev(t->d, dev, s->n);
	float *y = gold_oihw(x, (int)s->dim[0], (int)s->dim[1], (int)s->dim[2]);

	compare(t, name, y);
	free(x);
	free(y);
}

static const struct {
	const char *op;
	layer_run *run;
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
