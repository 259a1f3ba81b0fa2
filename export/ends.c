/* ends.c -- how a graph ends: raw values of the heads, boxes and scores, or detections.
 *
 * Boxes are numbered as in detect/detect.c, by head, anchor, row, column, and the formulas are
 * those: centre (col + k*s(x) - (k-1)/2) cells, size anchor*exp(w), with new_coords anchor*4*w^2
 * on values that went through the logistic already.  All of it in float: a size is the exponential
 * of what would be rounded.  Constants carry the pixels of a cell: a box costs two products. */
#include <stdlib.h>
#include <string.h>

#include "export/int.h"

struct head {
	const struct layer *l;
	const struct def_yolo *d;
	int anchors;
	float w, h;			/* of the input, in the units of boxes */
};

static struct head
head_of(const struct onnx *g, int layer)
{
	const struct layer *l = &g->m->cfg->l[layer];
	struct head h = { .l = l, .d = &l->u.yolo };

	h.anchors = l->type == L_REGION ? h.d->num : h.d->nmask;
	h.w = g->o->fractions ? 1 : (float)g->m->cfg->l[0].in_w;
	h.h = g->o->fractions ? 1 : (float)g->m->cfg->l[0].in_h;
	return h;
}

/* Corner of each cell, less what scale_x_y takes off: [1,1,cells,2]. */
static int
grid(struct onnx *g, const struct head *h, float off)
{
	int64_t cells = (int64_t)h->l->h * h->l->w, dim[4] = { 1, 1, cells, 2 };
	float *v = (float *)xmalloc((size_t)cells * 2 * sizeof *v);
	int r;

	for (int64_t i = 0; i < cells; i++) {
		v[2 * i] = ((float)(i % h->l->w) - off) * (h->w / (float)h->l->w);
		v[2 * i + 1] = ((float)(i / h->l->w) - off) * (h->h / (float)h->l->h);
	}
	r = onnx_floats(g, T_FLOAT, 4, dim, v);
	free(v);
	return r;
}

/* What half a side is a multiple of: [1,anchors,1,2]. */
static int
halves(struct onnx *g, const struct head *h)
{
	int64_t dim[4] = { 1, h->anchors, 1, 2 };
	int region = h->l->type == L_REGION;
	float *v = (float *)xmalloc((size_t)h->anchors * 2 * sizeof *v);
	float times = h->d->new_coords ? 2 : .5f;
	float sx = region ? h->w / (float)h->l->w : h->w / (float)g->m->cfg->l[0].in_w;
	float sy = region ? h->h / (float)h->l->h : h->h / (float)g->m->cfg->l[0].in_h;
	int r;

	for (int a = 0; a < h->anchors; a++) {
		const float *anchor = h->d->anchor + 2 * (region ? a : h->d->mask[a]);

		v[2 * a] = times * anchor[0] * sx;
		v[2 * a + 1] = times * anchor[1] * sy;
	}
	r = onnx_floats(g, T_FLOAT, 4, dim, v);
	free(v);
	return r;
}

static int
probability(struct onnx *g, const struct head *h, int x)
{
	return h->d->new_coords ? x : onnx_unary(g, "Sigmoid", x);
}

/* t: [N,A,cells,5+C]; boxes [N,A*cells,4]. */
static int
boxes_of(struct onnx *g, const struct head *h, int t, int64_t n)
{
	float k = h->l->type == L_REGION ? 1 : h->d->scale_x_y;
	float cell[2] = { k * (h->w / (float)h->l->w), k * (h->h / (float)h->l->h) };
	int64_t two = 2, dim[3] = { n, (int64_t)h->anchors * h->l->h * h->l->w, 4 };
	int xy = probability(g, h, onnx_slice(g, t, 3, 0, 2)), wh = onnx_slice(g, t, 3, 2, 4);
	int ends[2];

	xy = onnx_binary(g, "Mul", xy, onnx_floats(g, T_FLOAT, 1, &two, cell));
	xy = onnx_binary(g, "Add", xy, grid(g, h, (k - 1) / 2));
	wh = h->d->new_coords ? onnx_binary(g, "Mul", wh, wh) : onnx_unary(g, "Exp", wh);
	wh = onnx_binary(g, "Mul", wh, halves(g, h));
	ends[0] = onnx_binary(g, "Sub", xy, wh);
	ends[1] = onnx_binary(g, "Add", xy, wh);
	return onnx_reshape(g, onnx_concat(g, 3, 2, ends), 3, dim);
}

static int
scores_of(struct onnx *g, const struct head *h, int t, int64_t n)
{
	int c = h->d->classes;
	int64_t dim[3] = { n, (int64_t)h->anchors * h->l->h * h->l->w, c };
	int obj = probability(g, h, onnx_slice(g, t, 3, 4, 5)), cls = onnx_slice(g, t, 3, 5, 5 + c);

	if (g->o->softmax || (h->l->type == L_REGION && h->d->softmax)) {
		cls = onnx_unary(g, "Softmax", cls);
		attr_int(&g->node[g->nn - 1], "axis", 3);
	} else
		cls = probability(g, h, cls);
	return onnx_reshape(g, onnx_binary(g, "Mul", cls, obj), 3, dim);
}

/* From a head's convolution [N,A*(5+C),H,W]. */
static void
decode(struct onnx *g, int layer, int raw, int *boxes, int *scores)
{
	struct head h = head_of(g, layer);
	int64_t n = g->v[raw].dim[0], cells = (int64_t)h.l->h * h.l->w;
	int64_t apart[4] = { n, h.anchors, 5 + h.d->classes, cells };
	const int64_t last[4] = { 0, 1, 3, 2 };
	int t = onnx_transpose(g, onnx_reshape(g, raw, 4, apart), last);

	*boxes = boxes_of(g, &h, t, n);
	*scores = scores_of(g, &h, t, n);
}

/* Column c of the list that suppression leaves, [found]. */
static int
column(struct onnx *g, int list, int c)
{
	int64_t found = DIM_FOUND;
	int y = onnx_value(g, NULL, T_I64, 1, &found), in[2] = { list, onnx_scalar(g, T_I64, c) };

	attr_int(onnx_node(g, "Gather", y, 2, in), "axis", 1);
	return y;
}

/* a * times + b, whole numbers. */
static int
index_of(struct onnx *g, int a, int64_t times, int b)
{
	return onnx_binary(g, "Add",
	    onnx_binary(g, "Mul", a, onnx_scalar(g, T_I64, (double)times)), b);
}

static int
rows(struct onnx *g, int table, int which, int64_t wide)
{
	int64_t dim[2] = { DIM_FOUND, wide };
	int y = onnx_value(g, NULL, T_FLOAT, wide ? 2 : 1, dim), in[2] = { table, which };

	attr_int(onnx_node(g, "Gather", y, 2, in), "axis", 0);
	return y;
}

/* Detections as rows: picture, class, score, x1, y1, x2, y2. */
static int
suppress(struct onnx *g, int boxes, int scores)
{
	const int64_t m = g->v[boxes].dim[1], c = g->v[scores].dim[2], one = 1;
	const int64_t found[2] = { DIM_FOUND, 3 }, column1[2] = { DIM_FOUND, 1 };
	const int64_t n = g->v[boxes].dim[0], planes[3] = { 0, 2, 1 };
	const int64_t table[2] = { n > 0 ? n * m : DIM_N, 4 };
	const int64_t line = n > 0 ? n * c * m : DIM_N;
	int by_class = onnx_transpose(g, scores, planes);
	float max = (float)g->o->max_det, iou = (float)g->o->iou, least = (float)g->o->score;
	int in[5] = { boxes, by_class, onnx_floats(g, T_I64, 1, &one, &max),
		onnx_floats(g, T_FLOAT, 1, &one, &iou),
		onnx_floats(g, T_FLOAT, 1, &one, &least) };
	int list = onnx_value(g, NULL, T_I64, 2, found), part[3], pic, cls, box;

	onnx_node(g, "NonMaxSuppression", list, 5, in);
	pic = column(g, list, 0);
	cls = column(g, list, 1);
	box = column(g, list, 2);
	boxes = onnx_reshape(g, boxes, 2, table);
	scores = onnx_reshape(g, by_class, 1, &line);
	part[0] = onnx_cast(g, onnx_slice(g, list, 1, 0, 2), T_FLOAT);
	part[1] = rows(g, scores, index_of(g, index_of(g, pic, c, cls), m, box), 0);
	part[1] = onnx_reshape(g, part[1], 2, column1);
	part[2] = rows(g, boxes, index_of(g, pic, m, box), 4);
	return onnx_concat(g, 1, 3, part);
}

static void
goes_out(struct onnx *g, int value, const char *name)
{
	onnx_name(g, value, xstrdup(name));
	g->out[g->nout++] = value;
}

static void
decoded_ends(struct onnx *g, int n, const int *head)
{
	int boxes[MAX_HEADS], scores[MAX_HEADS], b, s;

	for (int i = 0; i < n; i++)
		decode(g, head[i], onnx_cast(g, g->layer[head[i] - 1], T_FLOAT), &boxes[i],
		    &scores[i]);
	b = onnx_concat(g, 1, n, boxes);
	s = onnx_concat(g, 1, n, scores);
	if (g->o->ends == ENDS_NMS) {
		goes_out(g, suppress(g, b, s), "detections");
		return;
	}
	goes_out(g, b, "boxes");
	goes_out(g, s, "scores");
}

void
onnx_ends(struct onnx *g)
{
	int head[MAX_HEADS], n = cfg_heads(g->m->cfg, head, MAX_HEADS), y;

	g->out = (int *)xcalloc(MAX_HEADS + 2, sizeof *g->out);
	if (n && g->o->ends != ENDS_RAW) {
		decoded_ends(g, n, head);
		return;
	}
	for (int i = 0; i < n; i++) {
		char *name = xasprintf("head%d", i);

		goes_out(g, onnx_cast(g, g->layer[head[i] - 1], T_FLOAT), name);
		free(name);
	}
	if (!n) {
		y = onnx_cast(g, g->layer[g->m->cfg->nl - 1], T_FLOAT);
		goes_out(g, y == g->in[0] ? onnx_unary(g, "Identity", y) : y, "output");
	}
}
