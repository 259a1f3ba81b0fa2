/* transfer.c -- the weights that a new run begins with.
 *
 * Where the file's heads have another number of classes, they are left as they were initialised and
 * all else is loaded.  The file is read by a copy of the cfg whose heads are of the file's size, so
 * every check of an ordinary load stands.  A .weights file says nothing about itself, but its
 * length is linear in the number of classes. */
#include <stdlib.h>
#include <string.h>

#include "train/train.h"

static int
is_head(const struct cfg *c, int i)
{
	return c->l[i].type == L_CONV && i + 1 < c->nl &&
	    (c->l[i + 1].type == L_YOLO || c->l[i + 1].type == L_REGION);
}

static long
floats_of(const struct cfg *c)
{
	long n = 0;

	for (int i = 0; i < c->nl; i++)
		n += c->l[i].dontload ? 0 : cfg_floats(c, i);
	return n;
}

static void
set_filters(struct cfg *c, int i, int filters)
{
	c->l[i].u.conv.k = filters;
	c->l[i].c = filters;
}

static void
set_classes(struct cfg *c, int classes)
{
	for (int i = 0; i < c->nl; i++)
		if (is_head(c, i))
			set_filters(c, i, c->l[i + 1].u.yolo.nmask * (5 + classes));
}

/* Numbers in a .weights file; -1: it is not one. */
static long
floats_in(const char *path)
{
	unsigned char b[12];
	FILE *f = weights_plain(path) ? fopen(path, "rb") : NULL;
	long n = -1, head;

	if (f && fread(b, 1, sizeof b, f) == sizeof b && !fseek(f, 0, SEEK_END)) {
		head = b[0] * 10 + b[4] >= 2 ? 20 : 16;
		n = ftell(f) - head;
		n = n < 0 || n % 4 ? -1 : n / 4;
	}
	if (f)
		fclose(f);
	return n;
}

/* Shape the copy's heads after a .weights file.  The number of its classes; 0: that is not it. */
static int
match_darknet(struct cfg *c, const char *path, int classes)
{
	long have = floats_in(path), zero, one, k;

	set_classes(c, 0);
	zero = floats_of(c);
	set_classes(c, 1);
	one = floats_of(c);
	k = one > zero ? (have - zero) / (one - zero) : 0;
	if (have < zero || k < 1 || k > 1 << 16 || k == classes || zero + k * (one - zero) != have)
		return 0;
	set_classes(c, (int)k);
	return (int)k;
}

/* The same after a safetensors file: -1 where its heads differ by more than classes. */
static int
match_st(struct cfg *c, const struct st *st, int classes)
{
	int found = 0, other = 0;

	for (int i = 0; i < c->nl; i++) {
		char name[64];
		const struct st_tensor *t;
		int mask = is_head(c, i) ? c->l[i + 1].u.yolo.nmask : 0, k;

		snprintf(name, sizeof name, "layer.%d.weight", i);
		if (!mask || !(t = st_find(st, name)) || t->ndim != 4 || t->dim[0] > 1 << 24)
			continue;
		k = (int)t->dim[0];
		if (k == c->l[i].u.conv.k)
			continue;
		set_filters(c, i, k);
		other |= k % mask || k / mask <= 5 || (found && found != k / mask - 5);
		found = k / mask - 5;
	}
	return other ? -1 : found == classes ? 0 : found;
}

static int
match(struct cfg *c, const char *path, int classes)
{
	struct err why;
	struct st *st = st_open(path, &why);
	int k = st ? match_st(c, st, classes) : match_darknet(c, path, classes);

	st_close(st);
	return k;
}

static void
say(const char *path, const struct cfg *c, int classes, int own)
{
	char *list = NULL, *more;

	for (int i = 0; i < c->nl; i++)
		if (is_head(c, i)) {
			more = xasprintf("%s%s%d", list ? list : "", list ? ", " : "", i);
			free(list);
			list = more;
		}
	if (classes > 0)
		warn("%s: %d classes, the cfg has %d: its heads (layers %s) start anew, all else "
		    "is loaded", path,
		    classes, own, list);
	else
		warn("%s: other anchors than the cfg's: its heads (layers %s) start anew, all "
		    "else is loaded",
		    path, list);
	free(list);
}

/* Parameters of one layout to another; not those of heads that differ. */
static void
copy(const struct params *to, float *train, float *stat, const struct params *from,
    const float *train0, const float *stat0)
{
	for (int i = 0; i < to->np; i++) {
		const struct param *p = &to->p[i], *q = params_find(from, p->layer, p->kind);
		int is_stat = p->kind == P_MEAN || p->kind == P_VAR;

		if (p->n == q->n)
			memcpy((is_stat ? stat : train) + p->off, (is_stat ? stat0 : train0) +
			    q->off,
			    p->n * sizeof(float));
	}
}

/* What the file lacks keeps its first value; where it has averages, they are what was validated. */
static int
load(const char *path, const struct cfg *c, const struct params *par, struct weights *w, int cutoff,
    struct err *e)
{
	struct params from;
	struct weights v;
	int bad;

	params_plan(c, &from);
	weights_init(c, &from, 0, &v);
	copy(&from, v.train, v.stat, par, w->train, w->stat);
	bad = weights_load(path, c, &from, &v, cutoff, e);
	if (!bad)
		copy(par, w->train, w->stat, &from, v.ema && cutoff < 0 ? v.ema : v.train,
		    v.ema_stat && cutoff < 0 ? v.ema_stat : v.stat);
	weights_free(&v);
	params_free(&from);
	return bad;
}

int
weights_begin(const char *path, const struct cfg *c, const struct params *par, struct weights *w,
    int cutoff, struct err *e)
{
	struct cfg *as = cfg_parse(c->path, c->text, c->len, e);	/* with the file's heads */
	int head[MAX_HEADS], own = cfg_heads(c, head, 1) ? c->l[head[0]].u.yolo.classes : 0;
	int other = as && own && cutoff < 0 ? match(as, path, own) : 0;
	int bad = as ? load(path, other ? as : c, par, w, cutoff, e) : -1;

	if (!bad && other)
		say(path, c, other, own);
	cfg_close(as);
	return bad;
}
