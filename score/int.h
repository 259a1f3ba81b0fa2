/* int.h -- a text being read. */
#ifndef SCORE_INT_H
#define SCORE_INT_H

#include <string.h>

#include "score/score.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scan.c: a window over a file, JSON, exact decimals ------------------------------------ */

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
#define SCAN_SLACK 16		/* NULs behind every text here */
int scan_decimal(const char **p, double *);	/* the nearest double; -1: no number */
char scan_peek(struct scan *);
int scan_want(struct scan *, char);
int scan_next(struct scan *, char close);
int scan_number(struct scan *, double *);
int scan_whole(struct scan *, int64_t *);	/* an id, of all 64 bits */
int scan_string(struct scan *, const char **, size_t *);
int scan_copy(struct scan *, char **);	/* a string, which frees what was there */
int scan_box(struct scan *, double *);	/* an array of four numbers */
int scan_skip(struct scan *);
/* Reads one value at s->p; called again for the same one, from its start, when the window ended. */
typedef int scan_elem(struct scan *, void *);
int scan_array(struct scan *, scan_elem *, void *);
int scan_values(struct scan *, scan_elem *, void *);	/* one after the other, to the end */
/* Reads the value of this key, at s->p. */
typedef int scan_field(struct scan *, void *, const char *key, size_t);
int scan_object(struct scan *, scan_field *, void *);	/* all of it lies in the window */
/* Of any size: 1 from the field passes over a value.  The window moves between them. */
int scan_members(struct scan *, scan_field *, void *);
static inline int
scan_is(const char *key, size_t n, const char *word)
{
	return strlen(word) == n && !memcmp(key, word, n);
}

/* ---- truth.c, dets.c: among themselves ----------------------------------------------------- */

int eval_truth_coco(struct eval_truth *, struct scan *, struct err *);
/* evalshape.c: what stands between the numbers of a record. */
enum { SHAPE_PIECE = 48, SHAPE_NUMBER = 64, SHAPE_ROOM = 1024 };
struct eval_shape { int known, len[8], role[7]; char piece[8][SHAPE_PIECE + 8]; };
void eval_shape_learn(struct eval_shape *, const char *record, const char *end);
/* SHAPE_ROOM bytes must stand behind p.  The place behind the record, or NULL: not so simple. */
const char *eval_shape_read(const struct eval_shape *, const char *p, struct eval_in *);
int eval_read_scan(struct scan *, eval_sink *, void *arg, struct err *);	/* not folders */
typedef int eval_text_line(struct scan *, void *, const char *p, const char *end);
int eval_lines(const char *path, eval_text_line *, void *arg, struct err *);
int eval_words(const char *p, const char *end, const char **word, size_t *len, int max);
/* A whole field as a finite number; what it is, "" or a word. */
int eval_number(struct scan *, const char *p, size_t n, const char *what, double *);
int eval_class_number(const char *p, size_t n, double most, int64_t *); /* 0: a name, then */
int eval_folder(const char *path, char ***file, struct err *);	/* *.txt, sorted; their number */
void eval_folder_free(char **file, int n);

/* ---- faults.c: what became of each detection and truth; lists of them ---------------------- */

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
void eval_errors_reset(struct eval_errors *);
void eval_errors_add(void *errors, int pic, const struct eval_image *);	/* eval_set.each */
double eval_operating(struct eval *);	/* the score that makes F1 best, or 0.25 */
void eval_put_class(FILE *, const struct eval_truth *, int c);	/* escaped; -1 is - */
/* Lists, at most 200 of each, the caller's to free; pointers are into eval_errors. */
struct eval_tally { long tp, fp, fn; int pic; };
struct eval_tally *eval_worst(const struct eval_errors *, int npic, double thr, int *n);
extern const char *const eval_fault_name[];		/* by enum eval_kind */
const struct eval_fault **eval_sure_faults(const struct eval_errors *, double thr, int *n);
const struct eval_found **eval_large_missed(const struct eval_errors *, int *n);
struct eval_cell { int truth, detected; size_t n; };	/* nclass: background */
struct eval_cell *eval_confusion(struct eval_errors *, size_t *n);	/* cells that are not 0 */

#ifdef __cplusplus
}
#endif
#endif
