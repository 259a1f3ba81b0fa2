/* match.c -- detections as they come, put together by picture, scored.
 *
 * Files sorted by picture (most are) are scored block by block while they are read, and only what
 * struct eval keeps of a detection stays; with threads, one reads while the others score the block
 * before.  Where a picture comes back after its block, or a class
 * name turns out to be unknown so that all names must be seen first, reading starts again and
 * keeps everything until the end; from a pipe it does so from the start. */
#include <pthread.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "score/int.h"

static int eval_side_of(struct eval_set *s, const struct eval_in *in);

static int eval_settle_classes(struct eval_set *s, struct err *e);

static void eval_classes_clear(struct eval_set *s);

enum { BLOCK = 1 << 14, TRIED = 2000 };	/* detections; those whose form is looked at */

static void
eval_set_open(struct eval_set *s, const struct eval_truth *t, struct eval *ev)
{
	memset(s, 0, sizeof *s);
	s->truth = t;
	s->ev = ev;
	s->seen = (unsigned char *)xcalloc((size_t)t->n, 1);
	s->last_pic = s->last_side = -1;
}

static void
forget(struct eval_set *s)
{
	eval_classes_clear(s);
	keys_free(&s->unknown);
	s->total = s->low = s->bad_images = s->several = s->bad_classes = s->dup_images = s->n = 0;
	s->tried = 0;
	memset(s->fits, 0, sizeof s->fits);
	s->last_pic = -1;
	s->last_len = 0;
	memset(s->seen, 0, (size_t)s->truth->n);
}

static void
eval_set_close(struct eval_set *s)
{
	forget(s);
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
	keys_add(&s->unknown, name, strnlen(name, n));
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

/* Does a box lie on a truth of its picture, whatever the class? */
static int
lies_on(const struct eval_set *s, const struct eval_pic *p, const double b[4])
{
	for (int i = 0; i < p->n; i++) {
		const struct box *t = s->truth->box + p->first + i;
		double w = fmin(b[0] + b[2], t->x + t->w) - fmax(b[0], t->x);
		double h = fmin(b[1] + b[3], t->y + t->h) - fmax(b[1], t->y);

		if (w > 0 && h > 0 && w * h >= .7 * (b[2] * b[3] + t->w * t->h - w * h))
			return 1;
	}
	return 0;
}

/* The numbers of a detection read in other ways that writers of such files have. */
static void
try_readings(struct eval_set *s, const struct eval_pic *p, const struct eval_in *in,
    const struct eval_det *d)
{
	double x = in->x, y = in->y, w = in->w, h = in->h, pw = p->w, ph = p->h;
	double pixels[][4] = { { x, y, w - x, h - y }, { x - w / 2, y - h / 2, w, h },
		{ x * pw, y * ph, w * pw, h * ph },
		{ (x - w / 2) * pw, (y - h / 2) * ph, w * pw, h * ph } };
	double given[] = { d->x, d->y, d->w, d->h };
	double second[] = { (y - h / 2) * pw, (w - in->score / 2) * ph, h * pw, in->score * ph };

	s->tried++;
	s->fits[EVAL_AS_GIVEN] += (size_t)lies_on(s, p, given);
	for (int k = EVAL_CORNERS; k <= EVAL_CENTRED_FRACTIONS && !in->relative; k++)
		s->fits[k] += (size_t)lies_on(s, p, pixels[k - EVAL_CORNERS]);
	if (in->relative)
		s->fits[EVAL_SCORE_FIRST] += (size_t)lies_on(s, p, second);
}

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
	if (s->tried < TRIED)
		try_readings(s, p, in, d);
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

/* Read the files and score them.  renew: makes an empty struct eval when reading starts again
 * because the detections are not sorted by picture. */
static int
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

/* Which class of the truth a detection's class is.
 *
 * Classes of the detections (sides) are told apart by all that the file says: number and name.
 * Names count where both have them (of a name that stands twice, the class with the detection's
 * number), ids where the truth has its own, else numbers.  When a name is
 * unknown, positions decide if both sides count the same classes; that is known only at the end. */

/* Forget the classes of the detections. */
static void
eval_classes_clear(struct eval_set *s)
{
	for (int i = 0; i < s->nside; i++)
		free(s->side[i].name);
	free(s->side);
	free(s->side_at);
	s->side = NULL;
	s->side_at = NULL;
	s->side_cap = s->at_cap = 0;
	s->nside = 0;
	s->last_side = -1;
}

static int
class_of(const struct eval_set *s, const struct eval_side *d)
{
	const struct eval_truth *t = s->truth;
	int64_t n = d->cls;

	if (d->name)
		return class_named(t->class_name, t->nclass, d->name,
		    d->kind == EVAL_BY_INDEX ? n : -1);
	if (d->kind == EVAL_BY_ID && t->ids)
		return eval_truth_class(t, n);
	if (d->kind == EVAL_BY_ID) /* yolo-detect -f coco writes class + 1 where it knows no ids */
		n--;
	return n >= 0 && n < t->nclass ? (int)n : -1;
}

static int
same_class(const struct eval_side *d, const struct eval_in *in)
{
	if (d->kind != in->kind || (in->kind != EVAL_BY_NAME && d->cls != in->cls))
		return 0;
	if (in->kind == EVAL_BY_ID)
		return 1;
	return in->name && d->given ? !strncmp(d->name, in->name, in->name_len) &&
	    !d->name[in->name_len] : !in->name && !d->given;
}

static size_t
side_hash(const struct eval_in *in)
{
	uint64_t h = in->kind == EVAL_BY_NAME ? 0 : (uint64_t)in->cls, v;
	size_t n = in->kind != EVAL_BY_ID && in->name ? in->name_len : 0, i;

	h *= 0x9e3779b97f4a7c15u;
	for (i = 0; i + 8 <= n; i += 8) {
		memcpy(&v, in->name + i, 8);
		h = (h ^ h >> 29 ^ v) * 0x9e3779b97f4a7c15u;
	}
	for (v = n; i < n; i++)
		v = v << 8 | (unsigned char)in->name[i];
	h = (h ^ h >> 29 ^ v) * 0x9e3779b97f4a7c15u;
	return (size_t)(h >> 32);
}

static size_t
side_place(const struct eval_set *s, const struct eval_in *in, size_t hash)
{
	size_t i = hash & (s->at_cap - 1);

	while (s->side_at[i] && !same_class(s->side + s->side_at[i] - 1, in))
		i = (i + 1) & (s->at_cap - 1);
	return i;
}

static void
more_places(struct eval_set *s)
{
	s->at_cap = s->at_cap ? 2 * s->at_cap : 256;
	free(s->side_at);
	s->side_at = (int *)xcalloc(s->at_cap, sizeof *s->side_at);
	for (int k = 0; k < s->nside; k++) {
		size_t i = s->side[k].hash & (s->at_cap - 1);

		while (s->side_at[i])
			i = (i + 1) & (s->at_cap - 1);
		s->side_at[i] = k + 1;
	}
}

/* The side of a detection, a new one where it is the first of its class. */
static int
eval_side_of(struct eval_set *s, const struct eval_in *in)
{
	struct eval_side *d;
	size_t n = in->name_len, hash, at;

	if (s->last_side >= 0 && same_class(s->side + s->last_side, in))
		return s->last_side;
	if (2 * (size_t)s->nside >= s->at_cap)
		more_places(s);
	hash = side_hash(in);
	at = side_place(s, in, hash);
	if (s->side_at[at])
		return s->last_side = s->side_at[at] - 1;
	s->side = (struct eval_side *)xgrow(s->side, &s->side_cap, (size_t)s->nside + 1,
	    sizeof *s->side);
	d = s->side + s->nside;
	memset(d, 0, sizeof *d);
	d->kind = in->kind;
	d->cls = in->cls;
	d->hash = hash;
	if (in->name && in->kind != EVAL_BY_ID) {
		d->name = (char *)memcpy(xcalloc(n + 1, 1), in->name, n);
		d->given = 1;
	} else if (in->kind == EVAL_BY_INDEX && in->cls >= 0 && in->cls < s->nnames)
		d->name = xstrdup(s->names[in->cls]);
	d->to = class_of(s, d);
	s->side_at[at] = ++s->nside;
	return s->last_side = s->nside - 1;
}

/* Numbers without names that mean no class. */
static int
numbers_fit(const struct eval_set *s, struct err *e)
{
	const struct eval_truth *t = s->truth;

	for (int i = 0; i < s->nside; i++) {
		const struct eval_side *d = s->side + i;

		if (d->name || d->to >= 0)
			continue;
		if (d->kind == EVAL_BY_INDEX)
			return err_set(e,
			    "class %lld of the detections: the truth has %d classes, 0..%d; "
			    "or give -O unknown=skip",
			    (long long)d->cls, t->nclass, t->nclass - 1);
		if (d->kind == EVAL_BY_ID && !t->ids)
			return err_set(e,
			    "category_id %lld of the detections: the truth has no ids, so "
			    "they would be 1..%d: want a truth with ids, or -O unknown=skip",
			    (long long)d->cls, t->nclass);
	}
	return 0;
}

/* All names known: fine.  Else by position, when both sides count the same classes. */
static int
eval_settle_classes(struct eval_set *s, struct err *e)
{
	const struct eval_truth *t = s->truth;
	const char *odd = NULL;
	int64_t most = -1, count;
	int named = 0, numbered = 1;

	for (int i = 0; i < s->nside; i++)
		if (s->side[i].to == -2)
			return err_set(e, "class '%.200s' stands twice in the truth, and the "
			    "detections do not say which is meant: want its number or category_id "
			    "with them", s->side[i].name);
	if (s->skip_unknown < 0)
		return 0;
	if (numbers_fit(s, e))
		return -1;
	for (int i = 0; i < s->nside; i++) {
		const struct eval_side *d = s->side + i;

		numbered &= d->kind == EVAL_BY_INDEX;
		most = d->kind == EVAL_BY_INDEX && d->cls > most ? d->cls : most;
		if (d->name && d->to < 0 && !odd)
			odd = d->name;
	}
	if (!odd)
		return 0;
	if (!t->nclass)
		return err_set(e, "class '%.200s' of the detections: the truth has no classes; "
		    "were its labels found?", odd);
	for (int i = 0; i < t->nclass; i++)
		named |= t->class_name[i] != NULL;
	count = numbered ? most < s->nnames ? s->nnames : most + 1 : s->nside;
	if (!numbered && !named)
		return err_set(
		    e, "class '%.200s' of the detections: the truth has no class names", odd);
	if (!numbered || (named && count != t->nclass) || most >= t->nclass)
		return err_set(e,
		    "class '%.200s' of the detections is not in the truth, and %lld classes "
		    "there are not %d here: want the same names, or -O unknown=skip",
		    odd, (long long)count, t->nclass);
	s->by_position = 1;
	for (int i = 0; i < s->nside; i++)
		s->side[i].to = s->side[i].cls >= 0 ? (int)s->side[i].cls : -1;
	return 0;
}

/* One side: its files read and scored, and what was noticed about them told.
 *
 * yolo-eval has one side, or two with -D; yolo-bench eval has one, silent. */

static struct eval *
renew(void *arg, struct eval *old)
{
	struct eval_run *r = (struct eval_run *)arg;

	eval_close(old);
	if (r->errors)
		eval_errors_reset(r->errors);
	return r->ev = eval_open(r->opt, r->truth->nclass);
}

/* "a, b, c": names put together, as many as there is room for. */
static void
list_add(char *list, size_t cap, const char *name)
{
	size_t n = strlen(list);

	if (n + 1 < cap)
		snprintf(list + n, cap - n, "%s%.60s", n ? ", " : "", name);
}

static int
tell_pictures(struct eval_run *r, struct err *e)
{
	struct eval_set *s = &r->set;
	char list[400] = "", several[80] = "";

	if (!s->bad_images)
		return 0;
	for (int k = 0; k < 5 && k < s->unknown.n; k++)
		list_add(list, sizeof list, keys_text(&s->unknown, k));
	if (s->several)
		snprintf(several, sizeof several, " (%zu have names of more than one picture)",
		    s->several);
	err_set(e, "%zu detections of %d pictures that are not in the truth%s: %s%s",
	    s->bad_images, s->unknown.n, several, list, s->unknown.n > 5 ? ", ..." : "");
	if (r->unknown <= 0)
		return -1;
	if (r->tell)
		warn("%s; left out", e->msg);
	return 0;
}

/* Do the boxes lie on truths if their numbers are read in another way, and not as they are? */
static void
tell_form(const struct eval_run *r)
{
	static const char *const form[] = { NULL, "corners, x1 y1 x2 y2, not x y width height",
		"centre and size, not corner and size", "fractions of the picture, not pixels",
		"centre and size in fractions of the picture, not pixels",
		"class score cx cy w h, not class cx cy w h score" };
	const struct eval_set *s = &r->set;
	int best = EVAL_AS_GIVEN;

	for (int k = 0; k < EVAL_READINGS; k++)
		if (s->fits[k] > s->fits[best])
			best = k;
	if (r->tell && best && s->fits[best] > 2 * s->fits[0] && 4 * s->fits[best] >= s->tried)
		warn("%zu of the first %zu detections lie on a truth, but %zu would as %s: are "
		    "they of that form?", s->fits[0], s->tried, s->fits[best], form[best]);
}

/* Are the numbers of the classes those of the truth less one? */
static int
from_zero(const struct eval_set *s)
{
	const struct eval_truth *t = s->truth;
	int64_t lo = INT64_MAX, hi = INT64_MIN;

	for (int i = 0; i < s->nside; i++) {
		if (s->side[i].kind != EVAL_BY_ID || s->side[i].name)
			return 0;
		lo = s->side[i].cls < lo ? s->side[i].cls : lo;
		hi = s->side[i].cls > hi ? s->side[i].cls : hi;
	}
	return s->nside && t->nclass && lo == 0 && hi < t->nclass &&
	    (!t->ids || (t->class_id[0] == 1 && t->class_id[t->nclass - 1] == t->nclass));
}

static int
tell_classes(struct eval_run *r, struct err *e)
{
	struct eval_set *s = &r->set;
	char list[400] = "", num[32];
	int n = 0;

	if (!s->bad_classes)
		return 0;
	for (int i = 0; i < s->nside; i++)
		if (s->side[i].n && n++ < 5) {
			snprintf(num, sizeof num, "%lld", (long long)s->side[i].cls);
			list_add(list, sizeof list, s->side[i].name ? s->side[i].name : num);
		}
	err_set(e, "%zu detections of %d classes that are not in the truth: %s%s%s", s->bad_classes,
	    n, list, n > 5 ? ", ..." : "", from_zero(s) ? " (are they counted from 0? the "
	    "truth's ids are from 1, so all would be one off)" : "");
	if (r->unknown < 0)
		return -1;
	if (r->tell)
		warn("%s; left out", e->msg);
	return 0;
}

static void
tell_map(const struct eval_run *r)
{
	const struct eval_set *s = &r->set;

	if (!s->by_position || quiet || !r->tell)
		return;
	warn("class names differ; classes are matched by position:");
	for (int i = 0; i < s->nside; i++) {
		char id[32];

		warn("  %lld %s = %s", (long long)s->side[i].cls,
		    s->side[i].name ? s->side[i].name : "-",
		    s->side[i].to < 0 ? "-" : eval_class_name(r->truth, s->side[i].to, id));
	}
}

/* Classes that only one side has. */
static void
tell_absent(const struct eval_run *r)
{
	struct eval *e = r->ev;
	long *truths = (long *)xcalloc((size_t)e->nclass + 1, sizeof *truths), nt = 0, nd = 0,
	     fp = 0;
	char lt[400] = "", ld[400] = "", id[32];

	eval_finish(e);
	for (size_t i = 0; i < e->nt; i++)
		truths[e->tcls[i]]++;
	for (int c = 0; c < e->nclass; c++) {
		size_t n = e->cstart[c + 1] - e->cstart[c];

		if (truths[c] && !n && nt++ < 5)
			list_add(lt, sizeof lt, eval_class_name(r->truth, c, id));
		if (!truths[c] && n) {
			fp += (long)n;
			if (nd++ < 5)
				list_add(ld, sizeof ld, eval_class_name(r->truth, c, id));
		}
	}
	if (nt && !quiet)
		warn("%ld classes of the truth were never detected: %s%s", nt, lt,
		    nt > 5 ? ", ..." : "");
	if (nd && !quiet)
		warn("%ld classes have detections (%ld) and no truth, %s: %s%s", nd, fp,
		    r->opt->absent ? "their AP counts 0" : "means leave them out", ld,
		    nd > 5 ? ", ..." : "");
	free(truths);
}

static int
tell_twice(struct eval_run *r, struct err *e)
{
	const struct eval_set *s = &r->set;
	const struct eval_pic *p = r->truth->pic + s->dup_first;
	char name[80], id[32];

	if (!s->dup_images)
		return 0;
	snprintf(name, sizeof name, "%.60s", p->name ? p->name : eval_pic_id(p, id));
	err_set(e,
	    "%zu pictures have the same detections twice, first %s (a distributed run that pads?)",
	    s->dup_images, name);
	if (s->dup == 2)
		return -1;
	if (r->tell)
		warn("%s%s", e->msg,
		    s->dup ? "; the first of each is used" : "; -O dup=first leaves one");
	return 0;
}

int
eval_run(struct eval_run *r, char *const *path, int n, struct err *e)
{
	struct eval_set *s = &r->set;

	r->ev = eval_open(r->opt, r->truth->nclass);
	eval_set_open(s, r->truth, r->ev);
	s->min_score = r->min_score;
	s->skip_unknown = r->unknown > 0 ? -1 : 0;
	s->dup = r->dup;
	s->names = r->names;
	s->nnames = r->nnames;
	if (r->errors) {
		s->each = eval_errors_add;
		s->arg = r->errors;
	}
	if (eval_set_read(s, path, n, renew, r, e) || tell_pictures(r, e) || tell_classes(r, e) ||
	    tell_twice(r, e))
		return -1;
	tell_map(r);
	tell_form(r);
	if (r->tell)
		tell_absent(r);
	if (r->tell && !quiet)
		warn("%d pictures, %zu truths, %zu detections%s", r->truth->n, r->truth->nbox,
		    s->total, s->low ? " (some under -O score)" : "");
	return 0;
}

void
eval_run_close(struct eval_run *r)
{
	if (!r->ev)
		return;
	eval_set_close(&r->set);
	eval_close(r->ev);
	r->ev = NULL;
}
