/* int.h -- what each device gives dev.c. */
#ifndef DEVICE_INT_H
#define DEVICE_INT_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- cpu.c, cuda.c: for dev.c -------------------------------------------------------------- */

/* For dev.c.  open fills in ops, name, stream, priv of *d; index counts devices of the kind. */
int cpu_open(struct dev *, int index, struct err *);
int cpu_count(struct err *);
void cpu_describe(int index, char *out, size_t len);
int cpu_has_bf16(void);
int cuda_open(struct dev *, int index, struct err *);
int cuda_count(struct err *);	/* 0: err says what is missing */
void cuda_describe(int index, char *out, size_t len);

#ifdef __cplusplus
}
#endif
#endif
