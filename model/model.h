/* model.h -- a network as data: its cfg, its parameters, and the files that hold them.
 *
 * Needs base.  Promises: every length in a file is checked before it is used, every refusal names
 * its line, and what is written reads back bit for bit.  Nothing here computes. */
#ifndef MODEL_PART_H
#define MODEL_PART_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- safetensors.c: the container of checkpoints and golden data --------------------------- */

enum st_type { ST_F32, ST_F64, ST_I32, ST_I64, ST_U8, ST_BF16, ST_F16 };
struct st_tensor {
	char *name;
	enum st_type type;
	int ndim;
	size_t dim[8], n;	/* n elements */
	const void *data;	/* aligned to 8 when read by st_open */
};
struct st {
	struct st_tensor *t;	/* sorted by name */
	int nt;
	char **key, **value;	/* __metadata__, sorted by key */
	int nmeta;
	void *map;
	size_t len;
};
struct st *st_open(const char *path, struct err *); /* offsets and sums checked; maps the file */
void st_close(struct st *);
const struct st_tensor *st_find(const struct st *, const char *name);	/* NULL if absent */
const char *st_meta(const struct st *, const char *key);
double st_get(const struct st_tensor *, size_t i);	/* element i of F32 F64 I32 I64 U8 */
/* Write tensors (data in host memory, little-endian machines) and metadata; atomic, no holes. */
int st_write(const char *path, const struct st_tensor *, int nt, char *const *key,
    char *const *value, int nmeta, struct err *);

/* ---- cfgparse.c: a darknet cfg ------------------------------------------------------------- */

enum layer_type { L_CONV, L_MAXPOOL, L_UPSAMPLE, L_ROUTE, L_SHORTCUT, L_YOLO, L_REGION, L_REORG,
	L_REORG3D, L_AVGPOOL, L_DROPOUT, L_SCALE, L_SAM, L_NONE };
enum iou_kind { IOU_MSE, IOU_IOU, IOU_GIOU, IOU_DIOU, IOU_CIOU };
enum nms_kind { NMS_DEFAULT, NMS_GREEDY, NMS_DIOU };
enum lr_policy { LR_CONSTANT, LR_STEP, LR_STEPS, LR_EXP, LR_POLY, LR_RANDOM, LR_SIGMOID, LR_SGDR,
	LR_COSINE };
#define LAYER_SRC 32		/* most sources of a route or shortcut */
enum { CFG_SIDE = 65536 };	/* largest side of an input */

struct def_conv { int k, size, stride_y, stride_x, pad, dilation, groups, bn; enum act act; };
struct def_pool { int size, stride_y, stride_x, padding; };	/* padding: the total */
struct def_join { int n, src[LAYER_SRC], groups, group_id; enum act act; }; /* absolute indices */
struct def_scale { int src, wh; enum act act; };
struct def_stride { int stride, reverse; float scale; };	/* upsample, reorg, reorg3d */
struct def_dropout { float p; };
enum { YOLO_IOU_LOSS = 1, YOLO_IGNORE = 2 };	/* iou_loss; ignore_thresh or truth_thresh */
struct def_yolo {		/* [yolo] and [region] */
	int classes, num, nmask, *mask, max;
	float *anchor;		/* num pairs w h; pixels of the network input ([region]: cells) */
	float jitter, resize, ignore_thresh, truth_thresh, random;
	float scale_x_y, iou_normalizer, obj_normalizer, cls_normalizer, delta_normalizer;
	float max_delta, iou_thresh, label_smooth, beta_nms;
	int given;			/* keys that stand in the file: YOLO_... */
	int new_coords, objectness_smooth, focal, show_details, counters; /* counters: given? */
	int *counter;		/* counters_per_class, classes of them */
	enum iou_kind iou_loss, iou_thresh_kind;
	enum nms_kind nms_kind;
	/* [region] only */
	int softmax, bias_match, rescore, background;
	float thresh, coord_scale, object_scale, noobject_scale, class_scale;
};
struct layer {
	enum layer_type type;
	int line, key_line;		/* of the section's name; of filters, layers or from */
	int c, h, w;			/* output at the cfg's own size */
	int in_c, in_h, in_w;		/* input: the layer before (its first source for a route) */
	int stopbackward, dont_update, burnin_update, dontload, dontloadscales, train_only_bn;
	int frozen;			/* learns nothing, and runs on its running statistics */
	float lr_scale;			/* learning_rate of a layer: a multiplier */
	union {
		struct def_conv conv;
		struct def_pool pool;
		struct def_join join;
		struct def_scale scale;
		struct def_stride stride;
		struct def_dropout dropout;
		struct def_yolo yolo;
	} u;
};
struct cfg_net {
	int line, w_line, h_line, c_line;	/* of [net], of its width, height, channels */
	int batch, subdivisions, w, h, c, max_batches, burn_in, flip, mosaic, adam;
	int resize_step, nstep, *step, sgdr_cycle, sgdr_mult, step_len;	/* mosaic -1: not given */
	float *scale;			/* nstep factors of policy steps */
	double lr, lr_min, momentum, decay, power, gamma, step_scale, b1, b2, eps;
	double saturation, exposure, hue, label_smooth, ema_alpha;
	enum lr_policy policy;
};
struct cfg {
	char *path, *text;		/* the file as read, for checkpoints */
	size_t len;
	struct cfg_net net;
	struct layer *l;
	int nl;
	char **note;			/* keys known but without effect here: "file:line: ..." */
	int *note_more, nnote;		/* further lines with the same remark */
};
/* "-": stdin; a name that does not exist is looked for as path_stock does. */
struct cfg *cfg_read(const char *path, struct err *);
struct cfg *cfg_parse(const char *name, const char *text, size_t len, struct err *);
void cfg_close(struct cfg *);
/* For messages: the layers' lines from a cfg of the same layers, which this one was made of. */
void cfg_take_lines(struct cfg *, const struct cfg *from);
/* Shapes of all layers for another input size: sets l[].h w in_h in_w.  -1: sizes do not meet. */
int cfg_resize(struct cfg *, int w, int h, struct err *);
/* The first key, or "type", of a layer in which two cfgs compute differently from the same weights;
 * NULL: they do not.  Sizes of the input and what only training or suppression reads may differ. */
const char *cfg_other(const struct cfg *, const struct cfg *, int *layer);
int cfg_heads(const struct cfg *, int *index, int max);	/* the yolo/region layers; their number */
int cfg_pictures(const struct cfg *, struct err *);	/* -1: its input is no picture */
int cfg_stride(const struct cfg *);	/* the largest stride of a head: sizes are multiples */
double cfg_flops(const struct cfg *, int layer); /* 2 x multiply-adds of a convolution, else 0 */
long cfg_floats(const struct cfg *, int layer);	/* floats of this layer in a .weights file */

/* ---- cfglex.c: sections and keys as they stand in the file --------------------------------- */

/* The lexer's view (cfglex.c), read by cfgparse.c. */
struct cfg_key { char *name, *value; int line, used, twice; };
struct cfg_section { char *name; int line; struct cfg_key *key; int n; };
struct cfg_sections { struct cfg_section *s; int n; };
int cfg_lex(struct cfg *, struct cfg_sections *, struct err *);
void cfg_unlex(struct cfg_sections *);

/* ---- cfgparse.c: a darknet cfg ------------------------------------------------------------- */

const char *layer_name(enum layer_type);	/* "convolutional" ... */
#define MAX_HEADS 8
#define MAX_MASK 32

/* ---- params.c, weights.c: parameters on the host and in files ------------------------------ */

enum param_kind { P_WEIGHT, P_BIAS, P_GAMMA, P_MEAN, P_VAR };	/* P_BIAS: beta with batch-norm */
struct param {
	int layer;
	enum param_kind kind;
	size_t off, n;			/* in floats: in train (P_MEAN, P_VAR: in stat) */
	int o, i, s;			/* P_WEIGHT: filters, channels per group, kernel side */
};
/* The flat layout: all convolution weights in layer order (these are decayed), then all biases and
 * gammas; each starts at a multiple of 64 floats, gaps hold 0.  Statistics are a buffer apart. */
struct params {
	struct param *p;		/* by layer, then kind */
	int np;
	size_t nweight, ntrain, nstat;	/* lengths with gaps: weights, all trained, statistics */
};
void params_plan(const struct cfg *, struct params *);
void params_free(struct params *);
const struct param *params_find(const struct params *, int layer, enum param_kind);	/* NULL */
struct weights {		/* host memory; weights inside are [s][s][i][o] as conv.cu wants */
	float *train, *stat;
	float *mom, *mom2, *ema, *ema_stat;	/* NULL where not in use */
	uint64_t seen;
	int version[3];		/* of the .weights file that they came from, else 0 */
};
void weights_init(const struct cfg *, const struct params *, uint64_t seed, struct weights *);
void weights_free(struct weights *);
/* Kernels between a file's [o][i][s][s] and memory's [s][s][i][o]. */
void weights_permute(const struct param *, const float *from, float *to, int to_memory);
/* Recognised by content.  note: warnings (surplus bytes, layers not in a partial file), one line
 * each, through warn().  cutoff: load only the first N layers, -1 all. */
int weights_load(const char *path, const struct cfg *, const struct params *, struct weights *,
    int cutoff, struct err *);
/* -1: a model of another program, and which. */
int weights_foreign(const char *path, struct err *);
int weights_plain(const char *path);	/* no pipe or device: it can be read twice */
/* A plain file that begins as safetensors do; -1: it cannot be read. */
int weights_is_st(const char *path, struct err *);
/* version: that of the header, as in struct weights; without one 0.2.5. */
int weights_save_version(const char *path, const struct cfg *, const struct params *,
    const struct weights *, const int version[3], int cutoff, struct err *);
int weights_save_darknet(const char *path, const struct cfg *, const struct params *,
    const struct weights *, int cutoff, struct err *);
int weights_save(const char *path, const struct cfg *, const struct params *,
    const struct weights *, char *const *key, char *const *value, int nmeta, struct err *);

/* ---- checkpoint.c -------------------------------------------------------------------------- */

struct checkpoint {		/* what a run needs to go on, besides the tensors */
	long step, t, skipped, best_step;
	long bad, stale;	/* updates skipped in a row; validations since the best */
	double best;
	uint64_t seed, samples;		/* samples: records of the training set */
	int threads, batch;
	long ranks;			/* 0 in files from before it was said */
	char *data;			/* uuid of the training shard */
	char *options;			/* one "letter=value" a line, sorted */
	char *names;			/* of the classes, one a line; NULL in older files */
	char *loss, *cfg;		/* cfg: the text */
	char *precision;	/* computed in; NULL in files from before there was a choice */
	int due;		/* this step's validation is still to come */
	char *val;	/* uuid of the validation shard, "none"; NULL in files from before it */
	char *rows;			/* those of val.tsv so far */
};
void checkpoint_free(struct checkpoint *);
int checkpoint_save(const char *path, const struct cfg *, const struct params *,
    const struct weights *, const struct checkpoint *, struct err *);
char *checkpoint_cfg(const struct st *); /* the cfg text, also where it is coded; NULL: none */
char *checkpoint_names(const struct st *);	/* of the classes, one a line; NULL: none */
/* Weights alone, with what says what they are: the cfg, class names (one a line; NULL: none), the
 * images seen and the header of the .weights file that they came from, so that it can be made
 * again bit for bit. */
int checkpoint_export(const char *path, const struct cfg *, const struct params *,
    const struct weights *, const char *names, struct err *);
/* Only the metadata; the tensors come by weights_load. */
int checkpoint_read(const char *path, struct checkpoint *, struct err *);

#ifdef __cplusplus
}
#endif
#endif
