/* evalap.c -- the numbers: tables of average precision by class, their means by each rule.
 *
 * One pass over the detections of a class, by falling score, serves all IoU thresholds and area
 * ranges: a detection that no threshold accepts or ignores only raises the count of false
 * positives, so per threshold work is done for true positives and ignored ones alone.  Pictures
 * may carry weights (bootstrap); the count of a curve is then of weights. */
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

/* The curves of one class: cv[words * EVAL_IOUS].  few[m][t]: true positives within each maxDets.
 */
struct pass {
	const struct eval_tables *tab;
	struct eval_curve *cv;
	uint32_t *mem;
	uint64_t few[EVAL_MAXDETS][EVAL_IOUS];
};

static void
pass_open(struct pass *p, const struct eval_tables *tab, int c)
{
	const struct eval *e = tab->e;
	size_t n = (size_t)e->words * EVAL_IOUS, cap = tab->ntruth[c] + 1;
	uint32_t *m;

	memset(p, 0, sizeof *p);
	p->tab = tab;
	p->cv = (struct eval_curve *)xcalloc(n, sizeof *p->cv);
	p->mem = m = (uint32_t *)xmalloc(n * 3 * cap * sizeof *m);
	for (size_t i = 0; i < n; i++, m += 3 * cap) {
		p->cv[i].tp = m;
		p->cv[i].fp = m + cap;
		p->cv[i].at = m + 2 * cap;
		p->cv[i].npos = tab->npos[(size_t)c * (size_t)e->words + i / EVAL_IOUS];
	}
}

static void
pass_close(struct pass *p)
{
	free(p->cv);
	free(p->mem);
}

/* Words [w0, w1) of the class's detections, those of rank < last.  A word that is 0, a plain false
 * positive at every threshold, only counts. */
static void
pass_run(struct pass *p, int c, int w0, int w1, int nt, int last)
{
	const struct eval *e = p->tab->e;
	const struct eval_opts *o = &e->opt;
	uint32_t full = ((1u << nt) - 1) << 16, seen[EVAL_AREAS] = { 0 };
	uint32_t ign[EVAL_AREAS][EVAL_IOUS] = { { 0 } };

	for (size_t k = e->cstart[c]; k < e->cstart[c + 1]; k++) {
		size_t i = e->order[k];
		uint32_t times = p->tab->weight ? p->tab->weight[e->pic[i]] : 1;

		if (e->rank[i] >= last || !times)
			continue;
		for (int w = w0; w < w1; w++) {
			uint32_t code = eval_word(e, i, w), bits;

			if (code == full)
				continue;
			seen[w - w0] += times;
			for (bits = code >> 16; bits; bits &= bits - 1)
				ign[w - w0][__builtin_ctz(bits)] += times;
			for (bits = code & 0xffff; bits; bits &= bits - 1) {
				int t = __builtin_ctz(bits);
				struct eval_curve *v = p->cv + w * EVAL_IOUS + t;

				v->tp[v->n] = v->tp_all += times;
				v->fp[v->n] = seen[w - w0] - v->tp_all - ign[w - w0][t];
				v->at[v->n++] = (uint32_t)k;
				for (int m = o->nmaxdet - 1;
				     w == 0 && m >= 0 && e->rank[i] < o->maxdet[m]; m--)
					p->few[m][t] += times;
			}
		}
	}
	for (int w = w0; w < w1; w++)
		for (int t = 0; t < nt; t++) {
			struct eval_curve *v = p->cv + w * EVAL_IOUS + t;

			v->fp_all = seen[w - w0] - v->tp_all - ign[w - w0][t];
		}
}

/* Ultralytics' precision and recall at 1,000 confidences, numpy's interp over the class's
 * detections: between two of them linear, before the first 1 and 0, after the last constant. */
static void
ultra_grid(const struct eval_tables *tab, int c)
{
	const struct eval *e = tab->e;
	int word = e->off[EV_ULTRA];
	size_t k = e->cstart[c], j;
	size_t n = e->cstart[c + 1];
	double *p = tab->p + (size_t)c * EVAL_GRID, *r = tab->r + (size_t)c * EVAL_GRID;
	double npos = tab->npos[c * e->words + word], tp = 0, fp = 0, was[3] = { 0, 0, 0 };
	double conf = 0, pr = 0, rc = 0;

	for (int i = EVAL_GRID - 1; i >= 0; i--) {
		double x = i == EVAL_GRID - 1 ? 1 : i * (1.0 / (EVAL_GRID - 1)), next[3], f;

		for (; k < n && e->score[j = e->order[k]] >= x; k++) {
			uint32_t code = eval_word(e, j, word), t = tab->weight ? tab->weight[e->pic[j]] : 1;

			tp += code & 1 ? t : 0;
			fp += code & 0x10001 ? 0 : t;
			conf = e->score[j];
			pr = tp + fp ? tp / (tp + fp) : 0;
			rc = tp / (npos + 1e-16);
		}
		if (k == e->cstart[c]) {
			p[i] = 1;
			r[i] = 0;
			continue;
		}
		p[i] = pr;
		r[i] = rc;
		if (k == n || conf == x)
			continue;
		j = e->order[k];
		was[0] = tab->weight ? tab->weight[e->pic[j]] : 1;
		was[1] = tp + (eval_word(e, j, word) & 1 ? was[0] : 0);
		was[2] = fp + (eval_word(e, j, word) & 0x10001 ? 0 : was[0]);
		next[0] = e->score[j];
		next[1] = was[1] + was[2] ? was[1] / (was[1] + was[2]) : 0;
		next[2] = was[1] / (npos + 1e-16);
		f = (x - conf) / (next[0] - conf);
		p[i] += (next[1] - pr) * f;
		r[i] += (next[2] - rc) * f;
	}
}

static double
ap_by_rule(const struct eval *e, int rule, const struct eval_curve *v, int absent)
{
	if (absent && v->fp_all)	/* no truth, but false positives */
		return 0;
	switch (rule) {
	case EV_COCO: return eval_ap_coco(v);
	case EV_VOC07: return eval_ap_points(v, 11, e->opt.ulp);
	case EV_VOC10: return eval_ap_area(v);
	case EV_DARKNET:
		return e->opt.points ? eval_ap_points(v, e->opt.points, 0) : eval_ap_area(v);
	default: return eval_ap_ultra(v, rule == EV_ULTRA2019);
	}
}

/* Everything of one class into the tables. */
static void
one_class(struct eval_tables *tab, int c)
{
	const struct eval *e = tab->e;
	struct pass p;
	int nmax = e->opt.nmaxdet, last = e->opt.maxdet[nmax - 1];

	pass_open(&p, tab, c);
	if (e->opt.rules >> EV_COCO & 1)
		pass_run(&p, c, 0, e->opt.narea, e->niou[EV_COCO], last);
	for (int r = 1; r < EV_RULES; r++)
		if (e->opt.rules >> r & 1)
			pass_run(&p, c, e->off[r], e->off[r] + 1, e->niou[r], INT32_MAX);
	for (int w = 0; w < e->words; w++)
		for (int t = 0, r = eval_rule_of(e, w); t < e->niou[r]; t++) {
			size_t at =
			    ((size_t)c * (size_t)e->words + (size_t)w) * EVAL_IOUS + (size_t)t;
			const struct eval_curve *v = p.cv + w * EVAL_IOUS + t;

			tab->ap[at] = ap_by_rule(e, r, v, e->opt.absent && !(tab->npos[
			    (size_t)c * (size_t)e->words + (size_t)e->off[r]] > 0));
			tab->recall[at] = v->npos > 0 ? v->tp_all / v->npos : -1;
			if (r == EV_ULTRA2019 && t == 0) {
				tab->end[2 * c] =
				    v->tp_all ? v->tp_all / ((double)v->tp_all + v->fp_all) : 0;
				tab->end[2 * c + 1] = tab->recall[at];
			}
			for (int m = 0; w == 0 && r == EV_COCO && m < nmax; m++)
				tab->few[((size_t)c * EVAL_MAXDETS + (size_t)m) * EVAL_IOUS +
					 (size_t)t] =
				    v->npos > 0 ? (double)p.few[m][t] / v->npos : -1;
		}
	pass_close(&p);
	if ((e->opt.rules >> EV_ULTRA & 1) &&
	    tab->npos[(size_t)c * (size_t)e->words + (size_t)e->off[EV_ULTRA]] > 0)
		ultra_grid(tab, c);
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
	if (e->opt.rules >> EV_ULTRA & 1) {
		tab->p = (double *)xcalloc(2 * nc * EVAL_GRID, sizeof(double));
		tab->r = tab->p + nc * EVAL_GRID;
	}
	tab->ntruth = (uint32_t *)xcalloc(nc, sizeof(uint32_t));
	for (size_t i = 0; i < e->nt; i++)
		tab->ntruth[e->tcls[i]]++;
	eval_npos(e, weight, tab->npos);
#pragma omp parallel for num_threads(e->opt.threads) schedule(dynamic, 1)
	for (int c = 0; c < e->nclass; c++)
		one_class(tab, c);
}

void
eval_tables_free(struct eval_tables *tab)
{
	free(tab->npos);
	free(tab->ap);
	free(tab->recall);
	free(tab->few);
	free(tab->end);
	free(tab->p);
	free(tab->ntruth);
}
