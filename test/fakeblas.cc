/* fakeblas.cc -- cublasLt without a GPU: the products that cuda.c asks for, column by column.
 *
 * What a real one refuses or would read out of bounds is told: layouts that do not fit each other,
 * an algorithm used for another product or for pointers less aligned than it was chosen for. */
#include <cublasLt.h>

#include <vector>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/fakecuda.h"

struct desc { cublasComputeType_t compute; int32_t ta, tb; };
struct layout { cudaDataType_t type; uint64_t rows, cols; int64_t ld; };
struct pref { uint64_t workspace; uint32_t align[4], sums; };
struct algo {			/* at most the 64 bytes of cublasLtMatmulAlgo_t */
	uint32_t magic, m, n, k, align[4];
	uint16_t ta, tb, compute, types;
	uint64_t workspace;
};
static_assert(sizeof(algo) <= sizeof(cublasLtMatmulAlgo_t), "room");
enum { MAGIC = 0xb1a5 };

static size_t
width(cudaDataType_t t)
{
	return t == CUDA_R_16BF ? 2 : 4;
}

/* op(A) is m x k, op(B) k x n, C m x n: what the three layouts say of that. */
static int
fit(const desc *d, const layout *a, const layout *b, const layout *c, algo *out)
{
	uint64_t m = d->ta ? a->cols : a->rows, k = d->ta ? a->rows : a->cols;
	uint64_t n = d->tb ? b->rows : b->cols;

	*out = algo{};
	out->magic = MAGIC;
	out->m = (uint32_t)m;
	out->n = (uint32_t)n;
	out->k = (uint32_t)k;
	out->ta = (uint16_t)d->ta;
	out->tb = (uint16_t)d->tb;
	out->compute = (uint16_t)d->compute;
	out->types = (uint16_t)(a->type << 8 | c->type);
	if (!m || !n || !k || (d->tb ? b->cols : b->rows) != k || c->rows != m || c->cols != n)
		return 0;
	if (a->ld < (int64_t)a->rows || b->ld < (int64_t)b->rows || c->ld < (int64_t)c->rows)
		return 0;
	if (a->type != b->type || (a->type == CUDA_R_32F && c->type != CUDA_R_32F))
		return 0;
	return d->compute == CUBLAS_COMPUTE_32F || a->type == CUDA_R_32F;
}

static float
number(const void *x, cudaDataType_t t, size_t i)
{
	uint32_t u;
	float f;

	if (t == CUDA_R_32F)
		return ((const float *)x)[i];
	u = (uint32_t)((const uint16_t *)x)[i] << 16;
	memcpy(&f, &u, sizeof f);
	return f;
}

static void
set(void *x, cudaDataType_t t, size_t i, float f)
{
	uint32_t u;

	if (t == CUDA_R_32F) {
		((float *)x)[i] = f;
		return;
	}
	memcpy(&u, &f, sizeof u);
	((uint16_t *)x)[i] = (uint16_t)(f != f ? u >> 16 | 0x40 :
	    (u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static void
multiply(const algo &g, float alpha, const void *a, layout la, const void *b, layout lb, float beta,
    void *c, layout lc)
{
	std::vector<float> left((size_t)g.m * g.k), sum(g.m);

	for (size_t p = 0; p < g.k; p++)
		for (size_t i = 0; i < g.m; i++)
			left[p * g.m + i] = number(a, la.type, g.ta ? i * (size_t)la.ld + p :
			    p * (size_t)la.ld + i);
	for (size_t j = 0; j < g.n; j++) {
		memset(sum.data(), 0, g.m * sizeof(float));
		for (size_t p = 0; p < g.k; p++) {
			float f = number(b, lb.type, g.tb ? p * (size_t)lb.ld + j :
			    j * (size_t)lb.ld + p);
			const float *from = &left[p * g.m];

			for (size_t i = 0; i < g.m; i++)
				sum[i] += f * from[i];
		}
		for (size_t i = 0; i < g.m; i++) {
			size_t at = j * (size_t)lc.ld + i;

			set(c, lc.type, at, alpha * sum[i] + (beta != 0 ?
			    beta * number(c, lc.type, at) : 0));
		}
	}
}

static void
pointer(const char *what, const void *p, const layout *l, uint32_t align)
{
	if ((uintptr_t)p % align)
		fake_wrong("matmul: %s at %p: its algorithm wants %u bytes", what, p, align);
	fake_check(what, p, ((l->cols - 1) * (size_t)l->ld + l->rows) * width(l->type));
}

extern "C" {
const char *
cublasLtGetStatusString(cublasStatus_t s)
{
	return s == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : s == CUBLAS_STATUS_SUCCESS ?
	    "success" : "failed";
}

cublasStatus_t
cublasLtCreate(cublasLtHandle_t *h)
{
	*h = (cublasLtHandle_t)calloc(1, 1);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtDestroy(cublasLtHandle_t h)
{
	free(h);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale)
{
	*d = (cublasLtMatmulDesc_t)new desc{ compute, 0, 0 };
	return scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
	delete (desc *)d;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a,
    const void *v, size_t n)
{
	desc *p = (desc *)d;
	int32_t op;

	if (n != sizeof op)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(&op, v, n);
	if (a == CUBLASLT_MATMUL_DESC_TRANSA)
		p->ta = op == CUBLAS_OP_T;
	else if (a == CUBLASLT_MATMUL_DESC_TRANSB)
		p->tb = op == CUBLAS_OP_T;
	else
		return CUBLAS_STATUS_INVALID_VALUE;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t t, uint64_t rows,
    uint64_t cols, int64_t ld)
{
	*l = (cublasLtMatrixLayout_t)new layout{ t, rows, cols, ld };
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
	delete (layout *)l;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
	*p = (cublasLtMatmulPreference_t)new pref{ 0, { 256, 256, 256, 256 }, 7 };
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
	delete (pref *)p;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t q,
    cublasLtMatmulPreferenceAttributes_t a, const void *v, size_t n)
{
	pref *p = (pref *)q;
	int i = (int)a - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;

	if (a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && n == 8)
		memcpy(&p->workspace, v, n);
	else if (a == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && n == 4)
		memcpy(&p->sums, v, n);
	else if (i >= 0 && i < 4 && n == 4)
		memcpy(&p->align[i], v, n);
	else
		return CUBLAS_STATUS_INVALID_VALUE;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
    cublasLtMatmulPreference_t q, int, cublasLtMatmulHeuristicResult_t *found, int *n)
{
	const pref *p = (const pref *)q;
	algo g;

	*n = 0;
	if (!fit((desc *)d, (layout *)a, (layout *)b, (layout *)c, &g) || out != c)
		fake_wrong("matmul: layouts do not fit: m %u n %u k %u", g.m, g.n, g.k);
	if (fake_fails("heuristic"))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (fake_fails("algorithm"))
		return CUBLAS_STATUS_SUCCESS;
	memcpy(g.align, p->align, sizeof g.align);
	g.workspace = p->workspace;
	memset(found, 0, sizeof *found);
	memcpy(&found->algo, &g, sizeof g);
	*n = 1;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha, const void *a,
    cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta,
    const void *c, cublasLtMatrixLayout_t lc, void *out, cublasLtMatrixLayout_t lout,
    const cublasLtMatmulAlgo_t *with, void *ws, size_t wsbytes, cudaStream_t s)
{
	layout fa = *(layout *)la, fb = *(layout *)lb, fc = *(layout *)lc;
	float f[2];
	algo g, was;

	memcpy(&was, with, sizeof was);
	if (!fit((desc *)d, &fa, &fb, &fc, &g) || out != c || lout != lc)
		fake_wrong("matmul: layouts do not fit: m %u n %u k %u", g.m, g.n, g.k);
	memcpy(g.align, was.align, sizeof g.align);
	g.workspace = was.workspace;
	if (memcmp(&g, &was, sizeof g))
		fake_wrong("matmul: m %u n %u k %u by an algorithm for others", g.m, g.n, g.k);
	if ((uintptr_t)ws % 256 || wsbytes < g.workspace)
		fake_wrong("matmul: workspace %p of %zu bytes", ws, wsbytes);
	fake_check("matmul's workspace", ws, wsbytes);
	pointer("matmul's A", a, &fa, g.align[0]);
	pointer("matmul's B", b, &fb, g.align[1]);
	pointer("matmul's C", out, &fc, g.align[2]);
	memcpy(&f[0], alpha, sizeof f[0]);
	memcpy(&f[1], beta, sizeof f[1]);
	fake_queue(s, "matmul", [=] { multiply(g, f[0], a, fa, b, fb, f[1], out, fc); });
	return CUBLAS_STATUS_SUCCESS;
}
}
