/* truth.c -- truth from COCO json, shards and what labels/ reads, and truth in general.
 *
 * Everything stands as the file has it: zero-area boxes, crowds, areas, ids; what counts is for
 * the rules to say.  Pictures are sorted by id, classes by category id; truths keep the order of
 * the file within a picture.  Truths of pictures or categories that the file does not list are
 * left out, as pycocotools does, and counted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score/int.h"
#include "shard/shard.h"

struct category { int64_t id; char *name; };
struct annotation { struct box b; int64_t image, category; };
struct coco {
	struct eval_pic *pic;
	struct category *cat;
	struct annotation *ann;
	size_t npic, pic_cap, ncat, cat_cap, nann, ann_cap;
	struct keys word;			/* ids that are words: numbered from the bottom */
	long no_area, zero_id;
	/* one element while it is read */
	struct eval_pic p;
	struct category c;
	struct annotation a;
	int has, met;
};
enum { HAS_ID = 1, HAS_IMAGE = 2, HAS_CATEGORY = 4, HAS_BOX = 8, HAS_AREA = 16 };

/* "2299" is 2299; a word that is no number gets one of its own. */
static int
id_value(struct scan *s, struct coco *c, int64_t *id)
{
	const char *str;
	size_t n;

	if (scan_peek(s) != '"')
		return scan_whole(s, id);
	if (scan_string(s, &str, &n))
		return -1;
	if (num_digits(str, n, id))
		*id = EVAL_NOID + 1 + keys_add(&c->word, str, n);
	return 0;
}

/* A picture's id in quotes: a number, or a word, which detections may name it by. */
static int
word_id(struct scan *s, struct coco *c)
{
	char *at = s->p;

	if (id_value(s, c, &c->p.id))
		return -1;
	if (c->p.id >= EVAL_NOID + 1 + (int64_t)c->word.n)
		return 0;
	s->p = at;
	return scan_copy(s, &c->p.word);
}

static int
side(struct scan *s, int *out)
{
	double v;

	if (scan_number(s, &v))
		return -1;
	if (v < 0 || v > 1e9)
		return scan_fail(s, s->p, "width or height %g: want 0..1e9", v);
	*out = (int)v;
	return 0;
}

static int
image_field(struct scan *s, void *arg, const char *k, size_t n)
{
	struct coco *c = (struct coco *)arg;

	if (scan_is(k, n, "id")) {
		c->has |= HAS_ID;
		return scan_peek(s) == '"' ? word_id(s, c) : id_value(s, c, &c->p.id);
	}
	if (scan_is(k, n, "file_name") && scan_peek(s) == '"')
		return scan_copy(s, &c->p.name);
	if (scan_is(k, n, "width") && scan_peek(s) != 'n')
		return side(s, &c->p.w);
	if (scan_is(k, n, "height") && scan_peek(s) != 'n')
		return side(s, &c->p.h);
	return scan_skip(s);
}

static int
image_elem(struct scan *s, void *arg)
{
	struct coco *c = (struct coco *)arg;

	free(c->p.name);
	free(c->p.word);
	memset(&c->p, 0, sizeof c->p);
	c->has = 0;
	if (scan_object(s, image_field, c))
		return -1;
	if (!c->has)
		return scan_fail(s, s->p - 1, "an image without \"id\"");
	c->pic = (struct eval_pic *)xgrow(c->pic, &c->pic_cap, c->npic + 1, sizeof *c->pic);
	c->pic[c->npic++] = c->p;
	memset(&c->p, 0, sizeof c->p);
	return 0;
}

static int
category_field(struct scan *s, void *arg, const char *k, size_t n)
{
	struct coco *c = (struct coco *)arg;

	if (scan_is(k, n, "id")) {
		c->has |= HAS_ID;
		return id_value(s, c, &c->c.id);
	}
	if (scan_is(k, n, "name") && scan_peek(s) == '"')
		return scan_copy(s, &c->c.name);
	return scan_skip(s);
}

static int
category_elem(struct scan *s, void *arg)
{
	struct coco *c = (struct coco *)arg;

	free(c->c.name);
	memset(&c->c, 0, sizeof c->c);
	c->has = 0;
	if (scan_object(s, category_field, c))
		return -1;
	if (!c->has)
		return scan_fail(s, s->p - 1, "a category without \"id\"");
	c->cat = (struct category *)xgrow(c->cat, &c->cat_cap, c->ncat + 1, sizeof *c->cat);
	c->cat[c->ncat++] = c->c;
	memset(&c->c, 0, sizeof c->c);
	return 0;
}

static int
flag(struct scan *s, int bit, int *flags)
{
	double v = 1;
	char ch = scan_peek(s);

	if (ch == 't' || ch == 'f' || ch == 'n') {
		v = ch == 't';
		if (scan_skip(s))
			return -1;
	} else if (scan_number(s, &v))
		return -1;
	*flags |= v != 0 ? bit : 0;
	return 0;
}

static int
annotation_field(struct scan *s, void *arg, const char *k, size_t n)
{
	struct coco *c = (struct coco *)arg;
	struct box *b = &c->a.b;

	if (scan_is(k, n, "id")) {
		c->has |= HAS_ID;
		return id_value(s, c, &b->id);
	}
	if (scan_is(k, n, "image_id")) {
		c->has |= HAS_IMAGE;
		return id_value(s, c, &c->a.image);
	}
	if (scan_is(k, n, "category_id")) {
		c->has |= HAS_CATEGORY;
		return id_value(s, c, &c->a.category);
	}
	if (scan_is(k, n, "bbox")) {
		c->has |= HAS_BOX;
		return scan_box(s, &b->x);
	}
	if (scan_is(k, n, "area") && scan_peek(s) != 'n') {
		c->has |= HAS_AREA;
		return scan_number(s, &b->area);
	}
	return coco_flag(k, n) ? flag(s, coco_flag(k, n), &b->flags) : scan_skip(s);
}

static int
annotation_elem(struct scan *s, void *arg)
{
	struct coco *c = (struct coco *)arg;

	memset(&c->a, 0, sizeof c->a);
	c->a.b.id = -1;
	c->has = 0;
	if (scan_object(s, annotation_field, c))
		return -1;
	for (int i = 1; i < 4; i++)
		if (!(c->has >> i & 1))
			return scan_fail(s, s->p - 1, "an annotation lacks \"%s\"",
			    i == 1   ? "image_id"
			    : i == 2 ? "category_id"
				     : "bbox");
	if (!(c->has & HAS_AREA)) {
		c->a.b.area = c->a.b.w * c->a.b.h;
		c->no_area++;
	}
	c->zero_id += (c->has & HAS_ID) && c->a.b.id == 0;
	c->ann = (struct annotation *)xgrow(c->ann, &c->ann_cap, c->nann + 1, sizeof *c->ann);
	c->ann[c->nann++] = c->a;
	return 0;
}

static const struct { const char *name; scan_elem *elem; } parts[] = { { "images", image_elem },
	{ "categories", category_elem }, { "annotations", annotation_elem } };
enum { PARTS = sizeof parts / sizeof *parts };

static int
part(struct scan *s, void *arg, const char *k, size_t n)
{
	struct coco *c = (struct coco *)arg;

	for (int i = 0; i < PARTS; i++)
		if (scan_is(k, n, parts[i].name)) {
			c->met |= 1 << i;
			return scan_array(s, parts[i].elem, c);
		}
	return 1;
}

static int
whole(struct scan *s, struct coco *c)
{
	if (scan_members(s, part, c))
		return -1;
	for (int i = 0; i < PARTS; i++)
		if (!(c->met >> i & 1))
			return scan_fail(s, s->p - 1,
			    "no \"%s\": want images, categories and annotations", parts[i].name);
	return 0;
}

static int
by_pic(const void *pa, const void *pb)
{
	const struct eval_pic *a = (const struct eval_pic *)pa, *b = (const struct eval_pic *)pb;

	return a->id < b->id ? -1 : a->id > b->id;
}

static int
by_cat(const void *pa, const void *pb)
{
	const struct category *a = (const struct category *)pa, *b = (const struct category *)pb;

	return a->id < b->id ? -1 : a->id > b->id;
}

/* Sorted, one of each id. */
static void
sort_tables(struct coco *c, struct eval_truth *t)
{
	size_t n = 0, k = 0;

	if (c->npic)
		qsort(c->pic, c->npic, sizeof *c->pic, by_pic);
	for (size_t i = 0; i < c->npic; i++)
		if (n && c->pic[n - 1].id == c->pic[i].id) {
			free(c->pic[i].name);
			free(c->pic[i].word);
		} else
			c->pic[n++] = c->pic[i];
	if (n < c->npic)
		warn("%zu image ids occur more than once in the truth", c->npic - n);
	t->pic = c->pic;
	t->n = (int)n;
	if (c->ncat)
		qsort(c->cat, c->ncat, sizeof *c->cat, by_cat);
	t->class_name = (char **)xcalloc(c->ncat, sizeof *t->class_name);
	t->class_id = (int64_t *)xcalloc(c->ncat, sizeof *t->class_id);
	for (size_t i = 0; i < c->ncat; i++)
		if (k && t->class_id[k - 1] == c->cat[i].id)
			free(c->cat[i].name);
		else {
			t->class_id[k] = c->cat[i].id;
			t->class_name[k++] = c->cat[i].name;
		}
	t->nclass = (int)k;
	t->ids = 1;
}

int
eval_truth_class(const struct eval_truth *t, int64_t id)
{
	int lo = 0, hi = t->nclass;

	while (lo < hi) {
		int mid = (lo + hi) / 2;

		if (t->class_id[mid] < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->nclass && t->class_id[lo] == id ? lo : -1;
}

static void
place_boxes(struct coco *c, struct eval_truth *t)
{
	int *at = (int *)xmalloc((c->nann + 1) * sizeof *at);
	size_t n = 0, no_image = 0, no_class = 0;

	for (size_t i = 0; i < c->nann; i++) {
		at[i] = eval_names_id(t->names, c->ann[i].image);
		c->ann[i].b.cls = eval_truth_class(t, c->ann[i].category);
		no_image += at[i] < 0;
		no_class += at[i] >= 0 && c->ann[i].b.cls < 0;
		if (c->ann[i].b.cls < 0)
			at[i] = -1;
		if (at[i] >= 0)
			t->pic[at[i]].n++;
	}
	for (int i = 0; i < t->n; i++) {
		t->pic[i].first = n;
		n += (size_t)t->pic[i].n;
		t->pic[i].n = 0;
	}
	t->nbox = n;
	t->box = (struct box *)xmalloc((n + 1) * sizeof *t->box);
	for (size_t i = 0; i < c->nann; i++)
		if (at[i] >= 0) {
			struct eval_pic *p = t->pic + at[i];

			t->box[p->first + (size_t)p->n++] = c->ann[i].b;
		}
	free(at);
	if (no_image)
		warn("%zu truths left out: their image_id is not in \"images\"", no_image);
	if (no_class)
		warn("%zu truths left out: their category_id is not in \"categories\"", no_class);
	if (c->no_area)
		warn("%ld truths without \"area\": width x height taken", c->no_area);
	if (c->zero_id)
		warn("%ld truths have id 0, which pycocotools takes for unmatched (-O "
		     "compat=pycocotools)",
		    c->zero_id);
}

int
eval_truth_coco(struct eval_truth *t, struct scan *s, struct err *e)
{
	struct coco c;
	int r;

	memset(&c, 0, sizeof c);
	r = whole(s, &c);
	if (r || s->error)
		r = scan_error(s, e);
	sort_tables(&c, t);
	t->names = eval_names_open(t->pic, t->n);
	if (!r)
		place_boxes(&c, t);
	free(c.cat);
	free(c.ann);
	free(c.p.name);
	free(c.p.word);
	free(c.c.name);
	keys_free(&c.word);
	return r;
}

/* Truth from shards, from label files, from folders of txt files.
 *
 * A folder that holds only txt files is `class x y w h` in pixels, one file a picture; everything
 * else labels.c reads.  Shards and COCO json keep ids of pictures and categories; where all
 * pictures have one they give the order of equal scores, else the order of the files does. */

static struct eval_pic *
new_pic(struct eval_truth *t, size_t *cap, const char *name, int64_t id, int w, int h)
{
	struct eval_pic *p;

	t->pic = (struct eval_pic *)xgrow(t->pic, cap, (size_t)t->n + 1, sizeof *t->pic);
	p = t->pic + t->n++;
	memset(p, 0, sizeof *p);
	p->name = xstrdup(name);
	p->id = id;
	p->w = w;
	p->h = h;
	p->first = t->nbox;
	p->nth = t->n - 1;
	return p;
}

static int
by_id(const void *pa, const void *pb)
{
	const struct eval_pic *a = (const struct eval_pic *)pa, *b = (const struct eval_pic *)pb;

	return a->id < b->id	     ? -1
	       : a->id > b->id	     ? 1
	       : a->first < b->first ? -1
				     : a->first > b->first;
}

/* Pictures by id where every one has its own; without that ids mean nothing. */
static void
order_pics(struct eval_truth *t)
{
	int all = 1;

	for (int i = 0; i < t->n; i++)
		all &= t->pic[i].id != -1;
	if (t->n && all)
		qsort(t->pic, (size_t)t->n, sizeof *t->pic, by_id);
	for (int i = 0; all && i + 1 < t->n; i++)
		all = t->pic[i].id != t->pic[i + 1].id;
	for (int i = 0; !all && i < t->n; i++)
		t->pic[i].id = EVAL_NOID;
}

struct id_at { int64_t id; int at; };

static int
by_class_id(const void *pa, const void *pb)
{
	const struct id_at *a = (const struct id_at *)pa, *b = (const struct id_at *)pb;

	return a->id < b->id ? -1 : a->id > b->id ? 1 : a->at - b->at;
}

/* Classes in ascending order of their ids, as everywhere here. */
static void
take_classes(struct eval_truth *t, char *const *name, const int64_t *id, int n)
{
	struct id_at *order = (struct id_at *)xmalloc((size_t)(n + 1) * sizeof *order);
	int *to = (int *)xmalloc((size_t)(n + 1) * sizeof *to);

	t->nclass = n;
	t->class_name = (char **)xcalloc((size_t)n, sizeof *t->class_name);
	t->class_id = (int64_t *)xcalloc((size_t)n, sizeof *t->class_id);
	for (int i = 0; i < n; i++)
		order[i] = (struct id_at){ id[i], i };
	qsort(order, (size_t)n, sizeof *order, by_class_id);
	for (int k = 0; k < n; k++) {
		int i = order[k].at;

		to[i] = k;
		t->class_name[k] = name && name[i] ? xstrdup(name[i]) : NULL;
		t->class_id[k] = id[i];
		t->ids |= id[i] != i;
	}
	for (size_t i = 0; i < t->nbox; i++)
		t->box[i].cls = to[t->box[i].cls];
	free(to);
	free(order);
}

static void
take_boxes(struct eval_truth *t, size_t *cap, const struct box *box, int n)
{
	t->box = (struct box *)xgrow(t->box, cap, t->nbox + (size_t)n + 1, sizeof *t->box);
	if (n)
		memcpy(t->box + t->nbox, box, (size_t)n * sizeof *box);
	t->nbox += (size_t)n;
	t->pic[t->n - 1].n = n;
}

static int
from_shard(struct eval_truth *t, struct shard *s, struct err *e)
{
	size_t cap = 0, bcap = 0;
	struct record r;
	char **name;
	int64_t *id;
	int bad = 0, n;

	n = shard_classes(s, &name, &id);
	for (long i = 0; i < shard_count(s) && !bad; i++) {
		if (!(bad = shard_labels(s, i, &r, e))) {
			new_pic(t, &cap, r.name, r.id, r.w, r.h);
			take_boxes(t, &bcap, r.box, r.nbox);
		}
	}
	if (!bad)
		take_classes(t, name, id, n);
	return bad;
}

int
eval_truth_shard(struct eval_truth *t, struct shard *s, struct err *e)
{
	memset(t, 0, sizeof *t);
	if (from_shard(t, s, e)) {
		eval_truth_close(t);
		return -1;
	}
	order_pics(t);
	return 0;
}

static int
from_shard_file(struct eval_truth *t, const char *path, struct err *e)
{
	struct shard *s = shard_open(path, e);
	int bad = !s || from_shard(t, s, e);

	shard_close(s);
	return bad ? -1 : 0;
}

static void
report(void *arg, int kind, const char *line)
{
	(void)arg;
	if (kind != SAY_NOTE)
		warn("%s", line);
}

static int
from_labels(struct eval_truth *t, const char *path, const char *names, struct err *e)
{
	struct dataset d;
	size_t cap = 0, bcap = 0;
	int r;

	memset(&d, 0, sizeof d);
	r = labels_read(&d, path, names, report, NULL, e);
	for (int i = 0; i < d.n && !r; i++) {
		new_pic(t, &cap, d.item[i].name, d.item[i].id, d.item[i].w, d.item[i].h);
		take_boxes(t, &bcap, d.item[i].box, d.item[i].nbox);
	}
	if (!r && d.bad)	/* a figure over the others would be that of another set */
		r = err_set(e, "%s: %ld pictures of the truth cannot be used", path, d.bad);
	if (!r && !d.n)
		r = err_set(e, "%s: no pictures in the truth", path);
	if (!r)
		take_classes(t, d.class_name, d.class_id, d.nclass);
	if (!r && d.refused)
		warn("%s: %ld labels refused", path, d.refused);
	labels_close(&d);
	return r;
}

/* ---- a folder of txt files ---- */

struct txt {
	struct eval_truth *t;
	struct keys name;		/* class words by first sight */
	size_t cap, bcap;
	int64_t most;			/* largest class number, -1: none was a number */
};

static int
txt_line(struct scan *s, void *arg, const char *p, const char *end)
{
	struct txt *x = (struct txt *)arg;
	const char *w[5];
	size_t len[5];
	double v[4];
	int64_t cls;
	struct box b;
	int n = eval_words(p, end, w, len, 5), fraction = 1;

	if (n != 5)
		return scan_fail(s, p, "%d words: want class x y w h", n);
	for (int i = 0; i < 4; i++) {
		if (eval_number(s, w[i + 1], len[i + 1], "", v + i))
			return -1;
		fraction &= v[i] >= 0 && v[i] <= 1;
	}
	if (fraction)
		return scan_fail(s, p,
		    "fractions of a picture that is not here: want pixels, or the folder "
		    "or list of the pictures");
	memset(&b, 0, sizeof b);
	b.x = v[0];
	b.y = v[1];
	b.w = v[2];
	b.h = v[3];
	b.area = b.w * b.h;
	b.id = -1;
	if (eval_class_number(w[0], len[0], 65535, &cls)) {
		b.cls = (int)cls;
		x->most = b.cls > x->most ? b.cls : x->most;
	} else
		b.cls = keys_add(&x->name, w[0], len[0]);
	if (x->most >= 0 && x->name.n)
		return scan_fail(s, p, "some classes are numbers, some are names: want one kind");
	x->t->box = (struct box *)xgrow(x->t->box, &x->bcap, x->t->nbox + 1, sizeof b);
	x->t->box[x->t->nbox++] = b;
	x->t->pic[x->t->n - 1].n++;
	return 0;
}

static int
txt_file(struct txt *x, const char *path, struct err *e)
{
	const char *base = path_base(path);
	char *stem = xasprintf("%.*s", (int)strlen(base) - 4, base);

	new_pic(x->t, &x->cap, stem, EVAL_NOID, 0, 0);
	free(stem);
	return eval_lines(path, txt_line, x, e);
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
txt_classes(struct txt *x, const char *path, const char *names, struct err *e)
{
	struct dataset d;
	size_t k = (size_t)x->name.n, n = k ? k : (size_t)(x->most + 1);
	char **name = (char **)xcalloc(n + 1, sizeof *name);
	int64_t *id = (int64_t *)xcalloc(n + 1, sizeof *id);
	int *to = (int *)xcalloc(n + 1, sizeof *to), r = 0;

	memset(&d, 0, sizeof d);
	for (size_t i = 0; i < k; i++)
		name[i] = (char *)keys_text(&x->name, (int)i);
	if (k)				/* words: classes in alphabetical order */
		qsort(name, k, sizeof *name, compare);
	for (size_t i = 0; i < n; i++) {
		id[i] = (int64_t)i;
		if (k)
			to[keys_find(&x->name, name[i], strlen(name[i]))] = (int)i;
	}
	for (size_t i = 0; k && i < x->t->nbox; i++)
		x->t->box[i].cls = to[x->t->box[i].cls];
	if (names && !k) {
		r = labels_names(&d, names, e);
		if (!r && (size_t)d.nclass < n)
			r = err_set(
			    e, "%s: class %zu, but %s has %d names", path, n - 1, names, d.nclass);
	}
	if (!r)
		take_classes(x->t, d.nclass ? d.class_name : name, d.nclass ? d.class_id : id,
		    d.nclass ? d.nclass : (int)n);
	labels_close(&d);
	free(name);
	free(id);
	free(to);
	return r;
}

static int
from_txt(struct eval_truth *t, const char *path, const char *names, char **file, int n,
    struct err *e)
{
	struct txt x = { .t = t, .most = -1 };
	int r = 0;

	for (int i = 0; i < n && !r; i++)
		r = txt_file(&x, file[i], e);
	if (!r)
		r = txt_classes(&x, path, names, e);
	keys_free(&x.name);
	return r;
}

/* Does a folder hold nothing but txt files? */
static int
only_txt(const char *path, char ***file, struct err *e)
{
	struct dataset d;
	struct err ignore;
	char *voc = path_join(path, "Annotations"), *images = path_join(path, "images");
	int n = path_isdir(voc) || path_isdir(images) ? 0 : eval_folder(path, file, e);

	free(voc);
	free(images);
	if (n <= 0)
		return n;
	memset(&d, 0, sizeof d);
	if (!labels_read(&d, path, NULL, NULL, NULL, &ignore) && (d.n || d.bad)) {
		eval_folder_free(*file, n);
		n = 0;
	}
	labels_close(&d);
	return n;
}

static int
eval_truth_other(struct eval_truth *t, const char *path, const char *names, struct err *e)
{
	char **file = NULL;
	int n = 0, r;

	if (path_isdir(path) && (n = only_txt(path, &file, e)) < 0)
		return -1;
	r = n > 0 ? from_txt(t, path, names, file, n, e) : shard_is(path) ?
	    from_shard_file(t, path, e) : from_labels(t, path, names, e);
	if (n > 0)
		eval_folder_free(file, n);
	if (!r && t->nclass > 65535)
		r = err_set(e, "%s: %d classes: at most 65535", path, t->nclass);
	if (!r)
		order_pics(t);
	return r;
}

/* Detections where the truth should be: the arguments were swapped, or one is missing. */
static int
is_dets(struct scan *s)
{
	const char *p = s->p + 1;

	if (*s->p == '[')
		p += strspn(p, " \t\r\n");
	return (*s->p == '[' && (*p == '{' || *p == ']')) || !strncmp(s->p, "#image\t", 7) ?
	    scan_fail(s, s->p, "detections, where -t wants the truth: a COCO json, a shard, a VOC "
	    "folder, a list or folder of labelled pictures") : 0;
}

int
eval_truth_read(struct eval_truth *t, const char *path, const char *names, struct err *e)
{
	struct scan s;
	int r;

	memset(t, 0, sizeof *t);
	if (!path_isdir(path)) {
		if (scan_open(&s, path, e))
			return -1;
		if (scan_peek(&s) == '{') {
			r = eval_truth_coco(t, &s, e);
			scan_close(&s);
			if (!r && t->nclass > 65535)
				r = err_set(e, "%s: %d categories: at most 65535", path, t->nclass);
			if (r)
				eval_truth_close(t);
			return r;
		}
		r = scan_no_text(&s, 0) || is_dets(&s) ? scan_error(&s, e) : strcmp(path, "-") ?
		    0 : err_set(e, "truth on standard input: want a COCO json, {\"images\": ...}");
		scan_close(&s);
		if (r)
			return -1;
	}
	if (eval_truth_other(t, path, names, e)) {
		eval_truth_close(t);
		return -1;
	}
	t->names = eval_names_open(t->pic, t->n);
	return 0;
}

void
eval_truth_close(struct eval_truth *t)
{
	eval_names_close(t->names);
	for (int i = 0; i < t->n; i++) {
		free(t->pic[i].name);
		free(t->pic[i].word);
	}
	for (int i = 0; i < t->nclass; i++)
		free(t->class_name[i]);
	free(t->pic);
	free(t->box);
	free(t->class_name);
	free(t->class_id);
	memset(t, 0, sizeof *t);
}
