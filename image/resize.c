/* resize.c -- a picture to another size, and into a network input.
 *
 * Three ways, each that of somebody whose numbers must be met:
 * stb       stb_image_resize on 8 bits (Mitchell down, Catmull-Rom up), what training uses;
 * bilinear  half-pixel centres, 11-bit weights, the integer arithmetic of OpenCV's INTER_LINEAR;
 * darknet   float, corners on corners (source = i * (src-1)/(dst-1)), columns first, then rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stb_image_resize.h>

#include "image/image.h"

enum { BITS = 11, ONE = 1 << BITS };

/* For each of n outputs: the source pixel left of it and the weights of it and its neighbour.
 * clamp: beyond the border the weight of the border pixel is one (OpenCV does so for columns; for
 * rows it reads the border row twice with the weights as they are). */
struct tap { int at, next; int w0, w1; };

static struct tap *
taps(int src, int n, int clamp)
{
	struct tap *t = (struct tap *)xmalloc((size_t)n * sizeof *t);
	double scale = 1.0 / ((double)n / src);

	for (int i = 0; i < n; i++) {
		float f = (float)((i + 0.5) * scale - 0.5);
		int at = (int)floorf(f);

		f -= (float)at;
		if (clamp && at < 0)
			f = 0, at = 0;
		if (clamp && at >= src - 1)
			f = 0, at = src - 1;
		t[i].w0 = (int)lrintf((1.0f - f) * ONE);
		t[i].w1 = (int)lrintf(f * ONE);
		t[i].at = at < 0 ? 0 : at > src - 1 ? src - 1 : at;
		t[i].next = at + 1 < 0 ? 0 : at + 1 > src - 1 ? src - 1 : at + 1;
	}
	return t;
}

static void
widen(const unsigned char *row, const struct tap *t, int n, int *out)
{
	for (int i = 0; i < n; i++)
		for (int c = 0; c < 3; c++)
			out[i * 3 + c] =
			    row[t[i].at * 3 + c] * t[i].w0 + row[t[i].next * 3 + c] * t[i].w1;
}

static void
bilinear(const struct image *src, struct image *dst)
{
	struct tap *tx = taps(src->w, dst->w, 1), *ty = taps(src->h, dst->h, 0);
	int n = dst->w * 3, have[2] = { -1, -1 }, *row[2], *swap;

	row[0] = (int *)xmalloc((size_t)n * 2 * sizeof **row);
	row[1] = row[0] + n;
	for (int y = 0; y < dst->h; y++) {
		unsigned char *out = dst->px + (size_t)y * (size_t)n;
		int want[2] = { ty[y].at, ty[y].next };

		if (have[1] == want[0]) {
			swap = row[0], row[0] = row[1], row[1] = swap;
			have[1] = have[0];
			have[0] = want[0];
		}
		for (int k = 0; k < 2; k++)
			if (have[k] != want[k]) {
				widen(src->px + (size_t)want[k] * (size_t)src->w * 3, tx, dst->w,
				    row[k]);
				have[k] = want[k];
			}
		for (int i = 0; i < n; i++)
			out[i] = (unsigned char)(((ty[y].w0 * (row[0][i] >> 4) >> 16) +
			    (ty[y].w1 * (row[1][i] >> 4) >> 16) + 2) >> 2);
	}
	free(row[0] < row[1] ? row[0] : row[1]);
	free(tx);
	free(ty);
}

/* Corner-aligned taps in darknet's own float arithmetic.  The last column is the last pixel's.  The
 * last row has no second tap: where (n-1) * scale is rounded to a little less than the last pixel
 * (640x480 to 320x240) nearly nothing is left of it, and darknet's networks see a dark line. */
struct ftap { int at, next; float w0, w1; };

static struct ftap *
corner_taps(int src, int n, int rows)
{
	struct ftap *t = (struct ftap *)xmalloc((size_t)n * sizeof *t);
	float scale = n > 1 ? (float)(src - 1) / (float)(n - 1) : 0;

	for (int i = 0; i < n; i++) {
		float s = (float)i * scale, f;
		int at = (int)s;

		f = s - (float)at;
		if ((i == n - 1 && !rows) || at >= src - 1)
			at = src - 1, f = 0;
		t[i].at = at;
		t[i].next = at + (at < src - 1);
		t[i].w0 = 1 - f;
		t[i].w1 = i < n - 1 ? f : 0;
	}
	return t;
}

/* out: n rows of `stride` floats, the top left corner of the picture's place. */
static void
corner(const struct image *src, int nw, int nh, float *out, size_t stride)
{
	struct ftap *tx = corner_taps(src->w, nw, 0), *ty = corner_taps(src->h, nh, 1);
	size_t n = (size_t)nw * 3;
	float *col = (float *)xmalloc((size_t)src->h * n * sizeof *col);

	for (int y = 0; y < src->h; y++) {
		const unsigned char *row = src->px + (size_t)y * (size_t)src->w * 3;

		for (int x = 0; x < nw; x++)
			for (int c = 0; c < 3; c++)
				col[(size_t)y * n + (size_t)(x * 3 + c)] =
				    tx[x].w0 * ((float)row[tx[x].at * 3 + c] / 255.0f) +
				    tx[x].w1 * ((float)row[tx[x].next * 3 + c] / 255.0f);
	}
	for (int y = 0; y < nh; y++) {
		const float *a = col + (size_t)ty[y].at * n, *b = col + (size_t)ty[y].next * n;

		for (size_t i = 0; i < n; i++)
			out[(size_t)y * stride + i] = ty[y].w0 * a[i] + ty[y].w1 * b[i];
	}
	free(col);
	free(tx);
	free(ty);
}

static void
corner_8bit(const struct image *src, struct image *dst)
{
	size_t n = (size_t)dst->w * (size_t)dst->h * 3;
	float *f = (float *)xmalloc(n * sizeof *f);

	corner(src, dst->w, dst->h, f, (size_t)dst->w * 3);
	for (size_t i = 0; i < n; i++)
		dst->px[i] = (unsigned char)lrintf(f[i] * 255.0f);
	free(f);
}

void
image_resize(const struct image *src, struct image *dst, enum resize_kind kind)
{
	if (src->w == dst->w && src->h == dst->h)
		memcpy(dst->px, src->px, (size_t)src->w * (size_t)src->h * 3);
	else if (kind == RESIZE_BILINEAR)
		bilinear(src, dst);
	else if (kind == RESIZE_DARKNET)
		corner_8bit(src, dst);
	else if (!stbir_resize_uint8(src->px, src->w, src->h, 0, dst->px, dst->w, dst->h, 0, 3))
		die(1, "out of memory while resizing %dx%d to %dx%d", src->w, src->h, dst->w,
		    dst->h);
}

struct fit
fit_letterbox(int pic_w, int pic_h, int net_w, int net_h)
{
	struct fit f;

	if ((float)net_w / (float)pic_w < (float)net_h / (float)pic_h) {
		f.nw = net_w;
		f.nh = (int)((int64_t)pic_h * net_w / pic_w);
	} else {
		f.nh = net_h;
		f.nw = (int)((int64_t)pic_w * net_h / pic_h);
	}
	f.nw = f.nw < 1 ? 1 : f.nw > net_w ? net_w : f.nw;
	f.nh = f.nh < 1 ? 1 : f.nh > net_h ? net_h : f.nh;
	f.dx = (net_w - f.nw) / 2;
	f.dy = (net_h - f.nh) / 2;
	f.sx = (double)f.nw / pic_w;
	f.sy = (double)f.nh / pic_h;
	return f;
}

static int
whole(int side, int unit)
{
	return (side + unit - 1) / unit * unit;
}

struct fit
fit_rect(int pic_w, int pic_h, int net_w, int net_h, int unit, int *w, int *h)
{
	struct fit f = fit_letterbox(pic_w, pic_h, net_w, net_h);

	*w = whole(f.nw, unit);
	*h = whole(f.nh, unit);
	f.dx = (*w - f.nw) / 2;
	f.dy = (*h - f.nh) / 2;
	return f;
}

struct fit
fit_stretch(int pic_w, int pic_h, int net_w, int net_h)
{
	struct fit f = { (double)net_w / pic_w, (double)net_h / pic_h, 0, 0, net_w, net_h };

	return f;
}

void
image_to_net(const struct image *im, struct fit fit, enum resize_kind kind, int net_w, int net_h,
    float *out)
{
	float grey = kind == RESIZE_DARKNET ? 0.5f : 114.0f / 255.0f, of[256];
	size_t stride = (size_t)net_w * 3, all = stride * (size_t)net_h;
	float *at = out + (size_t)fit.dy * stride + (size_t)fit.dx * 3;
	struct image small = { fit.nw, fit.nh, NULL };

	if (fit.nw < net_w || fit.nh < net_h)
		for (size_t i = 0; i < all; i++)
			out[i] = grey;
	if (kind == RESIZE_DARKNET) {
		corner(im, fit.nw, fit.nh, at, stride);
		return;
	}
	for (int i = 0; i < 256; i++)
		of[i] = (float)i / 255.0f;
	if (im->w != fit.nw || im->h != fit.nh) {
		small = image_new(fit.nw, fit.nh);
		image_resize(im, &small, kind);
	}
	for (int y = 0; y < fit.nh; y++) {
		const unsigned char *row = (small.px ? small.px : im->px) +
		    (size_t)y * (size_t)fit.nw * 3;

		for (int i = 0; i < fit.nw * 3; i++)
			at[(size_t)y * stride + (size_t)i] = of[row[i]];
	}
	image_free(&small);
}
