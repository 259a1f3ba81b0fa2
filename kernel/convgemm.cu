/* convgemm.cu -- convolution as a GEMM on gathered columns: the kind that does every shape.
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
 * depend on the number of threads (but where rows are so few that they are one task, whose GEMM
 * then takes all threads).
 *
 * A GEMM on rows a power of two apart runs at half speed on a CPU (they fall on the same cache
 * sets), so kernels and columns are copied to padded rows; a copy is nothing to a product.  In
 * bfloat16 kernels are copied always: parameters are float, the factors of a product are not. */
#include <string.h>

#include "kernel/kernel.h"
#include "kernel/dev.h"
#include "base/fn.h"

enum { MIN_ROWS = 256, SMALL_DW = 1 << 16 };

/* Taps of size ny x nx, dy dx apart, of a tensor [n][h][w][c], its channels off..off+cg; row r of
 * the columns is pixel (r/gw/gh, r/gw%gh, r%gw) of the grid, its first tap at y0 + gy*sy etc. */
struct gather { int h, w, c, off, cg, gh, gw, sy, sx, y0, x0, ny, nx, dy, dx; };

#if defined(EMU) || defined(__CUDACC__)
KERNEL
gather_k(struct gather g, const void *x, int r0, int rows, int ld, void *col)
{
	EACH2 (t, rows * g.ny * g.nx, i, g.cg) {
		int tap = t % (g.ny * g.nx), row = t / (g.ny * g.nx), r = r0 + row,
		    b = r / (g.gh * g.gw);
		int iy = r / g.gw % g.gh * g.sy + g.y0 + tap / g.nx * g.dy;
		int ix = r % g.gw * g.sx + g.x0 + tap % g.nx * g.dx;

		int out = iy < 0 || iy >= g.h || ix < 0 || ix >= g.w;

		store(col, row * ld + tap * g.cg + i,
		    out ? 0 : load(x, ((b * g.h + iy) * g.w + ix) * g.c + g.off + i));
	}
}
#else
/* The same with what does not change taken out of the loops: one image line's taps of n pixels of
 * a grid line, the first tap at ix, copied as a whole where they stand side by side.  Those of a
 * stem, 3 taps of 3 channels, are so many that a copy of known length pays. */
DEVICE void
gather_taps(const struct gather *g, const STORED *line, int ix, STORED *to)
{
	size_t run = (size_t)g->cg * sizeof *to;

	if (g->dx == 1 && g->cg == g->c) {
		int a = ix < 0 ? -ix : 0, b = g->w - ix;

		a = a > g->nx ? g->nx : a;
		b = b > g->nx ? g->nx : b < a ? a : b;
		memset(to, 0, (size_t)a * run);
		memcpy(to + a * g->c, line + (ix + a) * g->c, (size_t)(b - a) * run);
		memset(to + b * g->c, 0, (size_t)(g->nx - b) * run);
		return;
	}
	for (int kx = 0; kx < g->nx; kx++, ix += g->dx, to += g->cg)
		if (ix < 0 || ix >= g->w)
			memset(to, 0, run);
		else
			memcpy(to, line + ix * g->c + g->off, run);
}

DEVICE void
gather_line(const struct gather *g, const STORED *line, int ix, int n, int ld, STORED *to)
{
	int stem = g->c == 3 && g->cg == 3 && g->nx == 3 && g->dx == 1;

	for (int i = 0; i < n; i++, ix += g->sx, to += ld)
		if (!line)
			memset(to, 0, (size_t)(g->nx * g->cg) * sizeof *to);
		else if (stem && ix >= 0 && ix + 3 <= g->w)
			memcpy(to, line + ix * 3, 9 * sizeof *to);
		else
			gather_taps(g, line, ix, to);
}

KERNEL
gather_k(struct gather g, const STORED *x, int r0, int rows, int ld, STORED *col)
{
	int first = r0 / g.gw;

	EACH (l, (r0 + rows - 1) / g.gw - first + 1) {		/* lines of the grid */
		int b = (first + l) / g.gh, iy = (first + l) % g.gh * g.sy + g.y0,
		    at = (first + l) * g.gw;
		int from = at < r0 ? r0 : at, end = at + g.gw < r0 + rows ? at + g.gw : r0 + rows;

		for (int ky = 0; ky < g.ny; ky++, iy += g.dy)
			gather_line(&g, iy < 0 || iy >= g.h ? NULL : x + (size_t)(b * g.h + iy) *
			    g.w * g.c, (from - at) * g.sx + g.x0, end - from, ld,
			    col + (size_t)(from - r0) * ld + ky * g.nx * g.cg);
	}
}
#endif

/* Rows of n numbers to other row lengths. */
KERNEL
rows_k(const void *from, int from_ld, int rows, int n, void *to, int to_ld)
{
	EACH2 (r, rows, i, n)
		store(to, r * to_ld + i, load(from, r * from_ld + i));
}

KERNEL
weights_k(const float *w, int rows, int n, void *to, int to_ld)
{
	EACH2 (r, rows, i, n)
		store(to, r * to_ld + i, w[r * n + i]);
}

/* One axis of a residue class q of a stride: the taps that meet an output there, from the last
 * (tap0, then tap0 - step ...), so that outputs come in rising order: the first at out0, out_step
 * apart. */
struct axis { int n, grid, tap0, step, out0, out_step; };

/* The taps v and u of the kernels f0..f0+kg of k, of size x size and cg channels. */
struct flip { int size, cg, k, f0, kg; struct axis v, u; };

/* As dgrad wants them: out[tap][filter of the group][channel], rows of ld. */
KERNEL
flip_k(struct flip f, const float *w, int ld, void *out)
{
	EACH2 (t, f.v.n * f.u.n * f.kg, i, f.cg) {
		int tap = t / f.kg, ky = f.v.tap0 - tap / f.u.n * f.v.step;
		int kx = f.u.tap0 - tap % f.u.n * f.u.step;

		store(out, t * ld + i,
		    w[((ky * f.size + kx) * f.cg + i) * f.k + f.f0 + t % f.kg]);
	}
}

/* Rows of one residue class (qy, qx) of a stride back to their pixels. */
struct scatter { int h, w, c, off, cg, gh, gw, sy, sx, qy, qx; };

KERNEL
scatter_k(struct scatter s, const void *from, int r0, int rows, int add, void *dx)
{
	EACH2 (t, rows, i, s.cg) {
		int r = r0 + t, b = r / (s.gh * s.gw), y = r / s.gw % s.gh * s.sy + s.qy;
		int x = r % s.gw * s.sx + s.qx, to = ((b * s.h + y) * s.w + x) * s.c + s.off + i;
		float v = from ? load(from, t * s.cg + i) : 0;

		store(dx, to, add ? load(dx, to) + v : v);
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

/* Rows for one task, at most, when a row takes width numbers of workspace: never fewer for more
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

enum { HALF = sizeof(STORED) < sizeof(float) };

/* The row length of a buffer for rows of n; tensor cores want whole 16 bytes of bfloat16. */
static int
padded(int n)
{
	n = HALF ? (n + 7) / 8 * 8 : n;
	return n >= 128 && n % 64 == 0 ? n + LINE_PAD : n;
}

/* Numbers of a worker's m rows, whole cache lines. */
static size_t
area(int m, int ld)
{
	return ((size_t)m * (size_t)ld + 63) / 64 * 64;
}

static int
plain(const struct conv_shape *s)		/* the tensor itself is the columns */
{
	return s->size == 1 && s->stride_y == 1 && s->stride_x == 1 && !s->pad;
}

struct mnk { int m, n, k; };

static struct mnk
mnk(int m, int n, int k)
{
	struct mnk s = { m, n, k };

	return s;
}

/* C (+)= A B, stored as activations are. */
static void
gemm_to(struct dev *d, struct mnk s, const struct factors *f, int add, void *c, int ldc)
{
	struct gemm g = { 0, 0, s.m, s.n, s.k, 1, f->a, f->lda, f->b, f->ldb, (float)add, c, ldc,
		HALF, HALF };

	d->ops->gemm(d, &g);
}

/* C (+)= A^T B in float. */
static void
gemm_dw(struct dev *d, struct mnk s, const struct factors *f, int add, float *c, int ldc)
{
	struct gemm g = { 1, 0, s.m, s.n, s.k, 1, f->a, f->lda, f->b, f->ldb, (float)add, c, ldc,
		HALF, 0 };

	d->ops->gemm(d, &g);
}

static struct gather
columns(const struct conv_shape *s, int group)
{
	int cg = s->c / s->groups;
	struct gather g = { s->h, s->w, s->c, group * cg, cg, s->oh, s->ow, s->stride_y,
		s->stride_x, -s->pad, -s->pad, s->size, s->size, s->dilation, s->dilation };

	return g;
}

static void
forward(struct dev *d, const struct conv_shape *s, const void *x, const float *w, void *y, void *ws)
{
	int rows = s->n * s->oh * s->ow, cg = s->c / s->groups, kg = s->k / s->groups;
	int width = s->size * s->size * cg, ld = padded(width), m = task_rows(rows, ld),
	    wl = padded(s->k);
	int cuts = ceil_div(rows, m);
	const void *kernels = w;

	if (HALF || wl > s->k) {
		RUN(d, weights_k, width * s->k, w, width, s->k, ws, wl);
		kernels = ws;
		ws = item(ws, (size_t)width * wl);
	}
	TASKS (d, t, cuts * s->groups) {
		struct gather g = columns(s, t / cuts);
		int r0 = t % cuts * m, n = rows - r0 < m ? rows - r0 : m, f0 = t / cuts * kg;
		struct factors f = { item(x, (size_t)r0 * s->c + g.off), item(kernels, f0),
			plain(s) ? s->c : ld, wl };
		STORED *col = (STORED *)item(ws, WORKER * area(m, ld));

		if (!plain(s)) {
			RUN(d, gather_k, n * width, g, (const STORED *)x, r0, n, ld, col);
			f.a = col;
		}
		gemm_to(d, mnk(n, kg, width), &f, 0, item(y, (size_t)r0 * s->k + f0), s->k);
	}
}

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

/* What a class needs: its taps, rows and buffers. */
struct class_plan { struct axis v, u; int rows, width, ld, wl, m; };

static struct class_plan
class_of(const struct conv_shape *s, int q)
{
	struct class_plan p;
	int cg = s->c / s->groups;

	p.v = residue(q / s->stride_x, s->stride_y, s->size, s->pad, s->dilation, s->h);
	p.u = residue(q % s->stride_x, s->stride_x, s->size, s->pad, s->dilation, s->w);
	p.rows = s->n * p.v.grid * p.u.grid;
	p.width = p.v.n * p.u.n * (s->k / s->groups);
	p.ld = plain(s) ? 0 : padded(p.width);	/* a plain one has dY itself for columns */
	p.wl = padded(cg);
	p.m = p.rows ? task_rows(p.rows, p.ld + cg) : 0;
	return p;
}

/* What dgrad is given, but for the shape. */
struct back { const void *dy; const float *w; void *dx; int add; void *ws; };

static void
dgrad_class(struct dev *d, const struct conv_shape *s, int group, int q, const struct back *b)
{
	struct class_plan p = class_of(s, q);
	int cg = s->c / s->groups, kg = s->k / s->groups, off = group * cg;
	int whole = s->stride_y * s->stride_x == 1 && p.width;
	struct gather g = { s->oh, s->ow, s->k, group * kg, kg, p.v.grid, p.u.grid, 1, 1, p.v.out0,
		p.u.out0, p.v.n, p.u.n, p.v.out_step, p.u.out_step };
	struct flip flip = { s->size, cg, s->k, group * kg, kg, p.v, p.u };
	struct scatter scatter = { s->h, s->w, s->c, off, cg, p.v.grid, p.u.grid, s->stride_y,
		s->stride_x, q / s->stride_x, q % s->stride_x };
	void *flipped = b->ws, *ws = item(flipped, (size_t)p.width * p.wl);

	if (!p.rows)
		return;
	RUN(d, flip_k, p.width * cg, flip, b->w, p.wl, flipped);
	TASKS (d, t, ceil_div(p.rows, p.m)) {
		int r0 = t * p.m, n = p.rows - r0 < p.m ? p.rows - r0 : p.m;
		STORED *col = (STORED *)item(ws, WORKER * area(p.m, p.ld + cg));
		STORED *to = col + (size_t)n * p.ld;
		struct factors f = { plain(s) ? item(b->dy, (size_t)r0 * s->k + group * kg) : col,
			flipped, plain(s) ? s->k : p.ld, p.wl };

		if (p.width && !plain(s))
			RUN(d, gather_k, n * p.width, g, (const STORED *)b->dy, r0, n, p.ld,
			    col);
		if (whole)
			gemm_to(d, mnk(n, cg, p.width), &f, b->add,
			    item(b->dx, (size_t)r0 * s->c + off), s->c);
		else {
			if (p.width)
				gemm_to(d, mnk(n, cg, p.width), &f, 0, to, cg);
			RUN(d, scatter_k, n * cg, scatter, p.width ? to : NULL, r0, n, b->add,
			    b->dx);
		}
	}
}

static void
dgrad(struct dev *d, const struct conv_shape *s, const void *dy, const float *w, void *dx, int add,
    void *ws)
{
	struct back b = { dy, w, dx, add, ws };

	for (int g = 0; g < s->groups; g++)
		for (int q = 0; q < s->stride_y * s->stride_x; q++)
			dgrad_class(d, s, g, q, &b);
}

/* ---- wgrad -------------------------------------------------------------------------------- */

static int
small_dw(const struct conv_shape *s)
{
	return (size_t)s->size * s->size * (s->c / s->groups) * s->k <= SMALL_DW;
}

struct part { int group, r0, n; };	/* rows r0..r0+n of a group */

/* The two factors of dW for a part, in buffers of good row lengths where their own would be bad.
 * ws has room for n * (padded(width) + padded(kg)). */
static struct factors
factors(struct dev *d, const struct conv_shape *s, struct part p, const void *x, const void *dy,
    void *ws)
{
	struct gather g = columns(s, p.group);
	int r0 = p.r0, n = p.n, kg = s->k / s->groups, width = s->size * s->size * g.cg;
	int ld = padded(width);
	struct factors f = { item(x, (size_t)r0 * s->c + g.off),
		item(dy, (size_t)r0 * s->k + p.group * kg), s->c, s->k };

	if (!plain(s) || ld > width) {
		RUN(d, gather_k, n * width, g, (const STORED *)x, r0, n, ld, (STORED *)ws);
		f.a = ws;
		f.lda = ld;
		ws = item(ws, (size_t)n * ld);
	}
	if (padded(kg) > kg) {
		RUN(d, rows_k, n * kg, f.b, s->k, n, kg, ws, padded(kg));
		f.b = ws;
		f.ldb = padded(kg);
	}
	return f;
}

static int
factor_width(const struct conv_shape *s)
{
	return padded(s->size * s->size * (s->c / s->groups)) + padded(s->k / s->groups);
}

/* dW small: parts of the rows, each with a dW of its own, added up in order. */
static void
wgrad_parts(struct dev *d, const struct conv_shape *s, const void *x, const void *dy, float *dw,
    float *ws)
{
	int rows = s->n * s->oh * s->ow, width = s->size * s->size * (s->c / s->groups);
	int kg = s->k / s->groups, m = task_rows(rows, factor_width(s)), cuts = ceil_div(rows, m);
	int parts = cuts < TASK_CUTS ? cuts : TASK_CUTS, each = ceil_div(cuts, parts) * m,
	    n = width * s->k;
	float *own = ws + (size_t)parts * (size_t)n;

	parts = ceil_div(rows, each);
	TASKS (d, t, parts * s->groups) {
		int p = t % parts, g = t / parts;
		int end = rows - p * each < each ? rows : (p + 1) * each;
		void *buf = item(own, WORKER * area(m, factor_width(s)));

		for (int r = p * each; r < end; r += m) {
			int len = end - r < m ? end - r : m;
			struct part cut = { g, r, len };
			struct factors f = factors(d, s, cut, x, dy, buf);

			gemm_dw(d, mnk(width, kg, len), &f, r > p * each,
			    ws + (size_t)p * n + g * kg, s->k);
		}
	}
	RUN(d, add_parts_k, n, ws, parts, n, dw);
}

/* dW large: the factors of many rows once for all threads, then slabs of dW. */
static int
shared_rows(const struct conv_shape *s)
{
	int rows = s->n * s->oh * s->ow, m = TASK_SHARED / factor_width(s);

	m = m < 64 ? 64 : m;
	return rows < m ? rows : m;
}

static void
wgrad_slabs(struct dev *d, const struct conv_shape *s, const void *x, const void *dy, float *dw,
    void *ws)
{
	int rows = s->n * s->oh * s->ow, width = s->size * s->size * (s->c / s->groups);
	int kg = s->k / s->groups, cuts = ceil_div(rows, shared_rows(s)), m = ceil_div(rows, cuts);
	int slab = ceil_div(ceil_div(width, TASK_CUTS), 16) * 16, slabs = ceil_div(width, slab);

	for (int c = 0; c < cuts * s->groups; c++) {
		int r0 = c % cuts * m, n = rows - r0 < m ? rows - r0 : m, g = c / cuts;
		struct part cut = { g, r0, n };
		struct factors f = factors(d, s, cut, x, dy, ws);

		TASKS (d, t, slabs) {
			int i = t * slab, len = width - i < slab ? width - i : slab;
			struct factors part = { item(f.a, i), f.b, f.lda, f.ldb };

			gemm_dw(d, mnk(len, kg, n), &part, 1, dw + (size_t)i * s->k + g * kg, s->k);
		}
	}
}

static void
wgrad(struct dev *d, const struct conv_shape *s, const void *x, const void *dy, float *dw, void *ws)
{
	if (small_dw(s))
		wgrad_parts(d, s, x, dy, dw, (float *)ws);
	else
		wgrad_slabs(d, s, x, dy, dw, ws);
}

static size_t
most(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t
workspace(struct dev *d, const struct conv_shape *s, int train)
{
	int rows = s->n * s->oh * s->ow, width = s->size * s->size * (s->c / s->groups);
	int ld = padded(width), wl = padded(s->k), fw = factor_width(s);
	size_t th = (size_t)d->threads, parts, need;

	need = (HALF || wl > s->k ? (size_t)width * wl : 0) + th * area(most_rows(rows, ld), ld);
	if (!train)
		return need * sizeof(STORED);
	for (int q = 0; q < s->stride_y * s->stride_x; q++) {
		struct class_plan p = class_of(s, q);
		int row = p.ld + s->c / s->groups;

		if (p.rows)
			need = most(need, (size_t)p.width * p.wl + th * area(most_rows(p.rows, row),
			    row));
	}
	if (!small_dw(s))
		return most(need, (size_t)shared_rows(s) * (size_t)fw) * sizeof(STORED);
	parts = TASK_CUTS * (size_t)width * s->k * sizeof(float) +
	    th * area(most_rows(rows, fw), fw) * sizeof(STORED);
	return most(need * sizeof(STORED), parts);
}

static int
fits(const struct dev *d, const struct conv_shape *s, enum conv_way way)
{
	(void)d;
	(void)s;
	(void)way;
	return 1;
}

const struct conv_kind BACKEND(convgemm) = { fits, { workspace, forward, dgrad, wgrad } };
