/* layers.cu -- the layers that are not convolutions: pooling, wiring, activations.
 *
 * NHWC throughout, channels innermost in every loop.  A backward pass gathers: each element of a
 * gradient adds up, in one order, the outputs that it went to. */
#include "kernel/kernel.h"
#include "kernel/dev.h"
#include "base/fn.h"

/* ---- maxpool ------------------------------------------------------------------------------ */

/* Outside is minus infinity; on equal values the first tap in row order wins; a NaN stays.  tap may
 * be NULL: nobody asks where the maximum was. */
KERNEL
maxpool_k(struct pool_shape s, const void *x, void *y, unsigned char *tap)
{
	BY_USUAL(KEEP, tap != NULL, 0, PIECES (o, s.n * s.oh * s.ow, c, s.c, len) {
		int r = o / s.ow, b = r / s.oh, top = (r - b * s.oh) * s.stride_y - s.pad_y;
		int left = (o - r * s.ow) * s.stride_x - s.pad_x;
		float best[PIECE];
		unsigned char which[PIECE];

		WITHIN (j, len) {
			best[j] = -INFINITY;
			which[j] = 0;
		}
		for (int iy = top > 0 ? top : 0; iy < top + s.size && iy < s.h; iy++)
			for (int ix = left > 0 ? left : 0; ix < left + s.size && ix < s.w; ix++) {
				int t = (iy - top) * s.size + ix - left;
				int from = ((b * s.h + iy) * s.w + ix) * s.c + c;

				WITHIN (j, len) {
					float v = load(x, from + j);
					int better = (v > best[j]) | (v != v);

					best[j] = better ? v : best[j];
					which[j] = KEEP & better ? (unsigned char)t : which[j];
				}
			}
		WITHIN (j, len)
			store(y, o * s.c + c + j, best[j]);
		for (int j = 0; KEEP && j < len; j++)
			tap[o * s.c + c + j] = which[j];
	});
}

/* The windows that hold a pixel, last to first: taps in their order. */
KERNEL
maxpool_back_k(struct pool_shape s, const void *dy, const unsigned char *tap, void *dx, int add)
{
	PIECES (i, s.n * s.h * s.w, c, s.c, len) {
		int r = i / s.w, b = r / s.h;
		int row = r - b * s.h + s.pad_y, col = i - r * s.w + s.pad_x;
		int down = row / s.stride_y < s.oh ? row / s.stride_y : s.oh - 1;
		int right = col / s.stride_x < s.ow ? col / s.stride_x : s.ow - 1;
		float sum[PIECE];

		WITHIN (j, len)
			sum[j] = add ? load(dx, i * s.c + c + j) : 0;
		for (int oy = down; oy >= 0 && row - oy * s.stride_y < s.size; oy--)
			for (int ox = right; ox >= 0 && col - ox * s.stride_x < s.size; ox--) {
				int t = (row - oy * s.stride_y) * s.size + col - ox * s.stride_x;
				int from = ((b * s.oh + oy) * s.ow + ox) * s.c + c;

				WITHIN (j, len)
					sum[j] += tap[from + j] == t ? load(dy, from + j) : 0;
			}
		WITHIN (j, len)
			store(dx, i * s.c + c + j, sum[j]);
	}
}

static void
maxpool(struct dev *d, const struct pool_shape *s, const void *x, void *y, unsigned char *tap)
{
	RUN(d, maxpool_k, s->n * s->oh * s->ow * s->c, *s, x, y, tap);
}

static void
maxpool_back(struct dev *d, const struct pool_shape *s, const void *dy, const unsigned char *tap,
    void *dx, int add)
{
	RUN(d, maxpool_back_k, s->n * s->h * s->w * s->c, *s, dy, tap, dx, add);
}

/* ---- upsample: each pixel becomes s x s of them, times scale -------------------------------- */

KERNEL
upsample_k(struct stride_shape z, const void *x, void *y)
{
	int h = z.h * z.s, w = z.w * z.s;

	EACH2 (o, z.n * h * w, i, z.c) {
		int b = o / (h * w), iy = o / w % h / z.s, ix = o % w / z.s;

		store(y, o * z.c + i,
		    z.scale * load(x, ((b * z.h + iy) * z.w + ix) * z.c + i));
	}
}

KERNEL
upsample_back_k(struct stride_shape z, const void *dy, void *dx, int add)
{
	int w = z.w, c = z.c;

	BY_USUAL(S, z.s, 2, EACH2 (p, z.n * z.h * w, i, c) {
		int from = (p / w * S * w + p % w) * S * c + i;		/* image and row in one */
		float sum = 0;

		for (int t = 0; t < S * S; t++)
			sum += load(dy, from + (t / S * w * S + t % S) * c);
		store(dx, p * c + i, (add ? load(dx, p * c + i) : 0) + z.scale * sum);
	});
}

DEVICE int
numbers(const struct stride_shape *z)		/* of the input */
{
	return z->n * z->h * z->w * z->c;
}

static void
upsample(struct dev *d, const struct stride_shape *z, const void *x, void *y)
{
	RUN(d, upsample_k, numbers(z) * z->s * z->s, *z, x, y);
}

static void
upsample_back(struct dev *d, const struct stride_shape *z, const void *dy, void *dx, int add)
{
	RUN(d, upsample_back_k, numbers(z), *z, dy, dx, add);
}

/* ---- wiring: route, shortcut, activation --------------------------------------------------- */

KERNEL
slice_k(struct slice s, int add)
{
	EACH2 (r, s.rows, i, s.c) {
		float v = load(s.src, r * s.src_c + s.src_off + i);
		int to = r * s.dst_c + s.dst_off + i;

		store(s.dst, to, add ? load(s.dst, to) + v : v);
	}
}

static void
slice(struct dev *d, const struct slice *s, int add)
{
	RUN(d, slice_k, s->rows * s->c, *s, add);
}

KERNEL
accumulate_k(int n, const void *src, void *dst, int add)
{
	EACH (i, n)
		store(dst, i, add ? load(dst, i) + load(src, i) : load(src, i));
}

static void
accumulate(struct dev *d, int n, const void *src, void *dst, int add)
{
	RUN(d, accumulate_k, n, n, src, dst, add);
}

KERNEL
activate_k(int n, enum act a, const void *u, void *z)
{
	BY_ACT(a, EACH (i, n)
		store(z, i, fn_act(act, load(u, i))););
}

KERNEL
activate_back_k(int n, enum act a, const void *u, void *dz)
{
	BY_ACT(a, EACH (i, n)
		store(dz, i, load(dz, i) * fn_slope(act, load(u, i))););
}

static void
activate(struct dev *d, int n, enum act a, const void *u, void *z)
{
	RUN(d, activate_k, n, n, a, u, z);
}

static void
activate_back(struct dev *d, int n, enum act a, const void *u, void *dz)
{
	RUN(d, activate_back_k, n, n, a, u, dz);
}

/* ---- scale_channels, sam: products --------------------------------------------------------- */

KERNEL
scale_k(struct plane_shape s, const void *x, const void *f, void *y)
{
	EACH2 (p, s.n * s.hw, i, s.c) {
		int at = p * s.c + i;

		store(y, at, load(f, at) * load(x, s.wh ? p : p / s.hw * s.c + i));
	}
}

/* df = dy * x, then dx = the sum of dy * f over what x was spread to. */
KERNEL
scale_back_f_k(struct plane_shape s, const void *x, const void *dy, void *df, int add)
{
	EACH2 (p, s.n * s.hw, i, s.c) {
		int at = p * s.c + i;
		float v = load(dy, at) * load(x, s.wh ? p : p / s.hw * s.c + i);

		store(df, at, add ? load(df, at) + v : v);
	}
}

KERNEL
scale_back_x_k(struct plane_shape s, const void *f, const void *dy, void *dx, int add)
{
	int hw = s.hw, c = s.c;

	PIECES (b, s.n, i, c, len) {
		float sum[PIECE];

		WITHIN (j, len)
			sum[j] = add ? load(dx, b * c + i + j) : 0;
		for (int p = b * hw; p < b * hw + hw; p++)
			WITHIN (j, len)
				sum[j] += load(dy, p * c + i + j) * load(f, p * c + i + j);
		WITHIN (j, len)
			store(dx, b * c + i + j, sum[j]);
	}
}

KERNEL
scale_back_wh_k(int pixels, int c, const void *f, const void *dy, void *dx, int add)
{
	ROWS (p, pixels) {
		double sum = 0;

		LANES (i, c)
			sum += load(dy, p * c + i) * load(f, p * c + i);
		sum = row_sum(sum);
		LEAD
			store(dx, p, (float)(add ? load(dx, p) + sum : sum));
	}
}

static void
scale(struct dev *d, const struct plane_shape *s, const void *x, const void *f, void *y)
{
	RUN(d, scale_k, s->n * s->hw * s->c, *s, x, f, y);
}

static void
scale_back_x(struct dev *d, const struct plane_shape *s, const void *f, const void *dy, void *dx,
    int add)
{
	if (s->wh)
		RUNROWS(d, scale_back_wh_k, s->n * s->hw, s->n * s->hw, s->c, f, dy, dx, add);
	else
		RUN(d, scale_back_x_k, s->n * s->c, *s, f, dy, dx, add);
}

static void
scale_back_f(struct dev *d, const struct plane_shape *s, const void *x, const void *dy, void *df,
    int add)
{
	RUN(d, scale_back_f_k, s->n * s->hw * s->c, *s, x, dy, df, add);
}

KERNEL
product_k(int n, const void *a, const void *b, void *y, int add)
{
	EACH (i, n)
		store(y, i, (add ? load(y, i) : 0) + load(a, i) * load(b, i));
}

static void
sam(struct dev *d, int n, const void *x, const void *f, void *y)
{
	RUN(d, product_k, n, n, x, f, y, 0);
}

static void
sam_back(struct dev *d, int n, const void *other, const void *dy, void *dx, int add)
{
	RUN(d, product_k, n, n, dy, other, dx, add);
}

/* ---- reorg: permutations -------------------------------------------------------------------- */

/* darknet's legacy permutation, defined on NCHW indices: with oc = c/(s*s), place i + w*(j + h*k)
 * of a c x h x w picture belongs with (i*s + o%s) + w*s*((j*s + o/s) + h*s*(k%oc)), o = k/oc.
 * Forward moves the second to the first; both then count as (c*s*s) x (h/s) x (w/s) when forward,
 * (c/s/s) x (h*s) x (w*s) when reverse. */
DEVICE int
nhwc_of(int e, int h, int w, int c)
{
	return (e / w % h * w + e % w) * c + e / (w * h);
}

/* The second for the first. */
DEVICE int
reorg_from(int e, int h, int w, int c, int s)
{
	int oc = c / (s * s), i = e % w, j = e / w % h, k = e / (w * h), o = k / oc;

	return i * s + o % s + w * s * (j * s + o / s + h * s * (k % oc));
}

/* back: to the x side from the y side. */
KERNEL
reorg_k(struct stride_shape z, int back, const void *from, void *to, int add)
{
	int size = z.h * z.w * z.c, more = z.reverse ? z.s : 1, less = z.reverse ? 1 : z.s;
	int yh = z.h * more / less, yw = z.w * more / less;
	int yc = z.c * (less * less) / (more * more);

	EACH2 (b, z.n, e, size) {		/* e: a place of the map, in NCHW */
		int far = reorg_from(e, z.h, z.w, z.c, z.s);
		int xi = z.reverse ? e : far, yi = z.reverse ? far : e;
		int x = b * size + nhwc_of(xi, z.h, z.w, z.c);
		int y = b * size + nhwc_of(yi, yh, yw, yc);
		int src = back ? y : x, dst = back ? x : y;

		store(to, dst, add ? load(to, dst) + load(from, src) : load(from, src));
	}
}

static void
reorg(struct dev *d, const struct stride_shape *z, const void *x, void *y)
{
	RUN(d, reorg_k, numbers(z), *z, 0, x, y, 0);
}

static void
reorg_back(struct dev *d, const struct stride_shape *z, const void *dy, void *dx, int add)
{
	RUN(d, reorg_k, numbers(z), *z, 1, dy, dx, add);
}

/* True space to depth: channel k of the output is channel k%c, at offset (k/c)/s, (k/c)%s. */
KERNEL
reorg3d_k(struct stride_shape z, int back, const void *from, void *to, int add)
{
	int h = z.h, w = z.w, c = z.c, s = z.s;

	EACH2 (p, z.n * h * w, i, c) {
		int b = p / (h * w), iy = p / w % h, ix = p % w, k = (iy % s * s + ix % s) * c + i;
		int y = ((b * (h / s) + iy / s) * (w / s) + ix / s) * c * s * s + k, x = p * c + i;
		int src = back ? y : x, dst = back ? x : y;

		store(to, dst, add ? load(to, dst) + load(from, src) : load(from, src));
	}
}

static void
reorg3d(struct dev *d, const struct stride_shape *z, const void *x, void *y)
{
	RUN(d, reorg3d_k, numbers(z), *z, 0, x, y, 0);
}

static void
reorg3d_back(struct dev *d, const struct stride_shape *z, const void *dy, void *dx, int add)
{
	RUN(d, reorg3d_k, numbers(z), *z, 1, dy, dx, add);
}

/* ---- avgpool, dropout ------------------------------------------------------------------------ */

KERNEL
avgpool_k(int n, int hw, int c, const void *x, void *y)
{
	EACH2 (b, n, i, c) {
		double sum = 0;

		for (int p = 0; p < hw; p++)
			sum += load(x, (b * hw + p) * c + i);
		store(y, b * c + i, (float)(sum / hw));
	}
}

KERNEL
avgpool_back_k(int n, int hw, int c, const void *dy, void *dx, int add)
{
	EACH2 (p, n * hw, i, c) {
		float v = load(dy, p / hw * c + i) / (float)hw;

		store(dx, p * c + i, add ? load(dx, p * c + i) + v : v);
	}
}

static void
avgpool(struct dev *d, const struct plane_shape *s, const void *x, void *y)
{
	RUN(d, avgpool_k, s->n * s->c, s->n, s->hw, s->c, x, y);
}

static void
avgpool_back(struct dev *d, const struct plane_shape *s, const void *dy, void *dx, int add)
{
	RUN(d, avgpool_back_k, s->n * s->hw * s->c, s->n, s->hw, s->c, dy, dx, add);
}

/* Element first + i is kept where its own draw says so: the same mask forward and back, in any
 * split of the batch.  A draw makes four words. */
KERNEL
dropout_k(int n, struct dropout drop, const void *x, void *y, int add)
{
	int before = (int)(drop.first % 4);
	float p = (float)drop.p;

	EACH (q, (n + before + 3) / 4) {
		uint32_t word[4];

		fn_philox(drop.key, 0, drop.first / 4 + (uint64_t)q, word);
		for (int j = 0; j < 4; j++) {
			int i = 4 * q + j - before;
			float v;

			if (i < 0 || i >= n)
				continue;
			v = fn_unit(word[j]) < p ? 0 : load(x, i) / (1 - p);
			store(y, i, add ? load(y, i) + v : v);
		}
	}
}

static void
dropout(struct dev *d, int n, const struct dropout *drop, const void *x, void *y)
{
	RUN(d, dropout_k, n / 4 + 2, n, *drop, x, y, 0);
}

static void
dropout_back(struct dev *d, int n, const struct dropout *drop, const void *dy, void *dx, int add)
{
	RUN(d, dropout_k, n / 4 + 2, n, *drop, dy, dx, add);
}

/* ---- what the raw values of a detection head say, for decoding ----------------------------- */

/* A row is a cell: for each anchor x y w h objectness and the classes. */

/* Logistic but for w h; x y then stretched about 1/2.  new_coords: raw values are probabilities
 * already. */
KERNEL
yolo_k(struct head_shape s, const void *x, void *y)
{
	int each = 5 + s.classes;

	EACH2 (r, s.rows, i, s.anchors * each) {
		int to = r * s.anchors * each + i, e = i % each;
		float u = load(x, to), v = s.new_coords || e == 2 || e == 3 ? u : fn_logistic(u);

		store(y, to, e < 2 ? s.scale_xy * v - (s.scale_xy - 1) / 2 : v);
	}
}

KERNEL
region_k(struct head_shape s, const void *x, void *y)
{
	int classes = s.classes, softmax = s.softmax;

	EACH2 (r, s.rows, a, s.anchors) {
		const void *u = item(x, (r * s.anchors + a) * (5 + classes));
		void *v = item(y, (r * s.anchors + a) * (5 + classes));
		float most = load(u, 5), sum = 0;

		for (int i = 0; i < 5; i++)
			store(v, i, i == 2 || i == 3 ? load(u, i) : fn_logistic(load(u, i)));
		for (int i = 6; softmax && i < 5 + classes; i++)
			most = load(u, i) > most ? load(u, i) : most;
		for (int i = 5; softmax && i < 5 + classes; i++)
			sum += fn_exp(load(u, i) - most);
		for (int i = 5; i < 5 + classes; i++) {
			float p = load(u, i);

			store(v, i, softmax ? fn_exp(p - most) / sum : fn_logistic(p));
		}
	}
}

static void
yolo(struct dev *d, const struct head_shape *s, const void *x, void *y)
{
	RUN(d, yolo_k, s->rows * s->anchors * (5 + s->classes), *s, x, y);
}

static void
region(struct dev *d, const struct head_shape *s, const void *x, void *y)
{
	RUN(d, region_k, s->rows * s->anchors, *s, x, y);
}

const struct layer_ops BACKEND(layers) = { maxpool, maxpool_back, upsample, upsample_back, slice,
	accumulate, activate, activate_back, scale, scale_back_x, scale_back_f, sam, sam_back,
	reorg, reorg_back, reorg3d, reorg3d_back, avgpool, avgpool_back, dropout, dropout_back,
	yolo, region };
