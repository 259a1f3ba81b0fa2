/* evalcurve.c -- from a precision-recall curve to average precision, six ways.
 *
 * A curve is known by its true positives alone: between two of them recall stands still and
 * precision only falls, so the envelope (the largest precision from here on) is decided at true
 * positives.  tp[k], fp[k] are counts up to and with the k-th. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "yolo.h"

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

/* The mean of the envelope at recalls i * 0.01: one ulp off i / 100 at ten places, as numpy's
 * linspace makes them. */
double
eval_ap_coco(const struct eval_curve *c)
{
	double *p, sum = 0;
	uint32_t k = 0;

	if (c->npos <= 0)
		return -1;
	p = envelope(c, DBL_EPSILON);
	for (int i = 0; i <= 100; i++) {
		while (k < c->n && c->tp[k] / c->npos < i * 0.01)
			k++;
		sum += p[k];
	}
	free(p);
	return sum / 101;
}

/* Recalls i / (points - 1), VOC2007's eleven too; ulp: as its Python copies have them, i * 0.1,
 * whose 0.3, 0.6 and 0.7 are one ulp high, so that 3 found of 10 do not reach the fourth. */
double
eval_ap_points(const struct eval_curve *c, int points, int ulp)
{
	double *p, sum = 0;
	uint32_t k = 0;

	if (c->npos <= 0)
		return -1;
	p = envelope(c, 0);
	for (int i = 0; i < points; i++) {
		double r = ulp ? i * 0.1 : (double)i / (points - 1);

		while (k < c->n && c->tp[k] / c->npos < r)
			k++;
		sum += p[k];
	}
	free(p);
	return sum / points;
}

double
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

double
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
	for (int i = 0; i <= 100; i++) {
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
