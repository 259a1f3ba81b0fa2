/* unpack.c -- a shard back into pictures and labels.
 *
 * Pictures come out byte for byte, labels with all their digits, so packing the folder again gives
 * the same boxes.  Names from a shard are not trusted: they stay below the folder, and two records
 * that would be one file get different names.  The folder appears when all is written. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shard/shard.h"

enum { MAX_PART = 240 };		/* bytes: leaves room for a number, below Linux' 255 */

struct unpack {
	const char *dir;		/* the temporary folder */
	struct shard *shard;
	char **class_name;
	int64_t *class_id;
	int nclass, keep_ids, keep_ann;	/* ids of pictures, of boxes: all there, all different */
	FILE *list;			/* list of pictures */
	long n, nann, lost, plain;	/* plain: difficult boxes written like others */
	long boxes;			/* of the whole shard: what is meant to be written */
	struct err *e;
	volatile int *stop;		/* set by a signal */
	/* a format's way with one record: rel is the picture's path below dir */
	int (*record)(struct unpack *, const struct record *, const char *rel);
	const char *folder;		/* where pictures go */
	struct keys name;
	int *next;			/* of a name: the number to try when it comes again */
	size_t cap;
};

static int
make_dirs(const char *path, struct err *e)
{
	char *copy = xstrdup(path);
	int r = 0;

	for (char *p = strchr(copy + 1, '/'); p && !r; p = strchr(p + 1, '/')) {
		*p = 0;
		if (mkdir(copy, 0777) && errno != EEXIST)
			r = err_set(e, "%s: %s", copy, strerror(errno));
		*p = '/';
	}
	free(copy);
	return r;
}

static FILE *
create(const char *path, struct err *e)
{
	FILE *f = make_dirs(path, e) ? NULL : fopen(path, "wbx");

	if (!f)
		err_set(e, "%s: %s", path, strerror(errno));
	return f;
}

static int
finish(FILE *f, const char *path, struct err *e)
{
	int bad = ferror(f);

	if (fclose(f) || bad)
		return err_set(e, "%s: %s", path, strerror(errno));
	return 0;
}

/* A part of a path without control letters, at most MAX_PART bytes: what is longer loses some
 * before its extension, at a whole letter. */
static size_t
tame_part(char *out, const char *p, size_t n)
{
	size_t ext = 0, head = n, len = 0;

	if (n > MAX_PART) {
		while (ext < 8 && p[n - 1 - ext] != '.')
			ext++;
		ext = ext < 8 ? ext + 1 : 0;
		for (head = MAX_PART - ext; head && ((unsigned char)p[head] & 0xc0) == 0x80;)
			head--;
	}
	for (size_t i = 0; i < n; i++)
		if (i < head || i >= n - ext)
			out[len++] = (unsigned char)p[i] < 32 ? '_' : p[i];
	return len;
}

/* A record's name as a path below a folder: no "..", no root, nothing hidden by control letters. */
static char *
tame(const char *name)
{
	char *out = (char *)xcalloc(strlen(name) + 16, 1), *q = out;

	for (const char *p = name; *p; p += strcspn(p, "/"), p += *p == '/') {
		size_t n = strcspn(p, "/");

		if (!n || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			continue;
		if (q > out)
			*q++ = '/';
		q += tame_part(q, p, n);
	}
	if (q == out)
		strcpy(out, "picture");
	return out;
}

static int to_voc(struct unpack *, const struct record *, const char *rel);

/* Where the labels of a picture go, in formats that have a file for each. */
static char *
label_of(const struct unpack *u, const char *rel)
{
	const char *base = path_base(rel), *dot = strrchr(base, '.');
	char *full, *two[2];

	if (u->record == to_voc)
		return xasprintf("%s/Annotations/%.*s.xml", u->dir,
		    dot ? (int)(dot - base) : (int)strlen(base), base);
	full = path_join(u->dir, rel);
	label_paths(full, two);
	free(full);
	if (!two[1])
		return two[0];
	free(two[0]);
	return two[1];
}

/* A path for the picture that neither it nor its label shares with another. */
static char *
free_path(struct unpack *u, const char *name)
{
	char *safe = tame(name), *dot = strrchr(path_base(safe), '.'), *rel, *full, *label;
	int taken = 1, stem = dot ? (int)(dot - safe) : (int)strlen(safe), had = u->name.n;
	int at = keys_add(&u->name, safe, strlen(safe)), k;

	if (at == had) {
		u->next = (int *)xgrow(u->next, &u->cap, (size_t)at + 1, sizeof *u->next);
		u->next[at] = 1;
	}
	for (k = u->next[at]; ; k++) {
		if (k == 1)
			rel = xasprintf("%s/%s", u->folder, safe);
		else
			rel = xasprintf("%s/%.*s-%d%s", u->folder, stem, safe, k, dot ? dot : "");
		full = path_join(u->dir, rel);
		label = label_of(u, rel);
		taken = !access(full, F_OK) || !access(label, F_OK);
		free(full);
		free(label);
		if (!taken)
			break;
		free(rel);
	}
	u->next[at] = k + 1;
	free(safe);
	return rel;
}

static const char *
class_text(const struct unpack *u, int cls, char buf[32])
{
	if (u->class_name[cls])
		return u->class_name[cls];
	snprintf(buf, 32, "class%d", cls);
	return buf;
}

/* The shortest decimal near v for which (text - minus) * scale is want: what a clean label file
 * said.  Where none is exact, all digits of v. */
static double
shortest(char text[32], double v, double minus, double scale, double want)
{
	double x = v;

	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, 32, "%.*g", digits, v);
		x = strtod(text, NULL);
		if ((x - minus) * scale == want)
			return x;
	}
	for (int k = -4; k <= 4; k++) {		/* the rounding of a neighbour may be the one */
		x = v;
		for (int i = 0; i < abs(k); i++)
			x = nextafter(x, k < 0 ? -HUGE_VAL : HUGE_VAL);
		snprintf(text, 32, "%.17g", x);
		if ((x - minus) * scale == want)
			return x;
	}
	snprintf(text, 32, "%.17g", v);
	return v;
}

/* A box that labelyolo.c reads as this one. */
static void
yolo_line(FILE *f, const struct box *b, int w, int h)
{
	char x[32], y[32], bw[32], bh[32];
	double sw = shortest(bw, b->w / w, 0, w, b->w), sh = shortest(bh, b->h / h, 0, h, b->h);

	shortest(x, (b->x + b->w / 2) / w, sw / 2, w, b->x);
	shortest(y, (b->y + b->h / 2) / h, sh / 2, h, b->y);
	fprintf(f, "%d %s %s %s %s\n", b->cls, x, y, bw, bh);
}

static int
to_yolo(struct unpack *u, const struct record *r, const char *rel)
{
	char *path = label_of(u, rel);
	FILE *f = create(path, u->e);
	int bad = -1;

	for (int i = 0; f && i < r->nbox; i++) {
		const struct box *b = &r->box[i];

		u->plain += (b->flags & (BOX_CROWD | BOX_DIFFICULT)) == BOX_DIFFICULT;
		if (b->flags & BOX_CROWD)
			u->lost++;		/* as a box like others it would be a lie */
		else
			yolo_line(f, b, r->w, r->h);
	}
	if (f)
		bad = finish(f, path, u->e);
	fprintf(u->list, "%s\n", rel);
	free(path);
	return bad;
}

static void
xml_text(FILE *f, const char *s)
{
	for (; *s; s++)
		switch (*s) {
		case '&': fputs("&amp;", f); break;
		case '<': fputs("&lt;", f); break;
		case '>': fputs("&gt;", f); break;
		default:
			if ((unsigned char)*s >= 32 || *s == '\t')
				putc(*s, f);
		}
}

static int
to_voc(struct unpack *u, const struct record *r, const char *rel)
{
	const char *base = path_base(rel), *dot = strrchr(base, '.');
	int stem = dot ? (int)(dot - base) : (int)strlen(base), bad;
	char *path = label_of(u, rel), buf[32];
	FILE *f = create(path, u->e);

	if (!f) {
		free(path);
		return -1;
	}
	fputs("<annotation>\n\t<filename>", f);
	xml_text(f, base);
	fprintf(f,
	    "</filename>\n\t<size><width>%d</width><height>%d</height><depth>3</depth></size>\n",
	    r->w, r->h);
	for (int i = 0; i < r->nbox; i++) {
		const struct box *b = &r->box[i];

		if (b->flags & BOX_CROWD) {
			u->lost++;
			continue;
		}
		fputs("\t<object>\n\t\t<name>", f);
		xml_text(f, class_text(u, b->cls, buf));
		fprintf(f,
		    "</name>\n\t\t<truncated>%d</truncated>\n\t\t<occluded>%d</occluded>\n\t\t"
		    "<difficult>%d</difficult>\n\t\t<bndbox><xmin>%.17g</xmin><ymin>%.17g</"
		    "ymin><xmax>%.17g"
		    "</xmax><ymax>%.17g</ymax></bndbox>\n\t</object>\n",
		    !!(b->flags & BOX_TRUNCATED), !!(b->flags & BOX_OCCLUDED),
		    !!(b->flags & BOX_DIFFICULT), b->x, b->y, b->x + b->w, b->y + b->h);
	}
	fputs("</annotation>\n", f);
	bad = finish(f, path, u->e);
	fprintf(u->list, "%.*s\n", stem, base);
	free(path);
	return bad;
}

static int
to_coco(struct unpack *u, const struct record *r, const char *rel)
{
	fprintf(u->list, "%s\n{\"id\":%lld,\"file_name\":", u->n ? "," : "",
	    u->keep_ids ? (long long)r->id : (long long)u->n + 1);
	json_string(u->list, rel + strlen(u->folder) + 1);
	fprintf(u->list, ",\"width\":%d,\"height\":%d}", r->w, r->h);
	return 0;
}

/* The boxes of record i as COCO's annotations: a second pass, since the pictures come first. */
static int
coco_boxes(struct unpack *u, long i)
{
	struct record r;

	if (shard_labels(u->shard, i, &r, u->e))
		return -1;
	for (int k = 0; k < r.nbox; k++) {
		const struct box *b = &r.box[k];
		const char *comma = u->nann++ ? "," : "";

		fprintf(u->list,
		    "%s\n{\"id\":%lld,\"image_id\":%lld,\"category_id\":%lld,\"bbox\":[%.17g,%.17g,"
		    "%.17g,%.17g],\"area\":%.17g,\"iscrowd\":%d%s,\"segmentation\":[]}",
		    comma, u->keep_ann ? (long long)b->id : (long long)u->nann,
		    u->keep_ids ? (long long)r.id : (long long)i + 1,
		    (long long)u->class_id[b->cls], b->x, b->y, b->w, b->h, b->area,
		    !!(b->flags & BOX_CROWD), b->flags & BOX_DIFFICULT ? ",\"difficult\":1" : "");
	}
	return 0;
}

static int
one_record(struct unpack *u, long i, unsigned char **buf, size_t *cap)
{
	struct record r;
	char *rel, *path;
	FILE *f;
	int bad = -1;

	if (*u->stop)
		return err_set(u->e, "interrupted");
	if (shard_read(u->shard, i, &r, buf, cap, u->e))
		return -1;
	rel = free_path(u, u->record == to_voc ? path_base(r.name) : r.name);
	path = path_join(u->dir, rel);
	if ((f = create(path, u->e))) {
		fwrite(r.bytes, 1, r.nbytes, f);
		bad = finish(f, path, u->e);
	}
	if (!bad)
		bad = u->record(u, &r, rel);
	free(rel);
	free(path);
	u->n++;
	progress("%ld pictures", u->n);
	return bad;
}

static int
write_names(struct unpack *u)
{
	char *path = path_join(u->dir, "names"), buf[32];
	FILE *f = create(path, u->e);
	int bad = -1;

	for (int i = 0; f && i < u->nclass; i++)
		fprintf(f, "%s\n", class_text(u, i, buf));
	if (f)
		bad = finish(f, path, u->e);
	free(path);
	return bad;
}

/* What follows the pictures of COCO's file. */
static int
end_coco(struct unpack *u, const char *path)
{
	char buf[32];

	fputs("],\n\"annotations\":[", u->list);
	for (long i = 0; i < shard_count(u->shard); i++)
		if (coco_boxes(u, i))
			return -1;
	fputs("],\n\"categories\":[", u->list);
	for (int i = 0; i < u->nclass; i++) {
		fprintf(
		    u->list, "%s\n{\"id\":%lld,\"name\":", i ? "," : "", (long long)u->class_id[i]);
		json_string(u->list, class_text(u, i, buf));
		fputs("}", u->list);
	}
	fputs("]}\n", u->list);
	return u->nann == u->boxes ? 0 : err_set(u->e, "%s: %ld boxes written of %ld", path,
	    u->nann, u->boxes);
}

static int
by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Are they ids, and no two of them equal?  Sorts them; *any: one of them is an id. */
static int
different(int64_t *id, size_t n, int *any)
{
	int all = 1;

	*any = 0;
	if (n)
		qsort(id, n, sizeof *id, by_number);
	for (size_t i = 0; i < n; i++) {
		*any |= id[i] != -1;
		all &= id[i] != -1 && (!i || id[i] != id[i - 1]);
	}
	return all;
}

/* Two COCO sets in one shard may use the same numbers for other things. */
static int
look_at_ids(struct unpack *u)
{
	long n = shard_count(u->shard), bad = 0;
	int64_t *id = (int64_t *)xmalloc((size_t)n * sizeof *id), *ann = NULL;
	size_t nann = 0, cap = 0;
	int any_id, any_ann;
	struct record r;

	for (long i = 0; i < n && !bad; i++) {
		if ((bad = shard_labels(u->shard, i, &r, u->e)))
			break;
		id[i] = r.id;
		for (int k = 0; k < r.nbox; k++) {
			ann = (int64_t *)xgrow(ann, &cap, nann + 1, sizeof *ann);
			ann[nann++] = r.box[k].id;
		}
	}
	u->boxes = (long)nann;
	if (!bad) {
		u->keep_ids = different(id, (size_t)n, &any_id);
		u->keep_ann = different(ann, nann, &any_ann);
		if (u->record == to_coco && !u->keep_ids && any_id)
			warn("ids of pictures are missing or stand twice: all are numbered anew");
		else if (u->record == to_coco && !u->keep_ann && any_ann)
			warn("ids of boxes are missing or stand twice: all are numbered anew");
	}
	free(id);
	free(ann);
	return bad ? -1 : 0;
}

/* JSON and XML hold UTF-8 and nothing else: a reader would refuse all of the file. */
static int
fits(struct unpack *u, const char *what, const char *name)
{
	if (u->record == to_yolo || utf8_is(name))
		return 0;
	return err_set(u->e, "%s '%s': not UTF-8, %s cannot hold it; -f yolo can", what, name,
	    u->record == to_voc ? "XML" : "JSON");
}

static int
names_fit(struct unpack *u)
{
	struct record r;
	int bad = 0;

	for (int i = 0; i < u->nclass && !bad; i++) {
		const char *s = u->class_name[i], *why = s ? label_bad_name(s) : NULL;

		bad = !s ? 0 : why ? err_set(u->e, "class %d, '%s': its name is %s: no list of "
		    "names can hold it", i, s, why) : fits(u, "class", s);
	}
	for (long i = 0; i < shard_count(u->shard) && !bad; i++)
		bad = shard_labels(u->shard, i, &r, u->e) || fits(u, "picture", r.name);
	return bad;
}

static int
whole_shard(struct unpack *u, const char *list)
{
	unsigned char *buf = NULL;
	size_t cap = 0;
	char *path = path_join(u->dir, list);
	int bad = look_at_ids(u);

	u->nclass = shard_classes(u->shard, &u->class_name, &u->class_id);
	bad = bad || names_fit(u);
	if (bad || !(u->list = create(path, u->e))) {
		free(path);
		return -1;
	}
	if (u->record == to_coco)
		fputs("{\"images\":[", u->list);
	for (long i = 0; i < shard_count(u->shard) && !bad; i++)
		bad = one_record(u, i, &buf, &cap);
	if (!bad && u->record == to_coco)
		bad = end_coco(u, path);
	bad |= finish(u->list, path, u->e);
	if (!bad)
		bad = write_names(u);
	keys_free(&u->name);
	free(u->next);
	free(path);
	free(buf);
	return bad;
}

int
unpack_run(const char *dir, const char *format, char *const *shard, int n, long *pictures,
    volatile int *stop, struct err *e)
{
	size_t len = strlen(dir);
	char *name = xasprintf("%.*s", (int)(len - (len > 1 && dir[len - 1] == '/')), dir);
	char *tmp = path_tmp(name);
	struct unpack u;
	const char *list = "list.txt";
	int bad = 0, sets = 0, made = 0;

	free(name);
	memset(&u, 0, sizeof u);
	u.e = e;
	u.stop = stop;
	u.record = !strcmp(format, "coco") ? to_coco : !strcmp(format, "voc") ? to_voc : to_yolo;
	u.folder = u.record == to_voc ? "JPEGImages" : "images";
	if (u.record != to_yolo)
		list = u.record == to_voc ? "ImageSets/Main/all.txt" : "instances.json";
	if (!access(dir, F_OK) && rmdir(dir))
		bad = err_set(e, "%s: %s; want a new or empty folder", dir, strerror(errno));
	else if (tmp_begin(tmp), !(made = !mkdir(tmp, 0777)))
		bad = err_set(e, "%s: %s", tmp, strerror(errno));
	for (int i = 0; i < n; i++)
		sets += !shard_again(shard, i);
	for (int i = 0, k = 0; i < n && !bad; i++) {
		char *sub;

		if (shard_again(shard, i))
			continue;
		u.dir = sub = sets == 1 ? xstrdup(tmp) : xasprintf("%s/%d", tmp, k++);
		u.n = u.nann = 0;
		if (sets > 1 && mkdir(sub, 0777))
			bad = err_set(e, "%s: %s", sub, strerror(errno));
		else if (!(u.shard = shard_open(shard[i], e)))
			bad = -1;
		else
			bad = whole_shard(&u, list);
		shard_close(u.shard);
		u.shard = NULL;
		*pictures += u.n;
		free(sub);
	}
	progress_end();
	if (!bad && rename(tmp, dir))
		bad = err_set(e, "%s: %s", dir, strerror(errno));
	if (bad && made)
		path_remove(tmp);
	tmp_end(tmp);
	if (!bad && u.lost)
		warn("%ld crowd boxes left out: %s labels cannot say that a box is a crowd", u.lost,
		    format);
	if (!bad && u.plain)
		warn("%ld difficult boxes are written like others: %s labels cannot tell them",
		    u.plain, format);
	free(tmp);
	return bad;
}
