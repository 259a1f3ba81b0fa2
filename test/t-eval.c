/* t-eval.c -- a second opinion: every rule again, written as its definition reads, on small sets
 * full of ties, crowds, empty classes and boxes without area.
 *
 * COCO: for each class, area, maxDets and threshold all arrays in full, as pycocotools has them.
 * VOC and darknet: detections of a class over all pictures in one list by score.  Ultralytics: the
 * list of pairs sorted by IoU, then one pair for a detection, then one for a truth. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

enum { MAXI = 4, MAXC = 3, MAXB = 6, MAXD = 9, ALL = MAXI * MAXD };

struct setup {
	int ni, nc, nb[MAXI], nd[MAXI];
	struct box b[MAXI][MAXB];
	struct eval_det d[MAXI][MAXD];
};
static uint64_t state = 1;
static int tests, failed;

static int
rnd(int n)
{
	state += 0x9e3779b97f4a7c15u;
	uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;

	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (int)((z ^ z >> 31) % (unsigned)n);
}

static void
ok(int good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, what);
	failed += !good;
}

/* Sides from a short list, so that IoUs, areas and scores tie and areas stand on borders. */
static double
side(void)
{
	static const double s[] = { 0, 4, 8, 10, 16, 32, 32, 96, 100 };

	return s[rnd(9)];
}

static void
make(struct setup *w)
{
	memset(w, 0, sizeof *w);
	w->ni = 1 + rnd(MAXI);
	w->nc = 1 + rnd(MAXC);
	for (int i = 0; i < w->ni; i++) {
		w->nb[i] = rnd(MAXB + 1);
		w->nd[i] = rnd(MAXD + 1);
		for (int k = 0; k < w->nb[i]; k++) {
			struct box *b = &w->b[i][k];

			b->x = 4 * rnd(4);
			b->y = 4 * rnd(3);
			b->w = side();
			b->h = side();
			b->area = rnd(3) ? b->w * b->h : rnd(12000);
			b->id = k;
			b->cls = rnd(w->nc);
			b->flags = rnd(5) ? 0 : rnd(2) ? BOX_CROWD : BOX_DIFFICULT;
		}
		for (int k = 0; k < w->nd[i]; k++) {
			const struct box *b = w->nb[i] && rnd(3) ? &w->b[i][rnd(w->nb[i])] : NULL;

			w->d[i][k] =
			    (struct eval_det){ rnd(6) / 5.0, b ? b->x + 2 * rnd(3) : 4 * rnd(4),
				    b ? b->y : 4 * rnd(3), b ? b->w + 2 * rnd(2) : side(),
				    b ? b->h : side(), i, b && rnd(5) ? b->cls : rnd(w->nc) };
		}
	}
}

/* Detections of class c in picture i by falling score, stable; their number. */
static int
sorted(const struct setup *w, int i, int c, int *out)
{
	int n = 0;

	for (int k = 0; k < w->nd[i]; k++)
		if (w->d[i][k].cls == c)
			out[n++] = k;
	for (int a = 1; a < n; a++)
		for (int b = a; b > 0 && w->d[i][out[b - 1]].score < w->d[i][out[b]].score; b--) {
			int t = out[b];

			out[b] = out[b - 1];
			out[b - 1] = t;
		}
	return n;
}

static double
iou(const struct eval_det *d, const struct box *b, int crowd)
{
	double w = fmin(d->x + d->w, b->x + b->w) - fmax(d->x, b->x);
	double h = fmin(d->y + d->h, b->y + b->h) - fmax(d->y, b->y);

	if (w <= 0 || h <= 0)
		return 0;
	return w * h / (crowd ? d->w * d->h : d->w * d->h + b->w * b->h - w * h);
}

struct entry { double score; int tp, fp; };

static int
by_score(struct entry *e, int n)
{
	for (int a = 1; a < n; a++)
		for (int b = a; b > 0 && e[b - 1].score < e[b].score; b--) {
			struct entry t = e[b];

			e[b] = e[b - 1];
			e[b - 1] = t;
		}
	return n;
}

/* ---- COCO ---- */

static void
coco_image(const struct setup *w, int i, int c, const double *area, double t, int maxdet,
    struct entry *e, int *n, int *npos)
{
	int ord[MAXD], nd = sorted(w, i, c, ord), gt[MAXB], ng = 0, ign[MAXB], taken[MAXB] = { 0 };

	for (int pass = 0; pass < 2; pass++)
		for (int k = 0; k < w->nb[i]; k++) {
			const struct box *b = &w->b[i][k];
			int out = (b->flags & BOX_CROWD) || b->area < area[0] || b->area > area[1];

			if (b->cls == c && out == pass) {
				ign[ng] = out;
				gt[ng++] = k;
				*npos += !out;
			}
		}
	for (int k = 0; k < nd && k < maxdet; k++) {
		const struct eval_det *d = &w->d[i][ord[k]];
		double best = fmin(t, 1 - 1e-10);
		int m = -1, ignored;

		for (int g = 0; g < ng; g++) {
			int crowd = w->b[i][gt[g]].flags & BOX_CROWD;

			if (taken[g] && !crowd)
				continue;
			if (m >= 0 && !ign[m] && ign[g])
				break;
			if (iou(d, &w->b[i][gt[g]], crowd) < best)
				continue;
			best = iou(d, &w->b[i][gt[g]], crowd);
			m = g;
		}
		if (m >= 0)
			taken[m] = 1;
		ignored = m >= 0 ? ign[m] : d->w * d->h < area[0] || d->w * d->h > area[1];
		e[(*n)++] = (struct entry){ d->score, m >= 0 && !ignored, m < 0 && !ignored };
	}
}

static double
coco_ap(const struct entry *e, int n, int npos, double *recall)
{
	double rc[ALL + 1], pr[ALL + 1], tp = 0, fp = 0, sum = 0;

	*recall = 0;
	for (int k = 0; k < n; k++) {
		tp += e[k].tp;
		fp += e[k].fp;
		rc[k] = *recall = tp / npos;
		pr[k] = tp / (fp + tp + DBL_EPSILON);
	}
	for (int k = n - 1; k > 0; k--)
		if (pr[k] > pr[k - 1])
			pr[k - 1] = pr[k];
	for (int r = 0; r < 101; r++)
		for (int k = 0; k < n; k++)
			if (rc[k] >= r * 0.01) {
				sum += pr[k];
				break;
			}
	return sum / 101;
}

/* Mean over classes and thresholds [t0, t1) of AP (what 0) or recall (1); -1: none. */
static double
coco_mean(const struct setup *w, const double *area, int maxdet, int t0, int t1, int what)
{
	double sum = 0;
	int many = 0;

	for (int c = 0; c < w->nc; c++)
		for (int t = t0; t < t1; t++) {
			struct entry e[ALL];
			int n = 0, npos = 0;
			double ap, recall, thr = t == 9 ? 0.95 : 0.5 + t * ((0.95 - 0.5) / 9);

			for (int i = 0; i < w->ni; i++)
				coco_image(w, i, c, area, thr, maxdet, e, &n, &npos);
			if (!npos)
				continue;
			by_score(e, n);
			ap = coco_ap(e, n, npos, &recall);
			sum += what ? recall : ap;
			many++;
		}
	return many ? sum / many : -1;
}

static void
coco_twelve(const struct setup *w, double *v)
{
	static const double area[4][2] = { { 0, 1e10 }, { 0, 1024 }, { 1024, 9216 },
		{ 9216, 1e10 } };
	static const int md[3] = { 1, 3, 100 };

	v[0] = coco_mean(w, area[0], 100, 0, 10, 0);
	v[1] = coco_mean(w, area[0], 100, 0, 1, 0);
	v[2] = coco_mean(w, area[0], 100, 5, 6, 0);
	for (int a = 1; a < 4; a++) {
		v[2 + a] = coco_mean(w, area[a], 100, 0, 10, 0);
		v[8 + a] = coco_mean(w, area[a], 100, 0, 10, 1);
	}
	for (int m = 0; m < 3; m++)
		v[6 + m] = coco_mean(w, area[0], md[m], 0, 10, 1);
}

/* ---- VOC, darknet: one list of a class ---- */

struct ref { double score; int i, k; };

static int
class_list(const struct setup *w, int c, struct ref *r)
{
	int n = 0, ord[MAXD];

	for (int i = 0; i < w->ni; i++)
		for (int k = 0, m = sorted(w, i, c, ord); k < m; k++)
			r[n++] = (struct ref){ w->d[i][ord[k]].score, i, ord[k] };
	for (int a = 1; a < n; a++)
		for (int b = a; b > 0 && r[b - 1].score < r[b].score; b--) {
			struct ref t = r[b];

			r[b] = r[b - 1];
			r[b - 1] = t;
		}
	return n;
}

/* Area under the envelope with sentinels, point by point. */
static double
area_ap(const struct entry *e, int n, int npos)
{
	double r[ALL + 2] = { 0 }, p[ALL + 2] = { 0 }, tp = 0, fp = 0, sum = 0;

	for (int k = 0; k < n; k++) {
		tp += e[k].tp;
		fp += e[k].fp;
		r[k + 1] = tp / npos;
		p[k + 1] = tp + fp > 0 ? tp / (tp + fp) : 0;
	}
	r[n + 1] = 1;
	for (int k = n; k >= 0; k--)
		p[k] = fmax(p[k], p[k + 1]);
	for (int k = 1; k <= n + 1; k++)
		sum += (r[k] - r[k - 1]) * p[k];
	return sum;
}

static double
voc_map(const struct setup *w)
{
	double sum = 0;
	int many = 0;

	for (int c = 0; c < w->nc; c++) {
		struct ref r[ALL];
		struct entry e[ALL];
		int n = class_list(w, c, r), npos = 0, m = 0, used[MAXI][MAXB] = { { 0 } };

		for (int i = 0; i < w->ni; i++)
			for (int k = 0; k < w->nb[i]; k++)
				npos += w->b[i][k].cls == c && !w->b[i][k].flags;
		for (int k = 0; k < n; k++) {
			int i = r[k].i, g = -1;
			double best = -1;

			for (int b = 0; b < w->nb[i]; b++) {
				const struct box *t = &w->b[i][b];
				const struct eval_det *d = &w->d[i][r[k].k];
				double x = fmin(d->x + d->w, t->x + t->w) - fmax(d->x, t->x) + 1;
				double y = fmin(d->y + d->h, t->y + t->h) - fmax(d->y, t->y) + 1,
				       v = 0;

				if (t->cls != c)
					continue;
				if (x > 0 && y > 0)
					v = x * y /
					    ((d->w + 1) * (d->h + 1) + (t->w + 1) * (t->h + 1) -
						x * y);
				if (v > best) {
					best = v;
					g = b;
				}
			}
			if (g >= 0 && best >= 0.5 && w->b[i][g].flags)
				continue;
			e[m++] = (struct entry){ r[k].score, g >= 0 && best >= 0.5 && !used[i][g],
				!(g >= 0 && best >= 0.5 && !used[i][g]) };
			if (g >= 0 && best >= 0.5)
				used[i][g] = 1;
		}
		if (!npos)
			continue;
		sum += area_ap(e, m, npos);
		many++;
	}
	return many ? sum / many : -1;
}

static double
darknet_map(const struct setup *w)
{
	double sum = 0;

	for (int c = 0; c < w->nc; c++) {
		struct ref r[ALL];
		struct entry e[ALL];
		int n = class_list(w, c, r), npos = 0, used[MAXI][MAXB] = { { 0 } };

		for (int i = 0; i < w->ni; i++)
			for (int k = 0; k < w->nb[i]; k++)
				npos += w->b[i][k].cls == c && !w->b[i][k].flags;
		for (int k = 0; k < n; k++) {
			int i = r[k].i, g = -1;
			double best = 0;

			for (int b = 0; b < w->nb[i]; b++) {
				double v = iou(&w->d[i][r[k].k], &w->b[i][b], 0);

				if (w->b[i][b].cls == c && !w->b[i][b].flags && v > 0.5 &&
				    v > best) {
					best = v;
					g = b;
				}
			}
			e[k] = (struct entry){ r[k].score, g >= 0 && !used[i][g],
				!(g >= 0 && !used[i][g]) };
			if (g >= 0)
				used[i][g] = 1;
		}
		sum += npos ? area_ap(e, n, npos) : 0;
	}
	return sum / w->nc;
}

/* ---- ultralytics ---- */

struct couple { double v; int t, d, dead; };

/* Right detections of picture i at threshold thr, over all classes. */
static void
ultra_image(const struct setup *w, int i, double thr, int *right)
{
	struct couple p[MAXB * MAXD], best[MAXD];
	int n = 0, nb = 0, ord[MAXD], m, place[MAXD];

	memset(right, 0, MAXD * sizeof *right);
	for (int c = 0; c < w->nc; c++)
		for (int k = 0, q = sorted(w, i, c, ord); k < q; k++)
			place[ord[k]] = k;
	for (int t = 0; t < w->nb[i]; t++)
		for (int d = 0; d < w->nd[i]; d++) {
			double v = iou(&w->d[i][d], &w->b[i][t], 0);

			if (w->b[i][t].cls == w->d[i][d].cls && !w->b[i][t].flags && v >= thr)
				p[n++] = (struct couple){ v, t, d, 0 };
		}
	for (int d = 0; d < w->nd[i];
	     d++) { /* one pair for a detection: largest IoU, later truth */
		m = -1;
		for (int k = 0; k < n; k++)
			if (p[k].d == d && (m < 0 || p[k].v >= p[m].v))
				m = k;
		if (m >= 0)
			best[nb++] = p[m];
	}
	for (int t = 0; t < w->nb[i]; t++) {		/* one for a truth: the first detection */
		m = -1;
		for (int k = 0; k < nb; k++)
			if (best[k].t == t && (m < 0 || place[best[k].d] < place[best[m].d]))
				m = k;
		if (m >= 0)
			right[best[m].d] = 1;
	}
}

static double
interp(double x, const double *xs, const double *ys, int n)
{
	int j = -1;

	while (j + 1 < n && xs[j + 1] <= x)
		j++;
	if (j < 0)
		return ys[0];
	if (j == n - 1)
		return ys[n - 1];
	return (ys[j + 1] - ys[j]) / (xs[j + 1] - xs[j]) * (x - xs[j]) + ys[j];
}

static double
ultra_ap(const struct setup *w, int c, double thr, int *npos)
{
	double r[ALL + 2] = { 0 }, p[ALL + 2] = { 1 }, tp = 0, fp = 0, sum = 0;
	struct ref list[ALL];
	int n = class_list(w, c, list), right[MAXI][MAXD];

	*npos = 0;
	for (int i = 0; i < w->ni; i++) {
		ultra_image(w, i, thr, right[i]);
		for (int k = 0; k < w->nb[i]; k++)
			*npos += w->b[i][k].cls == c && !w->b[i][k].flags;
	}
	if (!*npos || !n)
		return 0;
	for (int k = 0; k < n; k++) {
		int hit = right[list[k].i][list[k].k];

		tp += hit;
		fp += !hit;
		r[k + 1] = tp / (*npos + 1e-16);
		p[k + 1] = tp / (tp + fp);
	}
	r[n + 1] = 1;
	p[n + 1] = 0;
	for (int k = n; k >= 0; k--)
		p[k] = fmax(p[k], p[k + 1]);
	for (int i = 0; i < 100; i++) {
		double a = i * 0.01, b = i == 99 ? 1 : (i + 1) * 0.01;

		sum += (b - a) * (interp(a, r, p, n + 2) + interp(b, r, p, n + 2)) / 2;
	}
	return sum;
}

static double
ultra_map(const struct setup *w)
{
	double sum = 0;
	int many = 0, npos;

	for (int c = 0; c < w->nc; c++)
		for (int t = 0; t < 10; t++) {
			double ap =
			    ultra_ap(w, c, t == 9 ? 0.95 : 0.5 + t * ((0.95 - 0.5) / 9), &npos);

			if (npos) {
				sum += ap;
				many++;
			}
		}
	return many ? sum / many : -1;
}

/* ---- comparison ---- */

static int
score(const struct setup *w, int threads, struct eval_row *row)
{
	struct eval_opts o;
	struct eval *e;
	struct eval_image im[MAXI];
	int n;

	eval_defaults(&o);
	o.rules = (1 << EV_RULES) - 1;
	o.maxdet[1] = 3;
	o.threads = threads;
	e = eval_open(&o, w->nc);
	for (int i = w->ni - 1; i >= 0; i--) { /* the wrong way round: keys give the order */
		im[0] = (struct eval_image){ i, w->b[i], w->d[i], w->nb[i], w->nd[i] };
		eval_add(e, im, 1);
	}
	n = eval_total(e, NULL, row);
	eval_close(e);
	return n;
}

static int
same(double got, double want, const char *what, int set)
{
	if (fabs(got - want) <= 1e-12)
		return 1;
	printf("# set %d %s: %.17g, want %.17g\n", set, what, got, want);
	return 0;
}

static void
second_opinion(int sets)
{
	static const char *const name[12] = { "AP", "AP50", "AP75", "APs", "APm", "APl", "AR1",
		"AR3", "AR100", "ARs", "ARm", "ARl" };
	static struct setup w;
	int good[4] = { 1, 1, 1, 1 };

	for (int s = 0; s < sets; s++) {
		struct eval_row row[EVAL_ROWS];
		double v[12];
		int n;

		make(&w);
		n = score(&w, 1, row);
		coco_twelve(&w, v);
		for (int k = 0; k < 12; k++)
			good[0] &= same(eval_get(row, n, "coco", name[k]), v[k], name[k], s);
		good[1] &= same(eval_get(row, n, "voc10", "mAP"), voc_map(&w), "voc10", s);
		good[2] &= same(eval_get(row, n, "darknet", "mAP"), darknet_map(&w), "darknet", s);
		good[3] &=
		    same(eval_get(row, n, "ultralytics", "mAP"), ultra_map(&w), "ultralytics", s);
	}
	ok(good[0], "COCO's twelve on random sets");
	ok(good[1], "VOC's area on random sets");
	ok(good[2], "darknet's mAP on random sets");
	ok(good[3], "ultralytics' mAP on random sets");
}

/* By hand.  One class, three truths; detections by score: A right, B wrong, C right.  Recall
 * 1/3, 1/3, 2/3; precision 1, 1/2, 2/3; the envelope 1, 2/3, 2/3.  The polygon of 2019: (0, 1),
 * (1/3, 1), (1/3, 2/3), (2/3, 2/3), (2/3 + .001, 0).  At recalls 0 .. .33 1, .34 .. .66 2/3, from
 * .67 on 0: the trapezium rule gives .33 + .01 (1 + 2/3) / 2 + .32 * 2/3 + .01 * (2/3) / 2. */
static void
by_hand_2019(void)
{
	static struct setup w;
	struct eval_row row[EVAL_ROWS];
	int n;
	double want = .33 + .01 * (1 + 2 / 3.) / 2 + .32 * 2 / 3 + .01 * (2 / 3.) / 2;

	memset(&w, 0, sizeof w);
	w.ni = w.nc = 1;
	w.nb[0] = 3;
	w.nd[0] = 3;
	for (int k = 0; k < 3; k++)
		w.b[0][k] = (struct box){ 100. * k, 0, 10, 10, 100, k, 0, 0 };
	w.d[0][0] = (struct eval_det){ .9, 0, 0, 10, 10, 0, 0 };
	w.d[0][1] = (struct eval_det){ .8, 50, 0, 10, 10, 0, 0 };
	w.d[0][2] = (struct eval_det){ .7, 100, 0, 10, 10, 0, 0 };
	n = score(&w, 1, row);
	ok(same(eval_get(row, n, "ultralytics-2019", "mAP"), want, "2019 AP", 0),
	    "2019's AP by hand");
	ok(same(eval_get(row, n, "ultralytics-2019", "P"), 2 / 3., "2019 P", 0) &&
	    same(eval_get(row, n, "ultralytics-2019", "R"), 2 / 3., "2019 R", 0),
	    "2019's P and R are the ends of the curve");
	/* IoU must exceed the threshold there: 10 x 10 on 10 x 20 is 0.5 */
	w.nb[0] = w.nd[0] = 1;
	w.b[0][0].h = 20;
	n = score(&w, 1, row);
	ok(eval_get(row, n, "ultralytics-2019", "mAP") == 0 && eval_get(row, n, "ultralytics",
	    "AP50") > .9, "IoU of just 0.5: not in 2019, now it is");
}

/* decimals: the nearest double, always */
static void
decimals(int many)
{
	int good = 1;
	char s[64];

	for (int i = 0; i < many; i++) {
		int whole = rnd(20), frac = rnd(22), n = 0;
		const char *p = s;
		double v;

		s[n++] = "-+1"[rnd(3)];
		for (int k = 0; k < whole; k++)
			s[n++] = (char)('0' + rnd(10));
		s[n++] = (char)('0' + rnd(10));
		if (rnd(4)) {
			s[n++] = '.';
			for (int k = 0; k < frac; k++)
				s[n++] = (char)('0' + rnd(10));
		}
		if (!rnd(3))
			n += sprintf(s + n, "e%d", rnd(80) - 40);
		s[n] = 0;
		if (scan_decimal(&p, &v) || *p || v != strtod(s, NULL)) {
			printf("# %s: %.17g, want %.17g\n", s, v, strtod(s, NULL));
			good = 0;
		}
	}
	ok(good, "a decimal becomes the nearest double");
	const char *p = "1e400";
	double v;

	ok(!scan_decimal(&p, &v) && isinf(v), "what is too large becomes an infinity");
}

static void
empties(void)
{
	static struct setup w;
	struct eval_row row[EVAL_ROWS];
	int n;

	memset(&w, 0, sizeof w);
	w.ni = w.nc = 1;
	n = score(&w, 1, row);
	ok(eval_get(row, n, "coco", "AP") == -1, "no truths: undefined");
	w.nb[0] = 1;
	w.b[0][0] = (struct box){ 0, 0, 10, 10, 100, 1, 0, 0 };
	n = score(&w, 1, row);
	ok(eval_get(row, n, "coco", "AP") == 0 && eval_get(row, n, "voc10", "mAP") == 0 &&
	    eval_get(row, n, "ultralytics", "mAP") == 0, "no detections: 0");
	w.b[0][0].flags = BOX_CROWD;
	w.nd[0] = 1;
	w.d[0][0] = (struct eval_det){ .9, 0, 0, 10, 10, 0, 0 };
	n = score(&w, 1, row);
	ok(eval_get(row, n, "coco", "AP") == -1 && eval_get(row, n, "voc10", "mAP") == -1,
	    "a class of crowds alone: undefined");
}

static void
threads(void)
{
	static struct setup w;
	struct eval_row a[EVAL_ROWS], b[EVAL_ROWS];
	int good = 1;

	for (int s = 0; s < 50; s++) {
		make(&w);
		int n = score(&w, 1, a);

		good &= score(&w, 3, b) == n;
		for (int k = 0; k < n; k++)
			good &= a[k].value == b[k].value;
	}
	ok(good, "the number of threads changes nothing");
}

int
main(void)
{
	second_opinion(10000);
	by_hand_2019();
	decimals(200000);
	empties();
	threads();
	printf("1..%d\n", tests);
	return failed > 0;
}
