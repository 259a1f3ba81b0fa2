/* t-loss.c -- losses: threads, parts of a batch, impossible truths, [region] by hand. */
#include <math.h>
#include <omp.h>

#include "test/losstest.h"
#include "test/tap.h"

enum { CLASSES = 4 };
static struct dev *dev;

static void
ok_of(int good, const char *what, const char *of)
{
	okf(good, "%s: %s", of, what);
}

struct result {
	float *grad[MAX_HEADS];
	double term[LOSS_TERMS];
};

static const struct loss_ops *
ops_of(const struct loss *s)
{
	return s->kind == LOSS_DARKNET || s->kind == LOSS_DARKNET_IOU ? dev->dark : dev->yolo;
}

/* Images from .. to-1 of the batch of LT_IMAGES, whose outputs follow from the seed alone. */
static void
compute(struct loss s, const struct truth *t, int nt, int from, int to, struct result *r)
{
	double term[MAX_HEADS][LOSS_TERMS] = { { 0 } };
	float *raw[MAX_HEADS];
	unsigned seed = 5;
	void *ws;

	for (int h = 0; h < s.nhead; h++) {
		int n = lt_floats(&s, h), each = n / LT_IMAGES;

		raw[h] = (float *)xmalloc((size_t)n * sizeof **raw);
		r->grad[h] = (float *)xmalloc((size_t)n * sizeof **raw);
		for (int i = 0; i < n; i++)
			raw[h][i] = 6 * lt_unit(&seed) - 3;
		s.head[h].raw = raw[h] + from * each;
		s.head[h].grad = r->grad[h] + from * each;
	}
	ws = xmalloc(ops_of(&s)->workspace(&s, nt));
	s.n = to - from;
	ops_of(&s)->run(dev, &s, t, nt, term, ws);
	memset(r->term, 0, sizeof r->term);
	for (int h = 0; h < s.nhead; h++) {
		for (int k = 0; k < LOSS_TERMS; k++)
			r->term[k] += term[h][k];
		free(raw[h]);
	}
	free(ws);
}

static void
release(const struct loss *s, struct result *r)
{
	for (int h = 0; h < s->nhead; h++)
		free(r->grad[h]);
}

static int
same_grad(const struct loss *s, const struct result *a, const struct result *b)
{
	for (int h = 0; h < s->nhead; h++)
		if (memcmp(a->grad[h], b->grad[h], (size_t)lt_floats(s, h) * sizeof(float)))
			return 0;
	return 1;
}

static int
near_terms(const double *a, const double *b)
{
	for (int k = 0; k < LOSS_TERMS; k++)
		if (!(fabs(a[k] - b[k]) <= 1e-12 * fabs(b[k])))
			return 0;
	return 1;
}

static void
threads(const struct loss *s, const struct truth *t, const struct result *want, const char *name)
{
	int good = 1;

	for (int n = 1; n < 5; n++) {
		struct result r;

		omp_set_num_threads(n);
		compute(*s, t, LT_TRUTH, 0, LT_IMAGES, &r);
		good &= same_grad(s, &r, want) && !memcmp(r.term, want->term, sizeof r.term);
		release(s, &r);
	}
	omp_set_num_threads(2);
	ok_of(good, "the same bits with any number of threads", name);
}

/* Counts of the whole batch: gradients of parts are the whole's, terms add. */
static void
parts(const struct loss *s, const struct truth *t, const struct result *want, const char *name)
{
	struct result r[2], all;
	int good = 1;

	for (int p = 0; p < 2; p++) {
		struct truth part[LT_TRUTH];
		int n = 0, from = p, to = p ? LT_IMAGES : 1;

		for (int i = 0; i < LT_TRUTH; i++)
			if (t[i].image >= (float)from && t[i].image < (float)to) {
				part[n] = t[i];
				part[n++].image -= (float)from;
			}
		compute(*s, part, n, from, to, &r[p]);
	}
	for (int h = 0; h < s->nhead; h++) {
		int n = lt_floats(s, h), each = n / LT_IMAGES;

		memcpy(r[1].grad[h], r[0].grad[h], (size_t)each * sizeof(float));
	}
	for (int k = 0; k < LOSS_TERMS; k++)
		all.term[k] = r[0].term[k] + r[1].term[k];
	good = same_grad(s, &r[1], want);
	ok_of(good, "gradients of parts are those of the whole", name);
	ok_of(near_terms(all.term, want->term), "terms of parts add up", name);
	release(s, &r[0]);
	release(s, &r[1]);
}

static void
impossible(const struct loss *s, const struct truth *t, const struct result *want, const char *name)
{
	static const struct truth bad[] = {
		{ 0, -1, .5f, .5f, .2f, .2f }, { 0, CLASSES, .5f, .5f, .2f, .2f },
		{ 0, NAN, .5f, .5f, .2f, .2f }, { -1, 0, .5f, .5f, .2f, .2f },
		{ LT_IMAGES, 0, .5f, .5f, .2f, .2f }, { 1e30f, 0, .5f, .5f, .2f, .2f },
		{ NAN, 0, .5f, .5f, .2f, .2f }, { 0, 0, NAN, .5f, .2f, .2f },
		{ 0, 0, .5f, INFINITY, .2f, .2f }, { 0, 0, .5f, .5f, 0, .2f },
		{ 0, 0, .5f, .5f, .2f, -.2f }, { 0, 0, .5f, .5f, INFINITY, .2f },
	};
	enum { NBAD = sizeof bad / sizeof *bad };
	struct truth mixed[LT_TRUTH + NBAD];
	struct result r;

	for (int i = 0; i < LT_TRUTH + NBAD; i++)
		mixed[i] = i < NBAD ? bad[i] : t[i - NBAD];
	compute(*s, mixed, LT_TRUTH + NBAD, 0, LT_IMAGES, &r);
	ok_of(same_grad(s, &r, want) && near_terms(r.term, want->term),
	    "truths that cannot be change nothing", name);
	release(s, &r);
}

static void
flavour(struct loss s, const char *name)
{
	struct truth t[LT_TRUTH];
	struct result want;
	size_t bytes;

	lt_truth(t, LT_TRUTH, LT_IMAGES, CLASSES, 3);
	ops_of(&s)->count(&s, t, LT_TRUTH);
	compute(s, t, LT_TRUTH, 0, LT_IMAGES, &want);
	threads(&s, t, &want, name);
	parts(&s, t, &want, name);
	impossible(&s, t, &want, name);
	ok_of(loss_kind(loss_name(s.kind)) == (int)s.kind, "name and kind", name);
	bytes = ops_of(&s)->workspace(&s, 100);
	s.head[0].h *= 7;
	s.head[0].w *= 7;
	ok_of(bytes == ops_of(&s)->workspace(&s, 100), "the workspace does for any grid", name);
	release(&s, &want);
}

/* [region], one truth: deltas from the formulas of darknet.md 3.5, cell by cell. */
static double
sg(double x)
{
	return 1 / (1 + exp(-x));
}

static double
iou(const double *a, const double *b)
{
	double w = fmin(a[0] + a[2] / 2, b[0] + b[2] / 2) - fmax(a[0] - a[2] / 2, b[0] - b[2] / 2);
	double h = fmin(a[1] + a[3] / 2, b[1] + b[3] / 2) - fmax(a[1] - a[3] / 2, b[1] - b[3] / 2);
	double i = w > 0 && h > 0 ? w * h : 0;

	return i / (a[2] * a[3] + b[2] * b[3] - i);
}

enum { W = 3, H = 2, A = 3, LEN = CLASSES + 5, N = W * H * A * LEN };

/* The anchor that the truth gets: its cell is column 1, row 1. */
static int
region_best(const struct truth *t, const float *raw, int match)
{
	double zero[4] = { 0, 0, t->w, t->h }, best = -1;
	int at = 0;

	for (int a = 0; a < A; a++) {
		const float *z = raw + ((W + 1) * A + a) * LEN;
		double p[4] = { 0, 0, lt_cells[2 * a] / W, lt_cells[2 * a + 1] / H };

		if (!match) {
			p[2] *= exp(z[2]);
			p[3] *= exp(z[3]);
		}
		if (iou(p, zero) > best) {
			best = iou(p, zero);
			at = (W + 1) * A + a;
		}
	}
	return at;
}

/* Deltas of cell and anchor c; assigned: the truth is its. */
static void
region_cell(const struct loss *s, const struct truth *t, const float *z, int c, int assigned,
    double *d)
{
	const struct def_yolo *y = s->head[0].yolo;
	int a = c % A, col = c / A % W, row = c / A / W;
	double aw = lt_cells[2 * a] / W, ah = lt_cells[2 * a + 1] / H, sum = 0, f = 2 - t->w * t->h;
	double b[4] = { t->x, t->y, t->w, t->h };
	double p[4] = { (col + sg(z[0])) / W, (row + sg(z[1])) / H, exp(z[2]) * aw,
	    exp(z[3]) * ah };

	memset(d, 0, LEN * sizeof *d);
	d[4] = iou(p, b) > (double)y->thresh ? 0 : -sg(z[4]);
	for (int k = 0; k < 4 && s->seen < 12800; k++)
		d[k] = .01 * (k < 2 ? .5 - sg(z[k]) : -z[k]);
	if (!assigned)
		return;
	for (int k = 0; k < CLASSES; k++)
		sum += exp(z[5 + k]);
	d[0] = f * (b[0] * W - col - sg(z[0]));
	d[1] = f * (b[1] * H - row - sg(z[1]));
	d[2] = f * (log(b[2] / aw) - z[2]);
	d[3] = f * (log(b[3] / ah) - z[3]);
	d[4] = 5 * ((y->rescore ? iou(p, b) : 1) - sg(z[4]));
	for (int k = 0; k < CLASSES; k++)
		d[5 + k] = (k == 2) - (y->softmax ? exp(z[5 + k]) / sum : sg(z[5 + k]));
}

static void
region_by_hand(int softmax, int rescore, int match, double seen, const char *name)
{
	struct truth t = { 0, 2, .4f, .7f, .5f, .45f };
	double term[1][LOSS_TERMS] = { { 0 } }, worst = 0, sq = 0, d[LEN];
	struct def_yolo y = lt_dark();
	float raw[N], grad[N];
	unsigned seed = 8;
	struct loss s;
	void *ws;
	int at;

	y.softmax = softmax;
	y.rescore = rescore;
	y.bias_match = match;
	lt_region(&s, CLASSES, &y);
	s.n = 1;
	s.seen = seen;
	for (int i = 0; i < N; i++)
		raw[i] = 3 * lt_unit(&seed) - 1.5f;
	s.head[0].raw = raw;
	s.head[0].grad = grad;
	ws = xmalloc(dev->dark->workspace(&s, 1));
	dev->dark->run(dev, &s, &t, 1, term, ws);
	free(ws);
	at = region_best(&t, raw, match);
	for (int c = 0; c < W * H * A; c++) {
		region_cell(&s, &t, raw + c * LEN, c, c == at, d);
		for (int k = 0; k < LEN; k++) {
			worst = fmax(worst, fabs(d[k] + grad[c * LEN + k]));
			sq += d[k] * d[k];
		}
	}
	ok_of(worst < 1e-6, "deltas are those of the formulas", name);
	ok_of(fabs(term[0][TERM_TOTAL] / sq - 1) < 1e-6 && term[0][TERM_COUNT] == 1, "cost", name);
}

/* archive: the factor exp(tw) is limited to 1000, and beyond that has no slope. */
static double
archive_width(float tw, float *slope)
{
	struct truth t = { 0, 1, .4f, .6f, .8f, .9f };
	double term[MAX_HEADS][LOSS_TERMS] = { { 0 } };
	float raw[3 * (CLASSES + 5)] = { 0 }, grad[3 * (CLASSES + 5)];
	struct loss s;
	void *ws;

	lt_heads(&s, LOSS_ARCHIVE, CLASSES, NULL);
	s.n = s.images = s.nhead = s.head[0].w = s.head[0].h = 1;
	for (int a = 0; a < 3; a++)
		raw[a * (CLASSES + 5) + 2] = tw;
	s.head[0].raw = raw;
	s.head[0].grad = grad;
	ws = xmalloc(dev->yolo->workspace(&s, 1));
	dev->yolo->count(&s, &t, 1);
	dev->yolo->run(dev, &s, &t, 1, term, ws);
	free(ws);
	*slope = 0;
	for (int a = 0; a < 3; a++)
		*slope += fabsf(grad[a * (CLASSES + 5) + 2]);
	return term[0][TERM_BOX];
}

static void
limit(void)
{
	float in, at, out;
	double a = archive_width(6, &in), b = archive_width(7, &at), c = archive_width(8, &out);

	ok_of(in > 0 && at == 0 && out == 0 && a < b && b == c, "exp(tw) is limited to 1000",
	    "ultralytics-archive");
}

int
main(void)
{
	struct dev_opts o = { .threads = 2, .exact = 1, .deterministic = 1 };
	struct def_yolo y = lt_dark(), v4 = lt_dark(), low = lt_dark();
	struct loss s;
	struct err e;

	if (!(dev = dev_open("cpu", &o, &e)))
		die(1, "%s", e.msg);
	v4.iou_loss = IOU_CIOU;
	v4.iou_thresh = .2f;
	low.truth_thresh = .3f;
	for (int k = LOSS_ULTRA2019; k <= LOSS_CIOU; k++) {
		lt_heads(&s, (enum loss_kind)k, CLASSES, k == LOSS_DARKNET_IOU ? &v4 : &y);
		flavour(s, loss_name((enum loss_kind)k));
	}
	lt_heads(&s, LOSS_DARKNET, CLASSES, &low);
	flavour(s, "darknet, truth_thresh");
	lt_region(&s, CLASSES, &y);
	flavour(s, "region");
	limit();
	ok_of(loss_kind("ultralytics") < 0, "an unknown name", "names");
	region_by_hand(0, 0, 0, 0, "region");
	region_by_hand(1, 1, 0, 1e6, "region, softmax, rescore");
	region_by_hand(1, 0, 1, 1e6, "region, bias_match");
	dev_close(dev);
	return done();
}
