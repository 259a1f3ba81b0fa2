/* convdirect.cu -- depthwise convolution: one channel per group, without columns or GEMM.
 *
 * Filter f (of k) reads channel f / m, m = k / c.  All loops run over channels with unit stride.
 * wgrad sums strips of output rows, then adds the strips in order; what is outside is read there at
 * a place that exists and then dropped: tests made with & rather than && leave the compiler one
 * straight loop over channels. */
#include "yolo.h"
#include "dev.h"
#include "fn.h"

enum { STRIP = 256 };		/* output pixels whose share of dW is one partial sum */

/* y[o][f] = sum over taps of x[pixel][f / m] * w[tap][f] */
KERNEL
dw_forward_k(struct conv_shape s, int m, const void *x, const float *w, void *y)
{
	BY_USUAL(M, m, 1, PIECES (o, s.n * s.oh * s.ow, f, s.k, len) {
		int b = o / (s.oh * s.ow), top = o / s.ow % s.oh * s.stride_y - s.pad;
		int left = o % s.ow * s.stride_x - s.pad;
		float sum[PIECE];

		WITHIN (j, len)
			sum[j] = 0;
		for (int t = 0; t < s.size * s.size; t++) {
			int iy = top + t / s.size * s.dilation, ix = left + t % s.size * s.dilation;
			int from = ((b * s.h + iy) * s.w + ix) * s.c;

			if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w)
				continue;
			WITHIN (j, len)
				sum[j] += load(x, from + (f + j) / M) * w[t * s.k + f + j];
		}
		WITHIN (j, len)
			store(y, o * s.k + f + j, sum[j]);
	});
}

DEVICE float
dot(const void *a, int from, const float *b, int n)
{
	float v = 0;

	for (int i = 0; i < n; i++)
		v += load(a, from + i) * b[i];
	return v;
}

KERNEL
dw_dgrad_k(struct conv_shape s, int m, const void *dy, const float *w, int add, void *dx)
{
	BY_USUAL(M, m, 1, PIECES (i, s.n * s.h * s.w, c, s.c, len) {
		int b = i / (s.h * s.w), bottom = i / s.w % s.h + s.pad, right = i % s.w + s.pad;
		float sum[PIECE];

		WITHIN (j, len)
			sum[j] = add ? load(dx, i * s.c + c + j) : 0;
		for (int t = 0; t < s.size * s.size; t++) {
			int ty = bottom - t / s.size * s.dilation;
			int tx = right - t % s.size * s.dilation;
			int oy = ty / s.stride_y, ox = tx / s.stride_x;
			int from = ((b * s.oh + oy) * s.ow + ox) * s.k;

			if (ty < 0 || tx < 0 || ty % s.stride_y || tx % s.stride_x || oy >= s.oh ||
			    ox >= s.ow)
				continue;
			WITHIN (j, len)
				sum[j] += M == 1 ? load(dy, from + c + j) * w[t * s.k + c + j] :
				    dot(dy, from + (c + j) * M, w + t * s.k + (c + j) * M, M);
		}
		WITHIN (j, len)
			store(dx, i * s.c + c + j, sum[j]);
	});
}

/* part[strip][tap][f] */
KERNEL
dw_wgrad_k(struct conv_shape s, int m, int strips, const void *x, const void *dy, float *part)
{
	int pixels = s.n * s.oh * s.ow, taps = s.size * s.size;

	BY_USUAL(M, m, 1, FOLD (q, strips * taps, o, q / taps * STRIP, q / taps * STRIP + STRIP,
	    f, s.k) {
		int t = q % taps, b = o / (s.oh * s.ow);
		int iy = o / s.ow % s.oh * s.stride_y - s.pad + t / s.size * s.dilation;
		int ix = o % s.ow * s.stride_x - s.pad + t % s.size * s.dilation;
		int in = (o < pixels) & (iy >= 0) & (iy < s.h) & (ix >= 0) & (ix < s.w);
		int from = in ? ((b * s.h + iy) * s.w + ix) * s.c : 0;
		float v = load(x, from + f / M) * load(dy, (in ? o : 0) * s.k + f);

		v = in ? v : 0;
		part[q * s.k + f] = o % STRIP ? part[q * s.k + f] + v : v;
	});
}

KERNEL
dw_add_k(const float *part, int strips, int n, float *dw)
{
	ROWS (i, n) {
		double sum = 0;

		LANES (p, strips)
			sum += part[p * n + i];
		sum = row_sum(sum);
		LEAD
			dw[i] = (float)(dw[i] + sum);
	}
}

static int
strips(const struct conv_shape *s)
{
	return (s->n * s->oh * s->ow + STRIP - 1) / STRIP;
}

static int
fits(const struct dev *d, const struct conv_shape *s, enum conv_way way)
{
	(void)d;
	(void)way;
	return s->groups > 1 && s->groups == s->c;
}

static size_t
workspace(struct dev *d, const struct conv_shape *s, int train)
{
	return !train || !fits(d, s, CONV_WGRAD) ? 0 :
	    (size_t)strips(s) * (size_t)(s->size * s->size) * (size_t)s->k * sizeof(float);
}

static void
forward(struct dev *d, const struct conv_shape *s, const void *x, const float *w, void *y, void *ws)
{
	(void)ws;
	RUN(d, dw_forward_k, s->n * s->oh * s->ow * s->k, *s, s->k / s->c, x, w, y);
}

static void
dgrad(struct dev *d, const struct conv_shape *s, const void *dy, const float *w, void *dx, int add,
    void *ws)
{
	(void)ws;
	RUN(d, dw_dgrad_k, s->n * s->h * s->w * s->c, *s, s->k / s->c, dy, w, add, dx);
}

static void
wgrad(struct dev *d, const struct conv_shape *s, const void *x, const void *dy, float *dw, void *ws)
{
	int n = s->size * s->size * s->k;

	RUN(d, dw_wgrad_k, strips(s) * n, *s, s->k / s->c, strips(s), x, dy, (float *)ws);
	RUNROWS(d, dw_add_k, n, (const float *)ws, strips(s), n, dw);
}

const struct conv_kind BACKEND(direct) = { fits, { workspace, forward, dgrad, wgrad } };
