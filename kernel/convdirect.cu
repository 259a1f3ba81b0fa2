/* convdirect.cu -- depthwise convolution: one channel per group, without columns or GEMM.
 *
 * forward and dgrad are one thing: pixel q of what is written takes, by tap t, pixel
 * (q * mul + base + t * step) / div of what is read, where there is one.
 *
 * Where the picture is large the channels are few.  At stride 1 what a tap reads lies as densely as
 * what it adds to, so the loops run along whole rows: w pixels of k channels are w * k numbers with
 * unit stride, the weights of a tap laid out repeatedly ("wide"), since number p of a row takes
 * weight p % k.  wgrad sums strips of rows in lanes, several to a channel, then adds the strips and
 * lanes in order. */
#include <limits.h>

#include "kernel/kernel.h"
#include "kernel/dev.h"
#include "base/fn.h"

enum { STRIP = 256 };	/* output pixels, about, whose share of dW is one partial sum */
enum { PART = 1 << 28 };	/* numbers of all partial sums, at most, with more than one strip */
enum { MANY = 64 };	/* channels that keep vectors busy by themselves */

struct axis { int to, from, mul, div, base; };	/* sizes written and read */
/* step: -dilation for dgrad; add: to what is there */
struct sweep { int n, k, size, step, add; struct axis y, x; };

/* The pixel, along an axis, that pixel at reads by a tap at this step; -1: none. */
DEVICE int
source(struct axis a, int at, int step)
{
	int y = at * a.mul + a.base + step;

	return y < 0 || y % a.div || y / a.div >= a.from ? -1 : y / a.div;
}

KERNEL
dw_widen_k(const float *w, int taps, int k, float *wide)
{
	EACH2 (t, taps, j, k + PIECE)
		wide[t * (k + PIECE) + j] = w[t * k + j % k];
}

/* Along rows; mul and div are 1.  y[row][p] (+)= sum over taps of x[p's source] * w[tap][p % k] */
KERNEL
dw_rows_k(struct sweep g, const void *x, const float *wide, void *y)
{
	PIECES (r, g.n * g.y.to, i, g.x.to * g.k, len) {
		int b = r / g.y.to, at = r - b * g.y.to, to = r * g.x.to * g.k + i;
		const float *w = wide + i % g.k;
		float sum[PIECE];

		WITHIN (j, len)
			sum[j] = g.add ? load(y, to + j) : 0;
		for (int t = 0, ty = 0, tx = 0; t < g.size * g.size; t++, w += g.k + PIECE) {
			int sy = source(g.y, at, ty * g.step), off = g.x.base + tx * g.step;
			int lo = -off * g.k - i, hi = (g.x.from - off) * g.k - i;
			int from = ((b * g.y.from + sy) * g.x.from + off) * g.k + i;

			tx = tx + 1 < g.size ? tx + 1 : (ty++, 0);
			lo = lo > 0 ? lo : 0;
			hi = sy < 0 ? 0 : hi < len ? hi : len;
			WITHIN (j, hi - lo)
				sum[lo + j] += load(x, from + lo + j) * w[lo + j];
		}
		WITHIN (j, len)
			store(y, to + j, sum[j]);
	}
}

/* Pixel by pixel: any stride, and what is better with many channels. */
KERNEL
dw_pixels_k(struct sweep g, const void *x, const float *w, void *y)
{
	PIECES (o, g.n * g.y.to * g.x.to, f, g.k, len) {
		int r = o / g.x.to, b = r / g.y.to, t = 0;
		float sum[PIECE];

		WITHIN (j, len)
			sum[j] = g.add ? load(y, o * g.k + f + j) : 0;
		for (int ty = 0; ty < g.size; ty++) {
			int sy = source(g.y, r - b * g.y.to, ty * g.step);

			for (int tx = 0; tx < g.size; tx++, t++) {
				int sx = sy < 0 ? -1 : source(g.x, o - r * g.x.to, tx * g.step);
				int from = ((b * g.y.from + sy) * g.x.from + sx) * g.k + f;

				if (sx < 0)
					continue;
				WITHIN (j, len)
					sum[j] += load(x, from + j) * w[t * g.k + f + j];
			}
		}
		WITHIN (j, len)
			store(y, o * g.k + f + j, sum[j]);
	}
}

/* n strips of rows of the output; lanes is a multiple of k where the source lies densely, else
 * k. */
struct strips { int rows, n, lanes; };

/* part[strip][tap][lane] */
KERNEL
dw_wgrad_k(struct sweep g, struct strips p, const void *x, const void *dy, float *part)
{
	int taps = g.size * g.size, lanes = p.lanes;

	PIECES (q, p.n * taps, i, lanes, len) {
		int t = q % taps, r = q / taps * p.rows, end = r + p.rows, at = r % g.y.to;
		int b = r / g.y.to, skip = (g.x.mul - 1) * lanes;
		int off = g.x.base + t % g.size * g.step;
		int first = off < 0 ? (g.x.mul - 1 - off) / g.x.mul : 0;
		int last = g.x.from - 1 < off ? -1 : (g.x.from - 1 - off) / g.x.mul;
		float sum[PIECE];

		last = last < g.x.to ? last : g.x.to - 1;
		end = end < g.n * g.y.to ? end : g.n * g.y.to;
		WITHIN (j, len)
			sum[j] = 0;
		for (; r < end; r++) {
			int sy = source(g.y, at, t / g.size * g.step), o = sy < 0 ? INT_MAX : i;
			int from = ((b * g.y.from + sy) * g.x.from + off) * g.k + i;
			int to = r * g.x.to * g.k;

			at = at + 1 < g.y.to ? at + 1 : (b++, 0);
			for (; o < (last + 1) * g.k; o += lanes, from += lanes + skip) {
				int lo = first * g.k - o, hi = (last + 1) * g.k - o;

				lo = lo > 0 ? lo : 0;
				hi = hi < len ? hi : len;
				WITHIN (j, hi - lo)
					sum[lo + j] += load(x, from + lo + j) *
					    load(dy, to + o + lo + j);
			}
		}
		WITHIN (j, len)
			part[q * lanes + i + j] = sum[j];
	}
}

KERNEL
dw_add_k(const float *part, int strips, int taps, int k, int lanes, float *dw)
{
	ROWS (i, taps * k) {
		double sum = 0;

		LANES (p, strips * (lanes / k))
			sum += part[(p / (lanes / k) * taps + i / k) * lanes +
			    p % (lanes / k) * k + i % k];
		sum = row_sum(sum);
		LEAD
			dw[i] = (float)(dw[i] + sum);
	}
}

static struct sweep
forward_sweep(const struct conv_shape *s)
{
	struct sweep g = { s->n, s->k, s->size, s->dilation, 0,
		{ s->oh, s->h, s->stride_y, 1, -s->pad },
		{ s->ow, s->w, s->stride_x, 1, -s->pad } };

	return g;
}

static struct sweep
dgrad_sweep(const struct conv_shape *s, int add)
{
	struct sweep g = { s->n, s->k, s->size, -s->dilation, add,
		{ s->h, s->oh, 1, s->stride_y, s->pad }, { s->w, s->ow, 1, s->stride_x, s->pad } };

	return g;
}

static int
lanes(const struct conv_shape *s)
{
	return s->stride_x == 1 && s->k < MANY && PIECE > 1 ? MANY / s->k * s->k : s->k;
}

static int
rows_of(const struct conv_shape *s)	/* of a strip */
{
	int rows = (STRIP + s->ow - 1) / s->ow, most = PART / (s->size * s->size * lanes(s));
	int least = most ? (s->n * s->oh + most - 1) / most : s->n * s->oh;

	return rows > least ? rows : least;
}

static int
strips(const struct conv_shape *s)
{
	return (s->n * s->oh + rows_of(s) - 1) / rows_of(s);
}

static int
fits(const struct dev *d, const struct conv_shape *s, enum conv_way way)
{
	(void)d;
	(void)way;
	return s->groups > 1 && s->groups == s->c && s->k == s->c;
}

static size_t
workspace(struct dev *d, const struct conv_shape *s, int train)
{
	size_t taps = (size_t)(s->size * s->size), wide = taps * (size_t)(s->k + PIECE);
	size_t part = (size_t)strips(s) * taps * (size_t)lanes(s);

	return !fits(d, s, CONV_WGRAD) ? 0 : (train && part > wide ? part : wide) * sizeof(float);
}

static void
sweep(struct dev *d, struct sweep g, const void *x, const float *w, void *y, float *wide)
{
	int taps = g.size * g.size;

	if (g.x.mul > 1 || g.x.div > 1 || g.k >= MANY) {
		RUN(d, dw_pixels_k, g.n * g.y.to * g.x.to * g.k, g, x, w, y);
	} else {
		RUN(d, dw_widen_k, taps * (g.k + PIECE), w, taps, g.k, wide);
		RUN(d, dw_rows_k, g.n * g.y.to * g.x.to * g.k, g, x, (const float *)wide, y);
	}
}

static void
forward(struct dev *d, const struct conv_shape *s, const void *x, const float *w, void *y, void *ws)
{
	sweep(d, forward_sweep(s), x, w, y, (float *)ws);
}

static void
dgrad(struct dev *d, const struct conv_shape *s, const void *dy, const float *w, void *dx, int add,
    void *ws)
{
	sweep(d, dgrad_sweep(s, add), dy, w, dx, (float *)ws);
}

static void
wgrad(struct dev *d, const struct conv_shape *s, const void *x, const void *dy, float *dw, void *ws)
{
	struct strips p = { rows_of(s), strips(s), lanes(s) };
	int taps = s->size * s->size;

	RUN(d, dw_wgrad_k, p.n * taps * p.lanes, forward_sweep(s), p, x, dy, (float *)ws);
	RUNROWS(d, dw_add_k, taps * s->k, (const float *)ws, p.n, taps, s->k, p.lanes, dw);
}

const struct conv_kind BACKEND(direct) = { fits, { workspace, forward, dgrad, wgrad } };
