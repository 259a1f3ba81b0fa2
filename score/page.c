/* page.c -- yolo-eval -r: the numbers, where the detector fails, the comparison, in a page.
 *
 * Tables are cut at some hundred rows so that the page stays small; each says what it leaves out.
 * The page is a function of the inputs: no date, no host. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score/int.h"

enum { SCORES = 1001 };	/* scores k / 1000 of a curve over them */

enum { CLASSES = 400, LISTED = 25, CHANGES = 12 };

static void
card(FILE *f, const char *name, double v)
{
	fputs("<div class=\"card\"><b>", f);
	if (v < 0)
		fputs("-", f);
	else
		fprintf(f, "%.4f", v);
	fprintf(f, "</b><span>%s</span></div>\n", name);
}

static void
counts(FILE *f, const struct eval_report *r)
{
	fputs("<h1>yolo-eval</h1>\n<p>detections ", f);
	report_text(f, r->dets_path);
	fputs("<br>truth ", f);
	report_text(f, r->truth_path);
	if (r->base_path) {
		fputs("<br>compared with ", f);
		report_text(f, r->base_path);
	}
	fprintf(f, "<br>%d pictures, %zu truths, %zu detections, %d classes</p>\n", r->truth->n,
	    r->truth->nbox, r->ev->n, r->truth->nclass);
}

/* Counts have none. */
static int
decimals(const char *metric)
{
	return !strcmp(metric, "TP") || !strcmp(metric, "FP") || !strcmp(metric, "FN") ? 0 : 4;
}

/* Cards of COCO's first numbers, then a table of each rule. */
static void
headline(FILE *f, const struct eval_report *r)
{
	static const char *const top[] = { "AP", "AP50", "AP75", "AR100", "P", "R", "F1" };
	struct eval_row row[EVAL_ROWS];
	int n = eval_total(r->ev, NULL, row);

	if (eval_has(&r->ev->opt, EV_COCO)) {
		fputs("<div class=\"cards\">\n", f);
		for (int k = 0; k < 7; k++)
			card(f, top[k], eval_get(row, n, "coco", top[k]));
		fputs("</div>\n", f);
	}
	report_section(f, "Numbers by rule",
	    "Undefined is a dash. P, R and F1 are at the score that makes F1 best (coco, "
	    "ultralytics), at a fixed score (darknet), of the whole list (ultralytics-2019).");
	fputs("<div class=\"row\">\n", f);
	for (int i = 0, j; i < n; i = j) {
		fprintf(f, "<table><thead><tr><th>%s</th><th></th></tr></thead><tbody>\n",
		    row[i].rule);
		for (j = i; j < n && row[j].rule == row[i].rule; j++) {
			fprintf(f, "<tr><td>%s</td>", row[j].metric);
			report_number(f, row[j].value, decimals(row[j].metric));
			fputs("</tr>\n", f);
		}
		fputs("</tbody></table>\n", f);
	}
	fputs("</div>\n", f);
}

/* ---- comparison ---- */

static int
by_change(const void *pa, const void *pb)
{
	const struct eval_change *a = (const struct eval_change *)pa,
				 *b = (const struct eval_change *)pb;
	double d = (b->row.value - b->base) - (a->row.value - a->base);

	return d > 0 ? 1 : d < 0 ? -1 : a->cls - b->cls;
}

/* Largest gains and losses in AP under the first rule. */
static void
changes(FILE *f, const struct eval_report *r)
{
	size_t most = (size_t)r->nchange + 1;
	struct eval_change *c = (struct eval_change *)xmalloc(most * sizeof *c);
	struct report_bar *b = (struct report_bar *)xcalloc(2 * CHANGES + 1, sizeof *b);
	char id[2 * CHANGES][32];
	int n = 0, shown = 0;

	for (int k = 0; k < r->nchange; k++)
		if (r->change[k].row.rule == r->change[0].row.rule && r->change[k].base >= 0)
			c[n++] = r->change[k];
	qsort(c, (size_t)n, sizeof *c, by_change);
	for (int k = 0; k < n; k++) {
		double d = c[k].row.value - c[k].base;

		if (d && (k < CHANGES || k >= n - CHANGES)) {
			b[shown].name = eval_class_name(r->truth, c[k].cls, id[shown]);
			b[shown++].value = d;
		}
	}
	fprintf(f, "<div><h3>AP by class: largest changes%s%s</h3>\n", n ? ", " : "",
	    n ? c[0].row.rule : "");
	if (shown)
		report_bars(f, b, shown, 1);
	else
		fputs("<p>No class changed.</p>\n", f);
	fputs("</div>\n", f);
	free(b);
	free(c);
}

static int
is_share(const char *metric)
{
	return (metric[0] == 'A' && metric[1] != 0) || !strcmp(metric, "mAP") ||
	    !strcmp(metric, "P") || !strcmp(metric, "R") || !strcmp(metric, "F1");
}

static void
versus_rows(FILE *f, const struct eval_report *r)
{
	for (int k = 0; k < r->nversus; k++) {
		const struct eval_versus *v = r->versus + k;
		int n = decimals(v->row.metric);
		const char *way;

		fprintf(f, "<tr><td>%s %s</td>", v->row.rule, v->row.metric);
		report_number(f, v->row.value, n);
		report_number(f, v->base, n);
		if (!v->defined) {
			fputs("<td>-</td><td>-</td></tr>\n", f);
			continue;
		}
		way = !v->interval || (v->low <= 0 && v->high >= 0) ? "" :
		    v->diff > 0 ? "up" : "down";
		fprintf(f, "<td class=\"%s\" data-v=\"%.9g\">%+.*f</td>", way, v->diff, n,
		    v->diff);
		if (v->interval)
			fprintf(f, "<td>%+.*f .. %+.*f</td></tr>\n", n, v->low, n, v->high);
		else
			fputs("<td>-</td></tr>\n", f);
	}
}

static void
comparison(FILE *f, const struct eval_report *r)
{
	struct report_bar *b = (struct report_bar *)xcalloc((size_t)r->nversus + 1, sizeof *b);
	char note[240], (*name)[40];
	int n = 0;

	name = (char (*)[40])xcalloc((size_t)r->nversus + 1, sizeof *name);
	snprintf(note, sizeof note,
	    "Ours less the base's, with the interval that holds the difference in %g %% of %d "
	    "resamplings of the pictures (paired bootstrap). Grey: the interval holds 0.",
	    100 * r->level, r->resamplings);
	report_section(f, "Comparison", note);
	fputs("<div class=\"row\">\n", f);
	report_table(f, "metric|ours|base|difference|interval");
	versus_rows(f, r);
	report_table_end(f);
	fputs("<div><h3>Differences</h3>\n", f);
	for (int k = 0; k < r->nversus; k++) {
		const struct eval_versus *v = r->versus + k;

		if (!v->defined || !is_share(v->row.metric))
			continue;
		snprintf(name[n], sizeof name[n], "%s %s", v->row.rule, v->row.metric);
		b[n] = (struct report_bar){ .name = name[n], .value = v->diff, .low = v->low,
			.high = v->high, .whiskers = v->interval };
		n++;
	}
	report_bars(f, b, n, 1);
	fputs("</div>\n", f);
	changes(f, r);
	fputs("</div>\n", f);
	free(b);
	free(name);
}

/* ---- classes ---- */

static void
class_row(FILE *f, const struct eval_report *r, const struct eval_tables *tab, int c)
{
	static const char *const col[] = { "AP50", "AP75", "AR100", "P", "R", "F1", "thr" };
	struct eval_row row[EVAL_ROWS];
	int n = eval_class(r->ev, tab, c, row), last = r->ev->opt.maxdet[r->ev->opt.nmaxdet - 1];
	const char *rule = row[0].rule;
	char id[32], ar[16];
	double ap = eval_get(row, n, rule, strcmp(rule, "coco") ? "mAP" : "AP");

	snprintf(ar, sizeof ar, "AR%d", last);
	fputs("<tr>", f);
	report_cell(f, eval_class_name(r->truth, c, id));
	report_number(f, eval_get(row, n, rule, "truths"), 0);
	report_number(f, eval_get(row, n, rule, "detections"), 0);
	if (ap < 0)
		report_number(f, ap, 4);
	else
		fprintf(f,
		    "<td data-v=\"%.9g\"><span class=\"bar\"><i style=\"width:%.0f%%\"></i></span>"
		    "%.4f</td>",
		    ap, 100 * ap, ap);
	for (int k = 0; k < 7; k++)
		report_number(f, eval_get(row, n, rule, k == 2 ? ar : col[k]), 4);
	report_number(f, r->analysis->lrp[c].all, 4);
	fputs("</tr>\n", f);
}

static void
classes(FILE *f, const struct eval_report *r)
{
	struct eval_tables tab;
	char note[120];

	snprintf(note, sizeof note,
	    "P, R and F1 at the class's best F1 and its score, IoU 0.5. Click a head to sort.%s",
	    r->truth->nclass > CLASSES ? " Only the first classes; -C prints all." : "");
	report_section(f, "Classes", note);
	report_table(f, "class|truths|detections|AP|AP50|AP75|AR|P|R|F1|score|oLRP");
	eval_tables(&tab, r->ev, NULL);
	for (int c = 0; c < r->truth->nclass && c < CLASSES; c++)
		class_row(f, r, &tab, c);
	eval_tables_free(&tab);
	report_table_end(f);
}

/* ---- lists ---- */

static void
picture(FILE *f, const struct eval_truth *t, int pic)
{
	char id[32];

	report_cell(f, t->pic[pic].name ? t->pic[pic].name : "-");
	report_cell(f, eval_pic_id(t->pic + pic, id));
}

static void
worst(FILE *f, const struct eval_report *r, double thr)
{
	int n;
	struct eval_tally *t = eval_worst(r->errors, r->truth->n, thr, &n);
	char note[160];

	snprintf(note, sizeof note, "Most errors among detections with a score of %.4g or more%s",
	    thr, n > LISTED ? "; -O worst=FILE lists more." : ".");
	report_section(f, "Worst pictures", note);
	report_table(f, "picture|id|errors|right|wrong|missed");
	for (int i = 0; i < n && i < LISTED; i++) {
		fputs("<tr>", f);
		picture(f, r->truth, t[i].pic);
		fprintf(f, "<td>%ld</td><td>%ld</td><td>%ld</td><td>%ld</td></tr>\n",
		    t[i].fp + t[i].fn, t[i].tp, t[i].fp, t[i].fn);
	}
	report_table_end(f);
	free(t);
}

static void
box_cell(FILE *f, double x, double y, double w, double h)
{
	fprintf(f, "<td>%.5g %.5g %.5g %.5g</td>", x, y, w, h);
}

static void
suspects(FILE *f, const struct eval_report *r, double thr)
{
	int nf, nm;
	const struct eval_fault **p = eval_sure_faults(r->errors, thr, &nf);
	const struct eval_found **m = eval_large_missed(r->errors, &nm);
	char id[32];

	report_section(f, "Suspicious labels",
	    "Sure detections that no label explains, and large labels that nothing came near: "
	    "perhaps the label is missing, misplaced or wrong.");
	report_table(f, "picture|id|what|*class|score|x y w h|truth id");
	for (int i = 0; i < nf && i < LISTED; i++) {
		fputs("<tr>", f);
		picture(f, r->truth, p[i]->pic);
		fprintf(f, "<td>%s</td>", eval_fault_name[p[i]->kind]);
		report_cell(f, eval_class_name(r->truth, p[i]->cls, id));
		report_number(f, p[i]->score, 4);
		box_cell(f, p[i]->x, p[i]->y, p[i]->w, p[i]->h);
		fputs("<td>-</td></tr>\n", f);
	}
	for (int i = 0; i < nm && i < LISTED; i++) {
		const struct box *b = r->truth->box + r->truth->pic[m[i]->pic].first + m[i]->box;

		fputs("<tr>", f);
		picture(f, r->truth, m[i]->pic);
		fputs("<td>missed</td>", f);
		report_cell(f, eval_class_name(r->truth, m[i]->cls, id));
		fputs("<td data-v=\"-1\">-</td>", f);
		box_cell(f, b->x, b->y, b->w, b->h);
		fprintf(f, "<td>%lld</td></tr>\n", (long long)b->id);
	}
	report_table_end(f);
	free(p);
	free(m);
}

/* Tables to plot: precision by recall, precision, recall and F1 by score.
 *
 * Both are plain counts at COCO's matching, area "all", the last maxDets; nothing is smoothed or
 * interpolated.  Curves have a row for each score at which recall rises. */

enum { STEPS = SCORES - 1 };

void
eval_write_pr(FILE *f, struct eval *e, const struct eval_truth *truth, struct eval_errors *x)
{
	double *npos, all;

	(void)x;
	fprintf(f, "#class\tiou\tscore\trecall\tprecision\n");
	if (!eval_has(&e->opt, EV_COCO))
		return;
	eval_finish(e);
	npos = eval_coco_truths(e, &all);
	for (int c = 0; c < e->nclass; c++)
		for (int t = 0; t < e->niou[EV_COCO]; t++) {
			double tp = 0, fp = 0;

			for (size_t k = e->cstart[c]; k < e->cstart[c + 1] && npos[c] > 0; k++) {
				enum eval_is is = eval_coco_is(e, e->order[k], t);

				fp += is == EVAL_FALSE;
				if (is != EVAL_TRUE)
					continue;
				tp++;
				eval_put_class(f, truth, c);
				fprintf(f, "\t%.9g\t%.17g\t%.17g\t%.17g\n", e->iou[EV_COCO][t],
				    e->score[e->order[k]], tp / npos[c], tp / (tp + fp));
			}
		}
	free(npos);
}

/* What COCO's AP of a class at threshold t is the mean of; 0: it has no truths. */
static int
coco_curve(const struct eval *e, int c, int t, double npos, double p[EVAL_RECALLS])
{
	size_t n = e->cstart[c + 1] - e->cstart[c];
	uint32_t *mem = (uint32_t *)xmalloc((2 * n + 1) * sizeof *mem);
	struct eval_curve v = { .tp = mem, .fp = mem + n, .npos = npos };
	int defined;

	for (size_t i = e->cstart[c]; i < e->cstart[c + 1]; i++) {
		enum eval_is is = eval_coco_is(e, e->order[i], t);

		v.fp_all += is == EVAL_FALSE;
		if (is == EVAL_TRUE) {
			v.tp[v.n] = ++v.tp_all;
			v.fp[v.n++] = v.fp_all;
		}
	}
	defined = eval_curve_coco(&v, p);
	free(mem);
	return defined;
}

/* Plain precision, recall, F1 over each score k / 1000; c -1: all classes together. */
static void
curves_by_score(struct eval *e, int c, double npos, double *p, double *r, double *f1)
{
	const uint32_t *order;
	size_t k = 0, end;
	double tp = 0, fp = 0;
	int t = eval_half(e);

	if (c < 0)
		eval_best_all(e);		/* sorts all classes together */
	order = c < 0 ? e->all : e->order + e->cstart[c];
	end = c < 0 ? e->n : e->cstart[c + 1] - e->cstart[c];
	for (int i = STEPS; i >= 0; i--) {
		double thr = (double)i / STEPS;

		for (; k < end && e->score[order[k]] >= thr; k++) {
			enum eval_is is = eval_coco_is(e, order[k], t);

			tp += is == EVAL_TRUE;
			fp += is == EVAL_FALSE;
		}
		p[i] = tp + fp > 0 ? tp / (tp + fp) : 1;
		r[i] = tp / npos;
		f1[i] = 2 * tp / (tp + fp + npos);
	}
}

/* A row for each threshold k / 1000, from 1 down to 0. */
static void
write_by_score(FILE *f, struct eval *e, const struct eval_truth *truth, int c, double npos)
{
	double v[3][SCORES];

	if (npos <= 0)
		return;
	curves_by_score(e, c, npos, v[0], v[1], v[2]);
	for (int i = STEPS; i >= 0; i--) {
		eval_put_class(f, truth, c);
		fprintf(f, "\t%.9g\t%.17g\t%.17g\t%.17g\n", (double)i / STEPS, v[0][i], v[1][i],
		    v[2][i]);
	}
}

void
eval_write_conf(FILE *f, struct eval *e, const struct eval_truth *truth, struct eval_errors *x)
{
	double *npos, all;

	(void)x;
	fprintf(f, "#class\tscore\tprecision\trecall\tF1\n");
	if (!eval_has(&e->opt, EV_COCO))
		return;
	eval_finish(e);
	npos = eval_coco_truths(e, &all);
	write_by_score(f, e, truth, -1, all);
	for (int c = 0; c < e->nclass; c++)
		write_by_score(f, e, truth, c, npos[c]);
	free(npos);
}

/* Drawings of yolo-eval's report: curves, confusions, what errors cost.
 *
 * A drawing is of a bounded size whatever the number of classes: beyond that the classes with most
 * truths are drawn, and it says so. */

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
	double x[EVAL_RECALLS], p[EVAL_RECALLS], sum[EVAL_RECALLS];
	struct plot plot;
	int colour = 0;

	for (int i = 0; i < EVAL_RECALLS; i++)
		x[i] = i * .01;
	plot_open(&plot, f, "recall", "precision", "mean precision by recall");
	for (int t = 0; t < e->niou[EV_COCO]; t++) {
		char name[32];
		int n = 0;

		if (e->niou[EV_COCO] > 6 && t % 2)
			continue;
		memset(sum, 0, sizeof sum);
		for (int c = 0; c < e->nclass; c++)
			if (coco_curve(e, c, t, npos[c], p)) {
				n++;
				for (int i = 0; i < EVAL_RECALLS; i++)
					sum[i] += p[i];
			}
		for (int i = 0; i < EVAL_RECALLS && n; i++)
			sum[i] /= n;
		snprintf(name, sizeof name, "IoU %.3g", e->iou[EV_COCO][t]);
		if (n)
			plot_line(&plot, x, sum, EVAL_RECALLS, colour++, name);
	}
	plot_close(&plot);
}

/* Each class at the first IoU, their mean over them. */
static void
class_curves(FILE *f, const struct eval *e, const double *npos, const struct eval_truth *truth)
{
	double x[EVAL_RECALLS], p[EVAL_RECALLS], sum[EVAL_RECALLS] = { 0 };
	struct ranked *r = (struct ranked *)xmalloc((size_t)(e->nclass + 1) * sizeof *r);
	struct plot plot;
	int n = 0;

	plot_open(&plot, f, "recall", "precision", "precision by recall of each class");
	for (int i = 0; i < EVAL_RECALLS; i++)
		x[i] = i * .01;
	for (int c = 0; c < e->nclass; c++)
		r[c] = (struct ranked){ npos[c], c };
	qsort(r, (size_t)e->nclass, sizeof *r, most_first);
	for (int k = 0; k < e->nclass; k++) {
		char id[32], *name;

		if (!coco_curve(e, r[k].c, 0, r[k].by, p))
			break;
		n++;
		for (int i = 0; i < EVAL_RECALLS; i++)
			sum[i] += p[i];
		if (k >= CURVES)
			continue;
		name = xasprintf("%s (%.9g truths)", eval_class_name(truth, r[k].c, id), r[k].by);
		plot_line(&plot, x, p, EVAL_RECALLS, -1, name);
		free(name);
	}
	for (int i = 0; i < EVAL_RECALLS && n; i++)
		sum[i] /= n;
	if (n)
		plot_line(&plot, x, sum, EVAL_RECALLS, 0, "mean");
	plot_close(&plot);
	if (n > CURVES)
		fprintf(f, "<p>The %d classes with most truths of %d.</p>\n", (int)CURVES, n);
	free(r);
}

static void
score_curves(FILE *f, struct eval *e, double all)
{
	static const char *const name[] = { "precision", "recall", "F1" };
	double v[3][SCORES], x[201], y[201];
	struct eval_point best = eval_best_all(e);
	struct plot plot;
	char text[120];

	curves_by_score(e, -1, all, v[0], v[1], v[2]);
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

static void
figure_curves(FILE *f, struct eval *e, const struct eval_truth *truth)
{
	double all, *npos = eval_coco_truths(e, &all);

	eval_finish(e);
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
	fputs("<div><h3>Most confused</h3>\n<table><thead><tr><th>truth</th>"
	    "<th class=\"t\">detected</th><th>times</th></tr></thead><tbody>\n", m->f);
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

static void
figure_confusion(FILE *f, struct eval_errors *x, const struct eval_truth *truth)
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

static struct report_bar
bar(const char *name, const char *colour, double value)
{
	return (struct report_bar){ .name = name, .colour = colour, .value = value };
}

static void
figure_analysis(FILE *f, const struct eval_analysis *a)
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
		b[k] = bar(what[k], k < 7 ? "c0" : "c4", a->tide[k]);
	fputs("<div class=\"row\">\n<div><h3>Gain in AP50</h3>\n", f);
	report_bars(f, b + 1, EVAL_TIDE - 1, 0);
	b[0] = bar("oLRP", "c1", a->mean.all);
	b[1] = bar("place: 1 - IoU", "c3", fmax(a->mean.loc, 0));
	b[2] = bar("1 - precision", "c3", fmax(a->mean.fp, 0));
	b[3] = bar("1 - recall", "c3", a->mean.fn);
	fputs("</div>\n<div><h3>LRP</h3>\n", f);
	report_bars(f, b, 4, 0);
	fputs("</div>\n</div>\n", f);
}

/* ---- the page ---- */

void
eval_report(FILE *f, const struct eval_report *r)
{
	double thr = eval_operating(r->ev);

	report_open(f, "yolo-eval report");
	counts(f, r);
	headline(f, r);
	if (r->base_path)
		comparison(f, r);
	if (eval_has(&r->ev->opt, EV_COCO))
		figure_curves(f, r->ev, r->truth);
	figure_analysis(f, r->analysis);
	figure_confusion(f, r->errors, r->truth);
	classes(f, r);
	worst(f, r, thr);
	suspects(f, r, thr);
	report_close(f);
}
