/* netwalk.c -- the walk through the layers, forward and backward.
 *
 * With several ranks the batch statistics of each layer are merged over all of them when syncbn is
 * set: count, mean and squared deviations, by Chan's update. */
#include <string.h>

#include "net/net.h"

/* ---- batch-norm over ranks ---------------------------------------------------------------- */

static float *
net_merge_area(struct net *net)
{
	size_t off = 0;

	for (int i = 0; i < net->cfg->nl; i++)
		if (net->cfg->l[i].type == L_CONV && net->cfg->l[i].u.conv.bn)
			off += 2 * (size_t)net->cfg->l[i].c;
	return net->bn + off;
}

/* Batch statistics are merged over ranks. */
static int
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
static void
net_merge_ranks(struct net *net, const struct layer *l, const struct bn *m)
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

static void
set_moments(struct net *net, int layer, struct bn *b)
{
	struct net_moments m = net_moments(net, layer);

	b->mean = m.mean;
	b->m2 = m.m2;
	b->count = m.count;
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
	float *run_mean = net_param(net, net->stat, i, P_MEAN);
	float *run_var = net_param(net, net->stat, i, P_VAR);
	struct bn n = { .rows = s.n * s.oh * s.ow, .c = s.k, .act = l->u.conv.act,
		.beta = net_param(net, net->train, i, P_BIAS) };

	if (n.rows)
		net->dev->conv->forward(net->dev, &s, net_out(net, i - 1), w, u, net->ws);
	if (!l->u.conv.bn || !net->opt.train) {
		b->bias_act(net->dev, &n, u, z);
		return;
	}
	n.gamma = net_param(net, net->train, i, P_GAMMA);
	if (l->frozen) {		/* as in inference: running mean and variance */
		n.mean = run_mean;
		n.m2 = run_var;
		n.count = 1;
		b->apply(net->dev, &n, u, z, net->ws);
		return;
	}
	set_moments(net, i, &n);
	if (n.rows)
		b->moments(net->dev, &n, u, net->ws);
	else
		net->dev->ops->zero(net->dev, n.mean, 2 * (size_t)s.k * sizeof *n.mean);
	if (net_synced(net))
		net_merge_ranks(net, l, &n);
	if (n.count > 0)
		b->running(net->dev, &n, net->opt.bn_momentum, run_mean, run_var);
	b->apply(net->dev, &n, u, z, net->ws);
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

			struct slice s = { rows, part, net_out(net, d->src[k]), c,
				part * d->group_id, y, l->c, to };

			net->dev->layer->slice(net->dev, &s, 0);
			to += part;
		}
		return;
	}
	if (net->plan.slot[i].root == i)
		net->dev->layer->accumulate(net->dev, (int)net_floats(net, i), net_out(net, i - 1),
		    pre ? pre : y, 0);
	for (int k = 0; k < d->n; k++) {
		int c = net->cfg->l[d->src[k]].c;

		struct slice s = { rows, c < l->c ? c : l->c, net_out(net, d->src[k]), c, 0,
			pre ? pre : y, l->c, 0 };

		net->dev->layer->slice(net->dev, &s, 1);
	}
	if (pre || d->act != ACT_LINEAR)
		net->dev->layer->activate(net->dev, (int)net_floats(net, i), d->act, pre ? pre : y,
		    y);
}

static struct plane_shape
planes(const struct net *net, const struct layer *l)
{
	struct plane_shape s = { net->n, l->in_h * l->in_w, l->c, 0 };

	if (l->type == L_SCALE) {
		s.hw = l->h * l->w;
		s.wh = l->u.scale.wh;
	}
	return s;
}

static void
scale_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	void *x = net_out(net, i - 1), *f = net_out(net, l->u.scale.src), *y = net_out(net, i);
	void *pre = net_at(net, net->plan.slot[i].pre), *u = pre ? pre : y;
	struct plane_shape s = planes(net, l);

	if (l->type == L_SAM)
		o->sam(net->dev, (int)net_floats(net, i), x, f, u);
	else
		o->scale(net->dev, &s, x, f, u);
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
	struct head_shape shape = { net_rows(net, l), l->type == L_YOLO ? d->nmask : d->num,
		d->classes, d->scale_x_y, d->new_coords, d->softmax };

	if (s->raw != NONE)
		net->dev->store->widen(net->dev, (int)net_floats(net, i),
		    net_at(net, conv->pre != NONE ? conv->pre : conv->out),
		    (float *)net_at(net, s->raw));
	if (s->root != i)	/* loss and decoder take the convolution's values */
		return;
	if (l->type == L_YOLO)
		net->dev->layer->yolo(net->dev, &shape, x, net_out(net, i));
	else
		net->dev->layer->region(net->dev, &shape, x, net_out(net, i));
}

static struct stride_shape
strides(const struct net *net, const struct layer *l)
{
	struct stride_shape s = { net->n, l->in_h, l->in_w, l->in_c, l->u.stride.stride,
		l->u.stride.reverse, l->u.stride.scale };

	return s;
}

static struct dropout
dropout(const struct net *net, int i)
{
	struct dropout d = { net->cfg->l[i].u.dropout.p, net_dropout_key(net, i),
		net_dropout_first(net, i) };

	return d;
}

static void
layer_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	const void *x = net_out(net, i - 1);
	void *y = net_out(net, i);
	int own = net->plan.slot[i].root == i;
	struct stride_shape z = strides(net, l);

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
	case L_UPSAMPLE: o->upsample(net->dev, &z, x, y); break;
	case L_REORG: o->reorg(net->dev, &z, x, y); break;
	case L_REORG3D: o->reorg3d(net->dev, &z, x, y); break;
	case L_AVGPOOL: {
		struct plane_shape s = planes(net, l);

		o->avgpool(net->dev, &s, x, y);
		break;
	}
	case L_DROPOUT:
		if (own) {
			struct dropout drop = dropout(net, i);

			o->dropout(net->dev, (int)net_floats(net, i), &drop, x, y);
		}
		break;
	case L_NONE: break;
	}
}

void
net_layers(struct net *net, int first)
{
	double t = net_lap(net, 0, -1, 0);

	for (int i = first; i < net->cfg->nl; i++) {
		layer_forward(net, i);
		if (net->after)
			net->after(net->after_arg, i);
		t = net_lap(net, t, i, LAP_FORWARD);
	}
}

void
net_forward(struct net *net, const float *x, int n, int n_global, uint64_t t0)
{
	const struct layer *l0 = &net->cfg->l[0];
	size_t floats = (size_t)n * (size_t)l0->in_h * (size_t)l0->in_w * (size_t)l0->in_c;
	void *host = net_at(net, net->plan.host_input);

	net->n = n;
	net->n_global = n_global;
	net->t0 = t0;
	net->dev->ops->put(net->dev, host ? host : net->input, x, sizeof *x * floats);
	if (host)
		net->dev->store->narrow(net->dev, (int)floats, (float *)host, net->input);
	net_layers(net, 0);
}

/* The backward walk: gradients of parameters and activations.
 *
 * Every gradient tensor has a first writer and later adders (have[] says which), so gradients of a
 * tensor with several readers add, as the chain rule wants, also through a residual block that
 * begins with a 1x1 convolution.  Gradients of finished buckets are handed out while the walk goes
 * on. */

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
	int c = l->c;
	void *y = net_at(net, net->plan.slot[i].pre);
	float *sums = net_merge_area(net);
	struct bn n = { .rows = net_rows(net, l), .c = c, .act = l->u.conv.act,
		.gamma = net_param(net, net->train, i, P_GAMMA),
		.beta = net_param(net, net->train, i, P_BIAS), .dgamma = sums, .dbeta = sums + c };

	set_moments(net, i, &n);
	b->back_sums(net->dev, &n, y, dz, net->ws);
	/* The parameters' own gradients stay local: the all-reduce of the buckets adds them. */
	net->dev->store->add(net->dev, c, sums, net_param(net, net->grad, i, P_GAMMA));
	net->dev->store->add(net->dev, c, sums + c, net_param(net, net->grad, i, P_BIAS));
	if (net_synced(net))
		sum_ranks(net, sums, c);
	b->back_apply(net->dev, &n, y, dz, net->ws);
}

static void
conv_backward(struct net *net, int i, void *dz)
{
	const struct layer *l = &net->cfg->l[i];
	const struct conv_ops *o = net->dev->conv;
	struct conv_shape s = netplan_conv(l, net->n);
	struct bn b = { .rows = net_rows(net, l), .c = l->c,
		.act = before_head(net, i) ? ACT_LINEAR : l->u.conv.act,
		.dbeta = net_param(net, net->grad, i, P_BIAS) };
	void *u = net_at(net, net->plan.slot[i].pre), *dx;
	double t = net_lap(net, 0, -1, 0);
	int add = 0;

	if (l->u.conv.bn)
		conv_bn_backward(net, i, dz);
	else
		net->dev->bn->bias_act_back(net->dev, &b, u ? u : net_out(net, i), dz, net->ws);
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
		    net_at(net, net->plan.slot[i].pre), dy);
	for (int k = 0; k < d->n; k++) {
		int c = net->cfg->l[d->src[k]].c, part = l->type == L_ROUTE ? c / d->groups :
		    c < l->c ? c : l->c;

		if ((dx = contribute(net, d->src[k], part == c, &add))) {
			struct slice s = { rows, part, dy, l->c, from, dx, c,
				l->type == L_ROUTE ? part * d->group_id : 0 };

			o->slice(net->dev, &s, add);
		}
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
	struct plane_shape s = planes(net, l);
	int addx = 0, addf = 0;
	void *dx = contribute(net, i - 1, 1, &addx);
	void *df = contribute(net, l->u.scale.src, 1, &addf);

	if (l->u.scale.act != ACT_LINEAR)
		o->activate_back(net->dev, (int)net_floats(net, i), l->u.scale.act,
		    net_at(net, net->plan.slot[i].pre), dy);
	if (df && l->type == L_SAM)
		o->sam_back(net->dev, (int)net_floats(net, i), x, dy, df, addf);
	else if (df)
		o->scale_back_f(net->dev, &s, x, dy, df, addf);
	if (dx && l->type == L_SAM)
		o->sam_back(net->dev, (int)net_floats(net, i), f, dy, dx, addx);
	else if (dx)
		o->scale_back_x(net->dev, &s, f, dy, dx, addx);
}

/* Layers of one input without parameters. */
static void
plain_backward(struct net *net, int i, const void *dy)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	struct stride_shape z = strides(net, l);
	int add = 0;
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
	case L_UPSAMPLE: o->upsample_back(net->dev, &z, dy, dx, add); break;
	case L_REORG: o->reorg_back(net->dev, &z, dy, dx, add); break;
	case L_REORG3D: o->reorg3d_back(net->dev, &z, dy, dx, add); break;
	case L_AVGPOOL: {
		struct plane_shape s = planes(net, l);

		o->avgpool_back(net->dev, &s, dy, dx, add);
		break;
	}
	case L_DROPOUT: {
		struct dropout drop = dropout(net, i);

		o->dropout_back(net->dev, (int)net_floats(net, i), &drop, dy, dx, add);
		break;
	}
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
