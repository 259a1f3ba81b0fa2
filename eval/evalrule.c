/* evalrule.c -- which detection matches which truth, by each rule.
 *
 * The unit is one class of one picture, detections by descending score.  COCO walks the truths for
 * each detection and takes the best one still free; every other rule first fixes the best truth of
 * a detection (for VOC also among those already used) and gives it to the first that asks, so a
 * detection whose best truth is taken has no second choice. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/int.h"

static void *
take(char **p, size_t bytes)
{
	void *q = *p;

	*p += (bytes + 15) / 16 * 16;
	return q;
}

static const double *
box_of(const struct eval_det *d)
{
	return &d->x;
}

/* What a truth with these flags is under a rule.  EV_TRUTH: it counts.  EV_IGNORE: detections on
 * it count neither way.  EV_REMOVE: as if it were not there.  Originals: COCO ignores crowds and
 * knows no difficult boxes; VOC ignores difficult ones; darknet's and ultralytics' label files are
 * made without crowds and without difficult boxes. */
enum eval_soft
eval_soft(const struct eval_opts *o, enum eval_rule r, int flags)
{
	int voc = r == EV_VOC07 || r == EV_VOC10;
	enum eval_soft crowd = o->crowd, hard = o->difficult, a = EV_TRUTH, b = EV_TRUTH;

	if (flags & BOX_CROWD)
		a = crowd ? crowd : r == EV_COCO || voc ? EV_IGNORE : EV_REMOVE;
	if (flags & BOX_DIFFICULT)
		b = hard ? hard : r == EV_COCO ? EV_TRUTH : voc ? EV_IGNORE : EV_REMOVE;
	if (a == EV_REMOVE || b == EV_REMOVE)
		return EV_REMOVE;
	return a == EV_IGNORE || b == EV_IGNORE ? EV_IGNORE : EV_TRUTH;
}

/* ---- which truths a detection can touch ---- */

/* Truths by their left edge, so that those which overlap a detection from left to right lie in one
 * range, found by two searches: thousands of boxes in one picture cost n log n, not n squared. */
struct edge { double left, reach; int i; };	/* reach: the largest right edge up to here */
enum { FEW = 24 };				/* truths that are faster looked at one by one */

static int
by_left(const void *a, const void *b)
{
	const struct edge *p = (const struct edge *)a, *q = (const struct edge *)b;

	return p->left < q->left ? -1 : p->left > q->left ? 1 : p->i - q->i;
}

/* NULL: look at all of them. */
static const struct edge *
edges_sort(const struct box *const *g, int n, struct eval_buf *buf)
{
	struct edge *v;
	double reach = -HUGE_VAL;

	if (n <= FEW)
		return NULL;
	v = (struct edge *)(buf->edge = xgrow(buf->edge, &buf->edges, (size_t)n, sizeof *v));
	for (int i = 0; i < n; i++) {
		v[i] = (struct edge){ g[i]->x, g[i]->x + g[i]->w, i };
		if (!isfinite(v[i].left) || !isfinite(v[i].reach))
			return NULL;
	}
	qsort(v, (size_t)n, sizeof *v, by_left);
	for (int i = 0; i < n; i++)
		v[i].reach = reach = fmax(reach, v[i].reach);
	return v;
}

/* [*from, *to) of v: all that a box from left to right can share a pixel with. */
static void
edges_range(const struct edge *v, int n, const double *det, int *from, int *to)
{
	double left = det[0] - 2, right = det[0] + det[2] + 2;	/* VOC's boxes are a pixel wider */
	int lo = 0, hi = n;

	while (lo < hi) {
		int m = lo + (hi - lo) / 2;

		if (v[m].reach < left)
			lo = m + 1;
		else
			hi = m;
	}
	*from = lo;
	for (hi = n; lo < hi;) {
		int m = lo + (hi - lo) / 2;

		if (v[m].left <= right)
			lo = m + 1;
		else
			hi = m;
	}
	*to = lo;
}

/* ---- COCO ---- */

struct hits { uint32_t any, ignored, zero; };	/* bit t: a match, an ignored truth, one of id 0 */
struct pair { double iou; int g; };
struct coco {
	int nd, ng;			/* detections that can match, truths not removed */
	const struct box **g;
	unsigned char *soft, *crowd, *ign, *used;
	int *det;			/* place of each in ord */
	struct pair *pair;		/* truths that each can match, in order, from first[d] on */
	size_t *first;			/* [nd + 1] */
	struct hits *hits, *uniform;	/* [nd] */
};

/* The truth that detection d takes at threshold floor, -1: none.  Truths that count come first, and
 * the ignored ones are looked at only without one of those; later truths win equal IoU. */
static int
coco_take(const struct coco *c, int d, double floor)
{
	double best = floor;
	int m = -1;

	for (int pass = 0; pass < 2 && m < 0; pass++)
		for (size_t k = c->first[d]; k < c->first[d + 1]; k++) {
			int g = c->pair[k].g;

			if (c->ign[g] != pass || c->pair[k].iou < best ||
			    (c->used[g] && !c->crowd[g]))
				continue;
			best = c->pair[k].iou;
			m = g;
		}
	return m;
}

/* One area's walk at threshold number bit. */
static void
coco_walk(const struct coco *c, double t, uint32_t bit, struct hits *hits)
{
	double floor = t < 1 - 1e-10 ? t : 1 - 1e-10;

	memset(c->used, 0, (size_t)c->ng);
	for (int d = 0; d < c->nd; d++) {
		int m = coco_take(c, d, floor);

		if (m < 0)
			continue;
		c->used[m] = 1;
		hits[d].any |= bit;
		hits[d].ignored |= c->ign[m] ? bit : 0;
		hits[d].zero |= c->g[m]->id ? 0 : bit;
	}
}

/* 1 when the truths are all ignored in this area, or none, and the walk then the same as in any
 * other such area. */
static int
coco_ignore(struct coco *c, const double *area)
{
	int ignored = 0;

	for (int g = 0; g < c->ng; g++)
		ignored += c->ign[g] =
		    c->soft[g] || c->g[g]->area < area[0] || c->g[g]->area > area[1];
	return !ignored || ignored == c->ng;
}

/* The words of those that can match, in area a; coco_nothing has written them as unmatched.
 * Pycocotools takes a match with a truth of id 0 for none. */
static void
coco_code(const struct eval_group *p, const struct coco *c, int a, const struct hits *hits,
    int alike)
{
	const struct eval *e = p->e;

	for (int d = 0; d < c->nd; d++) {
		uint32_t *word = p->code + (size_t)c->det[d] * (size_t)(e->words + 1) +
		    (size_t)(e->off[EV_COCO] + a);
		struct hits h = hits[d];

		if (alike)
			h.ignored = c->ign[0] ? h.any : 0;
		if (e->opt.pycocotools)
			h.any &= ~h.zero;
		*word = word_of(h.any & ~h.ignored, h.ignored) | (*word & ~word_of(0, h.any));
	}
}

/* All unmatched: ignored in the areas that they are outside of. */
static void
coco_nothing(const struct eval_group *p, int nd)
{
	const struct eval *e = p->e;
	uint32_t ign = word_of(0, word_all(e->niou[EV_COCO]));

	for (int d = 0; d < nd; d++) {
		const struct eval_det *det = p->im->det + p->ord[d];
		uint32_t *word = p->code + (size_t)d * (size_t)(e->words + 1) +
		    (size_t)e->off[EV_COCO];
		double area = det->w * det->h;

		for (int a = 0; a < e->opt.narea; a++)
			word[a] = area < e->opt.area[a][0] || area > e->opt.area[a][1] ? ign : 0;
	}
}

static double
least_iou(const struct eval *e, enum eval_rule r)
{
	double least = 1 - 1e-10;

	for (int t = 0; t < e->niou[r]; t++)
		least = fmin(least, e->iou[r][t]);
	return least;
}

static int
by_truth(const void *a, const void *b)
{
	return ((const struct pair *)a)->g - ((const struct pair *)b)->g;
}

/* Truths, and of the first nd detections those that reach the least threshold with one of them. */
static void
coco_load(const struct eval_group *p, struct coco *c, int nd)
{
	const struct eval_opts *o = &p->e->opt;
	double least = least_iou(p->e, EV_COCO);
	struct eval_buf *buf = p->buf;
	const struct edge *edge;
	size_t n = 0;

	for (int i = 0; i < p->nt; i++) {
		const struct box *b = p->im->box + p->tr[i];
		enum eval_soft s = eval_soft(o, EV_COCO, b->flags);

		if (s == EV_REMOVE)
			continue;
		c->g[c->ng] = b;
		c->soft[c->ng] = s == EV_IGNORE;
		c->crowd[c->ng++] = s == EV_IGNORE && (b->flags & BOX_CROWD);
	}
	edge = least > 0 ? edges_sort(c->g, c->ng, buf) : NULL;
	for (int d = 0; d < nd; d++) {
		const double *det = box_of(p->im->det + p->ord[d]);
		int from = 0, to = c->ng;

		c->first[c->nd] = n;
		if (edge)
			edges_range(edge, c->ng, det, &from, &to);
		for (int k = from; k < to; k++) {
			int g = edge ? edge[k].i : k;
			double v = eval_iou(det, &c->g[g]->x, c->crowd[g]);

			if (v < least)
				continue;
			buf->pair = xgrow(buf->pair, &buf->pairs, n + 1, sizeof *c->pair);
			((struct pair *)buf->pair)[n++] = (struct pair){ v, g };
		}
		if (edge && n > c->first[c->nd] + 1)
			qsort((struct pair *)buf->pair + c->first[c->nd], n - c->first[c->nd],
			    sizeof *c->pair, by_truth);
		c->det[c->nd] = d;
		c->nd += n > c->first[c->nd];
	}
	c->first[c->nd] = n;
	c->pair = (struct pair *)buf->pair;
}

static void
coco_group(const struct eval_group *p)
{
	const struct eval *e = p->e;
	int last = e->opt.maxdet[e->opt.nmaxdet - 1], nd = p->nd < last ? p->nd : last;
	int niou = e->niou[EV_COCO], known = 0;
	struct eval_buf *buf = p->buf;
	size_t n = (size_t)nd, g = (size_t)p->nt, need;
	struct coco c = { .nd = 0 };
	char *q;

	coco_nothing(p, nd);
	if (!p->nt)
		return;
	need = 256 + g * (sizeof *c.g + 4) +
	    (n + 1) * (sizeof *c.det + sizeof *c.first + 2 * sizeof *c.hits);
	q = (char *)(buf->p = xgrow(buf->p, &buf->cap, need, 1));
	c.g = (const struct box **)take(&q, g * sizeof *c.g);
	c.det = (int *)take(&q, (n + 1) * sizeof *c.det);
	c.first = (size_t *)take(&q, (n + 1) * sizeof *c.first);
	c.hits = (struct hits *)take(&q, n * sizeof *c.hits);
	c.uniform = (struct hits *)take(&q, n * sizeof *c.hits);
	c.soft = (unsigned char *)take(&q, g);
	c.crowd = (unsigned char *)take(&q, g);
	c.ign = (unsigned char *)take(&q, g);
	c.used = (unsigned char *)take(&q, g);
	coco_load(p, &c, nd);
	for (int a = 0; a < e->opt.narea && c.nd; a++) {
		int alike = coco_ignore(&c, e->opt.area[a]);
		struct hits *h = alike ? c.uniform : c.hits;

		if (!alike || !known)
			memset(h, 0, (size_t)c.nd * sizeof *h);
		for (int t = 0; t < niou && !(alike && known); t++)
			coco_walk(&c, e->iou[EV_COCO][t], 1u << t, h);
		known |= alike;
		coco_code(p, &c, a, h, alike);
	}
}

/* ---- the others ---- */

/* VOC counts pixels: a box from x to x + w covers w + 1 of them. */
static double
iou_pixels(const double *d, const double *g)
{
	double w = fmin(d[2] + d[0], g[2] + g[0]) - fmax(d[0], g[0]) + 1;
	double h = fmin(d[3] + d[1], g[3] + g[1]) - fmax(d[1], g[1]) + 1;

	if (w <= 0 || h <= 0)
		return 0;
	return w * h / ((d[2] + 1) * (d[3] + 1) + (g[2] + 1) * (g[3] + 1) - w * h);
}

struct best {
	int truth;			/* -1 none */
	int ignored;
	double iou, soft;		/* soft: the largest IoU with an ignored truth */
};

struct plain {			/* the truths of a group, for rules other than COCO's */
	enum eval_rule r;
	int n, voc;
	const struct box **g;
	unsigned char *soft;
	const struct edge *edge;	/* NULL: all are looked at */
};

/* Of equal ones the first, but for ultralytics' rule the last. */
static struct best
best_truth(const struct eval_group *p, const struct plain *t, const struct eval_det *det)
{
	struct best b = { -1, 0, -HUGE_VAL, 0 };
	int from = 0, to = t->n;

	if (t->edge)
		edges_range(t->edge, t->n, box_of(det), &from, &to);
	for (int k = from; k < to; k++) {
		int i = t->edge ? t->edge[k].i : k;
		const struct box *g = t->g[i];
		double v;

		if (t->soft[i] == EV_REMOVE)
			continue;
		v = t->voc && p->e->opt.pixel ? iou_pixels(box_of(det), &g->x) :
		    eval_iou(box_of(det), &g->x, 0);
		if (t->soft[i] == EV_IGNORE && !t->voc) {
			b.soft = fmax(b.soft, v);
			continue;
		}
		if (v > b.iou || (v == b.iou && (t->r == EV_ULTRA) == (i > b.truth))) {
			b.iou = v;
			b.truth = i;
			b.ignored = t->soft[i] == EV_IGNORE;
		}
	}
	return b;
}

/* Where a threshold of 0 or less asks for boxes that do not touch, all truths are looked at. */
static void
plain_load(const struct eval_group *p, struct plain *t, uint32_t **used)
{
	size_t n = (size_t)p->nt;
	struct eval_buf *buf = p->buf;

	t->g = (const struct box **)(buf->p =
	    xgrow(buf->p, &buf->cap, n * (sizeof *t->g + sizeof **used + 1) + 16, 1));
	*used = (uint32_t *)(t->g + n);
	t->soft = (unsigned char *)(*used + n);
	memset(*used, 0, n * sizeof **used);
	for (int i = 0; i < p->nt; i++) {
		t->g[i] = p->im->box + p->tr[i];
		t->soft[i] = (unsigned char)eval_soft(&p->e->opt, t->r, t->g[i]->flags);
	}
	t->edge = least_iou(p->e, t->r) > 0 ? edges_sort(t->g, t->n, buf) : NULL;
}

static void
plain_group(const struct eval_group *p, enum eval_rule r)
{
	const struct eval *e = p->e;
	struct plain truth = { .r = r, .n = p->nt, .voc = r == EV_VOC07 || r == EV_VOC10 };
	int strict = r == EV_DARKNET || r == EV_ULTRA2019 || (truth.voc && e->opt.strict);
	uint32_t *used;			/* of each truth, bit t */

	plain_load(p, &truth, &used);
	for (int d = 0; d < p->nd; d++) {
		struct best b = best_truth(p, &truth, p->im->det + p->ord[d]);
		uint32_t tp = 0, ignored = 0, one = 1;

		for (int t = 0; t < e->niou[r]; t++, one <<= 1) {
			double thr = e->iou[r][t];

			if (b.truth >= 0 && (strict ? b.iou > thr : b.iou >= thr)) {
				if (b.ignored)
					ignored |= one;
				else if (!(used[b.truth] & one)) {
					used[b.truth] |= one;
					tp |= one;
					if (r == EV_DARKNET && !t)
						p->over[d] = b.iou;
				}
			} else if (strict ? b.soft > thr : b.soft >= thr)
				ignored |= one;
		}
		p->code[(size_t)d * (size_t)(e->words + 1) + (size_t)e->off[r]] =
		    word_of(tp, ignored);
	}
}

void
eval_match(const struct eval_group *p)
{
	const struct eval *e = p->e;

	if (eval_has(&e->opt, EV_COCO)) {
		memset(p->code, 0, (size_t)p->nd * (size_t)(e->words + 1) * sizeof *p->code);
		coco_group(p);
	}
	for (int r = EV_VOC07; r < EV_RULES; r++)
		if (eval_has(&e->opt, r))
			plain_group(p, (enum eval_rule)r);
}
