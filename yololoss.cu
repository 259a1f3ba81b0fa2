/* yololoss.cu -- losses that are means: ultralytics' of 2019, its multi_gpu branch, its archive,
 * and ciou.  Formulas: golden/loss/README.md.
 *
 * The gradient is zeroed; a kernel over the cells that carry truth writes box and class entries and
 * leaves the objectness target in the objectness entry (0 elsewhere); a pass over all cells turns
 * that target into loss and gradient in place.  So one strided pass is all that depends on the
 * number of cells, and no map of targets is needed.
 *
 * What carries truth is computed in double: it is little, and nothing cancels there. */
#include "kernel/dev.h"
#include "loss/int.h"

/* What a head's terms are multiplied by: the gain over what the mean is taken of. */
struct gains { double xy, wh, box, cls, obj; };
struct kind {			/* of the box losses */
	int ciou, focal_on;
	double gr, smooth, cls_pw, obj_pw, focal, alpha;
};

/* Binary cross-entropy (1-y) softplus(z) + q y softplus(-z): a sum of what is positive. */
DEVICE float
bce(float z, float y, float q, float *slope)
{
	float e = expf(-fabsf(z)), l = log1pf(e);
	float s = z >= 0 ? 1 / (1 + e) : e / (1 + e), t = z >= 0 ? e / (1 + e) : 1 / (1 + e);

	*slope = (1 - y) * s - q * y * t;
	return (1 - y) * ((z > 0 ? z : 0) + l) + q * y * ((z < 0 ? -z : 0) + l);
}

/* Focal loss A (1-u)^g BCE; 1 - u is summed from s(z) and s(-z), without a difference. */
DEVICE float
focal(float z, float y, float g, float alpha, float *slope)
{
	float s = fn_logistic(z), t = fn_logistic(-z), v = y * t + (1 - y) * s, d;
	float b = bce(z, y, 1, &d), a = alpha * y + (1 - alpha) * (1 - y), m = powf(v, g);

	*slope = a * (m * d - (v > 0 ? g * m / v * (2 * y - 1) * s * t * b : 0));
	return a * m * b;
}

DEVICE float
element(const struct kind *r, float z, float y, float q, float *slope)
{
	return r->focal_on ? focal(z, y, (float)r->focal, (float)r->alpha, slope) :
	    bce(z, y, q, slope);
}

/* ---- squared errors and softmax: 2019, multi ---- */

DEVICE double
softmax_row(const float *z, float *d, int c, int cls, double gain)
{
	double top = z[0], sum = 0;

	for (int j = 1; j < c; j++)
		top = z[j] > top ? z[j] : top;
	for (int j = 0; j < c; j++)
		sum += exp(z[j] - top);
	for (int j = 0; j < c; j++)
		d[j] += (float)(gain * (exp(z[j] - top) / sum - (j == cls)));
	return log(sum) + top - z[cls];
}

/* part: [3][groups]. */
KERNEL
square_k(struct head_view v, struct loss_groups q, struct gains g, double *part)
{
	EACH (i, q.n) {
		const struct loss_row *row = q.row;
		int at = row[q.first[i]].cell * (v.c + 5);
		const float *z = v.raw + at;
		float *d = v.grad + at;
		double xy = 0, wh = 0, cls = 0, sx = fn_sigmoid(z[0]), sy = fn_sigmoid(z[1]);

		for (int k = q.first[i]; k < q.first[i + 1]; k++) {
			double x = sx - row[k].x, y = sy - row[k].y, w = z[2] - row[k].w,
			    h = z[3] - row[k].h;

			xy += x * x + y * y;
			wh += w * w + h * h;
			d[0] += (float)(2 * g.xy * x * sx * (1 - sx));
			d[1] += (float)(2 * g.xy * y * sy * (1 - sy));
			d[2] += (float)(2 * g.wh * w);
			d[3] += (float)(2 * g.wh * h);
			if (v.c > 1)
				cls += softmax_row(z + 5, d + 5, v.c, row[k].cls, g.cls);
		}
		d[4] = 1;
		part[i] = xy;
		part[q.n + i] = wh;
		part[2 * q.n + i] = cls;
	}
}

/* ---- IoU losses: archive, ciou ---- */

struct rect { double x, y, w, h; };
/* Overlap and hull of p and t with slopes by p's x y w h. */
struct hull { double i, cw, ch, di[4], dcw[4], dch[4]; };

/* The same along an axis, slopes by the centre and by the side. */
struct side { double in, hull, din[2], dhull[2]; };

DEVICE struct side
hull_side(double p, double pw, double t, double tw)
{
	double pl = p - pw / 2, pr = p + pw / 2, tl = t - tw / 2, tr = t + tw / 2;
	struct side s;

	s.in = fmin(pr, tr) - fmax(pl, tl);
	s.hull = fmax(pr, tr) - fmin(pl, tl);
	s.din[0] = (pr < tr) - (pl > tl);
	s.din[1] = ((pr < tr) + (pl > tl)) / 2.;
	s.dhull[0] = (pr > tr) - (pl < tl);
	s.dhull[1] = ((pr > tr) + (pl < tl)) / 2.;
	return s;
}

DEVICE struct hull
hull_of(struct rect p, struct rect t)
{
	struct hull m = { 0, 0, 0, { 0 }, { 0 }, { 0 } };
	struct side x = hull_side(p.x, p.w, t.x, t.w), y = hull_side(p.y, p.h, t.y, t.h);

	m.cw = x.hull;
	m.ch = y.hull;
	m.dcw[0] = x.dhull[0];
	m.dcw[2] = x.dhull[1];
	m.dch[1] = y.dhull[0];
	m.dch[3] = y.dhull[1];
	if (x.in < 0 || y.in < 0)
		return m;
	m.i = x.in * y.in;
	m.di[0] = y.in * x.din[0];
	m.di[1] = x.in * y.din[0];
	m.di[2] = y.in * x.din[1];
	m.di[3] = x.in * y.din[1];
	return m;
}

DEVICE double
giou(struct rect p, struct rect t, double d[4])
{
	struct hull m = hull_of(p, t);
	double da[4] = { 0, 0, p.h, p.w }, eps = 1e-16;
	double u = p.w * p.h + t.w * t.h - m.i + eps, c = m.cw * m.ch + eps;

	for (int k = 0; k < 4; k++) {
		double du = da[k] - m.di[k], dc = m.dcw[k] * m.ch + m.cw * m.dch[k];

		d[k] = (m.di[k] * u - m.i * du) / (u * u) + (du * c - u * dc) / (c * c);
	}
	return m.i / u - (c - u) / c;
}

DEVICE double
ciou(struct rect p, struct rect t, double d[4])
{
	const double pi = 3.14159265358979323846, eps = 1e-7;
	struct hull m = hull_of(p, t);
	double da[4] = { 0, 0, p.h, p.w }, ds[4] = { 2 * (p.x - t.x), 2 * (p.y - t.y), 0, 0 };
	double u = p.w * p.h + t.w * t.h - m.i + eps, q = m.cw * m.cw + m.ch * m.ch + eps;
	double s = (p.x - t.x) * (p.x - t.x) + (p.y - t.y) * (p.y - t.y);
	double b = atan(t.w / t.h) - atan(p.w / p.h), v = 4 / (pi * pi) * b * b, iou = m.i / u;
	double alpha = v / (v - iou + 1 + eps), f = 8 / (pi * pi) * b / (p.w * p.w + p.h * p.h);
	double dv[4] = { 0, 0, -f * p.h, f * p.w };

	for (int k = 0; k < 4; k++) {
		double du = da[k] - m.di[k], dq = 2 * m.cw * m.dcw[k] + 2 * m.ch * m.dch[k];

		d[k] = (m.di[k] * u - m.i * du) / (u * u) - (ds[k] * q - s * dq) / (q * q) -
		    alpha * dv[k];
	}
	return iou - s / q - alpha * v;
}

/* The predicted box in cells, relative to its cell, and its slopes by the raw entries. */
DEVICE struct rect
predict(const struct head_view *v, const float *z, int a, int square, double d[4])
{
	double s[4], aw = v->aw[a] * (double)v->w / v->in_w, ah = v->ah[a] * (double)v->h / v->in_h;
	struct rect p;

	for (int k = 0; k < (square ? 4 : 2); k++)
		s[k] = fn_sigmoid(z[k]);
	if (square) {
		p.x = 2 * s[0] - .5;
		p.y = 2 * s[1] - .5;
		p.w = 4 * s[2] * s[2] * aw;
		p.h = 4 * s[3] * s[3] * ah;
		d[2] = 2 * p.w * (1 - s[2]);
		d[3] = 2 * p.h * (1 - s[3]);
	} else {
		double w = exp((double)z[2]), h = exp((double)z[3]);

		p.x = s[0];
		p.y = s[1];
		p.w = fmin(w, 1000.0) * aw;	/* the factor is limited, before the anchor */
		p.h = fmin(h, 1000.0) * ah;
		d[2] = w <= 1000 ? p.w : 0;
		d[3] = h <= 1000 ? p.h : 0;
	}
	d[0] = (square ? 2 : 1) * s[0] * (1 - s[0]);
	d[1] = (square ? 2 : 1) * s[1] * (1 - s[1]);
	return p;
}

DEVICE double
class_row(const struct kind *r, const float *z, float *d, int c, int cls, double gain)
{
	float on = (float)(1 - r->smooth / 2), off = (float)(r->smooth / 2), slope;
	double sum = 0;

	for (int j = 0; j < c; j++) {
		sum += element(r, z[j], j == cls ? on : off, (float)r->cls_pw, &slope);
		d[j] += (float)gain * slope;
	}
	return sum;
}

/* part: [2][groups]; mult: weights of the classes, or NULL.  Where truths share a cell, archive
 * keeps the last objectness target, ciou the largest. */
KERNEL
box_k(struct head_view v, struct loss_groups q, struct kind r, struct gains g, const float *mult,
    double *part)
{
	EACH (i, q.n) {
		const struct loss_row *row = q.row;
		int cell = row[q.first[i]].cell, at = cell * (v.c + 5);
		const float *z = v.raw + at;
		float *d = v.grad + at;
		double by[4], slope[4], box = 0, cls = 0, target = 0;
		struct rect p = predict(&v, z, cell % v.a, r.ciou, by);

		for (int k = q.first[i]; k < q.first[i + 1]; k++) {
			struct rect t = { row[k].x, row[k].y, row[k].w, row[k].h };
			double iou = r.ciou ? ciou(p, t, slope) : giou(p, t, slope);
			double y = 1 - r.gr + r.gr * fmax(iou, 0.0), m = mult ?
			    mult[row[k].cls] : 1;

			box += 1 - iou;
			target = !r.ciou || y > target || k == q.first[i] ? y : target;
			for (int e = 0; e < 4; e++)
				d[e] -= (float)(g.box * slope[e] * by[e]);
			if (v.c > 1)
				cls += m * class_row(&r, z + 5, d + 5, v.c, row[k].cls, m * g.cls);
		}
		d[4] = (float)target;
		part[i] = box;
		part[q.n + i] = cls;
	}
}

/* ---- objectness, all flavours ---- */

KERNEL
obj_k(struct head_view v, struct kind r, float gain, double *part)
{
	int cells = fn_boxes(&v), len = v.c + 5, chunk = fn_chunk(cells);

	ROWS (i, fn_chunks(cells)) {
		int from = i * chunk, n = cells - from < chunk ? cells - from : chunk;
		double sum = 0;

		LANES (j, n) {
			int at = (from + j) * len + 4;
			float slope;

			sum += element(&r, v.raw[at], v.grad[at], (float)r.obj_pw, &slope);
			v.grad[at] = gain * slope;
		}
		sum = row_sum(sum);
		LEAD
			part[i] = sum;
	}
}

static double
over(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* Cells of an image that a mean of objectness is taken of. */
static double
cells(const struct loss *s, int h)
{
	const struct loss_head *p = &s->head[h];

	return s->kind == LOSS_MULTI ? loss_rows(s) : (double)p->h * p->w * p->nmask;
}

/* Squared errors of s(tx), s(ty), tw, th; the others lose by IoU. */
static int
is_square(const struct loss *s)
{
	return s->kind == LOSS_ULTRA2019 || s->kind == LOSS_MULTI;
}

static struct gains
gains_of(const struct loss *s, int h)
{
	double n = s->count[s->kind == LOSS_MULTI ? 0 : h], obj = s->images * cells(s, h);
	struct gains g = { 0, 0, 0, 0, 0 };

	if (is_square(s)) {
		g.xy = over(s->k * s->gain_xy, 2 * n);
		g.wh = over(s->k * s->gain_wh, 2 * n);
		g.cls = over(s->k * s->gain_cls, n);
		g.obj = over(s->k * s->gain_conf, obj);
		return g;
	}
	g.box = over(s->gain_box, n);
	g.cls = over(s->gain_cls * (s->kind == LOSS_ARCHIVE ? s->classes / 80. : 1),
	    n * s->classes);
	g.obj = over(s->gain_obj * (s->kind == LOSS_CIOU ? s->balance[h] : 1), obj);
	return g;
}

static struct kind
rule_of(const struct loss *s)
{
	struct kind r;

	memset(&r, 0, sizeof r);
	r.ciou = s->kind == LOSS_CIOU;
	r.gr = r.cls_pw = r.obj_pw = 1;
	if (r.ciou || s->kind == LOSS_ARCHIVE) {
		r.gr = s->gr;
		r.focal_on = s->focal_gamma > 0;
		r.focal = s->focal_gamma;
		r.alpha = s->focal_alpha;
		r.smooth = s->label_smooth;
		r.cls_pw = s->cls_pw;
		r.obj_pw = s->obj_pw;
	}
	return r;
}

/* Queue a head's kernels; its sums are reserved in the order of add_terms(). */
static void
run_head(struct dev *d, const struct loss *s, int h, const struct loss_area *a,
    struct loss_sums *sums)
{
	struct loss_groups q = loss_groups(a, h);
	int chunks;
	struct gains g = gains_of(s, h);
	struct kind r = rule_of(s);
	struct head_view v;
	double *part;

	loss_view(s, h, &v);
	d->ops->zero(d, v.grad, (size_t)fn_boxes(&v) * (v.c + 5) * sizeof *v.grad);
	part = a->part + loss_sums_add(sums, q.n);
	loss_sums_add(sums, q.n);
	if (is_square(s)) {
		loss_sums_add(sums, q.n);
		RUN(d, square_k, q.n, v, q, g, part);
	} else
		RUN(d, box_k, q.n, v, q, r, g, a->mult[0], part);
	chunks = fn_chunks(fn_boxes(&v));
	part = a->part + loss_sums_add(sums, chunks);
	RUNROWS(d, obj_k, chunks, v, r, (float)g.obj, part);
}

static void
add_terms(const struct loss *s, int h, const double **sum, double term[LOSS_TERMS])
{
	struct gains g = gains_of(s, h);
	double v[5] = { 0 };
	int square = is_square(s);

	v[TERM_BOX] = *(*sum)++ * (square ? g.xy : g.box);
	if (square)
		v[TERM_WH] = *(*sum)++ * g.wh;
	v[TERM_CLS] = *(*sum)++ * g.cls;
	v[TERM_OBJ] = *(*sum)++ * g.obj;
	for (int k = 1; k < 5; k++) {
		term[k] += v[k];
		term[TERM_TOTAL] += v[k];
	}
}

static void
run(struct dev *d, const struct loss *s, const struct truth *truth, int ntruth,
    double term[][LOSS_TERMS], void *ws)
{
	double sum[LOSS_SUMS];
	const double *next = sum;
	struct loss_sums sums = { 0, { 0 }, { 0 }, 0 };
	struct loss_area a;

	loss_upload(d, s, truth, ntruth, ws, &a);
	for (int h = 0; h < s->nhead; h++)
		run_head(d, s, h, &a, &sums);
	BACKEND(loss_sum)(d, &sums, &a, sum);
	for (int h = 0; h < s->nhead; h++)
		add_terms(s, h, &next, term[h]);
}

#ifdef __cplusplus
extern "C"
#endif
const struct loss_ops BACKEND(yololoss) = { loss_workspace, assign_count, run };
