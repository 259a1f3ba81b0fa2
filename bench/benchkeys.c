/* benchkeys.c -- the history by keys: which runs may be compared, what changed between them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/int.h"

static int
is_mark(const struct bench_row *r)
{
	return !strcmp(row_get(r, COL_COMMAND), "mark");
}

int
row_busy(const struct bench_row *r)
{
	return r->v[COL_BUSY] != NULL;
}

static int
of_key(const struct bench_row *r, const char *key)
{
	return !key || !strncmp(row_get(r, COL_KEY), key, strlen(key));
}

int
runs_find(const struct hist *h, const char *key, struct runs **out, int *n, struct err *e)
{
	struct runs *all = NULL, *r;
	size_t cap = 0;

	*n = 0;
	for (int i = h->n - 1; i >= 0; i--) { /* from the newest */
		int k = 0;

		if (is_mark(&h->row[i]) || !of_key(&h->row[i], key))
			continue;
		while (k < *n && strcmp(all[k].key, row_get(&h->row[i], COL_KEY)))
			k++;
		if (k == *n) {
			all = (struct runs *)xgrow(all, &cap, (size_t)*n + 1, sizeof *all);
			all[(*n)++] = (struct runs){ row_get(&h->row[i], COL_KEY),
				(int *)xcalloc((size_t)h->n, sizeof(int)), 0 };
		}
		r = &all[k];
		r->row[r->n++] = i;
	}
	for (int k = 0; k < *n; k++)
		for (int i = 0, j = all[k].n - 1; i < j; i++, j--) {
			int was = all[k].row[i];

			all[k].row[i] = all[k].row[j];
			all[k].row[j] = was;
		}
	*out = all;
	if (!*n)
		return key ? err_set(e,
				 "%s: no run of this key; the history's second column has "
				 "them",
				 key)
			   : err_set(e, "no run in this history");
	return 0;
}

void
runs_free(struct runs *r, int n)
{
	for (int k = 0; k < n; k++)
		free(r[k].row);
	free(r);
}

int
runs_since(const struct hist *h, const struct runs *r)
{
	int first = 0;

	for (int i = 0; i < h->n; i++) {
		const char *key = row_get(&h->row[i], COL_KEY);
		int k = 0;

		if (!is_mark(&h->row[i]) || (strcmp(key, "-") && strcmp(key, r->key)))
			continue;
		while (k < r->n && strcmp(row_get(&h->row[r->row[k]], COL_TIME),
				       row_get(&h->row[i], COL_TIME)) < 0)
			k++;
		first = k > first ? k : first;
	}
	return first;
}

int
runs_values(const struct hist *h, const struct runs *r, enum bench_col c, double *x, int *at)
{
	int n = 0;

	for (int i = 0; i < r->n; i++) {
		const struct bench_row *row = &h->row[r->row[i]];

		x[n] = row_num(row, c);
		at[n] = i;
		n += x[n] > 0 && !row_busy(row);
	}
	return n;
}

static double
median_of(const double *x, int n)
{
	double *t = (double *)xmalloc(((size_t)n + 1) * sizeof *t), m;

	memcpy(t, x, (size_t)n * sizeof *t);
	m = bench_median(t, n);
	free(t);
	return m;
}

int
runs_steps(
    const struct hist *h, const struct runs *r, enum bench_col c, double size, struct step **out)
{
	static const struct split_opts opts = { .level = .005, .least = 3, .shuffles = 199 };
	double *x = (double *)xmalloc(((size_t)r->n + 1) * sizeof *x);
	int *at = (int *)xmalloc(((size_t)r->n + 1) * sizeof *at);
	int n = runs_values(h, r, c, x, at), found = 0;
	struct split *s = NULL;
	int k = bench_split(x, n, &opts, &s);
	struct step *t = (struct step *)xcalloc((size_t)k + 1, sizeof *t);

	for (int i = 0; i < k; i++) {
		int from = i ? s[i - 1].at : 0, to = i + 1 < k ? s[i + 1].at : n;

		t[found] = (struct step){ at[s[i].at], s[i].p, median_of(x + from, s[i].at - from),
			median_of(x + s[i].at, to - s[i].at), s[i].at - from, to - s[i].at };
		found += fabs(t[found].after / t[found].before - 1) >= size;
	}
	free(s);
	free(x);
	free(at);
	*out = t;
	return found;
}

char *
runs_between(const struct bench_row *a, const struct bench_row *b)
{
	static const enum bench_col machine[] = { COL_KERNEL, COL_DRIVER, COL_CUDA, COL_NCCL };
	const char *from = row_get(a, COL_COMMIT), *to = row_get(b, COL_COMMIT);
	char *s, *t;

	if (strcmp(from, to))
		s = xasprintf("commits %s..%s", from, to);
	else if (strcmp(row_get(a, COL_BUILD), row_get(b, COL_BUILD)))
		s = xasprintf("commit %s, another build", to);
	else
		s = xasprintf("the same build, %s", to);
	for (int i = 0; i < 4; i++) {
		const char *was = row_get(a, machine[i]), *is = row_get(b, machine[i]);

		if (!strcmp(was, is))
			continue;
		t = xasprintf("%s; %s %s -> %s", s, bench_col_name[machine[i]], was, is);
		free(s);
		s = t;
	}
	return s;
}
