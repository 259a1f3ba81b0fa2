/* benchsplit.c -- change points of a series: E-divisive means with a permutation test (Matteson and
 * James 2014), as MongoDB's and Apache's change detectors began.
 *
 * A cut of a stretch into l values on the left and r on the right is scored by the energy
 * distance of the two, 2 lr/(l+r) times the integral of (F - G)^2 where F and G are the shares
 * of their values up to a place.  Sixteen places, quantiles of the stretch, stand for all of
 * them: a value then changes sixteen sums, and a step of a shuffle costs the same for every
 * length.  The best cut is kept if few shuffles of the stretch have one as good.  A short rise
 * in a long series hides from that, so windows of it are divided too (as Hunter's do), at a weak
 * level; then every cut must stand once more, between its neighbours, at the level that is asked
 * for.
 *
 * Shuffling ends as soon as it can no longer be few, and as soon as the cut is so many deviations
 * beyond the mean of the shuffles that, whatever their distribution, fewer than the level can be
 * beyond it (Cantelli's inequality). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/int.h"

enum { WINDOW = 16, WIDEST = 128, LINES = 16 }; /* windows; places where shares are compared */
enum { ROUNDS = 1 }; /* in which cuts move: two could chase each other for ever */
enum { FEWEST = 20 }; /* shuffles before their spread is believed */

struct stretch {
	int from, to, at;
	double q, p;
};

struct work { /* of one stretch */
	int n, *order;
	float *row; /* of a value: how it changes each line's difference */
	float *size; /* n / (l r) of a cut */
};

/* Numbers of a known series: a run of the test is the same tomorrow. */
static uint32_t
draw(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33);
}

/* The best place for a cut with at least `least` values on each side, in the order w->order; the
 * search ends at one that is as good as `enough`. */
static float
best_cut(const struct work *w, int least, float enough, int *at)
{
	float d[LINES] = { 0 }, e[LINES], most = -1;

	for (int l = 1; l + least <= w->n; l++) {
		const float *row = w->row + w->order[l - 1] * LINES;
		float sum = 0, q;

		for (int k = 0; k < LINES; k++) {
			d[k] += row[k];
			e[k] = d[k] * d[k];
		}
		for (int k = 0; k < LINES / 2; k++)
			e[k] += e[k + LINES / 2];
		for (int k = 0; k < LINES / 4; k++)
			e[k] += e[k + LINES / 4];
		for (int k = 0; k < LINES / 4; k++)
			sum += e[k];
		if (l < least)
			continue;
		q = sum * w->size[l];
		if (q > most) {
			most = q;
			*at = l;
			if (q >= enough)
				break;
		}
	}
	return most;
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
work_open(struct work *w, const double *x, int n)
{
	double *sorted = (double *)xmalloc((size_t)n * sizeof *sorted);
	int lines = n - 1 < LINES ? n - 1 : LINES, exact = lines == n - 1;

	w->n = n;
	w->order = (int *)xmalloc((size_t)n * sizeof *w->order);
	w->size = (float *)xmalloc((size_t)n * sizeof *w->size);
	w->row = (float *)xcalloc((size_t)n * LINES, sizeof *w->row);
	memcpy(sorted, x, (size_t)n * sizeof *sorted);
	qsort(sorted, (size_t)n, sizeof *sorted, by_size);
	for (int l = 1; l < n; l++)
		w->size[l] = (float)n / ((float)l * (float)(n - l));
	for (int k = 0; k < lines; k++) {
		int at = (int)((k + 1L) * n / (lines + 1)) - 1,
		    next = k + 1 < lines ? (int)((k + 2L) * n / (lines + 1)) - 1 : n - 1,
		    last = k ? (int)((long)k * n / (lines + 1)) - 1 : 0, below = 0;
		double wide = exact ? sorted[k + 1] - sorted[k] : (sorted[next] - sorted[last]) / 2,
		       line = sorted[exact ? k : at];
		float root;

		wide /= sorted[n - 1] > sorted[0] ? sorted[n - 1] - sorted[0] : 1;
		root = (float)sqrt(wide);
		for (int i = 0; i < n; i++)
			below += x[i] <= line;
		for (int i = 0; i < n; i++)
			w->row[i * LINES + k] =
			    root * ((x[i] <= line ? 1.f : 0.f) - (float)below / (float)n);
	}
	for (int i = 0; i < n; i++)
		w->order[i] = i;
	free(sorted);
}

static void
work_close(struct work *w)
{
	free(w->order);
	free(w->row);
	free(w->size);
}

static void
shuffle(int *order, int n, uint64_t *seed)
{
	for (int i = n - 1; i > 0; i--) {
		int j = (int)((uint64_t)draw(seed) * (unsigned)(i + 1) >> 31), was = order[i];

		order[i] = order[j];
		order[j] = was;
	}
}

/* The stretch's best cut in c, and how likely a shuffle is as good; c->at -1: none is good. */
static void
try_stretch(struct stretch *c, const double *x, const struct split_opts *o)
{
	struct work w;
	uint64_t seed = 1;
	int few = (int)(o->level * (o->shuffles + 1)), as_good = 0, ignore = 0, m = 0;
	double sum = 0, squares = 0, far = sqrt(1 / o->level - 1);
	float q;

	c->at = -1;
	c->p = 1;
	c->q = 0;
	if (c->to - c->from < 2 * o->least)
		return;
	work_open(&w, x + c->from, c->to - c->from);
	q = best_cut(&w, o->least, HUGE_VALF, &c->at);
	c->q = q;
	while (q > 1e-9f && m < o->shuffles && as_good < few) {
		double most, mean, sd;

		shuffle(w.order, w.n, &seed);
		most = best_cut(&w, o->least, q * (1 - 1e-5f), &ignore);
		as_good += most >= q * (1 - 1e-5);
		sum += most;
		squares += most * most;
		mean = sum / ++m;
		sd = sqrt(fmax(0, squares / m - mean * mean));
		if (m >= FEWEST && !as_good && q > mean + far * sd)
			break;
	}
	work_close(&w);
	c->p = q <= 1e-9f ? 1 : m < o->shuffles && !as_good ? o->level : (as_good + 1.) / (m + 1);
	c->at = as_good >= few || q <= 1e-9f ? -1 : c->from + c->at;
}

/* ---- candidates, and which of them stand ---- */

/* Cuts found in [from, to) are marked. */
static void
divide(const double *x, int from, int to, const struct split_opts *o, char *mark)
{
	struct stretch *todo = (struct stretch *)xmalloc((size_t)(to - from + 2) * sizeof *todo), c;
	struct split_opts weak = *o;
	int left = 1;

	weak.level = .02; /* what stands in the end is decided by settle */
	weak.shuffles = 49;
	todo[0] = (struct stretch){ from, to, -1, 0, 0 };
	while (left) {
		c = todo[--left];
		try_stretch(&c, x, &weak);
		if (c.at < 0)
			continue;
		mark[c.at] = 1;
		todo[left++] = (struct stretch){ c.from, c.at, -1, 0, 0 };
		todo[left++] = (struct stretch){ c.at, c.to, -1, 0, 0 };
	}
	free(todo);
}

/* Each is tried between its neighbours, which are others by now: it goes where the best cut is, and
 * those go away that are weak and weaker than their neighbours, until all left are good. */
static int
settle(const double *x, int n, const struct split_opts *o, struct stretch *c, int k)
{
	for (int i = 0; i < k; i++)
		c[i].q = -1; /* not tried yet */
	for (int round = 0;; round++) {
		int kept = 0, moved = 0;
		double before = 0;

		for (int i = 0; i < k; i++) {
			int from = i ? c[i - 1].at : 0, to = i + 1 < k ? c[i + 1].at : n;
			struct stretch was = c[i];

			if (was.q >= 0 && was.from == from && was.to == to)
				continue;
			c[i].from = from;
			c[i].to = to;
			try_stretch(&c[i], x, o);
			if (c[i].at < 0 || round >= ROUNDS)
				c[i].at = was.at; /* it goes, or has moved enough */
			moved |= c[i].at != was.at;
		}
		for (int i = 0; i < k; i++) {
			double p = c[i].p;

			if (p <= o->level || before > p || (i + 1 < k && c[i + 1].p >= p))
				c[kept++] = c[i];
			before = p;
		}
		if (kept == k && !moved)
			return k;
		k = kept;
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
