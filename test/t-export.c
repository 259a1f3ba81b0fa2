/* t-export.c -- what checks of yolo-export need: cfgs by seed, weights by seed, and this program's
 * own numbers to compare with.
 *
 *	t-export gen SEED			a legal cfg of any mix of layers, on stdout
 *	t-export weights CFG SEED OUT		random weights for it
 *	t-export dump CFG WEIGHTS DIR [PICTURE ...]	per picture the input, NCHW floats in
 *						DIR/I.x, each head's raw values in DIR/I.headK, and
 *						in DIR/pictures.tsv how it lies in the input;
 *						without a picture noise
 */
#include <stdlib.h>
#include <string.h>

#include "base/fn.h"
#include "yolo.h"

/* ---- cfgs ---------------------------------------------------------------------------------- */

static uint64_t seed;
static uint32_t drawn;

static int
draw(int below)
{
	uint32_t word[4];

	fn_philox(seed, 77, drawn++, word);
	return (int)(word[0] % (uint32_t)below);
}

struct shape { int c, h, w; };
struct gen { FILE *f; struct shape l[400]; int n, w, h; };

static const char *const acts[] = { "linear", "leaky", "relu", "mish", "swish", "logistic" };

static struct shape
last(const struct gen *g)
{
	return g->l[g->n - 1];
}

static void
add(struct gen *g, int c, int h, int w)
{
	struct shape s = { c, h, w };

	g->l[g->n++] = s;
}

/* A convolution that keeps the sides, or divides them by the strides. */
static void
conv(struct gen *g, int k, int size, int sy, int sx)
{
	struct shape s = g->n ? last(g) : (struct shape){ 3, g->h, g->w };
	int groups = 1, dil = sy == 1 && sx == 1 && size > 1 && !draw(4) ? 2 : 1;

	if (!draw(4) && s.c % 4 == 0 && k % 4 == 0)
		groups = draw(2) ? 4 : 2;
	else if (!draw(4) && k == s.c)
		groups = k;
	fprintf(g->f, "\n[convolutional]\n%sfilters=%d\nsize=%d\nstride_x=%d\nstride_y=%d\npad=1\n"
	    "groups=%d\ndilation=%d\nactivation=%s\n", draw(3) ? "batch_normalize=1\n" : "", k,
	    size, sx, sy, groups, dil, acts[draw(5)]);
	add(g, k, s.h / sy, s.w / sx);
}

static void
squeeze(struct gen *g)
{
	struct shape s = last(g);
	int from = g->n - 1;

	if (draw(2) && s.h >= 4 && s.w >= 4) {	/* sides that nothing else has to meet */
		fprintf(g->f, "\n[convolutional]\nfilters=%d\nsize=%d\npadding=%d\nstride=1\n"
		    "activation=leaky\n", s.c, 2 + draw(3), draw(2));
		add(g, s.c, 0, 0);
	}
	fprintf(g->f, "\n[avgpool]\n");
	add(g, s.c, 1, 1);
	fprintf(g->f, "\n[convolutional]\nfilters=8\nsize=1\nactivation=relu\n");
	add(g, 8, 1, 1);
	fprintf(g->f, "\n[convolutional]\nfilters=%d\nsize=1\nactivation=logistic\n", s.c);
	add(g, s.c, 1, 1);
	fprintf(g->f, "\n[scale_channels]\nfrom=%d\nactivation=%s\n", from - g->n,
	    draw(2) ? "linear" : "leaky");
	add(g, s.c, s.h, s.w);
}

static void
attention(struct gen *g)
{
	struct shape s = last(g);

	fprintf(g->f, "\n[convolutional]\nfilters=%d\nsize=1\nactivation=logistic\n\n[sam]\n"
	    "from=-2\nactivation=linear\n", s.c);
	add(g, s.c, s.h, s.w);
	add(g, s.c, s.h, s.w);
}

static void
pool(struct gen *g)
{
	static const int sizes[] = { 2, 3, 5, 9 };
	struct shape s = last(g);
	int stride = s.h % 4 == 0 && s.w % 4 == 0 && s.h > 4 && s.w > 4 && draw(2) ? 2 : 1;

	fprintf(g->f, "\n[maxpool]\nsize=%d\nstride=%d\n", sizes[draw(4)], stride);
	add(g, s.c, s.h / stride, s.w / stride);
}

/* Earlier layers of the same sides: how many of at most 3, from the end. */
static int
alike(struct gen *g, int *at)
{
	int n = 0;

	for (int i = g->n - 2; i >= 0 && n < 3; i--)
		if (g->l[i].h == last(g).h && g->l[i].w == last(g).w && g->l[i].c < 200)
			at[n++] = i;
	return n;
}

static void
join(struct gen *g)
{
	struct shape s = last(g);
	int at[3], n = alike(g, at), groups = 1, c = s.c;

	if (!n)
		return;
	if (draw(2)) {
		fprintf(g->f, "\n[shortcut]\nfrom=%d%s\nactivation=%s\n", at[draw(n)] - g->n, "",
		    acts[draw(3)]);
		add(g, s.c, s.h, s.w);
		return;
	}
	n = draw(n + 1);
	groups = s.c % 2 == 0 && draw(2) ? 2 : 1;
	for (int i = 0; i < n; i++)
		if (g->l[at[i]].c % 2)
			groups = 1;
	fprintf(g->f, "\n[route]\nlayers=-1");
	for (int i = 0; i < n; i++) {
		fprintf(g->f, ",%d", draw(2) ? at[i] : at[i] - g->n);
		c += g->l[at[i]].c;
	}
	fprintf(g->f, "\ngroups=%d\ngroup_id=%d\n", groups, draw(groups));
	add(g, c / groups, s.h, s.w);
}

static void
reshape(struct gen *g)
{
	struct shape s = last(g);
	int kind = draw(4);

	if (kind == 0 && s.h * 2 <= g->h && s.w * 2 <= g->w) {
		fprintf(g->f, "\n[upsample]\nstride=2\n%s", draw(3) ? "" : "scale=.5\n");
		add(g, s.c, s.h * 2, s.w * 2);
	} else if (kind == 1 && s.c % 4 == 0 && s.h * 2 <= g->h && s.w * 2 <= g->w) {
		fprintf(g->f, "\n[reorg]\nstride=2\nreverse=1\n");
		add(g, s.c / 4, s.h * 2, s.w * 2);
	} else if (s.h % 4 == 0 && s.w % 4 == 0 && s.c <= 32 && (kind == 2 || s.c % 4 == 0)) {
		fprintf(g->f, kind == 2 ? "\n[reorg3d]\nstride=2\n" : "\n[reorg]\nstride=2\n");
		add(g, s.c * 4, s.h / 2, s.w / 2);
	}
}

static void
head(struct gen *g)
{
	struct shape s = last(g);
	int classes = 1 + draw(6), masks = 1 + draw(3), kind = draw(3), k;

	classes = 3;
	k = masks * (5 + classes);
	fprintf(g->f, "\n[convolutional]\nfilters=%d\nsize=1\nactivation=%s\n", k,
	    kind == 2 ? "logistic" : "linear");
	add(g, k, s.h, s.w);
	if (kind == 0)
		fprintf(g->f, "\n[region]\nanchors=1,2,2.5,1,3,3\nnum=%d\nclasses=%d\n"
		    "softmax=%d\n", masks, classes, draw(2));
	else {
		fprintf(g->f, "\n[yolo]\nmask=");
		for (int i = 0; i < masks; i++)
			fprintf(g->f, "%s%d", i ? "," : "", (i + draw(2)) % 4);
		fprintf(g->f, "\nanchors=8,9,15,20,30,22,40,50\nnum=4\nclasses=%d\n"
		    "scale_x_y=%s\n%s", classes, draw(2) ? "1" : "1.2",
		    kind == 2 ? "new_coords=1\n" : "");
	}
	add(g, k, s.h, s.w);
}

static void
layers(struct gen *g, int n)
{
	for (int i = 0; i < n; i++) {
		struct shape s = last(g);

		switch (draw(9)) {
		case 0: join(g); break;
		case 1: pool(g); break;
		case 2: squeeze(g); break;
		case 3: attention(g); break;
		case 4: reshape(g); break;
		case 5:
			fprintf(g->f, draw(2) ? "\n[dropout]\nprobability=.3\n" : "\n[empty]\n");
			add(g, s.c, s.h, s.w);
			break;
		case 6:
			if (s.h % 4 == 0 && s.w % 4 == 0) {
				conv(g, 8 << draw(2), 3, 1 + draw(2), 1 + draw(2));
				break;
			}
			/* fall through */
		default: conv(g, draw(3) ? 8 << draw(3) : s.c, 1 + 2 * draw(3), 1, 1); break;
		}
	}
}

static char *
generate(uint64_t number)
{
	char *text = NULL;
	size_t len;
	struct gen g = { 0 };
	int heads;

	seed = number;
	drawn = 0;
	g.w = 32 * (1 + draw(3));
	g.h = 32 * (1 + draw(3));
	g.f = open_memstream(&text, &len);
	fprintf(g.f, "[net]\nwidth=%d\nheight=%d\nchannels=3\n", g.w, g.h);
	conv(&g, 16, 3, 1, 1);
	layers(&g, 4 + draw(14));
	heads = 1 + draw(3);
	for (int i = 0; i < heads; i++) {
		head(&g);
		if (i + 1 < heads) {
			int from = g.n - 3;

			fprintf(g.f, "\n[route]\nlayers=%d\n", from - g.n);
			add(&g, g.l[from].c, g.l[from].h, g.l[from].w);
			layers(&g, 1 + draw(5));
		}
	}
	fclose(g.f);
	return text;
}

/* Some mixes do not meet: the next number of the same seed, until the parser takes one. */
static int
gen(const char *arg)
{
	uint64_t n = strtoull(arg, NULL, 10);

	for (int k = 0; k < 1000; k++) {
		char *text = generate(n * 1000 + (uint64_t)k);
		struct err e;
		struct cfg *c = cfg_parse("gen", text, strlen(text), &e);
		int good = c != NULL;

		if (good)
			fputs(text, stdout);
		cfg_close(c);
		free(text);
		if (good)
			return 0;
		if (getenv("WHY"))
			warn("%s", e.msg);
	}
	return 1;
}

/* ---- weights ------------------------------------------------------------------------------- */

static float
spread(uint64_t key, size_t i, float lo, float hi)
{
	uint32_t word[4];

	fn_philox(key, 5, i, word);
	return lo + (hi - lo) * fn_unit(word[0]);
}

static int
weights(const char *cfg, const char *number, const char *out, struct err *e)
{
	uint64_t key = strtoull(number, NULL, 10);
	struct cfg *c = cfg_read(cfg, e);
	struct params p;
	struct weights w;
	int bad;

	if (!c)
		return -1;
	params_plan(c, &p);
	weights_init(c, &p, key, &w);
	for (int i = 0; i < p.np; i++)
		for (size_t k = 0; k < p.p[i].n; k++) {
			size_t at = p.p[i].off + k;

			switch (p.p[i].kind) {
			case P_BIAS: w.train[at] = spread(key, at, -.3f, .3f); break;
			case P_GAMMA: w.train[at] = spread(key, at, .5f, 1.2f); break;
			case P_MEAN: w.stat[at] = spread(key, at, -.3f, .3f); break;
			case P_VAR: w.stat[at] = spread(key, at, .8f, 2); break;
			default: break;
			}
		}
	bad = weights_save_darknet(out, c, &p, &w, -1, e);
	weights_free(&w);
	params_free(&p);
	cfg_close(c);
	return bad;
}

/* ---- numbers to compare with --------------------------------------------------------------- */

static int
put(const char *dir, int i, const char *what, const float *x, const struct shape *s, struct err *e)
{
	char *path = xasprintf("%s/%d.%s", dir, i, what);
	FILE *f = fopen(path, "wb");

	if (!f)
		return err_set(e, "%s: cannot be written", path);
	for (int c = 0; c < s->c; c++)		/* NHWC to NCHW */
		for (int k = 0; k < s->h * s->w; k++)
			fwrite(&x[(size_t)k * (size_t)s->c + (size_t)c], sizeof *x, 1, f);
	free(path);
	return fclose(f) ? err_set(e, "%s: not written", dir) : 0;
}

static int
one(struct net *net, const char *dir, int i, const float *x, struct err *e)
{
	const struct layer *l0 = &net->cfg->l[0], *end = &net->cfg->l[net->cfg->nl - 1];
	struct shape in = { l0->in_c, l0->in_h, l0->in_w }, s = { end->c, end->h, end->w };
	int bad = put(dir, i, "x", x, &in, e);

	net_forward(net, x, 1, 1, 0);
	for (int k = 0; !bad && k < net->nhead; k++) {
		const struct layer *l = &net->cfg->l[net->head[k]];
		char name[16];

		s = (struct shape){ l->c, l->h, l->w };
		snprintf(name, sizeof name, "head%d", k);
		bad = put(dir, i, name, net_head_raw(net, k), &s, e);
	}
	if (!bad && !net->nhead)
		bad = put(dir, i, "output", (float *)net_out(net, net->cfg->nl - 1), &s, e);
	return bad;
}

static int
noise(struct net *net, const char *dir, struct err *e)
{
	const struct layer *l0 = &net->cfg->l[0];
	size_t n = (size_t)l0->in_c * (size_t)l0->in_h * (size_t)l0->in_w;
	float *x = (float *)xmalloc(n * sizeof *x);
	int bad;

	for (size_t i = 0; i < n; i++)
		x[i] = (float)(int)spread(3, i, 0, 256) / 255;
	bad = one(net, dir, 0, x, e);
	free(x);
	return bad;
}

/* As detect/detect.c takes boxes back: darknet puts pictures down at whole pixels, and takes boxes
 * up at half ones. */
static void
put_fit(FILE *f, const struct layer *l0, const struct picture *p, int darknet)
{
	struct fit t = p->fit;

	if (darknet) {
		t.dx = (l0->in_w - t.nw) / 2.;
		t.dy = (l0->in_h - t.nh) / 2.;
	}
	fprintf(f, "%s\t%d\t%d\t%.17g\t%.17g\t%.17g\t%.17g\n", p->name, p->w, p->h, t.dx, t.dy,
	    t.sx, t.sy);
}

static int
pictures(struct net *net, const char *dir, char **pic, int n, int darknet, struct err *e)
{
	const struct layer *l0 = &net->cfg->l[0];
	struct input_opts o = { .batch = 1, .threads = 1, .w = l0->in_w, .h = l0->in_h,
		.resize = darknet ? RESIZE_DARKNET : RESIZE_STB };
	struct inputs *in = inputs_open(pic, n, &o);
	struct pictures *p;
	char *list = path_join(dir, "pictures.tsv");
	FILE *f = fopen(list, "w");
	int bad = f ? 0 : err_set(e, "%s: cannot be written", list), i = 0;

	while (!bad && (p = inputs_next(in))) {
		bad = p->pic[0].why ? err_set(e, "%s: %s", p->pic[0].name, p->pic[0].why) :
		    one(net, dir, i++, p->x, e);
		put_fit(f, l0, &p->pic[0], darknet);
		inputs_free(in, p);
	}
	if (f)
		fclose(f);
	free(list);
	inputs_close(in);
	return bad;
}

static int
dump_with(struct net *net, char **arg, int n, struct err *e)
{
	struct weights w;
	int bad;

	weights_init(net->cfg, &net->par, 0, &w);
	bad = weights_load(arg[1], net->cfg, &net->par, &w, -1, e);
	if (!bad) {
		struct weights v = w;

		v.train = w.ema ? w.ema : w.train;
		v.stat = w.ema_stat ? w.ema_stat : w.stat;
		net_put(net, &v);
		bad = n > 3 ? pictures(net, arg[2], arg + 3, n - 3, !weights_is_st(arg[1], e), e) :
		    noise(net, arg[2], e);
	}
	weights_free(&w);
	return bad;
}

static int
dump(char **arg, int n, struct err *e)
{
	struct dev_opts o = { .threads = cores() };
	struct net_opts no = { .batch = 1 };
	struct dev *d = dev_open("cpu", &o, e);
	struct cfg *c = d ? cfg_read(arg[0], e) : NULL;
	struct net *net = c ? net_open(d, c, &no, e) : NULL;
	int bad = net ? dump_with(net, arg, n, e) : -1;

	net_close(net);
	cfg_close(c);
	if (d)
		dev_close(d);
	return bad;
}

int
main(int argc, char **argv)
{
	struct err e = { "" };
	int bad = -1;

	calm_threads(argv);
	program(argv, "t-export");
	if (argc == 3 && !strcmp(argv[1], "gen"))
		return gen(argv[2]);
	if (argc == 5 && !strcmp(argv[1], "weights"))
		bad = weights(argv[2], argv[3], argv[4], &e);
	else if (argc >= 5 && !strcmp(argv[1], "dump"))
		bad = dump(argv + 2, argc - 2, &e);
	if (bad)
		warn("%s", e.msg);
	return bad != 0;
}
