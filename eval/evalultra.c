/* evalultra.c -- ultralytics' precision, recall and F1: at the confidence that makes the mean F1 of
 * the classes, smoothed, best.
 *
 * The confidences are 1,000 points of [0, 1]; precision and recall of a class are numpy's interp
 * over its detections.  Curves of some classes at a time are made side by side and added up in
 * the order of the classes, so that neither threads nor many classes change the sum. */
#include <stdlib.h>
#include <string.h>

#include "eval/eval.h"

enum { GRID = 1000, SMOOTH = 50, SOME = 64 };

static double
confidence(int i)
{
	return i == GRID - 1 ? 1 : i * (1.0 / (GRID - 1));
}

/* Between two detections linear, before the first 1 and 0, after the last constant. */
static void
curve(const struct eval_tables *tab, int c, double *p, double *r)
{
	const struct eval *e = tab->e;
	int word = e->off[EV_ULTRA];
	size_t k = e->cstart[c], j, n = e->cstart[c + 1];
	double npos = tab->npos[c * e->words + word], tp = 0, fp = 0, was[3] = { 0, 0, 0 };
	double conf = 0, pr = 0, rc = 0;

	for (int i = GRID - 1; i >= 0; i--) {
		double x = confidence(i), next[3], f;

		for (; k < n && e->score[j = e->order[k]] >= x; k++) {
			uint32_t code = eval_word(e, j, word);
			uint32_t t = tab->weight ? tab->weight[e->pic[j]] : 1;

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
