/* trainfit.c -- can this run learn anything: boxes to train on and to validate with, anchors that
 * fit them, a rate that is more than nothing.
 *
 * Each of these used to end with status 0 and weights that find nothing.  What is certain is an
 * error before the first step; what may be meant is a warning.  The figures behind both are one
 * screen, which stands before the first step, or alone with -O check=1. */
#include <stdlib.h>
#include <string.h>

#include "train/int.h"

enum { NAMES = 4, SHARE = 20 };	/* classes named; one box in so many is worth other anchors */

struct fitness {
	struct loss loss;
	long boxes, left_out;	/* trained on; crowds and difficult ones */
	long crowds;
	long alone;		/* boxes that no anchor is trained with */
	int near;		/* some would be, at half or twice the size */
	long *of;		/* boxes of each class */
	long truths, same;	/* validation: boxes that count; pictures that are trained on */
	struct val_result none;	/* what a detector that finds nothing scores */
};

/* ---- data --------------------------------------------------------------------------------- */

/* What the user calls the pictures: the shard given, or where they lie in the run's folder. */
static char *
called(const struct train_cmd *c, int val)
{
	const char *given = val ? c->arg['v'] : c->nin == 1 ? c->in[0] : NULL;

	if (c->scratch && given)
		return xstrdup(given);
	return xasprintf("%s/%s.shard", c->scratch && c->arg['o'] ? c->arg['o'] :
	    c->scratch ? "run" : c->dir, val ? "val" : "train");
}

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
		f->of[b->cls]++;
		if (fits(f, b, &at, 1))
			continue;
		f->alone++;
		f->near = f->near || fits(f, b, &at, .5) || fits(f, b, &at, 2);
	}
}

static int
survey(const struct train_cmd *c, struct fitness *f, struct err *e)
{
	struct record r;
	char **name;
	int64_t *id;

	f->of = (long *)xcalloc((size_t)shard_classes(c->train, &name, &id) + 1, sizeof *f->of);
	for (long i = 0; i < shard_count(c->train); i++) {
		if (shard_labels(c->train, i, &r, e))
			return -1;
		count_record(f, &r);
	}
	if (!c->val)
		return 0;
	f->same = shard_overlap(c->train, c->val);
	for (long i = 0; i < shard_count(c->val); i++) {
		if (shard_labels(c->val, i, &r, e))
			return -1;
		for (int k = 0; k < r.nbox; k++)
			f->truths += !(r.box[k].flags & BOX_CROWD);
	}
	return validation_none(c->val, &f->none, e);
}

/* The command that prints anchors for these boxes. */
static char *
anchors_command(const struct train_cmd *c)
{
	char *data = called(c, 0), *pack = c->scratch && c->nin == 1 && !shard_is(c->in[0]) ?
	    xasprintf("yolo-prep -o train.shard %s && ", data) : xstrdup("");
	char *s = xasprintf("%stools/yolo-anchors -c %s %s", pack, c->cfg->path, *pack ?
	    "train.shard" : data);

	free(data);
	free(pack);
	return s;
}

/* Only the losses that leave out what no anchor is like can be left with nothing. */
static int
check_anchors(const struct train_cmd *c, const struct fitness *f, struct err *e)
{
	const char *why = "no anchor is near the size of any of the boxes";
	char *command;

	if (f->alone < f->boxes)
		return 0;
	command = anchors_command(c);
	if (f->near)
		warn("%s: %s at %dx%d: only augmentation may make some fit; %s prints anchors that "
		    "do", c->cfg->path, why, f->loss.in_w, f->loss.in_h, command);
	else
		err_set(e, "%s: %s at %dx%d, so none is trained on: %s prints anchors that fit",
		    c->cfg->path, why, f->loss.in_w, f->loss.in_h, command);
	free(command);
	return f->near ? 0 : -1;
}

static int
check_boxes(const struct train_cmd *c, const struct fitness *f, struct err *e)
{
	char *data = called(c, 0);
	int bad = 0;

	if (!f->boxes && f->left_out)
		bad = err_set(e, "%s: all %ld boxes are %s, which are not trained on: "
		    "nothing to learn; a box that is to be found wants %s 0", data, f->left_out,
		    f->crowds == f->left_out ? "crowds" : f->crowds ? "crowds or difficult" :
		    "difficult", f->crowds == f->left_out ? "iscrowd" : f->crowds ?
		    "iscrowd and difficult" : "difficult");
	else if (!f->boxes)
		bad = err_set(e, "%s: no boxes in its %ld pictures: nothing to learn; "
		    "yolo-prep says where labels are looked for", data, shard_count(c->train));
	else if (f->left_out > f->boxes)
		warn("%s: %ld boxes are trained on; %ld are crowds or difficult and "
		    "are not", data, f->boxes, f->left_out);
	free(data);
	return bad;
}

/* A figure that stays undefined has no best. */
static int
check_truths(const struct train_cmd *c, const struct fitness *f, struct err *e)
{
	int best = c->recipe.best, bad = 0;
	char *data = called(c, 1);

	if (c->val && f->none.col[0] < 0)
		bad = err_set(e, "%s: no box to validate with in its %ld pictures: want pictures "
		    "with labels, or no -v", data, shard_count(c->val));
	else if (c->val && best < 12 && f->none.col[best] < 0)
		bad = err_set(e, "%s: no box that %s is about: -O best names another figure",
		    data, val_name[best]);
	free(data);
	return bad;
}

/* What a picture that was trained on scores says nothing of new ones. */
static void
tell_overlap(const struct train_cmd *c, long n)
{
	char *data = called(c, 1);

	if (n && n == shard_count(c->val))
		warn("%s: all %ld pictures are trained on too: its figures say nothing "
		    "of other pictures", data, n);
	else if (n)
		warn("%s: %ld of its %ld pictures are trained on too: its figures are "
		    "too good", data, n, shard_count(c->val));
	free(data);
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

/* ---- the screen --------------------------------------------------------------------------- */

static void
show_classes(FILE *o, const struct train_cmd *c, const struct fitness *f)
{
	char **name;
	int64_t *id;
	int n = shard_classes(c->train, &name, &id), none = 0, has = 0;

	for (int i = 0; i < n; i++)
		has += f->of[i] > 0;
	fprintf(o, "classes    %d, with boxes %d", n, has);
	for (int i = 0; i < n; i++) {
		if (f->of[i] || none++ >= NAMES)
			continue;
		fputs(none > 1 ? ", " : "; without: ", o);
		if (name[i])
			tsv_name(o, name[i]);
		else
			fprintf(o, "%d", i);
	}
	if (none > NAMES)
		fprintf(o, " and %d more", none - NAMES);
	putc('\n', o);
}

/* Where the rate falls, of those places that the run reaches. */
static void
show_falls(FILE *o, const struct recipe *r)
{
	const struct cfg_net *n = &r->net;
	int falls = n->policy != LR_STEPS ? 0 : r->ndrop ? r->ndrop : n->nstep, met = 0;

	for (int i = 0; i < falls; i++) {
		double at = r->ndrop ? r->drop[i] * (double)r->steps : n->step[i];

		if (at > (double)r->steps)
			continue;
		fprintf(o, "%s %.0f", met++ ? "" : "; falls at", at);
	}
	if (met < falls)
		fprintf(o, "%s %d of %d falls are not reached", met ? "," : ";", falls - met,
		    falls);
}

static void
show_schedule(FILE *o, const struct train_cmd *c)
{
	const struct recipe *r = &c->recipe;
	struct warm first;

	recipe_rates(r, c->seed, r->steps > 1 && r->net.burn_in < r->steps ? r->net.burn_in : 0,
	    &first);
	fprintf(o, "schedule   %ld steps of %d pictures, %.4g epochs\nrate       ", r->steps,
	    r->batch, (double)r->steps * r->batch / (double)r->samples);
	if (r->policy == RUN_CFG && r->net.burn_in > 0)
		fprintf(o, "warm-up of %d steps; ", r->net.burn_in);
	fprintf(o, "%.4g, at the end %.4g", first.lr, last_rate(c));
	if (r->policy == RUN_CFG)
		show_falls(o, r);
	putc('\n', o);
}

/* All but the memory, which the device has to be open for. */
static char *
screen(const struct train_cmd *c, const struct fitness *f)
{
	char *text = NULL, *command;
	size_t n;
	FILE *o = open_memstream(&text, &n);

	if (!o)
		die(1, "out of memory");
	fprintf(o, "pictures   %ld to train on", shard_count(c->train));
	if (c->val)
		fprintf(o, ", %ld to validate with; %ld are in both", shard_count(c->val), f->same);
	fprintf(o, "\nboxes      %ld to train on, %ld crowds and difficult ones left out", f->boxes,
	    f->left_out);
	if (c->val)
		fprintf(o, "; %ld to validate with", f->truths);
	else
		fprintf(o, "; no validation (-v)");
	putc('\n', o);
	show_classes(o, c, f);
	fprintf(o, "anchors    %ld boxes (%.3g %%) that no anchor takes at %dx%d\n", f->alone,
	    f->boxes ? 100. * (double)f->alone / (double)f->boxes : 0, f->loss.in_w, f->loss.in_h);
	if (f->alone > f->boxes / SHARE) {
		command = anchors_command(c);
		fprintf(o, "           others: %s\n", command);
		free(command);
	}
	show_schedule(o, c);
	fclose(o);
	return text;
}

void
train_screen(struct train_cmd *c, const char *memory)
{
	FILE *o = c->scratch || settings_int(&c->set, "check") ? stdout : stderr;

	if ((o == stderr && quiet) || world_rank() || !c->screen)
		return;
	fprintf(o, "%s%s%s%s", c->screen, memory ? "memory     " : "", memory ? memory : "",
	    memory ? "\n" : "");
	fflush(o);
	free(c->screen);
	c->screen = NULL;
}

int
train_fit(struct train_cmd *c, struct err *e)
{
	struct fitness f = { .loss = c->recipe.train.loss };
	int bad;

	if (trainer_heads(&f.loss, c->cfg, e))
		return -1;
	f.loss.n = 1;
	if (!(bad = survey(c, &f, e))) {
		c->screen = screen(c, &f);
		bad = check_boxes(c, &f, e) || check_anchors(c, &f, e) || check_truths(c, &f, e);
	}
	if (bad)
		train_screen(c, NULL);
	else {
		tell_overlap(c, f.same);
		tell_schedule(c);
	}
	free(f.of);
	return bad ? -1 : 0;
}
