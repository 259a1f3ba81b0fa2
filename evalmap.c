/* evalmap.c -- scoring: pictures go in, what is kept of each detection goes to the metrics.
 *
 * Truths and detections of a picture are met once, by every rule asked for, and then forgotten;
 * 14 bytes of a detection stay, 22 once sorted (struct eval).  What the rules say of a detection is
 * a row of words, and few rows are different: most detections are plain false positives of one
 * size.  So a row is kept once, and a detection has its number.  Pictures are independent of each
 * other, so threads take pictures here and classes in evalap.c, and results do not depend on their
 * number: each picture writes to places fixed beforehand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/int.h"

/* numpy's linspace(.5, .95, 10): steps added up by multiplication, the last one set. */
static int
coco_ious(double *iou)
{
	double step = (0.95 - 0.5) / 9;

	for (int i = 0; i < 9; i++)
		iou[i] = 0.5 + i * step;
	iou[9] = 0.95;
	return 10;
}

void
eval_defaults(struct eval_opts *o)
{
	static const double edge[4][2] = { { 0, 1e10 }, { 0, 1024 }, { 1024, 9216 },
		{ 9216, 1e10 } };

	memset(o, 0, sizeof *o);
	o->rules = 1 << EV_COCO;
	o->nmaxdet = 3;
	o->maxdet[0] = 1;
	o->maxdet[1] = 10;
	o->maxdet[2] = 100;
	o->narea = 4;
	memcpy(o->area, edge, sizeof edge);
	o->pixel = 1;
	o->thresh = 0.25;
	o->threads = 1;
}

int
eval_rules(struct eval_opts *o, const char *s)
{
	o->rules = 0;
	for (;;) {
		size_t n = strcspn(s, ",");
		int r = 0;

		while (r < EV_RULES &&
		       (strlen(eval_rule_name[r]) != n || memcmp(eval_rule_name[r], s, n)))
			r++;
		if (r == EV_RULES)
			return -1;
		o->rules |= 1u << r;
		if (!s[n])
			return 0;
		s += n + 1;
	}
}

struct eval *
eval_open(const struct eval_opts *o, int nclass)
{
	struct eval *e = (struct eval *)xcalloc(1, sizeof *e);

	if (nclass > 65535)
		die(1, "bug: %d classes", nclass);
	e->opt = *o;
	e->adders = o->threads;
	e->nclass = nclass;
	for (int r = 0; r < EV_RULES; r++) {
		if (!eval_has(o, r))
			continue;
		e->off[r] = e->words;
		e->words += r == EV_COCO ? o->narea : 1;
		if (o->niou) {
			e->niou[r] = o->niou;
			memcpy(e->iou[r], o->iou, sizeof o->iou);
		} else if (r == EV_COCO || r == EV_ULTRA)
			e->niou[r] = coco_ious(e->iou[r]);
		else {
			e->niou[r] = 1;
			e->iou[r][0] = 0.5;
		}
	}
	return e;
}

void
eval_close(struct eval *e)
{
	if (!e)
		return;
	free(e->key);
	free(e->dend);
	free(e->tend);
	free(e->score);
	free(e->cls);
	free(e->code);
	free(e->over);
	free(e->row);
	free(e->slot);
	free(e->fresh);
	free(e->tcls);
	free(e->tmask);
	free(e->order);
	free(e->pic);
	free(e->all);
	free(e->cstart);
	free(e);
}

/* Sort by descending score, equal scores in the order given: insertion for the usual handful,
 * merging for more. */
void
eval_rank(const struct eval_image *im, const int *in, int n, int *out)
{
	int half = n / 2, i = 0, j = half, *tmp;

	if (n <= 24) {
		for (int k = 0; k < n; k++) {
			double s = im->det[in[k]].score;
			int at = k;

			for (; at > 0 && im->det[out[at - 1]].score < s; at--)
				out[at] = out[at - 1];
			out[at] = in[k];
		}
		return;
	}
	tmp = (int *)xmalloc((size_t)n * sizeof *tmp);
	eval_rank(im, in, half, tmp);
	eval_rank(im, in + half, n - half, tmp + half);
	for (int k = 0; k < n; k++)
		out[k] = j == n || (i < half && im->det[tmp[i]].score >= im->det[tmp[j]].score) ?
		    tmp[i++] : tmp[j++];
	free(tmp);
}

/* Truths of one picture: class, areas that ignore it, rules that count it. */
static void
keep_truth(struct eval *e, const struct eval_image *im, size_t at)
{
	const struct eval_opts *o = &e->opt;

	for (int i = 0; i < im->nbox; i++) {
		const struct box *b = im->box + i;
		unsigned mask = 0;

		for (int r = 0; r < EV_RULES; r++)
			if (eval_has(o, r) &&
			    eval_soft(o, (enum eval_rule)r, b->flags) == EV_TRUTH)
				mask |= truth_in_rule(r);
		for (int a = 0; a < o->narea; a++)
			if (!(mask & truth_in_rule(EV_COCO)) || b->area < o->area[a][0] ||
			    b->area > o->area[a][1])
				mask |= truth_outside(a);
		e->tcls[at + (size_t)i] = (uint16_t)b->cls;
		e->tmask[at + (size_t)i] = (uint16_t)mask;
	}
}

struct worker {
	int *dhead, *thead;		/* [nclass] first detection, truth of a class, -1 none */
	int *mem, *dnext, *tnext, *in, *ord, *tr, *seen;
	size_t memcap;
	struct eval_buf buf;
};

static void
worker_open(struct worker *w, int nclass)
{
	memset(w, 0, sizeof *w);
	w->dhead = (int *)xmalloc(sizeof(int) * 2 * (size_t)(nclass + 1));
	w->thead = w->dhead + nclass + 1;
	for (int i = 0; i <= nclass; i++)
		w->dhead[i] = w->thead[i] = -1;
}

static void
worker_close(struct worker *w)
{
	free(w->dhead);
	free(w->mem);
	free(w->buf.p);
	free(w->buf.pair);
	free(w->buf.edge);
}

/* Chain the boxes of each class, in order; returns how many classes detections have. */
static int
chain(struct worker *w, const struct eval_image *im)
{
	size_t nd = (size_t)im->ndet, nt = (size_t)im->nbox;
	int n = 0;

	w->mem = (int *)xgrow(w->mem, &w->memcap, 4 * nd + 2 * nt, sizeof(int));
	w->dnext = w->mem;
	w->in = w->dnext + nd;
	w->ord = w->in + nd;
	w->seen = w->ord + nd;
	w->tnext = w->seen + nd;
	w->tr = w->tnext + nt;
	for (int i = im->ndet - 1; i >= 0; i--) {
		int c = im->det[i].cls;

		if (w->dhead[c] < 0)
			w->seen[n++] = c;
		w->dnext[i] = w->dhead[c];
		w->dhead[c] = i;
	}
	for (int i = im->nbox - 1; i >= 0; i--) {
		w->tnext[i] = w->thead[im->box[i].cls];
		w->thead[im->box[i].cls] = i;
	}
	return n;
}

/* One class of a picture; what is kept of its detections stands from at on. */
static void
one_class(struct eval *e, const struct eval_group *g, size_t at)
{
	const struct eval_opts *o = &e->opt;
	size_t stride = (size_t)(e->words + 1);
	int within = o->nmaxdet;

	eval_match(g);
	for (int k = 0; k < g->nd; k++) {
		const struct eval_det *d = g->im->det + g->ord[k];

		while (within && k >= o->maxdet[o->nmaxdet - within])
			within--;
		e->score[at + (size_t)k] = d->score + 0.0;	/* no -0 */
		e->cls[at + (size_t)k] = (uint16_t)d->cls;
		g->code[(size_t)k * stride + stride - 1] = (uint32_t)within;
	}
}

static void
one_image(struct eval *e, const struct eval_image *im, size_t at, size_t tat, struct worker *w)
{
	struct eval_group g = { .e = e, .im = im, .buf = &w->buf };
	int n;

	keep_truth(e, im, tat);
	if (!im->ndet)
		return;
	n = chain(w, im);
	g.ord = w->ord;
	g.tr = w->tr;
	while (n--) {			/* first met class first */
		int c = w->seen[n];

		g.nd = g.nt = 0;
		for (int i = w->dhead[c]; i >= 0; i = w->dnext[i])
			w->in[g.nd++] = i;
		for (int i = w->thead[c]; i >= 0; i = w->tnext[i])
			w->tr[g.nt++] = i;
		w->dhead[c] = -1;
		eval_rank(im, w->in, g.nd, w->ord);
		g.code = e->fresh + (at - e->n) * (size_t)(e->words + 1);
		g.over = e->over ? e->over + at : NULL;
		one_class(e, &g, at);
		at += (size_t)g.nd;
	}
	for (int i = 0; i < im->nbox; i++)
		w->thead[im->box[i].cls] = -1;
}

/* As xgrow, for one of several arrays of one capacity: the last of them changes it. */
static void *
grown(void *p, size_t cap, size_t need, size_t size)
{
	return xgrow(p, &cap, need, size);
}

static void
make_room(struct eval *e, const struct eval_image *im, int n)
{
	size_t ni = e->nimage, nd = e->n, nt = e->nt, most = ni + (size_t)n;

	e->key = (int64_t *)grown(e->key, e->image_cap, most, sizeof *e->key);
	e->dend = (size_t *)grown(e->dend, e->image_cap, most, sizeof *e->dend);
	e->tend = (size_t *)xgrow(e->tend, &e->image_cap, most, sizeof *e->tend);
	for (int i = 0; i < n; i++, ni++) {
		e->key[ni] = im[i].key;
		e->dend[ni] = nd += (size_t)im[i].ndet;
		e->tend[ni] = nt += (size_t)im[i].nbox;
	}
	e->tcls = (uint16_t *)grown(e->tcls, e->tcap, nt, sizeof *e->tcls);
	e->tmask = (uint16_t *)xgrow(e->tmask, &e->tcap, nt, sizeof *e->tmask);
	if (eval_has(&e->opt, EV_DARKNET))
		e->over = (double *)grown(e->over, e->cap, nd, sizeof *e->over);
	e->score = (double *)grown(e->score, e->cap, nd, sizeof *e->score);
	e->cls = (uint16_t *)grown(e->cls, e->cap, nd, sizeof *e->cls);
	e->code = (uint32_t *)xgrow(e->code, &e->cap, nd, sizeof *e->code);
	e->fresh = (uint32_t *)xgrow(e->fresh, &e->fresh_cap,
	    (nd - e->n) * (size_t)(e->words + 1), sizeof *e->fresh);
	if (nd > UINT32_MAX)
		die(1, "%zu detections: at most %u", nd, UINT32_MAX);
}

static size_t
row_hash(const uint32_t *row, size_t n)
{
	uint64_t h = 0;

	for (size_t w = 0; w < n; w++)
		h = (h ^ row[w]) * 0x9e3779b97f4a7c15u;
	return (size_t)(h >> 32);
}

static int
same_row(const uint32_t *a, const uint32_t *b, size_t n)
{
	uint32_t odd = 0;

	for (size_t w = 0; w < n; w++)
		odd |= a[w] ^ b[w];
	return !odd;
}

static size_t
row_place(const struct eval *e, const uint32_t *row, size_t n)
{
	size_t i = row_hash(row, n) & (e->slots - 1);

	while (e->slot[i] && !same_row(e->row + (e->slot[i] - 1) * n, row, n))
		i = (i + 1) & (e->slots - 1);
	return i;
}

static void
more_slots(struct eval *e, size_t n)
{
	e->slots = e->slots ? 2 * e->slots : 1024;
	free(e->slot);
	e->slot = (uint32_t *)xcalloc(e->slots, sizeof *e->slot);
	for (size_t k = 0; k < e->nrow; k++)
		e->slot[row_place(e, e->row + k * n, n)] = (uint32_t)k + 1;
}

/* The new rows, nd of them, become numbers.  A row like the one before is most common. */
static void
number_rows(struct eval *e, size_t nd)
{
	size_t n = (size_t)(e->words + 1);

	for (size_t k = 0; k < nd; k++) {
		const uint32_t *row = e->fresh + k * n;
		size_t at;

		if (k && same_row(row, row - n, n)) {
			e->code[e->n + k] = e->code[e->n + k - 1];
			continue;
		}
		if (2 * e->nrow >= e->slots)
			more_slots(e, n);
		at = row_place(e, row, n);
		if (!e->slot[at]) {
			e->row = (uint32_t *)xgrow(e->row, &e->row_cap, (e->nrow + 1) * n,
			    sizeof *e->row);
			memcpy(e->row + e->nrow * n, row, n * sizeof *row);
			e->slot[at] = (uint32_t)++e->nrow;
		}
		e->code[e->n + k] = e->slot[at] - 1;
	}
}

void
eval_add(struct eval *e, const struct eval_image *im, int n)
{
	size_t first = e->nimage, nd;

	make_room(e, im, n);
	e->finished = 0;
#pragma omp parallel num_threads(e->adders) if (n > 16 && e->adders > 1)
	{
		struct worker w;

		worker_open(&w, e->nclass);
#pragma omp for schedule(dynamic, 16)
		for (int i = 0; i < n; i++)
			one_image(e, im + i, first + (size_t)i ? e->dend[first + (size_t)i - 1] : 0,
			    first + (size_t)i ? e->tend[first + (size_t)i - 1] : 0, &w);
		worker_close(&w);
	}
	e->nimage += (size_t)n;
	nd = n || first ? e->dend[e->nimage - 1] : 0;
	number_rows(e, nd - e->n);
	e->n = nd;
	e->nt = n || first ? e->tend[e->nimage - 1] : 0;
}
