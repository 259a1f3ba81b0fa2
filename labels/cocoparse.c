/* cocoparse.c -- COCO's instances json, read as a stream.
 *
 * The file is parsed in blocks and never held; what is kept is 100 bytes an annotation.  Ids are
 * taken by value: 17 and "17" are one id; other text in quotes stays text, and so do
 * numbers beyond 64 bits. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yajl/yajl_parse.h>

#include "labels/int.h"

enum { MAX_DEPTH = 500, MAX_NAME = 4096 };
enum section { S_OTHER, S_IMAGES, S_ANNOTATIONS, S_CATEGORIES };
enum field { F_OTHER, F_ID, F_FILE, F_WIDTH, F_HEIGHT, F_IMAGE, F_CATEGORY, F_BBOX, F_AREA, F_CROWD,
	F_DIFFICULT, F_POLYGON, F_NAME };
enum rle_key { RLE_OTHER, RLE_SIZE, RLE_COUNTS };

struct coco {
	struct labels *l;
	const char *path;
	yajl_handle y;
	const unsigned char *chunk;
	size_t seen;			/* bytes of the chunk whose newlines are counted */
	int line, depth, top_list, failed;
	enum section section;
	enum field field;
	struct coco_image image;	/* the object that is being read */
	struct coco_category category;
	struct coco_annotation ann;
	struct coco_file *out;
	size_t image_cap, category_cap, ann_cap;
	double poly[4];
	long npoly;
	int rle;			/* the segmentation is an object: run lengths */
	enum rle_key rle_key;
	double *run;
	size_t nrun, run_cap, nsize;
	double size[2];			/* rows, columns */
};

static int
line_now(struct coco *c)
{
	size_t at = yajl_get_bytes_consumed(c->y);

	for (; c->seen < at; c->seen++)
		c->line += c->chunk[c->seen] == '\n';
	return c->line;
}

static int
fail(struct coco *c, const char *what)
{
	err_set(c->l->e, "%s:%d: %s", c->path, line_now(c), what);
	c->failed = 1;
	return 0;
}

static char *
copy(const void *s, size_t n)
{
	char *p = (char *)xmalloc(n + 1);

	memcpy(p, s, n);
	p[n] = 0;
	return p;
}

/* An id from its text: a whole number by its value, in quotes or not; another word in quotes, and
 * digits beyond 64 bits, as they stand.  number: NULL where it is a string; 0: it is none. */
static int
set_id(struct coco *c, struct coco_id *id, const char *text, size_t n, const double *number)
{
	const char *why = NULL;
	size_t digits = 0;

	*id = (struct coco_id){ 0, 0 };
	while (digits < n && strchr("-0123456789", text[digits]))
		digits++;
	if (number && digits < n)
		why = num_id(text, n, *number, &id->v);
	else if (num_digits(text, n, &id->v))
		*id = (struct coco_id){ keys_add(&c->out->word, text, n), 1 };
	return !why || fail(c, why);
}

/* Of the object that is being read. */
static int
take_id(struct coco *c, const char *s, size_t n, const double *number)
{
	struct coco_id id;

	if (c->section == S_IMAGES)
		return set_id(c, &c->image.id, s, n, number);
	if (c->section == S_CATEGORIES)
		return set_id(c, &c->category.id, s, n, number);
	if (!set_id(c, &id, s, n, number))
		return 0;
	c->ann.id = id.word ? -1 : id.v;
	return 1;
}

static void
coordinate(struct coco *c, double v)
{
	int k = (int)(c->npoly++ & 1);

	if (c->npoly <= 2)
		c->poly[k] = c->poly[k + 2] = v;
	c->poly[k] = fmin(c->poly[k], v);
	c->poly[k + 2] = fmax(c->poly[k + 2], v);
}

/* A number of {"size": [h, w], "counts": [...]}. */
static void
rle_number(struct coco *c, double v)
{
	if (c->rle_key == RLE_SIZE && c->nsize++ < 2)
		c->size[c->nsize - 1] = v;
	if (c->rle_key == RLE_COUNTS) {
		c->run = (double *)xgrow(c->run, &c->run_cap, c->nrun + 1, sizeof *c->run);
		c->run[c->nrun++] = v;
	}
}

/* COCO's text form of run lengths: five bits a byte, the lowest first, the sixth says that more
 * follow, 48 is added to each.  From the fourth on a run is the difference to the last but one. */
static void
rle_text(struct coco *c, const unsigned char *s, size_t n)
{
	c->nrun = 0;
	for (size_t i = 0; i < n;) {
		int64_t v = 0;
		int shift = 0, byte = 32;

		for (; byte & 32 && i < n && shift < 60; shift += 5) {
			byte = s[i++] - 48;
			v |= (int64_t)(byte & 31) << shift;
		}
		if (byte & 16 && shift < 60)
			v |= -((int64_t)1 << shift);
		c->run = (double *)xgrow(c->run, &c->run_cap, c->nrun + 1, sizeof *c->run);
		c->run[c->nrun] = (double)v + (c->nrun > 2 ? c->run[c->nrun - 2] : 0);
		c->nrun++;
	}
}

/* The box of the run lengths, which go down the columns, background first. */
static void
rle_box(struct coco *c)
{
	double h = c->size[0], w = c->size[1], at = 0, x0 = HUGE_VAL, y0 = HUGE_VAL, x1 = 0, y1 = 0;

	for (size_t i = 0; i < c->nrun; i++) {
		double n = c->run[i], last = at + n - 1, top, end;

		if (!(n >= 0) || n != floor(n)) {
			c->ann.why = "a run length is not a whole number from 0";
			return;
		}
		if (i % 2 && n > 0 && h > 0) {
			top = fmod(at, h);
			end = fmod(last, h);
			if (floor(last / h) > floor(at / h))
				top = 0, end = h - 1;
			x0 = fmin(x0, floor(at / h));
			x1 = fmax(x1, floor(last / h) + 1);
			y0 = fmin(y0, top);
			y1 = fmax(y1, end + 1);
		}
		at += n;
	}
	if (c->nsize != 2 || !(h >= 1 && w >= 1) || at != h * w)
		c->ann.why = "no bbox, and its run lengths do not add up to their size";
	else if (x1 <= 0)
		c->ann.why = "no bbox, and its run lengths mark nothing";
	else {
		c->ann.nbox = 4;
		c->ann.from = BOX_OF_RUNS;
		c->ann.rle_w = w < 1e9 ? (int)w : 0;
		c->ann.rle_h = h < 1e9 ? (int)h : 0;
		c->ann.box[0] = x0;
		c->ann.box[1] = y0;
		c->ann.box[2] = x1 - x0;
		c->ann.box[3] = y1 - y0;
	}
}

static int
number(void *arg, const char *s, size_t n)
{
	struct coco *c = (struct coco *)arg;
	char text[400];
	double v;

	if (c->section == S_OTHER || c->field == F_OTHER)
		return 1;
	if (n >= sizeof text)
		return fail(c, "a number of more than 400 digits");
	memcpy(text, s, n);
	text[n] = 0;
	if (num_real(text, -HUGE_VAL, HUGE_VAL, &v))
		v = NAN;
	if (c->depth == 4 && c->field == F_BBOX) {
		if (c->ann.nbox >= 0 && c->ann.nbox++ < 4)
			c->ann.box[c->ann.nbox - 1] = v;
	} else if (c->field == F_POLYGON && c->rle)
		rle_number(c, v);
	else if ((c->depth == 4 || c->depth == 5) && c->field == F_POLYGON)
		coordinate(c, v);
	else if (c->depth == 3)
		switch (c->field) {
		case F_ID: return take_id(c, s, n, &v);
		case F_IMAGE: return set_id(c, &c->ann.image, s, n, &v);
		case F_CATEGORY: return set_id(c, &c->ann.category, s, n, &v);
		case F_WIDTH: c->image.w = v >= 1 && v < 1e9 ? (int)v : 0; break;
		case F_HEIGHT: c->image.h = v >= 1 && v < 1e9 ? (int)v : 0; break;
		case F_AREA: c->ann.area = v; break;
		case F_CROWD: c->ann.crowd = v != 0; break;
		case F_DIFFICULT: c->ann.difficult |= v != 0; break;
		default: break;
		}
	return 1;
}

static int
string(void *arg, const unsigned char *text, size_t n)
{
	struct coco *c = (struct coco *)arg;
	const char *s = (const char *)text;

	if (c->section == S_OTHER)
		return 1;
	if (c->depth == 4 && c->field == F_BBOX)
		c->ann.nbox = -1;
	if (c->rle && c->rle_key == RLE_COUNTS && c->depth == 4)
		rle_text(c, text, n);
	if (c->depth != 3)
		return 1;
	if ((c->field == F_FILE || c->field == F_NAME) && n > MAX_NAME)
		return fail(c, "a name of more than 4096 bytes");
	if ((c->field == F_FILE || c->field == F_NAME) && memchr(s, 0, n))
		return fail(c, "a name with a zero byte (\\u0000)");
	switch (c->field) {
	case F_ID: return take_id(c, s, n, NULL);
	case F_IMAGE: return set_id(c, &c->ann.image, s, n, NULL);
	case F_CATEGORY: return set_id(c, &c->ann.category, s, n, NULL);
	case F_FILE: free(c->image.file); c->image.file = copy(s, n); break;
	case F_NAME: free(c->category.name); c->category.name = copy(s, n); break;
	default: break;
	}
	return 1;
}

static int
boolean(void *arg, int v)
{
	struct coco *c = (struct coco *)arg;

	if (c->depth == 3 && c->section == S_ANNOTATIONS && c->field == F_CROWD)
		c->ann.crowd = v != 0;
	if (c->depth == 3 && c->section == S_ANNOTATIONS && c->field == F_DIFFICULT)
		c->ann.difficult |= v != 0;
	return 1;
}

/* What a key of an annotation says of its box where it holds; 0: no flag.  "difficult" is VOC's, as
 * unpack.c writes it; pycocotools calls the same thing "ignore".  Either of them is enough. */
int
coco_flag(const char *key, size_t n)
{
	static const struct { const char *key; int flag; } known[] = { { "iscrowd", BOX_CROWD },
		{ "ignore", BOX_DIFFICULT }, { "difficult", BOX_DIFFICULT } };

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strlen(known[i].key) == n && !memcmp(key, known[i].key, n))
			return known[i].flag;
	return 0;
}

static int
map_key(void *arg, const unsigned char *s, size_t n)
{
	static const struct { const char *key; enum section section; enum field field; } known[] = {
		{ "id", S_IMAGES, F_ID }, { "file_name", S_IMAGES, F_FILE },
		{ "width", S_IMAGES, F_WIDTH }, { "height", S_IMAGES, F_HEIGHT },
		{ "id", S_ANNOTATIONS, F_ID }, { "image_id", S_ANNOTATIONS, F_IMAGE },
		{ "category_id", S_ANNOTATIONS, F_CATEGORY }, { "bbox", S_ANNOTATIONS, F_BBOX },
		{ "area", S_ANNOTATIONS, F_AREA },
		{ "segmentation", S_ANNOTATIONS, F_POLYGON }, { "id", S_CATEGORIES, F_ID },
		{ "name", S_CATEGORIES, F_NAME },
	};
	static const char *const section[] = { NULL, "images", "annotations", "categories" };
	struct coco *c = (struct coco *)arg;

	if (c->depth == 1) {
		c->section = S_OTHER;
		for (int i = 1; i < 4; i++)
			if (strlen(section[i]) == n && !memcmp(s, section[i], n))
				c->section = (enum section)i;
	} else if (c->depth == 4 && c->rle) {
		c->rle_key = n == 4 && !memcmp(s, "size", 4) ? RLE_SIZE :
		    n == 6 && !memcmp(s, "counts", 6) ? RLE_COUNTS : RLE_OTHER;
	} else if (c->depth == 3 && c->section) {
		if (c->section == S_ANNOTATIONS && n == 13 && !memcmp(s, "segments_info", 13))
			return fail(c, "panoptic annotations: segments_info is not read; want the "
			    "instances json");
		c->field = F_OTHER;
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			if (known[i].section == c->section && strlen(known[i].key) == n &&
			    !memcmp(s, known[i].key, n))
				c->field = known[i].field;
		if (c->section == S_ANNOTATIONS && coco_flag((const char *)s, n))
			c->field = coco_flag((const char *)s, n) == BOX_CROWD ? F_CROWD :
			    F_DIFFICULT;
	}
	return 1;
}

static int
deeper(struct coco *c, int list)
{
	if (++c->depth > MAX_DEPTH)
		return fail(c, "nested too deep for annotations");
	if (c->depth == 1 && list)
		c->top_list = 1;
	return 1;
}

/* Ready for the next object; what the last one owned has a new owner. */
static void
clear(struct coco *c)
{
	memset(&c->image, 0, sizeof c->image);
	memset(&c->category, 0, sizeof c->category);
	memset(&c->ann, 0, sizeof c->ann);
	c->npoly = 0;
	c->nrun = c->nsize = 0;
	c->rle = 0;
	c->field = F_OTHER;
}

static int
start_map(void *arg)
{
	struct coco *c = (struct coco *)arg;

	if (!deeper(c, 0))
		return 0;
	if (c->top_list)
		return c->depth > 2 ||
		       fail(c, "a list of results; want annotations: {\"images\": ...}");
	if (c->depth == 3) {
		clear(c);
		c->ann.id = -1;
		c->ann.area = NAN;
	} else if (c->depth == 4 && c->field == F_POLYGON) {
		c->rle = 1;
		c->rle_key = RLE_OTHER;
	}
	return 1;
}

static int
start_array(void *arg)
{
	struct coco *c = (struct coco *)arg;

	if (!deeper(c, 1))
		return 0;
	if (c->depth == 2) {
		c->out->seen_images |= c->section == S_IMAGES;
		c->out->seen_annotations |= c->section == S_ANNOTATIONS;
		c->out->seen_categories |= c->section == S_CATEGORIES;
	}
	if (c->depth == 5 && c->npoly & 1)
		c->npoly++; /* a polygon of odd length must not turn the next one */
	return 1;
}

static int
end_map(void *arg)
{
	struct coco *c = (struct coco *)arg;

	if (c->depth-- != 3)
		return 1;
	switch (c->section) {
	case S_IMAGES:
		c->out->image = (struct coco_image *)xgrow(c->out->image, &c->image_cap,
		    c->out->nimage + 1, sizeof *c->out->image);
		c->image.line = line_now(c);
		c->out->image[c->out->nimage++] = c->image;
		break;
	case S_CATEGORIES:
		c->out->category = (struct coco_category *)xgrow(c->out->category, &c->category_cap,
		    c->out->ncategory + 1, sizeof *c->out->category);
		c->out->category[c->out->ncategory++] = c->category;
		break;
	case S_ANNOTATIONS:
		if (!c->ann.nbox && c->rle)
			rle_box(c);
		else if (!c->ann.nbox && c->npoly >= 6) {
			c->ann.nbox = 4;
			c->ann.from = BOX_OF_POLYGON;
			for (int i = 0; i < 4; i++)
				c->ann.box[i] = i < 2 ? c->poly[i] : c->poly[i] - c->poly[i - 2];
		}
		c->ann.line = line_now(c);
		c->out->ann = (struct coco_annotation *)xgrow(
		    c->out->ann, &c->ann_cap, c->out->nann + 1, sizeof *c->out->ann);
		c->out->ann[c->out->nann++] = c->ann;
		break;
	default:
		break;
	}
	clear(c);
	return 1;
}

static int
end_array(void *arg)
{
	((struct coco *)arg)->depth--;
	return 1;
}

static int
parse_json(struct coco *c, FILE *f)
{
	static const yajl_callbacks calls = { NULL, boolean, NULL, NULL, number, string, start_map,
		map_key, end_map, start_array, end_array };
	enum { CHUNK = 1 << 16 };
	unsigned char *buf = (unsigned char *)xmalloc(CHUNK), *text;
	yajl_status st = yajl_status_ok;
	size_t n, skip;
	int first = 1;

	if (!(c->y = yajl_alloc(&calls, NULL, c)))
		die(1, "out of memory");
	while (st == yajl_status_ok && (n = fread(buf, 1, CHUNK, f))) {
		skip = first && n >= 3 && !memcmp(buf, "\xef\xbb\xbf", 3) ? 3 : 0;
		first = 0;
		c->chunk = buf + skip;
		c->seen = 0;
		st = yajl_parse(c->y, c->chunk, n - skip);
		if (st == yajl_status_ok)
			line_now(c);
	}
	if (st == yajl_status_ok && !ferror(f)) {
		c->chunk = (const unsigned char *)"";
		c->seen = SIZE_MAX;
		st = yajl_complete_parse(c->y);
	}
	if (ferror(f)) {
		err_set(c->l->e, "%s: %s", c->path, strerror(errno));
		c->failed = 1;
	}
	if (st != yajl_status_ok && !c->failed) {
		text = yajl_get_error(c->y, 0, NULL, 0);
		text[strcspn((char *)text, "\n")] = 0;
		fail(c, (const char *)text);
		yajl_free_error(c->y, text);
	}
	yajl_free(c->y);
	free(buf);
	return c->failed ? -1 : 0;
}

int
coco_parse(struct labels *l, const char *path, FILE *f, struct coco_file *out)
{
	struct coco *c = (struct coco *)xcalloc(1, sizeof *c);
	int r;

	c->l = l;
	c->path = path;
	c->line = 1;
	c->out = out;
	r = parse_json(c, f);
	free(c->image.file);		/* of an object that was cut off */
	free(c->category.name);
	free(c->run);
	free(c);
	return r;
}
