/* regionloss.cu -- darknet's [region] loss (YOLOv2), the newer of its two forms.
 *
 * As in darkloss.cu a layer fills `delta`, minus what backpropagation receives.  All anchors of the
 * list belong to the one head, in cells.  Which of them a truth gets is decided by the predicted
 * sizes (bias_match: by the anchors), so truths are grouped by cell and the kernel chooses.  During
 * the first 12800 images every box is pulled a little to its anchor at the middle of its cell. */
#include "kernel/dev.h"
#include "loss/int.h"

enum { WARM = 12800 };
struct region {
	int match, rescore, background, softmax, warm;
	double thresh, coord, object, noobject, cls;
};

DEVICE double
shape_iou(double w1, double h1, double w2, double h2)
{
	double inter = fmin(w1, w2) * fmin(h1, h2);

	return inter / (w1 * h1 + w2 * h2 - inter);
}

KERNEL
ignore_k(struct head_view v, struct region p, int n, const int *start, const float *edge,
    unsigned char *state)
{
	EACH (cell, fn_boxes(&v)) {
		int b = cell / (v.h * v.w * v.a), at = cell * (v.c + 5), over;
		const float *z = v.raw + at;
		float *d = v.grad + at;
		struct fn_lists t = { edge, n, start[b], start[b + 1] };
		float box[4];

		fn_decode(&v, cell, box);
		over = fn_best_iou(&t, box) > p.thresh;
		d[4] = over ? 0 : (float)(p.noobject * ((p.background ? 1 : 0) - fn_sigmoid(z[4])));
		if (p.warm) {
			d[0] = (float)(.01 * (.5 - fn_sigmoid(z[0])));
			d[1] = (float)(.01 * (.5 - fn_sigmoid(z[1])));
			d[2] = -.01f * z[2];
			d[3] = -.01f * z[3];
		}
		if (state)
			state[cell] = (unsigned char)over;
	}
}

/* Class deltas towards cls.  With softmax the later truth of a cell wins; logistic classes keep the
 * earlier ones' targets too, told by the delta of class 0. */
DEVICE void
classes(const struct region *p, const float *z, float *d, int c, int cls)
{
	double top = z[0], sum = 0;

	if (!p->softmax && d[0] != 0) {
		d[cls] = (float)(p->cls * (1 - fn_sigmoid(z[cls])));
		return;
	}
	for (int j = 1; j < c; j++)
		top = z[j] > top ? z[j] : top;
	for (int j = 0; j < c && p->softmax; j++)
		sum += exp(z[j] - top);
	for (int j = 0; j < c; j++)
		d[j] = (float)(p->cls * ((j == cls) -
		    (p->softmax ? exp(z[j] - top) / sum : fn_sigmoid(z[j]))));
}

/* The anchor whose box has the truth's shape best; z: of the cell's first anchor. */
DEVICE int
best_anchor(const struct head_view *v, const struct region *p, const float *z, double w, double h)
{
	double best = 0;
	int at = 0;

	for (int a = 0; a < v->a; a++) {
		const float *q = z + a * (v->c + 5);
		double pw = v->aw[a] / v->in_w * (p->match ? 1 : exp((double)q[2]));
		double ph = v->ah[a] / v->in_h * (p->match ? 1 : exp((double)q[3]));
		double iou = shape_iou(pw, ph, w, h);

		if (iou > best) {
			best = iou;
			at = a;
		}
	}
	return at;
}

/* One truth on a cell's anchor; returns the IoU of that box with it. */
DEVICE double
assign(const struct head_view *v, const struct region *p, const struct loss_row *r, int cell)
{
	int a = cell % v->a, q = cell / v->a, col = q % v->w, row = q / v->w % v->h;
	const float *z = v->raw + cell * (v->c + 5);
	float *d = v->grad + cell * (v->c + 5);
	double c = p->coord * (2 - r->w * r->h), sx = fn_sigmoid(z[0]), sy = fn_sigmoid(z[1]);
	double aw = v->aw[a] / v->in_w, ah = v->ah[a] / v->in_h;
	double x = (sx + col) / v->w, y = (sy + row) / v->h;
	double w = exp((double)z[2]) * aw, h = exp((double)z[3]) * ah;
	double iw = fmin(x + w / 2, r->x + r->w / 2) - fmax(x - w / 2, r->x - r->w / 2);
	double ih = fmin(y + h / 2, r->y + r->h / 2) - fmax(y - h / 2, r->y - r->h / 2);
	double inter = iw > 0 && ih > 0 ? iw * ih : 0, u = w * h + r->w * r->h - inter;
	double iou = u > 0 ? inter / u : 0, want = p->background ? 0 : p->rescore ? iou : 1;

	d[0] = (float)(c * (r->x * v->w - col - sx));
	d[1] = (float)(c * (r->y * v->h - row - sy));
	d[2] = (float)(c * (log(r->w / aw) - z[2]));
	d[3] = (float)(c * (log(r->h / ah) - z[3]));
	d[4] = (float)(p->object * (want - fn_sigmoid(z[4])));
	classes(p, z + 5, d + 5, v->c, r->cls);
	return iou;
}

/* part: [LOSS_PARTS][groups]; squares come from the closing pass. */
KERNEL
assign_k(struct head_view v, struct region p, struct loss_groups q, double *part)
{
	EACH (i, q.n) {
		const struct loss_row *row = q.row;
		int cell = row[q.first[i]].cell;
		double sum[LOSS_PARTS] = { 0 };

		for (int k = q.first[i]; k < q.first[i + 1]; k++) {
			int a = best_anchor(&v, &p, v.raw + cell * (v.c + 5), row[k].w, row[k].h);
			int at = (cell + a) * (v.c + 5);
			double iou = assign(&v, &p, &row[k], cell + a);

			sum[PART_COUNT] += 1;
			sum[PART_IOU] += iou;
			sum[PART_STAT_OBJ] += fn_sigmoid(v.raw[at + 4]);
			sum[PART_R50] += iou > .5;
			sum[PART_R75] += iou > .75;
		}
		for (int k = 0; k < LOSS_PARTS; k++)
			part[k * q.n + i] = sum[k];
	}
}

/* chunk: [4][chunks], squares of xy, wh, classes, objectness. */
KERNEL
close_k(struct head_view v, double *chunk)
{
	int len = v.c + 5, all = fn_boxes(&v), size = fn_chunk(all),
	    chunks = fn_chunks(all);

	ROWS (i, chunks) {
		int from = i * size, n = all - from < size ? all - from : size;
		double sum[4] = { 0 };

		LANES (j, n * len) {
			int at = from * len + j, e = j % len;

			sum[e < 4 ? e / 2 : e == 4 ? 3 : 2] += (double)v.grad[at] * v.grad[at];
			v.grad[at] = -v.grad[at];
		}
		for (int k = 0; k < 4; k++) {
			double x = row_sum(sum[k]);

			LEAD
				chunk[k * chunks + i] = x;
		}
	}
}

#ifdef __cplusplus
extern "C"
#endif
void
BACKEND(region_head)(struct dev *d, const struct loss *s, int head, const struct loss_area *a,
    double *part, double *chunk)
{
	const struct def_yolo *y = s->head[head].yolo;
	struct loss_groups q = loss_groups(a, head);
	struct head_view v;
	struct region p;

	p.match = y->bias_match;
	p.rescore = y->rescore;
	p.background = y->background;
	p.softmax = y->softmax;
	p.warm = s->seen < WARM;
	p.thresh = y->thresh;
	p.coord = y->coord_scale;
	p.object = y->object_scale;
	p.noobject = y->noobject_scale;
	p.cls = y->class_scale;
	loss_view(s, head, &v);
	RUN(d, ignore_k, fn_boxes(&v), v, p, a->lists[head], a->start[head], a->edge[head],
	    s->head[head].state);
	RUN(d, assign_k, q.n, v, p, q, part);
	RUNROWS(d, close_k, fn_chunks(fn_boxes(&v)), v, chunk);
	(void)d;
}
