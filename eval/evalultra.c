/* evalultra.c -- ultralytics' precision, recall and F1: at the confidence that makes the mean F1 of
 * the classes, smoothed, best.
 *
 * The confidences are 1,000 points of [0, 1]; precision and recall of a class are numpy's interp
 * over its detections.  Curves of some classes at a time are made side by side and added up in
 * the order of the classes, so that neither threads nor many classes change the sum. */
#include <stdlib.h>
#include <string.h>

#include "eval/int.h"

enum { GRID = 1000, SMOOTH = 50, SOME = 64 };

static double
confidence(int i)
{
	return i == GRID - 1 ? 1 : i * (1.0 / (GRID - 1));
}

/* Detections of a class down to a score. */
struct tally { double tp, fp; };

static void
count(const struct eval_tables *tab, size_t i, struct tally *n)
{
	int is = word_at(eval_word(tab->e, i, tab->e->off[EV_ULTRA]), 0);

	n->tp += is == EVAL_TRUE ? eval_times(tab, i) : 0;
	n->fp += is == EVAL_FALSE ? eval_times(tab, i) : 0;
}

static double
precision(struct tally n)
{
	return n.tp + n.fp ? n.tp / (n.tp + n.fp) : 0;
}

static double
recall(struct tally n, double npos)
{
	return n.tp / (npos + 1e-16);
}

/* Between two detections linear, before the first 1 and 0, after the last constant. */
static void
curve(const struct eval_tables *tab, int c, double *p, double *r)
{
	const struct eval *e = tab->e;
	size_t k = e->cstart[c], end = e->cstart[c + 1];
	double npos = tab->npos[c * e->words + e->off[EV_ULTRA]], conf = 0;
	struct tally n = { 0, 0 };

	for (int i = GRID - 1; i >= 0; i--) {
		double x = confidence(i), f;
		struct tally next;

		for (; k < end && e->score[e->order[k]] >= x; k++) {
			count(tab, e->order[k], &n);
			conf = e->score[e->order[k]];
		}
		p[i] = k == e->cstart[c] ? 1 : precision(n);
		r[i] = recall(n, npos);
		if (k == e->cstart[c] || k == end || conf == x)
			continue;
		next = n;
		count(tab, e->order[k], &next);
		f = (x - conf) / (e->score[e->order[k]] - conf);
		p[i] += (precision(next) - p[i]) * f;
		r[i] += (recall(next, npos) - r[i]) * f;
	}
}

static int
has_truth(const struct eval_tables *tab, int c)
{
	return tab->npos[c * tab->e->words + tab->e->off[EV_ULTRA]] > 0;
}

/* P, R, F1 at point i, means over the classes with truth. */
struct sums { double p, r, f1, k; };

/* Of the classes [c0, c1): their F1 added to f1[GRID], or, where at >= 0, their sums at a point. */
static void
add_classes(const struct eval_tables *tab, int c0, int c1, double *v, double *f1, int at,
    struct sums *s)
{
#pragma omp parallel for num_threads(tab->e->opt.threads) schedule(dynamic, 1)
	for (int c = c0; c < c1; c++)
		if (has_truth(tab, c))
			curve(tab, c, v + (size_t)(c - c0) * 2 * GRID,
			    v + (size_t)(c - c0) * 2 * GRID + GRID);
	for (int c = c0; c < c1; c++) {
		const double *p = v + (size_t)(c - c0) * 2 * GRID, *r = p + GRID;
		int any = tab->e->cstart[c + 1] > tab->e->cstart[c];

		if (!has_truth(tab, c))
			continue;
		for (int i = 0; i < GRID && at < 0; i++)
			f1[i] += 2 * p[i] * r[i] / (p[i] + r[i] + 1e-16);
		if (at < 0)
			continue;
		s->p += any ? p[at] : 0;
		s->r += any ? r[at] : 0;
		s->f1 += any ? 2 * p[at] * r[at] / (p[at] + r[at] + 1e-16) : 0;
		s->k++;
	}
}

/* The point where the mean F1, smoothed, is largest. */
static int
best_point(const double *f1)
{
	double best = -1;
	int at = 0;

	for (int i = 0; i < GRID; i++) {
		double sum = 0;

		for (int k = i - SMOOTH; k <= i + SMOOTH; k++)
			sum += f1[k < 0 ? 0 : k >= GRID ? GRID - 1 : k] / (2 * SMOOTH + 1);
		if (sum > best) {
			best = sum;
			at = i;
		}
	}
	return at;
}

struct eval_point
eval_ultra_point(const struct eval_tables *tab)
{
	double *v = (double *)xmalloc((size_t)SOME * 2 * GRID * sizeof *v), f1[GRID] = { 0 };
	struct sums s = { 0, 0, 0, 0 };
	int nc = tab->e->nclass, at = -1;

	for (int pass = 0; pass < 2; pass++) {
		for (int c = 0; c < nc; c += SOME)
			add_classes(tab, c, c + SOME < nc ? c + SOME : nc, v, f1, at, &s);
		at = pass ? at : best_point(f1);
	}
	free(v);
	return s.k ? (struct eval_point){ s.p / s.k, s.r / s.k, s.f1 / s.k, confidence(at) } :
	    (struct eval_point){ -1, -1, -1, -1 };
}
