/* golden.h -- what the runners of golden cases share. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <yajl/yajl_tree.h>

#include "yolo.h"

struct gold {
	const char *json;	/* path of the .json */
	char *stem;		/* the same without .json */
	yajl_val j;		/* its tree */
	struct st *st;		/* STEM.safetensors, NULL where there is none */
	const char *weights;	/* folder of published models */
	struct dev *dev;
	int bf16;		/* activations are bfloat16: the other column of tolerances */
};
/* 0 passed, 1 skipped (reason in err), -1 failed (reason in err). */
typedef int gold_run(struct gold *, struct err *);
gold_run gold_layer, gold_net, gold_model, gold_loss, gold_nms, gold_optim, gold_train;

int gold_train_ranks(const char *json, int bf16);	/* in a fresh process: exit status */

/* Values of the tree by dotted path ("atol.fp32.y"); keys must not hold dots themselves. */
yajl_val gold_get(yajl_val, const char *path);
double gold_num(yajl_val, const char *path, double dflt);
const char *gold_str(yajl_val, const char *path, const char *dflt);
/* A tensor as floats (free()); dies with a message through err when absent (NULL). */
float *gold_floats(const struct gold *, const char *name, struct err *);
/* NCHW <-> NHWC on the host, into a fresh buffer. */
float *gold_nhwc(const float *nchw, int n, int c, int h, int w);
float *gold_nchw(const float *nhwc, int n, int c, int h, int w);
/* OIHW <-> [h][w][I][O]. */
float *gold_hwio(const float *oihw, int o, int i, int s);
float *gold_oihw(const float *hwio, int o, int i, int s);
/* Compare with tensor NAME: |a-b| <= atol + rtol*|b| for every element; equal bits where both are
 * 0 (the sign of zero aside).  NaN never passes.  -1 and a message with the worst element. */
int gold_compare(const struct gold *, const char *name, const float *got, double atol, double rtol,
    struct err *);
/* |a - b| <= limit * |b| (Euclidean): for numbers with few digits. */
int gold_compare_l2(const struct gold *, const char *name, const float *got, double limit,
    struct err *);
/* Host array to fresh device memory, and back to fresh host memory. */
float *gold_put(struct dev *, const float *, size_t n);
float *gold_get_dev(struct dev *, const float *, size_t n);
/* The same for activations, which the device stores in its own way. */
void *gold_put_stored(struct dev *, const float *, size_t n);
float *gold_get_stored(struct dev *, const void *, size_t n);

#endif
