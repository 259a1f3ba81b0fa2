/* labellist.c -- which pictures: lists, darknet's .data, folders.
 *
 * A relative name of a list is looked up from the working directory, as darknet does, then from the
 * list's own folder.  A folder is walked in the order of the names, so that two runs see the same
 * data set. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

int
label_data(struct labels *l, const char *path, const char *split)
{
	char *dir = path_dir(path), *names, *list, *file;
	struct err none;
	int turned, r = -1;

	split = split ? split : "train";
	if (!l->d->nclass && (names = data_value(path, "names", &none))) {
		if (!(file = find_listed(names, dir, &turned)))
			label_say(l, SAY_NOTE, "%s: its names file %s does not exist", path, names);
		else if (labels_names(l->d, file, l->e)) {
			free(file);
			free(names);
			free(dir);
			return -1;
		}
		free(file);
		free(names);
	}
	if ((list = data_value(path, strcmp(split, "val") ? split : "valid", l->e))) {
		if (!(file = find_listed(list, dir, &turned)))
			err_set(l->e, "%s: its list %s does not exist", path, list);
		else
			r = path_isdir(file) ? label_folder(l, file) : label_list(l, file);
		free(file);
	}
	free(list);
	free(dir);
	return r;
}

struct names { char **v; size_t n, cap; };

static void
add(struct names *a, char *s)
{
	a->v = (char **)xgrow(a->v, &a->cap, a->n + 1, sizeof *a->v);
	a->v[a->n++] = s;
}

static void
sort(struct names *a)
{
	if (a->n)
		qsort(a->v, a->n, sizeof *a->v, by_text);
}

struct above { const struct above *up; dev_t dev; ino_t ino; };	/* the folders we are in */

/* All files below a folder, sorted; hidden ones and links back to a folder above are left out. */
static int
walk(const char *dir, const struct above *up, struct names *out, struct err *e)
{
	struct names here = { NULL, 0, 0 };
	struct above me = { up, 0, 0 };
	struct dirent *d;
	struct stat st;
	DIR *f = opendir(dir);
	int r = 0;

	if (!f || fstat(dirfd(f), &st)) {
		err_set(e, "%s: %s", dir, strerror(errno));
		if (f)
			closedir(f);
		return -1;
	}
	me.dev = st.st_dev;
	me.ino = st.st_ino;
	while ((d = readdir(f)))
		if (d->d_name[0] != '.')
			add(&here, xstrdup(d->d_name));
	closedir(f);
	for (; up; up = up->up)
		if (up->dev == me.dev && up->ino == me.ino)
			r = 1;
	sort(&here);
	for (size_t i = 0; i < here.n; i++) {
		char *path = path_join(dir, here.v[i]);

		free(here.v[i]);
		if (!r && !path_isdir(path)) {
			add(out, path);
			continue;
		}
		r = r ? r : walk(path, &me, out, e);
		free(path);
	}
	free(here.v);
	return r < 0 ? -1 : 0;
}

/* Label files that no picture claims: lost data, or a slip in a name. */
static void
orphans(struct labels *l, const struct names *all, int from)
{
	struct names used = { NULL, 0, 0 };
	char *label[2];

	for (int i = from; i < l->d->n; i++) {
		label_paths(l->d->item[i].path, label);
		if (label[1] && !access(label[1], F_OK) && access(label[0], F_OK)) {
			free(label[0]);
			label[0] = label[1];
		} else
			free(label[1]);
		add(&used, label[0]);
	}
	sort(&used);
	for (size_t i = 1; i < used.n; i++)
		if (!strcmp(used.v[i - 1], used.v[i]) && !access(used.v[i], F_OK))
			label_say(l, SAY_NOTE, "%s: used for two pictures of that name", used.v[i]);
	for (size_t i = 0; i < all->n; i++) {
		const char *path = all->v[i], *dot = strrchr(path_base(path), '.');
		char *dir = xasprintf("/%s", path);

		if (strstr(dir, "/labels/") && dot && !strcmp(dot, ".txt") &&
		    strcmp(path_base(path), "classes.txt") &&
		    (!used.n || !bsearch(&path, used.v, used.n, sizeof *used.v, by_text)))
			label_say(l, SAY_NOTE, "%s: a label without a picture", path);
		free(dir);
	}
	for (size_t i = 0; i < used.n; i++)
		free(used.v[i]);
	free(used.v);
}

int
label_folder(struct labels *l, const char *path)
{
	struct names all = { NULL, 0, 0 };
	int r = walk(path, NULL, &all, l->e), from = l->d->n, pictures = 0;
	char *probe = path_join(path, "x.jpg"), *label[2];

	for (size_t i = 0; i < all.n && !r; i++)
		if (label_is_picture(all.v[i])) {
			label_picture(l, all.v[i], all.v[i], NULL);
			pictures++;
		}
	if (!r && !pictures)
		r = err_set(l->e, "%s: no pictures in this folder", path);
	label_paths(probe, label);	/* a folder .../images: its labels lie elsewhere */
	if (!r && label[1]) {
		char *dir = path_dir(label[1]);

		if (path_isdir(dir))
			r = walk(dir, NULL, &all, l->e);
		free(dir);
	}
	if (!r)
		orphans(l, &all, from);
	for (size_t i = 0; i < all.n; i++)
		free(all.v[i]);
	free(all.v);
	free(label[0]);
	free(label[1]);
	free(probe);
	return r;
}
