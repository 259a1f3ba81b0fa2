/* protobuf.c -- messages of protobuf's wire format, in memory.
 *
 * A field is its number and kind in one varint, then a varint, four bytes, or a length and bytes.
 * A message is bytes: what it holds must be known before its length is written, so that small ones
 * are put together here and large bytes are only announced (pb_length). */
#include <stdlib.h>
#include <string.h>

#include "export/int.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_FOUR = 5 };

void
pb_free(struct pb *p)
{
	free(p->b);
	memset(p, 0, sizeof *p);
}

static void
put(struct pb *p, const void *b, size_t n)
{
	p->b = (unsigned char *)xgrow(p->b, &p->cap, p->n + n + 1, 1);
	if (n)
		memcpy(p->b + p->n, b, n);
	p->n += n;
}

/* Seven bits a byte, the lowest first; the top bit says that more come. */
static void
varint(struct pb *p, uint64_t v)
{
	unsigned char b[10];
	size_t n = 0;

	do
		b[n++] = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
	while (v >>= 7);
	put(p, b, n);
}

void
pb_int(struct pb *p, int field, int64_t v)
{
	varint(p, (uint64_t)field << 3 | WIRE_VARINT);
	varint(p, (uint64_t)v);
}

void
pb_float(struct pb *p, int field, float v)
{
	varint(p, (uint64_t)field << 3 | WIRE_FOUR);
	put(p, &v, sizeof v);
}

void
pb_length(struct pb *p, int field, size_t n)
{
	varint(p, (uint64_t)field << 3 | WIRE_BYTES);
	varint(p, n);
}

static void
bytes(struct pb *p, int field, const void *b, size_t n)
{
	pb_length(p, field, n);
	put(p, b, n);
}

void
pb_text(struct pb *p, int field, const char *s)
{
	bytes(p, field, s, strlen(s));
}

void
pb_message(struct pb *p, int field, struct pb *sub)
{
	bytes(p, field, sub->b, sub->n);
	pb_free(sub);
}
