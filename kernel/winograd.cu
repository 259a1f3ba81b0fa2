/* winograd.cu -- 3x3 convolution of stride 1 by F(2x2, 3x3): 16 products instead of 36.
 *
 * For a tile of 2x2 outputs and the 4x4 inputs d under it, y = A^T [ (G g G^T) . (B^T d B) ] A,
 * where the products . of all channels and tiles are 16 GEMMs, one for each place p of the 4x4:
 *	forward	M[p][T][k] = V[p][T][c] U[p][c][k], V = B^T d B, U = G g G^T, y = A^T M A
 *	dgrad	the same of dY with turned kernels: turning swaps places 0 and 3 of U, on both axes
 *	wgrad	dU[p][c][k] = V[p]^T (A dY A^T)[p], dW = G^T dU G
 * (Winograd 1980; Lavin and Gray 2015.)  The transforms are additions only, over channels with unit
 * stride, and as exact as the product itself: the relative error is float32's own.  tf32's and
 * bfloat16's are not good enough for that, and dev->exact does without.
 *
 * Small U: TASKS of tiles, each with V and M of its own in the cache.  Large U: all threads share
 * one V and M, so that U passes through the cache once.  The cuts depend on the shape only. */
#include "kernel/kernel.h"
#include "kernel/dev.h"

/* Below MIN_CK the transforms cost more than they save. */
enum { LARGE_U = 1 << 20, MIN_CK = 64 * 64 };

struct tiles { int h, w, c, ld, th, tw; }; /* a tensor and its th x tw tiles; ld: a row of V, M */

/* V[p][nt][ld] of tiles t0..t0+nt. */
KERNEL
wino_in_k(struct tiles s, const float *x, int t0, int nt, float *v)
{
	EACH2 (t, nt, i, s.c) {
		int b = (t0 + t) / (s.th * s.tw), y0 = (t0 + t) / s.tw % s.th * 2 - 1;
		int x0 = (t0 + t) % s.tw * 2 - 1;
		float d[4][4], r[4][4];

		for (int y = 0; y < 4; y++)
			for (int k = 0; k < 4; k++) {
				int in = (y0 + y >= 0) & (y0 + y < s.h) & (x0 + k >= 0) & (x0 +
				    k < s.w);
				float z = x[((b * s.h + (in ? y0 + y : 0)) * s.w +
				    (in ? x0 + k : 0)) * s.c + i];

				d[y][k] = in ? z : 0;
			}
		for (int k = 0; k < 4; k++) {
			r[0][k] = d[0][k] - d[2][k];
			r[1][k] = d[1][k] + d[2][k];
			r[2][k] = d[2][k] - d[1][k];
			r[3][k] = d[1][k] - d[3][k];
		}
		for (int y = 0; y < 4; y++) {
			float *to = v + (y * 4 * nt + t) * s.ld + i;

			to[0] = r[y][0] - r[y][2];
			to[nt * s.ld] = r[y][1] + r[y][2];
			to[2 * nt * s.ld] = r[y][2] - r[y][1];
			to[3 * nt * s.ld] = r[y][1] - r[y][3];
		}
	}
}

/* y = A^T M A.  Outputs beyond the edge go where the tile's first goes, before it is written. */
KERNEL
wino_out_k(struct tiles s, const float *m, int t0, int nt, int add, float *y)
{
	EACH2 (t, nt, i, s.c) {
		int b = (t0 + t) / (s.th * s.tw), oy = (t0 + t) / s.tw % s.th * 2,
		    ox = (t0 + t) % s.tw * 2;
		int at = ((b * s.h + oy) * s.w + ox) * s.c + i, right = ox + 1 < s.w ? s.c : 0;
		int down = oy + 1 < s.h ? s.w * s.c : 0, both = (right > 0) & (down > 0) ? right +
		    down : 0;
		float r[2][4], o[4];

		for (int k = 0; k < 4; k++) {
			float a = m[(k * nt + t) * s.ld + i], e = m[((4 + k) * nt + t) * s.ld + i];
			float f = m[((8 + k) * nt + t) * s.ld + i],
			    g = m[((12 + k) * nt + t) * s.ld + i];

			r[0][k] = a + e + f;
			r[1][k] = e - f - g;
		}
		for (int k = 0; k < 2; k++) {
			o[2 * k] = r[k][0] + r[k][1] + r[k][2];
			o[2 * k + 1] = r[k][1] - r[k][2] - r[k][3];
		}
		if (add) {
			o[0] += y[at];
			o[1] += y[at + right];
			o[2] += y[at + down];
			o[3] += y[at + both];
		}
		y[at + both] = o[3];
		y[at + down] = o[2];
		y[at + right] = o[1];
		y[at] = o[0];
	}
}

/* A dY A^T, for wgrad. */
KERNEL
wino_grad_k(struct tiles s, const float *dy, int t0, int nt, float *v)
{
	EACH2 (t, nt, i, s.c) {
		int b = (t0 + t) / (s.th * s.tw), oy = (t0 + t) / s.tw % s.th * 2,
		    ox = (t0 + t) % s.tw * 2;
		int at = ((b * s.h + oy) * s.w + ox) * s.c + i, right = ox + 1 < s.w ? s.c : 0;
		int down = oy + 1 < s.h ? s.w * s.c : 0;
		float p = dy[at], q = dy[at + right], u = dy[at + down], z = dy[at + right + down];
		float r[4][2];

		q = right ? q : 0;
		u = down ? u : 0;
		z = (right > 0) & (down > 0) ? z : 0;
		r[0][0] = p;
		r[0][1] = q;
		r[1][0] = p + u;
		r[1][1] = q + z;
		r[2][0] = p - u;
		r[2][1] = q - z;
		r[3][0] = -u;
		r[3][1] = -z;
		for (int y = 0; y < 4; y++) {
			float *to = v + (y * 4 * nt + t) * s.ld + i;

			to[0] = r[y][0];
			to[nt * s.ld] = r[y][0] + r[y][1];
			to[2 * nt * s.ld] = r[y][0] - r[y][1];
			to[3 * nt * s.ld] = -r[y][1];
		}
	}
}

/* U[p][c][ld] = G g G^T of all c * k kernels g. */
KERNEL
wino_kernels_k(const float *w, int c, int k, int ld, float *u)
{
	EACH2 (y, c, x, k) {
		int i = y * k + x, n = c * k, at = y * ld + x, place = c * ld;
		float r[4][3];

		for (int j = 0; j < 3; j++) {
			float e = w[j * n + i], f = w[(3 + j) * n + i], g = w[(6 + j) * n + i];

			r[0][j] = e;
			r[1][j] = .5f * (e + f + g);
			r[2][j] = .5f * (e - f + g);
			r[3][j] = g;
		}
		for (int j = 0; j < 4; j++) {
			u[j * 4 * place + at] = r[j][0];
			u[(j * 4 + 1) * place + at] = .5f * (r[j][0] + r[j][1] + r[j][2]);
			u[(j * 4 + 2) * place + at] = .5f * (r[j][0] - r[j][1] + r[j][2]);
			u[(j * 4 + 3) * place + at] = r[j][2];
		}
	}
}

/* dW += G^T dU G */
KERNEL
wino_back_k(const float *u, int n, float *dw)
{
	EACH (i, n) {
		float r[3][4];

		for (int x = 0; x < 4; x++) {
			float a = u[x * n + i], b = u[(4 + x) * n + i], c = u[(8 + x) * n + i];
			float d = u[(12 + x) * n + i];

			r[0][x] = a + .5f * (b + c);
			r[1][x] = .5f * (b - c);
			r[2][x] = .5f * (b + c) + d;
		}
		for (int y = 0; y < 3; y++) {
			dw[y * 3 * n + i] += r[y][0] + .5f * (r[y][1] + r[y][2]);
			dw[(y * 3 + 1) * n + i] += .5f * (r[y][1] - r[y][2]);
			dw[(y * 3 + 2) * n + i] += .5f * (r[y][1] + r[y][2]) + r[y][3];
		}
	}
}

/* Place p of the turned kernels. */
static int
turned(int p)
{
	static const int swap[4] = { 3, 1, 2, 0 };

	return swap[p / 4] * 4 + swap[p % 4];
}

static int
padded(int n)
{
	return n >= 64 && n % 64 == 0 ? n + LINE_PAD : n;
}

static struct tiles
tiles_of(const struct conv_shape *s, int c)
{
	struct tiles t = { s->h, s->w, c, padded(c), (s->h + 1) / 2, (s->w + 1) / 2 };

	return t;
}

static int
count(const struct conv_shape *s)
{
	return s->n * ((s->h + 1) / 2) * ((s->w + 1) / 2);
}

static int
shared(const struct conv_shape *s)
{
	return 16 * s->c * s->k > LARGE_U;
}

/* Tiles that are transformed at once, at most; never fewer for more tiles. */
static int
most_tiles(const struct conv_shape *s, int all)
{
	int t = (all ? TASK_SHARED : 3 * TASK_FLOATS) / (16 * (padded(s->c) + padded(s->k)));

	t = t < 16 ? 16 : t;
	return count(s) < t ? count(s) : t;
}

static int
step_tiles(const struct conv_shape *s, int all)
{
	int most = most_tiles(s, all), cuts = (count(s) + most - 1) / most;

	return (count(s) + cuts - 1) / cuts;
}

/* What a product works on: nt tiles, their V[16][nt][in.ld] and M[16][nt][out.ld]. */
struct chunk { int nt; struct tiles in, out; float *v, *m; };

/* Place p of a chunk: M = V U, or V U^T turned for dgrad. */
static void
place_product(struct dev *d, const struct chunk *c, const float *u, int back, int p)
{
	int uc = back ? c->out.c : c->in.c, ul = back ? c->in.ld : c->out.ld;
	struct gemm g = { 0, back, c->nt, c->out.c, c->in.c, 1,
		c->v + (size_t)p * c->nt * c->in.ld, c->in.ld,
		u + (size_t)(back ? turned(p) : p) * uc * ul, ul, 0,
		c->m + (size_t)p * c->nt * c->out.ld, c->out.ld, 0, 0 };

	d->ops->gemm(d, &g);
}

/* forward of x to y with back 0, dgrad of x = dY to y = dX with back 1. */
struct pass { const float *x, *w; float *y; int back, add; };

static void
product(struct dev *d, const struct conv_shape *s, const struct pass *a, float *ws)
{
	int back = a->back;
	struct tiles in = tiles_of(s, back ? s->k : s->c), out = tiles_of(s, back ? s->c : s->k);
	int n = count(s), all = shared(s), step = step_tiles(s, all), cuts = (n + step - 1) / step;
	float *u = ws, *own = ws + 16 * (size_t)s->c * padded(s->k);

	RUN(d, wino_kernels_k, s->c * s->k, a->w, s->c, s->k, padded(s->k), u);
	for (int c = 0; all && c < cuts; c++) {
		int t0 = c * step, nt = n - t0 < step ? n - t0 : step;
		struct chunk k = { nt, in, out, own, own + 16 * (size_t)nt * in.ld };

		RUN(d, wino_in_k, nt * in.c, in, a->x, t0, nt, k.v);
		TASKS (d, p, 16)
			place_product(d, &k, u, back, p);
		RUN(d, wino_out_k, nt * out.c, out, k.m, t0, nt, a->add, a->y);
	}
	if (!all)
		TASKS (d, c, cuts) {
			int t0 = c * step, nt = n - t0 < step ? n - t0 : step;
			float *v = own + (size_t)WORKER * 16 * (size_t)step * (size_t)(in.ld +
			    out.ld);
			struct chunk k = { nt, in, out, v, v + 16 * (size_t)nt * in.ld };

			RUN(d, wino_in_k, nt * in.c, in, a->x, t0, nt, v);
			for (int p = 0; p < 16; p++)
				place_product(d, &k, u, back, p);
			RUN(d, wino_out_k, nt * out.c, out, k.m, t0, nt, a->add, a->y);
		}
}

static void
forward(struct dev *d, const struct conv_shape *s, const void *x, const float *w, void *y, void *ws)
{
	struct pass a = { (const float *)x, w, (float *)y, 0, 0 };

	product(d, s, &a, (float *)ws);
}

static void
dgrad(struct dev *d, const struct conv_shape *s, const void *dy, const float *w, void *dx, int add,
    void *ws)
{
	struct pass a = { (const float *)dy, w, (float *)dx, 1, add };

	product(d, s, &a, (float *)ws);
}

static void
wgrad(struct dev *d, const struct conv_shape *s, const void *x, const void *dy, float *dw, void *ws)
{
	struct tiles in = tiles_of(s, s->c), out = tiles_of(s, s->k);
	int n = count(s), step = step_tiles(s, 1), size = s->c * s->k;
	float *u = (float *)ws, *v = u + 16 * (size_t)size;

	for (int t0 = 0; t0 < n; t0 += step) {
		int nt = n - t0 < step ? n - t0 : step;
		float *g = v + 16 * (size_t)nt * in.ld;

		RUN(d, wino_in_k, nt * s->c, in, (const float *)x, t0, nt, v);
		RUN(d, wino_grad_k, nt * s->k, out, (const float *)dy, t0, nt, g);
		TASKS (d, p, 16) {
			struct gemm dw = { 1, 0, s->c, s->k, nt, 1, v + (size_t)p * nt * in.ld,
				in.ld, g + (size_t)p * nt * out.ld, out.ld, t0 ? 1.f : 0,
				u + (size_t)p * size, s->k, 0, 0 };

			d->ops->gemm(d, &dw);
		}
	}
	RUN(d, wino_back_k, size, u, size, dw);
}

static int
fits(const struct dev *d, const struct conv_shape *s, enum conv_way way)
{
	(void)way;
	return !d->exact && !d->tf32 && s->size == 3 && s->stride_y == 1 && s->stride_x == 1 &&
	    s->pad == 1 && s->dilation == 1 && s->groups == 1 && s->c * s->k >= MIN_CK;
}

static size_t
workspace(struct dev *d, const struct conv_shape *s, int train)
{
	size_t each = 16 * (size_t)(padded(s->c) + padded(s->k)), a, b;

	if (!fits(d, s, CONV_FORWARD))
		return 0;
	a = each * (size_t)most_tiles(s, 1);
	b = each * (size_t)most_tiles(s, 0) * (size_t)d->threads;
	if ((train || shared(s)) && a > b)
		b = a;
	return (16 * (size_t)s->c * (size_t)padded(s->k) + b) * sizeof(float);
}

const struct conv_kind BACKEND(winograd) = { fits, { workspace, forward, dgrad, wgrad } };
