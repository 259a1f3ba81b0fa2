/* labelbeside.c -- annotations of other kinds that lie where YOLO labels might have been.
 *
 * Exporters leave VOC's xml, COCO's json, labelme's, CreateML's or a table beside the pictures, or
 * in annotations/ and labels/ next to them.  A folder in which no picture has a YOLO label is read
 * from those that are read elsewhere (VOC, COCO); whatever else lies there is named, and is a
 * failure where it would leave nothing but backgrounds. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "labels/int.h"
#include "image/image.h"

enum kind { NOTHING, VOC, COCO, OTHER, KINDS, UNREAD };
enum { HEAD = 1 << 16, SAMPLE = 64 };

struct beside {
	struct label_files pictures, file[KINDS];	/* what lies there by kind */
	const char *what;			/* the kind of the first of OTHER */
	struct err *e;				/* what cannot be looked at might be the labels */
	int bad;
};

/* ---- what a file is ------------------------------------------------------------------------ */

static int
has(const char *text, const char *word)
{
	return strstr(text, word) != NULL;
}

static enum kind
json_kind(const char *s, const char **what)
{
	static const struct { const char *sign, *what; } known[] = {
		{ "\"shapes\"", "labelme's json" }, { "\"imagePath\"", "labelme's json" },
		{ "\"coordinates\"", "CreateML's json" }, { "\"_via_", "VIA's json" },
		{ "\"regions\"", "VIA's json" }, { "\"classTitle\"", "Supervisely's json" },
		{ "\"bbox", "json" }, { "\"box", "json" }, { "\"points\"", "json" },
		{ "\"label", "json" }, { "\"annotation", "json" }, { "\"objects\"", "json" },
		{ "\"category", "json" }, { "\"polygon", "json" } };

	s += strspn(s, "\xef\xbb\xbf \t\r\n");
	if (has(s, "\"score\""))
		return NOTHING;			/* detections */
	if (*s == '{' && !has(s, "\"shapes\"") &&
	    (has(s, "\"images\"") || has(s, "\"annotations\"")) &&
	    (has(s, "\"categories\"") || has(s, "\"image_id\"") || has(s, "\"file_name\"")))
		return COCO;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if ((*s == '{' || *s == '[') && has(s, known[i].sign)) {
			*what = known[i].what;
			return OTHER;
		}
	return NOTHING;
}

/* PICTURE,x1,y1,x2,y2,CLASS, with commas or blanks between. */
static int
is_row(char *line)
{
	double v[4] = { 0 };
	int n = 0, named = 0;

	for (char *w = line, *end, c; *w && n < 6; n++) {
		end = w + strcspn(w, ",; ");
		c = *end;
		*end = 0;
		named |= n == 0 && image_named(w);
		if (n > 0 && n < 5 && num_real(w, -1e9, 1e9, &v[n - 1]))
			return 0;
		w = end + (c != 0);
	}
	return named && n == 6 && v[2] > v[0] && v[3] > v[1];
}

/* A table of boxes: a header that says so, or such rows. */
static int
is_table(char *s)
{
	static const char *const head[] = { "xmin", "x_min", "bbox", "region_shape", "x1,y1",
		"x1\ty1", "x1;y1" };
	char *save, *line = strtok_r(s, "\r\n", &save);

	for (size_t i = 0; line && i < sizeof head / sizeof *head; i++)
		if (strncmp(line, "#image\t", 7) && strcasestr(line, head[i]))	/* yolo-detect's */
			return 1;
	for (int i = 0; line && i < 3; i++, line = strtok_r(NULL, "\r\n", &save))
		if (is_row(line))
			return 1;
	return 0;
}

static enum kind
kind_of(const char *path, const char **what, struct err *e)
{
	const char *base = path_base(path), *dot = strrchr(base, '.');
	char *head;
	enum kind k = NOTHING;
	long n;

	if (!dot || image_named(path))
		return NOTHING;
	if (!strcasecmp(dot, ".tfrecord") || !strcasecmp(dot, ".tfrecords")) {
		*what = "TFRecord";
		return OTHER;
	}
	if (strcasecmp(dot, ".xml") && strcasecmp(dot, ".json") && strcasecmp(dot, ".csv") &&
	    strcasecmp(dot, ".tsv") && strcasecmp(dot, ".txt"))
		return NOTHING;
	head = (char *)xmalloc(HEAD + 1);
	n = file_head(path, head, HEAD, e);
	head[n > 0 ? n : 0] = 0;
	if (n < 0)
		k = UNREAD;
	else if (!strcasecmp(dot, ".xml")) {
		k = has(head, "<annotation>") || has(head, "<annotation ") ? VOC : OTHER;
		*what = has(head, "<annotations>") ? "CVAT's xml" : "xml that is not VOC's";
		k = k == OTHER && !has(head, "<box") && !has(head, "<image") ? NOTHING : k;
	} else if (!strcasecmp(dot, ".json"))
		k = json_kind(head, what);
	else if (is_table(head)) {
		k = OTHER;
		*what = "a table";
	}
	free(head);
	return k;
}

int
label_is_coco(const char *path, struct err *e)
{
	const char *what;
	enum kind k = kind_of(path, &what, e);

	return k == UNREAD ? -1 : k == COCO;
}

/* ---- is it about these pictures? ----------------------------------------------------------- */

static size_t
stem(const char *base)
{
	return strcspn(base, ".");
}

static int
by_stem(const void *a, const void *b)
{
	const char *p = path_base(*(char *const *)a), *q = path_base(*(char *const *)b);
	size_t n = stem(p), m = stem(q);
	int r = memcmp(p, q, n < m ? n : m);

	return r ? r : (n > m) - (n < m);
}

/* Is it named like a picture, or does it name some of them?  -1: it cannot be read. */
static int
about(const char *path, const struct label_files *pictures, struct err *e)
{
	size_t step = pictures->n / SAMPLE + 1, n;
	char *text;
	int yes = 0;

	if (bsearch(&path, pictures->v, pictures->n, sizeof *pictures->v, by_stem))
		return 1;
	if (!(text = plain_read(path, (size_t)1 << 36, &n, e)))
		return -1;
	for (size_t i = 0; i < pictures->n && !yes; i += step) {
		const char *base = path_base(pictures->v[i]);

		yes = memmem(text, n, base, strlen(base)) != NULL;
	}
	free(text);
	return yes;
}

static void
look_at(struct beside *b, const char *path)
{
	const char *what = NULL;
	enum kind k = b->bad ? NOTHING : kind_of(path, &what, b->e);
	int its = 0;

	b->bad |= k == UNREAD;
	if (k != NOTHING && k != UNREAD && !label_files_has(&b->file[k], path))
		its = about(path, &b->pictures, b->e);
	b->bad |= its < 0;
	if (its < 1)
		return;
	if (k == OTHER && !b->file[OTHER].n)
		b->what = what;
	label_files_add(&b->file[k], path);
}

/* A folder's own files, and what is in the folders of annotations that lie in it. */
static void
look_in(struct beside *b, const char *dir)
{
	static const char *const name[] = { "annotations", "annotation", "anns", "ann", "annots",
		"labels", "label", "xmls", "xml", "jsons", "json", "bboxes", "bbox" };
	struct label_files here = { NULL, 0, 0 }, inside;

	b->bad |= label_names(dir, &here, b->e) < 0;
	for (size_t k = 0; k < here.n && !b->bad; k++) {
		char *path = path_join(dir, here.v[k]);
		int sign = 0;

		for (size_t i = 0; i < sizeof name / sizeof *name; i++)
			sign |= !strcasecmp(here.v[k], name[i]);
		memset(&inside, 0, sizeof inside);
		if (!path_isdir(path))
			look_at(b, path);
		else if (sign)
			b->bad |= label_walk(path, &inside, b->e) < 0;
		for (size_t i = 0; i < inside.n; i++)
			look_at(b, inside.v[i]);
		label_files_free(&inside);
		free(path);
	}
	label_files_free(&here);
}

/* Where labels may lie: with the pictures, beside their folder, beside a folder images above. */
static void
find(struct beside *b, const struct label_files *all)
{
	char *last = NULL;

	if (b->pictures.n)
		qsort(b->pictures.v, b->pictures.n, sizeof *b->pictures.v, by_stem);
	for (size_t i = 0; all && i < all->n; i++)
		look_at(b, all->v[i]);
	for (size_t i = 0; i < b->pictures.n; i++) {
		char *dir = path_dir(b->pictures.v[i]), *up = path_dir(dir), *top = path_dir(up);

		if (!last || strcmp(last, dir)) {
			look_in(b, dir);
			if (strcmp(dir, "."))
				look_in(b, up);
			if (!strcmp(path_base(up), "images") ||
			    !strcmp(path_base(up), "JPEGImages"))
				look_in(b, top);
			free(last);
			last = xstrdup(dir);
		}
		free(dir);
		free(up);
		free(top);
	}
	free(last);
	for (int k = 0; k < KINDS; k++)
		label_files_sort(&b->file[k]);
}

static void
close_all(struct beside *b)
{
	label_files_free(&b->pictures);
	for (int k = 0; k < KINDS; k++)
		label_files_free(&b->file[k]);
}

/* ---- reading them -------------------------------------------------------------------------- */

/* The json that has the boxes: the only one of its folder, or the only one named instances. */
static int
pick_coco(struct labels *l, const struct label_files *coco, size_t *at)
{
	char *dir = path_dir(coco->v[*at]), *other;
	size_t end = *at, n = 0, best = *at;
	int same = 1;

	while (end < coco->n && same) {
		other = path_dir(coco->v[end]);
		same = !strcmp(other, dir);
		free(other);
		if (same && !strncmp(path_base(coco->v[end]), "instances", 9)) {
			best = end;
			n++;
		}
		end += same;
	}
	free(dir);
	if (end - *at > 1 && n != 1)
		return err_set(l->e, "%s and %s both have annotations of these pictures: name the "
		    "one that is meant", coco->v[*at], coco->v[*at + 1]);
	*at = end;
	return (int)best;
}

static int
read_coco(struct labels *l, const char *path, const struct label_files *coco)
{
	int k, r = 0;

	for (size_t i = 0; i < coco->n && !r;) {
		if ((k = pick_coco(l, coco, &i)) < 0)
			return -1;
		label_say(l, SAY_PART, "%s: labels are those of %s", path, coco->v[k]);
		r = label_coco(l, coco->v[k], NULL, path);
	}
	return r;
}

static int
read_voc(struct labels *l, const char *path, const struct label_files *xml)
{
	label_say(l, SAY_PART, "%s: labels are those of %zu VOC files, as %s", path, xml->n,
	    xml->v[0]);
	label_voc_files(l, xml);
	return 0;
}

int
label_beside(struct labels *l, const char *path, const struct label_files *all)
{
	struct beside b;
	int r = 0, from = l->d->n;
	size_t there = 0;

	memset(&b, 0, sizeof b);
	b.e = l->e;
	for (size_t i = 0; i < all->n; i++)
		if (image_named(all->v[i]))
			label_files_add(&b.pictures, all->v[i]);
	find(&b, all);
	if (b.bad)
		r = -1;
	else if (b.file[VOC].n && b.file[COCO].n)
		r = err_set(l->e, "%s: both VOC and COCO annotations, %s and %s: name the one that "
		    "is meant", path, b.file[VOC].v[0], b.file[COCO].v[0]);
	else if (b.file[VOC].n || b.file[COCO].n) {
		r = b.file[VOC].n ? read_voc(l, path, &b.file[VOC]) :
		    read_coco(l, path, &b.file[COCO]);
		r = r ? r : 1;
	}
	for (int i = from; i < l->d->n; i++)
		there += path_there(l->d->item[i].path) != 0;
	if (r == 1 && there < b.pictures.n)
		label_say(l, SAY_NOTE, "%s: %zu pictures without an annotation, left out", path,
		    b.pictures.n - there);
	if (r == 1 && b.file[OTHER].n)
		label_say(l, SAY_NOTE, "%s: %s, not read", b.file[OTHER].v[0], b.what);
	close_all(&b);
	return r;
}

int
label_overlooked(struct labels *l, const char *path, int from, const struct label_files *all)
{
	static const char *const what[] = { "", "VOC's xml", "COCO's json" };
	struct beside b;
	int r = 0;

	if (from == l->d->n)
		return 0;
	memset(&b, 0, sizeof b);
	for (int i = from; i < l->d->n; i++)
		label_files_add(&b.pictures, l->d->item[i].path);
	find(&b, all);
	for (int k = VOC; k < KINDS && !r; k++)
		if (b.file[k].n)
			r = err_set(l->e, "%s: no picture has a box by YOLO labels, but %zu files "
			    "of annotations lie there, as %s (%s): want VOC, COCO or YOLO labels; "
			    "if all are backgrounds, move those files away", path, b.file[k].n,
			    b.file[k].v[0], k == OTHER ? b.what : what[k]);
	close_all(&b);
	return r;
}
