/* onnx.c -- a graph of ONNX in memory, and its file.
 *
 * Values are numbered; a node has values that it reads and one that it makes; shapes of all are
 * known when they are made and stand in the file.  Constants of a few numbers are kept, those of a
 * layer are made when they are written: the lengths of all are known before, so that the file
 * streams.  The field numbers below are those of onnx.proto. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "export/int.h"

enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8,
	MODEL_META = 14 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_IN = 11, GRAPH_OUT = 12,
	GRAPH_VALUE = 13 };
enum { NODE_IN = 1, NODE_OUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTR = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };

/* The version of the operator set since which an operator has the form used here, where that is
 * later than 9; no form used here ended in a later one. */
static const struct { const char *op; int since; } since[] = {
	{ "Resize", 11 }, { "Slice", 10 },
	{ "NonMaxSuppression", 11 }, { "QuantizeLinear", 13 }, { "DequantizeLinear", 13 },
};


/* ---- making a graph ------------------------------------------------------------------------ */

int
onnx_value(struct onnx *g, const char *name, enum onnx_type type, int nd, const int64_t *dim)
{
	struct value v = { .type = type, .nd = nd };

	for (int i = 0; i < nd; i++)	/* before the table may move, where dim can lie */
		v.dim[i] = dim[i];
	v.name = name ? xstrdup(name) : xasprintf("v%d", g->made++);
	g->v = (struct value *)xgrow(g->v, &g->capv, g->nv + 1, sizeof *g->v);
	g->v[g->nv] = v;
	return (int)g->nv++;
}

void
onnx_name(struct onnx *g, int value, char *name)
{
	free(g->v[value].name);
	g->v[value].name = name;
}

struct node *
onnx_node(struct onnx *g, const char *op, int out, int nin, const int *in)
{
	struct node *n;

	g->node = (struct node *)xgrow(g->node, &g->capn, g->nn + 1, sizeof *g->node);
	n = &g->node[g->nn++];
	memset(n, 0, sizeof *n);
	n->op = op;
	n->out = out;
	n->nin = nin;
	memcpy(n->in, in, (size_t)nin * sizeof *in);
	for (size_t i = 0; i < sizeof since / sizeof *since; i++)
		if (!strcmp(since[i].op, op) && since[i].since > g->opset)
			g->opset = since[i].since;
	return n;
}

static struct attr *
attr(struct node *n, const char *name, int kind)
{
	struct attr *a = &n->a[n->na++];

	a->name = name;
	a->kind = kind;
	return a;
}

void
attr_int(struct node *n, const char *name, int64_t v)
{
	attr(n, name, A_INT)->i = v;
}

void
attr_float(struct node *n, const char *name, float v)
{
	attr(n, name, A_FLOAT)->f = v;
}

void
attr_ints(struct node *n, const char *name, int many, const int64_t *v)
{
	struct attr *a = attr(n, name, A_INTS);

	a->n = many;
	memcpy(a->ints, v, (size_t)many * sizeof *v);
}

void
attr_pair(struct node *n, const char *name, int64_t a, int64_t b)
{
	const int64_t v[2] = { a, b };

	attr_ints(n, name, 2, v);
}

void
attr_text(struct node *n, const char *name, const char *s)
{
	attr(n, name, A_TEXT)->s = s;
}

int
onnx_unary(struct onnx *g, const char *op, int x)
{
	struct value v = g->v[x];
	int out = onnx_value(g, NULL, v.type, v.nd, v.dim);

	onnx_node(g, op, out, 1, &x);
	return out;
}

/* Shapes meet at their last dimensions; 1 stretches. */
int
onnx_binary(struct onnx *g, const char *op, int a, int b)
{
	struct value x = g->v[a], y = g->v[b], z = x.nd >= y.nd ? x : y;
	int out, in[2] = { a, b };

	for (int i = 1; i <= z.nd; i++) {
		int64_t p = i <= x.nd ? x.dim[x.nd - i] : 1, q = i <= y.nd ? y.dim[y.nd - i] : 1;

		z.dim[z.nd - i] = p == 1 ? q : p;
	}
	out = onnx_value(g, NULL, x.type, z.nd, z.dim);
	onnx_node(g, op, out, 2, in);
	return out;
}

/* ---- constants, and what needs them -------------------------------------------------------- */

static size_t
type_size(enum onnx_type t)
{
	return t == T_I64 ? 8 : t == T_FLOAT || t == T_I32 ? 4 : t == T_HALF ? 2 : 1;
}

static size_t
numbers_of(const struct value *v)
{
	size_t n = 1;

	for (int i = 0; i < v->nd; i++)
		n *= (size_t)v->dim[i];
	return n;
}

static struct constant *
constant(struct onnx *g, enum onnx_type type, int nd, const int64_t *dim)
{
	struct constant *c;

	g->con = (struct constant *)xgrow(g->con, &g->capc, g->nc + 1, sizeof *g->con);
	c = &g->con[g->nc++];
	memset(c, 0, sizeof *c);
	c->value = onnx_value(g, NULL, type, nd, dim);
	c->bytes = numbers_of(&g->v[c->value]) * type_size(type);
	return c;
}

/* Of one dimension. */
static int
whole(struct onnx *g, int n, const int64_t *v)
{
	int64_t dim = n;
	struct constant *c;

	for (size_t i = 0; i < g->nc; i++) {	/* the same shape is asked for often */
		const struct value *u = &g->v[g->con[i].value];

		if (u->type == T_I64 && u->nd == 1 && u->dim[0] == n &&
		    !memcmp(g->con[i].data, v, g->con[i].bytes))
			return g->con[i].value;
	}
	c = constant(g, T_I64, 1, &dim);
	c->data = xmalloc(c->bytes + 1);
	memcpy(c->data, v, c->bytes);
	return c->value;
}

/* At most one dimension is not known, and -1 stands for it in ONNX too. */
int
onnx_reshape(struct onnx *g, int x, int nd, const int64_t *dim)
{
	int64_t to[ONNX_DIMS] = { 0 };
	int in[2] = { x, 0 }, out;

	for (int i = 0; i < nd; i++)
		to[i] = dim[i] < 0 ? -1 : dim[i];
	in[1] = whole(g, nd, to);
	out = onnx_value(g, NULL, g->v[x].type, nd, dim);
	onnx_node(g, "Reshape", out, 2, in);
	return out;
}

int
onnx_transpose(struct onnx *g, int x, const int64_t *perm)
{
	struct value v = g->v[x];
	int64_t dim[ONNX_DIMS];
	int out;

	for (int i = 0; i < v.nd; i++)
		dim[i] = v.dim[perm[i]];
	out = onnx_value(g, NULL, v.type, v.nd, dim);
	attr_ints(onnx_node(g, "Transpose", out, 1, &x), "perm", v.nd, perm);
	return out;
}

int
onnx_cast(struct onnx *g, int x, enum onnx_type to)
{
	struct value v = g->v[x];
	int out;

	if (v.type == to)
		return x;
	out = onnx_value(g, NULL, to, v.nd, v.dim);
	attr_int(onnx_node(g, "Cast", out, 1, &x), "to", to);
	return out;
}

int
onnx_slice(struct onnx *g, int x, int axis, int64_t from, int64_t to)
{
	struct value v = g->v[x];
	int64_t ax = axis;
	int out, in[4] = { x, whole(g, 1, &from), whole(g, 1, &to),
		whole(g, 1, &ax) };

	v.dim[axis] = to - from;
	out = onnx_value(g, NULL, v.type, v.nd, v.dim);
	onnx_node(g, "Slice", out, 4, in);
	return out;
}

int
onnx_concat(struct onnx *g, int axis, int n, const int *x)
{
	struct value v = g->v[x[0]];
	int out;

	if (n == 1)
		return x[0];
	for (int i = 1; i < n; i++)
		v.dim[axis] += g->v[x[i]].dim[axis];
	out = onnx_value(g, NULL, v.type, v.nd, v.dim);
	attr_int(onnx_node(g, "Concat", out, n, x), "axis", axis);
	return out;
}

/* ---- constants of floats ------------------------------------------------------------------- */

/* IEEE's half: 10 bits of fraction, exponents -14 to 15, below them multiples of 2^-24. */
uint16_t
half_of(float x)
{
	uint32_t u, sign, man;
	int e, shift;

	memcpy(&u, &x, sizeof u);
	sign = u >> 16 & 0x8000;
	e = (int)(u >> 23 & 255) - 127;
	man = u & 0x7fffff;
	if (e == 128)
		return (uint16_t)(sign | 0x7c00 | (man ? 0x200 : 0));
	if (e < -25)
		return (uint16_t)sign;
	man |= 0x800000;
	shift = e < -14 ? 13 - 14 - e : 13;
	u = man >> shift;
	man &= ((uint32_t)1 << shift) - 1;
	if (man > (uint32_t)1 << (shift - 1) || (man == (uint32_t)1 << (shift - 1) && (u & 1)))
		u++;
	if (e >= -14)		/* u has its leading one: it makes the exponent 1 more */
		u += (uint32_t)(e + 14) << 10;
	return (uint16_t)(sign | (u > 0x7c00 ? 0x7c00 : u));
}

int
onnx_floats(struct onnx *g, enum onnx_type type, int nd, const int64_t *dim, const float *v)
{
	struct constant *c = constant(g, type, nd, dim);
	size_t n = numbers_of(&g->v[c->value]);

	c->data = xmalloc(c->bytes + 1);
	for (size_t i = 0; i < n; i++)
		switch (type) {
		case T_HALF: ((uint16_t *)c->data)[i] = half_of(v[i]); break;
		case T_U8: case T_I8:
			((unsigned char *)c->data)[i] = (unsigned char)(int)v[i]; break;
		case T_I64: ((int64_t *)c->data)[i] = (int64_t)v[i]; break;
		default: ((float *)c->data)[i] = v[i]; break;
		}
	return c->value;
}

int
onnx_scalar(struct onnx *g, enum onnx_type type, double v)
{
	float f = (float)v;

	return onnx_floats(g, type, 0, NULL, &f);
}

int
onnx_of_layer(struct onnx *g, int layer, enum part part, enum onnx_type type, int nd,
    const int64_t *dim)
{
	static const char *const names[] = { "weight", "bias", "gamma", "beta", "mean", "var" };
	struct constant *c = constant(g, type, nd, dim);

	c->layer = layer;
	c->part = part;
	onnx_name(g, c->value, xasprintf("layer%d_%s", layer, names[part]));
	return c->value;
}

void
onnx_meta(struct onnx *g, const char *key, const char *value)
{
	struct pb p = { 0 };

	pb_text(&p, 1, key);
	pb_text(&p, 2, value);
	pb_message(&g->meta, MODEL_META, &p);
}

/* ---- the file ------------------------------------------------------------------------------ */

static void
put_attr(struct pb *out, const struct attr *a)
{
	static const int type[] = { [A_INT] = 2, [A_FLOAT] = 1, [A_INTS] = 7, [A_TEXT] = 3 };
	struct pb p = { 0 };

	pb_text(&p, ATTR_NAME, a->name);
	switch (a->kind) {
	case A_INT: pb_int(&p, ATTR_I, a->i); break;
	case A_FLOAT: pb_float(&p, ATTR_F, a->f); break;
	case A_TEXT: pb_text(&p, ATTR_S, a->s); break;
	default:
		for (int i = 0; i < a->n; i++)
			pb_int(&p, ATTR_INTS, a->ints[i]);
	}
	pb_int(&p, ATTR_TYPE, type[a->kind]);
	pb_message(out, NODE_ATTR, &p);
}

static void
put_node(struct pb *out, const struct onnx *g, const struct node *n)
{
	struct pb p = { 0 };
	char *name = xasprintf("%s_%s", n->op, g->v[n->out].name);

	for (int i = 0; i < n->nin; i++)
		pb_text(&p, NODE_IN, n->in[i] < 0 ? "" : g->v[n->in[i]].name);
	pb_text(&p, NODE_OUT, g->v[n->out].name);
	pb_text(&p, NODE_NAME, name);
	pb_text(&p, NODE_OP, n->op);
	for (int i = 0; i < n->na; i++)
		put_attr(&p, &n->a[i]);
	pb_message(out, GRAPH_NODE, &p);
	free(name);
}

/* ValueInfo: its name and a tensor type of element type and dimensions, numbers or names. */
static void
put_value(struct pb *out, int field, const struct value *v)
{
	struct pb shape = { 0 }, tensor = { 0 }, type = { 0 }, p = { 0 };

	for (int i = 0; i < v->nd; i++) {
		struct pb d = { 0 };

		if (v->dim[i] < 0)
			pb_text(&d, 2, v->dim[i] == DIM_N ? "N" : "found");
		else
			pb_int(&d, 1, v->dim[i]);
		pb_message(&shape, 1, &d);
	}
	pb_int(&tensor, 1, v->type);
	pb_message(&tensor, 2, &shape);
	pb_message(&type, 1, &tensor);
	pb_text(&p, 1, v->name);
	pb_message(&p, 2, &type);
	pb_message(out, field, &p);
}

/* All of a constant's message but its bytes. */
static void
put_constant(struct pb *out, const struct onnx *g, const struct constant *c)
{
	const struct value *v = &g->v[c->value];

	for (int i = 0; i < v->nd; i++)
		pb_int(out, TENSOR_DIM, v->dim[i]);
	pb_int(out, TENSOR_TYPE, v->type);
	pb_text(out, TENSOR_NAME, v->name);
	pb_length(out, TENSOR_RAW, c->bytes);
}

static int
is_io(const struct onnx *g, int value)
{
	for (int i = 0; i < g->nin; i++)
		if (g->in[i] == value)
			return 1;
	for (int i = 0; i < g->nout; i++)
		if (g->out[i] == value)
			return 1;
	return 0;
}

/* What stands after the constants: inputs, outputs, the shapes of what lies between. */
static void
put_shapes(struct pb *p, const struct onnx *g)
{
	for (int i = 0; i < g->nin; i++)
		put_value(p, GRAPH_IN, &g->v[g->in[i]]);
	for (int i = 0; i < g->nout; i++)
		put_value(p, GRAPH_OUT, &g->v[g->out[i]]);
	for (size_t i = 0; i < g->nn; i++)
		if (!is_io(g, g->node[i].out))
			put_value(p, GRAPH_VALUE, &g->v[g->node[i].out]);
}

/* The format's version that goes with an operator set's. */
static int
ir_version(int opset)
{
	static const int from[] = { 25, 23, 21, 19, 15, 12, 11, 10 };
	static const int ir[] = { 12, 11, 10, 9, 8, 7, 6, 5 };

	for (size_t i = 0; i < sizeof from / sizeof *from; i++)
		if (opset >= from[i])
			return ir[i];
	return 4;
}

static void
put_head(struct pb *p, const struct onnx *g, size_t graph)
{
	struct pb set = { 0 };

	pb_int(p, MODEL_IR, ir_version(g->opset));
	pb_text(p, MODEL_PRODUCER, "yolo-export");
	pb_text(p, MODEL_VERSION, YOLO_VERSION);
	pb_text(&set, 1, "");
	pb_int(&set, 2, g->opset);
	pb_message(p, MODEL_OPSET, &set);
	pb_length(p, MODEL_GRAPH, graph);
}

static int
put_numbers(FILE *f, const struct onnx *g, const struct constant *c, struct err *e)
{
	void *tmp;
	int bad;

	if (c->data) {
		fwrite(c->data, 1, c->bytes, f);
		return 0;
	}
	tmp = xmalloc(c->bytes + 8);
	bad = layer_numbers(g, c, tmp, e);
	if (!bad)
		fwrite(tmp, 1, c->bytes, f);
	free(tmp);
	return bad;
}

static int
put_file(FILE *f, const struct onnx *g, const struct pb *head, const struct pb *first,
    const struct pb *con, const struct pb *last, struct err *e)
{
	fwrite(head->b, 1, head->n, f);
	fwrite(first->b, 1, first->n, f);
	for (size_t i = 0; i < g->nc && !ferror(f); i++) {
		fwrite(con[i].b, 1, con[i].n, f);
		if (put_numbers(f, g, &g->con[i], e))
			return -1;
	}
	fwrite(last->b, 1, last->n, f);
	fwrite(g->meta.b, 1, g->meta.n, f);
	return 0;
}

int
onnx_write(struct onnx *g, const char *path, struct err *e)
{
	struct pb head = { 0 }, first = { 0 }, last = { 0 };
	struct pb *con = (struct pb *)xcalloc(g->nc + 1, sizeof *con);
	size_t graph;
	struct outfile o;
	int bad;

	if (g->opset < g->o->opset)
		g->opset = g->o->opset;
	for (size_t i = 0; i < g->nn; i++)
		put_node(&first, g, &g->node[i]);
	pb_text(&first, GRAPH_NAME, "yolo");
	put_shapes(&last, g);
	graph = first.n + last.n;
	for (size_t i = 0; i < g->nc; i++) {
		struct pb body = { 0 };

		put_constant(&body, g, &g->con[i]);
		pb_length(&con[i], GRAPH_CONSTANT, body.n + g->con[i].bytes);
		con[i].b = (unsigned char *)xgrow(con[i].b, &con[i].cap, con[i].n + body.n, 1);
		memcpy(con[i].b + con[i].n, body.b, body.n);
		con[i].n += body.n;
		pb_free(&body);
		graph += con[i].n + g->con[i].bytes;
	}
	put_head(&head, g, graph);
	if (head.n + graph + g->meta.n > INT_MAX)
		bad = err_set(e, "%s: %.2f GB, but an ONNX file holds at most 2: -p fp16 halves it",
		    path, (double)graph / 1e9);
	else if (!(bad = out_open(&o, path, e))) {
		if (put_file(o.f, g, &head, &first, con, &last, e)) {
			out_abort(&o);
			bad = -1;
		} else
			bad = out_commit(&o, e);
	}
	for (size_t i = 0; i < g->nc; i++)
		pb_free(&con[i]);
	free(con);
	pb_free(&head);
	pb_free(&first);
	pb_free(&last);
	return bad;
}

void
onnx_free(struct onnx *g)
{
	for (size_t i = 0; i < g->nv; i++)
		free(g->v[i].name);
	for (size_t i = 0; i < g->nc; i++)
		free(g->con[i].data);
	free(g->v);
	free(g->node);
	free(g->con);
	free(g->in);
	free(g->out);
	free(g->layer);
	pb_free(&g->meta);
}
