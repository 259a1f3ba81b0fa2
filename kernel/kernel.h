/* kernel.h -- the tables of kernels, and what a kernel sees of its device.
 *
 * Needs base.  Promises: results do not depend on block
 * sizes, threads or scheduling; no kernel knows of networks.  dev.h is the dialect that they are
 * written in. */
#ifndef KERNEL_PART_H
#define KERNEL_PART_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a kernel sees of its device ------------------------------------------------------ */

struct dev;
struct sync;
/* Row-major C[m][n] = alpha * op(A) op(B) + beta * C;  ta: A is stored [k][m], tb: B [n][k].
 * ab16: A and B are bfloat16, c16: C too; sums are float all the same. */
struct gemm { int ta, tb, m, n, k; float alpha; const void *a; int lda; const void *b; int ldb;
	float beta; void *c; int ldc, ab16, c16; };
/* What a product makes of its two factors, and their row lengths. */
struct factors { const void *a, *b; int lda, ldb; };
struct dev_ops {
	void *(*alloc)(struct dev *, size_t bytes);	/* NULL when memory is out; 256-aligned */
	void (*free)(struct dev *, void *);
	void (*put)(struct dev *, void *dst, const void *host, size_t bytes);
	void (*get)(struct dev *, void *host, const void *src, size_t bytes);	/* waits */
	void (*copy)(struct dev *, void *dst, const void *src, size_t bytes);
	void (*zero)(struct dev *, void *, size_t bytes);
	void (*gemm)(struct dev *, const struct gemm *);
	void (*sync)(struct dev *);		/* wait for all that was queued */
	void (*close)(struct dev *);
};
struct dev {
	const struct dev_ops *ops;
	const struct store_ops *store;
	const struct conv_ops *conv;
	const struct bn_ops *bn;		/* batchnorm.cu */
	const struct layer_ops *layer;
	const struct loss_ops *yolo, *dark;	/* yololoss.cu, darkloss.cu */
	const struct optim_ops *optim;
	int (*nccl)(struct sync *, struct err *);	/* nccl_open_sync with CUDA, else NULL */
	char name[64];		/* "cpu", "cuda:0" */
	int threads;		/* compute threads; workspaces are one per thread */
	int tf32, exact, deterministic;	/* tf32: never on a CPU */
	void *stream, *priv;
};

/* ---- store.cu: numbers as a device stores them --------------------------------------------- */

struct store_ops {
	int bytes;			/* of a stored number: 4, or 2 for bfloat16 */
	void (*widen)(struct dev *, int n, const void *stored, float *);
	void (*narrow)(struct dev *, int n, const float *, void *stored);
	void (*add)(struct dev *, int n, const float *src, float *dst);	/* dst += src */
};
extern const struct store_ops store_cpu, store_cuda, store_emu, store_cpu_bf16, store_cuda_bf16,
    store_emu_bf16;

/* ---- conv.cu: convolution ------------------------------------------------------------------ */

struct conv_shape { int n, h, w, c, oh, ow, k, size, stride_y, stride_x, pad, dilation, groups; };
/* Kernels W: [size][size][c/groups][k]; group g owns filters g*k/groups onward.  ws: workspace of
 * conv->workspace() bytes, which do for batch-norm of the output too.  add: add to dx instead of
 * writing it.  wgrad always adds to dw. */
struct conv_ops {
	size_t (*workspace)(struct dev *, const struct conv_shape *, int train);
	void (*forward)(struct dev *, const struct conv_shape *, const void *x, const float *w,
	    void *y, void *ws);
	void (*dgrad)(struct dev *, const struct conv_shape *, const void *dy, const float *w,
	    void *dx, int add, void *ws);
	void (*wgrad)(struct dev *, const struct conv_shape *, const void *x, const void *dy,
	    float *dw, void *ws);
};
/* One way to do it.  conv.cu takes the first of its kinds that fits: does a direction right, and
 * faster than those after it. */
enum conv_way { CONV_FORWARD, CONV_DGRAD, CONV_WGRAD };
struct conv_kind {
	int (*fits)(const struct dev *, const struct conv_shape *, enum conv_way);
	struct conv_ops ops;
};
extern const struct conv_ops conv_cpu, conv_cuda, conv_emu, conv_cpu_bf16, conv_cuda_bf16,
    conv_emu_bf16;
extern const struct conv_kind direct_cpu, direct_cuda, direct_emu, direct_cpu_bf16,
    direct_cuda_bf16, direct_emu_bf16;			/* convdirect.cu */
extern const struct conv_kind winograd_cpu, winograd_cuda, winograd_emu;	/* winograd.cu */
extern const struct conv_kind convgemm_cpu, convgemm_cuda, convgemm_emu, convgemm_cpu_bf16,
    convgemm_cuda_bf16, convgemm_emu_bf16;		/* convgemm.cu */

/* Structs that kernels take by value have no holes: what lies in a hole is nobody's, and the test
 * device (test/fakedevice.cc) looks at every word for addresses that are not its own. */

/* ---- batchnorm.cu -------------------------------------------------------------------------- */

/* Batch-norm of rows x c numbers (rows = n*oh*ow) and the activation behind it: moments over count
 * rows, those of all ranks (m2: sum of squared deviations from the mean), parameters, and the
 * sums of their gradients.  Who does not need a field leaves it 0; beta alone is a bias. */
struct bn {
	int rows, c;
	float count;
	enum act act;
	float *mean, *m2;
	const float *gamma, *beta;
	float *dgamma, *dbeta;
};
struct bn_ops {
	size_t (*workspace)(struct dev *, int rows, int c);	/* bytes for all of these */
	/* Mean and m2 of y, written (in merged strips: exact where E[x^2]-E[x]^2 is not). */
	void (*moments)(struct dev *, const struct bn *, const void *y, void *ws);
	/* Merge `parts` triples (count, mean[c], m2[c]) stored at part + i*(2c+1) into one: counts
	 * add, Chan's update in order.  out likewise (2c+1 floats). */
	void (*merge)(struct dev *, const float *part, int parts, int c, float *out);
	/* z = act(gamma*(y-mean)*inv + beta), inv = 1/sqrt(m2/count + 1e-5). */
	void (*apply)(struct dev *, const struct bn *, const void *y, void *z, void *ws);
	/* Sums over the rows: dbeta = sum du, dgamma = sum du*xhat, du = dz*act'(u); written. */
	void (*back_sums)(struct dev *, const struct bn *, const void *y, const void *dz, void *ws);
	/* dy in place of dz, from the (all-reduced) sums and the global count. */
	void (*back_apply)(struct dev *, const struct bn *, const void *y, void *dz, void *ws);
	/* r = (1-m)*r + m*batch; variance unbiased (count-1) where count > 1. */
	void (*running)(struct dev *, const struct bn *, float m, float *run_mean, float *run_var);
	/* w *= gamma/sqrt(m2+1e-5) per filter, bias = beta - gamma*mean/sqrt(m2+1e-5), with rows
	 * those of w and m2 a variance.  bias may be beta. */
	void (*fold)(struct dev *, const struct bn *, float *w, float *bias);
	/* u += beta; z = act(u).  z may be u. */
	void (*bias_act)(struct dev *, const struct bn *, void *u, void *z);
	/* du in place of dz (u as left by bias_act); dbeta += column sums. */
	void (*bias_act_back)(struct dev *, const struct bn *, const void *u, void *dz, void *ws);
};
extern const struct bn_ops bn_cpu, bn_cuda, bn_emu, bn_cpu_bf16, bn_cuda_bf16, bn_emu_bf16;

/* ---- layers.cu: all other layers ----------------------------------------------------------- */

/* Backward functions take add: add to the gradient they produce instead of writing it. */
/* pad: before */
struct pool_shape { int n, h, w, c, oh, ow, size, stride_y, stride_x, pad_y, pad_x; };
/* h w c of the input, which s and reverse (reorg) or s and scale (upsample) make larger or less */
struct stride_shape { int n, h, w, c, s, reverse; float scale; };
/* c of the channels of rows, from one tensor into another: dst[r][dst_off + i] (+)=
 * src[r][src_off + i], i < c, in rows of src_c and dst_c */
struct slice { int rows, c; const void *src; int src_c, src_off; void *dst; int dst_c, dst_off; };
/* n pictures of hw pixels of c channels.  Factors (x of scale) are one for each channel of a
 * picture, with wh one for each pixel */
struct plane_shape { int n, hw, c, wh; };
/* which elements go: those for which the counter generator (key, first + i) says so */
struct dropout { double p; uint64_t key, first; };
/* rows: cells; scale_xy and new_coords of yolo, softmax of region */
struct head_shape { int rows, anchors, classes; float scale_xy; int new_coords, softmax; };
struct layer_ops {
	/* tap: index in the window of the maximum, one byte per output, NULL in inference. */
	void (*maxpool)(struct dev *, const struct pool_shape *, const void *x, void *y,
	    unsigned char *tap);
	void (*maxpool_back)(struct dev *, const struct pool_shape *, const void *dy,
	    const unsigned char *tap, void *dx, int add);
	void (*upsample)(struct dev *, const struct stride_shape *, const void *x, void *y);
	void (*upsample_back)(struct dev *, const struct stride_shape *, const void *dy, void *dx,
	    int add);
	void (*slice)(struct dev *, const struct slice *, int add);
	/* dst[i] (+)= src[i], n numbers. */
	void (*accumulate)(struct dev *, int n, const void *src, void *dst, int add);
	void (*activate)(struct dev *, int n, enum act, const void *u, void *z);
	/* du in place of dz. */
	void (*activate_back)(struct dev *, int n, enum act, const void *u, void *dz);
	/* y[b,i,j,ch] = x[b,ch] * f[b,i,j,ch] (wh: x[b,i,j] * f[b,i,j,ch]), no activation */
	void (*scale)(struct dev *, const struct plane_shape *, const void *x, const void *f,
	    void *y);
	void (*scale_back_x)(struct dev *, const struct plane_shape *, const void *f,
	    const void *dy, void *dx, int add);
	void (*scale_back_f)(struct dev *, const struct plane_shape *, const void *x,
	    const void *dy, void *df, int add);
	/* y = x * f; the gradient of one factor is dy times the other. */
	void (*sam)(struct dev *, int n, const void *x, const void *f, void *y);
	void (*sam_back)(struct dev *, int n, const void *other, const void *dy, void *dx, int add);
	/* Back: the inverse map on gradients. */
	void (*reorg)(struct dev *, const struct stride_shape *, const void *x, void *y);
	void (*reorg_back)(struct dev *, const struct stride_shape *, const void *dy, void *dx,
	    int add);
	void (*reorg3d)(struct dev *, const struct stride_shape *, const void *x, void *y);
	void (*reorg3d_back)(struct dev *, const struct stride_shape *, const void *dy, void *dx,
	    int add);
	void (*avgpool)(struct dev *, const struct plane_shape *, const void *x, void *y);
	void (*avgpool_back)(struct dev *, const struct plane_shape *, const void *dy, void *dx,
	    int add);
	/* What is kept is multiplied by 1/(1-p). */
	void (*dropout)(struct dev *, int n, const struct dropout *, const void *x, void *y);
	void (*dropout_back)(struct dev *, int n, const struct dropout *, const void *dy, void *dx,
	    int add);
	/* Activated head values for decoding, NHWC in and out: see golden/layers yolo and
	 * region. */
	void (*yolo)(struct dev *, const struct head_shape *, const void *x, void *y);
	void (*region)(struct dev *, const struct head_shape *, const void *x, void *y);
};
extern const struct layer_ops layers_cpu, layers_cuda, layers_emu, layers_cpu_bf16,
    layers_cuda_bf16, layers_emu_bf16;

/* ---- optim.cu: updates --------------------------------------------------------------------- */

/* Parameters that share a learning rate and a decay form a group; a byte per OPTIM_UNIT floats of
 * the flat buffer says which (parameters start at multiples of 64).  group NULL: all group 0. */
#define OPTIM_UNIT 64
#define OPTIM_GROUPS 120
struct optim_rates { float lr[OPTIM_GROUPS], decay[OPTIM_GROUPS]; };
/* One update of n parameters p from gradients g.  All device pointers but rates.  gscale multiplies
 * g first: clipping, 1/batch, 1/(loss scale) cost no pass of their own. */
struct update {
	size_t n;
	const unsigned char *group;
	const struct optim_rates *rates;
	float *p;
	const float *g;
	double gscale;
	float *m1, *m2;			/* moments: sgd has one; they start at 0 */
};
struct adam { double b1, b2, eps; int decoupled; long t; };	/* t: of this update, from 1 */
struct optim_ops {
	/* d = gscale*g + decay*p; m1 = m*m1 + d; p -= lr * (nesterov ? d + m*m1 : m1).
	 * Darknet's rule is this one: golden/optim. */
	void (*sgd)(struct dev *, const struct update *, double m, int nesterov);
	/* With bias correction; decoupled: AdamW, else decay*p is added to gscale*g. */
	void (*adam)(struct dev *, const struct update *, const struct adam *);
	void (*ema)(struct dev *, size_t n, float *ema, const float *p, double d);
	void (*scale)(struct dev *, size_t n, float *g, double f);
	/* Sum of squares in double, in an order that depends on n only; finite just when all of g
	 * is: the finite check.  Waits.  ws: workspace(n) bytes on the device. */
	double (*sumsq)(struct dev *, size_t n, const float *g, void *ws);
	size_t (*workspace)(size_t n);
};
extern const struct optim_ops optim_cpu, optim_cuda, optim_emu;
double optim_clip(double sumsq, double max_norm);	/* the factor min(1, max/(norm + 1e-6)) */

#ifdef __cplusplus
}
#endif
#endif
