/* imagehead.c -- what a picture's bytes say of themselves: format, size, completeness.
 *
 * stb_image reads zeros past the end of a file, ignores PNG's checksums and trusts sizes, so a cut
 * or damaged file would give half a picture.  Here each format that it may see is first walked:
 * PNG by its chunks and their CRC, GIF by its blocks, BMP and PNM by the bytes that their headers
 * ask for.  JPEG has jpeg.c. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "image/image.h"

#define MAX_PIXELS (1 << 27)	/* 134 million: more than any camera's, 400 MB as RGB */

static unsigned
le(const unsigned char *p, int n)
{
	unsigned v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

static unsigned
be32(const unsigned char *p)
{
	return (unsigned)p[0] << 24 | (unsigned)p[1] << 16 | (unsigned)p[2] << 8 | p[3];
}

int
image_limit(int64_t w, int64_t h, struct err *e)
{
	if (w < 1 || h < 1)
		return err_set(e, "its header says %lld x %lld pixels", (long long)w, (long long)h);
	if (w > MAX_PIXELS / h)
		return err_set(e, "its header says %lld x %lld pixels, more than the limit of %d",
		    (long long)w, (long long)h, MAX_PIXELS);
	return 0;
}

static int
starts(const unsigned char *p, size_t n, const char *magic, size_t len)
{
	return n >= len && !memcmp(p, magic, len);
}

enum image_format
image_format(const void *bytes, size_t n)
{
	const unsigned char *p = (const unsigned char *)bytes;

	if (starts(p, n, "\xff\xd8\xff", 3))
		return IMG_JPEG;
	if (starts(p, n, "\x89PNG\r\n\x1a\n", 8))
		return IMG_PNG;
	if (starts(p, n, "GIF87a", 6) || starts(p, n, "GIF89a", 6))
		return IMG_GIF;
	if (starts(p, n, "BM", 2))
		return IMG_BMP;
	if (n > 2 && p[0] == 'P' && (p[1] == '5' || p[1] == '6') && strchr(" \t\r\n#", p[2]) &&
	    p[2])
		return IMG_PNM;
	return IMG_UNKNOWN;
}

/* Kinds that cannot be decoded are to be named too, not passed over. */
int
image_named(const char *name)
{
	static const char *const ext[] = { "jpg", "jpeg", "jpe", "jfif", "png", "bmp", "gif", "ppm",
		"pgm", "pnm", "pbm", "pam", "tif", "tiff", "webp", "heic", "heif", "avif", "jp2",
		"jxl", "tga", "psd", "hdr", "pic" };
	const char *dot = strrchr(path_base(name), '.');

	for (size_t i = 0; dot && i < sizeof ext / sizeof *ext; i++)
		if (!strcasecmp(dot + 1, ext[i]))
			return 1;
	return 0;
}

/* A name for what is no picture that we read. */
static int
unknown(const unsigned char *p, size_t n, struct err *e)
{
	static const struct { const char *magic; size_t len; const char *what;
	} known[] = {
		{ "version https://git-lfs", 23,
		    "a Git LFS pointer, not the picture: git lfs pull" },
		{ "II*\0", 4, "TIFF, which is not supported: convert it to PNG or JPEG" },
		{ "MM\0*", 4, "TIFF, which is not supported: convert it to PNG or JPEG" },
		{ "8BPS", 4, "PSD, which is not supported: convert it to PNG or JPEG" },
		{ "\x89PNG", 4, "a PNG with a damaged signature (copied in text mode?)" },
		{ "<", 1, "text (XML or HTML), not a picture" },
		{ "{", 1, "text (JSON), not a picture" },
		{ "[", 1, "text (JSON), not a picture" },
		{ "%PDF", 4, "PDF, not a picture" },
	};
	size_t zero = 0;

	if (!n)
		return err_set(e, "the file is empty");
	if (starts(p, n, "RIFF", 4) && n >= 12 && !memcmp(p + 8, "WEBP", 4))
		return err_set(e, "WebP, which is not supported: convert it to PNG or JPEG");
	if (n > 2 && p[0] == 'P' && p[1] && p[2] && strchr("12347", p[1]) &&
	    strchr(" \t\r\n#", p[2]))
		return err_set(e, "%s PNM (P%c), which is not supported: convert it to PNG or JPEG",
		    p[1] < '4' ? "ASCII" : p[1] == '4' ? "bitmap" : "arbitrary", p[1]);
	if (n >= 12 && !memcmp(p + 4, "ftyp", 4))
		return err_set(e, "%s, which is not supported: convert it to PNG or JPEG",
		    memcmp(p + 8, "avif", 4) ? "HEIF" : "AVIF");
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (starts(p, n, known[i].magic, known[i].len))
			return err_set(e, "%s", known[i].what);
	while (zero < n && !p[zero])
		zero++;
	if (zero == n)
		return err_set(e, "nothing but %zu zero bytes (lost in a copy?)", n);
	return err_set(e, "no picture format known here (JPEG, PNG, BMP, GIF, PNM)");
}

static int
png_whole(const unsigned char *p, size_t n, struct err *e)
{
	size_t i = 8, len;
	int data = 0;

	for (;; i += len + 12) {
		if (n - i < 12 || (len = be32(p + i)) > n - i - 12)
			return err_set(e, "PNG: cut at byte %zu", n);
		if (be32(p + i + 8 + len) != crc32_z(0, p + i + 4, len + 4))
			return err_set(
			    e, "PNG: wrong checksum of the %.4s chunk at byte %zu", p + i + 4, i);
		if (!memcmp(p + i + 4, "IHDR", 4) &&
		    (len != 13 || p[i + 18] || p[i + 19] || p[i + 20] > 1))
			return err_set(e, "PNG: unknown compression, filter or interlace method");
		data |= !memcmp(p + i + 4, "IDAT", 4);
		if (!memcmp(p + i + 4, "IEND", 4))
			return data ? 0 : err_set(e, "PNG: no picture data");
	}
}

/* Skip GIF's sub-blocks from i; 0 where they run past the end. */
static size_t
gif_blocks(const unsigned char *p, size_t i, size_t n)
{
	while (i < n) {
		if (!p[i])
			return i + 1;
		i += (size_t)p[i] + 1;
	}
	return 0;
}

static int
gif_whole(const unsigned char *p, size_t n, struct err *e)
{
	size_t i = 13;

	if (n > 13 && p[10] & 0x80)
		i += (size_t)3 << ((p[10] & 7) + 1);
	while (i && i + 1 < n) {
		if (p[i] == 0x21)
			i = gif_blocks(p, i + 2, n);
		else if (p[i] == 0x2c && i + 11 < n) {
			size_t map = p[i + 9] & 0x80 ? (size_t)3 << ((p[i + 9] & 7) + 1) : 0;

			if (!gif_blocks(p, i + 11 + map, n))
				break;
			return 0;		/* the first image is what is used */
		} else
			return err_set(e, "GIF: no image in it");
	}
	return err_set(e, "GIF: cut at byte %zu", n);
}

/* Pixels that name no colour of the palette would be coloured at random. */
static int
bmp_palette(const unsigned char *p, unsigned head, unsigned off, unsigned bits, int w, int h,
    struct err *e)
{
	unsigned colours = off < 14 + head ? 0 : (off - 14 - head) / (head == 12 ? 3 : 4);
	size_t row = ((size_t)w * bits + 31) / 32 * 4;

	if (colours >= 1u << bits)
		return 0;
	for (size_t y = 0; y < (size_t)h; y++)
		for (size_t x = 0; x < (size_t)w; x++) {
			unsigned at = (unsigned)(x * bits), v = p[off + y * row + at / 8];

			if ((v >> (8 - bits - at % 8) & ((1u << bits) - 1)) >= colours)
				return err_set(
				    e, "BMP: a pixel outside its palette of %u colours", colours);
		}
	return 0;
}

static int
bmp_size(const unsigned char *p, size_t n, int *w, int *h, struct err *e)
{
	unsigned head = n >= 26 ? le(p + 14, 4) : 0, bits, comp = 0, off;
	int64_t ww, hh;

	if (head != 12 && (head < 40 || n < 54))
		return err_set(e, "BMP: cut in its header, or of an unknown kind");
	ww = head == 12 ? (int64_t)le(p + 18, 2) : (int64_t)(int32_t)le(p + 18, 4);
	hh = head == 12 ? (int64_t)le(p + 20, 2) : (int64_t)(int32_t)le(p + 22, 4);
	hh = hh < 0 ? -hh : hh;
	bits = head == 12 ? le(p + 24, 2) : le(p + 28, 2);
	if (head != 12)
		comp = le(p + 30, 4);
	off = le(p + 10, 4);
	if (image_limit(ww, hh, e))
		return -1;
	if (comp != 0 && comp != 3)
		return err_set(e, "BMP: compression %u is not supported, want 0 or 3", comp);
	if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
		return err_set(e, "BMP: %u bits a pixel", bits);
	*w = (int)ww;
	*h = (int)hh;
	if (off > n || (uint64_t)((ww * bits + 31) / 32 * 4) * (uint64_t)hh > n - off)
		return err_set(e, "BMP: cut, %zu bytes are too few for %dx%d", n, *w, *h);
	return bits > 8 ? 0 : bmp_palette(p, head, off, bits, *w, *h, e);
}

/* v: width, height, largest value; the offset of the first pixel, 0 on error. */
static size_t
pnm_head(const unsigned char *p, size_t n, int64_t v[3], struct err *e)
{
	size_t i = 2;

	for (int k = 0; k < 3; k++) {
		v[k] = 0;
		while (i < n && p[i] && strchr("# \t\r\n", p[i]))
			if (p[i++] == '#')
				while (i < n && p[i] != '\n')
					i++;
		for (; i < n && p[i] >= '0' && p[i] <= '9' && v[k] < 1 << 28; i++)
			v[k] = v[k] * 10 + p[i] - '0';
	}
	if (image_limit(v[0], v[1], e))
		return 0;
	if (v[2] < 1 || v[2] > 65535)
		err_set(e, "PNM: largest value %lld, want 1..65535", (long long)v[2]);
	else if (i >= n || v[0] * v[1] * (p[1] == '6' ? 3 : 1) * (v[2] > 255 ? 2 : 1) >
	    (int64_t)(n - i - 1))
		err_set(e, "PNM: cut, %zu bytes are too few for %lldx%lld", n, (long long)v[0],
		    (long long)v[1]);
	else
		return i + 1;
	return 0;
}

static int
pnm_size(const unsigned char *p, size_t n, int *w, int *h, struct err *e)
{
	int64_t v[3];

	if (!pnm_head(p, n, v, e))
		return -1;
	*w = (int)v[0];
	*h = (int)v[1];
	return 0;
}

/* P5 and P6, 8 or 16 bits; stb_image 2.27 runs over its buffer on some with 16. */
int
pnm_decode(const unsigned char *p, size_t n, struct image *im, struct err *e)
{
	int64_t v[3];
	size_t at = pnm_head(p, n, v, e);
	int wide = v[2] > 255, colour = p[1] == '6';
	unsigned max = (unsigned)v[2];

	if (!at)
		return -1;
	*im = image_new((int)v[0], (int)v[1]);
	for (size_t i = 0; i < (size_t)(v[0] * v[1]) * 3; i++) {
		const unsigned char *q = p + at + (colour ? i : i / 3) * (wide ? 2 : 1);
		unsigned x = wide ? (unsigned)q[0] << 8 | q[1] : q[0];

		im->px[i] = (unsigned char)((x < max ? x * 255 + max / 2 : max * 255) / max);
	}
	return 0;
}

static int
jpeg_size(const unsigned char *p, size_t n, int *w, int *h, int *orientation, struct err *e)
{
	struct jpeg_walk j;

	jpeg_walk(p, n, NULL, &j);
	*orientation = j.orientation;
	*w = j.w;
	*h = j.h;
	if (!j.bits)
		return err_set(e, "JPEG: cut in its header, no picture data");
	return image_limit(j.w, j.h, e);
}

static int
png_exif(const unsigned char *p, size_t n)
{
	size_t i = 8, len;

	for (; n > i && n - i >= 12 && (len = be32(p + i)) <= n - i - 12; i += len + 12)
		if (!memcmp(p + i + 4, "eXIf", 4))
			return image_exif(p + i + 8, len);
	return 0;
}

/* Size from the header; orientation 0 where none is said.  Only as much is looked at as that
 * takes. */
int
image_size(const void *bytes, size_t n, int *w, int *h, int *orientation, struct err *e)
{
	const unsigned char *p = (const unsigned char *)bytes;
	int64_t ww, hh;

	*w = *h = *orientation = 0;
	switch (image_format(p, n)) {
	case IMG_JPEG:
		return jpeg_size(p, n, w, h, orientation, e);
	case IMG_PNG:
		ww = n >= 33 && (be32(p + 12) == 0x49484452) ? be32(p + 16) : 0;
		hh = ww ? be32(p + 20) : 0;
		*orientation = png_exif(p, n);
		if (n >= 49 && !memcmp(p + 12, "CgBI", 4)) {
			ww = be32(p + 32);
			hh = be32(p + 36);
		}
		break;
	case IMG_GIF:
		ww = n >= 10 ? le(p + 6, 2) : 0;
		hh = n >= 10 ? le(p + 8, 2) : 0;
		break;
	case IMG_BMP:
		return bmp_size(p, n, w, h, e);
	case IMG_PNM:
		return pnm_size(p, n, w, h, e);
	default:
		return unknown(p, n, e);
	}
	if (image_limit(ww, hh, e))
		return -1;
	*w = (int)ww;
	*h = (int)hh;
	return 0;
}

/* Is all there that the format promises? */
int
image_whole(const void *bytes, size_t n, struct err *e)
{
	const unsigned char *p = (const unsigned char *)bytes;

	switch (image_format(bytes, n)) {
	case IMG_PNG:
		return png_whole(p, n, e);
	case IMG_GIF:
		return gif_whole(p, n, e);
	default:
		return 0;		/* BMP, PNM: seen by image_size; JPEG: by its decoder */
	}
}

static int
too_few(size_t n, int w, int h, struct err *e)
{
	return err_set(e, "its header says %d x %d pixels, which %zu bytes cannot hold", w, h, n);
}

/* deflate makes at most 1032 bytes of one. */
static int
png_plausible(const unsigned char *p, size_t n, int w, int h, double *per, struct err *e)
{
	static const unsigned char channels[8] = { 1, 0, 3, 1, 2, 0, 4, 0 };
	uint64_t data = 0, raw, bits = 0;
	size_t len;

	for (size_t i = 8; n - i >= 12; i += len + 12) {
		len = be32(p + i);
		if (!memcmp(p + i + 4, "IHDR", 4))
			bits = (uint64_t)p[i + 16] * channels[p[i + 17] & 7];
		else if (!memcmp(p + i + 4, "IDAT", 4))
			data += len;
		else if (!memcmp(p + i + 4, "IEND", 4))
			break;
	}
	raw = (uint64_t)h * (((uint64_t)w * bits + 7) / 8 + 1);
	*per = 7 + (double)bits / 4;
	return raw > 1032 * data ? too_few(n, w, h, e) : 0;
}

/* A code of GIF's has 12 bits where it stands for the most pixels, 4096.  A block of 8x8 of a JPEG
 * takes a bit at least. */
int
image_plausible(const void *bytes, size_t n, int w, int h, double *per, struct err *e)
{
	uint64_t pixels = (uint64_t)w * (uint64_t)h;
	enum image_format f = image_format(bytes, n);

	*per = f == IMG_GIF ? 12 : f == IMG_JPEG ? 9 : 7;
	if (f == IMG_PNG)
		return png_plausible((const unsigned char *)bytes, n, w, h, per, e);
	if ((f == IMG_GIF && pixels > n * 2731) || (f == IMG_JPEG && pixels > n * 512))
		return too_few(n, w, h, e);
	return 0;
}
