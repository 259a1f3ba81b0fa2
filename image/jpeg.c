/* jpeg.c -- JPEG through libjpeg-turbo, with damage told apart from quirks.
 *
 * The library decodes nearly anything and only warns, and a harmless warning (bytes between
 * segments) looks like a serious one (the data ends half-way).  Therefore the segments are walked
 * here first, as the library itself would walk them.  Where there is junk between them or no end
 * mark, the library gets a copy with the junk left out and the end mark put in.  What it then still
 * warns of, by the code of the warning, is damage, except for stray bytes right before the end
 * mark, and for a progressive scan of details that is short.  A file that only lacks its end mark
 * so decodes whole, and a cut one is an error. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

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

/* What the library says: code is that of an error, or of the first warning that is of damage, 0:
 * neither; text may hold a remark all the same. */
struct complaint {
	struct jpeg_error_mgr lib;
	jmp_buf give_up;
	int code;
	char text[JMSG_LENGTH_MAX];
};
enum { TOO_MANY_SCANS = -1 };

static void
on_error(j_common_ptr c)
{
	struct complaint *t = (struct complaint *)c->err;

	t->code = t->lib.msg_code;
	t->lib.format_message(c, t->text);
	longjmp(t->give_up, 1);
}

static void
on_message(j_common_ptr c, int level)
{
	struct complaint *t = (struct complaint *)c->err;
	int stray = t->lib.msg_code == JWRN_EXTRANEOUS_DATA && t->lib.msg_parm.i[1] == 0xd9;

	if (level >= 0 || t->code || (stray && t->text[0]))
		return;
	t->lib.format_message(c, t->text);
	t->code = stray ? 0 : t->lib.msg_code;
}

/* Each scan goes over the whole picture: thousands of empty ones would take hours. */
static void
on_progress(j_common_ptr c)
{
	struct complaint *t = (struct complaint *)c->err;

	if (((j_decompress_ptr)c)->input_scan_number <= MOST_SCANS)
		return;
	t->code = TOO_MANY_SCANS;
	snprintf(t->text, sizeof t->text, "more than %d scans", MOST_SCANS);
	longjmp(t->give_up, 1);
}

static struct jpeg_error_mgr *
complain_to(struct complaint *t)
{
	memset(t, 0, sizeof *t);
	jpeg_std_error(&t->lib);
	t->lib.error_exit = on_error;
	t->lib.emit_message = on_message;
	return &t->lib;
}

/* Adobe's inverted CMYK, the only kind met in the wild, to RGB. */
static void
from_cmyk(const unsigned char *cmyk, unsigned char *rgb, int w)
{
	for (int i = 0; i < w; i++, cmyk += 4)
		for (int c = 0; c < 3; c++)
			*rgb++ = (unsigned char)((cmyk[c] * cmyk[3] + 127) / 255);
}

/* All rows into im, which has the header's size; row has room for one of 4 bytes a pixel. */
static void
read_rows(struct jpeg_decompress_struct *c, struct image *im, unsigned char *row)
{
	int cmyk = c->jpeg_color_space == JCS_CMYK || c->jpeg_color_space == JCS_YCCK;

	c->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
	c->dct_method = JDCT_ISLOW;
	jpeg_start_decompress(c);
	while (c->output_scanline < c->output_height) {
		unsigned char *to = im->px + (size_t)c->output_scanline * (size_t)im->w * 3;
		JSAMPROW into = cmyk ? row : to;

		jpeg_read_scanlines(c, &into, 1);
		if (cmyk)
			from_cmyk(row, to, im->w);
	}
	jpeg_finish_decompress(c);
}

/* Decode into im (allocated).  0: fine, perhaps with a remark in msg; else failed or damaged, why
 * in msg: the code of the library, or -1. */
static int
decode(const unsigned char *p, size_t n, struct image *im, struct err *e)
{
	unsigned char *row = (unsigned char *)xmalloc((size_t)im->w * 4);
	struct jpeg_decompress_struct c;
	struct jpeg_progress_mgr progress;
	struct complaint t;

	memset(&c, 0, sizeof c);
	memset(&progress, 0, sizeof progress);
	progress.progress_monitor = on_progress;
	c.err = complain_to(&t);
	e->msg[0] = 0;
	if (!setjmp(t.give_up)) {
		jpeg_create_decompress(&c);
		jpeg_mem_src(&c, p, n);
		jpeg_read_header(&c, TRUE);
		c.progress = &progress;
		if ((int)c.image_width == im->w && (int)c.image_height == im->h)
			read_rows(&c, im, row);
		else
			t.code = err_set(e, "JPEG: two frame headers, %dx%d and %dx%d", im->w,
			    im->h, (int)c.image_width, (int)c.image_height);
	}
	jpeg_destroy_decompress(&c);
	free(row);
	if (t.text[0] && !e->msg[0])
		err_set(e, "JPEG: %s", t.text);
	return t.code;
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
lacks_details(const unsigned char *p, size_t n, struct image *im)
{
	unsigned char *means;
	struct image rough = *im;
	struct err why;
	int r;

	means = (unsigned char *)xmalloc(n + 2);
	rough.px = (unsigned char *)xmalloc((size_t)im->w * (size_t)im->h * 3);
	r = !decode(means, keep_means(p, n, means), &rough, &why);
	free(rough.px);
	free(means);
	return r;
}

int
jpeg_decode(const unsigned char *p, size_t n, struct image *im, struct err *e)
{
	unsigned char *copy = NULL;
	struct jpeg_walk j;
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
	r = decode(p, j.len, im, e);
	rough = r == JWRN_HIT_MARKER && j.progressive && j.eoi && lacks_details(p, j.len, im);
	free(copy);
	if (rough)
		err_set(e, "JPEG: a progressive scan ends early, some detail is missing");
	else if (r)
		image_free(im);
	else if (!j.eoi)
		err_set(e, "JPEG: no end mark, the picture is whole");
	else if (j.junk)
		err_set(e, "JPEG: %zu stray bytes between its segments", j.junk);
	return r && !rough ? -1 : 0;
}

int
image_jpeg(const struct image *im, int quality, unsigned char **out, size_t *n, struct err *e)
{
	struct jpeg_compress_struct c;
	struct complaint t;
	unsigned long len = 0;

	*out = NULL;
	memset(&c, 0, sizeof c);
	c.err = complain_to(&t);
	if (!setjmp(t.give_up)) {
		jpeg_create_compress(&c);
		jpeg_mem_dest(&c, out, &len);
		c.image_width = (JDIMENSION)im->w;
		c.image_height = (JDIMENSION)im->h;
		c.input_components = 3;
		c.in_color_space = JCS_RGB;
		jpeg_set_defaults(&c);
		jpeg_set_quality(&c, quality, TRUE);
		c.dct_method = JDCT_ISLOW;
		if (quality >= 95)	/* colours as fine as brightness */
			c.comp_info[0].h_samp_factor = c.comp_info[0].v_samp_factor = 1;
		jpeg_start_compress(&c, TRUE);
		while (c.next_scanline < c.image_height) {
			JSAMPROW row = im->px + (size_t)c.next_scanline * (size_t)im->w * 3;

			jpeg_write_scanlines(&c, &row, 1);
		}
		jpeg_finish_compress(&c);
		*n = len;
	}
	jpeg_destroy_compress(&c);
	return t.code ? err_set(e, "JPEG: %s", t.text) : 0;
}
