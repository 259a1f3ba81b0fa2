/* onnxweights.c -- the numbers of a layer as a graph wants them.
 *
 * In memory kernels are [s][s][i][o], in a graph [o][i][s][s].  Batch-norm is folded by the same
 * function as in inference, so that both compute with the same bits.  In 8 bits each filter has a
 * step of its own; a bias is in units of the step of its sums, input's times filter's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/int.h"

#define MOST_HALF 65504.f

static const float *
numbers(const struct export_model *m, int layer, enum param_kind kind, size_t *n)
{
	const struct param *p = params_find(m->par, layer, kind);

	*n = p->n;
	return (kind == P_MEAN || kind == P_VAR ? m->w->stat : m->w->train) + p->off;
}

/* Folded kernel [o][i][s][s] and bias of a convolution. */
static void
folded(const struct export_model *m, int layer, float *w, float *bias)
{
	const struct def_conv *d = &m->cfg->l[layer].u.conv;
	const struct param *p = params_find(m->par, layer, P_WEIGHT);
	float *tmp = (float *)xmalloc(p->n * sizeof *tmp);
	size_t n;

	memcpy(tmp, numbers(m, layer, P_WEIGHT, &n), p->n * sizeof *tmp);
	memcpy(bias, numbers(m, layer, P_BIAS, &n), (size_t)p->o * sizeof *bias);
	if (d->bn) {
		float *mean = (float *)numbers(m, layer, P_MEAN, &n);
		struct bn b = { .rows = (int)(p->n / (size_t)d->k), .c = d->k, .mean = mean,
			.m2 = (float *)numbers(m, layer, P_VAR, &n),
			.gamma = numbers(m, layer, P_GAMMA, &n), .beta = bias };

		m->dev->bn->fold(m->dev, &b, tmp, bias);
	}
	weights_permute(p, tmp, w, 0);
	free(tmp);
}

/* The same without folding. */
static void
plain(const struct export_model *m, int layer, float *w)
{
	size_t n;

	weights_permute(params_find(m->par, layer, P_WEIGHT), numbers(m, layer, P_WEIGHT, &n), w,
	    0);
}

static void
steps_of(const float *w, int k, size_t each, float *step)
{
	for (int o = 0; o < k; o++) {
		float most = 0;

		for (size_t i = 0; i < each; i++)
			most = fmaxf(most, fabsf(w[(size_t)o * each + i]));
		step[o] = most > 0 ? most / 127 : 1;
	}
}

void
layer_steps(const struct export_model *m, int layer, float *step)
{
	const struct param *p = params_find(m->par, layer, P_WEIGHT);
	float *w = (float *)xmalloc((p->n + (size_t)p->o) * sizeof *w);

	folded(m, layer, w, w + p->n);
	steps_of(w, p->o, p->n / (size_t)p->o, step);
	free(w);
}

/* Kernel as int8 or bias as int32. */
static void
eight_bits(const struct onnx *g, const struct constant *c, const float *w, const float *bias,
    void *to)
{
	const struct param *p = params_find(g->m->par, c->layer, P_WEIGHT);
	size_t each = p->n / (size_t)p->o;
	float *step = (float *)xmalloc((size_t)p->o * sizeof *step);

	steps_of(w, p->o, each, step);
	for (size_t i = 0; c->part == PART_WEIGHT && i < p->n; i++)
		((int8_t *)to)[i] = (int8_t)lrintf(w[i] / step[i / each]);
	for (int o = 0; c->part == PART_BIAS && o < p->o; o++) {
		double v = bias[o] / ((double)c->scale * step[o]);

		((int32_t *)to)[o] = (int32_t)rint(fmax(-2147483648., fmin(2147483647., v)));
	}
	free(step);
}

static int
check(const struct onnx *g, const struct constant *c, const float *v, size_t n, struct err *e)
{
	const struct cfg *f = g->m->cfg;
	int half = g->v[c->value].type == T_HALF;

	for (size_t i = 0; i < n; i++)
		if (!isfinite(v[i]) || (half && fabsf(v[i]) > MOST_HALF))
			return err_set(e, "%s:%d: layer %d: %s: number %zu is %g%s", f->path,
			    f->l[c->layer].line, c->layer, g->v[c->value].name, i, v[i],
			    isfinite(v[i]) ? ", too large for fp16" : "");
	return 0;
}

/* The constant's numbers as float, in room for kernel and bias. */
static const float *
floats_of(const struct onnx *g, const struct constant *c, float *w, size_t *n)
{
	static const enum param_kind kind[] = { [PART_GAMMA] = P_GAMMA, [PART_BETA] = P_BIAS,
		[PART_MEAN] = P_MEAN, [PART_VAR] = P_VAR };
	const struct param *p = params_find(g->m->par, c->layer, P_WEIGHT);

	*n = p->n;
	if (c->part == PART_WEIGHT && g->o->bn) {
		plain(g->m, c->layer, w);
		return w;
	}
	if (c->part >= PART_GAMMA)
		return numbers(g->m, c->layer, kind[c->part], n);
	folded(g->m, c->layer, w, w + p->n);
	if (c->part == PART_WEIGHT)
		return w;
	*n = (size_t)p->o;
	return w + p->n;
}

int
layer_numbers(const struct onnx *g, const struct constant *c, void *to, struct err *e)
{
	const struct param *p = params_find(g->m->par, c->layer, P_WEIGHT);
	float *w = (float *)xmalloc((p->n + (size_t)p->o) * sizeof *w);
	enum onnx_type type = g->v[c->value].type;
	size_t n;
	const float *v = floats_of(g, c, w, &n);
	int bad = check(g, c, v, n, e);

	if (bad)
		;
	else if (type == T_FLOAT)
		memcpy(to, v, n * sizeof *v);
	else if (type == T_HALF)
		for (size_t i = 0; i < n; i++)
			((uint16_t *)to)[i] = half_of(v[i]);
	else
		eight_bits(g, c, w, w + p->n, to);
	free(w);
	return bad;
}
