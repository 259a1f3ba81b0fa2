/* evalref.h -- every rule of evaluation again, each written as its definition reads.
 *
 * COCO: for each class, area, maxDets and threshold all arrays in full, as pycocotools has them.
 * VOC and darknet: detections of a class over all pictures in one list by score.  Ultralytics: the
 * list of pairs sorted by IoU, then one pair for a detection, then one for a truth. */
#ifndef EVALREF_H
#define EVALREF_H

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "test/tap.h"

enum { MAXI = 4, MAXC = 3, MAXB = 60, MAXD = 9, ALL = MAXI * MAXD };

struct setup {
	int ni, nc, nb[MAXI], nd[MAXI];
	struct box b[MAXI][MAXB];
	struct eval_det d[MAXI][MAXD];
};
static uint64_t state = 1;

static int
rnd(int n)
{
	state += 0x9e3779b97f4a7c15u;
	uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;

	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (int)((z ^ z >> 31) % (unsigned)n);
}

/* Sides from a short list, so that IoUs, areas and scores tie and areas stand on borders. */
static double
side(void)
{
	static const double s[] = { 0, 4, 8, 10, 16, 32, 32, 96, 100 };

	return s[rnd(9)];
}

/* One set in twelve is crowded: more truths of a class than are looked at one by one. */
static void
make(struct setup *w)
{
	int crowd = !rnd(12), spread = crowd ? 30 : 4;

	memset(w, 0, sizeof *w);
	w->ni = 1 + rnd(MAXI);
	w->nc = crowd ? 1 : 1 + rnd(MAXC);
	for (int i = 0; i < w->ni; i++) {
		w->nb[i] = rnd(crowd ? MAXB + 1 : 7);
		w->nd[i] = rnd(MAXD + 1);
		for (int k = 0; k < w->nb[i]; k++) {
			struct box *b = &w->b[i][k];

			b->x = 4 * rnd(spread);
			b->y = 4 * rnd(3);
			b->w = side();
			b->h = side();
			b->area = rnd(3) ? b->w * b->h : rnd(12000);
			b->id = k;
			b->cls = rnd(w->nc);
			b->flags = rnd(5) ? 0 : rnd(2) ? BOX_CROWD : BOX_DIFFICULT;
		}
		for (int k = 0; k < w->nd[i]; k++) {
			const struct box *b = w->nb[i] && rnd(3) ? &w->b[i][rnd(w->nb[i])] : NULL;

			w->d[i][k] =
			    (struct eval_det){ rnd(6) / 5.0, b ? b->x + 2 * rnd(3) : 4 * rnd(4),
				    b ? b->y : 4 * rnd(3), b ? b->w + 2 * rnd(2) : side(),
				    b ? b->h : side(), i, b && rnd(5) ? b->cls : rnd(w->nc) };
		}
	}
}

/* Detections of class c in picture i by falling score, stable; their number. */
static int
sorted(const struct setup *w, int i, int c, int *out)
{
	int n = 0;

	for (int k = 0; k < w->nd[i]; k++)
		if (w->d[i][k].cls == c)
			out[n++] = k;
	for (int a = 1; a < n; a++)
		for (int b = a; b > 0 && w->d[i][out[b - 1]].score < w->d[i][out[b]].score; b--) {
			int t = out[b];

			out[b] = out[b - 1];
			out[b - 1] = t;
		}
	return n;
}

static double
iou(const struct eval_det *d, const struct box *b, int crowd)
{
	double w = fmin(d->x + d->w, b->x + b->w) - fmax(d->x, b->x);
	double h = fmin(d->y + d->h, b->y + b->h) - fmax(d->y, b->y);

	if (w <= 0 || h <= 0)
		return 0;
	return w * h / (crowd ? d->w * d->h : d->w * d->h + b->w * b->h - w * h);
}

struct entry { double score; int tp, fp; };

static int
by_score(struct entry *e, int n)
{
	for (int a = 1; a < n; a++)
		for (int b = a; b > 0 && e[b - 1].score < e[b].score; b--) {
			struct entry t = e[b];

			e[b] = e[b - 1];
			e[b - 1] = t;
		}
	return n;
}

/* ---- COCO ---- */

static void
coco_image(const struct setup *w, int i, int c, const double *area, double t, int maxdet,
    struct entry *e, int *n, int *npos)
{
	int ord[MAXD], nd = sorted(w, i, c, ord), gt[MAXB], ng = 0, ign[MAXB], taken[MAXB] = { 0 };

	for (int pass = 0; pass < 2; pass++)
		for (int k = 0; k < w->nb[i]; k++) {
			const struct box *b = &w->b[i][k];
			int out = (b->flags & BOX_CROWD) || b->area < area[0] || b->area > area[1];

			if (b->cls == c && out == pass) {
				ign[ng] = out;
				gt[ng++] = k;
				*npos += !out;
			}
		}
	for (int k = 0; k < nd && k < maxdet; k++) {
		const struct eval_det *d = &w->d[i][ord[k]];
		double best = fmin(t, 1 - 1e-10);
		int m = -1, ignored;

		for (int g = 0; g < ng; g++) {
			int crowd = w->b[i][gt[g]].flags & BOX_CROWD;

			if (taken[g] && !crowd)
				continue;
			if (m >= 0 && !ign[m] && ign[g])
				break;
			if (iou(d, &w->b[i][gt[g]], crowd) < best)
				continue;
			best = iou(d, &w->b[i][gt[g]], crowd);
			m = g;
		}
		if (m >= 0)
			taken[m] = 1;
		ignored = m >= 0 ? ign[m] : d->w * d->h < area[0] || d->w * d->h > area[1];
		e[(*n)++] = (struct entry){ d->score, m >= 0 && !ignored, m < 0 && !ignored };
	}
}

static double
coco_ap(const struct entry *e, int n, int npos, double *recall)
{
	double rc[ALL + 1], pr[ALL + 1], tp = 0, fp = 0, sum = 0;

	*recall = 0;
	for (int k = 0; k < n; k++) {
		tp += e[k].tp;
		fp += e[k].fp;
		rc[k] = *recall = tp / npos;
		pr[k] = tp / (fp + tp + DBL_EPSILON);
	}
	for (int k = n - 1; k > 0; k--)
		if (pr[k] > pr[k - 1])
			pr[k - 1] = pr[k];
	for (int r = 0; r < 101; r++)
		for (int k = 0; k < n; k++)
			if (rc[k] >= r * 0.01) {
				sum += pr[k];
				break;
			}
	return sum / 101;
}

/* Mean over classes and thresholds [t0, t1) of AP (what 0) or recall (1); -1: none. */
static double
coco_mean(const struct setup *w, const double *area, int maxdet, int t0, int t1, int what)
{
	double sum = 0;
	int many = 0;

	for (int c = 0; c < w->nc; c++)
		for (int t = t0; t < t1; t++) {
			struct entry e[ALL];
			int n = 0, npos = 0;
			double ap, recall, thr = t == 9 ? 0.95 : 0.5 + t * ((0.95 - 0.5) / 9);

			for (int i = 0; i < w->ni; i++)
				coco_image(w, i, c, area, thr, maxdet, e, &n, &npos);
			if (!npos)
				continue;
			by_score(e, n);
			ap = coco_ap(e, n, npos, &recall);
			sum += what ? recall : ap;
			many++;
		}
	return many ? sum / many : -1;
}

static void
coco_twelve(const struct setup *w, double *v)
{
	static const double area[4][2] = { { 0, 1e10 }, { 0, 1024 }, { 1024, 9216 },
		{ 9216, 1e10 } };
	static const int md[3] = { 1, 3, 100 };

	v[0] = coco_mean(w, area[0], 100, 0, 10, 0);
	v[1] = coco_mean(w, area[0], 100, 0, 1, 0);
	v[2] = coco_mean(w, area[0], 100, 5, 6, 0);
	for (int a = 1; a < 4; a++) {
		v[2 + a] = coco_mean(w, area[a], 100, 0, 10, 0);
		v[8 + a] = coco_mean(w, area[a], 100, 0, 10, 1);
	}
	for (int m = 0; m < 3; m++)
		v[6 + m] = coco_mean(w, area[0], md[m], 0, 10, 1);
}

/* ---- VOC, darknet: one list of a class ---- */

struct ref { double score; int i, k; };

static int
class_list(const struct setup *w, int c, struct ref *r)
{
	int n = 0, ord[MAXD];

	for (int i = 0; i < w->ni; i++)
		for (int k = 0, m = sorted(w, i, c, ord); k < m; k++)
			r[n++] = (struct ref){ w->d[i][ord[k]].score, i, ord[k] };
	for (int a = 1; a < n; a++)
		for (int b = a; b > 0 && r[b - 1].score < r[b].score; b--) {
			struct ref t = r[b];

			r[b] = r[b - 1];
			r[b - 1] = t;
		}
	return n;
}

/* Area under the envelope with sentinels, point by point. */
static double
area_ap(const struct entry *e, int n, int npos)
{
	double r[ALL + 2] = { 0 }, p[ALL + 2] = { 0 }, tp = 0, fp = 0, sum = 0;

	for (int k = 0; k < n; k++) {
		tp += e[k].tp;
		fp += e[k].fp;
		r[k + 1] = tp / npos;
		p[k + 1] = tp + fp > 0 ? tp / (tp + fp) : 0;
	}
	r[n + 1] = 1;
	for (int k = n; k >= 0; k--)
		p[k] = fmax(p[k], p[k + 1]);
	for (int k = 1; k <= n + 1; k++)
		sum += (r[k] - r[k - 1]) * p[k];
	return sum;
}

static double
voc_map(const struct setup *w)
{
	double sum = 0;
	int many = 0;

	for (int c = 0; c < w->nc; c++) {
		struct ref r[ALL];
		struct entry e[ALL];
		int n = class_list(w, c, r), npos = 0, m = 0, used[MAXI][MAXB] = { { 0 } };

		for (int i = 0; i < w->ni; i++)
			for (int k = 0; k < w->nb[i]; k++)
				npos += w->b[i][k].cls == c && !w->b[i][k].flags;
		for (int k = 0; k < n; k++) {
			int i = r[k].i, g = -1;
			double best = -1;

			for (int b = 0; b < w->nb[i]; b++) {
				const struct box *t = &w->b[i][b];
				const struct eval_det *d = &w->d[i][r[k].k];
				double x = fmin(d->x + d->w, t->x + t->w) - fmax(d->x, t->x) + 1;
				double y = fmin(d->y + d->h, t->y + t->h) - fmax(d->y, t->y) + 1,
				       v = 0;

				if (t->cls != c)
					continue;
				if (x > 0 && y > 0)
					v = x * y /
					    ((d->w + 1) * (d->h + 1) + (t->w + 1) * (t->h + 1) -
						x * y);
				if (v > best) {
					best = v;
					g = b;
				}
			}
			if (g >= 0 && best >= 0.5 && w->b[i][g].flags)
				continue;
			e[m++] = (struct entry){ r[k].score, g >= 0 && best >= 0.5 && !used[i][g],
				!(g >= 0 && best >= 0.5 && !used[i][g]) };
			if (g >= 0 && best >= 0.5)
				used[i][g] = 1;
		}
		if (!npos)
			continue;
		sum += area_ap(e, m, npos);
		many++;
	}
	return many ? sum / many : -1;
}

static double
darknet_map(const struct setup *w)
{
	double sum = 0;

	for (int c = 0; c < w->nc; c++) {
		struct ref r[ALL];
		struct entry e[ALL];
		int n = class_list(w, c, r), npos = 0, used[MAXI][MAXB] = { { 0 } };

		for (int i = 0; i < w->ni; i++)
			for (int k = 0; k < w->nb[i]; k++)
				npos += w->b[i][k].cls == c && !w->b[i][k].flags;
		for (int k = 0; k < n; k++) {
			int i = r[k].i, g = -1;
			double best = 0;

			for (int b = 0; b < w->nb[i]; b++) {
				double v = iou(&w->d[i][r[k].k], &w->b[i][b], 0);

				if (w->b[i][b].cls == c && !w->b[i][b].flags && v > 0.5 &&
				    v > best) {
					best = v;
					g = b;
				}
			}
			e[k] = (struct entry){ r[k].score, g >= 0 && !used[i][g],
				!(g >= 0 && !used[i][g]) };
			if (g >= 0)
				used[i][g] = 1;
		}
		sum += npos ? area_ap(e, n, npos) : 0;
	}
	return sum / w->nc;
}

/* ---- ultralytics ---- */

struct couple { double v; int t, d, dead; };

/* Right detections of picture i at threshold thr, over all classes. */
static void
ultra_image(const struct setup *w, int i, double thr, int *right)
{
	struct couple p[MAXB * MAXD], best[MAXD];
	int n = 0, nb = 0, ord[MAXD], m, place[MAXD];

	memset(right, 0, MAXD * sizeof *right);
	for (int c = 0; c < w->nc; c++)
		for (int k = 0, q = sorted(w, i, c, ord); k < q; k++)
			place[ord[k]] = k;
	for (int t = 0; t < w->nb[i]; t++)
		for (int d = 0; d < w->nd[i]; d++) {
			double v = iou(&w->d[i][d], &w->b[i][t], 0);

			if (w->b[i][t].cls == w->d[i][d].cls && !w->b[i][t].flags && v >= thr)
				p[n++] = (struct couple){ v, t, d, 0 };
		}
	for (int d = 0; d < w->nd[i];
	     d++) { /* one pair for a detection: largest IoU, later truth */
		m = -1;
		for (int k = 0; k < n; k++)
			if (p[k].d == d && (m < 0 || p[k].v >= p[m].v))
				m = k;
		if (m >= 0)
			best[nb++] = p[m];
	}
	for (int t = 0; t < w->nb[i]; t++) {		/* one for a truth: the first detection */
		m = -1;
		for (int k = 0; k < nb; k++)
			if (best[k].t == t && (m < 0 || place[best[k].d] < place[best[m].d]))
				m = k;
		if (m >= 0)
			right[best[m].d] = 1;
	}
}

static double
interp(double x, const double *xs, const double *ys, int n)
{
	int j = -1;

	while (j + 1 < n && xs[j + 1] <= x)
		j++;
	if (j < 0)
		return ys[0];
	if (j == n - 1)
		return ys[n - 1];
	return (ys[j + 1] - ys[j]) / (xs[j + 1] - xs[j]) * (x - xs[j]) + ys[j];
}

static double
ultra_ap(const struct setup *w, int c, double thr, int *npos)
{
	double r[ALL + 2] = { 0 }, p[ALL + 2] = { 1 }, tp = 0, fp = 0, sum = 0;
	struct ref list[ALL];
	int n = class_list(w, c, list), right[MAXI][MAXD];

	*npos = 0;
	for (int i = 0; i < w->ni; i++) {
		ultra_image(w, i, thr, right[i]);
		for (int k = 0; k < w->nb[i]; k++)
			*npos += w->b[i][k].cls == c && !w->b[i][k].flags;
	}
	if (!*npos || !n)
		return 0;
	for (int k = 0; k < n; k++) {
		int hit = right[list[k].i][list[k].k];

		tp += hit;
		fp += !hit;
		r[k + 1] = tp / (*npos + 1e-16);
		p[k + 1] = tp / (tp + fp);
	}
	r[n + 1] = 1;
	p[n + 1] = 0;
	for (int k = n; k >= 0; k--)
		p[k] = fmax(p[k], p[k + 1]);
	for (int i = 0; i < 100; i++) {
		double a = i * 0.01, b = i == 99 ? 1 : (i + 1) * 0.01;

		sum += (b - a) * (interp(a, r, p, n + 2) + interp(b, r, p, n + 2)) / 2;
	}
	return sum;
}

static double
ultra_map(const struct setup *w)
{
	double sum = 0;
	int many = 0, npos;

	for (int c = 0; c < w->nc; c++)
		for (int t = 0; t < 10; t++) {
			double ap =
			    ultra_ap(w, c, t == 9 ? 0.95 : 0.5 + t * ((0.95 - 0.5) / 9), &npos);

			if (npos) {
				sum += ap;
				many++;
			}
		}
	return many ? sum / many : -1;
}

#endif
