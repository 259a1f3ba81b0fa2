/* recipe.c -- how a run trains: the cfg's keys, a loss flavour's habits, the user's settings.
 *
 * Precedence: a flag or -O setting, then the cfg's own key, then the flavour's default.  Darknet's
 * losses are sums whose gradients darknet divides by the batch; the others are means, which a fixed
 * gain brings to the scale that learning rates around 0.01 expect. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

/* Keys of darknet's loss in a [yolo] section ask for it; a cfg without them trains with ciou. */
static enum loss_kind
asked_for(const struct cfg *c)
{
	int plain = 0;

	for (int i = 0; i < c->nl; i++) {
		if (c->l[i].type == L_REGION)
			plain = 1;
		if (c->l[i].type != L_YOLO)
			continue;
		if (c->l[i].u.yolo.given & YOLO_IOU_LOSS)
			return LOSS_DARKNET_IOU;
		plain |= c->l[i].u.yolo.given & YOLO_IGNORE;
	}
	return plain ? LOSS_DARKNET : LOSS_CIOU;
}

static int
is_darknet(enum loss_kind k)
{
	return k == LOSS_DARKNET || k == LOSS_DARKNET_IOU;
}

static double
pick(const struct settings *s, const char *key, double otherwise)
{
	return settings_given(s, key) ? settings_num(s, key) : otherwise;
}

static void
make_optimiser(struct recipe *r, const struct settings *s)
{
	struct train_opts *t = &r->train;
	int ciou = t->loss.kind == LOSS_CIOU;
	const char *rule = settings_given(s, "rule") ? settings_str(s, "rule") :
	    r->net.adam ? ciou ? "adamw" : "adam" : "sgd";
	const char *acc = settings_str(s, "accumulate");

	t->rule = !strcmp(rule, "adam") ? RULE_ADAM : !strcmp(rule, "adamw") ? RULE_ADAMW :
	    RULE_SGD;
	t->parts = r->net.subdivisions;
	t->accum = !strcmp(acc, "mean") ? ACCUM_MEAN : !strcmp(acc, "sum") ? ACCUM_SUM :
	    ACCUM_GLOBAL;
	t->gain = pick(s, "gain", is_darknet(t->loss.kind) ? 0 : 64);
	t->nesterov = (int)pick(s, "nesterov", ciou);
	t->decay = pick(s, "decay", r->net.decay);
	t->clip = pick(s, "clip", ciou ? 10 : 0);
	t->ema = pick(s, "ema", ciou ? .999 : 0);
	t->ema_tau = settings_num(s, "ema_tau");
	t->b1 = pick(s, "momentum", r->net.adam ? r->net.b1 : r->net.momentum);
	t->b2 = pick(s, "beta2", r->net.adam ? r->net.b2 : .999);
	t->eps = r->net.adam ? r->net.eps : 1e-8;
	t->bucket = (size_t)settings_int(s, "bucket");
	r->mosaic_end = settings_num(s, "mosaic_end");
	r->bn_momentum = (float)pick(s, "bn_momentum", is_darknet(t->loss.kind) ? .01 : .1);
	r->syncbn = (int)settings_int(s, "syncbn");
	r->prior = (int)pick(s, "prior", ciou);
	r->nan_stop = settings_int(s, "nan_stop");
	r->patience = settings_int(s, "patience");
	r->save = settings_int(s, "save");
	while (strcmp(val_name[r->best], settings_str(s, "best")))
		r->best++;
}

/* What goes through the net at once stays; updates come every so many batches.  A batch that does
 * not meet the nominal one changes the step and the decay in proportion, as yolov5 does. */
static void
make_nominal(struct recipe *r, const struct settings *s)
{
	double nominal = settings_num(s, "nominal");
	int times = (int)fmax(1, nearbyint(nominal / r->batch));

	if (nominal <= 0)
		return;
	r->batch *= times;
	r->net.subdivisions *= times;
	r->train.parts = r->net.subdivisions;
	if (is_darknet(r->train.loss.kind))
		return;
	r->train.gain *= r->batch / nominal;
	r->train.decay *= r->batch / nominal;
}

/* yolov5's 0.05 for boxes suits its 300 epochs of COCO; in runs of some thousand steps they are
 * then never learned well.  1 was the best of five on two sets (doc/training.md). */
static void
make_gains(struct loss *l, const struct settings *s)
{
	l->gain_box = pick(s, "box_gain", l->kind == LOSS_CIOU ? 1 : l->gain_box);
	l->gain_obj = pick(s, "obj_gain", l->gain_obj);
	l->gain_cls = pick(s, "cls_gain", l->gain_cls);
	l->anchor_t = settings_num(s, "anchor_t");
}

static int
make_augment(struct recipe *r, const struct cfg *c, const char *name, const struct settings *s,
    struct err *e)
{
	static const char *const names[] = { "none", "darknet", "ultralytics-2019", "mosaic" };
	enum loss_kind k = r->train.loss.kind;
	struct augment *a = &r->aug;
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS), kind;
	const char *resize = settings_str(s, "resize");

	kind = is_darknet(k) ? AUG_DARKNET : k == LOSS_CIOU ? AUG_MOSAIC : AUG_ULTRA2019;
	for (kind = name ? 0 : kind; name && kind < 4 && strcmp(name, names[kind]); kind++)
		;
	if (kind == 4)
		return err_set(e, "-A %s: want none, darknet, ultralytics-2019 or mosaic", name);
	memset(a, 0, sizeof *a);
	augment_defaults(a, (enum aug_kind)kind);
	if (kind == AUG_DARKNET) {	/* the last head's jitter, as darknet */
		a->jitter = pick(s, "jitter", n ? c->l[head[n - 1]].u.yolo.jitter : .2);
		a->hue = pick(s, "hue", r->net.hue);
		a->saturation = pick(s, "saturation", r->net.saturation);
		a->exposure = pick(s, "exposure", r->net.exposure);
	}
	a->flip = pick(s, "flip", r->net.flip ? a->flip : 0);
	a->scale = pick(s, "scale", a->scale);
	a->translate = pick(s, "translate", a->translate);
	a->mosaic = pick(s, "mosaic", r->net.mosaic ? a->mosaic : 0); /* -1: the cfg says nothing */
	a->resize = !strcmp(resize, "bilinear") ? RESIZE_BILINEAR : !strcmp(resize, "darknet") ||
	    kind == AUG_DARKNET ? RESIZE_DARKNET : RESIZE_STB;
	return 0;
}

static enum lr_policy
policy_named(const char *name)
{
	static const struct { const char *name; enum lr_policy p; } tab[] = {
		{ "constant", LR_CONSTANT }, { "step", LR_STEP }, { "steps", LR_STEPS },
		{ "exp", LR_EXP },
		{ "poly", LR_POLY }, { "sigmoid", LR_SIGMOID }, { "sgdr", LR_SGDR },
	};

	for (size_t i = 0; i < sizeof tab / sizeof *tab; i++)
		if (!strcmp(name, tab[i].name))
			return tab[i].p;
	return LR_COSINE;
}

/* "0.8,0.9": shares of the run at which the rate falls to a tenth. */
static int
take_drops(struct recipe *r, const char *list, struct err *e)
{
	r->ndrop = num_list(list, RECIPE_DROPS, 0, 1, r->drop);
	if (r->ndrop < 1)
		return err_set(e, "-O drops=%s: want up to %d shares of the run with commas "
		    "between, as in 0.8,0.9", list, RECIPE_DROPS);
	return 0;
}

static int
take_policy(struct recipe *r, const struct settings *s, struct err *e)
{
	const char *name = settings_str(s, "policy"), *drops = settings_str(s, "drops");

	if (name && !strcmp(name, "ultralytics-2019"))
		r->policy = RUN_2019;
	else if (name && !strcmp(name, "ultralytics-archive"))
		r->policy = RUN_ARCHIVE;
	else if (name)
		r->net.policy = policy_named(name);
	r->lr_final = pick(s, "lr_final", r->policy == RUN_ARCHIVE ? .05 : .01);
	if (r->net.policy != LR_STEPS || r->policy != RUN_CFG)
		return drops ? err_set(e, "-O drops is for -O policy=steps") : 0;
	return drops || !r->net.nstep ? take_drops(r, drops ? drops : "0.8,0.9", e) : 0;
}

void
recipe_span(struct recipe *r, const struct cfg *c, double epochs)
{
	r->epochs = epochs;
	r->steps = epochs > 0 ? 0 : c->net.max_batches;
	if (!r->steps && !(epochs > 0))
		r->epochs = 100;
}

int
recipe_make(struct recipe *r, const struct cfg *c, const char *loss, const char *aug, int batch,
    double epochs, const struct settings *s, struct err *e)
{
	int kind;

	loss = loss ? loss : settings_str(s, "loss");
	aug = aug ? aug : settings_str(s, "aug");
	kind = loss ? loss_kind(loss) : (int)asked_for(c);
	memset(r, 0, sizeof *r);
	if (kind < 0)
		return err_set(e, "-L %s: want ciou, darknet, darknet-iou, ultralytics-2019, "
		    "ultralytics-multi or ultralytics-archive", loss);
	r->net = c->net;
	loss_defaults(&r->train.loss, (enum loss_kind)kind);
	r->batch = batch > 0 ? batch : c->net.batch;
	r->net.lr = pick(s, "lr", c->net.lr);
	r->net.momentum = pick(s, "momentum", c->net.momentum);
	r->net.burn_in = (int)pick(s, "warmup", c->net.burn_in);
	r->net.power = pick(s, "power", c->net.power);
	if (take_policy(r, s, e))
		return -1;
	recipe_span(r, c, epochs);
	if (r->net.subdivisions > r->batch)
		r->net.subdivisions = r->batch;
	make_gains(&r->train.loss, s);
	make_optimiser(r, s);
	if (r->train.rule != RULE_SGD && (r->train.b1 >= 1 || r->train.b2 >= 1))
		return err_set(e, "Adam with %s 1 never moves: want a number below 1, as 0.9 and "
		    "0.999 are", r->train.b1 >= 1 ? "beta1 (-O momentum, the cfg's B1)" :
		    "beta2 (-O beta2, the cfg's B2)");
	make_nominal(r, s);
	return make_augment(r, c, aug, s, e);
}

static enum size_rule
size_rule_of(enum loss_kind k)
{
	switch (k) {
	case LOSS_DARKNET: return SIZE_PJREDDIE;
	case LOSS_DARKNET_IOU: return SIZE_ALEXEY;
	case LOSS_ULTRA2019: case LOSS_MULTI: return SIZE_2019;
	case LOSS_ARCHIVE: return SIZE_ARCHIVE;
	default: return SIZE_V5;
	}
}

/* "lo:hi" */
static int
size_range(const char *s, double *lo, double *hi)
{
	const char *colon = strchr(s, ':');
	char *first = xasprintf("%.*s", colon ? (int)(colon - s) : 0, s);
	int bad = !colon || num_real(first, 1e-3, CFG_SIDE, lo) ||
	    num_real(colon + 1, 1e-3, CFG_SIDE, hi) || *lo > *hi;

	free(first);
	return bad;
}

int
recipe_sizes(struct recipe *r, const struct cfg *c, const struct settings *s, struct err *e)
{
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);
	double random = n ? c->l[head[n - 1]].u.yolo.random : 0, lo, hi;
	enum size_rule rule = size_rule_of(r->train.loss.kind);
	const char *want = settings_str(s, "multiscale");

	if (want && !strcmp(want, "0"))
		random = 0;
	if (want && !strcmp(want, "1"))
		random = random > 0 ? random : 1;
	if (random > 0 && (random > SIZE_FACTOR || random < 1. / SIZE_FACTOR))
		return err_set(e, "%s:%d: random=%g: want 0, 1 or a factor up to %d", c->path,
		    c->l[head[n - 1]].line, random, SIZE_FACTOR);
	schedule_sizes(&r->size, &c->net, cfg_stride(c), rule, random);
	if (!want || !strcmp(want, "0") || !strcmp(want, "1"))
		return 0;
	if (size_range(want, &lo, &hi))
		return err_set(e, "-O multiscale=%s: want 0, 1 or two sides as in 320:608 or "
		    "0.5:1.5", want);
	if (schedule_size_range(&r->size, rule, lo, hi))
		return err_set(e, "-O multiscale=%s: no multiple of %d lies there", want,
		    r->size.unit);
	return 0;
}

/* A part of a sample is rounded; the steps follow from the samples, as the loader's batches do. */
void
recipe_length(struct recipe *r, long samples)
{
	r->samples = samples;
	if (r->epochs > 0) {
		r->total = (long)fmax(1, floor(r->epochs * (double)samples + .5));
		r->steps = (r->total + r->batch - 1) / r->batch;
	} else
		r->total = r->steps * r->batch;
	r->net.max_batches = r->steps < INT_MAX ? (int)r->steps : INT_MAX;
	if (r->mosaic_end < 1)
		r->aug.mosaic_last = 1 + (long)(r->mosaic_end * (double)r->steps * r->batch);
}

/* darknet counts the update of the first batch as iteration 1. */
static double
rate(const struct recipe *r, uint64_t seed, long step)
{
	long b = step + 1;
	double f = 1;

	if (r->ndrop && b >= r->net.burn_in) {
		for (int i = 0; i < r->ndrop; i++)
			f *= b >= r->drop[i] * (double)r->steps ? .1 : 1;
		return r->net.lr * f;
	}
	if (r->net.policy != LR_COSINE || b < r->net.burn_in)
		return schedule_lr(&r->net, seed, b);
	f = (double)(b - r->net.burn_in) / (double)(r->steps > r->net.burn_in ?
	    r->steps - r->net.burn_in : 1);
	f = f > 1 ? 1 : f;
	return r->net.lr * (r->lr_final + (1 - r->lr_final) * (1 +
	    cos(3.14159265358979323846 * f)) / 2);
}

/* Ultralytics' schedules go by epochs; a run of another length is stretched to theirs. */
void
recipe_rates(const struct recipe *r, uint64_t seed, long step, struct warm *w)
{
	double epochs = r->samples ? (double)r->steps * r->batch / (double)r->samples : 1;
	double epoch = r->samples ? floor((double)step * r->batch / (double)r->samples) : 0;

	memset(w, 0, sizeof *w);
	w->momentum = r->net.momentum;
	w->decay = r->train.decay;
	if (r->policy == RUN_ARCHIVE) {
		struct cosine c = { .lr0 = r->net.lr, .lrf = r->lr_final, .momentum = w->momentum,
			.decay = w->decay, .epochs = epochs, .warmup = 3, .samples = r->samples,
			.batch = r->batch, .nominal = r->batch };

		*w = schedule_cosine(&c, step);
	} else if (r->policy == RUN_2019)
		w->lr = w->lr_bias = schedule_ultralytics(r->net.lr, ULTRA_EPOCH250,
		    (r->samples + r->batch - 1) / r->batch, (long)(epoch * 270 / epochs), step);
	else
		w->lr = w->lr_bias = rate(r, seed, step);
}
