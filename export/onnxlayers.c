/* onnxlayers.c -- each layer of a cfg as nodes.
 *
 * Tensors are [N,C,H,W].  A layer that changes nothing is the value of the one that it repeats, as
 * in net/netplan.c: a route of one source, a dropout, a head.  With 8 bits a value that goes to
 * quantised layers is brought to bytes and back, before the activation too where a runtime fuses
 * the convolution alone. */
#include <stdlib.h>
#include <string.h>

#include "export/int.h"

static void
shape_of(const struct onnx *g, const struct layer *l, int64_t dim[4])
{
	dim[0] = g->o->batch ? g->o->batch : DIM_N;
	dim[1] = l->c;
	dim[2] = l->h;
	dim[3] = l->w;
}

static enum onnx_type
number(const struct onnx *g)
{
	return g->o->numbers == NUMBERS_FP16 ? T_HALF : T_FLOAT;
}

/* What the layer before gives; for the first the input. */
static int
before(const struct onnx *g, int i)
{
	return g->layer[i - 1];
}

/* ---- 8 bits -------------------------------------------------------------------------------- */

static int
bytes_and_back(struct onnx *g, int x, const struct point *p)
{
	struct value v = g->v[x];
	enum onnx_type t = g->o->quant->symmetric ? T_I8 : T_U8;
	int in[3] = { x, -1, -1 }, y;

	if (!(p->scale > 0))
		return x;
	in[1] = onnx_scalar(g, T_FLOAT, p->scale);
	in[2] = onnx_scalar(g, t, p->zero);
	y = onnx_value(g, NULL, t, v.nd, v.dim);
	onnx_node(g, "QuantizeLinear", y, 3, in);
	in[0] = y;
	y = onnx_value(g, NULL, T_FLOAT, v.nd, v.dim);
	onnx_node(g, "DequantizeLinear", y, 3, in);
	g->v[y].scale = p->scale;
	return y;
}

/* A constant of 8 or 32 bits with a step for each filter, as float. */
static int
stepped(struct onnx *g, int constant, int k, const float *step)
{
	struct value v = g->v[constant];
	int64_t dim = k;
	int y = onnx_value(g, NULL, T_FLOAT, v.nd, v.dim);
	int in[3] = { constant, onnx_floats(g, T_FLOAT, 1, &dim, step), -1 };
	float *none = (float *)xcalloc((size_t)k, sizeof *none);

	if (v.type == T_I8)
		in[2] = onnx_floats(g, T_I8, 1, &dim, none);
	attr_int(onnx_node(g, "DequantizeLinear", y, v.type == T_I8 ? 3 : 2, in), "axis", 0);
	free(none);
	return y;
}

/* Kernel and bias of an int8 convolution. */
static void
kernel8(struct onnx *g, int i, int in[3])
{
	const struct param *p = params_find(g->m->par, i, P_WEIGHT);
	int64_t dim[4] = { p->o, p->i, p->s, p->s };
	float *step = (float *)xmalloc((size_t)p->o * sizeof *step), scale = g->v[in[0]].scale;

	layer_steps(g->m, i, step);
	in[1] = stepped(g, onnx_of_layer(g, i, PART_WEIGHT, T_I8, 4, dim), p->o, step);
	for (int o = 0; o < p->o; o++)
		step[o] *= scale;
	in[2] = onnx_of_layer(g, i, PART_BIAS, T_I32, 1, dim);
	g->con[g->nc - 1].scale = scale;
	in[2] = stepped(g, in[2], p->o, step);
	free(step);
}

/* ---- convolution --------------------------------------------------------------------------- */

static int
activate(struct onnx *g, int x, enum act a)
{
	int y;

	switch (a) {
	case ACT_LEAKY:
		y = onnx_unary(g, "LeakyRelu", x);
		attr_float(&g->node[g->nn - 1], "alpha", .1f);
		return y;
	case ACT_LOGISTIC: return onnx_unary(g, "Sigmoid", x);
	case ACT_RELU: return onnx_unary(g, "Relu", x);
	case ACT_MISH:
		return onnx_binary(g, "Mul", x,
		    onnx_unary(g, "Tanh", onnx_unary(g, "Softplus", x)));
	case ACT_SWISH: return onnx_binary(g, "Mul", x, onnx_unary(g, "Sigmoid", x));
	default: return x;
	}
}

static int
batch_norm(struct onnx *g, int x, int i)
{
	int64_t dim = g->m->cfg->l[i].c;
	int in[5] = { x }, y = onnx_value(g, NULL, g->v[x].type, 4, g->v[x].dim);

	for (int k = 0; k < 4; k++)
		in[k + 1] = onnx_of_layer(g, i, (enum part)(PART_GAMMA + k), number(g), 1, &dim);
	attr_float(onnx_node(g, "BatchNormalization", y, 5, in), "epsilon", 1e-5f);
	return y;
}

static int
conv(struct onnx *g, int i)
{
	const struct layer *l = &g->m->cfg->l[i];
	const struct def_conv *d = &l->u.conv;
	const struct param *p = params_find(g->m->par, i, P_WEIGHT);
	const struct quant *q = g->o->quant;
	int64_t dim[4], kernel[4] = { p->o, p->i, p->s, p->s }, pads[4] = { d->pad, d->pad, d->pad,
		d->pad };
	int keep = d->bn && g->o->bn, in[3] = { before(g, i), -1, -1 }, y;
	struct node *n;

	if (q && q->conv[i] && g->v[in[0]].scale > 0)
		kernel8(g, i, in);
	else {
		in[1] = onnx_of_layer(g, i, PART_WEIGHT, number(g), 4, kernel);
		if (!keep)
			in[2] = onnx_of_layer(g, i, PART_BIAS, number(g), 1, kernel);
	}
	shape_of(g, l, dim);
	y = onnx_value(g, NULL, number(g), 4, dim);
	n = onnx_node(g, "Conv", y, keep ? 2 : 3, in);
	attr_pair(n, "dilations", d->dilation, d->dilation);
	attr_int(n, "group", d->groups);
	attr_pair(n, "kernel_shape", d->size, d->size);
	attr_ints(n, "pads", 4, pads);
	attr_pair(n, "strides", d->stride_y, d->stride_x);
	if (keep)
		y = batch_norm(g, y, i);
	if (q)
		y = bytes_and_back(g, y, &q->pre[i]);
	return activate(g, y, d->act);
}

/* ---- the others ---------------------------------------------------------------------------- */

/* Windows reach past both edges where the layer's padding lets them; what is not there counts for
 * nothing.  The total is split as darknet does: the larger half behind. */
static int
maxpool(struct onnx *g, int i)
{
	const struct layer *l = &g->m->cfg->l[i];
	const struct def_pool *d = &l->u.pool;
	int64_t dim[4], front = d->padding / 2, back = d->padding - front;
	int64_t pads[4] = { front, front, back, back };
	int x = before(g, i), y;
	struct node *n;

	shape_of(g, l, dim);
	y = onnx_value(g, NULL, g->v[x].type, 4, dim);
	n = onnx_node(g, "MaxPool", y, 1, &x);
	attr_pair(n, "kernel_shape", d->size, d->size);
	attr_ints(n, "pads", 4, pads);
	attr_pair(n, "strides", d->stride_y, d->stride_x);
	return y;
}

static int
upsample(struct onnx *g, int i)
{
	const struct layer *l = &g->m->cfg->l[i];
	const struct def_stride *d = &l->u.stride;
	float scale[4] = { 1, 1, (float)d->stride, (float)d->stride };
	int64_t dim[4], four = 4, none = 0;
	int x = before(g, i), in[3] = { x, onnx_floats(g, T_FLOAT, 1, &none, NULL),
		onnx_floats(g, T_FLOAT, 1, &four, scale) }, y;
	struct node *n;

	shape_of(g, l, dim);
	y = onnx_value(g, NULL, g->v[x].type, 4, dim);
	n = onnx_node(g, "Resize", y, 3, in);
	attr_text(n, "coordinate_transformation_mode", "asymmetric");
	attr_text(n, "mode", "nearest");
	attr_text(n, "nearest_mode", "floor");
	return d->scale == 1 ? y : onnx_binary(g, "Mul", y, onnx_scalar(g, number(g), d->scale));
}

static int
route(struct onnx *g, int i)
{
	const struct def_join *d = &g->m->cfg->l[i].u.join;
	int in[LAYER_SRC];

	for (int k = 0; k < d->n; k++) {
		int part = g->m->cfg->l[d->src[k]].c / d->groups;

		in[k] = g->layer[d->src[k]];
		if (d->groups > 1)
			in[k] = onnx_slice(g, in[k], 1, (int64_t)part * d->group_id,
			    (int64_t)part * (d->group_id + 1));
	}
	return onnx_concat(g, 1, d->n, in);
}

/* Of sources with other numbers of channels the first ones are added. */
static int
shortcut(struct onnx *g, int i)
{
	const struct layer *l = &g->m->cfg->l[i];
	const struct def_join *d = &l->u.join;
	int y = before(g, i);

	for (int k = 0; k < d->n; k++) {
		int x = g->layer[d->src[k]], c = g->m->cfg->l[d->src[k]].c, part[2];

		if (c == l->c)
			y = onnx_binary(g, "Add", y, x);
		else if (c > l->c)
			y = onnx_binary(g, "Add", y, onnx_slice(g, x, 1, 0, l->c));
		else {
			part[0] = onnx_binary(g, "Add", onnx_slice(g, y, 1, 0, c), x);
			part[1] = onnx_slice(g, y, 1, c, l->c);
			y = onnx_concat(g, 1, 2, part);
		}
	}
	return activate(g, y, d->act);
}

static int
scale(struct onnx *g, int i)
{
	const struct def_scale *d = &g->m->cfg->l[i].u.scale;

	return activate(g, onnx_binary(g, "Mul", g->layer[d->src], before(g, i)), d->act);
}

static int
avgpool(struct onnx *g, int i)
{
	int x = before(g, i), y;
	int64_t dim[4];

	shape_of(g, &g->m->cfg->l[i], dim);
	y = onnx_value(g, NULL, g->v[x].type, 4, dim);
	onnx_node(g, "GlobalAveragePool", y, 1, &x);
	return y;
}

static int
blocks(struct onnx *g, const char *op, int x, int s, int deeper)
{
	struct value v = g->v[x];
	int y;

	v.dim[1] = deeper ? v.dim[1] * s * s : v.dim[1] / (s * s);
	v.dim[2] = deeper ? v.dim[2] / s : v.dim[2] * s;
	v.dim[3] = deeper ? v.dim[3] / s : v.dim[3] * s;
	y = onnx_value(g, NULL, v.type, 4, v.dim);
	attr_int(onnx_node(g, op, y, 1, &x), "blocksize", s);
	return y;
}

/* reorg3d is space to depth.  Darknet's reorg is it too, but of a map that it takes for one of
 * c/(s*s) channels and larger sides; reversed it is depth to space. */
static int
reorg(struct onnx *g, int i)
{
	const struct layer *l = &g->m->cfg->l[i];
	int s = l->u.stride.stride, x = before(g, i);
	int64_t dim[4], wide[4];

	if (l->u.stride.reverse)
		return blocks(g, "DepthToSpace", x, s, 0);
	if (l->type == L_REORG3D)
		return blocks(g, "SpaceToDepth", x, s, 1);
	shape_of(g, l, dim);
	wide[0] = dim[0];
	wide[1] = l->in_c / (s * s);
	wide[2] = (int64_t)l->in_h * s;
	wide[3] = (int64_t)l->in_w * s;
	x = onnx_reshape(g, x, 4, wide);
	return onnx_reshape(g, blocks(g, "SpaceToDepth", x, s, 1), 4, dim);
}

static int
nodes_of(struct onnx *g, int i)
{
	switch (g->m->cfg->l[i].type) {
	case L_CONV: return conv(g, i);
	case L_MAXPOOL: return maxpool(g, i);
	case L_UPSAMPLE: return upsample(g, i);
	case L_ROUTE: return route(g, i);
	case L_SHORTCUT: return shortcut(g, i);
	case L_REORG: case L_REORG3D: return reorg(g, i);
	case L_AVGPOOL: return avgpool(g, i);
	case L_SCALE: case L_SAM: return scale(g, i);
	default: return before(g, i);
	}
}

void
onnx_layer(struct onnx *g, int i)
{
	int had = (int)g->nv, y = nodes_of(g, i);

	if (g->o->quant && y >= had)
		y = bytes_and_back(g, y, &g->o->quant->out[i]);
	if (y >= had)
		onnx_name(g, y, xasprintf("layer%d", i));
	g->layer[i] = y;
}

int
onnx_input(struct onnx *g)
{
	const struct layer *l = &g->m->cfg->l[0];
	int64_t n = g->o->batch ? g->o->batch : DIM_N;
	int64_t bytes[4] = { n, l->in_h, l->in_w, l->in_c }, plain[4] = { n, l->in_c, l->in_h,
		l->in_w };
	const int64_t planes[4] = { 0, 3, 1, 2 };
	int x = g->o->u8hwc ? onnx_value(g, "images", T_U8, 4, bytes) :
	    onnx_value(g, "images", T_FLOAT, 4, plain);

	g->in = (int *)xmalloc(sizeof *g->in);
	g->in[g->nin++] = x;
	if (g->o->u8hwc) {
		x = onnx_cast(g, onnx_transpose(g, x, planes), T_FLOAT);
		x = onnx_binary(g, "Div", x, onnx_scalar(g, T_FLOAT, 255));
	}
	x = onnx_cast(g, x, number(g));
	return g->o->quant ? bytes_and_back(g, x, &g->o->quant->in) : x;
}
