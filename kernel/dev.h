/* dev.h -- one dialect of C for two machines.  Only .cu files include it.
 *
 * A .cu file is compiled by cc as C11 for the CPU, by nvcc, where there is one, for CUDA, and by
 * g++ under test/emu.h for tests.  A kernel is a void function whose work is in these loops:
 *
 *	EACH (i, n)		n independent items; any thread takes any item
 *	EACH2 (y, m, x, n)	m * n of them; on the CPU x is the inner loop
 *	FOLD (y, m, t, lo, hi, x, n)	m * n of them, each of which takes the steps t = lo..hi-1 in
 *				order (lo and hi may depend on y), so its sum stands in memory; on
 *				the CPU x is the inner loop all the same
 *	PIECES (y, m, i, n, len)	m rows of n numbers, in pieces of len <= PIECE from i on: a
 *				number on CUDA, some vectors on the CPU.  A kernel's sums for a
 *				piece are an array of its own, float sum[PIECE], and in it
 *	WITHIN (j, len)		the numbers of the piece
 *	ROWS (r, n)		n rows, a block of threads to each, and in it
 *	LANES (j, m)		the m items of the row, shared out among the threads
 *
 * On the CPU a block is one thread: LANES is a plain loop, row_sum() is the identity, LEAD is
 * always true and SYNC is nothing.  A kernel that is right for every block size is right on both.
 * Host code of a module starts kernels with RUN (d, kernel, n, arguments) or RUNROWS, in the order
 * of the device's stream, and shares chunks of host work with TASKS (d, i, n): on the CPU each
 * thread takes chunks and loops inside it run alone, on CUDA the chunks are queued one after
 * another.  TASK_FLOATS is the workspace that one task should fill, TASK_SHARED what all threads
 * together should fill where they share one, TASK_CUTS into how many pieces to cut
 * what would be one task: neither knows the number of threads, so neither do the results.
 * LINE_PAD is added to a power of two between rows, where rows so far apart share cache sets.
 *
 * Activations and their gradients are void *: numbers as they are stored, float, or bfloat16 where
 * the file is compiled with -DBF16, under names of its own.  A kernel reads number i of x by
 * load(x, i), writes it by store(x, i, v) and computes in float; item(x, i) is its address.
 *
 * Indices are int: a 64-bit division is slow on a GPU.  A loop's last step goes past the end by the
 * size of the grid, so netplan.c refuses a tensor that comes that near to INT_MAX. */
#ifndef DEV_H
#define DEV_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef BF16
#define STORED uint16_t
#define STORED_AS(f) f##_bf16
#else
#define STORED float
#define STORED_AS(f) f
#endif

#include "kernel/kernel.h"

#if defined(EMU)
#include "test/emu.h"
#elif defined(__CUDACC__)
#include <cuda_runtime.h>

#define BACKEND(f) STORED_AS(f##_cuda)
#define KERNEL static __global__ void
#define DEVICE static __host__ __device__ inline
#define SYNC __syncthreads()
#define RUN(d, k, n, ...)     LAUNCH(d, k, ((n) + 255) / 256, __VA_ARGS__)
#define RUNROWS(d, k, n, ...) LAUNCH(d, k, n, __VA_ARGS__)
#define LAUNCH(d, k, blocks, ...) do { \
	int b_ = (blocks); \
	b_ = b_ < 1 ? 1 : b_ < 65535 ? b_ : 65535; \
	k<<<b_, 256, 0, (cudaStream_t)(d)->stream>>>(__VA_ARGS__); \
	cudaError_t e_ = cudaGetLastError(); \
	if (e_ != cudaSuccess) \
		die(1, "cuda: %s: %s%s", #k, cudaGetErrorString(e_), e_ == \
		    cudaErrorNoKernelImageForDevice ? "; built for other GPUs: make ARCH=all" : \
		    ""); \
	} while (0)

static __device__ inline double
row_sum(double x)			/* the same sum in every thread of the block */
{
	__shared__ double part[32];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

	for (int d = 16; d; d /= 2)
		x += __shfl_xor_sync(~0u, x, d);
	__syncthreads();		/* the readers of the last call are done */
	if (!lane)
		part[warp] = x;
	__syncthreads();
	x = 0;
	for (int w = 0; w < (int)blockDim.x / 32; w++)
		x += part[w];
	return x;
}
#else
#define BACKEND(f) STORED_AS(f##_cpu)
#define KERNEL static void
#define DEVICE static inline
#define SYNC (void)0
#define RUN(d, k, n, ...)     ((void)(d), k(__VA_ARGS__))
#define RUNROWS(d, k, n, ...) ((void)(d), k(__VA_ARGS__))
#define row_sum(x) (x)
#endif

#if defined(EMU) || defined(__CUDACC__)
#define GID   (int)(blockIdx.x * blockDim.x + threadIdx.x)
#define GSIZE (int)(gridDim.x * blockDim.x)
#define EACH(I, N)  for (int I = GID; I < (N); I += GSIZE)
#define EACH2(Y, M, X, N) \
	for (int i_ = GID, Y, X; i_ < (M) * (N) && \
	    (Y = i_ / (N), X = i_ - Y * (N), 1); i_ += GSIZE)
#define ROWS(I, N)  for (int I = blockIdx.x; I < (N); I += gridDim.x)
#define LANES(I, N) for (int I = threadIdx.x; I < (N); I += blockDim.x)
#define LEAD if (threadIdx.x == 0)
#define FOLD(Y, M, T, LO, HI, X, N) EACH2 (Y, M, X, N) for (int T = (LO); T < (HI); T++)
#define PIECES(Y, M, I, N, LEN) EACH2 (Y, M, I, N) for (int LEN = 1; LEN; LEN = 0)
#define WITHIN(J, LEN) for (int J = 0; J < (LEN); J++)
#define TASKS(D, I, N) for (int I = 0; I < (N); I++)
#define WORKER 0
enum { PIECE = 1 };
#ifdef EMU
enum { TASK_FLOATS = 1200, TASK_SHARED = 20000, TASK_CUTS = 3, LINE_PAD = 16 };
#else
enum { TASK_FLOATS = 1 << 24, TASK_SHARED = 1 << 26, TASK_CUTS = 1, LINE_PAD = 0 };
#endif
#else
#include <omp.h>
#define PRAGMA(x) _Pragma(#x)
/* Waking threads costs microseconds: a loop of fewer items than this runs on the caller's. */
enum { ALONE = 4096 };
#define PAR(ITEMS) PRAGMA(omp parallel for schedule(static) if((ITEMS) > ALONE))
#define EACH(I, N)  PAR(N) for (int I = 0; I < (N); I++)
#define INNER _Pragma("GCC ivdep")	/* items are independent: no alias checks, vectors */
#define EACH2(Y, M, X, N) \
	PAR((M) * (N)) for (int Y = 0; Y < (M); Y++) INNER for (int X = 0; X < (N); X++)
#define FOLD(Y, M, T, LO, HI, X, N) \
	PRAGMA(omp parallel for schedule(static) if((M) > 1)) \
	for (int Y = 0; Y < (M); Y++) for (int T = (LO); T < (HI); T++) \
		INNER for (int X = 0; X < (N); X++)
#define PIECES(Y, M, I, N, LEN) \
	PAR((M) * (N)) for (int Y = 0; Y < (M); Y++) \
		for (int I = 0, LEN; I < (N) && \
		    (LEN = (N) - I < PIECE ? (N) - I : PIECE, 1); I += PIECE)
#define WITHIN(J, LEN) INNER for (int J = 0; J < (LEN); J++)
enum { PIECE = 256 };
#define ROWS(I, N) \
	PRAGMA(omp parallel for schedule(static) if((N) > 1)) for (int I = 0; I < (N); I++)
#define LANES(I, N) for (int I = 0; I < (N); I++)
#define LEAD
#define TASKS(D, I, N) \
	PRAGMA(omp parallel for schedule(dynamic) num_threads((D)->threads) if((N) > 1)) \
	for (int I = 0; I < (N); I++)
#define WORKER omp_get_thread_num()	/* which workspace a task may use */
enum { TASK_FLOATS = 1 << 18, TASK_SHARED = 3 << 21, TASK_CUTS = 16, LINE_PAD = 16 };
#endif

#endif
