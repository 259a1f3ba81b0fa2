/* benchutil.c -- what the benches share: medians, and the memory of this process. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts t. */
double
bench_median(double *t, int n)
{
	qsort(t, (size_t)n, sizeof *t, by_value);
	return (t[n / 2] + t[(n - 1) / 2]) / 2;
}

int
bench_number(char letter, const char *s, long lo, long hi, int *out)
{
	long n;

	if (num_int(s, lo, hi, &n)) {
		warn("-%c %s: want a whole number from %ld to %ld", letter, s, lo, hi);
		return -1;
	}
	*out = (int)n;
	return 0;
}

/* Start the kernel's mark of the largest memory anew: what came before does not count. */
void
bench_reset_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "w");

	if (f) {
		fputs("5", f);
		fclose(f);
	}
}

double
bench_peak_mb(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[200];
	long kb = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb * 1024 / 1e6;
}

double
bench_rss_mb(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long all, resident = 0;

	if (f && fscanf(f, "%ld %ld", &all, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}
