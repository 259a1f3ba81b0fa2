/* loader.c -- batches of samples from a shard, made ahead by threads.
 *
 * The order is arithmetic (order.c): batch i takes the samples from i * B on and a rank its slice
 * of them.  So a resumed run, or one with another number of ranks, goes on with the same samples,
 * each record comes once an epoch, and nothing is padded or dropped.
 *
 * Threads claim samples, not batches, from a ticket (step, index) and make them in place in a
 * ring of batches; the consumer waits for the batch whose turn it is.  One mutex guards ticket
 * and ring: a sample takes milliseconds, the lock a microsecond.  The ring is one block of
 * memory; what grows with the data (a thread's buffers, labels of crowded pictures) stays when
 * it has grown, so a run soon allocates nothing here. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loader/int.h"
#include "base/fn.h"

enum { EMPTY, FILLING, READY, HELD };

struct truths { struct truth *v; size_t cap; int n; struct truth *first; };
struct berth {			/* a batch of the ring; batch comes first: loader_free casts */
	struct batch batch;
	int state, claimed, left;	/* left: samples not done yet */
	struct truths *of;		/* per image */
	struct truths all;
	int bad;			/* the first image that failed, -1 */
	struct err err;
};
struct worker {
	struct loader *l;
	pthread_t thread;
	struct warp *warp;
	unsigned char *buf;		/* the file of a picture */
	size_t cap;
	struct truth *truth;		/* a sample's labels before they are counted */
	size_t truth_cap;
	float *rgb;			/* grey: a sample before it is of one channel */
};
struct loader {
	struct shard *shard;
	struct loader_opts o;
	long n, total, end;		/* records; samples of the run; the step after the last */
	long ticket, next;		/* step being claimed; step the consumer wants */
	int depth, stop, held;
	double waited;			/* by loader_wait, for the next batch */
	struct berth *slot;
	void *ring;
	struct album *keep;		/* mosaic only */
	struct worker *worker;
	int nworker;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
};

/* ---- the ring's memory -------------------------------------------------------------------- */

/* Images that this rank has of a batch of n. */
static int
images(const struct loader_opts *o, long n)
{
	return order_images((int)n, o->parts, o->ranks, o->rank);
}

/* The most of any batch, whole or the last. */
static int
most(const struct loader_opts *o)
{
	int whole = images(o, o->batch), last = images(o, o->total % o->batch);

	return whole > last ? whole : last > 1 ? last : 1;
}

/* A batch in use, one ready, and as many as let every thread work two samples ahead. */
static int
depth(const struct loader_opts *o)
{
	return 2 + (2 * o->threads + most(o) - 1) / most(o);
}

/* The next n items of a block, at a multiple of 64; base NULL: only count. */
static void *
take(unsigned char *base, size_t *at, size_t n, size_t size)
{
	void *p = base ? base + *at : NULL;

	*at += (n * size + 63) / 64 * 64;
	return p;
}

static size_t
channels(const struct loader_opts *o)
{
	return o->grey ? 1 : 3;
}

static size_t
lay_out(const struct loader_opts *o, unsigned char *base, struct berth **ring)
{
	size_t at = 0, n = (size_t)most(o), d = (size_t)depth(o);
	struct berth *s = (struct berth *)take(base, &at, d, sizeof *s), none;

	if (base)
		*ring = s;
	for (size_t i = 0; i < d; i++) {
		struct berth *k = base ? &s[i] : &none;
		struct truth *room;

		k->batch.x = (float *)take(base, &at, n * (size_t)o->w * (size_t)o->h *
		    channels(o), sizeof(float));
		k->batch.record = (long *)take(base, &at, n, sizeof(long));
		k->batch.fit = (struct fit *)take(base, &at, n, sizeof(struct fit));
		k->batch.pic_w = (int *)take(base, &at, n, sizeof(int));
		k->batch.pic_h = (int *)take(base, &at, n, sizeof(int));
		k->of = (struct truths *)take(base, &at, n, sizeof *k->of);
		room = (struct truth *)take(base, &at, 2 * n * LOADER_TRUTH, sizeof *room);
		if (!base)
			continue;
		for (size_t b = 0; b <= n; b++) {	/* the last one: all of the batch */
			struct truths *t = b < n ? &k->of[b] : &k->all;

			t->first = t->v = room + b * LOADER_TRUTH;
			t->cap = b < n ? LOADER_TRUTH : n * LOADER_TRUTH;
			t->n = 0;
		}
	}
	return at;
}

static int
keeps(const struct loader_opts *o)
{
	return !o->in_order && o->aug.kind == AUG_MOSAIC && o->aug.mosaic > 0;
}

/* Pictures that mosaic's window spans: what of them stays decoded. */
static int
window(const struct loader_opts *o)
{
	return AUG_WINDOW + depth(o) * most(o);
}

static size_t
kept_bytes(const struct loader_opts *o, struct shard *s)
{
	long n = shard_count(s);
	size_t sum = 0, top = 0;
	struct record r;
	struct err e;

	for (long i = 0; i < n; i++) {
		size_t one = shard_labels(s, i, &r, &e) ? 0 : (size_t)r.w * (size_t)r.h * 3;

		sum += one;
		top = one > top ? one : top;
	}
	if (n > window(o))
		sum = top * (size_t)window(o);
	return sum < LOADER_KEEP ? sum : LOADER_KEEP;
}

size_t
loader_bytes(const struct loader_opts *o, struct shard *s)
{
	return lay_out(o, NULL, NULL) + (keeps(o) ? kept_bytes(o, s) : 0);
}

/* Room for n; the block's own room is left behind when it is too small. */
static void
truths_room(struct truths *t, size_t n)
{
	if (n <= t->cap)
		return;
	n += n / 2;
	t->v = (struct truth *)xrealloc(t->v == t->first ? NULL : t->v, n * sizeof *t->v);
	t->cap = n;
}

static void
truths_free(struct truths *t)
{
	if (t->v != t->first)
		free(t->v);
}

/* ---- one sample --------------------------------------------------------------------------- */

static int
decode(struct worker *k, long record, struct sample *s, struct err *e)
{
	struct shard *sh = k->l->shard;
	struct record r;
	struct err why;

	if (shard_read(sh, record, &r, &k->buf, &k->cap, e))
		return -1;
	if (record_decode(&r, &s->im, &why))
		return err_set(
		    e, "%s: record %ld (%s): %s", shard_path(sh, record), record, r.name, why.msg);
	if (s->im.w != r.w || s->im.h != r.h)
		return err_set(e,
		    "%s: record %ld (%s): the picture is %dx%d, its labels are for %dx%d",
		    shard_path(sh, record), record, r.name, s->im.w, s->im.h, r.w, r.h);
	if (k->l->o.grey)
		image_grey(&s->im);
	return 0;
}

/* *kept: the picture is the cache's. */
static int
fetch(struct worker *k, long record, struct sample *s, int *kept, struct err *e)
{
	struct album *p = k->l->keep;
	struct record r;

	s->im.px = NULL;
	*kept = p && album_get(p, record, &s->im);
	if (!*kept && decode(k, record, s, e))
		return -1;
	if (!*kept && p)
		*kept = album_put(p, record, &s->im);
	if (shard_labels(k->l->shard, record, &r, e))
		return -1;
	s->box = r.box;
	s->nbox = r.nbox;
	return 0;
}

static void
release(struct worker *k, struct sample *s, long record, int kept)
{
	if (kept)
		album_done(k->l->keep, record);
	else
		image_free(&s->im);
}

/* The sample that image i of a batch is. */
static long
sample_at(const struct loader_opts *o, const struct batch *b, int i)
{
	return b->first + order_image(b->n_global, o->parts, o->ranks, o->rank, i);
}

static int
make(struct worker *k, struct berth *s, int i, struct err *e)
{
	const struct loader *l = k->l;
	struct batch *b = &s->batch;
	long t = sample_at(&l->o, b, i), pick[AUG_PICTURES] = { t };
	int n = augment_picks(&l->o.aug, l->o.seed, t, pick), bad = 0, boxes = 0, done = 0;
	int kept[AUG_PICTURES];
	struct sample in[AUG_PICTURES];
	size_t pixels = (size_t)b->w * (size_t)b->h;
	float *x = b->x + (size_t)i * pixels * channels(&l->o);

	for (; done < n && !bad; done++) {
		if (!l->o.in_order)
			pick[done] = loader_record(l->o.seed, l->n, pick[done]);
		bad = fetch(k, pick[done], &in[done], &kept[done], e);
		boxes += bad ? 0 : in[done].nbox;
	}
	b->record[i] = pick[0];
	if (!bad) {
		k->truth = (struct truth *)xgrow(k->truth, &k->truth_cap, (size_t)boxes + 1,
		    sizeof *k->truth);
		boxes = augment_sample(&l->o.aug, l->o.seed, t, in, n, b->w, b->h, l->o.max_truth,
		    k->warp, l->o.grey ? k->rgb : x, k->truth);
		if (l->o.grey)
			image_one(k->rgb, pixels, x);
		truths_room(&s->of[i], (size_t)boxes);
		memcpy(s->of[i].v, k->truth, (size_t)boxes * sizeof *k->truth);
		s->of[i].n = boxes;
		b->pic_w[i] = in[0].im.w;
		b->pic_h[i] = in[0].im.h;
		b->fit[i] = l->o.aug.stretch ? fit_stretch(in[0].im.w, in[0].im.h, b->w, b->h) :
		    fit_letterbox(in[0].im.w, in[0].im.h, b->w, b->h);
	}
	while (done-- > 0)
		release(k, &in[done], pick[done], kept[done]);
	return bad;
}

/* ---- threads ------------------------------------------------------------------------------ */

static void
begin(struct loader *l, struct berth *s, long step)
{
	struct batch *b = &s->batch;
	long t = step * l->o.batch, n = l->total - t < l->o.batch ? l->total - t : l->o.batch;

	b->step = step;
	b->first = t;
	b->n = images(&l->o, n);
	b->n_global = (int)n;
	b->t0 = sample_at(&l->o, b, 0);
	b->w = l->o.w;
	b->h = l->o.h;
	if (l->o.size)
		l->o.size(l->o.size_arg, step, &b->w, &b->h);
	s->bad = -1;
	s->claimed = 0;
	s->left = b->n;
	s->state = b->n ? FILLING : READY;
}

/* The next sample to make, with the lock held; NULL: none now. */
static struct berth *
claim(struct loader *l, int *index)
{
	while (l->ticket < l->end) {
		struct berth *s = &l->slot[l->ticket % l->depth];

		if (s->state == EMPTY) {
			begin(l, s, l->ticket);
			if (s->state == READY)	/* an empty slice of a short batch */
				pthread_cond_signal(&l->done);
		}
		if (s->batch.step != l->ticket)
			return NULL;		/* the ring is full */
		if (s->claimed < s->batch.n) {
			*index = s->claimed++;
			return s;
		}
		l->ticket++;
	}
	return NULL;
}

static void *
run(void *arg)
{
	struct worker *k = (struct worker *)arg;
	struct loader *l = k->l;
	struct err why;

	pthread_mutex_lock(&l->lock);
	while (!l->stop) {
		int i, bad;
		struct berth *s = claim(l, &i);

		if (!s) {
			pthread_cond_wait(&l->work, &l->lock);
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		bad = make(k, s, i, &why);
		pthread_mutex_lock(&l->lock);
		if (bad && (s->bad < 0 || i < s->bad)) {
			s->bad = i;
			s->err = why;
		}
		if (!--s->left) {
			s->state = READY;
			pthread_cond_signal(&l->done);
		}
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int
check(const struct loader_opts *o, struct shard *sh, long first, long steps, struct err *e)
{
	if (shard_count(sh) < 1)
		return err_set(e, "%s: it holds no pictures", shard_path(sh, 0));
	if (o->batch < 1 || o->ranks < 1 || o->rank < 0 || o->rank >= o->ranks || o->w < 1 ||
	    o->h < 1 || o->threads < 1 || first < 0 || steps < 0)
		return err_set(e,
		    "loader: batch %d, rank %d of %d, input %dx%d, %d threads, step %ld + %ld: "
		    "want positive numbers",
		    o->batch, o->rank, o->ranks, o->w, o->h, o->threads, first, steps);
	return 0;
}

struct loader *
loader_open(struct shard *sh, const struct loader_opts *o, long first, long steps, struct err *e)
{
	pthread_condattr_t clock;
	struct loader *l;
	long batches;

	if (check(o, sh, first, steps, e))
		return NULL;
	l = (struct loader *)xcalloc(1, sizeof *l);
	l->shard = sh;
	l->o = *o;
	if (o->in_order)
		l->o.aug.kind = AUG_NONE;
	l->n = shard_count(sh);
	l->total = o->in_order ? l->n : o->total > 0 ? o->total : (first + steps) * o->batch;
	l->o.total = l->total;
	batches = (l->total + o->batch - 1) / o->batch;
	l->end = first + steps < batches ? first + steps : batches;
	l->ticket = l->next = first;
	l->depth = depth(&l->o);
	if (posix_memalign(&l->ring, 64, lay_out(&l->o, NULL, NULL)))
		die(1, "out of memory: %zu bytes for batches of the loader",
		    lay_out(&l->o, NULL, NULL));
	if (keeps(o))		/* the window, and what is being made ahead of it */
		l->keep = album_open(LOADER_KEEP, window(&l->o));
	lay_out(&l->o, (unsigned char *)l->ring, &l->slot);
	for (int i = 0; i < l->depth; i++) {
		l->slot[i].state = EMPTY;
		l->slot[i].batch.step = -1;
	}
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&l->done, &clock);
	pthread_condattr_destroy(&clock);
	image_threads(o->threads * o->ranks);
	l->worker = (struct worker *)xcalloc((size_t)o->threads, sizeof *l->worker);
	for (; l->nworker < o->threads; l->nworker++) {
		struct worker *k = &l->worker[l->nworker];

		k->l = l;
		k->warp = warp_open();
		if (o->grey)
			k->rgb = (float *)xmalloc((size_t)o->w * (size_t)o->h * 3 *
			    sizeof *k->rgb);
		if (pthread_create(&k->thread, NULL, run, k)) {
			warp_close(k->warp);
			free(k->rgb);
			err_set(
			    e, "loader: the system gives %d threads of %d", l->nworker, o->threads);
			loader_close(l);
			return NULL;
		}
	}
	return l;
}

void
loader_close(struct loader *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->stop = 1;
	pthread_cond_broadcast(&l->work);
	pthread_mutex_unlock(&l->lock);
	for (int i = 0; i < l->nworker; i++) {
		struct worker *k = &l->worker[i];

		pthread_join(k->thread, NULL);
		warp_close(k->warp);
		free(k->buf);
		free(k->truth);
		free(k->rgb);
	}
	for (int i = 0; i < l->depth; i++) {
		for (int b = 0, n = most(&l->o); b < n; b++)
			truths_free(&l->slot[i].of[b]);
		truths_free(&l->slot[i].all);
	}
	pthread_cond_destroy(&l->work);
	pthread_cond_destroy(&l->done);
	pthread_mutex_destroy(&l->lock);
	album_close(l->keep);
	free(l->worker);
	free(l->ring);
	free(l);
}

/* ---- the consumer ------------------------------------------------------------------------- */

static void
gather(struct berth *s)		/* the labels of all images, in order */
{
	size_t n = 0;

	for (int i = 0; i < s->batch.n; i++)
		n += (size_t)s->of[i].n;
	truths_room(&s->all, n);
	s->all.n = 0;
	for (int i = 0; i < s->batch.n; i++)
		for (int k = 0; k < s->of[i].n; k++) {
			s->all.v[s->all.n] = s->of[i].v[k];
			s->all.v[s->all.n++].image = (float)i;
		}
	s->batch.truth = s->all.v;
	s->batch.ntruth = s->all.n;
}

/* Nothing is left to wait for at the end, either. */
int
loader_wait(struct loader *l, double seconds)
{
	struct berth *s = &l->slot[l->next % l->depth];
	double from = now();
	struct timespec until;
	int ready, late = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(seconds * 1e9);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&l->lock);
	while (!(ready = l->next >= l->end || (s->state == READY && s->batch.step == l->next)) &&
	    !late)
		late = pthread_cond_timedwait(&l->done, &l->lock, &until);
	pthread_mutex_unlock(&l->lock);
	l->waited += now() - from;
	return ready;
}

struct batch *
loader_next(struct loader *l, struct err *e)
{
	struct berth *s = &l->slot[l->next % l->depth];
	double from = now();

	e->msg[0] = 0;
	if (l->next >= l->end)
		return NULL;
	if (l->held == l->depth) {
		err_set(e, "loader: all %d batches are held", l->depth);
		return NULL;
	}
	pthread_mutex_lock(&l->lock);
	while (s->state != READY || s->batch.step != l->next)
		pthread_cond_wait(&l->done, &l->lock);
	if (s->bad >= 0)
		*e = s->err;
	else
		s->state = HELD;
	pthread_mutex_unlock(&l->lock);
	if (s->bad >= 0)
		return NULL;
	gather(s);
	s->batch.wait = l->waited + now() - from;
	l->waited = 0;
	l->next++;
	l->held++;
	return &s->batch;
}

void
loader_free(struct loader *l, struct batch *b)
{
	pthread_mutex_lock(&l->lock);
	((struct berth *)b)->state = EMPTY;
	l->held--;
	pthread_cond_broadcast(&l->work);
	pthread_mutex_unlock(&l->lock);
}
