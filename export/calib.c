/* calib.c -- a range for 8 bits from a histogram, by four methods.
 *
 * all: every value fits.  percentile: one value in ten thousand is cut off on either side.  mse:
 * both ends shrink in turn to where the squared error of all values is least.  entropy: the ends
 * shrink together to where the distribution in 8 bits tells most of the one before (Kullback and
 * Leibler), cut values being counted at the edge. */
#include <math.h>
#include <string.h>

#include "export/int.h"

enum { SHRINKS = 40 };			/* the ends are tried at so many places */

void
hist_add(struct hist *h, const float *v, size_t n)
{
	double per = h->hi > h->lo ? CALIB_BINS / (h->hi - h->lo) : 0;

	for (size_t i = 0; i < n; i++) {
		int at = (int)((v[i] - h->lo) * per);

		h->count[at < 0 ? 0 : at >= CALIB_BINS ? CALIB_BINS - 1 : at]++;
	}
}

static double
middle(const struct hist *h, int bin)
{
	return h->lo + (bin + .5) * (h->hi - h->lo) / CALIB_BINS;
}

/* The range holds 0, which is a byte: padding is exact. */
static struct point
point_of(double lo, double hi, int symmetric)
{
	struct point p = { 0, 0 };

	lo = fmin(lo, 0);
	hi = fmax(hi, 0);
	if (symmetric)
		p.scale = (float)(fmax(-lo, hi) / 127);
	else {
		p.scale = (float)((hi - lo) / 255);
		p.zero = p.scale > 0 ? (int)rint(-lo / p.scale) : 0;
	}
	if (!(p.scale > 1e-20f))
		p.scale = 1;
	return p;
}

static float
rounded(const struct point *p, int symmetric, float v)
{
	float least = symmetric ? -128 : 0, most = symmetric ? 127 : 255, q;

	q = rintf(v / p->scale) + (float)p->zero;
	q = q < least ? least : q > most ? most : q;
	return (q - (float)p->zero) * p->scale;
}

void
point_round(const struct point *p, int symmetric, float *v, size_t n)
{
	if (!(p->scale > 0))
		return;
	for (size_t i = 0; i < n; i++)
		v[i] = rounded(p, symmetric, v[i]);
}

static struct point
percentile(const struct hist *h, int symmetric)
{
	double all = 0, sum = 0, cut;
	int lo = 0, hi = CALIB_BINS - 1;

	for (int i = 0; i < CALIB_BINS; i++)
		all += h->count[i];
	cut = all * 1e-4;
	while (lo < hi && sum + h->count[lo] <= cut)
		sum += h->count[lo++];
	for (sum = 0; hi > lo && sum + h->count[hi] <= cut;)
		sum += h->count[hi--];
	return point_of(middle(h, lo), middle(h, hi), symmetric);
}

static double
squares(const struct hist *h, double lo, double hi, int symmetric)
{
	struct point p = point_of(lo, hi, symmetric);
	double sum = 0;

	for (int i = 0; i < CALIB_BINS; i++)
		if (h->count[i] > 0) {
			double v = middle(h, i), d = rounded(&p, symmetric, (float)v) - v;

			sum += d * d * h->count[i];
		}
	return sum;
}

static struct point
least_squares(const struct hist *h, int symmetric)
{
	double hi = h->hi, lo = h->lo, best = INFINITY;

	for (int i = SHRINKS; i > 0; i--) {
		double s = squares(h, h->lo, h->hi * i / SHRINKS, symmetric);

		if (s < best) {
			best = s;
			hi = h->hi * i / SHRINKS;
		}
	}
	for (int i = SHRINKS; i > 0; i--) {
		double s = squares(h, h->lo * i / SHRINKS, hi, symmetric);

		if (s < best) {
			best = s;
			lo = h->lo * i / SHRINKS;
		}
	}
	return point_of(lo, hi, symmetric);
}

/* Of the values within lo..hi: how much 8 bits lose of their distribution. */
static double
divergence(const struct hist *h, double lo, double hi, int symmetric)
{
	struct point p = point_of(lo, hi, symmetric);
	double all = 0, loss = 0, level[256] = { 0 }, bins[256] = { 0 };
	double kept[CALIB_BINS] = { 0 };
	int at[CALIB_BINS], first = symmetric ? -128 : 0;

	for (int i = 0; i < CALIB_BINS; i++) {
		float v = (float)middle(h, i);

		at[i] = (int)rintf(rounded(&p, symmetric, v) / p.scale) + p.zero - first;
		if (v >= lo && v <= hi && h->count[i] > 0) {
			level[at[i]] += h->count[i];
			bins[at[i]]++;
		}
		kept[i] += h->count[i];
		all += h->count[i];
	}
	for (int i = 0; i < CALIB_BINS; i++) {
		double v = middle(h, i), q;

		if (!(kept[i] > 0))
			continue;
		q = v >= lo && v <= hi && bins[at[i]] > 0 ? level[at[i]] / bins[at[i]] : 1e-3;
		loss += kept[i] / all * log(kept[i] / q);
	}
	return loss;
}

static struct point
entropy(const struct hist *h, int symmetric)
{
	double best = INFINITY, at = 1;

	for (int i = SHRINKS; i > SHRINKS / 8; i--) {
		double f = (double)i / SHRINKS;
		double d = divergence(h, h->lo * f, h->hi * f, symmetric);

		if (d < best) {
			best = d;
			at = f;
		}
	}
	return point_of(h->lo * at, h->hi * at, symmetric);
}

struct point
calib_point(const struct hist *h, enum calib how, int symmetric)
{
	return how == CALIB_ALL ? point_of(h->lo, h->hi, symmetric) :
	    how == CALIB_PERCENTILE ? percentile(h, symmetric) :
	    how == CALIB_MSE ? least_squares(h, symmetric) : entropy(h, symmetric);
}

const char *
calib_name(enum calib how)
{
	static const char *const names[] = { "all", "percentile", "mse", "entropy" };

	return names[how];
}
