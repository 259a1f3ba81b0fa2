/* recipe.c -- how a run trains: the cfg's keys, a loss flavour's habits, the user's settings.
 *
 * Precedence: a flag or -O setting, then the cfg's own key, then the flavour's default.  Darknet's
 * losses are sums whose gradients darknet divides by the batch; the others are means, which a fixed
 * gain brings to the scale that learning rates around 0.01 expect. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/train.h"

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

/* What a recipe changes in a network: the heads' first biases, and the cfg's text.
 *
 * run.cfg and the checkpoint carry the text as it was really run, so that any program which knows
 * darknet's keys decodes the weights rightly. */

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

/* Is the head, with the convolution before it, what this loss trains?  ciou's form is its own;
 * the others but darknet-iou know exp() and the plain logistic only. */
static int
is_form(const struct cfg *c, int head, enum loss_kind kind)
{
	const struct def_yolo *d = &c->l[head].u.yolo;

	if (kind == LOSS_DARKNET_IOU || c->l[head].type != L_YOLO)
		return 1;
	return kind != LOSS_CIOU && !d->new_coords && d->scale_x_y == 1 && head > 0 &&
	    c->l[head - 1].u.conv.act == ACT_LINEAR;
}

/* A head in our ciou form: its convolution ends in the logistic, and the [yolo] layer decodes
 * (2s - 0.5, 4 s^2): darknet's new_coords with scale_x_y 2.  A head written so, trained by a loss
 * that decodes it plainly, loses these keys: yolo-detect decodes as the text says. */
char *
recipe_cfg_text(const struct cfg *c, enum loss_kind kind, int w, int h)
{
	int ciou = kind == LOSS_CIOU;
	size_t n = 0;
	char *out = NULL;
	FILE *f = open_memstream(&out, &n);
	int no = 0;

	if (!f)
		die(1, "out of memory");
	for (const char *p = c->text, *end = p + c->len; p < end;) {
		const char *nl = (const char *)memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);
		int i = layer_at(c, ++no), yolo = i >= 0 && !is_form(c, i, kind);
		int before = i >= 0 && i + 1 < c->nl && !is_form(c, i + 1, kind);

		if ((yolo && (sets(p, len, "new_coords") || sets(p, len, "scale_x_y"))) ||
		    (before && sets(p, len, "activation")))
			len = 0;		/* said anew below the section's name */
		else if (i < 0 && w && (sets(p, len, "width") || sets(p, len, "height")))
			fprintf(f, "%s=%d\n", sets(p, len, "width") ? "width" : "height",
			    sets(p, len, "width") ? w : h);
		else
			fprintf(f, "%.*s\n", (int)len, p);
		if (ciou && yolo && c->l[i].line == no)
			fprintf(f, "new_coords=1\nscale_x_y=2.0\n");
		if (before && c->l[i].line == no)
			fprintf(f, "activation=%s\n", ciou ? "logistic" : "linear");
		p = nl ? nl + 1 : end;
	}
	fclose(f);
	return out;
}

/* Label smoothing, focal loss and class weights: settings, else the cfg's keys.
 *
 * The darknet-iou flavour reads them from the cfg's heads, so a setting is written there; ciou and
 * ultralytics-archive have them in their struct loss.  The other flavours know none of them: a
 * setting is refused, a key of the cfg is named by recipe_tell(). */

#define MOST_WEIGHT 10	/* of a class with ciou: a box or two shall not outweigh all others */

static int
knows(enum loss_kind k)
{
	return k == LOSS_DARKNET_IOU || k == LOSS_ARCHIVE || k == LOSS_CIOU;
}

static int
refuse(const struct recipe *r, const struct settings *s, struct err *e)
{
	static const char *const key[] = { "label_smooth", "focal", "class_counts" };

	for (int i = 0; i < 3; i++)
		if (settings_given(s, key[i]))
			return err_set(e, "-O %s: the loss %s has no such thing; ciou, "
			    "ultralytics-archive and darknet-iou "
			    "have", key[i], loss_name(r->train.loss.kind));
	return 0;
}

int
recipe_loss(struct recipe *r, struct cfg *c, const struct settings *s, struct err *e)
{
	struct loss *l = &r->train.loss;
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);
	const char *smooth = settings_str(s, "label_smooth"), *focal = settings_str(s, "focal");
	double gamma = settings_num(s, "focal");

	if (!knows(l->kind) && refuse(r, s, e))
		return -1;
	if (l->kind == LOSS_DARKNET_IOU && focal && gamma != 0 && gamma != 2)
		return err_set(e, "-O focal=%s: darknet-iou's is 2, or 0 for none", focal);
	for (int i = 0; i < n; i++) {
		struct def_yolo *d = &c->l[head[i]].u.yolo;

		if (smooth)
			d->label_smooth = (float)settings_num(s, "label_smooth");
		if (focal)
			d->focal = gamma > 0;
		l->label_smooth = d->label_smooth;
		l->focal_gamma = focal ? gamma : d->focal ? 2 : 0;
	}
	return 0;
}

/* "none", "auto" or numbers.  1: there are counts, in *out; 0: none; -1 */
static int
counts_said(const char *say, int classes, const long *data, long **out, struct err *e)
{
	double *v = (double *)xcalloc((size_t)classes, sizeof *v);
	int is_auto = !strcmp(say, "auto"), bad;

	bad = !is_auto && num_list(say, classes, 0, 1e9, v) != classes;
	*out = (long *)xcalloc((size_t)classes + 1, sizeof **out);
	for (int i = 0; i < classes && !bad; i++) {
		(*out)[i] = is_auto ? data[i] : (long)v[i];
		bad = !is_auto && v[i] != floor(v[i]);
	}
	free(v);
	if (bad)
		return err_set(e, "-O class_counts=%s: want none, auto or %d whole numbers with "
		    "commas", say, classes);
	return 1;
}

/* The mean over the boxes counted is 1, so that the loss keeps its size. */
static float *
weights_of(const long *count, int n)
{
	float *w = (float *)xcalloc((size_t)n, sizeof *w);
	double all = 0, present = 0;

	for (int i = 0; i < n; i++) {
		all += (double)count[i];
		present += count[i] > 0;
	}
	for (int i = 0; i < n; i++) {
		double x = count[i] > 0 ? all / present / (double)count[i] : 1;

		w[i] = (float)(x > MOST_WEIGHT ? MOST_WEIGHT : x);
	}
	return w;
}

int
recipe_classes(struct recipe *r, struct cfg *c, const struct settings *s, const long *data,
    struct err *e)
{
	const char *say = settings_str(s, "class_counts");
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);
	struct def_yolo *first = &c->l[head[0]].u.yolo;
	long *count = NULL;

	if (!knows(r->train.loss.kind) || (!say && !first->counters))
		return 0;
	if (say && strcmp(say, "none") && counts_said(say, first->classes, data, &count, e) < 0) {
		free(count);
		return -1;
	}
	for (int i = 0; i < n && say; i++) {		/* a setting takes the place of the keys */
		struct def_yolo *d = &c->l[head[i]].u.yolo;

		d->counters = count != NULL;
		d->counter = (int *)xrealloc(d->counter,
		    ((size_t)d->classes + 1) * sizeof *d->counter);
		for (int k = 0; count && k < d->classes; k++)
			d->counter[k] = (int)count[k];
	}
	if (first->counters && r->train.loss.kind != LOSS_DARKNET_IOU) {
		count = (long *)xrealloc(count, (size_t)first->classes * sizeof *count);
		for (int k = 0; k < first->classes; k++)
			count[k] = first->counter[k];
		r->train.loss.cls_weight = r->cls_weight = weights_of(count, first->classes);
	}
	free(count);
	return 0;
}

/* The keys of a cfg that a training of some kind does not look at.
 *
 * A cfg is written for one way to train, and may be trained in another: darknet's normalizers mean
 * nothing to the ciou loss, its hue nothing to the mosaics.  cfgkeys.c remarks on keys that never
 * have an effect here; this is about the others, so that none is passed over in silence. */

enum { DARK = 1 << LOSS_DARKNET, IOU = 1 << LOSS_DARKNET_IOU,
	OURS = 1 << LOSS_CIOU | 1 << LOSS_ARCHIVE, EVERY = -1 };
enum { A_DARK = 1 << AUG_DARKNET, A_MOSAIC = 1 << AUG_MOSAIC };
enum { P_POWER = 1 << LR_POLY | 1 << LR_RANDOM };

/* Who looks at a key: losses, augmentations, policies; all three must.  neutral: the value that
 * says what happens anyway. */
static const struct { const char *section, *keys, *neutral; int loss, aug, policy; } uses[] = {
	{ "yolo", "ignore_thresh max", "", DARK | IOU, EVERY, EVERY },
	{ "yolo", "truth_thresh", "1", DARK | IOU, EVERY, EVERY },
	{ "yolo", "iou_normalizer obj_normalizer delta_normalizer max_delta iou_thresh "
	    "iou_thresh_kind iou_loss show_details", "", IOU, EVERY, EVERY },
	{ "yolo", "objectness_smooth", "0", IOU, EVERY, EVERY },
	{ "yolo", "label_smooth_eps focal_loss", "0", IOU | OURS, EVERY, EVERY },
	{ "yolo", "counters_per_class", "", IOU | OURS, EVERY, EVERY },
	{ "yolo", "cls_normalizer", "1", IOU, EVERY, EVERY },
	{ "yolo", "jitter", "", EVERY, A_DARK, EVERY },
	{ "region", "jitter", "", EVERY, A_DARK, EVERY },
	{ "net", "hue saturation exposure", "", EVERY, A_DARK, EVERY },
	{ "net", "mosaic", "0", EVERY, A_MOSAIC, EVERY },
	{ "net", "steps scales", "", EVERY, EVERY, 1 << LR_STEPS },
	{ "net", "step", "", EVERY, EVERY, 1 << LR_STEP | 1 << LR_SIGMOID },
	{ "net", "scale", "", EVERY, EVERY, 1 << LR_STEP },
	{ "net", "gamma", "", EVERY, EVERY, 1 << LR_EXP | 1 << LR_SIGMOID },
	{ "net", "power", "", EVERY, EVERY, P_POWER },		/* and with burn_in: see below */
	{ "net", "learning_rate_min", "", EVERY, EVERY, 1 << LR_SGDR },
	{ "net", "sgdr_cycle sgdr_mult", "", EVERY, EVERY, 1 << LR_SGDR },
};

static int
holds(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ' '))
			return 1;
	return 0;
}

static int
neutral(const char *value, const char *of)
{
	double a, b;

	return !num_real(value, -1e300, 1e300, &a) && !num_real(of, -1e300, 1e300, &b) && a == b;
}

static int
is_unused(const char *section, const struct cfg_key *k, const struct cfg_use *u)
{
	int net = !strcmp(section, "net"), scale = !strcmp(k->name, "scale_x_y");

	if (net && holds("B1 B2 eps", k->name))
		return !u->adam;
	if (net && !strcmp(k->name, "power") && u->burn_in > 0)
		return 0;
	if (!net && (scale || !strcmp(k->name, "new_coords")))	/* ciou's form is its own */
		return u->loss != LOSS_DARKNET_IOU &&
		    !neutral(k->value, u->loss != LOSS_CIOU ? scale ? "1" : "0" :
		    scale ? "2" : "1");
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		if (!strcmp(section, uses[i].section) && holds(uses[i].keys, k->name))
			return !neutral(k->value, uses[i].neutral) &&
			    !(uses[i].loss >> u->loss & uses[i].aug >> u->aug &
			    uses[i].policy >> u->policy & 1);
	return 0;
}

/* The unused keys of all sections of a kind, once each, with blanks between; NULL: none. */
static char *
unused_in(const struct cfg_sections *all, const char *section, const struct cfg_use *u)
{
	char *list = NULL;

	for (int i = 0; i < all->n; i++) {
		const struct cfg_section *s = &all->s[i];

		if (strcmp(s->name, section) && (i || strcmp(section, "net")))	/* [network] */
			continue;
		for (int k = 0; k < s->n; k++) {
			char *old = list;

			if (!is_unused(section, &s->key[k], u) ||
			    (old && holds(old, s->key[k].name)))
				continue;
			list = xasprintf("%s%s%s", old ? old : "", old ? " " : "", s->key[k].name);
			free(old);
		}
	}
	return list;
}

char *
cfg_unused(const struct cfg *c, const struct cfg_use *u)
{
	static const char *const kinds[] = { "net", "yolo", "region" };
	struct cfg again = { .path = c->path, .text = c->text, .len = c->len };
	struct cfg_sections all;
	char *said = NULL;
	struct err e;

	if (cfg_lex(&again, &all, &e))		/* it was read before */
		die(1, "%s", e.msg);
	for (int i = 0; i < 3; i++) {
		char *list = unused_in(&all, kinds[i], u), *old = said;

		if (!list)
			continue;
		said = xasprintf("%s%s[%s] %s", old ? old : "", old ? "; " : "", kinds[i], list);
		free(old);
		free(list);
	}
	cfg_unlex(&all);
	for (int i = 0; i < again.nnote; i++)
		free(again.note[i]);
	free(again.note);
	free(again.note_more);
	return said;
}

void
recipe_tell(const struct recipe *r, const struct cfg *c)
{
	static const char *const augs[] = { [AUG_NONE] = "none", [AUG_DARKNET] = "darknet",
		[AUG_ULTRA2019] = "ultralytics-2019", [AUG_MOSAIC] = "mosaic" };
	int cfgs = r->policy == RUN_CFG;	/* ultralytics' schedules have no keys */
	struct cfg_use u = { r->train.loss.kind, r->aug.kind, cfgs ? r->net.policy : LR_CONSTANT,
		r->train.rule != RULE_SGD && r->net.adam, cfgs ? r->net.burn_in : 0 };
	char *list = cfg_unused(c, &u);

	for (int i = 0; i < c->nnote; i++)
		warn("%s", c->note[i]);
	if (list)
		warn("%s: not used with -L %s and -A %s: %s", c->path, loss_name(u.loss),
		    augs[u.aug], list);
	free(list);
}
