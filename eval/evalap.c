/* evalap.c -- the numbers: tables of average precision by class, their means by each rule.
 *
 * One pass over the detections of a class, by falling score, serves all IoU thresholds and area
 * ranges: a detection that no threshold accepts or ignores only raises the count of false
 * positives, so per threshold work is done for true positives and ignored ones alone.  COCO reads
 * a curve at 101 recalls, so of the true positives between two of them only the largest precision
 * is kept; the other rules need the curve.  Pictures may carry weights (bootstrap); the count of a
 * curve is then of weights. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

int
eval_rule_of(const struct eval *e, int word)
{
	for (int r = EV_RULES - 1; r > 0; r--)
		if ((e->opt.rules >> r & 1) && e->off[r] == word)
			return r;
	return EV_COCO;
}

/* Truths that count, by class and word; weights of their pictures. */
int
eval_npos(const struct eval *e, const uint32_t *weight, double *npos)
{
	size_t w = (size_t)e->words;
	int bit[EV_RULES + EVAL_AREAS];

	memset(npos, 0, (size_t)e->nclass * w * sizeof *npos);
	for (int k = 0; k < e->words; k++)
		bit[k] = eval_rule_of(e, k) == EV_COCO ? 1 << (k - e->off[EV_COCO])
						       : 256 << eval_rule_of(e, k);
	for (size_t i = 0, k = 0; i < e->nt; i++) {
		while (i >= e->tend[k])
			k++;
		for (size_t a = 0; a < w; a++)
			if (!(e->tmask[i] & bit[a]) == (bit[a] < 256))
				npos[e->tcls[i] * w + a] += weight ? weight[k] : 1;
	}
	return 0;
}

/* ---- COCO ---- */

enum { RECALLS = 101 };
struct bins {
	double best[RECALLS];		/* largest precision from this recall to the next */
	uint32_t tp, ign;
	int at;
};
struct coco_pass {
	struct bins *b;			/* [narea][niou] */
	uint64_t need[EVAL_AREAS][RECALLS + 1];	/* true positives that reach a recall */
	uint64_t few[EVAL_MAXDETS][EVAL_IOUS];	/* true positives within each maxDets */
	uint32_t seen[EVAL_AREAS];
};

/* The least count whose recall, as doubles divide, is i * 0.01 (one ulp off i / 100 at ten places,
 * as numpy's linspace makes them) or more. */
static void
set_needs(uint64_t *need, double npos)
{
	for (int i = 0; i < RECALLS; i++) {
		double r = i * 0.01;
		uint64_t k = (uint64_t)(r * npos);

		while (k && (double)(k - 1) / npos >= r)
			k--;
		while ((double)k / npos < r)
			k++;
		need[i] = k;
	}
	need[RECALLS] = UINT64_MAX;
}

static void
coco_run(const struct eval_tables *tab, int c, struct coco_pass *p)
{
	const struct eval *e = tab->e;
	int na = e->opt.narea, nmax = e->opt.nmaxdet, nt = e->niou[EV_COCO];
	uint32_t full = ((1u << nt) - 1) << 16;

	for (size_t k = e->cstart[c]; k < e->cstart[c + 1]; k++) {
		size_t i = e->order[k];
		uint32_t times = tab->weight ? tab->weight[e->pic[i]] : 1;
		int within = (int)eval_word(e, i, e->words);

		for (int a = 0; a < na && within && times; a++) {
			uint32_t code = eval_word(e, i, e->off[EV_COCO] + a), bits;

			if (code == full)
				continue;
			p->seen[a] += times;
			for (bits = code >> 16; bits; bits &= bits - 1)
				p->b[a * nt + __builtin_ctz(bits)].ign += times;
			for (bits = code & 0xffff; bits; bits &= bits - 1) {
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
	double sum = 0;

	for (int i = RECALLS - 1; i > 0; i--)
		b->best[i - 1] = fmax(b->best[i - 1], b->best[i]);
	for (int i = 0; i < RECALLS; i++)
		sum += b->best[i];
	return sum / RECALLS;
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

/* ---- the others: one word, curves ---- */

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
		uint32_t times = tab->weight ? tab->weight[e->pic[i]] : 1;
		uint32_t code = eval_word(e, i, e->off[r]), bits;

		seen += times;
		for (bits = code >> 16; bits; bits &= bits - 1)
			ign[__builtin_ctz(bits)] += times;
		for (bits = times ? code & 0xffff : 0; bits; bits &= bits - 1) {
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
		if (e->opt.rules >> EV_COCO & 1)
			eval_sort_all(e);
		return;
	}
	if (e->opt.rules >> EV_COCO & 1)
		coco_class(tab, c);
	for (int r = 1; r < EV_RULES; r++)
		if (e->opt.rules >> r & 1)
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
	eval_npos(e, weight, tab->npos);
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
