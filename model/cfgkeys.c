/* cfgkeys.c -- what a cfg may hold by name: sections and their keys.
 *
 * A key is read by cfgparse.c, or known and without effect here ("idle": a note, unless it has the
 * value that means nothing), or known and only right with one value, because another would change
 * results in a way that is not built.  A name in none of these lists is an error: darknet goes on
 * with a default, and the user finds out after a day of training. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "model/int.h"

static const struct { const char *name; enum layer_type type; } types[] = {
	{ "convolutional", L_CONV }, { "maxpool", L_MAXPOOL }, { "upsample", L_UPSAMPLE },
	{ "route", L_ROUTE }, { "shortcut", L_SHORTCUT }, { "yolo", L_YOLO },
	{ "region", L_REGION }, { "reorg", L_REORG }, { "reorg3d", L_REORG3D },
	{ "avgpool", L_AVGPOOL }, { "dropout", L_DROPOUT }, { "scale_channels", L_SCALE },
	{ "sam", L_SAM }, { "empty", L_NONE }, { "conv", L_CONV }, { "max", L_MAXPOOL },
	{ "avg", L_AVGPOOL }, { "silence", L_NONE },
};
/* Sections of darknet's that are not built here, by what they are for. */
static const struct { const char *names, *of; } others[] = {
	{ "softmax soft cost crop connected conn normalization lrn local local_avgpool local_avg "
	  "batchnorm activation logistic l2norm",
	    "classifiers and YOLOv1" },
	{ "detection", "YOLOv1" },
	{ "rnn gru lstm crnn conv_lstm history", "recurrent networks" },
	{ "Gaussian_yolo contrastive implicit deconvolutional deconv iseg",
	    "models not built here" },
};

static const struct { const char *section, *used, *idle, *only; } known[] = {
	{ "net",
	    "batch subdivisions width height channels max_batches learning_rate learning_rate_min "
	    "momentum decay policy burn_in power step scale steps scales gamma sgdr_cycle "
	    "sgdr_mult adam "
	    "B1 B2 eps saturation exposure hue flip resize_step mosaic",
	    "time_steps=1 track=0 augment_speed sequential_subdivisions seq_scales inputs angle=0 "
	    "aspect=1 "
	    "max_crop min_crop center=0 max_ratio min_ratio random=0 notruth=0 clip=0 blur=0 "
	    "gaussian_noise=0 mixup=0 cutmix=0 mosaic_bound=0 letter_box=1 "
	    "label_smooth_eps=0 "
	    "try_fix_nan=0 loss_scale=1 dynamic_minibatch=0 optimized_memory=0 "
	    "workspace_size_limit_MB use_cuda_graph=0 ema_alpha=0 badlabels_rejection_percentage=0 "
	    "num_sigmas_reject_badlabels=0 "
	    "equidistant_point=0 weights_reject_freq=0 adversarial_lr=0 attention=0 contrastive=0 "
	    "contrastive_jit_flip=0 contrastive_color=0 unsupervised=0 max_chart_loss "
	    "show_receptive_field "
	    "max_epochs seen=0",
	    "" },
	{ "*", "stopbackward dont_update burnin_update dontload dontloadscales train_only_bn "
	    "learning_rate",
	    "onlyforward=0 clip=0 truth=0 dontsave=0 numload=0 smooth=0", "" },
	{ "convolutional",
	    "filters size stride stride_x stride_y pad padding groups dilation "
	    "batch_normalize activation",
	    "stream wait_stream grad_centr=0 angle dot=0",
	    "binary=0 xnor=0 bin_output=0 antialiasing=0 assisted_excitation=0 sway=0 rotate=0 "
	    "stretch=0 "
	    "stretch_sway=0 reverse=0 coordconv=0 cbn=0 flipped=0 share_index=-1" },
	{ "maxpool", "size stride stride_x stride_y padding", "",
	    "maxpool_depth=0 antialiasing=0 out_channels=1 maxpool_zero_nonmax=0" },
	{ "upsample", "stride scale", "", "" },
	{ "route", "layers groups group_id", "stream wait_stream", "" },
	{ "shortcut", "from activation", "",
	    "weights_type=none weights_normalization=none alpha=1 beta=1" },
	{ "reorg", "stride reverse", "extra", "flatten=0" },
	{ "reorg3d", "stride", "", "" },
	{ "avgpool", "", "", "" },
	{ "empty", "", "", "" },
	{ "dropout", "probability", "dropblock_size_rel dropblock_size_abs", "dropblock=0" },
	{ "scale_channels", "from scale_wh activation", "", "" },
	{ "sam", "from activation", "", "" },
	{ "yolo",
	    "classes num mask anchors max jitter ignore_thresh truth_thresh random "
	    "scale_x_y iou_normalizer obj_normalizer cls_normalizer delta_normalizer max_delta "
	    "iou_thresh "
	    "label_smooth_eps beta_nms new_coords objectness_smooth focal_loss show_details "
	    "iou_loss "
	    "iou_thresh_kind nms_kind counters_per_class",
	    "resize=1 track_history_size sim_thresh dets_for_track dets_for_show track_ciou_norm "
	    "embedding_layer "
	    "beta1 uc_normalizer map=none",
	    "" },
	{ "region",
	    "classes num anchors max jitter random softmax bias_match rescore background "
	    "thresh coord_scale object_scale noobject_scale class_scale",
	    "log=0 sqrt=0 mask_scale=1 resize=1 absolute",
	    "coords=4 tree=none map=none classfix=0 focal_loss=0" },
};
enum { NTYPES = sizeof types / sizeof *types, NKNOWN = sizeof known / sizeof *known };

const char *
layer_name(enum layer_type t)
{
	for (int i = 0; i < NTYPES; i++)
		if (types[i].type == t)
			return types[i].name;
	return "?";
}

/* The next word of a list, cut into name and value ("" where it has none); NULL at the end. */
static const char *
next_word(const char *p, char name[64], char value[64])
{
	size_t n, v;

	p += strspn(p, " ");
	if (!*p)
		return NULL;
	n = strcspn(p, " =");
	v = p[n] == '=' ? strcspn(p + n + 1, " ") : 0;
	snprintf(name, 64, "%.*s", (int)n, p);
	snprintf(value, 64, "%.*s", (int)v, p + n + 1);
	return p + n + (p[n] == '=') + v;
}

static int
in_list(const char *list, const char *key, char value[64])
{
	char name[64];

	while ((list = next_word(list, name, value)))
		if (!strcmp(name, key))
			return 1;
	return 0;
}

static int
same_value(const char *a, const char *b)
{
	double x, y;

	return !strcmp(a, b) ||
	       (!num_real(a, -1e300, 1e300, &x) && !num_real(b, -1e300, 1e300, &y) && x == y);
}

/* Which of the lists has the key: 'u'sed, 'i'dle, 'o'nly with *value, 0 none. */
static int
look_up(const char *section, const char *key, char value[64])
{
	for (int i = 0; i < NKNOWN; i++) {
		if (strcmp(known[i].section, section) &&
		    (strcmp(known[i].section, "*") || !strcmp(section, "net")))
			continue;
		if (in_list(known[i].used, key, value))
			return 'u';
		if (in_list(known[i].idle, key, value))
			return 'i';
		if (in_list(known[i].only, key, value))
			return 'o';
	}
	return 0;
}

int
cfg_knows(const char *section, const char *key)
{
	char value[64];

	for (int i = 0; i < NKNOWN; i++)
		if (!strcmp(known[i].section, section))
			return look_up(section, key, value) != 0;
	return 0;
}

/* ---- slips of the pen --------------------------------------------------------------------- */

/* Letters to change, insert or drop; capitals count as their small ones and a half. */
static int
distance(const char *a, const char *b)
{
	int n = (int)strlen(a), m = (int)strlen(b), row[64];

	if (n > 60 || m > 60)
		return 1000;
	for (int j = 0; j <= m; j++)
		row[j] = 2 * j;
	for (int i = 1; i <= n; i++) {
		int diag = row[0];

		row[0] = 2 * i;
		for (int j = 1; j <= m; j++) {
			int up = row[j], same = !strncasecmp(&a[i - 1], &b[j - 1], 1);
			int best = diag + (a[i - 1] == b[j - 1] ? 0 : same ? 1 : 2);

			if (up + 2 < best)
				best = up + 2;
			if (row[j - 1] + 2 < best)
				best = row[j - 1] + 2;
			diag = up;
			row[j] = best;
		}
	}
	return row[m];
}

static void
nearest_in(const char *list, const char *key, int *least, char best[64])
{
	char name[64], value[64];

	while ((list = next_word(list, name, value)))
		if (distance(key, name) < *least) {
			*least = distance(key, name);
			snprintf(best, 64, "%s", name);
		}
}

/* What to say about a key that the section does not have: where it belongs, or the nearest. */
static void
advice(const char *section, const char *key, char *out, size_t len)
{
	int least = (int)strlen(key) + 1;
	char best[64] = "", value[64];

	for (int i = 0; i < NKNOWN; i++)
		if (*known[i].section != '*' && look_up(known[i].section, key, value) == 'u') {
			snprintf(out, len, "; it belongs in [%s]", known[i].section);
			return;
		}
	for (int i = 0; i < NKNOWN; i++) {
		if (strcmp(known[i].section, section) &&
		    (strcmp(known[i].section, "*") || !strcmp(section, "net")))
			continue;
		nearest_in(known[i].used, key, &least, best);
		nearest_in(known[i].idle, key, &least, best);
		nearest_in(known[i].only, key, &least, best);
	}
	snprintf(out, len, "%s%s%s", *best ? "; do you mean " : "", best, *best ? "?" : "");
}

int
cfg_section_type(const struct cfg *c, const struct cfg_section *s, enum layer_type *type,
    struct err *e)
{
	int least = (int)strlen(s->name) + 1;
	char best[64] = "", value[64];

	for (int i = 0; i < NTYPES; i++)
		if (!strcmp(types[i].name, s->name)) {
			*type = types[i].type;
			return 0;
		}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (in_list(others[i].names, s->name, value))
			return err_set(e,
			    "%s:%d: [%s] belongs to %s; here are detectors that end in [yolo] or "
			    "[region]",
			    c->path, s->line, s->name, others[i].of);
	if (!strcmp(s->name, "net") || !strcmp(s->name, "network"))
		return err_set(e, "%s:%d: a second [net]", c->path, s->line);
	for (int i = 0; i < NTYPES; i++)
		nearest_in(types[i].name, s->name, &least, best);
	return err_set(e, "%s:%d: unknown section [%.60s]%s%s%s", c->path, s->line, s->name,
	    *best ? "; do you mean [" : "", best, *best ? "]?" : "");
}

static int
left_key(struct cfg_reader *r, const char *section, const struct cfg_key *k)
{
	char value[64], hint[120];

	switch (look_up(section, k->name, value)) {
	case 'u':
		return 0;
	case 'o':
		return same_value(k->value, value)
			   ? 0
			   : err_set(r->e,
				 "%s:%d: %s=%.60s is not built here; "
				 "only %s=%s",
				 r->c->path, k->line, k->name, k->value, k->name, value);
	case 'i':
		if (!same_value(k->value, value))
			cfg_note(r->c, k->line, "no effect here: ", k->name);
		return 0;
	default:
		advice(section, k->name, hint, sizeof hint);
		return err_set(r->e, "%s:%d: unknown key '%.60s' in [%s]%s", r->c->path, k->line,
		    k->name, section, hint);
	}
}

int
cfg_leftover(struct cfg_reader *r, const char *section)
{
	if (r->bad)
		return -1;
	for (int i = 0; i < r->s->n; i++) {
		const struct cfg_key *k = &r->s->key[i];

		if (left_key(r, section, k))
			return -1;
		if (k->twice)
			cfg_note(r->c, k->line, "given twice, the first counts: ", k->name);
	}
	return 0;
}
