/* album.c -- decoded pictures, kept while they may soon be wanted again.
 *
 * Mosaic takes three more pictures for a sample, all used lately (augment.c draws them from a
 * window of the order), so keeping them saves most of the decoding.  What is kept changes no
 * result.  The least lately used go first, as soon as a limit in bytes is passed and nobody
 * reads them.  Two threads may decode one picture at once; the second copy is dropped. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "loader/int.h"

struct kept {
	long record;			/* -1: free */
	struct image im;
	int readers;
	unsigned long used;		/* when, in calls */
};
struct album {
	struct kept *k;
	int n;
	size_t bytes, limit;
	unsigned long calls;
	pthread_mutex_t lock;
};

struct album *
album_open(size_t limit, int most)
{
	struct album *p = (struct album *)xcalloc(1, sizeof *p);

	p->limit = limit;
	p->n = most;
	p->k = (struct kept *)xcalloc((size_t)most, sizeof *p->k);
	for (int i = 0; i < most; i++)
		p->k[i].record = -1;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

void
album_close(struct album *p)
{
	if (!p)
		return;
	for (int i = 0; i < p->n; i++)
		image_free(&p->k[i].im);
	pthread_mutex_destroy(&p->lock);
	free(p->k);
	free(p);
}

static size_t
size_of(const struct image *im)
{
	return (size_t)im->w * (size_t)im->h * 3;
}

static int
find(struct album *p, long record, struct image *im)
{
	for (int i = 0; i < p->n; i++)
		if (p->k[i].record == record) {
			p->k[i].readers++;
			p->k[i].used = ++p->calls;
			*im = p->k[i].im;
			return 1;
		}
	return 0;
}

int
album_get(struct album *p, long record, struct image *im)
{
	int got;

	pthread_mutex_lock(&p->lock);
	got = find(p, record, im);
	pthread_mutex_unlock(&p->lock);
	return got;
}

/* A free place for n bytes; pictures make room for it.  -1: all that are left are being read. */
static int
room(struct album *p, size_t n)
{
	for (;;) {
		int oldest = -1, empty = -1;

		for (int i = 0; i < p->n; i++)
			if (p->k[i].record < 0)
				empty = i;
			else if (!p->k[i].readers &&
				 (oldest < 0 || p->k[i].used < p->k[oldest].used))
				oldest = i;
		if (empty >= 0 && p->bytes + n <= p->limit)
			return empty;
		if (oldest < 0)
			return -1;
		p->bytes -= size_of(&p->k[oldest].im);
		p->k[oldest].record = -1;
		image_free(&p->k[oldest].im);
	}
}

int
album_put(struct album *p, long record, struct image *im)
{
	struct image mine = *im;
	int i, kept;

	pthread_mutex_lock(&p->lock);
	kept = find(p, record, im);
	if (kept)
		image_free(&mine);
	else if ((i = room(p, size_of(im))) >= 0) {
		struct kept k = { record, *im, 1, ++p->calls };

		p->k[i] = k;
		p->bytes += size_of(im);
		kept = 1;
	}
	pthread_mutex_unlock(&p->lock);
	return kept;
}

void
album_done(struct album *p, long record)
{
	int i = 0;

	pthread_mutex_lock(&p->lock);
	while (i < p->n && p->k[i].record != record)
		i++;
	assert(i < p->n && p->k[i].readers > 0);
	p->k[i].readers--;
	pthread_mutex_unlock(&p->lock);
}
