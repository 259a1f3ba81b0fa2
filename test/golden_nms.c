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

static int
run(const struct gold *g, const struct nms *m, struct det **out, struct err *e)
{
	const struct st_tensor *t = st_find(g->st, "decoded"), *s = st_find(g->st, "scores");
	float *row, *box, *score, *obj = NULL;
	int n, bad = 0;

	if (t) {
		row = gold_floats(g, "decoded", e);
		n = nms_decoded(m, row, (int)t->dim[0], (int)t->dim[1] - 5, out, &bad);
		free(row);
		return bad ? err_set(e, "%d rows dropped", bad) : n;
	}
	if (!s || !(box = gold_floats(g, "boxes", e)))
		return err_set(e, "no boxes or scores");
	score = gold_floats(g, "scores", e);
	if (st_find(g->st, "objectness"))
		obj = gold_floats(g, "objectness", e);
	n = nms_run(m, box, score, obj, (int)s->dim[0], (int)s->dim[1], out);
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
