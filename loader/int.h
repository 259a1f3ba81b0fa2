/* int.h -- drawing samples and keeping pictures, for the loader. */
#ifndef LOADER_INT_H
#define LOADER_INT_H

#include "loader/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- warp.c: pictures into a network input ------------------------------------------------- */

struct paste {		/* source x = m[0] x + m[1] y + m[2], y likewise; indices of pixels */
	const struct image *im;
	double m[6], lo[2], hi[2];	/* the picture is where lo <= source < hi */
};
struct tone { float hue, sat, val; int open; };	/* turns, factors; open: cut only at the end */
struct canvas {
	int w, h;
	float grey;			/* 0..255, where no picture is */
	int eight, halve;		/* rounded to 8 bits; fine sources are halved first */
	int tone_all;			/* the tone changes the grey too */
	struct tone tone;
};
struct warp *warp_open(void);	/* buffers, one set per thread */
void warp_close(struct warp *);
/* Later pictures cover earlier ones; at most AUG_PICTURES. */
void warp_draw(struct warp *, const struct canvas *, const struct paste *, int n, float *out);

/* ---- album.c: decoded pictures kept for a while -------------------------------------------- */

struct album;
/* At most so many bytes and pictures. */
struct album *album_open(size_t limit, int most);
void album_close(struct album *);
/* 1: *im is the kept picture, to be read until album_done; 0: it is not here. */
int album_get(struct album *, long record, struct image *);
/* Keep a picture just decoded: 1: kept and being read, *im may have become an equal copy; 0: there
 * is no room, it stays the caller's. */
int album_put(struct album *, long record, struct image *);
void album_done(struct album *, long record);

#ifdef __cplusplus
}
#endif
#endif
