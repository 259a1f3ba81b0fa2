/* int.h -- one class of one picture, and the tables of all, for the rules. */
#ifndef EVAL_INT_H
#define EVAL_INT_H

#include "eval/eval.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what the files of the rules share ----------------------------------------------------- */

/* One class of one picture: ord[nd] detections by descending score, tr[nt] truths; words are
 * written to code[nd][words + 1] but the last, darknet's IoUs to over[nd].  buf: scratch, kept by
 * the caller. */
struct eval_buf { void *p, *pair, *edge; size_t cap, pairs, edges; };
void eval_group(const struct eval *, const struct eval_image *, const int *ord, int nd,
    const int *tr, int nt, uint32_t *code, double *over, struct eval_buf *);

#ifdef __cplusplus
}
#endif
#endif
