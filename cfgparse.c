/* cfgparse.c -- the sections of a darknet cfg: what each key means, its default, its range.
 *
 * Defaults are AlexeyAB's darknet's (reference: its parser).  A key that has no effect here is
 * named in a note; a key that nobody knows is an error with the nearest name that is known. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static const struct { const char *name; enum layer_type type; } types[] = {
	{ "convolutional", L_CONV }, { "maxpool", L_MAXPOOL }, { "upsample", L_UPSAMPLE },
	{ "route", L_ROUTE }, { "shortcut", L_SHORTCUT }, { "yolo", L_YOLO }, { "region", L_REGION },
	{ "reorg", L_REORG }, { "reorg3d", L_REORG3D }, { "avgpool", L_AVGPOOL },
	{ "dropout", L_DROPOUT }, { "scale_channels", L_SCALE }, { "sam", L_SAM }, { "empty", L_NONE },
	{ "conv", L_CONV }, { "max", L_MAXPOOL }, { "avg", L_AVGPOOL }, { "silence", L_NONE },
};
static const char *const acts[] = { [ACT_LINEAR] = "linear", [ACT_LEAKY] = "leaky",
	[ACT_LOGISTIC] = "logistic", [ACT_RELU] = "relu", [ACT_MISH] = "mish", [ACT_SWISH] = "swish",
	NULL };
static const char *const ious[] = { [IOU_MSE] = "mse", [IOU_IOU] = "iou", [IOU_GIOU] = "giou",
	[IOU_DIOU] = "diou", [IOU_CIOU] = "ciou", NULL };
static const char *const nmses[] = { "default", "greedynms", "diounms", NULL };
static const char *const policies[] = { [LR_CONSTANT] = "constant", [LR_STEP] = "step",
	[LR_STEPS] = "steps", [LR_EXP] = "exp", [LR_POLY] = "poly", [LR_RANDOM] = "random",
	[LR_SIGMOID] = "sigmoid", [LR_SGDR] = "sgdr", [LR_COSINE] = "cosine", NULL };

/* Known keys without effect here, by section ("*": any layer).  Some only matter to other tools. */
static const struct { const char *section, *key; } idle[] = {
	{ "net", "time_steps" }, { "net", "track" }, { "net", "augment_speed" },
	{ "net", "sequential_subdivisions" }, { "net", "seq_scales" }, { "net", "inputs" },
	{ "net", "angle" }, { "net", "aspect" }, { "net", "max_crop" }, { "net", "min_crop" },
	{ "net", "center" }, { "net", "max_ratio" }, { "net", "min_ratio" }, { "net", "random" },
	{ "net", "notruth" }, { "net", "clip" }, { "net", "blur" }, { "net", "gaussian_noise" },
	{ "net", "mixup" }, { "net", "cutmix" }, { "net", "mosaic" }, { "net", "mosaic_bound" },
	{ "net", "letter_box" }, { "net", "resize_step" }, { "net", "label_smooth_eps" },
	{ "net", "try_fix_nan" }, { "net", "loss_scale" }, { "net", "dynamic_minibatch" },
	{ "net", "optimized_memory" }, { "net", "workspace_size_limit_MB" },
	{ "net", "use_cuda_graph" }, { "net", "ema_alpha" }, { "net", "badlabels_rejection_percentage" },
	{ "net", "num_sigmas_reject_badlabels" }, { "net", "equidistant_point" },
	{ "net", "weights_reject_freq" }, { "net", "adversarial_lr" }, { "net", "attention" },
	{ "net", "contrastive" }, { "net", "unsupervised" }, { "net", "max_chart_loss" },
	{ "net", "show_receptive_field" }, { "net", "max_epochs" }, { "net", "seen" },
	{ "*", "onlyforward" }, { "*", "burnin_update" }, { "*", "clip" }, { "*", "truth" },
	{ "*", "dontsave" }, { "*", "numload" }, { "*", "smooth" },
	{ "convolutional", "flipped" }, { "convolutional", "dot" }, { "convolutional", "stream" },
	{ "convolutional", "wait_stream" }, { "convolutional", "grad_centr" },
	{ "route", "stream" }, { "route", "wait_stream" }, { "dropout", "dropblock" },
	{ "dropout", "dropblock_size_rel" }, { "dropout", "dropblock_size_abs" },
	{ "shortcut", "alpha" }, { "shortcut", "beta" }, { "reorg", "flatten" }, { "reorg", "extra" },
	{ "yolo", "map" }, { "yolo", "track_history_size" }, { "yolo", "sim_thresh" },
	{ "yolo", "dets_for_track" }, { "yolo", "dets_for_show" }, { "yolo", "track_ciou_norm" },
	{ "yolo", "embedding_layer" }, { "yolo", "beta1" }, { "yolo", "objectness_smooth_old" },
	{ "region", "map" }, { "region", "tree" }, { "region", "log" }, { "region", "sqrt" },
	{ "region", "classfix" }, { "region", "mask_scale" }, { "region", "coords" },
	{ "region", "focal_loss" }, { "region", "resize" },
};
/* Keys whose other values would change results: only these are right here. */
static const struct { const char *section, *key, *value; } must[] = {
	{ "convolutional", "binary", "0" }, { "convolutional", "xnor", "0" },
	{ "convolutional", "bin_output", "0" }, { "convolutional", "antialiasing", "0" },
	{ "convolutional", "assisted_excitation", "0" }, { "convolutional", "sway", "0" },
	{ "convolutional", "rotate", "0" }, { "convolutional", "stretch", "0" },
	{ "convolutional", "stretch_sway", "0" }, { "convolutional", "reverse", "0" },
	{ "convolutional", "coordconv", "0" }, { "convolutional", "cbn", "0" },
	{ "maxpool", "maxpool_depth", "0" }, { "maxpool", "antialiasing", "0" },
	{ "maxpool", "out_channels", "1" }, { "maxpool", "maxpool_zero_nonmax", "0" },
	{ "shortcut", "weights_type", "none" }, { "shortcut", "weights_normalization", "none" },
};

const char *
layer_name(enum layer_type t)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].type == t)
			return types[i].name;
	return "?";
}

const char *
act_name(enum act a)
{
	return acts[a];
}

/* ---- what was not used -------------------------------------------------------------------- */

static int
is_idle(const char *section, const char *key)
{
	int layer = strcmp(section, "net");

	for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
		if (!strcmp(idle[i].key, key) && (!strcmp(idle[i].section, section) ||
		    (layer && *idle[i].section == '*')))
			return 1;
	return 0;
}

/* Letters that differ, cheaply: enough to guess what a slip of the pen meant. */
static int
distance(const char *a, const char *b)
{
	int n = (int)strlen(a), m = (int)strlen(b), row[64];

	if (n > 60 || m > 60)
		return 99;
	for (int j = 0; j <= m; j++)
		row[j] = j;
	for (int i = 1; i <= n; i++) {
		int diag = row[0];

		row[0] = i;
		for (int j = 1; j <= m; j++) {
			int up = row[j], best = diag + (a[i - 1] != b[j - 1]);

			if (up + 1 < best)
				best = up + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diag = up;
			row[j] = best;
		}
	}
	return row[m];
}

static const char *
nearest(const char *section, const char *key)
{
	static const char *const used = "batch subdivisions width height channels max_batches "
	    "learning_rate learning_rate_min momentum decay policy burn_in power step scale steps scales "
	    "gamma sgdr_cycle sgdr_mult adam B1 B2 eps saturation exposure hue flip filters size stride "
	    "stride_x stride_y pad padding groups dilation batch_normalize activation layers group_id from "
	    "scale_wh probability classes num mask anchors max jitter resize ignore_thresh truth_thresh "
	    "scale_x_y iou_normalizer obj_normalizer cls_normalizer delta_normalizer iou_loss iou_thresh "
	    "iou_thresh_kind nms_kind beta_nms max_delta label_smooth_eps new_coords objectness_smooth "
	    "focal_loss show_details counters_per_class random stopbackward dont_update dontload";
	static char best[64];
	char *copy = xstrdup(used), *save = NULL;
	int least = (int)strlen(key) / 2 + 1;

	best[0] = 0;
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		if (distance(key, w) < least) {
			least = distance(key, w);
			snprintf(best, sizeof best, "%s", w);
		}
	for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
		if (!strcmp(idle[i].section, section) && distance(key, idle[i].key) < least) {
			least = distance(key, idle[i].key);
			snprintf(best, sizeof best, "%s", idle[i].key);
		}
	free(copy);
	return best[0] ? best : NULL;
}

static int
leftover(struct cfg_reader *r, const char *section, struct cfg_key *k)
{
	const char *guess;

	for (size_t i = 0; i < sizeof must / sizeof *must; i++)
		if (!strcmp(must[i].section, section) && !strcmp(must[i].key, k->name)) {
			if (!strcmp(must[i].value, k->value))
				return 0;
			return err_set(r->e, "%s:%d: %s=%.60s is not supported; only %s=%s", r->c->path, k->line,
			    k->name, k->value, k->name, must[i].value);
		}
	if (is_idle(section, k->name)) {
		cfg_note(r->c, k->line, "no effect here: ", k->name);
		return 0;
	}
	guess = nearest(section, k->name);
	return err_set(r->e, "%s:%d: unknown key '%.60s' in [%s]%s%s%s", r->c->path, k->line, k->name,
	    section, guess ? "; perhaps " : "", guess ? guess : "", guess ? "?" : "");
}

static int
finish(struct cfg_reader *r, const char *section)
{
	if (r->bad)
		return -1;
	for (int i = 0; i < r->s->n; i++)
		if (!r->s->key[i].used && leftover(r, section, &r->s->key[i]))
			return -1;
	return 0;
}

/* ---- sections ----------------------------------------------------------------------------- */

static int
read_steps(struct cfg_reader *r, struct cfg_net *n)
{
	double *step, *scale;
	int ns = cfg_list(r, "steps", &step, 1000, 1), nc = cfg_list(r, "scales", &scale, 1000, 0);

	if (ns != nc && !r->bad && n->policy == LR_STEPS) {
		r->bad = 1;
		err_set(r->e, "%s:%d: %d steps but %d scales: want one scale for each step", r->c->path,
		    r->s->line, ns, nc);
	}
	n->nstep = ns < nc ? ns : nc;
	n->step = (int *)xcalloc((size_t)n->nstep + 1, sizeof *n->step);
	n->scale = (float *)xcalloc((size_t)n->nstep + 1, sizeof *n->scale);
	for (int i = 0; i < n->nstep; i++) {
		n->step[i] = (int)step[i];
		n->scale[i] = (float)scale[i];
	}
	free(step);
	free(scale);
	return 0;
}

static int
read_net(struct cfg_reader *r, struct cfg_net *n)
{
	n->line = r->s->line;
	n->batch = (int)cfg_int(r, "batch", 1, 1, 1 << 20);
	n->subdivisions = (int)cfg_int(r, "subdivisions", 1, 1, 1 << 20);
	n->w = (int)cfg_int(r, "width", 0, 1, 65536);
	n->h = (int)cfg_int(r, "height", 0, 1, 65536);
	n->c = (int)cfg_int(r, "channels", 0, 1, 1024);
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
	n->saturation = cfg_num(r, "saturation", 1, 0, 1000);
	n->exposure = cfg_num(r, "exposure", 1, 0, 1000);
	n->hue = cfg_num(r, "hue", 0, 0, 1);
	n->flip = (int)cfg_int(r, "flip", 1, 0, 1);
	n->resize_step = 32;
	read_steps(r, n);
	if (!r->bad && (!n->w || !n->h || !n->c)) {
		r->bad = 1;
		err_set(r->e, "%s:%d: [net] wants width, height and channels", r->c->path, n->line);
	}
	return finish(r, "net");
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

static void
read_pool(struct cfg_reader *r, struct def_pool *d)
{
	int stride = (int)cfg_int(r, "stride", 1, 1, 1024);

	d->stride_x = (int)cfg_int(r, "stride_x", stride, 1, 1024);
	d->stride_y = (int)cfg_int(r, "stride_y", stride, 1, 1024);
	d->size = (int)cfg_int(r, "size", stride, 1, 15);
	d->padding = (int)cfg_int(r, "padding", d->size - 1, 0, 64);
}

/* Layer indices: from 0, or back from layer i. */
static void
read_sources(struct cfg_reader *r, const char *key, int i, struct def_join *d)
{
	double *v;
	const struct cfg_key *k = cfg_get(r, key);

	d->n = cfg_list(r, key, &v, LAYER_SRC, 1);
	for (int j = 0; j < d->n; j++) {
		d->src[j] = (int)(v[j] < 0 ? i + v[j] : v[j]);
		if (!r->bad && (d->src[j] < 0 || d->src[j] >= i)) {
			r->bad = 1;
			err_set(r->e, "%s:%d: %s=%s: layer %d does not exist here; this is layer %d", r->c->path,
			    k->line, key, k->value, d->src[j], i);
		}
	}
	if (!d->n && !r->bad) {
		r->bad = 1;
		err_set(r->e, "%s:%d: %s= is missing", r->c->path, r->s->line, key);
	}
	free(v);
}

static void
read_masks(struct cfg_reader *r, struct def_yolo *d)
{
	double *v;
	int n = cfg_list(r, "mask", &v, 32, 1);

	d->nmask = n ? n : d->num;
	if (d->nmask > 32) {
		d->nmask = 32;
		if (!r->bad)
			err_set(r->e, "%s:%d: more than 32 anchors in a head", r->c->path, r->s->line);
		r->bad = 1;
	}
	d->mask = (int *)xcalloc((size_t)d->nmask + 1, sizeof *d->mask);
	for (int i = 0; i < d->nmask; i++) {
		d->mask[i] = n ? (int)v[i] : i;
		if (!r->bad && (d->mask[i] < 0 || d->mask[i] >= d->num)) {
			r->bad = 1;
			err_set(r->e, "%s:%d: mask %d: there are anchors 0 to %d", r->c->path, r->s->line,
			    d->mask[i], d->num - 1);
		}
	}
	free(v);
	n = cfg_list(r, "anchors", &v, 2048, 0);
	d->anchor = (float *)xcalloc(2 * (size_t)d->num + 1, sizeof *d->anchor);
	for (int i = 0; i < 2 * d->num; i++)
		d->anchor[i] = i < n ? (float)v[i] : .5f;
	if (!r->bad && n && n < 2 * d->num) {
		r->bad = 1;
		err_set(r->e, "%s:%d: %d numbers in anchors: num=%d wants %d", r->c->path, r->s->line, n,
		    d->num, 2 * d->num);
	} else if (n > 2 * d->num)
		cfg_note(r->c, r->s->line, "more anchors than num, the rest is not used", "");
	for (int i = 0; i < 2 * d->num && !r->bad; i++)
		if (!(d->anchor[i] > 0)) {
			r->bad = 1;
			err_set(r->e, "%s:%d: anchors: sizes are above 0", r->c->path, r->s->line);
		}
	free(v);
}

static void
read_yolo(struct cfg_reader *r, struct def_yolo *d)
{
	double *v;
	int n;

	d->given = (cfg_get(r, "iou_loss") ? YOLO_IOU_LOSS : 0) |
	    (cfg_get(r, "ignore_thresh") || cfg_get(r, "truth_thresh") ? YOLO_IGNORE : 0);
	d->classes = (int)cfg_int(r, "classes", 20, 1, 1 << 20);
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
	n = cfg_list(r, "counters_per_class", &v, 1 << 16, 1);
	d->counters = n > 0;
	if (n && n != d->classes && !r->bad) {
		r->bad = 1;
		err_set(r->e, "%s:%d: counters_per_class has %d numbers for %d classes", r->c->path, r->s->line,
		    n, d->classes);
	}
	d->counter = (int *)xcalloc((size_t)n + 1, sizeof *d->counter);
	for (int i = 0; i < n; i++)
		d->counter[i] = (int)v[i];
	free(v);
}

static void
read_region(struct cfg_reader *r, struct def_yolo *d)
{
	d->scale_x_y = 1;
	d->classes = (int)cfg_int(r, "classes", 20, 1, 1 << 20);
	d->num = (int)cfg_int(r, "num", 1, 1, 1024);
	read_masks(r, d);
	d->max = (int)cfg_int(r, "max", 30, 0, 1 << 20);
	d->jitter = (float)cfg_num(r, "jitter", .2, 0, 1);
	d->random = (float)cfg_num(r, "random", 0, 0, 100);
	d->softmax = (int)cfg_int(r, "softmax", 0, 0, 1);
	d->bias_match = (int)cfg_int(r, "bias_match", 0, 0, 1);
	d->rescore = (int)cfg_int(r, "rescore", 0, 0, 1);
	d->absolute = (int)cfg_int(r, "absolute", 0, 0, 1);
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
	size_t k = 0;

	while (k < sizeof types / sizeof *types && strcmp(types[k].name, s->name))
		k++;
	if (k == sizeof types / sizeof *types)
		return err_set(e, "%s:%d: [%.60s]: a section that detectors here do not have", c->path, s->line,
		    s->name);
	l->type = types[k].type;
	l->line = s->line;
	c->nl = i + 1;			/* what cfg_close has to look at */
	read_layer(&r, l, i);
	return finish(&r, layer_name(l->type));
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
	return c;
}

struct cfg *
cfg_read(const char *path, struct err *e)
{
	size_t len;
	char *text = file_read(path, 1 << 24, &len, e);
	struct cfg *c;

	if (!text)
		return NULL;
	c = cfg_parse(strcmp(path, "-") ? path : "stdin", text, len, e);
	free(text);
	return c;
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
	free(c->net.step);
	free(c->net.scale);
	free(c->l);
	free(c->path);
	free(c->text);
	free(c);
}
