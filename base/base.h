/* base.h -- what every part may use: messages, memory, numbers, files, settings.
 *
 * Needs nothing.  Promises: a file appears complete or not at all, a number is read whole or not,
 * and what a user can cause comes back as one line in a struct err. */
#ifndef BASE_PART_H
#define BASE_PART_H

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

/* ---- util.c: messages, memory, numbers, files ---------------------------------------------- */

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
/* First thing in main of a program that computes: its idle threads shall sleep, not spin, and where
 * a package holds a build for this very processor, that one goes on. */
void calm_threads(char **argv);

/* ---- end.c: the end by a signal ------------------------------------------------------------ */

/* A thread waits for SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP, and calls f with
 * it; this thread and those that it starts from now on get none of them.  What has not ended
 * patience seconds later is ended with 128 + the signal, and what it was writing is removed; 0: it
 * is waited for. */
void catch_end(void (*f)(int), double patience);
void catch_save(void (*f)(int));	/* before it: that thread calls f at SIGUSR1 */
void leave_signals(void);	/* this thread, which computes too, gets none of them */
void tmp_begin(const char *path);	/* a file or folder that is only whole at tmp_end */
void tmp_end(const char *path);
void path_remove(const char *path);	/* with all that is in it */

double memory_bytes(void);	/* that this process may use: machine, cgroup, ulimit -v */
int cores(void);	/* processors this process may use: affinity, cgroup, OMP_NUM_THREADS */
int num_int(const char *s, long lo, long hi, long *out);	/* whole string, else -1 */
/* n bytes of digits, perhaps after a minus, as a whole number of 64 bits, but for
 * the least, which stands for none; -1: they are no such. */
int num_digits(const char *s, size_t n, int64_t *out);
/* An id: digits exactly; v, what the n bytes are as a number, if it is whole and up to 9e15 (3.0,
 * 1e3).  What is wrong, NULL: nothing. */
const char *num_id(const char *s, size_t n, double v, int64_t *out);
int num_side(const char *s, int *w, int *h);	/* "416" or "608x352" */
int num_real(const char *s, double lo, double hi, double *out);	/* finite, locale-free */
/* Such numbers with commas between: how many; -1: more than max, or something else. */
int num_list(const char *s, int max, double lo, double hi, double *out);

char *file_read(const char *path, size_t max, size_t *len, struct err *); /* NUL added; free() */
/* The same of a file on a disk; where a pipe cannot be meant it is refused, not waited for. */
char *plain_read(const char *path, size_t max, size_t *len, struct err *);
FILE *plain_open(const char *path, struct err *);
/* The first bytes of such a file: how many, up to n; 0 also where there is none; -1: cannot be
 * read. */
long file_head(const char *path, void *buf, size_t n, struct err *);
char *path_join(const char *dir, const char *name);
char *path_dir(const char *path);	/* "." where there is no slash */
const char *path_base(const char *path);	/* points into path */
/* A file that comes with the programs, as cfg/yolov3.cfg; name itself where there is none. */
char *path_stock(const char *name);
/* What cannot be looked at is there: reading it says why not. */
int path_there(const char *path);
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
/* The digits of s, n bytes, as a whole number of 64 bits, exactly; -1: they are something else. */
int num_digits(const char *s, size_t n, int64_t *out);
int utf8_len(const char *);	/* bytes of the character there, 0: none (a surrogate is none) */
int utf8_is(const char *);
/* In quotes; bytes that are no UTF-8 become U+FFFD, each: how many. */
int json_string(FILE *, const char *);
void tsv_name(FILE *, const char *);		/* tab, newline, backslash as \t \n \\ */

/* ---- keys.c: byte strings numbered as they come -------------------------------------------- */

struct keys {				/* all zero: none */
	char *text;
	struct key *key;
	int *slot, n;			/* slot: by hash, number + 1 */
	size_t ntext, text_cap, cap, nslot;
};
int keys_add(struct keys *, const void *, size_t);	/* its number: n - 1 where it is new */
int keys_find(const struct keys *, const void *, size_t);	/* -1: not there */
const char *keys_text(const struct keys *, int);	/* with a NUL; until the next keys_add */
void keys_free(struct keys *);
uint64_t keys_hash(const void *, size_t);	/* fast, and no secret */

/* ---- opt.c: -O key=value ------------------------------------------------------------------- */

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
/* What -O of a command line does: help prints the settings and ends the program, another is set; a
 * bad one ends it with status 2. */
void settings_option(struct settings *, const char *arg);

/* ---- activations: names in model, formulas in fn.h ----------------------------------------- */

enum act { ACT_LINEAR, ACT_LEAKY, ACT_LOGISTIC, ACT_RELU, ACT_MISH, ACT_SWISH };

#ifdef __cplusplus
}
#endif
#endif
