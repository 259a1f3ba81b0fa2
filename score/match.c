/* match.c -- detections as they come, put together by picture, scored.
 *
 * Files sorted by picture (most are) are scored block by block while they are read, and only what
 * struct eval keeps of a detection stays; with threads, one reads while the others score the block
 * before.  Where a picture comes back after its block, or a class
 * name turns out to be unknown so that all names must be seen first, reading starts again and
 * keeps everything until the end; from a pipe it does so from the start. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "yolo.h"

enum { BLOCK = 1 << 14 };		/* detections */

void
eval_set_open(struct eval_set *s, const struct eval_truth *t, struct eval *ev)
{
	memset(s, 0, sizeof *s);
	s->truth = t;
	s->ev = ev;
	s->seen = (unsigned char *)xcalloc((size_t)t->n, 1);
	s->last_pic = s->last_side = -1;
	eval_classes_open(s);
}

static void
forget(struct eval_set *s)
{
	eval_classes_clear(s);
	eval_hash_free(&s->unknown);
	s->total = s->low = s->bad_images = s->several = s->bad_classes = s->dup_images = s->n = 0;
	s->last_pic = -1;
	s->last_len = 0;
	memset(s->seen, 0, (size_t)s->truth->n);
}

void
eval_set_close(struct eval_set *s)
{
	forget(s);
	eval_hash_free(&s->class_at);
	free(s->raw);
	free(s->other);
	free(s->seen);
	free(s->last_image);
}

/* ---- pictures ---- */

static int
picture_of(struct eval_set *s, const struct eval_in *in)
{
	if (!in->image) {
		if (s->last_len == SIZE_MAX && in->image_id == s->last_id)
			return s->last_pic;
		s->last_len = SIZE_MAX;
		s->last_id = in->image_id;
		return s->last_pic = eval_names_id(s->truth->names, in->image_id);
	}
	if (s->last_image && in->image_len == s->last_len &&
	    !memcmp(s->last_image, in->image, in->image_len))
		return s->last_pic;
	s->last_image = (char *)xgrow(s->last_image, &s->last_cap, in->image_len + 1, 1);
	memcpy(s->last_image, in->image, in->image_len);
	s->last_len = in->image_len;
	return s->last_pic = eval_names_find(s->truth->names, in->image, in->image_len);
}

static void
unknown_picture(struct eval_set *s, const struct eval_in *in)
{
	char id[32];
	const char *name = in->image ? in->image : id;
	size_t n = in->image_len;

	if (!in->image)
		n = (size_t)snprintf(id, sizeof id, "%lld", (long long)in->image_id);
	s->bad_images++;
	s->several += s->last_pic == -2;
	if (eval_hash_get(&s->unknown, name, strnlen(name, n)) < 0)	/* in the order they come */
		eval_hash_put(&s->unknown, name, n, (int)s->unknown.n);
}

/* ---- scoring ---- */


/* Is the list the same block k times over?  Its length, or n. */
static int
period(const struct eval_det *d, int n)
{
	for (int k = 2; k <= 8 && k <= n; k++) {
		int len = n / k, i = 0;

		if (n % k || memcmp(d, d + len, sizeof *d))
			continue;
		while (i + len < n && !memcmp(d + i, d + i + len, sizeof *d))
			i++;
		if (i + len == n)
			return len;
	}
	return n;
}

static void
score_images(struct eval_set *s, struct eval_image *im, const int *pic, int n)
{
	for (int i = 0; i < n; i++) {
		int len = period(im[i].det, im[i].ndet);

		if (len < im[i].ndet) {
			s->dup_first = s->dup_images++ ? s->dup_first : pic[i];
			if (s->dup == 1)
				im[i].ndet = len;
		}
	}
	eval_add(s->ev, im, n);
	for (int i = 0; i < n && s->each; i++)
		s->each(s->arg, pic[i], im + i);
}

/* Detections d[n], together by picture, some thousands at a time. */
static void
score_block(struct eval_set *s, const struct eval_det *d, size_t n)
{
	struct eval_image *im = NULL;
	int *pic = NULL, k = 0;
	size_t cap = 0, pcap = 0, from = 0;

	for (size_t i = 0, j; i < n; i = j) {
		int p = d[i].image;
		const struct eval_pic *t = s->truth->pic + p;

		for (j = i; j < n && d[j].image == p; j++)
			;
		im = (struct eval_image *)xgrow(im, &cap, (size_t)k + 1, sizeof *im);
		pic = (int *)xgrow(pic, &pcap, (size_t)k + 1, sizeof *pic);
		pic[k] = p;
		im[k++] =
		    (struct eval_image){ p, t->n ? s->truth->box + t->first : NULL, d + i, t->n,
			    (int)(j - i) };
		if (j == n || j - from >= 2 * BLOCK) {
			score_images(s, im, pic, k);
			k = 0;
			from = j;
		}
	}
	free(im);
	free(pic);
}

static void *
work(void *arg)
{
	struct eval_set *s = (struct eval_set *)arg;

	score_block(s, s->other, s->nother);
	return NULL;
}

/* Until what was handed over is scored. */
static void
settle(struct eval_set *s)
{
	if (s->busy)
		pthread_join(s->worker, NULL);
	s->busy = 0;
}

/* Score raw[0, n) and let it go; with threads, beside the reading of what follows. */
static void
flush(struct eval_set *s)
{
	struct eval_det *raw = s->raw;
	size_t cap = s->cap;

	settle(s);
	if (s->ev->opt.threads > 1 && !s->buffer) {
		s->raw = s->other;
		s->cap = s->other_cap;
		s->other = raw;
		s->other_cap = cap;
		s->nother = s->n;
		s->ev->adders = s->ev->opt.threads - 1;
		s->busy = !pthread_create(&s->worker, NULL, work, s);
		if (!s->busy)
			work(s);
	} else
		score_block(s, raw, s->n);
	s->n = 0;
}

/* Everything at once, put in the order of the pictures (stable); classes are decided only now. */
static void
flush_all(struct eval_set *s)
{
	size_t np = (size_t)s->truth->n, *at = (size_t *)xcalloc(np + 2, sizeof *at), n = 0;
	struct eval_det *sorted = (struct eval_det *)xmalloc((s->n + 1) * sizeof *sorted);

	for (size_t i = 0; i < s->n; i++) {
		struct eval_det *d = s->raw + i;
		struct eval_side *c = s->side + d->cls;

		if (c->to < 0) {
			s->bad_classes++;
			c->n++;
			continue;
		}
		s->raw[n] = *d;
		s->raw[n].cls = c->to;
		at[s->raw[n++].image + 1]++;
	}
	for (size_t i = 0; i < np; i++)
		at[i + 1] += at[i];
	for (size_t i = 0; i < n; i++)
		sorted[at[s->raw[i].image]++] = s->raw[i];
	free(at);
	free(s->raw);
	s->raw = sorted;
	s->cap = s->n + 1;
	s->n = n;
	flush(s);
}

/* ---- one detection ---- */

static int
start_again(struct eval_set *s, struct err *e)
{
	s->restart = 1;
	return err_set(e, "read again");
}

static int
keep(struct eval_set *s, int pic, int side, const struct eval_in *in, struct err *e)
{
	const struct eval_pic *p = s->truth->pic + pic;
	struct eval_det *d;

	if (!s->buffer && (!s->n || s->raw[s->n - 1].image != pic)) {
		if (s->seen[pic])
			return start_again(s, e);
		if (s->n >= BLOCK * (s->ev->opt.threads > 1 ? 2u : 1u))
			flush(s);
	}
	s->seen[pic] = 1;
	s->raw = (struct eval_det *)xgrow(s->raw, &s->cap, s->n + 1, sizeof *s->raw);
	d = s->raw + s->n++;
	d->score = in->score;
	d->image = pic;
	d->cls = s->buffer ? side : s->side[side].to;
	d->x = in->x;
	d->y = in->y;
	d->w = in->w;
	d->h = in->h;
	if (in->relative) {
		if (!p->w || !p->h)
			return err_set(
			    e, "fractions of a picture whose size the truth does not say");
		d->x = (in->x - in->w / 2) * p->w;
		d->y = (in->y - in->h / 2) * p->h;
		d->w = in->w * p->w;
		d->h = in->h * p->h;
	}
	return 0;
}

static int
take(void *arg, const struct eval_in *in, struct err *e)
{
	struct eval_set *s = (struct eval_set *)arg;
	int pic, side;

	s->total++;
	if (in->score < s->min_score) {
		s->low++;
		return 0;
	}
	pic = picture_of(s, in);
	if (pic < 0) {
		unknown_picture(s, in);
		return 0;
	}
	side = eval_side_of(s, in);
	if (!s->buffer && s->side[side].to < 0) {
		if (s->side[side].kind != EVAL_BY_ID && s->skip_unknown >= 0)
			return start_again(s, e);
		s->bad_classes++;
		s->side[side].n++;
		return 0;
	}
	return keep(s, pic, side, in, e);
}

static int
read_all(struct eval_set *s, char *const *path, int n, struct err *e)
{
	struct eval_image im;

	for (int i = 0; i < n; i++)
		if (eval_read(path[i], s->truth->names, take, s, e))
			return -1;
	if (eval_settle_classes(s, e))
		return -1;
	if (s->buffer)
		flush_all(s);
	else
		flush(s);
	settle(s);
	for (int i = 0; i < s->truth->n; i++)
		if (!s->seen[i]) {
			const struct eval_pic *p = s->truth->pic + i;

			im = (struct eval_image){ i, p->n ? s->truth->box + p->first : NULL, NULL,
				p->n, 0 };
			eval_add(s->ev, &im, 1);
			if (s->each)
				s->each(s->arg, i, &im);
		}
	return 0;
}

static int
can_reread(const char *path)
{
	struct stat st;

	return strcmp(path, "-") && !stat(path, &st) &&
	       (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

int
eval_set_read(struct eval_set *s, char *const *path, int n,
    struct eval *(*renew)(void *arg, struct eval *), void *arg, struct err *e)
{
	int r;

	for (int i = 0; i < n; i++)
		s->buffer |= !can_reread(path[i]);
	r = read_all(s, path, n, e);
	settle(s);
	if (r && s->restart) {
		forget(s);
		s->ev = renew(arg, s->ev);
		s->buffer = 1;
		s->restart = 0;
		r = read_all(s, path, n, e);
	}
	return r;
}
