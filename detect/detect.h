/* detect.h -- pictures in, boxes out.
 *
 * Needs image, model, labels, shard and net.  Promises: nothing is left out, what cannot be read
 * keeps its place with its reason; on the CPU the same bits in whatever batch. */
#ifndef DETECT_PART_H
#define DETECT_PART_H

#include "base/base.h"
#include "image/image.h"
#include "model/model.h"
#include "kernel/kernel.h"
#include "loss/loss.h"
#include "labels/labels.h"
#include "shard/shard.h"
#include "net/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- nms.c: non-maximum suppression, mapping ----------------------------------------------- */

struct det {
	float x, y, w, h;		/* top-left corner and size */
	float score;
	int cls, index;		/* index of the candidate box it came from */
};
enum nms_rule { NMS_R_GREEDY, NMS_R_MERGE, NMS_R_MERGE_ALL, NMS_R_AND, NMS_R_SOFT,
    NMS_R_OBJECTNESS };
struct nms {			/* a method is a name of golden/nms; nms_method fills in the rest */
	const char *method;
	enum nms_rule rule;
	double score_thresh, iou_thresh;
	double beta;			/* > 0: the criterion is IoU - (d2/c2)^beta */
	double sigma;			/* soft: width of the Gaussian; 0: linear decay */
	double min_size, max_size;	/* boxes must lie between, both sides; 0: no limit */
	int agnostic, best_class_only, max_per_group, max_det;	/* the last two: 0 no limit */
	int resort, need_partner;
};
/* Fill in a method's defaults; -1: no such method, err lists them. */
int nms_method(struct nms *, const char *name, struct err *);
struct nms_in {
	const float *box, *score;	/* [n][4] left top right bottom, [n][classes] */
	const float *objectness;	/* [n] or NULL */
	int n, classes;
};
/* A box whose objectness is not above score_thresh never takes part, nor a score or box that is not
 * finite.  Returns the number of detections in *out (free()): higher score first, then lower index,
 * then lower class. */
int nms_run(const struct nms *, const struct nms_in *, struct det **out);
/* From network input pixels to those of a picture that lies in it so; clip: to the picture's
 * borders.  0: nothing of the box is left. */
int det_map(struct det *, const struct fit *, int pic_w, int pic_h, int clip);

/* ---- source.c, inputs.c, detect.c: pictures in, detections out ----------------------------- */

/* source.c: where each picture of the operands lies, in the order given. */
struct where {
	char *name, *path;		/* as given; the file, NULL for a record of a shard */
	struct shard *shard;
	long record;
	char *why;			/* not NULL: cannot be had, and why */
};
struct source;
struct source *source_open(char *const *arg, int n);	/* both borrowed */
struct source *source_shard(struct shard *);		/* borrowed */
int source_next(struct source *, struct where *); /* 0: the end; the strings are the caller's */
int source_ready(struct source *);		/* would source_next answer without waiting? */
void source_stop(struct source *);		/* source_next ends; for signal handlers */
void source_close(struct source *);		/* closes the shards it opened */

struct picture {
	char *name;			/* as given: what the output calls it */
	char *path;			/* its file, NULL in a shard */
	int64_t id;			/* COCO image id where a shard has one, else -1 */
	int w, h;			/* of the pixels that boxes refer to */
	int orientation;		/* EXIF's that was not applied, 0: none */
	struct fit fit;			/* how it lies in the network input */
	int net_w, net_h;		/* size of that input: with rect its own */
	struct image px;		/* px NULL unless input_opts.keep */
	char *why;	/* not NULL: could not be read, and why; its input is zero */
	char *note;			/* not NULL: read, but there is a remark */
	char **class_name;		/* of its shard, borrowed; nclass 0 where there is none */
	int64_t *class_id;
	int nclass;
};
struct pictures {		/* a batch */
	int n;
	struct picture *pic;
	/* [n][h][w][3], or of 1; 0..1; as long as input_opts.batch.  With rect a picture's input
	 * begins at the same place, and is shorter. */
	float *x;
};
struct input_opts {
	int batch, threads;
	int w, h;			/* network input */
	int stretch;			/* instead of a letterbox */
	int rect;			/* the net's stride: letterboxes without needless border */
	int grey;			/* inputs of one channel, not three */
	int keep;			/* keep the decoded pictures */
	int stored;			/* EXIF's orientation is not applied to files */
	enum resize_kind resize;
};
struct inputs;
/* Operands are pictures, folders (all pictures below, sorted), lists of pictures and shards, told
 * apart by content; "-" or none at all is a list on stdin.  Threads decode a batch ahead.  What
 * cannot be read takes a picture's place with its reason: nothing is left out.  A batch is cut
 * short rather than held back while a pipe has no next name. */
struct inputs *inputs_open(char *const *arg, int n, const struct input_opts *);
struct inputs *inputs_open_shard(struct shard *, const struct input_opts *);	/* borrowed */
struct pictures *inputs_next(struct inputs *);	/* in the order given; NULL at the end */
void inputs_free(struct inputs *, struct pictures *);	/* give the batch back */
void inputs_stop(struct inputs *);		/* end after what is begun; for signal handlers */
void inputs_close(struct inputs *);

enum { DETECT_BATCH = 8 };
struct detect_opts {
	int batch;			/* pictures of one run, at most */
	int w, h;			/* network input, 0: the cfg's */
	struct nms nms;			/* method and thresholds; works on network pixels */
	int stretch, clip;
	int rect;			/* letterboxes without needless border */
	int softmax;			/* classes by softmax: ultralytics-2019 and -multi */
	enum resize_kind resize;
};
/* Score .25, IoU .45, the cfg's nms_kind (else greedy), no limit; stb, letterbox, clipped. */
void detect_defaults(struct detect_opts *, const struct cfg *);
/* What validation and -O eval=1 use: score .001, IoU .6, boxes merged, 300 a picture.  The mean of
 * what overlaps lies better than the best box: doc/training.md has the measurement. */
void detect_eval(struct detect_opts *);
int detect_softmax(enum loss_kind);	/* does this flavour decode classes by softmax? */
struct detector {
	struct cfg *cfg;		/* its own copy, at the size asked for */
	struct net *net;		/* inference: weights by detector_put or net_fold */
	struct detect_opts opt;
	int classes, w, h, stride;	/* w h: the largest input */
	struct decoder *dec;		/* buffers of detect.c */
};
struct detections { int n; const struct det *det; };	/* best first; x y w h in the picture */
struct detector *detector_open(struct dev *, const struct cfg *, const struct detect_opts *,
    struct err *);
void detector_close(struct detector *);
void detector_put(struct detector *, const struct weights *);	/* the average where there is one */
struct input_opts detector_inputs(const struct detector *, int threads);
/* out[i]: of picture i, borrowed until the next run; none for one that could not be read.  On the
 * CPU the same bits in whatever batch, on a GPU for whatever part of opt.batch is filled.
 * -1: the network's output is not finite. */
int detector_run(struct detector *, const struct pictures *, struct detections *out,
    struct err *);
/* A number as the output shows it, and as a reader of that output takes it: %.9g. */
const char *detect_text(float, char text[32]);
double detect_value(float);

/* ---- detwrite.c: detections out ------------------------------------------------------------ */

struct detwrite_opts {
	const char *format;		/* tsv, json, coco, yolo */
	const char *out;		/* "-", a file; for yolo a folder */
	const char *draw;		/* folder for pictures with boxes, NULL: none */
	const struct dataset *names;	/* class names, NULL: those of the shard, else numbers */
	const struct dataset *truth;	/* image and category ids for coco, NULL: none */
	int classes;
};
struct detwrite;
struct detwrite *detwrite_open(const struct detwrite_opts *, struct err *);
/* The detections of one picture; draws on p->px.  1: this picture could not be written, and why
 * (the others can); -1: nothing more can be. */
int detwrite_add(struct detwrite *, struct picture *p, const struct detections *, struct err *);
int detwrite_flush(struct detwrite *, struct err *);	/* what a pipe's reader waits for */
int detwrite_close(struct detwrite *, int keep, struct err *);	/* keep 0: no file is left */

#ifdef __cplusplus
}
#endif
#endif
