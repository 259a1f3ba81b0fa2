/* netview.c -- who finds what where in a network: tensors, parameters, counts.
 *
 * A layer of index -1 is the input.  Pointers are the device's, into the arena that netplan.c laid
 * out, and hold until the buffer is used again. */
#include "net/net.h"

void *
net_at(const struct net *net, size_t off)
{
	return off == NONE ? NULL : net->arena + off;
}

void *
net_out(struct net *net, int i)
{
	return i < 0 ? net->input : net_at(net, net->plan.slot[i].out);
}

/* The gradient of layer i's output; NULL where nothing wants it. */
void *
net_grad(struct net *net, int i)
{
	return i < 0 ? NULL : net_at(net, net->plan.slot[i].grad);
}

float *
net_head_raw(struct net *net, int h)
{
	const struct slot *s = &net->plan.slot[net->head[h] - 1];
	size_t wide = net->plan.slot[net->head[h]].raw;

	return (float *)net_at(net, wide != NONE ? wide : s->pre != NONE ? s->pre : s->out);
}

float *
net_head_grad(struct net *net, int h)
{
	size_t wide = net->plan.slot[net->head[h]].raw_grad;

	return (float *)(wide != NONE ? net_at(net, wide) : net_grad(net, net->head[h] - 1));
}

float *
net_param(struct net *net, float *base, int layer, enum param_kind kind)
{
	const struct param *p = params_find(&net->par, layer, kind);

	return p ? base + p->off : NULL;
}

size_t
net_floats(const struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];

	return (size_t)net->n * (size_t)l->h * (size_t)l->w * (size_t)l->c;
}

int
net_rows(const struct net *net, const struct layer *l)
{
	return net->n * l->h * l->w;
}

uint64_t
net_dropout_key(const struct net *net, int i)
{
	return net->opt.seed * 0x9E3779B97F4A7C15u + (uint64_t)i;
}

uint64_t
net_dropout_first(const struct net *net, int i)
{
	const struct layer *l = &net->cfg->l[i];

	return net->t0 * ((uint64_t)l->h * (uint64_t)l->w * (uint64_t)l->c);
}

/* Time of one step of the walk, added to its cell, when a benchmark asks for it. */
double
net_lap(struct net *net, double since, int i, int what)
{
	double t;

	if (!net->time)
		return 0;
	net->dev->ops->sync(net->dev);
	t = now();
	if (i >= 0)
		net->time[NET_LAPS * i + what] += t - since;
	return t;
}
