/* faults.c -- what became of each detection and each truth, for error analysis.
 *
 * One pass at IoU 0.5, no maxDets: detections by falling score take the best free truth of their
 * class (COCO's walk); what falls on an ignored region is set aside.  A false positive is then, in
 * this order (TIDE, Bolya et al. 2020): badly placed (same class, IoU 0.1 to 0.5), of the wrong
 * class (IoU 0.5 with another's truth), a duplicate, background (IoU at most 0.1), or both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static const double FORE = 0.5, BACK = 0.1, CONF = 0.25, PAIR = 0.45;

struct eval_errors *
eval_errors_open(const struct eval_opts *o, int nclass)
{
	struct eval_errors *x = (struct eval_errors *)xcalloc(1, sizeof *x);

	x->opt = *o;
	x->nclass = nclass;
	return x;
}

void
eval_errors_reset(struct eval_errors *x)
{
	x->n = x->nt = x->npair = 0;
}

void
eval_errors_close(struct eval_errors *x)
{
	if (!x)
		return;
	free(x->f);
	free(x->t);
	free(x->pair);
	free(x->near);
	free(x);
}

/* One picture: ord[] detections by score, g[] the truths that count.  IoUs are computed where they
 * are wanted: a table of them would be too large for a picture of many. */
struct scene {
	const struct eval_image *im;
	int nd, ng, *ord, *g, *owner;	/* owner of a truth: place in ord, -1 none */
	struct eval_fault *f;
	struct eval_found *t;
};

static double
iou_of(const struct scene *s, int d, int g)
{
	return eval_iou(&s->im->det[s->ord[d]].x, &s->im->box[s->g[g]].x, 0);
}

static int
on_ignored(const struct eval_errors *x, const struct eval_image *im, const struct eval_det *d)
{
	for (int i = 0; i < im->nbox; i++)
		if (im->box[i].cls == d->cls &&
		    eval_soft(&x->opt, EV_COCO, im->box[i].flags) == EV_IGNORE &&
		    eval_iou(&d->x, &im->box[i].x, im->box[i].flags & BOX_CROWD) >= FORE)
			return 1;
	return 0;
}

static void
match(struct scene *s)
{
	for (int d = 0; d < s->nd; d++) {
		const struct eval_det *det = s->im->det + s->ord[d];
		double best = FORE, v;
		int m = -1;

		for (int g = 0; g < s->ng; g++)
			if (s->im->box[s->g[g]].cls == det->cls && s->owner[g] < 0 &&
			    (v = iou_of(s, d, g)) >= best) {
				best = v;
				m = g;
			}
		if (m < 0)
			continue;
		s->owner[m] = d;
		s->f[d].kind = EVAL_TP;
		s->f[d].iou = best;
		s->t[m].score = det->score;
	}
}

/* The kind of a false positive; *gt: the truth that mending it would find, if that is free. */
static enum eval_kind
fault(const struct scene *s, int d, int *gt)
{
	int cls = s->im->det[s->ord[d]].cls, same = -1, other = -1, taken = 0;
	double si = -1, oi = -1;

	for (int g = 0; g < s->ng; g++) {
		double v = iou_of(s, d, g);

		if (s->im->box[s->g[g]].cls != cls) {
			if (v > oi) {
				oi = v;
				other = g;
			}
			continue;
		}
		if (v > si) {
			si = v;
			same = g;
		}
		taken |= v >= FORE && s->owner[g] >= 0;
	}
	*gt = -1;
	if (si >= BACK && si <= FORE) {
		*gt = s->owner[same] < 0 ? same : -1;
		return EVAL_LOC;
	}
	if (oi >= FORE) {
		*gt = s->owner[other] < 0 ? other : -1;
		return EVAL_CLS;
	}
	return taken ? EVAL_DUPE : si <= BACK && oi <= BACK ? EVAL_BKG : EVAL_BOTH;
}

/* The best-scored fault that could find a free truth is the one that mending counts for. */
static void
classify(const struct eval_errors *x, struct scene *s)
{
	int gt;

	for (int d = 0; d < s->nd; d++) {
		if (s->f[d].kind == EVAL_TP)
			continue;
		if (on_ignored(x, s->im, s->im->det + s->ord[d])) {
			s->f[d].kind = EVAL_IGNORED;
			continue;
		}
		s->f[d].kind = fault(s, d, &gt);
		if (gt >= 0 && s->t[gt].missed) {
			s->t[gt].missed = 0;
			s->f[d].fix = s->t[gt].cls;
		}
	}
	for (int g = 0; g < s->ng; g++)
		if (s->owner[g] >= 0)
			s->t[g].missed = 0;
}

static void
pair(struct eval_errors *x, int truth, int det)
{
	x->pair = (uint64_t *)xgrow(x->pair, &x->paircap, x->npair + 1, sizeof *x->pair);
	x->pair[x->npair++] = (uint64_t)truth << 32 | (uint32_t)det;
}

struct near { double iou; int d, g; };

static int
nearest(const void *pa, const void *pb)
{
	const struct near *a = (const struct near *)pa, *b = (const struct near *)pb;

	return a->iou > b->iou	 ? -1
	       : a->iou < b->iou ? 1
	       : a->d != b->d	 ? a->d - b->d
				 : a->g - b->g;
}

/* Confusion: detections over 0.25, pairs over IoU 0.45 whatever their class, best IoU first. */
static void
confuse(struct eval_errors *x, const struct scene *s)
{
	unsigned char *dused = (unsigned char *)xcalloc((size_t)(s->nd + s->ng) + 1, 1);
	unsigned char *gused = dused + s->nd;
	size_t n = 0;

	for (int d = 0; d < s->nd && s->f[d].score > CONF; d++)
		for (int g = 0; g < s->ng; g++) {
			double v = iou_of(s, d, g);

			if (v <= PAIR)
				continue;
			x->near =
			    (struct near *)xgrow(x->near, &x->nearcap, n + 1, sizeof *x->near);
			x->near[n++] = (struct near){ v, d, g };
		}
	if (n)
		qsort(x->near, n, sizeof *x->near, nearest);
	for (size_t i = 0; i < n; i++) {
		int d = x->near[i].d, g = x->near[i].g;

		if (dused[d] || gused[g])
			continue;
		dused[d] = gused[g] = 1;
		pair(x, s->t[g].cls, s->f[d].cls);
	}
	for (int d = 0; d < s->nd && s->f[d].score > CONF; d++)
		if (!dused[d] && s->f[d].kind != EVAL_IGNORED)
			pair(x, x->nclass, s->f[d].cls);
	for (int g = 0; g < s->ng; g++)
		if (!gused[g])
			pair(x, s->t[g].cls, x->nclass);
	free(dused);
}

static void
set_scene(struct eval_errors *x, struct scene *s, int pic, const struct eval_image *im)
{
	for (int i = 0; i < im->nbox; i++)
		if (eval_soft(&x->opt, EV_COCO, im->box[i].flags) == EV_TRUTH) {
			s->owner[s->ng] = -1;
			s->t[s->ng] = (struct eval_found){ -HUGE_VAL, im->box[i].area, pic,
				im->box[i].cls, i, 1 };
			s->g[s->ng++] = i;
		}
	for (int d = 0; d < s->nd; d++) {
		const struct eval_det *det = im->det + s->ord[d];

		s->f[d] = (struct eval_fault){ det->score, 0, det->x, det->y, det->w, det->h, pic,
			det->cls, -1, EVAL_BOTH };
	}
}

void
eval_errors_add(void *arg, int pic, const struct eval_image *im)
{
	struct eval_errors *x = (struct eval_errors *)arg;
	size_t nd = (size_t)im->ndet, nb = (size_t)im->nbox;
	int *mem = (int *)xmalloc((2 * nd + 2 * nb + 1) * sizeof *mem);
	struct scene s = { .im = im, .nd = im->ndet };

	x->f = (struct eval_fault *)xgrow(x->f, &x->cap, x->n + nd + 1, sizeof *x->f);
	x->t = (struct eval_found *)xgrow(x->t, &x->tcap, x->nt + nb + 1, sizeof *x->t);
	s.f = x->f + x->n;
	s.t = x->t + x->nt;
	s.ord = mem + nd;
	s.g = s.ord + nd;
	s.owner = s.g + nb;
	for (int i = 0; i < im->ndet; i++)
		mem[i] = i;
	eval_rank(im, mem, im->ndet, s.ord);
	set_scene(x, &s, pic, im);
	match(&s);
	classify(x, &s);
	confuse(x, &s);
	x->n += nd;
	x->nt += (size_t)s.ng;
	free(mem);
}
