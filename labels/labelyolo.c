/* labelyolo.c -- darknet's label files: "class x y w h", relative to the picture, centre and size.
 *
 * darknet stops in silence at the first line that it cannot read, takes NaN and negative widths,
 * and trains a comma-separated file as an empty one.  Here each line is a box, or is refused with a
 * guess at what it was meant to be.  A line with more columns is a polygon, whose box is taken, or
 * has keypoints behind its box, which are not used. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "labels/int.h"
#include "image/image.h"

/* Replace the extension of a name in a folder. */
static char *
with_txt(const char *dir, const char *base)
{
	const char *dot = strrchr(base, '.');
	size_t n = dot && dot != base ? (size_t)(dot - base) : strlen(base);

	return xasprintf("%s%.*s.txt", dir, (int)n, base);
}

void
label_paths(const char *picture, char *path[2])
{
	const char *base = path_base(picture);
	char *dir = xasprintf("%.*s", (int)(base - picture), picture), *end, *other;

	path[0] = with_txt(dir, base);
	path[1] = NULL;
	for (end = dir + strlen(dir); end > dir; ) {
		char *slash = end - 1, *from = slash;
		size_t n;

		while (from > dir && from[-1] != '/')
			from--;
		n = (size_t)(slash - from);
		if ((n == 6 && !memcmp(from, "images", 6)) ||
		    (n == 10 && !memcmp(from, "JPEGImages", 10))) {
			other = xasprintf("%.*slabels%s", (int)(from - dir), dir, slash);
			path[1] = with_txt(other, base);
			free(other);
			break;
		}
		end = from;
	}
	free(dir);
}

/* What a line with a comma was meant to be. */
static const char *
comma(const char *s)
{
	for (const char *p = strchr(s, ','); p; p = strchr(p + 1, ','))
		if (!isdigit((unsigned char)p[1]) || strchr(s, '.'))
			return "commas between the columns; want blanks";
	return "a comma as decimal point; want 0.5, not 0,5";
}

/* Words of a line, cut in place. */
static int
words(char *s, char **w)
{
	int n = 0;

	for (s += strspn(s, " \t\f\v"); *s; s += strspn(s, " \t\f\v")) {
		w[n++] = s;
		s += strcspn(s, " \t\f\v");
		if (*s)
			*s++ = 0;
	}
	return n;
}

/* NULL when the line of n words is a box or a polygon of numbers, else what is wrong with it. */
static const char *
numbers(char **w, int n, double *v)
{
	int text = -1;

	for (int i = 0; i < n && text < 0; i++)
		if (num_real(w[i], -1e300, 1e300, &v[i]))
			text = i;
	if (text >= 0 && (!strcasecmp(w[text] + (*w[text] == '-'), "nan") ||
	    !strncasecmp(w[text] + (*w[text] == '-'), "inf", 3)))
		return "nan or inf instead of a number";
	if (text == 8 && n == 10)
		return "a DOTA line (8 pixels, name, difficulty); want: class x y w h";
	if (text >= 0)
		return "a word where a number should stand; want: class x y w h";
	if (n == 1)
		return "one number alone (BBox-Label-Tool's count?); want: class x y w h";
	if (n == 4 && v[2] > 1 && v[3] > 1)
		return "4 columns, corners in pixels? want: class x y w h";
	if (n < 5)
		return "too few columns; want: class x y w h";
	if (n == 6)
		return "6 columns, a detection with its score? want: class x y w h";
	return NULL;
}

/* The box of class cx cy w h. */
static void
centred(const double *v, const struct item *it, struct box *b)
{
	double w = it->w ? it->w : 1, h = it->h ? it->h : 1;

	b->x = (v[1] - v[3] / 2) * w;
	b->y = (v[2] - v[4] / 2) * h;
	b->w = v[3] * w;
	b->h = v[4] * h;
	b->area = b->w * b->h;
}

/* The box around points x y, from v[1] on. */
static void
around(const double *v, int n, const struct item *it, struct box *b)
{
	double x0 = v[1], y0 = v[2], x1 = x0, y1 = y0, w = it->w ? it->w : 1, h = it->h ? it->h : 1;

	for (int i = 1; i < n; i += 2) {
		x0 = fmin(x0, v[i]);
		x1 = fmax(x1, v[i]);
		y0 = fmin(y0, v[i + 1]);
		y1 = fmax(y1, v[i + 1]);
	}
	b->x = x0 * w;
	b->y = y0 * h;
	b->w = (x1 - x0) * w;
	b->h = (y1 - y0) * h;
	b->area = b->w * b->h;
}

/* Could v[1..4] be a box of the picture that has all the points of d numbers behind it?  The third
 * number of a point is 0, 1 or 2; a point of 0 0 is not there.  Returns how much of the box's width
 * or height they take, whichever is less; -1: no. */
static double
holds_points(const double *v, int n, int d)
{
	double x0 = 2, y0 = 2, x1 = -1, y1 = -1, slack = .01;
	double w = v[3] / 2 + slack, h = v[4] / 2 + slack;

	if ((n - 5) % d || v[3] <= 0 || v[4] <= 0)
		return -1;
	if (v[1] < w - 2 * slack || v[2] < h - 2 * slack || v[1] + w > 1 + 2 * slack ||
	    v[2] + h > 1 + 2 * slack)
		return -1;
	for (int i = 5; i < n; i += d) {
		if (d == 3 && v[i + 2] != 0 && v[i + 2] != 1 && v[i + 2] != 2)
			return -1;
		if (v[i] == 0 && v[i + 1] == 0)
			continue;
		if (d == 3 && v[i + 2] == 0)
			continue;
		if (fabs(v[i] - v[1]) > w || fabs(v[i + 1] - v[2]) > h)
			return -1;
		x0 = fmin(x0, v[i]);
		x1 = fmax(x1, v[i]);
		y0 = fmin(y0, v[i + 1]);
		y1 = fmax(y1, v[i + 1]);
	}
	return fmax(0, fmin((x1 - x0) / v[3], (y1 - y0) / v[4]));
}

/* Four corners of a rectangle that may be turned: the diagonals have one middle and, in pixels, one
 * length. */
static int
rectangle(const double *v, int n, const struct item *it)
{
	double w = it->w ? it->w : 1, h = it->h ? it->h : 1, slack = .01, a, b;

	if (n != 9 || fabs(v[1] + v[5] - v[3] - v[7]) > slack ||
	    fabs(v[2] + v[6] - v[4] - v[8]) > slack)
		return 0;
	a = hypot((v[1] - v[5]) * w, (v[2] - v[6]) * h);
	b = hypot((v[3] - v[7]) * w, (v[4] - v[8]) * h);
	return fabs(a - b) <= .05 * fmax(a, b);
}

/* A line of more than five columns: b is its box, *other the other way to read it where both are
 * possible.  Points of x y say nothing of what they are: all lines of an input together do. */
static const char *
long_line(struct labels *l, const double *v, int n, const struct item *it, struct box *b,
    struct box *other)
{
	int said = l->points * l->dims;

	if (said && n == 5 + said)
		centred(v, it, b);
	else if (said)
		return "not the columns that kpt_shape of data.yaml says: want class x y w h and "
		    "the keypoints";
	else if (n > 7 && holds_points(v, n, 3) >= 0) {
		l->pose++;
		centred(v, it, b);
	} else if (n % 2 == 0)
		return (n - 5) % 3 ? "an odd number of polygon coordinates; want: class x1 y1 x2 "
		    "y2 ..." : "an odd number of polygon coordinates, or keypoints of x y v that "
		    "do not lie in their box; want: class x1 y1 x2 y2 ...";
	else {
		around(v, n, it, b);
		if (!l->longer++)
			l->columns = n;
		if (n != l->columns || n < 7 || rectangle(v, n, it) || holds_points(v, n, 2) < .25)
			l->polygons = 1;
		centred(v, it, other);
	}
	return NULL;
}

/* NULL or what is wrong; the box in pixels. */
static const char *
to_box(struct labels *l, const double *v, int n, const struct item *it, struct box *b,
    struct box *other)
{
	for (int i = 1; i < n; i++)
		if (fabs(v[i]) > 2)
			return "the values look like pixels; want fractions of the picture, 0 to 1";
	other->w = 0;
	if (n > 5)
		return long_line(l, v, n, it, b, other);
	if (v[1] < 0 || v[1] > 1 || v[2] < 0 || v[2] > 1)
		return "its centre lies outside the picture";
	centred(v, it, b);
	return NULL;
}

/* The class column: an index, also written as 1.0e+00.  -1 and what is wrong. */
static int
class_of(struct labels *l, double v, struct err *why)
{
	int named = l->map || l->d->fixed || (l->d->nclass && l->d->class_name[0]);
	int n = l->map ? l->nmap : l->d->nclass;

	if (v != floor(v))
		return err_set(why, "class %g is not a whole number", v);
	if (v < 0)
		return err_set(why, "class %g is negative", v);
	l->too_high += named && v == n;
	l->zero += v == 0;
	l->numbers++;
	if (named && v >= n)
		return err_set(why, "class %.0f, but there are %d (0 to %d)%s", v, n, n - 1,
		    v == n ? "; counted from 1?" : "");
	if (l->map)
		return l->map[(int)v] >= 0 ? l->map[(int)v] :
		    err_set(why, "its class %.0f is not among the names", v);
	if (v > 99999)
		return err_set(why, "class %g, want at most 99999", v);
	while (l->d->nclass <= (int)v)
		label_new_class(l->d, NULL, l->d->nclass);
	return (int)v;
}

/* What a line is read with. */
struct line_room { char **w; double *v; struct keys seen; };

static void
one_line(struct labels *l, struct item *it, const char *path, int line, char *s,
    struct line_room *room)
{
	struct box b = { 0, 0, 0, 0, 0, -1, 0, 0 }, other = b;
	double *v = room->v;
	struct err why;
	const char *bad;
	int n, clipped = 0;

	if (s[strspn(s, " \t\f\v")] == '#') {
		label_say(l, SAY_NOTE, "%s:%d: a comment, skipped", path, line);
		return;
	}
	if (strchr(s, ',')) {
		label_say(l, SAY_REFUSED, "%s:%d: %s", path, line, comma(s));
		return;
	}
	if (!(n = words(s, room->w)))
		return;
	if (!(bad = numbers(room->w, n, v)) && !(bad = to_box(l, v, n, it, &b, &other))) {
		if ((b.cls = class_of(l, v[0], &why)) < 0)
			bad = why.msg;
		else
			clipped = label_check_box(&b, it->w ? it->w : 1, it->h ? it->h : 1, &bad);
	}
	if (bad && clipped != 1)
		label_say(l, SAY_REFUSED, "%s:%d: %s", path, line, bad);
	else if (label_again(&room->seen, it, &b))
		label_say(l, SAY_NOTE, "%s:%d: the same box again, kept once", path, line);
	else {
		if (clipped)
			label_say(l, SAY_NOTE, "%s:%d: the box %s", path, line, bad);
		label_box(it, &b);
		if (other.w > 0 && !l->polygons) {
			other.cls = b.cls;
			l->either = (struct either *)xgrow(l->either, &l->either_cap,
			    l->neither + 1, sizeof *l->either);
			l->either[l->neither++] = (struct either){ l->d->n - 1, it->nbox - 1,
				other };
		}
	}
}

int
label_yolo(struct labels *l, struct item *it, const char *path, struct err *e)
{
	struct text t;
	struct line_room room;
	char *s;

	if (text_plain(&t, path, e))
		return -1;
	label_key(l, path);
	memset(&room, 0, sizeof room);
	room.w = (char **)xmalloc(((size_t)(t.end - t.buf) / 2 + 1) * sizeof *room.w);
	room.v = (double *)xmalloc(((size_t)(t.end - t.buf) / 2 + 1) * sizeof *room.v);
	while ((s = text_line(&t)))
		one_line(l, it, path, t.line, s, &room);
	free(room.w);
	free(room.v);
	keys_free(&room.seen);
	free(t.buf);
	return 0;
}

static int
same_text(const char *a, const char *b)
{
	size_t n = 0, m = 0;
	struct err e;
	char *p = plain_read(a, (size_t)1 << 30, &n, &e);
	char *q = plain_read(b, (size_t)1 << 30, &m, &e);
	int same = p && q && n == m && !memcmp(p, q, n);

	free(p);
	free(q);
	return same;
}

/* What cannot be looked at is there, and reading it says why not; so a link to nowhere. */
static int
there(const char *path)
{
	struct stat st;

	return path && (!lstat(path, &st) || (errno != ENOENT && errno != ENOTDIR));
}

/* The boxes of a picture.  -1: its label file cannot be read, which is not to have none: as
 * background the picture would teach that its objects are nothing. */
static int
its_label(struct labels *l, struct item *it, const char *path, struct err *e)
{
	char *label[2];
	int r = 0;

	label_paths(path, label);
	if (there(label[0]) && there(label[1]) && !same_text(label[0], label[1]))
		label_say(
		    l, SAY_NOTE, "%s: differs from %s; the first is used", label[0], label[1]);
	if (there(label[0]))
		r = label_yolo(l, it, label[0], e);
	else if (there(label[1]))
		r = label_yolo(l, it, label[1], e);
	else
		l->bare++;
	free(label[0]);
	free(label[1]);
	return r;
}

/* One picture of a list or folder (from: "file:line" or NULL) and its label file. */
void
label_picture(struct labels *l, const char *name, const char *path, const char *from)
{
	int w, h, orientation = 0;
	struct err why;
	struct item *it;

	if (image_file_size(path, &w, &h, l->d->stored ? &orientation : NULL, &why)) {
		label_say(l, SAY_PICTURE, from ? "%s: %s" : "%s%s", from ? from : "", why.msg);
		return;
	}
	it = label_item(l, name, path);
	it->w = w;
	it->h = h;
	if (its_label(l, it, path, &why)) {
		label_say(l, SAY_PICTURE, "%s: %s", from ? from : path, why.msg);
		free(it->name);
		free(it->path);
		l->d->n--;
		return;
	}
	l->pictures++;
	if (orientation > 1 && it->nbox)
		label_say(l, SAY_NOTE,
		    "%s: EXIF orientation %d is not applied; were the boxes drawn on the "
		    "stored pixels?",
		    path, orientation);
}

/* Over a whole input: lines of five columns and points.  If in all of them the first four numbers
 * are a box that has all the points, and the points fill it, that is what they are. */
void
label_pose(struct labels *l, const char *input)
{
	const char *why;

	if (l->pose)
		label_say(l, SAY_NOTE, "%s: %ld lines have keypoints of x y v behind their box; "
		    "they are not used", input, l->pose);
	if (!l->longer || l->polygons)
		return;
	for (size_t i = 0; i < l->neither; i++) {
		struct either *k = &l->either[i];
		struct item *it = &l->d->item[k->item];

		label_check_box(&k->box, it->w ? it->w : 1, it->h ? it->h : 1, &why);
		it->box[k->at] = k->box;
	}
	label_say(l, SAY_NOTE, "%s: %ld lines of %d columns are read as class x y w h and %d "
	    "keypoints, as all points lie in that box; a polygon? kpt_shape of a data.yaml says "
	    "keypoints for certain", input, l->longer, l->columns, (l->columns - 5) / 2);
}

/* Over a whole input: do the class ids look counted from 1? */
void
label_one_based(struct labels *l, const char *input)
{
	if (l->too_high && !l->zero)
		label_say(l, SAY_NOTE,
		    "%s: no box has class 0 and %ld have class %d, one too many: are the "
		    "ids counted from 1?",
		    input, l->too_high, l->map ? l->nmap : l->d->nclass);
}
