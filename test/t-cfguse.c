/* t-cfguse.c -- which keys a training passes over, by loss, augmentation and policy; keys that hold
 * layers still for a while. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "test/tap.h"

static const char text[] =
    "[net]\nwidth=64\nheight=64\nchannels=3\nlearning_rate=.1\nburn_in=5\npower=2\npolicy=steps\n"
    "steps=10,20\nscales=.1,.1\nB1=.8\nhue=.1\nsaturation=1.5\nmosaic=1\ngamma=.5\n"
    "sgdr_cycle=7\n\n"
    "[convolutional]\nfilters=18\nstride=2\n\n"
    "[yolo]\nmask=0,1\nanchors=8,8, 14,14\nclasses=4\nnum=2\nmax=30\nmax_delta=5\njitter=.3\n"
    "ignore_thresh=.6\ntruth_thresh=1\nobjectness_smooth=0\niou_loss=ciou\niou_thresh=.2\n\n"
    "[route]\nlayers=0\n[convolutional]\nfilters=18\n[yolo]\nmask=0,1\nanchors=8,8, 14,14\n"
    "classes=4\nnum=2\nmax=30\nscale_x_y=2\nlabel_smooth_eps=.1\n";

static void
unused(enum loss_kind loss, enum aug_kind aug, enum lr_policy policy, int adam, int burn_in,
    const char *want)
{
	struct cfg_use u = { loss, aug, policy, adam, burn_in };
	struct err e;
	struct cfg *c = cfg_parse("a.cfg", text, strlen(text), &e);
	char *got = c ? cfg_unused(c, &u) : NULL, *what;

	what = xasprintf("%s, augmentation %d, policy %d: %s", loss_name(loss), aug, policy,
	    want ? want : "all are used");
	ok(want ? got && !strcmp(got, want) : c && !got, what);
	if (c && (!want != !got || (want && strcmp(got, want))))
		printf("# said: %s\n", got ? got : "nothing");
	free(what);
	free(got);
	cfg_close(c);
}

/* Layers of one convolution each; what optim_plan makes of their keys at update b. */
static int
moves(const char *keys0, const char *keys1, long b, int layer)
{
	char *cfg = xasprintf("[net]\nwidth=8\nheight=8\nchannels=3\nburn_in=10\n"
	    "[convolutional]\n%s\n[convolutional]\n%s\n[convolutional]\n", keys0, keys1);
	struct err e = { "" };
	struct cfg *c = cfg_parse("a.cfg", cfg, strlen(cfg), &e);
	struct warm w = { .lr = 1, .lr_bias = 1, .decay = 1 };
	struct params p;
	struct optim_plan o;
	struct optim_rates r;
	int yes = -1;

	free(cfg);
	if (!c)
		return -1;
	params_plan(c, &p);
	if (!optim_plan(c, &p, &o, &e)) {
		optim_rates(&o, b, &w, 0, &r);
		yes = r.lr[o.group[params_find(&p, layer, P_WEIGHT)->off / OPTIM_UNIT]] > 0;
		free(o.group);
	}
	params_free(&p);
	cfg_close(c);
	return yes;
}

/* The text of a run: its heads decode as the loss trained them. */
static void
forms(void)
{
	static const struct { enum loss_kind loss; int coords; float k; enum act act; } t[] = {
		{ LOSS_CIOU, 1, 2, ACT_LOGISTIC }, { LOSS_DARKNET_IOU, 1, 2, ACT_LOGISTIC },
		{ LOSS_DARKNET, 0, 1, ACT_LINEAR }, { LOSS_ULTRA2019, 0, 1, ACT_LINEAR },
		{ LOSS_ARCHIVE, 0, 1, ACT_LINEAR },
	};
	static const char csp[] = "[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\n"
	    "filters=18\nactivation=logistic\n[yolo]\nmask=0,1\nanchors=8,8, 14,14\nclasses=4\n"
	    "num=2\nscale_x_y=2\nnew_coords=1\n";
	struct err e;
	struct cfg *c = cfg_parse("a.cfg", csp, strlen(csp), &e), *d;

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *s = recipe_cfg_text(c, t[i].loss, 0, 0);

		d = cfg_parse("run.cfg", s, strlen(s), &e);
		ok(d && d->nnote == 0 && d->l[1].u.yolo.new_coords == t[i].coords &&
		    d->l[1].u.yolo.scale_x_y == t[i].k && d->l[0].u.conv.act == t[i].act,
		    loss_name(t[i].loss));
		cfg_close(d);
		free(s);
	}
	cfg_close(c);
}

int
main(void)
{
	unused(LOSS_DARKNET_IOU, AUG_DARKNET, LR_STEPS, 1, 5,
	    "[net] mosaic gamma sgdr_cycle");
	unused(LOSS_DARKNET_IOU, AUG_MOSAIC, LR_STEPS, 0, 5,
	    "[net] B1 hue saturation gamma sgdr_cycle; [yolo] jitter");
	unused(LOSS_DARKNET, AUG_DARKNET, LR_SGDR, 1, 0, "[net] power steps scales mosaic gamma; "
	    "[yolo] max_delta iou_loss iou_thresh scale_x_y label_smooth_eps");
	unused(LOSS_CIOU, AUG_MOSAIC, LR_EXP, 1, 5, "[net] steps scales hue saturation sgdr_cycle; "
	    "[yolo] max max_delta jitter ignore_thresh iou_loss iou_thresh");
	unused(LOSS_MULTI, AUG_ULTRA2019, LR_STEPS, 1, 5, "[net] hue saturation mosaic gamma "
	    "sgdr_cycle; [yolo] max max_delta jitter ignore_thresh iou_loss iou_thresh scale_x_y "
	    "label_smooth_eps");
	forms();
	ok(moves("", "stopbackward=1", 1, 0) == 0 && moves("", "stopbackward=1", 99999, 0) == 0 &&
	    moves("", "stopbackward=1", 1, 1) == 1 && moves("", "stopbackward=1", 1, 2) == 1,
	    "stopbackward=1: the layers before, for ever");
	ok(moves("", "stopbackward=800", 799, 0) == 0 &&
	    moves("", "stopbackward=800", 799, 1) == 0 &&
	    moves("", "stopbackward=800", 799, 2) == 1,
	    "stopbackward=800: the layers up to it, at first");
	ok(moves("", "stopbackward=800", 800, 0) == 1 && moves("", "stopbackward=800", 800, 1) == 1,
	    "and all from update 800 on");
	ok(moves("dont_update=5", "", 5, 0) == 0 && moves("dont_update=5", "", 6, 0) == 1 &&
	    moves("dont_update=5", "", 5, 1) == 1, "dont_update");
	ok(moves("burnin_update=3", "", 29, 0) == 0 && moves("burnin_update=3", "", 30, 0) == 1 &&
	    moves("burnin_update=3", "", 1, 1) == 1, "burnin_update: so many burn_ins");
	ok(moves("", "train_only_bn=1", 99, 0) == 0 && moves("", "train_only_bn=1", 99, 1) == 0 &&
	    moves("", "train_only_bn=1", 99, 2) == 1, "train_only_bn: it and the layers before");
	return done();
}
