/* evalsort.c -- detections in order of score, and the score that makes F1 best.
 *
 * Order: by class, then descending score; equal scores in the order of the pictures' keys, then of
 * rank.  A stable radix sort over the bits of the score (turned so that larger comes first) on
 * entries laid out in picture order gives just that. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

struct item64 { uint64_t key; uint32_t i; };

static uint64_t
falling(double score)
{
	uint64_t b;

	memcpy(&b, &score, sizeof b);
	return b >> 63 ? b : ~b & INT64_MAX;	/* negative ones rise with their bits */
}

/* Stable, ascending by bits [from, 64) of the key.  The result is in a or in tmp, as long. */
static struct item64 *
by_digits(struct item64 *a, struct item64 *tmp, size_t n, int from, int bits)
{
	size_t m = (size_t)1 << bits, *count = (size_t *)xmalloc(m * sizeof *count);

	for (; from < 64; from += bits) {
		struct item64 *was = a;
		size_t sum = 0;

		memset(count, 0, m * sizeof *count);
		for (size_t k = 0; k < n; k++)
			count[a[k].key >> from & (m - 1)]++;
		if (count[a[0].key >> from & (m - 1)] == n)
			continue;
		for (size_t v = 0; v < m; v++) {
			size_t c = count[v];

			count[v] = sum;
			sum += c;
		}
		for (size_t k = 0; k < n; k++)
			tmp[count[a[k].key >> from & (m - 1)]++] = a[k];
		a = tmp;
		tmp = was;
	}
	free(count);
	return a;
}

/* Stable, ascending by key; the result is in a or in tmp.  Scores that differ at all mostly differ
 * in the upper 44 bits. */
static struct item64 *
radix(struct item64 *a, struct item64 *tmp, size_t n)
{
	int bits = n < 2000 ? 8 : 11;
	struct item64 *to;

	if (n < 48) {
		for (size_t k = 1; k < n; k++) {
			struct item64 x = a[k];
			size_t at = k;

			for (; at > 0 && a[at - 1].key > x.key; at--)
				a[at] = a[at - 1];
			a[at] = x;
		}
		return a;
	}
	to = by_digits(a, tmp, n, 20, bits);
	for (size_t k = 1; k < n; k++)
		if (to[k - 1].key > to[k].key)
			return by_digits(to, to == a ? tmp : a, n, 0, bits);
	return to;
}

static void
sort_entries(const struct eval *e, uint32_t *order, size_t n)
{
	struct item64 *a = (struct item64 *)xmalloc(2 * n * sizeof *a), *to;

	for (size_t k = 0; k < n; k++) {
		a[k].key = falling(e->score[order[k]]);
		a[k].i = order[k];
	}
	to = radix(a, a + n, n);
	for (size_t k = 0; k < n; k++)
		order[k] = to[k].i;
	free(a);
}

/* Pictures by key, stable; *from: what to free. */
static const struct item64 *
pictures(const struct eval *e, struct item64 **from)
{
	struct item64 *p = *from = (struct item64 *)xmalloc(2 * e->nimage * sizeof *p);
	int sorted = 1;

	for (size_t i = 0; i < e->nimage; i++) {
		p[i].key = (uint64_t)e->key[i] ^ (uint64_t)1 << 63;
		p[i].i = (uint32_t)i;
		sorted &= !i || p[i - 1].key <= p[i].key;
	}
	return sorted ? p : radix(p, p + e->nimage, e->nimage);
}

void
eval_finish(struct eval *e)
{
	const struct item64 *p;
	struct item64 *mem;
	size_t *at, nc = (size_t)e->nclass;

	if (e->finished)
		return;
	free(e->all);
	e->all = NULL;
	free(e->pic);
	e->pic = NULL;
	e->order = (uint32_t *)xrealloc(e->order, e->n * sizeof *e->order);
	free(e->cstart);
	e->cstart = (size_t *)xcalloc(nc + 2, sizeof *e->cstart);
	for (size_t i = 0; i < e->n; i++)
		e->cstart[e->cls[i] + 1]++;
	for (size_t c = 0; c < nc; c++)
		e->cstart[c + 1] += e->cstart[c];
	at = (size_t *)xmalloc((nc + 1) * sizeof *at);
	memcpy(at, e->cstart, (nc + 1) * sizeof *at);
	p = pictures(e, &mem);
	for (size_t k = 0; k < e->nimage; k++) {
		size_t i = p[k].i;

		for (size_t j = i ? e->dend[i - 1] : 0; j < e->dend[i]; j++)
			e->order[at[e->cls[j]]++] = (uint32_t)j;
	}
#pragma omp parallel for num_threads(e->opt.threads) schedule(dynamic, 1)
	for (int c = 0; c < e->nclass; c++)
		sort_entries(e, e->order + e->cstart[c], e->cstart[c + 1] - e->cstart[c]);
	free(mem);
	free(at);
	e->finished = 1;
}

/* All classes together. */
void
eval_sort_all(struct eval *e)
{
	if (e->all)
		return;
	e->all = (uint32_t *)xmalloc((e->n + 1) * sizeof *e->all);
	memcpy(e->all, e->order, e->n * sizeof *e->all);
	sort_entries(e, e->all, e->n);
}

/* The picture of each detection, which only weights ask for. */
void
eval_pictures(struct eval *e)
{
	if (e->pic)
		return;
	e->pic = (uint32_t *)xmalloc((e->n + 1) * sizeof *e->pic);
	for (size_t i = 0, j = 0; i < e->nimage; i++)
		for (; j < e->dend[i]; j++)
			e->pic[j] = (uint32_t)i;
}

static int
half_index(const struct eval *e)
{
	for (int t = 0; t < e->niou[EV_COCO]; t++)
		if (fabs(e->iou[EV_COCO][t] - 0.5) < 1e-9)
			return t;
	return 0;
}

/* Scan entries by falling score; every score is a threshold, with all its ties on board. */
static struct eval_point
scan(const struct eval *e, const uint32_t *order, size_t n, const uint32_t *weight, double npos)
{
	struct eval_point b = { 0, 0, 0, -1 };
	uint64_t tp = 0, fp = 0;
	int t = half_index(e);

	if (npos == 0)
		return (struct eval_point){ -1, -1, -1, -1 };
	for (size_t k = 0; k < n; k++) {
		size_t i = order[k];
		uint32_t code = eval_word(e, i, e->off[EV_COCO]) >> t;
		uint32_t times = weight ? weight[e->pic[i]] : 1;
		double f1;

		if (eval_word(e, i, e->words) && !(code & 0x10000)) {
			tp += code & 1 ? times : 0;
			fp += code & 1 ? 0 : times;
		}
		if (k + 1 < n && e->score[order[k + 1]] == e->score[i])
			continue;
		f1 = 2 * (double)tp / ((double)(tp + fp) + npos);
		if (tp && f1 > b.f1) {
			b.f1 = f1;
			b.p = (double)tp / (double)(tp + fp);
			b.r = (double)tp / npos;
			b.thr = e->score[i];
		}
	}
	return b;
}

struct eval_point
eval_best(struct eval *e, int cls, const uint32_t *weight, double npos)
{
	eval_finish(e);
	if (weight)
		eval_pictures(e);
	if (cls >= 0)
		return scan(e, e->order + e->cstart[cls], e->cstart[cls + 1] - e->cstart[cls],
		    weight, npos);
	eval_sort_all(e);
	return scan(e, e->all, e->n, weight, npos);
}

/* The same of the whole set, its truths counted here. */
struct eval_point
eval_best_all(struct eval *e)
{
	double npos = 0;

	for (size_t i = 0; i < e->nt; i++)
		npos += !(e->tmask[i] & 1);
	return eval_best(e, -1, NULL, npos);
}
