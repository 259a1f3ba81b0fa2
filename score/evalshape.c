/* evalshape.c -- COCO results at the pace of the file: a record is often the last one with other
 * numbers.
 *
 * A writer of JSON puts the same keys, in the same order, with the same blanks, into each record.
 * So what stood between the seven numbers of one record is remembered, and the next is read by
 * comparing that and taking the numbers.  Whatever does not fit in any way, also numbers that are
 * not as they should be, is left to the reader that understands JSON and finds the words for what
 * is wrong. */
#include <math.h>
#include <string.h>

#include "score/int.h"

enum { IMAGE, CATEGORY, BOX, SCORE = BOX + 4, ROLES };

/* Of the number behind the piece [from, end).  Should a string in there read like a key, some other
 * number has no role, and nothing is learnt. */
static int
role_of(const char *from, const char *end, int boxes)
{
	static const struct { const char *key; int role; } keys[] = { { "\"image_id\"", IMAGE },
		{ "\"category_id\"", CATEGORY }, { "\"bbox\"", BOX }, { "\"score\"", SCORE } };

	if (boxes && boxes < 4)		/* within the box */
		return BOX + boxes;
	for (int i = 0; i < 4; i++)
		if (memmem(from, (size_t)(end - from), keys[i].key, strlen(keys[i].key)))
			return keys[i].role;
	return -1;
}

/* Learn from a record [p, end) that was read well. */
void
eval_shape_learn(struct eval_shape *s, const char *p, const char *end)
{
	int n = 0, boxes = 0, met = 0, quoted = 0;

	s->known = 0;
	for (const char *from = p;; from = p) {
		double v;

		for (; p < end && (quoted || ((unsigned)(*p - '0') >= 10 && *p != '-')); p++)
			quoted ^= *p == '"';
		if (p - from > SHAPE_PIECE || memchr(from, '\\', (size_t)(p - from)))
			return;
		memset(s->piece[n], 0, sizeof s->piece[n]);
		memcpy(s->piece[n], from, (size_t)(p - from));
		s->len[n] = (int)(p - from);
		if (n == ROLES) {
			s->known = p == end && met == (1 << ROLES) - 1;
			return;
		}
		s->role[n] = p < end ? role_of(from, p, boxes) : -1;
		if (s->role[n] < 0 || scan_decimal(&p, &v))
			return;
		boxes += s->role[n] >= BOX && s->role[n] < SCORE;
		met |= 1 << s->role[n++];
	}
}

static int
fits(const char *p, const char *piece, int len)
{
	for (int i = 0; i < len; i += 8) {
		uint64_t a, b;

		memcpy(&a, p + i, 8);
		memcpy(&b, piece + i, 8);
		a ^= b;
		if (len - i < 8 ? a << (64 - 8 * (len - i)) : a)
			return 0;
	}
	return 1;
}

/* A record at p, at least SHAPE_ROOM bytes before the end of the text: the place behind it, or
 * NULL: read it in the other way. */
const char *
eval_shape_read(const struct eval_shape *s, const char *p, struct eval_in *in)
{
	double v[ROLES];

	for (int i = 0; i < ROLES; i++) {
		const char *q;

		if (!fits(p, s->piece[i], s->len[i]))
			return NULL;
		q = p += s->len[i];
		if (*p == '+' || scan_decimal(&p, &v[s->role[i]]) || p - q > SHAPE_NUMBER)
			return NULL;
	}
	if (!fits(p, s->piece[ROLES], s->len[ROLES]))
		return NULL;
	in->image_id = (int64_t)v[IMAGE];
	in->cls = (int64_t)v[CATEGORY];
	if (!(fabs(v[IMAGE]) < 9e15) || (double)in->image_id != v[IMAGE] ||
	    !(fabs(v[CATEGORY]) < 9e15) || (double)in->cls != v[CATEGORY])
		return NULL;
	in->image = in->name = NULL;
	in->kind = EVAL_BY_ID;
	in->relative = 0;
	in->x = v[BOX];
	in->y = v[BOX + 1];
	in->w = v[BOX + 2];
	in->h = v[BOX + 3];
	in->score = v[SCORE];
	return isfinite(in->x + in->y + in->w + in->h + in->score) ? p + s->len[ROLES] : NULL;
}
