/* convdirect.cu -- depthwise convolution: one channel per group, without columns or GEMM.
 *
 * Filter f (of k) reads channel f / m, m = k / c.  All loops run over channels with unit stride;
 * the taps are steps of a FOLD.  wgrad sums strips of output rows, then adds the strips in order.
 * What is outside is read at a place that exists and then dropped: tests made with & rather than
 * && leave the compiler one straight loop over channels. */
#include "yolo.h"
#include "dev.h"

enum { STRIP = 256 };		/* output pixels whose share of dW is one partial sum */

/* The loop again with m = 1 known, which nearly all have: no division in it, and no loop. */
#define BY_TIMES(m, ...) do { \
	if ((m) == 1) { \
		enum { M = 1 }; \
		__VA_ARGS__ \
	} else { \
		const int M = (m); \
		__VA_ARGS__ \
	} \
	} while (0)

/* y[o][f] = sum over taps of x[pixel][f / m] * w[tap][f] */
KERNEL
dw_forward_k(struct conv_shape s, int m, const float *x, const float *w, float *y)
{
	BY_TIMES(m, FOLD (o, s.n * s.oh * s.ow, t, 0, s.size * s.size, f, s.k) {
		int b = o / (s.oh * s.ow), iy = o / s.ow % s.oh * s.stride_y - s.pad +
		    t / s.size * s.dilation;
		int ix = o % s.ow * s.stride_x - s.pad + t % s.size * s.dilation;
		int in = (iy >= 0) & (iy < s.h) & (ix >= 0) & (ix < s.w);
		const float *from = x + (in ? ((b * s.h + iy) * s.w + ix) * s.c : 0);
		float v = from[f / M] * w[t * s.k + f];

		v = in ? v : 0;
		y[o * s.k + f] = t ? y[o * s.k + f] + v : v;
	});
}

DEVICE float
dot(const float *a, const float *b, int n)
{
	float v = 0;

	for (int i = 0; i < n; i++)
		v += a[i] * b[i];
	return v;
}

KERNEL
dw_dgrad_k(struct conv_shape s, int m, const float *dy, const float *w, int add, float *dx)
{
	BY_TIMES(m, FOLD (i, s.n * s.h * s.w, t, 0, s.size * s.size, c, s.c) {
		int b = i / (s.h * s.w), ty = i / s.w % s.h + s.pad - t / s.size * s.dilation;
		int tx = i % s.w + s.pad - t % s.size * s.dilation, oy = ty / s.stride_y,
		    ox = tx / s.stride_x;
		int in = (ty >= 0) & (tx >= 0) & (ty % s.stride_y == 0) & (tx % s.stride_x == 0) &
		    (oy < s.oh) & (ox < s.ow);
		const float *from = dy + (in ? ((b * s.oh + oy) * s.ow + ox) * s.k : 0);
		float v = M == 1 ? from[c] * w[t * s.k + c] : dot(from + c * M, w + t * s.k + c * M,
		    M);

		v = in ? v : 0;
		dx[i * s.c + c] = t || add ? dx[i * s.c + c] + v : v;
	});
}

/* part[strip][tap][f] */
KERNEL
dw_wgrad_k(struct conv_shape s, int m, int strips, const float *x, const float *dy, float *part)
{
	int pixels = s.n * s.oh * s.ow, taps = s.size * s.size;

	BY_TIMES(m, FOLD (q, strips * taps, o, q / taps * STRIP, q / taps * STRIP + STRIP, f, s.k) {
		int t = q % taps, b = o / (s.oh * s.ow);
		int iy = o / s.ow % s.oh * s.stride_y - s.pad + t / s.size * s.dilation;
		int ix = o % s.ow * s.stride_x - s.pad + t % s.size * s.dilation;
		int in = (o < pixels) & (iy >= 0) & (iy < s.h) & (ix >= 0) & (ix < s.w);
		const float *from = x + (in ? ((b * s.h + iy) * s.w + ix) * s.c : 0);
		float v = from[f / M] * dy[(in ? o : 0) * s.k + f];

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
forward(struct dev *d, const struct conv_shape *s, const float *x, const float *w, float *y,
    void *ws)
{
	(void)ws;
	RUN(d, dw_forward_k, s->n * s->oh * s->ow * s->k, *s, s->k / s->c, x, w, y);
}

static void
dgrad(struct dev *d, const struct conv_shape *s, const float *dy, const float *w, float *dx,
    int add, void *ws)
{
	(void)ws;
	RUN(d, dw_dgrad_k, s->n * s->h * s->w * s->c, *s, s->k / s->c, dy, w, add, dx);
}

static void
wgrad(struct dev *d, const struct conv_shape *s, const float *x, const float *dy, float *dw,
    void *ws)
{
	int n = s->size * s->size * s->k;

	RUN(d, dw_wgrad_k, strips(s) * n, *s, s->k / s->c, strips(s), x, dy, (float *)ws);
	RUNROWS(d, dw_add_k, n, (const float *)ws, strips(s), n, dw);
}

const struct conv_kind BACKEND(direct) = { fits, { workspace, forward, dgrad, wgrad } };
