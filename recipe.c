/* recipe.c -- how a run trains: the cfg's keys, a loss flavour's habits, the user's settings.
 *
 * Precedence: a flag or -O setting, then the cfg's own key, then the flavour's default.  Darknet's
 * losses are sums whose gradients darknet divides by the batch; the others are means, which a fixed
 * gain brings to the scale that learning rates around 0.01 expect. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

const struct setting train_settings[] = {
	{ "accumulate", "global", "global|mean|sum",
	    "what the loss of a mini-batch is divided by: the whole batch's counts or its own" },
	{ "anchor_t", "4", "1..inf", "ciou: an anchor takes a truth whose sides differ by less than this factor" },
	{ "beta2", "0.999", "0..1", "Adam: decay of the squared gradients" },
	{ "bn_momentum", NULL, "0..1",
	    "share of a batch in the running statistics (0.1; darknet's losses 0.01)" },
	{ "box_gain", NULL, "0..inf", "weight of the box term (0.05 with ciou; not in darknet's losses)" },
	{ "bucket", "6250000", "int 1..inf", "floats of a gradient bucket between ranks" },
	{ "clip", NULL, "0..inf", "largest gradient norm (10 with ciou, else none)" },
	{ "cls_gain", NULL, "0..inf", "weight of the class term (0.5 with ciou; not in darknet's losses)" },
	{ "cutoff", NULL, "int 0..inf", "load only the first N layers of -w" },
	{ "decay", NULL, "0..1", "weight decay of convolution weights (the cfg's decay)" },
	{ "deterministic", "0", "0|1", "on CUDA: the same bits in every run" },
	{ "ema", NULL, "0..1",
	    "average of the weights that is validated and kept as best (0.999 with ciou)" },
	{ "ema_tau", "200", "0..inf", "steps over which the average gets its full length" },
	{ "exact", "0", "0|1", "plain kernels only" },
	{ "exposure", NULL, "0..100", "augmentation: factor of brightness (the cfg's exposure)" },
	{ "flip", NULL, "0..1", "augmentation: share of mirrored pictures (0.5)" },
	{ "gain", NULL, "0..inf", "factor on the loss (64; darknet's losses 1/batch)" },
	{ "hue", NULL, "0..1", "augmentation: shift of hue (the cfg's hue)" },
	{ "jitter", NULL, "0..1", "augmentation: darknet's shift of sides (the cfg's jitter)" },
	{ "lr", NULL, "0..inf", "learning rate (the cfg's learning_rate)" },
	{ "lr_final", "0.01", "0..1", "cosine: the last learning rate over the first" },
	{ "momentum", NULL, "0..1", "momentum, Adam's beta1 (the cfg's momentum)" },
	{ "mosaic", NULL, "0..1",
	    "augmentation: share of four-picture mosaics (0.5 with ciou, 0 if the cfg says "
	    "mosaic=0)" },
	{ "nan_stop", "10", "int 1..inf", "end the run after so many skipped updates in a row" },
	{ "nesterov", NULL, "0|1", "Nesterov's momentum (1 with ciou)" },
	{ "obj_gain", NULL, "0..inf", "weight of the objectness term (1 with ciou; not in darknet's losses)" },
	{ "plan", "0", "0|1", "print the bytes needed and stop" },
	{ "policy", NULL, "constant|steps|step|exp|poly|sigmoid|sgdr|cosine",
	    "learning rate over time (the cfg's policy, else cosine)" },
	{ "prior", NULL, "0|1", "start the heads at the odds of finding nothing (1 with ciou)" },
	{ "resize", "stb", "stb|bilinear|darknet", "how pictures are resized" },
	{ "rule", NULL, "sgd|adam|adamw",
	    "optimiser (the cfg's adam, with ciou as adamw; else sgd)" },
	{ "saturation", NULL, "0..100",
	    "augmentation: factor of saturation (the cfg's saturation)" },
	{ "save", "0", "int 0..inf", "checkpoint every n steps too, not only at an epoch's end" },
	{ "scale", NULL, "0..1", "augmentation: half range of zoom (0.5 with mosaic)" },
	{ "steps", NULL, "int 1..inf", "end the run early, after n steps" },
	{ "syncbn", "0", "0|1", "batch-norm statistics over all ranks" },
	{ "threads", NULL, "int 1..1024", "compute threads of a rank (cores / ranks)" },
	{ "translate", NULL, "0..1", "augmentation: half range of shift (0.1 with mosaic)" },
	{ "warmup", NULL, "0..inf", "steps of rising learning rate (the cfg's burn_in)" },
	{ NULL, NULL, NULL, NULL }
};

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
	t->b2 = settings_num(s, "beta2");
	t->eps = r->net.adam ? r->net.eps : 1e-8;
	t->bucket = (size_t)settings_int(s, "bucket");
	r->bn_momentum = (float)pick(s, "bn_momentum", is_darknet(t->loss.kind) ? .01 : .1);
	r->syncbn = (int)settings_int(s, "syncbn");
	r->prior = (int)pick(s, "prior", ciou);
	r->nan_stop = settings_int(s, "nan_stop");
	r->save = settings_int(s, "save");
}

static void
make_gains(struct loss *l, const struct settings *s)
{
	l->gain_box = pick(s, "box_gain", l->gain_box);
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
		a->flip = r->net.flip ? .5 : 0;
	}
	a->flip = pick(s, "flip", a->flip);
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

int
recipe_make(struct recipe *r, const struct cfg *c, const char *loss, const char *aug, int batch,
    double epochs, const struct settings *s, struct err *e)
{
	int kind = loss ? loss_kind(loss) : (int)asked_for(c);

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
	r->lr_final = settings_num(s, "lr_final");
	if (settings_given(s, "policy"))
		r->net.policy = policy_named(settings_str(s, "policy"));
	r->epochs = epochs;
	r->steps = epochs > 0 ? 0 : c->net.max_batches;
	if (!r->steps && !(epochs > 0))
		r->epochs = 100;
	if (r->net.subdivisions > r->batch)
		r->net.subdivisions = r->batch;
	make_gains(&r->train.loss, s);
	make_optimiser(r, s);
	return make_augment(r, c, aug, s, e);
}

void
recipe_length(struct recipe *r, long samples)
{
	if (r->epochs > 0)
		r->steps = (long)ceil(r->epochs * (double)samples / r->batch);
	r->net.max_batches = (int)r->steps;
}

/* darknet counts the update of the first batch as iteration 1. */
double
recipe_lr(const struct recipe *r, uint64_t seed, long step)
{
	long b = step + 1;
	double f;

	if (r->net.policy != LR_COSINE || b < r->net.burn_in)
		return schedule_lr(&r->net, seed, b);
	f = (double)(b - r->net.burn_in) / (double)(r->steps > r->net.burn_in ?
	    r->steps - r->net.burn_in : 1);
	f = f > 1 ? 1 : f;
	return r->net.lr * (r->lr_final + (1 - r->lr_final) * (1 +
	    cos(3.14159265358979323846 * f)) / 2);
}

double
recipe_momentum(const struct recipe *r, long step)
{
	(void)step;
	return r->net.momentum;
}

void
recipe_prior(const struct cfg *c, const struct params *p, struct weights *w)
{
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);

	for (int i = 0; i < n; i++) {
		const struct def_yolo *d = &c->l[head[i]].u.yolo;
		const struct param *b = params_find(p, head[i] - 1, P_BIAS);
		double stride = (double)c->l[0].in_w / c->l[head[i]].w,
		    cells = 640 / stride * 640 / stride;

		for (int a = 0; b && a < d->nmask; a++) {
			float *bias = w->train + b->off + a * (d->classes + 5);

			bias[4] += (float)log(8 / cells); /* about 8 objects in a picture of 640 */
			for (int k = 0; k < d->classes; k++)
				bias[5 + k] += (float)log(.6 / (d->classes - .99));
		}
	}
}

/* One line of a cfg: does it set this key? */
static int
sets(const char *line, size_t len, const char *key)
{
	size_t k = strlen(key), i = 0;

	while (i < len && strchr(" \t", line[i]))
		i++;
	if (len - i < k || strncmp(line + i, key, k))
		return 0;
	for (i += k; i < len && strchr(" \t", line[i]); i++)
		;
	return i < len && line[i] == '=';
}

/* Which layer's section, counted as darknet counts, does line `no` belong to?  -1: [net]. */
static int
layer_at(const struct cfg *c, int no)
{
	int i = -1;

	while (i + 1 < c->nl && c->l[i + 1].line <= no)
		i++;
	return i;
}

/* A head in our ciou form: its convolution ends in the logistic, and the [yolo] layer decodes
 * (2s - 0.5, 4 s^2): darknet's new_coords with scale_x_y 2. */
char *
recipe_cfg_text(const struct cfg *c, enum loss_kind kind)
{
	size_t n = 0;
	char *out = NULL;
	FILE *f = open_memstream(&out, &n);
	int no = 0;

	if (!f)
		die(1, "out of memory");
	for (const char *p = c->text, *end = p + c->len; p < end;) {
		const char *nl = (const char *)memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);
		int i = layer_at(c, ++no), yolo = i >= 0 && c->l[i].type == L_YOLO;
		int before = i >= 0 && i + 1 < c->nl && c->l[i + 1].type == L_YOLO;

		if (kind == LOSS_CIOU && ((yolo && (sets(p, len, "new_coords") ||
		    sets(p, len, "scale_x_y"))) || (before && sets(p, len, "activation"))))
			len = 0;		/* said anew below the section's name */
		else
			fprintf(f, "%.*s\n", (int)len, p);
		if (kind == LOSS_CIOU && yolo && c->l[i].line == no)
			fprintf(f, "new_coords=1\nscale_x_y=2.0\n");
		if (kind == LOSS_CIOU && before && c->l[i].line == no)
			fprintf(f, "activation=logistic\n");
		p = nl ? nl + 1 : end;
	}
	fclose(f);
	return out;
}
