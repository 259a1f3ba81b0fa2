/* warp.c -- pictures drawn into a network input in one pass: place, blend, tone, to float.
 *
 * Each picture comes with the map from output pixels to its own (affine, indices of pixels), so
 * that resize, letterbox, rotation, mosaic and mirror are one bilinear reading of the source
 * and no canvas is ever made.  Along an output row a map is linear, so the part of the row that
 * a picture covers is one span.  Where the map does not turn, the two source rows are blended
 * first (a loop over bytes that the compiler vectorises) and the columns read from the blend.
 * A source twice as fine as the output or more is halved first, as often as that holds, because
 * two taps would skip pixels.
 *
 * A row lives as three planes of floats 0..255: the colour change is arithmetic on them without
 * a branch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/int.h"

struct placed {			/* a picture as it is sampled, perhaps halved */
	const unsigned char *px;
	int w, h, flat;			/* flat: m[1] = m[3] = 0 */
	double m[6], lo[2], hi[2];
	int *at;			/* flat: the left tap of each column, and the weight */
	float *frac;			/* of its right neighbour */
	unsigned char *half;
	size_t cap_half;
};
struct warp {
	struct placed p[AUG_PICTURES];
	float *row, *line;		/* three planes of w; a blend of two source rows */
	size_t cap_row, cap_line, cap_taps;
	int *taps;
	float *fracs;
};

struct warp *
warp_open(void)
{
	return (struct warp *)xcalloc(1, sizeof(struct warp));
}

void
warp_close(struct warp *wp)
{
	if (!wp)
		return;
	for (int i = 0; i < AUG_PICTURES; i++)
		free(wp->p[i].half);
	free(wp->row);
	free(wp->line);
	free(wp->taps);
	free(wp->fracs);
	free(wp);
}

/* ---- getting ready ------------------------------------------------------------------------ */

/* Half of src (sides rounded up, the last row and column read twice) into dst, which may be src. */
static void
halve(const unsigned char *src, int w, int h, unsigned char *dst)
{
	int hw = (w + 1) / 2, hh = (h + 1) / 2;

	for (int y = 0; y < hh; y++) {
		const unsigned char *a = src + (size_t)(2 * y) * (size_t)w * 3;
		const unsigned char *b = 2 * y + 1 < h ? a + (size_t)w * 3 : a;
		unsigned char *o = dst + (size_t)y * (size_t)hw * 3;

		for (int x = 0; x < hw; x++) {
			int l = x * 6, r = 2 * x + 1 < w ? l + 3 : l;

			for (int c = 0; c < 3; c++)
				o[x * 3 + c] = (unsigned char)((a[l + c] + a[r + c] + b[l + c] +
								   b[r + c] + 2) >>
							       2);
		}
	}
}

/* Source indices in a picture halved: (s + 1/2) / 2 - 1/2. */
static void
shrink(struct placed *p)
{
	size_t need = (size_t)((p->w + 1) / 2) * (size_t)((p->h + 1) / 2) * 3;

	if (!p->half || p->px != p->half)
		p->half = (unsigned char *)xgrow(p->half, &p->cap_half, need, 1);
	halve(p->px, p->w, p->h, p->half);
	p->px = p->half;
	p->w = (p->w + 1) / 2;
	p->h = (p->h + 1) / 2;
	for (int i = 0; i < 6; i++)
		p->m[i] /= 2;
	for (int i = 0; i < 2; i++) {
		p->m[2 + 3 * i] -= .25;
		p->lo[i] = p->lo[i] / 2 - .25;
		p->hi[i] = p->hi[i] / 2 - .25;
	}
}

static void
place(struct warp *wp, int i, const struct paste *from, const struct canvas *c)
{
	struct placed *p = &wp->p[i];
	float last;

	p->px = from->im->px;
	p->w = from->im->w;
	p->h = from->im->h;
	memcpy(p->m, from->m, sizeof p->m);
	memcpy(p->lo, from->lo, sizeof p->lo);
	memcpy(p->hi, from->hi, sizeof p->hi);
	while (c->halve && hypot(p->m[0], p->m[3]) >= 2 && hypot(p->m[1], p->m[4]) >= 2 &&
	    p->w > 1 && p->h > 1)
		shrink(p);
	p->flat = p->m[1] == 0 && p->m[3] == 0;
	p->at = wp->taps + (size_t)i * (size_t)c->w;
	p->frac = wp->fracs + (size_t)i * (size_t)c->w;
	wp->line =
	    (float *)xgrow(wp->line, &wp->cap_line, ((size_t)p->w + 1) * 3, sizeof *wp->line);
	if (!p->flat)
		return;
	last = (float)(p->w - 1);
	for (int x = 0; x < c->w; x++) {
		float s = (float)(p->m[0] * x + p->m[2]);

		s = s < 0 ? 0 : s > last ? last : s;
		p->at[x] = (int)s;
		p->frac[x] = s - (float)p->at[x];
	}
}

/* ---- one row ------------------------------------------------------------------------------ */

static int
inside(const struct placed *p, int x, int y)
{
	double sx = p->m[0] * x + p->m[1] * y + p->m[2], sy = p->m[3] * x + p->m[4] * y + p->m[5];

	return sx >= p->lo[0] && sx < p->hi[0] && sy >= p->lo[1] && sy < p->hi[1];
}

/* The columns [*x0, *x1) of row y that the picture covers; 0: none. */
static int
span(const struct placed *p, int w, int y, int *x0, int *x1)
{
	double a = 0, b = w;

	for (int i = 0; i < 2; i++) {
		double k = p->m[3 * i], c = p->m[3 * i + 1] * y + p->m[3 * i + 2], u, v;

		if (fabs(k) < 1e-12) {
			if (c < p->lo[i] || c >= p->hi[i])
				return 0;
			continue;
		}
		u = (p->lo[i] - c) / k;
		v = (p->hi[i] - c) / k;
		a = fmax(a, fmin(u, v));
		b = fmin(b, fmax(u, v));
	}
	if (a >= b)
		return 0;
	*x0 = (int)fmax(0, ceil(a) - 1);	/* rounding: the ends are looked at once more */
	*x1 = (int)fmin(w, ceil(b) + 1);
	while (*x0 < *x1 && !inside(p, *x0, y))
		++*x0;
	while (*x0 < *x1 && !inside(p, *x1 - 1, y))
		--*x1;
	return *x0 < *x1;
}

static void
blend_rows(const unsigned char *restrict a, const unsigned char *restrict b, float f, int n,
    float *restrict out)
{
	for (int i = 0; i < n; i++)
		out[i] = (float)a[i] + f * (float)(b[i] - a[i]);
}

static void
draw_flat(const struct placed *p, int y, int x0, int x1, float *line, float *restrict r,
    float *restrict g, float *restrict b)
{
	double s = fmin(fmax(p->m[4] * y + p->m[5], 0), p->h - 1);
	int iy = (int)s, left = p->at[x0], right = p->at[x1 - 1], n;
	const unsigned char *a = p->px + (size_t)iy * (size_t)p->w * 3;
	const unsigned char *c = iy + 1 < p->h ? a + (size_t)p->w * 3 : a;

	if (left > right)		/* mirrored */
		n = left, left = right, right = n;
	n = right + 2 <= p->w ? right + 2 : p->w;
	blend_rows(a + left * 3, c + left * 3, (float)(s - iy), (n - left) * 3, line + left * 3);
	if (n < right + 2)
		memcpy(line + n * 3, line + (n - 1) * 3, 3 * sizeof *line);
	for (int x = x0; x < x1; x++) {
		const float *q = line + p->at[x] * 3;
		float f = p->frac[x];

		r[x] = q[0] + f * (q[3] - q[0]);
		g[x] = q[1] + f * (q[4] - q[1]);
		b[x] = q[2] + f * (q[5] - q[2]);
	}
}

static void
draw_turned(const struct placed *p, int y, int x0, int x1, float *r, float *g, float *b)
{
	float ax = (float)p->m[0], ay = (float)p->m[3], wide = (float)(p->w - 1);
	double cx = p->m[0] * x0 + p->m[1] * y + p->m[2], cy = p->m[3] * x0 + p->m[4] * y + p->m[5];
	float fcx = (float)cx, fcy = (float)cy, high = (float)(p->h - 1);

	for (int x = x0; x < x1; x++) {
		float sx = fcx + ax * (float)(x - x0), sy = fcy + ay * (float)(x - x0), v[3];
		int ix, iy, dx, dy;
		const unsigned char *q;

		sx = sx < 0 ? 0 : sx > wide ? wide : sx;
		sy = sy < 0 ? 0 : sy > high ? high : sy;
		ix = (int)sx;
		iy = (int)sy;
		sx -= (float)ix;
		sy -= (float)iy;
		dx = ix + 1 < p->w ? 3 : 0;
		dy = iy + 1 < p->h ? p->w * 3 : 0;
		q = p->px + ((size_t)iy * (size_t)p->w + (size_t)ix) * 3;
		for (int c = 0; c < 3; c++) {
			float t = (float)q[c] + sx * (float)(q[dx + c] - q[c]);
			float u = (float)q[dy + c] + sx * (float)(q[dy + dx + c] - q[dy + c]);

			v[c] = t + sy * (u - t);
		}
		r[x] = v[0];
		g[x] = v[1];
		b[x] = v[2];
	}
}

/* Hue turned, saturation and value multiplied.  With V the largest channel and C its distance from
 * the smallest, saturation is C/V, and a channel is V - VS max(0, min(k, 4 - k, 1)), where
 * k = (n + hue) mod 6 with the hue in sixths and n = 5, 3, 1 for red, green, blue. */
static void
tone(const struct tone *t, int n, float *restrict r, float *restrict g, float *restrict b)
{
	float turn = t->hue * 6, sat = t->sat, val = t->val, most = t->open ? INFINITY : 1;
	float top = t->open ? INFINITY : 255;

	for (int i = 0; i < n; i++) {
		float x = r[i], y = g[i], z = b[i];
		float hi = x > y ? x : y, lo = x > y ? y : x, c, inv, h, s, v, d, k;

		hi = hi > z ? hi : z;
		lo = lo < z ? lo : z;
		c = hi - lo;
		inv = 1 / (c > 0 ? c : 1);
		h = hi == z ? 4 + (x - y) * inv : 0;
		h = hi == y ? 2 + (z - x) * inv : h;
		h = hi == x ? (y - z) * inv : h;
		h += turn + 12;			/* above 0, so that the integer part is the floor */
		s = sat * c / (hi > 0 ? hi : 1);
		s = s < most ? s : most;
		v = val * hi;
		v = v < top ? v : top;
		d = v * s;
#define CHANNEL(out, n) \
		k = (n) + h; \
		k -= 6 * (float)(int)(k * (1.f / 6)); \
		k = k < 4 - k ? k : 4 - k; \
		k = k < 1 ? k : 1; \
		k = v - d * (k > 0 ? k : 0); \
		k = k > 0 ? k : 0; \
		out[i] = k < 255 ? k : 255
		CHANNEL(r, 5);
		CHANNEL(g, 3);
		CHANNEL(b, 1);
#undef CHANNEL
	}
}

static void
write_row(const float *restrict r, const float *restrict g, const float *restrict b, int n,
    int eight, float *restrict out)
{
	if (eight)
		for (int i = 0; i < n; i++) {
			out[i * 3] = (float)(int)(r[i] + .5f) / 255.0f;
			out[i * 3 + 1] = (float)(int)(g[i] + .5f) / 255.0f;
			out[i * 3 + 2] = (float)(int)(b[i] + .5f) / 255.0f;
		}
	else
		for (int i = 0; i < n; i++) {
			out[i * 3] = r[i] / 255.0f;
			out[i * 3 + 1] = g[i] / 255.0f;
			out[i * 3 + 2] = b[i] / 255.0f;
		}
}

void
warp_draw(struct warp *wp, const struct canvas *c, const struct paste *from, int n, float *out)
{
	size_t w = (size_t)c->w, cap = wp->cap_taps;
	int toned = c->tone.hue != 0 || c->tone.sat != 1 || c->tone.val != 1;
	float *r, *g, *b;

	wp->row = (float *)xgrow(wp->row, &wp->cap_row, 3 * w, sizeof *wp->row);
	wp->taps = (int *)xgrow(wp->taps, &cap, AUG_PICTURES * w, sizeof *wp->taps);
	wp->fracs = (float *)xgrow(wp->fracs, &wp->cap_taps, AUG_PICTURES * w, sizeof *wp->fracs);
	r = wp->row;
	g = r + w;
	b = g + w;
	for (int i = 0; i < n; i++)
		place(wp, i, &from[i], c);
	for (int y = 0; y < c->h; y++) {
		for (size_t i = 0; i < 3 * w; i++)
			r[i] = c->grey;
		for (int i = 0; i < n; i++) {
			int x0, x1;

			if (!span(&wp->p[i], c->w, y, &x0, &x1))
				continue;
			if (wp->p[i].flat)
				draw_flat(&wp->p[i], y, x0, x1, wp->line, r, g, b);
			else
				draw_turned(&wp->p[i], y, x0, x1, r, g, b);
			if (toned && !c->tone_all)
				tone(&c->tone, x1 - x0, r + x0, g + x0, b + x0);
		}
		if (toned && c->tone_all)
			tone(&c->tone, c->w, r, g, b);
		write_row(r, g, b, c->w, c->eight, out + (size_t)y * 3 * w);
	}
}
