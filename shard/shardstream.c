/* shardstream.c -- a shard read in order, from a pipe or a file.
 *
 * Records describe themselves, so nothing here needs the tail.  The END record counts them and
 * holds a checksum over their checksums: without it the stream was cut.  Memory grows with what
 * has really been read, never with what a length claims. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "shard/shard.h"

struct shard_stream {
	FILE *f;
	char *name;
	unsigned char *buf;
	size_t cap;
	char *text;			/* the record's name */
	struct box *box;
	size_t text_cap, box_cap;
	char **class_name;
	int64_t *class_id;
	int nclass;
	uint64_t at, end, records, boxes;
	XXH3_state_t *all, *sums;
};

static int
cut(struct shard_stream *s, struct err *e)
{
	if (ferror(s->f))
		return err_set(e, "%s: %s", s->name, strerror(errno));
	return err_set(e, "%s: cut at byte %llu, record %llu is not complete", s->name,
	    (unsigned long long)s->end, (unsigned long long)s->records);
}

/* Prefix, payload and padding of the next record into buf. */
static int
next_record(struct shard_stream *s, struct shard_rec *r, struct err *e)
{
	enum { STEP = 1 << 24 };
	unsigned char head[SHARD_REC];
	uint64_t whole, have = SHARD_REC;
	struct err why;

	s->at = s->end;
	if (fread(head, 1, sizeof head, s->f) != sizeof head)
		return cut(s, e);
	if (shard_get_rec(head, r, &why))
		return err_set(e, "%s: byte %llu: %s", s->name, (unsigned long long)s->at, why.msg);
	whole = (SHARD_REC + r->payload + SHARD_ALIGN - 1) / SHARD_ALIGN * SHARD_ALIGN;
	s->buf = (unsigned char *)xgrow(s->buf, &s->cap, SHARD_REC, 1);
	memcpy(s->buf, head, sizeof head);
	while (have < whole) {
		size_t n = whole - have < STEP ? (size_t)(whole - have) : STEP;

		s->buf = (unsigned char *)xgrow(s->buf, &s->cap, have + n, 1);
		if (fread(s->buf + have, 1, n, s->f) != n)
			return cut(s, e);
		have += n;
	}
	if (XXH3_64bits(s->buf + SHARD_REC, r->payload) != r->sum)
		return err_set(e, "%s: record at byte %llu: wrong checksum", s->name,
		    (unsigned long long)s->at);
	XXH3_128bits_update(s->all, s->buf, whole);
	s->end += whole;
	return 0;
}

struct shard_stream *
stream_open(FILE *f, const char *name, struct err *e)
{
	struct shard_stream *s = (struct shard_stream *)xcalloc(1, sizeof *s);
	unsigned char head[SHARD_HEAD];
	struct shard_head h;
	struct shard_rec r;
	struct err why;

	s->f = f;
	s->name = xstrdup(name);
	s->all = XXH3_createState();
	s->sums = XXH3_createState();
	if (!s->all || !s->sums)
		die(1, "out of memory");
	XXH3_128bits_reset(s->all);
	XXH3_64bits_reset(s->sums);
	s->end = SHARD_HEAD;
	if (fread(head, 1, sizeof head, f) != sizeof head)
		err_set(e, "%s: not a shard, or cut in its header", name);
	else if (shard_get_head(head, &h, &why))
		err_set(e, "%s: %s", name, why.msg);
	else if (!next_record(s, &r, e)) {
		if (r.kind != REC_META)
			err_set(e, "%s: byte %d: no META record, the file is damaged", name,
			    SHARD_HEAD);
		else if (shard_get_meta(s->buf + SHARD_REC, r.payload, &s->class_name, &s->class_id,
		    &s->nclass, &why))
			err_set(e, "%s: %s", name, why.msg);
		else
			return s;
	}
	stream_close(s);
	return NULL;
}

int
stream_classes(const struct shard_stream *s, char ***name, int64_t **id)
{
	*name = s->class_name;
	*id = s->class_id;
	return s->nclass;
}

static uint64_t
get64(const unsigned char *p)
{
	uint64_t v = 0;

	for (int i = 8; i--;)
		v = v << 8 | p[i];
	return v;
}

static int
at_end(struct shard_stream *s, const struct shard_rec *r, struct err *e)
{
	const unsigned char *p = s->buf + SHARD_REC;

	if (r->payload != 24 || get64(p) != s->records || get64(p + 8) != s->boxes ||
	    get64(p + 16) != XXH3_64bits_digest(s->sums))
		return err_set(e,
		    "%s: %llu records with %llu boxes read, but the END record disagrees", s->name,
		    (unsigned long long)s->records, (unsigned long long)s->boxes);
	return 0;
}

int
stream_next(struct shard_stream *s, struct record *out, struct err *e)
{
	struct shard_rec r;
	unsigned char *p;

	if (next_record(s, &r, e))
		return -1;
	if (r.kind == REC_END)
		return at_end(s, &r, e);
	p = s->buf + SHARD_REC;
	if (r.kind != REC_IMAGE || memchr(p, 0, r.name_len) || r.w < 1 || r.h < 1)
		return err_set(e, "%s: record at byte %llu: not a picture, the file is damaged",
		    s->name, (unsigned long long)s->at);
	XXH3_64bits_update(s->sums, s->buf + 8, 8);
	s->records++;
	s->boxes += r.nbox;
	s->text = (char *)xgrow(s->text, &s->text_cap, r.name_len + 1, 1);
	memcpy(s->text, p, r.name_len);
	s->text[r.name_len] = 0;
	s->box = (struct box *)xgrow(s->box, &s->box_cap, r.nbox + 1, sizeof *s->box);
	p += shard_image_at(r.name_len, 0) - SHARD_REC;
	for (unsigned i = 0; i < r.nbox; i++, p += SHARD_BOX) {
		shard_get_box(p, &s->box[i]);
		if (shard_box_bad(&s->box[i]))
			return err_set(e, "%s: record at byte %llu: box %u has %s", s->name,
			    (unsigned long long)s->at, i, shard_box_bad(&s->box[i]));
		if (s->box[i].cls < 0 || s->box[i].cls >= s->nclass)
			return err_set(e,
			    "%s: record at byte %llu: a box of class %d, but there are %d", s->name,
			    (unsigned long long)s->at, s->box[i].cls, s->nclass);
	}
	*out = (struct record){ r.id, r.w, r.h, r.orientation, (enum codec)r.codec, s->text, s->box,
	    (int)r.nbox, p, SHARD_REC + r.payload - shard_image_at(r.name_len, r.nbox) };
	return 1;
}

uint64_t
stream_at(const struct shard_stream *s)
{
	return s->at;
}

uint64_t
stream_end(const struct shard_stream *s)
{
	return s->end;
}

void
stream_uuid(const struct shard_stream *s, unsigned char uuid[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(s->all));
	memcpy(uuid, c.digest, 16);
}

void
stream_close(struct shard_stream *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->nclass; i++)
		free(s->class_name[i]);
	free(s->class_name);
	free(s->class_id);
	free(s->name);
	free(s->buf);
	free(s->text);
	free(s->box);
	XXH3_freeState(s->all);
	XXH3_freeState(s->sums);
	free(s);
}
