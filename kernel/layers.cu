/* layers.cu -- the layers that are not convolutions: pooling, wiring, activations.
 *
 * NHWC throughout, channels innermost in every loop.  A backward pass gathers: each element of a
 * gradient adds up, in one order, the outputs that it went to. */
#include "kernel/kernel.h"
#include "kernel/dev.h"
#include "base/fn.h"

static void
BACKEND(head_yolo)(struct dev *, int rows, int anchors, int classes, float scale_xy,
    int new_coords, const void *x, void *y);
static void
BACKEND(head_region)(struct dev *, int rows, int anchors, int classes, int softmax,
    const void *x, void *y);

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
upsample_k(int n, int h, int w, int c, int s, float scale, const void *x, void *y)
{
	EACH2 (o, n * h * s * w * s, i, c) {
		int b = o / (h * s * w * s), iy = o / (w * s) % (h * s) / s, ix = o % (w * s) / s;

		store(y, o * c + i, scale * load(x, ((b * h + iy) * w + ix) * c + i));
	}
}

KERNEL
upsample_back_k(int n, int h, int w, int c, int s, float scale, const void *dy, void *dx, int add)
{
	BY_USUAL(S, s, 2, EACH2 (p, n * h * w, i, c) {
		int from = (p / w * S * w + p % w) * S * c + i;		/* image and row in one */
		float sum = 0;

		for (int t = 0; t < S * S; t++)
			sum += load(dy, from + (t / S * w * S + t % S) * c);
		store(dx, p * c + i, (add ? load(dx, p * c + i) : 0) + scale * sum);
	});
}

static void
upsample(struct dev *d, int n, int h, int w, int c, int s, float scale, const void *x, void *y)
{
	RUN(d, upsample_k, n * h * w * c * s * s, n, h, w, c, s, scale, x, y);
}

static void
upsample_back(struct dev *d, int n, int h, int w, int c, int s, float scale, const void *dy,
    void *dx, int add)
{
	RUN(d, upsample_back_k, n * h * w * c, n, h, w, c, s, scale, dy, dx, add);
}

/* ---- wiring: route, shortcut, activation --------------------------------------------------- */

KERNEL
slice_k(int rows, int c, const void *src, int src_c, int src_off, void *dst, int dst_c, int dst_off,
    int add)
{
	EACH2 (r, rows, i, c) {
		float v = load(src, r * src_c + src_off + i);
		int to = r * dst_c + dst_off + i;

		store(dst, to, add ? load(dst, to) + v : v);
	}
}

static void
slice(struct dev *d, int rows, int c, const void *src, int src_c, int src_off, void *dst, int dst_c,
    int dst_off, int add)
{
	RUN(d, slice_k, rows * c, rows, c, src, src_c, src_off, dst, dst_c, dst_off, add);
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
activate_back_k(int n, enum act a, const void *u, const void *dz, void *du, int add)
{
	BY_ACT(a, EACH (i, n)
		store(du, i, (add ? load(du, i) : 0) + load(dz, i) * fn_slope(act, load(u, i))););
}

static void
activate(struct dev *d, int n, enum act a, const void *u, void *z)
{
	RUN(d, activate_k, n, n, a, u, z);
}

static void
activate_back(struct dev *d, int n, enum act a, const void *u, const void *dz, void *du, int add)
{
	RUN(d, activate_back_k, n, n, a, u, dz, du, add);
}

/* ---- scale_channels, sam: products --------------------------------------------------------- */

KERNEL
scale_k(int n, int hw, int c, int wh, const void *x, const void *f, void *y)
{
	EACH2 (p, n * hw, i, c)
		store(y, p * c + i, load(f, p * c + i) * load(x, wh ? p : p / hw * c + i));
}

/* df = dy * x, then dx = the sum of dy * f over what x was spread to. */
KERNEL
scale_back_f_k(int n, int hw, int c, int wh, const void *x, const void *dy, void *df, int add)
{
	EACH2 (p, n * hw, i, c) {
		float v = load(dy, p * c + i) * load(x, wh ? p : p / hw * c + i);

		store(df, p * c + i, add ? load(df, p * c + i) + v : v);
	}
}

KERNEL
scale_back_x_k(int n, int hw, int c, const void *f, const void *dy, void *dx, int add)
{
	PIECES (b, n, i, c, len) {
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
scale(struct dev *d, int n, int hw, int c, int wh, const void *x, const void *f, void *y)
{
	RUN(d, scale_k, n * hw * c, n, hw, c, wh, x, f, y);
}

static void
scale_back(struct dev *d, int n, int hw, int c, int wh, const void *x, const void *f,
    const void *dy, void *dx, int addx, void *df, int addf)
{
	if (df)
		RUN(d, scale_back_f_k, n * hw * c, n, hw, c, wh, x, dy, df, addf);
	if (dx && wh)
		RUNROWS(d, scale_back_wh_k, n * hw, n * hw, c, f, dy, dx, addx);
	else if (dx)
		RUN(d, scale_back_x_k, n * c, n, hw, c, f, dy, dx, addx);
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
sam_back(struct dev *d, int n, const void *x, const void *f, const void *dy, void *dx, int addx,
    void *df, int addf)
{
	if (dx)
		RUN(d, product_k, n, n, dy, f, dx, addx);
	if (df)
		RUN(d, product_k, n, n, dy, x, df, addf);
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
reorg_k(int n, int h, int w, int c, int s, int reverse, int back, const void *from, void *to,
    int add)
{
	int size = h * w * c, yh = reverse ? h * s : h / s, yw = reverse ? w * s : w / s;
	int yc = reverse ? c / (s * s) : c * s * s;

	EACH2 (b, n, e, size) {			/* e: a place of the map, in NCHW */
		int far = reorg_from(e, h, w, c, s), xi = reverse ? e : far, yi = reverse ? far : e;
		int x = b * size + nhwc_of(xi, h, w, c), y = b * size + nhwc_of(yi, yh, yw, yc);
		int src = back ? y : x, dst = back ? x : y;

		store(to, dst, add ? load(to, dst) + load(from, src) : load(from, src));
	}
}

static void
reorg(struct dev *d, int n, int h, int w, int c, int s, int reverse, const void *x, void *y)
{
	RUN(d, reorg_k, n * h * w * c, n, h, w, c, s, reverse, 0, x, y, 0);
}

static void
reorg_back(struct dev *d, int n, int h, int w, int c, int s, int reverse, const void *dy, void *dx,
    int add)
{
	RUN(d, reorg_k, n * h * w * c, n, h, w, c, s, reverse, 1, dy, dx, add);
}

/* True space to depth: channel k of the output is channel k%c, at offset (k/c)/s, (k/c)%s. */
KERNEL
reorg3d_k(int n, int h, int w, int c, int s, int back, const void *from, void *to, int add)
{
	EACH2 (p, n * h * w, i, c) {
		int b = p / (h * w), iy = p / w % h, ix = p % w, k = (iy % s * s + ix % s) * c + i;
		int y = ((b * (h / s) + iy / s) * (w / s) + ix / s) * c * s * s + k, x = p * c + i;
		int src = back ? y : x, dst = back ? x : y;

		store(to, dst, add ? load(to, dst) + load(from, src) : load(from, src));
	}
}

static void
reorg3d(struct dev *d, int n, int h, int w, int c, int s, const void *x, void *y)
{
	RUN(d, reorg3d_k, n * h * w * c, n, h, w, c, s, 0, x, y, 0);
}

static void
reorg3d_back(struct dev *d, int n, int h, int w, int c, int s, const void *dy, void *dx, int add)
{
	RUN(d, reorg3d_k, n * h * w * c, n, h, w, c, s, 1, dy, dx, add);
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
avgpool(struct dev *d, int n, int hw, int c, const void *x, void *y)
{
	RUN(d, avgpool_k, n * c, n, hw, c, x, y);
}

static void
avgpool_back(struct dev *d, int n, int hw, int c, const void *dy, void *dx, int add)
{
	RUN(d, avgpool_back_k, n * hw * c, n, hw, c, dy, dx, add);
}

/* Element first + i is kept where its own draw says so: the same mask forward and back, in any
 * split of the batch.  A draw makes four words. */
KERNEL
dropout_k(int n, float p, uint64_t key, uint64_t first, const void *x, void *y, int add)
{
	int before = (int)(first % 4);

	EACH (q, (n + before + 3) / 4) {
		uint32_t word[4];

		fn_philox(key, 0, first / 4 + (uint64_t)q, word);
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
dropout(struct dev *d, int n, float p, uint64_t key, uint64_t first, const void *x, void *y)
{
	RUN(d, dropout_k, n / 4 + 2, n, p, key, first, x, y, 0);
}

static void
dropout_back(struct dev *d, int n, float p, uint64_t key, uint64_t first, const void *dy, void *dx,
    int add)
{
	RUN(d, dropout_k, n / 4 + 2, n, p, key, first, dy, dx, add);
}

KERNEL
nchw_k(int n, int h, int w, int c, const void *x, void *y)
{
	EACH2 (b, n, e, h * w * c)
		store(y, b * h * w * c + e, load(x, b * h * w * c + nhwc_of(e, h, w, c)));
}

static void
nchw(struct dev *d, int n, int h, int w, int c, const void *x, void *y)
{
	RUN(d, nchw_k, n * h * w * c, n, h, w, c, x, y);
}

const struct layer_ops BACKEND(layers) = { maxpool, maxpool_back, upsample, upsample_back, slice,
	accumulate, activate, activate_back, scale, scale_back, sam, sam_back, reorg, reorg_back,
	reorg3d, reorg3d_back, avgpool, avgpool_back, dropout, dropout_back, BACKEND(head_yolo),
	BACKEND(head_region), nchw };

/* What the raw values of a detection head say, for decoding: yolo and region of
 * struct layer_ops.
 *
 * A row is a cell: for each anchor x y w h objectness and the classes. */

/* Logistic but for w h; x y then stretched about 1/2.  new_coords: raw values are probabilities
 * already. */
KERNEL
yolo_k(int rows, int anchors, int classes, float scale_xy, int new_coords, const void *x, void *y)
{
	EACH2 (r, rows, i, anchors * (5 + classes)) {
		int to = r * anchors * (5 + classes) + i, e = i % (5 + classes);
		float u = load(x, to), v = new_coords || e == 2 || e == 3 ? u : fn_logistic(u);

		store(y, to, e < 2 ? scale_xy * v - (scale_xy - 1) / 2 : v);
	}
}

KERNEL
region_k(int rows, int anchors, int classes, int softmax, const void *x, void *y)
{
	EACH2 (r, rows, a, anchors) {
		const void *u = item(x, (r * anchors + a) * (5 + classes));
		void *v = item(y, (r * anchors + a) * (5 + classes));
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
BACKEND(head_yolo)(struct dev *d, int rows, int anchors, int classes, float scale_xy,
    int new_coords, const void *x, void *y)
{
	RUN(d, yolo_k, rows * anchors * (5 + classes), rows, anchors, classes, scale_xy, new_coords,
	    x, y);
}

static void
BACKEND(head_region)(struct dev *d, int rows, int anchors, int classes, int softmax,
    const void *x, void *y)
{
	RUN(d, region_k, rows * anchors, rows, anchors, classes, softmax, x, y);
}
