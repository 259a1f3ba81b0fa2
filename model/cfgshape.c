/* cfgshape.c -- sizes of all layers, from the input on; what a cfg costs. */
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

enum { MAX_WEIGHTS = 1 << 30 };		/* of one layer; indices are int in kernels */

static int
bad(const struct cfg *c, int line, struct err *e, const char *fmt, ...)
{
	char say[800];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(say, sizeof say, fmt, ap);
	va_end(ap);
	return err_set(e, "%s:%d: %s", c->path, line, say);
}

/* The size of an output, kept within what int can hold. */
static int
put(const struct cfg *c, struct layer *l, long w, long h, long ch, struct err *e)
{
	if (w < 1 || h < 1 || ch < 1 || w > INT_MAX || h > INT_MAX || ch > INT_MAX ||
	    w * h > INT_MAX || w * h * ch > INT_MAX)
		return bad(c, l->line, e, "[%s]: an output of %ldx%ldx%ld: more than %d numbers",
		    layer_name(l->type), w, h, ch, INT_MAX);
	l->w = (int)w;
	l->h = (int)h;
	l->c = (int)ch;
	return 0;
}

static int
shape_conv(const struct cfg *c, struct layer *l, struct err *e)
{
	const struct def_conv *d = &l->u.conv;
	long reach = (d->size - 1) * d->dilation + 1, h = (long)l->in_h + 2 * d->pad - reach;
	long w = (long)l->in_w + 2 * d->pad - reach;

	if (l->in_c % d->groups || d->k % d->groups)
		return bad(c, l->line, e,
		    "groups=%d does not divide both the %d input channels and "
		    "filters=%d",
		    d->groups, l->in_c, d->k);
	if ((double)d->k * d->size * d->size * (l->in_c / d->groups) > MAX_WEIGHTS)
		return bad(c, l->key_line, e,
		    "filters=%d of %dx%dx%d: more than %d weights in a layer", d->k, d->size,
		    d->size, l->in_c / d->groups, MAX_WEIGHTS);
	if (h < 0 || w < 0)
		return bad(c, l->line, e, "a kernel of %ldx%ld does not fit its input of %dx%d",
		    reach, reach, l->in_w, l->in_h);
	return put(c, l, w / d->stride_x + 1, h / d->stride_y + 1, d->k, e);
}

static int
shape_pool(const struct cfg *c, struct layer *l, struct err *e)
{
	const struct def_pool *d = &l->u.pool;
	long h = (long)l->in_h + d->padding - d->size, w = (long)l->in_w + d->padding - d->size;

	if (h < 0 || w < 0)
		return bad(c, l->line, e, "a window of %dx%d does not fit its input of %dx%d",
		    d->size, d->size, l->in_w, l->in_h);
	return put(c, l, w / d->stride_x + 1, h / d->stride_y + 1, l->in_c, e);
}

static int
shape_route(const struct cfg *c, struct layer *l, struct err *e)
{
	const struct def_join *d = &l->u.join;
	const struct layer *first = &c->l[d->src[0]];
	long sum = 0;

	if (d->group_id >= d->groups)
		return bad(c, l->line, e, "group_id=%d, but groups=%d", d->group_id, d->groups);
	for (int i = 0; i < d->n; i++) {
		const struct layer *s = &c->l[d->src[i]];

		if (s->w != first->w || s->h != first->h)
			return bad(c, l->key_line, e,
			    "layers: layer %d is %dx%d, layer %d is %dx%d; a route joins "
			    "equal sizes",
			    d->src[0], first->w, first->h, d->src[i], s->w, s->h);
		if (s->c % d->groups)
			return bad(c, l->line, e,
			    "groups=%d does not divide the %d channels of layer %d", d->groups,
			    s->c, d->src[i]);
		sum += s->c / d->groups;
	}
	return put(c, l, first->w, first->h, sum, e);
}

static int
shape_shortcut(const struct cfg *c, struct layer *l, struct err *e)
{
	for (int i = 0; i < l->u.join.n; i++) {
		const struct layer *s = &c->l[l->u.join.src[i]];

		if (s->w != l->in_w || s->h != l->in_h)
			return bad(c, l->key_line, e,
			    "from: layer %d is %dx%d, the layer before is %dx%d; a "
			    "shortcut adds equal sizes",
			    l->u.join.src[i], s->w, s->h, l->in_w, l->in_h);
	}
	return put(c, l, l->in_w, l->in_h, l->in_c, e);
}

static int
shape_scale(const struct cfg *c, struct layer *l, struct err *e)
{
	const struct layer *s = &c->l[l->u.scale.src];
	int same = l->in_w == s->w && l->in_h == s->h, fits;
	const char *want;

	if (l->type == L_SAM) {
		fits = same && l->in_c == s->c;
		want = "the same size";
	} else if (l->u.scale.wh) {
		fits = same && l->in_c == 1;
		want = "one channel of the same size";
	} else {
		fits = l->in_c == s->c && l->in_w == 1 && l->in_h == 1;
		want = "1x1 and the same channels";
	}
	if (!fits)
		return bad(c, l->key_line, e,
		    "from: the layer before is %dx%dx%d, layer %d is %dx%dx%d; want "
		    "%s",
		    l->in_w, l->in_h, l->in_c, l->u.scale.src, s->w, s->h, s->c, want);
	return put(c, l, s->w, s->h, s->c, e);
}

static int
shape_reorg(const struct cfg *c, struct layer *l, struct err *e)
{
	int s = l->u.stride.stride, legacy = l->type == L_REORG;

	if (legacy && l->in_c % (s * s))
		return bad(c, l->line, e,
		    "%d input channels: want a multiple of stride x stride = %d", l->in_c, s * s);
	if (l->u.stride.reverse)
		return put(c, l, (long)l->in_w * s, (long)l->in_h * s, l->in_c / (s * s), e);
	if (l->in_w % s || l->in_h % s)
		return bad(c, l->line, e, "stride=%d does not divide the input of %dx%d", s,
		    l->in_w, l->in_h);
	return put(c, l, l->in_w / s, l->in_h / s, (long)l->in_c * s * s, e);
}

static int
shape_head(const struct cfg *c, struct layer *l, int i, struct err *e)
{
	const struct def_yolo *d = &l->u.yolo;
	int anchors = l->type == L_YOLO ? d->nmask : d->num;
	long want = (long)anchors * (d->classes + 5);

	if (i < 1 || c->l[i - 1].type != L_CONV)
		return bad(c, l->line, e,
		    "[%s]: a [convolutional] with filters=%ld must stand before it",
		    layer_name(l->type), want);
	if (want != l->in_c)
		return bad(c, c->l[i - 1].key_line, e,
		    "filters=%d before [%s]: want filters=%ld, %d anchors "
		    "x (%d classes + 5)",
		    l->in_c, layer_name(l->type), want, anchors, d->classes);
	if (c->net.w % l->in_w || c->net.h % l->in_h)
		return bad(c, l->line, e,
		    "[%s]: its grid of %dx%d does not divide the input of %dx%d",
		    layer_name(l->type), l->in_w, l->in_h, c->net.w, c->net.h);
	return put(c, l, l->in_w, l->in_h, l->in_c, e);
}

static int
shape(struct cfg *c, int i, struct err *e)
{
	struct layer *l = &c->l[i];
	int s = l->u.stride.stride;

	switch (l->type) {
	case L_CONV: return shape_conv(c, l, e);
	case L_MAXPOOL: return shape_pool(c, l, e);
	case L_ROUTE: return shape_route(c, l, e);
	case L_SHORTCUT: return shape_shortcut(c, l, e);
	case L_SCALE: case L_SAM: return shape_scale(c, l, e);
	case L_REORG: case L_REORG3D: return shape_reorg(c, l, e);
	case L_YOLO: case L_REGION: return shape_head(c, l, i, e);
	case L_AVGPOOL: return put(c, l, 1, 1, l->in_c, e);
	case L_UPSAMPLE: return put(c, l, (long)l->in_w * s, (long)l->in_h * s, l->in_c, e);
	default: return put(c, l, l->in_w, l->in_h, l->in_c, e);
	}
}

/* How many pixels of the input a step of layer i is, from its source's. */
static double
stride_of(const struct cfg *c, const double *stride, int i, int y)
{
	const struct layer *l = &c->l[i];
	double s = i ? stride[i - 1] : 1;

	switch (l->type) {
	case L_CONV: return s * (y ? l->u.conv.stride_y : l->u.conv.stride_x);
	case L_MAXPOOL: return s * (y ? l->u.pool.stride_y : l->u.pool.stride_x);
	case L_ROUTE: return stride[l->u.join.src[0]];
	case L_SCALE: case L_SAM: return stride[l->u.scale.src];
	case L_UPSAMPLE: return s / l->u.stride.stride;
	case L_REORG: case L_REORG3D:
		return l->u.stride.reverse ? s / l->u.stride.stride : s * l->u.stride.stride;
	default: return s;
	}
}

/* A side that the net's largest stride does not divide goes wrong somewhere in the middle, where
 * two layers no longer meet.  Said here instead, about the key that the user can change. */
static int
check_side(const struct cfg *c, int y, int line, struct err *e)
{
	double *stride = (double *)xcalloc((size_t)c->nl, sizeof *stride), most = 1;
	int side = y ? c->net.h : c->net.w, s;
	struct err say;

	for (int i = 0; i < c->nl; i++) {
		stride[i] = stride_of(c, stride, i, y);
		if (stride[i] > most && stride[i] <= CFG_SIDE && stride[i] == floor(stride[i]))
			most = stride[i];
	}
	free(stride);
	s = (int)most;
	if (side % s == 0)
		return 0;
	err_set(&say, "%s=%d is not a multiple of %d, the net's stride; %d or %d would be",
	    y ? "height" : "width", side, s, side < s ? s : side / s * s,
	    side < s ? 2 * s : side / s * s + s);
	return line ? bad(c, line, e, "%s", say.msg) : err_set(e, "%s: %s", c->path, say.msg);
}

/* own: the sides are those of the file. */
static int
shape_all(struct cfg *c, int own, struct err *e)
{
	int head, heads = 0;

	for (int i = 0; i < c->nl; i++)
		if ((c->l[i].type == L_YOLO || c->l[i].type == L_REGION) && ++heads > MAX_HEADS)
			return bad(c, c->l[i].line, e, "more than %d [yolo] or [region] layers",
			    MAX_HEADS);
	if (cfg_heads(c, &head, 1) && (check_side(c, 0, own ? c->net.w_line : 0, e) ||
	    check_side(c, 1, own ? c->net.h_line : 0, e)))
		return -1;
	for (int i = 0; i < c->nl; i++) {
		struct layer *l = &c->l[i], *before = i ? &c->l[i - 1] : NULL;

		if (l->type == L_ROUTE)
			before = &c->l[l->u.join.src[0]];
		l->in_w = before ? before->w : c->net.w;
		l->in_h = before ? before->h : c->net.h;
		l->in_c = before ? before->c : c->net.c;
		if (shape(c, i, e))
			return -1;
	}
	return 0;
}

int
cfg_resize(struct cfg *c, int w, int h, struct err *e)
{
	int old_w = c->net.w, old_h = c->net.h, had = c->l[0].in_w;
	struct err ignore;

	if (w < 1 || h < 1 || w > CFG_SIDE || h > CFG_SIDE)
		return err_set(
		    e, "%s: input %dx%d: want sides from 1 to %d", c->path, w, h, CFG_SIDE);
	c->net.w = w;
	c->net.h = h;
	if (!shape_all(c, !had, e))
		return 0;
	c->net.w = old_w;		/* leave the shapes that were right */
	c->net.h = old_h;
	if (had)
		shape_all(c, 0, &ignore);
	return -1;
}

int
cfg_heads(const struct cfg *c, int *index, int max)
{
	int n = 0;

	for (int i = 0; i < c->nl && n < max; i++)
		if (c->l[i].type == L_YOLO || c->l[i].type == L_REGION)
			index[n++] = i;
	return n;
}

int
cfg_stride(const struct cfg *c)
{
	int most = 1;

	for (int i = 0; i < c->nl; i++)
		if ((c->l[i].type == L_YOLO || c->l[i].type == L_REGION) &&
		    c->net.w / c->l[i].w > most)
			most = c->net.w / c->l[i].w;
	return most;
}

double
cfg_flops(const struct cfg *c, int i)
{
	const struct layer *l = &c->l[i];
	const struct def_conv *d = &l->u.conv;

	if (l->type != L_CONV)
		return 0;
	return 2. * l->w * l->h * d->k * d->size * d->size * (l->in_c / d->groups);
}

long
cfg_floats(const struct cfg *c, int i)
{
	const struct layer *l = &c->l[i];
	const struct def_conv *d = &l->u.conv;

	if (l->type != L_CONV)
		return 0;
	return (long)d->k * d->size * d->size * (l->in_c / d->groups) +
	       (long)d->k * (d->bn ? 4 : 1);
}

/* The loader's batches and the detector's have three floats a pixel, or one: a net of another
 * number would read beyond them. */
int
cfg_pictures(const struct cfg *c, struct err *e)
{
	if (c->net.c == 3 || c->net.c == 1)
		return 0;
	return err_set(e, "%s:%d: channels=%d, but pictures are read as RGB or grey: want "
	    "channels=3 or 1", c->path, c->net.c_line, c->net.c);
}

/* Do two cfgs compute the same from the same weights?
 *
 * Weights fit any cfg with as many numbers.  A head that decodes otherwise than it was trained, a
 * leaky where a swish was, give boxes all the same, only wrong ones: whoever has both cfgs, the one
 * given and the one that a checkpoint carries, asks here.  The input's size and the keys of
 * training and suppression may differ. */

struct key { const char *name; int same; };

static const char *
first_other(const struct key *k, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!k[i].same)
			return k[i].name;
	return NULL;
}

#define KEY(name, field) { name, a->field == b->field }
#define FIRST(k) first_other(k, sizeof(k) / sizeof *(k))

static const char *
other_conv(const struct def_conv *a, const struct def_conv *b)
{
	const struct key k[] = { KEY("filters", k), KEY("size", size), KEY("stride", stride_y),
		KEY("stride", stride_x), KEY("pad", pad), KEY("dilation", dilation),
		KEY("groups", groups), KEY("batch_normalize", bn), KEY("activation", act) };

	return FIRST(k);
}

static const char *
other_join(const struct def_join *a, const struct def_join *b, int route)
{
	const struct key k[] = { { route ? "layers" : "from", a->n == b->n &&
	    !memcmp(a->src, b->src, (size_t)a->n * sizeof *a->src) }, KEY("groups", groups),
		KEY("group_id", group_id), KEY("activation", act) };

	return FIRST(k);
}

static const char *
other_head(const struct def_yolo *a, const struct def_yolo *b)
{
	int masks = a->nmask == b->nmask &&
	    !memcmp(a->mask, b->mask, (size_t)a->nmask * sizeof *a->mask);
	const struct key k[] = { KEY("classes", classes), KEY("num", num), { "mask", masks },
		{ "anchors", a->num == b->num &&
		    !memcmp(a->anchor, b->anchor, 2 * (size_t)a->num * sizeof *a->anchor) },
		KEY("new_coords", new_coords), KEY("scale_x_y", scale_x_y),
		KEY("softmax", softmax) };

	return FIRST(k);
}

static const char *
other_pool(const struct def_pool *a, const struct def_pool *b)
{
	const struct key k[] = { KEY("size", size), KEY("stride", stride_y),
		KEY("stride", stride_x), KEY("padding", padding) };

	return FIRST(k);
}

static const char *
other_scale(const struct def_scale *a, const struct def_scale *b)
{
	const struct key k[] = { KEY("from", src), KEY("scale_wh", wh), KEY("activation", act) };

	return FIRST(k);
}

static const char *
other_stride(const struct def_stride *a, const struct def_stride *b)
{
	const struct key k[] = { KEY("stride", stride), KEY("reverse", reverse),
		KEY("scale", scale) };

	return FIRST(k);
}

static const char *
other_layer(const struct layer *a, const struct layer *b)
{
	switch (a->type) {
	case L_CONV:
		return other_conv(&a->u.conv, &b->u.conv);
	case L_MAXPOOL:
		return other_pool(&a->u.pool, &b->u.pool);
	case L_SCALE:
	case L_SAM:
		return other_scale(&a->u.scale, &b->u.scale);
	case L_UPSAMPLE:
	case L_REORG:
	case L_REORG3D:
		return other_stride(&a->u.stride, &b->u.stride);
	case L_ROUTE:
	case L_SHORTCUT:
		return other_join(&a->u.join, &b->u.join, a->type == L_ROUTE);
	case L_YOLO:
	case L_REGION:
		return other_head(&a->u.yolo, &b->u.yolo);
	default:
		return NULL;
	}
}

const char *
cfg_other(const struct cfg *a, const struct cfg *b, int *layer)
{
	const char *key = NULL;

	for (*layer = 0; *layer < a->nl && *layer < b->nl; ++*layer) {
		const struct layer *l = &a->l[*layer], *m = &b->l[*layer];

		if (l->type != m->type)
			return "type";
		if ((key = other_layer(l, m)))
			return key;
	}
	return a->nl != b->nl ? "type" : NULL;
}
