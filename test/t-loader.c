/* t-loader.c -- batches that do not depend on who makes them, and how a run ends. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"
#include "base/fn.h"
#include "test/tap.h"

enum { N = 23, SIDE = 64 };

static char dir[] = "/tmp/t-loader.XXXXXX", path[64], broken[64], cut[64];

/* ---- a shard ------------------------------------------------------------------------------ */

/* N pictures of sizes of their own; every third, if asked, is a JPEG cut in two. */
static void
write_shard(const char *to, int thirds)
{
	char *names[] = { (char *)"a", (char *)"b" };
	int64_t ids[] = { 0, 1 };
	struct err e;
	struct shard_writer *w = shard_create(to, names, ids, 2, "", &e);

	for (int i = 0; w && i < N; i++) {
		struct image im = image_new(40 + i, 90 - i);
		struct box box[3];
		struct record r = { .id = i, .w = im.w, .h = im.h, .codec = CODEC_JPEG, .box = box,
			.nbox = i % 4 };
		unsigned char *bytes;
		char name[16];

		for (int k = 0; k < im.w * im.h * 3; k++) {
			uint32_t word[4];

			fn_philox((uint64_t)i, 0, (uint64_t)(k / 96), word);
			im.px[k] = (unsigned char)word[k % 3];
		}
		for (int k = 0; k < 3; k++) {
			struct box b = { 5 + k, 6, 20, 30, 600, -1, k & 1, 0 };

			box[k] = b;
		}
		snprintf(name, sizeof name, "pic%02d.jpg", i);
		r.name = name;
		if (image_jpeg(&im, 90, &bytes, &r.nbytes, &e))
			die(1, "%s", e.msg);
		r.bytes = bytes;
		if (thirds && i % 3 == 0)
			r.nbytes /= 2;
		if (shard_add(w, &r, &e))
			die(1, "%s", e.msg);
		free(bytes);
		image_free(&im);
	}
	if (!w || shard_finish(w, &e))
		die(1, "%s", e.msg);
}

/* Flip a byte in the middle of a copy of the shard; the record that it hit. */
static void
damage(void)
{
	struct err e;
	size_t n;
	char *p = file_read(path, 1 << 24, &n, &e);
	FILE *f = fopen(broken, "wb");

	if (!p || !f)
		die(1, "%s: cannot damage", path);
	p[n / 2] ^= 1;
	fwrite(p, 1, n, f);
	fclose(f);
	free(p);
}

/* ---- runs --------------------------------------------------------------------------------- */

static struct loader_opts
opts(enum aug_kind kind, int threads)
{
	struct loader_opts o = { .seed = 11, .batch = 6, .ranks = 1, .w = SIDE, .h = SIDE,
		.threads = threads };

	augment_defaults(&o.aug, kind);
	return o;
}

/* FNV-1a over everything that a batch says, image by image so that slices can be joined. */
static uint64_t
hash(uint64_t h, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const unsigned char *)p)[i]) * 0x100000001b3u;
	return h;
}

static uint64_t
hash_batch(uint64_t h, const struct batch *b)
{
	for (int i = 0; i < b->n; i++) {
		h = hash(h, &b->record[i], sizeof(long));
		h = hash(
		    h, b->x + (size_t)i * (size_t)(b->w * b->h * 3), (size_t)(b->w * b->h * 3) * 4);
		for (int k = 0; k < b->ntruth; k++)
			if ((int)b->truth[k].image == i)
				h = hash(h, &b->truth[k].cls, 5 * sizeof(float));
	}
	return h;
}

/* The hash of a run's batches; *images counts, *err is the message of an early end. */
static uint64_t
run(const char *shard, const struct loader_opts *o, long first, long steps, long *images,
    struct err *e)
{
	struct shard *s = shard_open(shard, e);
	struct loader *l = s ? loader_open(s, o, first, steps, e) : NULL;
	struct batch *b;
	uint64_t h = 0xcbf29ce484222325u;
	long at = first;

	if (!l)
		die(1, "%s", e->msg);
	for (*images = 0; (b = loader_next(l, e)); loader_free(l, b), at++) {
		if (b->step != at)
			return 0;
		*images += b->n;
		h = hash_batch(h, b);
	}
	loader_close(l);
	shard_close(s);
	return h;
}

static void
threads(void)
{
	static const char *const what[] = { "none: 1, 3 and 8 threads, the same bytes",
		"darknet: 1, 3 and 8 threads, the same bytes",
		"ultralytics-2019: 1, 3 and 8 threads, the same bytes",
		"mosaic: 1, 3 and 8 threads, the same bytes" };
	struct err e;
	long n;

	for (int kind = AUG_NONE; kind <= AUG_MOSAIC; kind++) {
		uint64_t h[4];
		struct loader_opts o;

		for (int i = 0; i < 3; i++) {
			o = opts((enum aug_kind)kind, i == 0 ? 1 : i == 1 ? 3 : 8);
			h[i] = run(path, &o, 0, 9, &n, &e);
		}
		o.seed++;
		h[3] = run(path, &o, 0, 9, &n, &e);
		ok(h[0] && h[0] == h[1] && h[0] == h[2] && h[3] != h[0] && n == 54, what[kind]);
	}
}

/* Slices of all ranks of every batch, one behind the other, are the batch of one rank. */
static void
ranks(void)
{
	struct err e;
	struct shard *s = shard_open(path, &e);
	int same = 1, even = 1;

	for (int r = 1; r <= 3; r++) {
		struct loader_opts o = opts(AUG_MOSAIC, 2);
		struct loader *all, *l[3];
		struct batch *b;

		o.batch = 7;
		o.total = 40;			/* the last batch: 5 */
		all = loader_open(s, &o, 0, 6, &e);
		o.ranks = r;
		for (o.rank = 0; o.rank < r; o.rank++)
			l[o.rank] = loader_open(s, &o, 0, 6, &e);
		while ((b = loader_next(all, &e))) {
			uint64_t h = 1;
			int n = 0;

			for (int i = 0; i < r; i++) {
				struct batch *p = loader_next(l[i], &e);

				h = hash_batch(h, p);
				even &= p->n == b->n / r || p->n == (b->n + r - 1) / r;
				even &= p->t0 == b->t0 + n && p->n_global == b->n;
				n += p->n;
				loader_free(l[i], p);
			}
			same &= h == hash_batch(1, b) && n == b->n && b->n == (b->step < 5 ? 7 : 5);
			loader_free(all, b);
		}
		for (int i = 0; i < r; i++) {
			same &= !loader_next(l[i], &e) && !e.msg[0];
			loader_close(l[i]);
		}
		loader_close(all);
	}
	shard_close(s);
	ok(same, "1, 2, 3 ranks: their slices are the batch, the last one short");
	ok(even, "slices differ by one at most");
}

static void
resume(void)
{
	struct loader_opts o = opts(AUG_MOSAIC, 3);
	struct err e;
	struct shard *s = shard_open(path, &e);
	struct loader *l = loader_open(s, &o, 0, 12, &e);
	struct batch *b;
	uint64_t tail = 0xcbf29ce484222325u;
	int seen[N] = { 0 }, once = 1;
	long n;

	while ((b = loader_next(l, &e))) {
		if (b->step >= 5)
			tail = hash_batch(tail, b);
		for (int i = 0; i < b->n; i++)
			if (b->t0 + i < 3 * N)
				seen[b->record[i]]++;
		loader_free(l, b);
	}
	loader_close(l);
	shard_close(s);
	for (int i = 0; i < N; i++)
		once &= seen[i] == 3;
	ok(once, "three epochs: each record three times, though batches straddle the ends");
	ok(run(path, &o, 5, 7, &n, &e) == tail && n == 42,
	    "resumed at step 5: the tail of the whole run");
	o.total = 70;
	ok(run(path, &o, 9, 50, &n, &e) && n == 70 - 54, "a run ends at its total");
}

/* ---- ends --------------------------------------------------------------------------------- */

static void
closing(void)
{
	struct err e;
	struct shard *s = shard_open(path, &e);
	int given = 1;

	for (int turn = 0; turn < 60; turn++) {
		struct loader_opts o = opts(turn & 1 ? AUG_MOSAIC : AUG_NONE, 1 + turn % 8);
		struct loader *l;

		o.batch = 1 + turn % 9;
		l = loader_open(s, &o, 0, 1000, &e);
		for (int i = 0; i < turn % 4; i++) {
			struct batch *b = loader_next(l, &e);

			given &= b != NULL;
			if (i & 1)
				loader_free(l, b);	/* others are held at the end */
		}
		loader_close(l);
	}
	ok(given, "closed at any moment, also with batches held");
	{
		struct loader_opts o = opts(AUG_NONE, 2);
		struct loader *l = loader_open(s, &o, 0, 1000, &e);
		int n = 0;

		while (loader_next(l, &e) && n < 1000)
			n++;
		ok(n >= 2 && n < 20 && strstr(e.msg, "held"),
		    "who holds all batches gets an error, no deadlock");
		loader_close(l);
	}
	loader_close(NULL);
	shard_close(s);
}

static void
bad_pictures(void)
{
	struct err e, again;
	struct loader_opts o = opts(AUG_DARKNET, 1);
	long n, m, t = 0;
	char want[160];
	int same = 1;

	write_shard(cut, 1);
	while (loader_record(o.seed, N, t) % 3)
		t++;
	snprintf(want, sizeof want, "%s: record %ld (pic%02ld.jpg): ", cut,
	    loader_record(o.seed, N, t), loader_record(o.seed, N, t));
	run(cut, &o, 0, 4, &n, &e);
	ok(!strncmp(e.msg, want, strlen(want)) && n == t / o.batch * o.batch,
	    "cut JPEGs: file, record and name of the first");
	o.threads = 8;
	for (int turn = 0; turn < 20; turn++) {
		run(cut, &o, 0, 4, &m, &again);
		same &= !strcmp(e.msg, again.msg) && m == n;
	}
	ok(same, "the same line after the same batches with 8 threads");
	printf("# %s\n", e.msg);
	damage();
	run(broken, &o, 0, 4, &n, &e);
	ok(strstr(e.msg, broken) && strstr(e.msg, ": record ") && strstr(e.msg, "(pic") &&
	    strstr(e.msg, "checksum"), "a flipped byte: file, record and name");
	printf("# %s\n", e.msg);
	{
		struct shard *s = shard_open(cut, &e);
		struct loader *l = loader_open(s, &o, 0, 4, &e);
		struct batch *b;

		while ((b = loader_next(l, &e)))
			loader_free(l, b);
		again = e;
		ok(!loader_next(l, &e) && !strcmp(e.msg, again.msg), "the error stays");
		loader_close(l);
		shard_close(s);
	}
}

/* ---- sizes, validation, memory ------------------------------------------------------------ */

static void
sizes(void *arg, long step, int *w, int *h)
{
	(void)arg;
	*w = 32 + 32 * (int)(step / 2 % 2);
	*h = 32;
}

static void
multi_scale(void)
{
	struct loader_opts o = opts(AUG_MOSAIC, 3), small = o;
	struct err e;
	struct shard *s = shard_open(path, &e);
	struct loader *l, *k;
	struct batch *b, *c;
	int good = 1;

	o.size = sizes;
	small.w = small.h = 32;
	l = loader_open(s, &o, 0, 8, &e);
	k = loader_open(s, &small, 0, 8, &e);
	while ((b = loader_next(l, &e))) {
		c = loader_next(k, &e);
		good &= b->w == (b->step / 2 % 2 ? 64 : 32) && b->h == 32;
		if (b->w == 32)
			good &= hash_batch(1, b) == hash_batch(1, c);
		loader_free(l, b);
		loader_free(k, c);
	}
	loader_close(l);
	loader_close(k);
	shard_close(s);
	ok(good, "multi-scale: the size of the step, the samples of that size");
}

static void
in_order(void)
{
	struct loader_opts o = opts(AUG_NONE, 3);
	struct err e;
	struct shard *s = shard_open(path, &e);
	struct loader *l;
	struct batch *b;
	float want[SIDE * SIDE * 3];
	unsigned char *buf = NULL;
	size_t cap = 0;
	long t = 0;
	int good = 1;

	o.in_order = 1;
	l = loader_open(s, &o, 0, 1000, &e);
	while ((b = loader_next(l, &e))) {
		for (int i = 0; i < b->n; i++, t++) {
			struct record r;
			struct image im;
			struct fit f;

			if (shard_read(s, t, &r, &buf, &cap, &e) ||
			    image_decode(r.bytes, r.nbytes, &im, &e))
				die(1, "%s", e.msg);
			f = fit_letterbox(im.w, im.h, SIDE, SIDE);
			image_to_net(&im, f, o.aug.resize, SIDE, SIDE, want);
			good &= b->record[i] == t && b->pic_w[i] == r.w && b->pic_h[i] == r.h;
			good &= !memcmp(&f, &b->fit[i], sizeof f);
			good &= !memcmp(want, b->x + i * SIDE * SIDE * 3, sizeof want);
			image_free(&im);
		}
		loader_free(l, b);
	}
	ok(good && t == N && !e.msg[0],
	    "in order: one pass, pixels, sizes and places of detection");
	loader_close(l);
	shard_close(s);
	free(buf);
}

static void
memory(void)
{
	struct loader_opts o = opts(AUG_NONE, 1);
	struct err e;
	struct shard *s = shard_open(path, &e);
	struct loader *l;
	struct mallinfo2 before;
	size_t grew;

	o.batch = 64;
	o.w = o.h = 416;
	before = mallinfo2();
	l = loader_open(s, &o, 0, 0, &e);	/* no steps: its thread allocates nothing */
	grew = mallinfo2().hblkhd - before.hblkhd;
	if (!grew)
		skip("the ring takes what was said", "another allocator");
	else
		ok(grew >= loader_bytes(&o, s) && grew <= loader_bytes(&o, s) + 3 * 4096,
		    "the ring takes what was said");
	printf("# %zu bytes\n", loader_bytes(&o, s));
	loader_close(l);
	shard_close(s);
}

int
main(void)
{
	if (!mkdtemp(dir))
		die(1, "no temporary folder");
	snprintf(path, sizeof path, "%s/a.shard", dir);
	snprintf(broken, sizeof broken, "%s/broken.shard", dir);
	snprintf(cut, sizeof cut, "%s/cut.shard", dir);
	write_shard(path, 0);
	threads();
	ranks();
	resume();
	closing();
	bad_pictures();
	multi_scale();
	in_order();
	memory();
	unlink(path);
	unlink(broken);
	unlink(cut);
	rmdir(dir);
	return done();
}
