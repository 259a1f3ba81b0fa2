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

/* ---- batchnorm.cu -------------------------------------------------------------------------- */

struct bn_ops {
	size_t (*workspace)(struct dev *, int rows, int c);	/* bytes for all of these */
	/* Moments of rows x c (rows = n*oh*ow).  m2: sum of squared deviations from the mean
	 * (two passes or merged chunks: exact where E[x^2]-E[x]^2 is not). */
	void (*moments)(struct dev *, const void *y, int rows, int c, float *mean, float *m2,
	    void *ws);
	/* Merge `parts` triples (count, mean[c], m2[c]) stored at part + i*(2c+1) into one: counts
	 * add, Chan's update in order.  out likewise (2c+1 floats). */
	void (*merge)(struct dev *, const float *part, int parts, int c, float *out);
	/* z = act(gamma*(y-mean)*inv + beta), inv = 1/sqrt(m2/count + 1e-5). */
	void (*apply)(struct dev *, const void *y, int rows, int c, const float *mean,
	    const float *m2, float count, const float *gamma, const float *beta, enum act, void *z,
	    void *ws);
	/* Sums over the rows: dbeta = sum du, dgamma = sum du*xhat, du = dz*act'(u); written. */
	void (*back_sums)(struct dev *, const void *y, const void *dz, int rows, int c,
	    const float *mean, const float *m2, float count, const float *gamma, const float *beta,
	    enum act, float *dgamma, float *dbeta, void *ws);
	/* dy in place of dz, from the (all-reduced) sums and the global count. */
	void (*back_apply)(struct dev *, const void *y, void *dz, int rows, int c,
	    const float *mean, const float *m2, float count, const float *gamma, const float *beta,
	    enum act, const float *dgamma, const float *dbeta, void *ws);
	/* r = (1-m)*r + m*batch; variance unbiased (count-1) where count > 1. */
	void (*running)(struct dev *, int c, const float *mean, const float *m2, float count,
	    float m, float *run_mean, float *run_var);
	/* w *= gamma/sqrt(var+1e-5) per filter, bias = beta - gamma*mean/sqrt(var+1e-5). */
	void (*fold)(struct dev *, float *w, int rows, int c, const float *gamma,
	    const float *beta, const float *mean, const float *var, float *bias);
	/* u += bias; z = act(u).  z may be u. */
	void (*bias_act)(struct dev *, void *u, int rows, int c, const float *bias, enum act,
	    void *z);
	/* du in place of dz (u as left by bias_act); dbias += column sums. */
	void (*bias_act_back)(struct dev *, const void *u, void *dz, int rows, int c, enum act,
	    float *dbias, void *ws);
};
extern const struct bn_ops bn_cpu, bn_cuda, bn_emu, bn_cpu_bf16, bn_cuda_bf16, bn_emu_bf16;

/* ---- layers.cu: all other layers ----------------------------------------------------------- */

/* Backward functions take add: add to the gradient they produce instead of writing it. */
/* pad: before */
struct pool_shape { int n, h, w, c, oh, ow, size, stride_y, stride_x, pad_y, pad_x; };
struct layer_ops {
	/* tap: index in the window of the maximum, one byte per output, NULL in inference. */
	void (*maxpool)(struct dev *, const struct pool_shape *, const void *x, void *y,
	    unsigned char *tap);
	void (*maxpool_back)(struct dev *, const struct pool_shape *, const void *dy,
	    const unsigned char *tap, void *dx, int add);
	void (*upsample)(struct dev *, int n, int h, int w, int c, int s, float scale,
	    const void *x, void *y);
	void (*upsample_back)(struct dev *, int n, int h, int w, int c, int s, float scale,
	    const void *dy, void *dx, int add);
	/* Copy a slice of channels: dst[r][dst_off + i] (+)= src[r][src_off + i], i < c. */
	void (*slice)(struct dev *, int rows, int c, const void *src, int src_c, int src_off,
	    void *dst, int dst_c, int dst_off, int add);
	/* dst[i] (+)= src[i], n numbers. */
	void (*accumulate)(struct dev *, int n, const void *src, void *dst, int add);
	void (*activate)(struct dev *, int n, enum act, const void *u, void *z);
	void (*activate_back)(struct dev *, int n, enum act, const void *u, const void *dz,
	    void *du, int add);
	/* y[b,i,j,ch] = x[b,ch] * f[b,i,j,ch] (wh: x[b,i,j] * f[b,i,j,ch]), no activation */
	void (*scale)(struct dev *, int n, int hw, int c, int wh, const void *x, const void *f,
	    void *y);
	void (*scale_back)(struct dev *, int n, int hw, int c, int wh, const void *x,
	    const void *f, const void *dy, void *dx, int addx, void *df, int addf);
	void (*sam)(struct dev *, int n, const void *x, const void *f, void *y);
	void (*sam_back)(struct dev *, int n, const void *x, const void *f, const void *dy,
	    void *dx, int addx, void *df, int addf);
	/* h w c of the INPUT; back = the inverse map on gradients. */
	void (*reorg)(struct dev *, int n, int h, int w, int c, int s, int reverse, const void *x,
	    void *y);
	void (*reorg_back)(struct dev *, int n, int h, int w, int c, int s, int reverse,
	    const void *dy, void *dx, int add);
	void (*reorg3d)(struct dev *, int n, int h, int w, int c, int s, const void *x, void *y);
	void (*reorg3d_back)(struct dev *, int n, int h, int w, int c, int s, const void *dy,
	    void *dx, int add);
	void (*avgpool)(struct dev *, int n, int hw, int c, const void *x, void *y);
	void (*avgpool_back)(struct dev *, int n, int hw, int c, const void *dy, void *dx, int add);
	/* Keep element i where the counter generator (key, first + i) says so; times 1/(1-p). */
	void (*dropout)(struct dev *, int n, float p, uint64_t key, uint64_t first, const void *x,
	    void *y);
	void (*dropout_back)(struct dev *, int n, float p, uint64_t key, uint64_t first,
	    const void *dy, void *dx, int add);
	/* Activated head values for decoding, NHWC in and out: see golden/layers yolo and
	 * region. */
	void (*yolo)(struct dev *, int rows, int anchors, int classes, float scale_xy,
	    int new_coords, const void *x, void *y);
	void (*region)(struct dev *, int rows, int anchors, int classes, int softmax,
	    const void *x, void *y);
	void (*nchw)(struct dev *, int n, int h, int w, int c, const void *nhwc, void *nchw);
};
extern const struct layer_ops layers_cpu, layers_cuda, layers_emu, layers_cpu_bf16,
    layers_cuda_bf16, layers_emu_bf16;

/* ---- optim.cu: updates --------------------------------------------------------------------- */

/* Parameters that share a learning rate and a decay form a group; a byte per OPTIM_UNIT floats of
 * the flat buffer says which (parameters start at multiples of 64).  group NULL: all group 0. */
#define OPTIM_UNIT 64
#define OPTIM_GROUPS 120
struct optim_rates { float lr[OPTIM_GROUPS], decay[OPTIM_GROUPS]; };
/* All device pointers but rates; one kernel over n floats.  gscale multiplies g first: clipping,
 * 1/batch, 1/(loss scale) cost no pass of their own. */
struct optim_ops {
	/* d = gscale*g + decay*p; buf = m*buf + d (buf starts at 0);
	 * p -= lr * (nesterov ? d + m*buf : buf).  Darknet's rule is this one: golden/optim. */
	void (*sgd)(struct dev *, size_t n, const unsigned char *group, const struct optim_rates *,
	    float *p, const float *g, float *buf, double gscale, double m, int nesterov);
	/* Bias correction with t from 1; decoupled: AdamW, else decay*p is added to gscale*g. */
	void (*adam)(struct dev *, size_t n, const unsigned char *group, const struct optim_rates *,
	    float *p, const float *g, float *m1, float *m2, double gscale, double b1, double b2,
	    double eps, int decoupled, long t);
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
