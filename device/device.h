/* device.h -- where numbers live: a CPU, a GPU, behind one struct dev.
 *
 * Needs base, kernel and loss (whose tables it joins) and sync.  Promises: programs start without a
 * driver, and what is missing is one line that names its package. */
#ifndef DEVICE_PART_H
#define DEVICE_PART_H

#include "base/base.h"
#include "kernel/kernel.h"
#include "loss/loss.h"
#include "sync/sync.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- dev.c: devices ------------------------------------------------------------------------ */

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

/* Tensors of activations and of their gradients are void *: numbers as the device stores them,
 * store->bytes each, float or bfloat16.  The tables below exist once for each. */

#ifdef __cplusplus
}
#endif
#endif
