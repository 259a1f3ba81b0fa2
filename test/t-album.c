/* t-album.c -- kept pictures: what is found, what goes, and what never goes while it is read. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "loader/int.h"
#include "test/tap.h"

enum { BYTES = 10 * 10 * 3 };

static struct image
filled(long value)
{
	struct image im = image_new(10, 10);

	memset(im.px, (int)value, BYTES);
	return im;
}

static int
put(struct album *a, long record)
{
	struct image im = filled(record);

	if (album_put(a, record, &im))
		return 1;
	image_free(&im);
	return 0;
}

static int
has(struct album *a, long record)
{
	struct image im;
	int right;

	if (!album_get(a, record, &im))
		return 0;
	right = im.w == 10 && im.px[BYTES - 1] == record;
	album_done(a, record);
	return right;
}

static void
one_thread(void)
{
	struct album *a = album_open(3 * BYTES, 8);
	struct image twice = filled(1), first;

	ok(!has(a, 1), "empty");
	ok(put(a, 1) && has(a, 1), "kept");
	album_get(a, 1, &first);
	ok(album_put(a, 1, &twice) && twice.px == first.px, "a second copy gives way to the first");
	for (int i = 0; i < 3; i++)
		album_done(a, 1);
	for (long r = 2; r <= 3; r++) {
		put(a, r);
		album_done(a, r);
	}
	has(a, 1);
	put(a, 4);
	ok(!has(a, 2) && has(a, 1) && has(a, 3) && has(a, 4),
	    "over the limit the least lately used goes");
	put(a, 5);
	put(a, 6);			/* 4, 5, 6 are being read now */
	ok(!put(a, 7) && has(a, 4) && has(a, 5) && has(a, 6), "what is being read stays");
	album_done(a, 5);
	ok(put(a, 7) && !has(a, 5), "and goes afterwards");
	album_close(a);
	album_close(NULL);
}

struct reader { struct album *a; pthread_t thread; int good; };

static void *
read_many(void *arg)
{
	struct reader *r = (struct reader *)arg;
	unsigned x = (unsigned)(size_t)r | 1;

	r->good = 1;
	for (int i = 0; i < 20000; i++) {
		long rec = (long)((x = x * 1664525 + 1013904223) >> 16) % 40;
		struct image im;

		if (!album_get(r->a, rec, &im)) {
			im = filled(rec);
			if (!album_put(r->a, rec, &im)) {
				image_free(&im);
				continue;
			}
		}
		r->good &= im.px[0] == rec && im.px[BYTES - 1] == rec;
		album_done(r->a, rec);
	}
	return NULL;
}

int
main(void)
{
	struct reader r[4];
	struct album *a = album_open(9 * BYTES, 12);
	int good = 1;

	one_thread();
	for (int i = 0; i < 4; i++) {
		r[i].a = a;
		if (pthread_create(&r[i].thread, NULL, read_many, &r[i]))
			die(1, "no thread");
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(r[i].thread, NULL);
		good &= r[i].good;
	}
	ok(good, "four threads never see a picture of another record");
	album_close(a);
	return done();
}
