/* golden_nms.c -- golden/nms: suppression by every method. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/golden.h"

static void
settings(struct nms *m, const struct gold *g)
{
	m->score_thresh = gold_num(g->j, "settings.score_thresh", NAN);
	m->iou_thresh = gold_num(g->j, "settings.iou_thresh", NAN);
	m->max_per_group = (int)gold_num(g->j, "settings.max_per_group", -1);
	m->max_det = (int)gold_num(g->j, "settings.max_det", -1);
}

/* What the method's name means to us must be what the case's settings say. */
static int
same_settings(const struct nms *m, const struct gold *g, struct err *e)
{
	const char *decay = gold_str(g->j, "settings.decay", "");

	if (m->agnostic != gold_num(g->j, "settings.agnostic", 0) ||
	    m->best_class_only != gold_num(g->j, "settings.best_class_only", 0) ||
	    m->need_partner != gold_num(g->j, "settings.need_partner", 0) ||
	    m->resort != gold_num(g->j, "settings.resort", 0) ||
	    m->beta != gold_num(g->j, "settings.beta", 0) ||
	    m->sigma != gold_num(g->j, "settings.sigma", 0) ||
	    m->min_size != gold_num(g->j, "settings.min_size", 0) ||
	    m->max_size != gold_num(g->j, "settings.max_size", 0) ||
	    !strcmp(decay, "linear") != (m->rule == NMS_R_SOFT && m->sigma == 0))
		return err_set(e, "%s: its defaults are not the case's settings", m->method);
	return 0;
}

/* Boxes, scores and objectness of decoded rows: centre, size, objectness, class probabilities. */
static void
from_rows(const float *row, int n, int classes, float *box, float *score, float *obj)
{
	for (int i = 0; i < n; i++, row += 5 + classes, box += 4) {
		for (int k = 0; k < 4; k++)
			box[k] = row[k % 2] + (k < 2 ? -.5f : .5f) * row[2 + k % 2];
		obj[i] = row[4];
		for (int k = 0; k < classes; k++)
			score[i * classes + k] = row[4] * row[5 + k];
	}
}

static int
run(const struct gold *g, const struct nms *m, struct det **out, struct err *e)
{
	const struct st_tensor *t = st_find(g->st, "decoded"), *s = st_find(g->st, "scores");
	float *row = t ? gold_floats(g, "decoded", e) : NULL, *box, *score, *obj = NULL;
	int n = t ? (int)t->dim[0] : s ? (int)s->dim[0] : 0;
	int classes = t ? (int)t->dim[1] - 5 : s ? (int)s->dim[1] : 0;

	if (t) {
		box = (float *)xcalloc((size_t)n + 1, 4 * sizeof *box);
		score = (float *)xcalloc((size_t)n + 1, (size_t)classes * sizeof *score);
		obj = (float *)xcalloc((size_t)n + 1, sizeof *obj);
		from_rows(row, n, classes, box, score, obj);
	} else if (!s || !(box = gold_floats(g, "boxes", e)))
		return err_set(e, "no boxes or scores");
	else {
		score = gold_floats(g, "scores", e);
		if (st_find(g->st, "objectness"))
			obj = gold_floats(g, "objectness", e);
	}
	n = nms_run(m, &(struct nms_in){ box, score, obj, n, classes }, out);
	free(row);
	free(box);
	free(score);
	free(obj);
	return n;
}

static int
close_to(double a, double b)
{
	return fabs(a - b) <= 1e-5 * fmax(1, fabs(b));
}

static int
compare(const struct gold *g, const struct det *d, int n, struct err *e)
{
	const struct st_tensor *keep = st_find(g->st, "keep"), *out = st_find(g->st, "out");

	if (!keep || !out)
		return err_set(e, "no keep or out");
	for (int i = 0; i < n && (size_t)i < keep->dim[0]; i++) {
		size_t k = (size_t)i * 6;

		if (d[i].index != st_get(keep, (size_t)i * 2) || d[i].cls != st_get(keep,
		    (size_t)i * 2 + 1))
			return err_set(e, "detection %d is box %d class %d, want box %g class %g",
			    i, d[i].index, d[i].cls, st_get(keep, (size_t)i * 2),
			    st_get(keep, (size_t)i * 2 + 1));
		if (!close_to(d[i].x, st_get(out, k)) || !close_to(d[i].y, st_get(out, k + 1)) ||
		    !close_to(d[i].x + (double)d[i].w, st_get(out, k + 2)) ||
		    !close_to(d[i].y + (double)d[i].h, st_get(out, k + 3)) ||
		    !close_to(d[i].score, st_get(out, k + 4)))
			return err_set(e,
			    "detection %d: %.9g %.9g +%.9g +%.9g score %.9g, want edges %.9g %.9g "
			    "%.9g %.9g score %.9g", i, d[i].x, d[i].y, d[i].w, d[i].h, d[i].score,
			    st_get(out, k), st_get(out, k + 1), st_get(out, k + 2),
			    st_get(out, k + 3), st_get(out, k + 4));
	}
	if ((size_t)n != keep->dim[0])
		return err_set(e, "%d detections, want %zu", n, keep->dim[0]);
	return 0;
}

int
gold_nms(struct gold *g, struct err *e)
{
	struct det *d = NULL;
	struct nms m;
	int n;

	if (nms_method(&m, gold_str(g->j, "method", ""), e) || same_settings(&m, g, e))
		return -1;
	settings(&m, g);
	n = run(g, &m, &d, e);
	if (n < 0 || compare(g, d, n, e))
		n = -1;
	free(d);
	return n < 0 ? -1 : 0;
}
