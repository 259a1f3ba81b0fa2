/* t-augment.c -- pixels against slow double arithmetic; boxes against the colours they frame. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "loader/int.h"
#include "base/fn.h"
#include "test/tap.h"

static double
rnd(uint64_t n)
{
	uint32_t w[4];

	fn_philox(99, 0, n, w);
	return w[0] / 4294967296.;
}

static struct image
noise(int w, int h)
{
	struct image im = image_new(w, h);

	for (int i = 0; i < w * h * 3; i++)
		im.px[i] = (unsigned char)(rnd((uint64_t)i) * 256);
	return im;
}

/* ---- pixels ------------------------------------------------------------------------------- */

static double
texel(const struct image *im, int x, int y, int c)
{
	x = x < 0 ? 0 : x >= im->w ? im->w - 1 : x;
	y = y < 0 ? 0 : y >= im->h ? im->h - 1 : y;
	return im->px[(y * im->w + x) * 3 + c];
}

/* What warp_draw promises, in the plainest way.  Returns -1 outside the picture. */
static double
expected(const struct paste *p, int x, int y, int c)
{
	double sx = p->m[0] * x + p->m[1] * y + p->m[2], sy = p->m[3] * x + p->m[4] * y + p->m[5];
	double fx, fy;

	if (sx < p->lo[0] || sx >= p->hi[0] || sy < p->lo[1] || sy >= p->hi[1])
		return -1;
	fx = sx - floor(sx);
	fy = sy - floor(sy);
	return (texel(p->im, (int)floor(sx), (int)floor(sy), c) * (1 - fx) +
	    texel(p->im, (int)floor(sx) + 1, (int)floor(sy), c) * fx) * (1 - fy) +
	    (texel(p->im, (int)floor(sx), (int)floor(sy) + 1, c) * (1 - fx) +
	    texel(p->im, (int)floor(sx) + 1, (int)floor(sy) + 1, c) * fx) * fy;
}

static void
sampling(void)
{
	enum { W = 47, H = 31 };
	static float out[W * H * 3];
	struct image im = noise(23, 37);
	struct warp *wp = warp_open();
	struct canvas c = { W, H, 114, 0, 0, 0, { 0, 1, 1, 0 } };
	double worst[2] = { 0, 0 };
	long covered = 0;

	for (int turn = 0; turn < 200; turn++) {
		struct paste p = { &im, { 0 }, { -.5, -.5 }, { im.w - .5, im.h - .5 } };
		int flat = turn & 1;

		for (int i = 0; i < 6; i++)
			p.m[i] = (rnd((uint64_t)(turn * 6 + i)) - .5) * (i % 3 == 2 ? 40 : 4);
		if (flat)
			p.m[1] = p.m[3] = 0;
		warp_draw(wp, &c, &p, 1, out);
		for (int y = 0; y < H; y++)
			for (int x = 0; x < W; x++)
				for (int k = 0; k < 3; k++) {
					double want = expected(&p, x, y, k);
					double got = out[(y * W + x) * 3 + k] * 255.;

					covered += want >= 0;
					worst[flat] =
					    fmax(worst[flat], fabs(got - (want < 0 ? 114 : want)));
				}
	}
	ok(worst[1] < .01 && covered > 20000,
	    "straight maps, also mirrored: as slow arithmetic has it");
	ok(worst[0] < .01, "turned maps likewise");
	printf("# worst %g %g of 255, %ld values covered\n", worst[1], worst[0], covered);
	warp_close(wp);
	image_free(&im);
}

/* A fine source is halved before: stripes one pixel wide come out grey. */
static void
halving(void)
{
	enum { S = 40 };
	static float out[S * S * 3];
	struct image im = image_new(S * 4, S * 4);
	struct warp *wp = warp_open();
	struct canvas c = { S, S, 114, 0, 1, 0, { 0, 1, 1, 0 } };
	struct paste p = { &im, { 4, 0, 1.5, 0, 4, 1.5 }, { -.5, -.5 },
		{ S * 4 - .5, S * 4 - .5 } };
	int good = 1;

	for (int i = 0; i < im.w * im.h * 3; i++)
		im.px[i] = i / 3 % 2 ? 200 : 0;
	warp_draw(wp, &c, &p, 1, out);
	for (int i = 0; i < S * S * 3; i++)
		good &= fabsf(out[i] * 255 - 100) < 1;
	ok(good, "a source four times as fine is averaged");
	warp_close(wp);
	image_free(&im);
}

/* Textbook RGB -> HSV -> RGB in doubles, all in 0..1. */
static void
slow_tone(const double *in, const struct tone *t, double *out)
{
	double hi = fmax(in[0], fmax(in[1], in[2])), lo = fmin(in[0], fmin(in[1], in[2])),
	       c = hi - lo;
	double h = c == 0 ? 0 : hi == in[0] ? (in[1] - in[2]) / c :
	    hi == in[1] ? 2 + (in[2] - in[0]) / c : 4 + (in[0] - in[1]) / c;
	double s = hi > 0 ? c / hi : 0, v = hi, f, p, q, u;
	double rgb[6][3];
	int i;

	h = fmod(h / 6 + t->hue + 2, 1) * 6;
	s *= t->sat;
	v *= t->val;
	if (!t->open)
		s = fmin(s, 1), v = fmin(v, 1);
	i = (int)h % 6;
	f = h - floor(h);
	p = v * (1 - s);
	q = v * (1 - s * f);
	u = v * (1 - s * (1 - f));
	{
		double tab[6][3] = { { v, u, p }, { q, v, p }, { p, v, u }, { p, q, v },
			{ u, p, v }, { v, p, q } };

		memcpy(rgb, tab, sizeof rgb);
	}
	for (int k = 0; k < 3; k++)
		out[k] = fmin(fmax(rgb[i][k], 0), 1);
}

static void
tones(void)
{
	enum { S = 64 };
	static float out[S * S * 3];
	struct image im = noise(S, S);
	struct warp *wp = warp_open();
	struct paste p = { &im, { 1, 0, 0, 0, 1, 0 }, { -.5, -.5 }, { S - .5, S - .5 } };
	double worst = 0;

	for (int i = 0; i < S * 3; i++)		/* greys, black, white, two channels alike */
		im.px[i] = i < 60 ? 0 : i < 120 ? 255 : i / 3 % 2 ? 77 : i % 3 ? 200 : 10;
	for (int turn = 0; turn < 40; turn++) {
		struct tone t = { (float)(rnd(turn * 3ull) - .5) * 2,
			(float)rnd(turn * 3ull + 1) * 2, (float)rnd(turn * 3ull + 2) * 2,
			turn & 1 };
		struct canvas c = { S, S, 114, 0, 0, 0, t };

		warp_draw(wp, &c, &p, 1, out);
		for (int i = 0; i < S * S; i++) {
			double in[3], want[3];

			for (int k = 0; k < 3; k++)
				in[k] = im.px[i * 3 + k] / 255.;
			slow_tone(in, &t, want);
			for (int k = 0; k < 3; k++)
				worst = fmax(worst, fabs(want[k] - out[i * 3 + k]));
		}
	}
	ok(worst < 2e-5, "hue, saturation, value: as the textbook has it");
	printf("# worst %g of 1\n", worst);
	warp_close(wp);
	image_free(&im);
}

/* ---- geometry ----------------------------------------------------------------------------- */

static const unsigned char paint[4][3] = { { 230, 20, 20 }, { 20, 200, 20 }, { 20, 20, 230 },
	{ 220, 220, 20 } };

/* Which of the paints is a pixel of?  By its hue, as far as it has one; -1 grey. */
static int
hue_of(const float *p, int colours)
{
	double hi = fmax(p[0], fmax(p[1], p[2])), lo = fmin(p[0], fmin(p[1], p[2])), c = hi - lo, h;

	if (hi < .05 || c < .25 * hi)
		return -1;
	h = hi == p[0] ? fmod((p[1] - p[2]) / c + 6, 6) : hi == p[1] ? 2 + (p[2] - p[0]) / c :
	    4 + (p[0] - p[1]) / c;
	if (colours == 4)
		return h < .5 || h > 5.5 ? 0 : h < 1.5 ? 3 : h < 3 ? 1 : 2;
	return h < 1 || h > 5 ? 0 : h < 3 ? 1 : 2;
}

static void
rectangle(struct image *im, struct box *b, int colour, int x, int y, int w, int h)
{
	struct box box = { x, y, w, h, (double)w * h, -1, colour, 0 };

	*b = box;
	for (int v = y; v < y + h; v++)
		for (int u = x; u < x + w; u++)
			memcpy(im->px + (v * im->w + u) * 3, paint[colour], 3);
}

struct seen { int x0, y0, x1, y1; long n; };

static void
look(const float *out, int w, int h, int colours, struct seen *s)
{
	for (int k = 0; k < 4; k++) {
		struct seen none = { w, h, -1, -1, 0 };

		s[k] = none;
	}
	for (int i = 0; i < w * h; i++) {
		int k = hue_of(out + i * 3, colours), x = i % w, y = i / w;

		if (k < 0)
			continue;
		s[k].n++;
		s[k].x0 = x < s[k].x0 ? x : s[k].x0;
		s[k].x1 = x > s[k].x1 ? x : s[k].x1;
		s[k].y0 = y < s[k].y0 ? y : s[k].y0;
		s[k].y1 = y > s[k].y1 ? y : s[k].y1;
	}
}

struct tally { double worst; int frames, lost, orphan; };

/* Every label frames its colour, and what shows well has a label. */
static void
compare(const struct seen *s, const struct truth *t, int n, int w, int h, struct tally *r)
{
	int labelled[4] = { 0 };

	for (int i = 0; i < n; i++) {
		const struct seen *k = &s[(int)t[i].cls];

		labelled[(int)t[i].cls] = 1;
		if (!k->n) {
			r->orphan++;
			continue;
		}
		r->frames++;
		r->worst = fmax(r->worst, fabs((t[i].x - t[i].w / 2) * w - k->x0));
		r->worst = fmax(r->worst, fabs((t[i].x + t[i].w / 2) * w - k->x1 - 1));
		r->worst = fmax(r->worst, fabs((t[i].y - t[i].h / 2) * h - k->y0));
		r->worst = fmax(r->worst, fabs((t[i].y + t[i].h / 2) * h - k->y1 - 1));
	}
	for (int k = 0; k < 4; k++)
		r->lost +=
		    !labelled[k] && s[k].n > 0 && s[k].x1 - s[k].x0 > 16 && s[k].y1 - s[k].y0 > 16;
}

static void
geometry(enum aug_kind kind, int n, int w, int h, const char *what)
{
	struct sample in[4];
	struct box box[4][4];
	struct augment a;
	struct warp *wp = warp_open();
	float *out = (float *)xmalloc((size_t)w * (size_t)h * 3 * sizeof *out);
	struct truth t[16];
	struct tally r = { 0, 0, 0, 0 };

	augment_defaults(&a, kind);
	for (int k = 0; k < n; k++) {
		struct image im = image_new(300 - 50 * k, 180 + 60 * k);

		memset(im.px, 128, (size_t)im.w * (size_t)im.h * 3);
		for (int i = 0; i < (n > 1 ? 1 : 3); i++)
			rectangle(&im, &box[k][i], n > 1 ? k : i, 10 + 70 * i, 15 + 40 * i, 60,
			    50 + 10 * k);
		in[k].im = im;
		in[k].box = box[k];
		in[k].nbox = n > 1 ? 1 : 3;
	}
	for (long s = 0; s < 150; s++) {
		struct seen seen[4];
		int got = augment_sample(&a, 7, s, in, n, w, h, 0, wp, out, t);

		look(out, w, h, n > 1 ? 4 : 3, seen);
		compare(seen, t, got, w, h, &r);
	}
	okf(r.worst <= 2 && r.frames > 150 && !r.lost && !r.orphan,
	    "%s: labels frame their colours", what);
	printf("# %d labels, worst edge %.2f pixels off, %d lost, %d without colour\n", r.frames,
	    r.worst, r.lost, r.orphan);
	for (int k = 0; k < n; k++)
		image_free(&in[k].im);
	warp_close(wp);
	free(out);
}

/* ---- the rest ----------------------------------------------------------------------------- */

static void
same(void)
{
	enum { S = 64 };
	static float x[S * S * 3], y[S * S * 3];
	struct image im = noise(S, S);
	struct box b = { 4, 6, 20, 10, 200, -1, 2, 0 };
	struct sample in = { im, &b, 1 };
	struct warp *wp = warp_open(), *other = warp_open();
	struct truth t, u;
	struct augment a;
	int equal = 1, differ = 0;

	augment_defaults(&a, AUG_NONE);
	augment_sample(&a, 0, 0, &in, 1, S, S, 0, wp, x, &t);
	a.kind = AUG_MOSAIC;
	augment_sample(&a, 0, 0, &in, 1, S, S, 0, wp, y, &u);
	ok(!memcmp(x, y, sizeof x) && !memcmp(&t, &u, sizeof t), "no range, no change");
	for (int kind = AUG_DARKNET; kind <= AUG_MOSAIC; kind++)
		for (long s = 0; s < 20; s++) {
			augment_defaults(&a, (enum aug_kind)kind);
			augment_sample(&a, 3, s, &in, 1, S, S, 0, wp, x, &t);
			augment_sample(&a, 3, s + 1, &in, 1, S, S, 0, other, y, &u);
			differ += memcmp(x, y, sizeof x) != 0;
			augment_sample(&a, 3, s, &in, 1, S, S, 0, other, y, &u);
			equal &= !memcmp(x, y, sizeof x) && t.x == u.x;
		}
	ok(equal && differ == 60, "a function of seed and t, whoever computes it");
	warp_close(wp);
	warp_close(other);
	image_free(&im);
}

static void
limits(void)
{
	enum { S = 64, N = 20 };
	static float x[S * S * 3];
	struct image im = noise(S, S);
	struct box b[N];
	struct sample in = { im, b, N };
	struct warp *wp = warp_open();
	struct truth t[N];
	struct augment a;
	int hit[N] = { 0 }, all = 1, five = 1;

	for (int i = 0; i < N; i++) {
		int flags = i == 3 ? BOX_CROWD : i == 4 ? BOX_DIFFICULT : 0;
		struct box k = { 1 + i, 2, 30, 30, 900, -1, i, flags };

		b[i] = k;
	}
	augment_defaults(&a, AUG_NONE);
	ok(augment_sample(&a, 0, 0, &in, 1, S, S, 0, wp, x, t) == N - 2,
	    "crowds and difficult boxes are left out");
	for (long s = 0; s < 400; s++) {
		five &= augment_sample(&a, 1, s, &in, 1, S, S, 5, wp, x, t) == 5;
		for (int i = 0; i < 5; i++)
			hit[(int)t[i].cls]++;
	}
	for (int i = 0; i < N; i++)		/* 111 each, sd 9 */
		all &= i == 3 || i == 4 ? !hit[i] : hit[i] > 60 && hit[i] < 165;
	ok(five && all, "a limit keeps any of the labels");
	warp_close(wp);
	image_free(&im);
}

static void
picks(void)
{
	struct augment a;
	long pick[AUG_PICTURES], four = 0, good = 1;

	augment_defaults(&a, AUG_MOSAIC);
	for (long t = 0; t < 10000; t++) {
		int n = augment_picks(&a, 5, t, pick);

		four += n == 4;
		good &= (n == 1 || n == 4) && pick[0] == t;
		for (int i = 1; i < n; i++)
			good &= pick[i] >= 0 && pick[i] != t && labs(pick[i] - t) <= 256;
	}
	ok(good && four > 4800 && four < 5200, "mosaic: half the samples, partners near by");
	a.mosaic_last = 5000;
	four = 0;
	for (long t = 0; t < 10000; t++)
		four += (augment_picks(&a, 5, t, pick) == 4) << (t < 5000 ? 0 : 16);
	ok(four > 2300 && four < 2700, "mosaic_last: none from there on");
	a.kind = AUG_DARKNET;
	ok(augment_picks(&a, 5, 3, pick) == 1 && pick[0] == 3, "one picture for the others");
}

int
main(void)
{
	sampling();
	halving();
	tones();
	geometry(AUG_NONE, 1, 208, 208, "none");
	geometry(AUG_DARKNET, 1, 208, 160, "darknet");
	geometry(AUG_ULTRA2019, 1, 208, 208, "ultralytics-2019");
	geometry(AUG_MOSAIC, 1, 160, 224, "one picture of mosaic");
	geometry(AUG_MOSAIC, 4, 256, 224, "mosaic");
	same();
	limits();
	picks();
	return done();
}
