/* detwrite.c -- detections as TSV, JSON lines, COCO results or YOLO text; pictures with boxes.
 *
 * Numbers are written by detect_text, so every format holds the same values, and a validation that
 * takes its values by detect_value scores what a reader of these files would. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "detect/detect.h"

enum format { TSV, JSON, COCO, YOLO };
static const char *const formats[] = { "tsv", "json", "coco", "yolo", NULL };

struct detwrite {
	struct detwrite_opts opt;
	enum format format;
	struct outfile out;		/* not for yolo */
	int begun, odd;			/* a record stands; a name was no UTF-8 */
	struct eval_names *ids;		/* of the truth's pictures */
	struct eval_pic *pic;
	int64_t *id;			/* [classes] category ids, EVAL_NOID: none */
	char **id_of;			/* the names that they were found by */
	struct keys file;		/* paths written by a picture's name */
};

/* ---- files by the picture's name ------------------------------------------------------------ */

/* Is the file the picture itself, or its label?  These are not written over. */
static int
is_own(const struct picture *p, const char *file)
{
	char *label[2];
	int own;

	if (!p->path)
		return 0;
	label_paths(p->path, label);
	own = path_same(file, p->path) || path_same(file, label[0]) ||
	    (label[1] && path_same(file, label[1]));
	free(label[0]);
	free(label[1]);
	return own;
}

/* DIR/stem.ext of a picture, once; good until the next call.  NULL: none; *bad is then 1, or -1
 * where it is of no use to go on. */
static const char *
file_for(struct detwrite *t, const char *dir, const struct picture *p, const char *ext, int *bad,
    struct err *e)
{
	const char *base = path_base(p->name), *dot = strrchr(base, '.');
	int n = dot && dot != base ? (int)(dot - base) : (int)strlen(base), had = t->file.n, k = -1;
	char *file = xasprintf("%.*s%s", n, base, ext), *path = path_join(dir, file);

	free(file);
	*bad = 0;
	if (is_own(p, path))
		*bad = err_set(e, "%s is the picture%s, which stays: want another folder", path,
		    strcmp(ext, ".txt") ? " itself" : "'s label");
	else if ((k = keys_add(&t->file, path, strlen(path))) < had) {
		err_set(e, "%s/%.*s%s holds another picture's already: names must differ", dir, n,
		    base, ext);
		*bad = 1;
	}
	free(path);
	return *bad ? NULL : keys_text(&t->file, k);
}

static int
folder(const char *dir, struct err *e)
{
	if (mkdir(dir, 0777) && (errno != EEXIST || !path_isdir(dir)))
		return err_set(e, "%s: %s", dir, strerror(errno));
	return 0;
}

/* ---- names and numbers ----------------------------------------------------------------------- */

static const char *
class_name(const struct detwrite *t, const struct picture *p, int cls, char number[16])
{
	const struct dataset *d = t->opt.names;
	const char *name = NULL;

	if (d && cls < d->nclass)
		name = d->class_name[cls];
	else if (p->nclass == t->opt.classes)
		name = p->class_name[cls];
	if (name)
		return name;
	snprintf(number, 16, "%d", cls);
	return number;
}

/* Category ids of the truth, else the shard: by name where all names are there, else by place where
 * there are as many classes.  A shard that has none of the names says nothing of them: then class
 * + 1; else those that are not there have no id. */
static void
find_categories(struct detwrite *t, const struct picture *p)
{
	const struct dataset *d = t->opt.truth;
	int n = d ? d->nclass : p->nclass, found = 0;
	const int64_t *id = d ? d->class_id : p->class_id;
	char **name = d ? d->class_name : p->class_name, number[16];

	for (int c = 0; c < t->opt.classes; c++) {
		int i = class_named(name, n, class_name(t, p, c, number), c);

		t->id[c] = i >= 0 ? id[i] : EVAL_NOID;
		found += i >= 0;
	}
	for (int c = 0; c < t->opt.classes && found < t->opt.classes; c++)
		if (n == t->opt.classes)
			t->id[c] = id[c];
		else if (!found && !d)
			t->id[c] = c + 1;
	t->id_of = name;
}

static int
category(struct detwrite *t, const struct picture *p, int cls, int64_t *id, struct err *e)
{
	char **name = t->opt.truth ? t->opt.truth->class_name : p->class_name, number[16];

	if (!t->id)
		t->id = (int64_t *)xcalloc((size_t)t->opt.classes, sizeof *t->id);
	if (!t->id_of || t->id_of != name)
		find_categories(t, p);
	if ((*id = t->id[cls]) != EVAL_NOID)
		return 0;
	return err_set(e, "class '%s' of the network is none of the %d of the %s, so it has no "
	    "category id: -n gives names, -O ids=FILE ids", class_name(t, p, cls, number),
	    t->opt.truth ? t->opt.truth->nclass : p->nclass, t->opt.truth ? "truth" : "shard");
}

static void
name_string(struct detwrite *t, const char *text)
{
	if (json_string(t->out.f, text) && !t->odd++)
		warn("%s: not UTF-8, JSON cannot hold this name; the tsv format can", text);
}

static void
numbers(FILE *f, const struct det *d, const char *between)
{
	char x[32], y[32], w[32], h[32];

	fprintf(f, "%s%s%s%s%s%s%s", detect_text(d->x, x), between, detect_text(d->y, y), between,
	    detect_text(d->w, w), between, detect_text(d->h, h));
}

/* ---- formats --------------------------------------------------------------------------------- */

static void
add_tsv(struct detwrite *t, const struct picture *p, const struct det *d)
{
	char number[16], score[32];
	FILE *f = t->out.f;

	tsv_name(f, p->name);
	fprintf(f, "\t%d\t", d->cls);
	tsv_name(f, class_name(t, p, d->cls, number));
	fprintf(f, "\t%s\t", detect_text(d->score, score));
	numbers(f, d, "\t");
	putc('\n', f);
}

static void
add_json(struct detwrite *t, const struct picture *p, const struct det *d)
{
	char number[16], score[32];
	FILE *f = t->out.f;

	fputs("{\"image\":", f);
	name_string(t, p->name);
	fprintf(f, ",\"class\":%d,\"name\":", d->cls);
	name_string(t, class_name(t, p, d->cls, number));
	fprintf(f, ",\"score\":%s,\"bbox\":[", detect_text(d->score, score));
	numbers(f, d, ",");
	fputs("]}\n", f);
}

static int
add_coco(struct detwrite *t, const struct picture *p, const struct detections *v, struct err *e)
{
	FILE *f = t->out.f;
	char score[32];
	int64_t id, cat;
	int named = 0;

	if (t->ids) {
		int i = eval_names_find(t->ids, p->name, strlen(p->name));

		if (i < 0 || t->pic[i].id == EVAL_NOID) {
			err_set(e, i == -2 ? "more than one image of the truth has this name" :
			    i < 0 ? "no image of the truth has this name" :
			    "the image of the truth that has this name has no id");
			return 1;
		}
		id = t->pic[i].id;
	} else if (p->id != -1)
		id = p->id;
	else
		named = picname_digits(p->name, &id);
	for (int i = 0; i < v->n; i++) {
		if (category(t, p, v->det[i].cls, &cat, e))
			return -1;
		fputs(t->begun++ ? ",\n{\"image_id\":" : "{\"image_id\":", f);
		if (named)
			name_string(t, p->name);
		else
			fprintf(f, "%lld", (long long)id);
		fprintf(f, ",\"category_id\":%lld,\"bbox\":[", (long long)cat);
		numbers(f, &v->det[i], ",");
		fprintf(f, "],\"score\":%s}", detect_text(v->det[i].score, score));
	}
	return 0;
}

/* A text beside none: also a picture without detections gets its (empty) file. */
static int
add_yolo(struct detwrite *t, const struct picture *p, const struct detections *v, struct err *e)
{
	int bad;
	const char *path = file_for(t, t->opt.out, p, ".txt", &bad, e);
	struct outfile o;
	char score[32];

	if (!path)
		return bad;
	if (out_open(&o, path, e))
		return -1;
	for (int i = 0; i < v->n; i++) {
		struct det d = v->det[i];

		d.x = (d.x + d.w / 2) / (float)p->w;
		d.y = (d.y + d.h / 2) / (float)p->h;
		d.w /= (float)p->w;
		d.h /= (float)p->h;
		fprintf(o.f, "%d ", d.cls);
		numbers(o.f, &d, " ");
		fprintf(o.f, " %s\n", detect_text(d.score, score));
	}
	return out_commit(&o, e);
}

static int
draw(struct detwrite *t, struct picture *p, const struct detections *v, struct err *e)
{
	const char *dot = strrchr(p->name, '.');
	const char *ext = dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg")) ? ".jpg" :
	    ".png", *path;
	char number[16], *label;
	int bad;

	if (!(path = file_for(t, t->opt.draw, p, ext, &bad, e)))
		return bad;
	for (int i = v->n; i-- > 0;) {		/* the best on top */
		const struct det *d = &v->det[i];

		label = xasprintf("%s %.2f", class_name(t, p, d->cls, number), (double)d->score);
		image_box(&p->px, d->x, d->y, d->w, d->h, d->cls, label);
		free(label);
	}
	return image_write(path, &p->px, e);
}

int
detwrite_add(struct detwrite *t, struct picture *p, const struct detections *v, struct err *e)
{
	int r = 0;

	if (t->format == COCO)
		r = add_coco(t, p, v, e);
	else if (t->format == YOLO)
		r = add_yolo(t, p, v, e);
	for (int i = 0; i < v->n && t->format == TSV; i++)
		add_tsv(t, p, &v->det[i]);
	for (int i = 0; i < v->n && t->format == JSON; i++)
		add_json(t, p, &v->det[i]);
	if (r >= 0 && t->opt.draw && p->px.px) {
		struct err why;
		int q = draw(t, p, v, &why);

		if (q)
			*e = why;
		r = q ? q : r;
	}
	return r;
}

/* ---- open and close -------------------------------------------------------------------------- */

static void
open_ids(struct detwrite *t, const struct dataset *d)
{
	t->pic = (struct eval_pic *)xcalloc((size_t)d->n, sizeof *t->pic);
	for (int i = 0; i < d->n; i++)
		t->pic[i] = (struct eval_pic){ .name = d->item[i].name,
			.id = d->item[i].id == -1 ? EVAL_NOID : d->item[i].id };
	t->ids = eval_names_open(t->pic, d->n);
}

struct detwrite *
detwrite_open(const struct detwrite_opts *o, struct err *e)
{
	struct detwrite *t = (struct detwrite *)xcalloc(1, sizeof *t);
	int bad;

	t->opt = *o;
	while (formats[t->format] && strcmp(formats[t->format], o->format))
		t->format = (enum format)(t->format + 1);
	bad = !formats[t->format] ? err_set(e, "unknown format '%s': want tsv, json, coco or yolo",
	    o->format) : t->format == YOLO ? folder(o->out, e) : out_open(&t->out, o->out, e);
	if (!bad && o->draw)
		bad = folder(o->draw, e);
	if (bad) {
		detwrite_close(t, 0, NULL);
		return NULL;
	}
	if (o->truth)
		open_ids(t, o->truth);
	if (t->format == TSV)
		fputs("#image\tclass\tname\tscore\tx\ty\tw\th\n", t->out.f);
	if (t->format == COCO)
		fputs("[", t->out.f);
	return t;
}

int
detwrite_flush(struct detwrite *t, struct err *e)
{
	if (t->out.f == stdout)
		return stdout_flush(e);
	if (t->out.f && (fflush(t->out.f) || ferror(t->out.f)))
		return err_set(e, "%s: %s", t->opt.out, strerror(errno));
	return 0;
}

int
detwrite_close(struct detwrite *t, int keep, struct err *e)
{
	int r = 0;

	if (!t)
		return 0;
	if (t->out.f && keep) {
		if (t->format == COCO)
			fputs("]\n", t->out.f);
		r = out_commit(&t->out, e);
	} else if (t->out.f)
		out_abort(&t->out);
	keys_free(&t->file);
	free(t->id);
	eval_names_close(t->ids);
	free(t->pic);
	free(t);
	return r;
}
