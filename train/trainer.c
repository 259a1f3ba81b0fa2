/* trainer.c -- one step of training: forward, loss, backward, all-reduce, update.
 *
 * A step's batch may be cut into parts (mini-batches) and spread over ranks.  Means of the loss are
 * divided by the counts of the whole batch, which follow from the truth alone and are summed over
 * the ranks first; so the gradients of parts and ranks simply add.  A part is the same images
 * whatever the ranks, so N ranks with synchronised batch-norm compute what one rank computes; a
 * short batch may leave a rank nothing of a part, or a part nothing at all.  ACCUM_MEAN and
 * ACCUM_SUM divide by each part's own counts instead, as other trainers do, for comparison.
 *
 * Every rank sees the same all-reduced loss and gradient, so all take the same decision to skip. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/train.h"

static double
balance(int stride)		/* small objects, many cells: more weight (yolov5) */
{
	return stride <= 8 ? 4 : stride <= 16 ? 1 : .4;
}

/* Is head a's list the beginning of b's?  (A shipped cfg has num=16 and, for the last head, 20.) */
static int
begins(const struct def_yolo *a, const struct def_yolo *b)
{
	return a->num <= b->num && a->classes == b->classes &&
	    !memcmp(a->anchor, b->anchor, 2 * (size_t)a->num * sizeof *a->anchor);
}

int
trainer_heads(struct loss *s, const struct cfg *c, struct err *e)
{
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);
	const struct def_yolo *all;
	int most = 0;

	if (n < 1)
		return err_set(e, "%s: no [yolo] or [region] layer: nothing to train", c->path);
	for (int i = 1; i < n; i++)
		if (c->l[head[i]].u.yolo.num > c->l[head[most]].u.yolo.num)
			most = i;
	all = &c->l[head[most]].u.yolo;
	s->nhead = n;
	s->classes = all->classes;
	s->nanchor = all->num;
	s->anchor = all->anchor;
	s->in_w = c->l[0].in_w;
	s->in_h = c->l[0].in_h;
	for (int i = 0; i < n; i++) {
		const struct layer *l = &c->l[head[i]];
		const struct def_yolo *d = &l->u.yolo;

		if (!begins(d, all))
			return err_set(e,
			    "%s:%d: anchors and classes differ from those of line %d; training "
			    "wants one list for all heads", c->path, l->line,
			    c->l[head[most]].line);
		s->head[i].w = l->w;
		s->head[i].h = l->h;
		s->head[i].nmask = d->nmask;
		for (int k = 0; k < d->nmask; k++)
			s->head[i].mask[k] = d->mask[k];
		s->head[i].yolo = d;
		s->head[i].region = l->type == L_REGION;
		if (s->head[i].region && s->kind != LOSS_DARKNET)
			return err_set(e, "%s:%d: a [region] layer trains with -L darknet only",
			    c->path, l->line);
		s->balance[i] = balance(s->in_w / l->w);
	}
	return 0;
}

int
trainer_freeze(struct cfg *c, long n, struct err *e)
{
	int learns = 0;

	for (int i = 0; i < c->nl; i++)
		if (c->l[i].stopbackward == 1 && i > n)
			n = i;
	for (int i = 0; i < c->nl; i++) {
		c->l[i].frozen = i < n;
		learns += i >= n && c->l[i].type == L_CONV;
	}
	return learns ? 0 : err_set(e, "%s: its %d layers have no convolution from layer %ld on: "
	    "nothing is left to train", c->path, c->nl, n);
}

static const struct loss_ops *
ops_of(const struct trainer *t)
{
	enum loss_kind k = t->opt.loss.kind;

	return k == LOSS_DARKNET || k == LOSS_DARKNET_IOU ? t->net->dev->dark : t->net->dev->yolo;
}

static float *
state(struct dev *d, size_t n)
{
	float *p = (float *)d->ops->alloc(d, n * sizeof *p);

	if (p)
		d->ops->zero(d, p, n * sizeof *p);
	return p;
}

size_t
trainer_bytes(const struct params *p, const struct train_opts *o)
{
	size_t n = p->ntrain * (o->rule == RULE_SGD ? 1 : 2) + p->nstat;

	if (o->ema > 0)
		n += p->ntrain + p->nstat;
	return n * sizeof(float);
}

struct trainer *
trainer_open(struct net *net, struct sync *sync, const struct train_opts *o, struct err *e)
{
	struct trainer *t = (struct trainer *)xcalloc(1, sizeof *t);
	struct dev *d = net->dev;

	t->net = net;
	t->sync = sync && sync->size > 1 ? sync : NULL;
	t->opt = *o;
	if (trainer_heads(&t->opt.loss, net->cfg, e) || optim_plan(net->cfg, &net->par, &t->plan,
	    e)) {
		free(t);
		return NULL;
	}
	t->mom = state(d, net->par.ntrain);
	if (o->rule != RULE_SGD)
		t->mom2 = state(d, net->par.ntrain);
	if (o->ema > 0) {
		t->ema = state(d, net->par.ntrain);
		t->ema_stat = state(d, net->par.nstat + 1);
	}
	t->stat_was = state(d, net->par.nstat + 1);
	t->optim_ws = d->ops->alloc(d, d->optim->workspace(net->par.ntrain) + 1);
	t->group = (unsigned char *)d->ops->alloc(d, t->plan.units);
	if (t->group)
		d->ops->put(d, t->group, t->plan.group, t->plan.units);
	if (!t->mom || !t->stat_was || !t->group || !t->optim_ws ||
	    (o->rule != RULE_SGD && !t->mom2) ||
	    (o->ema > 0 && (!t->ema || !t->ema_stat))) {
		err_set(e, "out of memory on %s for the optimiser's state", d->name);
		trainer_close(t);
		return NULL;
	}
	return t;
}

void
trainer_close(struct trainer *t)
{
	struct dev *d;

	if (!t)
		return;
	d = t->net->dev;
	d->ops->free(d, t->mom);
	d->ops->free(d, t->mom2);
	d->ops->free(d, t->ema);
	d->ops->free(d, t->ema_stat);
	d->ops->free(d, t->stat_was);
	d->ops->free(d, t->loss_ws);
	d->ops->free(d, t->optim_ws);
	d->ops->free(d, t->group);
	free(t->plan.group);
	free(t->part);
	free(t);
}

/* Room for the truths of a batch, here and on the device. */
static int
reserve(struct trainer *t, int ntruth, struct err *e)
{
	struct dev *d = t->net->dev;

	if (t->loss_ws && ntruth <= t->max_truth)
		return 0;
	t->max_truth = ntruth + ntruth / 2 + 64;
	t->part = (struct truth *)xrealloc(t->part, (size_t)t->max_truth * sizeof *t->part);
	t->opt.loss.n = t->net->opt.batch;
	d->ops->free(d, t->loss_ws);
	t->loss_ws = d->ops->alloc(d, ops_of(t)->workspace(&t->opt.loss, t->max_truth) + 1);
	return t->loss_ws ? 0 : err_set(e, "out of memory on %s for the loss", d->name);
}

/* The truths of images [a, b), renumbered from 0. */
static int
take_part(struct trainer *t, const struct batch *b, int from, int to)
{
	int n = 0;

	for (int i = 0; i < b->ntruth; i++)
		if (b->truth[i].image >= from && b->truth[i].image < to) {
			t->part[n] = b->truth[i];
			t->part[n++].image -= (float)from;
		}
	return n;
}

/* What the means are divided by, over all ranks. */
static int
counts(struct trainer *t, const struct truth *truth, int ntruth, int images, struct err *e)
{
	struct loss *s = &t->opt.loss;
	double v[MAX_HEADS + 1];

	memset(s->count, 0, sizeof s->count);
	ops_of(t)->count(s, truth, ntruth);
	memcpy(v, s->count, sizeof s->count);
	v[MAX_HEADS] = images;
	if (t->sync && t->sync->ops->sum_host(t->sync, v, MAX_HEADS + 1))
		return err_set(e, "counting targets: %s", t->sync->err.msg);
	memcpy(s->count, v, sizeof s->count);
	s->images = v[MAX_HEADS];
	return 0;
}

struct reduce { struct trainer *t; int lost; };

static void
reduce_bucket(void *arg, size_t off, size_t n)
{
	struct reduce *r = (struct reduce *)arg;

	if (!r->lost)
		r->lost = r->t->sync->ops->start(r->t->sync, r->t->net->grad + off, n) != 0;
}

/* What of the loss depends on this batch's size: input and grids. */
static void
set_sizes(struct trainer *t, const struct batch *b)
{
	struct loss *s = &t->opt.loss;

	s->in_w = b->w;
	s->in_h = b->h;
	for (int h = 0; h < s->nhead; h++) {
		s->head[h].w = t->net->cfg->l[t->net->head[h]].w;
		s->head[h].h = t->net->cfg->l[t->net->head[h]].h;
	}
}

/* A mini-batch: images [from, to) of this rank's, of n on all ranks; its first one's sample. */
struct part { int from, to, n; long t; };

/* Part i of a batch, whose images here begin behind those of the part before. */
static struct part
part_of(const struct trainer *t, const struct batch *b, int i, int parts, int behind)
{
	int ranks = t->sync ? t->sync->size : 1, rank = t->sync ? t->sync->rank : 0, lo, hi;
	struct part p;

	order_share(b->n_global, parts, i, 1, 0, &lo, &hi);
	p.n = hi - lo;
	order_share(b->n_global, parts, i, ranks, rank, &lo, &hi);
	p.from = behind;
	p.to = behind + hi - lo;
	p.t = b->first + lo;
	return p;
}

/* Gradients of one part, added to the net's; its loss terms to term. */
static int
run_part(struct trainer *t, const struct batch *b, const struct part *p, double gain,
    double term[][LOSS_TERMS], struct err *e)
{
	struct net *net = t->net;
	struct loss *s = &t->opt.loss;
	int ntruth = take_part(t, b, p->from, p->to);

	if (t->opt.accum != ACCUM_GLOBAL && counts(t, t->part, ntruth, p->to - p->from, e))
		return -1;
	net_forward(net, b->x + (size_t)p->from * (size_t)b->h * (size_t)b->w *
	    (size_t)net->cfg->l[0].in_c, p->to - p->from, p->n, (uint64_t)p->t);
	s->n = p->to - p->from;
	for (int h = 0; h < s->nhead; h++) {
		s->head[h].raw = net_head_raw(net, h);
		s->head[h].grad = net_head_grad(net, h);
	}
	if (s->n)
		ops_of(t)->run(net->dev, s, t->part, ntruth, term, t->loss_ws);
	for (int h = 0; h < s->nhead && gain != 1; h++)
		net->dev->optim->scale(net->dev, net_floats(net, net->head[h] - 1), s->head[h].grad,
		    gain);
	net_backward(net);
	return 0;
}

static void
sum_terms(const struct loss *s, double term[][LOSS_TERMS], double gain, struct step_result *r)
{
	for (int h = 0; h < s->nhead; h++) {
		r->loss += gain * term[h][TERM_TOTAL];
		r->box += gain * (term[h][TERM_BOX] + term[h][TERM_WH]);
		r->obj += gain * term[h][TERM_OBJ];
		r->cls += gain * term[h][TERM_CLS];
	}
}

/* The update, unless something is not finite: then the step leaves no trace, in the running
 * statistics neither. */
static void
update(struct trainer *t, const struct warm *w, struct step_result *r)
{
	struct net *net = t->net;
	struct dev *d = net->dev;
	const struct optim_ops *o = d->optim;
	size_t n = net->par.ntrain;
	struct optim_rates rates;
	struct update u = { n, t->group, &rates, net->train, net->grad, 1, t->mom, t->mom2 };
	double clip = 1;

	r->gnorm = sqrt(o->sumsq(d, n, net->grad, t->optim_ws));
	r->finite = isfinite(r->loss) && isfinite(r->gnorm);
	if (!r->finite) {
		t->skipped++;
		d->ops->copy(d, net->stat, t->stat_was, net->par.nstat * sizeof(float));
		return;
	}
	if (t->opt.clip > 0)
		clip = optim_clip(r->gnorm * r->gnorm, t->opt.clip);
	t->t++;
	optim_rates(&t->plan, t->t, w, 0, &rates);
	u.gscale = clip;
	if (t->opt.rule == RULE_SGD)
		o->sgd(d, &u, w->momentum, t->opt.nesterov);
	else {
		struct adam a = { t->opt.b1, t->opt.b2, t->opt.eps, t->opt.rule == RULE_ADAMW,
			t->t };

		o->adam(d, &u, &a);
	}
	if (t->ema) {
		double f = schedule_ema(t->opt.ema, t->opt.ema_tau, t->t);

		o->ema(d, n, t->ema, net->train, f);
		o->ema(d, net->par.nstat, t->ema_stat, net->stat, f);
	}
}

int
trainer_step(struct trainer *t, const struct batch *b, const struct warm *w, struct step_result *r,
    struct err *e)
{
	double term[MAX_HEADS][LOSS_TERMS] = { { 0 } }, gain, report;
	struct reduce red = { t, 0 };
	int parts = t->opt.parts > 0 ? t->opt.parts : 1, done = 0;

	memset(r, 0, sizeof *r);
	r->images = b->n_global;
	if (net_resize(t->net, b->w, b->h, e))
		return -1;
	set_sizes(t, b);
	t->opt.loss.seen = (double)b->first;
	if (reserve(t, b->ntruth, e) || counts(t, b->truth, b->ntruth, b->n, e))
		return -1;
	gain = t->opt.gain > 0 ? t->opt.gain : 1. / b->n_global;
	report = t->opt.accum != ACCUM_MEAN ? gain : gain / (parts < b->n_global ? parts :
	    b->n_global);
	net_zero_grad(t->net);
	t->net->dev->ops->copy(t->net->dev, t->stat_was, t->net->stat,
	    t->net->par.nstat * sizeof(float));
	for (int i = 0; i < parts; i++) {	/* the last one has images in any batch */
		struct part p = part_of(t, b, i, parts, done);

		net_on_bucket(t->net, i == parts - 1 && t->sync ? reduce_bucket : NULL, &red,
		    t->opt.bucket);
		if (p.n && run_part(t, b, &p, report, term, e))
			return -1;
		done = p.to;
	}
	assert(done == b->n);
	if (red.lost || (t->sync && t->sync->ops->wait(t->sync)) ||
	    (t->sync && t->sync->ops->sum_host(t->sync, term[0], MAX_HEADS * LOSS_TERMS)))
		return err_set(e, "summing gradients: %s", t->sync->err.msg);
	sum_terms(&t->opt.loss, term, report, r);
	update(t, w, r);
	return 0;
}

void
trainer_put(struct trainer *t, const struct weights *w)
{
	struct dev *d = t->net->dev;
	size_t n = t->net->par.ntrain * sizeof(float), ns = t->net->par.nstat * sizeof(float);

	net_put(t->net, w);
	if (w->mom)
		d->ops->put(d, t->mom, w->mom, n);
	if (w->mom2 && t->mom2)
		d->ops->put(d, t->mom2, w->mom2, n);
	if (t->ema) {			/* a fresh run's average starts at the weights */
		d->ops->put(d, t->ema, w->ema ? w->ema : w->train, n);
		d->ops->put(d, t->ema_stat, w->ema_stat ? w->ema_stat : w->stat, ns);
	}
}

static float *
fetch(struct dev *d, float *host, const float *from, size_t n)
{
	if (!from)
		return host;
	if (!host)
		host = (float *)xcalloc(n, sizeof *host);
	d->ops->get(d, host, from, n * sizeof *host);
	return host;
}

void
trainer_get(struct trainer *t, struct weights *w)
{
	struct dev *d = t->net->dev;
	size_t n = t->net->par.ntrain;

	net_get(t->net, w);
	w->mom = fetch(d, w->mom, t->mom, n);
	w->mom2 = fetch(d, w->mom2, t->mom2, n);
	w->ema = fetch(d, w->ema, t->ema, n);
	w->ema_stat = fetch(d, w->ema_stat, t->ema_stat, t->net->par.nstat);
}
