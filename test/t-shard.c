/* t-shard.c -- shards: what goes in comes out, two packs are equal, no damage passes.
 *
 * Records are made from counters, so a lost or changed byte shows.  Every length of a small file
 * and every bit of it is tried. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "yolo.h"
#include "test/tap.h"

enum { RECORDS = 23 };

static char dir[] = "/tmp/t-shard.XXXXXX";

static char *
at(const char *name)
{
	return path_join(dir, name);
}

/* Record i of the set: everything is a function of i. */
static void
make(int i, struct record *r, struct box *b, unsigned char *bytes, char *name)
{
	memset(r, 0, sizeof *r);
	sprintf(name, "a/%d \t\xc3\xa9.jpg", i);
	r->id = i % 3 ? 100 + i : -1;
	r->w = 10 + i;
	r->h = 20 + i;
	r->orientation = i % 9;
	r->codec = (enum codec)(i % 3);
	r->name = name;
	r->nbox = i % 5;
	r->nbytes = (size_t)(i * 37 % 200);
	for (int k = 0; k < r->nbox; k++)
		b[k] = (struct box){ i + .1, k / 3.0, 5, 6 + k, 1e-3 * k, k ? INT64_MAX - k : -1,
			k % 2, 1 << k };
	for (size_t k = 0; k < r->nbytes; k++)
		bytes[k] = (unsigned char)(k * 7 + (size_t)i);
	r->box = b;
	r->bytes = bytes;
}

static int
write_set(const char *path, uint64_t limit)
{
	char *names[] = { (char *)"red", NULL }, name[64];
	int64_t ids[] = { 7, 90 };
	struct err e;
	struct shard_writer *w = shard_create(path, names, ids, 2, "side=0", &e);
	unsigned char bytes[256];
	struct box box[8];
	struct record r;
	int bad = 0;

	if (limit)
		shard_limit(w, limit);
	for (int i = 0; i < RECORDS && !bad; i++) {
		make(i, &r, box, bytes, name);
		bad = shard_add(w, &r, &e);
	}
	return bad || shard_finish(w, &e);
}

static int
equal(const struct record *a, const struct record *b, int with_bytes)
{
	return a->id == b->id && a->w == b->w && a->h == b->h && a->orientation == b->orientation &&
	    a->codec == b->codec && !strcmp(a->name, b->name) && a->nbox == b->nbox &&
	    a->nbytes == b->nbytes && !memcmp(a->box, b->box, (size_t)a->nbox * sizeof *a->box) &&
	    (!with_bytes || !memcmp(a->bytes, b->bytes, a->nbytes));
}

static int
all_there(const char *path)
{
	struct err e;
	struct shard *s = shard_open(path, &e);
	unsigned char *buf = NULL, bytes[256];
	struct record want, got;
	struct box box[8];
	size_t cap = 0;
	char name[64], **class_name;
	int64_t *id;
	int good = s && shard_count(s) == RECORDS && shard_classes(s, &class_name, &id) == 2 &&
	    !strcmp(class_name[0], "red") && !class_name[1] && id[1] == 90;

	for (int i = RECORDS; s && i--;) {
		make(i, &want, box, bytes, name);
		good &= !shard_labels(s, i, &got, &e) && equal(&want, &got, 0);
		good &= !shard_read(s, i, &got, &buf, &cap, &e) && equal(&want, &got, 1);
	}
	good &= s && shard_labels(s, RECORDS, &got, &e) && shard_read(s, -1, &got, &buf, &cap, &e);
	free(buf);
	shard_close(s);
	return good;
}

static int
same_file(const char *a, const char *b)
{
	size_t n, m;
	struct err e;
	char *p = file_read(a, 1 << 20, &n, &e), *q = file_read(b, 1 << 20, &m, &e);
	int same = p && q && n == m && !memcmp(p, q, n);

	free(p);
	free(q);
	return same;
}

static void
put_file(const char *path, const char *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	fwrite(p, 1, n, f);
	fclose(f);
}

/* A shard that opens and reads to the end although it is not what was written. */
static int
passes(const char *path)
{
	struct err e;
	long n;

	return !shard_check(path, &n, &e);
}

static int
opens(const char *path)
{
	struct err e;
	struct shard *s = shard_open(path, &e);

	if (!s && !strstr(e.msg, ".shard: "))
		return 1; /* a message without the file's name is no good either */
	shard_close(s);
	return s != NULL;
}

static void
damage(const char *path)
{
	char *bad = at("bad.shard"), *p;
	struct err e;
	size_t n, cut = 0, flips = 0, tried = 0;

	p = file_read(path, 1 << 20, &n, &e);
	for (size_t k = 0; k < n; k += k < 4200 || k + 4200 > n ? 13 : 61) {
		put_file(bad, p, k);
		cut += (size_t)opens(bad);
	}
	ok(!cut, "cut anywhere, it does not open");
	put_file(bad, p, n);
	p = (char *)xrealloc(p, n + 2);
	p[n] = 0;
	put_file(bad, p, n + 1);
	ok(!opens(bad), "a byte too many, it does not open");
	for (size_t k = 0; k < n; k += k < 200 || k > 4000 ? 3 : 97) {
		p[k] ^= (char)(1 << k % 8);
		put_file(bad, p, n);
		flips += (size_t)passes(bad);
		tried++;
		p[k] ^= (char)(1 << k % 8);
	}
	ok(tried > 1000 && !flips, "one bit turned anywhere, the check fails");
	free(p);
	free(bad);
}

static int
stream_records(const char *p, size_t n, int *end)
{
	FILE *f = fmemopen((void *)p, n, "rb");
	struct err e;
	struct shard_stream *s = stream_open(f, "mem", &e);
	struct record r;
	int k = 0, got = -1;

	while (s && (got = stream_next(s, &r, &e)) == 1)
		k++;
	*end = got == 0;
	stream_close(s);
	fclose(f);
	return k;
}

static void
streams(const char *path)
{
	struct err e;
	size_t n, ends = 0;
	char *p = file_read(path, 1 << 20, &n, &e);
	int end, foot = -1;

	ok(stream_records(p, n, &end) == RECORDS && end, "a file is also a stream");
	for (size_t k = 1; k < n; k += 7) {
		stream_records(p, k, &end);
		if (end && foot < 0)
			foot = (int)k;
		ends += (size_t)(end && (int)k < foot);
	}
	ok(foot > 4096 && !ends, "a stream without its END record is cut");
	free(p);
}

static void
sets(void)
{
	char *base = at("set.shard"), *one, *two, *three;
	struct err e;
	struct shard *s;
	int n = 0;

	ok(!write_set(base, 8192), "a numbered set is written");
	while (n < 99 && (one = xasprintf("%s/set-00000-of-%05d.shard", dir, n)) &&
	       access(one, F_OK)) {
		free(one);
		n++;
	}
	two = xasprintf("%s/set-00001-of-%05d.shard", dir, n);
	three = xasprintf("%s/set-%05d-of-%05d.shard", dir, n - 1, n);
	ok(n > 1 && n < 20 && all_there(one) && all_there(two) && passes(three),
	    "it opens by any of its pieces");
	ok(access(base, F_OK) != 0, "and no file has the name without a number");
	rename(one, base);
	ok(!opens(two) && !opens(base), "a piece missing, or a piece alone, is refused");
	rename(two, one);
	rename(base, two);
	ok(!(s = shard_open(three, &e)) && strstr(e.msg, "piece"),
	    "pieces that changed places are refused");
	free(base);
	free(one);
	free(two);
	free(three);
}

static void
refusals(void)
{
	struct err e;
	char *path = at("no.shard"), name[64];
	struct shard_writer *w = shard_create(path, NULL, NULL, 1, NULL, &e);
	struct box b[8];
	unsigned char bytes[256];
	struct record r;

	make(4, &r, b, bytes, name);
	ok(shard_add(w, &r, &e) && strstr(e.msg, "class 1"), "a box of a class that is not there");
	b[1].cls = b[3].cls = 0;
	ok(!shard_add(w, &r, &e), "the same box of one that is");
	ok(access(path, F_OK) != 0, "no file before the end");
	shard_discard(w);
	ok(access(path, F_OK) != 0, "nor after giving up");
	free(path);
	path = at("no/such/dir.shard");
	w = shard_create(path, NULL, NULL, 1, NULL, &e);
	r.nbox = 0;
	ok(shard_add(w, &r, &e) && strstr(e.msg, path), "a folder that does not exist");
	shard_discard(w);
	free(path);
}

int
main(void)
{
	char *a, *b, *clean;
	int bad;

	if (!mkdtemp(dir))
		die(1, "%s: cannot make it", dir);
	a = at("a.shard");
	b = at("b.shard");
	ok(!write_set(a, 0) && !write_set(b, 0), "two shards are written");
	ok(same_file(a, b), "two packs of one input are equal files");
	ok(all_there(a), "what went in comes out, in any order");
	ok(passes(a), "the check passes");
	streams(a);
	damage(a);
	sets();
	refusals();
	clean = xasprintf("rm -rf %s", dir);
	bad = system(clean);
	free(clean);
	free(a);
	free(b);
	return done() || bad;
}
