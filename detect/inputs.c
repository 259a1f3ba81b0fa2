/* inputs.c -- pictures as network input, decoded a batch ahead.
 *
 * Two batches take turns: one is with the caller, the other is being filled.  A worker takes the
 * next picture of the row and its place in the batch in one step, under the lock `turn`, so the
 * order is the row's; then it decodes on its own.  The worker that finds a batch full, the row at
 * its end, or the pipe that feeds it silent, closes the batch. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"

#define FILE_LIMIT ((size_t)1 << 30)

struct tray {
	struct pictures p;
	int done, closed;		/* pictures decoded; no more will come */
};
struct inputs {
	struct input_opts opt;
	struct source *src;
	struct tray tray[2];
	int fill, take;			/* trays whose turn it is */
	pthread_mutex_t turn, lock;
	pthread_cond_t change;
	pthread_t *thread;
	int nthread, ended;		/* ended: the row is, all batches are closed */
	volatile sig_atomic_t stop;
};

static void
reset(struct tray *s)
{
	for (int i = 0; i < s->p.n; i++) {
		free(s->p.pic[i].name);
		free(s->p.pic[i].path);
		free(s->p.pic[i].why);
		free(s->p.pic[i].note);
		image_free(&s->p.pic[i].px);
	}
	s->p.n = s->done = s->closed = 0;
}

/* ---- one picture --------------------------------------------------------------------------- */

static size_t
net_floats_of(const struct input_opts *o)
{
	return (size_t)o->w * (size_t)o->h * (o->grey ? 1 : 3);
}

/* A picture as input of one channel; its own colours stay. */
static void
grey_input(const struct image *px, const struct picture *p, enum resize_kind resize, float *x)
{
	size_t n = (size_t)p->net_w * (size_t)p->net_h;
	float *rgb = (float *)xmalloc(n * 3 * sizeof *rgb);
	struct image grey = image_new(px->w, px->h);

	memcpy(grey.px, px->px, (size_t)px->w * (size_t)px->h * 3);
	image_grey(&grey);
	image_to_net(&grey, p->fit, resize, p->net_w, p->net_h, rgb);
	image_one(rgb, n, x);
	image_free(&grey);
	free(rgb);
}

/* The picture's file: its bytes, which lie in *buf; NULL: the reason is in e. */
static const unsigned char *
fetch(const struct where *w, struct picture *p, unsigned char **buf, size_t *cap, size_t *n,
    struct err *e)
{
	struct record r;
	struct err why;

	if (!w->shard) {
		free(*buf);
		*cap = 0;
		*buf = (unsigned char *)plain_read(w->path, FILE_LIMIT, n, e);
		return *buf;
	}
	p->nclass = shard_classes(w->shard, &p->class_name, &p->class_id);
	if (shard_read(w->shard, w->record, &r, buf, cap, e)) {
		p->name = shard_labels(w->shard, w->record, &r, &why) ?
		    xasprintf("record %ld", w->record) : xstrdup(r.name);
		return NULL;
	}
	p->name = xstrdup(r.name);
	p->id = r.id;
	p->orientation = r.orientation;
	*n = r.nbytes;
	return r.bytes;
}

static int
load(const struct inputs *in, const struct where *w, struct picture *p, float *x,
    unsigned char **buf, size_t *cap, struct err *e)
{
	const struct input_opts *o = &in->opt;
	const unsigned char *bytes;
	struct image px = { 0, 0, NULL };
	size_t n = 0;
	int pw, ph;

	if (!(bytes = fetch(w, p, buf, cap, &n, e)))
		return -1;
	if (image_decode(bytes, n, &px, e))
		return -1;
	if (*e->msg)
		p->note = xstrdup(e->msg);
	if (!w->shard && image_size(bytes, n, &pw, &ph, &p->orientation, e))
		p->orientation = 0;
	if (w->shard ? p->orientation & REC_TURN : !o->stored) {
		image_turn(&px, p->orientation & ~REC_TURN);
		p->orientation = 0;
	}
	p->w = px.w;
	p->h = px.h;
	p->fit = o->stretch ? fit_stretch(px.w, px.h, o->w, o->h) : o->rect ?
	    fit_rect(px.w, px.h, o->w, o->h, o->rect, &p->net_w, &p->net_h) :
	    fit_letterbox(px.w, px.h, o->w, o->h);
	if (o->grey)
		grey_input(&px, p, o->resize, x);
	else
		image_to_net(&px, p->fit, o->resize, p->net_w, p->net_h, x);
	if (o->keep)
		p->px = px;
	else
		image_free(&px);
	return 0;
}

static void
make(struct inputs *in, struct where *w, struct tray *s, int i, unsigned char **buf, size_t *cap)
{
	struct picture *p = &s->p.pic[i];
	float *x = s->p.x + (size_t)i * net_floats_of(&in->opt);
	struct err e = { "" };
	size_t n;

	memset(p, 0, sizeof *p);
	p->id = -1;
	p->net_w = in->opt.w;
	p->net_h = in->opt.h;
	p->name = w->name;
	p->path = w->path;
	p->why = w->why;
	if (!p->why && load(in, w, p, x, buf, cap, &e)) {
		n = w->path ? strlen(w->path) : 0;	/* the name need not stand twice */
		if (n && !strncmp(e.msg, w->path, n) && !strncmp(e.msg + n, ": ", 2))
			n += 2;
		else
			n = 0;
		p->why = xstrdup(e.msg + n);
	}
	if (p->why)
		memset(x, 0, net_floats_of(&in->opt) * sizeof *x);
}

/* ---- turns --------------------------------------------------------------------------------- */

static void
close_tray(struct inputs *in, struct tray *s)
{
	pthread_mutex_lock(&in->lock);
	s->closed = 1;
	in->fill = !in->fill;
	pthread_cond_broadcast(&in->change);
	pthread_mutex_unlock(&in->lock);
}

static void
end_row(struct inputs *in)
{
	if (!in->ended && in->tray[in->fill].p.n > 0 && !in->tray[in->fill].closed)
		close_tray(in, &in->tray[in->fill]);
	pthread_mutex_lock(&in->lock);
	in->ended = 1;
	pthread_cond_broadcast(&in->change);
	pthread_mutex_unlock(&in->lock);
}

/* The next picture and its place; NULL: no more.  Under the lock `turn`. */
static struct tray *
claim(struct inputs *in, struct where *w, int *i)
{
	struct tray *s;

	for (;;) {
		s = &in->tray[in->fill];
		pthread_mutex_lock(&in->lock);
		while (s->closed && !in->stop)
			pthread_cond_wait(&in->change, &in->lock);
		pthread_mutex_unlock(&in->lock);
		if (in->stop || in->ended)
			break;
		if (s->p.n > 0 && !source_ready(in->src)) {
			close_tray(in, s);
			continue;
		}
		if (!source_next(in->src, w))
			break;
		pthread_mutex_lock(&in->lock);
		*i = s->p.n++;
		pthread_mutex_unlock(&in->lock);
		if (*i + 1 == in->opt.batch)
			close_tray(in, s);
		return s;
	}
	end_row(in);
	return NULL;
}

static void *
worker(void *arg)
{
	struct inputs *in = (struct inputs *)arg;
	unsigned char *buf = NULL;
	struct tray *s;
	struct where w;
	size_t cap = 0;
	int i;

	for (;;) {
		pthread_mutex_lock(&in->turn);
		s = claim(in, &w, &i);
		pthread_mutex_unlock(&in->turn);
		if (!s)
			break;
		make(in, &w, s, i, &buf, &cap);
		pthread_mutex_lock(&in->lock);
		s->done++;
		pthread_cond_broadcast(&in->change);
		pthread_mutex_unlock(&in->lock);
	}
	free(buf);
	return NULL;
}

/* ---- the caller's side --------------------------------------------------------------------- */

static struct inputs *
open_on(struct source *src, const struct input_opts *o)
{
	struct inputs *in = (struct inputs *)xcalloc(1, sizeof *in);
	int want = o->threads < 1 ? 1 : o->threads;

	image_threads(want);
	in->opt = *o;
	in->src = src;
	pthread_mutex_init(&in->turn, NULL);
	pthread_mutex_init(&in->lock, NULL);
	pthread_cond_init(&in->change, NULL);
	for (int i = 0; i < 2; i++) {
		struct pictures *p = &in->tray[i].p;

		p->pic = (struct picture *)xcalloc((size_t)o->batch, sizeof *p->pic);
		p->x = (float *)xmalloc((size_t)o->batch * net_floats_of(o) * sizeof(float));
	}
	in->thread = (pthread_t *)xcalloc((size_t)want, sizeof *in->thread);
	while (in->nthread < want &&
	    !pthread_create(&in->thread[in->nthread], NULL, worker, in))
		in->nthread++;
	if (!in->nthread)
		die(1, "no thread to decode pictures with");
	return in;
}

struct inputs *
inputs_open(char *const *arg, int n, const struct input_opts *o)
{
	return open_on(source_open(arg, n), o);
}

struct inputs *
inputs_open_shard(struct shard *s, const struct input_opts *o)
{
	return open_on(source_shard(s), o);
}

struct pictures *
inputs_next(struct inputs *in)
{
	struct tray *s = &in->tray[in->take];
	int got;

	pthread_mutex_lock(&in->lock);
	while (!in->stop && !(s->closed ? s->done == s->p.n : in->ended))
		pthread_cond_wait(&in->change, &in->lock);
	got = !in->stop && s->closed;
	in->take = got ? !in->take : in->take;
	pthread_mutex_unlock(&in->lock);
	return got ? &s->p : NULL;
}

void
inputs_free(struct inputs *in, struct pictures *p)
{
	struct tray *s = p == &in->tray[0].p ? &in->tray[0] : &in->tray[1];

	pthread_mutex_lock(&in->lock);
	reset(s);
	pthread_cond_broadcast(&in->change);
	pthread_mutex_unlock(&in->lock);
}

void
inputs_stop(struct inputs *in)
{
	in->stop = 1;
	source_stop(in->src);
}

void
inputs_close(struct inputs *in)
{
	if (!in)
		return;
	inputs_stop(in);
	pthread_mutex_lock(&in->lock);
	pthread_cond_broadcast(&in->change);
	pthread_mutex_unlock(&in->lock);
	for (int i = 0; i < in->nthread; i++)
		pthread_join(in->thread[i], NULL);
	for (int i = 0; i < 2; i++) {
		reset(&in->tray[i]);
		free(in->tray[i].p.pic);
		free(in->tray[i].p.x);
	}
	source_close(in->src);
	pthread_mutex_destroy(&in->turn);
	pthread_mutex_destroy(&in->lock);
	pthread_cond_destroy(&in->change);
	free(in->thread);
	free(in);
}
