/* t-emu-loss.c -- losses and gradients of all flavours: CPU against emulator. */
#include "test/emutest.h"
#include "test/losstest.h"

struct flavour {
	const char *name;
	enum loss_kind kind;
	int classes, region;
	void (*tune)(struct loss *, struct def_yolo *);
	int rounds;			/* factors of 1.5 or 0.95: results are never whole */
};
static double terms[LOSS_TERMS];	/* of the last run */

/* Where every intermediate result is exact: logistic outputs are 0, 1/2 or 1, predicted boxes are
 * the anchors, and all sizes and places are multiples of powers of two. */
static const float whole_anchor[12] = { 8, 8, 16, 8, 16, 32, 32, 32, 64, 32, 64, 64 };
static const float whole_cells[6] = { 1, 1, 2, 1, 1, 2 };

static void
whole_heads(struct loss *s, int region)
{
	s->in_w = 128;
	s->in_h = 64;
	s->anchor = region ? whole_cells : whole_anchor;
	for (int h = 0; h < s->nhead; h++) {
		s->head[h].w = 4 << h;
		s->head[h].h = 2 << h;
	}
}

static void
whole_truth(struct truth *t, int classes)
{
	unsigned seed = 5;

	for (int i = 0; i < LT_TRUTH; i++) {
		t[i].image = (float)(i / 3 % LT_IMAGES);
		t[i].x = (float)(1 + 2 * (lt_next(&seed) >> 16) % 32) / 64;
		t[i].y = (float)(1 + 2 * (lt_next(&seed) >> 16) % 32) / 64;
		t[i].w = 1.f / (float)(2 << (lt_next(&seed) >> 16) % 3);
		t[i].h = t[i].w * (i % 2 ? 1 : 2);
		t[i].cls = (float)((lt_next(&seed) >> 16) % (unsigned)classes);
		if (i % 3 == 2)
			t[i] = t[i - 1];
	}
}

/* The sizes' entries to 0: exp(0) is 1. */
static void
whole_raw(struct run *r, const struct loss *s, int h, float *raw)
{
	int n = lt_floats(s, h), len = s->classes + 5;
	float *x = (float *)xmalloc((size_t)n * sizeof *x);

	r->d->ops->get(r->d, x, raw, (size_t)n * sizeof *x);
	for (int i = 0; i < n; i++)
		if (i % len == 2 || i % len == 3)
			x[i] = 0;
	r->d->ops->put(r->d, raw, x, (size_t)n * sizeof *x);
	free(x);
}

static void
one_loss(struct run *r, const void *arg, int whole)
{
	const struct flavour *f = (const struct flavour *)arg;
	struct def_yolo y = lt_dark();
	static int counter[8] = { 5, 0, 40, 8, 90, 2, 3, 1 };
	struct truth t[LT_TRUTH];
	double term[MAX_HEADS][LOSS_TERMS] = { { 0 } };
	const struct loss_ops *ops;
	struct loss s;
	float *raw;
	void *ws;

	y.counter = counter;
	lt_heads(&s, f->kind, f->classes, &y);
	if (f->region)
		lt_region(&s, f->classes, &y);
	if (f->tune)
		f->tune(&s, &y);
	lt_truth(t, LT_TRUTH, LT_IMAGES, f->classes, 11);
	if (whole) {
		y.scale_x_y = y.scale_x_y > 1 ? 1.25f : 1;
		whole_heads(&s, f->region);
		whole_truth(t, f->classes);
	}
	ops = f->kind == LOSS_DARKNET || f->kind == LOSS_DARKNET_IOU ? r->d->dark : r->d->yolo;
	for (int h = 0; h < s.nhead; h++) {
		s.head[h].raw = raw = data(r, lt_floats(&s, h));
		if (whole)
			whole_raw(r, &s, h, raw);
		s.head[h].grad = room(r, lt_floats(&s, h));
	}
	ws = hold(r, ops->workspace(&s, LT_TRUTH));
	ops->count(&s, t, LT_TRUTH);
	ops->run(r->d, &s, t, LT_TRUTH, term, ws);
	memset(terms, 0, sizeof terms);
	for (int h = 0; h < s.nhead; h++) {
		take(r, s.head[h].grad, lt_floats(&s, h));
		for (int k = 0; k < LOSS_TERMS; k++)
			terms[k] += term[h][k];
	}
}

static void loss(struct run *r, const void *arg) { one_loss(r, arg, 0); }
static void whole(struct run *r, const void *arg) { one_loss(r, arg, 1); }

static void tune_focal(struct loss *s, struct def_yolo *y) { s->focal_gamma = 1.5; (void)y; }
static void
tune_weights(struct loss *s, struct def_yolo *y)
{
	static const float weight[8] = { 1, .5f, 4, 2, 1, .25f, 2, 1 };

	s->label_smooth = .1;
	s->cls_weight = weight;
	s->cls_pw = 2;
	s->obj_pw = 1.5;
	s->gr = .5;
	(void)y;
}
static void tune_truth(struct loss *s, struct def_yolo *y) { y->truth_thresh = .3f; (void)s; }
static void
tune_v4(struct loss *s, struct def_yolo *y)
{
	y->iou_loss = IOU_CIOU;
	y->iou_thresh = .2f;
	y->scale_x_y = 1.05f;
	y->max_delta = 5;
	(void)s;
}
static void tune_giou(struct loss *s, struct def_yolo *y) { tune_v4(s, y); y->iou_loss = IOU_GIOU; }
static void tune_diou(struct loss *s, struct def_yolo *y) { tune_v4(s, y); y->iou_loss = IOU_DIOU; }
static void
tune_csp(struct loss *s, struct def_yolo *y)
{
	tune_v4(s, y);
	y->new_coords = 1;
	y->scale_x_y = 2;
	y->objectness_smooth = 1;
	y->truth_thresh = .6f;
}
static void tune_counters(struct loss *s, struct def_yolo *y) { tune_v4(s, y); y->counters = 1; }
static void tune_dfocal(struct loss *s, struct def_yolo *y) { tune_v4(s, y); y->focal = 1; }
static void
tune_softmax(struct loss *s, struct def_yolo *y)
{
	y->softmax = y->rescore = 1;
	s->seen = 1e6;
}
static void
tune_match(struct loss *s, struct def_yolo *y)
{
	y->bias_match = y->background = 1;
	(void)s;
}

int
main(void)
{
	static const struct flavour tab[] = {
		{ "ultralytics-2019", LOSS_ULTRA2019, 4, 0, NULL, 0 },
		{ "ultralytics-2019, 80 classes", LOSS_ULTRA2019, 80, 0, NULL, 0 },
		{ "ultralytics-2019, 1 class", LOSS_ULTRA2019, 1, 0, NULL, 0 },
		{ "ultralytics-multi", LOSS_MULTI, 4, 0, NULL, 0 },
		{ "ultralytics-archive", LOSS_ARCHIVE, 4, 0, NULL, 0 },
		{ "ultralytics-archive, focal", LOSS_ARCHIVE, 4, 0, tune_focal, 1 },
		{ "ciou", LOSS_CIOU, 4, 0, NULL, 0 },
		{ "ciou, weights", LOSS_CIOU, 4, 0, tune_weights, 1 },
		{ "darknet", LOSS_DARKNET, 4, 0, NULL, 0 },
		{ "darknet, truth_thresh", LOSS_DARKNET, 4, 0, tune_truth, 0 },
		{ "darknet-iou, mse", LOSS_DARKNET_IOU, 4, 0, NULL, 0 },
		{ "darknet-iou, giou", LOSS_DARKNET_IOU, 4, 0, tune_giou, 0 },
		{ "darknet-iou, diou", LOSS_DARKNET_IOU, 4, 0, tune_diou, 0 },
		{ "darknet-iou, ciou", LOSS_DARKNET_IOU, 4, 0, tune_v4, 0 },
		{ "darknet-iou, new_coords", LOSS_DARKNET_IOU, 4, 0, tune_csp, 0 },
		{ "darknet-iou, counters", LOSS_DARKNET_IOU, 8, 0, tune_counters, 0 },
		{ "darknet-iou, focal", LOSS_DARKNET_IOU, 4, 0, tune_dfocal, 1 },
		{ "region", LOSS_DARKNET, 4, 1, NULL, 0 },
		{ "region, softmax", LOSS_DARKNET, 4, 1, tune_softmax, 0 },
		{ "region, bias_match", LOSS_DARKNET, 4, 1, tune_match, 0 },
	};
	static struct run cpu;
	struct dev_opts o = { .threads = 2, .exact = 1, .deterministic = 1 };
	struct err e;
	struct dev *host = dev_open("cpu", &o, &e), *fake = emutest_device(0);

	for (size_t i = 0; i < sizeof tab / sizeof *tab; i++) {
		double want[LOSS_TERMS];
		int good = 1;

		if (!tab[i].rounds)
			emutest(tab[i].name, whole, &tab[i], 1, 1, .005f);
		emutest(tab[i].name, loss, &tab[i], 0, 4000, 1000);
		perform(&cpu, host, loss, &tab[i], 4000, 1000);
		memcpy(want, terms, sizeof want);
		perform(&cpu, fake, loss, &tab[i], 4000, 1000);	/* block 256 */
		for (int k = 0; k < LOSS_TERMS; k++)
			good &= fabs(terms[k] - want[k]) <= 1e-6 * fabs(want[k]);
		okf(good, "%s, terms", tab[i].name);
	}
	dev_close(host);
	return emutest_end();
}
