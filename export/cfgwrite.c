/* cfgwrite.c -- a cfg in the words that every reader of darknet cfgs knows.
 *
 * Only what inference needs, layers by their distance, no key that is at its default in darknet.
 * Read again it must be the same network: cfg_other says so before anything is written. */
#include <stdlib.h>
#include <string.h>

#include "export/export.h"

static const char *const acts[] = { [ACT_LINEAR] = "linear", [ACT_LEAKY] = "leaky",
	[ACT_LOGISTIC] = "logistic", [ACT_RELU] = "relu", [ACT_MISH] = "mish",
	[ACT_SWISH] = "swish" };

static void
put_conv(FILE *f, const struct def_conv *d)
{
	if (d->bn)
		fprintf(f, "batch_normalize=1\n");
	fprintf(f, "filters=%d\nsize=%d\n", d->k, d->size);
	if (d->stride_x == d->stride_y)
		fprintf(f, "stride=%d\n", d->stride_x);
	else
		fprintf(f, "stride_x=%d\nstride_y=%d\n", d->stride_x, d->stride_y);
	if (d->pad == d->size / 2 * d->dilation)
		fprintf(f, "pad=1\n");
	else
		fprintf(f, "padding=%d\n", d->pad / d->dilation);
	if (d->dilation != 1)
		fprintf(f, "dilation=%d\n", d->dilation);
	if (d->groups != 1)
		fprintf(f, "groups=%d\n", d->groups);
	fprintf(f, "activation=%s\n", acts[d->act]);
}

static void
put_pool(FILE *f, const struct def_pool *d)
{
	fprintf(f, "size=%d\n", d->size);
	if (d->stride_x == d->stride_y)
		fprintf(f, "stride=%d\n", d->stride_x);
	else
		fprintf(f, "stride_x=%d\nstride_y=%d\n", d->stride_x, d->stride_y);
	if (d->padding != d->size - 1)
		fprintf(f, "padding=%d\n", d->padding);
}

static void
put_sources(FILE *f, const char *key, const int *src, int n, int at)
{
	fprintf(f, "%s=", key);
	for (int i = 0; i < n; i++)
		fprintf(f, "%s%d", i ? "," : "", src[i] - at);
	fprintf(f, "\n");
}

static void
put_head(FILE *f, const struct layer *l)
{
	const struct def_yolo *d = &l->u.yolo;

	if (l->type == L_YOLO) {
		fprintf(f, "mask=");
		for (int i = 0; i < d->nmask; i++)
			fprintf(f, "%s%d", i ? "," : "", d->mask[i]);
		fprintf(f, "\n");
	}
	fprintf(f, "anchors=");
	for (int i = 0; i < 2 * d->num; i++)
		fprintf(f, "%s%.9g", i ? "," : "", d->anchor[i]);
	fprintf(f, "\nclasses=%d\nnum=%d\n", d->classes, d->num);
	if (l->type == L_REGION) {
		fprintf(f, "coords=4\nbias_match=1\nsoftmax=%d\n", d->softmax);
		return;
	}
	if (d->scale_x_y != 1)
		fprintf(f, "scale_x_y=%.9g\n", d->scale_x_y);
	if (d->new_coords)
		fprintf(f, "new_coords=1\n");
	if (d->nms_kind != NMS_DEFAULT)
		fprintf(f, "nms_kind=%s\nbeta_nms=%.9g\n", d->nms_kind == NMS_DIOU ? "diounms" :
		    "greedynms", d->beta_nms);
}

static void
put_layer(FILE *f, const struct layer *l, int i)
{
	fprintf(f, "\n[%s]\n", layer_name(l->type));
	switch (l->type) {
	case L_CONV: put_conv(f, &l->u.conv); break;
	case L_MAXPOOL: put_pool(f, &l->u.pool); break;
	case L_UPSAMPLE:
		fprintf(f, "stride=%d\n", l->u.stride.stride);
		if (l->u.stride.scale != 1)
			fprintf(f, "scale=%.9g\n", l->u.stride.scale);
		break;
	case L_ROUTE:
		put_sources(f, "layers", l->u.join.src, l->u.join.n, i);
		if (l->u.join.groups != 1)
			fprintf(f, "groups=%d\ngroup_id=%d\n", l->u.join.groups,
			    l->u.join.group_id);
		break;
	case L_SHORTCUT:
		put_sources(f, "from", l->u.join.src, l->u.join.n, i);
		fprintf(f, "activation=%s\n", acts[l->u.join.act]);
		break;
	case L_SCALE: case L_SAM:
		put_sources(f, "from", &l->u.scale.src, 1, i);
		if (l->type == L_SCALE && l->u.scale.wh)
			fprintf(f, "scale_wh=1\n");
		fprintf(f, "activation=%s\n", acts[l->u.scale.act]);
		break;
	case L_REORG: case L_REORG3D:
		fprintf(f, "stride=%d\n", l->u.stride.stride);
		if (l->u.stride.reverse)
			fprintf(f, "reverse=1\n");
		break;
	case L_DROPOUT: fprintf(f, "probability=%.9g\n", l->u.dropout.p); break;
	case L_YOLO: case L_REGION: put_head(f, l); break;
	default: break;
	}
}

/* The text means the same network. */
static int
same(const struct cfg *c, const char *text, struct err *e)
{
	struct err why;
	struct cfg *again = cfg_parse(c->path, text, strlen(text), &why);
	const char *key;
	int i = 0, line;

	key = again ? cfg_other(c, again, &i) : "text";
	line = i < c->nl ? c->l[i].line : c->net.line;
	cfg_close(again);
	return key ? err_set(e, "%s:%d: %s of layer %d cannot be said in plain keys", c->path,
	    line, key, i) : 0;
}

char *
export_cfg_text(const struct cfg *c, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		die(1, "out of memory");
	fprintf(f, "[net]\nbatch=1\nsubdivisions=1\nwidth=%d\nheight=%d\nchannels=%d\n", c->net.w,
	    c->net.h, c->net.c);
	for (int i = 0; i < c->nl; i++)
		put_layer(f, &c->l[i], i);
	fclose(f);
	if (same(c, text, e)) {
		free(text);
		return NULL;
	}
	return text;
}
