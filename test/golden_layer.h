/* golden_layer.h -- what the runners of golden/layers share. */
#ifndef GOLDEN_LAYER_H
#define GOLDEN_LAYER_H

#include "test/golden.h"

/* What the runners share: shapes, device memory to free, the first error. */
struct layer_case {
	struct gold *g;
	struct dev *d;
	struct err *e;
	int n, c, h, w, bad;
	double rtol;
	float *mem[64];
	int nmem;
};

double par(const struct layer_case *, const char *key, double dflt);	/* params.KEY */
int ipar(const struct layer_case *, const char *key, int dflt);
enum act act_of(const struct layer_case *);
/* Zeros on the device, freed at the end: n floats, or n activations. */
float *fresh(struct layer_case *, size_t n);
const struct st_tensor *tensor(struct layer_case *, const char *name);
/* On the device; four dimensions: activations, NHWC. */
float *input(struct layer_case *, const char *name);
float *kernel(struct layer_case *, const char *name);	/* OIHW to the device's order */
void check(struct layer_case *, const char *name, const float *dev);
void check_kernel(struct layer_case *, const char *name, const float *dev);
void compare(struct layer_case *, const char *name, const float *host);
double tolerance(const struct layer_case *, const char *kind, const char *name, double dflt);

typedef void layer_run(struct layer_case *);
/* golden_conv.c */
layer_run run_conv, run_conv_bn_act, run_bn_train, run_bn_infer, run_fold;
/* golden_wire.c */
layer_run run_act, run_maxpool, run_upsample, run_route, run_shortcut, run_scale, run_reorg;
layer_run run_avgpool, run_dropout, run_head;

#endif
