/* yolo-show.c -- pictures of a set with their boxes, as one sheet or a folder.
 *
 * Every input, shard or labels, becomes a list of pictures with boxes; of these some are chosen, by
 * chance or by what -O find= asks for, and drawn.  With -a they are drawn as the network gets them:
 * through the loader, from a small shard made of the chosen ones. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "yolo.h"
#include "base/fn.h"

static const struct option longopt[] = {
	{ "augment", 1, NULL, 'a' }, { "count", 1, NULL, 'k' }, { "names", 1, NULL, 'n' },
	{ "option", 1, NULL, 'O' }, { "output", 1, NULL, 'o' }, { "seed", 1, NULL, 'S' },
	{ "side", 1, NULL, 's' }, { "quiet", 0, NULL, 'q' }, { "help", 0, NULL, 'h' },
	{ "version", 0, NULL, 'V' }, { NULL, 0, NULL, 0 },
};
static const struct setting settings[] = {
	{ "find", "any", "text",
	    "which pictures: any (by chance), tiny (smallest boxes), edge (boxes cut by the "
	    "border), crowd (most boxes), empty (no boxes), class=NAME" },
	{ NULL, NULL, NULL, NULL },
};

/* A picture that may be shown.  Its bytes are a file's or a record's. */
struct pic {
	const char *name, *path;
	struct shard *shard;
	long record;
	int w, h, nbox;
	const struct box *box;
	char **class_name;
	int nclass;
	double rank;			/* the higher, the sooner; below 0: not wanted */
};
struct cmd {
	const char *names, *out;
	long count, seed;
	int side, augment;		/* augment: an enum aug_kind, -1 none asked for */
	struct settings set;
	struct dataset data;		/* of all inputs that are labels */
	struct shard **shard;
	struct pic *pic;
	int nin;
	size_t n, cap;
	long bad;			/* pictures that could not be shown */
};

static void
usage(FILE *f)
{
	fputs("usage: yolo-show [-hqV] [-a none|darknet|ultra2019|mosaic] [-k count] [-n names]\n"
	      "                 [-O key=value] [-S seed] [-s side] -o OUT.png|OUT.jpg|DIR/ input "
	      "...\n"
	      "input: a shard, or anything that yolo-prep packs\n", f);
}

static int
augment_kind(const char *s)
{
	static const char *const name[] = { "none", "darknet", "ultra2019", "mosaic" };

	for (int i = 0; i < 4; i++)
		if (!strcmp(s, name[i]))
			return i;
	die(2, "-a %s: want none, darknet, ultra2019 or mosaic", s);
}

static long
number(int letter, long lo, long hi)
{
	long v;

	if (num_int(optarg, lo, hi, &v))
		die(2, "-%c %s: want %ld to %ld", letter, optarg, lo, hi);
	return v;
}

static void
option(struct cmd *c, int letter)
{
	switch (letter) {
	case 'a': c->augment = augment_kind(optarg); break;
	case 'k': c->count = number('k', 1, 10000); break;
	case 'n': c->names = optarg; break;
	case 'O': settings_option(&c->set, optarg); break;
	case 'o': c->out = optarg; break;
	case 'S': c->seed = number('S', 0, LONG_MAX); break;
	case 's': c->side = (int)number('s', 32, 4096); break;
	case 'q': quiet = 1; break;
	case 'h': usage(stdout); exit(0);
	case 'V': printf("yolo-show %s\n", YOLO_VERSION); exit(0);
	default: usage(stderr); exit(2);
	}
}

/* ---- what there is ------------------------------------------------------------------------ */

static void
report(void *arg, int kind, const char *line)
{
	struct cmd *c = (struct cmd *)arg;

	c->bad += kind == SAY_PICTURE;
	if (!quiet || kind != SAY_NOTE)
		warn("%s%s", kind == SAY_NOTE ? "note: " : "", line);
}

static struct pic *
new_pic(struct cmd *c)
{
	c->pic = (struct pic *)xgrow(c->pic, &c->cap, c->n + 1, sizeof *c->pic);
	memset(&c->pic[c->n], 0, sizeof *c->pic);
	return &c->pic[c->n++];
}

static int
list_shard(struct cmd *c, struct shard *s, struct err *e)
{
	for (long i = 0; i < shard_count(s); i++) {
		struct pic *p = new_pic(c);
		struct record r;

		if (shard_labels(s, i, &r, e))
			return -1;
		*p = (struct pic){ .name = r.name, .shard = s, .record = i, .w = r.w, .h = r.h,
			.nbox = r.nbox };
		p->nclass = shard_classes(s, &p->class_name, NULL);
	}
	return 0;
}

static void
list_data(struct cmd *c, struct dataset *d)
{
	struct err e;

	for (int i = 0; i < d->n; i++) {
		struct item *t = &d->item[i];
		struct pic *p;

		if (!t->w && image_file_size(t->path, &t->w, &t->h, NULL, &e)) {
			report(c, SAY_PICTURE, e.msg);
			continue;
		}
		p = new_pic(c);
		*p = (struct pic){ .name = t->name, .path = t->path, .w = t->w, .h = t->h,
			.nbox = t->nbox, .box = t->box, .class_name = d->class_name,
			.nclass = d->nclass };
	}
}

static int
list_inputs(struct cmd *c, char *const *in, struct err *e)
{
	c->shard = (struct shard **)xcalloc((size_t)c->nin + 1, sizeof *c->shard);
	for (int i = 0; i < c->nin; i++) {
		if (shard_again(in, i))
			continue;
		if (shard_is(in[i])) {
			if (!(c->shard[i] = shard_open(in[i], e)) ||
			    list_shard(c, c->shard[i], e))
				return -1;
			continue;
		}
		if (labels_read(&c->data, in[i], c->names, report, c, e))
			return -1;
	}
	list_data(c, &c->data);
	return c->n ? 0 : err_set(e, "no pictures in %s%s", in[0], c->nin > 1 ? " ..." : "");
}

/* The boxes of a record are borrowed from it until the next is read. */
static int
boxes_of(struct pic *p, struct err *e)
{
	struct record r;

	if (!p->shard)
		return 0;
	if (shard_labels(p->shard, p->record, &r, e))
		return -1;
	p->box = r.box;
	p->nbox = r.nbox;
	return 0;
}

/* ---- which of them ------------------------------------------------------------------------ */

/* From 0 to 1, by seed and number alone. */
static double
chance(long seed, size_t i)
{
	uint32_t word[4];

	fn_philox((uint64_t)seed, 0x73686f77, i, word);
	return fn_unit(word[0]);
}

static int
has_class(const struct pic *p, const char *name)
{
	int n = 0;

	for (int i = 0; i < p->nbox; i++) {
		int k = p->box[i].cls;
		char digits[16];
		const char *s = k < p->nclass && p->class_name[k] ? p->class_name[k] : digits;

		snprintf(digits, sizeof digits, "%d", k);
		n += !strcmp(s, name);
	}
	return n;
}

static double
rank_of(const struct pic *p, const char *find, double by_chance)
{
	double least = INFINITY;
	int cut = 0;

	for (int i = 0; i < p->nbox; i++) {
		const struct box *b = &p->box[i];

		least = fmin(least, b->w * b->h / ((double)p->w * p->h));
		cut += b->x < 1 || b->y < 1 || b->x + b->w > p->w - 1 || b->y + b->h > p->h - 1;
	}
	if (!strcmp(find, "tiny"))
		return p->nbox ? 1 / (least + 1e-12) : -1;
	if (!strcmp(find, "edge"))
		return cut ? cut : -1;
	if (!strcmp(find, "crowd"))
		return p->nbox ? p->nbox : -1;
	if (!strcmp(find, "empty"))
		return p->nbox ? -1 : by_chance;
	if (!strncmp(find, "class=", 6))
		return has_class(p, find + 6) ? by_chance : -1;
	return by_chance;
}

static int
sooner(const void *a, const void *b)
{
	const struct pic *p = (const struct pic *)a, *q = (const struct pic *)b;

	if (p->rank != q->rank)
		return p->rank < q->rank ? 1 : -1;
	return p->record != q->record ? (p->record > q->record ? 1 : -1) : strcmp(p->name, q->name);
}

static void
check_find(const char *find)
{
	static const char *const word[] = { "any", "tiny", "edge", "crowd", "empty" };

	for (int i = 0; i < 5; i++)
		if (!strcmp(find, word[i]))
			return;
	if (strncmp(find, "class=", 6) || !find[6])
		die(2, "-O find=%s: want any, tiny, edge, crowd, empty or class=NAME", find);
}

/* The best come first; how many of them are wanted. */
static int
choose(struct cmd *c, struct err *e)
{
	const char *find = settings_str(&c->set, "find");
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (boxes_of(&c->pic[i], e))
			return -1;
		c->pic[i].rank = rank_of(&c->pic[i], find, chance(c->seed, i));
	}
	qsort(c->pic, c->n, sizeof *c->pic, sooner);
	while (n < c->n && n < (size_t)c->count && c->pic[n].rank >= 0)
		n++;
	if (!n)
		return err_set(e, "-O find=%s: none of %zu pictures", find, c->n);
	c->n = n;
	return 0;
}

/* ---- drawing ------------------------------------------------------------------------------ */

static const char *
text_of(const struct pic *p, const struct box *b, char *s, size_t room)
{
	const char *flag = b->flags & BOX_CROWD ? " (crowd)" :
	    b->flags & BOX_DIFFICULT ? " (difficult)" : "";

	if (b->cls >= 0 && b->cls < p->nclass && p->class_name[b->cls])
		snprintf(s, room, "%s%s", p->class_name[b->cls], flag);
	else
		snprintf(s, room, "%d%s", b->cls, flag);
	return s;
}

static int
pixels(const struct pic *p, struct image *im, struct err *e)
{
	unsigned char *buf = NULL;
	size_t cap = 0;
	struct record r;
	int bad;

	if (!p->shard)
		return image_load(p->path, im, e);
	bad = shard_read(p->shard, p->record, &r, &buf, &cap, e);
	if (!bad && record_decode(&r, im, e)) {
		struct err why = *e;

		bad = err_set(e, "%s: record %ld (%s): %.700s", shard_path(p->shard, p->record),
		    p->record, p->name, why.msg);
	}
	free(buf);
	return bad;
}

/* The picture with its boxes, made to fit a square of side (0: as it is). */
static int
drawn(struct pic *p, int side, struct image *out, struct err *e)
{
	struct image im;
	double k = 1;
	char text[128];

	if (boxes_of(p, e) || pixels(p, &im, e))
		return -1;
	if (side) {
		struct fit f = fit_letterbox(im.w, im.h, side, side);

		*out = image_new(f.nw > 0 ? f.nw : 1, f.nh > 0 ? f.nh : 1);
		image_resize(&im, out, RESIZE_STB);
		image_free(&im);
	} else
		*out = im;
	for (int i = 0; i < p->nbox; i++) {
		const struct box *b = &p->box[i];
		double ky = (double)out->h / p->h;

		k = (double)out->w / p->w;
		image_box(out, b->x * k, b->y * ky, b->w * k, b->h * ky, b->cls,
		    text_of(p, b, text, sizeof text));
	}
	return 0;
}

enum { STRIP = 14 };			/* pixels of a caption */

/* A cell of a sheet: the picture in its middle, the end of its name under it. */
static void
place_cell(struct image *sheet, const struct image *im, int x, int y, int side, const char *name)
{
	int most = side / 6 - 1, len = (int)strlen(name);

	for (int row = 0; row < im->h; row++)
		memcpy(sheet->px + ((size_t)(y + (side - im->h) / 2 + row) * (size_t)sheet->w +
		    (size_t)(x + (side - im->w) / 2)) * 3, im->px + (size_t)row * im->w * 3,
		    (size_t)im->w * 3);
	while (len > most) {		/* whole letters go from the front */
		int n = utf8_len(name);

		name += n ? n : 1;
		len = (int)strlen(name);
	}
	image_text(sheet, x + 2, y + side + 3, 1, name);
}

static struct image
new_sheet(size_t n, int side, int *columns)
{
	int cols = (int)ceil(sqrt((double)n)), rows = (int)((n + (size_t)cols - 1) / (size_t)cols);
	struct image sheet;
	struct err e;

	if (image_limit((int64_t)cols * (side + 4), (int64_t)rows * (side + STRIP + 4), &e))
		die(2, "a sheet of %zu pictures of %d pixels: %s: want a smaller -k or -s", n, side,
		    e.msg);
	sheet = image_new(cols * (side + 4), rows * (side + STRIP + 4));
	memset(sheet.px, 32, (size_t)sheet.w * (size_t)sheet.h * 3);
	*columns = cols;
	return sheet;
}

static int
folder(const char *out)
{
	size_t n = strlen(out);

	return path_isdir(out) || (n && out[n - 1] == '/');
}

/* DIR/000-name.png. */
static int
write_one(const char *dir, size_t i, const char *name, const struct image *im, struct err *e)
{
	const char *base = path_base(name);
	int len = (int)strcspn(base, "."), bad;
	char *file = xasprintf("%03zu-%.*s.png", i, len > 100 ? 100 : len, base);
	char *path = path_join(dir, file);

	bad = image_write(path, im, e);
	free(file);
	free(path);
	return bad;
}

/* ---- as the network gets them --------------------------------------------------------------- */

static int
same_classes(const struct pic *p, const struct pic *q)
{
	for (int i = 0; i < p->nclass && p->nclass == q->nclass; i++)
		if (strcmp(p->class_name[i] ? p->class_name[i] : "",
		    q->class_name[i] ? q->class_name[i] : ""))
			return 0;
	return p->nclass == q->nclass;
}

/* A shard of the chosen pictures, gone with the program. */
static struct shard *
small_shard(struct cmd *c, struct err *e)
{
	const char *dir = getenv("TMPDIR");
	char *base = path_join(dir && *dir ? dir : "/tmp", "yolo-show"), *path = path_tmp(base);
	struct shard_writer *w = shard_create(path, c->pic->class_name, NULL, c->pic->nclass, "",
	    e);
	struct shard *s = NULL;
	int bad = !w;

	for (size_t i = 1; i < c->n && !bad; i++)
		if (!same_classes(c->pic, &c->pic[i]))
			bad = err_set(e, "-a: %s and %s have other classes: one set at a time",
			    c->pic->name, c->pic[i].name);
	for (size_t i = 0; i < c->n && !bad; i++) {
		struct pic *p = &c->pic[i];
		unsigned char *buf = NULL;
		size_t cap = 0;
		struct record r = { .id = -1, .w = p->w, .h = p->h, .codec = CODEC_OTHER,
			.name = p->name };

		if (p->shard)
			bad = shard_read(p->shard, p->record, &r, &buf, &cap, e);
		else {
			buf = (unsigned char *)file_read(p->path, (size_t)1 << 32, &r.nbytes, e);
			bad = !buf;
			r.bytes = buf;
			r.box = p->box;
			r.nbox = p->nbox;
		}
		bad = bad || shard_add(w, &r, e);
		free(buf);
	}
	if (bad && w)
		shard_discard(w);
	else if (w && !shard_finish(w, e))
		s = shard_open(path, e);
	unlink(path);
	free(path);
	free(base);
	return s;
}

static struct image
batch_image(const struct batch *b, int i, const struct pic *p)
{
	struct image im = image_new(b->w, b->h);
	size_t n = (size_t)b->w * (size_t)b->h * 3;
	char text[128];

	for (size_t k = 0; k < n; k++)
		im.px[k] = (unsigned char)lrintf(255 * fminf(1, fmaxf(0, b->x[(size_t)i * n + k])));
	for (int k = 0; k < b->ntruth; k++) {
		const struct truth *t = &b->truth[k];
		struct box box = { .cls = (int)t->cls };

		if ((int)t->image == i)
			image_box(&im, (t->x - t->w / 2) * b->w, (t->y - t->h / 2) * b->h,
			    t->w * b->w, t->h * b->h, box.cls, text_of(p, &box, text, sizeof text));
	}
	return im;
}

static int
show_batch(struct cmd *c, struct err *e)
{
	int side = c->side ? c->side : 416, cols, bad = 0;
	struct loader_opts o = { .seed = (uint64_t)c->seed, .batch = (int)c->n, .ranks = 1,
		.w = side, .h = side, .threads = cores() };
	struct shard *s = small_shard(c, e);
	struct loader *l;
	struct batch *b;
	struct image sheet;

	augment_defaults(&o.aug, (enum aug_kind)c->augment);
	if (c->augment == AUG_MOSAIC)
		o.aug.mosaic = 1;
	if (!s || !(l = loader_open(s, &o, 0, 1, e)))
		return -1;
	if (!(b = loader_next(l, e)))
		return -1;
	sheet = new_sheet(c->n, side, &cols);
	if (folder(c->out))
		mkdir(c->out, 0777);
	for (int i = 0; i < b->n && !bad; i++) {
		struct image im = batch_image(b, i, c->pic);
		const char *name = c->pic[b->record[i]].name;

		if (folder(c->out))
			bad = write_one(c->out, (size_t)i, name, &im, e);
		else
			place_cell(&sheet, &im, i % cols * (side + 4) + 2,
			    i / cols * (side + STRIP + 4) + 2, side, name);
		image_free(&im);
	}
	if (!bad && !folder(c->out))
		bad = image_write(c->out, &sheet, e);
	image_free(&sheet);
	loader_free(l, b);
	loader_close(l);
	shard_close(s);
	return bad;
}

static int
show_pictures(struct cmd *c, struct err *e)
{
	int dir = folder(c->out), side = c->side ? c->side : dir ? 0 : 320, cols = 1, bad = 0;
	struct image sheet = { 0, 0, NULL }, im;

	if (dir && mkdir(c->out, 0777) && errno != EEXIST)
		return err_set(e, "%s: %s", c->out, strerror(errno));
	if (!dir)
		sheet = new_sheet(c->n, side, &cols);
	for (size_t i = 0; i < c->n && !bad; i++) {
		int at = (int)i;

		if (drawn(&c->pic[i], side, &im, e)) {
			report(c, SAY_PICTURE, e->msg);
			continue;
		}
		if (dir)
			bad = write_one(c->out, i, c->pic[i].name, &im, e);
		else
			place_cell(&sheet, &im, at % cols * (side + 4) + 2,
			    at / cols * (side + STRIP + 4) + 2, side, c->pic[i].name);
		image_free(&im);
		progress("%zu of %zu pictures", i + 1, c->n);
	}
	progress_end();
	if (!dir && !bad)
		bad = image_write(c->out, &sheet, e);
	image_free(&sheet);
	return bad;
}

static void
check_output(const struct cmd *c, char *const *in)
{
	const char *out[] = { c->out };
	const char **all = (const char **)xcalloc((size_t)c->nin + 1, sizeof *all);
	struct err e;

	for (int i = 0; i < c->nin; i++)
		all[i] = in[i];
	all[c->nin] = c->names;
	if (!path_isdir(c->out) && path_clash(out, 1, all, c->nin + 1, &e))
		die(2, "%s", e.msg);
	free(all);
}

int
main(int argc, char **argv)
{
	struct cmd c = { .count = 16, .augment = -1 };
	struct err e;
	size_t all;
	int letter, bad;

	program(argv, "yolo-show");
	settings_open(&c.set, settings);
	while ((letter = getopt_long(argc, argv, "a:k:n:O:o:S:s:qhV", longopt, NULL)) != -1)
		option(&c, letter);
	c.nin = argc - optind;
	if (!c.out || !c.nin)
		die(2, "name %s (-h shows the usage)", c.nin ? "the output: -o OUT.png" :
		    "a shard, a folder, a list ... to show");
	check_find(settings_str(&c.set, "find"));
	check_output(&c, argv + optind);
	bad = list_inputs(&c, argv + optind, &e);
	all = c.n;
	if (bad || choose(&c, &e) || (c.augment >= 0 ? show_batch : show_pictures)(&c, &e))
		die(1, "%s", e.msg);
	if (!quiet)
		warn("%zu of %zu pictures in %s", c.n, all, c.out);
	for (int i = 0; i < c.nin; i++)
		shard_close(c.shard[i]);
	labels_close(&c.data);
	free(c.shard);
	free(c.pic);
	settings_close(&c.set);
	return c.bad ? 1 : 0;
}
