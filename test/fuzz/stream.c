/* stream.c -- fuzz target: any bytes as a shard that comes through a pipe, first as they are, then
 * with the checksums of its header and records made right.
 *
 * Offsets grow, and every record that is given has a name, bytes, and boxes of classes that exist
 * with finite sides. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "yolo.h"

int LLVMFuzzerTestOneInput(const unsigned char *, size_t);

static void
sum(unsigned char *at, const unsigned char *p, size_t n)
{
	uint64_t v = XXH3_64bits(p, n);

	for (int i = 0; i < 8; i++)
		at[i] = (unsigned char)(v >> 8 * i);
}

/* One record behind another, as their lengths say. */
static void
mend(unsigned char *p, size_t n)
{
	sum(p + SHARD_HEAD - 8, p, SHARD_HEAD - 8);
	for (size_t at = SHARD_HEAD; at + SHARD_REC <= n && !memcmp(p + at, "YREC", 4);) {
		uint64_t len = 0;

		for (int i = 8; i--;)
			len = len << 8 | p[at + 16 + i];
		if (len > n - at - SHARD_REC)
			len = n - at - SHARD_REC;
		sum(p + at + 8, p + at + SHARD_REC, len);
		sum(p + at + 72, p + at, 72);
		at += (SHARD_REC + len + SHARD_ALIGN - 1) / SHARD_ALIGN * SHARD_ALIGN;
	}
}

static void
look(unsigned char *p, size_t n)
{
	FILE *f = fmemopen(p, n, "rb");
	struct shard_stream *s = f ? stream_open(f, "fuzz", &(struct err){ "" }) : NULL;
	uint64_t end = 0;
	struct record r;
	struct err e;
	char **name;
	int64_t *id;
	int classes = s ? stream_classes(s, &name, &id) : 0;

	while (s && stream_next(s, &r, &e) == 1) {
		assert(stream_at(s) >= end && stream_end(s) > stream_at(s));
		end = stream_end(s);
		assert(r.name && r.w > 0 && r.h > 0);
		for (int i = 0; i < r.nbox; i++)
			assert(r.box[i].cls >= 0 && r.box[i].cls < classes &&
			    isfinite(r.box[i].x) && isfinite(r.box[i].w) && r.box[i].w > 0);
	}
	if (s)
		stream_close(s);
	if (f)
		fclose(f);
}

int
LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	unsigned char *copy;

	if (n < SHARD_HEAD)
		return 0;
	copy = (unsigned char *)xmalloc(n);
	memcpy(copy, p, n);
	look(copy, n);
	mend(copy, n);
	look(copy, n);
	free(copy);
	return 0;
}
