/* draw.c -- boxes and their labels on a picture.
 *
 * The letters are drawn by hand on 5x7 cells, one number each: 35 bits, rows from the top, the
 * leftmost dot the highest bit.  Line and letters grow with the picture so that they stay readable.
 * Colours walk the hue circle by the golden section: near classes get far colours. */
#include <math.h>
#include <string.h>

#include "image/image.h"

enum { GW = 5, GH = 7 };

static const unsigned long long glyph[95] = {
	0x000000000ULL, 0x108421004ULL, 0x294a00000ULL, 0x295f57d4aULL, 0x11f4717c4ULL,
	0x672222273ULL, 0x32544564dULL, 0x108800000ULL, 0x088842082ULL, 0x208210888ULL,
	0x009575480ULL, 0x0084f9080ULL, 0x000001088ULL, 0x0000f8000ULL, 0x00000018cULL,
	0x042222210ULL, 0x3a33ae62eULL, 0x11842108eULL, 0x3a213221fULL, 0x7c441062eULL,
	0x08ca97c42ULL, 0x7e1e0862eULL, 0x1910f462eULL, 0x7c2221084ULL, 0x3a317462eULL,
	0x3a317844cULL, 0x018c03180ULL, 0x018c03088ULL, 0x088882082ULL, 0x001f07c00ULL,
	0x410411110ULL, 0x3a2111004ULL, 0x3a37ade0fULL, 0x3a31fc631ULL, 0x7a31f463eULL,
	0x3a308422eULL, 0x72518c65cULL, 0x7e10f421fULL, 0x7e10f4210ULL, 0x3a30bc62fULL,
	0x4631fc631ULL, 0x38842108eULL, 0x1c4210a4cULL, 0x4654c5251ULL, 0x42108421fULL,
	0x4775ac631ULL, 0x4739ace71ULL, 0x3a318c62eULL, 0x7a31f4210ULL, 0x3a318d64dULL,
	0x7a31f5251ULL, 0x3e107043eULL, 0x7c8421084ULL, 0x46318c62eULL, 0x46318c544ULL,
	0x4631ad771ULL, 0x462a22a31ULL, 0x462a21084ULL, 0x7c222221fULL, 0x39084210eULL,
	0x420820821ULL, 0x38421084eULL, 0x115100000ULL, 0x00000001fULL, 0x208000000ULL,
	0x000e0be2fULL, 0x421e8c63eULL, 0x000f8420fULL, 0x042f8c62fULL, 0x000e8fe0fULL,
	0x191e42108ULL, 0x01f18bc2eULL, 0x421e8c631ULL, 0x100c2108eULL, 0x080610a4cULL,
	0x4212a6292ULL, 0x30842108eULL, 0x001aad6b1ULL, 0x001e8c631ULL, 0x000e8c62eULL,
	0x03d18fa10ULL, 0x01f18bc21ULL, 0x0016cc210ULL, 0x000f8383eULL, 0x211e42126ULL,
	0x00118c62fULL, 0x00118c544ULL, 0x0011ad6aaULL, 0x001151151ULL, 0x02318bc2eULL,
	0x001f1111fULL, 0x0c8441083ULL, 0x108421084ULL, 0x608411098ULL, 0x0008a8800ULL,
};
static const unsigned long long other = 0x7eb18c63fULL;	/* a frame: no letter for it */

struct rgb { unsigned char v[3]; };

static struct rgb
colour(int cls)
{
	double hue = fmod(0.02 + 0.6180339887498949 * (cls < 0 ? -cls : cls), 1.0) * 6;
	struct rgb c;

	for (int i = 0; i < 3; i++) {
		double k = fmod(5 - 2 * i + hue, 6), m = fmin(k, 4 - k);

		m = m < 0 ? 0 : m > 1 ? 1 : m;
		c.v[i] = (unsigned char)(255 * (1 - 0.85 * m));
	}
	return c;
}

static void
fill(struct image *im, int x0, int y0, int x1, int y1, struct rgb c)
{
	x0 = x0 < 0 ? 0 : x0;
	y0 = y0 < 0 ? 0 : y0;
	x1 = x1 > im->w ? im->w : x1;
	y1 = y1 > im->h ? im->h : y1;
	for (int y = y0; y < y1; y++)
		for (int x = x0; x < x1; x++)
			memcpy(im->px + ((size_t)y * (size_t)im->w + (size_t)x) * 3, c.v, 3);
}

/* Letters of UTF-8 text: bytes that continue a letter count for nothing. */
static int
letters(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void
text_at(struct image *im, int x, int y, int scale, struct rgb ink, const char *s)
{
	for (; *s; s++) {
		unsigned char ch = (unsigned char)*s;
		unsigned long long g = ch >= 32 && ch < 127 ? glyph[ch - 32] : other;

		if ((ch & 0xc0) == 0x80)
			continue;
		for (int i = 0; i < GW * GH; i++)
			if (g >> (GW * GH - 1 - i) & 1)
				fill(im, x + i % GW * scale, y + i / GW * scale,
				    x + (i % GW + 1) * scale, y + (i / GW + 1) * scale, ink);
		x += (GW + 1) * scale;
	}
}

void
image_box(struct image *im, double x, double y, double w, double h, int cls, const char *text)
{
	int side = im->w < im->h ? im->w : im->h, scale = side / 300 + 1, line = side / 250 + 1;
	double lim = 1e6;
	int x0 = (int)lrint(fmax(-lim, fmin(lim, x))), y0 = (int)lrint(fmax(-lim, fmin(lim, y)));
	int x1 = (int)lrint(fmax(-lim, fmin(lim, x + w))), y1 = (int)lrint(fmax(-lim,
	    fmin(lim, y + h)));
	struct rgb c = colour(cls), ink = { { 0, 0, 0 } };
	int tw, th = (GH + 2) * scale, ty;

	fill(im, x0, y0, x1, y0 + line, c);
	fill(im, x0, y1 - line, x1, y1, c);
	fill(im, x0, y0, x0 + line, y1, c);
	fill(im, x1 - line, y0, x1, y1, c);
	if (!text || !*text)
		return;
	if (299 * c.v[0] + 587 * c.v[1] + 114 * c.v[2] < 110000)
		memset(ink.v, 255, 3);
	tw = (letters(text) * (GW + 1) + 1) * scale;
	ty = y0 - th >= 0 ? y0 - th : y0 < 0 ? 0 : y0;	/* above the box, else inside its top */
	x0 = x0 + tw > im->w ? im->w - tw : x0;
	x0 = x0 < 0 ? 0 : x0;
	fill(im, x0, ty, x0 + tw, ty + th, c);
	text_at(im, x0 + scale, ty + scale, scale, ink, text);
}

void
image_text(struct image *im, int x, int y, int scale, const char *text)
{
	struct rgb ink = { { 235, 235, 235 } };

	text_at(im, x, y, scale, ink, text);
}
