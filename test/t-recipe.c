/* t-recipe.c -- what a recipe makes of cfg and settings, and steps that must leave no trace. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static int count, failed;

static void
ok(int good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++count, what);
	failed += !good;
}

/* recipe_make on small.cfg with settings, given as words with spaces between. */
static int
make(struct recipe *r, const char *loss, int batch, const char *words, struct err *e)
{
	struct cfg *c = cfg_read("test/small.cfg", e);
	struct settings s;
	char *copy = xstrdup(words), *save = NULL;
	int bad = !c;

	settings_open(&s, train_settings);
	for (char *w = strtok_r(copy, " ", &save); w && !bad; w = strtok_r(NULL, " ", &save))
		bad = settings_set(&s, w, e);
	bad = bad || recipe_make(r, c, loss, NULL, batch, 0, &s, e) || recipe_sizes(r, c, &s, e);
	settings_close(&s);
	free(copy);
	cfg_close(c);
	return bad;
}

static int
near(double a, double b)
{
	return fabs(a - b) <= 1e-12 * fabs(b);
}

static void
nominal(void)
{
	struct recipe r, plain;
	struct err e;

	ok(!make(&plain, NULL, 6, "", &e) && plain.batch == 6 && plain.train.parts == 2, "batch 6");
	ok(!make(&r, NULL, 6, "nominal=64", &e) && r.batch == 66 && r.train.parts == 22,
	    "nominal=64: 11 of them make an update");
	ok(near(r.train.decay, plain.train.decay * 66 / 64) &&
	    near(r.train.gain, plain.train.gain * 66 / 64),
	    "... gain and decay by 66/64");
	ok(!make(&r, NULL, 128, "nominal=64", &e) && r.batch == 128 && r.train.parts == 2 &&
	    near(r.train.decay, plain.train.decay * 2), "a larger batch stays, its decay doubles");
	ok(!make(&r, "darknet", 8, "nominal=64", &e) && r.batch == 64 && r.train.parts == 16 &&
	    r.train.gain == 0 && near(r.train.decay, .0005), "darknet: batch 64, subdivisions 16");
}

/* ---- steps -------------------------------------------------------------------------------- */

struct bench {
	struct dev *dev;
	struct cfg *cfg;
	struct net *net;
	struct trainer *t;
	struct batch b;
	struct weights w;
};

static void
open_bench(struct bench *k, const char *words)
{
	struct dev_opts o = { .threads = 1 };
	struct net_opts no = { .train = 1, .batch = 4, .bn_momentum = .1f };
	struct recipe r;
	struct err e;

	memset(k, 0, sizeof *k);
	if (make(&r, NULL, 4, words, &e) || !(k->cfg = cfg_read("test/small.cfg", &e)) ||
	    !(k->dev = dev_open("cpu", &o, &e)) || !(k->net = net_open(k->dev, k->cfg, &no, &e)) ||
	    !(k->t = trainer_open(k->net, NULL, &r.train, &e)))
		die(1, "%s", e.msg);
	weights_init(k->cfg, &k->net->par, 3, &k->w);
	trainer_put(k->t, &k->w);
	k->b = (struct batch){ .n = 4, .n_global = 4, .w = 96, .h = 96, .ntruth = 4 };
	k->b.x = (float *)xcalloc(4 * 96 * 96 * 3, sizeof(float));
	k->b.truth = (struct truth *)xcalloc(4, sizeof(struct truth));
	for (int i = 0; i < 4 * 96 * 96 * 3; i++)
		k->b.x[i] = (float)(i * 37 % 101) / 101;
	for (int i = 0; i < 4; i++)
		k->b.truth[i] = (struct truth){ (float)i, (float)i, .3f + .1f * (float)i, .5f,
		    .2f, .3f };
}

static void
close_bench(struct bench *k)
{
	trainer_close(k->t);
	net_close(k->net);
	dev_close(k->dev);
	cfg_close(k->cfg);
	weights_free(&k->w);
	free(k->b.x);
	free(k->b.truth);
}

static struct step_result
step(struct bench *k)
{
	struct warm w = { .lr = .01, .lr_bias = .01, .momentum = .9, .decay = k->t->opt.decay };
	struct step_result r;
	struct err e;

	if (trainer_step(k->t, &k->b, &w, &r, &e))
		die(1, "%s", e.msg);
	return r;
}

static int
same(const float *a, const float *b, size_t n)
{
	return !memcmp(a, b, n * sizeof *a);
}

static void
poison(void)
{
	struct bench k;
	struct weights before = { 0 }, after = { 0 };
	struct step_result r;
	const struct params *p;
	size_t n, ns;

	open_bench(&k, "ema=.99");
	p = &k.net->par;
	n = p->ntrain;
	ns = p->nstat;
	weights_init(k.cfg, p, 0, &before);
	weights_init(k.cfg, p, 0, &after);
	r = step(&k);
	ok(r.finite && k.t->t == 1, "a step");
	trainer_get(k.t, &before);
	k.b.x[12345] = NAN;
	r = step(&k);
	trainer_get(k.t, &after);
	ok(!r.finite && k.t->t == 1 && k.t->skipped == 1, "one that is not a number is skipped, "
	    "counted");
	ok(same(before.train, after.train, n) && same(before.mom, after.mom, n), "parameters stay");
	ok(same(before.stat, after.stat, ns), "running statistics stay");
	ok(same(before.ema, after.ema, n) && same(before.ema_stat, after.ema_stat, ns),
	    "averages stay");
	k.b.x[12345] = .5f;
	r = step(&k);
	trainer_get(k.t, &after);
	ok(r.finite && k.t->t == 2 && !same(before.train, after.train, n),
	    "the next one counts again");
	weights_free(&before);
	weights_free(&after);
	close_bench(&k);
}

int
main(void)
{
	prog = "t-recipe";
	nominal();
	poison();
	printf("1..%d\n", count);
	return failed ? 1 : 0;
}
