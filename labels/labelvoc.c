/* labelvoc.c -- Pascal VOC: one XML for each picture, folders Annotations, JPEGImages, ImageSets.
 *
 * Corners are taken as they are written: x = xmin, width = xmax - xmin, fractions kept.  The
 * picture decides its own size where it can be opened; many tools write a wrong one.  Document
 * types are refused, so no entity can grow.  Classes are in the order of their names unless a names
 * file says otherwise, so that the order of the files does not matter. */
#include <ctype.h>
#include <errno.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "labels/int.h"
#include "image/image.h"

static void label_voc_unlabelled(struct labels *l, const char *root, int from);

static char * label_voc_picture(const char *xml, const char *file, const char *stem, char
    **shown);

enum { MAX_TEXT = 4096, MAX_OPEN = 64 };

struct object {
	char name[MAX_TEXT];
	double edge[4];
	int have, flags, line;		/* have: a bit for each edge, 16 for a bndbox */
	char bad[128];
};
struct voc {
	struct labels *l;
	const char *path;
	XML_Parser xml;
	char open[MAX_OPEN][16];	/* the elements we are in */
	int depth, over;
	char text[MAX_TEXT];
	size_t len;
	char file[MAX_TEXT];		/* <filename> */
	int w, h, objects;
	struct object ob, *all;
	size_t n, cap;
	struct keys seen;		/* its boxes */
	struct err why;
	int failed;
};

static int
fail(struct voc *v, const char *what)
{
	if (!v->failed)
		err_set(&v->why, "%s:%lu: %s", v->path,
		    (unsigned long)XML_GetCurrentLineNumber(v->xml), what);
	v->failed = 1;
	XML_StopParser(v->xml, XML_FALSE);
	return -1;
}

/* Are we in annotation/object/.../name, with exactly this path? */
static int
at(const struct voc *v, const char *path)
{
	int i = 0;

	for (const char *p = path; *p; i++) {
		size_t n = strcspn(p, "/");

		if (i >= v->depth || strlen(v->open[i]) != n || memcmp(v->open[i], p, n))
			return 0;
		p += n + (p[n] == '/');
	}
	return i == v->depth;
}

static void XMLCALL
begin(void *arg, const char *name, const char **attr)
{
	struct voc *v = (struct voc *)arg;

	(void)attr;
	v->len = 0;
	if (v->depth == MAX_OPEN) {
		fail(v, "nested too deep");
		return;
	}
	snprintf(v->open[v->depth++], sizeof v->open[0], "%s", name);
	if (v->depth == 1 && strcmp(name, "annotation"))
		fail(v, "not a VOC annotation");
	if (at(v, "annotation/object")) {
		memset(&v->ob, 0, sizeof v->ob);
		v->ob.line = (int)XML_GetCurrentLineNumber(v->xml);
	}
	if (at(v, "annotation/object/bndbox"))
		v->ob.have |= 16;
}

static void XMLCALL
chars(void *arg, const char *s, int n)
{
	struct voc *v = (struct voc *)arg;

	if ((size_t)n >= MAX_TEXT - v->len) {
		fail(v, "a text of more than 4095 bytes");
		return;
	}
	memcpy(v->text + v->len, s, (size_t)n);
	v->len += (size_t)n;
}

static void
take_number(struct voc *v, const char *s, double *out, const char *tag)
{
	if (num_real(s, -1e9, 1e9, out) && !v->ob.bad[0])
		snprintf(v->ob.bad, sizeof v->ob.bad, "<%s> is '%.60s', want a number", tag, s);
}

static void
take_flag(struct voc *v, const char *s, int flag, const char *tag)
{
	if (!strcmp(s, "1"))
		v->ob.flags |= flag;
	else if (*s && strcmp(s, "0"))
		label_say(v->l, SAY_NOTE, "%s:%lu: <%s> is '%.60s', taken as 0", v->path,
		    (unsigned long)XML_GetCurrentLineNumber(v->xml), tag, s);
}

/* A name that was wrapped onto the next line is one name: white space is one blank, as in XML's
 * own tokens. */
static void
take_name(char *to, const char *s)
{
	for (; *s; s++)
		if (!strchr(" \t\r\n", *s))
			*to++ = *s;
		else if (!strchr(" \t\r\n", s[1]))
			*to++ = ' ';
	*to = 0;
}

/* The text of an element that ends, blanks around it cut. */
static void
take_text(struct voc *v, const char *s)
{
	static const char *const edge[] = { "xmin", "ymin", "xmax", "ymax" };
	double d;
	char path[64];

	if (at(v, "annotation/filename"))
		memcpy(v->file, s, strlen(s) + 1);
	else if (at(v, "annotation/size/width"))
		v->w = num_real(s, 0, 1e9, &d) ? 0 : (int)d;
	else if (at(v, "annotation/size/height"))
		v->h = num_real(s, 0, 1e9, &d) ? 0 : (int)d;
	else if (at(v, "annotation/object/name"))
		take_name(v->ob.name, s);
	else if (at(v, "annotation/object/difficult"))
		take_flag(v, s, BOX_DIFFICULT, "difficult");
	else if (at(v, "annotation/object/truncated"))
		take_flag(v, s, BOX_TRUNCATED, "truncated");
	else if (at(v, "annotation/object/occluded"))
		take_flag(v, s, BOX_OCCLUDED, "occluded");
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof path, "annotation/object/bndbox/%s", edge[i]);
		if (at(v, path)) {
			take_number(v, s, &v->ob.edge[i], edge[i]);
			v->ob.have |= 1 << i;
		}
	}
}

static void XMLCALL
end(void *arg, const char *name)
{
	struct voc *v = (struct voc *)arg;
	char *s = v->text;

	(void)name;
	while (v->len && isspace((unsigned char)s[v->len - 1]))
		v->len--;
	s[v->len] = 0;
	take_text(v, s + strspn(s, " \t\r\n"));
	v->len = 0;
	if (at(v, "annotation/object")) {
		v->all = (struct object *)xgrow(v->all, &v->cap, v->n + 1, sizeof *v->all);
		v->all[v->n++] = v->ob;
	}
	v->depth--;
}

static void XMLCALL
doctype(void *arg, const char *name, const char *sys, const char *pub, int inner)
{
	(void)name, (void)sys, (void)pub, (void)inner;
	fail((struct voc *)arg, "a document type; annotations have none, refused");
}

static int
parse_xml(struct voc *v, const char *text, size_t n)
{
	v->xml = XML_ParserCreate(NULL);
	if (!v->xml)
		die(1, "out of memory");
	XML_SetUserData(v->xml, v);
	XML_SetElementHandler(v->xml, begin, end);
	XML_SetCharacterDataHandler(v->xml, chars);
	XML_SetStartDoctypeDeclHandler(v->xml, doctype);
	if (!n) {
		err_set(&v->why, "%s:1: the file is empty", v->path);
		v->failed = 1;
	} else if (XML_Parse(v->xml, text, (int)n, 1) != XML_STATUS_OK && !v->failed) {
		err_set(&v->why, "%s:%lu: %s%s", v->path,
		    (unsigned long)XML_GetCurrentLineNumber(v->xml),
		    XML_ErrorString(XML_GetErrorCode(v->xml)),
		    XML_GetErrorCode(v->xml) == XML_ERROR_UNKNOWN_ENCODING ? "; want UTF-8" : "");
		v->failed = 1;
	}
	XML_ParserFree(v->xml);
	return v->failed ? -1 : 0;
}

static void
add_objects(struct voc *v, struct item *it)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct object *o = &v->all[i];
		struct box b = { o->edge[0], o->edge[1], o->edge[2] - o->edge[0],
			o->edge[3] - o->edge[1], 0, -1, 0, o->flags };
		const char *bad = NULL;
		int r = -1;

		b.area = b.w * b.h;
		if (!o->name[0])
			bad = "no <name>";
		else if (label_bad_name(o->name))
			bad = "its name holds control characters";
		else if (!(o->have & 16))
			bad = "no <bndbox>";
		else if (o->have != 31)
			bad = "<bndbox> without its four edges";
		else if (o->bad[0])
			bad = o->bad;
		else
			r = label_check_box(&b, it->w, it->h, &bad);
		if (r >= 0 && (b.cls = label_class(v->l, o->name, -1)) < 0) {
			bad = b.cls == -1 ? "its class is not among the names" :
			    "its class stands twice among the names";
			r = -1;
		}
		if (bad)
			label_say(v->l, r < 0 ? SAY_REFUSED : SAY_NOTE,
			    "%s:%d: object %zu (%.60s): %s", v->path, o->line, i + 1, o->name, bad);
		if (r >= 0 && label_again(&v->seen, it, &b))
			label_say(v->l, SAY_NOTE, "%s:%d: object %zu (%.60s): the same box again, "
			    "kept once", v->path, o->line, i + 1, o->name);
		else if (r >= 0)
			label_box(it, &b);
	}
}

static void
one_xml(struct labels *l, const char *path)
{
	struct voc *v = (struct voc *)xcalloc(1, sizeof *v);
	const char *base = path_base(path), *dot = strrchr(base, '.');
	char *stem = xasprintf("%.*s", (int)(dot ? dot - base : (long)strlen(base)), base), *text,
	     *pic, *name;
	struct item *it;
	int w, h, t, turn = 1, orientation = 0;
	struct err why;
	size_t n;

	v->l = l;
	v->path = path;
	if (!(text = plain_read(path, 1 << 28, &n, &v->why)) || parse_xml(v, text, n)) {
		label_say(l, SAY_PICTURE, "%s", v->why.msg);
	} else {
		pic = label_voc_picture(path, v->file, stem, &name);
		it = label_item(l, name, pic);
		free(name);
		if (image_file_size(pic, &w, &h, &orientation, &why))
			w = v->w, h = v->h;
		else if (!l->d->stored && orientation > 4 && (w != v->w || h != v->h)) {
			t = w, w = h, h = t;	/* the xml does not say the size as stored */
			turn = 0;
		}
		if (w > 0 && h > 0 && (v->w || v->h) && (w != v->w || h != v->h))
			label_say(l, SAY_NOTE,
			    "%s: says %dx%d, the picture is %dx%d; the picture is right", path,
			    v->w, v->h, w, h);
		it->w = w > 0 && h > 0 ? w : 0;
		it->h = w > 0 && h > 0 ? h : 0;
		add_objects(v, it);
		if (turn && orientation > 4 && !l->d->stored && it->w && it->w != it->h) {
			for (int i = 0; i < it->nbox; i++)
				label_turn(&it->box[i], orientation, w, h);
			it->w = h;
			it->h = w;
		}
		if (orientation > 1 && it->nbox && l->d->stored)
			label_say(l, SAY_NOTE,
			    "%s: EXIF orientation %d is not applied; were the boxes drawn on the "
			    "stored pixels?", pic, orientation);
		free(pic);
	}
	free(text);
	free(stem);
	keys_free(&v->seen);
	free(v->all);
	free(v);
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
whole_folder(struct labels *l, const char *path)
{
	struct label_files all = { NULL, 0, 0 };
	size_t len = strlen(path);
	char *root, *dir;
	int r, n = 0, from = l->d->n;

	while (len > 1 && path[len - 1] == '/')
		len--;
	root = xasprintf("%.*s", (int)len, path);
	dir = path_join(root, "Annotations");
	r = label_walk(dir, &all, l->e);

	for (size_t i = 0; i < all.n && !r; i++) {
		const char *dot = strrchr(path_base(all.v[i]), '.');

		if (!dot || strcasecmp(dot, ".xml"))
			continue;
		one_xml(l, all.v[i]);
		n++;
	}
	if (!r && !n)
		r = err_set(l->e, "%s: no .xml in this folder", dir);
	if (!r)
		label_voc_unlabelled(l, root, from);
	label_files_free(&all);
	free(root);
	free(dir);
	return r;
}

int
label_voc_root(const char *path)
{
	struct label_files all = { NULL, 0, 0 };
	char *dir = path_join(path, "Annotations");
	struct err none;
	int any = label_walk(dir, &all, &none) || !all.n;	/* reading it says what is wrong */

	for (size_t i = 0; i < all.n && !any; i++) {
		const char *dot = strrchr(path_base(all.v[i]), '.');

		any = dot && !strcasecmp(dot, ".xml");
	}
	label_files_free(&all);
	free(dir);
	return any;
}

/* The xml of a line: all of it is the stem, else what stands before the first blank; an extension,
 * which does not belong there, goes where it leads nowhere. */
static char *
listed_xml(const char *root, char *s)
{
	char *end = s + strlen(s), *dot, *xml;

	while (end > s && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = 0;
	xml = xasprintf("%s/Annotations/%s.xml", root, s);
	if (!path_there(xml) && s[strcspn(s, " \t")]) {
		free(xml);
		s[strcspn(s, " \t")] = 0;
		xml = xasprintf("%s/Annotations/%s.xml", root, s);
	}
	dot = strrchr(s, '.');
	if (!path_there(xml) && dot && (image_named(s) || !strcasecmp(dot, ".xml"))) {
		free(xml);
		xml = xasprintf("%s/Annotations/%.*s.xml", root, (int)(dot - s), s);
	}
	return xml;
}

/* ImageSets/Main/train.txt: stems, in the files of single classes followed by 1, 0 or -1. */
static int
split_file(struct labels *l, const char *path)
{
	char *main = path_dir(path), *sets = path_dir(main), *root = path_dir(sets), *s;
	struct text t;
	int r = text_open(&t, path, l->e), n = 0;

	while (!r && (s = text_line(&t))) {
		char *xml;

		s += strspn(s, " \t");
		if (!*s)
			continue;
		n++;
		xml = listed_xml(root, s);
		if (!path_there(xml))
			label_say(
			    l, SAY_PICTURE, "%s:%d: %s: %s", path, t.line, xml, strerror(errno));
		else
			one_xml(l, xml);
		free(xml);
	}
	if (!r)
		free(t.buf);
	free(main);
	free(sets);
	free(root);
	return r ? r : n ? 0 : err_set(l->e, "%s: no pictures in this list", path);
}

/* Classes that this input added, into the order of their names. */
static void
sort_classes(struct dataset *d, int from, int item)
{
	int n = d->nclass - from, *to = (int *)xmalloc((size_t)n * sizeof *to);
	char **name = (char **)xmalloc((size_t)n * sizeof *name);

	memcpy(name, d->class_name + from, (size_t)n * sizeof *name);
	qsort(name, (size_t)n, sizeof *name, by_text);
	for (int i = 0; i < n; i++)
		to[i] = from + (int)((char **)bsearch(&d->class_name[from + i], name, (size_t)n,
		    sizeof *name, by_text) - name);
	for (; item < d->n; item++)
		for (int i = 0; i < d->item[item].nbox; i++)
			if (d->item[item].box[i].cls >= from)
				d->item[item].box[i].cls = to[d->item[item].box[i].cls - from];
	memcpy(d->class_name + from, name, (size_t)n * sizeof *name);
	label_classes_moved(d);
	free(name);
	free(to);
}

void
label_voc_files(struct labels *l, const struct label_files *xml)
{
	int from = l->d->nclass, item = l->d->n;

	for (size_t i = 0; i < xml->n; i++)
		one_xml(l, xml->v[i]);
	if (l->d->nclass > from)
		sort_classes(l->d, from, item);
}

int
label_voc(struct labels *l, const char *path)
{
	int from = l->d->nclass, item = l->d->n, r = 0;
	const char *dot = strrchr(path_base(path), '.');

	if (path_isdir(path))
		r = whole_folder(l, path);
	else if (dot && !strcasecmp(dot, ".xml"))
		one_xml(l, path);
	else
		r = split_file(l, path);
	if (l->d->nclass > from)
		sort_classes(l->d, from, item);
	return r;
}

/* Where the pictures of VOC's annotations lie.
 *
 * ROOT/Annotations/SUB/x.xml is about ROOT/JPEGImages/SUB/x.jpg, or the file that it names; SUB is
 * empty in VOC itself.  An xml elsewhere has its picture beside it. */

/* Below the last folder Annotations or labels of an xml's path: what stands between it and the
 * file, as "a/b", and the folder that holds it.  NULL: there is no such folder.  free() both. */
static char *
split_path(const char *path, char **root)
{
	const char *base = path_base(path), *p = base, *end;

	for (; p > path; p = end) {
		for (end = p - 1; end > path && end[-1] != '/'; end--)
			;
		if ((p - end == 12 && !strncasecmp(end, "Annotations/", 12)) ||
		    (p - end == 7 && !strncasecmp(end, "labels/", 7))) {
			*root = end == path ? xstrdup(".") : xasprintf("%.*s",
			    end - path > 1 ? (int)(end - path - 1) : 1, path);
			return xasprintf("%.*s", base > p ? (int)(base - p - 1) : 0, p);
		}
	}
	*root = NULL;
	return NULL;
}

/* DIR/SUB/NAME with one of the usual extensions; NULL: no such file. */
static char *
with_extension(const char *dir, const char *sub, const char *name)
{
	static const char *const ext[] = { "", ".jpg", ".JPG", ".jpeg", ".png", ".PNG", ".bmp" };
	char *file, *path;

	for (size_t j = 0; j < sizeof ext / sizeof *ext; j++) {
		file = xasprintf("%s%s%s%s", sub, *sub ? "/" : "", name, ext[j]);
		path = path_join(dir, file);
		free(file);
		if (path_there(path) && !path_isdir(path))
			return path;
		free(path);
	}
	return NULL;
}

/* <filename> or the xml's stem, in the usual folders; a path that leads nowhere where it is not
 * there. */
static char *
label_voc_picture(const char *xml, const char *file, const char *stem, char **shown)
{
	static const char *const usual[] = { "JPEGImages", "images" };
	const char *back = strrchr(path_base(file), '\\');	/* a name of Windows */
	const char *name[] = { !*file ? stem : back && back[1] ? back + 1 : path_base(file),
		stem };
	char *dir = path_dir(xml), *root, *below = split_path(xml, &root), *path = NULL;
	char *place[8] = { NULL };
	int n = 0;

	for (int k = 0; k < 2; k++)
		place[n++] = root ? path_join(root, usual[k]) : xasprintf("%s/../%s", dir,
		    usual[k]);
	place[n++] = xstrdup(dir);
	place[n++] = xasprintf("%s/..", dir);
	for (int i = 0; i < 2 && !path; i++)
		for (int k = 0; k < n && !path; k++) {
			if (below && *below && k < 2)
				path = with_extension(place[k], below, name[i]);
			path = path ? path : with_extension(place[k], "", name[i]);
		}
	if (!path && root)
		path = xasprintf("%s/%s%s%s%s", place[0], below, *below ? "/" : "", name[0],
		    strchr(name[0], '.') ? "" : ".jpg");
	else if (!path)
		path = xasprintf("%s/%s", dir, name[0]);
	*shown = xasprintf("%s%s%s", below ? below : "", below && *below ? "/" : "",
	    *file ? name[0] : path_base(path));
	for (int k = 0; k < n; k++)
		free(place[k]);
	free(below);
	free(root);
	free(dir);
	return path;
}

/* Pictures that no annotation is about: VOC cannot tell them from forgotten ones. */
static void
label_voc_unlabelled(struct labels *l, const char *root, int from)
{
	struct label_files used = { NULL, 0, 0 }, all = { NULL, 0, 0 };
	char *dir = path_join(root, "JPEGImages");
	size_t n = 0, first = 0;
	struct err v;

	used.v = (char **)xmalloc((size_t)(l->d->n - from) * sizeof *used.v);
	for (int i = from; i < l->d->n; i++)
		used.v[used.n++] = l->d->item[i].path;
	label_files_sort(&used);
	if (path_isdir(dir) && label_walk(dir, &all, &v))
		label_say(l, SAY_NOTE, "%s", v.msg);
	else
		for (size_t i = all.n; i--;)
			if (image_named(all.v[i]) && !label_files_has(&used, all.v[i])) {
				first = i;
				n++;
			}
	if (n)
		label_say(l, SAY_NOTE, "%s: %zu pictures without an annotation, left out, as %s",
		    dir, n, path_base(all.v[first]));
	label_files_free(&all);
	free(used.v);
	free(dir);
}
