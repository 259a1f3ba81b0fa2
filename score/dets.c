/* dets.c -- detections from JSON and text, and which kind of file it is.
 *
 * JSON: an array of COCO results; an object with such an array under "annotations"; objects one
 * after the other (yolo-detect -f json); darknet's array of frames with "objects".  A record's
 * keys may stand in any order, and others are passed over.  Text kinds follow behind. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score/int.h"

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
relative_field(struct scan *s, void *arg, const char *k, size_t n)
{
	struct eval_in *in = (struct eval_in *)arg;

	if (scan_is(k, n, "center_x"))
		return scan_number(s, &in->x);
	if (scan_is(k, n, "center_y"))
		return scan_number(s, &in->y);
	if (scan_is(k, n, "width"))
		return scan_number(s, &in->w);
	if (scan_is(k, n, "height"))
		return scan_number(s, &in->h);
	return scan_skip(s);
}

struct object { struct eval_in in; int has; char *keep; };

static int
object_field(struct scan *s, void *arg, const char *k, size_t n)
{
	struct object *o = (struct object *)arg;

	if (scan_is(k, n, "class_id")) {
		o->has |= HAS_CLASS;
		o->in.kind = EVAL_BY_INDEX;
		return scan_whole(s, &o->in.cls);
	}
	if (scan_is(k, n, "name"))
		return kept_string(s, &o->keep, &o->in.name, &o->in.name_len);
	if (scan_is(k, n, "confidence")) {
		o->has |= HAS_SCORE;
		return scan_number(s, &o->in.score);
	}
	if (scan_is(k, n, "relative_coordinates")) {
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

	if (scan_is(k, n, "image_id") || scan_is(k, n, "image") || scan_is(k, n, "filename"))
		return image_value(s, r);
	if (scan_is(k, n, "category_id"))
		return class_value(s, r, EVAL_BY_ID);
	if (scan_is(k, n, "class"))
		return class_value(s, r, EVAL_BY_INDEX);
	if (scan_is(k, n, "name") && scan_peek(s) == '"') {
		if (!(r->has & HAS_CLASS))
			r->in.kind = EVAL_BY_NAME;
		return class_value(s, r, r->in.kind);
	}
	if (scan_is(k, n, "bbox")) {
		r->has |= HAS_BOX;
		return scan_box(s, &r->in.x);
	}
	if (scan_is(k, n, "score")) {
		r->has |= HAS_SCORE;
		return scan_number(s, &r->in.score);
	}
	return scan_is(k, n, "objects") && scan_peek(s) == '[' ? objects(s, r) : scan_skip(s);
}

/* Hand a detection on; what is wrong with it is said of the place at. */
static int
give(struct scan *s, eval_sink *sink, void *arg, const struct eval_in *in, const char *at)
{
	struct err why = { "" };

	if (!sink(arg, in, &why))
		return 0;
	s->fatal = 1;
	return scan_fail(s, at, "%s", why.msg);
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
		return give(s, d->sink, d->arg, &r->in, s->p - 1);
	}
	record_reset(r);
	if (scan_peek(s) != '{')
		return scan_fail(s, s->p,
		    "want a detection: {\"image_id\":, \"category_id\":, \"bbox\":, \"score\":}");
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
			if (give(s, d->sink, d->arg, r->obj + i, s->p - 1))
				return -1;
		}
		return 0;
	}
	for (int i = 0; i < 4; i++)
		if (!(r->has >> i & 1))
			return scan_fail(s, start, "a detection lacks \"%s\"", what[i]);
	if (r->in.kind == EVAL_BY_ID && !r->in.image && !r->in.name)
		eval_shape_learn(&d->shape, start, s->p);
	return give(s, d->sink, d->arg, &r->in, s->p - 1);
}

/* A key of an object that is not a record tells what the object is. */
static int
is_record_key(const char *k, size_t n)
{
	static const char *const key[] = { "image_id", "image", "category_id", "class", "name",
		"bbox", "score", "filename", "frame_id", "objects" };

	for (size_t i = 0; i < sizeof key / sizeof *key; i++)
		if (scan_is(k, n, key[i]))
			return 1;
	return 0;
}

static int
annotations(struct scan *s, void *arg, const char *k, size_t n)
{
	struct reader *d = (struct reader *)arg;

	if (!scan_is(k, n, "annotations"))
		return 1;
	d->array = 1;
	return scan_array(s, detection, d);
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
			return scan_values(s, detection, d);
		if (scan_members(s, annotations, d))
			return -1;
		if (!d->array)
			return scan_fail(s, s->p - 1,
			    "an object without \"annotations\" or a detection");
	}
	while (!scan_peek(s) && scan_more(s))
		;
	return s->p == s->end ? 0 : scan_fail(s, s->p, "something follows the end of the JSON");
}

/* Detections from text: TSV, VOC's comp4 files, folders of txt files.
 *
 * A line is `image class name score x y w h` between tabs (a first line with '#' names the
 * columns, in any order); or `id score x1 y1 x2 y2`, the class in the file's name; or, in a file
 * named like its picture, `class score x y w h` in pixels or `class cx cy w h score` in fractions.
 * In a folder, a file named like a picture of the truth is of the last kind.  Which of the two is
 * decided for a whole folder: a box that sticks out of its picture is no fraction of it. */

/* The next line; s->p moves behind it; 0: no more.  Empty lines are passed over. */
static int
next_line(struct scan *s, const char **from, const char **to)
{
	char *nl;

	for (;;) {
		nl = (char *)memchr(s->p, '\n', (size_t)(s->end - s->p));
		if (!nl && scan_more(s))
			continue;
		*from = s->p;
		*to = nl ? nl : s->end;
		s->p = nl ? nl + 1 : s->end;
		if (*to > *from && (*to)[-1] == '\r')
			--*to;
		if (*to > *from)
			return 1;
		if (!nl)
			return 0;
	}
}

int
eval_words(const char *p, const char *end, const char **word, size_t *len, int max)
{
	int n = 0;

	for (;;) {
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		if (p == end || n > max)
			return n;
		if (n < max)
			word[n] = p;
		while (p < end && *p != ' ' && *p != '\t')
			p++;
		if (n < max)
			len[n] = (size_t)(p - word[n]);
		n++;
	}
}

int
eval_lines(const char *path, eval_text_line *line, void *arg, struct err *e)
{
	const char *from, *to;
	struct scan s;
	int r = 0;

	if (scan_open(&s, path, e))
		return -1;
	while (!r && next_line(&s, &from, &to))
		r = line(&s, arg, from, to);
	if (r || s.error)
		r = scan_error(&s, e);
	scan_close(&s);
	return r;
}

/* It ends at a byte that is no part of a number. */
int
eval_number(struct scan *s, const char *p, size_t n, const char *what, double *v)
{
	const char *q = p;

	if (scan_decimal(&q, v) || q != p + n || !isfinite(*v))
		return scan_fail(s, p, "%s%s'%.*s' is not a finite number", what,
		    *what ? " " : "", n > 40 ? 40 : (int)n, p);
	return 0;
}

int
eval_class_number(const char *p, size_t n, double most, int64_t *cls)
{
	const char *q = p;
	double c;

	if (scan_decimal(&q, &c) || q != p + n || c < 0 || c != floor(c) || c >= most)
		return 0;
	*cls = (int64_t)c;
	return 1;
}

enum { C_IMAGE, C_CLASS, C_NAME, C_SCORE, C_X, C_Y, C_W, C_H, NCOL, MAXFIELD = 32 };
static const char *const col_name[NCOL] = { "image", "class", "name", "score", "x", "y", "w", "h" };

static int
header(struct scan *s, const char *p, const char *end, int *col)
{
	const char *from = p;

	for (int i = 0; i < NCOL; i++)
		col[i] = -1;
	for (int f = 0; p < end && f < MAXFIELD; f++) {
		const char *tab = (const char *)memchr(p, '\t', (size_t)(end - p));
		size_t n = (size_t)((tab ? tab : end) - p);

		for (int i = 0; i < NCOL; i++)
			if (scan_is(p, n, col_name[i]))
				col[i] = f;
		p = tab ? tab + 1 : end;
	}
	for (int i = 0; i < NCOL; i++)
		if (col[i] < 0 && i != (col[C_CLASS] < 0 ? C_CLASS : C_NAME))
			return scan_fail(s, from,
			    "the header lacks '%s': want #image class name score x y w h, "
			    "with tabs",
			    col_name[i]);
	return 0;
}

/* \t \n \\ of a name back to what they stand for, where there are any. */
static void
unescape(const char **p, size_t *n, char **buf, size_t *cap)
{
	char *o;

	if (!memchr(*p, '\\', *n))
		return;
	*buf = o = (char *)xgrow(*buf, cap, *n + 1, 1);
	for (size_t i = 0; i < *n; i++)
		if ((*p)[i] == '\\' && i + 1 < *n && strchr("tn\\", (*p)[i + 1])) {
			char c = (*p)[++i];

			*o++ = c == 't' ? '\t' : c == 'n' ? '\n' : '\\';
		} else
			*o++ = (*p)[i];
	*n = (size_t)(o - *buf);
	*p = *buf;
}

/* role: what each field is, NCOL: nothing of ours.  v: class, score, x y w h by column. */
struct tsv {
	int role[MAXFIELD], has_name, has_class;
	char *buf[2];
	size_t cap[2];
	const char *text[NCOL];
	size_t len[NCOL];
	double v[NCOL];
};

static void
set_roles(struct tsv *t, const int *col)
{
	for (int f = 0; f < MAXFIELD; f++)
		t->role[f] = NCOL;
	for (int i = 0; i < NCOL; i++)
		if (col[i] >= 0)
			t->role[col[i]] = i;
	t->has_name = col[C_NAME] >= 0;
	t->has_class = col[C_CLASS] >= 0;
}

/* One pass over the fields; a number is read where it stands. */
static int
tsv_fields(struct scan *s, const char *p, const char *end, struct tsv *t)
{
	const char *from = p;
	int met = (t->has_name ? 0 : 1 << C_NAME) | (t->has_class ? 0 : 1 << C_CLASS), n = 0;

	for (; n < MAXFIELD && p <= end; n++) {
		int r = t->role[n];
		const char *q = p;

		if (r != NCOL && r != C_IMAGE && r != C_NAME && !scan_decimal(&q, &t->v[r]) &&
		    (q == end || *q == '\t') && isfinite(t->v[r])) {
			met |= 1 << r;
			p = q + 1;
			continue;
		}
		q = (const char *)memchr(p, '\t', (size_t)(end - p));
		q = q ? q : end;
		if (r != NCOL && r != C_IMAGE && r != C_NAME)
			return eval_number(s, p, (size_t)(q - p), col_name[r], &t->v[r]);
		if (r != NCOL) {
			t->text[r] = p;
			t->len[r] = (size_t)(q - p);
			met |= 1 << r;
		}
		p = q + 1;
	}
	for (int i = 0; i < NCOL; i++)
		if (!(met >> i & 1))
			return scan_fail(s, from,
			    "%d fields, no %s: want image class name score x y w h, with tabs", n,
			    col_name[i]);
	return 0;
}

static int
tsv_line(struct scan *s, const char *p, const char *end, struct tsv *t, struct eval_in *in)
{
	double c;

	if (tsv_fields(s, p, end, t))
		return -1;
	in->image = t->text[C_IMAGE];
	in->image_len = t->len[C_IMAGE];
	unescape(&in->image, &in->image_len, &t->buf[0], &t->cap[0]);
	in->name = NULL;
	in->kind = EVAL_BY_NAME;
	if (t->has_name && t->len[C_NAME] && !(t->len[C_NAME] == 1 && *t->text[C_NAME] == '-')) {
		in->name = t->text[C_NAME];
		in->name_len = t->len[C_NAME];
		unescape(&in->name, &in->name_len, &t->buf[1], &t->cap[1]);
	}
	if (t->has_class) {
		c = t->v[C_CLASS];
		if (c < 0 || c != floor(c) || c > 1e6)
			return scan_fail(s, p, "class %g: want a whole number from 0", c);
		in->cls = (int64_t)c;
		in->kind = EVAL_BY_INDEX;
	} else if (!in->name)
		return scan_fail(s, p, "no class");
	in->score = t->v[C_SCORE];
	in->x = t->v[C_X];
	in->y = t->v[C_Y];
	in->w = t->v[C_W];
	in->h = t->v[C_H];
	return 0;
}

static int
tsv(struct scan *s, const char *from, const char *to, eval_sink *sink, void *arg)
{
	int r = 0, more = 1, col[NCOL] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	struct eval_in in;
	struct tsv t;

	memset(&in, 0, sizeof in);
	memset(&t, 0, sizeof t);
	if (*from == '#') {
		r = header(s, from + 1, to, col);
		more = next_line(s, &from, &to);
	}
	set_roles(&t, col);
	while (!r && more) {
		if (*from == '#' && !header(s, from + 1, to, col))
			set_roles(&t, col);	/* of the next of files one after the other */
		else if (tsv_line(s, from, to, &t, &in) || give(s, sink, arg, &in, from))
			r = -1;
		if (!r)
			more = next_line(s, &from, &to);
	}
	free(t.buf[0]);
	free(t.buf[1]);
	return r;
}

/* id score x1 y1 x2 y2 */
static int
comp4_line(struct scan *s, const char *p, const char *end, struct eval_in *in)
{
	const char *w[6];
	size_t len[6];
	double v[5];
	static const char *const what[] = { "score", "x1", "y1", "x2", "y2" };
	int n = eval_words(p, end, w, len, 6);

	if (n != 6)
		return scan_fail(s, p,
		    "%d words: want id score x1 y1 x2 y2, or tabs between image class "
		    "name score x y w h",
		    n);
	for (int i = 0; i < 5; i++)
		if (eval_number(s, w[i + 1], len[i + 1], what[i], v + i))
			return -1;
	in->image = w[0];
	in->image_len = len[0];
	in->score = v[0];
	in->x = v[1];
	in->y = v[2];
	in->w = v[3] - v[1];
	in->h = v[4] - v[2];
	return 0;
}

/* The class in a name like comp4_det_test_aeroplane.txt: what follows the third '_'. */
static int
comp4_class(const char *path, struct eval_in *in, char **name)
{
	const char *b = path_base(path), *dot = strrchr(b, '.'), *p = b;

	for (int i = 0; i < 3 && p; i++)
		p = (p = strchr(p, '_')) ? p + 1 : NULL;
	if (!p && (p = strrchr(b, '_')))
		p++;
	if (!p || !*p || p == dot)
		return -1;
	*name = xasprintf("%.*s", dot > p ? (int)(dot - p) : (int)strlen(p), p);
	in->name = *name;
	in->name_len = strlen(*name);
	in->kind = EVAL_BY_NAME;
	return 0;
}

static int
comp4(struct scan *s, const char *path, const char *from, const char *to, eval_sink *sink,
    void *arg)
{
	struct eval_in in;
	char *name = NULL;
	int r = 0, more = 1;

	memset(&in, 0, sizeof in);
	if (comp4_line(s, from, to, &in))
		return -1;
	if (comp4_class(path, &in, &name))
		return scan_fail(s, from, "VOC detections, but no class in the file's name: want "
		    "comp4_det_SET_CLASS.txt");
	while (!r && more) {
		r = comp4_line(s, from, to, &in) || give(s, sink, arg, &in, from) ? -1 : 0;
		if (!r)
			more = next_line(s, &from, &to);
	}
	free(name);
	return r;
}

static int
eval_read_text(struct scan *s, const char *path, eval_sink *sink, void *arg, struct err *e)
{
	const char *from, *to;
	int r;

	if (!next_line(s, &from, &to))
		return s->error ? scan_error(s, e) : 0;
	r = *from == '#' || memchr(from, '\t', (size_t)(to - from)) ? tsv(s, from, to, sink, arg) :
	    comp4(s, path, from, to, sink, arg);
	if (!r && s->error)
		r = -1;
	return r ? scan_error(s, e) : 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void
eval_folder_free(char **file, int n)
{
	for (int i = 0; i < n; i++)
		free(file[i]);
	free(file);
}

int
eval_folder(const char *path, char ***file, struct err *e)
{
	DIR *d = opendir(path);
	struct dirent *f;
	size_t cap = 0;
	int n = 0;

	*file = NULL;
	if (!d)
		return err_set(e, "%s: %s", path, strerror(errno));
	for (errno = 0; (f = readdir(d)); errno = 0) {
		size_t len = strlen(f->d_name);

		if (*f->d_name == '.' || len < 5 || strcmp(f->d_name + len - 4, ".txt"))
			continue;
		*file = (char **)xgrow(*file, &cap, (size_t)n + 1, sizeof **file);
		(*file)[n++] = path_join(path, f->d_name);
	}
	if (errno) {
		err_set(e, "%s: %s", path, strerror(errno));
		eval_folder_free(*file, n);
		closedir(d);
		return -1;
	}
	closedir(d);
	if (n)
		qsort(*file, (size_t)n, sizeof **file, by_name);
	return n;
}

struct folder {
	int look, relative;		/* look: only to find out whether they are fractions */
	long like, unlike;		/* lines all in 0..1; whose last number is no score */
	struct err odd;			/* what to say of the first of the latter */
	struct eval_in in;
	eval_sink *sink;
	void *arg;
};

/* In fractions the score comes last.  In pixels that is a height, which may be under 1, but not in
 * all lines. */
static int
judge(struct scan *s, struct folder *f, const char *p, const double *v)
{
	int all = 1;

	for (int i = 0; i < 5; i++)
		all &= v[i] >= 0 && v[i] <= 1;
	f->like += all;
	if (v[4] >= 0 && v[4] <= 1)
		return 0;
	if (!f->unlike++) {
		scan_fail(s, p, "%g at the end is no score in 0..1, as most lines of the folder "
		    "have it: class cx cy w h score, in fractions", v[4]);
		scan_error(s, &f->odd);
	}
	return 0;
}

/* One line of a file named like its picture. */
static int
picture_line(struct scan *s, void *arg, const char *p, const char *end)
{
	struct folder *f = (struct folder *)arg;
	struct eval_in *in = &f->in;
	const char *w[6];
	size_t len[6];
	double v[5];
	int n = eval_words(p, end, w, len, 6), relative = f->relative;

	if (n != 6)
		return scan_fail(s, p,
		    "%d words: want class score x y w h (pixels) or class cx cy w h score "
		    "(fractions)",
		    n);
	for (int i = 0; i < 5; i++)
		if (eval_number(s, w[i + 1], len[i + 1], "value", v + i))
			return -1;
	if (f->look)
		return judge(s, f, p, v);
	in->relative = relative;
	in->score = v[relative ? 4 : 0];
	in->x = v[relative ? 0 : 1];
	in->y = v[relative ? 1 : 2];
	in->w = v[relative ? 2 : 3];
	in->h = v[relative ? 3 : 4];
	if (eval_class_number(w[0], len[0], 1e6, &in->cls)) {
		in->kind = EVAL_BY_INDEX;
		in->name = NULL;
	} else {
		in->kind = EVAL_BY_NAME;
		in->name = w[0];
		in->name_len = len[0];
	}
	return give(s, f->sink, f->arg, in, p);
}

static int
picture_file(const char *path, struct folder *f, struct err *e)
{
	const char *base = path_base(path);

	memset(&f->in, 0, sizeof f->in);
	f->in.image = base;
	f->in.image_len = strlen(base) - 4;
	return eval_lines(path, picture_line, f, e);
}

static int
is_comp4(const char *path, const struct eval_names *names)
{
	const char *base = path_base(path);

	return names && !strncmp(base, "comp", 4) &&
	    eval_names_find(names, base, strlen(base) - 4) < 0;
}

static int
comp4_file(const char *path, const struct folder *f, struct err *e)
{
	struct scan s;
	int r;

	if (scan_open(&s, path, e))
		return -1;
	r = eval_read_text(&s, path, f->sink, f->arg, e);
	scan_close(&s);
	return r;
}

static int
eval_read_folder(const char *path, const struct eval_names *names, eval_sink *sink, void *arg,
    struct err *e)
{
	struct folder f = { .look = 1, .sink = sink, .arg = arg };
	char **file;
	int n = eval_folder(path, &file, e), r = n < 0 ? -1 : 0;

	if (!n)
		r = err_set(e, "%s: a folder without .txt files", path);
	for (int i = 0; i < n && !r; i++)
		r = is_comp4(file[i], names) ? 0 : picture_file(file[i], &f, e);
	f.look = 0;
	f.relative = !f.unlike;
	if (!r && f.unlike && f.like > f.unlike) {
		*e = f.odd;
		r = -1;
	}
	for (int i = 0; i < n && !r; i++)
		r = is_comp4(file[i], names) ? comp4_file(file[i], &f, e) :
		    picture_file(file[i], &f, e);
	eval_folder_free(file, n);
	return r;
}

/* ---- any kind ---- */

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
