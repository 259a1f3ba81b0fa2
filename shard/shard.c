/* shard.c -- the packed format: open, read, check.
 *
 * man/yolo-shard.5 is the specification.  A file is a header, records one after the other, an END
 * record, and a tail that repeats all but the pictures: an index, every box, every name.  The
 * footer ends the file and holds the file's length and checksums of the tail's parts, so a cut file
 * is refused after two reads.  The tail is then read whole: labels cost no further access, and
 * ranks that fork share it.  Picture bytes are read by pread into the caller's buffer and verified
 * each time.  All lengths are compared with the file's before they are used. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "shard/shard.h"

struct member {			/* one file of a set */
	char *path;
	int fd;
	struct shard_foot foot;
	struct shard_entry *entry;
	struct box *box;
	char *names;
	size_t names_len;
};
struct shard {
	struct member *m;
	int nm;
	long *first;			/* number of each member's first record, and the total */
	char **class_name;
	int64_t *class_id;
	int nclass;
	char uuid[33];
};

static int
read_at(int fd, void *buf, size_t n, uint64_t at)
{
	unsigned char *p = (unsigned char *)buf;

	while (n) {
		ssize_t r = pread(fd, p, n, (off_t)at);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0) {
			errno = r ? errno : EIO;
			return -1;
		}
		p += r;
		n -= (size_t)r;
		at += (uint64_t)r;
	}
	return 0;
}

static void *
read_part(struct member *m, const char *what, uint64_t at, uint64_t n, uint64_t want,
    struct err *e)
{
	void *p = xmalloc(n);

	if (read_at(m->fd, p, n, at))
		err_set(e, "%s: %s: %s", m->path, what, strerror(errno));
	else if (XXH3_64bits(p, n) != want)
		err_set(e, "%s: %s: wrong checksum, the file is damaged", m->path, what);
	else
		return p;
	free(p);
	return NULL;
}

static int
read_tail(struct member *m, struct err *e)
{
	const struct shard_foot *f = &m->foot;
	unsigned char *index, *boxes;
	const char *why, *bad = NULL;

	m->names_len = f->length - SHARD_FOOT - f->names;
	index = (unsigned char *)read_part(
	    m, "index", f->index, f->records * SHARD_ENTRY, f->index_sum, e);
	boxes = index ? (unsigned char *)read_part(m, "box table", f->boxes, f->nbox * SHARD_BOX,
	    f->boxes_sum, e) : NULL;
	m->names =
	    boxes ? (char *)read_part(m, "names", f->names, m->names_len, f->names_sum, e) : NULL;
	m->entry = (struct shard_entry *)xcalloc(f->records, sizeof *m->entry);
	m->box = (struct box *)xcalloc(f->nbox, sizeof *m->box);
	if (!m->names) {
		free(index);
		free(boxes);
		return -1;
	}
	why = m->names_len && m->names[m->names_len - 1] ? "names" : NULL;
	for (uint64_t i = 0; i < f->records && !why; i++) {
		struct shard_entry *n = &m->entry[i];

		shard_get_entry(index + i * SHARD_ENTRY, n);
		if (n->offset < SHARD_HEAD || n->offset > f->index ||
		    n->length > f->index - n->offset || n->box > f->nbox ||
		    n->nbox > f->nbox - n->box || n->name >= m->names_len ||
		    n->length < shard_image_at(n->name_len, n->nbox) || n->name_len > 65535 ||
		    n->w < 1 || n->h < 1 || n->codec > CODEC_RAW ||
		    (n->orientation & ~REC_TURN) > 8)
			why = "index";
	}
	for (uint64_t i = 0; i < f->nbox && !bad; i++) {
		shard_get_box(boxes + i * SHARD_BOX, &m->box[i]);
		if ((bad = shard_box_bad(&m->box[i])))
			err_set(e, "%s: box %llu has %s: want it packed anew", m->path,
			    (unsigned long long)i, bad);
	}
	free(index);
	free(boxes);
	if (bad)
		return -1;
	return why ? err_set(e, "%s: %s: out of bounds, the file is damaged", m->path, why) : 0;
}

/* Header and footer, compared with each other and with the file. */
static int
open_member(struct member *m, const char *path, struct err *e)
{
	unsigned char head[SHARD_HEAD], foot[SHARD_FOOT];
	struct shard_head h;
	struct stat st;
	struct err why;

	m->path = xstrdup(path);
	if ((m->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 || fstat(m->fd, &st))
		return err_set(e, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size < SHARD_HEAD + SHARD_FOOT)
		return err_set(
		    e, "%s: not a shard, or cut (%lld bytes)", path, (long long)st.st_size);
	if (read_at(m->fd, head, sizeof head, 0) ||
	    read_at(m->fd, foot, sizeof foot, (uint64_t)st.st_size - SHARD_FOOT))
		return err_set(e, "%s: %s", path, strerror(errno));
	if (shard_get_head(head, &h, &why))
		return err_set(e, "%s: %s", path, why.msg);
	if (h.stream)
		return err_set(e,
		    "%s: a stream without an index; pack it: yolo-prep -o NEW.shard - < %s", path,
		    path);
	if (shard_get_foot(foot, &m->foot, &why))
		return err_set(e, "%s: %s", path, why.msg);
	if (m->foot.length != (uint64_t)st.st_size)
		return err_set(e, "%s: cut: %lld bytes, its footer says %llu", path,
		    (long long)st.st_size, (unsigned long long)m->foot.length);
	if (memcmp(h.uuid, m->foot.uuid, 16))
		return err_set(e, "%s: its head and its tail come from different files", path);
	return read_tail(m, e);
}

/* NAME-00003-of-00019.shard: where the number stands and what it is; 0 for a single file. */
static int
in_set(const char *path, size_t *at, int *number, int *of)
{
	size_t n = strlen(path);
	const char *p = path + n - 21;

	if (n < 21 || sscanf(p, "-%5d-of-%5d.shard", number, of) != 2 ||
	    strspn(p + 1, "0123456789") != 5 || strspn(p + 10, "0123456789") != 5 || *number < 0 ||
	    *of < 1 || *number >= *of)
		return 0;
	*at = n - 21;
	return 1;
}

int
shard_again(char *const *path, int n)
{
	size_t at, other;
	int number, of, of2;

	if (!in_set(path[n], &at, &number, &of))
		return 0;
	for (int i = 0; i < n; i++)
		if (in_set(path[i], &other, &number, &of2) && at == other && of == of2 &&
		    !memcmp(path[i], path[n], at))
			return 1;
	return 0;
}

/* The class table from record 0. */
static int
read_meta(struct shard *s, struct err *e)
{
	struct member *m = &s->m[0];
	unsigned char head[SHARD_REC], *payload;
	struct shard_rec r;
	struct err why;
	int bad;

	if (read_at(m->fd, head, sizeof head, SHARD_HEAD) || shard_get_rec(head, &r, &why) ||
	    r.kind != REC_META || r.payload > m->foot.index - SHARD_HEAD - SHARD_REC)
		return err_set(
		    e, "%s: no META record at byte %d, the file is damaged", m->path, SHARD_HEAD);
	if (!(payload = (unsigned char *)read_part(
		  m, "META record", SHARD_HEAD + SHARD_REC, r.payload, r.sum, e)))
		return -1;
	bad = shard_get_meta(payload, r.payload, &s->class_name, &s->class_id, &s->nclass, &why);
	free(payload);
	if (bad)
		return err_set(e, "%s: %s", m->path, why.msg);
	for (int k = 0; k < s->nm; k++)
		for (uint64_t i = 0; i < s->m[k].foot.nbox; i++)
			if (s->m[k].box[i].cls < 0 || s->m[k].box[i].cls >= s->nclass)
				return err_set(e, "%s: a box of class %d, but there are %d",
				    s->m[k].path, s->m[k].box[i].cls, s->nclass);
	return 0;
}

/* Members must be the pieces of one pack: each names its number and the uuid of the one before. */
static int
check_chain(struct shard *s, struct err *e)
{
	static const unsigned char none[16] = { 0 };

	for (int k = 0; k < s->nm; k++) {
		const struct shard_foot *f = &s->m[k].foot;

		if (s->nm == 1 && (f->member || !f->last))
			return err_set(e,
			    "%s: piece %u of a set; its name must end in -%05u-of-NNNNN.shard",
			    s->m[k].path, f->member, f->member);
		if (f->member != (unsigned)k || f->last != (k == s->nm - 1) ||
		    memcmp(f->prev, k ? s->m[k - 1].foot.uuid : none, 16))
			return err_set(
			    e, "%s: not the piece %d of %d of this set", s->m[k].path, k, s->nm);
	}
	return 0;
}

static void
set_uuid(struct shard *s)
{
	unsigned char *all = (unsigned char *)xmalloc((size_t)s->nm * 16), *u = s->m[0].foot.uuid;
	XXH128_canonical_t c;

	for (int k = 0; k < s->nm; k++)
		memcpy(all + k * 16, s->m[k].foot.uuid, 16);
	if (s->nm > 1) {
		XXH128_canonicalFromHash(&c, XXH3_128bits(all, (size_t)s->nm * 16));
		u = c.digest;
	}
	for (int i = 0; i < 16; i++)
		snprintf(s->uuid + 2 * i, 3, "%02x", u[i]);
	free(all);
}

struct shard *
shard_open(const char *path, struct err *e)
{
	struct shard *s = (struct shard *)xcalloc(1, sizeof *s);
	char *real = NULL;
	int number = 0, bad = 0;
	size_t at = 0;

	/* a link of another name to a piece: the others lie beside the piece, not the link */
	if (!in_set(path, &at, &number, &s->nm)) {
		if ((real = realpath(path, NULL)) && in_set(real, &at, &number, &s->nm))
			path = real;
		else
			s->nm = 1;
	}
	s->m = (struct member *)xcalloc((size_t)s->nm, sizeof *s->m);
	s->first = (long *)xcalloc((size_t)s->nm + 1, sizeof *s->first);
	for (int k = 0; k < s->nm; k++)
		s->m[k].fd = -1;
	for (int k = 0; k < s->nm && !bad; k++) {
		char *name = s->nm == 1 ? xstrdup(path) :
		    xasprintf("%.*s-%05d-of-%05d.shard", (int)at, path, k, s->nm);

		bad = open_member(&s->m[k], name, e);
		s->first[k + 1] = s->first[k] + (long)s->m[k].foot.records;
		free(name);
	}
	free(real);
	if (bad || check_chain(s, e) || read_meta(s, e)) {
		shard_close(s);
		return NULL;
	}
	set_uuid(s);
	return s;
}

int
shard_is(const char *path)
{
	struct stat st;			/* a pipe would lose the bytes that are looked at */
	FILE *f = stat(path, &st) || !S_ISREG(st.st_mode) ? NULL : fopen(path, "rb");
	char head[4];
	int yes = f && fread(head, 1, 4, f) == 4 && !memcmp(head, "\x89YSH", 4);

	if (f)
		fclose(f);
	return yes;
}

void
shard_close(struct shard *s)
{
	if (!s)
		return;
	for (int k = 0; k < s->nm; k++) {
		if (s->m[k].fd >= 0)
			close(s->m[k].fd);
		free(s->m[k].path);
		free(s->m[k].entry);
		free(s->m[k].box);
		free(s->m[k].names);
	}
	for (int i = 0; i < s->nclass; i++)
		free(s->class_name[i]);
	free(s->class_name);
	free(s->class_id);
	free(s->first);
	free(s->m);
	free(s);
}

long
shard_count(const struct shard *s)
{
	return s->first[s->nm];
}

int
shard_classes(const struct shard *s, char ***name, int64_t **id)
{
	if (name)
		*name = s->class_name;
	if (id)
		*id = s->class_id;
	return s->nclass;
}

const char *
shard_uuid(const struct shard *s)
{
	return s->uuid;
}

/* The member that holds record n: the last one that begins at or before it. */
static struct member *
member_of(const struct shard *s, long n, const struct shard_entry **entry)
{
	int lo = 0, hi = s->nm;

	while (hi - lo > 1) {
		int mid = (lo + hi) / 2;

		if (s->first[mid] <= n)
			lo = mid;
		else
			hi = mid;
	}
	*entry = &s->m[lo].entry[n - s->first[lo]];
	return &s->m[lo];
}

const char *
shard_path(const struct shard *s, long n)
{
	const struct shard_entry *en;

	return n >= 0 && n < shard_count(s) ? member_of(s, n, &en)->path : s->m[0].path;
}

int
shard_labels(struct shard *s, long n, struct record *r, struct err *e)
{
	const struct shard_entry *en;
	struct member *m;

	if (n < 0 || n >= shard_count(s))
		return err_set(
		    e, "%s: no record %ld, there are %ld", s->m[0].path, n, shard_count(s));
	m = member_of(s, n, &en);
	r->id = en->id;
	r->w = en->w;
	r->h = en->h;
	r->orientation = en->orientation;
	r->codec = (enum codec)en->codec;
	r->name = m->names + en->name;
	r->box = m->box + en->box;
	r->nbox = (int)en->nbox;
	r->bytes = NULL;
	r->nbytes = en->length - shard_image_at(en->name_len, en->nbox);
	return 0;
}

/* -1: the bytes on disk do not agree with their checksums. */
static int
verify(const unsigned char *p, const struct shard_entry *en, struct shard_rec *r, struct err *e)
{
	if (shard_get_rec(p, r, e))
		return -1;
	if (r->kind != REC_IMAGE || r->payload != en->length - SHARD_REC || r->sum != en->sum)
		return err_set(e, "does not agree with the index");
	if (XXH3_64bits(p + SHARD_REC, r->payload) != r->sum)
		return err_set(e, "wrong checksum");
	return 0;
}

int
shard_read(struct shard *s, long n, struct record *r, unsigned char **buf, size_t *cap,
    struct err *e)
{
	const struct shard_entry *en;
	struct shard_rec rec;
	struct member *m;
	struct err why;

	if (shard_labels(s, n, r, e))
		return -1;
	m = member_of(s, n, &en);
	if (*cap < en->length) {
		free(*buf);
		*buf = (unsigned char *)xmalloc(en->length);
		*cap = en->length;
	}
	for (int turn = 0; turn < 2; turn++) {	/* twice: a bad cable is not a bad disk */
		if (read_at(m->fd, *buf, en->length, en->offset))
			err_set(&why, "%s", strerror(errno));
		else if (!verify(*buf, en, &rec, &why)) {
			r->bytes = *buf + shard_image_at(en->name_len, en->nbox);
			return 0;
		}
	}
	return err_set(e, "%s: record %ld (%s) at byte %llu: %s", m->path, n, r->name,
	    (unsigned long long)en->offset, why.msg);
}

int
record_decode(const struct record *r, struct image *im, struct err *e)
{
	if (image_decode(r->bytes, r->nbytes, im, e))
		return -1;
	if (r->orientation & REC_TURN)
		image_turn(im, r->orientation & ~REC_TURN);
	return 0;
}

static int
same(const struct record *a, const struct record *b)
{
	if (a->id != b->id || a->w != b->w || a->h != b->h || a->orientation != b->orientation ||
	    a->codec != b->codec || strcmp(a->name, b->name) || a->nbox != b->nbox ||
	    a->nbytes != b->nbytes)
		return 0;
	return !a->nbox || !memcmp(a->box, b->box, (size_t)a->nbox * sizeof *a->box);
}

/* Read one file through as a stream and compare it with its own tail. */
static int
check_member(struct shard *s, int k, long *records, struct err *e)
{
	struct member *m = &s->m[k];
	FILE *f = fopen(m->path, "rb");
	struct shard_stream *in = f ? stream_open(f, m->path, e) : NULL;
	unsigned char uuid[16];
	struct record a, b = { 0 };
	long i = s->first[k];
	int r = -1;

	if (!f)
		return err_set(e, "%s: %s", m->path, strerror(errno));
	while (in && (r = stream_next(in, &a, e)) == 1) {
		if (i == s->first[k + 1] || shard_labels(s, i, &b, e) || !same(&a, &b) ||
		    m->entry[i - s->first[k]].offset != stream_at(in)) {
			r = err_set(e, "%s: record at byte %llu (%s) is not what the index says",
			    m->path, (unsigned long long)stream_at(in), a.name);
			break;
		}
		i++;
		*records += 1;
	}
	if (!r && (i != s->first[k + 1] || stream_end(in) != m->foot.index))
		r = err_set(e, "%s: %ld records, the index says %ld", m->path, i - s->first[k],
		    s->first[k + 1] - s->first[k]);
	if (!r) {
		stream_uuid(in, uuid);
		if (memcmp(uuid, m->foot.uuid, 16))
			r = err_set(e, "%s: its uuid is not that of its records", m->path);
	}
	stream_close(in);
	fclose(f);
	return r;
}

int
shard_check(const char *path, long *records, struct err *e)
{
	struct shard *s = shard_open(path, e);
	int r = 0;

	*records = 0;
	if (!s)
		return -1;
	for (int k = 0; k < s->nm && !r; k++)
		r = check_member(s, k, records, e);
	shard_close(s);
	return r;
}

/* ---- pictures that two shards share -------------------------------------------------------- */

struct sized { size_t bytes; int w, h, hashed, twin; long record; XXH128_hash_t sum; };

static int
by_size(const void *a, const void *b)
{
	const struct sized *p = (const struct sized *)a, *q = (const struct sized *)b;

	return p->bytes != q->bytes ? p->bytes < q->bytes ? -1 : 1 :
	    p->w != q->w ? p->w - q->w : p->h - q->h;
}

static int
sized(struct shard *s, long n, struct sized *z)
{
	struct record r;
	struct err none;

	memset(z, 0, sizeof *z);
	if (shard_labels(s, n, &r, &none))
		return -1;
	*z = (struct sized){ .bytes = r.nbytes, .w = r.w, .h = r.h, .record = n };
	return 0;
}

static int
hashed(struct shard *s, struct sized *z, unsigned char **buf, size_t *cap)
{
	struct record r;
	struct err none;

	if (z->hashed)
		return z->hashed > 0;
	z->hashed = -1;
	if (shard_read(s, z->record, &r, buf, cap, &none))
		return 0;
	z->sum = XXH3_128bits(r.bytes, r.nbytes);
	z->hashed = 1;
	return 1;
}

/* Only pictures of one size are read. */
long
shard_overlap(struct shard *a, struct shard *b)
{
	long n = 0, twins = 0, lo, hi;
	struct sized *v = (struct sized *)xcalloc((size_t)shard_count(b) + 1, sizeof *v), z;
	unsigned char *buf = NULL;
	size_t cap = 0;

	for (long i = 0; i < shard_count(b); i++)
		n += !sized(b, i, &v[n]);
	qsort(v, (size_t)n, sizeof *v, by_size);
	for (long i = 0; i < shard_count(a); i++) {
		if (sized(a, i, &z))
			continue;
		for (lo = 0, hi = n; lo < hi;) {
			long mid = lo + (hi - lo) / 2;

			if (by_size(&v[mid], &z) < 0)
				lo = mid + 1;
			else
				hi = mid;
		}
		for (; lo < n && !by_size(&v[lo], &z); lo++)
			if (!v[lo].twin && hashed(a, &z, &buf, &cap) &&
			    hashed(b, &v[lo], &buf, &cap) &&
			    XXH128_isEqual(v[lo].sum, z.sum))
				v[lo].twin = 1;
	}
	for (long i = 0; i < n; i++)
		twins += v[i].twin;
	free(buf);
	free(v);
	return twins;
}
