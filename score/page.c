/* page.c -- yolo-eval -r: the numbers, where the detector fails, and the comparison, in a
 * page.
 *
 * Tables are cut at some hundred rows so that the page stays small; each says what it leaves out.
 * The page is a function of the inputs: no date, no host. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

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

	if (r->ev->opt.rules >> EV_COCO & 1) {
		fputs("<div class=\"cards\">\n", f);
		for (int k = 0; k < 7; k++)
			card(f, top[k], eval_get(row, n, "coco", top[k]));
		fputs("</div>\n", f);
	}
	report_section(f, "Numbers by rule",
	    "Undefined is a dash. P, R and F1 are at the score that "
	    "makes F1 best (coco, ultralytics), at a fixed score (darknet), of the whole list "
	    "(ultralytics-2019).");
	fputs("<div class=\"row\">\n", f);
	for (int i = 0, j; i < n; i = j) {
		fprintf(
		    f, "<table><thead><tr><th>%s</th><th></th></tr></thead><tbody>\n", row[i].rule);
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
			b[shown] =
			    (struct report_bar){ eval_class_name(r->truth, c[k].cls, id[shown]),
				    NULL, d, 0, 0, 0 };
			shown++;
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

		fprintf(f, "<tr><td>%s %s</td>", v->row.rule, v->row.metric);
		report_number(f, v->row.value, n);
		report_number(f, v->base, n);
		if (!v->defined) {
			fputs("<td>-</td><td>-</td></tr>\n", f);
			continue;
		}
		fprintf(f, "<td class=\"%s\" data-v=\"%.9g\">%+.*f</td>",
		    !v->interval || (v->low <= 0 && v->high >= 0) ? ""
		    : v->diff > 0				  ? "up"
								  : "down",
		    v->diff, n, v->diff);
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
	    "Ours less the base's, with the interval that holds the difference "
	    "in %g %% of %d resamplings of the pictures (paired bootstrap). Grey: the interval "
	    "holds 0.",
	    100 * r->level, r->resamplings);
	report_section(f, "Comparison", note);
	fputs(
	    "<div class=\"row\">\n<div class=\"wide\"><table "
	    "class=\"sort\"><thead><tr><th>metric</th>"
	    "<th>ours</th><th>base</th><th>difference</th><th>interval</th></tr></thead><tbody>\n",
	    f);
	versus_rows(f, r);
	fputs("</tbody></table></div>\n<div><h3>Differences</h3>\n", f);
	for (int k = 0; k < r->nversus; k++) {
		const struct eval_versus *v = r->versus + k;

		if (!v->defined || !is_share(v->row.metric))
			continue;
		snprintf(name[n], sizeof name[n], "%s %s", v->row.rule, v->row.metric);
		b[n] = (struct report_bar){ name[n], NULL, v->diff, v->low, v->high, v->interval };
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
	if (r->analysis)
		report_number(f, r->analysis->lrp[c].all, 4);
	fputs("</tr>\n", f);
}

static void
classes(FILE *f, const struct eval_report *r)
{
	struct eval_tables tab;
	char note[120];

	snprintf(note, sizeof note,
	    "P, R and F1 at the class's best F1 and its score, IoU 0.5. Click a "
	    "head to sort.%s",
	    r->truth->nclass > CLASSES ? " Only the first classes; -C prints all." : "");
	report_section(f, "Classes", note);
	fputs(
	    "<div class=\"wide\"><table class=\"sort\"><thead><tr><th>class</th><th>truths</th><th>"
	    "detections</th><th>AP</th><th>AP50</th><th>AP75</th><th>AR</th><th>P</th><th>R</"
	    "th><th>F1"
	    "</th><th>score</th>",
	    f);
	fputs(r->analysis ? "<th>oLRP</th></tr></thead><tbody>\n" : "</tr></thead><tbody>\n", f);
	eval_tables(&tab, r->ev, NULL);
	for (int c = 0; c < r->truth->nclass && c < CLASSES; c++)
		class_row(f, r, &tab, c);
	eval_tables_free(&tab);
	fputs("</tbody></table></div>\n", f);
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
	fputs("<div class=\"wide\"><table "
	      "class=\"sort\"><thead><tr><th>picture</th><th>id</th><th>errors"
	      "</th><th>right</th><th>wrong</th><th>missed</th></tr></thead><tbody>\n",
	    f);
	for (int i = 0; i < n && i < LISTED; i++) {
		fputs("<tr>", f);
		picture(f, r->truth, t[i].pic);
		fprintf(f, "<td>%ld</td><td>%ld</td><td>%ld</td><td>%ld</td></tr>\n",
		    t[i].fp + t[i].fn, t[i].tp, t[i].fp, t[i].fn);
	}
	fputs("</tbody></table></div>\n", f);
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
	    "Sure detections that no label explains, and large labels "
	    "that nothing came near: perhaps the label is missing, misplaced or wrong.");
	fputs("<div class=\"wide\"><table "
	      "class=\"sort\"><thead><tr><th>picture</th><th>id</th><th>what"
	      "</th><th class=\"t\">class</th><th>score</th><th>x y w h</th><th>truth "
	      "id</th></tr></thead>"
	      "<tbody>\n",
	    f);
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
	fputs("</tbody></table></div>\n", f);
	free(p);
	free(m);
}

void
eval_report(FILE *f, const struct eval_report *r)
{
	double thr = eval_operating(r->ev);

	report_open(f, "yolo-eval report");
	counts(f, r);
	headline(f, r);
	if (r->base_path)
		comparison(f, r);
	if (r->ev->opt.rules >> EV_COCO & 1)
		eval_figure_curves(f, r->ev, r->truth);
	eval_figure_analysis(f, r->analysis);
	eval_figure_confusion(f, r->errors, r->truth);
	classes(f, r);
	worst(f, r, thr);
	suspects(f, r, thr);
	report_close(f);
}
