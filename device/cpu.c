/* cpu.c -- the CPU as a device: host memory, oneDNN's GEMM (cpubf16.c has that of bfloat16).
 *
 * Nothing is queued: an operation has ended when its function returns.  dnnl_sgemm (row-major, the
 * same call in oneDNN 2 and 3) takes all threads of the device, and one when it is called inside a
 * parallel region, which is what TASKS of dev.h are made of.  The number of threads belongs to the
 * thread that opened the device: that one should compute on it. */
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "yolo.h"

enum { HUGE_PAGE = 2 << 20, PIECE = 1 << 20 };

static void *
cpu_alloc(struct dev *d, size_t bytes)
{
	size_t align = bytes >= 2 * (size_t)HUGE_PAGE ? HUGE_PAGE : 256;
	size_t len = (bytes + align - 1) / align * align;
	void *p;

	(void)d;
	if (len < bytes || posix_memalign(&p, align, len ? len : align))
		return NULL;
	if (align == HUGE_PAGE)
		madvise(p, len, MADV_HUGEPAGE);
	return p;
}

static void
cpu_free(struct dev *d, void *p)
{
	(void)d;
	free(p);
}

/* One thread does not fill the memory bus. */
static void
cpu_copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
	(void)d;
#pragma omp parallel for schedule(static) if (bytes > 2 * PIECE)
	for (size_t i = 0; i < bytes; i += PIECE)
		memcpy((char *)dst + i, (const char *)src + i, bytes - i < PIECE ? bytes - i :
		    PIECE);
}

static void
cpu_zero(struct dev *d, void *dst, size_t bytes)
{
	(void)d;
#pragma omp parallel for schedule(static) if (bytes > 2 * PIECE)
	for (size_t i = 0; i < bytes; i += PIECE)
		memset((char *)dst + i, 0, bytes - i < PIECE ? bytes - i : PIECE);
}

static void
cpu_gemm(struct dev *d, const struct gemm *g)
{
	(void)d;
	if (g->m < 1 || g->n < 1)
		return;
	if (g->ab16) {
		cpu_gemm_bf16(g);
		return;
	}
	if (dnnl_sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', g->m, g->n, g->k, g->alpha,
	    (const float *)g->a, g->lda, (const float *)g->b, g->ldb, g->beta, (float *)g->c,
	    g->ldc) != dnnl_success)
		die(1, "dnnl_sgemm %d x %d x %d failed: out of memory?", g->m, g->n, g->k);
}

static void
cpu_sync(struct dev *d)
{
	(void)d;
}

static const struct dev_ops ops = {
	cpu_alloc, cpu_free, cpu_copy, cpu_copy, cpu_copy, cpu_zero, cpu_gemm, cpu_sync, cpu_sync,
};

int
cpu_open(struct dev *d, int index, struct err *e)
{
	if (index > 0)
		return err_set(e, "cpu:%d: there is one cpu device, cpu", index);
	d->ops = &ops;
	snprintf(d->name, sizeof d->name, "cpu");
	omp_set_dynamic(0);
	omp_set_num_threads(d->threads);
#pragma omp parallel
	if (omp_get_thread_num())	/* the first has a stack for them: catch_end() */
		leave_signals();
	return 0;
}

int
cpu_count(struct err *e)
{
	(void)e;
	return 1;
}

void
cpu_describe(int index, char *out, size_t len)
{
	const dnnl_version_t *v = dnnl_version();

	(void)index;
	snprintf(out, len, "cpu: %d threads, oneDNN %d.%d.%d%s", cores(), v->major, v->minor,
	    v->patch, cpu_has_bf16() ? ", bf16" : "");
}
