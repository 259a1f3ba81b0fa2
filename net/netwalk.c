/* netwalk.c -- the forward walk through the layers.
 *
 * With several ranks the batch statistics of each layer are merged over all of them when syncbn is
 * set: count, mean and squared deviations, by Chan's update. */
#include "yolo.h"

/* ---- batch-norm over ranks ---------------------------------------------------------------- */

float *
net_merge_area(struct net *net)
{
	size_t off = 0;

	for (int i = 0; i < net->cfg->nl; i++)
		if (net->cfg->l[i].type == L_CONV && net->cfg->l[i].u.conv.bn)
			off += 2 * (size_t)net->cfg->l[i].c;
	return net->bn + off;
}

int
net_synced(const struct net *net)
{
	return net->opt.syncbn && net->opt.sync && net->opt.sync->size > 1;
}

struct net_moments
net_moments(struct net *net, int layer)
{
	const struct layer *l = &net->cfg->l[layer];
	struct net_moments m;
	size_t off = 0;

	for (int i = 0; i < layer; i++)
		if (net->cfg->l[i].type == L_CONV && net->cfg->l[i].u.conv.bn)
			off += 2 * (size_t)net->cfg->l[i].c;
	m.mean = net->bn + off;
	m.m2 = m.mean + l->c;
	m.count = (float)l->h * l->w * (net_synced(net) ? net->n_global : net->n);
	return m;
}

/* All ranks' (count, mean, m2) side by side, by a sum in which each fills its own place; then one
 * merge in rank order, the same on every rank. */
void
net_merge_ranks(struct net *net, const struct layer *l, struct net_moments *m)
{
	const struct dev_ops *o = net->dev->ops;
	struct sync *s = net->opt.sync;
	size_t each = 2 * (size_t)l->c + 1;
	float *area = net_merge_area(net), *mine = area + each * (size_t)s->rank;
	float count = (float)net->n * l->h * l->w;

	o->zero(net->dev, area, each * (size_t)(s->size + 1) * sizeof *area);
	o->put(net->dev, mine, &count, sizeof count);
	o->copy(net->dev, mine + 1, m->mean, (size_t)l->c * sizeof *mine);
	o->copy(net->dev, mine + 1 + l->c, m->m2, (size_t)l->c * sizeof *mine);
	if (s->ops->sum(s, area, each * (size_t)s->size))
		sync_fail(s, s->err.msg);
	net->dev->bn->merge(net->dev, area, s->size, l->c, area + each * (size_t)s->size);
	o->copy(net->dev, m->mean, area + each * (size_t)s->size + 1,
	    2 * (size_t)l->c * sizeof *mine);
}

/* ---- forward ------------------------------------------------------------------------------ */

static void
conv_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct bn_ops *b = net->dev->bn;
	struct conv_shape s = netplan_conv(l, net->n);
	void *z = net_out(net, i), *pre = net_at(net, net->plan.slot[i].pre), *u = pre ? pre : z;
	float *w = net_param(net, net->train, i, P_WEIGHT);
	float *beta = net_param(net, net->train, i, P_BIAS);
	int rows = s.n * s.oh * s.ow;
	struct net_moments m;

	if (rows)
		net->dev->conv->forward(net->dev, &s, net_out(net, i - 1), w, u, net->ws);
	if (!l->u.conv.bn || !net->opt.train) {
		b->bias_act(net->dev, u, rows, s.k, beta, l->u.conv.act, z);
		return;
	}
	if (l->frozen) {		/* as in inference: running mean and variance */
		b->apply(net->dev, u, rows, s.k, net_param(net, net->stat, i, P_MEAN),
		    net_param(net, net->stat, i, P_VAR), 1,
		    net_param(net, net->train, i, P_GAMMA), beta,
		    l->u.conv.act, z, net->ws);
		return;
	}
	m = net_moments(net, i);
	if (rows)
		b->moments(net->dev, u, rows, s.k, m.mean, m.m2, net->ws);
	else
		net->dev->ops->zero(net->dev, m.mean, 2 * (size_t)s.k * sizeof *m.mean);
	if (net_synced(net))
		net_merge_ranks(net, l, &m);
	if (m.count > 0)
		b->running(net->dev, s.k, m.mean, m.m2, m.count, net->opt.bn_momentum,
		    net_param(net, net->stat, i, P_MEAN), net_param(net, net->stat, i, P_VAR));
	b->apply(net->dev, u, rows, s.k, m.mean, m.m2, m.count,
	    net_param(net, net->train, i, P_GAMMA), beta, l->u.conv.act, z, net->ws);
}

static void
join_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct def_join *d = &l->u.join;
	int rows = net_rows(net, l), to = 0;
	void *y = net_out(net, i), *pre = net_at(net, net->plan.slot[i].pre);

	if (l->type == L_ROUTE) {
		for (int k = 0; k < d->n; k++) {
			int c = net->cfg->l[d->src[k]].c, part = c / d->groups;

			net->dev->layer->slice(net->dev, rows, part, net_out(net, d->src[k]), c,
			    part * d->group_id, y, l->c, to, 0);
			to += part;
		}
		return;
	}
	if (net->plan.slot[i].root == i)
		net->dev->layer->accumulate(net->dev, (int)net_floats(net, i), net_out(net, i - 1),
		    pre ? pre : y, 0);
	for (int k = 0; k < d->n; k++) {
		int c = net->cfg->l[d->src[k]].c;

		net->dev->layer->slice(net->dev, rows, c < l->c ? c : l->c, net_out(net, d->src[k]),
		    c, 0, pre ? pre : y, l->c, 0, 1);
	}
	if (pre || d->act != ACT_LINEAR)
		net->dev->layer->activate(net->dev, (int)net_floats(net, i), d->act, pre ? pre : y,
		    y);
}

static void
scale_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	void *x = net_out(net, i - 1), *f = net_out(net, l->u.scale.src), *y = net_out(net, i);
	void *pre = net_at(net, net->plan.slot[i].pre), *u = pre ? pre : y;

	if (l->type == L_SAM)
		o->sam(net->dev, (int)net_floats(net, i), x, f, u);
	else
		o->scale(net->dev, net->n, l->h * l->w, l->c, l->u.scale.wh, x, f, u);
	if (l->u.scale.act != ACT_LINEAR)
		o->activate(net->dev, (int)net_floats(net, i), l->u.scale.act, u, y);
}

static void
head_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct def_yolo *d = &l->u.yolo;
	const struct slot *s = &net->plan.slot[i], *conv = s - 1;
	const void *x = net_out(net, i - 1);

	if (s->raw != NONE)
		net->dev->store->widen(net->dev, (int)net_floats(net, i),
		    net_at(net, conv->pre != NONE ? conv->pre : conv->out),
		    (float *)net_at(net, s->raw));
	if (s->root != i)	/* loss and decoder take the convolution's values */
		return;
	if (l->type == L_YOLO)
		net->dev->layer->yolo(net->dev, net_rows(net, l), d->nmask, d->classes,
		    d->scale_x_y, d->new_coords, x, net_out(net, i));
	else
		net->dev->layer->region(net->dev, net_rows(net, l), d->num, d->classes, d->softmax,
		    x, net_out(net, i));
}

static void
layer_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	const void *x = net_out(net, i - 1);
	void *y = net_out(net, i);
	int own = net->plan.slot[i].root == i;

	switch (l->type) {
	case L_CONV: conv_forward(net, i); break;
	case L_SHORTCUT: join_forward(net, i); break;
	case L_ROUTE: if (own) join_forward(net, i); break;
	case L_SCALE: case L_SAM: scale_forward(net, i); break;
	case L_YOLO: case L_REGION: head_forward(net, i); break;
	case L_MAXPOOL: {
		struct pool_shape s = netplan_pool(l, net->n);

		o->maxpool(net->dev, &s, x, y, (unsigned char *)net_at(net, net->plan.slot[i].tap));
		break;
	}
	case L_UPSAMPLE:
		o->upsample(net->dev, net->n, l->in_h, l->in_w, l->c, l->u.stride.stride,
		    l->u.stride.scale, x, y);
		break;
	case L_REORG:
		o->reorg(net->dev, net->n, l->in_h, l->in_w, l->in_c, l->u.stride.stride,
		    l->u.stride.reverse, x, y);
		break;
	case L_REORG3D:
		o->reorg3d(net->dev, net->n, l->in_h, l->in_w, l->in_c, l->u.stride.stride, x, y);
		break;
	case L_AVGPOOL: o->avgpool(net->dev, net->n, l->in_h * l->in_w, l->c, x, y); break;
	case L_DROPOUT:
		if (own)
			o->dropout(net->dev, (int)net_floats(net, i), l->u.dropout.p,
			    net_dropout_key(net, i), net_dropout_first(net, i), x, y);
		break;
	case L_NONE: break;
	}
}

void
net_forward(struct net *net, const float *x, int n, int n_global, uint64_t t0)
{
	const struct layer *l0 = &net->cfg->l[0];
	size_t floats = (size_t)n * (size_t)l0->in_h * (size_t)l0->in_w * (size_t)l0->in_c;
	void *host = net_at(net, net->plan.host_input);
	double t;

	net->n = n;
	net->n_global = n_global;
	net->t0 = t0;
	net->dev->ops->put(net->dev, host ? host : net->input, x, sizeof *x * floats);
	if (host)
		net->dev->store->narrow(net->dev, (int)floats, (float *)host, net->input);
	t = net_lap(net, 0, -1, 0);
	for (int i = 0; i < net->cfg->nl; i++) {
		layer_forward(net, i);
		t = net_lap(net, t, i, LAP_FORWARD);
	}
}
