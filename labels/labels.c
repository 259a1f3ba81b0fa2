/* labels.c -- truth from files: what kind of input it is, classes, reports.
 *
 * A data set is a list of pictures with boxes in pixels and one class table.  Every label that is
 * not used and everything odd about one that is goes to the caller's report with file and line;
 * nothing is dropped in silence.  The kind of an input is told from its content: a folder with
 * Annotations is VOC, JSON is COCO, XML is one VOC file, key = value is darknet's .data, a
 * data.yaml is YAML, and other text is a list of pictures. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "labels/int.h"
#include "image/image.h"

#define MAX_TEXT ((size_t)1 << 30)

static int
text_take(struct text *t, char *buf, size_t n, const char *path, struct err *e)
{
	memset(t, 0, sizeof *t);
	if (!(t->buf = buf))
		return -1;
	t->p = t->buf;
	t->end = t->buf + n;
	if (n >= 3 && !memcmp(t->p, "\xef\xbb\xbf", 3))
		t->p += 3;
	if (n >= 2 && (!memcmp(t->buf, "\xff\xfe", 2) || !memcmp(t->buf, "\xfe\xff", 2)))
		err_set(e, "%s:1: UTF-16 text; want ASCII or UTF-8", path);
	else if (memchr(t->buf, 0, n))
		err_set(e, "%s:1: binary data, want text", path);
	else
		return 0;
	free(t->buf);
	t->buf = NULL;
	return -1;
}

int
text_open(struct text *t, const char *path, struct err *e)
{
	size_t n = 0;
	char *buf = file_read(path, MAX_TEXT, &n, e);

	return text_take(t, buf, n, path, e);
}

int
text_plain(struct text *t, const char *path, struct err *e)
{
	size_t n = 0;
	char *buf = plain_read(path, MAX_TEXT, &n, e);

	return text_take(t, buf, n, path, e);
}

char *
text_line(struct text *t)
{
	char *line = t->p, *q;

	if (line >= t->end)
		return NULL;
	t->line++;
	if (t->nul)
		q = line + strlen(line);
	else
		q = line + strcspn(line, "\r\n");
	t->p = q + 1 + (!t->nul && q[0] == '\r' && q + 1 < t->end && q[1] == '\n');
	*q = 0;
	return line;
}

void
label_say(struct labels *l, int kind, const char *fmt, ...)
{
	struct err line;
	va_list ap;
	char *s;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		die(1, "out of memory");
	va_end(ap);
	err_set(&line, "%s", s);
	free(s);
	l->d->notes += kind == SAY_NOTE;
	l->d->refused += kind == SAY_REFUSED;
	l->d->bad += kind == SAY_PICTURE;
	if (l->report)
		l->report(l->arg, kind, line.msg);
}

/* Room grows by doubling; the number itself says when it is full. */
static void *
grown(void *p, int n, size_t size)
{
	return n & (n - 1) ? p : xrealloc(p, (n ? 2 * (size_t)n : 1) * size);
}

struct item *
label_item(struct labels *l, const char *name, const char *path)
{
	struct dataset *d = l->d;
	struct item *it;

	d->item = (struct item *)grown(d->item, d->n, sizeof *d->item);
	it = &d->item[d->n++];
	memset(it, 0, sizeof *it);
	it->name = xstrdup(name);
	it->path = path ? xstrdup(path) : NULL;
	it->id = -1;
	return it;
}

void
label_box(struct item *it, const struct box *b)
{
	it->box = (struct box *)grown(it->box, it->nbox, sizeof *it->box);
	it->box[it->nbox++] = *b;
}

/* 1: seen has this box already. */
static int
seen_box(struct keys *seen, const struct box *b)
{
	const double v[5] = { b->cls, b->x + 0., b->y + 0., b->w, b->h };	/* -0 is 0 */
	int had = seen->n;

	return keys_add(seen, v, sizeof v) < had;
}

int
label_again(struct keys *seen, const struct item *it, const struct box *b)
{
	for (int i = 0; i < it->nbox && seen->n < it->nbox; i++)
		seen_box(seen, &it->box[i]);
	return seen_box(seen, b);
}

int
label_twins(const struct item *it)
{
	struct keys seen;
	int n = 0;

	memset(&seen, 0, sizeof seen);
	for (int i = 0; i < it->nbox; i++)
		n += seen_box(&seen, &it->box[i]);
	keys_free(&seen);
	return n;
}

static void
set_class(int **of, size_t *cap, int key, int cls)
{
	*of = (int *)xgrow(*of, cap, (size_t)key + 1, sizeof **of);
	(*of)[key] = cls;
}

static void
set_id(struct class_index *x, int64_t id, int cls)
{
	set_class(&x->by_id, &x->id_cap, keys_add(&x->id, &id, sizeof id), cls);
}

/* Names and ids of classes that came since. */
static void
index_classes(struct dataset *d)
{
	struct class_index *x = &d->index;

	for (; x->n < d->nclass; x->n++) {
		const char *name = d->class_name[x->n];
		int names = x->name.n, key = name ? keys_add(&x->name, name, strlen(name)) : -1;

		if (name)
			set_class(&x->by_name, &x->name_cap, key, key < names ? -2 : x->n);
		set_id(x, d->class_id[x->n], x->n);
		if (d->class_id[x->n] > x->top_id || !x->n)
			x->top_id = d->class_id[x->n];
	}
}

void
label_classes_moved(struct dataset *d)
{
	keys_free(&d->index.name);
	keys_free(&d->index.id);
	free(d->index.by_name);
	free(d->index.by_id);
	memset(&d->index, 0, sizeof d->index);
}

/* The class with this id, -1: none. */
static int
id_used(struct dataset *d, int64_t id)
{
	int key;

	index_classes(d);
	key = keys_find(&d->index.id, &id, sizeof id);
	return key < 0 ? -1 : d->index.by_id[key];
}

/* One more than the largest.  What was the largest once may be another's now: close below it is the
 * largest of today, or all are looked at. */
static int64_t
free_id(struct dataset *d)
{
	struct class_index *x = &d->index;
	int64_t most = -1;

	for (int i = 0; i <= d->nclass && x->top_id >= 0 && id_used(d, x->top_id) < 0; i++)
		x->top_id--;
	if (id_used(d, x->top_id) < 0) {
		for (int i = 0; i < d->nclass; i++)
			most = d->class_id[i] > most ? d->class_id[i] : most;
		x->top_id = most;
	}
	if (x->top_id < INT64_MAX)
		return x->top_id < 0 ? 0 : x->top_id + 1;
	for (most = 0; id_used(d, most) >= 0;)
		most++;
	return most;
}

void
label_set_id(struct dataset *d, int cls, int64_t id)
{
	struct class_index *x = &d->index;
	int had = id_used(d, id);

	set_id(x, d->class_id[cls], -1);
	set_id(x, id, cls);
	d->class_id[cls] = id;
	x->top_id = id > x->top_id ? id : x->top_id;
	if (had >= 0 && had != cls) {
		d->class_id[had] = free_id(d);
		x->top_id = d->class_id[had] > x->top_id ? d->class_id[had] : x->top_id;
		set_id(x, d->class_id[had], had);
	}
}

void
label_turn(struct box *b, int o, int w, int h)
{
	struct box was = *b;

	if (o < 2 || o > 8)
		return;
	if (o == 2 || o == 3 || o == 7 || o == 8)
		was.x = w - b->x - b->w;
	if (o == 3 || o == 4 || o == 6 || o == 7)
		was.y = h - b->y - b->h;
	*b = was;
	if (o > 4) {
		b->x = was.y;
		b->y = was.x;
		b->w = was.h;
		b->h = was.w;
	}
}

const char *
label_bad_name(const char *s)
{
	if (!*s)
		return "empty";
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 127)
			return "of more than one line, or with control characters";
	return NULL;
}

void
label_new_class(struct dataset *d, const char *name, int64_t id)
{
	id = id_used(d, id) >= 0 ? free_id(d) : id;
	d->class_name = (char **)grown(d->class_name, d->nclass, sizeof *d->class_name);
	d->class_id = (int64_t *)grown(d->class_id, d->nclass, sizeof *d->class_id);
	d->class_name[d->nclass] = name ? xstrdup(name) : NULL;
	d->class_id[d->nclass++] = id;
}

int
class_named(char *const *class_name, int n, const char *name, int64_t at)
{
	int found = -1;

	if (at >= 0 && at < n && class_name[at] && !strcmp(class_name[at], name))
		return (int)at;
	for (int i = 0; i < n; i++)
		if (class_name[i] && !strcmp(class_name[i], name)) {
			if (found >= 0)
				return -2;
			found = i;
		}
	return found;
}

int
label_find_class(struct dataset *d, const char *name, int at)
{
	int key;

	index_classes(d);
	if (at >= 0 && at < d->nclass && d->class_name[at] && !strcmp(d->class_name[at], name))
		return at;
	key = keys_find(&d->index.name, name, strlen(name));
	return key < 0 ? -1 : d->index.by_name[key];
}

int
label_class(struct labels *l, const char *name, int at)
{
	int i = label_find_class(l->d, name, at);

	if (i != -1 || l->d->fixed)
		return i;
	label_new_class(l->d, name, l->d->nclass);
	return l->d->nclass - 1;
}

/* The numbers of an input's labels are places in its own list of names, which need not be that of
 * the inputs before. */
void
label_map(struct labels *l, const char *from, char *const *name, int n)
{
	int first = !l->d->nclass && !l->d->fixed;

	l->map = (int *)xrealloc(l->map, (size_t)(n ? n : 1) * sizeof *l->map);
	l->nmap = n;
	for (int i = 0; i < n; i++) {
		if (first) {
			label_new_class(l->d, name[i], i);
			l->map[i] = i;
			continue;
		}
		l->map[i] = name[i] ? label_class(l, name[i], i) : -1;
		if (l->map[i] < 0 && name[i])
			label_say(l, SAY_NOTE, "%s: class %d, '%s', %s, its boxes are refused",
			    from, i, name[i], l->map[i] == -1 ? "is not among the names" :
			    "stands twice among the names");
	}
}

int
label_check_box(struct box *b, int w, int h, const char **why)
{
	double x1 = b->x + b->w, y1 = b->y + b->h, slack = 0.1;	/* rounded decimals, not an error */

	*why = NULL;
	if (!isfinite(b->x) || !isfinite(b->y) || !isfinite(x1) || !isfinite(y1) ||
	    !isfinite(b->w * b->h))
		*why = "not a finite number";
	else if (b->w < 0 || b->h < 0)
		*why = "negative width or height";
	else if (b->w == 0 || b->h == 0)
		*why = "zero width or height";
	else if (w && (b->x >= w || b->y >= h || x1 <= 0 || y1 <= 0))
		*why = "lies outside the picture";
	if (*why)
		return -1;
	if (!w || (b->x >= -slack && b->y >= -slack && x1 <= w + slack && y1 <= h + slack))
		return 0;
	b->x = fmax(b->x, 0);
	b->y = fmax(b->y, 0);
	b->w = fmin(x1, w) - b->x;
	b->h = fmin(y1, h) - b->y;
	b->area = b->w * b->h;
	b->flags |= BOX_CLIPPED;
	*why = "sticks out of the picture, clipped";
	return 1;
}

int
labels_names(struct dataset *d, const char *path, struct err *e)
{
	struct text t;
	char *s;
	int blank = 0;

	if (text_open(&t, path, e))
		return -1;
	while ((s = text_line(&t))) {
		size_t n = strlen(s);

		while (n && isspace((unsigned char)s[n - 1]))
			s[--n] = 0;
		s += strspn(s, " \t");
		if (!*s) {
			blank = blank ? blank : t.line;
			continue;
		}
		if (blank)
			break;
		if (label_bad_name(s)) {
			err_set(e, "%s:%d: a class name %s", path, t.line, label_bad_name(s));
			free(t.buf);
			return -1;
		}
		label_new_class(d, s, d->nclass);
	}
	free(t.buf);
	if (s)
		return err_set(e, "%s:%d: an empty line among the names", path, blank);
	if (!d->nclass)
		return err_set(e, "%s: no class names, want one on each line", path);
	d->fixed = 1;
	return 0;
}

enum kind { K_COCO, K_XML, K_DATA, K_YAML, K_LIST, K_PICTURE, K_SHARD };

/* From the first bytes of a text: the first line that says something decides. */
static enum kind
kind_of(const char *head, size_t n, const char *path)
{
	static const char *const keys[] = { "classes", "train", "valid", "names", "backup",
		"results", "eval", "map", "difficult", "labels", "top", "test" };
	const char *dot = strrchr(path_base(path), '.'), *p = head;
	size_t word;

	if (n >= 4 && !memcmp(head, "\x89YSH", 4))
		return K_SHARD;
	if (image_format(head, n) != IMG_UNKNOWN || image_named(path))
		return K_PICTURE;
	if (p[0] == 'P' && p[1] >= '1' && p[1] <= '7' && (p[2] == '\n' || p[2] == ' ') &&
	    (isdigit((unsigned char)p[3]) || p[3] == '#'))
		return K_PICTURE;	/* PNM of a kind that is refused by name */
	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	if (dot && (!strcasecmp(dot, ".yaml") || !strcasecmp(dot, ".yml")))
		return K_YAML;
	if (dot && !strcasecmp(dot, ".xml"))
		return K_XML;
	if (dot && !strcasecmp(dot, ".json"))
		return K_COCO;
	for (p += strspn(p, " \t\r\n"); *p == '#'; p += strspn(p, " \t\r\n"))
		p += strcspn(p, "\r\n");
	if (*p == '{' || *p == '[')
		return K_COCO;
	if (*p == '<')
		return K_XML;
	for (word = 0; isalnum((unsigned char)p[word]) || p[word] == '_';)
		word++;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (word == strlen(keys[i]) && !memcmp(p, keys[i], word) &&
		    p[word + strspn(p + word, " \t")] == '=')
			return K_DATA;
	return K_LIST;
}

/* FILE:WORD where FILE:WORD itself does not exist; *word NULL where there is none. */
static char *
split_input(const char *input, const char **word)
{
	const char *colon = strrchr(input, ':');
	char *file;

	*word = NULL;
	if (!colon || path_there(input))
		return xstrdup(input);
	for (; colon; colon = (char *)memrchr(input, ':', (size_t)(colon - input))) {
		file = xasprintf("%.*s", (int)(colon - input), input);
		if (path_there(file)) {
			*word = colon + 1;
			return file;
		}
		free(file);
	}
	return xstrdup(input);
}

static int
no_word(struct labels *l, const char *path, const char *word)
{
	return err_set(l->e, "%s: no ':%s' to choose in it; want COCO.json:FOLDER, "
	    "FILE.data:SPLIT, data.yaml:SPLIT, or a folder with parts", path, word);
}

/* The part that is asked for; NULL: the kind of input decides. */
static const char *
part(const struct labels *l)
{
	return l->d->split && strcmp(l->d->split, "all") ? l->d->split : NULL;
}

/* A folder: a part of it where it has parts, else VOC, else pictures. */
static int
read_folder(struct labels *l, const char *path, const char *word)
{
	char *voc = path_join(path, "Annotations");
	int all = l->d->split && !part(l) && !word;
	int r = all ? 1 : label_root(l, path, word ? word : part(l));

	if (r == 1 && word)
		r = no_word(l, path, word);
	else if (r == 1)
		r = path_isdir(voc) && label_voc_root(path) ? label_voc(l, path) :
		    label_folder(l, path);
	free(voc);
	return r;
}

static int
read_file(struct labels *l, const char *path, const char *word)
{
	char head[4097], *base;
	enum kind kind;
	struct stat st;
	long n;

	if (!stat(path, &st) && !S_ISREG(st.st_mode))	/* a pipe can be read only once */
		return word ? no_word(l, path, word) : label_list(l, path);
	if (!path_there(path))
		return err_set(l->e, "%s: %s", path, strerror(errno));
	if ((n = file_head(path, head, sizeof head - 1, l->e)) < 0)
		return -1;
	head[n] = 0;
	kind = kind_of(head, (size_t)n, path);
	if (word && kind != K_COCO && kind != K_DATA && kind != K_YAML)
		return no_word(l, path, word);
	switch (kind) {
	case K_COCO:
		return label_coco(l, path, word, NULL);
	case K_XML:
		return label_voc(l, path);
	case K_DATA:
		return label_data(l, path, word ? word : part(l));
	case K_YAML:
		return label_yaml(l, path, word ? word : part(l));
	case K_PICTURE:
		label_picture(l, path, path, NULL);
		return 0;
	case K_SHARD:
		return err_set(l->e, "%s: a shard, not labels", path);
	default:
		break;
	}
	base = path_dir(path);
	if (!strcmp(path_base(base), "Main"))	/* VOC keeps its split files in ImageSets/Main */
		n = (size_t)label_voc(l, path);
	else
		n = (size_t)label_list(l, path);
	free(base);
	return (int)n;
}

int
labels_read(struct dataset *d, const char *input, const char *names, label_report *report,
    void *arg, struct err *e)
{
	struct labels l = { .d = d, .report = report, .arg = arg, .e = e };
	const char *word = NULL;
	char *path;
	int r, before;

	if (names && !d->nclass && labels_names(d, names, e))
		return -1;
	before = d->nclass && d->class_name[0] && !d->fixed;
	path = split_input(input, &word);
	if (!strcmp(input, "-") || !strcmp(input, "-0"))
		r = label_list(&l, input);
	else
		r = path_isdir(path) ? read_folder(&l, path, word) : read_file(&l, path, word);
	if (!r)
		label_one_based(&l, input);
	if (!r)
		label_pose(&l, input);
	if (!r && before && !l.map && l.numbers)
		label_say(&l, SAY_NOTE, "%s: it names no classes, so its numbers are taken for "
		    "those of the inputs before: 0 is '%s'", input, d->class_name[0]);
	if (!r && l.bare)
		label_say(&l, SAY_NOTE, "%s: %ld of %ld pictures have no label file, taken as "
		    "background", input, l.bare, l.pictures);
	label_keys_close(&l);
	free(l.either);
	free(l.map);
	free(path);
	return r;
}

void
labels_close(struct dataset *d)
{
	for (int i = 0; i < d->n; i++) {
		free(d->item[i].name);
		free(d->item[i].path);
		free(d->item[i].box);
	}
	for (int i = 0; i < d->nclass; i++)
		free(d->class_name[i]);
	free(d->item);
	free(d->class_name);
	free(d->class_id);
	label_classes_moved(d);
	memset(d, 0, sizeof *d);
}
