/* evalother.c -- truth from shards, from label files, from folders of txt files.
 *
 * A folder that holds only txt files is `class x y w h` in pixels, one file a picture; everything
 * else labels.c reads.  Shards and COCO json keep ids of pictures and categories; where all
 * pictures have one they give the order of equal scores, else the order of the files does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

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
		all &= t->pic[i].id >= 0;
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
from_shard(struct eval_truth *t, const char *path, struct err *e)
{
	struct shard *s = shard_open(path, e);
	size_t cap = 0, bcap = 0;
	struct record r;
	char **name;
	int64_t *id;
	int bad = 0, n;

	if (!s)
		return -1;
	n = shard_classes(s, &name, &id);
	for (long i = 0; i < shard_count(s) && !bad; i++) {
		if (!(bad = shard_labels(s, i, &r, e))) {
			new_pic(t, &cap, r.name, r.id, r.w, r.h);
			take_boxes(t, &bcap, r.box, r.nbox);
		}
	}
	if (!bad)
		take_classes(t, name, id, n);
	shard_close(s);
	return bad;
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
	struct eval_hash name;		/* class words by first sight */
	size_t cap, bcap;
	int64_t most;			/* largest class number, -1: none was a number */
};

static int
txt_line(struct scan *s, struct txt *x, const char *p, const char *end)
{
	const char *w[5], *q;
	size_t len[5];
	double v[4], c;
	struct box b;
	int n = eval_words(p, end, w, len, 5), fraction = 1;

	if (n != 5)
		return scan_fail(s, p, "%d words: want class x y w h", n);
	for (int i = 0; i < 4; i++) {
		q = w[i + 1];
		if (scan_decimal(&q, v + i) || q != w[i + 1] + len[i + 1] || !isfinite(v[i]))
			return scan_fail(s, w[i + 1], "'%.*s' is not a finite number",
			    (int)(len[i + 1] < 40 ? len[i + 1] : 40), w[i + 1]);
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
	q = w[0];
	if (!scan_decimal(&q, &c) && q == w[0] + len[0] && c >= 0 && c == floor(c) && c < 65535) {
		b.cls = (int)c;
		x->most = b.cls > x->most ? b.cls : x->most;
	} else if ((b.cls = eval_hash_get(&x->name, w[0], len[0])) < 0)
		eval_hash_put(&x->name, w[0], len[0], b.cls = (int)x->name.n);
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
	const char *base = path_base(path), *from, *to;
	char *stem = xasprintf("%.*s", (int)strlen(base) - 4, base);
	struct scan s;
	int r = scan_open(&s, path, e);

	if (!r) {
		new_pic(x->t, &x->cap, stem, EVAL_NOID, 0, 0);
		while (!r && eval_line(&s, &from, &to))
			r = txt_line(&s, x, from, to);
		if (r || s.error)
			r = scan_error(&s, e);
		scan_close(&s);
	}
	free(stem);
	return r;
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
	size_t n = x->name.n ? x->name.n : (size_t)(x->most + 1), k = 0;
	char **name = (char **)xcalloc(n + 1, sizeof *name);
	int64_t *id = (int64_t *)xcalloc(n + 1, sizeof *id);
	int *to = (int *)xcalloc(n + 1, sizeof *to), r = 0;

	memset(&d, 0, sizeof d);
	for (size_t i = 0; i < x->name.cap; i++)
		if (x->name.key[i])
			name[k++] = x->name.key[i];
	if (k)				/* words: classes in alphabetical order */
		qsort(name, k, sizeof *name, compare);
	for (size_t i = 0; i < n; i++) {
		id[i] = (int64_t)i;
		if (k)
			to[eval_hash_get(&x->name, name[i], strlen(name[i]))] = (int)i;
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
	eval_hash_free(&x.name);
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
		for (int i = 0; i < n; i++)
			free((*file)[i]);
		free(*file);
		n = 0;
	}
	labels_close(&d);
	return n;
}

int
eval_truth_other(struct eval_truth *t, const char *path, const char *names, struct err *e)
{
	char **file = NULL;
	int n = 0, r;

	if (path_isdir(path) && (n = only_txt(path, &file, e)) < 0)
		return -1;
	r = n > 0 ? from_txt(t, path, names, file, n, e) : shard_is(path) ?
	    from_shard(t, path, e) : from_labels(t, path, names, e);
	for (int i = 0; i < n; i++)
		free(file[i]);
	if (n > 0)
		free(file);
	if (!r && t->nclass > 65535)
		r = err_set(e, "%s: %d classes: at most 65535", path, t->nclass);
	if (!r)
		order_pics(t);
	return r;
}
