/* evalplot.c -- tables to plot: precision by recall, precision, recall and F1 by score.
 *
 * Both are plain counts at COCO's matching, area "all", the last maxDets; nothing is smoothed or
 * interpolated.  Curves have a row for each score at which recall rises. */
#include <math.h>
#include <stdlib.h>

#include "yolo.h"

enum { STEPS = EVAL_SCORES - 1 };

static void
put_class(FILE *f, const struct eval_truth *t, int c)
{
	char id[32];

	tsv_name(f, c < 0 ? "-" : eval_class_name(t, c, id));
}

/* Entry i at threshold t: 1 true positive, 0 false positive, -1 neither. */
static int
outcome(const struct eval *e, size_t i, int t)
{
	uint32_t code = eval_word(e, i, e->off[EV_COCO]) >> t;

	if (!eval_word(e, i, e->words) || code & 0x10000)
		return -1;
	return (int)(code & 1);
}

static double *
truths(const struct eval *e)
{
	double *npos = (double *)xcalloc((size_t)e->nclass * (size_t)e->words + 1, sizeof *npos);

	eval_npos(e, NULL, npos);
	return npos;
}

void
eval_write_pr(FILE *f, struct eval *e, const struct eval_truth *truth, struct eval_errors *x)
{
	double *npos;

	(void)x;
	fprintf(f, "#class\tiou\tscore\trecall\tprecision\n");
	if (!(e->opt.rules >> EV_COCO & 1))
		return;
	eval_finish(e);
	npos = truths(e);
	for (int c = 0; c < e->nclass; c++)
		for (int t = 0; t < e->niou[EV_COCO]; t++) {
			double n = npos[c * e->words + e->off[EV_COCO]], tp = 0, fp = 0;

			for (size_t k = e->cstart[c]; k < e->cstart[c + 1] && n > 0; k++) {
				int r = outcome(e, e->order[k], t);

				fp += r == 0;
				if (r != 1)
					continue;
				tp++;
				put_class(f, truth, c);
				fprintf(f, "\t%.9g\t%.17g\t%.17g\t%.17g\n", e->iou[EV_COCO][t],
				    e->score[e->order[k]], tp / n, tp / (tp + fp));
			}
		}
	free(npos);
}

/* COCO's interpolated precision: the largest at recall i * 0.01 or more. */
int
eval_pr(const struct eval *e, int c, int t, double npos, double *p)
{
	double *rc, *pr, tp = 0, fp = 0;
	size_t n = e->cstart[c + 1] - e->cstart[c], m = 0, k = 0;

	if (npos <= 0)
		return 0;
	rc = (double *)xmalloc(2 * (n + 1) * sizeof *rc);
	pr = rc + n + 1;
	for (size_t i = e->cstart[c]; i < e->cstart[c + 1]; i++) {
		int r = outcome(e, e->order[i], t);

		fp += r == 0;
		if (r == 1) {
			rc[m] = ++tp / npos;
			pr[m++] = tp / (tp + fp);
		}
	}
	pr[m] = 0;
	for (size_t i = m; i-- > 0;)
		pr[i] = fmax(pr[i], pr[i + 1]);
	for (int i = 0; i <= 100; i++) {
		while (k < m && rc[k] < i * 0.01)
			k++;
		p[i] = pr[k];
	}
	free(rc);
	return 1;
}

void
eval_by_score(struct eval *e, int c, double npos, double *p, double *r, double *f1)
{
	const uint32_t *order;
	size_t k = 0, end;
	double tp = 0, fp = 0;
	int t = 0;

	if (c < 0)
		eval_best_all(e);		/* sorts all classes together */
	order = c < 0 ? e->all : e->order + e->cstart[c];
	end = c < 0 ? e->n : e->cstart[c + 1] - e->cstart[c];
	while (t + 1 < e->niou[EV_COCO] && fabs(e->iou[EV_COCO][t] - 0.5) > 1e-9)
		t++;
	if (fabs(e->iou[EV_COCO][t] - 0.5) > 1e-9)
		t = 0;
	for (int i = STEPS; i >= 0; i--) {
		double thr = (double)i / STEPS;

		for (; k < end && e->score[order[k]] >= thr; k++) {
			int o = outcome(e, order[k], t);

			tp += o == 1;
			fp += o == 0;
		}
		p[i] = tp + fp > 0 ? tp / (tp + fp) : 1;
		r[i] = tp / npos;
		f1[i] = 2 * tp / (tp + fp + npos);
	}
}

/* A row for each threshold k / 1000, from 1 down to 0. */
static void
by_score(FILE *f, struct eval *e, const struct eval_truth *truth, int c, double npos)
{
	double v[3][EVAL_SCORES];

	if (npos <= 0)
		return;
	eval_by_score(e, c, npos, v[0], v[1], v[2]);
	for (int i = STEPS; i >= 0; i--) {
		put_class(f, truth, c);
		fprintf(f, "\t%.9g\t%.17g\t%.17g\t%.17g\n", (double)i / STEPS, v[0][i], v[1][i],
		    v[2][i]);
	}
}

void
eval_write_conf(FILE *f, struct eval *e, const struct eval_truth *truth, struct eval_errors *x)
{
	double *npos, sum = 0;

	(void)x;
	fprintf(f, "#class\tscore\tprecision\trecall\tF1\n");
	if (!(e->opt.rules >> EV_COCO & 1))
		return;
	eval_finish(e);
	npos = truths(e);
	for (int c = 0; c < e->nclass; c++)
		sum += npos[c * e->words + e->off[EV_COCO]];
	by_score(f, e, truth, -1, sum);
	for (int c = 0; c < e->nclass; c++)
		by_score(f, e, truth, c, npos[c * e->words + e->off[EV_COCO]]);
	free(npos);
}
