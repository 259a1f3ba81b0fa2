/* evalrows.c -- the numbers of the whole set and of a class, named as they are printed.
 *
 * Means leave out what is undefined (classes without truth), except darknet's, which divides by
 * all classes.  COCO's are means over thresholds and classes at once, as pycocotools forms them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "yolo.h"

const char *const eval_rule_name[EV_RULES] = { "coco", "voc07", "voc10", "darknet", "ultralytics",
	"ultralytics-2019" };

/* Mean over classes [c0, c1) and thresholds [t0, t1) of the cells that are defined, or of all with
 * 0 for those that are not; -1 if none.  Cell (c, t) is tab[c * stride + t]. */
static double
mean(const double *tab, size_t stride, int c0, int c1, int t0, int t1, int all)
{
	double sum = 0;
	long n = 0;

	for (int c = c0; c < c1; c++)
		for (int t = t0; t < t1; t++)
			if (all || tab[(size_t)c * stride + (size_t)t] > -1) {
				sum += fmax(tab[(size_t)c * stride + (size_t)t], 0);
				n++;
			}
	return n ? sum / (double)n : -1;
}

static void
add(struct eval_row *rows, int *n, int rule, const char *metric, double v)
{
	struct eval_row *r = rows + (*n)++;

	r->rule = eval_rule_name[rule];
	snprintf(r->metric, sizeof r->metric, "%s", metric);
	r->value = v;
}

static int
iou_index(const struct eval *e, int rule, double iou)
{
	for (int t = 0; t < e->niou[rule]; t++)
		if (fabs(e->iou[rule][t] - iou) < 1e-9)
			return t;
	return -1;
}

static const char *
area_name(const struct eval *e, int a)
{
	static const char *const sml[] = { "s", "m", "l" }, *const num[] = { "", "1", "2", "3", "4",
		"5", "6", "7" };

	return e->opt.narea == 4 ? sml[a - 1] : num[a];
}

static int
coco_rows(const struct eval_tables *tab, int c0, int c1, struct eval_row *rows)
{
	const struct eval *e = tab->e;
	size_t stride = (size_t)e->words * EVAL_IOUS;
	int n = 0, nt = e->niou[EV_COCO], last = e->opt.maxdet[e->opt.nmaxdet - 1];
	char name[20];

	add(rows, &n, EV_COCO, "AP", e->opt.pycocotools && last != 100 ? -1 :
	    mean(tab->ap, stride, c0, c1, 0, nt, 0));
	for (int k = 0; k < 2; k++) {
		int t = iou_index(e, EV_COCO, k ? 0.75 : 0.5);

		add(rows, &n, EV_COCO, k ? "AP75" : "AP50", t < 0 ? -1 :
		    mean(tab->ap, stride, c0, c1, t, t + 1, 0));
	}
	for (int a = 1; a < e->opt.narea; a++) {
		snprintf(name, sizeof name, "AP%s", area_name(e, a));
		add(rows, &n, EV_COCO, name,
		    mean(tab->ap + a * EVAL_IOUS, stride, c0, c1, 0, nt, 0));
	}
	for (int m = 0; m < e->opt.nmaxdet; m++) {
		snprintf(name, sizeof name, "AR%d", e->opt.maxdet[m]);
		add(rows, &n, EV_COCO, name,
		    mean(tab->few + m * EVAL_IOUS, EVAL_MAXDETS * EVAL_IOUS, c0, c1, 0, nt, 0));
	}
	for (int a = 1; a < e->opt.narea; a++) {
		snprintf(name, sizeof name, "AR%s", area_name(e, a));
		add(rows, &n, EV_COCO, name,
		    mean(tab->recall + a * EVAL_IOUS, stride, c0, c1, 0, nt, 0));
	}
	return n;
}

/* What darknet prints for one confidence, all detections over it pooled.  Its average IoU divides
 * by false positives too.  Of several detections of a truth the best-scored is right; darknet
 * itself takes the first of a list that its sort leaves in any order. */
static void
darknet_rows(const struct eval_tables *tab, int c0, int c1, struct eval_row *rows, int *n)
{
	const struct eval *e = tab->e;
	int word = e->off[EV_DARKNET];
	double tp = 0, fp = 0, npos = 0, iou = 0, p, r;

	for (int c = c0; c < c1; c++) {
		npos += tab->npos[c * e->words + word];
		for (size_t k = e->cstart[c]; k < e->cstart[c + 1] &&
		     e->score[e->order[k]] > e->opt.thresh; k++) {
			size_t i = e->order[k];
			uint32_t code = eval_word(e, i, word);
			double t = tab->weight ? tab->weight[e->pic[i]] : 1;

			tp += code & 1 ? t : 0;
			fp += code & 0x10001 ? 0 : t;
			iou += code & 1 ? t * e->over[i] : 0;
		}
	}
	p = tp + fp > 0 ? tp / (tp + fp) : 0;
	r = npos > 0 ? tp / npos : -1;
	add(rows, n, EV_DARKNET, "P", p);
	add(rows, n, EV_DARKNET, "R", r);
	add(rows, n, EV_DARKNET, "F1", npos <= 0 ? -1 : p + r > 0 ? 2 * p * r / (p + r) : 0);
	add(rows, n, EV_DARKNET, "TP", tp);
	add(rows, n, EV_DARKNET, "FP", fp);
	add(rows, n, EV_DARKNET, "FN", npos - tp);
	add(rows, n, EV_DARKNET, "IoU", tp + fp > 0 ? iou / (tp + fp) : 0);
}

static void
old_rows(const struct eval_tables *tab, int c0, int c1, struct eval_row *rows, int *n)
{
	const struct eval *e = tab->e;
	double p = 0, r = 0, f1 = 0, k = 0;

	for (int c = c0; c < c1; c++)
		if (tab->npos[(size_t)c * (size_t)e->words + (size_t)e->off[EV_ULTRA2019]] > 0) {
			double pc = tab->end[2 * c], rc = tab->end[2 * c + 1];

			p += pc;
			r += rc;
			f1 += 2 * pc * rc / (pc + rc + 1e-16);
			k++;
		}
	add(rows, n, EV_ULTRA2019, "P", k ? p / k : -1);
	add(rows, n, EV_ULTRA2019, "R", k ? r / k : -1);
	add(rows, n, EV_ULTRA2019, "F1", k ? f1 / k : -1);
}

static void
add_point(struct eval_row *rows, int *n, int rule, struct eval_point b)
{
	add(rows, n, rule, "P", b.p);
	add(rows, n, rule, "R", b.r);
	add(rows, n, rule, "F1", b.f1);
	add(rows, n, rule, "thr", b.thr);
}

static int
other_rows(const struct eval_tables *tab, int r, int c0, int c1, int total, struct eval_row *rows)
{
	const struct eval *e = tab->e;
	size_t stride = (size_t)e->words * EVAL_IOUS;
	const double *ap = tab->ap + e->off[r] * EVAL_IOUS;
	char name[20];
	int n = 0;

	for (int t = 0; t < e->niou[r]; t++) {
		snprintf(name, sizeof name, "AP%.6g", e->iou[r][t] * 100);
		add(rows, &n, r, name,
		    mean(ap, stride, c0, c1, t, t + 1, r == EV_DARKNET && total));
	}
	add(rows, &n, r, "mAP", mean(ap, stride, c0, c1, 0, e->niou[r], r == EV_DARKNET && total));
	if (r == EV_DARKNET)
		darknet_rows(tab, c0, c1, rows, &n);
	else if (r == EV_ULTRA && total)
		add_point(rows, &n, r, eval_ultra_point(tab));
	else if (r == EV_ULTRA2019)
		old_rows(tab, c0, c1, rows, &n);
	return n;
}

int
eval_total(struct eval *e, const uint32_t *weight, struct eval_row *rows)
{
	struct eval_tables tab;
	double npos = 0;
	int n = 0;

	eval_tables(&tab, e, weight);
	if (e->opt.rules >> EV_COCO & 1) {
		n = coco_rows(&tab, 0, e->nclass, rows);
		for (int c = 0; c < e->nclass; c++)
			npos += tab.npos[c * e->words + e->off[EV_COCO]];
		add_point(rows, &n, EV_COCO, eval_best(e, -1, weight, npos));
	}
	for (int r = 1; r < EV_RULES; r++)
		if (e->opt.rules >> r & 1)
			n += other_rows(&tab, r, 0, e->nclass, 1, rows + n);
	eval_tables_free(&tab);
	return n;
}

int
eval_class(struct eval *e, const struct eval_tables *tab, int c, struct eval_row *rows)
{
	int n = 0;

	for (int r = 0; r < EV_RULES; r++) {
		double npos = tab->npos[c * e->words + e->off[r]];

		if (!(e->opt.rules >> r & 1))
			continue;
		if (r == EV_COCO) {
			n = coco_rows(tab, c, c + 1, rows);
			add_point(rows, &n, EV_COCO, eval_best(e, c, tab->weight, npos));
		} else
			n += other_rows(tab, r, c, c + 1, 0, rows + n);
		add(rows, &n, r, "truths", npos);
		add(rows, &n, r, "detections", (double)(e->cstart[c + 1] - e->cstart[c]));
	}
	return n;
}

double
eval_get(const struct eval_row *rows, int n, const char *rule, const char *metric)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(rows[i].rule, rule) && !strcmp(rows[i].metric, metric))
			return rows[i].value;
	return -1;
}
