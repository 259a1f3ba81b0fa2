/* jpeg.c -- JPEG through libjpeg-turbo, with damage told apart from quirks.
 *
 * The library decodes nearly anything and keeps only its first warning, so a harmless one (bytes
 * between segments) can hide a serious one (the data ends half-way).  Therefore the segments are
 * walked here first, as the library itself would walk them.  Where there is junk between them or
 * no end mark, the library gets a copy with the junk left out and the end mark put in.  What it
 * then still complains of is damage, except for stray bytes right before the end mark, and for a
 * progressive scan of details that is short.  A file that only lacks its end mark so decodes whole,
 * and a cut one is an error. */
#include <stdlib.h>
#include <string.h>

#include <turbojpeg.h>

#include "image/image.h"

/* Each scan of a progressive file goes over the whole picture, and may be empty.  The library's own
 * tools write 10 of them, the finest script that makes sense some 40. */
enum { FEW_SCANS = 16, MOST_SCANS = 100 };

static unsigned
be16(const unsigned char *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static unsigned
tiff(const unsigned char *p, int n, int big)
{
	unsigned v = 0;

	for (int i = 0; i < n; i++)
		v = v << 8 | p[big ? i : n - 1 - i];
	return v;
}

int
image_exif(const unsigned char *p, size_t n)
{
	unsigned off, count, v;
	int big;

	if (n < 8)
		return 0;
	big = p[0] == 'M';
	off = tiff(p + 4, 4, big);
	if (tiff(p + 2, 2, big) != 42 || off > n - 2)
		return 0;
	count = tiff(p + off, 2, big);
	for (size_t at = (size_t)off + 2; count-- && at + 12 <= n; at += 12)
		if (tiff(p + at, 2, big) == 0x112 && tiff(p + at + 2, 2, big) == 3) {
			v = tiff(p + at + 8, 2, big);
			return v >= 1 && v <= 8 ? (int)v : 0;
		}
	return 0;
}

/* What the segment with this marker says; seg points at its length. */
static void
take_segment(struct jpeg_walk *j, int marker, const unsigned char *seg, size_t len)
{
	int sof = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 &&
	    marker != 0xcc;

	if (sof && !j->w && len >= 8) {
		j->bits = seg[2];
		j->h = (int)be16(seg + 3);
		j->w = (int)be16(seg + 5);
		j->comps = seg[7];
		j->progressive = marker == 0xc2 || marker == 0xca;
		j->arithmetic = marker > 0xc8;
	}
	if (marker == 0xe1 && !j->orientation && len >= 16 && !memcmp(seg + 2, "Exif\0", 6))
		j->orientation = image_exif(seg + 8, len - 8);
}

/* The end of the entropy-coded bytes that begin at p: the next marker that is no restart. */
static size_t
skip_scan(const unsigned char *p, size_t i, size_t n)
{
	for (;; i++) {
		const unsigned char *f =
		    i < n ? (const unsigned char *)memchr(p + i, 0xff, n - i) : NULL;

		if (!f || (i = (size_t)(f - p)) + 1 >= n)
			return n;
		if (p[i + 1] && p[i + 1] != 0xff && (p[i + 1] < 0xd0 || p[i + 1] > 0xd7))
			return i;
	}
}

/* Walk the segments; copy (n + 2 bytes) or NULL gets them without what lies between. */
void
jpeg_walk(const unsigned char *p, size_t n, unsigned char *copy, struct jpeg_walk *j)
{
	size_t i = 2, from, out = 0;
	int marker;

	memset(j, 0, sizeof *j);
	if (copy)
		memcpy(copy, p, 2);
	for (out = 2; i < n;) {
		size_t junk = i, len = 2;

		while (i + 1 < n && (p[i] != 0xff || p[i + 1] == 0 || p[i + 1] == 0xff))
			i += p[i] == 0xff && p[i + 1] == 0 ? 2 : 1;
		for (; junk < i && junk < n; junk++)
			j->junk += p[junk] != 0xff;
		if (i + 1 >= n)
			break;
		from = i;
		marker = p[i + 1];
		i += 2;
		if (marker == 0xd9)
			j->eoi = 1;
		else if (marker != 0x01 && (marker < 0xd0 || marker > 0xd8)) {
			if (i + 2 > n || (len = be16(p + i)) < 2 || len > n - i) {
				j->cut = 1;
				i = n;
			} else {
				take_segment(j, marker, p + i, len);
				i += len;
				if (marker == 0xda) {
					j->scans++;
					i = skip_scan(p, i, n);
				}
			}
		}
		if (copy)
			memcpy(copy + out, p + from, i - from);
		out += i - from;
		if (j->eoi)
			break;
	}
	if (copy && !j->eoi) {
		copy[out] = 0xff;
		copy[out + 1] = 0xd9;
	}
	j->len = j->eoi ? out : out + 2;
}

/* Adobe's inverted CMYK, the only kind met in the wild, to RGB. */
static void
from_cmyk(const unsigned char *cmyk, struct image *im)
{
	size_t n = (size_t)im->w * (size_t)im->h;

	for (size_t i = 0; i < n; i++)
		for (int c = 0; c < 3; c++)
			im->px[i * 3 + (size_t)c] = (unsigned char)((cmyk[i * 4 + (size_t)c] *
			    cmyk[i * 4 + 3] + 127) / 255);
}

/* The library's message without the name of its function. */
static int
complain(tjhandle h, struct err *e)
{
	const char *s = tjGetErrorStr2(h), *p = strstr(s, "(): ");

	return err_set(e, "JPEG: %s", p ? p + 4 : s);
}

/* Decode into im (allocated).  -1: failed or damaged, why in msg; 0: fine or a remark in msg. */
static int
decode(tjhandle h, const unsigned char *p, size_t n, struct image *im, struct err *e)
{
	int w = 0, ht = 0, sub, space = 0, r, cmyk;
	unsigned char *tmp = NULL;

	e->msg[0] = 0;
	/* A sampling of the colours that the library has no name for (1x3) it still decodes. */
	if (tjDecompressHeader3(h, p, n, &w, &ht, &sub, &space) &&
	    tjGetErrorCode(h) != TJERR_WARNING &&
	    !(w > 0 && strstr(tjGetErrorStr2(h), "subsampling")))
		return complain(h, e);
	if (w != im->w || ht != im->h)
		return err_set(e, "JPEG: two frame headers, %dx%d and %dx%d", im->w, im->h, w, ht);
	cmyk = space == TJCS_CMYK || space == TJCS_YCCK;
	if (cmyk)
		tmp = (unsigned char *)xmalloc((size_t)w * (size_t)ht * 4);
	r = tjDecompress2(h, p, n, cmyk ? tmp : im->px, w, 0, ht, cmyk ? TJPF_CMYK : TJPF_RGB,
	    TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS);
	if (cmyk && (!r || tjGetErrorCode(h) == TJERR_WARNING))
		from_cmyk(tmp, im);
	free(tmp);
	if (!r)
		return 0;
	complain(h, e);
	if (tjGetErrorCode(h) == TJERR_WARNING &&
	    strstr(e->msg, "extraneous bytes before marker 0xd9"))
		return 0;
	return -1;
}

/* A progressive JPEG with its scans of the cells' means only; out: n bytes.  p has no junk. */
static size_t
keep_means(const unsigned char *p, size_t n, unsigned char *out)
{
	size_t len = 2, i = 2;

	memcpy(out, p, 2);
	while (i + 5 <= n && p[i + 1] != 0xd9) {
		size_t from = i, seg = be16(p + i + 2), comps = p[i + 4];
		int first = 0;

		if (seg < 2 || seg > n - i - 2)
			break;
		i += 2 + seg;
		if (p[from + 1] == 0xda) {
			first = seg > 4 + 2 * comps ? p[from + 5 + 2 * comps] : 0;
			i = skip_scan(p, i, n);
		}
		if (first)		/* a scan of details: it begins behind coefficient 0 */
			continue;
		memcpy(out + len, p + from, i - from);
		len += i - from;
	}
	out[len] = 0xff;
	out[len + 1] = 0xd9;
	return len + 2;
}

/* A progressive file that has its end mark, and all of whose data that is short is details: the
 * picture is there from edge to edge.  1: so it is, im holds it. */
static int
lacks_details(tjhandle h, const unsigned char *p, size_t n, struct image *im, struct err *e)
{
	unsigned char *means;
	struct image rough = *im;
	struct err why;
	int r;

	if (!strstr(e->msg, "premature end of data segment"))
		return 0;
	means = (unsigned char *)xmalloc(n + 2);
	rough.px = (unsigned char *)xmalloc((size_t)im->w * (size_t)im->h * 3);
	r = !decode(h, means, keep_means(p, n, means), &rough, &why);
	free(rough.px);
	free(means);
	return r;
}

int
jpeg_decode(const unsigned char *p, size_t n, struct image *im, struct err *e)
{
	unsigned char *copy = NULL;
	struct jpeg_walk j;
	tjhandle h;
	int r, rough;

	jpeg_walk(p, n, NULL, &j);
	if (j.cut || !j.w || !j.h || !j.scans)
		return err_set(e, "JPEG: %s", j.bits && !j.h ? "height 0 in its header" :
		    "cut in its header, no picture data");
	if (j.bits != 8)
		return err_set(e, "JPEG: %d bits a sample, want 8", j.bits);
	if (j.arithmetic)		/* some builds of the library could, some could not */
		return err_set(e, "JPEG: arithmetic coding, want Huffman's "
		    "(jpegtran -optimize makes it)");
	if (image_limit(j.w, j.h, e))
		return -1;
	if (j.scans > FEW_SCANS && (j.scans > MOST_SCANS ||
	    (int64_t)j.w * j.h * j.scans > (int64_t)1 << 31))
		return err_set(e, "JPEG: %d scans of %d x %d pixels, more than anybody needs",
		    j.scans, j.w, j.h);
	if (j.junk || !j.eoi) {
		copy = (unsigned char *)xmalloc(n + 2);
		jpeg_walk(p, n, copy, &j);
		p = copy;
	}
	*im = image_new(j.w, j.h);
	if (!(h = tjInitDecompress()))
		die(1, "libturbojpeg: %s", tjGetErrorStr2(NULL));
	r = decode(h, p, j.len, im, e);
	rough = r && j.progressive && j.eoi && lacks_details(h, p, j.len, im, e);
	tjDestroy(h);
	free(copy);
	if (rough)
		err_set(e, "JPEG: a progressive scan ends early, some detail is missing");
	else if (r)
		image_free(im);
	else if (!j.eoi)
		err_set(e, "JPEG: no end mark, the picture is whole");
	else if (j.junk)
		err_set(e, "JPEG: %zu stray bytes between its segments", j.junk);
	return rough ? 0 : r;
}

int
image_jpeg(const struct image *im, int quality, unsigned char **out, size_t *n, struct err *e)
{
	tjhandle h = tjInitCompress();
	unsigned long len = 0;
	unsigned char *buf = NULL;
	int r;

	if (!h)
		die(1, "libturbojpeg: %s", tjGetErrorStr2(NULL));
	r = tjCompress2(h, im->px, im->w, 0, im->h, TJPF_RGB, &buf, &len,
	    quality >= 95 ? TJSAMP_444 : TJSAMP_420, quality, TJFLAG_ACCURATEDCT);
	if (r)
		err_set(e, "JPEG: %s", tjGetErrorStr2(h));
	else {
		*out = (unsigned char *)memcpy(xmalloc(len), buf, len);
		*n = len;
	}
	tjFree(buf);
	tjDestroy(h);
	return r ? -1 : 0;
}
