/* net.c -- a network on a device: its parameters, its buffers, who finds what where.
 *
 * Parameters, gradients and statistics are one allocation each, in the flat layout of weights.c;
 * activations live in one arena laid out by netplan.c.  An inference net holds batch-norm folded
 * into the weights. */
#include <stdlib.h>
#include <string.h>

#include "net/net.h"

/* ---- making one --------------------------------------------------------------------------- */

static void
count_bytes(struct net_bytes *b, const struct params *par, const struct net_plan *p, int train)
{
	b->params = (par->ntrain + par->nstat) * sizeof(float);
	b->grads = train ? par->ntrain * sizeof(float) : 0;
	b->arena = p->arena + p->bn_floats * sizeof(float);
	b->workspace = p->ws;
	b->total = b->params + b->grads + b->arena + b->workspace;
}

int
net_plan(struct cfg *c, struct dev *d, const struct net_opts *o, struct net_bytes *b, struct err *e)
{
	struct net_plan p;
	struct params par;

	if (netplan_make(&p, c, d, o, e)) {
		netplan_free(&p);
		return -1;
	}
	params_plan(c, &par);
	count_bytes(b, &par, &p, o->train);
	params_free(&par);
	netplan_free(&p);
	return 0;
}

static int
allocate(struct net *net, struct err *e)
{
	struct dev *d = net->dev;
	const struct params *p = &net->par;

	net->train = (float *)d->ops->alloc(d, p->ntrain * sizeof(float));
	net->stat = (float *)d->ops->alloc(d, (p->nstat + 1) * sizeof(float));
	net->bn = (float *)d->ops->alloc(d, (net->plan.bn_floats + 1) * sizeof(float));
	net->arena = (char *)d->ops->alloc(d, net->plan.arena);
	net->ws = d->ops->alloc(d, net->plan.ws + 1);
	if (net->opt.train)
		net->grad = (float *)d->ops->alloc(d, p->ntrain * sizeof(float));
	if (!net->train || !net->stat || !net->bn || !net->arena || !net->ws ||
	    (net->opt.train && !net->grad))
		return err_set(e,
		    "%s: out of memory on %s: %.0f MB wanted (-O plan=1 shows for what)",
		    net->cfg->path, d->name, net->bytes.total / 1e6);
	d->ops->zero(d, net->train, p->ntrain * sizeof(float));
	d->ops->zero(d, net->stat, (p->nstat + 1) * sizeof(float));
	net->input = net_at(net, net->plan.input);
	if (net->grad)
		net_zero_grad(net);
	return 0;
}

struct net *
net_open(struct dev *d, struct cfg *c, const struct net_opts *o, struct err *e)
{
	struct net *net = (struct net *)xcalloc(1, sizeof *net);

	net->dev = d;
	net->cfg = c;
	net->opt = *o;
	net->nhead = cfg_heads(c, net->head, MAX_HEADS);
	net->max_w = (size_t)c->l[0].in_w;
	net->max_h = (size_t)c->l[0].in_h;
	net->have = (unsigned char *)xcalloc((size_t)c->nl, 1);
	params_plan(c, &net->par);
	if (netplan_make(&net->plan, c, d, o, e)) {
		net_close(net);
		return NULL;
	}
	count_bytes(&net->bytes, &net->par, &net->plan, o->train);
	if (allocate(net, e)) {
		net_close(net);
		return NULL;
	}
	return net;
}

void
net_close(struct net *net)
{
	struct dev *d;

	if (!net)
		return;
	d = net->dev;
	d->ops->free(d, net->train);
	d->ops->free(d, net->grad);
	d->ops->free(d, net->stat);
	d->ops->free(d, net->bn);
	d->ops->free(d, net->arena);
	d->ops->free(d, net->ws);
	params_free(&net->par);
	netplan_free(&net->plan);
	free(net->have);
	free(net);
}

/* No tensor grows, but a smaller layer may be done another way, with more workspace. */
int
net_resize(struct net *net, int w, int h, struct err *e)
{
	struct dev *d = net->dev;
	size_t ws;

	if (net->cfg->net.w == w && net->cfg->net.h == h)
		return 0;
	if ((size_t)w > net->max_w || (size_t)h > net->max_h)
		return err_set(e, "%s: size %dx%d is larger than the planned %zux%zu",
		    net->cfg->path, w, h,
		    net->max_w, net->max_h);
	if (cfg_resize(net->cfg, w, h, e))
		return -1;
	if ((ws = netplan_workspace(net->cfg, d, &net->opt)) <= net->plan.ws)
		return 0;
	d->ops->free(d, net->ws);
	net->bytes.workspace += ws - net->plan.ws;
	net->bytes.total += ws - net->plan.ws;
	net->plan.ws = ws;
	net->ws = d->ops->alloc(d, ws + 1);
	return net->ws ? 0 : err_set(e, "%s: out of memory on %s: %.0f MB wanted",
	    net->cfg->path, d->name,
	    net->bytes.total / 1e6);
}

void
net_zero_grad(struct net *net)
{
	net->dev->ops->zero(net->dev, net->grad, net->par.ntrain * sizeof(float));
}

void
net_on_bucket(struct net *net, net_bucket *f, void *arg, size_t floats)
{
	net->bucket = f;
	net->bucket_arg = arg;
	net->bucket_floats = floats ? floats : 1;
}

static void
fold(struct net *net)
{
	for (int i = 0; i < net->cfg->nl; i++) {
		const struct layer *l = &net->cfg->l[i];
		const struct def_conv *d = &l->u.conv;
		float *beta = net_param(net, net->train, i, P_BIAS);
		struct bn b;

		if (l->type != L_CONV || !d->bn)
			continue;
		b = (struct bn){ .rows = d->size * d->size * (l->in_c / d->groups), .c = d->k,
			.mean = net_param(net, net->stat, i, P_MEAN),
			.m2 = net_param(net, net->stat, i, P_VAR),
			.gamma = net_param(net, net->train, i, P_GAMMA), .beta = beta };
		net->dev->bn->fold(net->dev, &b, net_param(net, net->train, i, P_WEIGHT), beta);
	}
}

void
net_fold(struct net *net, const float *train, const float *stat)
{
	net->dev->ops->copy(net->dev, net->train, train, net->par.ntrain * sizeof(float));
	net->dev->ops->copy(net->dev, net->stat, stat, net->par.nstat * sizeof(float));
	fold(net);
}

void
net_put(struct net *net, const struct weights *w)
{
	net->dev->ops->put(net->dev, net->train, w->train, net->par.ntrain * sizeof(float));
	net->dev->ops->put(net->dev, net->stat, w->stat, net->par.nstat * sizeof(float));
	if (!net->opt.train)
		fold(net);
}

void
net_get(struct net *net, struct weights *w)
{
	net->dev->ops->get(net->dev, w->train, net->train, net->par.ntrain * sizeof(float));
	net->dev->ops->get(net->dev, w->stat, net->stat, net->par.nstat * sizeof(float));
}
