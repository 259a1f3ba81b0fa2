/* evalplot.c -- tables to plot: precision by recall, precision, recall and F1 by score.
 *
 * Both are plain counts at COCO's matching, area "all", the last maxDets; nothing is smoothed or
 * interpolated.  Curves have a row for each score at which recall rises. */
#include <math.h>
#include <stdlib.h>

#include "yolo.h"

enum { STEPS = 1000 };

static void
put_class(FILE *f, const struct eval_truth *t, int c)
{
	if (c < 0)
		fputs("-", f);
	else if (t->class_name[c])
		tsv_name(f, t->class_name[c]);
	else
		fprintf(f, "%lld", (long long)t->class_id[c]);
}

/* Entry i at threshold t: 1 true positive, 0 false positive, -1 neither. */
static int
outcome(const struct eval *e, size_t i, int t)
{
	uint32_t code = e->code[i * (size_t)e->words + (size_t)e->off[EV_COCO]] >> t;

	if (e->rank[i] >= e->opt.maxdet[e->opt.nmaxdet - 1] || code & 0x10000)
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

/* Detections by falling score; a row for each threshold k / 1000, from 1 down to 0. */
static void
by_score(FILE *f, struct eval *e, const struct eval_truth *truth, int c, double n)
{
	const uint32_t *order = c < 0 ? e->all : e->order + e->cstart[c];
	size_t k = 0, end = c < 0 ? e->n : e->cstart[c + 1] - e->cstart[c];
	double tp = 0, fp = 0;
	int t = 0;

	while (t + 1 < e->niou[EV_COCO] && fabs(e->iou[EV_COCO][t] - 0.5) > 1e-9)
		t++;
	if (fabs(e->iou[EV_COCO][t] - 0.5) > 1e-9)
		t = 0;
	for (int i = STEPS; i >= 0 && n > 0; i--) {
		double thr = (double)i / STEPS;

		for (; k < end && e->score[order[k]] >= thr; k++) {
			int r = outcome(e, order[k], t);

			tp += r == 1;
			fp += r == 0;
		}
		put_class(f, truth, c);
		fprintf(f, "\t%.9g\t%.17g\t%.17g\t%.17g\n", thr, tp + fp > 0 ? tp / (tp + fp) : 1,
		    tp / n, 2 * tp / (tp + fp + n));
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
	eval_best(e, -1, NULL);		/* sorts all classes together */
	npos = truths(e);
	for (int c = 0; c < e->nclass; c++)
		sum += npos[c * e->words + e->off[EV_COCO]];
	by_score(f, e, truth, -1, sum);
	for (int c = 0; c < e->nclass; c++)
		by_score(f, e, truth, c, npos[c * e->words + e->off[EV_COCO]]);
	free(npos);
}
