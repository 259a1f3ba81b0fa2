/* benchsplit.c -- change points of a series: E-divisive means with a permutation test (Matteson and
 * James 2014), as MongoDB's and Apache's change detectors began.
 *
 * A cut of a stretch into l values on the left and r on the right is scored by the energy distance
 * of the two, lr/(l+r) (2 E|X-Y| - E|X-X'| - E|Y-Y'|).  The best cut is kept if few shuffles of the
 * stretch have one as good, and both sides are looked at likewise.  A short rise in a long series
 * hides from that, so windows of it are divided too (as Hunter's do); then every cut must stand
 * once more, between its neighbours.  Shuffling ends as soon as it can no longer be few, so noise
 * costs a handful.  Distances to the values already passed come from a table, or for many values
 * from a Fenwick tree over their ranks: n log n for a shuffle. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/int.h"

enum { WINDOW = 16, WIDEST = 128, TABLE = 128 }; /* windows; up to so many values a table */
struct stretch {
	int from, to, at;
	double q, p;
};

struct work { /* of one stretch */
	int n, *rank, *count, *order; /* rank from 1; count, sum: the tree */
	double *x, *all, *sum; /* all: of distances to every value of the stretch */
	float *table, *near; /* distances; of each value to those passed */
	double passed, pairs; /* of the values passed; of distances of all pairs */
};

/* Numbers of a known series: a run of the test is the same tomorrow. */
static uint32_t
draw(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33);
}

/* Distances of the next value, k, to the values before it, and it is one of them from now on: a few
 * values by their table, many by the tree. */
static double
pass(struct work *w, int k, int before)
{
	double x = w->x[k], sum = 0, d;
	int below = 0;

	if (w->n <= TABLE) {
		const float *row = w->table + (size_t)k * (size_t)w->n;

		d = w->near[k];
		for (int j = 0; j < w->n; j++)
			w->near[j] += row[j];
		return d;
	}
	for (int j = w->rank[k]; j; j &= j - 1) {
		below += w->count[j];
		sum += w->sum[j];
	}
	d = x * (2 * below - before) + w->passed - 2 * sum;
	for (int j = w->rank[k]; j <= w->n; j += j & -j) {
		w->count[j]++;
		w->sum[j] += x;
	}
	w->passed += x;
	return d;
}

/* The best place for a cut with at least `least` values on each side, in the order w->order. */
static double
best_cut(struct work *w, int least, int *at)
{
	double left = 0, right = w->pairs, most = -1;
	int n = w->n;

	if (w->table)
		memset(w->near, 0, (size_t)n * sizeof *w->near);
	else {
		memset(w->count, 0, ((size_t)n + 1) * sizeof *w->count);
		memset(w->sum, 0, ((size_t)n + 1) * sizeof *w->sum);
	}
	w->passed = 0;
	for (int i = 0; i + least < n; i++) {
		int k = w->order[i], l = i + 1, r = n - l;
		double d = pass(w, k, i), q;

		left += d;
		right -= w->all[k] - d;
		if (l < least)
			continue;
		q = 2. / n * (w->pairs - left - right) - (l > 1 ? 2. * r / n / (l - 1) * left : 0) -
		    (r > 1 ? 2. * l / n / (r - 1) * right : 0);
		if (q > most) {
			most = q;
			*at = l;
		}
	}
	return most;
}

struct ranked {
	double x;
	int i;
};

static int
by_x(const void *a, const void *b)
{
	const struct ranked *p = (const struct ranked *)a, *q = (const struct ranked *)b;

	return p->x != q->x ? (p->x > q->x) - (p->x < q->x) : p->i - q->i;
}

static void
work_open(struct work *w, const double *x, int n)
{
	struct ranked *r = (struct ranked *)xmalloc((size_t)n * sizeof *r);
	double below = 0, total = 0;

	w->n = n;
	w->rank = (int *)xmalloc(((size_t)n + 1) * sizeof *w->rank);
	w->count = (int *)xmalloc(((size_t)n + 1) * sizeof *w->count);
	w->order = (int *)xmalloc(((size_t)n + 1) * sizeof *w->order);
	w->x = (double *)xmalloc(((size_t)n + 1) * sizeof *w->x);
	w->all = (double *)xmalloc(((size_t)n + 1) * sizeof *w->all);
	w->sum = (double *)xmalloc(((size_t)n + 1) * sizeof *w->sum);
	for (int i = 0; i < n; i++) {
		r[i] = (struct ranked){ x[i], i };
		total += x[i];
		w->order[i] = i;
		w->x[i] = x[i];
	}
	qsort(r, (size_t)n, sizeof *r, by_x);
	for (int k = 0; k < n; k++) {
		w->rank[r[k].i] = k + 1;
		w->all[r[k].i] = r[k].x * (2 * k + 1 - n) + total - 2 * below - r[k].x;
		below += r[k].x;
	}
	w->pairs = 0;
	for (int i = 0; i < n; i++)
		w->pairs += w->all[i] / 2;
	w->table = NULL;
	w->near = (float *)xmalloc(((size_t)n + 1) * sizeof *w->near);
	if (n <= TABLE) {
		w->table = (float *)xmalloc((size_t)n * (size_t)n * sizeof *w->table);
		for (int i = 0; i < n * n; i++)
			w->table[i] = (float)fabs(x[i / n] - x[i % n]);
	}
	free(r);
}

static void
work_close(struct work *w)
{
	free(w->rank);
	free(w->count);
	free(w->order);
	free(w->x);
	free(w->all);
	free(w->sum);
	free(w->table);
	free(w->near);
}

/* The stretch's best cut in c, and how likely a shuffle is as good; c->at -1: none is good. */
static void
try_stretch(struct stretch *c, const double *x, const struct split_opts *o)
{
	struct work w;
	uint64_t seed = 1;
	int few = (int)(o->level * (o->shuffles + 1)), as_good = 0, ignore;

	c->at = -1;
	c->p = 1;
	c->q = 0;
	if (c->to - c->from < 2 * o->least)
		return;
	work_open(&w, x + c->from, c->to - c->from);
	c->q = best_cut(&w, o->least, &c->at);
	for (int k = 0; k < o->shuffles && as_good < few; k++) {
		for (int i = w.n - 1; i > 0; i--) {
			int j = (int)((uint64_t)draw(&seed) * (unsigned)(i + 1) >> 31),
			    was = w.order[i];

			w.order[i] = w.order[j];
			w.order[j] = was;
		}
		as_good += best_cut(&w, o->least, &ignore) >= c->q * (1 - 1e-6);
	}
	work_close(&w);
	c->p = (as_good + 1.) / (o->shuffles + 1);
	c->at = as_good >= few || c->q <= 0 ? -1 : c->from + c->at;
}

/* ---- candidates, and which of them stand ---- */

/* Cuts found in [from, to) are marked. */
static void
divide(const double *x, int from, int to, const struct split_opts *o, char *mark)
{
	struct stretch *todo = (struct stretch *)xmalloc((size_t)(to - from + 2) * sizeof *todo), c;
	int left = 1;

	todo[0] = (struct stretch){ from, to, -1, 0, 0 };
	while (left) {
		c = todo[--left];
		try_stretch(&c, x, o);
		if (c.at < 0)
			continue;
		mark[c.at] = 1;
		todo[left++] = (struct stretch){ c.from, c.at, -1, 0, 0 };
		todo[left++] = (struct stretch){ c.at, c.to, -1, 0, 0 };
	}
	free(todo);
}

/* Each is tried between its neighbours, which are others by now: it goes where the best cut is, and
 * the weakest goes away, until all that are left are good. */
static int
settle(const double *x, int n, const struct split_opts *o, struct stretch *c, int k)
{
	for (int i = 0; i < k; i++)
		c[i].q = -1; /* not tried yet */
	for (;;) {
		int worst = -1, moved = 0;

		for (int i = 0; i < k; i++) {
			int from = i ? c[i - 1].at : 0, to = i + 1 < k ? c[i + 1].at : n;
			struct stretch was = c[i];

			if (was.q >= 0 && was.from == from && was.to == to)
				continue;
			c[i].from = from;
			c[i].to = to;
			try_stretch(&c[i], x, o);
			if (c[i].at < 0)
				c[i].at = was.at; /* it goes, its place does not matter */
			moved |= c[i].at != was.at;
		}
		for (int i = 0; i < k; i++)
			if (c[i].p > o->level && (worst < 0 || c[i].p > c[worst].p))
				worst = i;
		if (worst < 0 && !moved)
			return k;
		if (worst >= 0)
			memmove(&c[worst], &c[worst + 1], (size_t)(--k - worst) * sizeof *c);
	}
}

int
bench_split(const double *x, int n, const struct split_opts *o, struct split **out)
{
	struct stretch *c = (struct stretch *)xcalloc((size_t)n + 1, sizeof *c);
	char *mark = (char *)xcalloc((size_t)n + 1, 1);
	int k = 0;

	divide(x, 0, n, o, mark);
	for (int len = WINDOW; len < n && len <= WIDEST; len *= 2)
		for (int from = 0; from + len / 2 < n; from += len / 2)
			divide(x, from, from + len < n ? from + len : n, o, mark);
	for (int i = 0; i < n; i++)
		if (mark[i])
			c[k++].at = i;
	k = settle(x, n, o, c, k);
	*out = (struct split *)xcalloc((size_t)k + 1, sizeof **out);
	for (int i = 0; i < k; i++)
		(*out)[i] = (struct split){ c[i].at, c[i].p, c[i].from, c[i].to };
	free(mark);
	free(c);
	return k;
}
