/* cpu.c -- the CPU as a device: host memory, oneDNN's GEMM, also of bfloat16 numbers.
 *
 * Nothing is queued: an operation has ended when its function returns.  dnnl_sgemm (row-major, the
 * same call in oneDNN 2 and 3) takes all threads of the device, and one when it is called inside a
 * parallel region, which is what TASKS of dev.h are made of.  The number of threads belongs to the
 * thread that opened the device: that one should compute on it. */
#include <assert.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/int.h"
#include "base/fn.h"

static void cpu_gemm_bf16(const struct gemm *g);

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

/* Products of bfloat16 numbers on the CPU.
 *
 * Where the processor multiplies them (AVX512_BF16, AMX) by oneDNN's matmul primitive: sums in
 * float, C in float or rounded once to bfloat16.  A primitive made again is found in oneDNN's own
 * cache, so none is kept here.  Elsewhere the factors are widened and multiplied by sgemm: a
 * product of two bfloat16 numbers is exact in float, so only the order of summation differs; tests
 * and -O emulate=1 run that. */

int
cpu_has_bf16(void)
{
	unsigned has = dnnl_get_effective_cpu_isa(), want = dnnl_cpu_isa_avx512_core_bf16;

	return (has & want) == want;
}

/* ---- by oneDNN: the calls that versions 2 and 3 have under other names -------------------- */

#if DNNL_VERSION_MAJOR < 3
#define MATRIX(m) &(m)
#define describe dnnl_memory_desc_init_by_strides

static void
forget(dnnl_memory_desc_t m)
{
	(void)m;
}

static dnnl_status_t
add_to_c(dnnl_post_ops_t ops, float beta)
{
	return dnnl_post_ops_append_sum(ops, beta);
}

static dnnl_status_t
plan(dnnl_primitive_desc_t *p, dnnl_engine_t engine, const dnnl_memory_desc_t m[3],
    dnnl_primitive_attr_t attr)
{
	dnnl_matmul_desc_t op;

	if (dnnl_matmul_desc_init(&op, &m[0], &m[1], NULL, &m[2]) != dnnl_success)
		return dnnl_invalid_arguments;
	return dnnl_primitive_desc_create(p, &op, attr, engine, NULL);
}
#else
#define MATRIX(m) (m)
#define describe dnnl_memory_desc_create_with_strides

static void
forget(dnnl_memory_desc_t m)
{
	dnnl_memory_desc_destroy(m);
}

static dnnl_status_t
add_to_c(dnnl_post_ops_t ops, float beta)
{
	return dnnl_post_ops_append_sum(ops, beta, 0, dnnl_data_type_undef);
}

static dnnl_status_t
plan(dnnl_primitive_desc_t *p, dnnl_engine_t engine, const dnnl_memory_desc_t m[3],
    dnnl_primitive_attr_t attr)
{
	return dnnl_matmul_primitive_desc_create(p, engine, m[0], m[1], NULL, m[2], attr);
}
#endif

static void
must(dnnl_status_t s, const struct gemm *g)
{
	if (s != dnnl_success)
		die(1, "bfloat16 product %d x %d x %d failed, oneDNN status %d: out of memory?",
		    g->m, g->n, g->k, (int)s);
}

static void
multiply(const struct gemm *g)
{
	dnnl_dims_t dims[3] = { { g->m, g->k }, { g->k, g->n }, { g->m, g->n } };
	dnnl_dims_t strides[3] = { { g->ta ? 1 : g->lda, g->ta ? g->lda : 1 },
		{ g->tb ? 1 : g->ldb, g->tb ? g->ldb : 1 }, { g->ldc, 1 } };
	void *at[3] = { (void *)g->a, (void *)g->b, g->c };
	int name[3] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	dnnl_memory_desc_t m[3];
	dnnl_exec_arg_t arg[3];
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_primitive_attr_t attr;
	dnnl_post_ops_t ops;
	dnnl_primitive_desc_t desc;
	dnnl_primitive_t product;

	must(dnnl_engine_create(&engine, dnnl_cpu, 0), g);
	must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), g);
	must(dnnl_primitive_attr_create(&attr), g);
	must(dnnl_post_ops_create(&ops), g);
	if (g->beta != 0)
		must(add_to_c(ops, g->beta), g);
	must(dnnl_primitive_attr_set_post_ops(attr, ops), g);
	for (int i = 0; i < 3; i++) {
		must(describe(&m[i], 2, dims[i], i < 2 || g->c16 ? dnnl_bf16 : dnnl_f32,
		    strides[i]), g);
		arg[i].arg = name[i];
		must(dnnl_memory_create(&arg[i].memory, MATRIX(m[i]), engine, at[i]), g);
	}
	must(plan(&desc, engine, m, attr), g);
	must(dnnl_primitive_create(&product, desc), g);
	must(dnnl_primitive_execute(product, stream, 3, arg), g);
	must(dnnl_stream_wait(stream), g);
	for (int i = 0; i < 3; i++) {
		dnnl_memory_destroy(arg[i].memory);
		forget(m[i]);
	}
	dnnl_primitive_destroy(product);
	dnnl_primitive_desc_destroy(desc);
	dnnl_post_ops_destroy(ops);
	dnnl_primitive_attr_destroy(attr);
	dnnl_stream_destroy(stream);
	dnnl_engine_destroy(engine);
}

/* ---- by widening -------------------------------------------------------------------------- */

static float *
widened(const void *x, int rows, int n, int ld)
{
	float *y = (float *)xmalloc((size_t)rows * (size_t)n * sizeof *y);

	for (int r = 0; r < rows; r++)
		for (int i = 0; i < n; i++)
			y[(size_t)r * n + i] = fn_float(((const uint16_t *)x)[(size_t)r * ld + i]);
	return y;
}

static void
emulate(const struct gemm *g)
{
	int m = g->m, n = g->n, k = g->k;
	float *a = g->ta ? widened(g->a, k, m, g->lda) : widened(g->a, m, k, g->lda);
	float *b = g->tb ? widened(g->b, n, k, g->ldb) : widened(g->b, k, n, g->ldb);
	float *c = g->c16 ? widened(g->c, m, n, g->ldc) : (float *)g->c;
	int ldc = g->c16 ? n : g->ldc;

	if (dnnl_sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', m, n, k, g->alpha, a, g->ta ? m : k, b,
	    g->tb ? k : n, g->beta, c, ldc) != dnnl_success)
		die(1, "dnnl_sgemm %d x %d x %d failed: out of memory?", m, n, k);
	for (int r = 0; r < m && g->c16; r++)
		for (int i = 0; i < n; i++)
			((uint16_t *)g->c)[(size_t)r * g->ldc + i] = fn_bf16(c[(size_t)r * n + i]);
	free(a);
	free(b);
	if (g->c16)
		free(c);
}

/* A product of bfloat16 numbers, by the processor's own instructions or emulated. */
static void
cpu_gemm_bf16(const struct gemm *g)
{
	assert(g->alpha == 1);
	if (cpu_has_bf16())
		multiply(g);
	else
		emulate(g);
}
