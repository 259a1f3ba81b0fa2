/* emu.h -- run the CUDA side of a .cu file on the CPU, for tests.
 *
 * Built as C++ (a .cu file is both C and C++).  A block's threads are fibers,
 * and a barrier switches to the next one.  Slow, single-threaded, and strict
 * about what the CPU build cannot see: a forgotten LANES or LEAD, a block size
 * baked in, a barrier that not all threads reach.  Linked into tests only. */
#ifndef EMU_H
#define EMU_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

extern "C" int emu_block, emu_grid;	/* a test sets them; block <= EMU_MAX */
extern "C" void emu_note(const char *file, const char *kernel);	/* it runs, with that block */

enum { EMU_MAX = 256, EMU_STACK = 32768 };
struct emu_dim { int x; };
static struct emu_dim threadIdx, blockIdx, blockDim, gridDim;
static ucontext_t emu_main, emu_fib[EMU_MAX];
static char emu_done[EMU_MAX], emu_stack[EMU_MAX][EMU_STACK];
static void (*emu_body)(const void *);
static const void *emu_arg;

static void
emu_sync(void)
{
	int me = threadIdx.x;

	swapcontext(&emu_fib[me], &emu_main);
}

static void
emu_enter(void)
{
	int me = threadIdx.x;

	emu_body(emu_arg);
	emu_done[me] = 1;
}

static void
emu_run1(void)				/* one block, from start to end */
{
	int ran, ended;

	for (int t = 0; t < emu_block; t++) {
		getcontext(&emu_fib[t]);
		emu_fib[t].uc_stack.ss_sp = emu_stack[t];
		emu_fib[t].uc_stack.ss_size = EMU_STACK;
		emu_fib[t].uc_link = &emu_main;
		makecontext(&emu_fib[t], emu_enter, 0);
	}
	memset(emu_done, 0, sizeof emu_done);
	do {				/* a round: each thread to its next barrier */
		ran = ended = 0;
		for (int t = 0; t < emu_block; t++) {
			if (emu_done[t])
				continue;
			threadIdx.x = t;
			swapcontext(&emu_main, &emu_fib[t]);
			ran++;
			ended += emu_done[t];
		}
		if (ended && ended != ran) {
			fprintf(stderr, "emu: %d of %d threads missed a barrier\n", ended, ran);
			abort();
		}
	} while (!ended);
}

template <class F> static void
emu_launch(const F &f)
{
	emu_body = [](const void *p) { (*(const F *)p)(); };
	emu_arg = &f;			/* dead again when this returns */
	blockDim.x = emu_block;
	gridDim.x = emu_grid;
	for (blockIdx.x = 0; blockIdx.x < emu_grid; blockIdx.x++)
		emu_run1();
	emu_arg = NULL;
}

#define KERNEL static void
#define DEVICE static inline
#define SYNC emu_sync()
#ifdef FAKE	/* kernels of the fake CUDA: queued, their arguments copied */
#include <type_traits>
#include "test/fakecuda.h"

/* Large structs are tables of numbers, of which not all need be set. */
template <class T> static void
emu_argument(const char *kernel, const T &x)
{
	if (sizeof x < 512)
		fake_argument(kernel, &x, sizeof x, std::is_pointer<T>::value);
}

template <class... P, class... A> static void
emu_queue(void *stream, const char *name, void (*k)(P...), long n, A... a)
{
	static_assert((sizeof(P) + ... + 0) < 4000, "more arguments than a kernel may have");
	if (n < 0)
		fake_wrong("kernel %s of %ld", name, n);
	(emu_argument(name, (P)a), ...);
	fake_queue(stream, name, [=] { emu_launch([&] { k(a...); }); });
}

#define BACKEND(f) STORED_AS(f##_cuda)
#define RUN(d, k, n, ...) emu_queue((d)->stream, #k, k, n, __VA_ARGS__)
#else
#define BACKEND(f) STORED_AS(f##_emu)
#define RUN(d, k, n, ...) \
	((void)(d), emu_note(__FILE__, #k), emu_launch([&] { k(__VA_ARGS__); }))
#endif
#define RUNROWS RUN

static double
row_sum(double x)
{
	static double part[EMU_MAX];
	double sum = 0;

	emu_sync();
	part[threadIdx.x] = x;
	emu_sync();
	for (int t = 0; t < emu_block; t++)
		sum += part[t];
	return sum;
}
#endif
