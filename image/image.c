/* image.c -- pictures in memory: decode, load, write.
 *
 * A picture is 8-bit RGB.  EXIF orientation is reported by the decoder and applied by image_turn,
 * as every program does that shows pictures to whoever draws boxes on them.  Every size is bounded
 * before memory is taken. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <stb_image.h>
#define STBIW_NO_STDIO
#include <stb_image_write.h>

#include "image/image.h"

#define MAX_FILE ((size_t)1 << 30)

struct image
image_new(int w, int h)
{
	struct image im = { w, h, (unsigned char *)xmalloc((size_t)w * (size_t)h * 3) };

	return im;
}

void
image_free(struct image *im)
{
	free(im->px);
	im->px = NULL;
	im->w = im->h = 0;
}

static int threads = 1;			/* that decode at once */

void
image_threads(int n)
{
	threads = n < 1 ? 1 : n;
}

/* Pictures as large as no camera's are decoded where there is memory for one in each thread. */
static int
fits(int w, int h, double per, struct err *e)
{
	enum { USUAL = 1 << 24 };
	double want = (double)w * h * per * threads, most = memory_bytes() / 2;

	if ((int64_t)w * h <= USUAL || want <= most)
		return 0;
	return err_set(e, "its header says %d x %d pixels: %.0f MB for %d thread%s, more than half "
	    "of the memory", w, h, want / 1e6, threads, threads > 1 ? "s" : "");
}

static int
stb_decode(const unsigned char *p, size_t n, struct image *im, struct err *e)
{
	int comp, w, h;
	unsigned char *px;

	stbi_convert_iphone_png_to_rgb_thread(1);
	stb_limit(16 * (size_t)im->w * (size_t)im->h + 2 * n + (1 << 16));
	if (!(px = stbi_load_from_memory(p, (int)n, &w, &h, &comp, 3)))
		return stb_refused() ? err_set(e, "its data are more than the %d x %d pixels of "
		    "its header", im->w, im->h) :
		    err_set(e, "cannot decode: %s", stbi_failure_reason());
	if (w != im->w || h != im->h) {
		stbi_image_free(px);
		return err_set(e, "its header says %dx%d, its data %dx%d", im->w, im->h, w, h);
	}
	*im = image_new(w, h);
	memcpy(im->px, px, (size_t)w * (size_t)h * 3);
	stbi_image_free(px);
	if (comp == 2 || comp == 4)
		err_set(e, "alpha channel dropped");
	return 0;
}

int
image_decode(const void *bytes, size_t n, struct image *im, struct err *e)
{
	int orientation;
	double per;

	im->px = NULL;
	if (n > MAX_FILE)
		return err_set(e, "a picture file of more than %zu bytes", MAX_FILE);
	if (image_size(bytes, n, &im->w, &im->h, &orientation, e) || image_whole(bytes, n, e) ||
	    image_plausible(bytes, n, im->w, im->h, &per, e) || fits(im->w, im->h, per, e))
		return -1;
	e->msg[0] = 0;
	if (image_format(bytes, n) == IMG_JPEG)
		return jpeg_decode((const unsigned char *)bytes, n, im, e);
	if (image_format(bytes, n) == IMG_PNM)
		return pnm_decode((const unsigned char *)bytes, n, im, e);
	return stb_decode((const unsigned char *)bytes, n, im, e);
}

void
image_grey(struct image *im)
{
	unsigned char *p = im->px;

	for (size_t i = 0; i < (size_t)im->w * (size_t)im->h; i++, p += 3)
		p[0] = p[1] = p[2] = (unsigned char)((77 * p[0] + 150 * p[1] + 29 * p[2]) >> 8);
}

void
image_one(const float *rgb, size_t n, float *one)
{
	for (size_t i = 0; i < n; i++)
		one[i] = rgb[3 * i];
}

void
image_turn(struct image *im, int o)
{
	int w = im->w, h = im->h;
	struct image to;

	if (o < 2 || o > 8)
		return;
	to = o > 4 ? image_new(h, w) : image_new(w, h);
	for (int y = 0; y < to.h; y++)
		for (int x = 0; x < to.w; x++) {
			int sx = o > 4 ? y : x, sy = o > 4 ? x : y;	/* 5 is the transpose */

			sx = o == 2 || o == 3 || o == 7 || o == 8 ? w - 1 - sx : sx;
			sy = o == 3 || o == 4 || o == 6 || o == 7 ? h - 1 - sy : sy;
			memcpy(to.px + ((size_t)y * (size_t)to.w + (size_t)x) * 3,
			    im->px + ((size_t)sy * (size_t)w + (size_t)sx) * 3, 3);
		}
	image_free(im);
	*im = to;
}

int
image_load(const char *path, struct image *im, struct err *e)
{
	struct err why;
	size_t n;
	char *bytes = plain_read(path, MAX_FILE, &n, e);
	int r, w, h, o;
	struct err none;

	im->px = NULL;
	if (!bytes)
		return -1;
	r = image_decode(bytes, n, im, &why);
	if (!r && !image_size(bytes, n, &w, &h, &o, &none))
		image_turn(im, o);
	if (why.msg[0])
		err_set(e, "%s: %s", path, why.msg);
	else
		e->msg[0] = 0;
	free(bytes);
	return r;
}

/* The sizes as stored.  A PNG may say how it is turned behind its pixels: it is read whole. */
static int
file_size(const char *path, int *w, int *h, int *orientation, struct err *e)
{
	enum { HEAD = 1 << 16 };
	unsigned char *head;
	struct err why;
	FILE *f = plain_open(path, e);
	size_t n;
	int r, again;

	if (!f)
		return -1;
	head = (unsigned char *)xmalloc(HEAD);
	n = fread(head, 1, HEAD, f);
	r = ferror(f) ? errno : 0;	/* a disk's fault is not the picture's */
	fclose(f);
	if (r) {
		free(head);
		return err_set(e, "%s: %s", path, strerror(r));
	}
	r = image_size(head, n, w, h, orientation, &why);
	again = n == HEAD && (r || image_format(head, n) == IMG_PNG);
	free(head);
	if (!again && !r)
		return 0;
	if (!again)
		return err_set(e, "%s: %s", path, why.msg);
	if (!(head = (unsigned char *)plain_read(path, MAX_FILE, &n, e)))
		return -1;
	if ((r = image_size(head, n, w, h, orientation, &why)))
		err_set(e, "%s: %s", path, why.msg);
	free(head);
	return r;
}

int
image_file_size(const char *path, int *w, int *h, int *orientation, struct err *e)
{
	int o, r = file_size(path, w, h, &o, e), stored = *w;

	if (orientation)
		*orientation = o;
	else if (!r && o > 4) {
		*w = *h;
		*h = stored;
	}
	return r;
}

static void
to_file(void *f, void *data, int n)
{
	fwrite(data, 1, (size_t)n, (FILE *)f);
}

int
image_write(const char *path, const struct image *im, struct err *e)
{
	const char *dot = strrchr(path_base(path), '.');
	struct outfile o;
	unsigned char *buf = NULL;
	size_t n = 0;

	if (dot && (!strcmp(dot, ".jpg") || !strcmp(dot, ".jpeg"))) {
		if (image_jpeg(im, 95, &buf, &n, e))
			return -1;
	} else if (!dot || strcmp(dot, ".png"))
		return err_set(e, "%s: want a name that ends in .png or .jpg", path);
	if (out_open(&o, path, e)) {
		free(buf);
		return -1;
	}
	if (buf)
		fwrite(buf, 1, n, o.f);
	else if (!stbi_write_png_to_func(to_file, o.f, im->w, im->h, 3, im->px, im->w * 3)) {
		out_abort(&o);
		return err_set(e, "%s: cannot make a PNG of it", path);
	}
	free(buf);
	return out_commit(&o, e);
}
