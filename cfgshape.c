/* cfgshape.c -- sizes of all layers, from the input on; what a cfg costs. */
#include <limits.h>
#include <stdlib.h>

#include "yolo.h"

static int
bad(const struct cfg *c, const struct layer *l, struct err *e, const char *what, int a, int b)
{
	err_set(e, "%s:%d: [%s]: ", c->path, l->line, layer_name(l->type));
	char *head = xasprintf("%s", e->msg), *tail = xasprintf(what, a, b);

	err_set(e, "%s%s", head, tail);
	free(head);
	free(tail);
	return -1;
}

static int
shape_conv(const struct cfg *c, struct layer *l, struct err *e)
{
	const struct def_conv *d = &l->u.conv;
	int reach = (d->size - 1) * d->dilation + 1;

	if (l->in_c % d->groups || d->k % d->groups)
		return err_set(e, "%s:%d: groups=%d does not divide %d input channels and %d filters", c->path,
		    l->line, d->groups, l->in_c, d->k);
	l->h = (l->in_h + 2 * d->pad - reach) / d->stride_y + 1;
	l->w = (l->in_w + 2 * d->pad - reach) / d->stride_x + 1;
	l->c = d->k;
	if (l->in_h + 2 * d->pad < reach || l->in_w + 2 * d->pad < reach)
		return bad(c, l, e, "a kernel of %d does not fit its input of %d", reach, l->in_w < l->in_h ?
		    l->in_w : l->in_h);
	return 0;
}

static int
shape_pool(const struct cfg *c, struct layer *l, struct err *e)
{
	const struct def_pool *d = &l->u.pool;

	if (l->in_h + d->padding < d->size || l->in_w + d->padding < d->size)
		return bad(c, l, e, "a window of %d does not fit its input of %d", d->size, l->in_w);
	l->h = (l->in_h + d->padding - d->size) / d->stride_y + 1;
	l->w = (l->in_w + d->padding - d->size) / d->stride_x + 1;
	l->c = l->in_c;
	return 0;
}

static int
shape_route(const struct cfg *c, struct layer *l, struct err *e)
{
	const struct def_join *d = &l->u.join;
	const struct layer *first = &c->l[d->src[0]];
	long sum = 0;

	if (d->group_id >= d->groups)
		return bad(c, l, e, "group_id=%d, but groups=%d", d->group_id, d->groups);
	for (int i = 0; i < d->n; i++) {
		const struct layer *s = &c->l[d->src[i]];

		if (s->w != first->w || s->h != first->h)
			return err_set(e, "%s:%d: [route]: layer %d is %dx%d, layer %d is %dx%d: sizes must be "
			    "equal", c->path, l->line, d->src[0], first->w, first->h, d->src[i], s->w, s->h);
		if (s->c % d->groups)
			return bad(c, l, e, "groups=%d does not divide the %d channels", d->groups, s->c);
		sum += s->c / d->groups;
	}
	if (sum > 1 << 20)
		return bad(c, l, e, "more than %d channels", 1 << 20, 0);
	l->w = first->w;
	l->h = first->h;
	l->c = (int)sum;
	return 0;
}

static int
shape_shortcut(const struct cfg *c, struct layer *l, struct err *e)
{
	l->w = l->in_w;
	l->h = l->in_h;
	l->c = l->in_c;
	for (int i = 0; i < l->u.join.n; i++) {
		const struct layer *s = &c->l[l->u.join.src[i]];

		if (s->w != l->w || s->h != l->h)
			return err_set(e, "%s:%d: [shortcut]: layer %d is %dx%d, the input %dx%d: sizes must be "
			    "equal", c->path, l->line, l->u.join.src[i], s->w, s->h, l->w, l->h);
	}
	return 0;
}

static int
shape_scale(const struct cfg *c, struct layer *l, struct err *e)
{
	const struct layer *s = &c->l[l->u.scale.src];
	int fits;

	l->w = s->w;
	l->h = s->h;
	l->c = s->c;
	if (l->type == L_SAM)
		fits = l->in_c == s->c && l->in_w == s->w && l->in_h == s->h;
	else if (l->u.scale.wh)
		fits = l->in_c == 1 && l->in_w == s->w && l->in_h == s->h;
	else
		fits = l->in_c == s->c && l->in_w == 1 && l->in_h == 1;
	return fits ? 0 : err_set(e, "%s:%d: [%s]: the input is %dx%dx%d, layer %d is %dx%dx%d", c->path,
	    l->line, layer_name(l->type), l->in_w, l->in_h, l->in_c, l->u.scale.src, s->w, s->h, s->c);
}

static int
shape_reorg(const struct cfg *c, struct layer *l, struct err *e)
{
	int s = l->u.stride.stride;

	if (l->u.stride.reverse) {
		if (l->in_c % (s * s))
			return bad(c, l, e, "%d channels cannot be spread over %d cells", l->in_c, s * s);
		l->w = l->in_w * s;
		l->h = l->in_h * s;
		l->c = l->in_c / (s * s);
		return 0;
	}
	if (l->in_w % s || l->in_h % s || (l->type == L_REORG && l->in_c % (s * s)))
		return bad(c, l, e, "stride %d does not divide its input of %d", s, l->in_w);
	l->w = l->in_w / s;
	l->h = l->in_h / s;
	l->c = l->in_c * s * s;
	return 0;
}

static int
shape_head(const struct cfg *c, struct layer *l, int i, struct err *e)
{
	const struct def_yolo *d = &l->u.yolo;
	int anchors = l->type == L_YOLO ? d->nmask : d->num;

	l->w = l->in_w;
	l->h = l->in_h;
	l->c = l->in_c;
	if (i < 1 || c->l[i - 1].type != L_CONV)
		return bad(c, l, e, "a convolution must stand before it", 0, 0);
	if ((long)anchors * (d->classes + 5) != l->in_c)
		return err_set(e, "%s:%d: filters=%d before [%s], want filters=%ld: %d anchors x (%d classes + "
		    "5)", c->path, c->l[i - 1].line, l->in_c, layer_name(l->type),
		    (long)anchors * (d->classes + 5), anchors, d->classes);
	if (c->net.w % l->w || c->net.h % l->h)
		return err_set(e, "%s:%d: input %dx%d is not a whole multiple of this head's grid %dx%d; "
		    "%dx%d would be", c->path, l->line, c->l[0].in_w, c->l[0].in_h, l->w, l->h,
		    (c->l[0].in_w + 31) / 32 * 32, (c->l[0].in_h + 31) / 32 * 32);
	return 0;
}

static int
shape(struct cfg *c, int i, struct err *e)
{
	struct layer *l = &c->l[i];

	switch (l->type) {
	case L_CONV: return shape_conv(c, l, e);
	case L_MAXPOOL: return shape_pool(c, l, e);
	case L_ROUTE: return shape_route(c, l, e);
	case L_SHORTCUT: return shape_shortcut(c, l, e);
	case L_SCALE: case L_SAM: return shape_scale(c, l, e);
	case L_REORG: case L_REORG3D: return shape_reorg(c, l, e);
	case L_YOLO: case L_REGION: return shape_head(c, l, i, e);
	case L_AVGPOOL:
		l->w = l->h = 1;
		l->c = l->in_c;
		return 0;
	case L_UPSAMPLE:
		l->w = l->in_w * l->u.stride.stride;
		l->h = l->in_h * l->u.stride.stride;
		l->c = l->in_c;
		return 0;
	default:
		l->w = l->in_w;
		l->h = l->in_h;
		l->c = l->in_c;
		return 0;
	}
}

static int
shape_all(struct cfg *c, struct err *e)
{
	for (int i = 0; i < c->nl; i++) {
		struct layer *l = &c->l[i], *before = i ? &c->l[i - 1] : NULL;

		if (l->type == L_ROUTE)
			before = &c->l[l->u.join.src[0]];
		l->in_w = before ? before->w : c->net.w;
		l->in_h = before ? before->h : c->net.h;
		l->in_c = before ? before->c : c->net.c;
		if (shape(c, i, e))
			return -1;
		if ((double)l->w * l->h * l->c > INT_MAX)
			return bad(c, l, e, "an output of more than %d numbers", INT_MAX, 0);
	}
	return 0;
}

int
cfg_resize(struct cfg *c, int w, int h, struct err *e)
{
	int old_w = c->net.w, old_h = c->net.h;
	struct err ignore;

	c->net.w = w;
	c->net.h = h;
	if (!shape_all(c, e))
		return 0;
	c->net.w = old_w;		/* leave the shapes that were right */
	c->net.h = old_h;
	if (c->l[0].in_w)
		shape_all(c, &ignore);
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
		if ((c->l[i].type == L_YOLO || c->l[i].type == L_REGION) && c->net.w / c->l[i].w > most)
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
	return (long)d->k * d->size * d->size * (l->in_c / d->groups) + (long)d->k * (d->bn ? 4 : 1);
}
