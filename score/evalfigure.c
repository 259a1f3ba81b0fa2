/* evalfigure.c -- drawings of yolo-eval's report: curves, confusions, what errors cost.
 *
 * A drawing is of a bounded size whatever the number of classes: beyond that the classes with most
 * truths are drawn, and it says so. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

enum { CURVES = 120, CELLS = 80, CONFUSED = 12 };

struct ranked { double by; int c; };

static int
most_first(const void *pa, const void *pb)
{
	const struct ranked *a = (const struct ranked *)pa, *b = (const struct ranked *)pb;

	return a->by > b->by ? -1 : a->by < b->by ? 1 : a->c - b->c;
}

/* ---- curves ---- */

/* The mean over classes at each IoU from 0.5 on by 0.1. */
static void
mean_curves(FILE *f, const struct eval *e, const double *npos)
{
	double x[101], p[101], sum[101];
	struct plot plot;
	int colour = 0;

	for (int i = 0; i <= 100; i++)
		x[i] = i * .01;
	plot_open(&plot, f, "recall", "precision", "mean precision by recall");
	for (int t = 0; t < e->niou[EV_COCO]; t++) {
		char name[32];
		int n = 0;

		if (e->niou[EV_COCO] > 6 && t % 2)
			continue;
		memset(sum, 0, sizeof sum);
		for (int c = 0; c < e->nclass; c++)
			if (eval_pr(e, c, t, npos[c * e->words + e->off[EV_COCO]], p)) {
				n++;
				for (int i = 0; i <= 100; i++)
					sum[i] += p[i];
			}
		for (int i = 0; i <= 100 && n; i++)
			sum[i] /= n;
		snprintf(name, sizeof name, "IoU %.3g", e->iou[EV_COCO][t]);
		if (n)
			plot_line(&plot, x, sum, 101, colour++, name);
	}
	plot_close(&plot);
}

/* Each class at the first IoU, their mean over them. */
static void
class_curves(FILE *f, const struct eval *e, const double *npos, const struct eval_truth *truth)
{
	double x[101], p[101], sum[101] = { 0 };
	struct ranked *r = (struct ranked *)xmalloc((size_t)(e->nclass + 1) * sizeof *r);
	struct plot plot;
	int n = 0;

	plot_open(&plot, f, "recall", "precision", "precision by recall of each class");
	for (int i = 0; i <= 100; i++)
		x[i] = i * .01;
	for (int c = 0; c < e->nclass; c++)
		r[c] = (struct ranked){ npos[c * e->words + e->off[EV_COCO]], c };
	qsort(r, (size_t)e->nclass, sizeof *r, most_first);
	for (int k = 0; k < e->nclass; k++) {
		char id[32], *name;

		if (!eval_pr(e, r[k].c, 0, r[k].by, p))
			break;
		n++;
		for (int i = 0; i <= 100; i++)
			sum[i] += p[i];
		if (k >= CURVES)
			continue;
		name = xasprintf("%s (%.9g truths)", eval_class_name(truth, r[k].c, id), r[k].by);
		plot_line(&plot, x, p, 101, -1, name);
		free(name);
	}
	for (int i = 0; i <= 100 && n; i++)
		sum[i] /= n;
	if (n)
		plot_line(&plot, x, sum, 101, 0, "mean");
	plot_close(&plot);
	if (n > CURVES)
		fprintf(f, "<p>The %d classes with most truths of %d.</p>\n", (int)CURVES, n);
	free(r);
}

static void
score_curves(FILE *f, struct eval *e, double all)
{
	static const char *const name[] = { "precision", "recall", "F1" };
	double v[3][EVAL_SCORES], x[201], y[201];
	struct eval_point best = eval_best_all(e);
	struct plot plot;
	char text[120];

	eval_by_score(e, -1, all, v[0], v[1], v[2]);
	plot_open(&plot, f, "score", "", "precision, recall and F1 by score");
	for (int k = 0; k < 3; k++) {
		for (int i = 0; i <= 200; i++) {
			x[i] = i / 200.;
			y[i] = v[k][5 * i];
		}
		plot_line(&plot, x, y, 201, k, name[k]);
	}
	snprintf(text, sizeof text, "best F1 %.4f: P %.4f, R %.4f at score %.4g", best.f1, best.p,
	    best.r, best.thr);
	if (best.thr >= 0 && best.thr <= 1)
		plot_point(&plot, best.thr, best.f1, text);
	plot_close(&plot);
	fputs("<p>", f);
	report_text(f, text);
	fputs("</p>\n", f);
}

void
eval_figure_curves(FILE *f, struct eval *e, const struct eval_truth *truth)
{
	double *npos = (double *)xcalloc((size_t)e->nclass * (size_t)e->words + 1, sizeof *npos);
	double all = 0;

	eval_finish(e);
	eval_npos(e, NULL, npos);
	for (int c = 0; c < e->nclass; c++)
		all += npos[c * e->words + e->off[EV_COCO]];
	report_section(f, "Curves",
	    "COCO's matching. Precision by recall is interpolated as its AP "
	    "reads it; precision, recall and F1 by score are plain counts over all classes at the "
	    "first IoU. Point at a thin line for its class.");
	if (all > 0) {
		fputs("<div class=\"row\">\n<div><h3>Mean over classes</h3>\n", f);
		mean_curves(f, e, npos);
		fprintf(f, "</div>\n<div><h3>Each class at IoU %.3g</h3>\n", e->iou[EV_COCO][0]);
		class_curves(f, e, npos, truth);
		fputs("</div>\n<div><h3>By score</h3>\n", f);
		score_curves(f, e, all);
		fputs("</div>\n</div>\n", f);
	} else
		fputs("<p>No truths: undefined.</p>\n", f);
	free(npos);
}

/* ---- confusion ---- */

struct matrix {
	FILE *f;
	const struct eval_truth *truth;
	struct eval_cell *cell;
	size_t n;
	int *row, side;			/* row of a class, -1: not drawn; rows, background last */
	double *sum;			/* of a class as truth */
};

/* The classes with most truths, in their own order, then the background. */
static void
choose(struct matrix *m)
{
	int nc = m->truth->nclass, left = CELLS;
	struct ranked *r = (struct ranked *)xmalloc((size_t)(nc + 1) * sizeof *r);

	for (int c = 0; c < nc; c++)
		r[c] = (struct ranked){ 0, c };
	for (size_t i = 0; i < m->n; i++) {
		m->sum[m->cell[i].truth] += (double)m->cell[i].n;
		if (m->cell[i].truth < nc)
			r[m->cell[i].truth].by += (double)m->cell[i].n;
	}
	qsort(r, (size_t)nc, sizeof *r, most_first);
	for (int c = 0; c <= nc; c++)
		m->row[c] = -1;
	for (int k = 0; k < nc && left; k++, left--)
		m->row[r[k].c] = 0;
	m->side = 0;
	for (int c = 0; c < nc; c++)
		if (!m->row[c])
			m->row[c] = m->side++;
	m->row[nc] = m->side++;
	free(r);
}

static void
draw_matrix(const struct matrix *m)
{
	FILE *f = m->f;
	int nc = m->truth->nclass, left = 130, top = 8;
	int s = m->side > 42 ? 11 : m->side > 21 ? 15 : 26;	/* of a cell */
	int wide = left + m->side * s + 10, high = top + m->side * s + 110;
	char id[32];

	fprintf(f,
	    "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>Confusion "
	    "matrix</title>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"grid\" "
	    "style=\"fill:none\"/>\n",
	    wide, high, wide, high, left, top, m->side * s, m->side * s);
	for (int c = 0; c <= nc; c++) {
		int k = m->row[c];

		if (k < 0)
			continue;
		fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", left - 4,
		    top + k * s + s / 2 + 4);
		report_short(f, eval_class_name(m->truth, c, id), 18);
		fprintf(f,
		    "</text><text transform=\"translate(%d %d) rotate(-60)\" text-anchor=\"end\">",
		    left + k * s + s / 2 + 4, top + m->side * s + 10);
		report_short(f, eval_class_name(m->truth, c, id), 18);
		fputs("</text>\n", f);
	}
	for (size_t i = 0; i < m->n; i++) {
		const struct eval_cell *c = m->cell + i;
		int y = m->row[c->truth], x = m->row[c->detected];

		if (x < 0 || y < 0)
			continue;
		fprintf(f,
		    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" style=\"fill:var(--%s);"
		    "opacity:%.2f\"><title>",
		    left + x * s + 1, top + y * s + 1, s - 2, s - 2,
		    c->truth == c->detected ? "good" : "bad",
		    .08 + .92 * (double)c->n / m->sum[c->truth]);
		report_text(f, eval_class_name(m->truth, c->truth, id));
		fputs(" \xe2\x86\x92 ", f);
		report_text(f, eval_class_name(m->truth, c->detected, id));
		fprintf(f, ": %zu</title></rect>\n", c->n);
	}
	fputs("</svg>\n", f);
}

static int
most_cells(const void *pa, const void *pb)
{
	const struct eval_cell *a = (const struct eval_cell *)pa, *b = (const struct eval_cell *)pb;

	return a->n > b->n ? -1 : a->n < b->n ? 1 : a->truth != b->truth ? a->truth - b->truth :
	    a->detected - b->detected;
}

static void
confused(const struct matrix *m)
{
	int shown = 0;
	char id[32];

	qsort(m->cell, m->n, sizeof *m->cell, most_cells);
	fputs("<div><h3>Most confused</h3>\n<table><thead><tr><th>truth</th><th "
	      "class=\"t\">detected</th>"
	      "<th>times</th></tr></thead><tbody>\n",
	    m->f);
	for (size_t i = 0; i < m->n && shown < CONFUSED; i++) {
		const struct eval_cell *c = m->cell + i;

		if (c->truth == c->detected || c->truth == m->truth->nclass ||
		    c->detected == m->truth->nclass)
			continue;
		fputs("<tr>", m->f);
		report_cell(m->f, eval_class_name(m->truth, c->truth, id));
		report_cell(m->f, eval_class_name(m->truth, c->detected, id));
		fprintf(m->f, "<td>%zu</td></tr>\n", c->n);
		shown++;
	}
	fprintf(m->f, "</tbody></table>%s</div>\n", shown ? "" : "<p>None.</p>");
}

void
eval_figure_confusion(FILE *f, struct eval_errors *x, const struct eval_truth *truth)
{
	struct matrix m = { .f = f, .truth = truth };
	size_t nc = (size_t)truth->nclass + 1;

	m.cell = eval_confusion(x, &m.n);
	m.row = (int *)xmalloc(nc * sizeof *m.row);
	m.sum = (double *)xcalloc(nc, sizeof *m.sum);
	choose(&m);
	report_section(f, "Confusion",
	    "Rows are truths, columns detections with a score over 0.25; "
	    "pairs over IoU 0.45 whatever their class, best IoU first. Shade: share of the row.");
	if (m.side <= truth->nclass)
		fprintf(f, "<p>The %d classes with most truths of %d.</p>\n", m.side - 1,
		    truth->nclass);
	fputs("<div class=\"row\">\n<div class=\"wide\">\n", f);
	draw_matrix(&m);
	fputs("</div>\n", f);
	confused(&m);
	fputs("</div>\n", f);
	free(m.cell);
	free(m.row);
	free(m.sum);
}

/* ---- what errors cost ---- */

void
eval_figure_analysis(FILE *f, const struct eval_analysis *a)
{
	static const char *const what[EVAL_TIDE] = { "", "place (Loc)", "class (Cls)",
		"duplicate (Dupe)", "background (Bkg)", "place and class (Both)", "missed (Miss)",
		"all false positives", "all missed truths" };
	struct report_bar b[EVAL_TIDE];
	char note[200];

	snprintf(note, sizeof note,
	    "TIDE: what AP50, %.4f here, would gain if one kind of error alone "
	    "were mended. LRP: 0 is perfect, at each class's best score; the mean over classes.",
	    a->tide[0]);
	report_section(f, "Where it fails", a->tide[0] < 0 ? "No truths: undefined." : note);
	if (a->tide[0] < 0)
		return;
	for (int k = 1; k < EVAL_TIDE; k++)
		b[k] = (struct report_bar){ what[k], k < 7 ? "c0" : "c4", a->tide[k], 0, 0, 0 };
	fputs("<div class=\"row\">\n<div><h3>Gain in AP50</h3>\n", f);
	report_bars(f, b + 1, EVAL_TIDE - 1, 0);
	b[0] = (struct report_bar){ "oLRP", "c1", a->mean.all, 0, 0, 0 };
	b[1] = (struct report_bar){ "place: 1 - IoU", "c3", fmax(a->mean.loc, 0), 0, 0, 0 };
	b[2] = (struct report_bar){ "1 - precision", "c3", fmax(a->mean.fp, 0), 0, 0, 0 };
	b[3] = (struct report_bar){ "1 - recall", "c3", a->mean.fn, 0, 0, 0 };
	fputs("</div>\n<div><h3>LRP</h3>\n", f);
	report_bars(f, b, 4, 0);
	fputs("</div>\n</div>\n", f);
}
