/* evaltide.c -- what each kind of error costs: TIDE's dAP, and LRP.
 *
 * dAP of a kind is AP50 with that kind alone mended, less AP50: Loc and Cls become true positives
 * where they could find a free truth (the best-scored one for each truth) and vanish otherwise;
 * Dupe, Bkg and Both vanish; Miss takes the missed truths away.  FalsePos: no false positives.
 * FalseNeg: no missed truths.  AP is COCO's at IoU 0.5 without maxDets.
 *
 * LRP (Oksuz et al. 2018), tau 0.5: (sum over true positives of (1 - IoU) / 0.5 + FP + FN) / (TP +
 * FP + FN), least over the score threshold of a class: that is its operating threshold. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

enum { V_BASE = 0, V_MISS = EVAL_IGNORED, V_FP, V_FN };
const char *const eval_tide_name[EVAL_TIDE] = { "AP50", "Loc", "Cls", "Dupe", "Bkg", "Both", "Miss",
	"FalsePos", "FalseNeg" };

static int
by_score(const void *pa, const void *pb)
{
	const struct eval_fault *a = *(const struct eval_fault *const *)pa;
	const struct eval_fault *b = *(const struct eval_fault *const *)pb;

	return a->score > b->score   ? -1
	       : a->score < b->score ? 1
	       : a->pic != b->pic    ? (a->pic > b->pic) - (a->pic < b->pic)
				     : (a > b) - (a < b);
}

struct tide {
	const struct eval_errors *x;
	const struct eval_fault **f;	/* [n] by falling score; the stretches of classes follow */
	size_t *start;			/* [nclass + 1] stretch of a class, from f + n */
	struct eval_curve *cv;		/* [nclass] */
	double *npos;			/* [nclass] of the variant */
	uint32_t *mem;
	size_t *truths;			/* [nclass] */
};

/* 1 TP of *cls, 0 FP, -1 not there. */
static int
as_variant(const struct eval_fault *f, int v, int *cls)
{
	*cls = f->cls;
	if (f->kind == EVAL_TP)
		return 1;
	if (f->kind == EVAL_IGNORED || v == V_FP)
		return -1;
	if (v == V_BASE || (int)f->kind != v)
		return 0;
	if (f->fix < 0)
		return -1;
	*cls = f->fix;
	return 1;
}

static double
variant_ap(struct tide *t, int v)
{
	const struct eval_errors *x = t->x;
	double sum = 0;
	int n = 0, c;

	memset(t->npos, 0, (size_t)x->nclass * sizeof *t->npos);
	for (size_t i = 0; i < x->nt; i++)
		if (!(v == V_MISS && x->t[i].missed) && !(v == V_FN && x->t[i].score == -HUGE_VAL))
			t->npos[x->t[i].cls]++;
	for (c = 0; c < x->nclass; c++)
		t->cv[c].n = t->cv[c].tp_all = t->cv[c].fp_all = 0;
	for (size_t i = 0; i < x->n; i++) {
		int r = as_variant(t->f[i], v, &c);
		struct eval_curve *k = t->cv + c;

		if (r > 0) {
			k->tp[k->n] = ++k->tp_all;
			k->fp[k->n++] = k->fp_all;
		} else if (!r)
			k->fp_all++;
	}
	for (c = 0; c < x->nclass; c++) {
		t->cv[c].npos = t->npos[c];
		if (t->truths[c] && (t->npos[c] > 0 || t->cv[c].fp_all)) {
			sum += fmax(eval_ap_coco(t->cv + c), 0);
			n++;
		}
	}
	return n ? sum / n : -1;
}

/* Detections f[n] of a class by falling score; npos truths. */
static struct eval_lrp
class_lrp(const struct eval_fault *const *f, size_t n, double npos)
{
	struct eval_lrp best = { 1, -1, -1, 1, -1 };
	double tp = 0, fp = 0, loss = 0;

	for (size_t i = 0; i < n; i++) {
		double v;

		tp += f[i]->kind == EVAL_TP;
		fp += f[i]->kind != EVAL_TP && f[i]->kind != EVAL_IGNORED;
		loss += f[i]->kind == EVAL_TP ? 1 - f[i]->iou : 0;
		if (i + 1 < n && f[i + 1]->score == f[i]->score) /* all of a score, or none */
			continue;
		v = (loss / 0.5 + fp + npos - tp) / (npos + fp);
		if (tp && v < best.all)
			best = (struct eval_lrp){ v, loss / tp, fp / (tp + fp), 1 - tp / npos,
				f[i]->score };
	}
	return best;
}

static void
tide_open(struct tide *t, const struct eval_errors *x)
{
	size_t nc = (size_t)x->nclass, total = 0, *at;

	memset(t, 0, sizeof *t);
	t->x = x;
	t->f = (const struct eval_fault **)xmalloc((2 * x->n + 1) * sizeof *t->f);
	for (size_t i = 0; i < x->n; i++)
		t->f[i] = x->f + i;
	qsort(t->f, x->n, sizeof *t->f, by_score);
	t->start = (size_t *)xcalloc(2 * (nc + 2), sizeof *t->start);
	at = t->start + nc + 2;
	for (size_t i = 0; i < x->n; i++)
		t->start[x->f[i].cls + 1]++;
	for (size_t c = 0; c < nc; c++)
		at[c + 1] = t->start[c + 1] += t->start[c];
	for (size_t i = 0; i < x->n; i++)
		t->f[x->n + at[t->f[i]->cls]++] = t->f[i];
	t->cv = (struct eval_curve *)xcalloc(nc, sizeof *t->cv);
	t->npos = (double *)xcalloc(nc, sizeof *t->npos);
	t->truths = (size_t *)xcalloc(nc, sizeof *t->truths);
	for (size_t i = 0; i < x->nt; i++)
		t->truths[x->t[i].cls]++;
	t->mem = (uint32_t *)xmalloc((x->nt + nc + 1) * 2 * sizeof *t->mem);
	for (size_t c = 0; c < nc; c++) {
		t->cv[c].tp = t->mem + 2 * total;
		t->cv[c].fp = t->cv[c].tp + t->truths[c];
		total += t->truths[c];
	}
}

static void
tide_close(struct tide *t)
{
	free(t->f);
	free(t->start);
	free(t->cv);
	free(t->npos);
	free(t->truths);
	free(t->mem);
}

/* Means over the classes for which a part is defined. */
static struct eval_lrp
lrp_mean(const struct eval_lrp *l, int n)
{
	double sum[4] = { 0 }, num[4] = { 0 };

	for (int c = 0; c < n; c++) {
		double v[4] = { l[c].all, l[c].loc, l[c].fp, l[c].fn };

		for (int k = 0; k < 4; k++)
			if (v[k] >= 0) {
				sum[k] += v[k];
				num[k]++;
			}
	}
	for (int k = 0; k < 4; k++)
		sum[k] = num[k] ? sum[k] / num[k] : -1;
	return (struct eval_lrp){ sum[0], sum[1], sum[2], sum[3], -1 };
}

void
eval_analyse(struct eval_analysis *a, const struct eval_errors *x)
{
	struct tide t;
	int nc = x->nclass;

	tide_open(&t, x);
	a->tide[0] = variant_ap(&t, V_BASE);
	for (int v = 1; v < EVAL_TIDE; v++)
		a->tide[v] = a->tide[0] < 0 ? -1 : variant_ap(&t, v) - a->tide[0];
	a->lrp = (struct eval_lrp *)xmalloc((size_t)(nc + 1) * sizeof *a->lrp);
	for (int c = 0; c < nc; c++)
		a->lrp[c] = t.truths[c] ? class_lrp(t.f + x->n + t.start[c],
		    t.start[c + 1] - t.start[c], (double)t.truths[c]) :
		    (struct eval_lrp){ -1, -1, -1, -1, -1 };
	a->mean = lrp_mean(a->lrp, nc);
	tide_close(&t);
}

void
eval_analysis_free(struct eval_analysis *a)
{
	free(a->lrp);
	a->lrp = NULL;
}

static void
put_lrp(FILE *f, const char *cls, const struct eval_lrp *l, int with_thr)
{
	static const char *const name[] = { "oLRP", "Loc", "FP", "FN", "thr" };
	double v[5] = { l->all, l->loc, l->fp, l->fn, l->thr };

	for (int k = 0; k < 4 + with_thr; k++) {
		fputs("lrp\t", f);
		tsv_name(f, cls);
		fprintf(f, "\t%s\t%.17g\n", name[k], v[k]);
	}
}

void
eval_analysis_print(FILE *f, const struct eval_analysis *a, const struct eval_truth *truth,
    int per_class)
{
	for (int v = 0; v < EVAL_TIDE; v++)
		fprintf(f, "tide\t-\t%s\t%.17g\n", eval_tide_name[v], a->tide[v]);
	put_lrp(f, "-", &a->mean, 0);
	for (int c = 0; c < truth->nclass && per_class; c++)
		if (a->lrp[c].all >= 0) {
			char id[32];

			put_lrp(f, eval_class_name(truth, c, id), a->lrp + c, 1);
		}
}
