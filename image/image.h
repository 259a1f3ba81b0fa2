/* image.h -- a picture in memory: decoded, resized, laid into a network input, drawn on, written.
 *
 * Needs base.  Promises: a damaged picture is an error, never half a picture, and no header makes
 * it take more memory than the picture has. */
#ifndef IMAGE_PART_H
#define IMAGE_PART_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- decode, resize, letterbox, draw, write ------------------------------------------------ */

struct image {
	int w, h;
	unsigned char *px;		/* RGB, rows of w * 3 bytes */
};
enum resize_kind { RESIZE_STB, RESIZE_BILINEAR, RESIZE_DARKNET };
/* Decode JPEG (libjpeg-turbo), PNG, BMP, GIF (its first image; stb_image) or PNM; grey becomes
 * RGB, alpha is dropped, 16 bits become 8, EXIF orientation is NOT applied: image_turn does that.
 * A damaged picture is an error, never half a picture.
 * On success err holds a remark ("no end mark ...") or an empty string. */
int image_decode(const void *bytes, size_t n, struct image *, struct err *);
/* From the header alone; orientation 0 where none is said. */
int image_size(const void *bytes, size_t n, int *w, int *h, int *orientation, struct err *);
/* orientation NULL: the size as it is shown, not as it is stored. */
int image_file_size(const char *path, int *w, int *h, int *orientation, struct err *);
/* EXIF's orientation in n bytes of TIFF, 0: none. */
int image_exif(const unsigned char *, size_t n);
/* Stored pixels into how they are shown; an orientation below 2 changes nothing, one of 5 to 8
 * exchanges width and height. */
void image_turn(struct image *, int orientation);
enum image_format { IMG_UNKNOWN, IMG_JPEG, IMG_PNG, IMG_GIF, IMG_BMP, IMG_PNM };
enum image_format image_format(const void *bytes, size_t n);
int image_named(const char *name);	/* like a picture, also of a kind that is not read here */
int image_limit(int64_t w, int64_t h, struct err *);	/* -1: no size, or a bomb */
int image_whole(const void *bytes, size_t n, struct err *);	/* PNG, GIF: nothing missing */
/* -1: so few bytes cannot hold so many pixels.  *per: bytes of memory that a pixel takes. */
int image_plausible(const void *bytes, size_t n, int w, int h, double *per, struct err *);
struct jpeg_walk {		/* a JPEG's segments; jpeg.c */
	int w, h, bits, comps, progressive, arithmetic, orientation, scans, eoi, cut;
	size_t junk, len;
};
void jpeg_walk(const unsigned char *, size_t n, unsigned char *copy, struct jpeg_walk *);
int jpeg_decode(const unsigned char *, size_t n, struct image *, struct err *);
/* stb.c: no piece of memory above most bytes for this thread's decoding; was one refused? */
void stb_limit(size_t most);
int stb_refused(void);
/* In how many threads pictures are decoded at once: together they take half of the memory at most,
 * or the picture is an error. */
void image_threads(int n);
int pnm_decode(const unsigned char *, size_t n, struct image *, struct err *);
int image_jpeg(const struct image *, int quality, unsigned char **out, size_t *n, struct err *);
int image_load(const char *path, struct image *, struct err *);	/* turned as EXIF says */
/* To brightness, as stb_image computes it: three equal channels.  And the one of n such pixels. */
void image_grey(struct image *);
void image_one(const float *rgb, size_t n, float *one);
struct image image_new(int w, int h);
void image_free(struct image *);
/* 8-bit resize of src to dst->w x dst->h (stb or half-pixel bilinear). */
void image_resize(const struct image *src, struct image *dst, enum resize_kind);
/* How a picture lies in a network input: x_net = x_pic * sx + dx, in pixels. */
struct fit { double sx, sy, dx, dy; int nw, nh; };
struct fit fit_letterbox(int pic_w, int pic_h, int net_w, int net_h);	/* darknet's integers */
struct fit fit_stretch(int pic_w, int pic_h, int net_w, int net_h);
/* The letterbox without whole rows or columns of unit pixels of border: an input of *w x *h. */
struct fit fit_rect(int pic_w, int pic_h, int net_w, int net_h, int unit, int *w, int *h);
/* The picture as network input, float 0..1 NHWC of one image: out[net_h][net_w][3].  Grey border:
 * 0.5 for RESIZE_DARKNET (computed in float, corner-aligned), else 114/255 (8-bit resize). */
void image_to_net(const struct image *, struct fit, enum resize_kind, int net_w, int net_h,
    float *out);
/* Draw a box in the class's colour with a readable label on it (text may be NULL). */
void image_box(struct image *, double x, double y, double w, double h, int cls, const char *text);
/* A line of light text, its top left corner at x y, letters of 5x7 dots of scale pixels. */
void image_text(struct image *, int x, int y, int scale, const char *text);
int image_write(const char *path, const struct image *, struct err *);	/* .png or .jpg, atomic */

#ifdef __cplusplus
}
#endif
#endif
