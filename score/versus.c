/* versus.c -- is A better than the base, or lucky?  Paired bootstrap over pictures.
 *
 * A resampling draws as many pictures as there are, with repeats; both sides are scored on the
 * same draw, so what is hard for both cancels.  A picture drawn k times weighs k.  Draw j of
 * resampling i is a function of (seed, i, j) alone: threads do not change the interval. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score/score.h"

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
		for (int k = 0; k < rows; k++)		/* undefined in this draw: left out */
			diff[(size_t)k * (size_t)n + (size_t)i] =
			    ra[k].value < 0 || rb[k].value < 0 ? NAN : ra[k].value - rb[k].value;
	}
	progress_end();
	free(times);
	free(ra);
}

/* The numbers among d[n], sorted, to the front; how many. */
static int
numbers(double *d, int n)
{
	int m = 0;

	for (int i = 0; i < n; i++)
		if (!isnan(d[i]))
			d[m++] = d[i];
	if (m)
		qsort(d, (size_t)m, sizeof *d, up);
	return m;
}

/* Both sides, their difference, and the ends of its interval where all that is defined. */
struct eval_versus *
eval_versus(struct eval *a, struct eval *b, int n, double level, uint64_t seed, int *rows)
{
	struct eval_row ra[EVAL_ROWS], rb[EVAL_ROWS];
	int nr = *rows = eval_total(a, NULL, ra);
	struct eval_versus *v = (struct eval_versus *)xcalloc((size_t)nr + 1, sizeof *v);
	double *diff = (double *)xmalloc(((size_t)nr * (size_t)n + 1) * sizeof *diff);
	double cut = (1 - level) / 2;

	eval_total(b, NULL, rb);
	if (a->nimage)
		resample(a, b, n, seed, diff, nr);
	for (int k = 0; k < nr; k++) {
		double *d = diff + (size_t)k * (size_t)n;
		int m = a->nimage ? numbers(d, n) : 0;

		v[k].row = ra[k];
		v[k].base = rb[k].value;
		v[k].defined = ra[k].value >= 0 && rb[k].value >= 0;
		v[k].diff = ra[k].value - rb[k].value;
		if (!v[k].defined || !m)
			continue;
		v[k].interval = 1;
		v[k].low = d[(int)floor(cut * (m - 1))];
		v[k].high = d[(int)ceil((1 - cut) * (m - 1))];
	}
	free(diff);
	return v;
}

/* AP of each class on both sides, by each rule asked for. */
struct eval_change *
eval_changes(struct eval *a, struct eval *b, int *n)
{
	struct eval_row ra[EVAL_ROWS], rb[EVAL_ROWS];
	struct eval_tables ta, tb;
	struct eval_change *c = (struct eval_change *)xcalloc(
	    (size_t)a->nclass * EV_RULES + 1, sizeof *c);

	eval_tables(&ta, a, NULL);
	eval_tables(&tb, b, NULL);
	*n = 0;
	for (int k = 0; k < a->nclass; k++) {
		int rows = eval_class(a, &ta, k, ra);

		eval_class(b, &tb, k, rb);
		for (int i = 0; i < rows; i++)
			if ((!strcmp(ra[i].metric, "AP") || !strcmp(ra[i].metric, "mAP")) &&
			    ra[i].value >= 0)
				c[(*n)++] = (struct eval_change){ k, ra[i], rb[i].value };
	}
	eval_tables_free(&ta);
	eval_tables_free(&tb);
	return c;
}

static void
put_row(FILE *f, const struct eval_row *r, const char *what, double v)
{
	fprintf(f, "%s\t-\t%s.%s\t%.17g\n", r->rule, r->metric, what, v);
}

void
eval_versus_print(FILE *f, const struct eval_versus *v, int rows, const struct eval_change *c,
    int n, const struct eval_truth *t)
{
	for (int k = 0; k < rows; k++) {
		put_row(f, &v[k].row, "base", v[k].base);
		if (v[k].defined)
			put_row(f, &v[k].row, "diff", v[k].diff);
		if (v[k].interval) {
			put_row(f, &v[k].row, "low", v[k].low);
			put_row(f, &v[k].row, "high", v[k].high);
		}
	}
	for (int k = 0; k < n; k++) {
		char id[32];

		fprintf(f, "%s\t", c[k].row.rule);
		tsv_name(f, eval_class_name(t, c[k].cls, id));
		fprintf(f, "\t%s.diff\t%.17g\n", c[k].row.metric, c[k].row.value - c[k].base);
	}
}
