/* golden_wire.c -- golden/layers: activations, pools, wiring and heads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/golden_layer.h"

void
run_act(struct layer_case *t)
{
	int n = t->n * t->c * t->h * t->w;
	float *x = input(t, "x"), *y = fresh(t, n), *dy = input(t, "dy");

	t->rtol = gold_num(t->g->j, t->g->bf16 ? "rtol.bf16" : "rtol.fp32", 0);
	t->d->layer->activate(t->d, n, act_of(t), x, y);
	check(t, "y", y);
	t->d->layer->activate_back(t->d, n, act_of(t), x, dy);
	check(t, "dx", dy);
}

/* outside 0 is a zero border made by hand: the 2019 port's own padding layer. */
void
run_maxpool(struct layer_case *t)
{
	struct pool_shape s = { t->n, t->h, t->w, t->c, 0, 0, ipar(t, "size", 2),
		ipar(t, "stride_y", 1), ipar(t, "stride_x", 1), ipar(t, "padding_before", 0),
		    ipar(t, "padding_before", 0) };
	int total = ipar(t, "padding_total", s.size - 1), zero = YAJL_IS_NUMBER(gold_get(t->g->j,
	    "params.outside"));
	const struct st_tensor *o = tensor(t, "y");
	float *x = input(t, "x"), *y = fresh(t, o->n), *dx = fresh(t, tensor(t, "x")->n), *big = x;
	int wide = t->w + total, more = t->h + total;
	size_t row = (size_t)t->w * t->c * t->d->store->bytes, each = (size_t)wide * t->c;
	size_t step = each * t->d->store->bytes;
	unsigned char *tap = (unsigned char *)fresh(t, o->n / 4 + 1);

	s.oh = (s.h + total - s.size) / s.stride_y + 1;
	s.ow = (s.w + total - s.size) / s.stride_x + 1;
	if (zero) {			/* case padding_before is 0: rows and columns come after */
		big = fresh(t, (size_t)t->n * more * each);
		for (int i = 0; i < t->n * t->h; i++)
			t->d->ops->copy(t->d,
			    (char *)big + (size_t)(i / t->h * more + i % t->h) * step,
			    (char *)x + i * row, row);
		s.h = more;
		s.w = wide;
	}
	t->d->layer->maxpool(t->d, &s, big, y, tap);
	check(t, "y", y);
	if (zero)
		dx = fresh(t, (size_t)t->n * more * each);
	t->d->layer->maxpool_back(t->d, &s, input(t, "dy"), tap, dx, 1);
	for (int i = 0; zero && i < t->n * t->h; i++)
		t->d->ops->copy(t->d, (char *)x + i * row,
		    (char *)dx + (size_t)(i / t->h * more + i % t->h) * step, row);
	check(t, "dx", zero ? x : dx);
	if (!zero) {
		t->d->layer->maxpool(t->d, &s, x, y, NULL);
		check(t, "y", y);
		t->d->layer->maxpool_back(t->d, &s, input(t, "dy"), tap, dx, 0);
		check(t, "dx", dx);
	}
}

void
run_upsample(struct layer_case *t)
{
	struct stride_shape s = { t->n, t->h, t->w, t->c, ipar(t, "stride", 2), 0,
		(float)par(t, "scale", 1) };
	float *y = fresh(t, tensor(t, "y")->n), *dx = fresh(t, tensor(t, "x")->n);

	t->d->layer->upsample(t->d, &s, input(t, "x"), y);
	check(t, "y", y);
	for (int add = 1; add >= 0; add--) {
		t->d->layer->upsample_back(t->d, &s, input(t, "dy"), dx, add);
		check(t, "dx", dx);
	}
}

void
run_route(struct layer_case *t)
{
	int groups = ipar(t, "groups", 1), id = ipar(t, "group_id", 0), rows = t->n * t->h * t->w,
	    to = 0;
	yajl_val order = gold_get(t->g->j, "params.order");
	int yc = (int)tensor(t, "y")->dim[1];
	float *y = fresh(t, tensor(t, "y")->n), *dy = input(t, "dy"), *dx[8] = { NULL };
	char name[16];

	for (size_t i = 0; i < YAJL_GET_ARRAY(order)->len; i++) {
		const char *src = YAJL_GET_STRING(YAJL_GET_ARRAY(order)->values[i]);
		int k = src[1] - '0', c = (int)tensor(t, src)->dim[1], part = c / groups;

		struct slice there = { rows, part, input(t, src), c, part * id, y, yc, to };
		struct slice back = { rows, part, dy, yc, to, NULL, c, part * id };

		if (!dx[k])
			dx[k] = fresh(t, tensor(t, src)->n);
		back.dst = dx[k];
		t->d->layer->slice(t->d, &there, 0);
		t->d->layer->slice(t->d, &back, 1);
		to += part;
	}
	check(t, "y", y);
	for (int k = 0; k < 8; k++)
		if (dx[k]) {
			snprintf(name, sizeof name, "dx%d", k);
			check(t, name, dx[k]);
		}
}

void
run_shortcut(struct layer_case *t)
{
	const struct st_tensor *x = tensor(t, "x"), *f;
	int c = (int)x->dim[1], rows = (int)(x->n / x->dim[1]);
	float *y = input(t, "x"), *z = fresh(t, x->n), *dy = input(t, "dy"), *df;
	struct slice s = { rows, 0, NULL, 0, 0, y, c, 0 };
	struct slice back = { rows, 0, dy, c, 0, NULL, 0, 0 };
	char name[16];

	for (int k = 0; k < 8; k++) {
		snprintf(name, sizeof name, "from%d", k);
		if (!(f = st_find(t->g->st, name)))
			break;
		s.c = c < (int)f->dim[1] ? c : (int)f->dim[1];
		s.src = input(t, name);
		s.src_c = (int)f->dim[1];
		t->d->layer->slice(t->d, &s, 1);
	}
	t->d->layer->activate(t->d, (int)x->n, act_of(t), y, z);
	check(t, "y", z);
	t->d->layer->activate_back(t->d, (int)x->n, act_of(t), y, dy);
	check(t, "dx", dy);
	t->d->layer->accumulate(t->d, (int)x->n, dy, z, 0);
	check(t, "dx", z);
	for (int k = 0; k < 8; k++) {
		snprintf(name, sizeof name, "from%d", k);
		if (!(f = st_find(t->g->st, name)))
			break;
		df = fresh(t, f->n);
		back.c = c < (int)f->dim[1] ? c : (int)f->dim[1];
		back.dst = df;
		back.dst_c = (int)f->dim[1];
		t->d->layer->slice(t->d, &back, 1);
		snprintf(name, sizeof name, "dfrom%d", k);
		check(t, name, df);
	}
}

void
run_scale(struct layer_case *t)
{
	int n = (int)tensor(t, "y")->n;
	struct plane_shape s = { t->n, t->h * t->w, t->c, ipar(t, "scale_wh", 0) };
	int sam = !strcmp(gold_str(t->g->j, "op", ""), "sam");
	float *x = input(t, "x"), *f = input(t, "source"), *u = fresh(t, n), *y = fresh(t, n);
	float *dy = input(t, "dy"), *dx = fresh(t, tensor(t, "x")->n), *df = fresh(t, n);
	const struct layer_ops *o = t->d->layer;

	if (sam)
		o->sam(t->d, n, x, f, u);
	else
		o->scale(t->d, &s, x, f, u);
	o->activate(t->d, n, act_of(t), u, y);
	check(t, "y", y);
	o->activate_back(t->d, n, act_of(t), u, dy);
	for (int add = 1; add >= 0; add--) {
		if (sam) {
			o->sam_back(t->d, n, f, dy, dx, add);
			o->sam_back(t->d, n, x, dy, df, add);
		} else {
			o->scale_back_x(t->d, &s, f, dy, dx, add);
			o->scale_back_f(t->d, &s, x, dy, df, add);
		}
		check(t, "dx", dx);
		check(t, "dsource", df);
	}
}

void
run_reorg(struct layer_case *t)
{
	struct stride_shape s = { t->n, t->h, t->w, t->c, ipar(t, "stride", 2),
		ipar(t, "reverse", 0), 1 };
	int deep = !strcmp(gold_str(t->g->j, "op", ""), "reorg3d");
	float *x = input(t, "x"), *y = fresh(t, tensor(t, "y")->n), *dy = input(t, "dy");
	float *dx = fresh(t, tensor(t, "x")->n);
	const struct layer_ops *o = t->d->layer;

	if (deep)
		o->reorg3d(t->d, &s, x, y);
	else
		o->reorg(t->d, &s, x, y);
	check(t, "y", y);
	for (int add = 1; add >= 0; add--) {
		if (deep)
			o->reorg3d_back(t->d, &s, dy, dx, add);
		else
			o->reorg_back(t->d, &s, dy, dx, add);
		check(t, "dx", dx);
	}
}

void
run_avgpool(struct layer_case *t)
{
	float *y = fresh(t, tensor(t, "y")->n), *dx = fresh(t, tensor(t, "x")->n),
	    *dy = input(t, "dy");
	struct plane_shape s = { t->n, t->h * t->w, t->c, 0 };

	t->d->layer->avgpool(t->d, &s, input(t, "x"), y);
	check(t, "y", y);
	for (int add = 1; add >= 0; add--) {
		t->d->layer->avgpool_back(t->d, &s, dy, dx, add);
		check(t, "dx", dx);
	}
}

/* The mask is a matter of the generator; with it given, what is left is the product and 1/(1-p).
 * p = 0 keeps all: the identity of inference.  Ours must scale what it keeps like the mask does. */
void
run_dropout(struct layer_case *t)
{
	int n = (int)tensor(t, "x")->n, kept = 0;
	float p = (float)par(t, "probability", .5), *x = input(t, "x"), *y = fresh(t, n);
	float *dy = input(t, "dy");
	float *hx = gold_get_stored(t->d, x, n), *hy, *dx = fresh(t, n), *mask, *hd;
	const struct dropout none = { 0, 1, 0 }, drop = { p, 7, 3 };

	if (strcmp(gold_str(t->g->j, "params.mode", "inference"), "training")) {
		t->d->layer->dropout(t->d, n, &none, x, y);
		check(t, "y", y);
		t->d->layer->dropout_back(t->d, n, &none, dy, dx, 1);
		check(t, "dx", dx);
		free(hx);
		return;
	}
	mask = input(t, "mask");
	t->d->layer->sam(t->d, n, x, mask, y);
	t->d->layer->sam(t->d, n, dy, mask, dx);
	t->d->layer->dropout(t->d, n, &drop, x, x);
	t->d->layer->dropout_back(t->d, n, &drop, dy, dy, 0);
	hy = gold_get_stored(t->d, x, n);
	hd = gold_get_stored(t->d, dy, n);
	for (int i = 0; i < n; i++) {
		kept += hy[i] != 0;
		if ((hy[i] != 0) != (hd[i] != 0) || (hy[i] != 0 && fabsf(hy[i] -
		    hx[i] / (1 - p)) > (t->g->bf16 ? fabsf(hy[i]) / 256 : 0)))
			t->bad += !t->bad && err_set(t->e, "dropout[%d]: %g from %g", i, hy[i],
			    hx[i]);
	}
	if (kept < n * (1 - p) * .7f || kept > n * (1 - p) * 1.3f)
		t->bad += !t->bad && err_set(t->e, "dropout kept %d of %d at p = %g", kept, n, p);
	free(hy);
	free(hd);
	free(hx);
	hx = gold_get_stored(t->d, y, n);
	for (int i = 0; i < n; i++)
		hx[i] /= 1 - p;
	t->mem[t->nmem++] = y = (float *)gold_put_stored(t->d, hx, n);
	check(t, "y", y);
	free(hx);
}

void
run_head(struct layer_case *t)
{
	struct head_shape s = { t->n * t->h * t->w, ipar(t, "num", 0), ipar(t, "classes", 1),
		(float)par(t, "scale_x_y", 1), ipar(t, "new_coords", 0), ipar(t, "softmax", 1) };
	yajl_val mask = gold_get(t->g->j, "params.mask");
	float *x = input(t, "x"), *y = fresh(t, tensor(t, "y")->n);

	if (!strcmp(gold_str(t->g->j, "op", ""), "yolo")) {
		s.anchors = (int)YAJL_GET_ARRAY(mask)->len;
		t->d->layer->yolo(t->d, &s, x, y);
	} else
		t->d->layer->region(t->d, &s, x, y);
	check(t, "y", y);
}
