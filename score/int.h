/* int.h -- a text being read. */
#ifndef SCORE_INT_H
#define SCORE_INT_H

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
int scan_again(struct scan *);
#define SCAN_SLACK 16		/* NULs behind every text here */
int scan_decimal(const char **p, double *);	/* the nearest double; -1: no number */
char scan_peek(struct scan *);
int scan_want(struct scan *, char);
int scan_next(struct scan *, char close);
int scan_number(struct scan *, double *);
int scan_whole(struct scan *, int64_t *);	/* an id, of all 64 bits */
int scan_string(struct scan *, const char **, size_t *);
int scan_skip(struct scan *);
int scan_array(struct scan *, int (*elem)(struct scan *, void *), void *);
int scan_object(struct scan *, int (*field)(struct scan *, void *, const char *, size_t), void *);

/* ---- truth.c, dets.c: among themselves ----------------------------------------------------- */

int eval_truth_coco(struct eval_truth *, struct scan *, struct err *);
/* evalshape.c: what stands between the numbers of a record. */
enum { SHAPE_PIECE = 48, SHAPE_NUMBER = 64, SHAPE_ROOM = 1024 };
struct eval_shape { int known, len[8], role[7]; char piece[8][SHAPE_PIECE + 8]; };
void eval_shape_learn(struct eval_shape *, const char *record, const char *end);
/* SHAPE_ROOM bytes must stand behind p.  The place behind the record, or NULL: not so simple. */
const char *eval_shape_read(const struct eval_shape *, const char *p, struct eval_in *);
int eval_read_scan(struct scan *, eval_sink *, void *arg, struct err *);	/* not folders */
int eval_line(struct scan *, const char **from, const char **to);	/* 0: no more */
int eval_words(const char *p, const char *end, const char **word, size_t *len, int max);
int eval_folder(const char *path, char ***file, struct err *);	/* *.txt, sorted; their number */

#ifdef __cplusplus
}
#endif
#endif
