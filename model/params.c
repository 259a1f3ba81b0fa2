/* params.c -- the flat layout of parameters, and their first values.
 *
 * All convolution weights come first, in layer order, then all biases and gammas; running
 * statistics are a buffer of their own.  Each tensor begins at a multiple of 64 floats and the gaps
 * hold 0, so that one kernel over the whole buffer is an update, and a slice of it a gradient
 * bucket.  Inside, weights are [s][s][i][o]: the matrix that conv.cu multiplies by. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "base/fn.h"

static size_t
place(size_t *end, size_t n)
{
	size_t at = *end;

	*end = (at + n + 63) / 64 * 64;
	return at;
}

static void
add(struct params *p, int layer, enum param_kind kind, size_t n)
{
	p->p[p->np++] = (struct param){ .layer = layer, .kind = kind, .n = n };
}

void
params_plan(const struct cfg *c, struct params *p)
{
	memset(p, 0, sizeof *p);
	p->p = (struct param *)xcalloc(5 * (size_t)c->nl + 1, sizeof *p->p);
	for (int i = 0; i < c->nl; i++) {
		const struct def_conv *d = &c->l[i].u.conv;
		int in = c->l[i].type == L_CONV ? c->l[i].in_c / d->groups : 0;

		if (!in)
			continue;
		add(p, i, P_WEIGHT, (size_t)d->k * (size_t)in * (size_t)d->size * (size_t)d->size);
		p->p[p->np - 1].o = d->k;
		p->p[p->np - 1].i = in;
		p->p[p->np - 1].s = d->size;
		add(p, i, P_BIAS, (size_t)d->k);
		for (int k = P_GAMMA; d->bn && k <= P_VAR; k++)
			add(p, i, (enum param_kind)k, (size_t)d->k);
	}
	for (int i = 0; i < p->np; i++)
		if (p->p[i].kind == P_WEIGHT)
			p->p[i].off = place(&p->nweight, p->p[i].n);
	p->ntrain = p->nweight;
	for (int i = 0; i < p->np; i++)
		if (p->p[i].kind != P_WEIGHT)
			p->p[i].off =
			    place(p->p[i].kind <= P_GAMMA ? &p->ntrain : &p->nstat, p->p[i].n);
}

void
params_free(struct params *p)
{
	free(p->p);
	memset(p, 0, sizeof *p);
}

const struct param *
params_find(const struct params *p, int layer, enum param_kind kind)
{
	int lo = 0, hi = p->np;

	while (lo < hi) {
		int mid = (lo + hi) / 2;

		if (p->p[mid].layer < layer || (p->p[mid].layer == layer && p->p[mid].kind < kind))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < p->np && p->p[lo].layer == layer && p->p[lo].kind == kind ? &p->p[lo] : NULL;
}

/* Two Gaussian numbers from two words (Box and Muller). */
static void
gauss(const uint32_t *word, double out[2])
{
	double u = (word[0] + 1.) / 4294967297., v = word[1] / 4294967296.;
	double r = sqrt(-2 * log(u));

	out[0] = r * cos(2 * 3.14159265358979323846 * v);
	out[1] = r * sin(2 * 3.14159265358979323846 * v);
}

/* Element k of a tensor depends on (seed, layer, k) alone. */
static void
fill_gauss(float *w, size_t n, double sd, uint64_t seed, int layer)
{
	for (size_t k = 0; k < n; k += 4) {
		uint32_t word[4];
		double g[4];

		fn_philox(seed, (uint64_t)layer << 32 | 1, k / 4, word);
		gauss(word, g);
		gauss(word + 2, g + 2);
		for (size_t j = 0; j < 4 && k + j < n; j++)
			w[k + j] = (float)(sd * g[j]);
	}
}

void
weights_init(const struct cfg *c, const struct params *p, uint64_t seed, struct weights *w)
{
	(void)c;
	memset(w, 0, sizeof *w);
	w->train = (float *)xcalloc(p->ntrain + 1, sizeof *w->train);
	w->stat = (float *)xcalloc(p->nstat + 1, sizeof *w->stat);
	for (int i = 0; i < p->np; i++) {
		const struct param *q = &p->p[i];

		if (q->kind == P_WEIGHT)
			fill_gauss(w->train + q->off, q->n, sqrt(2. / ((double)q->i * q->s * q->s)),
			    seed, q->layer);
		else if (q->kind == P_GAMMA || q->kind == P_VAR)
			for (size_t k = 0; k < q->n; k++)
				(q->kind == P_GAMMA ? w->train : w->stat)[q->off + k] = 1;
	}
}

void
weights_free(struct weights *w)
{
	free(w->train);
	free(w->stat);
	free(w->mom);
	free(w->mom2);
	free(w->ema);
	free(w->ema_stat);
	memset(w, 0, sizeof *w);
}
