/* labelwalk.c -- folders of pictures and labels.
 *
 * A folder is walked in the order of the names, so that two runs see the same data set.  What lies
 * in it and is not used, but looks as if it should be, is told: a label without its picture, a
 * picture by another name. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "yolo.h"

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
add(struct label_files *a, char *s)
{
	a->v = (char **)xgrow(a->v, &a->cap, a->n + 1, sizeof *a->v);
	a->v[a->n++] = s;
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

/* Hidden files and links back to a folder above are left out. */
static int
walk(const char *dir, const struct above *up, struct label_files *out, struct err *e)
{
	struct label_files here = { NULL, 0, 0 };
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
	for (errno = 0; (d = readdir(f)); errno = 0)
		if (d->d_name[0] != '.')
			add(&here, xstrdup(d->d_name));
	if (errno)
		r = err_set(e, "%s: %s", dir, strerror(errno));
	closedir(f);
	for (; up && !r; up = up->up)
		r = up->dev == me.dev && up->ino == me.ino;
	label_files_sort(&here);
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

/* The first bytes of a regular file; how many. */
static size_t
peek(const char *path, char *head, size_t n)
{
	struct stat st;			/* a pipe would wait for its writer */
	FILE *f = stat(path, &st) || !S_ISREG(st.st_mode) ? NULL : fopen(path, "rb");
	size_t got = f ? fread(head, 1, n - 1, f) : 0;

	if (f)
		fclose(f);
	head[got] = 0;
	return got;
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
		if (label[1] && !access(label[1], F_OK) && access(label[0], F_OK)) {
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

int
label_folder(struct labels *l, const char *path)
{
	struct label_files all = { NULL, 0, 0 };
	int r = label_walk(path, &all, l->e), from = l->d->n, pictures = 0;
	char *probe = path_join(path, "x.jpg"), *label[2];

	for (size_t i = 0; i < all.n && !r; i++)
		if (image_named(all.v[i])) {
			label_picture(l, all.v[i], all.v[i], NULL);
			pictures++;
		}
	if (!r && !pictures)
		r = err_set(l->e, "%s: no pictures in this folder", path);
	label_paths(probe, label);	/* a folder .../images: its labels lie elsewhere */
	if (!r && label[1]) {
		char *dir = path_dir(label[1]);

		if (path_isdir(dir))
			r = label_walk(dir, &all, l->e);
		free(dir);
	}
	if (!r)
		orphans(l, &all, from);
	label_files_free(&all);
	free(label[0]);
	free(label[1]);
	free(probe);
	return r;
}
