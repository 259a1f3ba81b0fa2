/* t-weights.c -- parameters in files: layout, first values, both formats there and back, damage. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weightstest.h"
#include "yolo.h"
#include "test/tap.h"

static char *dir;

/* Groups, a layer without batch-norm, sizes that no block of 16 or 64 divides. */
static const char text[] =
    "[net]\nwidth=32\nheight=32\nchannels=3\n"
    "[convolutional]\nbatch_normalize=1\nfilters=20\nsize=3\npad=1\nactivation=leaky\n"
    "[convolutional]\nbatch_normalize=1\nfilters=40\nsize=5\npad=1\ngroups=20\nactivation=relu\n"
    "[maxpool]\nstride=2\n"
    "[convolutional]\nbatch_normalize=1\nfilters=33\nsize=1\nactivation=leaky\n"
    "[convolutional]\nfilters=18\nactivation=linear\n"
    "[yolo]\nclasses=1\nnum=3\n";

static struct cfg *
small(const char *more)
{
	char *all = xasprintf("%s%s", text, more);
	struct err e;
	struct cfg *c = cfg_parse("small.cfg", all, strlen(all), &e);

	if (!c) {
		printf("Bail out! %s\n", e.msg);
		exit(1);
	}
	free(all);
	return c;
}

static char *
in_dir(const char *name)
{
	return path_join(dir, name);
}

/* Every number different: its place shows. */
static void
number(const struct params *p, struct weights *w)
{
	for (int i = 0; i < p->np; i++)
		for (size_t k = 0; k < p->p[i].n; k++)
			(p->p[i].kind >= P_MEAN ? w->stat : w->train)[p->p[i].off + k] =
			    (float)(p->p[i].layer * 100000 + (int)p->p[i].kind * 10000) + (float)k;
}

static void
layout(const struct cfg *c, const struct params *p)
{
	size_t end = 0, sum = 0, floats = 0;
	int good = 1;

	for (int i = 0; i < p->np; i++) {
		const struct param *q = &p->p[i];

		good &= q->off % 64 == 0 && params_find(p, q->layer, q->kind) == q;
		if (q->kind == P_WEIGHT)
			good &=
			    q->off == end && (end = (q->off + q->n + 63) / 64 * 64) <= p->nweight;
		else
			good &= q->kind >= P_MEAN
				    ? q->off + q->n <= p->nstat
				    : q->off >= p->nweight && q->off + q->n <= p->ntrain;
		sum += q->n;
	}
	for (int i = 0; i < c->nl; i++)
		floats += (size_t)cfg_floats(c, i);
	ok(good && p->nweight == end, "layout: weights first, in layer order, at multiples of 64");
	ok(sum == floats, "and as many floats as the cfg says");
	ok(!params_find(p, 2, P_WEIGHT) && !params_find(p, 4, P_GAMMA) &&
		!params_find(p, 99, P_BIAS),
	    "no parameters where there are none");
}

static void
first_values(const struct cfg *c, const struct params *p)
{
	struct weights a, b, d;
	double sum = 0, sq = 0, cube = 0, four = 0;
	const struct param *q = params_find(p, 3, P_WEIGHT);	/* 40 in, 33 out, 1x1 */
	int good = 1;

	weights_init(c, p, 1, &a);
	weights_init(c, p, 1, &b);
	weights_init(c, p, 2, &d);
	ok(same(p, &a, &b) && !same(p, &a, &d),
	    "a seed gives the same weights, another gives others");
	for (size_t k = 0; k < q->n; k++) {
		double v = a.train[q->off + k] / sqrt(2. / 40);

		sum += v;
		sq += v * v;
		cube += v * v * v;
		four += v * v * v * v;
	}
	sum /= (double)q->n;
	sq /= (double)q->n;
	ok(fabs(sum) < 4 / sqrt((double)q->n) && fabs(sq - 1) < 4 * sqrt(2. / (double)q->n) &&
		fabs(cube / (double)q->n) < 4 * sqrt(15. / (double)q->n) &&
		fabs(four / (double)q->n - 3) < 4 * sqrt(96. / (double)q->n),
	    "Gaussian, sd sqrt(2/fan-in)");
	ok(memcmp(a.train + params_find(p, 0, P_WEIGHT)->off, a.train + q->off, 64) != 0,
	    "layers differ");
	for (int i = 0; i < p->np; i++)
		for (size_t k = 0; k < p->p[i].n; k++) {
			enum param_kind kind = p->p[i].kind;

			if (kind != P_WEIGHT)
				good &= (kind >= P_MEAN ? a.stat : a.train)[p->p[i].off + k] ==
				    (kind == P_GAMMA || kind == P_VAR);
		}
	ok(good, "gamma and variance 1, the rest 0");
	weights_free(&a);
	weights_free(&b);
	weights_free(&d);
}

/* The file's order, written out once more by hand. */
static void
darknet_order(const struct cfg *c, const struct params *p)
{
	char *path = in_dir("order.weights");
	struct weights w;
	struct err e;
	size_t n, at = 20;
	char *b;
	int good = 1;

	weights_init(c, p, 0, &w);
	number(p, &w);
	w.seen = 0x123456789abcULL;
	good &=
	    !weights_save_darknet(path, c, p, &w, -1, &e) && (b = file_read(path, 1 << 24, &n, &e));
	good = good && !memcmp(b, "\0\0\0\0\2\0\0\0\5\0\0\0\xbc\x9a\x78\x56\x34\x12\0\0", 20);
	for (int l = 0; l < c->nl && good; l++) {
		static const enum param_kind order[] = { P_BIAS, P_GAMMA, P_MEAN, P_VAR, P_WEIGHT };

		for (int k = 0; k < 5; k++) {
			const struct param *q = params_find(p, l, order[k]);

			for (size_t j = 0; q && j < q->n; j++, at += 4) {
				size_t s2 = (size_t)(q->s * q->s), i = (size_t)q->i,
				       o = (size_t)q->o;
				size_t mem =
				    k < 4 ? j : ((j % s2) * i + j / s2 % i) * o + j / s2 / i;
				float v;

				memcpy(&v, b + at, 4);
				good &=
				    v == (float)(l * 100000 + (int)q->kind * 10000) + (float)mem;
			}
		}
	}
	ok(good && at == n, "order: beta, gamma, mean, variance, kernels as [o][i][y][x]");
	free(b);
	weights_free(&w);
	free(path);
}

static void
round_trips(const struct cfg *c, const struct params *p)
{
	char *d1 = in_dir("1.weights"), *d2 = in_dir("2.weights"), *s1 = in_dir("1.safetensors"),
	    *s2 = in_dir("2.safetensors");
	char *key[] = { (char *)"batch", (char *)"step" },
	     *value[] = { (char *)"8", (char *)"100" };
	struct weights a, b;
	struct err e = { "" };
	struct st *st;
	size_t n;

	weights_init(c, p, 3, &a);
	number(p, &a);
	a.mom = (float *)xcalloc(p->ntrain, sizeof(float));
	a.ema = (float *)xcalloc(p->ntrain, sizeof(float));
	a.ema_stat = (float *)xcalloc(p->nstat, sizeof(float));
	for (int i = 0; i < p->np; i++)
		for (size_t k = 0; k < p->p[i].n; k++)
			if (p->p[i].kind < P_MEAN) {
				a.mom[p->p[i].off + k] = -(float)k;
				a.ema[p->p[i].off + k] = (float)k / 2;
			} else
				a.ema_stat[p->p[i].off + k] = (float)k + 7;
	weights_init(c, p, 4, &b);
	n = p->ntrain * sizeof(float);
	ok(!weights_save(s1, c, p, &a, key, value, 2, &e) && !weights_load(s1, c, p, &b, -1, &e) &&
	    same(p, &a, &b) && b.seen == 800 && b.mom && !b.mom2 && b.ema &&
	    !memcmp(a.mom, b.mom, n) && !memcmp(a.ema, b.ema, n) &&
	    !memcmp(a.ema_stat, b.ema_stat, p->nstat * sizeof(float)), "safetensors and back");
	ok(!weights_save(s2, c, p, &b, key, value, 2, &e) && same_files(s1, s2, 0),
	    "to the same bytes");
	ok((st = st_open(s1, &e)) && st_find(st, "layer.1.weight") &&
		st_find(st, "layer.1.weight")->dim[0] == 40 &&
		st_find(st, "layer.1.weight")->dim[1] == 1 &&
		st_find(st, "layer.1.weight")->dim[2] == 5 && st_find(st, "ema.layer.0.var") &&
		!st_find(st, "momentum.layer.0.var") && st_find(st, "layer.4.bias") &&
		!st_find(st, "layer.4.gamma"),
	    "names and shapes");
	st_close(st);
	weights_free(&b);
	weights_init(c, p, 4, &b);
	ok(!weights_save_darknet(d1, c, p, &a, -1, &e) && !weights_load(d1, c, p, &b, -1, &e) &&
	    same(p, &a, &b), ".weights and back");
	ok(!weights_save_darknet(d2, c, p, &b, -1, &e) && same_files(d1, d2, 0),
	    "to the same bytes");
	weights_free(&a);
	weights_free(&b);
	free(d1);
	free(d2);
	free(s1);
	free(s2);
}

static int
load(const struct cfg *c, const struct params *p, const char *path, int cutoff, struct weights *w,
    struct err *e)
{
	e->msg[0] = 0;
	weights_init(c, p, 9, w);
	return weights_load(path, c, p, w, cutoff, e);
}

static void
partial(const struct cfg *c, const struct params *p)
{
	char *part = in_dir("part.conv.2"), *whole = in_dir("1.weights");
	struct weights a, b, fresh;
	const struct param *q = params_find(p, 1, P_VAR), *r = params_find(p, 3, P_WEIGHT);
	struct err e;

	load(c, p, whole, -1, &a, &e);
	weights_init(c, p, 9, &fresh);
	a.seen = 5;
	ok(!weights_save_darknet(part, c, p, &a, 2, &e) && !load(c, p, part, 2, &b, &e) &&
		b.seen == 0 && !memcmp(b.stat + q->off, a.stat + q->off, q->n * 4) &&
		!memcmp(b.train + r->off, fresh.train + r->off, r->n * 4),
	    "the first two layers");
	weights_free(&b);
	ok(load(c, p, part, -1, &b, &e) && strstr(e.msg, "the first 2 layers (-O cutoff=2"),
	    "a partial file says how far it goes");
	weights_free(&b);
	ok(load(c, p, part, 4, &b, &e) && strstr(e.msg, "cut short"), "a cutoff behind its end");
	weights_free(&b);
	ok(!load(c, p, whole, 2, &b, &e) &&
		!memcmp(b.train + r->off, fresh.train + r->off, r->n * 4),
	    "cutoff with a whole file");
	weights_free(&b);
	weights_free(&a);
	weights_free(&fresh);
	free(part);
	free(whole);
}

/* dontload: nothing in the file belongs to the layer; dontloadscales: no gamma, mean, variance. */
static void
not_loaded(void)
{
	struct cfg *c =
	    small("[convolutional]\ndontload=1\nfilters=2\n[convolutional]\nbatch_normalize=1\n"
		  "dontloadscales=1\nfilters=3\n");
	char *whole = in_dir("1.weights"), *path = in_dir("more.weights");
	float more[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };	/* 3 biases, 3 x 2 weights */
	struct params p;
	struct weights w;
	struct err e;
	struct outfile o;
	size_t n;
	char *b = file_read(whole, 1 << 24, &n, &e);
	int good;

	params_plan(c, &p);
	good = b && !out_open(&o, path, &e) && fwrite(b, 1, n, o.f) == n &&
	    fwrite(more, 1, sizeof more, o.f) == sizeof more && !out_commit(&o, &e);
	ok(good && !load(c, &p, path, -1, &w, &e) &&
		w.train[params_find(&p, 7, P_BIAS)->off + 2] == 3 &&
		w.train[params_find(&p, 7, P_WEIGHT)->off + 1] == 6 &&
		w.train[params_find(&p, 7, P_GAMMA)->off] == 1 &&
		w.train[params_find(&p, 6, P_BIAS)->off] == 0,
	    "dontload, dontloadscales");
	weights_free(&w);
	params_free(&p);
	cfg_close(c);
	free(b);
	free(whole);
	free(path);
}

/* A checkpoint that lacks a tensor, or has one too many, or of another shape. */
static void
bad_tensors(const struct cfg *c, const struct params *p)
{
	char *whole = in_dir("1.safetensors"), *path = in_dir("bad.safetensors");
	struct err e;
	struct st *st = st_open(whole, &e);
	struct st_tensor *t;
	struct weights w;
	int n = st ? st->nt : 0, k = 0;

	t = (struct st_tensor *)xcalloc((size_t)n + 1, sizeof *t);
	memcpy(t, st->t, (size_t)n * sizeof *t);
	ok(!st_write(path, t + 1, n - 1, NULL, NULL, 0, &e) && load(c, p, path, -1, &w, &e) &&
	    strstr(e.msg, t[0].name), "one tensor of a set is missing");
	weights_free(&w);
	while (strcmp(t[k].name, "layer.1.weight"))
		k++;
	t[k].dim[0] = 20;
	t[k].dim[1] = 2;
	ok(!st_write(path, t, n, NULL, NULL, 0, &e) && load(c, p, path, -1, &w, &e) &&
	    strstr(e.msg, "layer.1.weight"), "as many numbers in another shape");
	weights_free(&w);
	free(t);
	st_close(st);
	free(whole);
	free(path);
}

static void
sweep(void)
{
	static const char *const files[] = { "1.weights", "2.weights", "1.safetensors",
		"2.safetensors", "order.weights", "part.conv.2", "more.weights",
		    "bad.safetensors" };

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char *path = in_dir(files[i]);

		unlink(path);
		free(path);
	}
	rmdir(dir);
}

int
main(void)
{
	char name[] = "/tmp/t-weights.XXXXXX";
	struct cfg *c = small("");
	struct params p;

	dir = mkdtemp(name);
	params_plan(c, &p);
	layout(c, &p);
	first_values(c, &p);
	darknet_order(c, &p);
	round_trips(c, &p);
	partial(c, &p);
	not_loaded();
	bad_tensors(c, &p);
	params_free(&p);
	cfg_close(c);
	sweep();
	return done();
}
