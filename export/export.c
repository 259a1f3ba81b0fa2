/* export.c -- a network as an ONNX file: input, layers, ends, and what a reader should know. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "export/int.h"

static void
digest(const struct cfg *c, char hex[33])
{
	XXH128_hash_t h = XXH3_128bits(c->text, c->len);

	snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64,
	    (unsigned long long)h.low64);
}

static int
check(const struct export_model *m, const struct export_opts *o, struct err *e)
{
	const struct cfg *c = m->cfg;
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);

	if (o->ends != ENDS_RAW && !n)
		return err_set(e, "%s: no [yolo] or [region] layer: only -O ends=raw", c->path);
	for (int i = 0; i < n && o->ends != ENDS_RAW; i++)
		if (c->l[head[i]].u.yolo.classes != c->l[head[0]].u.yolo.classes)
			return err_set(e, "%s:%d: classes=%d, but the first head has %d: only "
			    "-O ends=raw", c->path, c->l[head[i]].line,
			    c->l[head[i]].u.yolo.classes, c->l[head[0]].u.yolo.classes);
	return 0;
}

static void
meta_head(struct onnx *g, int i, int layer)
{
	const struct layer *l = &g->m->cfg->l[layer];
	const struct def_yolo *d = &l->u.yolo;
	int region = l->type == L_REGION, anchors = region ? d->num : d->nmask;
	size_t len = 0;
	char *text = NULL, *key = xasprintf("head%d", i);
	FILE *f = open_memstream(&text, &len);

	if (!f)
		die(1, "out of memory");
	fprintf(f, "%s layer=%d stride=%g classes=%d scale_x_y=%.9g new_coords=%d softmax=%d "
	    "anchors=", layer_name(l->type), layer - 1, (double)g->m->cfg->l[0].in_w / l->w,
	    d->classes, d->scale_x_y, d->new_coords, g->o->softmax || (region && d->softmax));
	for (int a = 0; a < anchors; a++) {
		const float *v = d->anchor + 2 * (region ? a : d->mask[a]);
		double w = region ? (double)g->m->cfg->l[0].in_w / l->w : 1;
		double h = region ? (double)g->m->cfg->l[0].in_h / l->h : 1;

		fprintf(f, "%s%.9g,%.9g", a ? "," : "", v[0] * w, v[1] * h);
	}
	fclose(f);
	onnx_meta(g, key, text);
	free(key);
	free(text);
}

static void
meta_names(struct onnx *g)
{
	size_t len = 0;
	char *text = NULL;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		die(1, "out of memory");
	for (int i = 0; i < g->o->nnames; i++)
		fprintf(f, "%s\n", g->o->names[i]);
	fclose(f);
	if (g->o->nnames && utf8_is(text))
		onnx_meta(g, "names", text);
	else if (g->o->nnames)
		warn("names of classes that are not UTF-8 do not go into the metadata");
	free(text);
}

static void
meta(struct onnx *g)
{
	static const char *const ends[] = {
		"head<i>: output of the convolution before each head, [N,A*(5+C),H,W]",
		"boxes [N,M,4]: x1 y1 x2 y2; scores [N,M,C]: objectness times class",
		"detections [found,7]: picture, class, score, x1, y1, x2, y2" };
	int head[MAX_HEADS], n = cfg_heads(g->m->cfg, head, MAX_HEADS);
	char sum[33];

	digest(g->m->cfg, sum);
	onnx_meta(g, "cfg.xxh3", sum);
	onnx_meta(g, "input", g->o->u8hwc ? "images: bytes [N,H,W,3], RGB, 0..255" :
	    "images: float [N,3,H,W], RGB, 0..1");
	if (g->o->letterbox)
		onnx_meta(g, "letterbox", g->o->letterbox);
	onnx_meta(g, "output", n ? ends[g->o->ends] : "output of the last layer");
	if (n && g->o->ends != ENDS_RAW)
		onnx_meta(g, "boxes", g->o->fractions ? "fractions of the network's input" :
		    "pixels of the network's input");
	for (int i = 0; i < n; i++)
		meta_head(g, i, head[i]);
	meta_names(g);
}

int
export_onnx(const char *path, const struct export_model *m, const struct export_opts *o,
    struct err *e)
{
	struct onnx g = { .m = m, .o = o, .opset = 9 };
	int *values = (int *)xcalloc((size_t)m->cfg->nl + 1, sizeof *values), bad;

	if (check(m, o, e)) {
		free(values);
		return -1;
	}
	g.layer = values + 1;		/* the input stands before the first layer */
	g.layer[-1] = onnx_input(&g);
	for (int i = 0; i < m->cfg->nl; i++)
		onnx_layer(&g, i);
	onnx_ends(&g);
	meta(&g);
	bad = onnx_write(&g, path, e);
	g.layer = values;
	onnx_free(&g);
	return bad;
}
