/* golden_loss.c -- golden/loss: decoding, assignment, loss terms and gradients of every flavour. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/golden.h"
#include "loss/int.h"

enum { LIST = 8192 };		/* most assigned rows of a case */
struct run {
	struct gold *g;
	struct err *e;
	struct dev *d;
	const struct loss_ops *ops;
	struct loss s;
	struct def_yolo yolo;
	float anchor[2 * 32];
	int counter[256];
	struct truth *truth;
	int nt;
	float *raw[MAX_HEADS], *grad[MAX_HEADS];	/* device */
	unsigned char *state[MAX_HEADS];
	double term[MAX_HEADS][LOSS_TERMS];
};

static double
setting(const struct run *r, const char *key, double dflt)
{
	char path[64];

	snprintf(path, sizeof path, "settings.%s", key);
	return gold_num(r->g->j, path, dflt);
}

/* NAME, or NAME0 NAME1 ... where there are several heads. */
static const char *
head_name(const struct run *r, const char *name, int h, char buf[32])
{
	if (r->s.nhead == 1)
		snprintf(buf, 32, "%s", name);
	else
		snprintf(buf, 32, "%s%d", name, h);
	return buf;
}

static int
is_dark(const struct run *r)
{
	return r->s.kind == LOSS_DARKNET || r->s.kind == LOSS_DARKNET_IOU;
}

static size_t
floats(const struct run *r, int h)
{
	const struct loss_head *p = &r->s.head[h];

	return (size_t)r->s.n * p->h * p->w * p->nmask * (size_t)(r->s.classes + 5);
}

/* ---- the case's settings ---- */

static enum iou_kind
iou_named(const char *s)
{
	static const char *const names[] = { "mse", "iou", "giou", "diou", "ciou" };
	int i = 0;

	while (i < 4 && strcmp(names[i], s))
		i++;
	return (enum iou_kind)i;
}

static void
dark_settings(struct run *r)
{
	struct def_yolo *d = &r->yolo;
	yajl_val c = gold_get(r->g->j, "settings.counters_per_class");

	d->classes = r->s.classes;
	d->max = (int)setting(r, "max", 90);
	d->ignore_thresh = (float)setting(r, "ignore_thresh", NAN);
	d->truth_thresh = (float)setting(r, "truth_thresh", NAN);
	d->scale_x_y = (float)setting(r, "scale_x_y", 1);
	d->iou_normalizer = (float)setting(r, "iou_normalizer", .75);
	d->obj_normalizer = (float)setting(r, "obj_normalizer", 1);
	d->cls_normalizer = (float)setting(r, "cls_normalizer", 1);
	d->delta_normalizer = 1;
	d->max_delta = (float)setting(r, "max_delta", FLT_MAX);
	d->iou_thresh = (float)setting(r, "iou_thresh", 1);
	d->label_smooth = (float)setting(r, "label_smooth_eps", 0);
	d->new_coords = (int)setting(r, "new_coords", 0);
	d->objectness_smooth = (int)setting(r, "objectness_smooth", 0);
	d->focal = (int)setting(r, "focal_loss", 0);
	d->show_details = (int)setting(r, "show_details", 1);
	d->iou_loss = iou_named(gold_str(r->g->j, "settings.iou_loss", "mse"));
	d->iou_thresh_kind = iou_named(gold_str(r->g->j, "settings.iou_thresh_kind", "iou"));
	d->counters = YAJL_IS_ARRAY(c);
	d->counter = r->counter;
	for (int i = 0; d->counters && i < r->s.classes; i++)
		r->counter[i] = (int)YAJL_GET_DOUBLE(YAJL_GET_ARRAY(c)->values[i]);
}

static void
mean_settings(struct run *r)
{
	struct loss *s = &r->s;
	yajl_val b = gold_get(r->g->j, "settings.balance");

	s->k = setting(r, "k", s->k);
	s->gain_xy = setting(r, "xy", s->gain_xy);
	s->gain_wh = setting(r, "wh", s->gain_wh);
	s->gain_conf = setting(r, "conf", s->gain_conf);
	s->gain_cls = setting(r, "cls", s->gain_cls);
	s->iou_t = setting(r, "iou_t", s->iou_t);
	s->gain_box = setting(r, s->kind == LOSS_CIOU ? "box" : "giou", s->gain_box);
	s->gain_obj = setting(r, "obj", s->gain_obj);
	s->gr = setting(r, "gr", s->gr);
	s->focal_gamma = setting(r, "fl_gamma", s->focal_gamma);
	s->focal_alpha = setting(r, "fl_alpha", s->focal_alpha);
	s->anchor_t = setting(r, "anchor_t", s->anchor_t);
	s->label_smooth = setting(r, "label_smoothing", s->label_smooth);
	s->cls_pw = setting(r, "cls_pw", s->cls_pw);
	s->obj_pw = setting(r, "obj_pw", s->obj_pw);
	for (size_t h = 0; YAJL_IS_ARRAY(b) && h < YAJL_GET_ARRAY(b)->len; h++)
		s->balance[h] = YAJL_GET_DOUBLE(YAJL_GET_ARRAY(b)->values[h]);
}

static int
read_heads(struct run *r)
{
	yajl_val heads = gold_get(r->g->j, "heads"), anchors = gold_get(r->g->j, "anchors_pixels");
	struct loss *s = &r->s;

	s->nhead = (int)YAJL_GET_ARRAY(heads)->len;
	s->nanchor = (int)YAJL_GET_ARRAY(anchors)->len;
	s->anchor = r->anchor;
	if (s->nhead > MAX_HEADS || s->nanchor > 32)
		return err_set(r->e, "too many heads or anchors");
	for (int i = 0; i < 2 * s->nanchor; i++)
		r->anchor[i] = (float)YAJL_GET_DOUBLE(YAJL_GET_ARRAY(YAJL_GET_ARRAY(anchors)->
		    values[i / 2])->values[i % 2]);
	for (int h = 0; h < s->nhead; h++) {
		yajl_val v = YAJL_GET_ARRAY(heads)->values[h], m = gold_get(v, "mask");
		struct loss_head *p = &s->head[h];

		p->h = (int)gold_num(v, "grid_height", 0);
		p->w = (int)gold_num(v, "grid_width", 0);
		p->nmask = (int)YAJL_GET_ARRAY(m)->len;
		for (int i = 0; i < p->nmask; i++)
			p->mask[i] = (int)YAJL_GET_INTEGER(YAJL_GET_ARRAY(m)->values[i]);
		p->yolo = is_dark(r) ? &r->yolo : NULL;
	}
	return 0;
}

static int
read_truth(struct run *r)
{
	const struct st_tensor *t = st_find(r->g->st, "truth");

	if (!t)
		return err_set(r->e, "no truth");
	r->nt = (int)t->dim[0];
	r->truth = (struct truth *)xcalloc((size_t)r->nt + 1, sizeof *r->truth);
	for (int i = 0; i < r->nt; i++) {
		struct truth *q = &r->truth[i];
		float *f[6] = { &q->image, &q->cls, &q->x, &q->y, &q->w, &q->h };

		for (int k = 0; k < 6; k++)
			*f[k] = (float)st_get(t, (size_t)(i * 6 + k));
	}
	return 0;
}

static int
put_heads(struct run *r)
{
	char name[32];

	for (int h = 0; h < r->s.nhead; h++) {
		struct loss_head *p = &r->s.head[h];
		int c = p->nmask * (r->s.classes + 5);
		float *x = gold_floats(r->g, head_name(r, "raw", h, name), r->e), *y;

		if (!x)
			return -1;
		y = gold_nhwc(x, r->s.n, c, p->h, p->w);
		p->raw = r->raw[h] = gold_put(r->d, y, floats(r, h));
		for (size_t i = 0; i < floats(r, h); i++)
			y[i] = NAN;		/* run() must write all of it */
		p->grad = r->grad[h] = gold_put(r->d, y, floats(r, h));
		if (is_dark(r)) {
			r->state[h] = (unsigned char *)gold_put(r->d, NULL, floats(r, h) / 4 + 1);
			p->state = r->state[h];
		}
		free(x);
		free(y);
	}
	return 0;
}

/* ---- comparisons ---- */

/* The entries of a cell's anchor: centre and size in input pixels, objectness, classes. */
static void
decode(const struct run *r, const struct head_view *v, int cell, float *to)
{
	const float *z = v->raw + cell * (v->c + 5);
	const struct loss *s = &r->s;
	int softmax = s->kind == LOSS_ULTRA2019 || s->kind == LOSS_MULTI ||
	    (s->head[0].region && r->yolo.softmax);
	double sum = 0;

	fn_decode(v, cell, to);
	for (int k = 0; k < 4; k++)
		to[k] *= k % 2 ? v->in_h : v->in_w;
	for (int k = 5; k < v->c + 5; k++)
		sum += exp(z[k]);
	for (int k = 4; k < v->c + 5; k++)
		to[k] = softmax && k > 4 ? (float)(exp(z[k]) / sum) : fn_logistic(z[k]);
}

/* Rows of "decoded" run over image, head, anchor, row, column. */
static int
check_decoded(struct run *r)
{
	const struct st_tensor *t = st_find(r->g->st, "decoded");
	size_t len = (size_t)r->s.classes + 5, at = 0;
	float *raw[MAX_HEADS], *x = (float *)xmalloc(len * sizeof *x);
	struct head_view v;
	int bad = 0;

	for (int h = 0; h < r->s.nhead; h++)
		raw[h] = gold_get_dev(r->d, r->raw[h], floats(r, h));
	if (!t || t->n != (size_t)r->s.n * (size_t)loss_rows(&r->s) * len)
		bad = err_set(r->e, "no decoded boxes of that shape");
	for (int b = 0; b < r->s.n; b++)
		for (int h = 0; h < r->s.nhead; h++) {
			loss_view(&r->s, h, &v);
			v.raw = raw[h];
			for (int i = 0; i < v.a * v.h * v.w && !bad; i++) {
				int a = i / (v.h * v.w), cell = i % (v.h * v.w);

				decode(r, &v, (b * v.h * v.w + cell) * v.a + a, x);
				for (size_t k = 0; k < len && !bad; k++, at++)
					if (!(fabs(x[k] - st_get(t, at)) <= 1e-5 *
					    fmax(1, fabs(st_get(t, at)))))
						bad = err_set(r->e, "decoded[%zu] = %.9g, want "
						    "%.9g", at, x[k], st_get(t, at));
			}
		}
	for (int h = 0; h < r->s.nhead; h++)
		free(raw[h]);
	free(x);
	return bad;
}

static int
check_assigned(struct run *r)
{
	static struct loss_row row[LIST];
	const struct st_tensor *t = st_find(r->g->st, "assigned");
	int got[5], total = 0, used[MAX_HEADS] = { 0 }, base[MAX_HEADS], len[MAX_HEADS];

	for (int h = 0; h < r->s.nhead; h++) {
		base[h] = total;
		len[h] = assign_head(&r->s, h, r->truth, r->nt, NULL);
		if (total + len[h] > LIST)
			return err_set(r->e, "too many rows");
		total += assign_head(&r->s, h, r->truth, r->nt, row + total);
	}
	if (!t || t->dim[0] != (size_t)total)
		return err_set(r->e, "%d rows assigned, want %zu", total, t ? t->dim[0] : 0);
	for (int i = 0; i < total; i++) {	/* each head's rows in their order */
		int h = (int)st_get(t, (size_t)i * 5 + 1);
		const struct loss_head *p = &r->s.head[h];
		const struct loss_row *q;

		if (used[h] == len[h])
			return err_set(r->e, "head %d has too few rows", h);
		q = &row[base[h] + used[h]++];
		got[0] = q->truth;
		got[1] = h;
		got[2] = q->cell % p->nmask;
		got[3] = q->cell / p->nmask / p->w % p->h;
		got[4] = q->cell / p->nmask % p->w;
		for (int k = 0; k < 5; k++)
			if (got[k] != (int)st_get(t, (size_t)(i * 5 + k)))
				return err_set(r->e, "assigned[%d][%d] = %d, want %g", i, k, got[k],
				    st_get(t, (size_t)(i * 5 + k)));
		if (q->cell / p->nmask / p->w / p->h != (int)r->truth[q->truth].image)
			return err_set(r->e, "assigned[%d] lies in another image", i);
	}
	return 0;
}

static int
check_scalar(struct run *r, const char *name, double got)
{
	const struct st_tensor *t = st_find(r->g->st, name);
	double want;

	if (!t)
		return 0;
	want = st_get(t, 0);
	if (!(fabs(got - want) <= 1e-6 * fabs(want)))
		return err_set(r->e, "%s = %.9g, want %.9g: off by %.3g", name, got, want,
		    fabs(got / want - 1));
	return 0;
}

static int
check_terms(struct run *r)
{
	static const struct { const char *name; int term; } tab[] = {
		{ "loss_total", TERM_TOTAL }, { "loss_xy", TERM_BOX }, { "loss_box", TERM_BOX },
		{ "loss_wh", TERM_WH }, { "loss_obj", TERM_OBJ }, { "loss_conf", TERM_OBJ },
		{ "loss_cls", TERM_CLS }, { "loss_delta2_xy", TERM_BOX },
		{ "loss_delta2_wh", TERM_WH },
		{ "loss_delta2_obj", TERM_OBJ }, { "loss_delta2_cls", TERM_CLS },
		{ "stat_count", TERM_COUNT }, { "stat_iou", TERM_IOU },
		{ "stat_cls", TERM_STAT_CLS },
		{ "stat_obj", TERM_STAT_OBJ }, { "stat_r50", TERM_R50 }, { "stat_r75", TERM_R75 },
	};
	double sum[LOSS_TERMS] = { 0 };
	char name[32];

	for (int h = 0; h < r->s.nhead; h++) {
		for (int k = 0; k < LOSS_TERMS; k++)
			sum[k] += r->term[h][k];
		snprintf(name, sizeof name, "loss_head%d", h);
		if (check_scalar(r, name, r->term[h][TERM_TOTAL]))
			return -1;
	}
	for (size_t i = 0; i < sizeof tab / sizeof *tab; i++)
		if (check_scalar(r, tab[i].name, sum[tab[i].term]))
			return -1;
	return check_scalar(r, "loss_printed", sum[TERM_TOTAL] / r->s.nhead / r->s.n);
}

/* Tolerance: a share of the largest entry of the tensor. */
static int
compare_share(struct run *r, const char *name, const float *nhwc, int h, float sign)
{
	const struct st_tensor *t = st_find(r->g->st, name);
	const struct loss_head *p = &r->s.head[h];
	float *x = gold_nchw(nhwc, r->s.n, p->nmask * (r->s.classes + 5), p->h, p->w);
	double top = 0;
	int bad;

	for (size_t i = 0; t && i < t->n; i++)
		top = fmax(top, fabs(st_get(t, i)));
	for (size_t i = 0; i < floats(r, h); i++)
		x[i] *= sign;
	bad = gold_compare(r->g, name, x, (is_dark(r) ? 2e-5 : 2e-6) * top, 0, r->e);
	free(x);
	return bad;
}

static int
check_grad(struct run *r, int h)
{
	float *x = gold_get_dev(r->d, r->grad[h], floats(r, h));
	char name[32];
	int bad = compare_share(r, head_name(r, "grad", h, name), x, h, 1);

	if (!bad && is_dark(r) && !r->yolo.new_coords)
		bad = compare_share(r, head_name(r, "delta", h, name), x, h, -1);
	free(x);
	return bad;
}

static int
check_ignored(struct run *r, int h)
{
	const struct loss_head *p = &r->s.head[h];
	size_t cells = (size_t)p->h * p->w, n = (size_t)r->s.n * cells * p->nmask;
	unsigned char *x = (unsigned char *)xmalloc(n);
	char name[32];
	const struct st_tensor *t = st_find(r->g->st, head_name(r, "ignored", h, name));
	int bad = t && t->n == n ? 0 : err_set(r->e, "no %s of that shape", name);

	r->d->ops->get(r->d, x, r->state[h], n);
	for (size_t i = 0; i < n && !bad; i++) {	/* [image][anchor][cell] */
		size_t b = i / (cells * p->nmask), a = i / cells % p->nmask, c = i % cells;
		int got = x[(b * cells + c) * p->nmask + a];

		if (got != (int)st_get(t, i))
			bad = err_set(r->e, "%s[%zu] = %d, want %g", name, i, got, st_get(t, i));
	}
	free(x);
	return bad;
}

static int
compute(struct run *r)
{
	void *ws = gold_put(r->d, NULL, r->ops->workspace(&r->s, r->nt) / sizeof(float) + 1);

	r->s.images = r->s.n;
	r->ops->count(&r->s, r->truth, r->nt);
	r->ops->run(r->d, &r->s, r->truth, r->nt, r->term, ws);
	r->d->ops->free(r->d, ws);
	if (check_terms(r))
		return -1;
	for (int h = 0; h < r->s.nhead; h++)
		if (check_grad(r, h) || (is_dark(r) && check_ignored(r, h)))
			return -1;
	return 0;
}

int
gold_loss(struct gold *g, struct err *e)
{
	struct run r = { .g = g, .e = e, .d = g->dev };
	int kind = loss_kind(gold_str(g->j, "flavour", "")), bad;

	if (kind < 0 || !g->st)
		return err_set(e, "flavour '%s' is not known", gold_str(g->j, "flavour", ""));
	loss_defaults(&r.s, (enum loss_kind)kind);
	r.s.n = (int)gold_num(g->j, "images", 0);
	r.s.classes = (int)gold_num(g->j, "classes", 0);
	r.s.in_w = (int)gold_num(g->j, "input_width", 0);
	r.s.in_h = (int)gold_num(g->j, "input_height", 0);
	r.ops = is_dark(&r) ? g->dev->dark : g->dev->yolo;
	if (is_dark(&r))
		dark_settings(&r);
	else
		mean_settings(&r);
	bad = read_heads(&r) || read_truth(&r) || put_heads(&r) || check_decoded(&r) ||
	    check_assigned(&r) || compute(&r);
	for (int h = 0; h < r.s.nhead; h++) {
		r.d->ops->free(r.d, r.raw[h]);
		r.d->ops->free(r.d, r.grad[h]);
		r.d->ops->free(r.d, r.state[h]);
	}
	free(r.truth);
	return bad ? -1 : 0;
}
