/* augment.c -- a decoded picture becomes a training sample.
 *
 * A sample is a function of its pictures and of (seed, t): every draw is a counter-based number
 * keyed by (seed, t, purpose, count), so neither threads nor ranks nor a resumed run change it.
 * Each kind of augmentation is a geometry, a matrix from picture to output per picture, and a
 * change of colour; warp.c makes the pixels of it in one pass, and the same matrices move the
 * boxes.
 *
 * none              letterbox (or stretch) with the resize that detection uses
 * darknet           pjreddie's: aspect jitter, placed at random on 0.5 grey, additive hue
 * ultralytics-2019  gains of saturation and value, letterbox on 114, affine about the centre
 * mosaic            ours: four pictures round a point, or one; zoom and shift; no canvas, so a
 *                   picture shows as far as it reaches, where the original cuts it at 2s x 2s
 *
 * Mosaic's partners are drawn from the AUG_WINDOW samples before t in the order of the run, so
 * that pictures decoded lately can be used again. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/int.h"
#include "base/fn.h"

enum { DRAW_JITTER = 1, DRAW_PLACE, DRAW_TONE, DRAW_FLIP, DRAW_SHUFFLE, DRAW_AFFINE, DRAW_MOSAIC,
	DRAW_PARTNER };		/* purposes */

struct job {
	const struct augment *a;
	uint64_t seed;
	long t;
	int w, h;
	struct truth *truth;
	int ntruth;
	/* which boxes stay: sides in pixels, visible share, aspect */
	double min_w, min_h, min_share, max_aspect, hull;
	int of_old; /* the share is of the box in the letterbox, not of what it became */
};
struct affine { double m[6]; };	/* x' = m0 x + m1 y + m2, y' = m3 x + m4 y + m5 */

void
augment_defaults(struct augment *a, enum aug_kind kind)
{
	struct augment none = { .kind = kind, .saturation = 1, .exposure = 1 };

	*a = none;
	if (kind == AUG_NONE)
		return;
	a->flip = .5;
	if (kind == AUG_DARKNET) {
		a->jitter = .2;
		a->hue = .1;
		a->saturation = a->exposure = 1.5;
	} else if (kind == AUG_ULTRA2019) {
		a->degrees = 5;
		a->translate = a->scale = .1;
		a->shear = 2;
		a->hsv_s = a->hsv_v = .5;
	} else {
		a->mosaic = a->scale = .5;
		a->translate = .1;
		a->hsv_h = .015;
		a->hsv_s = .7;
		a->hsv_v = .4;
	}
}

/* ---- draws -------------------------------------------------------------------------------- */

/* [0, 1) */
static double
draw(uint64_t seed, long t, int purpose, int number)
{
	uint32_t word[4];

	fn_philox(seed, (uint64_t)t, (uint64_t)purpose << 32 | (uint32_t)number, word);
	return (word[0] + word[1] / 4294967296.) / 4294967296.;
}

static double
between(const struct job *j, int purpose, int number, double lo, double hi)
{
	return lo + (hi - lo) * draw(j->seed, j->t, purpose, number);
}

/* A factor between 1 and s or the inverse of one, at even odds. */
static double
factor(const struct job *j, int number, double s)
{
	double f = s > 0 ? between(j, DRAW_TONE, number, 1, s) : 1;

	return draw(j->seed, j->t, DRAW_TONE, number + 1) < .5 ? f : 1 / f;
}

int
augment_picks(const struct augment *a, uint64_t seed, long t, long pick[AUG_PICTURES])
{
	pick[0] = t;
	if (a->kind != AUG_MOSAIC || (a->mosaic_last > 0 && t >= a->mosaic_last) ||
	    draw(seed, t, DRAW_MOSAIC, 0) >= a->mosaic)
		return 1;
	for (int i = 1; i < AUG_PICTURES; i++) {
		long back = 1 + (long)(draw(seed, t, DRAW_PARTNER, i) * AUG_WINDOW);

		pick[i] = t >= AUG_WINDOW ? t - back : t + back; /* the first have none before */
	}
	return AUG_PICTURES;
}

/* ---- matrices ----------------------------------------------------------------------------- */

/* First b, then a. */
static struct affine
after(struct affine a, struct affine b)
{
	struct affine r;

	for (int i = 0; i < 6; i += 3)
		for (int k = 0; k < 3; k++)
			r.m[i + k] =
			    a.m[i] * b.m[k] + a.m[i + 1] * b.m[3 + k] + (k == 2 ? a.m[i + 2] : 0);
	return r;
}

static struct affine
scale_shift(double sx, double sy, double dx, double dy)
{
	struct affine r = { { sx, 0, dx, 0, sy, dy } };

	return r;
}

/* The paste of a picture whose edges (0..w) go to the output's by f: backwards, and from edges to
 * indices of pixels. */
static struct paste
paste_of(const struct image *im, struct affine f)
{
	const double *m = f.m;
	double d = m[0] * m[4] - m[1] * m[3];
	double a = m[4] / d, b = -m[1] / d, c = -m[3] / d, e = m[0] / d;
	struct paste p = { im, { a, b, 0, c, e, 0 }, { -.5, -.5 }, { im->w - .5, im->h - .5 } };

	p.m[2] = a * (.5 - m[2]) + b * (.5 - m[5]) - .5;
	p.m[5] = c * (.5 - m[2]) + e * (.5 - m[5]) - .5;
	return p;
}

/* ---- boxes -------------------------------------------------------------------------------- */

static double
clamp(double x, double lo, double hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

static void
keep(struct job *j, int cls, double x0, double y0, double x1, double y1)
{
	struct truth *t = &j->truth[j->ntruth++];

	t->image = 0;
	t->cls = (float)cls;
	t->x = (float)((x0 + x1) / 2 / j->w);
	t->y = (float)((y0 + y1) / 2 / j->h);
	t->w = (float)((x1 - x0) / j->w);
	t->h = (float)((y1 - y0) / j->h);
}

/* The hull of a box's moved corners, shrunk by j->hull, cut at the output; then the filter.  zoom:
 * what the first step (letterbox) multiplied sides by. */
static void
move_box(struct job *j, const struct box *b, struct affine f, double zoom)
{
	double x0 = INFINITY, y0 = INFINITY, x1 = -INFINITY, y1 = -INFINITY, area, w, h;

	for (int i = 0; i < 4; i++) {
		double x = b->x + (i & 1 ? b->w : 0), y = b->y + (i & 2 ? b->h : 0);
		double u = f.m[0] * x + f.m[1] * y + f.m[2], v = f.m[3] * x + f.m[4] * y + f.m[5];

		x0 = fmin(x0, u);
		x1 = fmax(x1, u);
		y0 = fmin(y0, v);
		y1 = fmax(y1, v);
	}
	w = (x1 - x0) * (1 - j->hull) / 2;
	h = (y1 - y0) * (1 - j->hull) / 2;
	area = j->of_old ? b->w * b->h * zoom * zoom : (x1 - x0) * (y1 - y0);
	x0 = clamp(x0 + w, 0, j->w);
	x1 = clamp(x1 - w, 0, j->w);
	y0 = clamp(y0 + h, 0, j->h);
	y1 = clamp(y1 - h, 0, j->h);
	w = x1 - x0;
	h = y1 - y0;
	if (w > j->min_w && h > j->min_h && w * h > j->min_share * area &&
	    fmax(w / h, h / w) < j->max_aspect)
		keep(j, b->cls, x0, y0, x1, y1);
}

static void
move_boxes(struct job *j, const struct sample *s, struct affine f, double zoom)
{
	for (int i = 0; i < s->nbox; i++)
		if (!(s->box[i].flags & (BOX_CROWD | BOX_DIFFICULT)))
			move_box(j, &s->box[i], f, zoom);
}

/* Any order is as likely, so that a limit does not always drop the same. */
static void
shuffle(struct job *j)
{
	for (int i = j->ntruth - 1; i > 0; i--) {
		int k = (int)(draw(j->seed, j->t, DRAW_SHUFFLE, i) * (i + 1));
		struct truth swap = j->truth[i];

		j->truth[i] = j->truth[k];
		j->truth[k] = swap;
	}
}

/* ---- the kinds ---------------------------------------------------------------------------- */

static void
plain(struct job *j, const struct sample *s, float *out)
{
	struct fit f = j->a->stretch ? fit_stretch(s->im.w, s->im.h, j->w, j->h) :
	    fit_letterbox(s->im.w, s->im.h, j->w, j->h);

	image_to_net(&s->im, f, j->a->resize, j->w, j->h, out);
	move_boxes(j, s, scale_shift(f.sx, f.sy, f.dx, f.dy), 1);
}

/* data.c of darknet: the aspect is compared with 1, not with the input's; source column of output x
 * is (x - dx) * w / nw, without the half pixel. */
static void
darknet(struct job *j, const struct sample *s, struct warp *wp, float *out)
{
	const struct augment *a = j->a;
	double ar = s->im.w * (1 + between(j, DRAW_JITTER, 0, -a->jitter, a->jitter)) /
	    (s->im.h * (1 + between(j, DRAW_JITTER, 1, -a->jitter, a->jitter)));
	int flip = draw(j->seed, j->t, DRAW_FLIP, 0) < a->flip;
	int nw = (int)(ar < 1 ? j->h * ar : j->w), nh = (int)(ar < 1 ? j->h : j->w / ar), dx, dy;
	struct canvas c = { j->w, j->h, 127.5f, 0, 0, 1, { 0, 1, 1, 1 } };
	struct affine f;
	struct paste p = { .im = &s->im, .hi = { s->im.w, s->im.h } };

	nw = nw < 1 ? 1 : nw;
	nh = nh < 1 ? 1 : nh;
	dx = (int)between(j, DRAW_PLACE, 0, 0, j->w - nw);
	dy = (int)between(j, DRAW_PLACE, 1, 0, j->h - nh);
	c.tone.hue = (float)between(j, DRAW_TONE, 0, -a->hue, a->hue);
	c.tone.sat = (float)factor(j, 1, a->saturation);
	c.tone.val = (float)factor(j, 3, a->exposure);
	f = scale_shift((double)nw / s->im.w, (double)nh / s->im.h, dx, dy);
	p.m[0] = (double)s->im.w / nw;
	p.m[2] = -dx * p.m[0];
	p.m[4] = (double)s->im.h / nh;
	p.m[5] = -dy * p.m[4];
	if (flip) {
		f = after(scale_shift(-1, 1, j->w, 0), f);
		p.m[2] += (j->w - 1) * p.m[0];
		p.m[0] = -p.m[0];
	}
	warp_draw(wp, &c, &p, 1, out);
	j->min_w = .001 * j->w;
	j->min_h = .001 * j->h;
	move_boxes(j, s, f, 1);
	shuffle(j);
}

/* Turn and zoom about the centre, shear, then shift: from a plane with its centre at 0. */
static struct affine
about_centre(const struct job *j, double *hull)
{
	const struct augment *a = j->a;
	double angle = between(j, DRAW_AFFINE, 0, -a->degrees, a->degrees) * M_PI / 180;
	double zoom = between(j, DRAW_AFFINE, 1, 1 - a->scale, 1 + a->scale);
	double dx = between(j, DRAW_AFFINE, 2, .5 - a->translate, .5 + a->translate) * j->w;
	double dy = between(j, DRAW_AFFINE, 3, .5 - a->translate, .5 + a->translate) * j->h;
	double kx = tan(between(j, DRAW_AFFINE, 4, -a->shear, a->shear) * M_PI / 180);
	double ky = tan(between(j, DRAW_AFFINE, 5, -a->shear, a->shear) * M_PI / 180);
	struct affine turn = { { cos(angle), sin(angle), 0, -sin(angle), cos(angle), 0 } };
	struct affine shear = { { 1, kx, dx, ky, 1, dy } };

	zoom = zoom < .05 ? .05 : zoom;
	for (int i = 0; i < 6; i++)
		turn.m[i] *= zoom;
	*hull = sqrt(fmax(fabs(sin(angle)), fabs(cos(angle))));
	turn = after(shear, turn);
	if (draw(j->seed, j->t, DRAW_FLIP, 0) < a->flip)
		turn = after(scale_shift(-1, 1, j->w, 0), turn);
	return turn;
}

/* One picture in the middle of the plane, or four with a corner each at (cx, cy). */
static struct affine
on_plane(const struct job *j, const struct image *im, int i, int n, double cx, double cy,
    double *zoom)
{
	double r = fmin((double)j->w / im->w, (double)j->h / im->h), w = r * im->w, h = r * im->h;

	*zoom = r;
	if (n == 1)
		return scale_shift(r, r, -w / 2, -h / 2);
	return scale_shift(r, r, cx - (i & 1 ? 0 : w), cy - (i & 2 ? 0 : h));
}

static void
affine(struct job *j, const struct sample *s, int n, struct warp *wp, float *out)
{
	const struct augment *a = j->a;
	struct canvas c = { j->w, j->h, 114, 1, 1, 0, { 0, 1, 1, 0 } };
	struct paste p[AUG_PICTURES];
	double hull, zoom, cx, cy;
	struct affine move = about_centre(j, &hull);
	int first = (int)(draw(j->seed, j->t, DRAW_MOSAIC, 1) * n);

	cx = between(j, DRAW_MOSAIC, 2, -.5, .5) * j->w;
	cy = between(j, DRAW_MOSAIC, 3, -.5, .5) * j->h;
	c.tone.hue = (float)between(j, DRAW_TONE, 0, -a->hsv_h, a->hsv_h);
	c.tone.sat = (float)between(j, DRAW_TONE, 1, 1 - a->hsv_s, 1 + a->hsv_s);
	c.tone.val = (float)between(j, DRAW_TONE, 2, 1 - a->hsv_v, 1 + a->hsv_v);
	j->max_aspect = 100;
	j->min_share = .1;
	j->min_w = j->min_h = 2;
	if (a->kind == AUG_ULTRA2019) {
		j->max_aspect = 10;
		j->min_w = j->min_h = 4;
		j->hull = hull;
		j->of_old = 1;
	}
	for (int i = 0; i < n; i++) {	/* sample t itself in any corner */
		struct affine f = on_plane(j, &s[i].im, (i + first) % n, n, cx, cy, &zoom);

		f = after(move, f);
		p[i] = paste_of(&s[i].im, f);
		move_boxes(j, &s[i], f, zoom);
	}
	warp_draw(wp, &c, p, n, out);
}

int
augment_sample(const struct augment *a, uint64_t seed, long t, const struct sample *s, int n, int w,
    int h, int max, struct warp *wp, float *out, struct truth *truth)
{
	struct job j = { .a = a, .seed = seed, .t = t, .w = w, .h = h, .truth = truth, .hull = 1,
		.max_aspect = INFINITY };

	assert(n >= 1 && n <= AUG_PICTURES);
	if (a->kind == AUG_NONE)
		plain(&j, s, out);
	else if (a->kind == AUG_DARKNET)
		darknet(&j, s, wp, out);
	else
		affine(&j, s, n, wp, out);
	if (max <= 0 || j.ntruth <= max)
		return j.ntruth;
	shuffle(&j);
	return max;
}
