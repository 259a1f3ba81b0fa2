/* int.h -- a run as a line of the history; what its machine was doing; samples. */
#ifndef BENCH_INT_H
#define BENCH_INT_H

#include "bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dev;
/* ---- benchhist.c: the history -------------------------------------------------------------- */

/* Columns of a line, in their order; benchhist.c has their names. */
enum bench_col { COL_TIME, COL_KEY, COL_COMMAND, COL_COMMIT, COL_BUILD, COL_HOST, COL_CPU,
	COL_FLAGS, COL_CORES, COL_GPU, COL_DRIVER, COL_CUDA, COL_NCCL, COL_KERNEL, COL_CFG,
	COL_CFG_DIGEST, COL_DEVICE, COL_PRECISION, COL_SIZE, COL_BATCH, COL_RANKS, COL_THREADS,
	COL_SHARD, COL_SEED, COL_WARMUP, COL_N, COL_MIN, COL_P10, COL_MEDIAN, COL_P90, COL_MAD,
	COL_CPU_MS, COL_IMG_S, COL_GFLOPS, COL_GEMM_PEAK, COL_SHARE, COL_COPY, COL_COPY_SHARE,
	COL_WAIT, COL_MEM, COL_COCO14, COL_COCO17, COL_INSTRUCTIONS, COL_JOULES, COL_LOAD,
	COL_OTHERS, COL_STEAL, COL_MHZ, COL_TEMP, COL_THERMAL, COL_THROTTLED, COL_BUSY, COL_NOTE,
	COL_END, BENCH_COLS };
extern const char *const bench_col_name[BENCH_COLS];
struct bench_row { char *v[BENCH_COLS]; };	/* NULL: not known, "-" in the file */
void row_set(struct bench_row *, enum bench_col, const char *fmt, ...) PRINTF(3, 4);
const char *row_get(const struct bench_row *, enum bench_col);	/* "-" where not known */
double row_num(const struct bench_row *, enum bench_col);	/* NAN where it is no number */
void row_free(struct bench_row *);
void row_key(struct bench_row *);	/* sets COL_KEY: a digest of what makes runs alike */
/* What is alike in the runs of a key, for people. */
char *row_alike(const struct bench_row *);
struct hist { struct bench_row *row; int n; size_t cap; };
/* Could a line be appended?  -1: it is no history, or a newer program's. */
int hist_fit(const char *path, struct err *);
int hist_append(const char *path, struct bench_row *, struct err *);
int hist_read(const char *path, struct hist *, struct err *);
void hist_close(struct hist *);

/* ---- benchhost.c: the machine, before and during a run ------------------------------------- */

struct host_now {			/* readings at one moment */
	double at, cpu, total, busy, steal;	/* seconds; cpu: this process and its children */
	double load, mhz, temp, joules;		/* NAN: the machine does not say */
	long thermal, throttled;	/* events so far; -1: not known */
	long long instructions;		/* so far, -1: not allowed or no counter */
};
void host_about(struct bench_row *);	/* columns from COL_COMMIT to COL_KERNEL but the commit */
int host_counter(void);			/* of instructions, before threads start; -1 */
void host_read(int counter, struct host_now *);

/* ---- benchrun.c: a run that is measured ---------------------------------------------------- */

struct meter {
	const char *commit, *history, *format;	/* format: "tsv" or "mllog" */
	int strict, counter;
	double limit;			/* share of the CPUs that others may have */
	struct bench_row row;
	struct host_now from, to;
};
/* 0; -1: an error; 75: the machine is busy and strict, which is said. */
int meter_open(struct meter *, const char *command, struct err *);
void meter_start(struct meter *);	/* of the part that is timed */
void meter_stop(struct meter *);
/* Figures of n timed things into the row; each was of so many images. */
void meter_times(struct meter *, double *seconds, int n, double images);
/* The row into the history.  0, -1, or 75 as above: then nothing was written. */
int meter_close(struct meter *, struct err *);
void meter_mllog(const struct meter *, FILE *);	/* after meter_times */
void meter_free(struct meter *);
void meter_cfg(struct meter *, const char *path, const char *text, size_t len);
enum { BENCH_BUSY = 75 };		/* EX_TEMPFAIL: try again later */
/* The longest warm-up by the rule: is there no trend in the last third of these times? */
int bench_warm(const double *seconds, int n);
double copy_rate(struct dev *);		/* GB/s moved, both ways counted, best of a few */

/* ---- benchmade.c: made-up data ------------------------------------------------------------- */

struct batch;
/* A batch with so many truths a picture; its bytes.  x and truth are the caller's to free. */
size_t made_batch(struct batch *, int n, int w, int h, int c, int per);
char *made_shard(int pictures, struct err *);	/* its path in TMPDIR; unlink, free() */

/* ---- benchstat.c: samples ------------------------------------------------------------------ */

double bench_quantile(const double *sorted, int n, double q);
/* The ratio b/a, the interval that holds it in level, and Mann and Whitney's p; wide: there are too
 * few values for such an interval, it is from the least to the largest. */
struct versus { double ratio, low, high, p; int wide; };
void bench_versus(const double *a, int na, const double *b, int nb, double level, struct versus *);
double bench_mad(const double *t, int n, double median);	/* times 1.4826: a deviation */

/* ---- benchsplit.c: change points ----------------------------------------------------------- */

struct split_opts { double level; int least, shuffles; };	/* least: values on each side */
struct split { int at; double p; int from, to; };	/* at: the first value behind the change */
/* Change points of x[n] in their order, the caller's to free; their number. */
int bench_split(const double *x, int n, const struct split_opts *, struct split **);

/* ---- benchkeys.c: the runs of a key -------------------------------------------------------- */

struct runs {
	const char *key;
	int *row, n;			/* rows of the history, oldest first; no marks */
};
/* Of every key in the order of its newest run, or of the one that is given (all or a beginning);
 * -1: no such key. */
int runs_find(const struct hist *, const char *key, struct runs **, int *n, struct err *);
void runs_free(struct runs *, int n);
int runs_since(const struct hist *, const struct runs *);	/* first run after the last mark */
int row_busy(const struct bench_row *);
/* Its values of a column that are there, of runs on a machine that was not busy: their number;
 * at[i]: which run.  Both have room for r->n. */
int runs_values(const struct hist *, const struct runs *, enum bench_col, double *x, int *at);
struct step {				/* a change point */
	int run;			/* the first after it, of struct runs */
	double p, before, after;	/* medians on both sides */
	int left, right;		/* runs that they are of */
};
/* Changes of at least `size` (a share), the caller's to free; their number. */
int runs_steps(const struct hist *, const struct runs *, enum bench_col, double size,
    struct step **);
/* "a1b2c3..d4e5f6; kernel 6.1 -> 6.2": what else differs between two runs, free(). */
char *runs_between(const struct bench_row *, const struct bench_row *);

#ifdef __cplusplus
}
#endif
#endif
