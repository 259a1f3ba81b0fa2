/* store.cu -- between float and numbers as activations are stored: bytes, copies, sums. */
#include "kernel/kernel.h"
#include "kernel/dev.h"
#include "base/fn.h"

KERNEL
widen_k(int n, const void *x, float *y)
{
	EACH (i, n)
		y[i] = load(x, i);
}

KERNEL
narrow_k(int n, const float *x, void *y)
{
	EACH (i, n)
		store(y, i, x[i]);
}

KERNEL
add_k(int n, const float *x, float *y)
{
	EACH (i, n)
		y[i] += x[i];
}

static void
widen(struct dev *d, int n, const void *x, float *y)
{
	RUN(d, widen_k, n, n, x, y);
}

static void
narrow(struct dev *d, int n, const float *x, void *y)
{
	RUN(d, narrow_k, n, n, x, y);
}

static void
add(struct dev *d, int n, const float *x, float *y)
{
	RUN(d, add_k, n, n, x, y);
}

const struct store_ops BACKEND(store) = { sizeof(STORED), widen, narrow, add };
