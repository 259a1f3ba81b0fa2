/* darkloss.cu -- darknet's [yolo] losses, the classic one and the extended one.
 *
 * No loss is differentiated here: a layer fills `delta`, minus what backpropagation receives, by
 * rules in a fixed order (golden/loss/README.md, 6 and 7).  Deltas of logistic outputs reach the
 * raw values without the logistic's slope, unless new_coords puts that activation into the
 * convolution.
 *
 * Step 1, over all cells: objectness by the best IoU with any truth.  Step 2, over cells with
 * truth: the truths in order.  Step 3 divides boxes by the number of classes.  Only objectness can
 * differ from 0 outside of step 2's cells, unless truth_thresh is below 1, so the closing pass
 * touches one number of a cell, and all of them only then. */
#include "kernel/dev.h"
#include "loss/int.h"

struct dark {			/* the rules of a head */
	int extended, iou, smooth, focal, counters, divide, full;
	double ignore, truth, obj, iou_n, cls, max_delta, eps, factor;
	const float *mult;		/* by class, NULL: 1 */
};
struct rel { double x, y, w, h; };

DEVICE double
mult(const struct dark *p, int cls)
{
	return p->mult ? p->mult[cls] : 1;
}

/* A cell's box relative to the picture, from its raw entries. */
DEVICE struct rel
decode(const struct head_view *v, const float *z, int cell)
{
	int a = cell % v->a, q = cell / v->a, col = q % v->w, row = q / v->w % v->h;
	double k = v->k, w = v->aw[a] / v->in_w, h = v->ah[a] / v->in_h, s, t;
	struct rel b;

	b.x = (k * fn_sigmoid(z[0]) - (k - 1) / 2 + col) / v->w;
	b.y = (k * fn_sigmoid(z[1]) - (k - 1) / 2 + row) / v->h;
	if (v->square) {
		s = fn_sigmoid(z[2]);
		t = fn_sigmoid(z[3]);
		b.w = 4 * s * s * w;
		b.h = 4 * t * t * h;
	} else {
		b.w = exp((double)z[2]) * w;
		b.h = exp((double)z[3]) * h;
	}
	return b;
}

/* ---- overlap of a prediction with a truth, and darknet's slopes of it ---- */

struct edges {
	double pl, pt, pr, pb, tl, tt, tr, tb, iw, ih, cw, ch, inter, uni; /* inter: not clamped */
};

DEVICE struct edges
edges_of(struct rel p, struct rel t)
{
	struct edges m;

	m.pl = p.x - p.w / 2;
	m.pr = p.x + p.w / 2;
	m.pt = p.y - p.h / 2;
	m.pb = p.y + p.h / 2;
	m.tl = t.x - t.w / 2;
	m.tr = t.x + t.w / 2;
	m.tt = t.y - t.h / 2;
	m.tb = t.y + t.h / 2;
	m.iw = fmin(m.pr, m.tr) - fmax(m.pl, m.tl);
	m.ih = fmin(m.pb, m.tb) - fmax(m.pt, m.tt);
	m.cw = fmax(m.pr, m.tr) - fmin(m.pl, m.tl);
	m.ch = fmax(m.pb, m.tb) - fmin(m.pt, m.tt);
	m.inter = m.iw * m.ih;
	m.uni = p.w * p.h + t.w * t.h - m.inter;
	return m;
}

/* IoU, and GIoU where that is the loss, as darknet reports them. */
DEVICE double
report(struct rel p, struct rel t, int giou, double *iou)
{
	struct edges m = edges_of(p, t);
	double i = m.iw > 0 && m.ih > 0 ? m.inter : 0, u = p.w * p.h + t.w * t.h - i,
	    c = m.cw * m.ch;

	*iou = i > 0 && u > 0 ? i / u : 0;
	return giou && c > 0 ? *iou - (c - u) / c : *iou;
}

/* The terms that DIoU and CIoU add. */
DEVICE void
centre_slopes(struct rel p, struct rel t, const struct edges *m, int ciou, double q[4])
{
	const double pi = 3.14159265358979323846;
	double s = (p.x - t.x) * (p.x - t.x) + (p.y - t.y) * (p.y - t.y);
	double d = m->cw * m->cw + m->ch * m->ch, b, v, alpha;
	int l = m->pl < m->tl, u = m->pt < m->tt, r = m->pr > m->tr, o = m->pb > m->tb;

	q[0] = (2 * (t.x - p.x) * d - 2 * m->cw * (r - l) * s) / (d * d);
	q[1] = (2 * (t.y - p.y) * d - 2 * m->ch * (o - u) * s) / (d * d);
	q[2] = m->cw * (r + l) * s / (d * d);
	q[3] = m->ch * (o + u) * s / (d * d);
	if (!ciou)
		return;
	b = atan(t.w / t.h) - atan(p.w / p.h);
	v = 4 / (pi * pi) * b * b;
	alpha = v / (1 - m->inter / m->uni + v + 1e-6);
	q[2] += alpha * 8 / (pi * pi) * b * p.h;
	q[3] -= alpha * 8 / (pi * pi) * b * p.w;
}

DEVICE void
slopes(struct rel p, struct rel t, int kind, double g[4])
{
	struct edges m;
	double e[4], da[4], di[4], c, dc[4], q[4];
	int apart;

	p.w = p.w == 0 ? 1 : p.w;
	p.h = p.h == 0 ? 1 : p.h;
	m = edges_of(p, t);
	apart = m.iw <= 0 || m.ih <= 0;
	c = m.cw * m.ch;
	da[0] = -p.h, da[1] = -p.w, da[2] = p.h, da[3] = p.w;
	di[0] = m.pl > m.tl ? -m.ih : 0, di[1] = m.pt > m.tt ? -m.iw : 0;
	di[2] = m.pr < m.tr ? m.ih : 0, di[3] = m.pb < m.tb ? m.iw : 0;
	dc[0] = m.pl < m.tl ? -m.ch : 0, dc[1] = m.pt < m.tt ? -m.cw : 0;
	dc[2] = m.pr > m.tr ? m.ch : 0, dc[3] = m.pb > m.tb ? m.cw : 0;
	for (int k = 0; k < 4; k++) {
		double du = da[k] - di[k], z = (c * du - m.uni * dc[k]) / (c * c);

		e[k] = m.uni > 0 ? (m.uni * di[k] - m.inter * du) / (m.uni * m.uni) : 0;
		if (kind == IOU_GIOU)
			e[k] = apart ? z : e[k] + z;
	}
	g[0] = e[0] + e[2];
	g[1] = e[1] + e[3];
	g[2] = e[2] - e[0];		/* not halved, as in darknet */
	g[3] = e[3] - e[1];
	if (kind != IOU_DIOU && kind != IOU_CIOU)
		return;
	centre_slopes(p, t, &m, kind == IOU_CIOU, q);
	for (int k = 0; k < 4; k++)
		g[k] = apart ? q[k] : g[k] + q[k];
}

/* ---- deltas of one truth on one cell ---- */

DEVICE void
box_mse(const struct head_view *v, const float *z, int cell, struct rel t, double to[4])
{
	int a = cell % v->a, q = cell / v->a, col = q % v->w, row = q / v->w % v->h;
	double c = 2 - t.w * t.h, k = v->k, w = t.w * v->in_w / v->aw[a],
	    h = t.h * v->in_h / v->ah[a];

	to[0] = c * (t.x * v->w - col - (k * fn_sigmoid(z[0]) - (k - 1) / 2));
	to[1] = c * (t.y * v->h - row - (k * fn_sigmoid(z[1]) - (k - 1) / 2));
	to[2] = c * (v->square ? sqrt(w / 4) - fn_sigmoid(z[2]) : log(w) - z[2]);
	to[3] = c * (v->square ? sqrt(h / 4) - fn_sigmoid(z[3]) : log(h) - z[3]);
}

DEVICE void
box_delta(const struct dark *p, const struct head_view *v, int cell, struct rel t, double gain)
{
	const float *z = v->raw + cell * (v->c + 5);
	float *d = v->grad + cell * (v->c + 5);
	double to[4];

	if (!p->extended || p->iou == IOU_MSE)
		box_mse(v, z, cell, t, to);
	else {
		slopes(decode(v, z, cell), t, p->iou, to);
		if (!v->square) {
			to[2] *= exp((double)z[2]);
			to[3] *= exp((double)z[3]);
		}
	}
	for (int k = 0; k < 4; k++) {
		double x = gain * to[k];

		if (!p->extended) {
			d[k] = (float)x;
			continue;
		}
		if (p->iou != IOU_MSE) {
			x = x - x == 0 ? x : 0;
			x = fmin(fmax(x, -p->max_delta), p->max_delta);
		}
		d[k] += (float)x;
	}
}

/* z, d: the classes' entries. */
DEVICE void
class_delta(const struct dark *p, const float *z, float *d, int c, int cls)
{
	double o = fn_sigmoid(z[cls]), m = mult(p, cls), f = 1;

	if (d[p->extended ? cls : 0] != 0) {
		d[cls] = (float)((1 - p->eps / 2 - o) * m);
		return;
	}
	if (p->focal) {
		o += 1e-15;
		f = -.5 * (1 - o) * (2 * o * log(o) + o - 1);
	}
	for (int j = 0; j < c; j++) {
		double y = j == cls, s = fn_sigmoid(z[j]);

		if (p->focal)
			d[j] = (float)((y - s) * f);
		else
			d[j] = (float)(y * (1 - p->eps) + p->eps / 2 - s);
	}
	if (p->counters && !p->focal)
		d[cls] = (float)((1 - p->eps + p->eps / 2 - fn_sigmoid(z[cls])) * m * p->cls);
}

/* Step 3 and the squares of a cell's boxes and classes; then the sign and the slope of a logistic
 * that the convolution has. */
DEVICE void
close_cell(const struct dark *p, const struct head_view *v, const float *z, float *d, double sq[3])
{
	int n = 0;

	for (int j = 0; j < v->c && p->divide && d[4] != 0; j++)
		n += d[5 + j] > 0;
	for (int k = 0; k < 4; k++) {
		if (n)
			d[k] /= (float)n;
		sq[k / 2] += (double)d[k] * d[k];
	}
	for (int j = 0; j < v->c; j++)
		sq[2] += (double)d[5 + j] * d[5 + j];
	for (int k = 0; k < v->c + 5; k++)
		if (k != 4)
			d[k] *= (float)-p->factor * (v->square ?
			    fn_logistic(z[k]) * fn_logistic(-z[k]) : 1);
}

/* ---- kernels ---- */

/* Above truth_thresh a plain cell learns that truth, whichever anchor is its best. */
DEVICE void
learn(const struct dark *p, const struct head_view *v, int cell, const struct fn_lists *t, int i,
    double best)
{
	const float *e = t->edge + i, *z = v->raw + cell * (v->c + 5);
	float *d = v->grad + cell * (v->c + 5);
	struct rel b = { e[5 * t->n], e[6 * t->n], e[7 * t->n], e[8 * t->n] };
	int cls = (int)e[9 * t->n];

	d[4] = (float)(p->obj * ((p->smooth ? best * best : 1) - fn_sigmoid(z[4])));
	class_delta(p, z + 5, d + 5, v->c, cls);
	if (p->smooth)
		d[5 + cls] = (float)(mult(p, cls) * (best * best - fn_sigmoid(z[5 + cls])));
	box_delta(p, v, cell, b, p->extended ? p->iou_n * mult(p, cls) : 1);
}

/* The extended layer ignores a cell only if one of its classes is above 0.25. */
DEVICE int
has_class(const float *z, int c)
{
	for (int j = 0; j < c; j++)
		if (fn_logistic(z[j]) > .25f)
			return 1;
	return 0;
}

KERNEL
ignore_k(struct head_view v, struct dark p, int n, const int *start, const float *edge,
    unsigned char *state)
{
	EACH (cell, fn_boxes(&v)) {
		int b = cell / (v.h * v.w * v.a), at = cell * (v.c + 5), s = 0;
		const float *z = v.raw + at;
		float *d = v.grad + at;
		struct fn_lists t = { edge, n, start[b], start[b + 1] };
		float o = fn_logistic(z[4]), delta = (float)-p.obj * o, best = 0, box[4];

		fn_decode(&v, cell, box);
		if (t.from < t.to)
			best = fn_best_iou(&t, box);
		if (best > p.ignore && (!p.extended || has_class(z + 5, v.c))) {
			s = 1;
			delta = p.smooth ? fmaxf(delta, (float)p.obj * (best - o)) : 0;
		}
		d[4] = delta;
		if (best > p.truth) {
			s = 2;
			learn(&p, &v, cell, &t, fn_best_truth(&t, box), best);
		}
		if (state)
			state[cell] = (unsigned char)s;
	}
}

KERNEL
assign_k(struct head_view v, struct dark p, struct loss_groups q, double *part)
{
	EACH (i, q.n) {
		const struct loss_row *row = q.row;
		int cell = row[q.first[i]].cell, at = cell * (v.c + 5);
		const float *z = v.raw + at;
		float *d = v.grad + at;
		struct rel b = decode(&v, z, cell);
		double sum[LOSS_PARTS] = { 0 }, o = fn_sigmoid(z[4]);

		for (int k = q.first[i]; k < q.first[i + 1]; k++) {
			struct rel t = { row[k].x, row[k].y, row[k].w, row[k].h };
			double m = mult(&p, row[k].cls), iou;

			sum[PART_COST] += 1 - report(b, t, p.iou == IOU_GIOU, &iou);
			box_delta(&p, &v, cell, t, p.extended ? p.iou_n * m : 1);
			if (!p.smooth || d[4] == 0)
				d[4] = (float)(m * p.obj * (1 - o));
			class_delta(&p, z + 5, d + 5, v.c, row[k].cls);
			sum[PART_COUNT] += 1;
			sum[PART_IOU] += iou;
			sum[PART_STAT_CLS] += fn_sigmoid(z[5 + row[k].cls]);
			sum[PART_STAT_OBJ] += o;
			sum[PART_R50] += iou > .5;
			sum[PART_R75] += iou > .75;
		}
		if (!p.full)
			close_cell(&p, &v, z, d, sum);
		for (int k = 0; k < LOSS_PARTS; k++)
			part[k * q.n + i] = sum[k];
	}
}

/* part: [4][chunks], squares of xy, wh, classes, objectness. */
KERNEL
close_k(struct head_view v, struct dark p, double *part)
{
	int cells = fn_boxes(&v), chunk = fn_chunk(cells), chunks = fn_chunks(cells);

	ROWS (i, chunks) {
		int from = i * chunk, n = cells - from < chunk ? cells - from : chunk;
		double sum[4] = { 0 };

		LANES (j, n) {
			int at = (from + j) * (v.c + 5);
			const float *z = v.raw + at;
			float *d = v.grad + at, s = v.square ?
			    fn_logistic(z[4]) * fn_logistic(-z[4]) : 1;

			if (p.full)
				close_cell(&p, &v, z, d, sum);
			sum[3] += (double)d[4] * d[4];
			d[4] *= (float)-p.factor * s;
		}
		for (int k = 0; k < 4; k++) {
			double x = row_sum(sum[k]);

			LEAD
				part[k * chunks + i] = x;
		}
	}
}

/* ---- host ---- */

static struct dark
rules(const struct loss *s, int h)
{
	const struct def_yolo *y = s->head[h].yolo;
	struct dark p = { 0, IOU_MSE, 0, 0, 0, 0, 0, y->ignore_thresh, y->truth_thresh, 1, 1, 1, 0,
	    0, 1, NULL };

	p.full = y->truth_thresh < 1;
	if (s->kind == LOSS_DARKNET)
		return p;
	p.extended = 1;
	p.iou = y->iou_loss;
	p.smooth = y->objectness_smooth;
	p.focal = y->focal;
	p.counters = y->counters;
	p.divide = y->iou_thresh < 1;
	p.obj = y->obj_normalizer;
	p.iou_n = y->iou_normalizer;
	p.cls = y->cls_normalizer;
	p.max_delta = y->max_delta > 0 ? y->max_delta : HUGE_VAL;
	p.eps = y->label_smooth;
	p.factor = y->delta_normalizer;
	return p;
}

enum { SUMS = LOSS_PARTS + 4 };		/* of a head */

static void
run_head(struct dev *d, const struct loss *s, int h, const struct loss_area *a,
    struct loss_sums *sums)
{
	struct loss_groups q = loss_groups(a, h);
	int chunks;
	struct dark p = rules(s, h);
	double *part, *chunk;
	struct head_view v;

	loss_view(s, h, &v);
	d->ops->zero(d, v.grad, (size_t)fn_boxes(&v) * (v.c + 5) * sizeof *v.grad);
	part = a->part + loss_sums_add(sums, q.n);
	for (int k = 1; k < LOSS_PARTS; k++)
		loss_sums_add(sums, q.n);
	chunks = fn_chunks(fn_boxes(&v));
	chunk = a->part + loss_sums_add(sums, chunks);
	for (int k = 1; k < 4; k++)
		loss_sums_add(sums, chunks);
	if (s->head[h].region) {
		BACKEND(region_head)(d, s, h, a, part, chunk);
		return;
	}
	p.mult = p.counters ? a->mult[h] : NULL;
	RUN(d, ignore_k, fn_boxes(&v), v, p, a->lists[h], a->start[h], a->edge[h],
	    s->head[h].state);
	RUN(d, assign_k, q.n, v, p, q, part);
	RUNROWS(d, close_k, chunks, v, p, chunk);
}

/* v: the sums of a head. */
static void
add_terms(const struct loss *s, int h, const double *v, double term[LOSS_TERMS])
{
	struct dark p = rules(s, h);
	double box = v[PART_XY] + v[LOSS_PARTS], wh = v[PART_WH] + v[LOSS_PARTS + 1];
	double cls = v[PART_CLS] + v[LOSS_PARTS + 2], obj = v[LOSS_PARTS + 3];

	term[TERM_BOX] += box;
	term[TERM_WH] += wh;
	term[TERM_CLS] += cls;
	term[TERM_OBJ] += obj;
	for (int k = PART_COUNT; k <= PART_R75; k++)
		term[TERM_COUNT + k - PART_COUNT] += v[k];
	if (!p.extended || p.iou == IOU_MSE || !s->head[h].yolo->show_details || s->head[h].region)
		term[TERM_TOTAL] += box + wh + cls + obj;
	else
		term[TERM_TOTAL] += p.obj * (obj + cls) +
		    (s->count[h] > 0 ? p.iou_n * v[PART_COST] / s->count[h] : 0);
}

static void
run(struct dev *d, const struct loss *s, const struct truth *truth, int ntruth,
    double term[][LOSS_TERMS], void *ws)
{
	struct loss_sums sums = { 0, { 0 }, { 0 }, 0 };
	double sum[LOSS_SUMS];
	struct loss_area a;

	loss_upload(d, s, truth, ntruth, ws, &a);
	for (int h = 0; h < s->nhead; h++)
		run_head(d, s, h, &a, &sums);
	BACKEND(loss_sum)(d, &sums, &a, sum);
	for (int h = 0; h < s->nhead; h++)
		add_terms(s, h, sum + h * SUMS, term[h]);
}

#ifdef __cplusplus
extern "C"
#endif
const struct loss_ops BACKEND(darkloss) = { loss_workspace, assign_count, run };
