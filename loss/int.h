/* int.h -- truths on cells and the workspace on the device, for the losses. */
#ifndef LOSS_INT_H
#define LOSS_INT_H

#include "base/fn.h"
#include "loss/loss.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what the files of the losses share ---------------------------------------------------- */

/* What kernels want to know of a head, passed by value. */
struct head_view {
	int n, h, w, a, c;
	float in_w, in_h, k;		/* k: scale_x_y */
	int square;			/* sizes (2s)^2 instead of exp */
	float aw[MAX_MASK], ah[MAX_MASK];	/* anchors in pixels */
	const float *raw;
	float *grad;
};
void loss_view(const struct loss *, int head, struct head_view *);
void assign_count(struct loss *, const struct truth *, int ntruth);	/* loss_ops.count */

/* darknet's truth lists: at most max of each image, ending before the first x of exactly 0; indices
 * of usable ones by image, then file order.  start[n + 1] unless NULL: where image i's begin;
 * images from n on are left out.  n < 0: all images.  Returns their number. */
struct truth_lists { int n, *index, *start; };
int assign_lists(const struct loss *, int head, const struct truth *, int ntruth,
    struct truth_lists *);

/* The device workspace of run(), and sums of partial results in a fixed order. */
#define LOSS_CHUNKS 256	/* partial sums of a pass over all cells, whatever their number */
/* What a group of darknet's adds up; PART_COUNT .. PART_R75 in the order of TERM_COUNT on. */
enum { PART_XY, PART_WH, PART_CLS, PART_COUNT, PART_IOU, PART_STAT_CLS, PART_STAT_OBJ, PART_R50,
	PART_R75, PART_COST, LOSS_PARTS };	/* LOSS_PARTS: the most sums of a group */
struct loss_area {
	struct loss_row *row;
	int *first, group[MAX_HEADS + 1];	/* as in struct targets; group on the host */
	/* mult[0]: cls_weight.  darkloss: by head, truth lists (start[image], LOSS_LIST arrays of
	 * lists[h] floats: left top right bottom area, then x y w h class, relative) and
	 * multipliers of the classes */
	int *start[MAX_HEADS], lists[MAX_HEADS];
	float *edge[MAX_HEADS], *mult[MAX_HEADS];
	double *sum, *part;
	size_t upload, bytes;
};
#define LOSS_LIST 10
struct loss_groups { int n; const int *first; const struct loss_row *row; };	/* of a head */
struct loss_groups loss_groups(const struct loss_area *, int head);
size_t loss_workspace(const struct loss *, int max_truth);	/* loss_ops.workspace */
/* Assign, and put all that kernels need of the truth on the device, in one copy. */
void loss_upload(struct dev *, const struct loss *, const struct truth *, int ntruth, void *ws,
    struct loss_area *);
#define LOSS_SUMS (MAX_HEADS * 16)
struct loss_sums {			/* n sums of len[i] numbers from part[off[i]] */
	int n, off[LOSS_SUMS], len[LOSS_SUMS], next;
};
int loss_sums_add(struct loss_sums *, int len);	/* reserves them: the offset of the first */

/* ---- detection heads: formulas for kernels ------------------------------------------ */

DEVICE double
fn_sigmoid(double x)			/* for the few rows that carry truth: all digits */
{
	return 1 / (1 + exp(-x));
}

/* A cell's box in shares of the picture.  The losses decode what carries truth once more, in double
 * (darkloss's decode, yololoss's predict): slopes are taken there of differences that may cancel,
 * and predict limits exp as its flavour does. */
DEVICE void
fn_decode(const struct head_view *v, int cell, float box[4])
{
	const float *p = v->raw + cell * (v->c + 5);
	int a = cell % v->a, q = cell / v->a;

	box[0] = fn_centre(v->k, fn_logistic(p[0]), q % v->w, v->in_w / (float)v->w) / v->in_w;
	box[1] = fn_centre(v->k, fn_logistic(p[1]), q / v->w % v->h, v->in_h / (float)v->h) /
	    v->in_h;
	box[2] = fn_side(v->square, v->square ? fn_logistic(p[2]) : p[2], v->aw[a]) / v->in_w;
	box[3] = fn_side(v->square, v->square ? fn_logistic(p[3]) : p[3], v->ah[a]) / v->in_h;
}

/* Boxes of a head in all images of the batch: what a pass over all of it has to do. */
DEVICE int
fn_boxes(const struct head_view *v)
{
	return v->n * v->h * v->w * v->a;
}

/* Cells of a partial sum in a pass over all cells: at most LOSS_CHUNKS of them. */
DEVICE int
fn_chunk(int cells)
{
	int n = (cells + LOSS_CHUNKS - 1) / LOSS_CHUNKS;

	return n < 64 ? 64 : n;
}

DEVICE int
fn_chunks(int cells)
{
	return (cells + fn_chunk(cells) - 1) / fn_chunk(cells);
}

/* Truths of an image: arrays of n floats (LOSS_LIST), entries from..to-1 in use. */
struct fn_lists { const float *edge; int n, from, to; };

/* Selections instead of fminf: what a NaN becomes does not matter, and loops over them
 * vectorise. */
DEVICE float
fn_list_iou(const float *e, int n, int i, float l, float u, float r, float d, float area)
{
	float tl = e[i], tu = e[n + i], tr = e[2 * n + i], td = e[3 * n + i];
	float w = (r < tr ? r : tr) - (l > tl ? l : tl), h = (d < td ? d : td) - (u > tu ? u : tu);
	float inter = (w > 0 ? w : 0) * (h > 0 ? h : 0), uni = area + e[4 * n + i] - inter;

	return inter / (uni > 0 ? uni : 1) * (uni > 0 ? 1.f : 0.f);
}

/* Largest IoU of a box with an image's truths.  None is negative or NaN, so their bits order as
 * integers do, and compilers vectorise the largest of integers. */
DEVICE float
fn_best_iou(const struct fn_lists *t, const float box[4])
{
	float x = box[0], y = box[1], w = box[2], h = box[3];
	float l = x - w / 2, u = y - h / 2, r = x + w / 2, d = y + h / 2, iou;
	const float *e = t->edge;
	int n = t->n, best = 0;

	for (int i = t->from; i < t->to; i++) {
		union { float f; int i; } v = { fn_list_iou(e, n, i, l, u, r, d, w * h) };

		best = v.i > best ? v.i : best;
	}
	memcpy(&iou, &best, sizeof iou);
	return iou;
}

/* The first truth that has it. */
DEVICE int
fn_best_truth(const struct fn_lists *t, const float box[4])
{
	float x = box[0], y = box[1], w = box[2], h = box[3];
	float l = x - w / 2, u = y - h / 2, r = x + w / 2, d = y + h / 2, best = 0;
	int at = t->from;

	for (int i = t->from; i < t->to; i++) {
		float v = fn_list_iou(t->edge, t->n, i, l, u, r, d, w * h);

		if (v > best) {
			best = v;
			at = i;
		}
	}
	return at;
}

#ifdef DEV_H
void BACKEND(loss_sum)(struct dev *, const struct loss_sums *, const struct loss_area *,
    double *host);
void BACKEND(region_head)(struct dev *, const struct loss *, int head, const struct loss_area *,
    double *part, double *chunk);
#endif

#ifdef __cplusplus
}
#endif
#endif
