/* yolo.h -- every type and public function, in the order of the modules.
 *
 * Letters: n images of a batch, h rows, w columns, c channels of an input, k filters (channels of
 * an output), s kernel side or stride where the name says so, p padding.  Activations are NHWC:
 * element (b, y, x, ch) of a tensor stands at ((b * h + y) * w + x) * c + ch.
 *
 * What a file or a user can cause returns -1 or NULL and leaves one line in a struct err; only bugs
 * and an empty machine die.  Who made a thing frees it: x_open goes with x_close. */
#ifndef YOLO_H
#define YOLO_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOLO_VERSION "0.1"

#ifdef __GNUC__
#define PRINTF(a, b) __attribute__((format(printf, a, b)))
#define NORETURN __attribute__((noreturn))
#else
#define PRINTF(a, b)
#define NORETURN
#endif

/* ---- util.c: messages, memory, numbers, files -------------------------------------------- */

struct err {
	char msg[1024];		/* one line without newline, without the program's name */
};

extern const char *prog;	/* the program's name, for messages */
/* Sets it, also in argv[0], for getopt; at exit, stdout that cannot be written is status 1.  First
 * of all, standard descriptors that are closed are opened on /dev/null. */
void program(char **argv, const char *name);
extern int quiet;		/* -q: no progress lines */

int err_set(struct err *, const char *fmt, ...) PRINTF(2, 3);	/* always returns -1 */
/* "prog: ...\n" on stderr, one line; control characters become blanks and question marks. */
void warn(const char *fmt, ...) PRINTF(1, 2);
void die(int status, const char *fmt, ...) PRINTF(2, 3) NORETURN;
void progress(const char *fmt, ...) PRINTF(1, 2);	/* a line rewritten, on a terminal only */
void progress_end(void);				/* clear it before other output */

void *xmalloc(size_t);			/* these three end the program when memory is out */
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *, size_t);
char *xstrdup(const char *);
char *xasprintf(const char *fmt, ...) PRINTF(1, 2);
void *xgrow(void *p, size_t *cap, size_t need, size_t size);	/* room for need items of size */

double now(void);			/* seconds, monotonic */
/* First thing in main of a program that computes: its idle threads shall sleep, not spin. */
void calm_threads(char **argv);
/* The end of a run is asked for: f gets SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP,
 * on a stack of its own.  oneDNN 2.6's products keep numbers further below the stack pointer than
 * the 128 bytes that the kernel spares when it puts a handler's frame there: a handler on the
 * usual stack changes them, and the program computes nonsense or dies. */
void catch_end(void (*f)(int));
void leave_signals(void);	/* this thread, which computes too, gets none of them */
int cores(void);	/* processors this process may use: affinity, cgroup, OMP_NUM_THREADS */
int num_int(const char *s, long lo, long hi, long *out);	/* whole string, else -1 */
int num_side(const char *s, int *w, int *h);	/* "416" or "608x352" */
int num_real(const char *s, double lo, double hi, double *out);	/* finite, locale-free */
/* Such numbers with commas between: how many; -1: more than max, or something else. */
int num_list(const char *s, int max, double lo, double hi, double *out);

char *file_read(const char *path, size_t max, size_t *len, struct err *); /* NUL added; free() */
char *path_join(const char *dir, const char *name);
char *path_dir(const char *path);	/* "." where there is no slash */
const char *path_base(const char *path);	/* points into path */
/* A file that comes with the programs, as cfg/yolov3.cfg; name itself where there is none. */
char *path_stock(const char *name);
int path_isdir(const char *path);
int path_same(const char *, const char *);	/* both exist and are one file */

/* -1: an output is an input, as FILE or FILE:PART, or another output; NULL and "-" are neither. */
int path_clash(const char *const *out, int nout, const char *const *in, int nin, struct err *);
/* PATH.tmp.PID.RANDOM, free(); who makes it fails where it is there (O_EXCL, mkdir, symlink). */
char *path_tmp(const char *path);

/* A file that appears complete or not at all: written as path_tmp says, fsync, rename.  Path "-" is
 * stdout; a pipe or device is written to directly. */
struct outfile {
	FILE *f;
	char *path, *tmp;
};
int out_open(struct outfile *, const char *path, struct err *);
int out_commit(struct outfile *, struct err *);	/* closes; -1 when anything was not written */
void out_abort(struct outfile *);		/* closes and removes */
int stdout_flush(struct err *);	/* -1: something printed so far could not be written */
int utf8_len(const char *);	/* bytes of the character there, 0: none (a surrogate is none) */
int utf8_is(const char *);
void tsv_name(FILE *, const char *);		/* tab, newline, backslash as \t \n \\ */

/* ---- opt.c: -O key=value ------------------------------------------------------------------ */

/* One setting.  range is "lo..hi" (numbers; "0..inf" is open), "int lo..hi", "a|b|c" or "text".
 * dflt NULL: unset, the meaning says what then happens. */
struct setting {
	const char *key, *dflt, *range, *help;
};
struct settings {
	const struct setting *tab;	/* ends with key NULL */
	char **val;			/* one per row, NULL where not given */
};
void settings_open(struct settings *, const struct setting *tab);
void settings_close(struct settings *);
int settings_set(struct settings *, const char *keyvalue, struct err *);	/* or "@file" */
int settings_given(const struct settings *, const char *key);
const char *settings_str(const struct settings *, const char *key);	/* given, else dflt */
double settings_num(const struct settings *, const char *key);
long settings_int(const struct settings *, const char *key);
void settings_help(const struct settings *, FILE *);	/* TSV: key default range meaning */
/* What -O of a command line does: help prints the settings and ends the program, another is set; a
 * bad one ends it with status 2. */
void settings_option(struct settings *, const char *arg);

/* ---- safetensors.c: the container of checkpoints and golden data -------------------------- */

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

/* ---- cfgparse.c: a darknet cfg ------------------------------------------------------------ */

enum act { ACT_LINEAR, ACT_LEAKY, ACT_LOGISTIC, ACT_RELU, ACT_MISH, ACT_SWISH };
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
int cfg_pictures(const struct cfg *, struct err *);	/* -1: its input is no RGB picture */
int cfg_stride(const struct cfg *);	/* the largest stride of a head: sizes are multiples */
double cfg_flops(const struct cfg *, int layer); /* 2 x multiply-adds of a convolution, else 0 */
long cfg_floats(const struct cfg *, int layer);	/* floats of this layer in a .weights file */
/* The lexer's view (cfglex.c), read by cfgparse.c. */
struct cfg_key { char *name, *value; int line, used, twice; };
struct cfg_section { char *name; int line; struct cfg_key *key; int n; };
struct cfg_sections { struct cfg_section *s; int n; };
int cfg_lex(struct cfg *, struct cfg_sections *, struct err *);
void cfg_unlex(struct cfg_sections *);
void cfg_note(struct cfg *, int line, const char *text, const char *arg);
/* Reading a section's keys; the first error is kept in e and bad is set. */
struct cfg_reader { struct cfg *c; struct cfg_section *s; struct err *e; int bad; };
struct cfg_key *cfg_get(struct cfg_reader *, const char *name);
int cfg_line(const struct cfg_reader *, const char *key);	/* the key's, else the section's */
int cfg_bad(struct cfg_reader *, const char *key, const char *fmt, ...) PRINTF(3, 4);
long cfg_int(struct cfg_reader *, const char *name, long otherwise, long lo, long hi);
double cfg_num(struct cfg_reader *, const char *name, double otherwise, double lo, double hi);
int cfg_word(struct cfg_reader *, const char *name, int otherwise, const char *const *words);
/* Numbers with commas between, *out fresh memory; how many, 0 where the key is not there. */
int cfg_list(struct cfg_reader *, const char *name, double **out, int max, int whole);
/* What is known by name (cfgkeys.c). */
int cfg_section_type(const struct cfg *, const struct cfg_section *, enum layer_type *,
    struct err *);
int cfg_leftover(struct cfg_reader *, const char *section);	/* keys that nobody read */
int cfg_knows(const char *section, const char *key);
const char *layer_name(enum layer_type);	/* "convolutional" ... */
const char *act_name(enum act);

/* ---- image.c: decode, resize, letterbox, draw, write -------------------------------------- */

struct image {
	int w, h;
	unsigned char *px;		/* RGB, rows of w * 3 bytes */
};
enum resize_kind { RESIZE_STB, RESIZE_BILINEAR, RESIZE_DARKNET };
/* Decode JPEG (libjpeg-turbo), PNG, BMP, GIF (its first image; stb_image) or PNM; grey becomes
 * RGB, alpha is dropped, 16 bits become 8, EXIF orientation is NOT applied (labels are drawn on
 * stored pixels by darknet and OpenCV alike).  A damaged picture is an error, never half a picture.
 * On success err holds a remark ("no end mark ...") or an empty string. */
int image_decode(const void *bytes, size_t n, struct image *, struct err *);
/* From the header alone; orientation 0 where none is said. */
int image_size(const void *bytes, size_t n, int *w, int *h, int *orientation, struct err *);
int image_file_size(const char *path, int *w, int *h, int *orientation, struct err *);
enum image_format { IMG_UNKNOWN, IMG_JPEG, IMG_PNG, IMG_GIF, IMG_BMP, IMG_PNM };
enum image_format image_format(const void *bytes, size_t n);
int image_named(const char *name);	/* like a picture, also of a kind that is not read here */
int image_limit(int64_t w, int64_t h, struct err *);	/* -1: no size, or a bomb */
int image_whole(const void *bytes, size_t n, struct err *);	/* PNG, GIF: nothing missing */
struct jpeg_walk {		/* a JPEG's segments; jpeg.c */
	int w, h, bits, comps, progressive, arithmetic, orientation, scans, eoi, cut;
	size_t junk, len;
};
void jpeg_walk(const unsigned char *, size_t n, unsigned char *copy, struct jpeg_walk *);
int jpeg_decode(const unsigned char *, size_t n, struct image *, struct err *);
int pnm_decode(const unsigned char *, size_t n, struct image *, struct err *);
int image_jpeg(const struct image *, int quality, unsigned char **out, size_t *n, struct err *);
int image_load(const char *path, struct image *, struct err *);
struct image image_new(int w, int h);
void image_free(struct image *);
/* 8-bit resize of src to dst->w x dst->h (stb or half-pixel bilinear). */
void image_resize(const struct image *src, struct image *dst, enum resize_kind);
/* How a picture lies in a network input: x_net = x_pic * sx + dx, in pixels. */
struct fit { double sx, sy, dx, dy; int nw, nh; };
struct fit fit_letterbox(int pic_w, int pic_h, int net_w, int net_h);	/* darknet's integers */
struct fit fit_stretch(int pic_w, int pic_h, int net_w, int net_h);
/* The letterbox without whole rows or columns of unit pixels of border: an input of *w x *h. */
struct fit fit_rect(int pic_w, int pic_h, int net_w, int net_h, int unit, int *w, int *h);
/* The picture as network input, float 0..1 NHWC of one image: out[net_h][net_w][3].  Grey border:
 * 0.5 for RESIZE_DARKNET (computed in float, corner-aligned), else 114/255 (8-bit resize). */
void image_to_net(const struct image *, struct fit, enum resize_kind, int net_w, int net_h,
    float *out);
/* Draw a box in the class's colour with a readable label on it (text may be NULL). */
void image_box(struct image *, double x, double y, double w, double h, int cls, const char *text);
int image_write(const char *path, const struct image *, struct err *);	/* .png or .jpg, atomic */

/* ---- box.c, suppress.c: non-maximum suppression, mapping ---------------------------------- */

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
/* box[n][4] = left top right bottom, score[n][classes], objectness[n] or NULL; a box whose
 * objectness is not above score_thresh never takes part, nor a score or box that is not finite.
 * Returns the number of detections in *out (free()): higher score first, then lower index, then
 * lower class. */
int nms_run(const struct nms *, const float *box, const float *score, const float *objectness,
    int n, int classes, struct det **out);
/* The same from decoded rows [n][5 + classes]: centre, size, objectness, class probabilities, as
 * loss_ops.decode writes them.  *bad, unless NULL: rows dropped because something in them is not
 * finite. */
int nms_decoded(const struct nms *, const float *row, int n, int classes, struct det **out,
    int *bad);
/* What box.c collects and suppress.c decides on. */
struct nms_cand {
	uint32_t key;			/* bits of the score: positive floats order as integers */
	int box, cls;
};
struct nms_work {
	const struct nms *m;
	const float *box;		/* [n][4], left top right bottom */
	const float *score, *obj;	/* class scores and objectness of box 0; obj NULL: none */
	int stride, obj_stride, times;	/* floats between boxes; times: score is score * obj */
	int classes, sets;
	struct nms_cand *c;			/* in the order of rule 2 */
	int nc;
	size_t cap;
	int *member, *first;	/* set s holds candidates member[first[s]] .. [first[s+1]-1] */
	unsigned char *gone;
	float *now;			/* current scores, for decaying rules */
	struct det *out;
	int nout;
	size_t outcap;
};
int nms_passes(const struct nms *, float score);
float nms_score(const struct nms_work *, int box, int cls);
void nms_emit(struct nms_work *, const float *box, double score, int cls, int index);
void nms_rule(struct nms_work *);		/* fills in out, nout */
/* From network input pixels to those of a picture that lies in it so; clip: to the picture's
 * borders.  0: nothing of the box is left. */
int det_map(struct det *, const struct fit *, int pic_w, int pic_h, int clip);

/* ---- labels.c: truth from files ----------------------------------------------------------- */

enum { BOX_CROWD = 1, BOX_DIFFICULT = 2, BOX_TRUNCATED = 4, BOX_OCCLUDED = 8, BOX_CLIPPED = 16 };
struct box {
	double x, y, w, h;		/* pixels, top-left, as given (clipped if flagged) */
	double area;			/* as given (COCO: of the segmentation), else w * h */
	int64_t id;			/* annotation id, -1 where the format has none */
	int cls;			/* index in the class table */
	int flags;
};
struct item {			/* one picture */
	char *name;			/* as given in the list, json or xml */
	char *path;			/* where its bytes lie; NULL: in memory (shards) */
	int64_t id;			/* COCO image id, else -1 */
	int w, h;			/* 0 until known */
	struct box *box;
	int nbox;
};
struct dataset {
	struct item *item;
	int n;
	char **class_name;		/* NULL entries where no names are known */
	int64_t *class_id;		/* original ids (COCO category ids), else 0.. */
	int nclass, fixed;		/* fixed: from -n's file, nothing is added */
	long refused, notes, bad; /* labels refused; remarks; pictures left out (lists, folders) */
};
/* Called for every remark, refused label and unusable picture: one line "file:line: what". */
enum { SAY_NOTE, SAY_REFUSED, SAY_PICTURE };
typedef void label_report(void *arg, int kind, const char *line);
/* Read any kind of input (COCO json, VOC, lists, .data, data.yaml, folders, one picture), kind
 * recognised by content; appended to the data set.  "-": a list on stdin, "-0": NUL between names.
 * FILE.json:DIR says where the pictures lie; FILE.data:valid and FILE.yaml:val choose a split.
 * names: class names file or NULL.  An input with names of its own has its classes matched by them
 * with those that are there already.  Boxes of YOLO and VOC labels are clipped to the picture and
 * flagged; COCO's stay as given, even beyond the border.  A shard is not read here.  COCO and VOC
 * pictures need not be there; a listed picture that cannot be opened is reported and left out. */
int labels_read(struct dataset *, const char *input, const char *names, label_report *, void *arg,
    struct err *);
int labels_names(struct dataset *, const char *path, struct err *);	/* a .names file */
void labels_close(struct dataset *);

/* The parts of the above, for labels.c and label*.c. */
struct labels {
	struct dataset *d;
	label_report *report;
	void *arg;
	struct err *e;
	/* YOLO labels: whose class is one too high; is 0; all that name a class by its number */
	long too_high, zero, numbers;
	long pictures, bare;		/* that may have a label file; that have none */
	int *map, nmap;	/* this input's class numbers in the table, -1: none; NULL: the same */
};
struct text { char *buf, *p, *end; int line, nul; };	/* nul: lines end in NUL, not newline */
int text_open(struct text *, const char *path, struct err *);	/* -1 also for UTF-16 and binary */
char *text_line(struct text *);		/* NULL at the end; ends of line \n, \r\n, \r */
void label_say(struct labels *, int kind, const char *fmt, ...) PRINTF(3, 4);
struct item *label_item(struct labels *, const char *name, const char *path);
void label_box(struct item *, const struct box *);
int label_class(struct labels *, const char *name);	/* found or added; -1 where fixed */
void label_map(struct labels *, const char *from, char *const *name, int n); /* its own names */
void label_new_class(struct dataset *, const char *name, int64_t id);	/* id: if it is free */
int64_t label_free_id(const struct dataset *);
/* -1: refused, 0 fine, 1 clipped to w x h (0: size unknown, no clipping); why: what to report */
int label_check_box(struct box *, int w, int h, const char **why);
/* Where the label of a picture may lie: beside it, or in labels/.  free() both; second NULL. */
void label_paths(const char *picture, char *path[2]);
int label_yolo(struct labels *, struct item *, const char *path, struct err *);	/* one file */
void label_picture(struct labels *, const char *name, const char *path, const char *from);
int label_list(struct labels *, const char *path);
/* A line of a list of pictures: blanks at its ends belong to the name only if there is such a file
 * (exact: always), # begins a comment unless there is, Windows' backslashes are turned. */
enum { LINE_EMPTY, LINE_COMMENT, LINE_NOWHERE, LINE_PICTURE };
struct label_line { char *name, *path; int turned; };	/* path NULL: nowhere; free() both */
int label_line(const char *line, const char *dir, int exact, struct label_line *);
int label_folder(struct labels *, const char *path);
int label_data(struct labels *, const char *path, const char *split);
int label_yaml(struct labels *, const char *path, const char *split);
int label_coco(struct labels *, const char *path, const char *dir);
struct coco_id { int64_t v; char *s; };	/* s NULL: the number v */
struct coco_image { struct coco_id id; char *file; int w, h, item; };
struct coco_category { struct coco_id id; char *name; int cls; };
struct coco_annotation {
	struct coco_id image, category;
	double box[4], area;
	int64_t id;
	int nbox, polygon, crowd, difficult, line;	/* nbox: of bbox, -1 not all numbers */
};
struct coco_file {
	struct coco_image *image;
	struct coco_category *category;
	struct coco_annotation *ann;
	size_t nimage, ncategory, nann;
	int seen_images, seen_annotations, seen_categories;
};
int coco_flag(const char *key, size_t n);	/* BOX_ of an annotation's key; 0: none */
int coco_parse(struct labels *, const char *path, FILE *, struct coco_file *);
int label_voc(struct labels *, const char *path);	/* folder, split file or one .xml */
/* The picture of an xml that says <filename> file; *shown: how it is called.  free() both. */
char *label_voc_picture(const char *xml, const char *file, const char *stem, char **shown);
void label_voc_unlabelled(struct labels *, const char *root, int from);
void label_one_based(struct labels *, const char *input);
/* All files below a folder, in the order of their names. */
struct label_files { char **v; size_t n, cap; };
int label_walk(const char *dir, struct label_files *, struct err *);
void label_files_sort(struct label_files *);
int label_files_has(const struct label_files *, const char *path);	/* sorted ones */
void label_files_free(struct label_files *);

/* ---- shard.c: the packed format ----------------------------------------------------------- */

enum codec { CODEC_JPEG, CODEC_PNG, CODEC_OTHER, CODEC_RAW };
struct record {
	int64_t id;			/* COCO image id, -1 where there is none */
	int w, h, orientation;		/* as stored; EXIF orientation, 0 where none is said */
	enum codec codec;
	const char *name;
	const struct box *box;
	int nbox;
	const unsigned char *bytes;	/* the image file's own bytes */
	size_t nbytes;
};
struct shard;			/* one file, or a whole numbered set */
/* The footer is checked: O(1).  Any piece of a set, or a link to one, opens the whole set. */
struct shard *shard_open(const char *path, struct err *);
/* Does path[n] name a set of which a piece stands before it?  Then it adds nothing. */
int shard_again(char *const *path, int n);
void shard_close(struct shard *);
int shard_is(const char *path);		/* by its first bytes; it may be damaged */
long shard_count(const struct shard *);
int shard_classes(const struct shard *, char ***name, int64_t **id);	/* number; borrowed */
/* Record n: labels and name borrowed from the shard; image bytes read into *buf (grown, *cap
 * bytes) and verified.  Safe from several threads with buffers of their own. */
int shard_read(struct shard *, long n, struct record *, unsigned char **buf, size_t *cap,
    struct err *);
int shard_labels(struct shard *, long n, struct record *, struct err *);	/* no image bytes */
int shard_check(const char *path, long *records, struct err *);	/* every checksum */
const char *shard_uuid(const struct shard *);	/* 32 hex digits */
const char *shard_path(const struct shard *, long n);	/* the file that holds record n */
/* Path "-": a stream on stdout.  options: text kept in the file (what changed the bytes). */
struct shard_writer;
struct shard_writer *shard_create(const char *path, char *const *class_name,
    const int64_t *class_id, int nclass, const char *options, struct err *);
void shard_limit(struct shard_writer *, uint64_t bytes);	/* a numbered set of such files */
int shard_add(struct shard_writer *, const struct record *, struct err *);
int shard_finish(struct shard_writer *, struct err *);	/* writes the tail; frees, also on -1 */
void shard_discard(struct shard_writer *);
/* One record after the other, from a pipe or a file; needs no tail. */
struct shard_stream;
struct shard_stream *stream_open(FILE *, const char *name, struct err *);	/* f stays open */
int stream_classes(const struct shard_stream *, char ***name, int64_t **id);
/* 1: a record, borrowed until the next call; 0: the END record, all complete; -1 */
int stream_next(struct shard_stream *, struct record *, struct err *);
uint64_t stream_at(const struct shard_stream *);	/* offset of the record last read */
uint64_t stream_end(const struct shard_stream *);	/* offset behind it */
void stream_uuid(const struct shard_stream *, unsigned char uuid[16]);
void stream_close(struct shard_stream *);

/* shardcodec.c: the structures on disk (man/yolo-shard.5), for the shard*.c files. */
enum { SHARD_HEAD = 4096, SHARD_REC = 80, SHARD_BOX = 64, SHARD_ENTRY = 64, SHARD_FOOT = 128,
	SHARD_ALIGN = 64 };
enum rec_kind { REC_META = 1, REC_IMAGE = 2, REC_END = 3 };
struct shard_head { int stream; unsigned char uuid[16]; };
struct shard_rec {		/* the prefix of a record */
	enum rec_kind kind;
	uint64_t sum, payload;		/* XXH3-64 of the payload, its length */
	int64_t id;
	int w, h, codec, orientation;
	unsigned name_len, nbox;
};
struct shard_entry {		/* a record in the index */
	uint64_t offset, length, sum, box, name;	/* length: prefix and payload */
	int64_t id;
	unsigned nbox, name_len;
	int w, h, codec, orientation;
};
struct shard_foot {
	uint64_t length, records, nbox, index, boxes, names, index_sum, boxes_sum, names_sum;
	unsigned member, last;		/* number of this file in a set; is it the last? */
	unsigned char uuid[16], prev[16];
};
uint64_t shard_image_at(uint64_t name_len, uint64_t nbox);	/* within a record */
void shard_put_head(unsigned char *, const struct shard_head *);
int shard_get_head(const unsigned char *, struct shard_head *, struct err *);
void shard_put_rec(unsigned char *, const struct shard_rec *);
int shard_get_rec(const unsigned char *, struct shard_rec *, struct err *);
void shard_put_box(unsigned char *, const struct box *);
void shard_get_box(const unsigned char *, struct box *);
void shard_put_entry(unsigned char *, const struct shard_entry *);
void shard_get_entry(const unsigned char *, struct shard_entry *);
void shard_put_foot(unsigned char *, const struct shard_foot *);
int shard_get_foot(const unsigned char *, struct shard_foot *, struct err *);
unsigned char *shard_put_meta(char *const *name, const int64_t *id, int n, const char *options,
    size_t *len);
int shard_get_meta(const unsigned char *, size_t len, char ***name, int64_t **id, int *n,
    struct err *);

/* ---- pack.c, packjob.c, unpack.c: yolo-prep's two halves ------------------------------------- */

struct pack_opts {
	const char *out, *names;
	char *const *in;		/* anything labels_read takes, and shards; "-" stdin */
	int nin, nul;			/* nul: the list on stdin ends its names with NUL */
	int w, h, quality;		/* recode to fit w x h, 0: as it is; quality 0: 90 */
	int threads, salvage;	/* salvage: take what is whole of a damaged shard or stream */
	long max_bad;			/* -1: labels without limit, pictures none */
	uint64_t limit;			/* bytes of a piece, 0: one file */
	label_report *report;
	void *arg;
	volatile int *stop;		/* set by a signal */
};
struct pack_result { long pictures, boxes, refused, notes, bad; int classes;
	long untrained; };		/* of the boxes: crowds and difficult ones */
struct pack_job {			/* one picture on its way */
	struct record rec;
	struct box *box;
	unsigned char *bytes;
	size_t cap;
	char *bad, *note;		/* why it is left out; remarks, one a line */
	int done;
};
void pack_decode(const struct pack_opts *, struct pack_job *, const char *path); /* its bytes */
/* 0 packed; -1 failed, nothing written. */
int pack_run(const struct pack_opts *, struct pack_result *, struct err *);
/* Pictures byte for byte and labels as yolo, coco or voc, into a new or empty folder. */
int unpack_run(const char *dir, const char *format, char *const *shard, int n, long *pictures,
    volatile int *stop, struct err *);

/* ---- augment.c: a decoded picture becomes a sample ---------------------------------------- */

struct truth { float image, cls, x, y, w, h; };	/* image: slot in the batch; relative, centre */

enum aug_kind { AUG_NONE, AUG_DARKNET, AUG_ULTRA2019, AUG_MOSAIC };
struct augment {
	enum aug_kind kind;
	double jitter, hue, saturation, exposure, flip;	/* darknet: U(-j,j), factors 1..s */
	double degrees, translate, scale, shear, mosaic;	/* ultralytics: half ranges */
	double hsv_h, hsv_s, hsv_v; /* half ranges: hue in turns, gains of saturation and value */
	enum resize_kind resize; /* none only; the others read the picture once, bilinearly */
	int stretch;			/* none only */
	long mosaic_last;		/* samples from this one on are no mosaics; 0: all may be */
};
void augment_defaults(struct augment *, enum aug_kind);
#define AUG_PICTURES 4
#define AUG_WINDOW 256		/* mosaic's partners are at most so many samples away */
/* The pictures that sample t is made of, as sample numbers, itself first; how many. */
int augment_picks(const struct augment *, uint64_t seed, long t, long pick[AUG_PICTURES]);
struct sample {			/* a decoded picture and its labels, in its pixels */
	struct image im;
	const struct box *box;
	int nbox;
};
struct warp;
/* Sample t from its n pictures, a function of these arguments alone: pixels into out[h][w][3],
 * labels into truth, which has room for all the pictures' boxes; at most max of them (0: all).
 * Crowds and difficult boxes are not trained on, nor what is cut off or shrunk to nothing.  Truths
 * get image 0.  Returns their number. */
int augment_sample(const struct augment *, uint64_t seed, long t, const struct sample *, int n,
    int w, int h, int max, struct warp *, float *out, struct truth *);

/* ---- warp.c: pictures into a network input ------------------------------------------------ */

struct paste {		/* source x = m[0] x + m[1] y + m[2], y likewise; indices of pixels */
	const struct image *im;
	double m[6], lo[2], hi[2];	/* the picture is where lo <= source < hi */
};
struct tone { float hue, sat, val; int open; };	/* turns, factors; open: cut only at the end */
struct canvas {
	int w, h;
	float grey;			/* 0..255, where no picture is */
	int eight, halve;		/* rounded to 8 bits; fine sources are halved first */
	int tone_all;			/* the tone changes the grey too */
	struct tone tone;
};
struct warp *warp_open(void);	/* buffers, one set per thread */
void warp_close(struct warp *);
/* Later pictures cover earlier ones; at most AUG_PICTURES. */
void warp_draw(struct warp *, const struct canvas *, const struct paste *, int n, float *out);

/* ---- album.c: decoded pictures kept for a while ------------------------------------------- */

struct album;
/* At most so many bytes and pictures. */
struct album *album_open(size_t limit, int most);
void album_close(struct album *);
/* 1: *im is the kept picture, to be read until album_done; 0: it is not here. */
int album_get(struct album *, long record, struct image *);
/* Keep a picture just decoded: 1: kept and being read, *im may have become an equal copy; 0: there
 * is no room, it stays the caller's. */
int album_put(struct album *, long record, struct image *);
void album_done(struct album *, long record);

/* ---- loader.c, order.c, album.c ----------------------------------------------------------- */

struct loader_opts {
	uint64_t seed;
	int batch;			/* the global batch B */
	int rank, ranks;
	int parts;			/* the batch is cut into so many, 0: one */
	int w, h;			/* network input, or the largest when size is given */
	int threads;
	long total;	/* samples of the whole run, 0: steps * batch (the last is whole) */
	int in_order;			/* validation: sample t is record t, one pass */
	int max_truth;			/* per image, 0: all */
	struct augment aug;
	/* Multi-scale: the input of a step, at most w h, a function of the step alone because
	 * batches are made ahead; called by one thread at a time.  NULL: w h. */
	void (*size)(void *arg, long step, int *w, int *h);
	void *size_arg;
};
struct batch {
	long step;			/* number of the batch, from 0 */
	long first;			/* first sample of the whole batch */
	long t0;			/* first sample of this rank's slice */
	int n, w, h;			/* images of this rank; w h of the input */
	int n_global;			/* images in the whole batch */
	float *x;			/* [n][h][w][3], 0..1 */
	struct truth *truth;
	int ntruth;
	long *record;			/* which record each image is (mosaic: its first picture) */
	struct fit *fit;		/* and how it lies in the input (augmentation none only) */
	int *pic_w, *pic_h;
	double wait;			/* seconds the consumer waited for it */
};
struct loader;
/* The batches first_step .. first_step + steps - 1 of a run: batch i holds the samples i * B up to
 * (i + 1) * B or total, of which a rank gets its share of each part (order_share), one behind the
 * other. */
struct loader *loader_open(struct shard *, const struct loader_opts *, long first_step, long steps,
    struct err *);
/* The next batch, in order; the caller may hold two at a time.  NULL at the end (err->msg empty) or
 * for a picture that cannot be used, the same one at any number of threads: "...: record N (name):
 * why". */
struct batch *loader_next(struct loader *, struct err *);
void loader_free(struct loader *, struct batch *);	/* give the slot back */
void loader_close(struct loader *);	/* at any moment */
/* The one block that its ring takes and, with mosaic, what of this shard's pictures is kept
 * decoded, LOADER_KEEP bytes at most.  Each thread's file and decoded pictures, and labels beyond
 * LOADER_TRUTH a picture, come on top. */
#define LOADER_TRUTH 64
#define LOADER_KEEP ((size_t)256 << 20)
size_t loader_bytes(const struct loader_opts *, struct shard *);
/* The record of sample t: a keyed permutation of 0..n-1 for every epoch t / n. */
long loader_record(uint64_t seed, long n, long t);
/* Of a batch of n images, those of a part that a rank computes: [*from, *to).  A part is the same
 * images whatever the ranks: part p is the n * p / parts-th up to the n * (p + 1) / parts-th.  The
 * ranks have slices of it, those whose turn it is one image more; the turn moves on from part to
 * part, so that what ranks have of a batch differs by one image at most. */
void order_share(int n, int parts, int part, int ranks, int rank, int *from, int *to);
int order_images(int n, int parts, int ranks, int rank);	/* of all parts (0: one) */
int order_image(int n, int parts, int ranks, int rank, int i);	/* the i-th of them; n: none */

/* ---- cpu.c, cuda.c: devices --------------------------------------------------------------- */

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
/* bf16: activations, their gradients and the factors of products are bfloat16; parameters, sums,
 * statistics and losses stay float.  On a CPU without it dev_open() says so, unless silent, and
 * stays with float, but for emulate: the same numbers to the order of summation, slowly.  tf32 is
 * for CUDA; a CPU says so likewise. */
struct dev_opts { int threads, tf32, exact, deterministic, bf16, emulate, silent; };
/* -p: fp32 (or NULL), tf32, bf16 into *o. */
int dev_precision(struct dev_opts *o, const char *name, struct err *);
const char *dev_precision_name(const struct dev *);	/* what it computes in: fp32, tf32, bf16 */
/* spec: "cpu", "cuda", "cuda:1"; NULL: the best there is.  The err names the missing package. */
struct dev *dev_open(const char *spec, const struct dev_opts *, struct err *);
void dev_close(struct dev *);
int dev_count(const char *kind);	/* usable ones of "cuda" or "cpu"; 0 also if not built */
/* What this build and machine have, one line each, for -V; returns the number of devices. */
int dev_list(char *out, size_t len);
/* For dev.c.  open fills in ops, name, stream, priv of *d; index counts devices of the kind. */
int cpu_open(struct dev *, int index, struct err *);
int cpu_count(struct err *);
void cpu_describe(int index, char *out, size_t len);
/* cpubf16.c: products of bfloat16 numbers. */
int cpu_has_bf16(void);
void cpu_gemm_bf16(const struct gemm *);
int cuda_open(struct dev *, int index, struct err *);
int cuda_count(struct err *);	/* 0: err says what is missing */
void cuda_describe(int index, char *out, size_t len);

/* Tensors of activations and of their gradients are void *: numbers as the device stores them,
 * store->bytes each, float or bfloat16.  The tables below exist once for each. */

/* ---- store.cu ----------------------------------------------------------------------------- */

struct store_ops {
	int bytes;			/* of a stored number: 4, or 2 for bfloat16 */
	void (*widen)(struct dev *, int n, const void *stored, float *);
	void (*narrow)(struct dev *, int n, const float *, void *stored);
	void (*add)(struct dev *, int n, const float *src, float *dst);	/* dst += src */
};
extern const struct store_ops store_cpu, store_cuda, store_emu, store_cpu_bf16, store_cuda_bf16,
    store_emu_bf16;

/* ---- conv.cu ------------------------------------------------------------------------------ */

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

/* ---- batchnorm.cu ------------------------------------------------------------------------- */

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

/* ---- layers.cu, heads.cu ------------------------------------------------------------------ */

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

/* ---- loss.c, assign.c, lossbase.cu, yololoss.cu, darkloss.cu, regionloss.cu ---------------- */

enum loss_kind { LOSS_ULTRA2019, LOSS_MULTI, LOSS_ARCHIVE, LOSS_DARKNET, LOSS_DARKNET_IOU,
	LOSS_CIOU };
#define MAX_HEADS 8
#define MAX_MASK 32
struct loss_head {
	int h, w, nmask, mask[MAX_MASK]; /* grid; anchors of the head, indices in loss.anchor */
	const float *raw;		/* device, [n][h][w][nmask * (5 + classes)] */
	float *grad;			/* likewise; what backpropagation receives: dL/draw */
	const struct def_yolo *yolo;	/* the cfg's keys, for the darknet flavours */
	int region;			/* a [region] layer: its own loss, anchors in cells */
	/* darknet, for tests; device, a byte per cell and anchor, or NULL: 0 a plain negative, 1
	 * above ignore_thresh, 2 above truth_thresh, before truths are assigned. */
	unsigned char *state;
};
struct loss {
	enum loss_kind kind;
	int n, classes, in_w, in_h;	/* images of this (mini-)batch; network input, pixels */
	int nanchor;
	const float *anchor;		/* host: nanchor pairs, pixels */
	int nhead;
	struct loss_head head[MAX_HEADS];
	double k, gain_xy, gain_wh, gain_cls, gain_conf, iou_t;	/* ultralytics-2019, -multi */
	double gain_box, gain_obj;		/* archive, ciou; gain_cls and iou_t too */
	double gr, focal_gamma, focal_alpha, anchor_t, label_smooth, cls_pw, obj_pw;
	double balance[MAX_HEADS];
	/* archive, ciou: weights of the class terms by a truth's class; host, or NULL: all 1 */
	const float *cls_weight;
	double seen;			/* [region]: images trained on so far */
	/* What means are divided by: filled by count(), then all-reduced by the caller, so that
	 * the gradients of mini-batches and ranks simply add; from a part alone, the part's own
	 * means.  darknet's gradients are never divided. */
	double images;			/* images of the whole batch */
	double count[MAX_HEADS]; /* assigned truths per head (multi: [0] = distinct positives) */
};
/* Terms of a head, gains applied; they add up over heads, parts and ranks.  darknet: [1]..[4] are
 * sums of squared deltas, the total is darknet's cost of the layer, and sums over assigned truths
 * follow: their number, IoU, output at the true class, objectness, IoU above .5 and .75. */
enum { TERM_TOTAL, TERM_BOX, TERM_WH, TERM_OBJ, TERM_CLS, TERM_COUNT, TERM_IOU, TERM_STAT_CLS,
	TERM_STAT_OBJ, TERM_R50, TERM_R75, LOSS_TERMS }; /* BOX: without w h where WH is in use */
struct loss_ops {
	size_t (*workspace)(const struct loss *, int max_truth); /* device bytes, for any grid */
	/* Decoded boxes: out [n][R][5+classes], device: centre x y, w h in input pixels,
	 * objectness, class probabilities; R over head, anchor, row, column.  Needs no
	 * workspace. */
	void (*decode)(struct dev *, const struct loss *, float *out, void *ws);
	/* Adds this truth's counts to loss->count (host only: assignment needs no outputs).  Grids
	 * and in_w, in_h must be those of run(); n is not looked at. */
	void (*count)(struct loss *, const struct truth *, int ntruth);
	/* Writes head[].grad, adds to term[head][LOSS_TERMS] (host, double).  Waits. */
	void (*run)(struct dev *, const struct loss *, const struct truth *, int ntruth,
	    double term[][LOSS_TERMS], void *ws);
};
extern const struct loss_ops yololoss_cpu, yololoss_cuda, yololoss_emu, darkloss_cpu,
    darkloss_cuda, darkloss_emu;
const char *loss_name(enum loss_kind);
int loss_kind(const char *name);			/* -1: unknown */
void loss_defaults(struct loss *, enum loss_kind);	/* gains of golden/loss */
int loss_rows(const struct loss *);		/* R: decoded boxes of an image */

/* What kernels want to know of a head, passed by value. */
struct head_view {
	int n, h, w, a, c;
	float in_w, in_h, k;		/* k: scale_x_y */
	int square, softmax;		/* sizes (2s)^2 instead of exp; classes by softmax */
	float aw[MAX_MASK], ah[MAX_MASK];	/* anchors in pixels */
	const float *raw;
	float *grad;
};
void loss_view(const struct loss *, int head, struct head_view *);

/* One truth on one cell and anchor. */
struct loss_row {
	int cell;	/* ((image * h + row) * w + col) * nmask + anchor of the head */
	int truth, cls;			/* truth: index in the list given */
	int order;			/* in which the flavour assigns, within the head */
	/* ultralytics-2019 and -multi: targets of s(tx), s(ty), tw, th; archive and ciou: the box
	 * in cells, relative to the cell; darknet: the box relative to the picture */
	double x, y, w, h;
};
struct targets {
	struct loss_row *row;		/* by head, cell, order of assignment */
	int nrow;
	int *first;			/* group g (a cell) holds rows first[g] .. first[g+1]-1 */
	int ngroup, group[MAX_HEADS + 1];	/* head h owns groups group[h] .. group[h+1]-1 */
};
/* The truths of a head in the flavour's order of assignment: rows written (unless NULL) and
 * counted.  Truths with a class, image or size that cannot be are left out. */
int assign_head(const struct loss *, int head, const struct truth *, int ntruth, struct loss_row *);
int assign_max(const struct loss *, int ntruth);	/* the most rows of all heads together */
void assign_count(struct loss *, const struct truth *, int ntruth);	/* loss_ops.count */
void targets_make(struct targets *, const struct loss *, const struct truth *, int ntruth);
void targets_free(struct targets *);

/* darknet's truth lists: at most max of each image, ending before the first x of exactly 0; indices
 * of usable ones by image, then file order.  start[n + 1] unless NULL: where image i's begin;
 * images from n on are left out.  n < 0: all images. */
int assign_lists(const struct loss *, const struct def_yolo *, const struct truth *, int ntruth,
    int n, int *index, int *start);

/* The device workspace of run(), and sums of partial results in a fixed order. */
#define LOSS_CHUNKS 256	/* partial sums of a pass over all cells, whatever their number */
#define LOSS_PARTS 10			/* most partial sums of a group, or of a chunk */
struct loss_area {
	struct loss_row *row;
	int *first, group[MAX_HEADS + 1];	/* as in struct targets; group on the host */
	/* mult[0]: cls_weight.  darkloss: by head, truth lists (start[image], LOSS_LIST arrays of
	 * lists[h] floats: left top right bottom area, then x y w h class, relative) and
	 * multipliers of the classes */
	int *start[MAX_HEADS], lists[MAX_HEADS];
	float *edge[MAX_HEADS], *mult[MAX_HEADS];
	double *sum, *part;
	size_t upload, bytes;
};
#define LOSS_LIST 10
void loss_layout(const struct loss *, int ntruth, void *ws, struct loss_area *);
/* Assign, and put all that kernels need of the truth on the device, in one copy. */
void loss_upload(struct dev *, const struct loss *, const struct truth *, int ntruth, void *ws,
    struct loss_area *);
#define LOSS_SUMS (MAX_HEADS * 16)
struct loss_sums {			/* n sums of len[i] numbers from part[off[i]] */
	int n, off[LOSS_SUMS], len[LOSS_SUMS], next;
};
int loss_sums_add(struct loss_sums *, int len);	/* reserves them: the offset of the first */

/* ---- optim.cu, optimplan.c, schedule.c ---------------------------------------------------- */

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

/* One update's settings, whoever made them. */
struct warm { double lr, lr_bias, momentum, decay; int accumulate; };
/* Which parameter is in which group: kernels, biases and scales apart, layers with learning_rate
 * or dont_update of their own apart, frozen ones (train_only_bn and all before it; all before
 * stopbackward=1) apart. */
struct optim_plan {
	unsigned char *group;		/* host, units bytes; to be put on the device; free() */
	size_t units;			/* OPTIM_UNIT floats each, the whole of ntrain */
	int nclass;
	struct { double scale; long until; } cls[OPTIM_GROUPS / 3]; /* no update while b <= until */
};
struct params;
int optim_plan(const struct cfg *, const struct params *, struct optim_plan *, struct err *);
/* Rates of update b (from 1).  Decay on kernels only, or on all (darknet's Adam). */
void optim_rates(const struct optim_plan *, long b, const struct warm *, int decay_all,
    struct optim_rates *);

/* Darknet's policies; b: the update, from 1 (0 is legal).  seed: for policy random. */
double schedule_lr(const struct cfg_net *, uint64_t seed, long b);
/* Ultralytics' recipe of 2020: the cosine falls from lr0 to lr0*lrf by epochs; until iteration
 * n = max(warmup * samples/batch, 500) lr, bias lr, momentum, decay and accumulate ramp up. */
struct cosine {
	double lr0, lrf, momentum, decay, epochs, warmup;	/* lrf .05, warmup 3: golden */
	long samples;			/* per epoch */
	int batch, nominal;		/* accumulate goes to nominal/batch (64) */
};
struct warm schedule_cosine(const struct cosine *, long it);
/* Its recipes of 2019; epoch, and i in it, from 0: the first batch has rate 0. */
enum ultra_lr { ULTRA_EPOCH250, ULTRA_MILESTONES };
double schedule_ultralytics(double lr0, enum ultra_lr, long batches, long epoch, long i);
double schedule_ema(double decay, double tau, long t);	/* decay*(1-exp(-t/tau)); tau 0: decay */
/* Multi-scale: the sizes of a run's inputs.  The rules draw one for ten batches, SIZE_V5 for each:
 * SIZE_PJREDDIE and SIZE_2019 (ultralytics at 613ce1b): 320..608 squares, whatever the cfg says;
 * SIZE_ALEXEY: the cfg's size times 1/r..r, plus a resize_step; SIZE_ARCHIVE: times 1/1.5..1.5;
 * SIZE_V5: times 0.5..1.5.  All are multiples of unit. */
enum size_rule { SIZE_FIXED, SIZE_PJREDDIE, SIZE_ALEXEY, SIZE_2019, SIZE_ARCHIVE, SIZE_V5 };
#define SIZE_FACTOR 16	/* a range that ends here or below is in factors of the cfg's side */
#define SIZE_TRIES 4096
struct size_plan {
	enum size_rule rule;
	int w, h;			/* the cfg's size */
	int unit, every;		/* pixels; batches */
	int lo, hi, keep_ratio;		/* of the longer side, pixels; 0: squares */
	int given;			/* the range is the user's */
	double factor;			/* SIZE_ALEXEY: r */
};
/* random: the cfg's, of the last head; 0: always its size.  stride: sides are multiples of it. */
void schedule_sizes(struct size_plan *, const struct cfg_net *, int stride, enum size_rule rule,
    double random);
/* Then, or instead: a range of the longer side; the other follows.  -1: no multiple lies in it. */
int schedule_size_range(struct size_plan *, enum size_rule rule, double lo, double hi);
/* Size of batch `step` (from 0) of `steps`, a function of (seed, step). */
void schedule_size(const struct size_plan *, uint64_t seed, long step, long steps, int *w, int *h);
void schedule_size_max(const struct size_plan *, int *w, int *h);
/* i from 0 to SIZE_TRIES - 1 goes through the sizes, each at least once. */
void schedule_size_try(const struct size_plan *, int i, int *w, int *h);

/* ---- params.c, weights.c, weights_st.c, transfer.c: parameters on the host and in files ---- */

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
};
void weights_init(const struct cfg *, const struct params *, uint64_t seed, struct weights *);
void weights_free(struct weights *);
/* Recognised by content.  note: warnings (surplus bytes, layers not in a partial file), one line
 * each, through warn().  cutoff: load only the first N layers, -1 all. */
int weights_load(const char *path, const struct cfg *, const struct params *, struct weights *,
    int cutoff, struct err *);
int weights_plain(const char *path);	/* no pipe or device: it can be read twice */
int weights_is_st(const char *path);	/* a plain file that begins as safetensors do */
int weights_save_darknet(const char *path, const struct cfg *, const struct params *,
    const struct weights *, int cutoff, struct err *);
int weights_save(const char *path, const struct cfg *, const struct params *,
    const struct weights *, char *const *key, char *const *value, int nmeta, struct err *);
int weights_load_st(const char *path, const struct cfg *, const struct params *, struct weights *,
    int cutoff, struct err *);
/* The weights a new run begins with (transfer.c): the file's, its averages where it has some.
 * Heads of another number of classes keep their first values, and that is said; all else must
 * fit. */
int weights_begin(const char *path, const struct cfg *, const struct params *, struct weights *,
    int cutoff, struct err *);
/* Kernels between a file's [o][i][s][s] and memory's [s][s][i][o]. */
void weights_permute(const struct param *, const float *from, float *to, int to_memory);
int weights_check(const char *path, const struct param *, const float *, struct err *);

/* ---- nccl_sync.c, sync_meet.c, sync_shm.c, sync_nccl.c: ranks ----------------------------- */

/* What the ranks of one host share: a mapping that no name leads to and that dies with them. */
struct meet;
struct world {
	int rank, size, local_rank;	/* local_rank: chooses the device */
	double deadline;		/* seconds without progress until a wait fails; 0: 60 */
	const char *transport;		/* "shm", "nccl"; NULL: nccl between GPUs, else shm */
	struct meet *meet;		/* NULL: one rank */
};
/* Join the world that srun, mpirun or torchrun made.  1: joined; 0: there is none, *w is one rank;
 * -1: there is one that cannot be joined.  Before any device or thread pool is touched. */
int world_find(struct world *w, struct err *);
int world_rank(void);	/* of this process in such a world, not joined yet; else 0 */
/* Or make one: the parent forks n children, waits, and ends all when one dies.  In a child it
 * returns its rank.  -1: this is the parent, all is over and said; the program exits with
 * *status.  n 1 forks nothing.  Signals that end go on to the children, maybe twice. */
int sync_fork(struct world *w, int n, int *status);

struct sync_ops {
	const char *name;
	/* Sum over ranks, the same bits on each.  Device memory; in the order of the device's
	 * stream: work queued later sees the sums. */
	int (*sum)(struct sync *, float *buf, size_t n);
	/* The same beside the stream: buf is not touched until wait(), which makes work queued
	 * later see all sums started. */
	int (*start)(struct sync *, float *buf, size_t n);
	int (*wait)(struct sync *);
	int (*sum_host)(struct sync *, double *buf, size_t n);	/* host memory; waits */
	int (*bcast)(struct sync *, float *buf, size_t n);	/* from rank 0; device memory */
	int (*barrier)(struct sync *);				/* host; waits */
	void (*close)(struct sync *);
};
/* All ranks call the same operations with the same lengths in the same order.  -1: another rank
 * died, stalled or disagrees, s->err says which; nothing can follow but sync_fail(). */
struct sync {
	const struct sync_ops *ops;
	int rank, size, local_rank;
	double deadline;
	struct dev *dev;
	struct meet *meet;
	struct err err;
	void *priv;
};
struct sync *sync_open(const struct world *, struct dev *, struct err *);	/* size 1 too */
void sync_close(struct sync *);
void sync_alive(struct sync *);		/* "I work": long work between operations is no stall */
void sync_fail(struct sync *, const char *why) NORETURN;	/* tell the others and end */
void world_fail(const struct world *, const char *why) NORETURN;	/* before a sync is open */

/* sync_meet.c, for the transports.  Functions that can wait give up at the deadline, or as soon as
 * a rank is known to have failed or left; *err says which and where. */
enum { MEET_SMALL = 16384, MEET_SLOT = 1 << 21 };	/* bytes */
struct meet *meet_map(int size, struct err *);		/* before a fork */
/* Between processes that a launcher started: rank 0 waits for the others at the socket "name". */
struct meet *meet_join(int rank, int size, const char *name, double deadline, struct err *);
int meet_joined(const struct meet *);
/* sync_join.c: its two sides.  peer: sockets that stay open, [size] on rank 0 (own: -1), else
 * one. */
int join_host(int size, const char *name, double until, int fd, int *peer, struct err *);
int join_rank(int rank, int size, const char *name, double until, int *fd, int *peer, struct err *);
void meet_close(struct meet *);
/* Begin an operation: say what and how much, wait for all, and see that all say the same. */
int meet_begin(struct meet *, int rank, double deadline, const char *what, size_t n, struct err *);
int meet_wait(struct meet *, int rank, double deadline, struct err *);	/* further barriers of it */
void meet_alive(struct meet *, int rank);
uint64_t meet_beats(struct meet *, int but);	/* grows while any rank but that one works */
int meet_fail(struct meet *, const char *why);	/* the first reason stays; 1: it is ours */
const char *meet_failed(struct meet *);		/* the reason, NULL: all is well */
void meet_left(struct meet *, int rank);	/* that process has ended */
void *meet_small(struct meet *, int rank, int turn);	/* MEET_SMALL bytes, two for each rank */
void *meet_slot(struct meet *, int i);		/* MEET_SLOT bytes: one a rank, then one more */
void *meet_id(struct meet *);			/* 256 bytes, NCCL's unique id */
int meet_turn(struct meet *);			/* 0, 1, 0, 1 ... */
/* sync_shm.c, sync_nccl.c */
int shm_open_sync(struct sync *, struct err *);
int shm_sum_host(struct sync *, double *buf, size_t n);
int shm_barrier(struct sync *);
int nccl_open_sync(struct sync *, struct err *);	/* what dev->nccl points to */
/* ---- evalscan.c, evalnum.c: a window over a file, JSON, exact decimals --------------------- */

struct scan {
	const char *path;		/* for messages */
	char *buf, *p, *end;		/* the window, the place in it; *end is NUL */
	size_t cap;
	int fd, eof, error;		/* error: an errno of read */
	int fatal;			/* the last failure is not for want of bytes */
	long lines;			/* newlines before buf */
	const char *at;			/* where the last failure is, and why */
	char why[512];
	char *text;			/* a decoded string */
	size_t textcap;
};
int scan_open(struct scan *, const char *path, struct err *);	/* "-": stdin */
void scan_memory(struct scan *, const char *name, const void *bytes, size_t n);
void scan_close(struct scan *);
int scan_more(struct scan *);		/* more bytes behind; 0 at the end.  Moves the window */
/* -1: compressed, a picture, UTF-16, bytes; says which */
int scan_no_text(struct scan *, int bytes);
int scan_fail(struct scan *, const char *at, const char *fmt, ...) PRINTF(3, 4);	/* -1 */
int scan_error(struct scan *, struct err *);		/* the last failure as file:line: why */
int scan_again(struct scan *);
#define SCAN_SLACK 16		/* NULs behind every text here */
int scan_decimal(const char **p, double *);	/* the nearest double; -1: no number.  evalnum.c */
char scan_peek(struct scan *);
int scan_want(struct scan *, char);
int scan_next(struct scan *, char close);
int scan_number(struct scan *, double *);
int scan_whole(struct scan *, int64_t *);	/* an id, of all 64 bits */
int scan_string(struct scan *, const char **, size_t *);
int scan_skip(struct scan *);
int scan_array(struct scan *, int (*elem)(struct scan *, void *), void *);
int scan_object(struct scan *, int (*field)(struct scan *, void *, const char *, size_t), void *);

/* ---- evalmap.c, evalrule.c, evalap.c: matching, average precision by each rule ------------- */

enum eval_rule { EV_COCO, EV_VOC07, EV_VOC10, EV_DARKNET, EV_ULTRA, EV_ULTRA2019, EV_RULES };
enum eval_soft { EV_ORIGINAL, EV_IGNORE, EV_REMOVE, EV_TRUTH };	/* what a crowd box counts as */
#define EVAL_IOUS 16
#define EVAL_AREAS 8
#define EVAL_MAXDETS 6
#define EVAL_NOID INT64_MIN
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
 * (and area range of COCO's): bit t true positive at IoU t, bit 16 + t ignored; a last word says
 * how many of maxdet, from the largest down, its rank in its picture and class is within. */
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
	uint16_t *tcls, *tmask;	/* [nt]: bit a: ignored in area a; bit 8 + r: counts in rule r */
	int finished, adders;		/* adders: threads of eval_add */
	uint32_t *order, *pic, *all; /* entries by class and score; picture of each; all by score */
	size_t *cstart;			/* [nclass + 1] in order */
};
static inline uint32_t		/* word w of detection i; w = words: within so many maxdets */
eval_word(const struct eval *e, size_t i, int w)
{
	return e->row[(size_t)e->code[i] * (size_t)(e->words + 1) + (size_t)w];
}
void eval_defaults(struct eval_opts *);
int eval_rules(struct eval_opts *, const char *names);	/* with commas; -1: an unknown one */
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
/* One class of one picture: ord[nd] detections by descending score, tr[nt] truths; words are
 * written to code[nd][words + 1] but the last, darknet's IoUs to over[nd].  buf: scratch, kept by
 * the caller. */
struct eval_buf { void *p, *pair; size_t cap, pairs; };
void eval_group(const struct eval *, const struct eval_image *, const int *ord, int nd,
    const int *tr, int nt, uint32_t *code, double *over, struct eval_buf *);

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
int eval_rule_of(const struct eval *, int word);
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
void eval_pictures(struct eval *);	/* fills pic; called by the above for weights */
void eval_sort_all(struct eval *);	/* fills all; called by eval_best */
/* Precision, recall, F1 at the score that makes F1 best: COCO's matching at IoU 0.5, counts.
 * cls -1: all; npos: truths that count, 0 makes all undefined. */
struct eval_point { double p, r, f1, thr; };
struct eval_point eval_best(struct eval *, int cls, const uint32_t *weight, double npos);
struct eval_point eval_best_all(struct eval *);
struct eval_point eval_ultra_point(const struct eval_tables *);	/* as ultralytics chooses it */
/* A curve at one IoU: cumulated counts at each true positive. */
struct eval_curve { uint32_t *tp, *fp; uint32_t n, tp_all, fp_all; double npos; };
double eval_ap_coco(const struct eval_curve *);
double eval_ap_points(const struct eval_curve *, int points, int ulp);
double eval_ap_area(const struct eval_curve *);
double eval_ap_ultra(const struct eval_curve *, int of2019);
int eval_npos(const struct eval *, const uint32_t *weight, double *npos); /* [nclass][slots] */

/* ---- evalname.c, evaltruth.c: pictures and classes by name or number ------------------------ */

struct eval_hash { char **key; int *value; size_t n, cap; };	/* strings to numbers >= 0 */
int eval_hash_get(const struct eval_hash *, const char *, size_t);	/* -1: absent */
/* the value that was there, or -1 */
int eval_hash_put(struct eval_hash *, const char *, size_t, int value);
void eval_hash_free(struct eval_hash *);

struct eval_pic {
	char *name, *word;		/* as given; an id that is no number, or NULL */
	int64_t id;			/* EVAL_NOID: none */
	int w, h, n;			/* 0 0: not known; n boxes */
	size_t first;			/* in box */
};
struct eval_names;
struct eval_truth {
	struct eval_pic *pic;		/* by id where there are ids */
	struct box *box;		/* by picture, in the order of the file */
	size_t nbox;
	int n, nclass, ids;		/* ids: class_id are the data set's own */
	char **class_name;		/* NULL where not known */
	int64_t *class_id;		/* ascending */
	struct eval_names *names;
};
/* Kind by content.  names: class names of a kind that has none, or NULL. */
int eval_truth_read(struct eval_truth *, const char *path, const char *names, struct err *);
int eval_truth_coco(struct eval_truth *, struct scan *, struct err *);
int eval_truth_other(struct eval_truth *, const char *path, const char *names, struct err *);
int eval_truth_class(const struct eval_truth *, int64_t id);	/* its index, -1: not there */
void eval_truth_close(struct eval_truth *);
struct eval_names *eval_names_open(const struct eval_pic *, int n);
void eval_names_close(struct eval_names *);
/* A picture by name: exact, else the longest path suffix, else the stem; a number by value. -1:
 * none; -2: several. */
int eval_names_find(const struct eval_names *, const char *, size_t);
const char *eval_pic_id(const struct eval_pic *, char id[32]);	/* "-": none */
int eval_names_id(const struct eval_names *, int64_t);

/* ---- evalread.c, evalshape.c, evaltext.c, evalset.c, evalclass.c: detections --------------- */

enum eval_cls { EVAL_BY_NAME, EVAL_BY_INDEX, EVAL_BY_ID };
struct eval_in {			/* a detection as its file has it */
	const char *image, *name;	/* name NULL: none; image NULL: by image_id */
	size_t image_len, name_len;
	int64_t image_id, cls;
	enum eval_cls kind;
	double score, x, y, w, h;
	int relative;			/* centre and size as fractions of the picture */
};
/* evalshape.c: what stands between the numbers of a record. */
enum { SHAPE_PIECE = 48, SHAPE_NUMBER = 64, SHAPE_ROOM = 1024 };
struct eval_shape { int known, len[8], role[7]; char piece[8][SHAPE_PIECE + 8]; };
void eval_shape_learn(struct eval_shape *, const char *record, const char *end);
/* SHAPE_ROOM bytes must stand behind p.  The place behind the record, or NULL: not so simple. */
const char *eval_shape_read(const struct eval_shape *, const char *p, struct eval_in *);
/* Takes one detection; -1 stops the reading, why in err (place is put before it). */
typedef int eval_sink(void *arg, const struct eval_in *, struct err *);
int eval_read(const char *path, const struct eval_names *, eval_sink *, void *arg, struct err *);
int eval_read_scan(struct scan *, eval_sink *, void *arg, struct err *);	/* not folders */
int eval_read_text(struct scan *, const char *path, eval_sink *, void *arg, struct err *);
int eval_read_folder(const char *path, const struct eval_names *, eval_sink *, void *arg,
    struct err *);
int eval_line(struct scan *, const char **from, const char **to);	/* 0: no more */
int eval_words(const char *p, const char *end, const char **word, size_t *len, int max);
int eval_folder(const char *path, char ***file, struct err *);	/* *.txt, sorted; their number */

struct eval_side {			/* a class of the detections */
	char *name;			/* given: by the detections themselves */
	int64_t cls;
	enum eval_cls kind;
	int given, to;			/* to: class of the truth, -1: none */
	long n;				/* detections of it that were left out */
	size_t hash;
};
struct eval_set {
	const struct eval_truth *truth;	/* the caller's, as the next lines */
	struct eval *ev;
	double min_score;
	int skip_unknown; /* pictures not in the truth: 0 an error, 1 counted; -1 classes too */
	int dup;			/* repeated blocks: 0 warn, 1 keep the first, 2 an error */
	char **names;			/* names of the detections' classes, or NULL */
	int nnames;
	/* Called for every picture, also those without detections. */
	void (*each)(void *arg, int pic, const struct eval_image *);
	void *arg;
	/* found */
	size_t total, low, bad_images, bad_classes, dup_images;	/* detections; pictures for dup */
	size_t several;			/* of bad_images: more than one picture has such a name */
	struct eval_hash unknown;	/* names of pictures not found */
	struct eval_side *side;
	int *side_at;			/* [at_cap] by hash: number + 1 */
	size_t side_cap, at_cap;
	struct eval_hash class_at;	/* classes of the truth by name */
	int nside, buffer, restart, by_position, dup_first;
	struct eval_det *raw, *other;	/* being read; handed to the worker */
	size_t n, cap, nother, other_cap;
	pthread_t worker;
	int busy;
	unsigned char *seen;		/* [truth->n] */
	int last_pic, last_side;
	int64_t last_id;
	char *last_image;
	size_t last_len, last_cap;
};
void eval_classes_open(struct eval_set *);
void eval_classes_clear(struct eval_set *);
int eval_side_of(struct eval_set *, const struct eval_in *);
int eval_settle_classes(struct eval_set *, struct err *);
void eval_set_open(struct eval_set *, const struct eval_truth *, struct eval *);
void eval_set_close(struct eval_set *);
/* Read the files and score them.  renew: makes an empty struct eval when reading starts again
 * because the detections are not sorted by picture. */
int eval_set_read(struct eval_set *, char *const *path, int n,
    struct eval *(*renew)(void *arg, struct eval *), void *arg, struct err *);

/* ---- evalside.c: one side read, told, scored ------------------------------------------------- */

struct eval_run {
	const struct eval_opts *opt;
	const struct eval_truth *truth;
	int unknown;	/* not in the truth: 0 pictures an error, 1 left out, -1 classes too */
	int dup;			/* as eval_set's */
	double min_score;
	char **names;			/* of the detections' classes, or NULL */
	int nnames, tell;		/* tell: remarks by warn() */
	struct eval_errors *errors;	/* the caller's, NULL: not asked for */
	struct eval_set set;
	struct eval *ev;
};
int eval_run(struct eval_run *, char *const *path, int n, struct err *);
void eval_run_close(struct eval_run *);		/* also after an error, or before eval_run */

/* ---- evalerr.c, evaltide.c, evalboot.c, evalplot.c: where a detector fails, and comparison --- */

enum eval_kind { EVAL_TP, EVAL_LOC, EVAL_CLS, EVAL_DUPE, EVAL_BKG, EVAL_BOTH, EVAL_IGNORED };
struct eval_fault {			/* a detection */
	double score, iou;		/* iou: with the truth it found */
	double x, y, w, h;
	int pic, cls, fix;	/* fix: class of the truth that mending it would find, or -1 */
	enum eval_kind kind;
};
struct eval_found {			/* a truth that counts */
	double score, area;		/* score of its detection, -HUGE_VAL: none */
	int pic, cls, box;		/* box: index in its picture */
	int missed;			/* nothing to mend would find it either */
};
struct eval_errors {
	struct eval_opts opt;
	struct eval_fault *f;
	struct eval_found *t;
	uint64_t *pair;	/* confusion: truth << 32 | detection, nclass = background */
	struct near *near;		/* scratch */
	size_t n, cap, nt, tcap, npair, paircap, nearcap;
	int nclass;
};
struct eval_errors *eval_errors_open(const struct eval_opts *, int nclass);
void eval_errors_close(struct eval_errors *);	/* NULL is fine */
void eval_errors_reset(struct eval_errors *);
void eval_errors_add(void *errors, int pic, const struct eval_image *);	/* eval_set.each */
/* TIDE: AP50, then the gain in it from mending each kind.  LRP: of each class; -1 without truth. */
enum { EVAL_TIDE = 9 };
extern const char *const eval_tide_name[EVAL_TIDE];
struct eval_lrp { double all, loc, fp, fn, thr; };
struct eval_analysis { double tide[EVAL_TIDE]; struct eval_lrp mean, *lrp; };
void eval_analyse(struct eval_analysis *, const struct eval_errors *);
void eval_analysis_free(struct eval_analysis *);
/* Rows of rule tide and lrp. */
void eval_analysis_print(FILE *, const struct eval_analysis *, const struct eval_truth *,
    int per_class);
double eval_operating(struct eval *);	/* the score that makes F1 best, or 0.25 */
const char *eval_class_name(const struct eval_truth *, int c, char id[32]); /* or its id, in id */
/* Lists, at most 200 of each, the caller's to free; pointers are into eval_errors. */
struct eval_tally { long tp, fp, fn; int pic; };
struct eval_tally *eval_worst(const struct eval_errors *, int npic, double thr, int *n);
extern const char *const eval_fault_name[];		/* by enum eval_kind */
const struct eval_fault **eval_sure_faults(const struct eval_errors *, double thr, int *n);
const struct eval_found **eval_large_missed(const struct eval_errors *, int *n);
struct eval_cell { int truth, detected; size_t n; };	/* nclass: background */
struct eval_cell *eval_confusion(struct eval_errors *, size_t *n);	/* cells that are not 0 */
void eval_write_worst(FILE *, struct eval *, const struct eval_truth *, struct eval_errors *);
void eval_write_suspects(FILE *, struct eval *, const struct eval_truth *, struct eval_errors *);
void eval_write_confusion(FILE *, struct eval *, const struct eval_truth *, struct eval_errors *);
void eval_write_pr(FILE *, struct eval *, const struct eval_truth *, struct eval_errors *);
void eval_write_conf(FILE *, struct eval *, const struct eval_truth *, struct eval_errors *);
/* Each number against the base's: their difference, and the interval that holds it in level of n
 * resamplings of the pictures.  Both sides were scored on the same truth. */
struct eval_versus { struct eval_row row; double base, diff, low, high; int defined, interval; };
struct eval_versus *eval_versus(struct eval *a, struct eval *base, int n, double level,
    uint64_t seed, int *rows);
struct eval_change { int cls; struct eval_row row; double base; };	/* AP of a class */
struct eval_change *eval_changes(struct eval *a, struct eval *base, int *n);
/* Rows METRIC.base, .diff, .low, .high; of classes .diff. */
void eval_versus_print(FILE *, const struct eval_versus *, int rows, const struct eval_change *,
    int n, const struct eval_truth *);

/* ---- report.c: one HTML page that needs nothing else ----------------------------------------- */

void report_open(FILE *, const char *title);
void report_close(FILE *);
void report_text(FILE *, const char *);		/* escaped; what is no text becomes U+FFFD */
void report_short(FILE *, const char *, int most);	/* that many characters at most */
void report_section(FILE *, const char *title, const char *note);	/* note: or NULL */
void report_number(FILE *, double, int decimals);	/* a cell; -1 is undefined */
void report_cell(FILE *, const char *);
struct plot { FILE *f; int keys; };		/* both axes 0..1; names without markup */
void plot_open(struct plot *, FILE *, const char *xname, const char *yname, const char *title);
void plot_line(struct plot *, const double *x, const double *y, int n, int colour,
    const char *name);
void plot_point(struct plot *, double x, double y, const char *name);
void plot_close(struct plot *);
struct report_bar {
	const char *name, *colour;	/* colour: of the style's variables, NULL: the first */
	double value, low, high;
	int whiskers;				/* from low to high */
};
void report_bars(FILE *, const struct report_bar *, int n, int good);	/* good: coloured by sign */

/* ---- evalreport.c, evalfigure.c: yolo-eval -r ------------------------------------------------ */

struct eval_report {
	const char *truth_path, *dets_path, *base_path;	/* base_path NULL: no comparison */
	const struct eval_truth *truth;
	struct eval *ev;
	struct eval_errors *errors;
	const struct eval_analysis *analysis;
	const struct eval_versus *versus;
	const struct eval_change *change;
	int nversus, nchange, resamplings;
	double level;
};
void eval_report(FILE *, const struct eval_report *);
void eval_figure_curves(FILE *, struct eval *, const struct eval_truth *);
void eval_figure_confusion(FILE *, struct eval_errors *, const struct eval_truth *);
void eval_figure_analysis(FILE *, const struct eval_analysis *);
/* Precision at the 101 recalls, class c, threshold t; npos its truths.  0: undefined. */
int eval_pr(const struct eval *, int c, int t, double npos, double *p);
/* Plain precision, recall, F1 over each score k / 1000; c -1: all classes together. */
enum { EVAL_SCORES = 1001 };
void eval_by_score(struct eval *, int c, double npos, double *p, double *r, double *f1);

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
int net_synced(const struct net *);	/* batch statistics are merged over ranks */
void net_merge_ranks(struct net *, const struct layer *, struct net_moments *);
float *net_merge_area(struct net *);
uint64_t net_dropout_key(const struct net *, int layer);
uint64_t net_dropout_first(const struct net *, int layer); /* number of the first element */
double net_lap(struct net *, double since, int layer, int what);	/* for net->time */
float *net_head_raw(struct net *, int head);	/* float; before any activation */
float *net_head_grad(struct net *, int head);

/* ---- source.c, inputs.c, detect.c: pictures in, detections out ------------------------------- */

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
	int w, h, orientation;		/* stored pixels; EXIF orientation, 1 upright, 0 unknown */
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
	/* [n][h][w][3], 0..1; as long as input_opts.batch.  With rect a picture's input begins at
	 * the same place, and is shorter. */
	float *x;
};
struct input_opts {
	int batch, threads;
	int w, h;			/* network input */
	int stretch;			/* instead of a letterbox */
	int rect;			/* the net's stride: letterboxes without needless border */
	int keep;			/* keep the decoded pictures */
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

/* ---- imageids.c, detwrite.c: detections out ------------------------------------------------- */

/* Image ids by the names of a data set: exact, else the unique one with the longest common end of
 * the path, else by stem.  Borrows the data set. */
struct imageids;
struct imageids *imageids_open(const struct dataset *);
void imageids_close(struct imageids *);
/* -1: none, or several */
int imageids_find(const struct imageids *, const char *name, int64_t *id);
int imageids_digits(const char *name, int64_t *id);	/* the digits that end the stem; -1: none */

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

/* ---- trainer.c: one step of training ------------------------------------------------------ */

enum accum { ACCUM_GLOBAL, ACCUM_MEAN, ACCUM_SUM };
enum rule { RULE_SGD, RULE_ADAM, RULE_ADAMW };
struct train_opts {
	struct loss loss;		/* kind and gains; the rest comes from the cfg */
	int parts;			/* mini-batches of a step (subdivisions) */
	enum accum accum;		/* what the parts' means are divided by */
	double gain;			/* factor on gradients and loss; 0: 1/images of the step */
	enum rule rule;
	int nesterov;
	double decay, b1, b2, eps, clip;	/* clip: largest gradient norm, 0 none */
	double ema, ema_tau;		/* 0: no average of the weights */
	size_t bucket;			/* floats of a gradient bucket */
};
struct step_result {
	double loss, box, obj, cls;	/* of the whole batch over all ranks, gain applied */
	double gnorm;			/* norm of the gradient before clipping */
	int finite;	/* 0: loss or gradient was not finite, the update was skipped */
	int images;
};
struct trainer {
	struct net *net;
	struct sync *sync;		/* NULL: one rank */
	struct train_opts opt;
	float *mom, *mom2, *ema, *ema_stat;	/* device; NULL where not in use */
	float *stat_was;	/* device: statistics before the step, for one that is skipped */
	void *loss_ws, *optim_ws;
	struct optim_plan plan;		/* rates by layer and kind */
	unsigned char *group;		/* device: plan.group */
	int max_truth;
	struct truth *part;		/* truths of one mini-batch */
	long t;				/* updates made */
	long skipped;			/* updates skipped */
};
struct trainer *trainer_open(struct net *, struct sync *, const struct train_opts *, struct err *);
void trainer_close(struct trainer *);
size_t trainer_bytes(const struct params *, const struct train_opts *);	/* optimiser state */
/* Forward, loss, backward, all-reduce, update.  The same on every rank.  -1: a rank was lost. */
int trainer_step(struct trainer *, const struct batch *, const struct warm *, struct step_result *,
    struct err *);
void trainer_put(struct trainer *, const struct weights *);	/* parameters and state */
void trainer_get(struct trainer *, struct weights *);
/* The first n layers, and those before a stopbackward=1, shall be frozen. */
int trainer_freeze(struct cfg *, long n, struct err *);
/* Heads and anchors of a cfg into a loss; -1: its heads differ in classes or anchors. */
int trainer_heads(struct loss *, const struct cfg *, struct err *);

/* ---- recipe.c: how a run trains ----------------------------------------------------------- */

#define RECIPE_DROPS 8
enum run_policy { RUN_CFG, RUN_2019, RUN_ARCHIVE };
extern const struct setting train_settings[];	/* the -O settings of yolo-train */
struct recipe {
	struct train_opts train;
	struct augment aug;
	struct cfg_net net;	/* the cfg's training keys, overridden by flags and settings */
	float bn_momentum;
	int syncbn, batch, prior;	/* prior: heads begin at the odds of finding nothing */
	long steps, save, nan_stop;	/* steps: length of the schedule; save: 0 at epochs only */
	long patience;		/* end after so many validations that are no better; 0: never */
	int best;			/* column of val_result that says which weights are best */
	double epochs;			/* 0: the length is in steps */
	double lr_final;		/* cosine: the last rate over the first */
	double mosaic_end;		/* share of the run that has mosaics */
	struct size_plan size;		/* filled by recipe_sizes */
	enum run_policy policy;		/* RUN_CFG: net.policy */
	double drop[RECIPE_DROPS]; /* policy steps: shares of the run at which the rate falls */
	int ndrop;			/* 0: at the cfg's steps */
	long samples, total;		/* of an epoch, of the run; filled by recipe_length */
	float *cls_weight;		/* of the classes, by recipe_classes; free() */
};
/* From the cfg, the loss and augmentation asked for (NULL: by the cfg's keys), settings and flags
 * (0: not given). */
int recipe_make(struct recipe *, const struct cfg *, const char *loss, const char *aug, int batch,
    double epochs, const struct settings *, struct err *);
/* Multi-scale, for the cfg at the size that was asked for: the flavour's rule where the cfg's last
 * head has random, or what the setting says.  -1: it says no range. */
int recipe_sizes(struct recipe *, const struct cfg *, const struct settings *, struct err *);
/* How long the run is: epochs, 0: the cfg's max_batches, else 100 epochs; recipe_make does this. */
void recipe_span(struct recipe *, const struct cfg *, double epochs);
void recipe_length(struct recipe *, long samples);	/* steps from epochs and the data's size */
/* Rates, momentum and decay of a step, from 0. */
void recipe_rates(const struct recipe *, uint64_t seed, long step, struct warm *);
/* Label smoothing, focal loss: the settings, else the cfg's keys, into the recipe's loss or, for
 * the darknet flavours, the cfg's heads.  -1: the flavour has no such thing. */
int recipe_loss(struct recipe *, struct cfg *, const struct settings *, struct err *);
/* Weights of the classes from the boxes that each has; count: those of the data. */
int recipe_classes(struct recipe *, struct cfg *, const struct settings *, const long *count,
    struct err *);
/* cfguse.c: the keys that the file gives and a training of this kind does not look at, as in
 * "[net] hue; [yolo] max iou_loss"; NULL: none.  free() */
struct cfg_use {
	enum loss_kind loss;
	enum aug_kind aug;
	enum lr_policy policy;
	int adam, burn_in;
};
char *cfg_unused(const struct cfg *, const struct cfg_use *);
/* Warns of all that in the cfg, as the user wrote it, has no effect in this training. */
void recipe_tell(const struct recipe *, const struct cfg *);
/* Biases of the heads at the odds of finding nothing: few cells hold an object. */
void recipe_prior(const struct cfg *, const struct params *, struct weights *);
/* The cfg as text that a plain detector decodes rightly: our ciou loss means new_coords; and its
 * size, unless w is 0. */
char *recipe_cfg_text(const struct cfg *, enum loss_kind, int w, int h);

/* ---- checkpoint.c ------------------------------------------------------------------------- */

struct checkpoint {		/* what a run needs to go on, besides the tensors */
	long step, t, skipped, best_step;
	long bad, stale;	/* updates skipped in a row; validations since the best */
	double best;
	uint64_t seed, samples;		/* samples: records of the training set */
	int threads, batch;
	long ranks;			/* 0 in files from before it was said */
	char *data;			/* uuid of the training shard */
	char *options;			/* one "letter=value" a line, sorted */
	char *loss, *cfg;		/* cfg: the text */
	char *precision;	/* computed in; NULL in files from before there was a choice */
};
void checkpoint_free(struct checkpoint *);
int checkpoint_save(const char *path, const struct cfg *, const struct params *,
    const struct weights *, const struct checkpoint *, struct err *);
char *checkpoint_cfg(const struct st *); /* the cfg text, also where it is coded; NULL: none */
/* Only the metadata; the tensors come by weights_load. */
int checkpoint_read(const char *path, struct checkpoint *, struct err *);

/* ---- bench*.c: the subcommands of yolo-bench ------------------------------------------------ */

int bench_ops(int argc, char **argv);	/* exit status, as all of them */
int bench_step(int argc, char **argv);
int bench_eval(int argc, char **argv);
/* benchutil.c */
double bench_median(double *t, int n);		/* sorts t */
/* An option's number; -1: it is none, which is said. */
int bench_number(char letter, const char *s, long lo, long hi, int *out);
void bench_reset_peak(void);			/* of the process's memory */
double bench_peak_mb(void);
double bench_rss_mb(void);

/* ---- validate.c: AP in the middle of a run ------------------------------------------------- */

enum { VAL_COLS = 16 };		/* COCO's twelve, P R F1 thr */
struct val_result { double col[VAL_COLS]; };
extern const char *const val_name[VAL_COLS];	/* AP AP50 ... thr */
struct validator;
/* path: the shard's; rect: as in detect_opts. */
struct validator *validator_open(struct dev *, const struct cfg *, struct shard *,
    const char *path, int batch, int threads, enum loss_kind, int rect, struct err *);
void validator_close(struct validator *);
int validator_undefined(struct validator *, int col);	/* without a box that it counts */
/* Detect on the whole shard with these parameters (device memory) and score.  The values pass
 * through the text that yolo-detect prints, so the result is that of the pipe to the last digit. */
int validator_run(struct validator *, const float *train, const float *stat, struct sync *,
    struct val_result *, struct err *);

/* ---- trainprep.c, traindata.c, trainuse.c, trainrun.c, trainkeep.c: yolo-train -------------- */

struct train_cmd {
	const char *arg[128];		/* arguments of the option letters, NULL where not given */
	char **in;			/* operands */
	int nin, resume;
	struct settings set;
	/* filled by train_prepare */
	char *saved;			/* a resumed run's options, which arg points into */
	int lock;			/* descriptor that locks the run's folder, 0: none */
	int usage, planned;		/* the error is the user's; only the plan was wanted */
	long ranks, jobs;
	uint64_t seed;
	const char *dir;
	struct cfg *cfg;		/* as it is really run */
	struct recipe recipe;
	struct checkpoint from;		/* step 0 for a new run */
	struct shard *train, *val;	/* val NULL: no validation */
	int threads;			/* compute threads of a rank */
};
/* Options, resume, data (packed into the run's folder unless it is a shard), cfg and recipe.
 * Starts no thread and touches no device.  The message is empty where yolo-prep has said it. */
int train_prepare(struct train_cmd *, struct err *);
int train_data(struct train_cmd *, struct err *);	/* its part: train and val are opened */
int train_weigh(struct train_cmd *, struct err *);	/* class weights, from the data */
int train_fit(struct train_cmd *, struct err *);	/* trainfit.c: -1: it could learn nothing */
/* trainuse.c: what the user should know of this run, each in one line. */
void train_tell_unused(const struct train_cmd *);	/* settings that it does not look at */
/* A resumed run of another length; epochs: what it had, NULL: no -e. */
void train_tell_length(const struct train_cmd *, const char *epochs);
void train_tell_ranks(const struct train_cmd *);	/* a resumed run of other ranks, threads */
/* Compute threads of one of so many ranks of this host; joined: a launcher has made them. */
int train_threads(const struct train_cmd *, int ranks, int joined);
char *train_command(const struct train_cmd *);	/* the options that determine numbers; free() */
int train_free_setting(const char *key);	/* -R may give it another value */
/* The training of one rank: exit status 0, 1 (message in err), 130, 143. */
int train_rank(struct train_cmd *, const struct world *, struct err *);
size_t train_ring_bytes(struct train_cmd *);	/* what the loader takes */
/* The device of a rank: -d, one of a list, or the best there is. */
struct dev *train_device(const struct train_cmd *, int rank, const struct dev_opts *, struct err *);
void train_close(struct train_cmd *);
/* What trainrun.c and trainkeep.c share of a rank. */
struct train_run {
	struct train_cmd *c;
	struct dev *dev;
	struct sync *sync;
	struct net *net;
	struct trainer *t;
	struct loader *loader;
	struct validator *val;		/* rank 0, with -v */
	struct weights host;		/* rank 0: for checkpoints */
	FILE *log, *vallog;		/* rank 0 */
	long step, last;		/* steps done; end of this run */
	double since;			/* when the last step ended */
	long images;			/* trained on so far */
};
int run_files(struct train_run *, struct err *);	/* rank 0: logs, run.cfg, the validator */
long run_epoch(const struct train_run *, long step);
int run_per_rank(const struct train_cmd *);	/* pictures of a step for one rank, at most */
int run_log(struct train_run *, const struct batch *, const struct step_result *, double lr,
    struct err *);
/* Rank 0: validation at an epoch's end, then the checkpoint; weights that are not finite are an
 * error, and the checkpoint before stays. */
int run_keep(struct train_run *, int epoch_end, struct err *);
int run_done(const struct train_run *);	/* no better for as long as patience allows */
void run_skipped(const struct train_run *, const struct batch *); /* names the pictures */

#ifdef __cplusplus
}
#endif
#endif
