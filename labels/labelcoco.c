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
	const char *path, *dir;
	struct coco_file in;
	size_t *slot, nslot;		/* images by id; number + 1, 0: free */
};

static int
same_id(const struct coco_id *a, const struct coco_id *b)
{
	return a->s && b->s ? !strcmp(a->s, b->s) : !a->s && !b->s && a->v == b->v;
}

static int
by_id(const void *a, const void *b)
{
	const struct coco_id *x = &((const struct coco_category *)a)->id,
			     *y = &((const struct coco_category *)b)->id;

	if (x->s || y->s)
		return x->s && y->s ? strcmp(x->s, y->s) : x->s ? 1 : -1;
	return (x->v > y->v) - (x->v < y->v);
}

/* Categories to classes: by name where classes are known already, else as new ones. */
static int
classes(struct join *c)
{
	struct dataset *d = c->l->d;
	int had = d->nclass, cls;

	qsort(c->in.category, c->in.ncategory, sizeof *c->in.category, by_id);
	for (size_t i = 0; i < c->in.ncategory; i++) {
		struct coco_category *k = &c->in.category[i];

		if (i && same_id(&k->id, &k[-1].id))
			return err_set(c->l->e, "%s: two categories with one id, '%s' and '%s'",
			    c->path, k[-1].name ? k[-1].name : "", k->name ? k->name : "");
		k->cls = -1;
		if (k->name && label_bad_name(k->name))
			return err_set(c->l->e, "%s: category '%s': a name %s, want one of a line",
			    c->path, k->name, label_bad_name(k->name));
		if (k->name && (cls = label_find_class(d, k->name)) < had)
			k->cls = cls;
		if (k->cls >= 0 && d->fixed && !k->id.s)
			label_set_id(d, k->cls, k->id.v);
		else if (k->cls < 0 && !d->fixed) {
			label_new_class(d, k->name, k->id.s ? d->nclass : k->id.v);
			k->cls = d->nclass - 1;
		} else if (k->cls < 0)
			label_say(c->l, SAY_NOTE,
			    "%s: category '%s' is not among the names, its boxes are "
			    "refused",
			    c->path, k->name ? k->name : "");
	}
	return 0;
}

static size_t
hash(const struct coco_id *id)
{
	uint64_t h = (uint64_t)id->v;

	for (const char *p = id->s; p && *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3;
	h = (h ^ h >> 32) * 0x9e3779b97f4a7c15;
	return (size_t)(h ^ h >> 29);
}

/* The image with this id, or the free slot where it would stand. */
static size_t *
look(struct join *c, const struct coco_id *id)
{
	size_t i = hash(id) & (c->nslot - 1);

	while (c->slot[i] && !same_id(&c->in.image[c->slot[i] - 1].id, id))
		i = (i + 1) & (c->nslot - 1);
	return &c->slot[i];
}

static char *
picture_path(const struct join *c, const char *file)
{
	char *home, *path, *other;

	if (c->dir)
		return path_join(c->dir, file);
	home = path_dir(c->path);
	path = path_join(home, file);
	other = xasprintf("%s/images/%s", home, file);
	free(home);
	if (access(path, F_OK) && !access(other, F_OK)) {
		free(path);
		return other;
	}
	free(other);
	return path;
}

static int
images(struct join *c)
{
	for (c->nslot = 16; c->nslot < 2 * c->in.nimage; c->nslot *= 2)
		;
	c->slot = (size_t *)xcalloc(c->nslot, sizeof *c->slot);
	for (size_t i = 0; i < c->in.nimage; i++) {
		struct coco_image *im = &c->in.image[i];
		size_t *slot = look(c, &im->id);
		char *path;
		struct item *it;

		if (*slot)
			return err_set(c->l->e, "%s: two images with one id, %s and %s", c->path,
			    c->in.image[*slot - 1].file ? c->in.image[*slot - 1].file : "",
			    im->file ? im->file : "");
		*slot = i + 1;
		im->item = -1;
		if (!im->file || !*im->file) {
			label_say(
			    c->l, SAY_PICTURE, "%s: image %zu has no file_name", c->path, i + 1);
			continue;
		}
		path = picture_path(c, im->file);
		it = label_item(c->l, im->file, path);
		it->id = im->id.s ? -1 : im->id.v;
		it->w = im->w && im->h ? im->w : 0;
		it->h = im->w && im->h ? im->h : 0;
		im->item = c->l->d->n - 1;
		free(path);
	}
	return 0;
}

static void
annotation(struct join *c, size_t i)
{
	struct coco_annotation *a = &c->in.ann[i];
	struct box b = { a->box[0], a->box[1], a->box[2], a->box[3], a->area, a->id, 0,
		(a->crowd ? BOX_CROWD : 0) | (a->difficult ? BOX_DIFFICULT : 0) };
	struct coco_category key = { a->category, NULL, 0 },
			     *k = (struct coco_category *)bsearch(
				 &key, c->in.category, c->in.ncategory, sizeof key, by_id);
	size_t im = *look(c, &a->image);
	const char *bad = NULL;

	if (!im)
		bad = "its image is not in the file";
	else if (!k || k->cls < 0)
		bad = k ? "its category is not among the names" : "its category is not in the file";
	else if (a->nbox != 4)
		bad = "no bbox of four numbers, and no polygon";
	else
		label_check_box(&b, 0, 0, &bad);
	if (bad)
		label_say(c->l, SAY_REFUSED, "%s:%d: annotation %zu (id %lld): %s", c->path,
		    a->line, i + 1, (long long)a->id, bad);
	else if (c->in.image[im - 1].item >= 0) {
		if (!isfinite(b.area) || b.area < 0)
			b.area = b.w * b.h;
		b.cls = k->cls;
		label_box(&c->l->d->item[c->in.image[im - 1].item], &b);
	} else
		label_say(c->l, SAY_REFUSED,
		    "%s:%d: annotation %zu (id %lld): its image has no file_name", c->path, a->line,
		    i + 1, (long long)a->id);
	if (!bad && a->polygon)
		label_say(c->l, SAY_NOTE,
		    "%s:%d: annotation %zu (id %lld): no bbox, taken from its polygon", c->path,
		    a->line, i + 1, (long long)a->id);
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
		if (c->in.ann[i].id >= 0)
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

static int
join_all(struct join *c)
{
	if (!c->in.seen_images)
		return err_set(c->l->e, "%s: no \"images\" list, not COCO annotations", c->path);
	if (!c->in.seen_categories || !c->in.ncategory)
		return err_set(c->l->e, "%s: no \"categories\" in it", c->path);
	if (classes(c) || images(c))
		return -1;
	for (size_t i = 0; i < c->in.nann; i++)
		annotation(c, i);
	note_repeats(c);
	return 0;
}

int
label_coco(struct labels *l, const char *path, const char *dir)
{
	struct join *c = (struct join *)xcalloc(1, sizeof *c);
	FILE *f = fopen(path, "rb");
	int r;

	c->l = l;
	c->path = path;
	c->dir = dir;
	if (!f)
		r = err_set(l->e, "%s: %s", path, strerror(errno));
	else {
		r = coco_parse(l, path, f, &c->in) ? -1 : join_all(c);
		fclose(f);
	}
	for (size_t i = 0; i < c->in.nimage; i++) {
		free(c->in.image[i].id.s);
		free(c->in.image[i].file);
	}
	for (size_t i = 0; i < c->in.ncategory; i++) {
		free(c->in.category[i].id.s);
		free(c->in.category[i].name);
	}
	for (size_t i = 0; i < c->in.nann; i++) {
		free(c->in.ann[i].image.s);
		free(c->in.ann[i].category.s);
	}
	free(c->in.image);
	free(c->in.category);
	free(c->in.ann);
	free(c->slot);
	free(c);
	return r;
}
