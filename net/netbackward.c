/* netbackward.c -- the backward walk: gradients of parameters and activations.
 *
 * Every gradient tensor has a first writer and later adders (have[] says which), so gradients of a
 * tensor with several readers add, as the chain rule wants, also through a residual block that
 * begins with a 1x1 convolution.  Gradients of finished buckets are handed out while the walk goes
 * on. */
#include <string.h>

#include "yolo.h"

/* Does a detection head follow, whose loss takes the values before the activation? */
static int
before_head(const struct net *net, int i)
{
	return i + 1 < net->cfg->nl && (net->cfg->l[i + 1].type == L_YOLO ||
	    net->cfg->l[i + 1].type == L_REGION);
}

/* Sums for the backward pass over all ranks: [dgamma | dbeta] of one layer. */
static void
sum_ranks(struct net *net, float *sums, int c)
{
	struct sync *s = net->opt.sync;

	if (s->ops->sum(s, sums, 2 * (size_t)c))
		sync_fail(s, s->err.msg);
}

/* ---- backward ----------------------------------------------------------------------------- */

/* The gradient of layer i's output, about to get n_part of its c channels: *add says whether to
 * write or to add.  NULL: nobody below wants it. */
static void *
contribute(struct net *net, int i, int whole, int *add)
{
	int r = i < 0 ? -1 : net->plan.slot[i].root;
	void *g = net_grad(net, r);

	if (!g || r < net->plan.stop)
		return NULL;
	*add = net->have[r];
	if (!*add && !whole) {		/* only a slice comes now; the rest must be 0 */
		net->dev->ops->zero(net->dev, g,
		    net_floats(net, r) * (size_t)net->dev->store->bytes);
		*add = 1;
	}
	net->have[r] = 1;
	return g;
}

static void
conv_bn_backward(struct net *net, int i, void *dz)
{
	const struct layer *l = &net->cfg->l[i];
	const struct bn_ops *b = net->dev->bn;
	int rows = net_rows(net, l), c = l->c;
	void *y = net_at(net, net->plan.slot[i].pre);
	float *sums = net_merge_area(net);
	float *gamma = net_param(net, net->train, i, P_GAMMA);
	float *beta = net_param(net, net->train, i, P_BIAS);
	struct net_moments m = net_moments(net, i);

	b->back_sums(net->dev, y, dz, rows, c, m.mean, m.m2, m.count, gamma, beta, l->u.conv.act,
	    sums, sums + c, net->ws);
	/* The parameters' own gradients stay local: the all-reduce of the buckets adds them. */
	net->dev->store->add(net->dev, c, sums, net_param(net, net->grad, i, P_GAMMA));
	net->dev->store->add(net->dev, c, sums + c, net_param(net, net->grad, i, P_BIAS));
	if (net_synced(net))
		sum_ranks(net, sums, c);
	b->back_apply(net->dev, y, dz, rows, c, m.mean, m.m2, m.count, gamma, beta, l->u.conv.act,
	    sums, sums + c, net->ws);
}

static void
conv_backward(struct net *net, int i, void *dz)
{
	const struct layer *l = &net->cfg->l[i];
	const struct conv_ops *o = net->dev->conv;
	struct conv_shape s = netplan_conv(l, net->n);
	void *u = net_at(net, net->plan.slot[i].pre), *dx;
	double t = net_lap(net, 0, -1, 0);
	int add = 0;

	if (l->u.conv.bn)
		conv_bn_backward(net, i, dz);
	else
		net->dev->bn->bias_act_back(net->dev, u ? u : net_out(net, i), dz, net_rows(net, l),
		    l->c, before_head(net, i) ? ACT_LINEAR : l->u.conv.act,
		    net_param(net, net->grad, i, P_BIAS), net->ws);
	t = net_lap(net, t, i, LAP_OTHER);
	if (net->n)
		o->wgrad(net->dev, &s, net_out(net, i - 1), dz, net_param(net, net->grad, i,
		    P_WEIGHT), net->ws);
	t = net_lap(net, t, i, LAP_WGRAD);
	if ((dx = contribute(net, i - 1, 1, &add)) && net->n)
		o->dgrad(net->dev, &s, dz, net_param(net, net->train, i, P_WEIGHT), dx, add,
		    net->ws);
	net_lap(net, t, i, LAP_DGRAD);
}

static void
join_backward(struct net *net, int i, void *dy)
{
	const struct layer *l = &net->cfg->l[i];
	const struct def_join *d = &l->u.join;
	const struct layer_ops *o = net->dev->layer;
	int rows = net_rows(net, l), from = 0, add = 0, shared = net->plan.slot[i].root != i;
	void *dx;

	if (l->type == L_SHORTCUT && d->act != ACT_LINEAR)
		o->activate_back(net->dev, (int)net_floats(net, i), d->act,
		    net_at(net, net->plan.slot[i].pre), dy, dy, 0);
	for (int k = 0; k < d->n; k++) {
		int c = net->cfg->l[d->src[k]].c, part = l->type == L_ROUTE ? c / d->groups :
		    c < l->c ? c : l->c;

		if ((dx = contribute(net, d->src[k], part == c, &add)))
			o->slice(net->dev, rows, part, dy, l->c, from, dx, c,
			    l->type == L_ROUTE ? part * d->group_id : 0, add);
		from += l->type == L_ROUTE ? part : 0;
	}
	if (l->type == L_SHORTCUT && !shared && (dx = contribute(net, i - 1, 1, &add)))
		o->accumulate(net->dev, (int)net_floats(net, i), dy, dx, add);
}

static void
scale_backward(struct net *net, int i, void *dy)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	const void *x = net_out(net, i - 1), *f = net_out(net, l->u.scale.src);
	int addx = 0, addf = 0;
	void *dx = contribute(net, i - 1, 1, &addx);
	void *df = contribute(net, l->u.scale.src, 1, &addf);

	if (l->u.scale.act != ACT_LINEAR)
		o->activate_back(net->dev, (int)net_floats(net, i), l->u.scale.act,
		    net_at(net, net->plan.slot[i].pre), dy, dy, 0);
	if (l->type == L_SAM)
		o->sam_back(net->dev, (int)net_floats(net, i), x, f, dy, dx, addx, df, addf);
	else
		o->scale_back(net->dev, net->n, l->h * l->w, l->c, l->u.scale.wh, x, f, dy, dx,
		    addx, df, addf);
}

/* Layers of one input without parameters. */
static void
plain_backward(struct net *net, int i, const void *dy)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	int add = 0, s = l->u.stride.stride;
	void *dx = contribute(net, i - 1, 1, &add);

	if (!dx)
		return;
	switch (l->type) {
	case L_MAXPOOL: {
		struct pool_shape p = netplan_pool(l, net->n);

		o->maxpool_back(net->dev, &p, dy, (unsigned char *)net_at(net,
		    net->plan.slot[i].tap), dx, add);
		break;
	}
	case L_UPSAMPLE:
		o->upsample_back(net->dev, net->n, l->in_h, l->in_w, l->c, s, l->u.stride.scale, dy,
		    dx, add);
		break;
	case L_REORG:
		o->reorg_back(net->dev, net->n, l->in_h, l->in_w, l->in_c, s, l->u.stride.reverse,
		    dy, dx, add);
		break;
	case L_REORG3D:
		o->reorg3d_back(net->dev, net->n, l->in_h, l->in_w, l->in_c, s, dy, dx, add);
		break;
	case L_AVGPOOL:
		o->avgpool_back(net->dev, net->n, l->in_h * l->in_w, l->c, dy, dx, add);
		break;
	case L_DROPOUT:
		o->dropout_back(net->dev, (int)net_floats(net, i), l->u.dropout.p,
		    net_dropout_key(net, i), net_dropout_first(net, i), dy, dx, add);
		break;
	default: break;
	}
}

static void
layer_backward(struct net *net, int i)
{
	enum layer_type type = net->cfg->l[i].type;
	int own = net->plan.slot[i].root == i;
	void *dy = net_grad(net, net->plan.slot[i].root);
	double t;

	if (!dy || !net->have[net->plan.slot[i].root] || (!own && type != L_SHORTCUT))
		return;
	if (type == L_CONV) {
		conv_backward(net, i, dy);
		return;
	}
	t = net_lap(net, 0, -1, 0);
	switch (type) {
	case L_ROUTE: case L_SHORTCUT: join_backward(net, i, dy); break;
	case L_SCALE: case L_SAM: scale_backward(net, i, dy); break;
	default: plain_backward(net, i, dy); break;
	}
	net_lap(net, t, i, LAP_OTHER);
}

/* Hand out what became final: weights from `from` up to what was handed out before. */
static void
hand_out(struct net *net, size_t from, int rest)
{
	if (!net->bucket)
		return;
	if (net->bucket_end - from >= net->bucket_floats || (rest && net->bucket_end > from)) {
		net->bucket(net->bucket_arg, from, net->bucket_end - from);
		net->bucket_end = from;
	}
	if (rest && net->par.ntrain > net->par.nweight)
		net->bucket(net->bucket_arg, net->par.nweight, net->par.ntrain - net->par.nweight);
}

void
net_backward(struct net *net)
{
	memset(net->have, 0, (size_t)net->cfg->nl);
	for (int h = 0; h < net->nhead; h++) {
		int conv = net->head[h] - 1;

		net->have[net->plan.slot[conv].root] = 1;
		if (net->plan.slot[conv + 1].raw_grad != NONE)
			net->dev->store->narrow(net->dev, (int)net_floats(net, conv),
			    net_head_grad(net, h), net_grad(net, conv));
	}
	net->bucket_end = net->par.nweight;
	for (int i = net->cfg->nl - 1; i >= net->plan.stop; i--) {
		const struct param *p = params_find(&net->par, i, P_WEIGHT);

		layer_backward(net, i);
		if (p)
			hand_out(net, p->off, 0);
	}
	hand_out(net, 0, 1);
}
