/* t-modelrun.c -- published networks run forward and train a step.
 *
 * Batch 1 at the smallest side that fits, synthetic picture and truths, weights at their beginning.
 * A step must be finite, reach every kernel of the network but those that stopbackward holds, and
 * leave weights with which the folded inference network gives numbers.  Without an argument only
 * networks up to SMALL parameters; "all": every one,
 * or those with the second argument in their name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"
#include "test/tap.h"

enum { SMALL = 5 << 20 };

static const char *const models[] = {
	"cfg/yolov3", "cfg/yolov3-spp", "cfg/yolov3-tiny", "cfg/bccd", "cfg/nuclei", "cfg/demo",
	"D/yolov2", "D/yolov2-tiny", "D/yolov2-tiny-voc", "D/yolov3", "D/yolov3-voc",
	"D/yolov3-openimages", "D/yolov3-spp", "D/yolov3_5l", "D/yolov3-tiny", "D/yolov3-tiny_3l",
	"D/yolov3-tiny-prn", "D/yolov4", "D/yolov4-tiny", "D/yolov4-tiny-3l", "D/yolov4-csp",
	"D/yolov4-csp-swish", "D/yolov4x-mish", "D/yolov4-csp-x-swish", "D/yolov4-p5",
	"D/yolov4-p6",
	"D/yolov7-tiny", "D/yolov7", "D/yolov7x", "D/enet-coco", "D/csresnext50-panet-spp",
	"D/csresnext50-panet-spp-original-optimal", "D/yolov4-sam-mish-csp-reorg-bfm",
	"D/cspx-p7-mish", "D/yolov4-csp-x-swish-frozen", "D/yolov4-p5-frozen",
	"W/yolo-fastest-1.0-coco/yolo-fastest", "W/yolo-fastest-1.1-coco/yolo-fastest-1.1",
	"W/yolo-fastest-1.1-coco/yolo-fastest-1.1-xl",
	"W/mobilenetv2-nano-coco/MobileNetV2-YOLOv3-Nano-coco",
	"W/mobilenetv2-fastest-voc-v1/MobileNetV2-YOLO-Fastest-voc",
	"W/mobilenetv2-fastest-voc-v2/MobileNetV2-YOLO-Fastest-voc-v2",
	"W/yoloface-50k/yoloface-50k",
	"W/nuclei-tiny/nuclei-tiny",
};

static void
ok_of(int good, const char *name, const char *what)
{
	okf(good, "%s: %s", name, what);
}

static char *
path_of(const char *model)
{
	const char *dir = *model == 'D' ? "../shared/data/cfg/alexeyab" : "../shared/data/weights";

	return *model == 'c' ? xasprintf("%s.cfg", model) : xasprintf("%s%s.cfg", dir, model + 1);
}

/* The smallest side from 64 on that the network takes, with a grid of 2x2 at its coarsest:
 * batch-norm of a single value is all epsilon, and a folded network then overflows. */
static int
shrink(struct cfg *c, struct err *e)
{
	for (int s = 64; s <= 512; s += 32)
		if (s >= 2 * cfg_stride(c) && !cfg_resize(c, s, s, e))
			return 0;
	return -1;
}

static struct batch
make_batch(const struct cfg *c)
{
	static struct truth truth[] = { { 0, 0, .3f, .4f, .3f, .5f }, { 0, 0, .7f, .6f, .12f, .1f },
		{ 0, 0, .52f, .2f, .9f, .35f } };
	struct batch b = { .n = 1, .n_global = 1, .w = c->net.w, .h = c->net.h, .truth = truth,
		.ntruth = 3 };
	size_t n = (size_t)c->net.w * (size_t)c->net.h * (size_t)c->net.c;
	uint32_t x = 7;

	b.x = (float *)xmalloc(n * sizeof *b.x);
	for (size_t i = 0; i < n; i++)
		b.x[i] = (float)((x = x * 1664525 + 1013904223) >> 8) / 16777216;
	return b;
}

/* The first layer that a step shall change: stopbackward holds those before it, and itself. */
static int
first_moving(const struct cfg *c)
{
	int stop = 0;

	for (int i = 0; i < c->nl; i++)
		if (c->l[i].stopbackward || c->l[i].train_only_bn)
			stop = i + 1;
	return stop;
}

/* Kernels that stayed as they were though they should move, and held ones that moved. */
static int
wrong_moves(const struct cfg *c, const struct params *p, const struct weights *a,
    const struct weights *b)
{
	int n = 0, stop = first_moving(c);

	for (int i = 0; i < p->np; i++) {
		const struct param *q = &p->p[i];
		int moved, held = q->layer < stop;

		if (q->kind != P_WEIGHT ||
		    (q->layer == stop - 1 && c->l[stop - 1].stopbackward == 1))
			continue;		/* stopbackward=1: itself has weight decay only */
		moved = memcmp(a->train + q->off, b->train + q->off, q->n * sizeof(float)) != 0;
		if (moved != !held) {
			printf("# layer %d, line %d: %s\n", q->layer, c->l[q->layer].line,
			    moved ? "moved" : "no update");
			n++;
		}
	}
	return n;
}

static void
detect(const char *name, struct dev *d, const struct cfg *c, const struct batch *b,
    const struct weights *w)
{
	struct picture pic = { .name = (char *)"drawn", .w = b->w, .h = b->h,
		.fit = fit_letterbox(b->w, b->h, b->w, b->h) };
	struct pictures in = { 1, &pic, b->x };
	struct detections out = { 0, NULL };
	struct detect_opts o;
	struct detector *t;
	struct err e = { "" };

	detect_defaults(&o, c);
	o.batch = 1;
	o.w = b->w;
	o.h = b->h;
	if ((t = detector_open(d, c, &o, &e)))
		detector_put(t, w);
	ok_of(t && !detector_run(t, &in, &out, &e), name, "runs forward, folded");
	if (e.msg[0])
		printf("# %s\n", e.msg);
	detector_close(t);
}

/* loss NULL: by the cfg's own keys. */
static void
train(const char *name, struct dev *d, struct cfg *c, const char *loss)
{
	/* Running statistics of the batch itself, lest the folded network overflow. */
	struct net_opts no = { .batch = 1, .train = 1, .bn_momentum = 1 };
	struct settings none;
	struct recipe r;
	struct net *net = NULL;
	struct trainer *t = NULL;
	struct batch b = make_batch(c);
	struct weights first = { 0 }, then = { 0 };
	struct step_result s = { 0 }, s2 = { 0 };
	struct warm w = { .lr = 1e-4, .lr_bias = 1e-4, .momentum = .9, .decay = 5e-4 };
	struct err e = { "" };
	int bad;

	settings_open(&none, train_settings);
	bad = recipe_make(&r, c, loss, NULL, 1, 0, &none, &e) || trainer_freeze(c, 0, &e) ||
	    !(net = net_open(d, c, &no, &e)) ||
	    !(t = trainer_open(net, NULL, &r.train, &e));
	if (!bad) {
		weights_init(c, &net->par, 0, &first);
		trainer_put(t, &first);
		bad = trainer_step(t, &b, &w, &s, &e) || trainer_step(t, &b, &w, &s2, &e);
		w = (struct warm){ .momentum = .9 };	/* statistics of the weights as they are */
		bad = bad || trainer_step(t, &b, &w, &s2, &e);
	}
	ok_of(!bad && s.finite && s.loss > 0 && s.gnorm > 0 && s2.finite, name, "trains a step");
	if (!bad)
		printf("# %dx%d %s: loss %g, then %g\n", b.w, b.h, loss_name(r.train.loss.kind),
		    s.loss, s2.loss);
	else
		printf("# %s\n", e.msg);
	if (!bad) {
		then.train = (float *)xcalloc(net->par.ntrain + 1, sizeof(float));
		then.stat = (float *)xcalloc(net->par.nstat + 1, sizeof(float));
		net_get(net, &then);
		ok_of(!wrong_moves(c, &net->par, &first, &then), name,
		    first_moving(c) ? "the step reaches every kernel that is not held" :
		    "the step reaches every kernel");
		if (!loss)
			detect(name, d, c, &b, &then);
	}
	trainer_close(t);
	net_close(net);
	weights_free(&first);
	weights_free(&then);
	settings_close(&none);
	free(b.x);
}

static void
model(const char *name, struct dev *d, int all)
{
	char *path = path_of(name), *text;
	struct cfg *c = NULL, *own;
	struct err e = { "" };
	long floats = 0;

	if (access(path, R_OK)) {
		skip(name, "no ../shared");
		free(path);
		return;
	}
	if (!(c = cfg_read(path, &e)) || shrink(c, &e)) {
		ok_of(0, name, e.msg);
	} else {
		for (int i = 0; i < c->nl; i++)
			floats += cfg_floats(c, i);
		if (all || floats < SMALL)
			train(name, d, c, NULL);
		if (all && c->l[c->nl - 1].type == L_YOLO) {	/* the default recipe's loss too */
			text = recipe_cfg_text(c, LOSS_CIOU, 0, 0);
			own = cfg_parse(path, text, strlen(text), &e);
			if (own && !shrink(own, &e))
				train(name, d, own, "ciou");
			else
				ok_of(0, name, e.msg);
			cfg_close(own);
			free(text);
		}
	}
	cfg_close(c);
	free(path);
}

int
main(int argc, char **argv)
{
	struct dev_opts o = { .threads = 1 };
	struct err e;
	struct dev *d = dev_open("cpu", &o, &e);

	if (!d) {
		printf("Bail out! %s\n", e.msg);
		return 1;
	}
	for (size_t i = 0; i < sizeof models / sizeof *models; i++)
		if (argc < 3 || strstr(models[i], argv[2]))
			model(models[i], d, argc > 1 && !strcmp(argv[1], "all"));
	dev_close(d);
	return done();
}
