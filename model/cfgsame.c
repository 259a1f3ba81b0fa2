/* cfgsame.c -- do two cfgs compute the same from the same weights?
 *
 * Weights fit any cfg with as many numbers.  A head that decodes otherwise than it was trained, a
 * leaky where a swish was, give boxes all the same, only wrong ones: whoever has both cfgs, the one
 * given and the one that a checkpoint carries, asks here.  The input's size and the keys of
 * training and suppression may differ. */
#include <string.h>

#include "yolo.h"

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
