/* int.h -- what the writers of ONNX share: protobuf, a graph in memory, layers, ends. */
#ifndef EXPORT_INT_H
#define EXPORT_INT_H

#include "export/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- protobuf.c: messages in memory -------------------------------------------------------- */

struct pb { unsigned char *b; size_t n, cap; };
void pb_free(struct pb *);
void pb_int(struct pb *, int field, int64_t);
void pb_float(struct pb *, int field, float);
void pb_text(struct pb *, int field, const char *);
void pb_message(struct pb *, int field, struct pb *);	/* appended and freed */
void pb_length(struct pb *, int field, size_t);	/* of bytes that the caller writes after this */

/* ---- onnx.c: a graph in memory, and its file ----------------------------------------------- */

enum onnx_type { T_FLOAT = 1, T_U8 = 2, T_I8 = 3, T_I32 = 6, T_I64 = 7, T_HALF = 10 };
enum { ONNX_DIMS = 6, ONNX_IN = LAYER_SRC + 1, DIM_N = -1, DIM_FOUND = -2 };
/* dim: DIM_N is the number of pictures where it is not fixed, DIM_FOUND that of detections. */
struct value {
	char *name;
	enum onnx_type type;
	int nd;
	int64_t dim[ONNX_DIMS];
	float scale;			/* it comes from 8 bits of this step; 0: it does not */
};
struct attr { const char *name; int64_t i; float f; int64_t ints[8]; const char *s;
	int n, kind; };
enum { A_INT, A_FLOAT, A_INTS, A_TEXT };
struct node {
	const char *op;
	int in[ONNX_IN], nin, out, na;	/* in -1: left out */
	struct attr a[6];
};
/* A constant.  data NULL: numbers of a layer, made when they are written. */
enum part { PART_WEIGHT, PART_BIAS, PART_GAMMA, PART_BETA, PART_MEAN, PART_VAR };
struct constant { int value, layer; enum part part; void *data; size_t bytes;
	float scale; };	/* scale: of the input, for a bias of 32 bits */
struct onnx {
	const struct export_model *m;
	const struct export_opts *o;
	struct value *v;
	struct node *node;
	struct constant *con;
	size_t nv, capv, nn, capn, nc, capc;
	int *in, *out, nin, nout;	/* values that come in and go out */
	int opset;			/* the least that all nodes have */
	int *layer;			/* value of each layer's output */
	int made;			/* for names */
	struct pb meta;			/* metadata_props */
};
int onnx_value(struct onnx *, const char *name, enum onnx_type, int nd, const int64_t *dim);
void onnx_name(struct onnx *, int value, char *name);	/* takes the name */
struct node *onnx_node(struct onnx *, const char *op, int out, int nin, const int *in);
void attr_int(struct node *, const char *, int64_t);
void attr_float(struct node *, const char *, float);
void attr_ints(struct node *, const char *, int n, const int64_t *);
void attr_pair(struct node *, const char *, int64_t, int64_t);
void attr_text(struct node *, const char *, const char *);
/* The same shape and type as its input; two inputs broadcast. */
int onnx_unary(struct onnx *, const char *op, int x);
int onnx_binary(struct onnx *, const char *op, int a, int b);
int onnx_reshape(struct onnx *, int x, int nd, const int64_t *dim);
int onnx_transpose(struct onnx *, int x, const int64_t *perm);
int onnx_cast(struct onnx *, int x, enum onnx_type);
int onnx_slice(struct onnx *, int x, int axis, int64_t from, int64_t to);
int onnx_concat(struct onnx *, int axis, int n, const int *x);
int onnx_floats(struct onnx *, enum onnx_type, int nd, const int64_t *dim, const float *);
int onnx_scalar(struct onnx *, enum onnx_type, double);	/* of no dimension */
int onnx_of_layer(struct onnx *, int layer, enum part, enum onnx_type, int nd,
    const int64_t *dim);
void onnx_meta(struct onnx *, const char *key, const char *value);
int onnx_write(struct onnx *, const char *path, struct err *);
void onnx_free(struct onnx *);
uint16_t half_of(float);	/* IEEE half, to the nearest, ties to even */

/* ---- onnxweights.c: the numbers of a layer ------------------------------------------------- */

/* Into `to`, as the constant's type says; -1: they do not fit it. */
int layer_numbers(const struct onnx *, const struct constant *, void *to, struct err *);
/* The step of each filter of a folded kernel in 8 bits: its largest magnitude is 127. */
void layer_steps(const struct export_model *, int layer, float *step);

/* ---- calib.c: a range from a histogram ----------------------------------------------------- */

enum calib { CALIB_ALL, CALIB_PERCENTILE, CALIB_MSE, CALIB_ENTROPY, CALIBS };
enum { CALIB_BINS = 2048 };
struct hist { double lo, hi, count[CALIB_BINS]; };	/* of the values from lo to hi */
void hist_add(struct hist *, const float *, size_t n);
struct point calib_point(const struct hist *, enum calib, int symmetric);
const char *calib_name(enum calib);
void point_round(const struct point *, int symmetric, float *, size_t n);	/* through 8 bits */

/* ---- onnxlayers.c, ends.c ------------------------------------------------------------------ */

void onnx_layer(struct onnx *, int layer);
int onnx_input(struct onnx *);	/* the value that the first layer reads */
void onnx_ends(struct onnx *);

#ifdef __cplusplus
}
#endif
#endif
