/* shard.c -- fuzz the readers of shards, and pictures.
 *
 * Checksums would stop the fuzzer at the first byte, so those of header, footer, tail and the first
 * records are made right again before the file is opened: what is tested is the bounds behind
 * them.  An input that begins with 'I' is a picture. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "yolo.h"

int LLVMFuzzerTestOneInput(const unsigned char *, size_t);

static void
set64(unsigned char *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t
get64(const unsigned char *p)
{
	uint64_t v = 0;

	for (int i = 8; i--;)
		v = v << 8 | p[i];
	return v;
}

static void
mend_records(unsigned char *p, size_t n)
{
	for (size_t at = SHARD_HEAD; at + SHARD_REC <= n && !memcmp(p + at, "YREC", 4);) {
		uint64_t len = get64(p + at + 16);

		if (len <= n - at - SHARD_REC)
			set64(p + at + 8, XXH3_64bits(p + at + SHARD_REC, len));
		set64(p + at + 72, XXH3_64bits(p + at, 72));
		if (len > n)
			break;
		at += (SHARD_REC + len + SHARD_ALIGN - 1) / SHARD_ALIGN * SHARD_ALIGN;
	}
}

static void
mend_part(const unsigned char *p, size_t n, unsigned char *sum, uint64_t at, uint64_t len)
{
	if (at <= n && len <= n - at)
		set64(sum, XXH3_64bits(p + at, len));
}

static void
mend(unsigned char *p, size_t n)
{
	unsigned char *f = p + n - SHARD_FOOT;
	uint64_t index = get64(f + 32), boxes = get64(f + 40),
		 names = boxes + get64(f + 24) * SHARD_BOX;

	mend_records(p, n);
	set64(p + SHARD_HEAD - 8, XXH3_64bits(p, SHARD_HEAD - 8));
	memcpy(f + 80, p + 32, 16);
	set64(f + 8, n);
	mend_part(p, n, f + 48, index, get64(f + 16) * SHARD_ENTRY);
	mend_part(p, n, f + 56, boxes, get64(f + 24) * SHARD_BOX);
	mend_part(p, n, f + 64, names, n - SHARD_FOOT - names);
	set64(f + 120, XXH3_64bits(f, 120));
}

static void
as_stream(unsigned char *p, size_t n)
{
	FILE *f = fmemopen(p, n, "rb");
	struct shard_stream *s;
	struct record r;
	struct err e;

	if (f && (s = stream_open(f, "fuzz", &e))) {
		while (stream_next(s, &r, &e) == 1)
			;
		stream_close(s);
	}
	if (f)
		fclose(f);
}

static void
as_file(const unsigned char *p, size_t n)
{
	static char path[32];
	unsigned char *buf = NULL;
	struct record r;
	struct shard *s;
	struct err e;
	size_t cap = 0, sum = 0;
	long records;
	FILE *f;
	int fd;

	if (!*path) {
		strcpy(path, "/tmp/fuzz-shard.XXXXXX");
		if ((fd = mkstemp(path)) < 0)
			abort();
		close(fd);
	}
	if (!(f = fopen(path, "wb")))
		return;
	fwrite(p, 1, n, f);
	fclose(f);
	if ((s = shard_open(path, &e))) {
		for (long i = 0; i < shard_count(s) && i < 100; i++)
			if (!shard_read(s, i, &r, &buf, &cap, &e)) {
				for (size_t k = 0; k < r.nbytes; k++)
					sum += r.bytes[k];
				sum += strlen(r.name);
			}
		shard_close(s);
	}
	shard_check(path, &records, &e);
	unlink(path);
	free(buf);
	if (sum == (size_t)-1)
		abort();			/* or the sum would not be computed */
}

int
LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	struct image im;
	struct err e;
	unsigned char *copy;
	int w, h, orientation;

	if (n && *p == 'I') {
		if (!image_size(p + 1, n - 1, &w, &h, &orientation, &e) &&
		    (int64_t)w * h < 1 << 22 && !image_decode(p + 1, n - 1, &im, &e))
			image_free(&im);
		return 0;
	}
	if (n < SHARD_HEAD + SHARD_FOOT)
		return 0;
	copy = (unsigned char *)xmalloc(n);
	memcpy(copy, p, n);
	as_stream(copy, n);
	mend(copy, n);
	as_stream(copy, n);
	as_file(copy, n);
	free(copy);
	return 0;
}
