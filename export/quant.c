/* quant.c -- which tensors become 8 bits, and at which scale.
 *
 * Tensors that a layer only passes on (maximum, upsample, route, reorg, sum) share one scale: they
 * are a set, known by its first member.  A set's values are gathered over the pictures, twice: for
 * the range, then into a histogram.  Each method's range is tried on the set alone, and the one
 * kept with which the heads' values differ least; so is each layer's own cost measured, and in the
 * end all of it together.
 *
 * The network is our own, in float, every convolution made linear: its activation is applied here,
 * after the layer, so that the values before it can be seen and rounded too.  Errors are the power
 * of the difference as a share of the power of the heads' values, places with objects first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fn.h"
#include "export/int.h"

enum { TRIED = 4 };		/* pictures that methods and costs are measured on */

struct set { double lo, hi; struct hist *h; struct point p; enum calib how; double err;
	int first, on; };
enum look { LOOK_PEAKS, LOOK_RANGE, LOOK_HIST, LOOK_ROUND };
struct quanter {
	const struct export_model *m;
	const struct quant_opts *o;
	struct quant *q;
	struct cfg *cfg;		/* with linear convolutions */
	struct net *net;
	enum act *act;			/* of each convolution */
	int *root;			/* layer whose value a layer has */
	int *out, *pre;			/* sets of layers; out[-1]: the input's; -1: none */
	struct set *set;
	int nset;
	float *folded;			/* weights as they were */
	float **peak;		/* of each convolution: the largest magnitude in each channel */
	enum look look;
	float **x, **ref;		/* of the pictures: inputs, heads' values in a row */
	int n;
	size_t nref;
};

/* ---- sets ---------------------------------------------------------------------------------- */

static int
is_head(const struct cfg *c, int i)
{
	return i < c->nl && (c->l[i].type == L_YOLO || c->l[i].type == L_REGION);
}

static int
new_set(struct quanter *z, int first)
{
	struct set s = { .lo = INFINITY, .hi = -INFINITY, .first = first };

	z->set[z->nset] = s;
	return z->nset++;
}

/* Everybody of b's set is of a's. */
static void
join(struct quanter *z, int a, int b)
{
	int keep = a < b ? a : b, gone = a < b ? b : a;

	for (int i = -1; i < z->cfg->nl; i++)
		if (z->out[i] == gone)
			z->out[i] = keep;
}

static int
passes_on(const struct layer *l)
{
	switch (l->type) {
	case L_MAXPOOL: case L_ROUTE: case L_REORG: case L_REORG3D: return 1;
	case L_UPSAMPLE: return l->u.stride.scale == 1;
	case L_SHORTCUT: return l->u.join.act == ACT_LINEAR;
	default: return 0;
	}
}

static void
make_sets(struct quanter *z)
{
	z->out[-1] = new_set(z, -1);
	for (int i = 0; i < z->cfg->nl; i++) {
		const struct layer *l = &z->cfg->l[i];

		z->out[i] = z->pre[i] = -1;
		if (z->root[i] != i)
			continue;
		if (l->type == L_CONV && z->act[i] != ACT_LINEAR && z->act[i] != ACT_RELU)
			z->pre[i] = new_set(z, i);
		z->out[i] = new_set(z, i);
		if (l->type != L_ROUTE && passes_on(l))
			join(z, z->out[z->root[i - 1]], z->out[i]);
		for (int k = 0; (l->type == L_ROUTE || l->type == L_SHORTCUT) && k < l->u.join.n;
		    k++) {
			int s = z->root[l->u.join.src[k]];

			join(z, z->out[s], l->type == L_ROUTE || passes_on(l) ? z->out[i] :
			    z->out[z->root[i - 1]]);
		}
	}
}

/* The layers that read a layer's value are told; those that repeat a value have none. */
static int
reads(const struct quanter *z, int i, int src[LAYER_SRC + 2])
{
	const struct layer *l = &z->cfg->l[i];
	int n = 0;

	if (z->root[i] != i)
		return 0;
	if (l->type != L_ROUTE)
		src[n++] = z->root[i - 1];
	for (int k = 0; (l->type == L_ROUTE || l->type == L_SHORTCUT) && k < l->u.join.n; k++)
		src[n++] = z->root[l->u.join.src[k]];
	if (l->type == L_SCALE || l->type == L_SAM)
		src[n++] = z->root[l->u.scale.src];
	return n;
}

/* A value is brought to bytes where its maker or a reader computes with bytes.  Readers stand
 * behind, so the walk goes backward. */
static void
choose_bytes(struct quanter *z, unsigned char *bytes)
{
	int src[LAYER_SRC + 2];

	for (int i = z->cfg->nl - 1; i >= 0; i--) {
		int is_conv = z->cfg->l[i].type == L_CONV;

		if (is_head(z->cfg, i) || z->root[i] != i)
			continue;
		if (z->q->conv[i])
			bytes[i] = !is_head(z->cfg, i + 1);
		for (int k = (is_conv ? z->q->conv[i] : bytes[i]) ? reads(z, i, src) : 0; k-- > 0;)
			bytes[src[k]] = 1;
	}
}

/* The sets' points to where the graph's writer looks for them. */
static void
fill_points(struct quanter *z)
{
	unsigned char *all = (unsigned char *)xcalloc((size_t)z->cfg->nl + 1, 1), *bytes = all + 1;
	const struct point none = { 0, 0 };

	choose_bytes(z, bytes);
	z->q->in = bytes[-1] ? z->set[z->out[-1]].p : none;
	for (int i = 0; i < z->cfg->nl; i++) {
		z->q->out[i] = bytes[i] && z->out[i] >= 0 ? z->set[z->out[i]].p : none;
		z->q->pre[i] = z->q->conv[i] && z->pre[i] >= 0 ? z->set[z->pre[i]].p : none;
	}
	free(all);
}

/* ---- the walk ------------------------------------------------------------------------------ */

static void
see(struct quanter *z, int set, const struct point *p, float *v, size_t n)
{
	struct set *s = set >= 0 ? &z->set[set] : NULL;

	if (z->look == LOOK_ROUND)
		point_round(p, z->o->symmetric, v, n);
	else if (s && z->look == LOOK_HIST)
		hist_add(s->h, v, n);
	else if (s && z->look == LOOK_RANGE)
		for (size_t i = 0; i < n; i++) {
			s->lo = fmin(s->lo, v[i]);
			s->hi = fmax(s->hi, v[i]);
		}
}

static void
see_peaks(struct quanter *z, int i, const float *v)
{
	int c = z->cfg->l[i].c;
	size_t rows = net_floats(z->net, i) / (size_t)c;

	for (size_t r = 0; z->peak[i] && r < rows; r++)
		for (int k = 0; k < c; k++)
			z->peak[i][k] = fmaxf(z->peak[i][k], fabsf(v[r * (size_t)c + (size_t)k]));
}

static void
after(void *arg, int i)
{
	struct quanter *z = (struct quanter *)arg;
	const struct layer *l = &z->cfg->l[i];
	float *v = (float *)net_out(z->net, i);
	size_t n = net_floats(z->net, i);

	if (z->root[i] != i || is_head(z->cfg, i))
		return;
	if (z->look == LOOK_PEAKS)
		see_peaks(z, i, v);
	if (l->type == L_CONV && z->act[i] != ACT_LINEAR) {
		see(z, z->pre[i], &z->q->pre[i], v, n);
		BY_ACT(z->act[i], for (size_t k = 0; k < n; k++) v[k] = fn_act(act, v[k]););
	}
	see(z, z->out[i], &z->q->out[i], v, n);
}

static void
forward(struct quanter *z, int pic, int first)
{
	const struct layer *l0 = &z->cfg->l[0];
	size_t n = (size_t)l0->in_c * (size_t)l0->in_h * (size_t)l0->in_w;
	float *x;

	if (first > 0) {
		net_layers(z->net, first);
		return;
	}
	x = (float *)xmalloc(n * sizeof *x);
	memcpy(x, z->x[pic], n * sizeof *x);
	see(z, z->out[-1], &z->q->in, x, n);
	net_forward(z->net, x, 1, 1, 0);
	free(x);
}

/* The heads' values, or those of the last layer, in a row. */
static size_t
heads(struct quanter *z, float *to)
{
	size_t at = 0;

	for (int k = 0; k < (z->net->nhead ? z->net->nhead : 1); k++) {
		int layer = z->net->nhead ? z->net->head[k] - 1 : z->cfg->nl - 1;
		size_t n = net_floats(z->net, layer);

		if (to)
			memcpy(to + at, net_out(z->net, layer), n * sizeof *to);
		at += n;
	}
	return at;
}

/* How much a place's values count: as its objectness, since nearly all places are background, and
 * a little, since they shall stay so. */
static double
weight_of(const struct def_yolo *d, const float *place)
{
	return .01 + (d->new_coords ? fmaxf(place[4], 0) : fn_logistic(place[4]));
}

/* Noise and signal of the picture that was computed last. */
static void
compare(struct quanter *z, int pic, double *noise, double *signal)
{
	float *now = (float *)xmalloc((z->nref + 1) * sizeof *now), *ref = z->ref[pic];
	size_t at = 0;

	heads(z, now);
	for (int k = 0; k < (z->net->nhead ? z->net->nhead : 1); k++) {
		int layer = z->net->nhead ? z->net->head[k] - 1 : z->cfg->nl - 1;
		const struct def_yolo *d = z->net->nhead ? &z->cfg->l[layer + 1].u.yolo : NULL;
		size_t n = net_floats(z->net, layer), each = d ? 5 + (size_t)d->classes : n;

		for (size_t i = at; i < at + n; i += each) {
			double w = d ? weight_of(d, ref + i) : 1;

			for (size_t j = i; j < i + each; j++) {
				*noise += w * (now[j] - ref[j]) * (now[j] - ref[j]);
				*signal += w * ref[j] * ref[j];
			}
		}
		at += n;
	}
	free(now);
}

/* ---- measuring ----------------------------------------------------------------------------- */

static void
clear_points(struct quanter *z)
{
	const struct point none = { 0, 0 };

	z->q->in = none;
	for (int i = 0; i < z->cfg->nl; i++)
		z->q->pre[i] = z->q->out[i] = none;
}

static void
set_points(struct quanter *z, int set, struct point p)
{
	if (z->out[-1] == set)
		z->q->in = p;
	for (int i = 0; i < z->cfg->nl; i++) {
		if (z->out[i] == set)
			z->q->out[i] = p;
		if (z->pre[i] == set)
			z->q->pre[i] = p;
	}
}

/* Weights of a layer through 8 bits, or as they were. */
static void
weigh(struct quanter *z, int layer, int eight)
{
	const struct param *p = params_find(&z->net->par, layer, P_WEIGHT);
	float *w = z->net->train + p->off, *step;
	const float *was = z->folded + p->off;

	memcpy(w, was, p->n * sizeof *w);
	if (!eight)
		return;
	step = (float *)xcalloc((size_t)p->o, sizeof *step);
	for (size_t i = 0; i < p->n; i++)	/* [s][s][i][o] */
		step[i % (size_t)p->o] = fmaxf(step[i % (size_t)p->o], fabsf(was[i]) / 127);
	for (size_t i = 0; i < p->n; i++)
		if (step[i % (size_t)p->o] > 0)
			w[i] = rintf(was[i] / step[i % (size_t)p->o]) * step[i % (size_t)p->o];
	free(step);
}

/* One picture after the other stands in the net, float; sets and layers are tried from the last
 * to the first, each from where it begins, so that what stands before is untouched. */
static void
try_sets(struct quanter *z, int pic, double *noise, double *signal)
{
	for (int s = z->nset - 1; s >= 0; s--) {
		if (!z->set[s].on)
			continue;
		for (int how = 0; how < CALIBS; how++) {
			clear_points(z);
			set_points(z, s, calib_point(z->set[s].h, (enum calib)how,
			    z->o->symmetric));
			forward(z, pic, z->set[s].first);
			compare(z, pic, &noise[CALIBS * s + how], &signal[CALIBS * s + how]);
		}
		progress("calibration: picture %d, set %d of %d", pic + 1, z->nset - s, z->nset);
	}
}

static void
choose_methods(struct quanter *z)
{
	double *noise = (double *)xcalloc(2 * CALIBS * (size_t)z->nset, sizeof *noise);
	double *signal = noise + CALIBS * z->nset;

	for (int p = 0; p < z->n && p < TRIED; p++) {
		clear_points(z);
		forward(z, p, 0);
		try_sets(z, p, noise, signal);
	}
	for (int s = 0; s < z->nset; s++) {
		struct set *t = &z->set[s];
		int best = 0;

		for (int how = 1; how < CALIBS; how++)
			if (noise[CALIBS * s + how] < noise[CALIBS * s + best])
				best = how;
		if (!t->on)
			continue;
		t->how = (enum calib)best;
		t->p = calib_point(t->h, t->how, z->o->symmetric);
		t->err = noise[CALIBS * s + best] / fmax(signal[CALIBS * s + best], 1e-300);
		if (s == z->out[-1] && t->lo >= 0 && t->hi <= 1)	/* bytes are exact */
			t->p = (struct point){ 1.f / (z->o->symmetric ? 127 : 255), 0 };
	}
	free(noise);
}

/* What each layer alone costs: its weights, and the rounding of what it makes. */
static void
costs(struct quanter *z, double *cost)
{
	double signal = 0, whole = 0;

	for (int p = 0; p < z->n && p < TRIED; p++) {
		clear_points(z);
		forward(z, p, 0);
		for (int i = z->cfg->nl - 1; i >= 0; i--) {
			if (!z->q->conv[i])
				continue;
			clear_points(z);
			weigh(z, i, 1);
			z->q->out[i] = z->set[z->out[i]].p;
			if (z->pre[i] >= 0)
				z->q->pre[i] = z->set[z->pre[i]].p;
			forward(z, p, i);
			whole = 0;
			compare(z, p, &cost[i], &whole);
			weigh(z, i, 0);
			progress("calibration: picture %d, layer %d", p + 1, i);
		}
		signal += whole;
	}
	for (int i = 0; i < z->cfg->nl; i++)
		cost[i] /= fmax(signal, 1e-300);
}

static double
all_together(struct quanter *z)
{
	double noise = 0, signal = 0;

	fill_points(z);
	for (int i = 0; i < z->cfg->nl; i++)
		if (z->cfg->l[i].type == L_CONV)
			weigh(z, i, z->q->conv[i]);
	for (int p = 0; p < z->n; p++) {
		forward(z, p, 0);
		compare(z, p, &noise, &signal);
	}
	return noise / fmax(signal, 1e-300);
}

/* The layer that costs most becomes float, and the next, until the whole is good enough. */
static double
spend(struct quanter *z, const double *cost)
{
	double err = all_together(z);

	while (z->o->budget > 0 && err > z->o->budget) {
		int most = -1;

		for (int i = 0; i < z->cfg->nl; i++)
			if (z->q->conv[i] && (most < 0 || cost[i] > cost[most]))
				most = i;
		if (most < 0)
			break;
		z->q->conv[most] = 0;
		err = all_together(z);
		progress("calibration: layer %d stays float, error %.3g", most, err);
	}
	return err;
}

/* ---- channels made alike ------------------------------------------------------------------- */

/* A tensor's one scale serves its widest channel; a narrow one then has a few steps only.  Where
 * one convolution alone reads what another makes, and the activation between lets factors through,
 * a channel is multiplied behind the first and divided in the second.  Factors are powers of two:
 * the network in float stays the same to the bit.  In front of a depthwise kernel, whose filters
 * have steps of their own, they cost nothing; in front of others half of the way is the best. */

/* The convolution that alone reads layer i, and can take its channels' factors; -1: none. */
static int
sole_reader(const struct quanter *z, int i)
{
	const struct layer *l;
	int reader = -1, n = 0, src[LAYER_SRC + 2];

	for (int j = i + 1; j < z->cfg->nl; j++)
		for (int k = reads(z, j, src); k-- > 0;)
			if (src[k] == i) {
				reader = j;
				n++;
			}
	l = n == 1 ? &z->cfg->l[reader] : NULL;
	if (!l || l->type != L_CONV || is_head(z->cfg, i + 1) || z->act[i] == ACT_MISH ||
	    z->act[i] == ACT_SWISH || z->act[i] == ACT_LOGISTIC)
		return -1;
	return l->u.conv.groups == 1 || l->u.conv.groups == l->in_c ? reader : -1;
}

static float *
param_of(const struct quanter *z, int layer, enum param_kind kind)
{
	const struct param *p = params_find(z->m->par, layer, kind);

	return p ? z->m->w->train + p->off : NULL;
}

/* Channel c of layer i times f, read by layer j. */
static void
multiply(struct quanter *z, int i, int j, int c, float f)
{
	const struct param *p = params_find(z->m->par, i, P_WEIGHT);
	float *gamma = param_of(z, i, P_GAMMA), *w = param_of(z, i, P_WEIGHT);
	size_t k = (size_t)c, o;

	param_of(z, i, P_BIAS)[c] *= f;
	if (gamma)
		gamma[c] *= f;
	else
		for (size_t at = k; at < p->n; at += (size_t)p->o)
			w[at] *= f;
	p = params_find(z->m->par, j, P_WEIGHT);
	w = param_of(z, j, P_WEIGHT);
	o = (size_t)p->o;
	for (size_t at = 0; at < p->n; at++)	/* [s][s][i][o]; of one channel a filter is one */
		if (p->i == 1 && z->cfg->l[j].u.conv.groups > 1 ? at % o / (o /
		    (size_t)z->cfg->l[j].in_c) == k : at / o % (size_t)p->i == k)
			w[at] /= f;
}

static void
equalise(struct quanter *z)
{
	z->look = LOOK_PEAKS;
	for (int i = 0; i < z->cfg->nl; i++)
		if (z->cfg->l[i].type == L_CONV)
			z->peak[i] = (float *)xcalloc((size_t)z->cfg->l[i].c, sizeof(float));
	for (int p = 0; p < z->n; p++)
		forward(z, p, 0);
	for (int i = 0; i < z->cfg->nl; i++) {
		int j = z->peak[i] ? sole_reader(z, i) : -1, c = z->cfg->l[i].c;
		float most = 0;

		for (int k = 0; k < c && j >= 0; k++)
			most = fmaxf(most, z->peak[i][k]);
		for (int k = 0; k < c && j >= 0; k++) {
			double ratio = z->peak[i][k] > 0 ? most / z->peak[i][k] : 1;
			double way = z->cfg->l[j].u.conv.groups > 1 ? 1 : .5;
			double power = rint(way * log2(ratio));

			if (power > 0)
				multiply(z, i, j, k, (float)exp2(fmin(power, 6)));
		}
	}
	net_put(z->net, z->m->w);
}

/* ---- pictures ------------------------------------------------------------------------------ */

static int
read_pictures(struct quanter *z, struct err *e)
{
	const struct layer *l0 = &z->cfg->l[0];
	size_t n = (size_t)l0->in_c * (size_t)l0->in_h * (size_t)l0->in_w;
	struct input_opts o = { .batch = 1, .threads = z->o->threads, .w = l0->in_w,
		.h = l0->in_h, .resize = z->o->resize, .grey = l0->in_c == 1 };
	char *arg[1] = { (char *)z->o->calib };
	struct inputs *in = inputs_open(arg, 1, &o);
	struct pictures *p;

	while (z->n < z->o->pictures && (p = inputs_next(in))) {
		if (p->pic[0].why)
			warn("%s: %s", p->pic[0].name, p->pic[0].why);
		else {
			z->x[z->n] = (float *)xmalloc(n * sizeof(float));
			memcpy(z->x[z->n++], p->x, n * sizeof(float));
		}
		inputs_free(in, p);
	}
	inputs_close(in);
	return z->n ? 0 : err_set(e, "%s: no picture to calibrate with", z->o->calib);
}

static void
gather(struct quanter *z)
{
	memcpy(z->folded, z->net->train, z->net->par.ntrain * sizeof(float));
	z->look = LOOK_RANGE;
	for (int p = 0; p < z->n; p++) {
		forward(z, p, 0);
		z->nref = heads(z, NULL);
		z->ref[p] = (float *)xmalloc((z->nref + 1) * sizeof(float));
		heads(z, z->ref[p]);
		progress("calibration: range of picture %d of %d", p + 1, z->n);
	}
	for (int s = 0; s < z->nset; s++) {
		z->set[s].on = z->set[s].hi >= z->set[s].lo;
		z->set[s].h = (struct hist *)xcalloc(1, sizeof *z->set[s].h);
		z->set[s].h->lo = z->set[s].lo;
		z->set[s].h->hi = z->set[s].hi;
	}
	z->look = LOOK_HIST;
	for (int p = 0; p < z->n; p++)
		forward(z, p, 0);
	z->look = LOOK_ROUND;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void
report(const struct quanter *z, const double *cost, double err)
{
	FILE *f = z->o->report;

	fprintf(f, "#layer\tline\ttype\tbits\tmethod\tscale\tzero\tmethod_before\tscale_before\t"
	    "cost\n");
	for (int i = 0; i < z->cfg->nl; i++) {
		const struct set *s = z->out[i] >= 0 ? &z->set[z->out[i]] : NULL;
		const struct set *t = z->pre[i] >= 0 ? &z->set[z->pre[i]] : NULL;
		int on = z->q->out[i].scale > 0, before = z->q->pre[i].scale > 0;

		if (z->root[i] != i || is_head(z->cfg, i))
			continue;
		fprintf(f, "%d\t%d\t%s\t%d\t%s\t%.6g\t%d\t%s\t%.6g\t%.3g\n", i, z->cfg->l[i].line,
		    layer_name(z->cfg->l[i].type), z->cfg->l[i].type == L_CONV ? z->q->conv[i] ?
		    8 : 32 : on ? 8 : 32, on ? calib_name(s->how) : "-",
		    z->q->out[i].scale, z->q->out[i].zero, before ? calib_name(t->how) : "-",
		    z->q->pre[i].scale, cost[i]);
	}
	fprintf(f, "-\t-\tall\t-\t-\t0\t0\t-\t0\t%.3g\n", err);
}

static int
choose_layers(struct quanter *z, struct err *e)
{
	for (int i = 0; i < z->cfg->nl; i++)
		z->q->conv[i] = z->cfg->l[i].type == L_CONV && !is_head(z->cfg, i + 1);
	for (int k = 0; k < z->o->nfloats; k++) {
		int i = (int)z->o->floats[k];

		if (i >= z->cfg->nl || z->cfg->l[i].type != L_CONV)
			return err_set(e, "-O float: layer %d of %s is no convolution", i,
			    z->cfg->path);
		z->q->conv[i] = 0;
	}
	return 0;
}

static int
prepare(struct quanter *z, struct err *e)
{
	struct net_opts no = { .batch = 1, .keep = 1 };
	const struct cfg *c = z->m->cfg;

	if (!(z->cfg = cfg_parse(c->path, c->text, c->len, e)) ||
	    cfg_resize(z->cfg, c->net.w, c->net.h, e) || cfg_pictures(z->cfg, e))
		return -1;
	for (int i = 0; i < c->nl; i++)
		if (c->l[i].type == L_CONV) {
			z->act[i] = c->l[i].u.conv.act;
			z->cfg->l[i].u.conv.act = ACT_LINEAR;
		}
	if (!(z->net = net_open(z->m->dev, z->cfg, &no, e)))
		return -1;
	net_put(z->net, z->m->w);
	z->folded = (float *)xmalloc((z->net->par.ntrain + 1) * sizeof(float));
	for (int i = 0; i < c->nl; i++)
		z->root[i] = is_head(c, i) ? z->root[i - 1] : z->net->plan.slot[i].root;
	z->net->after = after;
	z->net->after_arg = z;
	make_sets(z);
	return choose_layers(z, e) || read_pictures(z, e) ? -1 : 0;
}

static void
close_quanter(struct quanter *z)
{
	net_close(z->net);
	cfg_close(z->cfg);
	for (int s = 0; s < z->nset; s++)
		free(z->set[s].h);
	for (int p = 0; p < z->n; p++) {
		free(z->x[p]);
		free(z->ref[p]);
	}
	free(z->x);
	free(z->ref);
	free(z->act);
	free(z->root - 1);
	free(z->out - 1);
	free(z->pre);
	free(z->set);
	free(z->folded);
	for (int i = 0; i < z->m->cfg->nl; i++)
		free(z->peak[i]);
	free(z->peak);
}

int
quant_make(struct quant *q, const struct export_model *m, const struct quant_opts *o,
    struct err *e)
{
	size_t n = (size_t)m->cfg->nl;
	struct quanter z = { .m = m, .o = o, .q = q };
	double *cost = (double *)xcalloc(n, sizeof *cost), err;
	int bad;

	memset(q, 0, sizeof *q);
	q->symmetric = o->symmetric;
	q->nl = m->cfg->nl;
	q->pre = (struct point *)xcalloc(n, sizeof *q->pre);
	q->out = (struct point *)xcalloc(n, sizeof *q->out);
	q->conv = (unsigned char *)xcalloc(n, 1);
	z.act = (enum act *)xcalloc(n, sizeof *z.act);
	z.root = (int *)xcalloc(n + 1, sizeof(int)) + 1;
	z.out = (int *)xcalloc(n + 1, sizeof(int)) + 1;
	z.pre = (int *)xcalloc(n, sizeof(int));
	z.set = (struct set *)xcalloc(2 * n + 1, sizeof *z.set);
	z.x = (float **)xcalloc((size_t)o->pictures, sizeof *z.x);
	z.ref = (float **)xcalloc((size_t)o->pictures, sizeof *z.ref);
	z.peak = (float **)xcalloc(n, sizeof *z.peak);
	z.root[-1] = -1;
	bad = prepare(&z, e);
	if (!bad) {
		equalise(&z);
		gather(&z);
		choose_methods(&z);
		costs(&z, cost);
		err = spend(&z, cost);
		progress_end();
		if (o->report)
			report(&z, cost, err);
	}
	close_quanter(&z);
	free(cost);
	return bad ? -1 : 0;
}

void
quant_free(struct quant *q)
{
	free(q->pre);
	free(q->out);
	free(q->conv);
	memset(q, 0, sizeof *q);
}
