/* labellist.c -- which pictures: lists, darknet's .data.
 *
 * A relative name of a list is looked up from the working directory, as darknet does, then from the
 * list's own folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"

static char *
trim(char *s)
{
	char *end;

	s += strspn(s, " \t");
	for (end = s + strlen(s); end > s && (end[-1] == ' ' || end[-1] == '\t');)
		*--end = 0;
	return s;
}

/* Where a name of a list leads: working directory, list's folder; then with the backslashes of
 * Windows turned.  NULL: nowhere. */
static char *
find_listed(const char *name, const char *dir, int *turned)
{
	char *path = xstrdup(name), *other;

	*turned = 0;
	for (;;) {
		if (!access(path, F_OK))
			return path;
		other = path_join(dir, path);
		if (!access(other, F_OK)) {
			free(path);
			return other;
		}
		free(other);
		if (*turned || !strchr(path, '\\'))
			break;
		*turned = 1;
		for (char *p = path; *p; p++)
			*p = *p == '\\' ? '/' : *p;
	}
	free(path);
	return NULL;
}

static void
listed(struct labels *l, const char *list, int line, char *name, const char *dir, int *said)
{
	char *path, *from;
	int turned;

	if (!(path = find_listed(name, dir, &turned))) {
		if (*name == '#')
			label_say(l, SAY_NOTE, "%s:%d: a comment, skipped", list, line);
		else
			label_say(
			    l, SAY_PICTURE, "%s:%d: %s: %s", list, line, name, strerror(ENOENT));
		return;
	}
	if (turned && !*said) {
		label_say(l, SAY_NOTE, "%s:%d: backslashes taken as slashes", list, line);
		*said = 1;
	}
	from = xasprintf("%s:%d", list, line);
	if (path_isdir(path))
		label_say(l, SAY_PICTURE, "%s: %s: a folder, want a picture", from, path);
	else
		label_picture(l, turned ? path : name, path, from);
	free(from);
	free(path);
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Say how many pictures stand there more than once. */
static void
note_repeats(struct labels *l, const char *list, int from)
{
	int n = l->d->n - from, again = 0;
	char **path = (char **)xmalloc((size_t)n * sizeof *path);

	for (int i = 0; i < n; i++)
		path[i] = l->d->item[from + i].path;
	if (n)
		qsort(path, (size_t)n, sizeof *path, by_text);
	for (int i = 1; i < n; i++)
		again += !strcmp(path[i - 1], path[i]);
	free(path);
	if (again)
		label_say(l, SAY_NOTE, "%s: %d pictures are listed again, kept", list, again);
}

/* NUL-separated names from stdin. */
static int
open_nul(struct text *t, struct err *e)
{
	size_t n;

	memset(t, 0, sizeof *t);
	if (!(t->buf = file_read("-", (size_t)1 << 32, &n, e)))
		return -1;
	t->p = t->buf;
	t->end = t->buf + n;
	t->nul = 1;
	return 0;
}

int
label_list(struct labels *l, const char *path)
{
	const char *shown = *path == '-' && (!path[1] || !strcmp(path, "-0")) ? "stdin" : path;
	char *dir = shown == path ? path_dir(path) : xstrdup("."), *s;
	int from = l->d->n, said = 0;
	long bad = l->d->bad;
	struct text t;

	if (!strcmp(path, "-0") ? open_nul(&t, l->e) : text_open(&t, path, l->e)) {
		free(dir);
		return -1;
	}
	while ((s = text_line(&t)))
		if (*(s = t.nul ? s : trim(s)))
			listed(l, shown, t.line, s, dir, &said);
	free(t.buf);
	free(dir);
	if (l->d->n == from && l->d->bad == bad)
		return err_set(l->e, "%s: no pictures in this list", shown);
	note_repeats(l, shown, from);
	return 0;
}

/* key = value lines; the value of a key, NULL where it is not there.  free() */
static char *
data_value(const char *path, const char *key, struct err *e)
{
	struct text t;
	char *s, *eq, *value = NULL;

	if (text_open(&t, path, e))
		return NULL;
	while (!value && (s = text_line(&t))) {
		s = trim(s);
		if (*s == '#' || *s == ';' || !(eq = strchr(s, '=')))
			continue;
		*eq = 0;
		if (!strcmp(trim(s), key))
			value = xstrdup(trim(eq + 1));
	}
	free(t.buf);
	if (!value)
		err_set(e, "%s: no line '%s = ...'", path, key);
	return value;
}

/* The class names of a .data file; -1: they are there and cannot be read. */
static int
data_names(struct labels *l, const char *path, const char *dir)
{
	struct dataset own;
	struct err none;
	char *names = data_value(path, "names", &none), *file;
	int turned, r = 0;

	if (!names)
		return 0;
	memset(&own, 0, sizeof own);
	if (!(file = find_listed(names, dir, &turned)))
		label_say(l, SAY_NOTE, "%s: its names file %s does not exist", path, names);
	else if (!(r = labels_names(&own, file, l->e)))
		label_map(l, file, own.class_name, own.nclass);
	labels_close(&own);
	free(file);
	free(names);
	return r;
}

int
label_data(struct labels *l, const char *path, const char *split)
{
	char *dir = path_dir(path), *list = NULL, *file;
	int turned, r = data_names(l, path, dir);

	split = split ? split : "train";
	if (!r && !(list = data_value(path, strcmp(split, "val") ? split : "valid", l->e)))
		r = -1;
	else if (!r && !(file = find_listed(list, dir, &turned)))
		r = err_set(l->e, "%s: its list %s does not exist", path, list);
	else if (!r) {
		r = path_isdir(file) ? label_folder(l, file) : label_list(l, file);
		free(file);
	}
	free(list);
	free(dir);
	return r;
}
