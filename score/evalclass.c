/* evalclass.c -- which class of the truth a detection's class is.
 *
 * Classes of the detections (sides) are told apart by all that the file says: number and name.
 * Names count where both have them, ids where the truth has its own, else numbers.  When a name is
 * unknown, positions decide if both sides count the same classes; that is known only at the end. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

void
eval_classes_open(struct eval_set *s)
{
	const struct eval_truth *t = s->truth;

	for (int i = 0; i < t->nclass; i++) {	/* of equal names the first */
		const char *name = t->class_name[i];

		if (name && eval_hash_get(&s->class_at, name, strlen(name)) < 0)
			eval_hash_put(&s->class_at, name, strlen(name), i);
	}
}

/* Forget the classes of the detections. */
void
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
		return eval_hash_get(&s->class_at, d->name, strlen(d->name));
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
int
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
int
eval_settle_classes(struct eval_set *s, struct err *e)
{
	const struct eval_truth *t = s->truth;
	const char *odd = NULL;
	int64_t most = -1, count;
	int named = 0, numbered = 1;

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
