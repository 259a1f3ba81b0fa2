/* score.h -- a scoring: truth and detections read, matched by name, analysed, compared, shown.
 *
 * Needs labels, shard and eval.  Promises: nothing is guessed in silence: what does not match is
 * counted and named. */
#ifndef SCORE_PART_H
#define SCORE_PART_H

#include <pthread.h>
#include "base/base.h"
#include "labels/labels.h"
#include "shard/shard.h"
#include "eval/eval.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- truth.c: truth as it is scored -------------------------------------------------------- */

/* Kind by content.  names: class names of a kind that has none, or NULL. */
int eval_truth_read(struct eval_truth *, const char *path, const char *names, struct err *);
/* Of a shard that is open: the same, but names are not looked up in it. */
int eval_truth_shard(struct eval_truth *, struct shard *, struct err *);
int eval_truth_class(const struct eval_truth *, int64_t id);	/* its index, -1: not there */
void eval_truth_close(struct eval_truth *);

/* ---- dets.c, match.c: detections ----------------------------------------------------------- */

enum eval_cls { EVAL_BY_NAME, EVAL_BY_INDEX, EVAL_BY_ID };
struct eval_in {			/* a detection as its file has it */
	const char *image, *name;	/* name NULL: none; image NULL: by image_id */
	size_t image_len, name_len;
	int64_t image_id, cls;
	enum eval_cls kind;
	double score, x, y, w, h;
	int relative;			/* centre and size as fractions of the picture */
};
/* Takes one detection; -1 stops the reading, why in err (place is put before it). */
typedef int eval_sink(void *arg, const struct eval_in *, struct err *);
int eval_read(const char *path, const struct eval_names *, eval_sink *, void *arg, struct err *);

struct eval_side {			/* a class of the detections */
	char *name;			/* given: by the detections themselves */
	int64_t cls;
	enum eval_cls kind;
	int given, to;			/* to: class of the truth, -1: none */
	long n;				/* detections of it that were left out */
	size_t hash;
};
enum { EVAL_AS_GIVEN, EVAL_CORNERS, EVAL_CENTRES, EVAL_FRACTIONS, EVAL_CENTRED_FRACTIONS,
	EVAL_SCORE_FIRST, EVAL_READINGS };
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
	struct keys unknown;	/* names of pictures not found, as they came */
	/* of the first detections: how many lie on a truth, by the way to read their numbers */
	size_t tried, fits[EVAL_READINGS];
	struct eval_side *side;
	int *side_at;			/* [at_cap] by hash: number + 1 */
	size_t side_cap, at_cap;
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

/* ---- match.c: one side read, told, scored -------------------------------------------------- */

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

/* ---- faults.c, versus.c: where a detector fails, and comparison ---------------------------- */

struct eval_errors;
struct eval_errors *eval_errors_open(const struct eval_opts *, int nclass);
void eval_errors_close(struct eval_errors *);	/* NULL is fine */
/* TIDE: AP50, then the gain in it from mending each kind.  LRP: of each class; -1 without truth. */
enum { EVAL_TIDE = 9 };
struct eval_lrp { double all, loc, fp, fn, thr; };
struct eval_analysis { double tide[EVAL_TIDE]; struct eval_lrp mean, *lrp; };
void eval_analyse(struct eval_analysis *, const struct eval_errors *);
void eval_analysis_free(struct eval_analysis *);
/* Rows of rule tide and lrp. */
void eval_analysis_print(FILE *, const struct eval_analysis *, const struct eval_truth *,
    int per_class);
const char *eval_class_name(const struct eval_truth *, int c, char id[32]); /* or its id, in id */
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

/* ---- page.c: yolo-eval -r ------------------------------------------------------------------ */

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

/* ---- html.c: one HTML page that needs nothing else ----------------------------------------- */

void report_open(FILE *, const char *title);
void report_close(FILE *);
void report_text(FILE *, const char *);		/* escaped; what is no text becomes U+FFFD */
void report_short(FILE *, const char *, int most);	/* that many characters at most */
void report_section(FILE *, const char *title, const char *note);	/* note: or NULL */
void report_number(FILE *, double, int decimals);	/* a cell; -1 is undefined */
void report_cell(FILE *, const char *);
/* A table that a click sorts.  heads: between |, those of text begin with *. */
void report_table(FILE *, const char *heads);
void report_table_end(FILE *);
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

#ifdef __cplusplus
}
#endif
#endif
