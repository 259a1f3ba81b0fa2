/* labels.h -- truth as people have it: YOLO, VOC, COCO, lists, folders; which picture a name means.
 *
 * Needs base and image (a box is clipped to its picture's size).  Promises: a label is used, or
 * refused with file, line and reason, and counted. */
#ifndef LABELS_PART_H
#define LABELS_PART_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- labels.c: truth from files ------------------------------------------------------------ */

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
struct class_index {			/* of the first n classes, for labels.c */
	struct keys name, id;
	int *by_name, *by_id;		/* class of a key; -2: several, -1: none any more */
	size_t name_cap, id_cap;
	int n;
	int64_t top_id;			/* no id is larger */
};
struct dataset {
	struct item *item;
	int n;
	char **class_name;		/* NULL entries where no names are known */
	int64_t *class_id;		/* original ids (COCO category ids), else 0.. */
	int nclass, fixed;		/* fixed: from -n's file, nothing is added */
	struct class_index index;
	int stored;			/* labels are for the stored pixels: no EXIF */
	long refused, notes, bad; /* labels refused; remarks; pictures left out (lists, folders) */
	const char *split;	/* train, val, test: the part of an input that has parts, unless it
				 * says one; NULL, all: of a yaml or .data train, of a folder all */
};
/* Called for every remark, refused label and unusable picture: one line "file:line: what". */
enum { SAY_NOTE, SAY_REFUSED, SAY_PICTURE, SAY_PART };	/* PART: what an input is taken for */
typedef void label_report(void *arg, int kind, const char *line);
/* Read any kind of input (COCO json, VOC, lists, .data, data.yaml, folders, one picture), kind
 * recognised by content; appended to the data set.  "-": a list on stdin, "-0": NUL between names.
 * FILE.json:DIR says where the pictures lie; FILE.data:valid, FILE.yaml:val and, for a folder that
 * has parts, FOLDER:val choose a split.
 * names: class names file or NULL.  An input with names of its own has its classes matched by them
 * with those that are there already.  Boxes of YOLO and VOC labels are clipped to the picture and
 * flagged; COCO's stay as given, even beyond the border.  A shard is not read here.  COCO and VOC
 * pictures need not be there; a listed picture that cannot be opened is reported and left out. */
int labels_read(struct dataset *, const char *input, const char *names, label_report *, void *arg,
    struct err *);
int labels_names(struct dataset *, const char *path, struct err *);	/* a .names file */
void labels_close(struct dataset *);
/* Which of n classes a name means.  It may stand twice: then the one at place `at`, which is its
 * number where it came from (-1: it has none), if that has the name; else -2, it is not known
 * which.  -1: none. */
int class_named(char *const *class_name, int n, const char *name, int64_t at);

/* ---- labels.c: a set being made, for its readers and for shards ---------------------------- */

/* The parts of the above, for labels.c and label*.c. */
struct either { int item, at; struct box box; };	/* an item's box, read the other way */
struct key { char *dir; int *map, n; };	/* map NULL: numbers stay */
struct labels {
	struct dataset *d;
	label_report *report;
	void *arg;
	struct err *e;
	/* YOLO labels: whose class is one too high; is 0; all that name a class by its number */
	long too_high, zero, numbers;
	long pictures, bare;		/* that may have a label file; that have none */
	int *map, nmap;	/* this input's class numbers in the table, -1: none; NULL: the same */
	/* YOLO lines of more than 5 columns: those with keypoints, of 2 or 3 numbers each */
	int points, dims;		/* kpt_shape of data.yaml, 0: it says none */
	long pose;			/* lines whose keypoints were told from their sign */
	long longer;			/* lines that may be polygons or have keypoints */
	int columns, polygons;		/* of those; polygons: one of them is none with keypoints */
	struct either *either;		/* what their boxes are if they have keypoints */
	size_t neither, either_cap;
	struct key *key;		/* files of class names that lie beside labels */
	size_t nkey, key_cap;
	const char *named_by;		/* the file that gave this input's own names */
};
void label_say(struct labels *, int kind, const char *fmt, ...) PRINTF(3, 4);
struct item *label_item(struct labels *, const char *name, const char *path);
void label_box(struct item *, const struct box *);
/* The class of that name: at, if it has it; -1: none, -2: several have it. */
int label_find_class(struct dataset *, const char *name, int at);
/* The same, or a new one; -1 where the names are fixed. */
int label_class(struct labels *, const char *name, int at);
/* A box on the stored w x h pixels, as it lies on the picture that is shown. */
void label_turn(struct box *, int orientation, int w, int h);
void label_set_id(struct dataset *, int cls, int64_t id);	/* who had it gets a free one */
/* What is wrong with a class's name that a list of names cannot hold, NULL: nothing. */
const char *label_bad_name(const char *);
void label_new_class(struct dataset *, const char *name, int64_t id);	/* id: if it is free */
/* Where the label of a picture may lie: beside it, or in labels/.  free() both; second NULL. */
void label_paths(const char *picture, char *path[2]);

/* ---- labellist.c: lists and folders -------------------------------------------------------- */

/* A line of a list of pictures: blanks at its ends belong to the name only if there is such a file
 * (exact: always), # begins a comment unless there is, Windows' backslashes are turned. */
enum { LINE_EMPTY, LINE_COMMENT, LINE_NOWHERE, LINE_PICTURE };
struct label_line { char *name, *path; int turned; };	/* path NULL: nowhere; free() both */
int label_line(const char *line, const char *dir, int exact, struct label_line *);

/* ---- labels.c: a set being made, for its readers and for shards ---------------------------- */

int coco_flag(const char *key, size_t n);	/* BOX_ of an annotation's key; 0: none */

/* ---- labellist.c: lists and folders -------------------------------------------------------- */

/* All files below a folder, in the order of their names. */
struct label_files { char **v; size_t n, cap; };
void label_files_add(struct label_files *, const char *path);	/* a copy */
int label_walk(const char *dir, struct label_files *, struct err *);
/* The names in a folder that are not hidden, sorted; none where there is no such folder. */
int label_names(const char *dir, struct label_files *, struct err *);
void label_files_sort(struct label_files *);
int label_files_has(const struct label_files *, const char *path);	/* sorted ones */
void label_files_free(struct label_files *);

/* ---- picname.c: which picture a name means ------------------------------------------------- */

/* A name means, of the pictures of a truth (/ and \ both stand between its components):
 * 1. the picture with exactly this name; 2. the one whose id is this word, or this number in
 * digits; 3. of those with the same last component the one that shares most folders with it,
 * counted from the end; the same with the extension left out, here, there, or on both sides.
 * An extension is a letter and at most four letters or digits.  A number means the picture with
 * this id; where no picture has one, the picture whose name, without extension, ends in it.
 * Where the first of these that holds for any picture holds for several, the name is refused: it
 * is not known which of them is meant. */
#define EVAL_NOID INT64_MIN

struct eval_pic {
	char *name, *word;		/* as given; an id that is no number, or NULL */
	int64_t id;			/* EVAL_NOID: none */
	int w, h, n;			/* 0 0: not known; n boxes */
	size_t first;			/* in box */
	int nth;			/* in the order of the file */
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
/* Borrows the pictures. */
struct eval_names *eval_names_open(const struct eval_pic *, int n);
void eval_names_close(struct eval_names *);
int eval_names_find(const struct eval_names *, const char *, size_t);	/* -1: none; -2: several */
int eval_names_id(const struct eval_names *, int64_t);
const char *eval_pic_id(const struct eval_pic *, char id[32]);	/* "-": none */
/* The number that a name without its extension ends in; -1: none. */
int picname_digits(const char *name, int64_t *id);

#ifdef __cplusplus
}
#endif
#endif
