/* evalboot.c -- is A better than the base, or lucky?  Paired bootstrap over pictures.
 *
 * A resampling draws as many pictures as there are, with repeats; both sides are scored on the
 * same draw, so what is hard for both cancels.  A picture drawn k times weighs k.  Draw j of
 * resampling i is a function of (seed, i, j) alone: threads do not change the interval. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static uint64_t
mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static void
draw(uint32_t *times, size_t n, uint64_t seed, uint64_t i)
{
	uint64_t key = mix(mix(seed) + i);

	memset(times, 0, n * sizeof *times);
	for (size_t j = 0; j < n; j++)
		times[(unsigned __int128)mix(key + j) * n >> 64]++;
}

static int
up(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return a < b ? -1 : a > b;
}

/* Weights by picture of the truth -> by picture in the order it was scored. */
static void
turn(const struct eval *e, const uint32_t *times, uint32_t *out)
{
	for (size_t i = 0; i < e->nimage; i++)
		out[i] = times[e->key[i]];
}

static void
resample(struct eval *a, struct eval *b, int n, uint64_t seed, double *diff, int rows)
{
	size_t np = a->nimage;
	uint32_t *times = (uint32_t *)xmalloc((np + 1) * 2 * sizeof *times), *w = times + np;
	struct eval_row *ra = (struct eval_row *)xmalloc(2 * EVAL_ROWS * sizeof *ra),
			*rb = ra + EVAL_ROWS;

	for (int i = 0; i < n; i++) {
		progress("resampling %d of %d", i, n);
		draw(times, np, seed, (uint64_t)i);
		turn(a, times, w);
		eval_total(a, w, ra);
		turn(b, times, w);
		eval_total(b, w, rb);
		for (int k = 0; k < rows; k++)		/* undefined in this draw: no difference */
			diff[(size_t)k * (size_t)n + (size_t)i] =
			    ra[k].value < 0 || rb[k].value < 0 ? 0 : ra[k].value - rb[k].value;
	}
	progress_end();
	free(times);
	free(ra);
}

static void
put(FILE *f, const struct eval_row *r, const char *what, double v)
{
	fprintf(f, "%s\t-\t%s.%s\t%.17g\n", r->rule, r->metric, what, v);
}

static void
per_class(FILE *f, struct eval *a, struct eval *b, const struct eval_truth *t)
{
	struct eval_row ra[EVAL_ROWS], rb[EVAL_ROWS];

	for (int c = 0; c < a->nclass; c++) {
		int n = eval_class(a, c, ra);
		char id[32];

		eval_class(b, c, rb);
		snprintf(id, sizeof id, "%lld", (long long)t->class_id[c]);
		for (int k = 0; k < n; k++)
			if ((!strcmp(ra[k].metric, "AP") || !strcmp(ra[k].metric, "mAP")) &&
			    ra[k].value >= 0) {
				fprintf(f, "%s\t", ra[k].rule);
				tsv_name(f, t->class_name[c] ? t->class_name[c] : id);
				fprintf(f, "\t%s.diff\t%.17g\n", ra[k].metric,
				    ra[k].value - rb[k].value);
			}
	}
}

void
eval_compare(FILE *f, struct eval *a, struct eval *b, const struct eval_truth *t, int n,
    double level, uint64_t seed)
{
	struct eval_row ra[EVAL_ROWS], rb[EVAL_ROWS];
	int rows = eval_total(a, NULL, ra);
	double *diff = (double *)xmalloc(((size_t)rows * (size_t)n + 1) * sizeof *diff);
	double cut = (1 - level) / 2;

	eval_total(b, NULL, rb);
	if (t->n)
		resample(a, b, n, seed, diff, rows);
	for (int k = 0; k < rows; k++) {
		double *d = diff + (size_t)k * (size_t)n;

		put(f, ra + k, "base", rb[k].value);
		if (ra[k].value < 0 || rb[k].value < 0)		/* undefined on one side */
			continue;
		put(f, ra + k, "diff", ra[k].value - rb[k].value);
		if (!n || !t->n)
			continue;
		qsort(d, (size_t)n, sizeof *d, up);
		put(f, ra + k, "low", d[(int)floor(cut * (n - 1))]);
		put(f, ra + k, "high", d[(int)ceil((1 - cut) * (n - 1))]);
	}
	per_class(f, a, b, t);
	free(diff);
}
