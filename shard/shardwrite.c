/* shardwrite.c -- writing a shard: a file, a numbered set, or a stream.
 *
 * Records go out as they come; what the tail repeats is kept in memory (64 bytes a box).  The
 * files appear under their names only when all of them are complete and synced.  Nothing in them
 * depends on the clock, the machine or the path: two packs of one input are equal files.  The uuid
 * is the XXH3-128 of the records. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "shard/shard.h"

struct bytes { unsigned char *p; size_t n, cap; };

struct shard_writer {
	struct outfile *piece;		/* all but the last are complete and wait to be renamed */
	size_t npiece, piece_cap;
	char *path, *text;		/* text: the META payload */
	size_t text_len;
	int stream, nclass;
	uint64_t limit;
	/* of the piece that is being written */
	uint64_t at, nbox, records;
	struct bytes index, boxes, names;
	unsigned char prev[16];
	XXH3_state_t *all, *sums;
};

static unsigned char *
room(struct bytes *b, size_t n)
{
	b->p = (unsigned char *)xgrow(b->p, &b->cap, b->n + n, 1);
	b->n += n;
	return b->p + b->n - n;
}

static FILE *
out(const struct shard_writer *w)
{
	return w->piece[w->npiece - 1].f;
}

/* Record bytes: written, and part of the uuid. */
static void
emit(struct shard_writer *w, const void *p, size_t n)
{
	fwrite(p, 1, n, out(w));
	XXH3_128bits_update(w->all, p, n);
	w->at += n;
}

static void
pad(struct shard_writer *w)
{
	static const unsigned char zero[SHARD_ALIGN] = { 0 };

	emit(w, zero, (SHARD_ALIGN - w->at % SHARD_ALIGN) % SHARD_ALIGN);
}

static void
emit_plain(struct shard_writer *w, enum rec_kind kind, const void *p, size_t n)
{
	struct shard_rec r = { kind, XXH3_64bits(p, n), n, 0, 0, 0, 0, 0, 0, 0 };
	unsigned char head[SHARD_REC];

	shard_put_rec(head, &r);
	emit(w, head, sizeof head);
	emit(w, p, n);
	pad(w);
}

static int
begin_piece(struct shard_writer *w, struct err *e)
{
	unsigned char head[SHARD_HEAD];
	struct shard_head h = { 1, { 0 } };	/* until it is complete it is only a stream */

	w->piece =
	    (struct outfile *)xgrow(w->piece, &w->piece_cap, w->npiece + 1, sizeof *w->piece);
	if (w->limit) {
		char *name = xasprintf("%s.%zu", w->path, w->npiece);
		int r = out_open(&w->piece[w->npiece], name, e);

		free(name);
		if (r)
			return -1;
	} else if (out_open(&w->piece[w->npiece], w->path, e))
		return -1;
	w->npiece++;
	setvbuf(out(w), NULL, _IOFBF, 1 << 20);
	XXH3_128bits_reset(w->all);
	XXH3_64bits_reset(w->sums);
	w->index.n = w->boxes.n = w->names.n = 0;
	w->nbox = w->records = 0;
	shard_put_head(head, &h);
	fwrite(head, 1, sizeof head, out(w));
	w->at = SHARD_HEAD;
	emit_plain(w, REC_META, w->text, w->text_len);
	return 0;
}

struct shard_writer *
shard_create(const char *path, char *const *class_name, const int64_t *class_id, int nclass,
    const char *options, struct err *e)
{
	struct shard_writer *w;
	struct stat st;

	if (!strcmp(path, "-") && isatty(STDOUT_FILENO)) {
		err_set(e, "stdout is a terminal: a shard is binary, send it to a file or a pipe");
		return NULL;
	}
	w = (struct shard_writer *)xcalloc(1, sizeof *w);
	w->path = xstrdup(path);
	w->stream = !strcmp(path, "-") || (!stat(path, &st) && !S_ISREG(st.st_mode));
	w->nclass = nclass;
	w->text = (char *)shard_put_meta(class_name, class_id, nclass, options ? options : "",
	    &w->text_len);
	w->all = XXH3_createState();
	w->sums = XXH3_createState();
	if (!w->all || !w->sums)
		die(1, "out of memory");
	return w;
}

void
shard_limit(struct shard_writer *w, uint64_t bytes)
{
	if (!w->stream)
		w->limit = bytes;
}

static void
write_part(struct shard_writer *w, const struct bytes *b)
{
	if (b->n)
		fwrite(b->p, 1, b->n, out(w));
}

/* END record, tail, footer, and the header as it should be. */
static int
end_piece(struct shard_writer *w, int last, struct err *e)
{
	unsigned char buf[SHARD_HEAD];
	struct shard_foot f;
	struct shard_head h = { 0, { 0 } };
	XXH128_canonical_t c;
	uint64_t count[3] = { w->records, w->nbox, XXH3_64bits_digest(w->sums) };

	for (int i = 0; i < 24; i++)
		buf[i] = (unsigned char)(count[i / 8] >> i % 8 * 8);
	emit_plain(w, REC_END, buf, 24);
	if (w->stream)
		return 0;
	memset(&f, 0, sizeof f);
	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(w->all));
	memcpy(f.uuid, c.digest, 16);
	memcpy(h.uuid, c.digest, 16);
	memcpy(f.prev, w->prev, 16);
	memcpy(w->prev, c.digest, 16);
	f.records = w->records;
	f.nbox = w->nbox;
	f.index = w->at;
	f.boxes = f.index + w->index.n;
	f.length = f.boxes + w->boxes.n + w->names.n + SHARD_FOOT;
	f.index_sum = XXH3_64bits(w->index.p, w->index.n);
	f.boxes_sum = XXH3_64bits(w->boxes.p, w->boxes.n);
	f.names_sum = XXH3_64bits(w->names.p, w->names.n);
	f.member = (unsigned)w->npiece - 1;
	f.last = (unsigned)last;
	write_part(w, &w->index);
	write_part(w, &w->boxes);
	write_part(w, &w->names);
	shard_put_foot(buf, &f);
	fwrite(buf, 1, SHARD_FOOT, out(w));
	shard_put_head(buf, &h);
	if (fseek(out(w), 0, SEEK_SET) || fwrite(buf, 1, SHARD_HEAD, out(w)) != SHARD_HEAD ||
	    fflush(out(w)) || ferror(out(w)))
		return err_set(e, "%s: %s", w->path, strerror(errno));
	return 0;
}

static void
remember(struct shard_writer *w, const struct record *r, const struct shard_rec *rec, uint64_t at,
    const unsigned char *boxes)
{
	struct shard_entry n = { at, SHARD_REC + rec->payload, rec->sum, w->nbox, w->names.n, r->id,
		rec->nbox, rec->name_len, r->w, r->h, r->codec, r->orientation };

	shard_put_entry(room(&w->index, SHARD_ENTRY), &n);
	memcpy(room(&w->names, rec->name_len + 1), r->name, rec->name_len + 1);
	if (rec->nbox)
		memcpy(room(&w->boxes, (size_t)rec->nbox * SHARD_BOX), boxes,
		    (size_t)rec->nbox * SHARD_BOX);
	w->nbox += rec->nbox;
	w->records++;
}

/* Does the record fit?  Else the piece ends and another begins. */
static int
place(struct shard_writer *w, uint64_t bytes, struct err *e)
{
	if (w->npiece && w->limit && w->records && w->at + bytes > w->limit)
		return end_piece(w, 0, e) || begin_piece(w, e) ? -1 : 0;
	return w->npiece ? 0 : begin_piece(w, e);
}

int
shard_add(struct shard_writer *w, const struct record *r, struct err *e)
{
	size_t name_len = strlen(r->name), labels;
	struct shard_rec rec = { REC_IMAGE, 0, 0, r->id, r->w, r->h, (int)r->codec, r->orientation,
		(unsigned)name_len, (unsigned)r->nbox };
	unsigned char head[SHARD_REC], sum[8], *p;
	uint64_t at;
	XXH3_state_t *x;

	if (name_len > 65535)
		return err_set(
		    e, "%s: a name of more than 65535 bytes: %.60s...", w->path, r->name);
	for (int i = 0; i < r->nbox; i++)
		if (r->box[i].cls < 0 || r->box[i].cls >= w->nclass)
			return err_set(e, "%s: %s: a box of class %d, but there are %d", w->path,
			    r->name, r->box[i].cls, w->nclass);
	for (int i = 0; i < r->nbox; i++)
		if (shard_box_bad(&r->box[i]))
			return err_set(e, "%s: %s: box %d has %s", w->path, r->name, i,
			    shard_box_bad(&r->box[i]));
	labels = (size_t)shard_image_at(name_len, rec.nbox) - SHARD_REC;
	rec.payload = labels + r->nbytes;
	if (place(w, rec.payload + SHARD_REC, e))
		return -1;
	p = (unsigned char *)xcalloc(labels, 1);
	memcpy(p, r->name, name_len);
	for (int i = 0; i < r->nbox; i++)
		shard_put_box(p + labels - (size_t)(r->nbox - i) * SHARD_BOX, &r->box[i]);
	if (!(x = XXH3_createState()))
		die(1, "out of memory");
	XXH3_64bits_reset(x);
	XXH3_64bits_update(x, p, labels);
	XXH3_64bits_update(x, r->bytes, r->nbytes);
	rec.sum = XXH3_64bits_digest(x);
	XXH3_freeState(x);
	at = w->at;
	shard_put_rec(head, &rec);
	memcpy(sum, head + 8, 8);
	XXH3_64bits_update(w->sums, sum, 8);
	emit(w, head, sizeof head);
	emit(w, p, labels);
	emit(w, r->bytes, r->nbytes);
	pad(w);
	remember(w, r, &rec, at, p + labels - (size_t)r->nbox * SHARD_BOX);
	free(p);
	if (!ferror(out(w)))
		return 0;
	return out(w) == stdout ? stdout_flush(e) :
	    err_set(e, "%s: %s", w->path, strerror(errno));
}

static void
release(struct shard_writer *w)
{
	for (size_t i = 0; i < w->npiece; i++)
		out_abort(&w->piece[i]);	/* nothing where it was committed */
	free(w->piece);
	free(w->path);
	free(w->text);
	free(w->index.p);
	free(w->boxes.p);
	free(w->names.p);
	XXH3_freeState(w->all);
	XXH3_freeState(w->sums);
	free(w);
}

static char *
piece_path(const struct shard_writer *w, size_t i)
{
	size_t n = strlen(w->path);

	if (!w->limit)
		return xstrdup(w->path);
	if (n > 6 && !strcmp(w->path + n - 6, ".shard"))
		n -= 6;
	return xasprintf("%.*s-%05zu-of-%05zu.shard", (int)n, w->path, i, w->npiece);
}

/* All pieces get their names, or none: what the disk refuses, it refuses in the first loop. */
static int
name_pieces(struct shard_writer *w, struct err *e)
{
	char *path;
	int r = 0;
	size_t i;

	for (i = 0; i < w->npiece; i++)
		if (w->piece[i].tmp && (fflush(w->piece[i].f) || fsync(fileno(w->piece[i].f))))
			return err_set(e, "%s: %s", w->path, strerror(errno));
	for (i = 0; i < w->npiece && !r; i++) {
		free(w->piece[i].path);
		w->piece[i].path = piece_path(w, i);
		r = out_commit(&w->piece[i], e);
	}
	for (i -= r != 0; r && i-- > 0; free(path)) {
		path = piece_path(w, i);
		unlink(path);
	}
	return r;
}

int
shard_finish(struct shard_writer *w, struct err *e)
{
	int r = w->npiece ? 0 : begin_piece(w, e);

	r = r || end_piece(w, 1, e) || name_pieces(w, e);
	release(w);
	return r ? -1 : 0;
}

void
shard_discard(struct shard_writer *w)
{
	if (w)
		release(w);
}
