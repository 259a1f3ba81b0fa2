/* shardcodec.c -- the structures of a shard, to and from bytes.
 *
 * Little-endian and fixed width whatever the machine: every field is stored and loaded by itself.
 * The layout is man/yolo-shard.5's.  What is loaded is checked here as far as it can be without
 * the file: magic numbers, checksums, ranges. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "shard/shard.h"

static const unsigned char head_magic[8] = { 0x89, 'Y', 'S', 'H', 0x0d, 0x0a, 0x1a, 0x0a };
static const unsigned char foot_magic[8] = { 'Y', 'S', 'H', 'E', 'N', 'D', 0x0d, 0x0a };
enum { REC_MAGIC = 0x43455259 };	/* "YREC" */
enum { F_STREAM = 1 };			/* incompatible feature: no tail follows */

static void
put_le(unsigned char *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t
get(const unsigned char *p, int n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

static void
put_real(unsigned char *p, double d)
{
	uint64_t v;

	memcpy(&v, &d, 8);
	put_le(p, v, 8);
}

static double
get_real(const unsigned char *p)
{
	uint64_t v = get(p, 8);
	double d;

	memcpy(&d, &v, 8);
	return d;
}

uint64_t
shard_image_at(uint64_t name_len, uint64_t nbox)
{
	return SHARD_REC + (name_len + 7) / 8 * 8 + nbox * SHARD_BOX;
}

void
shard_put_head(unsigned char *p, const struct shard_head *h)
{
	memset(p, 0, SHARD_HEAD);
	memcpy(p, head_magic, 8);
	put_le(p + 8, 1, 2);
	put_le(p + 12, 0x01020304, 4);
	put_le(p + 16, h->stream ? F_STREAM : 0, 4);
	put_le(p + 28, SHARD_ALIGN, 4);
	memcpy(p + 32, h->uuid, 16);
	put_le(p + SHARD_HEAD - 8, XXH3_64bits(p, SHARD_HEAD - 8), 8);
}

int
shard_get_head(const unsigned char *p, struct shard_head *h, struct err *e)
{
	uint64_t features = get(p + 16, 4);

	if (memcmp(p, head_magic, 8))
		return err_set(e, memcmp(p + 1, head_magic + 1, 3) ? "not a shard" :
		    "a shard damaged by a copy in text mode");
	if (get(p + 8, 2) != 1 || features & ~(uint64_t)F_STREAM)
		return err_set(e,
		    "a shard of version %u with features %#x: this program is too old",
		    (unsigned)get(p + 8, 2), (unsigned)features);
	if (get(p + SHARD_HEAD - 8, 8) != XXH3_64bits(p, SHARD_HEAD - 8) ||
	    get(p + 28, 4) != SHARD_ALIGN)
		return err_set(e, "wrong checksum of the header");
	h->stream = (int)(features & F_STREAM);
	memcpy(h->uuid, p + 32, 16);
	return 0;
}

void
shard_put_rec(unsigned char *p, const struct shard_rec *r)
{
	memset(p, 0, SHARD_REC);
	put_le(p, REC_MAGIC, 4);
	put_le(p + 4, r->kind, 4);
	put_le(p + 8, r->sum, 8);
	put_le(p + 16, r->payload, 8);
	put_le(p + 24, r->payload, 8);
	put_le(p + 32, (uint64_t)r->id, 8);
	put_le(p + 40, (uint64_t)r->w, 4);
	put_le(p + 44, (uint64_t)r->h, 4);
	put_le(p + 48, (uint64_t)r->codec, 1);
	put_le(p + 49, (uint64_t)r->orientation, 1);
	put_le(p + 50, r->name_len, 2);
	put_le(p + 52, r->nbox, 4);
	put_le(p + 72, XXH3_64bits(p, 72), 8);
}

int
shard_get_rec(const unsigned char *p, struct shard_rec *r, struct err *e)
{
	uint64_t kind = get(p + 4, 4), w = get(p + 40, 4), h = get(p + 44, 4);

	if (get(p, 4) != REC_MAGIC)
		return err_set(e, "no record here, the file is damaged");
	if (get(p + 72, 8) != XXH3_64bits(p, 72))
		return err_set(e, "wrong checksum of a record's prefix");
	r->sum = get(p + 8, 8);
	r->payload = get(p + 16, 8);
	r->id = (int64_t)get(p + 32, 8);
	r->codec = p[48];
	r->orientation = p[49];
	r->name_len = (unsigned)get(p + 50, 2);
	r->nbox = (unsigned)get(p + 52, 4);
	if (kind < REC_META || kind > REC_END || r->payload != get(p + 24, 8) ||
	    r->payload > (uint64_t)1 << 40 || w > INT_MAX || h > INT_MAX || r->codec > CODEC_RAW ||
	    r->nbox > INT_MAX / SHARD_BOX || (r->orientation & ~REC_TURN) > 8 ||
	    shard_image_at(r->name_len, r->nbox) > r->payload + SHARD_REC)
		return err_set(e, "a record out of bounds");
	r->kind = (enum rec_kind)kind;
	r->w = (int)w;
	r->h = (int)h;
	return 0;
}

void
shard_put_box(unsigned char *p, const struct box *b)
{
	put_real(p, b->x);
	put_real(p + 8, b->y);
	put_real(p + 16, b->w);
	put_real(p + 24, b->h);
	put_real(p + 32, b->area);
	put_le(p + 40, (uint64_t)b->id, 8);
	put_le(p + 48, (uint64_t)b->cls, 4);
	put_le(p + 52, (uint64_t)b->flags, 4);
	put_le(p + 56, 0, 8);
}

void
shard_get_box(const unsigned char *p, struct box *b)
{
	memset(b, 0, sizeof *b);
	b->x = get_real(p);
	b->y = get_real(p + 8);
	b->w = get_real(p + 16);
	b->h = get_real(p + 24);
	b->area = get_real(p + 32);
	b->id = (int64_t)get(p + 40, 8);
	b->cls = (int)(int32_t)get(p + 48, 4);
	b->flags = (int)(int32_t)get(p + 52, 4);
}

const char *
shard_box_bad(const struct box *b)
{
	if (!isfinite(b->x) || !isfinite(b->y) || !isfinite(b->w) || !isfinite(b->h) ||
	    !isfinite(b->area) || !isfinite(b->x + b->w) || !isfinite(b->y + b->h))
		return "numbers that are not finite";
	return b->w < 0 || b->h < 0 ? "a negative side" : NULL;
}

void
shard_put_entry(unsigned char *p, const struct shard_entry *n)
{
	put_le(p, n->offset, 8);
	put_le(p + 8, n->length, 8);
	put_le(p + 16, n->sum, 8);
	put_le(p + 24, n->box, 8);
	put_le(p + 32, n->name, 8);
	put_le(p + 40, (uint64_t)n->id, 8);
	put_le(p + 48, n->nbox, 4);
	put_le(p + 52, n->name_len, 2);
	put_le(p + 54, (uint64_t)n->codec, 1);
	put_le(p + 55, (uint64_t)n->orientation, 1);
	put_le(p + 56, (uint64_t)n->w, 4);
	put_le(p + 60, (uint64_t)n->h, 4);
}

void
shard_get_entry(const unsigned char *p, struct shard_entry *n)
{
	n->offset = get(p, 8);
	n->length = get(p + 8, 8);
	n->sum = get(p + 16, 8);
	n->box = get(p + 24, 8);
	n->name = get(p + 32, 8);
	n->id = (int64_t)get(p + 40, 8);
	n->nbox = (unsigned)get(p + 48, 4);
	n->name_len = (unsigned)get(p + 52, 2);
	n->codec = p[54];
	n->orientation = p[55];
	n->w = (int)get(p + 56, 4);
	n->h = (int)get(p + 60, 4);
}

void
shard_put_foot(unsigned char *p, const struct shard_foot *f)
{
	memcpy(p, foot_magic, 8);
	put_le(p + 8, f->length, 8);
	put_le(p + 16, f->records, 8);
	put_le(p + 24, f->nbox, 8);
	put_le(p + 32, f->index, 8);
	put_le(p + 40, f->boxes, 8);
	put_le(p + 48, f->index_sum, 8);
	put_le(p + 56, f->boxes_sum, 8);
	put_le(p + 64, f->names_sum, 8);
	put_le(p + 72, f->member, 4);
	put_le(p + 76, f->last, 4);
	memcpy(p + 80, f->uuid, 16);
	memcpy(p + 96, f->prev, 16);
	put_le(p + 112, 0, 8);
	put_le(p + 120, XXH3_64bits(p, 120), 8);
}

int
shard_get_foot(const unsigned char *p, struct shard_foot *f, struct err *e)
{
	if (memcmp(p, foot_magic, 8))
		return err_set(e, "cut: its last bytes are not a footer");
	if (get(p + 120, 8) != XXH3_64bits(p, 120))
		return err_set(e, "wrong checksum of the footer");
	f->length = get(p + 8, 8);
	f->records = get(p + 16, 8);
	f->nbox = get(p + 24, 8);
	f->index = get(p + 32, 8);
	f->boxes = get(p + 40, 8);
	f->index_sum = get(p + 48, 8);
	f->boxes_sum = get(p + 56, 8);
	f->names_sum = get(p + 64, 8);
	f->member = (unsigned)get(p + 72, 4);
	f->last = (unsigned)get(p + 76, 4);
	memcpy(f->uuid, p + 80, 16);
	memcpy(f->prev, p + 96, 16);
	f->names = f->boxes + f->nbox * SHARD_BOX;
	if (f->length > INT64_MAX || f->index < SHARD_HEAD || f->index > f->length - SHARD_FOOT ||
	    f->records > (f->length - f->index) / SHARD_ENTRY ||
	    f->boxes != f->index + f->records * SHARD_ENTRY || f->boxes > f->length - SHARD_FOOT ||
	    f->nbox > (f->length - SHARD_FOOT - f->boxes) / SHARD_BOX)
		return err_set(e, "the footer is out of bounds, the file is damaged");
	return 0;
}

/* META: number of classes, each {id, length of its name or all ones for none, name}, options. */
unsigned char *
shard_put_meta(char *const *name, const int64_t *id, int n, const char *options, size_t *len)
{
	size_t all = 8 + strlen(options), at = 4;
	unsigned char *p;

	for (int i = 0; i < n; i++)
		all += 12 + (name && name[i] ? strlen(name[i]) : 0);
	p = (unsigned char *)xcalloc(all, 1);
	put_le(p, (uint64_t)n, 4);
	for (int i = 0; i < n; i++) {
		size_t k = name && name[i] ? strlen(name[i]) : 0;

		put_le(p + at, (uint64_t)(id ? id[i] : i), 8);
		put_le(p + at + 8, name && name[i] ? k : 0xffffffff, 4);
		if (k)
			memcpy(p + at + 12, name[i], k);
		at += 12 + k;
	}
	put_le(p + at, strlen(options), 4);
	memcpy(p + at + 4, options, strlen(options));
	*len = all;
	return p;
}

int
shard_get_meta(const unsigned char *p, size_t len, char ***name, int64_t **id, int *n,
    struct err *e)
{
	uint64_t count = len >= 4 ? get(p, 4) : 0;
	size_t at = 4;

	*n = 0;
	*name = NULL;
	*id = NULL;
	if (len < 8 || count > (len - 8) / 12)
		return err_set(e, "META record out of bounds");
	*name = (char **)xcalloc(count, sizeof **name);
	*id = (int64_t *)xcalloc(count, sizeof **id);
	for (; *n < (int)count; ++*n) {
		uint64_t k;

		if (len - at < 12)
			return err_set(e, "META record out of bounds");
		k = get(p + at + 8, 4);
		(*id)[*n] = (int64_t)get(p + at, 8);
		at += 12;
		if (k == 0xffffffff)
			continue;
		if (k > len - at || memchr(p + at, 0, k))
			return err_set(e, "META record out of bounds");
		(*name)[*n] = xasprintf("%.*s", (int)k, (const char *)p + at);
		at += k;
	}
	return 0;
}
