/* netplan.c -- which tensor of a network lies where, and for how long.
 *
 * Time runs forward through the layers (layer i at i), then backward (layer i at 2L - i).  Every
 * tensor is alive from the step that writes it to the last step that reads it; the planner places
 * them, largest first, at the lowest offset where no living neighbour is.  In bfloat16 the input
 * comes as float at -1, and heads are widened for the loss from layer to L.  Layers that change
 * nothing share the buffers of the layer they repeat: a route of one source, a yolo layer (its loss
 * or decoder takes the convolution's values), a dropout in inference, and a linear shortcut whose
 * input nobody else reads, which adds into it in place.  The layer that owns the buffers is the
 * root.
 *
 * The plan is made for the largest input; a smaller one uses the same offsets, since no tensor
 * grows. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "net/net.h"

struct tensor {
	size_t bytes, off;
	int first, last;
	size_t *where;			/* the plan's field that gets the offset */
};
struct planner {
	const struct cfg *c;
	const struct net_opts *o;
	struct net_plan *p;
	struct tensor *t;
	int nt, store;			/* store: bytes of a number of an activation */
	int *users;			/* per root: how many layers read it */
	int *last_fwd, *last_bwd;	/* per root: last reader of the values, in time */
	int *first_grad;	/* per root: first writer of the gradient, in time; -1 none */
};

struct conv_shape
netplan_conv(const struct layer *l, int n)
{
	const struct def_conv *d = &l->u.conv;
	struct conv_shape s = { .n = n, .h = l->in_h, .w = l->in_w, .c = l->in_c, .oh = l->h,
		.ow = l->w, .k = d->k, .size = d->size, .stride_y = d->stride_y,
		.stride_x = d->stride_x, .pad = d->pad, .dilation = d->dilation,
		.groups = d->groups };

	return s;
}

struct pool_shape
netplan_pool(const struct layer *l, int n)
{
	const struct def_pool *d = &l->u.pool;
	struct pool_shape s = { .n = n, .h = l->in_h, .w = l->in_w, .c = l->in_c, .oh = l->h,
		.ow = l->w, .size = d->size, .stride_y = d->stride_y, .stride_x = d->stride_x,
		.pad_y = d->padding / 2, .pad_x = d->padding / 2 };

	return s;
}

/* The layers whose outputs layer i reads; -1 stands for the network's input. */
static int
sources(const struct cfg *c, int i, int src[LAYER_SRC + 1])
{
	const struct layer *l = &c->l[i];
	int n = 0;

	if (l->type != L_ROUTE)
		src[n++] = i - 1;
	if (l->type == L_ROUTE || l->type == L_SHORTCUT)
		for (int k = 0; k < l->u.join.n; k++)
			src[n++] = l->u.join.src[k];
	if (l->type == L_SCALE || l->type == L_SAM)
		src[n++] = l->u.scale.src;
	return n;
}

static int
is_head(const struct cfg *c, int i)
{
	return i < c->nl && (c->l[i].type == L_YOLO || c->l[i].type == L_REGION);
}

/* Does the backward pass of layer i read the values of its inputs? */
static int
needs_input(const struct layer *l)
{
	return l->type == L_CONV || l->type == L_SCALE || l->type == L_SAM;
}

/* Does layer i keep a value before its activation or batch-norm apart from its output? */
static int
has_pre(const struct planner *q, int i)
{
	const struct layer *l = &q->c->l[i];

	switch (l->type) {
	case L_CONV:
		if (!q->o->train)
			return l->u.conv.act != ACT_LINEAR && is_head(q->c, i + 1) && q->o->keep;
		return l->u.conv.bn || l->u.conv.act != ACT_LINEAR;
	case L_SHORTCUT: return q->o->train && l->u.join.act != ACT_LINEAR;
	case L_SCALE: case L_SAM: return q->o->train && l->u.scale.act != ACT_LINEAR;
	default: return 0;
	}
}

static void
count_users(struct planner *q)
{
	int src[LAYER_SRC + 1];

	for (int i = 0; i < q->c->nl; i++)
		for (int k = sources(q->c, i, src); k-- > 0;)
			if (src[k] >= 0)
				q->users[src[k]]++;
}

/* The layer that layer i repeats, or -1.  Roots of earlier layers are known. */
static int
repeats(const struct planner *q, int i)
{
	const struct layer *l = &q->c->l[i];
	int prev = i - 1;

	if (l->type == L_ROUTE && l->u.join.n == 1 && l->u.join.groups == 1)
		return l->u.join.src[0];
	if ((l->type == L_YOLO || l->type == L_REGION) && (q->o->train || !q->o->keep))
		return prev;
	if (l->type == L_DROPOUT && (!q->o->train || l->u.dropout.p == 0))
		return prev;
	if (l->type == L_NONE)
		return prev;
	/* In place: the convolution before does not look at its output again. */
	if (l->type == L_SHORTCUT && l->u.join.act == ACT_LINEAR && !q->o->keep && prev >= 0 &&
	    q->users[prev] == 1 && q->p->slot[prev].root == prev && q->c->l[prev].type == L_CONV &&
	    l->u.join.src[0] != prev)
		return prev;
	return -1;
}

static void
find_roots(struct planner *q)
{
	count_users(q);
	for (int i = 0; i < q->c->nl; i++) {
		int r = repeats(q, i);

		q->p->slot[i].root = r < 0 ? i : q->p->slot[r].root;
	}
}

static int
later(int a, int b)
{
	return a > b ? a : b;
}

/* When values and gradients of each root are first and last touched. */
static void
lifetimes(struct planner *q)
{
	int L = q->c->nl, src[LAYER_SRC + 1];

	for (int i = 0; i < L; i++)
		q->last_fwd[i] = q->last_bwd[i] = q->first_grad[i] = -1;
	for (int i = 0; i < L; i++) {
		const struct layer *l = &q->c->l[i];
		int r = q->p->slot[i].root;

		q->last_fwd[r] = later(q->last_fwd[r], q->o->keep ? 2 * L + 1 : i);
		if (is_head(q->c, i) && q->store == 4)	/* read at the end, by loss or decoder */
			q->last_fwd[r] = later(q->last_fwd[r], L);
		if (is_head(q->c, i) && q->o->train)
			q->first_grad[q->p->slot[i - 1].root] = L;
		for (int k = sources(q->c, i, src); k-- > 0;) {
			int s = src[k] < 0 ? -1 : q->p->slot[src[k]].root;

			if (s < 0)
				continue;
			q->last_fwd[s] = later(q->last_fwd[s], i);
			if (needs_input(l))
				q->last_bwd[s] = later(q->last_bwd[s], 2 * L - i);
			if (r != s && (q->first_grad[s] < 0 || 2 * L - i < q->first_grad[s]))
				q->first_grad[s] = 2 * L - i;
		}
	}
}

static void
add(struct planner *q, size_t bytes, int first, int last, size_t *where)
{
	struct tensor *t = &q->t[q->nt++];

	t->bytes = (bytes + 255) / 256 * 256;
	t->first = first;
	t->last = last;
	t->where = where;
}

/* Room for the step of a CUDA grid past the end: 65535 blocks of 256 threads (dev.h). */
enum { MOST = INT_MAX - (1 << 24) };

static int
too_large(const struct layer *l, int batch)
{
	return (double)batch * l->h * l->w * l->c > MOST ||
	    (double)batch * l->in_h * l->in_w * l->in_c > MOST;
}

static int
list_tensors(struct planner *q, struct err *e)
{
	int L = q->c->nl, end = 2 * L + 1;
	const struct layer *l0 = &q->c->l[0];
	size_t in = (size_t)q->o->batch * l0->in_h * l0->in_w * l0->in_c;
	size_t each = (size_t)q->store;

	q->p->host_input = NONE;
	if (q->store < 4)
		add(q, in * sizeof(float), -1, -1, &q->p->host_input);
	add(q, in * each, -1, q->o->train || q->o->keep ? end : 0, &q->p->input);
	for (int i = 0; i < L; i++) {
		const struct layer *l = &q->c->l[i];
		struct slot *s = &q->p->slot[i];
		size_t n = (size_t)q->o->batch * l->h * l->w * l->c;
		int last = q->o->train ? later(q->last_fwd[i], q->last_bwd[i]) : q->last_fwd[i];

		s->out = s->pre = s->tap = s->grad = s->raw = s->raw_grad = NONE;
		if (too_large(l, q->o->batch))
			return err_set(e,
			    "%s:%d: a tensor of more than %d numbers; a smaller batch or size is "
			    "needed", q->c->path, l->line, MOST);
		if (q->store < 4 && is_head(q->c, i)) {
			add(q, n * sizeof(float), i, L, &s->raw);
			if (q->o->train)
				add(q, n * sizeof(float), L, L, &s->raw_grad);
		}
		if (s->root != i)
			continue;
		add(q, n * each, i, last, &s->out);
		if (has_pre(q, i))
			add(q, n * each, i, q->o->train ? 2 * L - i : i, &s->pre);
		if (l->type == L_MAXPOOL && q->o->train)
			add(q, n, i, 2 * L - i, &s->tap);
		if (q->o->train && q->first_grad[i] >= 0)
			add(q, n * each, q->first_grad[i], 2 * L - i, &s->grad);
	}
	return 0;
}

static int
by_bytes(const void *a, const void *b)
{
	const struct tensor *s = (const struct tensor *)a, *t = (const struct tensor *)b;

	if (s->bytes != t->bytes)
		return s->bytes < t->bytes ? 1 : -1;
	return s->where < t->where ? -1 : 1;
}

static int
by_off(const void *a, const void *b)
{
	const struct tensor *s = *(const struct tensor *const *)a;
	const struct tensor *t = *(const struct tensor *const *)b;

	return (s->off > t->off) - (s->off < t->off);
}

/* Largest first, each at the lowest offset free for its whole life. */
static size_t
place(struct planner *q)
{
	const struct tensor **busy = (const struct tensor **)xcalloc((size_t)q->nt, sizeof *busy);
	size_t top = 0;

	qsort(q->t, (size_t)q->nt, sizeof *q->t, by_bytes);
	for (int i = 0; i < q->nt; i++) {
		struct tensor *t = &q->t[i];
		size_t at = 0;
		int n = 0;

		for (int j = 0; j < i; j++)
			if (q->t[j].first <= t->last && t->first <= q->t[j].last)
				busy[n++] = &q->t[j];
		qsort(busy, (size_t)n, sizeof *busy, by_off);
		for (int j = 0; j < n; j++) {
			if (at + t->bytes <= busy[j]->off)
				break;
			if (busy[j]->off + busy[j]->bytes > at)
				at = busy[j]->off + busy[j]->bytes;
		}
		t->off = at;
		*t->where = at;
		if (at + t->bytes > top)
			top = at + t->bytes;
	}
	free(busy);
	return top;
}

static void
share(struct planner *q)
{
	for (int i = 0; i < q->c->nl; i++) {
		struct slot *s = &q->p->slot[i], *r = &q->p->slot[s->root];

		if (s->root == i)
			continue;
		s->out = r->out;
		s->grad = r->grad;
	}
}

size_t
netplan_workspace(const struct cfg *c, struct dev *d, const struct net_opts *o)
{
	size_t most = 0;

	for (int i = 0; i < c->nl; i++) {
		struct conv_shape s;
		size_t ws;

		if (c->l[i].type != L_CONV)
			continue;
		s = netplan_conv(&c->l[i], o->batch);
		ws = d->conv->workspace(d, &s, o->train);
		most = ws > most ? ws : most;
	}
	return most;
}

/* Workspace: the largest that any layer asks for; and the statistics of batch-norm. */
static void
sizes(struct planner *q, struct dev *d)
{
	int ranks = q->o->sync && q->o->syncbn ? q->o->sync->size : 1, widest = 0;

	q->p->ws = netplan_workspace(q->c, d, q->o);
	for (int i = 0; i < q->c->nl; i++) {
		const struct layer *l = &q->c->l[i];

		if (l->stopbackward == 1 || l->frozen)	/* frozen layers are the first ones */
			q->p->stop = i + 1;
		if (l->type != L_CONV || !l->u.conv.bn || !q->o->train)
			continue;
		q->p->bn_floats += 2 * (size_t)l->c;
		widest = later(widest, l->c);
	}
	q->p->bn_floats += (size_t)(ranks + 1) * (2 * (size_t)widest + 1);
}

int
netplan_make(struct net_plan *p, const struct cfg *c, struct dev *d, const struct net_opts *o,
    struct err *e)
{
	size_t L = (size_t)c->nl;
	struct planner q = { .c = c, .o = o, .p = p, .store = d->store->bytes };
	int r;

	memset(p, 0, sizeof *p);
	p->nl = c->nl;
	p->slot = (struct slot *)xcalloc(L, sizeof *p->slot);
	q.t = (struct tensor *)xcalloc(4 * L + 2, sizeof *q.t);
	q.users = (int *)xcalloc(4 * L, sizeof(int));
	q.last_fwd = q.users + L;
	q.last_bwd = q.users + 2 * L;
	q.first_grad = q.users + 3 * L;
	find_roots(&q);
	lifetimes(&q);
	r = list_tensors(&q, e);
	if (!r) {
		p->arena = place(&q);
		share(&q);
		sizes(&q, d);
	}
	free(q.t);
	free(q.users);
	return r;
}

void
netplan_free(struct net_plan *p)
{
	free(p->slot);
	p->slot = NULL;
}
