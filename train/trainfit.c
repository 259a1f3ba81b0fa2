/* trainfit.c -- can this run learn anything: boxes to train on, anchors that fit them, a rate that
 * is more than nothing.
 *
 * Each of these used to end with status 0 and weights that find nothing.  What is certain is an
 * error before the first step; what may be meant is a warning. */
#include <stdlib.h>
#include <string.h>

#include "train/train.h"

struct fitness {
	struct loss loss;
	long boxes, left_out;	/* trained on; crowds and difficult ones */
	long crowds;
	int fit, near;		/* an anchor is trained with some box; at half or twice the size */
};

/* ---- data --------------------------------------------------------------------------------- */

/* Is any anchor of any head trained with a box of this size? */
static int
fits(const struct fitness *f, const struct box *b, const struct fit *at, double zoom)
{
	struct truth t = { 0, 0, .5f, .5f, (float)(b->w * at->sx * zoom / f->loss.in_w),
		(float)(b->h * at->sy * zoom / f->loss.in_h) };

	for (int h = 0; h < f->loss.nhead; h++)
		if (assign_head(&f->loss, h, &t, 1, NULL) > 0)
			return 1;
	return 0;
}

/* Augmentation has boxes of other sizes too: those that only fit at half or twice the size count
 * as near. */
static void
count_record(struct fitness *f, const struct record *r)
{
	struct fit at = fit_letterbox(r->w, r->h, f->loss.in_w, f->loss.in_h);

	for (int i = 0; i < r->nbox; i++) {
		const struct box *b = &r->box[i];

		if (b->flags & (BOX_CROWD | BOX_DIFFICULT)) {
			f->left_out++;
			f->crowds += (b->flags & BOX_CROWD) != 0;
			continue;
		}
		f->boxes++;
		if (f->fit)
			continue;
		f->fit = fits(f, b, &at, 1);
		f->near = f->near || fits(f, b, &at, .5) || fits(f, b, &at, 2);
	}
}

/* Only the losses that leave out what no anchor is like can be left with nothing. */
static int
check_anchors(const struct train_cmd *c, const struct fitness *f, struct err *e)
{
	const char *why = "no anchor is near the size of any of the boxes";
	char *data;

	if (f->fit)
		return 0;
	data = xasprintf("%s/train.shard", c->dir);
	if (f->near)
		warn("%s: %s at %dx%d: only augmentation may make some fit; tools/yolo-anchors -c "
		    "%s %s prints anchors that do", c->cfg->path, why, f->loss.in_w, f->loss.in_h,
		    c->cfg->path, data);
	else
		err_set(e, "%s: %s at %dx%d, so none is trained on: tools/yolo-anchors -c %s %s "
		    "prints anchors that fit", c->cfg->path, why, f->loss.in_w, f->loss.in_h,
		    c->cfg->path, data);
	free(data);
	return f->near ? 0 : -1;
}

static int
check_boxes(const struct train_cmd *c, const struct fitness *f, struct err *e)
{
	if (!f->boxes && f->left_out)
		return err_set(e, "%s/train.shard: all %ld boxes are %s, which are not trained on: "
		    "nothing to learn; a box that is to be found wants %s 0", c->dir, f->left_out,
		    f->crowds == f->left_out ? "crowds" : f->crowds ? "crowds or difficult" :
		    "difficult", f->crowds == f->left_out ? "iscrowd" : f->crowds ?
		    "iscrowd and difficult" : "difficult");
	if (!f->boxes)
		return err_set(e, "%s/train.shard: no boxes in its %ld pictures: nothing to learn; "
		    "yolo-prep says where labels are looked for", c->dir, shard_count(c->train));
	if (f->left_out > f->boxes)
		warn("%s/train.shard: %ld boxes are trained on; %ld are crowds or difficult and "
		    "are not", c->dir, f->boxes, f->left_out);
	return 0;
}

/* What a picture that was trained on scores says nothing of new ones. */
static void
tell_overlap(const struct train_cmd *c)
{
	long n = c->val ? shard_overlap(c->train, c->val) : 0;

	if (n && n == shard_count(c->val))
		warn("%s/val.shard: all %ld pictures are trained on too: its figures say nothing "
		    "of other pictures", c->dir, n);
	else if (n)
		warn("%s/val.shard: %ld of its %ld pictures are trained on too: its figures are "
		    "too good", c->dir, n, shard_count(c->val));
}

/* ---- schedule ----------------------------------------------------------------------------- */

static double
last_rate(const struct train_cmd *c)
{
	struct warm w;

	recipe_rates(&c->recipe, c->seed, c->recipe.steps - 1, &w);
	return w.lr;
}

/* A run that -O steps ends early may go on with -R: the schedule's length counts. */
static void
tell_schedule(const struct train_cmd *c)
{
	const struct recipe *r = &c->recipe;
	const struct cfg_net *n = &r->net;
	int beyond = n->policy == LR_STEPS && !r->ndrop && n->nstep > 0;

	if (r->policy != RUN_CFG)
		return;
	if (n->burn_in > r->steps)
		warn("%s%s=%d is longer than the run (%ld steps): the rate ends at %g, not %g",
		    settings_given(&c->set, "warmup") ? "-O " : "",
		    settings_given(&c->set, "warmup") ? "warmup" : "burn_in", n->burn_in, r->steps,
		    last_rate(c), n->lr);
	for (int i = 0; i < n->nstep; i++)
		beyond &= n->step[i] > r->steps;
	if (beyond)
		warn("no step of steps= is reached: the first is %d, the run is of %ld steps; -O "
		    "drops=0.8,0.9 puts them at shares of the run", n->step[0], r->steps);
}

int
train_fit(struct train_cmd *c, struct err *e)
{
	struct fitness f = { .loss = c->recipe.train.loss };
	struct record r;

	if (trainer_heads(&f.loss, c->cfg, e))
		return -1;
	f.loss.n = 1;
	for (long i = 0; i < shard_count(c->train); i++) {
		if (shard_labels(c->train, i, &r, e))
			return -1;
		count_record(&f, &r);
	}
	if (check_boxes(c, &f, e) || check_anchors(c, &f, e))
		return -1;
	tell_overlap(c);
	tell_schedule(c);
	return 0;
}
