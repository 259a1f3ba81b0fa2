/* detect.c -- from the network's output to boxes in pictures.
 *
 * The heads' values are decoded on the host, straight from the convolution before the head: most
 * cells end at their objectness, so copying and looking at one value in 85 is less than decoding
 * them all.  Boxes are numbered by head, anchor, row, column.  Suppression works in pixels of the
 * network's input; then boxes go back into the picture and are clipped to it.
 *
 * The same picture gives the same bits in any batch.  A CPU's matrix product rounds a row by its
 * place among the rows, so there each picture is computed alone; a GPU's kernel is chosen by the
 * number of rows, so there a short batch is computed as a full one.  With rect, pictures of a batch
 * differ in size: those of one size are computed together.
 *
 * Formulas: a yolo head's centre is (col + k*s(x) - (k-1)/2) cells, its size anchor*exp(w), or with
 * new_coords anchor*4*w^2 on values that the convolution has sent through the logistic already.  A
 * region head's anchors are in cells. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fn.h"
#include "detect/detect.h"

#define FAR 1e9f		/* edges go no further: exp may have overflowed */

struct cands {			/* of one picture */
	float *box, *score, *obj;	/* [n][4] left top right bottom, [n][classes], [n] */
	size_t n, capbox, capscore, capobj;
	struct det *det;
	int nan;			/* the head that gave no number, -1 none */
};
struct decoder {
	float *raw[MAX_HEADS];
	size_t each[MAX_HEADS];		/* floats of a picture in raw, at most */
	float *stage;			/* inputs of one size side by side */
	int *at;			/* pictures of one size */
	struct cands *pic;		/* opt.batch of them */
};

void
detect_defaults(struct detect_opts *o, const struct cfg *c)
{
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);
	const struct def_yolo *d = n ? &c->l[head[n - 1]].u.yolo : NULL; /* the last decides */
	struct err e;

	memset(o, 0, sizeof *o);
	nms_method(&o->nms, !d || d->nms_kind == NMS_DEFAULT ? "greedy" : "diou-darknet", &e);
	if (d && d->nms_kind == NMS_DIOU)
		o->nms.beta = d->beta_nms;
	o->nms.score_thresh = .25;
	o->nms.iou_thresh = .45;
	o->batch = DETECT_BATCH;
	o->clip = 1;
	o->resize = RESIZE_STB;
}

void
detect_eval(struct detect_opts *o)
{
	struct err e;

	nms_method(&o->nms, "merge", &e);
	o->nms.score_thresh = .001;
	o->nms.iou_thresh = .6;
	o->nms.max_det = 300;
}

int
detect_softmax(enum loss_kind k)
{
	return k == LOSS_ULTRA2019 || k == LOSS_MULTI;
}

const char *
detect_text(float v, char text[32])
{
	snprintf(text, 32, "%.9g", v);
	return text;
}

double
detect_value(float v)
{
	char text[32];

	return strtod(detect_text(v, text), NULL);
}

/* ---- decode -------------------------------------------------------------------------------- */

struct head {			/* what the decoder needs of a head */
	const struct layer *l;
	const struct def_yolo *d;
	int region, anchors, stride;	/* stride: floats of a cell */
	int softmax;
	float sx, sy;			/* pixels of a cell */
};

static struct head
head_of(const struct detector *t, int i)
{
	const struct layer *l = &t->cfg->l[t->net->head[i]];
	struct head h = { .l = l, .d = &l->u.yolo, .region = l->type == L_REGION };

	h.anchors = h.region ? h.d->num : h.d->nmask;
	h.stride = h.anchors * (5 + h.d->classes);
	h.softmax = t->opt.softmax || (h.region && h.d->softmax);
	h.sx = (float)t->cfg->l[0].in_w / (float)l->w;
	h.sy = (float)t->cfg->l[0].in_h / (float)l->h;
	return h;
}

static float
probability(const struct head *h, float t)
{
	return h->d->new_coords ? t : fn_logistic(t);
}

static float
edge(float v)
{
	return v < -FAR ? -FAR : v > FAR ? FAR : v;
}

/* p: x y w h ... of anchor a in a cell. */
static void
decode_box(const struct head *h, int a, int row, int col, const float *p, float *box)
{
	const struct def_yolo *d = h->d;
	const float *anchor = d->anchor + 2 * (h->region ? a : d->mask[a]);
	float k = h->region ? 1 : d->scale_x_y;
	float x = fn_centre(k, probability(h, p[0]), col, h->sx);
	float y = fn_centre(k, probability(h, p[1]), row, h->sy);
	float w = fn_side(d->new_coords, p[2], anchor[0]), g = fn_side(d->new_coords, p[3],
	    anchor[1]);

	if (h->region) {
		w *= h->sx;
		g *= h->sy;
	}
	box[0] = edge(x - w / 2);
	box[1] = edge(y - g / 2);
	box[2] = edge(x + w / 2);
	box[3] = edge(y + g / 2);
}

static void
decode_classes(const struct head *h, const float *p, float obj, float *score)
{
	int n = h->d->classes;
	float top = p[0], sum = 0;

	if (!h->softmax) {
		for (int k = 0; k < n; k++)
			score[k] = obj * probability(h, p[k]);
		return;
	}
	for (int k = 1; k < n; k++)
		top = fmaxf(top, p[k]);
	for (int k = 0; k < n; k++)
		sum += score[k] = expf(p[k] - top);
	for (int k = 0; k < n; k++)
		score[k] = obj * (score[k] / sum);
}

static int
has_nan(const float *v, int n)
{
	for (int i = 0; i < n; i++)
		if (isnan(v[i]))
			return 1;
	return 0;
}

/* Candidates of one head in one picture; 0, or -1 where the network gave no numbers. */
static int
decode_head(const struct head *h, const float *raw, double thresh, struct cands *c)
{
	int classes = h->d->classes, n = 5 + classes;
	size_t cells = (size_t)h->l->h * (size_t)h->l->w;

	for (int a = 0; a < h->anchors; a++)
		for (size_t i = 0; i < cells; i++) {
			const float *p = raw + i * (size_t)h->stride + a * n;
			float obj = probability(h, p[4]);

			if (!(obj > thresh) && !isnan(obj))
				continue;
			if (has_nan(p, n))
				return -1;
			c->box = (float *)xgrow(c->box, &c->capbox, 4 * (c->n + 1), sizeof(float));
			c->score = (float *)xgrow(c->score, &c->capscore,
			    (size_t)classes * (c->n + 1), sizeof(float));
			c->obj = (float *)xgrow(c->obj, &c->capobj, c->n + 1, sizeof(float));
			decode_box(h, a, (int)i / h->l->w, (int)i % h->l->w, p, c->box + 4 * c->n);
			decode_classes(h, p + 5, obj, c->score + (size_t)classes * c->n);
			c->obj[c->n++] = obj;
		}
	return 0;
}

/* ---- pictures ------------------------------------------------------------------------------ */

/* How the picture lies in the input.  Darknet puts it down at a whole pixel and takes it up at a
 * half one where the border is odd; its resize comes with its way back. */
static struct fit
fit_back(const struct detector *t, const struct picture *p)
{
	struct fit f = p->fit;

	if (t->opt.resize == RESIZE_DARKNET && !t->opt.stretch) {
		f.dx = (t->cfg->l[0].in_w - f.nw) / 2.;
		f.dy = (t->cfg->l[0].in_h - f.nh) / 2.;
	}
	return f;
}

static int
detect_one(struct detector *t, const struct picture *p, int i)
{
	struct cands *c = &t->dec->pic[i];
	struct fit back = fit_back(t, p);
	struct nms_in boxes;
	int n, left = 0;

	free(c->det);
	c->det = NULL;
	c->n = 0;
	c->nan = -1;
	if (p->why)
		return 0;
	for (int k = 0; k < t->net->nhead; k++) {
		struct head h = head_of(t, k);
		const float *raw = t->dec->raw[k] + t->dec->each[k] * (size_t)i;

		if (decode_head(&h, raw, t->opt.nms.score_thresh, c)) {
			c->nan = k;
			return 0;
		}
	}
	boxes = (struct nms_in){ c->box, c->score, c->obj, (int)c->n, t->classes };
	n = nms_run(&t->opt.nms, &boxes, &c->det);
	for (int k = 0; k < n; k++)	/* what lies in the border only is not in the picture */
		if (det_map(&c->det[k], &back, p->w, p->h, t->opt.clip) || !t->opt.clip)
			c->det[left++] = c->det[k];
	return left;
}

/* The inputs of m pictures in a row: where they stand, or a copy. */
static const float *
inputs_of(struct detector *t, const struct pictures *in, const int *at, int m)
{
	const struct layer *l0 = &t->cfg->l[0];
	size_t all = (size_t)l0->in_c * (size_t)t->w * (size_t)t->h;
	size_t x = (size_t)l0->in_c * (size_t)l0->in_w * (size_t)l0->in_h;

	if (t->net->opt.batch == 1 || (x == all && !at[0] && at[m - 1] == m - 1))
		return in->x + (size_t)at[0] * all;
	for (int j = 0; j < m; j++)
		memcpy(t->dec->stage + (size_t)j * x, in->x + (size_t)at[j] * all,
		    x * sizeof *in->x);
	return t->dec->stage;
}

static void
forward(struct detector *t, const struct pictures *in, const int *at, int n)
{
	struct dev *d = t->net->dev;
	int step = t->net->opt.batch;

	for (int i = 0; i < n; i += step) {
		int m = n - i < step ? n - i : step;

		if (step == 1 && in->pic[at[i]].why)
			continue;
		net_forward(t->net, inputs_of(t, in, at + i, m), step, step, 0);
		for (int k = 0; k < t->net->nhead; k++) {
			int conv = t->net->head[k] - 1;
			size_t each = net_floats(t->net, conv) / (size_t)step;
			const float *out = net_head_raw(t->net, k);

			for (int j = 0; j < m; j++)
				d->ops->get(d, t->dec->raw[k] + t->dec->each[k] * (size_t)at[i + j],
				    out + each * (size_t)j, each * sizeof *out);
		}
	}
}

/* The pictures that have the size of picture i, and come first with it there; 0: it is not. */
static int
of_size(const struct detector *t, const struct pictures *in, int i, int *at)
{
	int n = 0;

	for (int j = 0; j < in->n; j++) {
		const struct picture *p = &in->pic[i], *q = &in->pic[j];

		if (t->opt.rect && (q->net_w != p->net_w || q->net_h != p->net_h))
			continue;
		if (!n && j < i)
			return 0;
		at[n++] = j;
	}
	return n;
}

int
detector_run(struct detector *t, const struct pictures *in, struct detections *out, struct err *e)
{
	struct dev *d = t->net->dev;
	int *at = t->dec->at;

	for (int i = 0, n; i < in->n; i++) {
		if (!(n = of_size(t, in, i, at)))
			continue;
		if (t->opt.rect && net_resize(t->net, in->pic[i].net_w, in->pic[i].net_h, e))
			return -1;
		forward(t, in, at, n);
#pragma omp parallel for schedule(dynamic) num_threads(d->threads)
		for (int j = 0; j < n; j++)
			out[at[j]].n = detect_one(t, &in->pic[at[j]], at[j]);
	}
	for (int i = 0; i < in->n; i++) {
		out[i].det = t->dec->pic[i].det;
		if (t->dec->pic[i].nan >= 0)
			return err_set(e,
			    "%s:%d: the network gives no numbers (NaN) for %s: are the weights "
			    "damaged?", t->cfg->path,
			    t->cfg->l[t->net->head[t->dec->pic[i].nan]].line, in->pic[i].name);
	}
	return 0;
}

/* ---- making one ---------------------------------------------------------------------------- */

static int
check(const struct cfg *c, int nhead, const int *head, struct err *e)
{
	if (!nhead)
		return err_set(e, "%s: no [yolo] or [region] layer: nothing to detect with",
		    c->path);
	if (cfg_pictures(c, e))
		return -1;
	for (int i = 0; i < nhead; i++) {
		const struct layer *l = &c->l[head[i]];

		if (l->u.yolo.classes != c->l[head[0]].u.yolo.classes)
			return err_set(e, "%s:%d: classes=%d, but the first head has %d", c->path,
			    l->line, l->u.yolo.classes, c->l[head[0]].u.yolo.classes);
		if (head[i] == 0)
			return err_set(e, "%s:%d: a head needs a convolution before it", c->path,
			    l->line);
	}
	return 0;
}

struct detector *
detector_open(struct dev *d, const struct cfg *c, const struct detect_opts *o, struct err *e)
{
	struct detector *t = (struct detector *)xcalloc(1, sizeof *t);
	struct net_opts no = { .batch = strcmp(d->name, "cpu") ? o->batch : 1 };
	int head[MAX_HEADS], n;

	t->opt = *o;
	t->cfg = cfg_parse(c->path, c->text, c->len, e);
	n = t->cfg ? cfg_heads(t->cfg, head, MAX_HEADS) : 0;
	if (!t->cfg || (o->w && cfg_resize(t->cfg, o->w, o->h, e)) || check(t->cfg, n, head, e) ||
	    !(t->net = net_open(d, t->cfg, &no, e))) {
		detector_close(t);
		return NULL;
	}
	t->classes = t->cfg->l[head[0]].u.yolo.classes;
	t->dec = (struct decoder *)xcalloc(1, sizeof *t->dec);
	t->dec->pic = (struct cands *)xcalloc((size_t)o->batch, sizeof *t->dec->pic);
	t->dec->at = (int *)xcalloc((size_t)o->batch, sizeof *t->dec->at);
	t->w = t->cfg->l[0].in_w;
	t->h = t->cfg->l[0].in_h;
	t->stride = cfg_stride(t->cfg);
	if (no.batch > 1)
		t->dec->stage = (float *)xcalloc((size_t)t->cfg->l[0].in_c *
		    (size_t)no.batch * (size_t)t->w, (size_t)t->h * sizeof(float));
	for (int k = 0; k < n; k++) {
		const struct layer *l = &t->cfg->l[head[k]];

		t->dec->each[k] = (size_t)l->h * (size_t)l->w * (size_t)l->c;
		t->dec->raw[k] = (float *)xcalloc((size_t)o->batch * t->dec->each[k],
		    sizeof(float));
	}
	return t;
}

void
detector_close(struct detector *t)
{
	if (!t)
		return;
	for (int i = 0; t->dec && i < t->opt.batch; i++) {
		free(t->dec->pic[i].box);
		free(t->dec->pic[i].score);
		free(t->dec->pic[i].obj);
		free(t->dec->pic[i].det);
	}
	for (int k = 0; t->dec && k < MAX_HEADS; k++)
		free(t->dec->raw[k]);
	if (t->dec) {
		free(t->dec->pic);
		free(t->dec->stage);
		free(t->dec->at);
	}
	free(t->dec);
	net_close(t->net);
	cfg_close(t->cfg);
	free(t);
}

void
detector_put(struct detector *t, const struct weights *w)
{
	struct weights v = *w;

	if (w->ema)
		v.train = w->ema;
	if (w->ema && w->ema_stat)
		v.stat = w->ema_stat;
	net_put(t->net, &v);
}

struct input_opts
detector_inputs(const struct detector *t, int threads)
{
	struct input_opts o = { .batch = t->opt.batch, .threads = threads, .w = t->w, .h = t->h,
		.stretch = t->opt.stretch, .rect = t->opt.rect ? t->stride : 0,
		.grey = t->cfg->l[0].in_c == 1, .resize = t->opt.resize };

	return o;
}
