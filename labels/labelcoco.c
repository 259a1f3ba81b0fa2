/* labelcoco.c -- COCO's images, categories and annotations put together.
 *
 * Annotations may stand before the images and categories that they name, so all is read first
 * (cocoparse.c).  Categories become classes in the order of their ids.  Boxes stay as given, as
 * scoring wants them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "labels/int.h"

struct join {
	struct labels *l;
	const char *path, *dir, *near;
	struct coco_file in;
	struct keys image, category;	/* their ids, in the order of in.image, in.category */
	size_t windows;			/* pictures whose names were of Windows */
};

/* Numbers first, then words. */
static int
by_id(const void *a, const void *b, void *words)
{
	const struct coco_id *x = &((const struct coco_category *)a)->id,
			     *y = &((const struct coco_category *)b)->id;

	if (x->word != y->word)
		return x->word ? 1 : -1;
	return x->word ? strcmp(keys_text((struct keys *)words, (int)x->v),
	    keys_text((struct keys *)words, (int)y->v)) : (x->v > y->v) - (x->v < y->v);
}

/* Categories to classes: by name where classes are known already, else as new ones. */
static int
classes(struct join *c)
{
	struct dataset *d = c->l->d;

	qsort_r(c->in.category, c->in.ncategory, sizeof *c->in.category, by_id, &c->in.word);
	for (size_t i = 0; i < c->in.ncategory; i++) {
		struct coco_category *k = &c->in.category[i];

		if (keys_add(&c->category, &k->id, sizeof k->id) < (int)i)
			return err_set(c->l->e, "%s: two categories with one id, '%s' and '%s'",
			    c->path, k[-1].name ? k[-1].name : "", k->name ? k->name : "");
		k->cls = k->name ? label_find_class(d, k->name, (int)i) : -1;
		if (k->name && label_bad_name(k->name))
			return err_set(c->l->e, "%s: category '%s': a name %s, want one of a line",
			    c->path, k->name, label_bad_name(k->name));
	}
	for (size_t i = 0; i < c->in.ncategory; i++) {	/* none of the file's own was found above */
		struct coco_category *k = &c->in.category[i];

		if (k->cls >= 0 && d->fixed && !k->id.word)
			label_set_id(d, k->cls, k->id.v);
		else if (k->cls == -1 && !d->fixed) {
			label_new_class(d, k->name, k->id.word ? d->nclass : k->id.v);
			k->cls = d->nclass - 1;
		} else if (k->cls < 0)
			label_say(c->l, SAY_NOTE,
			    "%s: category '%s' %s among the names, its boxes are refused",
			    c->path, k->name ? k->name : "",
			    k->cls == -1 ? "is not" : "stands twice");
	}
	return 0;
}

/* Below the folder that was named, else beside the file or in its images/. */
static char *
picture_place(const struct join *c, const char *file)
{
	char *home, *path, *other;

	if (c->dir)
		return path_join(c->dir, file);
	home = path_dir(c->path);
	path = path_join(home, file);
	other = xasprintf("%s/images/%s", home, file);
	free(home);
	if (!path_there(path) && path_there(other)) {
		free(path);
		return other;
	}
	free(other);
	if (c->near && !path_there(path)) {
		other = path_join(c->near, file);
		if (!path_there(other)) {
			free(other);
			other = path_join(c->near, path_base(file));
		}
		if (path_there(other)) {
			free(path);
			return other;
		}
		free(other);
	}
	return path;
}

/* Where there is nothing of that name, Windows' names are tried; *name then is what led there. */
static char *
picture_path(struct join *c, const char **name, char **turned)
{
	char *path = picture_place(c, *name), *again;
	const char *rest;

	*turned = NULL;
	if (path_there(path) || !label_windows(*name))
		return path;
	*turned = label_turned(*name);
	for (rest = *turned; rest; rest = label_shorter(rest)) {
		again = picture_place(c, rest);
		if (path_there(again)) {
			c->windows++;
			free(path);
			*name = rest;
			return again;
		}
		free(again);
	}
	return path;
}

static int
images(struct join *c)
{
	const struct coco_image *word = NULL;
	size_t words = 0;

	for (size_t i = 0; i < c->in.nimage; i++) {
		struct coco_image *im = &c->in.image[i];
		int first = keys_add(&c->image, &im->id, sizeof im->id);
		char *path, *turned;
		const char *name = im->file;
		struct item *it;

		if (!im->id.word && im->id.v == -1)
			return err_set(c->l->e, "%s:%d: the id of an image is -1, which stands for "
			    "none in a shard: want another", c->path, im->line);
		if (first < (int)i)
			return err_set(c->l->e, "%s: two images with one id, %s and %s", c->path,
			    c->in.image[first].file ? c->in.image[first].file : "",
			    im->file ? im->file : "");
		im->item = -1;
		word = im->id.word && !words++ ? im : word;
		if (!im->file || !*im->file) {
			label_say(
			    c->l, SAY_PICTURE, "%s: image %zu has no file_name", c->path, i + 1);
			continue;
		}
		path = picture_path(c, &name, &turned);
		it = label_item(c->l, name, path);
		free(turned);
		it->id = im->id.word ? -1 : im->id.v;
		it->w = im->w && im->h ? im->w : 0;
		it->h = im->w && im->h ? im->h : 0;
		im->item = c->l->d->n - 1;
		free(path);
	}
	if (word)
		label_say(c->l, SAY_NOTE, "%s:%d: %zu images have an id that is no number of 64 "
		    "bits, as '%.40s': a shard keeps their names only", c->path, word->line, words,
		    keys_text(&c->in.word, (int)word->id.v));
	if (c->windows)
		label_say(c->l, SAY_NOTE, "%s: the names of %zu pictures are of Windows; "
		    "backslashes taken as slashes", c->path, c->windows);
	return 0;
}

static void
annotation(struct join *c, size_t i)
{
	struct coco_annotation *a = &c->in.ann[i];
	struct box b = { a->box[0], a->box[1], a->box[2], a->box[3], a->area, a->id, 0,
		(a->crowd ? BOX_CROWD : 0) | (a->difficult ? BOX_DIFFICULT : 0) };
	int im = keys_find(&c->image, &a->image, sizeof a->image);
	int cat = keys_find(&c->category, &a->category, sizeof a->category);
	const struct coco_category *k = cat < 0 ? NULL : &c->in.category[cat];
	const char *bad = NULL;

	if (im < 0)
		bad = "its image is not in the file";
	else if (!k || k->cls < 0)
		bad = !k ? "its category is not in the file" : k->cls == -1 ?
		    "its category is not among the names" :
		    "its category stands twice among the names";
	else if (a->why)
		bad = a->why;
	else if (a->nbox != 4)
		bad = "no bbox of four numbers, and no polygon";
	else if (a->from == BOX_OF_RUNS && c->in.image[im].w &&
	    (a->rle_w != c->in.image[im].w || a->rle_h != c->in.image[im].h))
		bad = "no bbox, and its run lengths are of another size than its image";
	else
		label_check_box(&b, 0, 0, &bad);
	if (bad)
		label_say(c->l, SAY_REFUSED, "%s:%d: annotation %zu (id %lld): %s", c->path,
		    a->line, i + 1, (long long)a->id, bad);
	else if (c->in.image[im].item >= 0) {
		if (!isfinite(b.area) || b.area < 0)
			b.area = b.w * b.h;
		b.cls = k->cls;
		label_box(&c->l->d->item[c->in.image[im].item], &b);
	} else
		label_say(c->l, SAY_REFUSED,
		    "%s:%d: annotation %zu (id %lld): its image has no file_name", c->path, a->line,
		    i + 1, (long long)a->id);
	if (!bad && a->from)
		label_say(c->l, SAY_NOTE,
		    "%s:%d: annotation %zu (id %lld): no bbox, taken from its %s", c->path,
		    a->line, i + 1, (long long)a->id, a->from == BOX_OF_RUNS ? "run lengths" :
		    "polygon");
}

static int
by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What an id or a file name that stands twice means cannot be known; all are kept. */
static void
note_repeats(struct join *c)
{
	int64_t *id = (int64_t *)xmalloc(c->in.nann * sizeof *id);
	char **file = (char **)xmalloc(c->in.nimage * sizeof *file);
	size_t n = 0, again = 0;

	for (size_t i = 0; i < c->in.nann; i++)
		if (c->in.ann[i].id != -1)
			id[n++] = c->in.ann[i].id;
	qsort(id, n, sizeof *id, by_value);
	for (size_t i = 1; i < n; i++)
		again += id[i] == id[i - 1];
	if (again)
		label_say(c->l, SAY_NOTE, "%s: %zu annotations repeat the id of another, kept",
		    c->path, again);
	n = 0;
	for (size_t i = 0; i < c->in.nimage; i++)
		if (c->in.image[i].file)
			file[n++] = c->in.image[i].file;
	qsort(file, n, sizeof *file, by_name);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(file[i], file[i - 1]))
			label_say(c->l, SAY_NOTE, "%s: two images are one file, %s; both are kept",
			    c->path, file[i]);
	free(id);
	free(file);
}

/* What is odd about all the boxes, not about one of them: other units, corners for sizes, boxes of
 * pictures of another size. */
static int
plausible(struct join *c)
{
	size_t n = 0, small = 0, sized = 0, outside = 0, beyond = 0, corners = 0;

	for (size_t i = 0; i < c->in.nann; i++) {
		const struct coco_annotation *a = &c->in.ann[i];
		int at = keys_find(&c->image, &a->image, sizeof a->image);
		const struct coco_image *im = at < 0 ? NULL : &c->in.image[at];
		const double *b = a->box;

		if (!im || a->nbox != 4 || a->why)
			continue;
		n++;
		small += (b[2] < 1 && b[3] < 1) || (b[2] <= 1 && b[3] <= 1 && fabs(b[0]) <= 1 &&
		    fabs(b[1]) <= 1);
		if (!im->w || !im->h)
			continue;
		sized++;
		outside += b[0] >= im->w || b[1] >= im->h || b[0] + b[2] <= 0 || b[1] + b[3] <= 0;
		beyond += b[0] + b[2] > im->w + 1 || b[1] + b[3] > im->h + 1;
		corners += b[0] < b[2] && b[1] < b[3] && b[2] <= im->w + 1 && b[3] <= im->h + 1;
	}
	if (n && small == n)
		return err_set(c->l->e, "%s: all %zu boxes are smaller than a pixel: fractions of "
		    "the picture? COCO's bbox is x y width height in pixels", c->path, n);
	if (sized && outside == n)
		return err_set(c->l->e, "%s: all %zu boxes lie outside their pictures: pixels of "
		    "pictures of another size?", c->path, n);
	if (2 * small > n)
		label_say(c->l, SAY_NOTE, "%s: %zu of %zu boxes are smaller than a pixel: "
		    "fractions of the picture?", c->path, small, n);
	if (sized > 1 && corners == sized && 2 * beyond >= sized)
		label_say(c->l, SAY_NOTE, "%s: %zu of %zu boxes end beyond their picture, and all "
		    "would fit as corners: x1 y1 x2 y2 instead of x y width height?", c->path,
		    beyond, sized);
	return 0;
}

/* Are the annotations' category numbers those of the file, or one less or more? */
static void
off_by_one(struct join *c)
{
	int64_t lo = INT64_MAX, hi = INT64_MIN, from = INT64_MAX, to = INT64_MIN;

	for (size_t i = 0; i < c->in.ncategory; i++) {
		const struct coco_id *k = &c->in.category[i].id;

		if (k->word)
			return;
		lo = k->v < lo ? k->v : lo;
		hi = k->v > hi ? k->v : hi;
	}
	for (size_t i = 0; i < c->in.nann; i++) {
		const struct coco_id *k = &c->in.ann[i].category;

		if (k->word)
			return;
		from = k->v < from ? k->v : from;
		to = k->v > to ? k->v : to;
	}
	if ((lo == 1 && from == 0 && to < hi) || (lo == 0 && from > 0 && to == hi + 1))
		label_say(c->l, SAY_NOTE, "%s: the categories are %lld to %lld, those of the "
		    "annotations %lld to %lld: are they counted from %d?", c->path, (long long)lo,
		    (long long)hi, (long long)from, (long long)to, (int)from);
}

/* One box under two ids: scoring counts both, as pycocotools does, so both are kept. */
static void
note_twins(struct join *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->in.nimage; i++) {
		const struct item *it = c->in.image[i].item < 0 ? NULL :
		    &c->l->d->item[c->in.image[i].item];

		n += it ? (size_t)label_twins(it) : 0;
	}
	if (n)
		label_say(c->l, SAY_NOTE, "%s: %zu annotations have class and box of another of "
		    "their picture; kept, as their ids differ", c->path, n);
}

static int
join_all(struct join *c)
{
	long refused = c->l->d->refused;

	if (!c->in.seen_images)
		return err_set(c->l->e, "%s: no \"images\" list, not COCO annotations", c->path);
	if (!c->in.seen_categories || !c->in.ncategory)
		return err_set(c->l->e, "%s: no \"categories\" in it", c->path);
	if (classes(c) || images(c) || plausible(c))
		return -1;
	off_by_one(c);
	for (size_t i = 0; i < c->in.nann; i++)
		annotation(c, i);
	note_repeats(c);
	note_twins(c);
	if (c->in.nann && c->l->d->refused - refused == (long)c->in.nann)
		return err_set(c->l->e, "%s: none of its %zu annotations can be used", c->path,
		    c->in.nann);
	return 0;
}

int
label_coco(struct labels *l, const char *path, const char *dir, const char *near)
{
	struct join *c = (struct join *)xcalloc(1, sizeof *c);
	FILE *f = fopen(path, "rb");
	int r;

	c->l = l;
	c->path = path;
	c->dir = dir;
	c->near = near;
	if (!f)
		r = err_set(l->e, "%s: %s", path, strerror(errno));
	else {
		r = coco_parse(l, path, f, &c->in) ? -1 : join_all(c);
		fclose(f);
	}
	for (size_t i = 0; i < c->in.nimage; i++)
		free(c->in.image[i].file);
	for (size_t i = 0; i < c->in.ncategory; i++)
		free(c->in.category[i].name);
	free(c->in.image);
	free(c->in.category);
	free(c->in.ann);
	keys_free(&c->in.word);
	keys_free(&c->image);
	keys_free(&c->category);
	free(c);
	return r;
}
