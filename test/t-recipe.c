/* t-recipe.c -- what a recipe makes of cfg and settings, and steps that must leave no trace. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "test/tap.h"

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

/* A recipe file that says what is so anyway leaves no byte of the recipe changed. */
static void
modern(void)
{
	struct recipe r, file;
	struct err e;

	ok(!make(&r, NULL, 0, "", &e) && !make(&file, NULL, 0, "@cfg/recipe-modern.cfg", &e),
	    "cfg/recipe-modern.cfg is read");
	r.net.step = file.net.step = NULL;	/* ended with their cfgs */
	r.net.scale = file.net.scale = NULL;
	ok(!memcmp(&r, &file, sizeof r), "... and is what is done without it");
	ok(!make(&file, NULL, 0, "@cfg/recipe-modern.cfg clip=5", &e) && file.train.clip == 5 &&
	    memcmp(&r, &file, sizeof r), "... a change of it is seen");
}

static double
rate_at(const struct recipe *r, double share)
{
	struct warm w;

	recipe_rates(r, 0, (long)(share * (double)r->steps), &w);
	return w.lr;
}

/* Old recipes on a run of 270 epochs of 400 pictures. */
static void
old(void)
{
	struct recipe r;
	struct warm w;
	struct err e;

	ok(!make(&r, NULL, 0, "@cfg/recipe-darknet.cfg", &e) &&
	    r.train.loss.kind == LOSS_DARKNET && r.aug.kind == AUG_DARKNET && r.train.gain == 0 &&
	    r.train.clip == 0 && r.train.ema == 0 && !r.train.nesterov, "recipe-darknet");
	recipe_length(&r, 400);
	ok(r.steps == 60 && near(rate_at(&r, .5), .001) && near(rate_at(&r, .85), 1e-4) &&
	    near(rate_at(&r, .99), 1e-5), "... falls to a tenth at 80 and 90 %");
	recipe_rates(&r, 0, 4, &w);
	ok(near(w.lr, .001 * pow(.5, 4)) && near(w.decay, .0005) && w.momentum == .9,
	    "... after a burn-in of 10 with the fourth power");
	ok(!make(&r, NULL, 16, "@cfg/recipe-ultralytics-2019.cfg", &e) &&
	    r.train.loss.kind == LOSS_ULTRA2019 && r.aug.kind == AUG_ULTRA2019 &&
	    r.train.gain == 1 && r.train.decay == 0, "recipe-ultralytics-2019");
	r.epochs = 270;
	recipe_length(&r, 400);
	recipe_rates(&r, 0, 3, &w);
	ok(near(w.lr, .001 * pow(.5, 4)), "... warms up over a fifth of the first epoch");
	ok(near(rate_at(&r, 250.9 / 270), .001) && near(rate_at(&r, 251.1 / 270), 1e-4),
	    "... falls after epoch 250");
	ok(!make(&r, "ultralytics-archive", 16, "policy=ultralytics-archive lr=.01 momentum=.9",
	    &e), "policy ultralytics-archive");
	r.epochs = 300;
	recipe_length(&r, 400);
	recipe_rates(&r, 0, 250, &w);
	ok(near(w.lr, .005 * (.05 + .95 * (1 + cos(M_PI * 10 / 300)) / 2)) && w.lr_bias > w.lr &&
	    near(w.momentum, .9), "... halfway in its warm-up of 500 steps");
	ok(make(&r, NULL, 0, "policy=cosine drops=.5", &e) && strstr(e.msg, "drops"),
	    "drops without policy=steps are refused");
	ok(!make(&r, NULL, 0, "policy=steps drops=.5,.75", &e), "drops of one's own");
	recipe_length(&r, 400);
	ok(near(rate_at(&r, .6) * 10, rate_at(&r, .4)) &&
	    near(rate_at(&r, .8) * 100, rate_at(&r, .4)),
	    "... are where they should be");
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

static int froze;		/* layers, for the next bench */

static void
open_bench(struct bench *k, const char *words)
{
	struct dev_opts o = { .threads = 1 };
	struct net_opts no = { .train = 1, .batch = 4, .bn_momentum = .1f };
	struct recipe r;
	struct err e;

	memset(k, 0, sizeof *k);
	if (make(&r, NULL, 4, words, &e) || !(k->cfg = cfg_read("test/small.cfg", &e)) ||
	    trainer_freeze(k->cfg, froze, &e) ||
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

static void
freeze(void)
{
	struct bench k;
	struct weights before = { 0 }, after = { 0 };
	const struct params *p;
	int kept = 1, moved = 1;
	struct err e;

	open_bench(&k, "");
	ok(trainer_freeze(k.cfg, 1000, &e) && strstr(e.msg, "nothing is left to train"),
	    "all frozen is refused");
	close_bench(&k);
	froze = 4;
	open_bench(&k, "ema=.99 rule=adamw");
	p = &k.net->par;
	weights_init(k.cfg, p, 0, &before);
	weights_init(k.cfg, p, 0, &after);
	trainer_get(k.t, &before);
	for (int i = 0; i < 3; i++)
		step(&k);
	trainer_get(k.t, &after);
	for (int i = 0; i < p->np; i++) {
		const struct param *q = &p->p[i];
		int stat = q->kind == P_MEAN || q->kind == P_VAR;
		const float *a = stat ? before.stat : before.train;
		const float *b = stat ? after.stat : after.train;
		const float *c = stat ? after.ema_stat : after.ema;

		if (q->layer < froze)
			kept &= same(a + q->off, b + q->off, q->n) &&
			    same(a + q->off, c + q->off, q->n);
		else
			moved &= !same(a + q->off, b + q->off, q->n);
	}
	ok(kept, "freeze=4: weights, statistics and averages of 4 layers keep every bit");
	ok(moved, "... all others move");
	weights_free(&before);
	weights_free(&after);
	close_bench(&k);
	froze = 0;
}

static void *
realloc_ws(struct dev *d, const struct loss *l, void *old)
{
	d->ops->free(d, old);
	return d->ops->alloc(d, d->yolo->workspace(l, 64) + 1);
}

/* The gradient of a truth's class terms is its class's weight times that without weights. */
static void
weights_of_classes(void)
{
	static const float weight[4] = { 1, 2, .5f, 3 };
	struct bench k;
	struct loss *l;
	float *plain, *heavy;
	double t0[MAX_HEADS][LOSS_TERMS] = { { 0 } }, t1[MAX_HEADS][LOSS_TERMS] = { { 0 } }, f = 0;
	size_t n;
	int good = 1, seen = 0;

	open_bench(&k, "");
	step(&k);			/* leaves heads and room in the loss */
	l = &k.t->opt.loss;
	k.b.truth[0].cls = 3;
	n = net_floats(k.net, k.net->head[0] - 1);
	plain = (float *)xmalloc(n * sizeof *plain);
	heavy = (float *)xmalloc(n * sizeof *heavy);
	k.dev->yolo->run(k.dev, l, k.b.truth, 1, t0, k.t->loss_ws);
	memcpy(plain, l->head[0].grad, n * sizeof *plain);
	l->cls_weight = weight;
	k.t->loss_ws = realloc_ws(k.dev, l, k.t->loss_ws);
	k.dev->yolo->run(k.dev, l, k.b.truth, 1, t1, k.t->loss_ws);
	memcpy(heavy, l->head[0].grad, n * sizeof *heavy);
	for (size_t i = 0; i < n; i++) {
		int cls = i % 9 >= 5;

		f = plain[i] * (cls ? 3. : 1.);
		good &= fabs(heavy[i] - f) <= 1e-6 * fabs(f);
		seen += cls && plain[i] != 0;
	}
	ok(good && seen, "a class of weight 3: three times the gradient of its class terms");
	for (int h = 0; h < 2; h++)
		good &= fabs(t1[h][TERM_CLS] - 3 * t0[h][TERM_CLS]) <= 1e-9 &&
		    t1[h][TERM_OBJ] == t0[h][TERM_OBJ] && t1[h][TERM_BOX] == t0[h][TERM_BOX];
	ok(good, "... and of its class loss, the others stay");
	free(plain);
	free(heavy);
	close_bench(&k);
}

int
main(void)
{
	prog = "t-recipe";
	nominal();
	modern();
	old();
	poison();
	freeze();
	weights_of_classes();
	return done();
}
