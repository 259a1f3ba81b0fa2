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
	struct keys seen;		/* the keys so far */
	long index;			/* names as a map: the number that stands before */
	int unread;			/* it cannot be read */
	int other;			/* it has another part than the one that is wanted */
	long nc, kpt[2];		/* nc -1: not there */
	int nkpt;
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
	int had = y->seen.n;

	if (y->depth == 1 && !y->key) {
		y->key = xstrdup(s);
		return keys_add(&y->seen, s, strlen(s)) == had ? 0 :
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
	if (!strcmp(y->key, "kpt_shape") && y->depth == 2 && y->nkpt < 2 &&
	    num_int(s, 1, 10000, &y->kpt[y->nkpt++]))
		return err_set(y->l->e, "%s:%d: kpt_shape: '%s', want [points, 2 or 3]", y->path,
		    y->line, s);
	if (!strcmp(y->key, "nc") && y->depth == 1 && num_int(s, 0, 100000, &y->nc))
		return err_set(y->l->e, "%s:%d: nc: '%s' is not a number of classes", y->path,
		    y->line, s);
	if (!strcmp(y->key, "path") && y->depth == 1) {
		free(y->root);
		y->root = xstrdup(s);
	}
	y->other |= *s && strcmp(y->key, y->want) && (!strcmp(y->key, "train") ||
	    !strcmp(y->key, "val") || !strcmp(y->key, "test"));
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
parse_yaml(struct yaml *y, const char *text, size_t len)
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
place(const struct yaml *y, const char *dir, const char *root, const char *s)
{
	char *at[4], *found = NULL;

	at[0] = path_join(root, s);
	at[1] = path_join(dir, s);
	at[2] = y->root ? path_join(y->root, s) : xstrdup(s);
	at[3] = xstrdup(s);
	for (int i = 0; i < 4; i++) {
		if (!found && path_there(at[i]))
			found = at[i];
		else
			free(at[i]);
	}
	return found;
}

/* The same; where there is nothing, with Windows' backslashes turned, and then without the leading
 * ../ that Roboflow writes for what lies beside its yaml. */
static char *
locate(const struct yaml *y, const char *dir, const char *s)
{
	char *was = y->root ? label_turned(y->root) : NULL, *turned = label_turned(s);
	char *root = !y->root ? xstrdup(dir) : path_join(dir, y->root), *found, *other;
	const char *rest = turned;

	found = place(y, dir, root, s);
	if (!found && (label_windows(s) || (y->root && label_windows(y->root)))) {
		other = was ? path_join(dir, was) : xstrdup(dir);
		while (!(found = place(y, dir, other, rest)) && s[0] && s[1] == ':' &&
		    label_shorter(rest))
			rest = label_shorter(rest);
		free(other);
		if (found)
			label_say(y->l, SAY_NOTE, "%s: backslashes taken as slashes: %s is %s",
			    y->path, s, found);
	}
	for (rest = turned; !found && !strncmp(rest, "../", 3);) {
		rest += 3;
		found = path_join(dir, rest);
		if (path_there(found))
			label_say(y->l, SAY_NOTE, "%s: there is no %s; %s is taken", y->path, s,
			    found);
		else {
			free(found);
			found = NULL;
		}
	}
	free(root);
	free(turned);
	free(was);
	return found;
}

static void
take_names(struct yaml *y)
{
	if (y->nname) {
		label_map(y->l, y->path, y->name, (int)y->nname);
		y->l->named_by = y->path;
	}
	if (y->nc >= 0 && y->nname && y->nc != (long)y->nname)
		label_say(y->l, SAY_NOTE, "%s: nc is %ld, but there are %zu names; the names "
		    "count", y->path, y->nc, y->nname);
	y->l->points = y->nkpt == 2 ? (int)y->kpt[0] : 0;
	y->l->dims = y->nkpt == 2 ? (int)y->kpt[1] : 0;
}

static int
read_splits(struct yaml *y)
{
	char *dir = path_dir(y->path), *found;
	int r = 0;

	take_names(y);
	if (!y->nsplit)
		r = err_set(y->l->e, "%s: no '%s:' in it", y->path, y->want);
	for (size_t i = 0; i < y->nsplit && !r; i++) {
		if (!(found = locate(y, dir, y->split[i])))
			r = err_set(y->l->e, "%s: its %s '%s' does not exist", y->path, y->want,
			    y->split[i]);
		else {
			if (y->other)
				label_say(y->l, SAY_PART, "%s: %s part (%s)", y->path, y->want,
				    found);
			r = path_isdir(found) ? label_folder(y->l, found) : label_list(y->l, found);
		}
		free(found);
	}
	free(dir);
	return r;
}

static void
close_yaml(struct yaml *y)
{
	for (size_t i = 0; i < y->nsplit; i++)
		free(y->split[i]);
	for (size_t i = 0; i < y->nname; i++)
		free(y->name[i]);
	free(y->split);
	free(y->name);
	keys_free(&y->seen);
	free(y->root);
	free(y->key);
}

/* -1: it cannot be read. */
static int
open_yaml(struct yaml *y, struct labels *l, const char *path, const char *split)
{
	size_t n;
	char *text = file_read(path, 1 << 26, &n, l->e);
	int r;

	memset(y, 0, sizeof *y);
	if ((y->unread = !text))
		return -1;
	y->l = l;
	y->path = path;
	y->nc = -1;
	y->want = split ? strcmp(split, "valid") ? split : "val" : "train";
	r = parse_yaml(y, text, n);
	free(text);
	return r;
}

int
label_yaml_leads(const char *path, const char *split, struct err *e)
{
	struct dataset none = { 0 };
	struct err why;
	struct labels l = { .d = &none, .e = &why };
	struct yaml y;
	char *dir = path_dir(path), *found;
	int yes = !open_yaml(&y, &l, path, split) && y.nsplit;

	if (y.unread)
		yes = err_set(e, "%s", why.msg);
	for (size_t i = 0; i < y.nsplit && yes > 0; i++) {
		found = locate(&y, dir, y.split[i]);
		yes = found != NULL;
		free(found);
	}
	close_yaml(&y);
	free(dir);
	return yes;
}

int
label_yaml(struct labels *l, const char *path, const char *split)
{
	struct yaml y;
	int r = open_yaml(&y, l, path, split) ? -1 : read_splits(&y);

	close_yaml(&y);
	return r;
}
