/* assign.c -- which truth belongs to which cell and anchor: the half of a loss that needs no
 * output.
 *
 * Assignment depends on truth, anchors and grid alone, so it is done once on the host, in double;
 * kernels get a list of rows sorted by cell, one group of rows to a cell, and need neither atomics
 * nor luck where truths collide.  Rules: golden/loss/README.md.  The cell of a truth is
 * min(floor(x * w), w - 1), also for x = 1. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loss/int.h"

struct size { double w, h; };
struct sink {			/* a head's truths, and where their rows go */
	const struct loss *s;
	const struct loss_head *h;
	const struct truth *t;
	int nt, n;
	struct loss_row *row;	/* NULL: count only */
};

/* Could this be a truth at all?  Whoever reads labels has refused what could not; a number that
 * cannot be must not become an index here. */
static int
usable(const struct loss *s, const struct truth *t)
{
	return t->cls >= 0 && t->cls < s->classes && t->image >= 0 && t->image < (float)(1 << 24) &&
	    t->w > 0 && t->h > 0 && t->w - t->w == 0 && t->h - t->h == 0 && t->x - t->x == 0 &&
	    t->y - t->y == 0;
}

static int
cell_at(double x, int n)
{
	return !(x > 0) ? 0 : x >= n ? n - 1 : (int)x;
}

static double
shape_iou(struct size a, struct size b)
{
	double inter = fmin(a.w, b.w) * fmin(a.h, b.h);

	return inter / (a.w * a.h + b.w * b.h - inter);
}

static struct size
anchor_of(const struct loss *s, int i)
{
	struct size a = { s->anchor[2 * i], s->anchor[2 * i + 1] };

	return a;
}

static struct size
pixels(const struct loss *s, const struct truth *t)
{
	struct size a = { (double)t->w * s->in_w, (double)t->h * s->in_h };

	return a;
}

static struct loss_row *
put(struct sink *k, int truth, int row, int col, int a)
{
	const struct loss_head *h = k->h;
	const struct truth *t = &k->t[truth];
	struct loss_row *r = k->row ? &k->row[k->n] : NULL;

	if (r) {
		r->cell = (((int)t->image * h->h + row) * h->w + col) * h->nmask + a;
		r->truth = truth;
		r->cls = (int)t->cls;
		r->order = k->n;
		r->x = t->x;
		r->y = t->y;
		r->w = t->w;
		r->h = t->h;
	}
	k->n++;
	return r;
}

/* The target as the outputs of 2019's losses are compared with it. */
static void
put_logs(struct sink *k, int truth, int a)
{
	const struct loss_head *h = k->h;
	const struct truth *t = &k->t[truth];
	double x = (double)t->x * h->w, y = (double)t->y * h->h;
	int col = cell_at(x, h->w), row = cell_at(y, h->h);
	struct loss_row *r = put(k, truth, row, col, a);
	struct size p = anchor_of(k->s, h->mask[a]), b = pixels(k->s, t);

	if (!r)
		return;
	r->x = x - col;
	r->y = y - row;
	r->w = log(b.w / p.w);
	r->h = log(b.h / p.h);
}

static void
put_cells(struct sink *k, int truth, int row, int col, int a)
{
	const struct loss_head *h = k->h;
	const struct truth *t = &k->t[truth];
	struct loss_row *r = put(k, truth, row, col, a);

	if (!r)
		return;
	r->x = (double)t->x * h->w - col;
	r->y = (double)t->y * h->h - row;
	r->w = (double)t->w * h->w;
	r->h = (double)t->h * h->h;
}

/* Each head for itself: its best anchor by shape, if good enough. */
static void
assign_2019(struct sink *k)
{
	const struct loss *s = k->s;
	const struct loss_head *h = k->h;
	const struct truth *t = k->t;

	for (int i = 0; i < k->nt; i++) {
		double best = -1;
		int a = -1;

		for (int j = 0; j < h->nmask && usable(s, &t[i]); j++) {
			double v = shape_iou(anchor_of(s, h->mask[j]), pixels(s, &t[i]));

			if (v > best) {
				best = v;
				a = j;
			}
		}
		if (a >= 0 && best > s->iou_t)
			put_logs(k, i, a);
	}
}

/* IoU of a truth with an anchor that is centred on the upper left corner of the truth's cell. */
static double
corner_iou(const struct loss *s, const struct loss_head *h, const struct truth *t, int mask)
{
	struct size p = anchor_of(s, mask);
	double x = (double)cell_at((double)t->x * h->w, h->w) / h->w, aw = p.w / s->in_w;
	double y = (double)cell_at((double)t->y * h->h, h->h) / h->h, ah = p.h / s->in_h;
	double w = fmin(x + aw / 2, (double)t->x + t->w / 2.) -
	    fmax(x - aw / 2, (double)t->x - t->w / 2.);
	double v = fmin(y + ah / 2, (double)t->y + t->h / 2.) -
	    fmax(y - ah / 2, (double)t->y - t->h / 2.);
	double inter = w > 0 && v > 0 ? w * v : 0;

	return inter / (aw * ah + (double)t->w * t->h - inter + 1e-16);
}

/* One anchor out of all heads. */
static void
assign_multi(struct sink *k)
{
	const struct loss *s = k->s;
	const struct truth *t = k->t;

	for (int i = 0; i < k->nt; i++) {
		const struct loss_head *at = NULL;
		double best = -1;
		int a = 0;

		for (int h = 0; h < s->nhead && usable(s, &t[i]); h++)
			for (int j = 0; j < s->head[h].nmask; j++) {
				double v = corner_iou(s, &s->head[h], &t[i], s->head[h].mask[j]);

				if (v > best) {
					best = v;
					at = &s->head[h];
					a = j;
				}
			}
		if (at == k->h)
			put_logs(k, i, a);
	}
}

/* Every pair of anchor and truth of similar shape. */
static void
assign_archive(struct sink *k)
{
	const struct loss *s = k->s;
	const struct loss_head *h = k->h;
	const struct truth *t = k->t;

	for (int a = 0; a < h->nmask; a++)
		for (int i = 0; i < k->nt; i++)
			if (usable(s, &t[i]) &&
			    shape_iou(anchor_of(s, h->mask[a]), pixels(s, &t[i])) > s->iou_t)
				put_cells(k, i, cell_at((double)t[i].y * h->h, h->h),
				    cell_at((double)t[i].x * h->w, h->w), a);
}

/* Pairs whose sides differ by less than a factor, on the truth's cell and up to two neighbours:
 * first all own cells, then all to the left, above, to the right, below. */
static void
assign_ciou(struct sink *k)
{
	static const int dx[5] = { 0, -1, 0, 1, 0 }, dy[5] = { 0, 0, -1, 0, 1 };
	const struct loss *s = k->s;
	const struct loss_head *h = k->h;
	const struct truth *t = k->t;

	for (int p = 0; p < 5; p++)
		for (int a = 0; a < h->nmask; a++)
			for (int i = 0; i < k->nt; i++) {
				struct size q = anchor_of(s, h->mask[a]), b = pixels(s, &t[i]);
				double x = (double)t[i].x * h->w, y = (double)t[i].y * h->h;
				int col = cell_at(x, h->w), row = cell_at(y, h->h);
				int near[5] = { 1, x - col < .5 && col > 0, y - row < .5 && row > 0,
				    x - col > .5 && col < h->w - 1,
				    y - row > .5 && row < h->h - 1 };

				if (near[p] && usable(s, &t[i]) && fmax(fmax(b.w / q.w, q.w / b.w),
				    fmax(b.h / q.h, q.h / b.h)) < s->anchor_t)
					put_cells(k, i, row + dy[p], col + dx[p], a);
			}
}

/* What iou_thresh_kind compares: both boxes centred at 0, so the hull is their larger sides and the
 * distance is 0. */
static double
measure(enum iou_kind kind, struct size a, struct size b)
{
	double iou = shape_iou(a, b), inter = fmin(a.w, b.w) * fmin(a.h, b.h);
	double u = a.w * a.h + b.w * b.h - inter, c = fmax(a.w, b.w) * fmax(a.h, b.h), d, v;

	switch (kind) {
	case IOU_GIOU:
		return iou - (c - u) / c;
	case IOU_CIOU:
		d = atan(b.w / b.h) - atan(a.w / a.h);
		v = 4 / (M_PI * M_PI) * d * d;
		return iou - v * v / (1 - iou + v + 1e-6);
	default:
		return iou;
	}
}

static int
mask_of(const struct loss_head *h, int anchor)
{
	for (int i = 0; i < h->nmask; i++)
		if (h->mask[i] == anchor)
			return i;
	return -1;
}

/* The best of all anchors of all heads; below iou_thresh 1 also the others of this head that
 * fit. */
static void
assign_darknet(struct sink *k)
{
	const struct loss *s = k->s;
	const struct loss_head *h = k->h;
	const struct truth *t = k->t;
	const struct def_yolo *d = h->yolo;
	int *list = (int *)xmalloc((size_t)k->nt * sizeof *list + 1);
	struct truth_lists all = { -1, list, NULL };
	int n = assign_lists(s, (int)(h - s->head), t, k->nt, &all);
	double limit = s->kind == LOSS_DARKNET_IOU ? d->iou_thresh : 1;

	for (int l = 0; l < n; l++) {
		int i = list[l], best = -1, row = cell_at((double)t[i].y * h->h, h->h);
		int col = cell_at((double)t[i].x * h->w, h->w);
		struct size b = { t[i].w, t[i].h };
		double top = 0;

		if (h->region)		/* which anchor depends on the outputs */
			put(k, i, row, col, 0);
		for (int j = 0; j < s->nanchor && !h->region; j++) {
			struct size p = { s->anchor[2 * j] / (double)s->in_w, s->anchor[2 * j + 1] /
			    (double)s->in_h };
			double v = shape_iou(p, b);

			if (v > top) {
				top = v;
				best = j;
			}
		}
		if (best >= 0 && mask_of(h, best) >= 0)
			put(k, i, row, col, mask_of(h, best));
		for (int j = 0; j < s->nanchor && limit < 1 && !h->region; j++) {
			struct size p = { s->anchor[2 * j] / (double)s->in_w, s->anchor[2 * j + 1] /
			    (double)s->in_h };

			if (j != best && mask_of(h, j) >= 0 &&
			    measure(d->iou_thresh_kind, p, b) > limit)
				put(k, i, row, col, mask_of(h, j));
		}
	}
	free(list);
}

int
assign_lists(const struct loss *s, int head, const struct truth *t, int nt, struct truth_lists *l)
{
	int images = l->n, out = 0, max = s->head[head].yolo->max;
	int *at, *next;

	for (int i = 0; i < nt && l->n < 0; i++)
		if (usable(s, &t[i]) && t[i].image >= (float)images)
			images = (int)t[i].image + 1;
	/* A list of rows per image, then cut: at[i] is the last row of image i so far. */
	at = (int *)xmalloc(((size_t)(images < 0 ? 0 : images) + 1) * sizeof *at);
	next = (int *)xmalloc((size_t)nt * sizeof *next + 1);
	for (int b = 0; b < images; b++)
		at[b] = -1;
	for (int i = nt - 1; i >= 0; i--) {
		int b = t[i].image >= 0 && t[i].image < (float)images ? (int)t[i].image : -1;

		next[i] = b < 0 ? -1 : at[b];
		if (b >= 0)
			at[b] = i;
	}
	for (int b = 0; b < images; b++) {
		int seen = 0;

		if (l->start)
			l->start[b] = out;
		for (int i = at[b]; i >= 0 && t[i].x != 0 && (max <= 0 || seen < max);
		    i = next[i]) {
			seen++;
			if (usable(s, &t[i]))
				l->index[out++] = i;
		}
	}
	if (l->start)
		l->start[images < 0 ? 0 : images] = out;
	free(at);
	free(next);
	return out;
}

int
assign_head(const struct loss *s, int head, const struct truth *t, int nt, struct loss_row *row)
{
	struct sink k = { s, &s->head[head], t, nt, 0, row };

	switch (s->kind) {
	case LOSS_ULTRA2019: assign_2019(&k); break;
	case LOSS_MULTI: assign_multi(&k); break;
	case LOSS_ARCHIVE: assign_archive(&k); break;
	case LOSS_CIOU: assign_ciou(&k); break;
	case LOSS_DARKNET:
	case LOSS_DARKNET_IOU: assign_darknet(&k); break;
	}
	return k.n;
}
