/* suppress.c -- non-maximum suppression in all its kinds.
 *
 * Candidates come sorted by score and then by index and are walked in that order; each competes
 * within its set (its class, or all).  Rules that leave scores alone yield their results in the
 * final order, so the walk ends at max_det: a score threshold of 0.001 on ten thousand boxes and
 * eighty classes costs a sort and a few hundred short walks.  Decaying rules keep a best candidate
 * per set and take the best of the sets.
 *
 * IoU is 0 where the union is 0, comparisons are strict, and classes are told apart by number, not
 * by moving boxes, so that neither huge boxes nor rounding can mix them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static float
score_of(uint32_t key)
{
	float f;

	memcpy(&f, &key, sizeof f);
	return f;
}

static double
area(const float *b)
{
	double w = (double)b[2] - b[0], h = (double)b[3] - b[1];

	return w > 0 && h > 0 ? w * h : 0;
}

static double
overlap(const float *a, const float *b)
{
	double l = a[0] > b[0] ? a[0] : b[0], t = a[1] > b[1] ? a[1] : b[1];
	double r = a[2] < b[2] ? a[2] : b[2], d = a[3] < b[3] ? a[3] : b[3], inter, u;

	if (!(r > l && d > t))
		return 0;
	inter = (r - l) * (d - t);
	u = area(a) + area(b) - inter;
	return u > 0 ? inter / u : 0;
}

/* Squared distance of the centres over squared diagonal of the common hull. */
static double
distance(const float *a, const float *b)
{
	double dx = ((double)a[0] + a[2] - b[0] - b[2]) / 2,
	    dy = ((double)a[1] + a[3] - b[1] - b[3]) / 2;
	double w = fmax(a[2], b[2]) - fmin(a[0], b[0]), h = fmax(a[3], b[3]) - fmin(a[1], b[1]);
	double c2 = w * w + h * h;

	return c2 > 0 ? (dx * dx + dy * dy) / c2 : 0;
}

/* Does a suppress b?  The distance only lowers the IoU: it is looked at last. */
static int
suppresses(const struct nms *m, const float *a, const float *b)
{
	double iou = overlap(a, b);

	if (m->beta > 0) {
		if (!(iou > m->iou_thresh) && m->iou_thresh >= 0)
			return 0;
		iou -= pow(distance(a, b), m->beta);
	}
	return iou > m->iou_thresh;
}

static const float *
box_of(const struct nms_work *w, int cand)
{
	return w->box + 4 * (size_t)w->c[cand].box;
}

static int
set_of(const struct nms_work *w, int cand)
{
	return w->sets == 1 ? 0 : w->c[cand].cls;
}

static void
emit_cand(struct nms_work *w, int cand, const float *b)
{
	nms_emit(w, b, score_of(w->c[cand].key), w->c[cand].cls, w->c[cand].box);
}

static int
full(const struct nms_work *w)
{
	return w->m->max_det > 0 && w->nout >= w->m->max_det && w->m->rule != NMS_R_OBJECTNESS;
}

/* Lists of each set, in order; candidates beyond max_per_group are taken out (of classes: boxes
 * that compete by objectness are not limited). */
static void
make_sets(struct nms_work *w)
{
	int *count = (int *)xcalloc((size_t)w->sets + 1, sizeof *count), n = 0;
	int limit = w->m->rule == NMS_R_OBJECTNESS ? 0 : w->m->max_per_group;

	for (int i = 0; i < w->nc; i++) {
		int *k = &count[set_of(w, i)];

		if (limit > 0 && *k >= limit)
			continue;
		++*k;
		w->c[n++] = w->c[i];
	}
	w->nc = n;
	w->member = (int *)xmalloc((size_t)n * sizeof *w->member + 1);
	w->first = (int *)xmalloc(((size_t)w->sets + 1) * sizeof *w->first);
	w->first[0] = 0;
	for (int s = 0; s < w->sets; s++) {
		w->first[s + 1] = w->first[s] + count[s];
		count[s] = w->first[s];
	}
	for (int i = 0; i < n; i++)
		w->member[count[set_of(w, i)]++] = i;
	w->gone = (unsigned char *)xcalloc((size_t)n + 1, 1);
	free(count);
}

/* ---- rules that leave scores alone ---- */

/* Mean of boxes weighted by score. */
struct mean { double s, b[4]; };

static void
mean_add(struct mean *v, const float *b, double score)
{
	v->s += score;
	for (int k = 0; k < 4; k++)
		v->b[k] += score * b[k];
}

static void
emit_mean(struct nms_work *w, int cand, const struct mean *v)
{
	float b[4];

	for (int k = 0; k < 4; k++)
		b[k] = (float)(v->b[k] / v->s);
	emit_cand(w, cand, b);
}

/* A survivor's box becomes the mean of all of its set that it overlaps, also those that another
 * survivor suppressed. */
static void
merge_all(struct nms_work *w, int i)
{
	struct mean v = { 0 };
	int s = set_of(w, i), with = 0;

	for (int k = w->first[s]; k < w->first[s + 1]; k++) {
		int j = w->member[k];

		if (j != i && !(overlap(box_of(w, i), box_of(w, j)) > w->m->iou_thresh))
			continue;
		with += j != i;
		mean_add(&v, box_of(w, j), score_of(w->c[j].key));
	}
	if (with || !w->m->need_partner)
		emit_mean(w, i, &v);
}

static void
emit_classes(struct nms_work *w, int box)
{
	for (int k = 0; k < w->classes; k++) {
		float s = nms_score(w, box, k);

		if (nms_passes(w->m, s))
			nms_emit(w, w->box + 4 * (size_t)box, s, k, box);
	}
}

/* kept: the survivors of each set, in the set's own stretch of a list as long as member. */
static void
greedy(struct nms_work *w)
{
	int *kept = (int *)xmalloc((size_t)w->nc * sizeof *kept + 1);
	int *nkept = (int *)xcalloc((size_t)w->sets, sizeof *nkept);

	for (int i = 0; i < w->nc && !full(w); i++) {
		int s = set_of(w, i), *list = kept + w->first[s], k = 0;

		while (k < nkept[s] && !suppresses(w->m, box_of(w, list[k]), box_of(w, i)))
			k++;
		if (k < nkept[s])
			continue;
		list[nkept[s]++] = i;
		if (w->m->rule == NMS_R_MERGE_ALL)
			merge_all(w, i);
		else if (w->m->rule == NMS_R_OBJECTNESS)
			emit_classes(w, w->c[i].box);
		else
			emit_cand(w, i, box_of(w, i));
	}
	free(kept);
	free(nkept);
}

/* merge and and: the best of a set consumes what it overlaps. */
static void
consume(struct nms_work *w)
{
	int *at = (int *)xmalloc((size_t)w->sets * sizeof *at), both = w->m->rule == NMS_R_AND;

	memcpy(at, w->first, (size_t)w->sets * sizeof *at);
	for (int i = 0; i < w->nc && !full(w); i++) {
		struct mean v = { 0 };
		int s = set_of(w, i), partner = 0;

		at[s]++;		/* position after i in its set */
		if (w->gone[i])
			continue;
		mean_add(&v, box_of(w, i), score_of(w->c[i].key));
		for (int k = at[s]; k < w->first[s + 1]; k++) {
			int j = w->member[k];
			double iou = w->gone[j] ? 0 : overlap(box_of(w, i), box_of(w, j));

			if (w->gone[j])
				continue;
			partner |= iou > .5;
			w->gone[j] = both ? iou >= w->m->iou_thresh : iou > w->m->iou_thresh;
			if (w->gone[j])
				mean_add(&v, box_of(w, j), score_of(w->c[j].key));
		}
		if (!both)
			emit_mean(w, i, &v);
		else if (partner)
			emit_cand(w, i, box_of(w, i));
	}
	free(at);
}

/* ---- decaying scores ---- */

static void
decay(struct nms_work *w, int i, int j)
{
	double iou = overlap(box_of(w, i), box_of(w, j));

	if (w->m->sigma > 0)
		w->now[j] *= (float)exp(-iou * iou / w->m->sigma);
	else if (iou > w->m->iou_thresh)
		w->now[j] *= (float)(1 - iou);
	if (w->m->resort && !(w->now[j] > w->m->score_thresh))
		w->gone[j] = 1;
}

/* The best that remains in a set, -1: none. */
static int
best_of(const struct nms_work *w, int s)
{
	int best = -1;

	for (int k = w->first[s]; k < w->first[s + 1]; k++) {
		int j = w->member[k];
		const struct nms_cand *a = &w->c[j], *b = &w->c[best < 0 ? j : best];

		if (w->gone[j])
			continue;
		if (best < 0 || w->now[j] > w->now[best] || (w->now[j] == w->now[best] &&
		    (a->box < b->box || (a->box == b->box && a->cls < b->cls))))
			best = j;
	}
	return best;
}

/* Each set yields falling scores, so taking the best of the sets' heads is the final order. */
static void
soft_sorted(struct nms_work *w)
{
	int *head = (int *)xmalloc((size_t)w->sets * sizeof *head);

	for (int s = 0; s < w->sets; s++)
		head[s] = best_of(w, s);
	while (!full(w)) {
		int top = -1, i;

		for (int s = 0; s < w->sets; s++) {
			int a = head[s], b = top < 0 ? -1 : head[top];

			if (a >= 0 && (b < 0 || w->now[a] > w->now[b] || (w->now[a] == w->now[b] &&
			    w->c[a].box < w->c[b].box)))
				top = s;
		}
		if (top < 0)
			break;
		i = head[top];
		nms_emit(w, box_of(w, i), w->now[i], w->c[i].cls, w->c[i].box);
		w->gone[i] = 1;
		for (int k = w->first[top]; k < w->first[top + 1]; k++)
			if (!w->gone[w->member[k]])
				decay(w, i, w->member[k]);
		head[top] = best_of(w, top);
	}
	free(head);
}

static int
by_score(const void *x, const void *y)
{
	const struct det *a = (const struct det *)x, *b = (const struct det *)y;

	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	return (a->cls > b->cls) - (a->cls < b->cls);
}

static void
sort_out(struct nms_work *w)
{
	if (w->nout > 1)
		qsort(w->out, (size_t)w->nout, sizeof *w->out, by_score);
	if (w->m->max_det > 0 && w->nout > w->m->max_det)
		w->nout = w->m->max_det;
}

/* In the order of the initial scores; nothing falls out. */
static void
soft_fixed(struct nms_work *w)
{
	for (int s = 0; s < w->sets; s++)
		for (int k = w->first[s]; k < w->first[s + 1]; k++) {
			int i = w->member[k];

			nms_emit(w, box_of(w, i), w->now[i], w->c[i].cls, w->c[i].box);
			for (int l = k + 1; l < w->first[s + 1]; l++)
				decay(w, i, w->member[l]);
		}
	sort_out(w);
}

static void
soft(struct nms_work *w)
{
	w->now = (float *)xmalloc((size_t)w->nc * sizeof *w->now + 1);
	for (int i = 0; i < w->nc; i++)
		w->now[i] = score_of(w->c[i].key);
	if (w->m->resort)
		soft_sorted(w);
	else
		soft_fixed(w);
	free(w->now);
}

void
nms_rule(struct nms_work *w)
{
	make_sets(w);
	if (w->m->rule == NMS_R_SOFT)
		soft(w);
	else if (w->m->rule == NMS_R_MERGE || w->m->rule == NMS_R_AND)
		consume(w);
	else
		greedy(w);
	if (w->m->rule == NMS_R_OBJECTNESS)
		sort_out(w);
}
