/* cfgparse.c -- the sections of a darknet cfg: what each key means, its default, its range.
 *
 * Defaults are those of AlexeyAB's darknet; cfgkeys.c knows which names there are. */
#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "model/int.h"

static const char *const acts[] = { [ACT_LINEAR] = "linear",
	[ACT_LEAKY] = "leaky",
	[ACT_LOGISTIC] = "logistic",
	[ACT_RELU] = "relu",
	[ACT_MISH] = "mish",
	[ACT_SWISH] = "swish",
	NULL };
static const char *const ious[] = { [IOU_MSE] = "mse", [IOU_IOU] = "iou", [IOU_GIOU] = "giou",
	[IOU_DIOU] = "diou", [IOU_CIOU] = "ciou", NULL };
static const char *const nmses[] = { "default", "greedynms", "diounms", NULL };
static const char *const policies[] = { [LR_CONSTANT] = "constant", [LR_STEP] = "step",
	[LR_STEPS] = "steps", [LR_EXP] = "exp", [LR_POLY] = "poly", [LR_RANDOM] = "random",
	[LR_SIGMOID] = "sigmoid", [LR_SGDR] = "sgdr", [LR_COSINE] = "cosine", NULL };

/* ---- sections ----------------------------------------------------------------------------- */

/* The lists of policy steps.  darknet reads past the shorter one's end. */
static void
read_steps(struct cfg_reader *r, struct cfg_net *n)
{
	double *step, *scale;
	int ns = cfg_list(r, "steps", &step, 1000, 1), nc = cfg_list(r, "scales", &scale, 1000, 0);

	if (n->policy == LR_STEPS && !ns)
		cfg_bad(r, "policy", "policy=steps wants the keys steps and scales");
	if (n->policy == LR_STEPS && ns != nc)
		cfg_bad(r, nc ? "scales" : "steps",
		    "%d steps but %d scales: want one scale for each step", ns, nc);
	n->nstep = ns < nc ? ns : nc;
	n->step = (int *)xcalloc((size_t)n->nstep + 1, sizeof *n->step);
	n->scale = (float *)xcalloc((size_t)n->nstep + 1, sizeof *n->scale);
	for (int i = 0; i < n->nstep; i++) {
		n->step[i] = (int)step[i];
		n->scale[i] = (float)scale[i];
	}
	free(step);
	free(scale);
}

static void
read_rates(struct cfg_reader *r, struct cfg_net *n)
{
	n->max_batches = (int)cfg_int(r, "max_batches", 0, 0, INT_MAX);
	n->lr = cfg_num(r, "learning_rate", .001, 0, 1e6);
	n->lr_min = cfg_num(r, "learning_rate_min", .00001, 0, 1e6);
	n->momentum = cfg_num(r, "momentum", .9, 0, 1);
	n->decay = cfg_num(r, "decay", .0001, 0, 1e6);
	n->policy = (enum lr_policy)cfg_word(r, "policy", LR_CONSTANT, policies);
	n->burn_in = (int)cfg_int(r, "burn_in", 0, 0, INT_MAX);
	n->power = cfg_num(r, "power", 4, -100, 100);
	n->step_len = (int)cfg_int(r, "step", 1, 1, INT_MAX);
	n->step_scale = cfg_num(r, "scale", 1, -1e6, 1e6);
	n->gamma = cfg_num(r, "gamma", 1, -1e6, 1e6);
	n->sgdr_cycle = (int)cfg_int(r, "sgdr_cycle", n->max_batches, 0, INT_MAX);
	n->sgdr_mult = (int)cfg_int(r, "sgdr_mult", 2, 1, 1000);
	n->adam = (int)cfg_int(r, "adam", 0, 0, 1);
	n->b1 = cfg_num(r, "B1", .9, 0, 1);
	n->b2 = cfg_num(r, "B2", .999, 0, 1);
	n->eps = cfg_num(r, "eps", 1e-6, 0, 1);
	read_steps(r, n);
}

static void
read_looks(struct cfg_reader *r, struct cfg_net *n)
{
	n->saturation = cfg_num(r, "saturation", 1, 0, 1000);
	n->exposure = cfg_num(r, "exposure", 1, 0, 1000);
	n->hue = cfg_num(r, "hue", 0, 0, 1);
	n->flip = (int)cfg_int(r, "flip", 1, 0, 1);
	n->mosaic = cfg_get(r, "mosaic") ? (int)cfg_int(r, "mosaic", 0, 0, 1) : -1;
	n->label_smooth = cfg_num(r, "label_smooth_eps", 0, 0, 1);
	n->ema_alpha = cfg_num(r, "ema_alpha", 0, 0, 1);
	n->resize_step = (int)cfg_int(r, "resize_step", 32, 1, 4096);
}

static int
read_net(struct cfg_reader *r, struct cfg_net *n)
{
	n->line = r->s->line;
	n->w_line = cfg_line(r, "width");
	n->h_line = cfg_line(r, "height");
	n->c_line = cfg_line(r, "channels");
	n->batch = (int)cfg_int(r, "batch", 1, 1, 1 << 20);
	n->subdivisions = (int)cfg_int(r, "subdivisions", 1, 1, 1 << 20);
	n->w = (int)cfg_int(r, "width", 0, 1, CFG_SIDE);
	n->h = (int)cfg_int(r, "height", 0, 1, CFG_SIDE);
	n->c = (int)cfg_int(r, "channels", 0, 1, 1024);
	if (n->batch % n->subdivisions)
		cfg_bad(r, "subdivisions", "subdivisions=%d does not divide batch=%d",
		    n->subdivisions, n->batch);
	read_rates(r, n);
	read_looks(r, n);
	if (!n->w || !n->h || !n->c)
		cfg_bad(r, NULL, "[net] wants width, height and channels");
	return cfg_leftover(r, "net");
}

static void
read_conv(struct cfg_reader *r, struct def_conv *d)
{
	int pad, padding;

	d->k = (int)cfg_int(r, "filters", 1, 1, 1 << 20);
	d->size = (int)cfg_int(r, "size", 1, 1, 63);
	d->stride_x = d->stride_y = (int)cfg_int(r, "stride", 1, 1, 64);
	d->stride_x = (int)cfg_int(r, "stride_x", d->stride_x, 1, 64);
	d->stride_y = (int)cfg_int(r, "stride_y", d->stride_y, 1, 64);
	pad = (int)cfg_int(r, "pad", 0, 0, 1);
	padding = (int)cfg_int(r, "padding", 0, 0, 1024);
	d->groups = (int)cfg_int(r, "groups", 1, 1, 1 << 20);
	d->dilation = (int)cfg_int(r, "dilation", 1, 1, 64);
	if (d->size == 1)
		d->dilation = 1;
	d->pad = (pad ? d->size / 2 : padding) * d->dilation;
	d->bn = (int)cfg_int(r, "batch_normalize", 0, 0, 1);
	d->act = (enum act)cfg_word(r, "activation", ACT_LOGISTIC, acts);
}

/* A window's place in its square is kept in a byte: 16 is the largest side. */
static void
read_pool(struct cfg_reader *r, struct def_pool *d)
{
	int stride = (int)cfg_int(r, "stride", 1, 1, 1024);

	d->stride_x = (int)cfg_int(r, "stride_x", stride, 1, 1024);
	d->stride_y = (int)cfg_int(r, "stride_y", stride, 1, 1024);
	d->size = (int)cfg_int(r, "size", stride, 1, 16);
	d->padding = (int)cfg_int(r, "padding", d->size - 1, 0, 64);
	if ((d->padding + 1) / 2 >= d->size && d->padding)
		cfg_bad(r, "padding", "padding=%d (in all) leaves windows of %d without a pixel",
		    d->padding, d->size);
}

/* Layer indices: from 0, or back from layer i. */
static void
read_sources(struct cfg_reader *r, const char *key, int i, struct def_join *d)
{
	double *v;

	d->n = cfg_list(r, key, &v, LAYER_SRC, 1);
	for (int j = 0; j < d->n; j++) {
		d->src[j] = (int)(v[j] < 0 ? i + v[j] : v[j]);
		if (d->src[j] < 0 || d->src[j] >= i)
			cfg_bad(r, key,
			    "%s: %d is layer %d, and this is layer %d: want one before it (%s)",
			    key, (int)v[j], d->src[j], i,
			    i ? "0 is the first, -1 the one before" : "there is none");
	}
	if (!d->n)
		cfg_bad(r, NULL, "[%s] wants the key %s", r->s->name, key);
	free(v);
}

/* Shipped cfgs have lists that are too short (darknet goes on with 0.5) and masks behind num whose
 * anchors are in the list (darknet reads past its memory): both are loaded, with a note. */
static void
read_anchors(struct cfg_reader *r, struct def_yolo *d, int last)
{
	double *v;
	int n = cfg_list(r, "anchors", &v, 4096, 0), line = cfg_line(r, "anchors");

	if (last >= d->num && 2 * last < n && n % 2 == 0) {
		cfg_note(r->c, cfg_line(r, "num"),
		    "num is too small for the masks: all anchors count", "");
		d->num = n / 2;
	} else if (last >= d->num)
		cfg_bad(r, "mask", "mask %d: num=%d, so there are anchors 0 to %d", last, d->num,
		    d->num - 1);
	if (n && n < 2 * d->num)
		cfg_note(
		    r->c, line, "anchors has fewer than 2 x num numbers, the rest are 0.5", "");
	if (n > 2 * d->num)
		cfg_note(
		    r->c, line, "anchors has more than 2 x num numbers, the rest is not used", "");
	d->anchor = (float *)xcalloc(2 * (size_t)d->num + 1, sizeof *d->anchor);
	for (int i = 0; i < 2 * d->num; i++)
		if (!((d->anchor[i] = i < n ? (float)v[i] : .5f) > 0))
			cfg_bad(r, "anchors", "anchors: %g is no size", d->anchor[i]);
	free(v);
}

static void
read_masks(struct cfg_reader *r, struct def_yolo *d)
{
	double *v;
	int n = cfg_list(r, "mask", &v, MAX_MASK, 1), last = 0;

	d->nmask = n ? n : d->num;
	if (d->nmask > MAX_MASK) {
		cfg_bad(r, "num", "num=%d without a mask: at most %d anchors in a head", d->num,
		    MAX_MASK);
		d->nmask = MAX_MASK;
	}
	d->mask = (int *)xcalloc((size_t)d->nmask + 1, sizeof *d->mask);
	for (int i = 0; i < d->nmask; i++) {
		d->mask[i] = n ? (int)v[i] : i;
		if (d->mask[i] < 0)
			cfg_bad(r, "mask", "mask %d: want an anchor's number, from 0", d->mask[i]);
		last = d->mask[i] > last ? d->mask[i] : last;
	}
	free(v);
	read_anchors(r, d, last);
}

static void
read_counters(struct cfg_reader *r, struct def_yolo *d)
{
	double *v;
	int n = cfg_list(r, "counters_per_class", &v, 1 << 16, 1);

	d->counters = n > 0;
	if (n && n != d->classes)
		cfg_bad(r, "counters_per_class", "counters_per_class has %d numbers for %d classes",
		    n, d->classes);
	d->counter = (int *)xcalloc((size_t)n + 1, sizeof *d->counter);
	for (int i = 0; i < n; i++)
		if ((d->counter[i] = (int)v[i]) < 0)
			cfg_bad(r, "counters_per_class", "counters_per_class: %d is no count",
			    d->counter[i]);
	free(v);
}

static void
read_yolo(struct cfg_reader *r, struct def_yolo *d)
{
	d->given = (cfg_get(r, "iou_loss") ? YOLO_IOU_LOSS : 0) |
	    (cfg_get(r, "ignore_thresh") || cfg_get(r, "truth_thresh") ? YOLO_IGNORE : 0);
	d->classes = (int)cfg_int(r, "classes", 20, 1, 1 << 16);
	d->num = (int)cfg_int(r, "num", 1, 1, 1024);
	read_masks(r, d);
	d->max = (int)cfg_int(r, "max", 200, 0, 1 << 20);
	d->jitter = (float)cfg_num(r, "jitter", .2, 0, 1);
	d->resize = (float)cfg_num(r, "resize", 1, 0, 100);
	d->ignore_thresh = (float)cfg_num(r, "ignore_thresh", .5, 0, 10);
	d->truth_thresh = (float)cfg_num(r, "truth_thresh", 1, 0, 10);
	d->random = (float)cfg_num(r, "random", 0, 0, 100);
	d->scale_x_y = (float)cfg_num(r, "scale_x_y", 1, 0, 100);
	d->iou_normalizer = (float)cfg_num(r, "iou_normalizer", .75, 0, 1e6);
	d->obj_normalizer = (float)cfg_num(r, "obj_normalizer", 1, 0, 1e6);
	d->cls_normalizer = (float)cfg_num(r, "cls_normalizer", 1, 0, 1e6);
	d->delta_normalizer = (float)cfg_num(r, "delta_normalizer", 1, 0, 1e6);
	d->max_delta = (float)cfg_num(r, "max_delta", FLT_MAX, 0, FLT_MAX);
	d->iou_thresh = (float)cfg_num(r, "iou_thresh", 1, 0, 10);
	d->label_smooth = (float)cfg_num(r, "label_smooth_eps", 0, 0, 1);
	d->beta_nms = (float)cfg_num(r, "beta_nms", .6, 0, 100);
	d->new_coords = (int)cfg_int(r, "new_coords", 0, 0, 1);
	d->objectness_smooth = (int)cfg_int(r, "objectness_smooth", 0, 0, 1);
	d->focal = (int)cfg_int(r, "focal_loss", 0, 0, 1);
	d->show_details = (int)cfg_int(r, "show_details", 1, 0, 1);
	d->iou_loss = (enum iou_kind)cfg_word(r, "iou_loss", IOU_MSE, ious);
	d->iou_thresh_kind = (enum iou_kind)cfg_word(r, "iou_thresh_kind", IOU_IOU, ious);
	d->nms_kind = (enum nms_kind)cfg_word(r, "nms_kind", NMS_DEFAULT, nmses);
	read_counters(r, d);
	if (d->cls_normalizer != 1 && !d->counters)
		cfg_note(r->c, cfg_line(r, "cls_normalizer"),
		    "no effect without counters_per_class, as in darknet: ", "cls_normalizer");
}

static void
read_region(struct cfg_reader *r, struct def_yolo *d)
{
	d->scale_x_y = 1;
	d->classes = (int)cfg_int(r, "classes", 20, 1, 1 << 16);
	d->num = (int)cfg_int(r, "num", 1, 1, 1024);
	read_masks(r, d);
	d->max = (int)cfg_int(r, "max", 30, 0, 1 << 20);
	d->jitter = (float)cfg_num(r, "jitter", .2, 0, 1);
	d->random = (float)cfg_num(r, "random", 0, 0, 100);
	d->softmax = (int)cfg_int(r, "softmax", 0, 0, 1);
	d->bias_match = (int)cfg_int(r, "bias_match", 0, 0, 1);
	d->rescore = (int)cfg_int(r, "rescore", 0, 0, 1);
	d->background = (int)cfg_int(r, "background", 0, 0, 1);
	d->thresh = (float)cfg_num(r, "thresh", .5, 0, 10);
	d->coord_scale = (float)cfg_num(r, "coord_scale", 1, 0, 1e6);
	d->object_scale = (float)cfg_num(r, "object_scale", 1, 0, 1e6);
	d->noobject_scale = (float)cfg_num(r, "noobject_scale", 1, 0, 1e6);
	d->class_scale = (float)cfg_num(r, "class_scale", 1, 0, 1e6);
}

static void
read_layer(struct cfg_reader *r, struct layer *l, int i)
{
	struct def_join one;

	switch (l->type) {
	case L_CONV: read_conv(r, &l->u.conv); break;
	case L_MAXPOOL: read_pool(r, &l->u.pool); break;
	case L_YOLO: read_yolo(r, &l->u.yolo); break;
	case L_REGION: read_region(r, &l->u.yolo); break;
	case L_ROUTE:
		l->u.join.groups = (int)cfg_int(r, "groups", 1, 1, 1024);
		l->u.join.group_id = (int)cfg_int(r, "group_id", 0, 0, 1023);
		read_sources(r, "layers", i, &l->u.join);
		break;
	case L_SHORTCUT:
		l->u.join.groups = 1;
		read_sources(r, "from", i, &l->u.join);
		l->u.join.act = (enum act)cfg_word(r, "activation", ACT_LINEAR, acts);
		break;
	case L_SCALE: case L_SAM:
		read_sources(r, "from", i, &one);
		if (one.n > 1)
			cfg_bad(r, "from", "from: want one layer");
		l->u.scale.src = one.n ? one.src[0] : 0;
		l->u.scale.wh = l->type == L_SCALE ? (int)cfg_int(r, "scale_wh", 0, 0, 1) : 0;
		l->u.scale.act = (enum act)cfg_word(r, "activation", ACT_LINEAR, acts);
		break;
	case L_UPSAMPLE:
		l->u.stride.stride = (int)cfg_int(r, "stride", 2, 1, 64);
		l->u.stride.scale = (float)cfg_num(r, "scale", 1, -1e6, 1e6);
		break;
	case L_REORG: case L_REORG3D:
		l->u.stride.stride = (int)cfg_int(r, "stride", 1, 1, 64);
		l->u.stride.reverse = l->type == L_REORG ? (int)cfg_int(r, "reverse", 0, 0, 1) : 0;
		break;
	case L_DROPOUT: l->u.dropout.p = (float)cfg_num(r, "probability", .2, 0, .999999); break;
	default: break;
	}
	l->stopbackward = (int)cfg_int(r, "stopbackward", 0, 0, INT_MAX);
	l->dont_update = (int)cfg_int(r, "dont_update", 0, 0, INT_MAX);
	l->burnin_update = (int)cfg_int(r, "burnin_update", 0, 0, 1 << 20);
	l->dontload = (int)cfg_int(r, "dontload", 0, 0, 1);
	l->dontloadscales = (int)cfg_int(r, "dontloadscales", 0, 0, 1);
	l->train_only_bn = (int)cfg_int(r, "train_only_bn", 0, 0, 1);
	l->lr_scale = (float)cfg_num(r, "learning_rate", 1, 0, 1e6);
}

static int
add_layer(struct cfg *c, struct cfg_section *s, int i, struct err *e)
{
	struct cfg_reader r = { c, s, e, 0 };
	struct layer *l = &c->l[i];

	if (cfg_section_type(c, s, &l->type, e))
		return -1;
	l->line = s->line;
	l->key_line = cfg_line(&r, l->type == L_CONV	? "filters"
				   : l->type == L_ROUTE ? "layers"
							: "from");
	c->nl = i + 1;			/* what cfg_close has to look at */
	read_layer(&r, l, i);
	return cfg_leftover(&r, layer_name(l->type));
}

/* "(and 5 more lines)" behind remarks that came again. */
static void
count_notes(struct cfg *c)
{
	for (int i = 0; i < c->nnote; i++)
		if (c->note_more[i]) {
			char *old = c->note[i];

			c->note[i] = xasprintf("%s (and %d more line%s)", old, c->note_more[i],
			    c->note_more[i] > 1 ? "s" : "");
			free(old);
		}
}

struct cfg *
cfg_parse(const char *name, const char *text, size_t len, struct err *e)
{
	struct cfg *c = (struct cfg *)xcalloc(1, sizeof *c);
	struct cfg_sections all;
	struct cfg_reader r = { c, NULL, e, 0 };
	int bad;

	c->path = xstrdup(name);
	c->text = (char *)xmalloc(len + 1);
	memcpy(c->text, text, len);
	c->text[len] = 0;
	c->len = len;
	bad = cfg_lex(c, &all, e);
	if (!bad) {
		r.s = &all.s[0];
		bad = read_net(&r, &c->net);
	}
	if (!bad && all.n < 2)
		bad = err_set(e, "%s: no layers", c->path);
	c->l = (struct layer *)xcalloc((size_t)all.n + 1, sizeof *c->l);
	for (int i = 1; !bad && i < all.n; i++)
		bad = add_layer(c, &all.s[i], i - 1, e);
	cfg_unlex(&all);
	if (!bad)
		bad = cfg_resize(c, c->net.w, c->net.h, e);
	if (bad) {
		cfg_close(c);
		return NULL;
	}
	count_notes(c);
	return c;
}

struct cfg *
cfg_read(const char *path, struct err *e)
{
	size_t len;
	char *found = path_stock(path), *text = file_read(found, 1 << 22, &len, e);
	struct cfg *c;

	c = text ? cfg_parse(strcmp(path, "-") ? found : "stdin", text, len, e) : NULL;
	free(found);
	free(text);
	return c;
}

void
cfg_take_lines(struct cfg *c, const struct cfg *from)
{
	for (int i = 0; i < c->nl && i < from->nl; i++) {
		c->l[i].line = from->l[i].line;
		c->l[i].key_line = from->l[i].key_line;
	}
}

void
cfg_close(struct cfg *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->nl; i++)
		if (c->l[i].type == L_YOLO || c->l[i].type == L_REGION) {
			free(c->l[i].u.yolo.mask);
			free(c->l[i].u.yolo.anchor);
			free(c->l[i].u.yolo.counter);
		}
	for (int i = 0; i < c->nnote; i++)
		free(c->note[i]);
	free(c->note);
	free(c->note_more);
	free(c->net.step);
	free(c->net.scale);
	free(c->l);
	free(c->path);
	free(c->text);
	free(c);
}
