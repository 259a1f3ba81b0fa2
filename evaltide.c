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

enum { V_BASE = 0, V_MISS = EVAL_IGNORED, V_FP, V_FN, NVAR };
static const char *const var_name[NVAR] = { "AP50", "Loc", "Cls", "Dupe", "Bkg", "Both", "Miss",
	"FalsePos", "FalseNeg" };

static int
by_score(const void *pa, const void *pb)
{
	const struct eval_fault *a = (const struct eval_fault *)pa,
				*b = (const struct eval_fault *)pb;

	return a->score > b->score   ? -1
	       : a->score < b->score ? 1
	       : a->pic < b->pic     ? -1
				     : a->pic > b->pic;
}

struct tide {
	const struct eval_errors *x;
	struct eval_curve *cv;		/* [nclass] */
	double *npos;			/* [nclass] of the variant */
	uint32_t *mem;
	long *cap;			/* truths of each class */
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
		int r = as_variant(x->f + i, v, &c);
		struct eval_curve *k = t->cv + c;

		if (r > 0) {
			k->tp[k->n] = ++k->tp_all;
			k->fp[k->n++] = k->fp_all;
		} else if (!r)
			k->fp_all++;
	}
	for (c = 0; c < x->nclass; c++) {
		t->cv[c].npos = t->npos[c];
		if (t->cap[c] && (t->npos[c] > 0 || t->cv[c].fp_all)) {
			sum += fmax(eval_ap_coco(t->cv + c), 0);
			n++;
		}
	}
	return n ? sum / n : -1;
}

struct lrp { double all, loc, fp, fn, thr; };

/* Detections of a class by falling score; npos truths. */
static struct lrp
class_lrp(const struct eval_errors *x, int c, double npos)
{
	struct lrp best = { 1, -1, -1, 1, -1 };
	double tp = 0, fp = 0, loss = 0, last = 0;
	int any = 0;

	for (size_t i = 0; i <= x->n; i++) {
		const struct eval_fault *f = x->f + i;
		double v;

		if (i < x->n && (f->cls != c || f->kind == EVAL_IGNORED))
			continue;
		if (any && (i == x->n || f->score < last)) {	/* all of that score are in */
			v = (loss / 0.5 + fp + npos - tp) / (npos + fp);
			if (tp && v < best.all)
				best = (struct lrp){ v, loss / tp, fp / (tp + fp), 1 - tp / npos,
					last };
		}
		if (i == x->n)
			break;
		any = 1;
		last = f->score;
		tp += f->kind == EVAL_TP;
		fp += f->kind != EVAL_TP;
		loss += f->kind == EVAL_TP ? 1 - f->iou : 0;
	}
	return best;
}

static void
row(FILE *f, const char *rule, const char *cls, const char *metric, double v)
{
	fprintf(f, "%s\t", rule);
	tsv_name(f, cls);
	fprintf(f, "\t%s\t%.17g\n", metric, v);
}

static void
print_lrp(FILE *f, const struct tide *t, const struct eval_truth *truth, int per_class)
{
	static const char *const name[] = { "oLRP", "Loc", "FP", "FN" };
	double sum[4] = { 0 }, num[4] = { 0 };
	char id[32];

	for (int pass = 0; pass <= per_class; pass++) {
		for (int c = 0; c < t->x->nclass; c++) {
			struct lrp l;
			const char *cls = truth->class_name[c] ? truth->class_name[c] : id;

			if (!t->cap[c])
				continue;
			l = class_lrp(t->x, c, (double)t->cap[c]);
			double v[4] = { l.all, l.loc, l.fp, l.fn };

			snprintf(id, sizeof id, "%lld", (long long)truth->class_id[c]);
			for (int k = 0; k < 4; k++) {
				if (pass)
					row(f, "lrp", cls, name[k], v[k]);
				else if (v[k] >= 0) {
					sum[k] += v[k];
					num[k]++;
				}
			}
			if (pass)
				row(f, "lrp", cls, "thr", l.thr);
		}
		for (int k = 0; k < 4 && !pass; k++)
			row(f, "lrp", "-", name[k], num[k] ? sum[k] / num[k] : -1);
	}
}

void
eval_errors_print(FILE *f, struct eval *e, const struct eval_truth *truth, struct eval_errors *x,
    int per_class)
{
	size_t nc = (size_t)x->nclass, total = 0;
	struct tide t = { .x = x };
	double base;

	(void)e;
	if (x->n)
		qsort(x->f, x->n, sizeof *x->f, by_score);
	t.cv = (struct eval_curve *)xcalloc(nc, sizeof *t.cv);
	t.npos = (double *)xcalloc(nc, sizeof *t.npos);
	t.cap = (long *)xcalloc(nc, sizeof *t.cap);
	for (size_t i = 0; i < x->nt; i++)
		t.cap[x->t[i].cls]++;
	t.mem = (uint32_t *)xmalloc((x->nt + nc) * 2 * sizeof *t.mem);
	for (size_t c = 0; c < nc; c++) {
		t.cv[c].tp = t.mem + 2 * total;
		t.cv[c].fp = t.cv[c].tp + t.cap[c];
		total += (size_t)t.cap[c];
	}
	base = variant_ap(&t, V_BASE);
	row(f, "tide", "-", var_name[0], base);
	for (int v = 1; v < NVAR; v++)
		row(f, "tide", "-", var_name[v], base < 0 ? -1 : variant_ap(&t, v) - base);
	print_lrp(f, &t, truth, per_class);
	free(t.cv);
	free(t.npos);
	free(t.cap);
	free(t.mem);
}
