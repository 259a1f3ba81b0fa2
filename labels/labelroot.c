/* labelroot.c -- the root of a data set: a folder with a training part and others in it.
 *
 * Told by a data.yaml, VOC's ImageSets/Main, COCO's annotations by part, or folders called train,
 * val, test, also below images/.  One part is read, that of training unless another is asked for:
 * to pack them together would train on what validates. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "labels/int.h"

enum { NONE, TRAIN, VAL, TEST, PARTS };
static const char *const part_name[PARTS] = { "", "train", "val", "test" };

/* The part that a word means: train, training, val2017, valid, ...; n its length. */
static int
part_of(const char *s, size_t n)
{
	static const struct { const char *word; int part; } known[] = { { "train", TRAIN },
		{ "training", TRAIN }, { "val", VAL }, { "valid", VAL }, { "validation", VAL },
		{ "test", TEST }, { "testing", TEST } };

	while (n && isdigit((unsigned char)s[n - 1]))
		n--;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strlen(known[i].word) == n && !strncasecmp(s, known[i].word, n))
			return known[i].part;
	return NONE;
}

/* The part that stands as a word in a file's name: instances_train2017.json. */
static int
part_in(const char *s)
{
	int part = NONE;

	for (size_t n; *s && !part; s += n + (s[n] != 0)) {
		n = strcspn(s, "_-. ");
		part = part_of(s, n);
	}
	return part;
}

enum root_kind { BY_YAML, BY_VOC, BY_COCO, BY_FOLDER };
struct root {
	const char *path;
	char *part[PARTS];		/* what is read for each part */
	enum root_kind kind;
	struct err *e;			/* what could not be looked at might be a part */
	int bad;
};

static int
parts(const struct root *r)
{
	return (r->part[TRAIN] != NULL) + (r->part[VAL] != NULL) + (r->part[TEST] != NULL);
}

static void
forget(struct root *r)
{
	for (int i = 0; i < PARTS; i++) {
		free(r->part[i]);
		r->part[i] = NULL;
	}
}

/* Folders of the parts, the first by name where there are several. */
static void
folders(struct root *r, const char *dir)
{
	struct label_files here = { NULL, 0, 0 };

	r->bad |= label_names(dir, &here, r->e) < 0;
	for (size_t i = 0; i < here.n; i++) {
		int k = part_of(here.v[i], strlen(here.v[i]));
		char *path = path_join(dir, here.v[i]);

		if (k && path_isdir(path) && (!r->part[k] || strcmp(path, r->part[k]) < 0)) {
			free(r->part[k]);
			r->part[k] = path;
		} else
			free(path);
	}
	label_files_free(&here);
}

/* COCO's json of each part; of several the one named instances. */
static void
jsons(struct root *r, const char *dir)
{
	struct label_files here = { NULL, 0, 0 };

	r->bad |= label_names(dir, &here, r->e) < 0;
	for (size_t i = 0; i < here.n && !r->bad; i++) {
		const char *name = here.v[i], *dot = strrchr(name, '.');
		int k = dot && !strcasecmp(dot, ".json") ? part_in(name) : NONE;
		char *path = path_join(dir, name);
		int coco = k ? label_is_coco(path, r->e) : 0;

		r->bad |= coco < 0;
		if (coco > 0 && (!r->part[k] ||
		    !strncmp(name, "instances", 9) || (strcmp(path, r->part[k]) < 0 &&
		    strncmp(path_base(r->part[k]), "instances", 9)))) {
			free(r->part[k]);
			r->part[k] = path;
		} else
			free(path);
	}
	label_files_free(&here);
}

static void
voc_sets(struct root *r)
{
	char *path;

	for (int k = TRAIN; k < PARTS; k++) {
		path = xasprintf("%s/ImageSets/Main/%s.txt", r->path, part_name[k]);
		if (path_there(path))
			r->part[k] = path;
		else
			free(path);
	}
}

/* data.yaml, else the only .yaml; each of its parts that leads somewhere. */
static void
yaml(struct root *r)
{
	struct label_files here = { NULL, 0, 0 };
	char *found = NULL;
	int n = 0;

	r->bad |= label_names(r->path, &here, r->e) < 0;
	for (size_t i = 0; i < here.n && n >= 0; i++) {
		const char *name = here.v[i], *dot = strrchr(name, '.');

		if (!dot || (strcasecmp(dot, ".yaml") && strcasecmp(dot, ".yml")))
			continue;
		if (n++ && strncasecmp(name, "data.", 5))
			continue;
		free(found);
		found = path_join(r->path, name);
		n = strncasecmp(name, "data.", 5) ? n : -1;	/* none after it */
	}
	label_files_free(&here);
	if (found && path_isdir(found))
		n = 2;
	for (int k = TRAIN; k < PARTS && found && n <= 1 && !r->bad; k++) {
		int leads = label_yaml_leads(found, part_name[k], r->e);

		r->bad |= leads < 0;
		if (leads > 0)
			r->part[k] = xstrdup(found);
	}
	free(found);
}

/* What kind of root it is: the first that has two parts.  0: none. */
static int
look(struct root *r, const char *path, struct err *e)
{
	static const char *const below[] = { "annotations", "Annotations", "images", "JPEGImages" };
	char *dir;

	memset(r, 0, sizeof *r);
	r->path = path;
	r->e = e;
	for (int i = 0; i < 8 && !r->bad && parts(r) < 2; i++) {
		forget(r);
		dir = i > 2 && i < 7 ? path_join(path, below[i - 3]) : xstrdup(path);
		if (i == 0) {
			r->kind = BY_YAML;
			yaml(r);
		} else if (i == 1) {
			r->kind = BY_VOC;
			voc_sets(r);
		} else if (i < 5) {
			r->kind = BY_COCO;
			jsons(r, dir);
		} else {
			r->kind = BY_FOLDER;
			folders(r, dir);
		}
		free(dir);
	}
	return !r->bad && parts(r) > 1;
}

/* Where the pictures of a part of COCO may lie: a folder of the json's last word, or images/. */
static int
coco_part(struct labels *l, const struct root *r, int k)
{
	const char *json = r->part[k];
	struct root pics = { .path = r->path, .e = l->e };
	char *images = path_join(r->path, "images");
	int bad;

	folders(&pics, images);
	if (!pics.part[k])
		folders(&pics, r->path);
	bad = pics.bad ? -1 : label_coco(l, json, NULL, pics.part[k] ? pics.part[k] :
	    path_isdir(images) ? images : r->path);
	forget(&pics);
	free(images);
	return bad;
}

static int
read_part(struct labels *l, const struct root *r, int k)
{
	switch (r->kind) {
	case BY_YAML: return label_yaml(l, r->part[k], part_name[k]);
	case BY_VOC: return label_voc(l, r->part[k]);
	case BY_COCO: return coco_part(l, r, k);
	default: return label_folder(l, r->part[k]);
	}
}

/* "val, test": the parts but one. */
static char *
others(const struct root *r, int but)
{
	char *all = xstrdup(""), *more;

	for (int k = TRAIN; k < PARTS; k++)
		if (r->part[k] && k != but) {
			more = xasprintf("%s%s%s", all, *all ? ", " : "", part_name[k]);
			free(all);
			all = more;
		}
	return all;
}

int
label_root(struct labels *l, const char *path, const char *split)
{
	struct root r;
	int k = split ? part_of(split, strlen(split)) : NONE, bad = 1;
	char *rest;

	if (!look(&r, path, l->e)) {
		forget(&r);
		return r.bad ? -1 : 1;
	}
	rest = others(&r, k);
	if (!k)
		label_say(l, SAY_PART, "%s: all of its parts, %s", path, rest);
	else if (!r.part[k])
		bad = err_set(l->e, "%s: it has no %s part; it has %s (-O split=, or FOLDER:PART)",
		    path, part_name[k], rest);
	else {
		label_say(l, SAY_PART, "%s: %s part (%s); not %s", path, part_name[k], r.part[k],
		    rest);
		bad = read_part(l, &r, k);
	}
	free(rest);
	forget(&r);
	return bad;
}
