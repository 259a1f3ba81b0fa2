/* net.h -- a network on a device: planned, walked forward and backward.
 *
 * Needs model, kernel, loss and sync.  Promises: no allocation after net_open, the bytes that
 * net_plan says, and devices reached through struct dev alone. */
#ifndef NET_PART_H
#define NET_PART_H

#include "base/base.h"
#include "model/model.h"
#include "kernel/kernel.h"
#include "sync/sync.h"
#include "loss/loss.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- net.c, netplan.c: plan, forward, backward --------------------------------------------- */

struct net_opts {
	int batch;			/* images of one forward pass, at most */
	int train;			/* keep what backward needs */
	int keep;	/* keep every layer's output (tests): no sharing of buffers */
	int syncbn;
	float bn_momentum;
	uint64_t seed;			/* dropout */
	struct sync *sync;		/* NULL: one rank */
};
struct net_bytes { size_t params, grads, arena, workspace, total; };
/* Where a layer's tensors lie, in bytes of the arena; NONE where it has none. */
#define NONE ((size_t)-1)
struct slot {
	int root;		/* the layer whose buffers this one shares, itself if none */
	size_t out, pre, tap, grad; /* output; value before the activation or batch-norm; argmax */
	size_t raw, raw_grad;	/* of a head where activations are not float: as the loss wants */
};
struct net_plan {
	struct slot *slot;
	size_t input, host_input, arena, ws;	/* host_input: as float; ws: workspace bytes */
	int nl, stop;			/* backward ends before layer stop */
	size_t bn_floats;		/* batch statistics of all layers */
};
int netplan_make(struct net_plan *, const struct cfg *, struct dev *, const struct net_opts *,
    struct err *);
void netplan_free(struct net_plan *);
size_t netplan_workspace(const struct cfg *, struct dev *, const struct net_opts *);	/* bytes */
struct conv_shape netplan_conv(const struct layer *, int n);
struct pool_shape netplan_pool(const struct layer *, int n);

/* What net_lap tells apart: forward, dgrad, wgrad, the rest of backward. */
enum { LAP_FORWARD, LAP_DGRAD, LAP_WGRAD, LAP_OTHER, NET_LAPS };
/* Called by net_backward when gradients [off, off+n) of the flat buffer are final. */
typedef void net_bucket(void *arg, size_t off, size_t n);
struct net {
	struct dev *dev;
	struct cfg *cfg;		/* borrowed */
	struct net_opts opt;
	struct params par;
	struct net_plan plan;
	float *train, *grad, *stat;	/* device; grad NULL in inference, where train is folded */
	void *input;			/* device, [batch][h][w][c] */
	float *bn;	/* device: batch mean and m2 of each layer, then a merge area */
	char *arena;
	void *ws;
	int nhead, head[MAX_HEADS];	/* the yolo/region layers */
	int n, n_global;	/* images of the last forward here, maybe 0, and on all ranks */
	uint64_t t0;			/* number of its first sample in the run: dropout's key */
	size_t max_w, max_h;		/* size that the arena was planned for */
	unsigned char *have;		/* backward: which gradients have been begun */
	net_bucket *bucket;
	void *bucket_arg;
	size_t bucket_floats, bucket_end;
	struct net_bytes bytes;
	void (*after)(void *arg, int layer);	/* called when a layer's output is there; or NULL */
	void *after_arg;
	double *time;			/* seconds per layer, [nl][NET_LAPS]; NULL: not timed */
};
/* Plan only: the bytes that net_open would take. */
int net_plan(struct cfg *, struct dev *, const struct net_opts *, struct net_bytes *,
    struct err *);
struct net *net_open(struct dev *, struct cfg *, const struct net_opts *, struct err *);
/* Another size, at most that of net_open; resizes the cfg.  Workspace may grow; -1: memory too. */
int net_resize(struct net *, int w, int h, struct err *);
void net_close(struct net *);
void net_put(struct net *, const struct weights *);	/* host -> device; inference nets fold */
void net_get(struct net *, struct weights *);		/* train and stat, device -> host */
void net_fold(struct net *, const float *train, const float *stat); /* inference net, from device */
/* x: host [n][h][w][c]; n_global: images of this pass on all ranks, at least 1; t0: number of its
 * first sample in the run (dropout's key).  n may be 0: a rank without images takes part in what
 * the ranks exchange. */
void net_forward(struct net *, const float *x, int n, int n_global, uint64_t t0);
void net_layers(struct net *, int first);	/* that pass again from a layer on: opts.keep */
void net_backward(struct net *);	/* head gradients stand in net_head_grad(); adds to grad */
void net_zero_grad(struct net *);
void net_on_bucket(struct net *, net_bucket *, void *arg, size_t floats);
void *net_out(struct net *, int layer);	/* device; valid until the buffer is used again */
void *net_grad(struct net *, int layer);	/* likewise; NULL where nothing wants it */
void *net_at(const struct net *, size_t off);	/* a place in the arena; NULL for NONE */
float *net_param(struct net *, float *base, int layer, enum param_kind); /* NULL if it has none */
size_t net_floats(const struct net *, int layer);	/* of its output, for the images at hand */
int net_rows(const struct net *, const struct layer *);	/* n * h * w of its output */
struct net_moments { float *mean, *m2, count; };
struct net_moments net_moments(struct net *, int layer);	/* of the batch, over all ranks */
uint64_t net_dropout_key(const struct net *, int layer);
uint64_t net_dropout_first(const struct net *, int layer); /* number of the first element */
double net_lap(struct net *, double since, int layer, int what);	/* for net->time */
float *net_head_raw(struct net *, int head);	/* float; before any activation */
float *net_head_grad(struct net *, int head);

#ifdef __cplusplus
}
#endif
#endif
