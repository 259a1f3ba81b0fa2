/* t-schedule.c -- what golden/optim has no table for: odd settings, random sizes, groups. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "test/tap.h"

static void
rates(void)
{
	struct cfg_net n = { .lr = 1, .power = 1.5, .max_batches = 100, .policy = LR_POLY };
	int inside = 1, differ = 0;

	ok(schedule_lr(&n, 0, 100) == 0 && schedule_lr(&n, 0, 200) == 0, "poly past its end is 0");
	n.policy = LR_COSINE;
	n.lr_min = .1;
	ok(fabs(schedule_lr(&n, 0, 50) - .55) < 1e-15 && fabs(schedule_lr(&n, 0, 100) - .1) < 1e-15,
	    "cosine: middle and end");
	ok(schedule_lr(&n, 0, 1000) == schedule_lr(&n, 0, 100), "cosine stays at its end");
	n.policy = LR_STEP;
	ok(schedule_lr(&n, 0, 7) == 1, "step 0 divides nothing");
	n.policy = LR_SGDR;
	n.sgdr_mult = 0;
	n.sgdr_cycle = 10;
	ok(fabs(schedule_lr(&n, 0, 1000000000) - .1) < 1e-15, "sgdr with factor 0 ends");
	n.sgdr_mult = 1;
	ok(fabs(schedule_lr(&n, 0, 25) - .55) < 1e-12 && schedule_lr(&n, 0, 10) < .1 + 1e-12 &&
	    schedule_lr(&n, 0, 11) > .9, "sgdr with factor 1");
	n.policy = LR_RANDOM;
	n.power = 1;
	for (long b = 0; b < 1000; b++) {
		double r = schedule_lr(&n, 5, b);

		inside &= r >= 0 && r < 1 && r == schedule_lr(&n, 5, b);
		differ += r != schedule_lr(&n, 6, b);
	}
	ok(inside && differ > 990, "random: in range, by seed and step only");
}

/* A batch that does not divide the epoch: the stairs stand where the sample of the next epoch
 * is. */
static void
stairs(void)
{
	struct cosine c = { .lr0 = 1, .lrf = 0, .momentum = .9, .decay = 0, .epochs = 10,
		.warmup = 0, .samples = 10007, .batch = 16, .nominal = 64 };
	int good = 1;

	for (long it = 501; it < 6000; it++) {
		long e = it * 16 / 10007;

		good &= fabs(schedule_cosine(&c, it).lr -
		    (1 + cos(M_PI * (double)e / 10)) / 2) < 1e-12;
	}
	ok(good, "cosine by epochs of samples");
	c.batch = 128;
	ok(schedule_cosine(&c, 5000).accumulate == 1, "a batch over 64 is not accumulated");
	ok(schedule_cosine(&c, 100000).lr == 0, "and stays at its end");
}

static void
sizes(enum size_rule rule, double random, int side, int lo, int hi, int top, const char *what)
{
	struct cfg_net n = { .w = side, .h = side, .resize_step = 32 };
	struct size_plan p;
	int w, h, good = 1, min = INT_MAX, max = 0, w0 = 0, same = 1;
	int largest_last = rule == SIZE_PJREDDIE || rule == SIZE_ALEXEY;
	int largest_first = rule == SIZE_2019 || rule == SIZE_ALEXEY;

	schedule_sizes(&p, &n, 32, rule, random);
	for (long t = 10; t < 20000; t++) {
		schedule_size(&p, 3, t, 1000000, &w, &h);
		good &= w == h && w % 32 == 0;
		same &= rule == SIZE_V5 || t % 10 == 0 || w == w0;
		w0 = w;
		min = w < min ? w : min;
		max = w > max ? w : max;
	}
	ok(good && same && min == lo && max == hi, what);
	schedule_size_max(&p, &w, &h);
	ok(w == top && h == top, "its largest");
	schedule_size(&p, 3, 999999, 1000000, &w, &h);
	ok(w == h && w % 32 == 0 && w >= (largest_last ? top : lo) && w <= top, "its last");
	schedule_size(&p, 3, 0, 1000000, &w, &h);
	ok(w == h && w % 32 == 0 && w >= (largest_first ? top : lo) && w <= top, "its first");
}

/* Every size that comes up was among those tried beforehand. */
static void
tried(void)
{
	struct cfg_net n = { .w = 608, .h = 352, .resize_step = 32 };
	static unsigned char seen[64][64];
	const enum size_rule rule[] = { SIZE_ALEXEY, SIZE_V5, SIZE_ARCHIVE };
	struct size_plan p;
	int w, h, good = 1, mw, mh;

	for (int k = 0; k < 3; k++) {
		memset(seen, 0, sizeof seen);
		schedule_sizes(&p, &n, 32, rule[k], 1);
		for (int i = 0; i < SIZE_TRIES; i++) {
			schedule_size_try(&p, i, &w, &h);
			seen[w / 32][h / 32] = 1;
		}
		schedule_size_max(&p, &mw, &mh);
		for (long t = 0; t < 3000; t++) {
			schedule_size(&p, 8, t, 100000, &w, &h);
			good &= seen[w / 32][h / 32] && w <= mw && h <= mh && w > h;
		}
	}
	ok(good, "608x352: sizes stay in what was tried, and below the largest");
}

static void
ranges(void)
{
	struct cfg_net n = { .w = 416, .h = 208, .resize_step = 32 };
	struct size_plan p;
	int w, h, good = 1, count_of[40] = { 0 };

	schedule_sizes(&p, &n, 16, SIZE_V5, 0);
	schedule_size(&p, 1, 7, 100, &w, &h);
	ok(p.rule == SIZE_FIXED && w == 416 && h == 208, "no multi-scale: the cfg's size");
	ok(!schedule_size_range(&p, SIZE_V5, 300, 500), "300:500");
	for (long t = 0; t < 6000; t++) {
		schedule_size(&p, 1, t, 6000, &w, &h);
		good &= w % 32 == 0 && h == (w / 2 + 31) / 32 * 32;
		count_of[w / 32]++;
	}
	for (int i = 0; i < 40; i++)
		good &= i < 10 || i > 15 ? !count_of[i] : count_of[i] > 900 && count_of[i] < 1100;
	ok(good, "... is 320 to 480, all equally often, the ratio kept");
	ok(!schedule_size_range(&p, SIZE_ALEXEY, .5, 1) && p.lo == 224 && p.hi == 416 &&
	    p.every == 10,
	    "0.5:1 is 224 to 416, for ten batches each");
	schedule_sizes(&p, &n, 64, SIZE_PJREDDIE, 1);
	ok(p.unit == 64 && p.lo == 320 && p.hi == 576, "a net of stride 64: 320 to 576");
	ok(schedule_size_range(&p, SIZE_V5, 330, 380) < 0, "no multiple of 64 between 330 and 380");
}

static void
groups(void)
{
	struct layer l[3] = { { .type = L_CONV, .lr_scale = 1 }, { .type = L_CONV, .lr_scale = 2 },
		{ .type = L_CONV, .lr_scale = 1, .dont_update = 5 } };
	struct param p[] = { { .layer = 0, .kind = P_WEIGHT, .off = 0, .n = 65 },
		{ .layer = 1, .kind = P_WEIGHT, .off = 128, .n = 64 },
		{ .layer = 2, .kind = P_WEIGHT, .off = 192, .n = 1 },
		{ .layer = 0, .kind = P_BIAS, .off = 256, .n = 3 },
		{ .layer = 0, .kind = P_GAMMA, .off = 320, .n = 3 },
		{ .layer = 0, .kind = P_MEAN, .off = 0, .n = 3 } };
	struct params par = { .p = p, .np = 6, .nweight = 256, .ntrain = 384, .nstat = 64 };
	struct warm w = { .lr = .5, .lr_bias = .25, .decay = .125 };
	struct cfg cfg = { .path = (char *)"x.cfg", .l = l, .nl = 3 };
	struct optim_plan o;
	struct optim_rates r;
	struct err e;
	const unsigned char *g;

	ok(!optim_plan(&cfg, &par, &o, &e) && o.units == 6 && o.nclass == 3,
	    "plan of three layers");
	g = o.group;
	ok(g[0] == g[1] && g[2] != g[0] && g[3] != g[2] && g[4] != g[5] && g[4] != g[0],
	    "its groups");
	optim_rates(&o, 5, &w, 0, &r);
	ok(r.lr[g[0]] == .5f && r.lr[g[2]] == 1 && r.lr[g[4]] == .25f && r.lr[g[5]] == .5f,
	    "rates");
	ok(r.lr[g[3]] == 0 && r.decay[g[3]] == 0, "dont_update: frozen until 5");
	ok(r.decay[g[0]] == .125f && r.decay[g[4]] == 0 && r.decay[g[5]] == 0, "kernels decay");
	optim_rates(&o, 6, &w, 1, &r);
	ok(r.lr[g[3]] == .5f && r.decay[g[3]] == .125f, "dont_update: moves from 6");
	ok(r.decay[g[4]] == .125f && r.decay[g[5]] == .125f, "all decay when asked for");
	free(o.group);
	l[1].stopbackward = 1;
	ok(!optim_plan(&cfg, &par, &o, &e), "stopbackward");
	optim_rates(&o, 1000, &w, 1, &r);
	ok(r.lr[o.group[0]] == 0 && r.lr[o.group[4]] == 0 && r.lr[o.group[2]] == 1,
	    "stopbackward=1 freezes what is before it");
	free(o.group);
}

static void
too_many(void)
{
	static struct layer l[OPTIM_GROUPS];
	static struct param p[OPTIM_GROUPS];
	struct params par = { .p = p, .np = OPTIM_GROUPS, .ntrain = OPTIM_GROUPS * OPTIM_UNIT };
	struct cfg cfg = { .path = (char *)"x.cfg", .l = l, .nl = OPTIM_GROUPS };
	struct optim_plan o;
	struct err e = { "" };

	for (int i = 0; i < OPTIM_GROUPS; i++) {
		l[i].lr_scale = (float)(i + 1);
		l[i].line = i + 1;
		p[i] = (struct param){ .layer = i, .off = (size_t)i * OPTIM_UNIT, .n = 64 };
	}
	ok(optim_plan(&cfg, &par, &o, &e) < 0 && !strncmp(e.msg, "x.cfg:41: ", 10),
	    "too many classes");
}

int
main(void)
{
	double c = optim_clip(1e4, 5);

	rates();
	stairs();
	sizes(SIZE_PJREDDIE, 1, 416, 320, 608, 608, "darknet: 320..608 whatever the cfg says");
	sizes(SIZE_ALEXEY, 1, 416, 320, 608, 608, "alexey 416: 320..608");
	sizes(SIZE_ALEXEY, 1, 320, 256, 480, 480, "alexey 320: 256..480");
	sizes(SIZE_ALEXEY, 1, 608, 480, 896, 896, "alexey 608: 480..896");
	sizes(SIZE_ALEXEY, 1.4, 512, 384, 736, 736, "alexey 512: 384..736");
	sizes(SIZE_ALEXEY, 0, 416, 416, 416, 416, "random=0: the cfg's");
	sizes(SIZE_2019, 1, 416, 320, 608, 608, "613ce1b: 320..608");
	sizes(SIZE_ARCHIVE, 1, 416, 288, 640, 640, "archive 416: 288..640");
	sizes(SIZE_V5, 1, 416, 192, 640, 640, "v5 416: 192..640");
	sizes(SIZE_V5, 1.25, 320, 256, 416, 416, "v5 320, random 1.25: 256..416");
	tried();
	ranges();
	groups();
	too_many();
	ok(fabs(c - .05) < 1e-9 && optim_clip(1, 5) == 1 && optim_clip(0, 5) == 1, "clip's factor");
	return done();
}
