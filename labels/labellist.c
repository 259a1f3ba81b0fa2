/* labellist.c -- which pictures: lists, darknet's .data, folders.
 *
 * A relative name of a list is looked up from the working directory, as darknet does, then from the
 * list's own folder. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "labels/int.h"
#include "image/image.h"

static char *
trim(char *s)
{
	char *end;

	s += strspn(s, " \t");
	for (end = s + strlen(s); end > s && (end[-1] == ' ' || end[-1] == '\t');)
		*--end = 0;
	return s;
}

/* A comment is no name, however long. */
static int
there(const char *path, int comment)
{
	return comment ? !access(path, F_OK) : path_there(path);
}

/* Where a name leads: from the working directory, then from the list's folder.  NULL: nowhere. */
static char *
leads(const char *name, const char *dir)
{
	char *path = there(name, *name == '#') ? xstrdup(name) : path_join(dir, name);

	if (*name && there(path, *name == '#'))
		return path;
	free(path);
	return NULL;
}

int
label_windows(const char *name)
{
	return strchr(name, '\\') || (isalpha((unsigned char)*name) && name[1] == ':' &&
	    name[2] == '/');
}

char *
label_turned(const char *name)
{
	int drive = isalpha((unsigned char)*name) && name[1] == ':';
	char *s = xstrdup(name + (drive ? 2 : 0));

	for (char *p = s; *p; p++)
		*p = *p == '\\' ? '/' : *p;
	if (drive)
		memmove(s, s + strspn(s, "/"), strlen(s) - strspn(s, "/") + 1);
	return s;
}

const char *
label_shorter(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && slash[1] ? slash + 1 : NULL;
}

/* The same; where there is nothing, with the backslashes of Windows turned, in the name too; of a
 * name on a drive as much of its end as leads anywhere. */
static char *
leads_turned(char *name, const char *dir, int *turned)
{
	char *path = leads(name, dir), *other;
	const char *rest;
	int drive = name[0] && name[1] == ':';

	*turned = 0;
	if (path || !label_windows(name))
		return path;
	other = label_turned(name);
	for (rest = other; rest && !path; rest = drive ? label_shorter(rest) : NULL)
		if ((path = leads(rest, dir)))
			memmove(name, rest, strlen(rest) + 1);
	*turned = path != NULL;
	free(other);
	return path;
}

int
label_line(const char *line, const char *dir, int exact, struct label_line *out)
{
	char *copy = xstrdup(line);

	out->turned = 0;
	if ((out->path = leads(copy, dir)) || exact)
		out->name = copy;
	else {
		out->name = xstrdup(trim(copy));
		free(copy);
	}
	if (!out->path)
		out->path = leads_turned(out->name, dir, &out->turned);
	if (out->path)
		return LINE_PICTURE;
	return !*out->name ? LINE_EMPTY : *out->name == '#' ? LINE_COMMENT : LINE_NOWHERE;
}

static void
listed(struct labels *l, const char *list, const struct text *t, const char *line, const char *dir,
    int *said)
{
	struct label_line at;
	int kind = label_line(line, dir, t->nul, &at);
	char *from = xasprintf("%s:%d", list, t->line);

	if (kind == LINE_COMMENT)
		label_say(l, SAY_NOTE, "%s: a comment, skipped", from);
	else if (kind == LINE_NOWHERE)
		label_say(l, SAY_PICTURE, "%s: %s: %s", from, at.name, strerror(ENOENT));
	if (at.turned && !*said) {
		label_say(l, SAY_NOTE, "%s: backslashes taken as slashes", from);
		*said = 1;
	}
	if (kind == LINE_PICTURE && path_isdir(at.path))
		label_say(l, SAY_PICTURE, "%s: %s: a folder, want a picture", from, at.path);
	else if (kind == LINE_PICTURE)
		label_picture(l, at.name, at.path, from);
	free(from);
	free(at.name);
	free(at.path);
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

/* Nothing but backgrounds, and no label that was refused either. */
static int
no_boxes(const struct labels *l, int from, long refused)
{
	long n = l->d->refused - refused;

	for (; from < l->d->n && !n; from++)
		n = l->d->item[from].nbox;
	return !n;
}

int
label_list(struct labels *l, const char *path)
{
	const char *shown = *path == '-' && (!path[1] || !strcmp(path, "-0")) ? "stdin" : path;
	char *dir = shown == path ? path_dir(path) : xstrdup("."), *s;
	int from = l->d->n, said = 0;
	long bad = l->d->bad, refused = l->d->refused;
	struct text t;

	if (!strcmp(path, "-0") ? open_nul(&t, l->e) : text_open(&t, path, l->e)) {
		free(dir);
		return -1;
	}
	while ((s = text_line(&t)))
		listed(l, shown, &t, s, dir, &said);
	free(t.buf);
	free(dir);
	if (l->d->n == from && l->d->bad == bad)
		return err_set(l->e, "%s: no pictures in this list", shown);
	note_repeats(l, shown, from);
	return no_boxes(l, from, refused) ? label_overlooked(l, shown, from, NULL) : 0;
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
	if (!(file = leads_turned(names, dir, &turned)))
		label_say(l, SAY_NOTE, "%s: its names file %s does not exist", path, names);
	else if (!(r = labels_names(&own, file, l->e))) {
		label_map(l, file, own.class_name, own.nclass);
		l->named_by = path;
	}
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
	else if (!r && !(file = leads_turned(list, dir, &turned)))
		r = err_set(l->e, "%s: its list %s does not exist", path, list);
	else if (!r) {
		r = path_isdir(file) ? label_folder(l, file) : label_list(l, file);
		free(file);
	}
	free(list);
	free(dir);
	return r;
}

/* Folders of pictures and labels.
 *
 * A folder is walked in the order of the names, so that two runs see the same data set.  What lies
 * in it and is not used, but looks as if it should be, is told: a label without its picture, a
 * picture by another name. */

static void
add(struct label_files *a, char *s)
{
	a->v = (char **)xgrow(a->v, &a->cap, a->n + 1, sizeof *a->v);
	a->v[a->n++] = s;
}

void
label_files_add(struct label_files *a, const char *path)
{
	add(a, xstrdup(path));
}

void
label_files_sort(struct label_files *a)
{
	if (a->n)
		qsort(a->v, a->n, sizeof *a->v, by_text);
}

int
label_files_has(const struct label_files *a, const char *path)
{
	return a->n && bsearch(&path, a->v, a->n, sizeof *a->v, by_text);
}

void
label_files_free(struct label_files *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i]);
	free(a->v);
	memset(a, 0, sizeof *a);
}

struct above { const struct above *up; dev_t dev; ino_t ino; };	/* the folders we are in */

int
label_names(const char *dir, struct label_files *out, struct err *e)
{
	DIR *f = opendir(dir);
	struct dirent *d;
	int bad = !f && errno != ENOENT && errno != ENOTDIR ? errno : 0;

	for (errno = 0; f && (d = readdir(f)); errno = 0)
		if (d->d_name[0] != '.')
			add(out, xstrdup(d->d_name));
	if (f) {
		bad = errno;
		closedir(f);
	}
	label_files_sort(out);
	return bad ? err_set(e, "%s: %s", dir, strerror(bad)) : 0;
}

/* Links back to a folder above are left out. */
static int
walk(const char *dir, const struct above *up, struct label_files *out, struct err *e)
{
	struct label_files here = { NULL, 0, 0 };
	struct above me = { up, 0, 0 };
	struct stat st;
	int r = 0;

	if (stat(dir, &st))
		return err_set(e, "%s: %s", dir, strerror(errno));
	me.dev = st.st_dev;
	me.ino = st.st_ino;
	r = label_names(dir, &here, e);
	for (; up && !r; up = up->up)
		r = up->dev == me.dev && up->ino == me.ino;
	for (size_t i = 0; i < here.n; i++) {
		char *path = path_join(dir, here.v[i]);

		if (!r && !path_isdir(path)) {
			add(out, path);
			continue;
		}
		r = r ? r : walk(path, &me, out, e);
		free(path);
	}
	label_files_free(&here);
	return r < 0 ? -1 : 0;
}

int
label_walk(const char *dir, struct label_files *out, struct err *e)
{
	return walk(dir, NULL, out, e);
}

/* The first bytes of a file that is not used; how many. */
static size_t
peek(const char *path, char *head, size_t n)
{
	struct err none;
	long got = file_head(path, head, n - 1, &none);

	head[got > 0 ? got : 0] = 0;
	return got > 0 ? (size_t)got : 0;
}

/* The label files in use, and the folders where the pictures' labels may lie. */
static void
in_use(struct labels *l, int from, struct label_files *used, struct label_files *dirs)
{
	char *label[2];

	for (int i = from; i < l->d->n; i++) {
		label_paths(l->d->item[i].path, label);
		add(dirs, path_dir(label[0]));
		if (label[1])
			add(dirs, path_dir(label[1]));
		if (label[1] && path_there(label[1]) && !path_there(label[0])) {
			free(label[0]);
			label[0] = label[1];
		} else
			free(label[1]);
		add(used, label[0]);
	}
	label_files_sort(used);
	label_files_sort(dirs);
	for (size_t i = 1; i < used->n; i++)
		if (!strcmp(used->v[i - 1], used->v[i]) && !access(used->v[i], F_OK))
			label_say(
			    l, SAY_NOTE, "%s: used for two pictures of that name", used->v[i]);
}

/* Files that no picture claims: lost data, or a slip in a name. */
static void
orphans(struct labels *l, const struct label_files *all, int from)
{
	struct label_files used = { NULL, 0, 0 }, dirs = { NULL, 0, 0 };
	char head[256];
	double v[5];

	in_use(l, from, &used, &dirs);
	for (size_t i = 0; i < all->n; i++) {
		const char *path = all->v[i], *base = path_base(path), *dot = strrchr(base, '.');
		char *whole = xasprintf("/%s", path), *dir = path_dir(path);
		size_t n;

		if (image_named(path))
			;
		else if (!dot || strcasecmp(dot, ".txt")) {
			n = peek(path, head, sizeof head);
			if (image_format(head, n) != IMG_UNKNOWN && memcmp(head, "BM", 2))
				label_say(l, SAY_NOTE, "%s: holds a picture, but its name does not "
				    "say so; left out", path);
		} else if (strcmp(base, "classes.txt") && !label_files_has(&used, path) &&
		    (strstr(whole, "/labels/") || (label_files_has(&dirs, dir) &&
		    peek(path, head, sizeof head) && sscanf(head, "%lf %lf %lf %lf %lf", v, v + 1,
		    v + 2, v + 3, v + 4) == 5)))
			label_say(l, SAY_NOTE, "%s: a label without a picture%s", path,
			    strcmp(dot, ".txt") ? "; want .txt" : "");
		free(whole);
		free(dir);
	}
	label_files_free(&used);
	label_files_free(&dirs);
}

/* Has any of the pictures a YOLO label? */
static int
any_label(const struct label_files *all)
{
	char *label[2];
	int any = 0;

	for (size_t i = 0; i < all->n && !any; i++)
		if (image_named(all->v[i])) {
			label_paths(all->v[i], label);
			any = path_there(label[0]) || (label[1] && path_there(label[1]));
			free(label[0]);
			free(label[1]);
		}
	return any;
}

/* The pictures of a folder with their YOLO labels. */
static int
yolo_folder(struct labels *l, const char *path, struct label_files *all)
{
	int r = 0, from = l->d->n;
	long refused = l->d->refused;
	char *probe = path_join(path, "x.jpg"), *label[2];

	for (size_t i = 0; i < all->n; i++)
		if (image_named(all->v[i]))
			label_picture(l, all->v[i], all->v[i], NULL);
	label_paths(probe, label);	/* a folder .../images: its labels lie elsewhere */
	if (label[1]) {
		char *dir = path_dir(label[1]);

		if (path_isdir(dir))
			r = label_walk(dir, all, l->e);
		free(dir);
	}
	if (!r)
		orphans(l, all, from);
	if (!r && no_boxes(l, from, refused))
		r = label_overlooked(l, path, from, all);
	free(label[0]);
	free(label[1]);
	free(probe);
	return r;
}

int
label_folder(struct labels *l, const char *path)
{
	struct label_files all = { NULL, 0, 0 };
	int r = label_walk(path, &all, l->e), pictures = 0;

	for (size_t i = 0; i < all.n && !r; i++)
		pictures += image_named(all.v[i]);
	if (!r && !pictures)
		r = err_set(l->e, "%s: no pictures in this folder", path);
	if (!r && !any_label(&all))
		r = label_beside(l, path, &all);
	r = r ? r : yolo_folder(l, path, &all);
	label_files_free(&all);
	return r < 0 ? -1 : 0;
}
