/* t-emu-graph.c -- gradients of whole graphs, through the net's own code, against differences.
 *
 * The loss is a fixed linear function of the heads' raw values, so the gradient that the heads hand
 * back is known exactly, and what is tested is the way it takes through the graph: tensors with
 * several readers, buffers that share memory, gradients that are written first and added to later.
 *
 * For every parameter tensor the loss is differenced along its gradient, which must give that
 * gradient's length, and along a random direction.  Outputs are floats, so a short step drowns in
 * rounding and a long one in curvature: steps are halved from a share of the tensor's own size on,
 * pairs of them extrapolated, and the extrapolation taken that differs least from the one before.
 * Graphs with kinks (leaky, maxpool) get a wider bound.  Everything runs on the CPU build and under
 * the emulator. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "test/tap.h"

extern int emu_block;
struct dev *dev_emu(int bf16);

enum { LAYERS = 64, SIDE = 8, IMAGES = 2 };
struct sketch {				/* a cfg under construction */
	char text[8192];
	size_t len;
	int n, c[LAYERS], side[LAYERS];	/* of the outputs so far */
	uint64_t state;
};
struct probe {
	struct dev *d;
	struct cfg *cfg;
	struct net *net;
	struct weights w;
	int n;				/* images */
	float *x, *coef[MAX_HEADS], *grad, *train, *raw;
	double step, bound, largest, worst;	/* largest: of the gradients' lengths */
	char where[80];
};

static unsigned
draw(uint64_t *state, unsigned n)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (unsigned)((z ^ z >> 31) % n);
}

static float
real(uint64_t *state)			/* -1..1 */
{
	return (float)draw(state, 1 << 20) / (1 << 19) - 1;
}

static void
say(struct sketch *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	s->len += (size_t)vsnprintf(s->text + s->len, sizeof s->text - s->len, fmt, ap);
	va_end(ap);
	if (s->len >= sizeof s->text)
		die(1, "a cfg of over %zu bytes", sizeof s->text);
}

static void
begin(struct sketch *s, uint64_t seed)
{
	s->len = 0;
	s->n = 0;
	s->state = seed;
	say(s, "[net]\nbatch=%d\nwidth=%d\nheight=%d\nchannels=3\n", IMAGES, SIDE, SIDE);
}

static void
add(struct sketch *s, int c, int side)
{
	s->c[s->n] = c;
	s->side[s->n++] = side;
}

static void
conv(struct sketch *s, int size, int k, int stride, const char *act)
{
	int side = s->n ? s->side[s->n - 1] : SIDE;

	say(s, "[convolutional]\nbatch_normalize=%d\nfilters=%d\nsize=%d\nstride=%d\npad=1\n"
	    "activation=%s\n", side > 1, k, size, stride, act);
	add(s, k, (side - 1) / stride + 1);
}

static void
shortcut(struct sketch *s, int from, const char *act)
{
	say(s, "[shortcut]\nfrom=%d\nactivation=%s\n", from, act);
	add(s, s->c[s->n - 1], s->side[s->n - 1]);
}

static void
route(struct sketch *s, int a, int b, int groups)	/* absolute; b < 0: only a */
{
	int c = s->c[a] / groups + (b < 0 ? 0 : s->c[b] / groups);

	say(s, "[route]\nlayers=%d", a);
	if (b >= 0)
		say(s, ",%d", b);
	say(s, "\n");
	if (groups > 1)
		say(s, "groups=%d\ngroup_id=%d\n", groups, groups - 1);
	add(s, c, s->side[a]);
}

static void
plain(struct sketch *s, const char *section, int c, int side)
{
	say(s, "%s\n", section);
	add(s, c, side);
}

static void
head(struct sketch *s)
{
	int side = s->side[s->n - 1];

	say(s, "[convolutional]\nfilters=6\nsize=1\nstride=1\npad=1\nactivation=linear\n");
	add(s, 6, side);
	plain(s, "[yolo]\nmask=0\nclasses=1\nanchors=9,9\nnum=1", 6, side);
}

static void
residual(struct sketch *s)		/* darknet's gradient of this block is wrong */
{
	conv(s, 3, 8, 1, "swish");
	conv(s, 1, 4, 1, "swish");
	conv(s, 3, 8, 1, "swish");
	shortcut(s, -3, "linear");
	conv(s, 1, 4, 1, "mish");
	conv(s, 3, 8, 1, "mish");
	shortcut(s, -3, "linear");
	head(s);
}

static void
twice(struct sketch *s)			/* a route that two layers read, and its sources too */
{
	conv(s, 3, 6, 1, "swish");
	conv(s, 1, 4, 1, "swish");
	route(s, 0, 1, 1);
	conv(s, 1, 5, 1, "swish");
	route(s, 2, -1, 1);
	conv(s, 3, 5, 1, "swish");
	shortcut(s, -3, "linear");	/* of layer 3 onto layer 5 */
	route(s, 6, 2, 1);
	head(s);
}

static void
two_heads(struct sketch *s)		/* one below the other, as in yolov3-tiny */
{
	conv(s, 3, 6, 1, "swish");
	conv(s, 3, 8, 2, "swish");
	conv(s, 1, 6, 1, "swish");
	head(s);
	route(s, 2, -1, 1);
	conv(s, 1, 4, 1, "logistic");
	plain(s, "[upsample]\nstride=2", 4, SIDE);
	route(s, s->n - 1, 0, 1);
	conv(s, 3, 6, 1, "swish");
	head(s);
}

static void
rare(struct sketch *s)			/* squeeze and excite, sam, reorg, groups, dropout */
{
	conv(s, 3, 8, 1, "swish");
	plain(s, "[avgpool]", 8, 1);
	conv(s, 1, 8, 1, "logistic");
	plain(s, "[scale_channels]\nfrom=0\nactivation=linear", 8, SIDE);
	conv(s, 1, 8, 1, "logistic");
	plain(s, "[sam]\nfrom=-2", 8, SIDE);
	plain(s, "[dropout]\nprobability=.3", 8, SIDE);
	route(s, s->n - 1, 0, 2);
	plain(s, "[reorg]\nstride=2", 32, SIDE / 2);
	conv(s, 1, 6, 1, "swish");
	shortcut(s, -1, "mish");
	head(s);
}

static void
kinks(struct sketch *s)
{
	conv(s, 3, 8, 1, "leaky");
	plain(s, "[maxpool]\nsize=2\nstride=2", 8, SIDE / 2);
	conv(s, 3, 8, 1, "relu");
	plain(s, "[maxpool]\nsize=3\nstride=1", 8, SIDE / 2);
	plain(s, "[maxpool]\nsize=5\nstride=1", 8, SIDE / 2);
	route(s, s->n - 1, 2, 1);
	route(s, s->n - 1, 1, 1);
	conv(s, 1, 8, 1, "leaky");
	head(s);
}

/* The layer before i, any, of the same side (and as many channels, where that is wanted). */
static int
fitting(struct sketch *s, int channels)
{
	int last = s->n - 1, i;

	for (int tries = 0; tries < 20; tries++) {
		i = (int)draw(&s->state, (unsigned)s->n);
		if (s->side[i] == s->side[last] && (!channels || s->c[i] == channels))
			return i;
	}
	return last;
}

static void
any(struct sketch *s)			/* 5 to 14 random layers and 1 to 3 heads */
{
	static const char *const act[] = { "swish", "mish", "logistic", "linear" };
	int layers = 5 + (int)draw(&s->state, 10), heads = 0;

	conv(s, 3, 4, 1, "swish");
	while (s->n < layers || !heads) {
		int last = s->n - 1, c = s->c[last], side = s->side[last];

		switch (draw(&s->state, 10)) {
		case 0: case 1:
			conv(s, 1, 2 + 2 * (int)draw(&s->state, 3), 1, act[draw(&s->state, 4)]);
			break;
		case 2: case 3:
			conv(s, 3, 2 + 2 * (int)draw(&s->state, 3), 1, act[draw(&s->state, 4)]);
			break;
		case 4:
			if (side > SIDE / 2)
				conv(s, 3, 4, 2, "swish");
			break;
		case 5: shortcut(s, fitting(s, c), act[3 * draw(&s->state, 2)]); break;
		case 6: case 7: {
			int a = fitting(s, 0), b = fitting(s, 0), odd = s->c[a] % 2 + s->c[b] % 2;

			route(s, a, b, odd ? 1 : 1 + (int)draw(&s->state, 2));
			break;
		}
		case 8:
			if (side < SIDE)
				plain(s, "[upsample]\nstride=2", c, side * 2);
			break;
		default:
			if (s->n < layers - 1 && (heads > 1 || s->n < 4))
				break;
			head(s);
			route(s, s->n - 3, -1, 1);
			heads++;
		}
	}
}

static double
loss(struct probe *p)
{
	double sum = 0;

	net_forward(p->net, p->x, p->n, p->n, 7);
	for (int h = 0; h < p->net->nhead; h++) {
		size_t n = net_floats(p->net, p->net->head[h] - 1);

		p->d->ops->get(p->d, p->raw, net_head_raw(p->net, h), n * sizeof *p->raw);
		for (size_t i = 0; i < n; i++)
			sum += (double)p->coef[h][i] * p->raw[i];
	}
	return sum;
}

static void
gradient(struct probe *p, float *out)
{
	loss(p);
	for (int h = 0; h < p->net->nhead; h++)
		p->d->ops->put(p->d, net_head_grad(p->net, h), p->coef[h],
		    net_floats(p->net, p->net->head[h] - 1) * sizeof *p->raw);
	net_backward(p->net);
	p->d->ops->get(p->d, out, p->net->grad, p->net->par.ntrain * sizeof *out);
}

/* (loss(+h v) - loss(-h v)) / 2h on the n parameters from off on. */
static double
slope(struct probe *p, size_t off, size_t n, const float *v, double h)
{
	double side[2];

	for (int k = 0; k < 2; k++) {
		for (size_t i = 0; i < n; i++)
			p->w.train[off + i] = (float)(p->train[off + i] + (k ? -h : h) * v[i]);
		p->d->ops->put(p->d, p->net->train, p->w.train,
		    p->net->par.ntrain * sizeof *p->train);
		side[k] = loss(p);
	}
	memcpy(p->w.train + off, p->train + off, n * sizeof *v);
	return (side[0] - side[1]) / (2 * h);
}

/* The slope by halved steps: it does not know what it should be. */
static double
settled(struct probe *p, const struct param *t, const float *v, double h, double scale)
{
	double last = slope(p, t->off, t->n, v, h), best = 0, least = INFINITY, before = 0;

	for (int k = 1; k < 8 && least > 1e-5 * scale; k++) {
		double d = slope(p, t->off, t->n, v, h /= 2), r = (4 * d - last) / 3;

		if (k > 1 && fabs(r - before) < least) {
			least = fabs(r - before);
			best = r;
		}
		before = r;
		last = d;
	}
	return best;
}

/* Along v, which is scaled to a root mean square of 1. */
static void
along(struct probe *p, const struct param *t, float *v, const char *way)
{
	double vv = 0, gg = 0, gv = 0, size = 0, scale, found, off;
	const float *g = p->grad + t->off;

	for (size_t i = 0; i < t->n; i++)
		vv += (double)v[i] * v[i];
	if (vv == 0)
		return;
	for (size_t i = 0; i < t->n; i++) {
		v[i] = (float)(v[i] / sqrt(vv / (double)t->n));
		gg += (double)g[i] * g[i];
		gv += (double)g[i] * v[i];
		size += (double)p->train[t->off + i] * p->train[t->off + i];
	}
	scale = sqrt(gg * (double)t->n) + 4e-3 * p->largest;
	found = settled(p, t, v, p->step * (.2 + sqrt(size / (double)t->n)), scale);
	off = fabs(found - gv) / scale;
	if (off > p->worst) {
		p->worst = off;
		snprintf(p->where, sizeof p->where, "layer %d, kind %d, %s: %.9g, difference %.9g",
		    t->layer, t->kind, way, gv, found);
	}
}

static void
differences(struct probe *p, uint64_t *state)
{
	float *v = (float *)xmalloc(p->net->par.ntrain * sizeof *v);

	p->worst = p->largest = 0;
	for (int i = 0; i < p->net->par.np; i++) {
		const struct param *t = &p->net->par.p[i];
		double gg = 0;

		for (size_t k = 0; k < t->n && t->kind <= P_GAMMA; k++)
			gg += (double)p->grad[t->off + k] * p->grad[t->off + k];
		p->largest = fmax(p->largest, sqrt(gg * (double)t->n));
	}
	for (int i = 0; i < p->net->par.np; i++) {
		const struct param *t = &p->net->par.p[i];

		if (t->kind > P_GAMMA)
			continue;
		memcpy(v, p->grad + t->off, t->n * sizeof *v);
		along(p, t, v, "along the gradient");
		for (size_t k = 0; k < t->n; k++)
			v[k] = real(state);
		along(p, t, v, "along any direction");
	}
	free(v);
}

static void
open_probe(struct probe *p, const struct sketch *s, uint64_t *state)
{
	struct net_opts o = { .batch = IMAGES, .train = 1, .bn_momentum = .1f };
	struct err e;
	size_t most = 0;

	if (!(p->cfg = cfg_parse("graph.cfg", s->text, s->len, &e)) ||
	    !(p->net = net_open(p->d, p->cfg, &o, &e)))
		die(1, "%s\n%s", e.msg, s->text);
	weights_init(p->cfg, &p->net->par, 5, &p->w);
	for (int i = 0; i < p->net->par.np; i++) {
		const struct param *t = &p->net->par.p[i];

		for (size_t k = 0; k < t->n && (t->kind == P_GAMMA || t->kind == P_BIAS); k++)
			p->w.train[t->off + k] = (t->kind == P_GAMMA) + .5f * real(state);
	}
	net_put(p->net, &p->w);
	p->train = (float *)xmalloc(p->net->par.ntrain * sizeof *p->train);
	memcpy(p->train, p->w.train, p->net->par.ntrain * sizeof *p->train);
	p->grad = (float *)xcalloc(p->net->par.ntrain, sizeof *p->grad);
	p->x = (float *)xmalloc(IMAGES * SIDE * SIDE * 3 * sizeof *p->x);
	for (int i = 0; i < IMAGES * SIDE * SIDE * 3; i++)
		p->x[i] = real(state);
	for (int h = 0; h < p->net->nhead; h++) {
		const struct layer *l = &p->cfg->l[p->net->head[h] - 1];
		size_t n = (size_t)IMAGES * (size_t)(l->h * l->w * l->c);

		p->coef[h] = (float *)xmalloc(n * sizeof *p->x);
		for (size_t i = 0; i < n; i++)
			p->coef[h][i] = real(state);
		most = n > most ? n : most;
	}
	p->raw = (float *)xmalloc(most * sizeof *p->raw);
}

static void
close_probe(struct probe *p)
{
	for (int h = 0; h < p->net->nhead; h++)
		free(p->coef[h]);
	free(p->raw);
	free(p->x);
	free(p->grad);
	free(p->train);
	weights_free(&p->w);
	net_close(p->net);
	cfg_close(p->cfg);
}

static void
ok_on(int good, const char *name, const char *device, const char *what)
{
	okf(good, "%s, %s: %s", name, device, what);
}

/* A second pass adds its gradients to the first one's: parts of a batch. */
static int
adds(struct probe *p)
{
	float *twice = (float *)xmalloc(p->net->par.ntrain * sizeof *twice);
	double most = 0, off = 0;

	gradient(p, twice);
	for (size_t i = 0; i < p->net->par.ntrain; i++) {
		most = fmax(most, fabs(2. * p->grad[i]));
		off = fmax(off, fabs(twice[i] - 2. * p->grad[i]));
	}
	free(twice);
	return off <= 1e-5 * most;
}

static void
graph(const char *name, const struct sketch *s, struct dev *d, const char *device, int smooth)
{
	struct probe p = { .d = d, .step = smooth ? .05 : .004, .bound = smooth ? 1e-3 : .05 };
	uint64_t state = s->state;

	open_probe(&p, s, &state);
	p.n = 1 + (int)draw(&state, IMAGES);
	gradient(&p, p.grad);
	ok_on(adds(&p), name, device, "a second pass adds");
	differences(&p, &state);
	ok_on(p.worst < p.bound, name, device, "differences");
	printf("# off by %.3g: %s\n", p.worst, p.where);
	if (p.worst >= p.bound)
		printf("# of this cfg:\n%s# the end\n", s->text);
	close_probe(&p);
}

int
main(void)
{
	static const struct { const char *name; void (*draw)(struct sketch *); int smooth; }
	tab[] = {
		{ "residual block, 1x1 first", residual, 1 }, { "a route used twice", twice, 1 },
		{ "two heads", two_heads, 1 }, { "rare layers", rare, 1 },
		{ "kinks", kinks, 0 }, { "random", any, 1 },
	};
	static struct sketch s;
	struct dev_opts o = { .threads = 1, .exact = 1, .deterministic = 1 };
	struct err e;
	const char *want = getenv("EMUTEST_DEVICE"), *const device[] = { "CPU",
	    want ? want : "emulator" };
	struct dev *d[2] = { dev_open("cpu", &o, &e), want ? dev_open(want, &o, &e) : dev_emu(0) };

	emu_block = 32;
	if (!d[0] || !d[1])
		die(1, "%s", e.msg);
	for (int k = 0; k < 2; dev_close(d[k++]))
		for (size_t i = 0; i < sizeof tab / sizeof *tab; i++)
			for (int seed = 0; seed < (tab[i].draw == any && !k ? 16 : 1); seed++) {
				begin(&s, (uint64_t)seed + 100 * i);
				tab[i].draw(&s);
				graph(tab[i].name, &s, d[k], device[k], tab[i].smooth);
			}
	return done();
}
