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
