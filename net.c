/* net.c -- a network on a device: parameters, forward and backward walk.
 *
 * Parameters, gradients and statistics are one allocation each, in the flat layout of weights.c;
 * activations live in one arena laid out by netplan.c.  In backward every gradient tensor has a
 * first writer and later adders (have[] says which): gradients of a tensor with several readers
 * add, as the chain rule wants, also through a residual block that begins with a 1x1 convolution.
 *
 * With several ranks the batch statistics of each layer are merged over all of them when syncbn is
 * set (count, mean, squared deviations: Chan's update), and gradients of finished buckets are
 * handed out while backward goes on. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static float *
at(const struct net *net, size_t off)
{
	return off == NONE ? NULL : (float *)(net->arena + off);
}

float *
net_out(struct net *net, int i)
{
	return i < 0 ? net->input : at(net, net->plan.slot[i].out);
}

/* The gradient of layer i's output; NULL where nothing wants it. */
static float *
grad_of(struct net *net, int i)
{
	return i < 0 ? NULL : at(net, net->plan.slot[i].grad);
}

float *
net_head_raw(struct net *net, int h)
{
	const struct slot *s = &net->plan.slot[net->head[h] - 1];

	return at(net, s->pre != NONE ? s->pre : s->out);
}

float *
net_head_grad(struct net *net, int h)
{
	return grad_of(net, net->head[h] - 1);
}

static float *
param(struct net *net, float *base, int layer, enum param_kind kind)
{
	const struct param *p = params_find(&net->par, layer, kind);

	return p ? base + p->off : NULL;
}

static size_t
outputs(const struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];

	return (size_t)net->n * (size_t)l->h * (size_t)l->w * (size_t)l->c;
}

/* Does a detection head follow, whose loss takes the values before the activation? */
static int
before_head(const struct net *net, int i)
{
	return i + 1 < net->cfg->nl && (net->cfg->l[i + 1].type == L_YOLO ||
	    net->cfg->l[i + 1].type == L_REGION);
}

/* ---- batch-norm over ranks ---------------------------------------------------------------- */

struct moments { float *mean, *m2; float count; };

static float *
merge_area(struct net *net)
{
	size_t off = 0;

	for (int i = 0; i < net->cfg->nl; i++)
		if (net->cfg->l[i].type == L_CONV && net->cfg->l[i].u.conv.bn)
			off += 2 * (size_t)net->cfg->l[i].c;
	return net->bn + off;
}

static struct moments
moments_of(struct net *net, int layer)
{
	const struct layer *l = &net->cfg->l[layer];
	int synced = net->opt.syncbn && net->opt.sync && net->opt.sync->size > 1;
	struct moments m;
	size_t off = 0;

	for (int i = 0; i < layer; i++)
		if (net->cfg->l[i].type == L_CONV && net->cfg->l[i].u.conv.bn)
			off += 2 * (size_t)net->cfg->l[i].c;
	m.mean = net->bn + off;
	m.m2 = m.mean + l->c;
	m.count = (float)l->h * l->w * (synced ? net->n_global : net->n);
	return m;
}

/* All ranks' (count, mean, m2) side by side, by a sum in which each fills its own place; then one
 * merge in rank order, the same on every rank. */
static void
merge_ranks(struct net *net, const struct layer *l, struct moments *m)
{
	const struct dev_ops *o = net->dev->ops;
	struct sync *s = net->opt.sync;
	size_t each = 2 * (size_t)l->c + 1;
	float *area = merge_area(net), *mine = area + each * (size_t)s->rank;
	float count = (float)net->n * l->h * l->w;

	o->zero(net->dev, area, each * (size_t)(s->size + 1) * sizeof *area);
	o->put(net->dev, mine, &count, sizeof count);
	o->copy(net->dev, mine + 1, m->mean, (size_t)l->c * sizeof *mine);
	o->copy(net->dev, mine + 1 + l->c, m->m2, (size_t)l->c * sizeof *mine);
	if (s->ops->sum(s, area, each * (size_t)s->size))
		sync_fail(s, "batch statistics were not exchanged");
	net->dev->conv->bn_merge(net->dev, area, s->size, l->c, area + each * (size_t)s->size);
	o->copy(net->dev, m->mean, area + each * (size_t)s->size + 1, 2 * (size_t)l->c * sizeof *mine);
}

/* Sums for the backward pass over all ranks: [dgamma | dbeta] of one layer. */
static void
sum_ranks(struct net *net, float *sums, int c)
{
	struct sync *s = net->opt.sync;

	if (s->ops->sum(s, sums, 2 * (size_t)c))
		sync_fail(s, "batch-norm gradients were not exchanged");
}

/* ---- forward ------------------------------------------------------------------------------ */

static void
conv_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct conv_ops *o = net->dev->conv;
	struct conv_shape s = netplan_conv(l, net->n);
	float *z = net_out(net, i), *pre = at(net, net->plan.slot[i].pre);
	float *u = pre ? pre : z, *w = param(net, net->train, i, P_WEIGHT);
	float *beta = param(net, net->train, i, P_BIAS);
	int rows = s.n * s.oh * s.ow;
	struct moments m;

	o->forward(net->dev, &s, net_out(net, i - 1), w, u, net->ws);
	if (!l->u.conv.bn || !net->opt.train) {
		o->bias_act(net->dev, u, rows, s.k, beta, l->u.conv.act, z);
		return;
	}
	m = moments_of(net, i);
	o->bn_moments(net->dev, u, rows, s.k, m.mean, m.m2, net->ws);
	if (net->opt.syncbn && net->opt.sync && net->opt.sync->size > 1)
		merge_ranks(net, l, &m);
	o->bn_running(net->dev, s.k, m.mean, m.m2, m.count, net->opt.bn_momentum,
	    param(net, net->stat, i, P_MEAN), param(net, net->stat, i, P_VAR));
	o->bn_apply(net->dev, u, rows, s.k, m.mean, m.m2, m.count,
	    param(net, net->train, i, P_GAMMA), beta, l->u.conv.act, z);
}

static int
plane(const struct net *net, const struct layer *l)
{
	return net->n * l->h * l->w;
}

static void
join_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct def_join *d = &l->u.join;
	int rows = plane(net, l), to = 0;
	float *y = net_out(net, i), *pre = at(net, net->plan.slot[i].pre);

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
		net->dev->layer->accumulate(net->dev, (int)outputs(net, i), net_out(net, i - 1),
		    pre ? pre : y, 0);
	for (int k = 0; k < d->n; k++) {
		int c = net->cfg->l[d->src[k]].c;

		net->dev->layer->slice(net->dev, rows, c < l->c ? c : l->c, net_out(net, d->src[k]), c, 0,
		    pre ? pre : y, l->c, 0, 1);
	}
	if (pre || d->act != ACT_LINEAR)
		net->dev->layer->activate(net->dev, (int)outputs(net, i), d->act, pre ? pre : y, y);
}

static void
scale_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	float *x = net_out(net, i - 1), *f = net_out(net, l->u.scale.src), *y = net_out(net, i);
	float *pre = at(net, net->plan.slot[i].pre), *u = pre ? pre : y;

	if (l->type == L_SAM)
		o->sam(net->dev, (int)outputs(net, i), x, f, u);
	else
		o->scale(net->dev, net->n, l->h * l->w, l->c, l->u.scale.wh, x, f, u);
	if (l->u.scale.act != ACT_LINEAR)
		o->activate(net->dev, (int)outputs(net, i), l->u.scale.act, u, y);
}

static void
head_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct def_yolo *d = &l->u.yolo;
	const float *x = net_out(net, i - 1);

	if (net->opt.train)		/* the loss takes the raw values */
		return;
	if (l->type == L_YOLO)
		net->dev->layer->yolo(net->dev, plane(net, l), d->nmask, d->classes, d->scale_x_y,
		    d->new_coords, x, net_out(net, i));
	else
		net->dev->layer->region(net->dev, plane(net, l), d->num, d->classes, d->softmax, x,
		    net_out(net, i));
}

static uint64_t
dropout_key(const struct net *net, int i)
{
	return net->opt.seed * 0x9E3779B97F4A7C15u + (uint64_t)i;
}

static void
layer_forward(struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	const float *x = net_out(net, i - 1);
	float *y = net_out(net, i);
	int own = net->plan.slot[i].root == i;

	switch (l->type) {
	case L_CONV: conv_forward(net, i); break;
	case L_SHORTCUT: join_forward(net, i); break;
	case L_ROUTE: if (own) join_forward(net, i); break;
	case L_SCALE: case L_SAM: scale_forward(net, i); break;
	case L_YOLO: case L_REGION: head_forward(net, i); break;
	case L_MAXPOOL: {
		struct pool_shape s = netplan_pool(l, net->n);

		o->maxpool(net->dev, &s, x, y, (unsigned char *)at(net, net->plan.slot[i].tap));
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
			o->dropout(net->dev, (int)outputs(net, i), l->u.dropout.p, dropout_key(net, i),
			    net->t0 * (outputs(net, i) / (size_t)net->n), x, y);
		break;
	case L_NONE: break;
	}
}

/* Time of one step of the walk, added to its cell, when a benchmark asks for it. */
static double
lap(struct net *net, double since, int i, int what)
{
	double t;

	if (!net->time)
		return 0;
	net->dev->ops->sync(net->dev);
	t = now();
	if (i >= 0)
		net->time[3 * i + what] += t - since;
	return t;
}

void
net_forward(struct net *net, const float *x, int n, int n_global, uint64_t t0)
{
	const struct layer *l0 = &net->cfg->l[0];
	double t;

	net->n = n;
	net->n_global = n_global;
	net->t0 = t0;
	net->dev->ops->put(net->dev, net->input, x, sizeof *x * (size_t)n * (size_t)l0->in_h *
	    (size_t)l0->in_w * (size_t)l0->in_c);
	t = lap(net, 0, -1, 0);
	for (int i = 0; i < net->cfg->nl; i++) {
		layer_forward(net, i);
		t = lap(net, t, i, 0);
	}
}

/* ---- backward ----------------------------------------------------------------------------- */

/* The gradient of layer i's output, about to get n_part of its c channels: *add says whether to
 * write or to add.  NULL: nobody below wants it. */
static float *
contribute(struct net *net, int i, int whole, int *add)
{
	int r = i < 0 ? -1 : net->plan.slot[i].root;
	float *g = grad_of(net, r);

	if (!g || r < net->plan.stop)
		return NULL;
	*add = net->have[r];
	if (!*add && !whole) {		/* only a slice comes now; the rest must be 0 */
		net->dev->ops->zero(net->dev, g, outputs(net, r) * sizeof *g);
		*add = 1;
	}
	net->have[r] = 1;
	return g;
}

static void
conv_bn_backward(struct net *net, int i, float *dz)
{
	const struct layer *l = &net->cfg->l[i];
	const struct conv_ops *o = net->dev->conv;
	int rows = plane(net, l), c = l->c, ranks;
	float *y = at(net, net->plan.slot[i].pre), *sums = merge_area(net);
	float *gamma = param(net, net->train, i, P_GAMMA), *beta = param(net, net->train, i, P_BIAS);
	struct moments m = moments_of(net, i);

	ranks = net->opt.syncbn && net->opt.sync ? net->opt.sync->size : 1;
	o->bn_back_sums(net->dev, y, dz, rows, c, m.mean, m.m2, m.count, gamma, beta, l->u.conv.act,
	    sums, sums + c, net->ws);
	/* The parameters' own gradients stay local: the all-reduce of the buckets adds them. */
	net->dev->layer->accumulate(net->dev, c, sums, param(net, net->grad, i, P_GAMMA), 1);
	net->dev->layer->accumulate(net->dev, c, sums + c, param(net, net->grad, i, P_BIAS), 1);
	if (ranks > 1)
		sum_ranks(net, sums, c);
	o->bn_back_apply(net->dev, y, dz, rows, c, m.mean, m.m2, m.count, gamma, beta, l->u.conv.act,
	    sums, sums + c);
}

static void
conv_backward(struct net *net, int i, float *dz)
{
	const struct layer *l = &net->cfg->l[i];
	const struct conv_ops *o = net->dev->conv;
	struct conv_shape s = netplan_conv(l, net->n);
	float *u = at(net, net->plan.slot[i].pre), *dx;
	double t = lap(net, 0, -1, 0);
	int add = 0;

	if (l->u.conv.bn)
		conv_bn_backward(net, i, dz);
	else
		o->bias_act_back(net->dev, u ? u : net_out(net, i), dz, plane(net, l), l->c,
		    before_head(net, i) ? ACT_LINEAR : l->u.conv.act, param(net, net->grad, i, P_BIAS),
		    net->ws);
	t = lap(net, t, i, 0);
	o->wgrad(net->dev, &s, net_out(net, i - 1), dz, param(net, net->grad, i, P_WEIGHT), net->ws);
	t = lap(net, t, i, 2);
	if ((dx = contribute(net, i - 1, 1, &add)))
		o->dgrad(net->dev, &s, dz, param(net, net->train, i, P_WEIGHT), dx, add, net->ws);
	lap(net, t, i, 1);
}

static void
join_backward(struct net *net, int i, float *dy)
{
	const struct layer *l = &net->cfg->l[i];
	const struct def_join *d = &l->u.join;
	const struct layer_ops *o = net->dev->layer;
	int rows = plane(net, l), from = 0, add = 0, shared = net->plan.slot[i].root != i;
	float *dx;

	if (l->type == L_SHORTCUT && d->act != ACT_LINEAR)
		o->activate_back(net->dev, (int)outputs(net, i), d->act, at(net, net->plan.slot[i].pre),
		    dy, dy, 0);
	for (int k = 0; k < d->n; k++) {
		int c = net->cfg->l[d->src[k]].c, part = l->type == L_ROUTE ? c / d->groups :
		    c < l->c ? c : l->c;

		if ((dx = contribute(net, d->src[k], part == c, &add)))
			o->slice(net->dev, rows, part, dy, l->c, from, dx, c,
			    l->type == L_ROUTE ? part * d->group_id : 0, add);
		from += l->type == L_ROUTE ? part : 0;
	}
	if (l->type == L_SHORTCUT && !shared && (dx = contribute(net, i - 1, 1, &add)))
		o->accumulate(net->dev, (int)outputs(net, i), dy, dx, add);
}

static void
scale_backward(struct net *net, int i, float *dy)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	const float *x = net_out(net, i - 1), *f = net_out(net, l->u.scale.src);
	int addx = 0, addf = 0;
	float *dx = contribute(net, i - 1, 1, &addx), *df = contribute(net, l->u.scale.src, 1, &addf);

	if (l->u.scale.act != ACT_LINEAR)
		o->activate_back(net->dev, (int)outputs(net, i), l->u.scale.act,
		    at(net, net->plan.slot[i].pre), dy, dy, 0);
	if (l->type == L_SAM)
		o->sam_back(net->dev, (int)outputs(net, i), x, f, dy, dx, addx, df, addf);
	else
		o->scale_back(net->dev, net->n, l->h * l->w, l->c, l->u.scale.wh, x, f, dy, dx, addx, df,
		    addf);
}

/* Layers of one input without parameters. */
static void
plain_backward(struct net *net, int i, const float *dy)
{
	const struct layer *l = &net->cfg->l[i];
	const struct layer_ops *o = net->dev->layer;
	int add = 0, s = l->u.stride.stride;
	float *dx = contribute(net, i - 1, 1, &add);

	if (!dx)
		return;
	switch (l->type) {
	case L_MAXPOOL: {
		struct pool_shape p = netplan_pool(l, net->n);

		o->maxpool_back(net->dev, &p, dy, (unsigned char *)at(net, net->plan.slot[i].tap), dx, add);
		break;
	}
	case L_UPSAMPLE:
		o->upsample_back(net->dev, net->n, l->in_h, l->in_w, l->c, s, l->u.stride.scale, dy, dx,
		    add);
		break;
	case L_REORG:
		o->reorg_back(net->dev, net->n, l->in_h, l->in_w, l->in_c, s, l->u.stride.reverse, dy, dx,
		    add);
		break;
	case L_REORG3D:
		o->reorg3d_back(net->dev, net->n, l->in_h, l->in_w, l->in_c, s, dy, dx, add);
		break;
	case L_AVGPOOL: o->avgpool_back(net->dev, net->n, l->in_h * l->in_w, l->c, dy, dx, add); break;
	case L_DROPOUT:
		o->dropout_back(net->dev, (int)outputs(net, i), l->u.dropout.p, dropout_key(net, i),
		    net->t0 * (outputs(net, i) / (size_t)net->n), dy, dx, add);
		break;
	default: break;
	}
}

static void
layer_backward(struct net *net, int i)
{
	enum layer_type type = net->cfg->l[i].type;
	int own = net->plan.slot[i].root == i;
	float *dy = grad_of(net, net->plan.slot[i].root);

	if (!dy || !net->have[net->plan.slot[i].root] || (!own && type != L_SHORTCUT))
		return;
	switch (type) {
	case L_CONV: conv_backward(net, i, dy); break;
	case L_ROUTE: case L_SHORTCUT: join_backward(net, i, dy); break;
	case L_SCALE: case L_SAM: scale_backward(net, i, dy); break;
	default: plain_backward(net, i, dy); break;
	}
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
	for (int h = 0; h < net->nhead; h++)
		net->have[net->plan.slot[net->head[h] - 1].root] = 1;
	net->bucket_end = net->par.nweight;
	for (int i = net->cfg->nl - 1; i >= net->plan.stop; i--) {
		const struct param *p = params_find(&net->par, i, P_WEIGHT);

		layer_backward(net, i);
		if (p)
			hand_out(net, p->off, 0);
	}
	hand_out(net, 0, 1);
}

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
		return err_set(e, "%s: out of memory on %s: %.0f MB wanted (-O plan=1 shows for what)",
		    net->cfg->path, d->name, net->bytes.total / 1e6);
	d->ops->zero(d, net->train, p->ntrain * sizeof(float));
	d->ops->zero(d, net->stat, (p->nstat + 1) * sizeof(float));
	net->input = at(net, net->plan.input);
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

int
net_resize(struct net *net, int w, int h, struct err *e)
{
	if ((size_t)w > net->max_w || (size_t)h > net->max_h)
		return err_set(e, "%s: size %dx%d is larger than the planned %zux%zu", net->cfg->path, w, h,
		    net->max_w, net->max_h);
	return cfg_resize(net->cfg, w, h, e);
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
		float *beta = param(net, net->train, i, P_BIAS);

		if (l->type == L_CONV && d->bn)
			net->dev->conv->bn_fold(net->dev, param(net, net->train, i, P_WEIGHT),
			    d->size * d->size * (l->in_c / d->groups), d->k, param(net, net->train, i, P_GAMMA),
			    beta, param(net, net->stat, i, P_MEAN), param(net, net->stat, i, P_VAR), beta);
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
