/* picture.c -- fuzz target: any bytes as a picture, through the way that prep, detect and the
 * loader take: size from the header, decoding, EXIF's turn, laid into a network input.
 *
 * What the header says and what is decoded are one size, and every pixel is there. */
#include <assert.h>
#include <string.h>

#include "yolo.h"

int LLVMFuzzerTestOneInput(const unsigned char *, size_t);

static void
look(struct image *im, int orientation)
{
	enum { SIDE = 16 };
	static float out[SIDE * SIDE * 3];
	int w = im->w, h = im->h, turned = orientation > 4;
	size_t sum = 0;

	for (size_t i = 0; i < (size_t)w * h * 3; i++)
		sum += im->px[i];
	image_turn(im, orientation);
	assert(im->w == (turned ? h : w) && im->h == (turned ? w : h));
	for (size_t i = 0; i < (size_t)w * h * 3; i++)
		sum -= im->px[i];
	assert(!sum);					/* the same pixels, elsewhere */
	image_to_net(im, fit_letterbox(im->w, im->h, SIDE, SIDE), RESIZE_STB, SIDE, SIDE, out);
	for (int i = 0; i < SIDE * SIDE * 3; i++)
		assert(out[i] >= 0 && out[i] <= 1);
}

int
LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	struct image im;
	struct err e;
	int w, h, orientation;

	if (image_size(p, n, &w, &h, &orientation, &e)) {
		assert(e.msg[0] && !strchr(e.msg, '\n'));
		return 0;
	}
	assert(w > 0 && h > 0 && orientation >= 0 && orientation <= 8);
	if ((int64_t)w * h > 1 << 20)			/* large is slow, not other code */
		return 0;
	if (image_decode(p, n, &im, &e)) {
		assert(e.msg[0] && !strchr(e.msg, '\n'));
		return 0;
	}
	assert(im.w == w && im.h == h);
	look(&im, orientation);
	image_free(&im);
	return 0;
}
