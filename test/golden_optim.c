/* golden_optim.c -- golden/optim: ten steps of an optimiser, or a table of learning rates.
 *
 * The three tensors of a case lie in one flat buffer as the trainer's parameters do: kernels,
 * biases, scales, each from a multiple of 64 floats, in groups 0, 1, 2. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/golden.h"

enum { PARTS = 3, STEPS = 10, FLAT = PARTS * OPTIM_UNIT };
static const char *const part[PARTS] = { "w", "b", "gamma" };

struct run {
	struct gold *g;
	struct err *e;
	const struct optim_ops *ops;
	float *p, *grad, *s1, *s2;	/* device, FLAT each */
	unsigned char *group;		/* device */
	void *ws;
	struct optim_rates rates;
};

static const struct st_tensor *
tensor(const struct gold *g, const char *name, int k)
{
	char full[64];

	snprintf(full, sizeof full, "%s.%s", name, part[k]);
	return st_find(g->st, full);
}

/* The flat buffer of step t of tensors NAME.*: sums over the middle dimension of grad_sum. */
static int
flat(struct run *r, const char *name, int steps, int t, float *dev)
{
	float x[FLAT] = { 0 };

	for (int k = 0; k < PARTS; k++) {
		const struct st_tensor *s = tensor(r->g, name, k), *one = tensor(r->g, "grad", k);
		size_t len, subs = 1;

		if (!one && !(one = tensor(r->g, "grad_sum", k)) &&
		    !(one = tensor(r->g, "value", k)))
			return err_set(r->e, "no gradients");
		if (!s)
			return err_set(r->e, "no tensor %s.%s", name, part[k]);
		len = k == 0 ? 54 : 3;
		subs = s->n / (size_t)steps / len;
		if (s->n != len * subs * (size_t)steps)
			return err_set(r->e, "%s has a shape that is not known", s->name);
		for (size_t i = 0; i < len * subs; i++)
			x[k * OPTIM_UNIT + i % len] += (float)st_get(s, len * subs * (size_t)t + i);
	}
	r->g->dev->ops->put(r->g->dev, dev, x, sizeof x);
	return 0;
}

/* Results of all steps: out[k] has STEPS times the tensor's numbers. */
static void
keep(struct run *r, const float *dev, double factor, int t, float out[PARTS][STEPS * 54])
{
	float x[FLAT];

	r->g->dev->ops->get(r->g->dev, x, dev, sizeof x);
	for (int k = 0; k < PARTS; k++) {
		int len = k == 0 ? 54 : 3;

		for (int i = 0; i < len; i++)
			out[k][t * len + i] = (float)(factor * x[k * OPTIM_UNIT + i]);
	}
}

static int
compare(struct run *r, const char *name, const float *got)
{
	const char *path[2] = { name, NULL };	/* the key holds a dot: no path for gold_get */
	yajl_val tol = yajl_tree_get(gold_get(r->g->j, "atol.fp32"), path, yajl_t_number);

	if (!tol)
		return err_set(r->e, "no tolerance for %s", name);
	return gold_compare(r->g, name, got, YAJL_GET_DOUBLE(tol), 0, r->e);
}

static int
compare_parts(struct run *r, const char *name, float got[PARTS][STEPS * 54])
{
	char full[64];

	for (int k = 0; k < PARTS; k++) {
		snprintf(full, sizeof full, "%s.%s", name, part[k]);
		if (compare(r, full, got[k]))
			return -1;
	}
	return 0;
}

static double
at(struct run *r, const char *name, int t)
{
	const struct st_tensor *s = st_find(r->g->st, name);

	return s && (size_t)t < s->n ? st_get(s, (size_t)t) : NAN;
}

static void
set_rates(struct run *r, double lr, double decay, int all)
{
	for (int k = 0; k < PARTS; k++) {
		r->rates.lr[k] = (float)lr;
		r->rates.decay[k] = (float)(all || k == 0 ? decay : 0);
	}
}

/* An update of all parameters; the rates may change afterwards. */
static struct update
all_of(struct run *r)
{
	struct update u = { FLAT, r->group, &r->rates, r->p, r->grad, 1, r->s1, r->s2 };

	return u;
}

/* sgd-*, sgd-darknet-*: darknet's update is -batch*momentum*buf of the common rule. */
static int
run_sgd(struct run *r)
{
	static float after[PARTS][STEPS * 54], state[PARTS][STEPS * 54];
	int dark = !gold_get(r->g->j, "params.decay_on");
	double batch = gold_num(r->g->j, "params.batch", 1), m = gold_num(r->g->j,
	    "params.momentum", 0);
	double decay = gold_num(r->g->j, dark ? "params.decay" : "params.weight_decay", NAN);
	int all = !strcmp(gold_str(r->g->j, "params.decay_on", "kernels"), "all");
	struct update u = all_of(r);

	if (flat(r, "start", 1, 0, r->p))
		return -1;
	for (int t = 0; t < STEPS; t++) {
		if (flat(r, dark ? "grad_sum" : "grad", STEPS, t, r->grad))
			return -1;
		set_rates(r, at(r, "lr", t), decay, all);
		if (!dark)
			m = at(r, "momentum", t);
		u.gscale = 1 / batch;
		r->ops->sgd(r->g->dev, &u, m, (int)gold_num(r->g->j, "params.nesterov", 0));
		keep(r, r->p, 1, t, after);
		keep(r, r->s1, dark ? -batch * m : 1, t, state);
	}
	if (compare_parts(r, "after", after))
		return -1;
	return compare_parts(r, dark ? "update" : "buffer", state);
}

static int
run_adam(struct run *r, const char *kind)
{
	static float after[PARTS][STEPS * 54], m[PARTS][STEPS * 54], v[PARTS][STEPS * 54];
	int dark = !strcmp(kind, "darknet");
	double decay = gold_num(r->g->j, "params.weight_decay", NAN);
	struct update u = all_of(r);

	if (dark)
		decay *= gold_num(r->g->j, "params.batch", NAN);
	if (flat(r, "start", 1, 0, r->p))
		return -1;
	for (int t = 0; t < STEPS; t++) {
		if (flat(r, dark ? "grad_sum" : "grad", STEPS, t, r->grad))
			return -1;
		struct adam a = { gold_num(r->g->j, "params.beta1", NAN),
			gold_num(r->g->j, "params.beta2", NAN),
			gold_num(r->g->j, "params.eps", NAN), !strcmp(kind, "adamw"), t + 1 };

		set_rates(r, at(r, "lr", t), decay, 1);
		r->ops->adam(r->g->dev, &u, &a);
		keep(r, r->p, 1, t, after);
		keep(r, r->s1, 1, t, m);
		keep(r, r->s2, 1, t, v);
	}
	if (compare_parts(r, "after", after) || compare_parts(r, "m", m))
		return -1;
	return compare_parts(r, "v", v);
}

static int
run_ema(struct run *r)
{
	static float avg[PARTS][STEPS * 54];
	float d[STEPS];

	if (flat(r, "start", 1, 0, r->s1))
		return -1;
	for (int t = 0; t < STEPS; t++) {
		double x = schedule_ema(gold_num(r->g->j, "params.decay", NAN),
		    gold_num(r->g->j, "params.tau", 0), t + 1);

		if (flat(r, "value", STEPS, t, r->p))
			return -1;
		d[t] = (float)x;
		r->ops->ema(r->g->dev, FLAT, r->s1, r->p, x);
		keep(r, r->s1, 1, t, avg);
	}
	if (compare(r, "d", d))
		return -1;
	return compare_parts(r, "ema", avg);
}

/* Clipped once as a pass of its own and once inside the update: both must give the numbers. */
static int
run_clip(struct run *r)
{
	static float clipped[PARTS][STEPS * 54], after[PARTS][STEPS * 54];
	int step = YAJL_IS_OBJECT(gold_get(r->g->j, "params.sgd"));
	float norm[STEPS], f[STEPS];

	if (step && flat(r, "start", 1, 0, r->p))
		return -1;
	for (int t = 0; t < STEPS; t++) {
		struct update u = all_of(r);
		double sum, c;

		if (flat(r, "grad", STEPS, t, r->grad))
			return -1;
		sum = r->ops->sumsq(r->g->dev, FLAT, r->grad, r->ws);
		c = optim_clip(sum, gold_num(r->g->j, "params.max_norm", NAN));
		norm[t] = (float)sqrt(sum);
		f[t] = (float)c;
		if (step) {
			set_rates(r, gold_num(r->g->j, "params.sgd.lr", NAN), 0, 0);
			u.gscale = c;
			r->ops->sgd(r->g->dev, &u, gold_num(r->g->j, "params.sgd.momentum", NAN),
			    0);
			keep(r, r->p, 1, t, after);
		}
		r->ops->scale(r->g->dev, FLAT, r->grad, c);
		keep(r, r->grad, 1, t, clipped);
	}
	if (compare(r, "norm", norm) || compare(r, "coefficient", f))
		return -1;
	if (compare_parts(r, "clipped", clipped))
		return -1;
	return step ? compare_parts(r, "after", after) : 0;
}

static int
run_tensors(struct gold *g, struct err *e)
{
	static const unsigned char group[PARTS] = { 0, 1, 2 };
	struct run r = { .g = g, .e = e, .ops = g->dev->optim };
	const char *kind = gold_str(g->j, "params.kind", NULL);
	float zero[FLAT] = { 0 };
	int res;

	r.p = gold_put(g->dev, zero, FLAT);
	r.grad = gold_put(g->dev, zero, FLAT);
	r.s1 = gold_put(g->dev, zero, FLAT);
	r.s2 = gold_put(g->dev, zero, FLAT);
	r.group = (unsigned char *)gold_put(g->dev, NULL, 1);
	g->dev->ops->put(g->dev, r.group, group, sizeof group);
	r.ws = gold_put(g->dev, NULL, r.ops->workspace(FLAT));
	if (kind)
		res = run_adam(&r, kind);
	else if (gold_get(g->j, "params.max_norm"))
		res = run_clip(&r);
	else if (gold_get(g->j, "params.tau"))
		res = run_ema(&r);
	else
		res = run_sgd(&r);
	g->dev->ops->free(g->dev, r.p);
	g->dev->ops->free(g->dev, r.grad);
	g->dev->ops->free(g->dev, r.s1);
	g->dev->ops->free(g->dev, r.s2);
	g->dev->ops->free(g->dev, r.group);
	g->dev->ops->free(g->dev, r.ws);
	return res;
}

/* ---- tables ------------------------------------------------------------------------------- */

enum { MAXSTEP = 8 };
struct table {
	struct cfg_net net;
	struct cosine cos;
	int ultra;			/* enum ultra_lr, -1: not one of them */
	double lr0;
	long batches;
	int step[MAXSTEP];
	float scale[MAXSTEP];
};

static int
policy(const char *name)
{
	static const char *const names[] = { "constant", "step", "steps", "exp", "poly", "random",
	    "sigmoid", "sgdr", "cosine" };

	for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

static int
table_open(struct gold *g, struct table *t, struct err *e)
{
	const char *kind = gold_str(g->j, "params.kind", NULL), *name = gold_str(g->j,
	    "params.policy", "");
	yajl_val steps = gold_get(g->j, "params.steps"), scales = gold_get(g->j, "params.scales");
	struct cfg_net *n = &t->net;
	int p = policy(name);

	memset(t, 0, sizeof *t);
	t->batches = (long)gold_num(g->j, "params.batches_per_epoch", 0);
	t->lr0 = gold_num(g->j, "params.lr0", NAN);
	t->ultra = kind && !strcmp(kind, "epoch250") ? (int)ULTRA_EPOCH250
	    : kind && !strcmp(kind, "milestones") ? (int)ULTRA_MILESTONES : -1;
	t->cos.lr0 = t->lr0;
	t->cos.lrf = .05;
	t->cos.momentum = gold_num(g->j, "params.momentum", NAN);
	t->cos.decay = gold_num(g->j, "params.weight_decay", NAN);
	t->cos.epochs = gold_num(g->j, "params.epochs", NAN);
	t->cos.warmup = 3;
	t->cos.batch = (int)gold_num(g->j, "params.batch", 1);
	t->cos.samples = t->batches * t->cos.batch;
	t->cos.nominal = 64;
	if (kind)
		return t->ultra >= 0 || !strcmp(kind, "cosine") ? 0 : err_set(e, "unknown kind %s",
		    kind);
	if (p < 0)
		return err_set(e, "unknown policy '%s'", name);
	n->policy = (enum lr_policy)p;
	n->lr = gold_num(g->j, "params.learning_rate", NAN);
	n->lr_min = gold_num(g->j, "params.learning_rate_min", 0);
	n->burn_in = (int)gold_num(g->j, "params.burn_in", 0);
	n->power = gold_num(g->j, "params.power", 4);
	n->max_batches = (int)gold_num(g->j, "params.max_batches", 0);
	n->gamma = gold_num(g->j, "params.gamma", 1);
	n->step_scale = gold_num(g->j, "params.scale", 1);
	n->step_len = (int)gold_num(g->j, "params.step", 1);
	n->sgdr_cycle = (int)gold_num(g->j, "params.sgdr_cycle", 0);
	n->sgdr_mult = (int)gold_num(g->j, "params.sgdr_mult", 2);
	n->step = t->step;
	n->scale = t->scale;
	for (; YAJL_IS_ARRAY(steps) && n->nstep < (int)steps->u.array.len && n->nstep < MAXSTEP;
	    n->nstep++) {
		n->step[n->nstep] = (int)YAJL_GET_INTEGER(steps->u.array.values[n->nstep]);
		n->scale[n->nstep] = (float)YAJL_GET_DOUBLE(scales->u.array.values[n->nstep]);
	}
	return 0;
}

/* One row: what the columns after the iteration must be.  Returns their number. */
static int
row(const struct table *t, const double *in, double *want)
{
	struct warm w;

	if (t->ultra >= 0) {
		want[0] = floor(in[0] / t->batches);
		want[1] = in[0] - want[0] * t->batches;
		want[2] = schedule_ultralytics(t->lr0, (enum ultra_lr)t->ultra, t->batches,
		    (long)want[0], (long)want[1]);
		return 3;
	}
	if (t->batches) {
		w = schedule_cosine(&t->cos, (long)in[0]);
		want[0] = floor(in[0] / t->batches);
		want[1] = w.lr;
		want[2] = w.lr_bias;
		want[3] = w.momentum;
		want[4] = w.decay;
		want[5] = w.accumulate;
		return 6;
	}
	want[0] = schedule_lr(&t->net, 0, (long)in[0]);
	return 1;
}

static int
run_table(struct gold *g, struct err *e)
{
	double rtol = gold_num(g->j, "rtol", 0), in[8], got[8] = { 0 };
	int rows = 0, n, line = 1, r;
	char *path = xasprintf("%s.tsv", g->stem), *text, *next;
	struct table t;
	size_t len;

	text = file_read(path, 1 << 20, &len, e);
	free(path);
	if (!text)
		return -1;
	r = table_open(g, &t, e);
	for (next = strchr(text, '\n'); !r && next && *++next; next = strchr(next, '\n')) {
		char *p = next;

		line++;
		for (n = 0; n < 8 && *p && *p != '\n'; n++)
			in[n] = strtod(p, &p);
		if (row(&t, in, got) != n - 1)
			r = err_set(e, "line %d: %d columns", line, n);
		for (int i = 0; !r && i < n - 1; i++)
			if (!(fabs(got[i] - in[i + 1]) <= rtol * fabs(in[i + 1])))
				r = err_set(e, "iteration %.0f, column %d: %.9g, want %.9g", in[0],
				    i + 2, got[i], in[i + 1]);
		rows++;
	}
	free(text);
	if (!r && rows != (int)gold_num(g->j, "rows", -1))
		r = err_set(e, "%d rows read", rows);
	return r;
}

int
gold_optim(struct gold *g, struct err *e)
{
	return g->st ? run_tensors(g, e) : run_table(g, e);
}
