/* labelvocpic.c -- where the pictures of VOC's annotations lie.
 *
 * ROOT/Annotations/SUB/x.xml is about ROOT/JPEGImages/SUB/x.jpg, or the file that it names; SUB is
 * empty in VOC itself.  An xml elsewhere has its picture beside it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"

/* Below the last folder Annotations of an xml's path: what stands between it and the file, as
 * "a/b", and the folder that holds it.  NULL: there is no such folder.  free() both. */
static char *
split_path(const char *path, char **root)
{
	const char *base = path_base(path), *p = base, *end;

	for (; p > path; p = end) {
		for (end = p - 1; end > path && end[-1] != '/'; end--)
			;
		if (p - end == 12 && !memcmp(end, "Annotations/", 12)) {
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
		if (!access(path, F_OK) && !path_isdir(path))
			return path;
		free(path);
	}
	return NULL;
}

/* <filename> or the xml's stem, in the usual folders; a path that leads nowhere where it is not
 * there. */
char *
label_voc_picture(const char *xml, const char *file, const char *stem, char **shown)
{
	static const char *const usual[] = { "JPEGImages", "images" };
	const char *name[] = { *file ? path_base(file) : stem, stem };
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
	    *file ? path_base(file) : path_base(path));
	for (int k = 0; k < n; k++)
		free(place[k]);
	free(below);
	free(root);
	free(dir);
	return path;
}

/* Pictures that no annotation is about: VOC cannot tell them from forgotten ones. */
void
label_voc_unlabelled(struct labels *l, const char *root, int from)
{
	struct label_files used = { NULL, 0, 0 }, all = { NULL, 0, 0 };
	char *dir = path_join(root, "JPEGImages");
	size_t n = 0, first = 0;
	struct err none;

	used.v = (char **)xmalloc((size_t)(l->d->n - from) * sizeof *used.v);
	for (int i = from; i < l->d->n; i++)
		used.v[used.n++] = l->d->item[i].path;
	label_files_sort(&used);
	if (path_isdir(dir) && !label_walk(dir, &all, &none))
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
