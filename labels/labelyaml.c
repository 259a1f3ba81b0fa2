/* labelyaml.c -- ultralytics' data.yaml: path, train/val/test, names as a list or a map.
 *
 * The file is read as events; only the top level and one level below it matter.  `path` and the
 * splits are looked up from the yaml's own folder, then from the working directory. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yaml.h>

#include "labels/int.h"

enum { MAX_DEPTH = 64 };

struct yaml {
	struct labels *l;
	const char *path;
	char *root, *key;		/* key: the one whose value comes next */
	char **split;			/* what the chosen split names */
	size_t nsplit, split_cap;
	char **name;
	size_t nname, name_cap;
	int depth, in_map, line;
	struct eval_hash seen;		/* the keys so far */
	long index;			/* names as a map: the number that stands before */
	const char *want;
};

static int
set_name(struct yaml *y, long i, const char *s)
{
	if (i < 0 || i > 99999)
		return err_set(
		    y->l->e, "%s:%d: class number %ld, want 0 to 99999", y->path, y->line, i);
	y->name = (char **)xgrow(y->name, &y->name_cap, (size_t)i + 1, sizeof *y->name);
	while (y->nname <= (size_t)i)
		y->name[y->nname++] = NULL;
	if (label_bad_name(s))
		return err_set(y->l->e, "%s:%d: class %ld has a name %s", y->path, y->line, i,
		    label_bad_name(s));
	if (y->name[i])
		return err_set(y->l->e, "%s:%d: class %ld has two names", y->path, y->line, i);
	y->name[i] = xstrdup(s);
	return 0;
}

static int
in_names(struct yaml *y, const char *s)
{
	long i = (long)y->nname;

	if (!y->in_map)
		return set_name(y, i, s);
	if (y->index >= 0) {
		i = y->index;
		y->index = -1;
		return set_name(y, i, s);
	}
	if (num_int(s, 0, 99999, &y->index))
		return err_set(
		    y->l->e, "%s:%d: names: '%s' is not a class number", y->path, y->line, s);
	return 0;
}

static int
scalar(struct yaml *y, const char *s)
{
	if (y->depth == 1 && !y->key) {
		y->key = xstrdup(s);
		return eval_hash_put(&y->seen, s, strlen(s), 1) < 0 ? 0 :
		    err_set(y->l->e, "%s:%d: '%s:' a second time", y->path, y->line, s);
	}
	if (!y->key || y->depth < 1 || y->depth > 2)
		return 0;
	if (!strcmp(y->key, "names"))
		return y->depth == 2 ? in_names(y, s)
				     : err_set(y->l->e,
					   "%s:%d: names: want a list or a "
					   "map",
					   y->path, y->line);
	if (!strcmp(y->key, "path") && y->depth == 1) {
		free(y->root);
		y->root = xstrdup(s);
	}
	if (!strcmp(y->key, y->want) && *s) {
		y->split = (char **)xgrow(y->split, &y->split_cap, y->nsplit + 1, sizeof *y->split);
		y->split[y->nsplit++] = xstrdup(s);
	}
	if (y->depth == 1) {
		free(y->key);
		y->key = NULL;
	}
	return 0;
}

static int
event(struct yaml *y, const yaml_event_t *ev)
{
	y->line = (int)ev->start_mark.line + 1;
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return scalar(y, (const char *)ev->data.scalar.value);
	case YAML_MAPPING_START_EVENT:
	case YAML_SEQUENCE_START_EVENT:
		if (++y->depth > MAX_DEPTH)
			return err_set(y->l->e, "%s:%d: nested too deep", y->path, y->line);
		if (y->depth == 1 && ev->type == YAML_SEQUENCE_START_EVENT)
			return err_set(
			    y->l->e, "%s:%d: a list; want train: and names:", y->path, y->line);
		if (y->depth == 2) {
			y->in_map = ev->type == YAML_MAPPING_START_EVENT;
			y->index = -1;
		}
		return 0;
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		if (--y->depth == 1) {
			free(y->key);
			y->key = NULL;
		}
		return 0;
	case YAML_ALIAS_EVENT:
		return err_set(y->l->e, "%s:%d: aliases are not read", y->path, y->line);
	default:
		return 0;
	}
}

static int
parse(struct yaml *y, const char *text, size_t len)
{
	yaml_parser_t p;
	yaml_event_t ev;
	int r = 0, end = 0;

	if (!yaml_parser_initialize(&p))
		die(1, "out of memory");
	yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
	while (!r && !end) {
		if (!yaml_parser_parse(&p, &ev)) {
			r = err_set(y->l->e, "%s:%zu: %s", y->path, p.problem_mark.line + 1,
			    p.problem ? p.problem : "not YAML");
			break;
		}
		r = event(y, &ev);
		end = ev.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&ev);
	}
	yaml_parser_delete(&p);
	return r;
}

/* A split's name: below `path`, below the yaml's folder, or from the working directory. */
static char *
locate(const struct yaml *y, const char *dir, const char *s)
{
	char *root = y->root ? path_join(dir, y->root) : xstrdup(dir), *place[4], *found = NULL;

	place[0] = path_join(root, s);
	place[1] = path_join(dir, s);
	place[2] = y->root ? path_join(y->root, s) : xstrdup(s);
	place[3] = xstrdup(s);
	for (int i = 0; i < 4; i++) {
		if (!found && !access(place[i], F_OK))
			found = place[i];
		else
			free(place[i]);
	}
	free(root);
	return found;
}

static int
read_splits(struct yaml *y)
{
	char *dir = path_dir(y->path), *found;
	int r = 0;

	if (y->nname)
		label_map(y->l, y->path, y->name, (int)y->nname);
	if (!y->nsplit)
		r = err_set(y->l->e, "%s: no '%s:' in it", y->path, y->want);
	for (size_t i = 0; i < y->nsplit && !r; i++) {
		if (!(found = locate(y, dir, y->split[i])))
			r = err_set(y->l->e, "%s: its %s '%s' does not exist", y->path, y->want,
			    y->split[i]);
		else
			r = path_isdir(found) ? label_folder(y->l, found) : label_list(y->l, found);
		free(found);
	}
	free(dir);
	return r;
}

int
label_yaml(struct labels *l, const char *path, const char *split)
{
	struct yaml y;
	size_t n;
	char *text = file_read(path, 1 << 26, &n, l->e);
	int r;

	if (!text)
		return -1;
	memset(&y, 0, sizeof y);
	y.l = l;
	y.path = path;
	y.want = split ? strcmp(split, "valid") ? split : "val" : "train";
	r = parse(&y, text, n);
	if (!r)
		r = read_splits(&y);
	for (size_t i = 0; i < y.nsplit; i++)
		free(y.split[i]);
	for (size_t i = 0; i < y.nname; i++)
		free(y.name[i]);
	eval_hash_free(&y.seen);
	free(y.split);
	free(y.name);
	free(y.root);
	free(y.key);
	free(text);
	return r;
}
