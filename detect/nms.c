/* nms.c -- suppression: methods by name, candidates, rules; and from network to picture.
 *
 * A candidate is a box and a class whose score passes.  All candidates are sorted once, by score
 * and then by index; the rules walk them in that order. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"

/* What is collected first, and decided on then. */
struct nms_cand {
	uint32_t key;			/* bits of the score: positive floats order as integers */
	int box, cls;
};
struct nms_work {
	const struct nms *m;
	const struct nms_in *in;
	int sets;
	struct nms_cand *c;			/* in the order of rule 2 */
	int nc;
	size_t cap;
	int *member, *first;	/* set s holds candidates member[first[s]] .. [first[s+1]-1] */
	unsigned char *gone;
	float *now;			/* current scores, for decaying rules */
	struct det *out;
	int nout;
	size_t outcap;
};

static void nms_rule(struct nms_work *w);

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

static int
nms_passes(const struct nms *m, float score)
{
	return score > m->score_thresh && score > 0 && score <= FLT_MAX;
}

static float
nms_score(const struct nms_work *w, int box, int k)
{
	return w->in->score[(size_t)box * (size_t)w->in->classes + (size_t)k];
}

static void
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
add_cand(struct nms_work *w, float score, int box, int cls)
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
		add_cand(w, w->in->objectness[box], box, 0);
		return;
	}
	for (int k = 0; k < w->in->classes; k++) {
		float s = nms_score(w, box, k);

		if (!nms_passes(w->m, s))
			continue;
		if (!w->m->best_class_only)
			add_cand(w, s, box, k);
		else if (s > top) {
			best = k;
			top = s;
		}
	}
	if (best >= 0)
		add_cand(w, top, box, best);
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
nms_run(const struct nms *m, const struct nms_in *in, struct det **out)
{
	struct nms_work w = { .m = m, .in = in, .sets = sets(m, in->classes) };
	struct nms plain;

	if (m->rule == NMS_R_OBJECTNESS && !in->objectness) {
		plain = *m;		/* nothing to order by but the scores */
		plain.rule = NMS_R_GREEDY;
		plain.agnostic = 1;
		w.m = &plain;
	}
	for (int i = 0; i < in->n; i++) {
		const float *b = in->box + 4 * (size_t)i;

		if (in->objectness && !nms_passes(m, in->objectness[i]))
			continue;
		if (all_finite(b, 4) && size_ok(m, (double)b[2] - b[0], (double)b[3] - b[1]))
			add_box(&w, i);
	}
	return suppress(&w, out);
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

/* Non-maximum suppression in all its kinds.
 *
 * Candidates come sorted by score and then by index and are walked in that order; each competes
 * within its set (its class, or all).  Rules that leave scores alone yield their results in the
 * final order, so the walk ends at max_det: a score threshold of 0.001 on ten thousand boxes and
 * eighty classes costs a sort and a few hundred short walks.  Decaying rules keep a best candidate
 * per set and take the best of the sets.
 *
 * IoU is 0 where the union is 0, comparisons are strict, and classes are told apart by number, not
 * by moving boxes, so that neither huge boxes nor rounding can mix them. */

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
	return w->in->box + 4 * (size_t)w->c[cand].box;
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
	for (int k = 0; k < w->in->classes; k++) {
		float s = nms_score(w, box, k);

		if (nms_passes(w->m, s))
			nms_emit(w, w->in->box + 4 * (size_t)box, s, k, box);
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

/* Fills in out, nout. */
static void
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
