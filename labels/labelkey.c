/* labelkey.c -- the key to the class numbers of YOLO labels that lies beside them.
 *
 * labelImg writes classes.txt anew in each folder, in the order in which the classes were used
 * there, so the numbers of two folders need not mean the same.  Roboflow's darknet export has
 * _darknet.labels, CVAT's obj.names.  Names that the input itself gives (data.yaml, .data) count
 * before it; where both are there and differ, that is told. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "labels/int.h"

/* In the folder of the labels, or above its last folder labels/ or obj_train_data/.  free() */
static char *
key_file(const char *dir)
{
	static const char *const name[] = { "classes.txt", "_darknet.labels", "obj.names" };
	char *place = xstrdup(dir), *up, *file;

	for (int last = 0;; last = !strcmp(path_base(place), "labels") ||
	    !strcmp(path_base(place), "obj_train_data")) {
		for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
			file = path_join(place, name[i]);
			if (path_there(file) && !path_isdir(file)) {
				free(place);
				return file;
			}
			free(file);
		}
		if (last || (!strstr(place, "labels") && !strstr(place, "obj_train_data")))
			break;
		up = path_dir(place);
		free(place);
		place = up;
	}
	free(place);
	return NULL;
}

/* How many of these names are in the table; *same: all, and at their places. */
static int
known(struct dataset *d, const struct dataset *own, int *same)
{
	int n = 0;

	*same = 1;
	for (int i = 0; i < own->nclass; i++) {
		int at = label_find_class(d, own->class_name[i], i);

		n += at >= 0;
		*same &= at == i;
	}
	return n;
}

/* A map from the key's numbers to the table.  NULL: numbers are places in the table. */
static void
map_key(struct labels *l, const char *file, struct key *k)
{
	struct dataset own = { 0 };
	struct err why;
	int same, had, *map = l->map, nmap = l->nmap;

	if (labels_names(&own, file, &why)) {
		label_say(l, SAY_NOTE, "%s; not used as class names", why.msg);
		labels_close(&own);
		return;
	}
	had = known(l->d, &own, &same);
	if (l->named_by) {
		for (int i = 0; i < own.nclass && same; i++)
			same = i < nmap && map[i] == i;
		if (!same)
			label_say(l, SAY_NOTE, "%s: other names, or in another order, than %s, "
			    "which is taken", file, l->named_by);
	} else if (l->d->fixed && !had)
		label_say(l, SAY_NOTE, "%s: none of its names is among those given, so it is not "
		    "used: numbers are places in those", file);
	else {
		if (l->d->nclass && !same)
			label_say(l, SAY_NOTE, "%s: not the order of the names before it; its "
			    "labels are matched by name", file);
		l->map = NULL;
		label_map(l, file, own.class_name, own.nclass);
		k->map = l->map;
		k->n = l->nmap;
		l->map = map;
		l->nmap = nmap;
	}
	labels_close(&own);
}

void
label_key(struct labels *l, const char *label)
{
	char *dir = path_dir(label), *file;
	size_t i = l->nkey;

	while (i && strcmp(l->key[i - 1].dir, dir))	/* the last one is the likely one */
		i--;
	if (i--) {
		free(dir);
	} else {
		struct key k = { dir, NULL, 0 };

		if ((file = key_file(dir)))
			map_key(l, file, &k);
		free(file);
		l->key = (struct key *)xgrow(l->key, &l->key_cap, l->nkey + 1, sizeof *l->key);
		l->key[i = l->nkey++] = k;
	}
	if (l->named_by)
		return;
	l->map = l->key[i].map;
	l->nmap = l->key[i].n;
}

void
label_keys_close(struct labels *l)
{
	for (size_t i = 0; i < l->nkey; i++) {
		free(l->key[i].dir);
		free(l->key[i].map);
	}
	if (!l->named_by)		/* the map was a key's */
		l->map = NULL;
	free(l->key);
	l->key = NULL;
	l->nkey = l->key_cap = 0;
}
