/* conv.cu -- convolution: the GEMM on gathered columns, and the choice between it and other kinds.
 *
 * Activations are NHWC, so a whole batch is one product, Y[P][k] = col[P][s*s*c] W, and a row of
 * col is made of runs of c numbers as they stand in memory.  One gather makes all columns:
 *	forward	rows are output pixels, taps are looked up in x
 *	dgrad	rows are input pixels, taps are looked up in dY.  With a stride, only some taps meet
 *		an output, the same ones for all pixels of one residue class (y mod stride, x mod
 *		stride): a product for each class, without the zeros, the sums or the atomics of the
 *		usual scattering back
 *	wgrad	dW = col^T dY, col as in forward
 * A 1x1 convolution of stride 1 needs no gather.  Work is cut in TASKS of rows, each with its
 * thread's own columns, small enough to be in the cache when the GEMM reads them; groups are
 * columns of the same matrices.  wgrad adds up row parts in order where dW is small and cuts dW
 * itself in slabs where it is large.  The cuts depend on shapes only, so the result does not
 * depend on the number of threads. */
#include <string.h>

#include "yolo.h"
#include "dev.h"

enum { MIN_ROWS = 256, SMALL_DW = 1 << 16, NKIND = 1 };
static const struct conv_kind *const kinds[NKIND] = { &BACKEND(direct) };

/* Taps of size ny x nx, dy dx apart, of a tensor [n][h][w][c], its channels off..off+cg; row r of
 * the columns is pixel (r/gw/gh, r/gw%gh, r%gw) of the grid, its first tap at y0 + gy*sy etc. */
struct gather { int h, w, c, off, cg, gh, gw, sy, sx, y0, x0, ny, nx, dy, dx; };

#if defined(EMU) || defined(__CUDACC__)
KERNEL
gather_k(struct gather g, const float *x, int r0, int rows, float *col)
{
	EACH2 (t, rows * g.ny * g.nx, i, g.cg) {
		int tap = t % (g.ny * g.nx), r = r0 + t / (g.ny * g.nx), b = r / (g.gh * g.gw);
		int iy = r / g.gw % g.gh * g.sy + g.y0 + tap / g.nx * g.dy;
		int ix = r % g.gw * g.sx + g.x0 + tap % g.nx * g.dx;

		col[t * g.cg + i] = iy < 0 || iy >= g.h || ix < 0 || ix >= g.w ? 0 :
		    x[((b * g.h + iy) * g.w + ix) * g.c + g.off + i];
	}
}
#else
/* The same with what does not change taken out of the loops, and whole rows of taps copied where
 * they stand side by side. */
DEVICE float *
gather_taps(const struct gather *g, const float *line, int ix, float *to)
{
	size_t run = (size_t)g->cg * sizeof *to;

	if (g->dx == 1 && g->cg == g->c) {
		int a = ix < 0 ? -ix : 0, b = g->w - ix;

		a = a > g->nx ? g->nx : a;
		b = b > g->nx ? g->nx : b < a ? a : b;
		memset(to, 0, (size_t)a * run);
		memcpy(to + a * g->c, line + (ix + a) * g->c, (size_t)(b - a) * run);
		memset(to + b * g->c, 0, (size_t)(g->nx - b) * run);
		return to + g->nx * g->c;
	}
	for (int kx = 0; kx < g->nx; kx++, ix += g->dx, to += g->cg)
		if (ix < 0 || ix >= g->w)
			memset(to, 0, run);
		else
			memcpy(to, line + ix * g->c + g->off, run);
	return to;
}

KERNEL
gather_k(struct gather g, const float *x, int r0, int rows, float *col)
{
	EACH (i, rows) {
		int r = r0 + i, b = r / (g.gh * g.gw), ix = r % g.gw * g.sx + g.x0;
		int iy = r / g.gw % g.gh * g.sy + g.y0;
		float *to = col + i * g.ny * g.nx * g.cg;

		for (int ky = 0; ky < g.ny; ky++, iy += g.dy)
			if (iy < 0 || iy >= g.h) {
				memset(to, 0, (size_t)(g.nx * g.cg) * sizeof *to);
				to += g.nx * g.cg;
			} else
				to = gather_taps(&g, x + (b * g.h + iy) * g.w * g.c, ix, to);
	}
}
#endif

/* The kernels of the taps ky = y0, y0 - ys, ... (ny of them) and likewise kx, for one group, as
 * dgrad wants them: out[tap][filter of the group][channel]. */
KERNEL
flip_k(const float *w, int size, int cg, int k, int f0, int kg, int y0, int ys, int ny, int x0,
    int xs, int nx, float *out)
{
	EACH2 (t, ny * nx * kg, i, cg) {
		int tap = t / kg, ky = y0 - tap / nx * ys, kx = x0 - tap % nx * xs;

		out[t * cg + i] = w[((ky * size + kx) * cg + i) * k + f0 + t % kg];
	}
}

/* Rows of one residue class back to their pixels. */
KERNEL
scatter_k(const float *from, int r0, int rows, int gh, int gw, int cg, int sy, int sx, int qy, int qx,
    int h, int w, int c, int off, int add, float *dx)
{
	EACH2 (t, rows, i, cg) {
		int r = r0 + t, b = r / (gh * gw), y = r / gw % gh * sy + qy, x = r % gw * sx + qx;
		int at = ((b * h + y) * w + x) * c + off + i;
		float v = from ? from[t * cg + i] : 0;

		dx[at] = add ? dx[at] + v : v;
	}
}

KERNEL
add_parts_k(const float *part, int parts, int n, float *out)
{
	FOLD (y, 1, p, 0, parts, i, n)
		out[i] += part[p * n + i];
}

static int
ceil_div(int a, int b)
{
	return (a + b - 1) / b;
}

/* Rows for one task, at most, when a row takes width floats of workspace: never fewer for more
 * rows, so a workspace for a large batch does for a small one. */
static int
most_rows(int rows, int width)
{
	int r = TASK_FLOATS / width;

	r = r < MIN_ROWS && TASK_FLOATS > MIN_ROWS * MIN_ROWS ? MIN_ROWS : r < 1 ? 1 : r;
	return rows < r ? rows : r;
}

static int
task_rows(int rows, int width)
{
	int cuts = ceil_div(rows, most_rows(rows, width));

	if (cuts < TASK_CUTS && rows >= 64 * TASK_CUTS)
		cuts = TASK_CUTS;
	return ceil_div(rows, cuts);
}

static int
plain(const struct conv_shape *s)		/* the tensor itself is the columns */
{
	return s->size == 1 && s->stride_y == 1 && s->stride_x == 1 && !s->pad;
}

static void
gemm(struct dev *d, int ta, int tb, int m, int n, int k, const float *a, int lda, const float *b,
    int ldb, float beta, float *c, int ldc)
{
	struct gemm g = { ta, tb, m, n, k, 1, a, lda, b, ldb, beta, c, ldc };

	d->ops->gemm(d, &g);
}

static struct gather
columns(const struct conv_shape *s, int group)
{
	int cg = s->c / s->groups;
	struct gather g = { s->h, s->w, s->c, group * cg, cg, s->oh, s->ow, s->stride_y, s->stride_x,
		-s->pad, -s->pad, s->size, s->size, s->dilation, s->dilation };

	return g;
}

static void
gemm_forward(struct dev *d, const struct conv_shape *s, const float *x, const float *w, float *y,
    float *ws)
{
	int rows = s->n * s->oh * s->ow, cg = s->c / s->groups, kg = s->k / s->groups;
	int width = s->size * s->size * cg, m = task_rows(rows, width), cuts = ceil_div(rows, m);

	TASKS (d, t, cuts * s->groups) {
		struct gather g = columns(s, t / cuts);
		int r0 = t % cuts * m, n = rows - r0 < m ? rows - r0 : m, f0 = t / cuts * kg;
		const float *a = x + (size_t)r0 * s->c + g.off;
		float *col = ws + (size_t)WORKER * (size_t)m * width;

		if (!plain(s)) {
			RUN(d, gather_k, n * width, g, x, r0, n, col);
			a = col;
		}
		gemm(d, 0, 0, n, kg, width, a, plain(s) ? s->c : width, w + f0, s->k, 0,
		    y + (size_t)r0 * s->k + f0, s->k);
	}
}

/* One axis of a residue class q of a stride: the taps that meet an output there, from the last
 * (tap0, then tap0 - step ...), so that outputs come in rising order: the first at out0, out_step
 * apart. */
struct axis { int n, grid, tap0, step, out0, out_step; };

static struct axis
residue(int q, int stride, int size, int pad, int dilation, int len)
{
	struct axis a = { 0, q < len ? ceil_div(len - q, stride) : 0, 0, 1, 0, 1 };
	int last = -1;

	for (int k = size - 1; k >= 0; k--) {
		if ((q + pad - k * dilation) % stride)
			continue;
		if (!a.n++) {
			a.tap0 = k;
			a.out0 = (q + pad - k * dilation) / stride;
		} else if (a.n == 2)
			a.step = last - k;
		last = k;
	}
	a.out_step = a.step * dilation / stride;
	return a;
}

/* Pixels of one class of one group. */
static void
dgrad_class(struct dev *d, const struct conv_shape *s, int group, int qy, int qx, const float *dy,
    const float *w, float *dx, int add, float *ws)
{
	struct axis v = residue(qy, s->stride_y, s->size, s->pad, s->dilation, s->h);
	struct axis u = residue(qx, s->stride_x, s->size, s->pad, s->dilation, s->w);
	int cg = s->c / s->groups, kg = s->k / s->groups, off = group * cg, rows = s->n * v.grid * u.grid;
	int width = v.n * u.n * kg, m = task_rows(rows, width + cg), whole = s->stride_y * s->stride_x == 1;
	struct gather g = { s->oh, s->ow, s->k, group * kg, kg, v.grid, u.grid, 1, 1, v.out0, u.out0,
		v.n, u.n, v.out_step, u.out_step };
	float *flipped = ws;

	if (!rows)
		return;
	RUN(d, flip_k, width * cg, w, s->size, cg, s->k, group * kg, kg, v.tap0, v.step, v.n, u.tap0, u.step,
	    u.n, flipped);
	ws += (size_t)width * cg;
	TASKS (d, t, ceil_div(rows, m)) {
		int r0 = t * m, n = rows - r0 < m ? rows - r0 : m;
		float *col = ws + (size_t)WORKER * (size_t)m * (width + cg), *to = col + (size_t)n * width;

		if (width)
			RUN(d, gather_k, n * width, g, dy, r0, n, col);
		if (whole && width)
			gemm(d, 0, 0, n, cg, width, col, width, flipped, cg, (float)add,
			    dx + (size_t)r0 * s->c + off, s->c);
		else {
			if (width)
				gemm(d, 0, 0, n, cg, width, col, width, flipped, cg, 0, to, cg);
			RUN(d, scatter_k, n * cg, width ? to : NULL, r0, n, v.grid, u.grid, cg, s->stride_y,
			    s->stride_x, qy, qx, s->h, s->w, s->c, off, add, dx);
		}
	}
}

static void
gemm_dgrad(struct dev *d, const struct conv_shape *s, const float *dy, const float *w, float *dx,
    int add, float *ws)
{
	int rows = s->n * s->h * s->w, cg = s->c / s->groups, kg = s->k / s->groups;
	int m = task_rows(rows, cg + kg), cuts = ceil_div(rows, m);

	if (plain(s))
		TASKS (d, t, cuts * s->groups) {
			int r0 = t % cuts * m, n = rows - r0 < m ? rows - r0 : m, g = t / cuts;

			gemm(d, 0, 1, n, cg, kg, dy + (size_t)r0 * s->k + g * kg, s->k, w + g * kg, s->k,
			    (float)add, dx + (size_t)r0 * s->c + g * cg, s->c);
		}
	else
		for (int g = 0; g < s->groups; g++)
			for (int q = 0; q < s->stride_y * s->stride_x; q++)
				dgrad_class(d, s, g, q / s->stride_x, q % s->stride_x, dy, w, dx, add, ws);
}

/* dw[rows of W][kg] = or += over rows r0..r1 of the output, in steps of m rows. */
static void
wgrad_rows(struct dev *d, const struct conv_shape *s, const struct gather *g, int direct, int f0,
    int r0, int r1, int m, const float *x, const float *dy, float beta, float *dw, float *col)
{
	int width = g->ny * g->nx * g->cg;

	for (int r = r0; r < r1; r += m, beta = 1) {
		int n = r1 - r < m ? r1 - r : m;
		const float *a = x + (size_t)r * s->c + g->off;

		if (!direct) {
			RUN(d, gather_k, n * width, *g, x, r, n, col);
			a = col;
		}
		gemm(d, 1, 0, width, s->k / s->groups, n, a, direct ? s->c : width,
		    dy + (size_t)r * s->k + f0, s->k, beta, dw, s->k);
	}
}

/* dW small: parts of the rows, each with a dW of its own, added up in order. */
static void
wgrad_parts(struct dev *d, const struct conv_shape *s, const float *x, const float *dy, float *dw,
    float *ws)
{
	int rows = s->n * s->oh * s->ow, width = s->size * s->size * (s->c / s->groups);
	int m = task_rows(rows, width), cuts = ceil_div(rows, m), n = width * s->k;
	int parts = cuts < TASK_CUTS ? cuts : TASK_CUTS, each = ceil_div(cuts, parts) * m;
	float *col = ws + (size_t)parts * (size_t)n;

	parts = ceil_div(rows, each);
	TASKS (d, t, parts * s->groups) {
		struct gather g = columns(s, t / parts);
		int p = t % parts, f0 = t / parts * (s->k / s->groups);
		int end = rows - p * each < each ? rows : (p + 1) * each;

		wgrad_rows(d, s, &g, plain(s), f0, p * each, end, m, x, dy, 0, ws + (size_t)p * n + f0,
		    col + (size_t)WORKER * (size_t)m * width);
	}
	RUN(d, add_parts_k, n, ws, parts, n, dw);
}

/* dW large: a slab of it, channels of one tap, for each task. */
static int
slab_channels(int cg)
{
	return cg > 256 ? 256 : cg > 64 && cg % 2 == 0 ? cg / 2 : cg;
}

static void
wgrad_slabs(struct dev *d, const struct conv_shape *s, const float *x, const float *dy, float *dw,
    float *ws)
{
	int rows = s->n * s->oh * s->ow, cg = s->c / s->groups, kg = s->k / s->groups;
	int ch = slab_channels(cg), slabs = ceil_div(cg, ch), taps = s->size * s->size;
	int m = task_rows(rows, ch);

	TASKS (d, t, s->groups * taps * slabs) {
		int tap = t / slabs % taps, group = t / slabs / taps, c0 = t % slabs * ch;
		struct gather g = columns(s, group);

		g.off += c0;
		g.cg = cg - c0 < ch ? cg - c0 : ch;
		g.y0 += tap / s->size * s->dilation;
		g.x0 += tap % s->size * s->dilation;
		g.ny = g.nx = 1;
		wgrad_rows(d, s, &g, plain(s), group * kg, 0, rows, m, x, dy, 1,
		    dw + ((size_t)tap * cg + c0) * s->k + group * kg,
		    ws + (size_t)WORKER * (size_t)m * ch);
	}
}

static int
small_dw(const struct conv_shape *s)
{
	return (size_t)s->size * s->size * (s->c / s->groups) * s->k <= SMALL_DW;
}

static size_t
gemm_workspace(struct dev *d, const struct conv_shape *s, int train)
{
	int rows = s->n * s->oh * s->ow, cg = s->c / s->groups, kg = s->k / s->groups;
	int taps = s->size * s->size, ch = slab_channels(cg);
	size_t th = (size_t)d->threads, part = (size_t)taps * cg * s->k, f, b = 0, w;

	f = plain(s) ? 0 : th * (size_t)most_rows(rows, taps * cg) * (size_t)(taps * cg);
	if (!train)
		return f;
	w = small_dw(s) ? TASK_CUTS * part + th * (size_t)most_rows(rows, taps * cg) * (size_t)(taps * cg) :
	    th * (size_t)most_rows(rows, ch) * (size_t)ch;
	if (!plain(s))
		for (int q = 0; q < s->stride_y * s->stride_x; q++) {
			struct axis v = residue(q / s->stride_x, s->stride_y, s->size, s->pad, s->dilation, s->h);
			struct axis u = residue(q % s->stride_x, s->stride_x, s->size, s->pad, s->dilation, s->w);
			int width = v.n * u.n * kg, r = s->n * v.grid * u.grid;
			size_t need = (size_t)width * cg;

			if (r)
				need += th * (size_t)most_rows(r, width + cg) * (size_t)(width + cg);
			b = need > b ? need : b;
		}
	b = b > w ? b : w;
	return b > f ? b : f;
}

static const struct conv_kind *
kind(const struct dev *d, const struct conv_shape *s, enum conv_way way)
{
	for (int i = 0; i < NKIND; i++)
		if (kinds[i]->fits(d, s, way))
			return kinds[i];
	return NULL;
}

static size_t
workspace(struct dev *d, const struct conv_shape *s, int train)
{
	size_t most = gemm_workspace(d, s, train) * sizeof(float), b;

	for (int i = 0; i < NKIND; i++) {
		b = kinds[i]->ops.workspace(d, s, train);
		most = b > most ? b : most;
	}
	b = train ? d->bn->workspace(d, s->n * s->oh * s->ow, s->k) : 0;
	return (b > most ? b : most) + 64;
}

static void
forward(struct dev *d, const struct conv_shape *s, const float *x, const float *w, float *y, void *ws)
{
	const struct conv_kind *k = kind(d, s, CONV_FORWARD);

	if (k)
		k->ops.forward(d, s, x, w, y, ws);
	else
		gemm_forward(d, s, x, w, y, (float *)ws);
}

static void
dgrad(struct dev *d, const struct conv_shape *s, const float *dy, const float *w, float *dx, int add,
    void *ws)
{
	const struct conv_kind *k = kind(d, s, CONV_DGRAD);

	if (k)
		k->ops.dgrad(d, s, dy, w, dx, add, ws);
	else
		gemm_dgrad(d, s, dy, w, dx, add, (float *)ws);
}

static void
wgrad(struct dev *d, const struct conv_shape *s, const float *x, const float *dy, float *dw, void *ws)
{
	const struct conv_kind *k = kind(d, s, CONV_WGRAD);

	if (k)
		k->ops.wgrad(d, s, x, dy, dw, ws);
	else if (small_dw(s))
		wgrad_parts(d, s, x, dy, dw, (float *)ws);
	else
		wgrad_slabs(d, s, x, dy, dw, (float *)ws);
}

const struct conv_ops BACKEND(conv) = { workspace, forward, dgrad, wgrad };
