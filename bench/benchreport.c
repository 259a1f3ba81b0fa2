/* benchreport.c -- yolo-bench report: the history as a page, a chart a key.
 *
 * A point is a run, at its place in the history; a ring one of a busy machine.  Levels are drawn
 * between change points, which are upright lines, as marks and changes of the machine are.
 * The page needs nothing else and no script, and is a function of the history alone. */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/int.h"
#include "score/score.h"

enum { WIDE = 720, HIGH = 200, LEFT = 58, TOP = 12, RIGHT = 12, BELOW = 30, KEYS = 100 };
static const char usage[] = "usage: yolo-bench report [-hq] [-H history.tsv] [-k key] [-o page]\n";

struct chart {
	FILE *f;
	const struct hist *h;
	const struct runs *r;
	enum bench_col c;
	double lo, hi;
};

static double
px(const struct chart *p, double run)
{
	return LEFT + (WIDE - LEFT - RIGHT) * (p->r->n > 1 ? run / (p->r->n - 1) : .5);
}

static double
py(const struct chart *p, double v)
{
	return TOP + (HIGH - TOP - BELOW) * (p->hi - v) / (p->hi - p->lo);
}

/* From the 1st to the 99th part of a hundred, with room; what lies outside is drawn at the edge. */
static void
range(struct chart *p)
{
	double *x = (double *)xmalloc(((size_t)p->r->n + 1) * sizeof *x), room;
	int n = 0;

	for (int i = 0; i < p->r->n; i++) {
		double v = row_num(&p->h->row[p->r->row[i]], p->c);

		if (v > 0)
			x[n++] = v;
	}
	p->lo = 0;
	p->hi = 1;
	if (n) {
		bench_median(x, n); /* sorted */
		room = fmax(
		    .15 * (bench_quantile(x, n, .99) - bench_quantile(x, n, .01)), .02 * x[n / 2]);
		p->lo = bench_quantile(x, n, .01) - room;
		p->hi = bench_quantile(x, n, .99) + room;
	}
	free(x);
}

/* About five lines at round numbers. */
static void
grid(const struct chart *p)
{
	double raw = (p->hi - p->lo) / 5, unit = pow(10, floor(log10(raw))), step = raw / unit;
	char text[32];

	step = unit * (step < 1.5 ? 1 : step < 3.5 ? 2 : step < 7.5 ? 5 : 10);
	for (double v = ceil(p->lo / step) * step; v <= p->hi; v += step) {
		snprintf(text, sizeof text, "%.6g", fabs(v) < step / 2 ? 0 : v);
		fprintf(p->f,
		    "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"dim\" "
		    "x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
		    LEFT, py(p, v), WIDE - RIGHT, LEFT - 6, py(p, v) + 4, text);
	}
	for (int k = 0; k < 5 && p->r->n; k++) {
		int run = (p->r->n - 1) * k / 4;

		if (k && run == (p->r->n - 1) * (k - 1) / 4)
			continue;
		fprintf(p->f,
		    "<text class=\"dim\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%.10s"
		    "</text>\n",
		    px(p, run), HIGH - 8,
		    k == 0   ? "start"
		    : k == 4 ? "end"
			     : "middle",
		    row_get(&p->h->row[p->r->row[run]], COL_TIME));
	}
}

static void
upright(const struct chart *p, double run, const char *style, const char *text)
{
	fprintf(p->f, "<path d=\"M%.1f %dV%d\" style=\"fill:none;%s\"><title>", px(p, run), TOP,
	    HIGH - BELOW, style);
	report_text(p->f, text);
	fputs("</title></path>\n", p->f);
}

/* Marks before their first run; a machine that is not the one of the run before. */
static void
happenings(const struct chart *p)
{
	for (int i = 0; i < p->h->n; i++) {
		const struct bench_row *m = &p->h->row[i];
		const char *key = row_get(m, COL_KEY);
		char *text;
		int k = 0;

		if (strcmp(row_get(m, COL_COMMAND), "mark") ||
		    (strcmp(key, "-") && strcmp(key, p->r->key)))
			continue;
		while (k < p->r->n && strcmp(row_get(&p->h->row[p->r->row[k]], COL_TIME),
					  row_get(m, COL_TIME)) < 0)
			k++;
		text = xasprintf("mark, %s: %s", row_get(m, COL_TIME), row_get(m, COL_NOTE));
		upright(p, k - .5, "stroke:var(--c3);stroke-width:1.5;stroke-dasharray:4 3", text);
		free(text);
	}
	for (int k = 1; k < p->r->n; k++) {
		char *text = runs_between(&p->h->row[p->r->row[k - 1]], &p->h->row[p->r->row[k]]),
		     *semi = strchr(text, ';');

		if (semi)
			upright(p, k - .5,
			    "stroke:var(--dim);stroke-width:1.5;"
			    "stroke-dasharray:1 3",
			    semi + 2);
		free(text);
	}
}

static void
points(const struct chart *p)
{
	for (int i = 0; i < p->r->n; i++) {
		const struct bench_row *row = &p->h->row[p->r->row[i]];
		double v = row_num(row, p->c);

		if (!(v > 0))
			continue;
		fprintf(p->f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" style=\"%s\"><title>",
		    px(p, i), py(p, fmin(fmax(v, p->lo), p->hi)),
		    row_busy(row) ? "fill:none;stroke:var(--dim)" : "fill:var(--c0)");
		report_text(p->f, row_get(row, COL_TIME));
		fprintf(p->f, ": %.6g, ", v);
		report_text(p->f, row_get(row, COL_COMMIT));
		if (row_busy(row))
			report_text(p->f, ", busy");
		fputs("</title></circle>\n", p->f);
	}
}

static void
level(const struct chart *p, double v, double from, double to)
{
	fprintf(p->f, "<path class=\"l\" style=\"stroke:var(--c1)\" d=\"M%.1f %.1fH%.1f\"/>\n",
	    px(p, from), py(p, fmin(fmax(v, p->lo), p->hi)), px(p, to));
}

static void
levels(const struct chart *p, const struct step *s, int n)
{
	for (int i = 0; i < n; i++) {
		double share = s[i].after / s[i].before - 1, from = i ? s[i - 1].run : 0,
		       to = i + 1 < n ? s[i + 1].run : p->r->n;
		char *text = xasprintf("%+.1f %% since %s", share * 100,
		    row_get(&p->h->row[p->r->row[s[i].run]], COL_TIME));

		upright(p, s[i].run - .5,
		    share > 0 ? "stroke:var(--bad);stroke-width:1.5"
			      : "stroke:var(--good);stroke-width:1.5",
		    text);
		if (!i)
			level(p, s[i].before, from, s[i].run - .5);
		level(p, s[i].after, s[i].run - .5, fmin(to - .5, p->r->n - 1));
		free(text);
	}
}

static void
change_table(const struct chart *p, const struct step *s, int n)
{
	fputs("<div class=\"wide\"><table><thead><tr><th>change since</th><th>%</th><th>before"
	      "</th><th>after</th><th>p</th><th>runs</th><th class=\"t\">between</th></tr></thead>"
	      "<tbody>\n",
	    p->f);
	for (int i = 0; i < n; i++) {
		const struct bench_row *row = &p->h->row[p->r->row[s[i].run]];
		char *between =
		    runs_between(&p->h->row[p->r->row[s[i].run ? s[i].run - 1 : 0]], row);
		double share = s[i].after / s[i].before - 1;

		fputs("<tr>", p->f);
		report_cell(p->f, row_get(row, COL_TIME));
		fprintf(p->f,
		    "<td class=\"%s\">%+.2f</td><td>%.6g</td><td>%.6g</td><td>%.3f</td>"
		    "<td>%d + %d</td>",
		    share > 0 ? "down" : "up", share * 100, s[i].before, s[i].after, s[i].p,
		    s[i].left, s[i].right);
		report_cell(p->f, between);
		fputs("</tr>\n", p->f);
		free(between);
	}
	fputs("</tbody></table></div>\n", p->f);
}

static void
figure(FILE *f, const struct hist *h, const struct runs *r, enum bench_col c, const char *name)
{
	struct chart p = { f, h, r, c, 0, 1 };
	struct step *s;
	int n;

	range(&p);
	n = runs_steps(h, r, c, .005, &s);
	fprintf(f,
	    "<h3>%s</h3>\n<div class=\"wide\"><svg style=\"min-width:34rem\" width=\"%d\" "
	    "height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>%s by run</title>\n",
	    name, WIDE, HIGH, WIDE, HIGH, name);
	grid(&p);
	happenings(&p);
	points(&p);
	levels(&p, s, n);
	fputs("</svg></div>\n", f);
	if (n)
		change_table(&p, s, n);
	free(s);
}

/* A chart shows them to who points at them; a telephone has no pointer. */
static void
mark_table(FILE *f, const struct hist *h, const struct runs *r)
{
	int any = 0;

	for (int i = 0; i < h->n; i++) {
		const struct bench_row *m = &h->row[i];
		const char *key = row_get(m, COL_KEY);

		if (strcmp(row_get(m, COL_COMMAND), "mark") ||
		    (strcmp(key, "-") && strcmp(key, r->key)))
			continue;
		fputs(any++ ? "<tr>" : "<h3>Marks</h3>\n<table><tbody>\n<tr>", f);
		report_cell(f, row_get(m, COL_TIME));
		report_cell(f, row_get(m, COL_NOTE));
		fputs("</tr>\n", f);
	}
	if (any)
		fputs("</tbody></table>\n", f);
}

static void
key_section(FILE *f, const struct hist *h, const struct runs *r)
{
	const struct bench_row *last = &h->row[r->row[r->n - 1]];
	char *title = row_alike(last),
	     *note = xasprintf("%d runs, the last %s on %s, %s cores, "
			       "kernel %s%s%s; build %s; key %s",
		 r->n, row_get(last, COL_TIME), row_get(last, COL_CPU), row_get(last, COL_CORES),
		 row_get(last, COL_KERNEL), last->v[COL_DRIVER] ? ", driver " : "",
		 last->v[COL_DRIVER] ? last->v[COL_DRIVER] : "", row_get(last, COL_BUILD), r->key);
	int counted = 0;

	report_section(f, title, note);
	for (int i = 0; i < r->n; i++)
		counted += row_num(&h->row[r->row[i]], COL_INSTRUCTIONS) > 0;
	figure(f, h, r, COL_MEDIAN, "Median time, ms");
	if (counted)
		figure(f, h, r, COL_INSTRUCTIONS, "Instructions");
	mark_table(f, h, r);
	free(title);
	free(note);
}

/* The newest run of each number of ranks, beside the times published for the system that this
 * project starts from. */
static void
scaling(FILE *f, const struct hist *h)
{
	static const struct {
		const char *name;
		double batch, s, minutes;
	} old[] = { { "1 P100, published", 16, .39, 47.6 }, { "2 P100, published", 32, .48, 29.3 },
		{ "4 P100, published", 64, .65, 19.8 } };
	const struct bench_row *last[65] = { NULL };
	int any = 0;

	for (int i = 0; i < h->n; i++) {
		double ranks = row_num(&h->row[i], COL_RANKS);

		if (!strcmp(row_get(&h->row[i], COL_COMMAND), "scale") && ranks >= 1 && ranks <= 64)
			last[(int)ranks] = &h->row[i], any = 1;
	}
	if (!any)
		return;
	report_section(f, "Scaling",
	    "The newest run of each number of ranks; efficiency is images "
	    "per second and rank against one rank.  Published: YOLOv3 at 416 on P100s, 117,263 "
	    "pictures an epoch.");
	fputs("<div class=\"wide\"><table><thead><tr><th>ranks</th><th>batch</th><th>s/batch"
	      "</th><th>min/epoch</th><th>efficiency</th></tr></thead><tbody>\n",
	    f);
	for (int i = 0; i < 3; i++)
		fprintf(f,
		    "<tr><td>%s</td><td>%.0f</td><td>%.3f</td><td>%.1f</td><td>%.3f</td>"
		    "</tr>\n",
		    old[i].name, old[i].batch, old[i].s, 117263 / old[i].batch * old[i].s / 60,
		    old[i].batch / old[i].s / (16 / .39) / (1 << i));
	for (int k = 1; k <= 64; k++) {
		char *name = last[k] ? xasprintf("%d, %s", k, row_get(last[k], COL_CFG)) : NULL;

		if (!last[k])
			continue;
		fputs("<tr>", f);
		report_cell(f, name);
		report_number(f, row_num(last[k], COL_BATCH), 0);
		report_number(f, row_num(last[k], COL_MEDIAN) / 1e3, 3);
		report_number(f, row_num(last[k], COL_COCO14), 1);
		report_number(f,
		    last[1] ? row_num(last[k], COL_IMG_S) / k / row_num(last[1], COL_IMG_S) : -1,
		    3);
		fputs("</tr>\n", f);
		free(name);
	}
	fputs("</tbody></table></div>\n", f);
}

static int
page(const char *history, const char *key, const char *out, struct err *e)
{
	struct hist h;
	struct runs *r = NULL;
	struct outfile o;
	int n = 0, bad;

	if (hist_read(history, &h, e))
		return -1;
	if (!(bad = runs_find(&h, key, &r, &n, e)) && !(bad = out_open(&o, out, e))) {
		report_open(o.f, "yolo-bench");
		fputs("<h1>yolo-bench</h1>\n<p>", o.f);
		report_text(o.f, path_base(history));
		fprintf(o.f,
		    ": %d line%s, %d key%s.  A point is a run, a ring one of a busy "
		    "machine; solid upright lines are change points, dashed ones marks, dotted "
		    "ones "
		    "changes of the machine.  Point at one to read it.</p>\n",
		    h.n, h.n == 1 ? "" : "s", n, n == 1 ? "" : "s");
		for (int k = 0; k < n && k < KEYS; k++)
			key_section(o.f, &h, &r[k]);
		if (n > KEYS)
			fprintf(
			    o.f, "<p>%d older keys are left out; -k shows one.</p>\n", n - KEYS);
		scaling(o.f, &h);
		report_close(o.f);
		bad = out_commit(&o, e);
	}
	runs_free(r, n);
	hist_close(&h);
	return bad;
}

int
bench_report(const struct bench_call *call)
{
	static const struct option longs[] = { { "help", 0, NULL, 'h' },
		{ "history", 1, NULL, 'H' }, { "key", 1, NULL, 'k' }, { "output", 1, NULL, 'o' },
		{ "quiet", 0, NULL, 'q' }, { NULL, 0, NULL, 0 } };
	const char *history = "history.tsv", *key = NULL, *out = "-";
	struct err e = { "" };
	int opt;

	while ((opt = getopt_long(call->argc, call->argv, "hH:k:o:q", longs, NULL)) >= 0)
		switch (opt) {
		case 'H':
			history = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'k':
			key = optarg;
			break;
		case 'o':
			out = optarg;
			break;
		case 'q':
			quiet = 1;
			break;
		default:
			fputs(usage, stderr);
			return 2;
		}
	if (optind < call->argc) {
		warn("%s: report takes no operand; -H names the history", call->argv[optind]);
		return 2;
	}
	if (!path_clash(&out, 1, &history, 1, &e) && !page(history, key, out, &e))
		return 0;
	warn("%s", e.msg);
	return 1;
}
