/* export.h -- weights that leave: ONNX graphs, and the other forms of weights and cfgs.
 *
 * Needs model, kernel (folding), net and detect (calibration).  Promises: a file appears complete
 * or not at all, what cannot be exported is named with its cfg line, and the writer holds one
 * layer's numbers at a time. */
#ifndef EXPORT_PART_H
#define EXPORT_PART_H

#include "base/base.h"
#include "model/model.h"
#include "kernel/kernel.h"
#include "net/net.h"
#include "detect/detect.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- onnx.c ... : a network as an ONNX file ------------------------------------------------ */

enum export_ends { ENDS_RAW, ENDS_BOXES, ENDS_NMS };
enum export_numbers { NUMBERS_FP32, NUMBERS_FP16, NUMBERS_INT8 };
/* A tensor as 8 bits: number = scale * (byte - zero); scale 0: it stays float. */
struct point { float scale; int zero; };
struct quant {
	int symmetric;			/* int8 around 0 (TensorRT); else bytes with a zero */
	struct point in, *pre, *out;	/* of the input; of each layer before and after its
					 * activation */
	unsigned char *conv;		/* the layer's kernel is int8 */
	int nl;
};
struct export_opts {
	enum export_ends ends;
	enum export_numbers numbers;
	int batch;			/* 0: any number of pictures */
	int opset;			/* at least; 0: the lowest that the graph allows */
	int u8hwc;			/* input [N,H,W,3] of bytes instead of floats [N,3,H,W] */
	int bn;				/* keep batch-norm instead of folding it */
	int fractions;			/* boxes as fractions of the input instead of pixels */
	int softmax;			/* classes by softmax: as the loss was trained */
	double score, iou;		/* of the nms end */
	int max_det;			/* of a class in a picture, likewise */
	char *const *names;		/* of the classes; NULL: not known */
	int nnames;
	const char *letterbox;	/* how pictures were laid into the input, for people */
	const struct quant *quant;	/* scales, with NUMBERS_INT8 */
};
/* The network that a file is made of: cfg at the size wanted, and its weights.  dev: a CPU. */
struct export_model {
	struct dev *dev;
	struct cfg *cfg;
	const struct params *par;
	struct weights *w;		/* changed by quant_make, to the same network */
};
int export_onnx(const char *path, const struct export_model *, const struct export_opts *,
    struct err *);

/* ---- quant.c, calib.c: scales for 8 bits --------------------------------------------------- */

/* Pictures are read from `calib` as yolo-detect reads them.  floats: layers that stay float. */
struct quant_opts {
	const char *calib;		/* a shard, a folder, a list */
	int pictures;			/* of it, at most */
	enum resize_kind resize;
	int symmetric;
	const double *floats;
	int nfloats;
	double budget;			/* layers become float until the error is below; 0: none */
	FILE *report;			/* a row for each layer; NULL: none */
	int threads;
};
/* Scales for every tensor, by the method whose error at the network's heads is least.  Everything
 * is measured with this program's own forward pass: 8 bits are float rounded. */
int quant_make(struct quant *, const struct export_model *, const struct quant_opts *,
    struct err *);
void quant_free(struct quant *);

/* ---- cfgwrite.c ---------------------------------------------------------------------------- */

/* The cfg with what inference needs and nothing of training, in words that every reader of darknet
 * cfgs knows; free().  NULL: it cannot be said in them, and why. */
char *export_cfg_text(const struct cfg *, struct err *);

#ifdef __cplusplus
}
#endif
#endif
