/* nms.c -- suppression's methods by name, its candidates, and the way from network to picture.
 *
 * A candidate is a box and a class whose score passes.  All candidates are sorted once, by score
 * and then by index; suppress.c walks them in that order. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static const struct nms methods[] = {
	{ .method = "greedy" },
	{ .method = "agnostic", .agnostic = 1 },
	{ .method = "agnostic-best", .agnostic = 1, .best_class_only = 1 },
	{ .method = "best", .best_class_only = 1 },
	{ .method = "diou", .beta = 1 },
	{ .method = "diou-darknet", .beta = .6 },
	{ .method = "merge", .rule = NMS_R_MERGE },
	{ .method = "merge-all", .rule = NMS_R_MERGE_ALL },
	{ .method = "merge-partner", .rule = NMS_R_MERGE_ALL, .need_partner = 1 },
	{ .method = "and", .rule = NMS_R_AND },
	{ .method = "soft-gauss", .rule = NMS_R_SOFT, .sigma = .5, .resort = 1 },
	{ .method = "soft-linear", .rule = NMS_R_SOFT, .resort = 1 },
	{ .method = "soft-fixed", .rule = NMS_R_SOFT, .sigma = .5, .max_per_group = 100 },
	{ .method = "objectness", .rule = NMS_R_OBJECTNESS },
	{ .method = "pipeline-multi", .max_det = 300 },
	{ .method = "pipeline-best", .best_class_only = 1, .max_det = 300 },
	{ .method = "pipeline-agnostic", .agnostic = 1, .best_class_only = 1, .max_det = 300 },
	{ .method = "pipeline-merge", .rule = NMS_R_MERGE_ALL, .max_det = 300, .min_size = 2,
	    .max_size = 4096 },
};
enum { NMETHOD = sizeof methods / sizeof *methods };

int
nms_method(struct nms *m, const char *name, struct err *e)
{
	char list[512] = "";

	for (int i = 0; i < NMETHOD; i++) {
		if (!strcmp(methods[i].method, name)) {
			*m = methods[i];
			m->score_thresh = .25;
			m->iou_thresh = .45;
			return 0;
		}
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? " " : "",
		    methods[i].method);
	}
	return err_set(e, "unknown suppression '%s', want one of: %s", name, list);
}

int
nms_passes(const struct nms *m, float score)
{
	return score > m->score_thresh && score > 0 && score <= FLT_MAX;
}

float
nms_score(const struct nms_work *w, int box, int k)
{
	float f = w->times ? w->obj[(size_t)box * (size_t)w->obj_stride] : 1;

	return f * w->score[(size_t)box * (size_t)w->stride + (size_t)k];
}

void
nms_emit(struct nms_work *w, const float *b, double score, int cls, int index)
{
	struct det *d;

	w->out = (struct det *)xgrow(w->out, &w->outcap, (size_t)w->nout + 1, sizeof *w->out);
	d = &w->out[w->nout++];
	d->x = b[0];
	d->y = b[1];
	d->w = b[2] - b[0];
	d->h = b[3] - b[1];
	d->score = (float)score;
	d->cls = cls;
	d->index = index;
}

static void
add(struct nms_work *w, float score, int box, int cls)
{
	struct nms_cand *c;

	w->c = (struct nms_cand *)xgrow(w->c, &w->cap, (size_t)w->nc + 1, sizeof *w->c);
	c = &w->c[w->nc++];
	memcpy(&c->key, &score, sizeof score);
	c->box = box;
	c->cls = cls;
}

/* Candidates come by rising box and class: a stable sort by score needs no more. */
static void
add_box(struct nms_work *w, int box)
{
	float top = 0;
	int best = -1;

	if (w->m->rule == NMS_R_OBJECTNESS) {
		add(w, w->obj[(size_t)box * (size_t)w->obj_stride], box, 0);
		return;
	}
	for (int k = 0; k < w->classes; k++) {
		float s = nms_score(w, box, k);

		if (!nms_passes(w->m, s))
			continue;
		if (!w->m->best_class_only)
			add(w, s, box, k);
		else if (s > top) {
			best = k;
			top = s;
		}
	}
	if (best >= 0)
		add(w, top, box, best);
}

/* Stable, three passes of 11 bits, highest score first. */
static void
sort_cands(struct nms_work *w)
{
	struct nms_cand *tmp, *from = w->c;
	static const int shift[3] = { 0, 11, 22 };

	if (w->nc < 2)
		return;
	tmp = (struct nms_cand *)xmalloc((size_t)w->nc * sizeof *tmp);
	for (int p = 0; p < 3; p++) {
		struct nms_cand *to = p % 2 ? w->c : tmp;
		int at[2049] = { 0 };

		for (int i = 0; i < w->nc; i++)
			at[(~from[i].key >> shift[p] & 2047) + 1]++;
		for (int k = 0; k < 2048; k++)
			at[k + 1] += at[k];
		for (int i = 0; i < w->nc; i++)
			to[at[~from[i].key >> shift[p] & 2047]++] = from[i];
		from = to;
	}
	memcpy(w->c, tmp, (size_t)w->nc * sizeof *tmp);
	free(tmp);
}

static int
all_finite(const float *x, int n)
{
	int ok = 1;

	for (int i = 0; i < n; i++)
		ok &= x[i] - x[i] == 0;
	return ok;
}

static int
size_ok(const struct nms *m, double w, double h)
{
	return !(m->min_size > 0 && !(w > m->min_size && h > m->min_size)) &&
	    !(m->max_size > 0 && !(w < m->max_size && h < m->max_size));
}

static int
suppress(struct nms_work *w, struct det **out)
{
	sort_cands(w);
	nms_rule(w);
	free(w->c);
	free(w->member);
	free(w->first);
	free(w->gone);
	*out = w->out ? w->out : (struct det *)xcalloc(1, sizeof **out);
	return w->nout;
}

static int
sets(const struct nms *m, int classes)
{
	return m->agnostic || m->rule == NMS_R_OBJECTNESS || classes < 1 ? 1 : classes;
}

int
nms_run(const struct nms *m, const float *box, const float *score, const float *objectness,
    int n, int classes, struct det **out)
{
	struct nms_work w = { .m = m, .box = box, .score = score, .obj = objectness,
	    .stride = classes, .obj_stride = 1, .classes = classes, .sets = sets(m, classes) };
	struct nms plain;

	if (m->rule == NMS_R_OBJECTNESS && !objectness) { /* nothing to order by but the scores */
		plain = *m;
		plain.rule = NMS_R_GREEDY;
		plain.agnostic = 1;
		w.m = &plain;
	}
	for (int i = 0; i < n; i++) {
		const float *b = box + 4 * (size_t)i;

		if (objectness && !nms_passes(m, objectness[i]))
			continue;
		if (all_finite(b, 4) && size_ok(m, (double)b[2] - b[0], (double)b[3] - b[1]))
			add_box(&w, i);
	}
	return suppress(&w, out);
}

int
nms_decoded(const struct nms *m, const float *row, int n, int classes, struct det **out, int *bad)
{
	float *box = (float *)xmalloc((size_t)n * 4 * sizeof *box + 1);
	struct nms_work w = { .m = m, .box = box, .score = row + 5, .obj = row + 4,
	    .stride = classes + 5, .obj_stride = classes + 5, .times = 1, .classes = classes,
	    .sets = sets(m, classes) };
	int r, dropped = 0;

	for (int i = 0; i < n; i++) {
		const float *p = row + (size_t)i * (size_t)w.stride;
		float *b = box + 4 * (size_t)i;

		if (p[4] <= m->score_thresh)
			continue;
		if (!all_finite(p, w.stride)) {
			dropped++;
			continue;
		}
		b[0] = p[0] - p[2] / 2;
		b[1] = p[1] - p[3] / 2;
		b[2] = p[0] + p[2] / 2;
		b[3] = p[1] + p[3] / 2;
		if (size_ok(m, p[2], p[3]))
			add_box(&w, i);
	}
	r = suppress(&w, out);
	free(box);
	if (bad)
		*bad = dropped;
	return r;
}

int
det_map(struct det *d, const struct fit *f, int pic_w, int pic_h, int clip)
{
	double l = (d->x - f->dx) / f->sx, t = (d->y - f->dy) / f->sy;
	double r = (d->x + (double)d->w - f->dx) / f->sx, b = (d->y + (double)d->h - f->dy) / f->sy;

	if (clip) {
		l = l < 0 ? 0 : l;
		t = t < 0 ? 0 : t;
		r = r > pic_w ? pic_w : r;
		b = b > pic_h ? pic_h : b;
	}
	d->x = (float)l;
	d->y = (float)t;
	d->w = (float)(r - l);
	d->h = (float)(b - t);
	return r > l && b > t;
}
