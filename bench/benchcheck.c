/* benchcheck.c -- yolo-bench check, mark, steps: is the newest run worse, since when, and what was
 * meant to be.
 *
 * The rule: worse is a median beyond the baseline's by more than max(wall, mads deviations of it)
 * and beyond all of the baseline's runs but one, twice in a row, or a count of instructions beyond
 * its baseline by more than .7 percent, at once: its noise is a few tenths, and a step of one
 * percent is to be seen the first night.  The baseline is the median of the last runs of the same
 * key since its last mark, but of the ones that are judged; runs on a busy machine are not of it.
 */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/int.h"

static const struct setting settings[] = { { "instructions", "0.7", "0..1000",
					       "percent more instructions that are worse" },
	{ "least", "20", "int 3..1000", "runs that make a baseline" },
	{ "mads", "4", "0..1000", "deviations of the baseline that are no change" },
	{ "row", "2", "int 1..100", "runs in a row that must be slower" },
	{ "size", "0.5", "0..1000", "percent of change that steps shows" },
	{ "wall", "3", "0..1000", "percent of time that is no change" },
	{ "window", "30", "int 3..10000", "runs of the baseline, the newest" },
	{ NULL, NULL, NULL, NULL } };

struct ask {
	const char *history, *key, *time;
	int all;
	char **word; /* of mark: its text */
	int nword;
	struct settings set;
};

enum { FINE, WORSE, CANNOT };

/* ---- check ---- */

/* The median and deviation of the last `window` of n values, and the largest but one. */
static double
baseline(const double *x, int n, int window, double *mad, double *large)
{
	int from = n > window ? n - window : 0;
	double *t = (double *)xmalloc(((size_t)n + 1) * sizeof *t), m;

	n -= from;
	memcpy(t, x + from, (size_t)n * sizeof *t);
	m = bench_median(t, n);
	*mad = bench_mad(t, n, m);
	*large = t[n - 2];
	free(t);
	return m;
}

/* By one column: fine, worse (why in *line, free()) or too little is known. */
static int
judge(const struct hist *h, const struct runs *r, enum bench_col c, const struct settings *set,
    char **line)
{
	int wall = c == COL_MEDIAN, row = wall ? (int)settings_int(set, "row") : 1, n, over = 0;
	double *x = (double *)xmalloc(((size_t)r->n + 1) * sizeof *x), mad, base, limit, large;
	int *at = (int *)xmalloc(((size_t)r->n + 1) * sizeof *at), verdict = CANNOT, old;
	const struct bench_row *newest = &h->row[r->row[r->n - 1]];

	n = runs_values(h, r, c, x, at);
	old = n - row;
	if (n && at[n - 1] == r->n - 1 && old >= settings_int(set, "least")) {
		base = baseline(x, old, (int)settings_int(set, "window"), &mad, &large);
		limit = settings_num(set, wall ? "wall" : "instructions") / 100;
		if (wall)
			limit = fmax(
			    fmax(limit, large / base - 1), settings_num(set, "mads") * mad / base);
		while (over < row && x[n - 1 - over] > base * (1 + limit))
			over++;
		verdict = over == row ? WORSE : FINE;
		if (verdict == WORSE) {
			const struct bench_row *was = &h->row[r->row[at[old - 1]]];
			char *what = row_alike(newest), *since = runs_between(was, newest),
			     *times = xasprintf(", %d times in a row", row);

			*line = xasprintf("worse: %s: %s %.6g, %+.1f %% against %.6g (limit "
					  "%+.1f %%)%s; %s; key %s",
			    what, wall ? "median ms" : "instructions", x[n - 1],
			    (x[n - 1] / base - 1) * 100, base, limit * 100,
			    wall && row > 1 ? times : "", since, r->key);
			free(what);
			free(since);
			free(times);
		}
	}
	free(x);
	free(at);
	return verdict;
}

static int
in_future(const char *when)
{
	time_t t = time(NULL) + 24 * 3600;
	char text[32];

	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
	return strcmp(when, "-") && strcmp(when, text) > 0;
}

static int
check_key(const struct hist *h, struct runs *r, const struct settings *set)
{
	const struct bench_row *newest = &h->row[r->row[r->n - 1]];
	int since = runs_since(h, r), wall, count;
	struct runs now = { r->key, r->row + since, r->n - since };
	char *line = NULL, *what = row_alike(newest);

	if (!now.n) /* accepted as it is, by a mark */
		wall = count = FINE;
	else if (in_future(row_get(newest, COL_TIME))) {
		line = xasprintf("cannot say: %s: the newest run is of %s, which is to come: is "
				 "the clock right?",
		    what, row_get(newest, COL_TIME));
		wall = count = CANNOT;
	} else if (row_busy(newest)) {
		line = xasprintf("cannot say: %s: the machine was busy: %s; key %s", what,
		    row_get(newest, COL_BUSY), r->key);
		wall = count = CANNOT;
	} else {
		count = judge(h, &now, COL_INSTRUCTIONS, set, &line);
		wall = count == WORSE ? FINE : judge(h, &now, COL_MEDIAN, set, &line);
		if (wall == CANNOT && count != WORSE)
			line =
			    xasprintf("cannot say: %s: %d runs%s on a machine that was not busy, "
				      "want %ld; key %s",
				what, now.n, since ? " since the mark" : "",
				settings_int(set, "least") + settings_int(set, "row"), r->key);
	}
	if (line)
		puts(line);
	free(line);
	free(what);
	return wall == WORSE || count == WORSE ? WORSE : wall;
}

static int
check(struct ask *a, const struct hist *h, struct runs *r, int n, struct err *e)
{
	int worst = FINE;

	(void)e;
	for (int k = 0; k < (a->all ? n : 1); k++) {
		int v = check_key(h, &r[k], &a->set);

		worst = v == WORSE || worst == FINE ? v : worst;
	}
	return worst;
}

/* ---- steps ---- */

static int
steps(struct ask *a, const struct hist *h, struct runs *r, int n, struct err *e)
{
	static const enum bench_col figure[] = { COL_MEDIAN, COL_INSTRUCTIONS };

	(void)e;
	printf("#key\trun\tfigure\ttime\tchange_percent\tbefore\tafter\tp\truns_before\truns_after"
	       "\tbetween\n");
	for (int k = 0; k < n; k++)
		for (int f = 0; f < 2; f++) {
			struct step *s;
			int m = runs_steps(
			    h, &r[k], figure[f], settings_num(&a->set, "size") / 100, &s);
			char *what = row_alike(&h->row[r[k].row[0]]);

			for (int i = 0; i < m; i++) {
				const struct bench_row *row = &h->row[r[k].row[s[i].run]];
				char *between = runs_between(
				    row - (s[i].run ? r[k].row[s[i].run] - r[k].row[s[i].run - 1]
						    : 0),
				    row);

				printf("%s\t%s\t%s\t%s\t%+.2f\t%.6g\t%.6g\t%.3f\t%d\t%d\t%s\n",
				    r[k].key, what, bench_col_name[figure[f]],
				    row_get(row, COL_TIME), (s[i].after / s[i].before - 1) * 100,
				    s[i].before, s[i].after, s[i].p, s[i].left, s[i].right,
				    between);
				free(between);
			}
			free(what);
			free(s);
		}
	return 0;
}

/* ---- mark ---- */

static int
mark(struct ask *a, const struct hist *h, struct runs *r, int n, struct err *e)
{
	struct bench_row row = { { NULL } };
	char *text = xstrdup(""), *t;
	const char *when = a->time;
	int bad;

	(void)n;
	if (!when) /* the newest run is the first of what is accepted */
		when = row_get(&h->row[r[0].row[r[0].n - 1]], COL_TIME);
	for (int i = 0; i < a->nword; i++) {
		t = xasprintf("%s%s%s", text, i ? " " : "", a->word[i]);
		free(text);
		text = t;
	}
	row_set(&row, COL_TIME, "%s", when);
	row_set(&row, COL_COMMAND, "mark");
	row_set(&row, COL_KEY, "%s", a->key ? r[0].key : "-");
	row_set(&row, COL_NOTE, "%s", text);
	bad = hist_append(a->history, &row, e);
	free(text);
	row_free(&row);
	return bad ? -1 : 0;
}

/* ---- all three ---- */

/* "2026-12-01" or with T and a time of UTC behind it. */
static int
is_time(const char *s)
{
	struct tm tm;
	const char *end = strptime(s, "%Y-%m-%d", &tm);

	if (end && *end == 'T')
		end = strptime(end, "T%H:%M:%SZ", &tm);
	return end && !*end && strlen(s) >= 10;
}

static int
wrong(const char *why)
{
	warn("%s", why);
	return 2;
}

static const struct option longs[] = { { "all", 0, NULL, 'a' }, { "help", 0, NULL, 'h' },
	{ "history", 1, NULL, 'H' }, { "key", 1, NULL, 'k' }, { "option", 1, NULL, 'O' },
	{ "quiet", 0, NULL, 'q' }, { "time", 1, NULL, 't' }, { NULL, 0, NULL, 0 } };

static int
run(const struct bench_call *call, const char *usage, const char *letters,
    int (*what)(struct ask *, const struct hist *, struct runs *, int, struct err *))
{
	struct ask a = { .history = "history.tsv" };
	struct hist h = { NULL, 0, 0 };
	struct runs *r = NULL;
	struct err e = { "" };
	int opt, n = 0, status = 0, words = what == mark;

	settings_open(&a.set, settings);
	while ((opt = getopt_long(call->argc, call->argv, letters, longs, NULL)) >= 0)
		if (opt == '?' || !strchr(letters, opt))
			status = 2;
		else if (opt == 'h') {
			fputs(usage, stdout);
			settings_close(&a.set);
			return 0;
		} else if (opt == 'O')
			settings_option(&a.set, optarg);
		else if (opt == 'a' || opt == 'q')
			*(opt == 'a' ? &a.all : &quiet) = 1;
		else
			*(opt == 'H' ? &a.history : opt == 'k' ? &a.key : &a.time) = optarg;
	a.word = call->argv + optind;
	a.nword = call->argc - optind;
	if (!status && (a.nword > 0) != words)
		status = wrong(words ? "want a text: what changed"
				     : "takes no operand; -H names "
				       "the history");
	if (!status && a.time && !is_time(a.time))
		status = wrong("-t: want a time such as 2026-12-01T03:00:00Z");
	if (status)
		fputs(usage, stderr);
	else if (hist_read(a.history, &h, &e) || runs_find(&h, a.key, &r, &n, &e) ||
		 (status = what(&a, &h, r, n, &e)) < 0) {
		warn("%s", e.msg);
		status = what == check ? CANNOT : 1;
	}
	runs_free(r, n);
	hist_close(&h);
	settings_close(&a.set);
	return status;
}

int
bench_check(const struct bench_call *call)
{
	return run(call,
	    "usage: yolo-bench check [-ahq] [-H history.tsv] [-k key] "
	    "[-O key=value]\n",
	    "ahH:k:O:q", check);
}

int
bench_steps(const struct bench_call *call)
{
	return run(call,
	    "usage: yolo-bench steps [-hq] [-H history.tsv] [-k key] "
	    "[-O key=value]\n",
	    "hH:k:O:q", steps);
}

int
bench_mark(const struct bench_call *call)
{
	return run(call, "usage: yolo-bench mark [-hq] [-H history.tsv] [-k key] [-t time] text\n",
	    "hH:k:qt:", mark);
}
