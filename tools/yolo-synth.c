/* yolo-synth.c -- draw a labelled set: discs, triangles, stars and rings on busy grounds.
 *
 * The set that a fresh checkout trains on: no download, no licence, the same bytes for a seed.
 * It is made hard where real pictures are: grounds with texture and gradients, fillings with
 * texture, sizes over a range of three, turned and stretched shapes, some that hide others or
 * leave the picture, clutter that is no class, blur, noise and JPEG.
 *
 * A shape is labelled by the pixels of it that can be seen, if these are SEEN of all it has;
 * which pixel belongs to whom is kept while drawing.  Every number is drawn from a counter-
 * based generator keyed by (seed, picture), so pictures do not depend on each other. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "yolo.h"
#include "base/fn.h"

#define SEEN 0.4

enum { DISC, TRIANGLE, STAR, RING, CLASSES, BAR = CLASSES };	/* bars are clutter */
enum { PLAIN, STRIPES, CHECKS, GLOW, PATTERNS };
enum { MAX_SHAPES = 16, SUB = 3 };	/* SUB x SUB points are looked at in a pixel */

static const char *const class_name[CLASSES] = { "disc", "triangle", "star", "ring" };

static const char usage[] = "usage: yolo-synth [-hqV] [-n count] [-o dir] [-S seed] [-s side]\n";

static const struct option longopts[] = {
	{ "count", 1, NULL, 'n' }, { "help", 0, NULL, 'h' }, { "output", 1, NULL, 'o' },
	{ "quiet", 0, NULL, 'q' }, { "seed", 1, NULL, 'S' }, { "side", 1, NULL, 's' },
	{ "version", 0, NULL, 'V' }, { NULL, 0, NULL, 0 }
};

struct source {			/* numbers of one picture */
	uint64_t seed, picture, count;
	uint32_t word[4];
	int left;
};
struct shape {
	int cls, pattern;
	float x, y, r, stretch, cs, sn;	/* centre and radius in pixels; cosine, sine of the turn */
	float colour[2][3], freq;
	long all, seen;			/* pixels, also those outside; those in sight */
	int x0, y0, x1, y1;		/* of those in sight, ends included */
};
struct scene {
	int side, n;
	float *rgb;
	signed char *owner;		/* shape in sight at a pixel, -1 ground */
	struct shape shape[MAX_SHAPES];
};

/* ---- numbers ------------------------------------------------------------------------------ */

static uint32_t
word(struct source *s)
{
	if (!s->left) {
		fn_philox(s->seed, s->picture, s->count++, s->word);
		s->left = 4;
	}
	return s->word[--s->left];
}

static float
uniform(struct source *s, double lo, double hi)
{
	return (float)(lo + (hi - lo) * fn_unit(word(s)));
}

static int
below(struct source *s, int n)
{
	return (int)((uint64_t)word(s) * (uint64_t)n >> 32);
}

/* ---- the ground --------------------------------------------------------------------------- */

/* Smooth noise in 0..1 added to plane: random values on a grid of `cell` pixels, blended by the
 * curve t^2 (3 - 2t). */
static void
add_noise(struct source *s, float *plane, int side, float cell, float weight)
{
	int n = (int)((float)side / cell) + 3;
	float *grid = (float *)xmalloc((size_t)n * (size_t)n * sizeof *grid);
	float ox = uniform(s, 0, 1), oy = uniform(s, 0, 1);

	for (int i = 0; i < n * n; i++)
		grid[i] = uniform(s, 0, 1);
	for (int y = 0; y < side; y++) {
		float v = (float)y / cell + oy, fy = v - floorf(v);
		const float *a = grid + (int)v * n;

		fy = fy * fy * (3 - 2 * fy);
		for (int x = 0; x < side; x++) {
			float u = (float)x / cell + ox, fx = u - floorf(u), top, low;
			const float *p = a + (int)u;

			fx = fx * fx * (3 - 2 * fx);
			top = p[0] + fx * (p[1] - p[0]);
			low = p[n] + fx * (p[n + 1] - p[n]);
			plane[y * side + x] += weight * (top + fy * (low - top));
		}
	}
	free(grid);
}

/* A plane of 0..1: noise of three sizes, on top of a slope and perhaps waves. */
static void
texture(struct source *s, float *plane, int side)
{
	float angle = uniform(s, 0, 6.2832), ramp = uniform(s, 0, .6), wave = uniform(s, -.4, .3);
	float freq = uniform(s, .1, .7), turn = uniform(s, 0, 6.2832), base = uniform(s, 6, 40);

	for (int y = 0; y < side; y++)
		for (int x = 0; x < side; x++) {
			float u = (float)x * cosf(angle) + (float)y * sinf(angle);
			float v = (float)x * cosf(turn) + (float)y * sinf(turn);

			plane[y * side + x] =
			    ramp * (u / (float)side) + (wave > 0 ? wave * sinf(freq * v) : 0);
		}
	add_noise(s, plane, side, base, .5f);
	add_noise(s, plane, side, base / 2, .3f);
	add_noise(s, plane, side, base / 5 + 1, .2f);
	for (int i = 0; i < side * side; i++)
		plane[i] = plane[i] < 0 ? 0 : plane[i] > 1 ? 1 : plane[i];
}

static void
ground(struct source *s, struct scene *c)
{
	int n = c->side * c->side;
	float a[3], b[3], tint = uniform(s, 0, 60), light = uniform(s, 40, 215),
			  far = uniform(s, -130, 130);
	float *plane = (float *)xmalloc((size_t)n * 2 * sizeof *plane), *other = plane + n;

	for (int k = 0; k < 3; k++) {
		a[k] = light + uniform(s, -50, 50);
		b[k] = a[k] + far + uniform(s, -50, 50);
	}
	texture(s, plane, c->side);
	texture(s, other, c->side);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < 3; k++)
			c->rgb[i * 3 + k] = a[k] + (b[k] - a[k]) * plane[i] +
			    tint * (other[i] - .5f) * (k - 1);
	memset(c->owner, -1, (size_t)n);
	free(plane);
}

/* ---- shapes ------------------------------------------------------------------------------- */

/* Is (x, y) in the shape of radius 1 round the origin?  A star: inside at least four of the five
 * lines that its sides lie on. */
static int
inside(int cls, float x, float y)
{
	static const float cs[5] = { 1, .309017f, -.809017f, -.809017f, .309017f };
	static const float sn[5] = { 0, .951057f, .587785f, -.587785f, -.951057f };
	float d = x * x + y * y;
	int hits = 0;

	if (d > 1)
		return 0;
	switch (cls) {
	case DISC: return 1;
	case RING: return d > .3f;
	case BAR: return fabsf(y) < .16f;
	case TRIANGLE: return x > -.5f && x * .5f + fabsf(y) * .866025f < .5f;
	default:
		for (int i = 0; i < 5; i++)
			hits += x * cs[i] + y * sn[i] < .309017f;
		return hits >= 4;
	}
}

/* How much of the second colour there is at a point of the shape. */
static float
shade(const struct shape *h, float x, float y)
{
	switch (h->pattern) {
	case STRIPES: return sinf(x * h->freq) > 0;
	case CHECKS: return (sinf(x * h->freq) > 0) != (sinf(y * h->freq) > 0);
	case GLOW: return x * x + y * y;
	default: return 0;
	}
}

/* Draw shape i: colour by the share of a pixel that is covered, ownership from one half. */
static void
draw(struct scene *c, int i)
{
	struct shape *h = &c->shape[i];
	float reach = h->r * (h->stretch > 1 ? h->stretch : 1) + 1;
	int xa = (int)floorf(h->x - reach), xb = (int)ceilf(h->x + reach);
	int ya = (int)floorf(h->y - reach), yb = (int)ceilf(h->y + reach);

	for (int y = ya; y <= yb; y++)
		for (int x = xa; x <= xb; x++) {
			int at = y * c->side + x, hits = 0;
			float u = 0, v = 0, t, k;

			for (int p = 0; p < SUB * SUB; p++) {
				float dx = (float)x + (p % SUB + .5f) / SUB - h->x;
				float dy = (float)y + (p / SUB + .5f) / SUB - h->y;

				u = (dx * h->cs + dy * h->sn) / (h->r * h->stretch);
				v = (dy * h->cs - dx * h->sn) / h->r;
				hits += inside(h->cls, u, v);
			}
			h->all += 2 * hits >= SUB * SUB;
			if (!hits || x < 0 || y < 0 || x >= c->side || y >= c->side)
				continue;
			t = shade(h, u, v);
			k = (float)hits / (SUB * SUB);
			for (int ch = 0; ch < 3; ch++)
				c->rgb[at * 3 + ch] +=
				    k *
				    (h->colour[0][ch] + t * (h->colour[1][ch] - h->colour[0][ch]) -
					c->rgb[at * 3 + ch]);
			if (2 * hits >= SUB * SUB)
				c->owner[at] = (signed char)i;
		}
}

/* Two colours that differ enough from the ground where the shape will be, else it cannot be seen by
 * anyone. */
static void
colour(struct source *s, const struct scene *c, struct shape *h)
{
	int x = (int)fminf(fmaxf(h->x, 0), (float)(c->side - 1));
	int y = (int)fminf(fmaxf(h->y, 0), (float)(c->side - 1));
	const float *g = c->rgb + (y * c->side + x) * 3;

	for (int k = 0; k < 2; k++)
		for (int turn = 0; turn < 20; turn++) {
			float d = 0;

			for (int i = 0; i < 3; i++) {
				h->colour[k][i] = uniform(s, 0, 255);
				d += fabsf(h->colour[k][i] - g[i]);
			}
			if (d > (k ? 70 : 130))
				break;
		}
}

static void
shape(struct source *s, const struct scene *c, struct shape *h, int cls)
{
	float side = (float)c->side,
	      turn = uniform(s, -.4, .4); /* a triangle's tip points right, about */

	memset(h, 0, sizeof *h);
	h->cls = cls;
	h->r = side / 2 * .14f *
	       powf(.6f / .14f, uniform(s, 0, 1)); /* 14 to 60 % of the side across */
	h->stretch = uniform(s, .85, 1.18);
	h->x = uniform(s, .1, .9) * side;
	h->y = uniform(s, .1, .9) * side;
	h->pattern = below(s, 6) ? PLAIN : below(s, PATTERNS);
	h->freq = uniform(s, 5, 12);
	if (cls == BAR) {
		h->r *= .7f;
		h->stretch = uniform(s, .3, 2);
		turn = uniform(s, 0, 6.2832);
	}
	h->cs = cosf(turn);
	h->sn = sinf(turn);
	colour(s, c, h);
}

/* Does shape i keep off the ones before it, so that it hides or loses an edge at most? */
static int
apart(const struct scene *c, int i)
{
	const struct shape *a = &c->shape[i];

	for (int k = 0; k < i; k++) {
		const struct shape *b = &c->shape[k];

		if (hypotf(a->x - b->x, a->y - b->y) < .8f * (a->r + b->r))
			return 0;
	}
	return 1;
}

/* Large ones mostly first, so that what hides is smaller than what is hidden. */
static void
shapes(struct source *s, struct scene *c)
{
	int things = below(s, 20) ? 1 + below(s, 3) : 0, bars = below(s, 2);

	c->n = things + bars;
	for (int i = 0; i < c->n; i++)
		for (int turn = 0; turn < 12 && (!turn || !apart(c, i)); turn++)
			shape(s, c, &c->shape[i], i < things ? below(s, CLASSES) : BAR);
	for (int i = 1; i < c->n; i++)
		for (int k = i; k > 0 && c->shape[k].r > c->shape[k - 1].r * uniform(s, .8, 1.4);
		     k--) {
			struct shape swap = c->shape[k];

			c->shape[k] = c->shape[k - 1];
			c->shape[k - 1] = swap;
		}
	for (int i = 0; i < c->n; i++) {
		c->shape[i].x0 = c->shape[i].y0 = c->side;
		draw(c, i);
	}
	for (int i = 0; i < c->side * c->side; i++)
		if (c->owner[i] >= 0) {
			struct shape *h = &c->shape[(int)c->owner[i]];
			int x = i % c->side, y = i / c->side;

			h->seen++;
			h->x0 = x < h->x0 ? x : h->x0;
			h->x1 = x > h->x1 ? x : h->x1;
			h->y0 = y < h->y0 ? y : h->y0;
			h->y1 = y > h->y1 ? y : h->y1;
		}
}

/* ---- the camera --------------------------------------------------------------------------- */

/* One pass of (k, 1 - 2k, k) along rows and columns, then noise, then bytes. */
static void
expose(struct source *s, struct scene *c, struct image *im)
{
	int side = c->side, row = side * 3;
	float k = below(s, 2) ? uniform(s, 0, .3) : 0, noise = uniform(s, 0, 14);
	float *from = c->rgb, *mid = (float *)xmalloc((size_t)side * (size_t)row * sizeof *mid);

	for (int y = 0; y < side; y++)
		for (int i = 0; i < row; i++) {
			const float *p = from + y * row + i;

			mid[y * row + i] = p[0] + k * ((i >= 3 ? p[-3] : p[0]) +
			    (i + 3 < row ? p[3] : p[0]) - 2 * p[0]);
		}
	for (int y = 0; y < side; y++)
		for (int i = 0; i < row; i++) {
			const float *p = mid + y * row + i;
			uint32_t w = word(s);
			float v = p[0] + k * ((y ? p[-row] : p[0]) +
						 (y + 1 < side ? p[row] : p[0]) - 2 * p[0]);

			/* the sum of four bytes is nearly Gaussian, sd 148 */
			v += noise / 148 *
			     ((float)((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24)) -
				 510);
			im->px[y * row + i] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v + .5f);
		}
	free(mid);
}

/* ---- files -------------------------------------------------------------------------------- */

static void
make_dir(const char *path)
{
	char *copy = xstrdup(path);

	for (char *p = copy + 1; ; p++)
		if (!*p || *p == '/') {
			char was = *p;

			*p = 0;
			if (mkdir(copy, 0777) && errno != EEXIST)
				die(1, "%s: %s", copy, strerror(errno));
			*p = was;
			if (!was)
				break;
		}
	free(copy);
}

static void
save(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");
	int why;

	if (f && fwrite(p, 1, n, f) == n && !fclose(f))
		return;
	why = errno;
	if (f)
		unlink(path);		/* no half a picture */
	die(1, "%s: %s", path, strerror(why));
}

static void
picture(struct scene *c, const char *dir, uint64_t seed, long i)
{
	struct source s = { .seed = seed, .picture = (uint64_t)i };
	struct image im = image_new(c->side, c->side);
	char path[4096], text[MAX_SHAPES * 80];
	unsigned char *bytes;
	struct err e;
	size_t n, at = 0;

	ground(&s, c);
	shapes(&s, c);
	expose(&s, c, &im);
	if (image_jpeg(&im, 75 + below(&s, 20), &bytes, &n, &e))
		die(1, "%s", e.msg);
	snprintf(path, sizeof path, "%s/images/%06ld.jpg", dir, i);
	save(path, bytes, n);
	for (int k = 0; k < c->n; k++) {
		const struct shape *h = &c->shape[k];
		double side = c->side;

		if (h->cls < CLASSES && h->seen && (double)h->seen >= SEEN * (double)h->all)
			at += (size_t)snprintf(text + at, sizeof text - at,
			    "%d %.6f %.6f %.6f %.6f\n", h->cls, (h->x0 + h->x1 + 1) / 2. / side,
			    (h->y0 + h->y1 + 1) / 2. / side, (h->x1 - h->x0 + 1) / side,
			    (h->y1 - h->y0 + 1) / side);
	}
	snprintf(path, sizeof path, "%s/labels/%06ld.txt", dir, i);
	save(path, text, at);
	image_free(&im);
	free(bytes);
}

/* names comes last: with it the set is complete. */
static void
draw_set(const char *dir, long count, int side, uint64_t seed)
{
	struct scene c = { .side = side };
	char path[4096];
	struct outfile o;
	struct stat st;
	struct err e;

	if (strlen(dir) > sizeof path - 64)
		die(2, "%.40s...: this name is too long", dir);
	snprintf(path, sizeof path, "%s/images/%06ld.jpg", dir, count);
	if (!stat(path, &st))
		die(1, "%s: left from a larger set; remove that first", path);
	snprintf(path, sizeof path, "%s/labels", dir);
	make_dir(path);
	snprintf(path, sizeof path, "%s/images", dir);
	make_dir(path);
	c.rgb = (float *)xmalloc((size_t)side * (size_t)side * 3 * sizeof *c.rgb);
	c.owner = (signed char *)xmalloc((size_t)side * (size_t)side);
	for (long i = 0; i < count; i++) {
		picture(&c, dir, seed, i);
		if (i % 50 == 49)
			progress("%ld of %ld pictures", i + 1, count);
	}
	progress_end();
	free(c.rgb);
	free(c.owner);
	snprintf(path, sizeof path, "%s/names", dir);
	if (out_open(&o, path, &e))
		die(1, "%s", e.msg);
	for (int i = 0; i < CLASSES; i++)
		fprintf(o.f, "%s\n", class_name[i]);
	if (out_commit(&o, &e))
		die(1, "%s", e.msg);
}

int
main(int argc, char **argv)
{
	long count = 1000, side = 208, seed = 0;
	const char *dir = "synth";
	int opt;

	program(argv, "yolo-synth");
	while ((opt = getopt_long(argc, argv, "hn:o:qS:s:V", longopts, NULL)) >= 0)
		switch (opt) {
		case 'h': fputs(usage, stdout); return 0;
		case 'V': printf("yolo-synth %s\n", YOLO_VERSION); return 0;
		case 'q': quiet = 1; break;
		case 'o': dir = optarg; break;
		case 'n':
			if (num_int(optarg, 1, 999999, &count))
				die(2, "-n %s: want a number of pictures, 1 to 999999", optarg);
			break;
		case 's':
			if (num_int(optarg, 32, 4096, &side))
				die(2, "-s %s: want a side in pixels, 32 to 4096", optarg);
			break;
		case 'S':
			if (num_int(optarg, 0, INT64_MAX, &seed))
				die(2, "-S %s: want a whole number from 0", optarg);
			break;
		default: fputs(usage, stderr); return 2;
		}
	if (optind < argc || !*dir) {
		fputs(usage, stderr);
		return 2;
	}
	draw_set(dir, count, (int)side, (uint64_t)seed);
	return 0;
}
