/* cuda.c -- an NVIDIA GPU as a device: memory, one stream, cublasLt's GEMM.
 *
 * Plain C: the runtime (linked statically, it finds the driver itself) and cublasLt have C
 * interfaces.  cublasLt is opened at the first use through one table of functions, so a program
 * starts fast and starts anywhere; what is missing is one line naming its package.  Everything is
 * queued on the device's stream in order.  cublasLt is column-major: the row-major product
 * C = A B is its C' = B' A'.  What its heuristic chose is kept by shape, with its own workspace.
 * Sums are float whatever the factors are. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "device/int.h"

enum { WORKSPACE = 32 << 20, BUCKETS = 256 };

#define FUNCTIONS(F) \
	F(cublasLtCreate) F(cublasLtDestroy) F(cublasLtMatmul) F(cublasLtMatmulAlgoGetHeuristic) \
	F(cublasLtMatmulDescCreate) F(cublasLtMatmulDescDestroy) F(cublasLtMatmulDescSetAttribute) \
	F(cublasLtMatrixLayoutCreate) F(cublasLtMatrixLayoutDestroy) \
	F(cublasLtMatmulPreferenceCreate) F(cublasLtMatmulPreferenceDestroy) \
	F(cublasLtMatmulPreferenceSetAttribute) F(cublasLtGetStatusString)
#define MEMBER(f) __typeof__(f) *f;
struct blas {
	void *lib;
	FUNCTIONS(MEMBER)
};

struct key { int ta, tb, m, n, k, lda, ldb, ldc, align, adds, ab16, c16; };
struct plan {			/* one shape of GEMM, made ready */
	struct key key;
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulAlgo_t algo;
	struct plan *next;
};
struct cuda {
	struct blas blas;
	cublasLtHandle_t handle;
	void *ws;
	struct plan *bucket[BUCKETS];
};

static void
must(cudaError_t r, const char *what)
{
	if (r != cudaSuccess)
		die(1, "cuda: %s: %s", what, cudaGetErrorString(r));
}

static void
must_blas(const struct blas *l, cublasStatus_t r, const char *what)
{
	if (r != CUBLAS_STATUS_SUCCESS)
		die(1, "cuda: %s: %s", what, l->cublasLtGetStatusString(r));
}

static void *
cuda_alloc(struct dev *d, size_t bytes)
{
	void *p;

	(void)d;
	if (cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess)
		return p;
	cudaGetLastError();		/* out of memory is the caller's to report: forget it */
	return NULL;
}

static void
cuda_free(struct dev *d, void *p)
{
	(void)d;
	must(cudaFree(p), "free");
}

static void
cuda_sync(struct dev *d)
{
	must(cudaStreamSynchronize((cudaStream_t)d->stream), "kernels");
}

/* Waits, so that the host may use its memory again whatever kind it is. */
static void
cuda_put(struct dev *d, void *dst, const void *src, size_t bytes)
{
	must(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, (cudaStream_t)d->stream),
	    "copy");
	cuda_sync(d);
}

static void
cuda_get(struct dev *d, void *dst, const void *src, size_t bytes)
{
	must(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, (cudaStream_t)d->stream),
	    "copy");
	cuda_sync(d);
}

static void
cuda_copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
	must(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)d->stream),
	    "copy");
}

static void
cuda_zero(struct dev *d, void *dst, size_t bytes)
{
	must(cudaMemsetAsync(dst, 0, bytes, (cudaStream_t)d->stream), "clear");
}

/* ---- GEMM --------------------------------------------------------------------------------- */

static int
blas_open(struct blas *b, struct err *e)
{
	char name[64];

	snprintf(name, sizeof name, "libcublasLt.so.%d", CUDART_VERSION / 1000);
	if (!(b->lib = dlopen(name, RTLD_NOW | RTLD_LOCAL)))
		return err_set(e, "cuda: %s: install the package libcublas-%d-%d", dlerror(),
		    CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
#define LOAD(f) \
	if (!(*(void **)&b->f = dlsym(b->lib, #f))) \
		return err_set(e, "cuda: %s has no %s: update the package libcublas-%d-%d", name, \
		    #f, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	FUNCTIONS(LOAD)
#undef LOAD
	return 0;
}

/* The best algorithm for a plan by cublasLt's own heuristic; deterministic mode forbids sums in
 * place, whose order is not fixed. */
static void
choose(struct dev *d, struct plan *p)
{
	const struct blas *l = &((struct cuda *)d->priv)->blas;
	cublasLtMatmulPreference_t pref;
	cublasLtMatmulHeuristicResult_t found;
	size_t ws = WORKSPACE;
	uint32_t align = (uint32_t)p->key.align, sums = CUBLASLT_REDUCTION_SCHEME_MASK;
	cublasStatus_t r;
	int n = 0;

	if (d->deterministic)
		sums &= ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_INPLACE;
	must_blas(l, l->cublasLtMatmulPreferenceCreate(&pref), "matmul preference");
#define PREF(what, v) \
	must_blas(l, l->cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_##what, \
	    &v, sizeof v), "matmul preference")
	PREF(MAX_WORKSPACE_BYTES, ws);
	PREF(REDUCTION_SCHEME_MASK, sums);
	PREF(MIN_ALIGNMENT_A_BYTES, align);
	PREF(MIN_ALIGNMENT_B_BYTES, align);
	PREF(MIN_ALIGNMENT_C_BYTES, align);
	PREF(MIN_ALIGNMENT_D_BYTES, align);
#undef PREF
	r = l->cublasLtMatmulAlgoGetHeuristic(((struct cuda *)d->priv)->handle, p->desc, p->a, p->b,
	    p->c, p->c, pref, 1, &found, &n);
	if (r == CUBLAS_STATUS_SUCCESS && n > 0)
		r = found.state;
	if (r != CUBLAS_STATUS_SUCCESS || n < 1)
		die(1, "cuda: cublasLt has no algorithm (%s) for the product m=%d n=%d k=%d "
		    "ta=%d tb=%d, rows of %d %d %d, %s, aligned to %d",
		    l->cublasLtGetStatusString(r), p->key.m, p->key.n, p->key.k, p->key.ta,
		    p->key.tb, p->key.lda, p->key.ldb, p->key.ldc, p->key.ab16 ? "bf16" : "fp32",
		    p->key.align);
	p->algo = found.algo;
	must_blas(l, l->cublasLtMatmulPreferenceDestroy(pref), "matmul preference");
}

static struct plan *
plan_make(struct dev *d, const struct key *k)
{
	const struct blas *l = &((struct cuda *)d->priv)->blas;
	struct plan *p = (struct plan *)xcalloc(1, sizeof *p);
	cublasOperation_t ta = k->tb ? CUBLAS_OP_T : CUBLAS_OP_N, tb = k->ta ? CUBLAS_OP_T :
	    CUBLAS_OP_N;
	uint64_t m = (uint64_t)k->n, n = (uint64_t)k->m, kk = (uint64_t)k->k;
	cudaDataType_t ab = k->ab16 ? CUDA_R_16BF : CUDA_R_32F;
	cudaDataType_t c = k->c16 ? CUDA_R_16BF : CUDA_R_32F;

	p->key = *k;
	must_blas(l, l->cublasLtMatmulDescCreate(&p->desc, d->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 :
	    CUBLAS_COMPUTE_32F, CUDA_R_32F), "matmul");
	must_blas(l, l->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta,
	    sizeof ta), "matmul");
	must_blas(l, l->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb,
	    sizeof tb), "matmul");
	must_blas(l, l->cublasLtMatrixLayoutCreate(&p->a, ab, k->tb ? kk : m, k->tb ? m : kk,
	    k->ldb), "matrix");
	must_blas(l, l->cublasLtMatrixLayoutCreate(&p->b, ab, k->ta ? n : kk, k->ta ? kk : n,
	    k->lda), "matrix");
	must_blas(l, l->cublasLtMatrixLayoutCreate(&p->c, c, m, n, k->ldc), "matrix");
	choose(d, p);
	return p;
}

static int
alignment(const void *a, const void *b, const void *c)
{
	uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
	int align = 2;

	while (align < 256 && !(all & (uintptr_t)align))
		align *= 2;
	return align;
}

static struct plan *
plan_find(struct dev *d, const struct gemm *g)
{
	struct key k;
	struct plan **at, *p;
	unsigned h = 0;

	memset(&k, 0, sizeof k);
	k = (struct key){ g->ta, g->tb, g->m, g->n, g->k, g->lda, g->ldb, g->ldc,
		alignment(g->a, g->b, g->c), g->beta != 0, g->ab16, g->c16 };
	for (size_t i = 0; i < sizeof k / sizeof(int); i++)
		h = (h ^ (unsigned)((const int *)&k)[i]) * 16777619u;
	at = &((struct cuda *)d->priv)->bucket[(h ^ h >> 16) % BUCKETS];
	for (p = *at; p; p = p->next)
		if (!memcmp(&p->key, &k, sizeof k))
			return p;
	p = plan_make(d, &k);
	p->next = *at;
	return *at = p;
}

static void
cuda_gemm(struct dev *d, const struct gemm *g)
{
	struct cuda *c = (struct cuda *)d->priv;
	struct plan *p;

	if (g->m < 1 || g->n < 1)
		return;
	p = plan_find(d, g);
	must_blas(&c->blas, c->blas.cublasLtMatmul(c->handle, p->desc, &g->alpha, g->b, p->a, g->a,
	    p->b, &g->beta, g->c, p->c, g->c, p->c, &p->algo, c->ws, WORKSPACE,
	    (cudaStream_t)d->stream), "matmul");
}

/* ---- open and close ----------------------------------------------------------------------- */

static void
cuda_close(struct dev *d)
{
	struct cuda *c = (struct cuda *)d->priv;

	cuda_sync(d);
	for (int i = 0; i < BUCKETS; i++)
		for (struct plan *p = c->bucket[i], *next; p; p = next) {
			next = p->next;
			c->blas.cublasLtMatrixLayoutDestroy(p->a);
			c->blas.cublasLtMatrixLayoutDestroy(p->b);
			c->blas.cublasLtMatrixLayoutDestroy(p->c);
			c->blas.cublasLtMatmulDescDestroy(p->desc);
			free(p);
		}
	c->blas.cublasLtDestroy(c->handle);
	cuda_free(d, c->ws);
	cudaStreamDestroy((cudaStream_t)d->stream);
	free(c);
}

static const struct dev_ops ops = {
	cuda_alloc, cuda_free, cuda_put, cuda_get, cuda_copy, cuda_zero, cuda_gemm, cuda_sync,
	cuda_close,
};

int
cuda_count(struct err *e)
{
	int n = 0;
	cudaError_t r = cudaGetDeviceCount(&n);

	if (r == cudaSuccess && n > 0)
		return n;
	cudaGetLastError();
	if (r == cudaErrorInsufficientDriver)
		err_set(e,
		    "no NVIDIA driver, or one too old for CUDA %d.%d (package nvidia-driver)",
		    CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	else
		err_set(e, "no usable GPU: %s", r == cudaSuccess ? "none visible" :
		    cudaGetErrorString(r));
	return 0;
}

/* The stream and cublasLt; what another program's hold on the GPU can deny. */
static int
open_work(struct dev *d, struct cuda *c, int index, struct err *e)
{
	cublasStatus_t s;
	cudaError_t r;

	if (blas_open(&c->blas, e))
		return -1;
	if ((r = cudaStreamCreateWithFlags((cudaStream_t *)&d->stream, cudaStreamNonBlocking)) !=
	    cudaSuccess || (r = cudaMalloc(&c->ws, WORKSPACE)) != cudaSuccess)
		return err_set(e, "cuda:%d: cannot be used: %s", index, cudaGetErrorString(r));
	if ((s = c->blas.cublasLtCreate(&c->handle)) != CUBLAS_STATUS_SUCCESS)
		return err_set(e, "cuda:%d: cublasLt does not start: %s", index,
		    c->blas.cublasLtGetStatusString(s));
	return 0;
}

int
cuda_open(struct dev *d, int index, struct err *e)
{
	struct cuda *c;
	int n = cuda_count(e), major = 0;
	cudaError_t r;

	if (n < 1)
		return -1;
	if (index >= n)
		return err_set(e, "cuda:%d: there %s %d GPU%s, cuda:0..%d", index, n > 1 ? "are" :
		    "is", n, n > 1 ? "s" : "", n - 1);
	if ((r = cudaSetDevice(index)) != cudaSuccess)
		return err_set(e, "cuda:%d: %s", index, cudaGetErrorString(r));
	if (d->store->bytes == 2 && (cudaDeviceGetAttribute(&major,
	    cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess || major < 8))
		return err_set(e, "cuda:%d: -p bf16 wants sm_80 (A100) or later, not sm_%dx",
		    index, major);
	c = (struct cuda *)xcalloc(1, sizeof *c);
	if (open_work(d, c, index, e)) {
		free(c);
		return -1;
	}
	d->ops = &ops;
	d->priv = c;
	d->threads = 1;			/* one stream: one workspace */
	snprintf(d->name, sizeof d->name, "cuda:%d", index);
	return 0;
}

void
cuda_describe(int index, char *out, size_t len)
{
	struct cudaDeviceProp p;

	if (cudaGetDeviceProperties(&p, index) != cudaSuccess)
		snprintf(out, len, "cuda:%d: cannot be asked", index);
	else
		snprintf(out, len, "cuda:%d: %s, sm_%d%d, %d SMs, %.1f GiB", index, p.name, p.major,
		    p.minor, p.multiProcessorCount, (double)p.totalGlobalMem / (1 << 30));
}
