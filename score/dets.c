/* dets.c -- detections from JSON, and which kind of file it is.
 *
 * JSON: an array of COCO results; an object with such an array under "annotations"; objects one
 * after the other (yolo-detect -f json); darknet's array of frames with "objects".  A record's
 * keys may stand in any order, and others are passed over.  Text kinds are in evaltext.c. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

enum { HAS_IMAGE = 1, HAS_CLASS = 2, HAS_BOX = 4, HAS_SCORE = 8, HAS_OBJECTS = 16 };

struct found {
	struct eval_in in;
	int has;
	char *keep[2];			/* strings with escapes: image, name */
	struct eval_in *obj;		/* darknet: objects of a frame */
	size_t nobj, cap;
	char **obj_name;		/* their names, owned where they had escapes */
};
struct reader {
	struct found r;
	eval_sink *sink;
	void *arg;
	struct err *e;
	int array;			/* "annotations" was met */
	struct eval_shape shape;
};

static void
record_reset(struct found *r)
{
	free(r->keep[0]);
	free(r->keep[1]);
	r->keep[0] = r->keep[1] = NULL;
	for (size_t i = 0; i < r->nobj; i++)
		free(r->obj_name[i]);
	r->nobj = 0;
	r->has = 0;
	memset(&r->in, 0, sizeof r->in);
}

/* A string that outlives the next one. */
static int
kept_string(struct scan *s, char **keep, const char **out, size_t *len)
{
	if (scan_string(s, out, len))
		return -1;
	if (*out == s->text) {
		free(*keep);
		*keep = (char *)memcpy(xcalloc(*len + 1, 1), *out, *len);
		*out = *keep;
	}
	return 0;
}

static int
box_array(struct scan *s, struct eval_in *in)
{
	double *v[4] = { &in->x, &in->y, &in->w, &in->h };

	if (scan_want(s, '['))
		return -1;
	for (int i = 0; i < 4; i++)
		if (scan_number(s, v[i]) || scan_want(s, i < 3 ? ',' : ']'))
			return -1;
	return 0;
}

static int
relative_field(struct scan *s, void *arg, const char *k, size_t n)
{
	struct eval_in *in = (struct eval_in *)arg;

	if (n == 8 && !memcmp(k, "center_x", 8))
		return scan_number(s, &in->x);
	if (n == 8 && !memcmp(k, "center_y", 8))
		return scan_number(s, &in->y);
	if (n == 5 && !memcmp(k, "width", 5))
		return scan_number(s, &in->w);
	if (n == 6 && !memcmp(k, "height", 6))
		return scan_number(s, &in->h);
	return scan_skip(s);
}

struct object { struct eval_in in; int has; char *keep; };

static int
object_field(struct scan *s, void *arg, const char *k, size_t n)
{
	struct object *o = (struct object *)arg;

	if (n == 8 && !memcmp(k, "class_id", 8)) {
		o->has |= HAS_CLASS;
		o->in.kind = EVAL_BY_INDEX;
		return scan_whole(s, &o->in.cls);
	}
	if (n == 4 && !memcmp(k, "name", 4))
		return kept_string(s, &o->keep, &o->in.name, &o->in.name_len);
	if (n == 10 && !memcmp(k, "confidence", 10)) {
		o->has |= HAS_SCORE;
		return scan_number(s, &o->in.score);
	}
	if (n == 20 && !memcmp(k, "relative_coordinates", 20)) {
		o->has |= HAS_BOX;
		o->in.relative = 1;
		return scan_object(s, relative_field, &o->in);
	}
	return scan_skip(s);
}

static int
objects(struct scan *s, struct found *r)
{
	int more = 1;

	r->has |= HAS_OBJECTS;
	if (scan_want(s, '['))
		return -1;
	if (scan_peek(s) == ']') {
		s->p++;
		return 0;
	}
	while (more) {
		struct object o = { .has = 0 };
		size_t cap = r->cap;

		if (scan_object(s, object_field, &o) ||
		    (o.has != (HAS_CLASS | HAS_BOX | HAS_SCORE) &&
			scan_fail(s, s->p - 1, "an object lacks %s",
			    !(o.has & HAS_CLASS) ? "class_id"
			    : o.has & HAS_BOX	 ? "confidence"
						 : "relative_coordinates"))) {
			free(o.keep);
			return -1;
		}
		r->obj = (struct eval_in *)xgrow(r->obj, &r->cap, r->nobj + 1, sizeof *r->obj);
		r->obj_name = (char **)xgrow(r->obj_name, &cap, r->nobj + 1, sizeof *r->obj_name);
		r->obj_name[r->nobj] = o.keep;
		r->obj[r->nobj++] = o.in;
		if ((more = scan_next(s, ']')) < 0)
			return -1;
	}
	return 0;
}

static int
image_value(struct scan *s, struct found *r)
{
	r->has |= HAS_IMAGE;
	if (scan_peek(s) == '"')
		return kept_string(s, &r->keep[0], &r->in.image, &r->in.image_len);
	r->in.image = NULL;
	return scan_whole(s, &r->in.image_id);
}

static int
class_value(struct scan *s, struct found *r, enum eval_cls kind)
{
	r->has |= HAS_CLASS;
	if (scan_peek(s) == '"')
		return kept_string(s, &r->keep[1], &r->in.name, &r->in.name_len);
	r->in.kind = kind;
	return scan_whole(s, &r->in.cls);
}

static int
field(struct scan *s, void *arg, const char *k, size_t n)
{
	struct found *r = (struct found *)arg;

	switch (n) {
	case 4:
		if (!memcmp(k, "bbox", 4)) {
			r->has |= HAS_BOX;
			return box_array(s, &r->in);
		}
		if (!memcmp(k, "name", 4) && scan_peek(s) == '"') {
			if (!(r->has & HAS_CLASS))
				r->in.kind = EVAL_BY_NAME;
			r->has |= HAS_CLASS;
			return kept_string(s, &r->keep[1], &r->in.name, &r->in.name_len);
		}
		break;
	case 5:
		if (!memcmp(k, "score", 5)) {
			r->has |= HAS_SCORE;
			return scan_number(s, &r->in.score);
		}
		if (!memcmp(k, "image", 5))
			return image_value(s, r);
		if (!memcmp(k, "class", 5))
			return class_value(s, r, EVAL_BY_INDEX);
		break;
	case 7:
		if (!memcmp(k, "objects", 7) && scan_peek(s) == '[')
			return objects(s, r);
		break;
	case 8:
		if (!memcmp(k, "image_id", 8) || !memcmp(k, "filename", 8))
			return image_value(s, r);
		break;
	case 11:
		if (!memcmp(k, "category_id", 11))
			return class_value(s, r, EVAL_BY_ID);
		break;
	}
	return scan_skip(s);
}

static int
give(struct scan *s, struct reader *d, const struct eval_in *in)
{
	struct err why = { "" };

	if (!d->sink(d->arg, in, &why))
		return 0;
	s->fatal = 1;
	return scan_fail(s, s->p - 1, "%s", why.msg);
}

static int
detection(struct scan *s, void *arg)
{
	struct reader *d = (struct reader *)arg;
	struct found *r = &d->r;
	static const char *const what[] = { "image_id", "category_id", "bbox", "score" };
	const char *start, *end;

	if (scan_peek(s) == '{' && d->shape.known && s->end - s->p > SHAPE_ROOM &&
	    (end = eval_shape_read(&d->shape, s->p, &r->in))) {
		s->p += end - s->p;
		return give(s, d, &r->in);
	}
	record_reset(r);
	if (scan_peek(s) != '{')
		return scan_fail(s, s->p,
		    "want a detection: {\"image_id\":, \"category_id\":, \"bbox\":, "
		    "\"score\":}");
	start = s->p;
	if (scan_object(s, field, r))
		return -1;
	if (r->has & HAS_OBJECTS) {
		if (!(r->has & HAS_IMAGE))
			return scan_fail(s, start, "a frame lacks \"filename\"");
		for (size_t i = 0; i < r->nobj; i++) {
			r->obj[i].image = r->in.image;
			r->obj[i].image_len = r->in.image_len;
			r->obj[i].image_id = r->in.image_id;
			if (give(s, d, r->obj + i))
				return -1;
		}
		return 0;
	}
	for (int i = 0; i < 4; i++)
		if (!(r->has >> i & 1))
			return scan_fail(s, start, "a detection lacks \"%s\"", what[i]);
	if (r->in.kind == EVAL_BY_ID && !r->in.image && !r->in.name)
		eval_shape_learn(&d->shape, start, s->p);
	return give(s, d, &r->in);
}

/* A key of an object that is not a record tells what the object is. */
static int
is_record_key(const char *k, size_t n)
{
	static const char *const key[] = { "image_id", "image", "category_id", "class", "name",
		"bbox", "score", "filename", "frame_id", "objects" };

	for (size_t i = 0; i < sizeof key / sizeof *key; i++)
		if (strlen(key[i]) == n && !memcmp(key[i], k, n))
			return 1;
	return 0;
}

static int
wrapped(struct scan *s, struct reader *d)
{
	const char *k;
	size_t n;
	int more = 1;

	s->p++;
	for (; more; more = scan_next(s, '}')) {
		size_t at;

		scan_more(s);
		at = (size_t)(s->p - s->buf);
		if (more < 0 || scan_string(s, &k, &n) || scan_want(s, ':'))
			return -1;
		if (n == 11 && !memcmp(k, "annotations", 11)) {
			d->array = 1;
			if (scan_array(s, detection, d))
				return -1;
			continue;
		}
		while (scan_skip(s)) {
			s->p = s->buf + at;
			if (!scan_again(s))
				return -1;
			at = 0;
			if (scan_string(s, &k, &n) || scan_want(s, ':'))
				return -1;
		}
	}
	return d->array
		   ? 0
		   : scan_fail(s, s->p - 1, "an object without \"annotations\" or a detection");
}

static int
lines(struct scan *s, struct reader *d)
{
	while (scan_peek(s) || (scan_more(s) && scan_peek(s))) {
		size_t at;

		if (s->end - s->p < 4096)
			scan_more(s);
		at = (size_t)(s->p - s->buf);
		while (detection(s, d)) {
			s->p = s->buf + at;
			if (s->fatal || !scan_again(s))
				return -1;
			at = 0;
		}
	}
	return 0;
}

static int
json(struct scan *s, struct reader *d)
{
	size_t at = (size_t)(s->p - s->buf), n;
	const char *k;

	if (*s->p == '[') {
		if (scan_array(s, detection, d))
			return -1;
	} else {
		s->p++;
		if (scan_peek(s) != '}' && scan_string(s, &k, &n))
			return -1;
		n = s->p[-1] == '"' ? n : 0;
		s->p = s->buf + at;
		if (n && is_record_key(k, n))
			return lines(s, d);
		if (wrapped(s, d))
			return -1;
	}
	while (!scan_peek(s) && scan_more(s))
		;
	return s->p == s->end ? 0 : scan_fail(s, s->p, "something follows the end of the JSON");
}

int
eval_read_scan(struct scan *s, eval_sink *sink, void *arg, struct err *e)
{
	struct reader d = { .sink = sink, .arg = arg, .e = e };
	int r;

	if (scan_no_text(s, 1))
		return scan_error(s, e);
	while (!scan_peek(s) && scan_more(s))
		;
	if (s->p == s->end)
		return s->error ? scan_error(s, e) : 0;
	if (*s->p != '[' && *s->p != '{')
		return eval_read_text(s, s->path, sink, arg, e);
	r = json(s, &d);
	if (!r && s->error)
		r = -1;
	if (r)
		scan_error(s, e);
	record_reset(&d.r);
	free(d.r.obj);
	free(d.r.obj_name);
	return r;
}

int
eval_read(const char *path, const struct eval_names *names, eval_sink *sink, void *arg,
    struct err *e)
{
	struct scan s;
	int r;

	if (path_isdir(path))
		return eval_read_folder(path, names, sink, arg, e);
	if (scan_open(&s, path, e))
		return -1;
	r = eval_read_scan(&s, sink, arg, e);
	scan_close(&s);
	return r;
}
