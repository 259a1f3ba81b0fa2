/* golden_net.c -- whole small networks, and raw heads of published models. */
#include <stdlib.h>
#include <string.h>

#include "test/golden.h"

struct run {
	struct gold *g;
	struct cfg *cfg;
	struct params par;
	struct weights w;
	struct net *net;
	int batch;
};

/* Within the tensor's own tolerance: absolute, or of the whole in bf16, where null stands for a
 * network too narrow to say.  Names hold dots, so the tree is walked by hand. */
static int
compare(const struct gold *g, const char *name, const float *host, struct err *e)
{
	yajl_val t = gold_get(g->j, "tolerance.tensors");

	for (size_t i = 0; YAJL_IS_OBJECT(t) && i < t->u.object.len; i++)
		if (!strcmp(t->u.object.keys[i], name)) {
			yajl_val limit = t->u.object.values[i]->u.array.values[g->bf16];

			if (YAJL_IS_NULL(limit))
				return 0;
			return g->bf16 ? gold_compare_l2(g, name, host, YAJL_GET_DOUBLE(limit), e) :
			    gold_compare(g, name, host, YAJL_GET_DOUBLE(limit), 0, e);
		}
	return err_set(e, "no tolerance for '%s'", name);
}

/* Activations on the device, NHWC, against the golden NCHW tensor NAME. */
static int
check(struct run *r, const char *name, const void *dev, int n, int c, int h, int w, struct err *e)
{
	float *host = gold_get_stored(r->g->dev, dev, (size_t)n * c * h * w);
	float *t = gold_nchw(host, n, c, h, w);
	int bad = compare(r->g, name, t, e);

	free(host);
	free(t);
	return bad;
}

static int
check_layer(struct run *r, const char *prefix, int i, int n, struct err *e)
{
	const struct layer *l = &r->cfg->l[i];
	struct dev *d = r->g->dev;
	char name[40];
	float *act = NULL;
	const void *out = net_out(r->net, i);
	struct head_shape s = { n * l->h * l->w, l->u.yolo.nmask, l->u.yolo.classes,
		l->u.yolo.scale_x_y, l->u.yolo.new_coords, l->u.yolo.softmax };
	int bad;

	snprintf(name, sizeof name, "%s.%d", prefix, i);
	if (!st_find(r->g->st, name))
		return 0;
	if (l->type == L_YOLO && r->net->opt.train) {	/* the net leaves raw values there */
		act = gold_put(d, NULL, (size_t)n * l->h * l->w * l->c);
		d->layer->yolo(d, &s, out, act);
		out = act;
	} else if (l->type == L_REGION && r->net->opt.train) {
		act = gold_put(d, NULL, (size_t)n * l->h * l->w * l->c);
		s.anchors = l->u.yolo.num;
		d->layer->region(d, &s, out, act);
		out = act;
	}
	bad = check(r, name, out, n, l->c, l->h, l->w, e);
	if (act)
		d->ops->free(d, act);
	return bad;
}

static int
open_run(struct run *r, const char *cfg, const char *weights, struct err *e)
{
	if (!(r->cfg = cfg_read(cfg, e)))
		return -1;
	params_plan(r->cfg, &r->par);
	weights_init(r->cfg, &r->par, 0, &r->w);
	return weights_load(weights, r->cfg, &r->par, &r->w, -1, e);
}

static void
close_run(struct run *r)
{
	net_close(r->net);
	weights_free(&r->w);
	params_free(&r->par);
	cfg_close(r->cfg);
}

static int
open_net(struct run *r, int batch, int train, int keep, struct err *e)
{
	struct net_opts o = { .batch = batch, .train = train, .keep = keep, .bn_momentum = .1f };

	net_close(r->net);
	if (!(r->net = net_open(r->g->dev, r->cfg, &o, e)))
		return -1;
	net_put(r->net, &r->w);
	return 0;
}

static int
check_stats(struct run *r, struct err *e)
{
	for (int i = 0; i < r->cfg->nl; i++) {
		const struct layer *l = &r->cfg->l[i];
		struct net_moments m;
		char name[40];

		if (l->type != L_CONV || !l->u.conv.bn)
			continue;
		m = net_moments(r->net, i);
		float *mean = gold_get_dev(r->g->dev, m.mean, l->c), *var = gold_get_dev(r->g->dev,
		    m.m2, l->c);

		for (int k = 0; k < l->c; k++)
			var[k] /= m.count;
		snprintf(name, sizeof name, "bn.%d.mean", i);
		int bad = compare(r->g, name, mean, e);
		snprintf(name, sizeof name, "bn.%d.var_biased", i);
		if (!bad)
			bad = compare(r->g, name, var, e);
		free(mean);
		free(var);
		if (bad)
			return -1;
	}
	return 0;
}

static int
put_upstream(struct run *r, struct err *e)
{
	for (int h = 0; h < r->net->nhead; h++) {
		int i = r->net->head[h] - 1;
		const struct layer *l = &r->cfg->l[i];
		char name[40];
		float *up, *t;

		snprintf(name, sizeof name, "up.%d", i);
		if (!(up = gold_floats(r->g, name, e)))
			return -1;
		t = gold_nhwc(up, r->batch, l->c, l->h, l->w);
		r->g->dev->ops->put(r->g->dev, net_head_grad(r->net, h), t,
		    (size_t)r->batch * l->c * l->h * l->w * sizeof *t);
		free(up);
		free(t);
	}
	return 0;
}

static int
check_param(struct run *r, const struct param *p, struct err *e)
{
	static const char *suffix[] = { [P_WEIGHT] = "w", [P_BIAS] = "b", [P_GAMMA] = "gamma" };
	float *g = gold_get_dev(r->g->dev, r->net->grad + p->off, p->n), *t = NULL;
	char name[40];
	int bad;

	snprintf(name, sizeof name, "grad.%d.%s", p->layer, suffix[p->kind]);
	if (p->kind == P_WEIGHT)
		t = gold_oihw(g, p->o, p->i, p->s);
	bad = compare(r->g, name, t ? t : g, e);
	free(g);
	free(t);
	return bad;
}

/* The gradient of the input: nothing wants it in training, so layer 0's dgrad is asked for here. */
static int
check_input_grad(struct run *r, struct err *e)
{
	const struct layer *l = &r->cfg->l[0];
	struct conv_shape s = netplan_conv(l, r->batch);
	struct dev *d = r->g->dev;
	float *dx = gold_put(d, NULL, (size_t)s.n * s.h * s.w * s.c);
	int bad;

	d->conv->dgrad(d, &s, net_grad(r->net, 0), net_param(r->net, r->net->train, 0, P_WEIGHT),
	    dx, 0, r->net->ws);
	bad = check(r, "grad.input", dx, s.n, s.c, s.h, s.w, e);
	d->ops->free(d, dx);
	return bad;
}

/* keep 1: every layer's output is there to compare; keep 0: the plan that training uses. */
static int
train_pass(struct run *r, const float *x, int keep, struct err *e)
{
	if (open_net(r, r->batch, 1, keep, e))
		return -1;
	net_forward(r->net, x, r->batch, r->batch, 0);
	for (int i = 0; keep && i < r->cfg->nl; i++)
		if (check_layer(r, "train", i, r->batch, e))
			return -1;
	if (check_stats(r, e) || put_upstream(r, e))
		return -1;
	net_backward(r->net);
	for (int i = 0; i < r->par.np; i++)
		if (r->par.p[i].kind <= P_GAMMA && check_param(r, &r->par.p[i], e))
			return -1;
	return check_input_grad(r, e);
}

static int
infer_pass(struct run *r, const float *x, struct err *e)
{
	if (open_net(r, 1, 0, 1, e))
		return -1;
	net_forward(r->net, x, 1, 1, 0);
	for (int i = 0; i < r->cfg->nl; i++)
		if (check_layer(r, "infer", i, 1, e))
			return -1;
	return 0;
}

int
gold_net(struct gold *g, struct err *e)
{
	char *cfg = xasprintf("%s.cfg", g->stem), *weights = xasprintf("%s.weights", g->stem);
	struct run r = { .g = g, .batch = (int)gold_num(g->j, "batch", 1) };
	float *in = gold_floats(g, "input", e), *x = NULL;
	int bad = !in || open_run(&r, cfg, weights, e);

	if (!bad) {
		const struct layer *l = &r.cfg->l[0];

		x = gold_nhwc(in, r.batch, l->in_c, l->in_h, l->in_w);
		bad = infer_pass(&r, x, e) || train_pass(&r, x, 1, e) || train_pass(&r, x, 0, e);
	}
	close_run(&r);
	free(in);
	free(x);
	free(cfg);
	free(weights);
	return bad ? -1 : 0;
}

/* ---- published models --------------------------------------------------------------------- */

static int
sha256_is(const char *path, const char *want)
{
	char got[65] = "", *cmd = xasprintf("sha256sum <'%s'", path);
	FILE *p = popen(cmd, "r");
	int ok = p && fscanf(p, "%64s", got) == 1 && !strcmp(got, want);

	if (p)
		pclose(p);
	free(cmd);
	return ok;
}

static float *
picture(struct gold *g, int *w, int *h, struct err *e)
{
	char *dir = path_dir(g->json), *path = path_join(dir, gold_str(g->j, "image", ""));
	struct st *st = st_open(path, e);
	const struct st_tensor *t = st ? st_find(st, "image") : NULL;
	float *x = NULL, *f;

	if (t) {
		*h = (int)t->dim[1];
		*w = (int)t->dim[2];
		f = (float *)xmalloc(t->n * sizeof *f);
		for (size_t i = 0; i < t->n; i++)
			f[i] = (float)st_get(t, i) / 255.f;
		x = gold_nhwc(f, 1, 3, *h, *w);
		free(f);
	}
	st_close(st);
	free(dir);
	free(path);
	return x;
}

static int
check_heads(struct run *r, struct err *e)
{
	yajl_val heads = gold_get(r->g->j, "heads");

	for (size_t i = 0; i < heads->u.array.len; i++) {
		const char *name = gold_str(heads->u.array.values[i], "tensor", "");
		int k = (int)gold_num(heads->u.array.values[i], "layer", -1);
		const struct layer *l = &r->cfg->l[k];

		if (check(r, name, net_out(r->net, k), 1, l->c, l->h, l->w, e))
			return -1;
	}
	return 0;
}

int
gold_model(struct gold *g, struct err *e)
{
	const char *model = gold_str(g->j, "model", "");
	char *cfg = xasprintf("%s/%s.cfg", g->weights, model);
	char *weights = xasprintf("%s/%s.weights", g->weights, model);
	struct run r = { .g = g, .batch = 1 };
	FILE *f = fopen(weights, "rb");
	float *x = NULL;
	int w, h, bad = 0;

	if (!f)
		bad = (err_set(e, "no %s", weights), 1);
	else if (!sha256_is(weights, gold_str(g->j, "weights_sha256", "")) ||
	    !sha256_is(cfg, gold_str(g->j, "cfg_sha256", "")))
		bad = err_set(e, "%s: other files than the case was made from", model);
	else if (!(x = picture(g, &w, &h, e)) || open_run(&r, cfg, weights, e))
		bad = -1;
	else if (r.cfg->l[0].in_w != w || r.cfg->l[0].in_h != h)
		bad = err_set(e, "the picture is %dx%d, the cfg %dx%d", w, h, r.cfg->l[0].in_w,
		    r.cfg->l[0].in_h);
	else if (open_net(&r, 1, 0, 1, e))
		bad = -1;
	else {
		net_forward(r.net, x, 1, 1, 0);
		bad = check_heads(&r, e);
	}
	if (f)
		fclose(f);
	if (r.cfg)
		close_run(&r);
	free(x);
	free(cfg);
	free(weights);
	return bad;
}
