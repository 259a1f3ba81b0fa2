/* eval.h -- scores: matching and average precision by each rule, numbers only, no files.
 *
 * Needs base, and labels for a box.  Promises: COCO's numbers to 1e-12, threads change no bit. */
#ifndef EVAL_PART_H
#define EVAL_PART_H

#include "base/base.h"
#include "labels/labels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- matching, average precision by each rule ---------------------------------------------- */

enum eval_rule { EV_COCO, EV_VOC07, EV_VOC10, EV_DARKNET, EV_ULTRA, EV_ULTRA2019, EV_RULES };
enum eval_soft { EV_ORIGINAL, EV_IGNORE, EV_REMOVE, EV_TRUTH };	/* what a crowd box counts as */
#define EVAL_IOUS 16
#define EVAL_AREAS 8
#define EVAL_MAXDETS 6
struct eval_opts {
	unsigned rules;			/* bit 1 << enum eval_rule */
	double iou[EVAL_IOUS];
	int niou;			/* 0: each rule's own list */
	int maxdet[EVAL_MAXDETS], nmaxdet;	/* per image and class, ascending */
	double area[EVAL_AREAS][2];	/* closed ranges; the first is "all" */
	int narea;
	enum eval_soft crowd, difficult;
	int points;			/* darknet: 0 area, else that many recalls */
	int pixel;			/* VOC: a box of one pixel is 1 wide */
	int strict;			/* VOC: IoU > instead of >= */
	int ulp;			/* VOC2007: recalls i * 0.1, not i / 10 */
	int absent;	/* AP of a class of false positives alone: 0, not undefined */
	double thresh;			/* darknet: P R F1 TP FP FN IoU over this score */
	int pycocotools;		/* its known bugs too */
	int threads;
};
struct eval_det {
	double score, x, y, w, h;	/* pixels, top-left */
	int image, cls;
};
struct eval_image {			/* boxes of one picture, all classes; borrowed */
	int64_t key;	/* equal scores of several pictures: the smaller key first */
	const struct box *box;
	const struct eval_det *det;
	int nbox, ndet;
};
/* What is kept of a detection: score, class, and the number of a row of words, one for each rule
 * (and area range of COCO's), see eval/int.h; a last word says how many of maxdet, from the largest
 * down, its rank in its picture and class is within. */
struct eval {
	struct eval_opts opt;
	int nclass;
	int niou[EV_RULES], off[EV_RULES], words;
	double iou[EV_RULES][EVAL_IOUS];
	size_t nimage, image_cap, n, cap, nt, tcap;
	int64_t *key;			/* [nimage] */
	size_t *dend, *tend;		/* [nimage] ends in the arrays below */
	double *score;			/* [n] and the next three */
	uint16_t *cls;
	uint32_t *code;			/* row of each */
	double *over;	/* darknet: IoU of its true positives; NULL without that rule */
	uint32_t *row;			/* [nrow][words + 1] the different ones */
	size_t nrow, row_cap;
	uint32_t *slot;			/* [slots] finds a row: its number + 1 */
	size_t slots;
	uint32_t *fresh;		/* rows of the pictures being added */
	size_t fresh_cap;
	uint16_t *tcls, *tmask;		/* [nt] class; truth_outside, truth_in_rule */
	int finished, adders;		/* adders: threads of eval_add */
	uint32_t *order, *pic, *all; /* entries by class and score; picture of each; all by score */
	size_t *cstart;			/* [nclass + 1] in order */
};
void eval_defaults(struct eval_opts *);
int eval_rules(struct eval_opts *, const char *names);	/* with commas; -1: an unknown one */
static inline int
eval_has(const struct eval_opts *o, int rule)
{
	return o->rules >> rule & 1;
}
struct eval *eval_open(const struct eval_opts *, int nclass);
void eval_close(struct eval *);
void eval_add(struct eval *, const struct eval_image *, int n);	/* threads inside */
enum eval_soft eval_soft(const struct eval_opts *, enum eval_rule, int flags);
/* Of detection and truth, x y w h; the order of operations is pycocotools' bbIou's. */
static inline double
eval_iou(const double *d, const double *g, int crowd)
{
	double dr = d[2] + d[0], gr = g[2] + g[0], db = d[3] + d[1], gb = g[3] + g[1], i, w, h;

	w = (dr < gr ? dr : gr) - (d[0] > g[0] ? d[0] : g[0]);
	h = (db < gb ? db : gb) - (d[1] > g[1] ? d[1] : g[1]);
	if (!(w > 0) || !(h > 0))
		return 0;
	i = w * h;
	return i / (crowd ? d[2] * d[3] : d[2] * d[3] + g[2] * g[3] - i);
}
void eval_rank(const struct eval_image *, const int *in, int n, int *out); /* by score, stable */

/* ap[c][word][t], recall likewise; few[c][m][t]: recall with fewer detections, area "all". */
struct eval_tables {
	const struct eval *e;
	const uint32_t *weight;
	double *npos;			/* [nclass][words] */
	double *ap, *recall, *few;
	double *end;			/* [nclass][2] precision, recall of the whole list: 2019 */
	uint32_t *ntruth;
};
void eval_tables(struct eval_tables *, struct eval *, const uint32_t *weight);
void eval_tables_free(struct eval_tables *);
extern const char *const eval_rule_name[EV_RULES];
#define EVAL_RULE_NAMES "coco,voc07,voc10,darknet,ultralytics,ultralytics-2019"
struct eval_row { const char *rule; char metric[20]; double value; };
#define EVAL_ROWS 192
/* In process (yolo-train): eval_open with eval_defaults, eval_add for the pictures of each batch,
 * key = id of the picture where all have ids of their own, else its number; the first 16 rows of
 * eval_total are then COCO's twelve and P R F1 thr, as the program prints them.
 * The numbers of the whole set, undefined = -1.  weight: times each picture counts, or NULL. */
int eval_total(struct eval *, const uint32_t *weight, struct eval_row *);
/* of one class */
int eval_class(struct eval *, const struct eval_tables *, int cls, struct eval_row *);
double eval_get(const struct eval_row *, int n, const char *rule, const char *metric);	/* or -1 */
void eval_finish(struct eval *);	/* sorts; called by the above */
/* Precision, recall, F1 at the score that makes F1 best: COCO's matching at IoU 0.5, counts.
 * cls -1: all; npos: truths that count, 0 makes all undefined. */
struct eval_point { double p, r, f1, thr; };
struct eval_point eval_best_all(struct eval *);
struct eval_point eval_ultra_point(const struct eval_tables *);	/* as ultralytics chooses it */
/* A curve at one IoU: cumulated counts at each true positive. */
struct eval_curve { uint32_t *tp, *fp; uint32_t n, tp_all, fp_all; double npos; };
enum { EVAL_RECALLS = 101 };	/* COCO reads precision at recalls 0, .01 .. 1 */
int eval_curve_coco(const struct eval_curve *, double p[EVAL_RECALLS]);	/* 0: no truths */
double eval_ap_coco(const struct eval_curve *);
/* By COCO's matching, area "all", the last maxDets, at IoU t. */
enum eval_is { EVAL_NEITHER = -1, EVAL_FALSE, EVAL_TRUE };	/* false or true positive */
enum eval_is eval_coco_is(const struct eval *, size_t i, int t);
int eval_half(const struct eval *);		/* t of IoU 0.5; 0 where that is none */
double *eval_coco_truths(const struct eval *, double *all); /* that count: [nclass], free() */

#ifdef __cplusplus
}
#endif
#endif
