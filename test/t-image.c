/* t-image.c -- pictures: what is damaged is refused, what is odd decodes, and the three resizes
 * give the numbers of those they stand for.
 *
 * The hashes of bilinear come from OpenCV 4.6's INTER_LINEAR on the same drawn pictures.  What
 * becomes of each nasty file is listed by hand after its MANIFEST. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"
#include "labels/int.h"
#include "test/tap.h"

static struct image
drawn(int w, int h)
{
	struct image im = image_new(w, h);

	for (int i = 0; i < w * h * 3; i++) {
		int x = i / 3 % w, y = i / 3 / w;

		im.px[i] = (unsigned char)((x * 7 + y * 13 + i % 3 * 29) ^ (x * y));
	}
	return im;
}

static void
opencv(void)
{
	static const struct { int w, h, nw, nh; unsigned long long sum;
	} t[] = {
		{ 64, 48, 41, 30, 0x3cc9a1cb8dbf2b5aULL },
		{ 33, 20, 97, 61, 0x41b3aa8e77686c90ULL },
		{ 64, 64, 32, 32, 0xcea0ac76cc3810c5ULL },
		{ 5, 3, 1, 1, 0xa0064e18dc79e607ULL },
		{ 1, 1, 7, 5, 0xc1ee101bdcf4bd5aULL },
		{ 100, 7, 13, 40, 0x2cd07806a8c29f35ULL },
	};
	char what[80];

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct image a = drawn(t[i].w, t[i].h), b = image_new(t[i].nw, t[i].nh);
		unsigned long long h = 0xcbf29ce484222325ULL;

		image_resize(&a, &b, RESIZE_BILINEAR);
		for (int k = 0; k < b.w * b.h * 3; k++)
			h = (h ^ b.px[k]) * 0x100000001b3ULL;
		snprintf(what, sizeof what, "bilinear %dx%d to %dx%d is OpenCV's", t[i].w, t[i].h,
		    b.w, b.h);
		ok(h == t[i].sum, what);
		image_free(&a);
		image_free(&b);
	}
}

/* darknet's resize in double: corner on corner, columns then rows. */
static double
corner(const struct image *im, int x, int y, int c, int nw, int nh)
{
	double sx = nw > 1 ? (double)x * (im->w - 1) / (nw - 1) : im->w - 1;
	double sy = nh > 1 ? (double)y * (im->h - 1) / (nh - 1) : im->h - 1, v = 0;

	for (int k = 0; k < 4; k++) {
		int px = (int)sx + k % 2, py = (int)sy + k / 2;
		double fx = sx - (int)sx, fy = sy - (int)sy;

		if (px < im->w && py < im->h)
			v += (k % 2 ? fx : 1 - fx) * (k / 2 ? fy : 1 - fy) *
			     im->px[(py * im->w + px) * 3 + c];
	}
	return v / 255;
}

static void
darknet(int w, int h, int nw, int nh)
{
	struct image im = drawn(w, h);
	struct fit f = fit_letterbox(w, h, nw, nh);
	float *x = (float *)xmalloc((size_t)nw * (size_t)nh * 3 * sizeof *x);
	double worst = 0;
	char what[80];

	image_to_net(&im, f, RESIZE_DARKNET, nw, nh, x);
	for (int i = 0; i < nw * nh * 3; i++) {
		int px = i / 3 % nw - (int)f.dx, py = i / 3 / nw - (int)f.dy;
		double want = px < 0 || py < 0 || px >= f.nw || py >= f.nh ? .5 :
		    corner(&im, px, py, i % 3, f.nw, f.nh);

		worst = fmax(worst, fabs(want - x[i]));
	}
	snprintf(what, sizeof what, "darknet's letterbox of %dx%d in %dx%d: off by %.1e", w, h, nw,
	    nh, worst);
	ok(worst < 1e-5, what);
	image_free(&im);
	free(x);
}

/* darknet's last row has one tap: where float rounds its place to just before the last pixel, it is
 * dark, else it is the last row of pixels. */
static void
dark_line(int w, int h, int nw, int nh, int dark)
{
	struct image im = image_new(w, h);
	float *x = (float *)xmalloc((size_t)nw * (size_t)nh * 3 * sizeof *x);
	int good = 1;
	char what[80];

	memset(im.px, 255, (size_t)w * (size_t)h * 3);
	image_to_net(&im, fit_stretch(w, h, nw, nh), RESIZE_DARKNET, nw, nh, x);
	for (int i = 0; i < nw * nh * 3; i++) {
		int last = i / 3 / nw == nh - 1;

		good &= last && dark ? x[i] < .001f : fabsf(x[i] - 1) < 1e-6f;
	}
	snprintf(what, sizeof what, "darknet's %dx%d to %dx%d: the last row is %s", w, h, nw, nh,
	    dark ? "dark" : "like the others");
	ok(good, what);
	image_free(&im);
	free(x);
}

static void
letterbox(void)
{
	struct fit f = fit_letterbox(640, 425, 416, 416), g = fit_letterbox(6000, 4, 416, 416);
	struct image im = drawn(50, 20);
	float x[100 * 100 * 3];

	ok(f.nw == 416 && f.nh == 276 && f.dx == 0 && f.dy == 70,
	    "letterbox of 640x425 in whole pixels");
	ok(g.nh == 1 && g.nw == 416, "a picture of 6000x4 keeps a row");
	darknet(50, 20, 96, 96);
	darknet(20, 50, 96, 64);
	darknet(90, 70, 32, 32);
	darknet(1, 1, 32, 32);
	darknet(64, 1, 32, 32);
	dark_line(640, 480, 320, 240, 1);
	dark_line(640, 426, 320, 213, 1);
	dark_line(640, 427, 320, 213, 0);
	dark_line(768, 576, 320, 240, 0);
	image_to_net(&im, fit_letterbox(50, 20, 100, 100), RESIZE_STB, 100, 100, x);
	ok(x[0] == 114.0f / 255.0f && x[100 * 100 * 3 - 1] == 114.0f / 255.0f,
	    "stb: border of 114");
	image_to_net(&im, fit_stretch(50, 20, 50, 20), RESIZE_BILINEAR, 50, 20, x);
	ok(x[3] == im.px[3] / 255.0f, "the same size: the same pixels");
	image_free(&im);
}

static void
cut_jpeg(void)
{
	struct image im = drawn(64, 48), back;
	unsigned char *p;
	size_t n = 0, good = 0, whole = 0;
	struct err e;

	image_jpeg(&im, 90, &p, &n, &e);
	image_free(&im);
	for (size_t k = 0; k <= n; k++)
		if (!image_decode(p, k, &back, &e)) {
			good++;
			whole += k >= n - 2 && (k == n || strstr(e.msg, "no end mark"));
			image_free(&back);
		}
	ok(good == 3 && whole == 3, "JPEG: cut anywhere is an error, but for the end mark alone");
	free(p);
}

static void
round_trip(void)
{
	struct image im = drawn(300, 200), back;
	struct err e;
	char path[64];
	int painted = 0;

	image_box(&im, 20, 30, 100, 80, 3, "r\xc3\xb6t 97%");
	image_box(
	    &im, -1e9, -5, 1e12, 1e300, 0, "far out of the picture on all its sides, a long text");
	for (int i = 0; i < 100; i++)
		painted += !memcmp(im.px + (30 * 300 + 20 + i) * 3, im.px + (30 * 300 + 20) * 3, 3);
	ok(painted == 100, "a box has its line");
	snprintf(path, sizeof path, "/tmp/t-image.%ld.png", (long)getpid());
	ok(!image_write(path, &im, &e) && !image_load(path, &back, &e) && back.w == 300 &&
	    !memcmp(back.px, im.px, 300 * 200 * 3), "PNG written and read again is the same");
	unlink(path);
	image_free(&im);
	image_free(&back);
	ok(image_write("x.gif", &im, &e) && strstr(e.msg, ".png"), "another ending is refused");
}

static void
pnm(void)
{
	static const char grey[] = "P5 # c\n2 1\n15\n\0\17",
			  deep[] = "P6\n1 1 65535\n\0\0\x80\0\xff\xff";
	struct image im;
	struct err e;

	ok(!image_decode(grey, sizeof grey - 1, &im, &e) && im.w == 2 && im.px[0] == 0 &&
		im.px[5] == 255,
	    "PNM: its largest value is white");
	image_free(&im);
	ok(!image_decode(deep, sizeof deep - 1, &im, &e) && im.px[0] == 0 && im.px[1] == 128 &&
	    im.px[2] == 255, "PNM of 16 bits");
	image_free(&im);
	ok(image_decode(deep, sizeof deep - 2, &im, &e) && strstr(e.msg, "cut"),
	    "PNM without its end");
}

static void
nasty(const char *dir)
{
	/* all other files of MANIFEST.tsv decode */
	static const char *const bad =
	    " bmp/b-badbitcount.bmp bmp/b-badrle.bmp bmp/b-badwidth.bmp "
	    "bmp/b-pal8badindex.bmp bmp/b-reallybig.bmp bmp/q-rgb24jpeg.bmp bmp/q-rgb32-111110.bmp "
	    "bombs/gif-65535.gif bombs/jpeg-65500x65500.jpg bombs/jpeg-height-0.jpg "
	    "bombs/png-0x10.png "
	    "bombs/png-2147483647x1.png broken/all-zeros.jpg broken/dog-cut-50pct.jpg "
	    "broken/dog-cut-5pct.jpg jpeg/12bit.jpg jpeg/bad-comment-length.jpeg "
	    "jpeg/fuzz-dc-overflow.jpg "
	    "jpeg/fuzz-huffman.jpg jpeg/arithmetic.jpg "
	    "jpeg/truncated-baseline.jpeg png/broken-stream.png png/unknown-compression.png "
	    "png/xcrn0g04.png png/xcsn0g01.png png/xdtn0g01.png png/xhdn0g08.png png/xs1n0g01.png "
	    "wrong-name/heic-named.jpg wrong-name/json-named.webp wrong-name/lfs-pointer.jpg "
	    "wrong-name/tiff-named.jpg wrong-name/webp-named.jpg ";
	char *list = path_join(dir, "MANIFEST.tsv"), *s, *path, *word;
	struct text t;
	struct err e;

	if (text_open(&t, list, &e)) {
		skip("formats: MANIFEST.tsv", "no ../shared");
		free(list);
		return;
	}
	text_line(&t);
	while ((s = text_line(&t))) {
		struct image im;
		int r;

		s[strcspn(s, "\t")] = 0;
		if (!strchr(s, '/'))
			continue;
		path = path_join(dir, s);
		word = xasprintf(" %s ", s);
		r = image_load(path, &im, &e);
		ok(strstr(bad, word) ? r && strstr(e.msg, s) : !r && im.w > 0, s);
		image_free(&im);
		free(path);
		free(word);
	}
	free(t.buf);
	free(list);
}

/* Odd ones that decode: the means of red, green and blue that MANIFEST.tsv has of Pillow. */
static void
odd_jpeg(const char *dir)
{
	static const struct { const char *name, *note; double mean[3]; } t[] = {
		{ "jpeg/partial-progressive.jpg", "some detail is missing",
		    { 193.6, 65.2, 114.9 } },
		{ "jpeg/sampling-1x3.jpeg", "", { 151.5, 135.8, 108.1 } },
		{ "jpeg/non-interleaved.jpg", "", { 2, 2, 2 } },
		{ "jpeg/progressive.jpeg", "", { 151.5, 135.8, 107.9 } },
	};

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *path = path_join(dir, t[i].name);
		struct image im;
		double sum[3] = { 0 };
		struct err e;
		int good;

		if (access(path, R_OK)) {
			skip(path, "no ../shared");
			free(path);
			continue;
		}
		good = !image_load(path, &im, &e) && (!*t[i].note || strstr(e.msg, t[i].note));
		for (int k = 0; good && k < im.w * im.h * 3; k++)
			sum[k % 3] += (double)im.px[k] / (im.w * im.h);
		for (int k = 0; k < 3; k++)
			good &= fabs(sum[k] - t[i].mean[k]) < .3;
		ok(good, t[i].name);
		if (!good)
			printf("# %g %g %g; %s\n", sum[0], sum[1], sum[2], e.msg);
		image_free(&im);
		free(path);
	}
}

int
main(void)
{
	opencv();
	letterbox();
	cut_jpeg();
	round_trip();
	pnm();
	nasty("../shared/data/images/nasty");
	odd_jpeg("../shared/data/images/nasty");
	return done();
}
