/* stb.c -- the bodies of the stb headers, in one place because they do not keep our warnings.
 *
 * Only the formats that image.c has looked over are compiled in: PNG, BMP and GIF.  The rest
 * (TGA, PSD, PIC, HDR) have neither checksum nor end mark, so a cut file would decode to half a
 * picture. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wc++-compat"
#pragma GCC diagnostic ignored "-Wpointer-arith"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <stdio.h>

#include <stdlib.h>

#include "image/image.h"

/* stb inflates what is there, whatever the header says: its memory is counted by piece. */
static __thread struct { size_t most; int refused; } limit;

static void *
limited(void *old, size_t n)
{
	if (n <= limit.most)
		return realloc(old, n);
	limit.refused = 1;
	return NULL;
}

void
stb_limit(size_t most)
{
	limit.most = most;
	limit.refused = 0;
}

int
stb_refused(void)
{
	return limit.refused;
}

#define STBI_MALLOC(n) limited(NULL, n)
#define STBI_REALLOC(p, n) limited(p, n)
#define STBI_FREE(p) free(p)
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_ONLY_GIF
#define STBI_NO_STDIO
#define STBI_FAILURE_USERMSG
#define STB_IMAGE_IMPLEMENTATION
#include <stb_image.h>

#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb_image_resize.h>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>
#pragma GCC diagnostic pop
