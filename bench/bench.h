/* bench.h -- figures, each as a share of what the machine can do.
 *
 * Needs all parts below. */
#ifndef BENCH_PART_H
#define BENCH_PART_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the subcommands of yolo-bench --------------------------------------------------------- */

struct bench_call { int argc; char **argv; const char *commit; };	/* of the source */
int bench_ops(const struct bench_call *);	/* exit status, as all of them */
int bench_step(const struct bench_call *);
int bench_eval(const struct bench_call *);
int bench_ab(const struct bench_call *);
int bench_loader(const struct bench_call *);
int bench_prep(const struct bench_call *);
int bench_sync(const struct bench_call *);
int bench_scale(const struct bench_call *);
int bench_doctor(const struct bench_call *);	/* 1: there is something to be done */
int bench_check(const struct bench_call *);	/* 0 fine, 1 worse, 2 cannot say */
int bench_steps(const struct bench_call *);
int bench_mark(const struct bench_call *);
int bench_report(const struct bench_call *);
/* benchutil.c */
double bench_median(double *t, int n);		/* sorts t */
/* An option's number; -1: it is none, which is said. */
int bench_number(char letter, const char *s, long lo, long hi, int *out);
void bench_reset_peak(void);			/* of the process's memory */
double bench_peak_mb(void);
double bench_rss_mb(void);

#ifdef __cplusplus
}
#endif
#endif
