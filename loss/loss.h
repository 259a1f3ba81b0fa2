/* loss.h -- losses: truths assigned to cells, their cost, and its gradient at the heads.
 *
 * Needs base, model (the heads' keys) and kernel.  Promises: sums over heads, parts and ranks are
 * the loss of the whole batch, in an order that depends on nothing else. */
#ifndef LOSS_PART_H
#define LOSS_PART_H

#include "base/base.h"
#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dev;

/* ---- losses and their gradients ------------------------------------------------------------ */

struct truth { float image, cls, x, y, w, h; };	/* image: slot in the batch; relative, centre */

enum loss_kind { LOSS_ULTRA2019, LOSS_MULTI, LOSS_ARCHIVE, LOSS_DARKNET, LOSS_DARKNET_IOU,
	LOSS_CIOU };
struct loss_head {
	int h, w, nmask, mask[MAX_MASK]; /* grid; anchors of the head, indices in loss.anchor */
	const float *raw;		/* device, [n][h][w][nmask * (5 + classes)] */
	float *grad;			/* likewise; what backpropagation receives: dL/draw */
	const struct def_yolo *yolo;	/* the cfg's keys, for the darknet flavours */
	int region;			/* a [region] layer: its own loss, anchors in cells */
	/* darknet, for tests; device, a byte per cell and anchor, or NULL: 0 a plain negative, 1
	 * above ignore_thresh, 2 above truth_thresh, before truths are assigned. */
	unsigned char *state;
};
struct loss {
	enum loss_kind kind;
	int n, classes, in_w, in_h;	/* images of this (mini-)batch; network input, pixels */
	int nanchor;
	const float *anchor;		/* host: nanchor pairs, pixels */
	int nhead;
	struct loss_head head[MAX_HEADS];
	double k, gain_xy, gain_wh, gain_cls, gain_conf, iou_t;	/* ultralytics-2019, -multi */
	double gain_box, gain_obj;		/* archive, ciou; gain_cls and iou_t too */
	double gr, focal_gamma, focal_alpha, anchor_t, label_smooth, cls_pw, obj_pw;
	double balance[MAX_HEADS];
	/* archive, ciou: weights of the class terms by a truth's class; host, or NULL: all 1 */
	const float *cls_weight;
	double seen;			/* [region]: images trained on so far */
	/* What means are divided by: filled by count(), then all-reduced by the caller, so that
	 * the gradients of mini-batches and ranks simply add; from a part alone, the part's own
	 * means.  darknet's gradients are never divided. */
	double images;			/* images of the whole batch */
	double count[MAX_HEADS]; /* assigned truths per head (multi: [0] = distinct positives) */
};
/* Terms of a head, gains applied; they add up over heads, parts and ranks.  darknet: [1]..[4] are
 * sums of squared deltas, the total is darknet's cost of the layer, and sums over assigned truths
 * follow: their number, IoU, output at the true class, objectness, IoU above .5 and .75. */
enum { TERM_TOTAL, TERM_BOX, TERM_WH, TERM_OBJ, TERM_CLS, TERM_COUNT, TERM_IOU, TERM_STAT_CLS,
	TERM_STAT_OBJ, TERM_R50, TERM_R75, LOSS_TERMS }; /* BOX: without w h where WH is in use */
struct loss_ops {
	size_t (*workspace)(const struct loss *, int max_truth); /* device bytes, for any grid */
	/* Adds this truth's counts to loss->count (host only: assignment needs no outputs).  Grids
	 * and in_w, in_h must be those of run(); n is not looked at. */
	void (*count)(struct loss *, const struct truth *, int ntruth);
	/* Writes head[].grad, adds to term[head][LOSS_TERMS] (host, double).  Waits. */
	void (*run)(struct dev *, const struct loss *, const struct truth *, int ntruth,
	    double term[][LOSS_TERMS], void *ws);
};
extern const struct loss_ops yololoss_cpu, yololoss_cuda, yololoss_emu, darkloss_cpu,
    darkloss_cuda, darkloss_emu;
const char *loss_name(enum loss_kind);
int loss_kind(const char *name);			/* -1: unknown */
void loss_defaults(struct loss *, enum loss_kind);	/* gains of golden/loss */
int loss_rows(const struct loss *);		/* boxes of an image */

/* ---- assign.c: truths on cells ------------------------------------------------------------- */

/* One truth on one cell and anchor. */
struct loss_row {
	int cell;	/* ((image * h + row) * w + col) * nmask + anchor of the head */
	int truth, cls;			/* truth: index in the list given */
	int order;			/* in which the flavour assigns, within the head */
	/* ultralytics-2019 and -multi: targets of s(tx), s(ty), tw, th; archive and ciou: the box
	 * in cells, relative to the cell; darknet: the box relative to the picture */
	double x, y, w, h;
};
/* The truths of a head in the flavour's order of assignment: rows written (unless NULL) and
 * counted.  Truths with a class, image or size that cannot be are left out. */
int assign_head(const struct loss *, int head, const struct truth *, int ntruth, struct loss_row *);

#ifdef __cplusplus
}
#endif
#endif
