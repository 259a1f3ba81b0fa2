/* evalap.c -- the numbers: tables of average precision by class, their means by each rule.
 *
 * One pass over the detections of a class, by falling score, serves all IoU thresholds and area
 * ranges: a detection that no threshold accepts or ignores only raises the count of false
 * positives, so per threshold work is done for true positives and ignored ones alone.  COCO reads
 * a curve at 101 recalls, so of the true positives between two of them only the largest precision
 * is kept; the other rules need the curve.  Pictures may carry weights (bootstrap); the count of a
 * curve is then of weights.
 *
 * The file: detections in order; curves; tables; the best F1; rows. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/int.h"

/* ---- detections in order ----
 *
 * By class, then descending score; equal scores in the order of the pictures' keys, then of
 * rank.  A stable radix sort over the bits of the score (turned so that larger comes first) on
 * entries laid out in picture order gives just that. */

struct item64 { uint64_t key; uint32_t i; };

static uint64_t
falling(double score)
{
	uint64_t b;

	memcpy(&b, &score, sizeof b);
	return b >> 63 ? b : ~b & INT64_MAX;	/* negative ones rise with their bits */
}

/* Stable, ascending by bits [from, 64) of the key.  The result is in a or in tmp, as long. */
static struct item64 *
by_digits(struct item64 *a, struct item64 *tmp, size_t n, int from, int bits)
{
	size_t m = (size_t)1 << bits, *count = (size_t *)xmalloc(m * sizeof *count);

	for (; from < 64; from += bits) {
		struct item64 *was = a;
		size_t sum = 0;

		memset(count, 0, m * sizeof *count);
		for (size_t k = 0; k < n; k++)
			count[a[k].key >> from & (m - 1)]++;
		if (count[a[0].key >> from & (m - 1)] == n)
			continue;
		for (size_t v = 0; v < m; v++) {
			size_t c = count[v];

			count[v] = sum;
			sum += c;
		}
		for (size_t k = 0; k < n; k++)
			tmp[count[a[k].key >> from & (m - 1)]++] = a[k];
		a = tmp;
		tmp = was;
	}
	free(count);
	return a;
}

/* Stable, ascending by key; the result is in a or in tmp.  Scores that differ at all mostly differ
 * in the upper 44 bits. */
static struct item64 *
radix(struct item64 *a, struct item64 *tmp, size_t n)
{
	int bits = n < 2000 ? 8 : 11;
	struct item64 *to;

	if (n < 48) {
		for (size_t k = 1; k < n; k++) {
			struct item64 x = a[k];
			size_t at = k;

			for (; at > 0 && a[at - 1].key > x.key; at--)
				a[at] = a[at - 1];
			a[at] = x;
		}
		return a;
	}
	to = by_digits(a, tmp, n, 20, bits);
	for (size_t k = 1; k < n; k++)
		if (to[k - 1].key > to[k].key)
			return by_digits(to, to == a ? tmp : a, n, 0, bits);
	return to;
}

static void
sort_entries(const struct eval *e, uint32_t *order, size_t n)
{
	struct item64 *a = (struct item64 *)xmalloc(2 * n * sizeof *a), *to;

	for (size_t k = 0; k < n; k++) {
		a[k].key = falling(e->score[order[k]]);
		a[k].i = order[k];
	}
	to = radix(a, a + n, n);
	for (size_t k = 0; k < n; k++)
		order[k] = to[k].i;
	free(a);
}

/* Pictures by key, stable; *from: what to free. */
static const struct item64 *
pictures(const struct eval *e, struct item64 **from)
{
	struct item64 *p = *from = (struct item64 *)xmalloc(2 * e->nimage * sizeof *p);
	int sorted = 1;

	for (size_t i = 0; i < e->nimage; i++) {
		p[i].key = (uint64_t)e->key[i] ^ (uint64_t)1 << 63;
		p[i].i = (uint32_t)i;
		sorted &= !i || p[i - 1].key <= p[i].key;
	}
	return sorted ? p : radix(p, p + e->nimage, e->nimage);
}

void
eval_finish(struct eval *e)
{
	const struct item64 *p;
	struct item64 *mem;
	size_t *at, nc = (size_t)e->nclass;

	if (e->finished)
		return;
	free(e->all);
	e->all = NULL;
	free(e->pic);
	e->pic = NULL;
	e->order = (uint32_t *)xrealloc(e->order, e->n * sizeof *e->order);
	free(e->cstart);
	e->cstart = (size_t *)xcalloc(nc + 2, sizeof *e->cstart);
	for (size_t i = 0; i < e->n; i++)
		e->cstart[e->cls[i] + 1]++;
	for (size_t c = 0; c < nc; c++)
		e->cstart[c + 1] += e->cstart[c];
	at = (size_t *)xmalloc((nc + 1) * sizeof *at);
	memcpy(at, e->cstart, (nc + 1) * sizeof *at);
	p = pictures(e, &mem);
	for (size_t k = 0; k < e->nimage; k++) {
		size_t i = p[k].i;

		for (size_t j = i ? e->dend[i - 1] : 0; j < e->dend[i]; j++)
			e->order[at[e->cls[j]]++] = (uint32_t)j;
	}
#pragma omp parallel for num_threads(e->opt.threads) schedule(dynamic, 1)
	for (int c = 0; c < e->nclass; c++)
		sort_entries(e, e->order + e->cstart[c], e->cstart[c + 1] - e->cstart[c]);
	free(mem);
	free(at);
	e->finished = 1;
}

/* All classes together. */
static void
eval_sort_all(struct eval *e)
{
	if (e->all)
		return;
	e->all = (uint32_t *)xmalloc((e->n + 1) * sizeof *e->all);
	memcpy(e->all, e->order, e->n * sizeof *e->all);
	sort_entries(e, e->all, e->n);
}

/* The picture of each detection, which only weights ask for. */
static void
eval_pictures(struct eval *e)
{
	if (e->pic)
		return;
	e->pic = (uint32_t *)xmalloc((e->n + 1) * sizeof *e->pic);
	for (size_t i = 0, j = 0; i < e->nimage; i++)
		for (; j < e->dend[i]; j++)
			e->pic[j] = (uint32_t)i;
}

/* ---- from a precision-recall curve to average precision, six ways ----
 *
 * A curve is known by its true positives alone: between two of them recall stands still and
 * precision only falls, so the envelope (the largest precision from here on) is decided at true
 * positives.  tp[k], fp[k] are counts up to and with the k-th. */

/* COCO's recalls: one ulp off i / 100 at ten places, as numpy's linspace makes them. */
static double
recall_coco(int i)
{
	return i * 0.01;
}

/* Largest precision at or after each true positive; e(k) = max over j >= k of precision(j). */
static double *
envelope(const struct eval_curve *c, double eps)
{
	double *p = (double *)xmalloc((c->n + 1) * sizeof *p), m = 0;

	p[c->n] = 0;
	for (uint32_t k = c->n; k-- > 0;) {
		double v = c->tp[k] / ((double)c->fp[k] + (double)c->tp[k] + eps);

		p[k] = m = v > m ? v : m;
	}
	return p;
}

/* The envelope at each of n rising recalls; c->npos is not 0. */
static void
precision_at(const struct eval_curve *c, double eps, const double *recall, double *p, int n)
{
	double *e = envelope(c, eps);
	uint32_t k = 0;

	for (int i = 0; i < n; i++) {
		while (k < c->n && c->tp[k] / c->npos < recall[i])
			k++;
		p[i] = e[k];
	}
	free(e);
}

static double
mean_of(const double *p, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += p[i];
	return sum / n;
}

int
eval_curve_coco(const struct eval_curve *c, double p[EVAL_RECALLS])
{
	double recall[EVAL_RECALLS];

	for (int i = 0; i < EVAL_RECALLS; i++)
		recall[i] = recall_coco(i);
	if (c->npos > 0)
		precision_at(c, DBL_EPSILON, recall, p, EVAL_RECALLS);
	return c->npos > 0;
}

double
eval_ap_coco(const struct eval_curve *c)
{
	double p[EVAL_RECALLS];

	return eval_curve_coco(c, p) ? mean_of(p, EVAL_RECALLS) : -1;
}

/* Recalls i / (points - 1), VOC2007's eleven too; ulp: as its Python copies have them, i * 0.1,
 * whose 0.3, 0.6 and 0.7 are one ulp high, so that 3 found of 10 do not reach the fourth. */
static double
eval_ap_points(const struct eval_curve *c, int points, int ulp)
{
	double recall[EVAL_RECALLS], p[EVAL_RECALLS];

	if (c->npos <= 0)
		return -1;
	for (int i = 0; i < points; i++)
		recall[i] = ulp ? i * 0.1 : (double)i / (points - 1);
	precision_at(c, 0, recall, p, points);
	return mean_of(p, points);
}

static double
eval_ap_area(const struct eval_curve *c)
{
	double *p, sum = 0, r = 0;

	if (c->npos <= 0)
		return -1;
	p = envelope(c, 0);
	for (uint32_t k = 0; k < c->n; k++) {
		double to = c->tp[k] / c->npos;

		sum += (to - r) * p[k];
		r = to;
	}
	free(p);
	return sum;
}

/* The polygon through (recall, envelope) with a first and a last point of its own, linear between,
 * by the trapezium rule over 101 recalls.  Of the detections with equal recall the first ends the
 * line that comes to it and the last begins the line that leaves (numpy's interp): so two points
 * for a true positive, its own and what false positives after it left of the envelope. */
struct polygon {
	double *x, *y;
	size_t n;
};

static struct polygon
polygon_of(const struct eval_curve *c, int of2019)
{
	struct polygon g;
	double *p = envelope(c, 0), end, eps = 1e-16, last = 0;

	g.x = (double *)xmalloc(4 * ((size_t)c->n + 2) * sizeof *g.x);
	g.y = g.x + 2 * ((size_t)c->n + 2);
	g.n = 0;
	if (c->n)
		last = c->tp_all / ((double)c->tp_all + c->fp_all);
	g.x[0] = 0;
	/* false positives before the first true positive have recall 0 too */
	g.y[0] = c->n && !c->fp[0] && !of2019 ? 1 : p[0];
	g.n = 1;
	for (uint32_t k = 0; k < c->n; k++) {
		double before_next =
		    k + 1 < c->n ? c->tp[k] / ((double)c->fp[k + 1] + c->tp[k]) : last;

		g.x[g.n] = g.x[g.n + 1] = c->tp[k] / (c->npos + eps);
		g.y[g.n] = p[k];
		g.y[g.n + 1] = fmax(before_next, p[k + 1]);
		g.n += 2;
	}
	end = of2019 ? fmin((c->n ? g.x[g.n - 1] : 0) + 1e-3, 1.0) : 1;
	g.x[g.n] = end;
	g.y[g.n++] = 0;
	free(p);
	return g;
}

static double
eval_ap_ultra(const struct eval_curve *c, int of2019)
{
	struct polygon g;
	double sum = 0, before = 0;
	size_t j = 0;

	if (c->npos <= 0)
		return -1;
	if (!c->tp_all && !c->fp_all)
		return 0;
	g = polygon_of(c, of2019);
	for (int i = 0; i < EVAL_RECALLS; i++) {
		double x = i == 100 ? 1 : i * 0.01, y;

		while (j + 1 < g.n && g.x[j + 1] <= x)
			j++;
		y = j + 1 == g.n ? g.y[j] : (g.y[j + 1] - g.y[j]) / (g.x[j + 1] - g.x[j]) *
		    (x - g.x[j]) + g.y[j];
		if (i)
			sum += (x - (i - 1) * 0.01) * (y + before) / 2;
		before = y;
	}
	free(g.x);
	return sum;
}

static int
rule_of(const struct eval *e, int word)
{
	for (int r = EV_RULES - 1; r > 0; r--)
		if (eval_has(&e->opt, r) && e->off[r] == word)
			return r;
	return EV_COCO;
}

/* Truths that count, by class and word; weights of their pictures. */
static void
count_truths(const struct eval *e, const uint32_t *weight, double *npos)
{
	unsigned bit[EV_RULES + EVAL_AREAS], want[EV_RULES + EVAL_AREAS];

	for (int w = 0; w < e->words; w++) {
		int r = rule_of(e, w);

		bit[w] = r == EV_COCO ? truth_outside(w - e->off[EV_COCO]) : truth_in_rule(r);
		want[w] = r == EV_COCO ? 0 : bit[w];
	}
	for (size_t i = 0, k = 0; i < e->nt; i++) {
		while (i >= e->tend[k])
			k++;
		for (int w = 0; w < e->words; w++)
			if ((e->tmask[i] & bit[w]) == want[w])
				npos[e->tcls[i] * e->words + w] += weight ? weight[k] : 1;
	}
}

double *
eval_coco_truths(const struct eval *e, double *all)
{
	double *npos = (double *)xcalloc((size_t)e->nclass + 1, sizeof *npos);

	*all = 0;
	for (size_t i = 0; i < e->nt; i++)
		if (!(e->tmask[i] & truth_outside(0))) {
			npos[e->tcls[i]]++;
			++*all;
		}
	return npos;
}

/* ---- tables: COCO ---- */

struct bins {
	double best[EVAL_RECALLS];		/* largest precision from this recall to the next */
	uint32_t tp, ign;
	int at;
};
struct coco_pass {
	struct bins *b;			/* [narea][niou] */
	uint64_t need[EVAL_AREAS][EVAL_RECALLS + 1];	/* true positives that reach a recall */
	uint64_t few[EVAL_MAXDETS][EVAL_IOUS];	/* true positives within each maxDets */
	uint32_t seen[EVAL_AREAS];
};

/* The least count whose recall, as doubles divide, reaches each of COCO's. */
static void
set_needs(uint64_t *need, double npos)
{
	for (int i = 0; i < EVAL_RECALLS; i++) {
		double r = recall_coco(i);
		uint64_t k = (uint64_t)(r * npos);

		while (k && (double)(k - 1) / npos >= r)
			k--;
		while ((double)k / npos < r)
			k++;
		need[i] = k;
	}
	need[EVAL_RECALLS] = UINT64_MAX;
}

static void
coco_run(const struct eval_tables *tab, int c, struct coco_pass *p)
{
	const struct eval *e = tab->e;
	int na = e->opt.narea, nmax = e->opt.nmaxdet, nt = e->niou[EV_COCO];
	uint32_t outside = word_of(0, word_all(nt));	/* unmatched, ignored */

	for (size_t k = e->cstart[c]; k < e->cstart[c + 1]; k++) {
		size_t i = e->order[k];
		uint32_t times = eval_times(tab, i);
		int within = (int)eval_word(e, i, e->words);

		for (int a = 0; a < na && within && times; a++) {
			uint32_t code = eval_word(e, i, e->off[EV_COCO] + a), bits;

			if (code == outside)
				continue;
			p->seen[a] += times;
			for (bits = word_ignored(code); bits; bits &= bits - 1)
				p->b[a * nt + __builtin_ctz(bits)].ign += times;
			for (bits = word_true(code); bits; bits &= bits - 1) {
				int t = __builtin_ctz(bits);
				struct bins *b = &p->b[a * nt + t];
				double pr;

				b->tp += times;
				while (b->tp >= p->need[a][b->at + 1])
					b->at++;
				pr = b->tp / ((double)(p->seen[a] - b->tp - b->ign) +
						 (double)b->tp + DBL_EPSILON);
				b->best[b->at] = pr > b->best[b->at] ? pr : b->best[b->at];
				for (int m = nmax - within; a == 0 && m < nmax; m++)
					p->few[m][t] += times;
			}
		}
	}
}

static double
coco_ap(struct bins *b)
{
	for (int i = EVAL_RECALLS - 1; i > 0; i--)
		b->best[i - 1] = fmax(b->best[i - 1], b->best[i]);
	return mean_of(b->best, EVAL_RECALLS);
}

static void
coco_class(struct eval_tables *tab, int c)
{
	const struct eval *e = tab->e;
	size_t w = (size_t)e->words, first = (size_t)c * w + (size_t)e->off[EV_COCO];
	int nt = e->niou[EV_COCO];
	struct coco_pass *p = (struct coco_pass *)xcalloc(1, sizeof *p);
	const double *npos = tab->npos + first;

	p->b = (struct bins *)xcalloc((size_t)(e->opt.narea * nt), sizeof *p->b);
	for (int a = 0; a < e->opt.narea; a++)
		if (npos[a] > 0)
			set_needs(p->need[a], npos[a]);
		else
			p->need[a][1] = UINT64_MAX;
	coco_run(tab, c, p);
	for (int a = 0; a < e->opt.narea; a++)
		for (int t = 0; t < e->niou[EV_COCO]; t++) {
			size_t at = (first + (size_t)a) * EVAL_IOUS + (size_t)t;
			struct bins *b = &p->b[a * nt + t];
			int zero = e->opt.absent && !(npos[0] > 0) && p->seen[a] - b->tp - b->ign;

			tab->ap[at] = npos[a] > 0 ? coco_ap(b) : zero ? 0 : -1;
			tab->recall[at] = npos[a] > 0 ? b->tp / npos[a] : -1;
		}
	for (int m = 0; m < e->opt.nmaxdet; m++)
		for (int t = 0; t < e->niou[EV_COCO]; t++)
			tab->few[((size_t)c * EVAL_MAXDETS + (size_t)m) * EVAL_IOUS + (size_t)t] =
			    npos[0] > 0 ? (double)p->few[m][t] / npos[0] : -1;
	free(p->b);
	free(p);
}

/* ---- tables: the others, one word, curves ---- */

struct pass {
	struct eval_curve cv[EVAL_IOUS];
	uint32_t *mem;
};

static void
pass_open(struct pass *p, const struct eval_tables *tab, int c, int r)
{
	const struct eval *e = tab->e;
	size_t cap = tab->ntruth[c] + 1;
	uint32_t *m;

	memset(p, 0, sizeof *p);
	p->mem = m = (uint32_t *)xmalloc((size_t)e->niou[r] * 2 * cap * sizeof *m);
	for (int t = 0; t < e->niou[r]; t++, m += 2 * cap) {
		p->cv[t].tp = m;
		p->cv[t].fp = m + cap;
		p->cv[t].npos = tab->npos[c * e->words + e->off[r]];
	}
}

static void
pass_run(struct pass *p, const struct eval_tables *tab, int c, int r)
{
	const struct eval *e = tab->e;
	uint32_t seen = 0, ign[EVAL_IOUS] = { 0 };

	for (size_t k = e->cstart[c]; k < e->cstart[c + 1]; k++) {
		size_t i = e->order[k];
		uint32_t times = eval_times(tab, i);
		uint32_t code = eval_word(e, i, e->off[r]), bits;

		seen += times;
		for (bits = word_ignored(code); bits; bits &= bits - 1)
			ign[__builtin_ctz(bits)] += times;
		for (bits = times ? word_true(code) : 0; bits; bits &= bits - 1) {
			int t = __builtin_ctz(bits);
			struct eval_curve *v = p->cv + t;

			v->tp[v->n] = v->tp_all += times;
			v->fp[v->n++] = seen - v->tp_all - ign[t];
		}
	}
	for (int t = 0; t < e->niou[r]; t++)
		p->cv[t].fp_all = seen - p->cv[t].tp_all - ign[t];
}

static double
ap_by_rule(const struct eval *e, int rule, const struct eval_curve *v, int absent)
{
	if (absent && v->fp_all)	/* no truth, but false positives */
		return 0;
	switch (rule) {
	case EV_VOC07: return eval_ap_points(v, 11, e->opt.ulp);
	case EV_VOC10: return eval_ap_area(v);
	case EV_DARKNET:
		return e->opt.points ? eval_ap_points(v, e->opt.points, 0) : eval_ap_area(v);
	default: return eval_ap_ultra(v, rule == EV_ULTRA2019);
	}
}

static void
other_class(struct eval_tables *tab, int c, int r)
{
	const struct eval *e = tab->e;
	struct pass p;

	pass_open(&p, tab, c, r);
	pass_run(&p, tab, c, r);
	for (int t = 0; t < e->niou[r]; t++) {
		size_t at = (size_t)(c * e->words + e->off[r]) * EVAL_IOUS + (size_t)t;
		const struct eval_curve *v = p.cv + t;

		tab->ap[at] = ap_by_rule(e, r, v, e->opt.absent && !(v->npos > 0));
		tab->recall[at] = v->npos > 0 ? v->tp_all / v->npos : -1;
		if (r == EV_ULTRA2019 && t == 0) {
			tab->end[2 * c] =
			    v->tp_all ? v->tp_all / ((double)v->tp_all + v->fp_all) : 0;
			tab->end[2 * c + 1] = tab->recall[at];
		}
	}
	free(p.mem);
}

/* Everything of one class into the tables; -1: all classes put in order, for the best F1. */
static void
one_class(struct eval_tables *tab, struct eval *e, int c)
{
	if (c < 0) {
		if (eval_has(&e->opt, EV_COCO))
			eval_sort_all(e);
		return;
	}
	if (eval_has(&e->opt, EV_COCO))
		coco_class(tab, c);
	for (int r = 1; r < EV_RULES; r++)
		if (eval_has(&e->opt, r))
			other_class(tab, c, r);
}

void
eval_tables(struct eval_tables *tab, struct eval *e, const uint32_t *weight)
{
	size_t nc = (size_t)e->nclass, cell = nc * (size_t)e->words * EVAL_IOUS;

	memset(tab, 0, sizeof *tab);
	eval_finish(e);
	if (weight)
		eval_pictures(e);
	tab->e = e;
	tab->weight = weight;
	tab->npos = (double *)xcalloc(nc * (size_t)e->words, sizeof(double));
	tab->ap = (double *)xcalloc(cell, sizeof(double));
	tab->recall = (double *)xcalloc(cell, sizeof(double));
	tab->few = (double *)xcalloc(nc * EVAL_MAXDETS * EVAL_IOUS, sizeof(double));
	tab->end = (double *)xcalloc(2 * nc, sizeof(double));
	tab->ntruth = (uint32_t *)xcalloc(nc, sizeof(uint32_t));
	for (size_t i = 0; i < e->nt; i++)
		tab->ntruth[e->tcls[i]]++;
	count_truths(e, weight, tab->npos);
#pragma omp parallel for num_threads(e->opt.threads) schedule(dynamic, 1)
	for (int c = -1; c < e->nclass; c++)
		one_class(tab, e, c);
}

void
eval_tables_free(struct eval_tables *tab)
{
	free(tab->npos);
	free(tab->ap);
	free(tab->recall);
	free(tab->few);
	free(tab->end);
	free(tab->ntruth);
}

static int
iou_index(const struct eval *e, int rule, double iou)
{
	for (int t = 0; t < e->niou[rule]; t++)
		if (fabs(e->iou[rule][t] - iou) < 1e-9)
			return t;
	return -1;
}

int
eval_half(const struct eval *e)
{
	int t = iou_index(e, EV_COCO, 0.5);

	return t < 0 ? 0 : t;
}

enum eval_is
eval_coco_is(const struct eval *e, size_t i, int t)
{
	return eval_word(e, i, e->words) ? word_at(eval_word(e, i, e->off[EV_COCO]), t) :
	    EVAL_NEITHER;
}

/* Scan entries by falling score; every score is a threshold, with all its ties on board. */
static struct eval_point
scan(const struct eval *e, const uint32_t *order, size_t n, const uint32_t *weight, double npos)
{
	struct eval_point b = { 0, 0, 0, -1 };
	uint64_t tp = 0, fp = 0;
	int t = eval_half(e);

	if (npos == 0)
		return (struct eval_point){ -1, -1, -1, -1 };
	for (size_t k = 0; k < n; k++) {
		size_t i = order[k];
		uint32_t times = weight ? weight[e->pic[i]] : 1;
		enum eval_is is = eval_coco_is(e, i, t);
		double f1;

		tp += is == EVAL_TRUE ? times : 0;
		fp += is == EVAL_FALSE ? times : 0;
		if (k + 1 < n && e->score[order[k + 1]] == e->score[i])
			continue;
		f1 = 2 * (double)tp / ((double)(tp + fp) + npos);
		if (tp && f1 > b.f1) {
			b.f1 = f1;
			b.p = (double)tp / (double)(tp + fp);
			b.r = (double)tp / npos;
			b.thr = e->score[i];
		}
	}
	return b;
}

/* At the score that makes F1 best; cls -1: all; npos: truths that count, 0 makes all undefined. */
static struct eval_point
eval_best(struct eval *e, int cls, const uint32_t *weight, double npos)
{
	eval_finish(e);
	if (weight)
		eval_pictures(e);
	if (cls >= 0)
		return scan(e, e->order + e->cstart[cls], e->cstart[cls + 1] - e->cstart[cls],
		    weight, npos);
	eval_sort_all(e);
	return scan(e, e->all, e->n, weight, npos);
}

/* The same of the whole set, its truths counted here. */
struct eval_point
eval_best_all(struct eval *e)
{
	double npos = 0;

	for (size_t i = 0; i < e->nt; i++)
		npos += !(e->tmask[i] & truth_outside(0));
	return eval_best(e, -1, NULL, npos);
}

/* ---- rows: the numbers of the whole set and of a class, named as they are printed ----
 *
 * Means leave out what is undefined (classes without truth), except darknet's, which divides by
 * all classes.  COCO's are means over thresholds and classes at once, as pycocotools forms them. */

const char *const eval_rule_name[EV_RULES] = { "coco", "voc07", "voc10", "darknet", "ultralytics",
	"ultralytics-2019" };

struct range { int from, to; };		/* of classes, or of thresholds; to is not in it */

static struct range
range(int from, int to)
{
	return (struct range){ from, to };
}

/* Mean of the cells that are defined, or of all with 0 for those that are not; -1 if none.  Cell
 * (c, t) is tab[c * stride + t]. */
static double
mean(const double *tab, size_t stride, struct range c, struct range t, int all)
{
	double sum = 0;
	long n = 0;

	for (int i = c.from; i < c.to; i++)
		for (int k = t.from; k < t.to; k++) {
			double v = tab[(size_t)i * stride + (size_t)k];

			if (all || v > -1) {
				sum += fmax(v, 0);
				n++;
			}
		}
	return n ? sum / (double)n : -1;
}

static void
add_row(struct eval_row *rows, int *n, int rule, const char *metric, double v)
{
	struct eval_row *r = rows + (*n)++;

	r->rule = eval_rule_name[rule];
	snprintf(r->metric, sizeof r->metric, "%s", metric);
	r->value = v;
}

static const char *
area_name(const struct eval *e, int a)
{
	static const char *const sml[] = { "s", "m", "l" }, *const num[] = { "", "1", "2", "3", "4",
		"5", "6", "7" };

	return e->opt.narea == 4 ? sml[a - 1] : num[a];
}

static int
coco_rows(const struct eval_tables *tab, struct range c, struct eval_row *rows)
{
	const struct eval *e = tab->e;
	size_t stride = (size_t)e->words * EVAL_IOUS;
	int n = 0, nt = e->niou[EV_COCO], last = e->opt.maxdet[e->opt.nmaxdet - 1];
	char name[20];

	add_row(rows, &n, EV_COCO, "AP", e->opt.pycocotools && last != 100 ? -1 :
	    mean(tab->ap, stride, c, range(0, nt), 0));
	for (int k = 0; k < 2; k++) {
		int t = iou_index(e, EV_COCO, k ? 0.75 : 0.5);

		add_row(rows, &n, EV_COCO, k ? "AP75" : "AP50", t < 0 ? -1 :
		    mean(tab->ap, stride, c, range(t, t + 1), 0));
	}
	for (int a = 1; a < e->opt.narea; a++) {
		snprintf(name, sizeof name, "AP%s", area_name(e, a));
		add_row(rows, &n, EV_COCO, name,
		    mean(tab->ap + a * EVAL_IOUS, stride, c, range(0, nt), 0));
	}
	for (int m = 0; m < e->opt.nmaxdet; m++) {
		snprintf(name, sizeof name, "AR%d", e->opt.maxdet[m]);
		add_row(rows, &n, EV_COCO, name,
		    mean(tab->few + m * EVAL_IOUS, EVAL_MAXDETS * EVAL_IOUS, c, range(0, nt), 0));
	}
	for (int a = 1; a < e->opt.narea; a++) {
		snprintf(name, sizeof name, "AR%s", area_name(e, a));
		add_row(rows, &n, EV_COCO, name,
		    mean(tab->recall + a * EVAL_IOUS, stride, c, range(0, nt), 0));
	}
	return n;
}

/* What darknet prints for one confidence, all detections over it pooled.  Its average IoU divides
 * by false positives too.  Of several detections of a truth the best-scored is right; darknet
 * itself takes the first of a list that its sort leaves in any order. */
static void
darknet_rows(const struct eval_tables *tab, struct range c, struct eval_row *rows, int *n)
{
	const struct eval *e = tab->e;
	int word = e->off[EV_DARKNET];
	double tp = 0, fp = 0, npos = 0, iou = 0, p, r;

	for (int i = c.from; i < c.to; i++) {
		npos += tab->npos[i * e->words + word];
		for (size_t k = e->cstart[i]; k < e->cstart[i + 1] &&
		     e->score[e->order[k]] > e->opt.thresh; k++) {
			size_t d = e->order[k];
			int is = word_at(eval_word(e, d, word), 0);
			double t = eval_times(tab, d);

			tp += is == EVAL_TRUE ? t : 0;
			fp += is == EVAL_FALSE ? t : 0;
			iou += is == EVAL_TRUE ? t * e->over[d] : 0;
		}
	}
	p = tp + fp > 0 ? tp / (tp + fp) : 0;
	r = npos > 0 ? tp / npos : -1;
	add_row(rows, n, EV_DARKNET, "P", p);
	add_row(rows, n, EV_DARKNET, "R", r);
	add_row(rows, n, EV_DARKNET, "F1", npos <= 0 ? -1 : p + r > 0 ? 2 * p * r / (p + r) : 0);
	add_row(rows, n, EV_DARKNET, "TP", tp);
	add_row(rows, n, EV_DARKNET, "FP", fp);
	add_row(rows, n, EV_DARKNET, "FN", npos - tp);
	add_row(rows, n, EV_DARKNET, "IoU", tp + fp > 0 ? iou / (tp + fp) : 0);
}

static void
old_rows(const struct eval_tables *tab, struct range c, struct eval_row *rows, int *n)
{
	const struct eval *e = tab->e;
	double p = 0, r = 0, f1 = 0, k = 0;

	for (int i = c.from; i < c.to; i++)
		if (tab->npos[(size_t)i * (size_t)e->words + (size_t)e->off[EV_ULTRA2019]] > 0) {
			double pc = tab->end[2 * i], rc = tab->end[2 * i + 1];

			p += pc;
			r += rc;
			f1 += 2 * pc * rc / (pc + rc + 1e-16);
			k++;
		}
	add_row(rows, n, EV_ULTRA2019, "P", k ? p / k : -1);
	add_row(rows, n, EV_ULTRA2019, "R", k ? r / k : -1);
	add_row(rows, n, EV_ULTRA2019, "F1", k ? f1 / k : -1);
}

static void
add_point(struct eval_row *rows, int *n, int rule, struct eval_point b)
{
	add_row(rows, n, rule, "P", b.p);
	add_row(rows, n, rule, "R", b.r);
	add_row(rows, n, rule, "F1", b.f1);
	add_row(rows, n, rule, "thr", b.thr);
}

static int
other_rows(const struct eval_tables *tab, int r, struct range c, int total, struct eval_row *rows)
{
	const struct eval *e = tab->e;
	size_t stride = (size_t)e->words * EVAL_IOUS;
	const double *ap = tab->ap + e->off[r] * EVAL_IOUS;
	char name[20];
	int n = 0;

	for (int t = 0; t < e->niou[r]; t++) {
		snprintf(name, sizeof name, "AP%.6g", e->iou[r][t] * 100);
		add_row(rows, &n, r, name,
		    mean(ap, stride, c, range(t, t + 1), r == EV_DARKNET && total));
	}
	add_row(rows, &n, r, "mAP",
	    mean(ap, stride, c, range(0, e->niou[r]), r == EV_DARKNET && total));
	if (r == EV_DARKNET)
		darknet_rows(tab, c, rows, &n);
	else if (r == EV_ULTRA && total)
		add_point(rows, &n, r, eval_ultra_point(tab));
	else if (r == EV_ULTRA2019)
		old_rows(tab, c, rows, &n);
	return n;
}

int
eval_total(struct eval *e, const uint32_t *weight, struct eval_row *rows)
{
	struct eval_tables tab;
	double npos = 0;
	int n = 0;

	eval_tables(&tab, e, weight);
	if (eval_has(&e->opt, EV_COCO)) {
		n = coco_rows(&tab, range(0, e->nclass), rows);
		for (int c = 0; c < e->nclass; c++)
			npos += tab.npos[c * e->words + e->off[EV_COCO]];
		add_point(rows, &n, EV_COCO, eval_best(e, -1, weight, npos));
	}
	for (int r = 1; r < EV_RULES; r++)
		if (eval_has(&e->opt, r))
			n += other_rows(&tab, r, range(0, e->nclass), 1, rows + n);
	eval_tables_free(&tab);
	return n;
}

int
eval_class(struct eval *e, const struct eval_tables *tab, int c, struct eval_row *rows)
{
	int n = 0;

	for (int r = 0; r < EV_RULES; r++) {
		double npos = tab->npos[c * e->words + e->off[r]];

		if (!eval_has(&e->opt, r))
			continue;
		if (r == EV_COCO) {
			n = coco_rows(tab, range(c, c + 1), rows);
			add_point(rows, &n, EV_COCO, eval_best(e, c, tab->weight, npos));
		} else
			n += other_rows(tab, r, range(c, c + 1), 0, rows + n);
		add_row(rows, &n, r, "truths", npos);
		add_row(rows, &n, r, "detections", (double)(e->cstart[c + 1] - e->cstart[c]));
	}
	return n;
}

double
eval_get(const struct eval_row *rows, int n, const char *rule, const char *metric)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(rows[i].rule, rule) && !strcmp(rows[i].metric, metric))
			return rows[i].value;
	return -1;
}
