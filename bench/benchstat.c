/* benchstat.c -- samples: quantiles, deviation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/int.h"

double
bench_quantile(const double *t, int n, double q)
{
	double at = q * (n - 1);
	int i = (int)at;

	return i + 1 < n ? t[i] + (at - i) * (t[i + 1] - t[i]) : t[n - 1];
}

double
bench_mad(const double *t, int n, double median)
{
	double *d = (double *)xmalloc((size_t)n * sizeof *d), mad;

	for (int i = 0; i < n; i++)
		d[i] = fabs(t[i] - median);
	mad = 1.4826 * bench_median(d, n);
	free(d);
	return mad;
}

/* ---- two samples ---- */

enum { EXACT = 40 }; /* up to so many values on a side the distribution is counted out */

/* P(U <= u) for all u of samples of m and n, by the recursion over the largest value. */
static double *
rank_sums(int m, int n)
{
	int most = m * n;
	double *p = (double *)xcalloc((size_t)most + 1, sizeof *p), all = 1, sum = 0;

	/* The ways to reach u are the coefficients of prod (1 - q^(n+i)) / (1 - q^i). */
	p[0] = 1;
	for (int i = 1; i <= m; i++) {
		for (int u = most; u >= n + i; u--)
			p[u] -= p[u - n - i];
		for (int u = i; u <= most; u++)
			p[u] += p[u - i];
		all *= (double)(n + i) / i;
	}
	for (int u = 0; u <= most; u++)
		p[u] = (sum += p[u]) / all;
	return p;
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void
bench_versus(const double *a, int na, const double *b, int nb, double level, struct versus *v)
{
	size_t n = (size_t)na * (size_t)nb;
	double *ratio = (double *)xmalloc(n * sizeof *ratio), u = 0, mean = (double)n / 2,
	       sd = sqrt((double)n * (na + nb + 1) / 12), *p = NULL, low;
	int cut = 0, exact = na <= EXACT && nb <= EXACT;

	for (int i = 0; i < na; i++)
		for (int k = 0; k < nb; k++) {
			ratio[i * nb + k] = b[k] / a[i];
			u += b[k] < a[i] ? 1 : b[k] == a[i] ? .5 : 0;
		}
	qsort(ratio, n, sizeof *ratio, by_size);
	low = fmin(u, (double)n - u);
	if (exact) {
		p = rank_sums(na, nb);
		v->p = fmin(1, 2 * p[(int)low]);
		while (2 * p[cut] <= 1 - level)
			cut++;
	} else {
		v->p = erfc(fmax(0, mean - low - .5) / sd / sqrt(2));
		while (erfc(fmax(0, mean - cut - .5) / sd / sqrt(2)) <= 1 - level)
			cut++;
	}
	v->ratio = (ratio[n / 2] + ratio[(n - 1) / 2]) / 2;
	v->wide = !cut; /* too few: not even the extremes are that sure */
	v->low = ratio[cut ? cut - 1 : 0];
	v->high = ratio[n - (size_t)(cut ? cut : 1)];
	free(p);
	free(ratio);
}
