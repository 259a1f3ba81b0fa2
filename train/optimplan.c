/* optimplan.c -- which learning rate and decay each parameter has.
 *
 * Layers that are treated alike form a class; a class has three groups: kernels, biases, scales.
 * A frozen group keeps rate 0 and decay 0, so its parameters keep every bit. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "train/train.h"

/* Until which update a layer stands still: LONG_MAX for ever, -1 never.  stopbackward=1 stops the
 * layers before it for ever, a larger number itself and those before it while the update's number
 * is below that, as AlexeyAB's darknet does on GPUs (where weight decay goes on meanwhile). */
static long
frozen_until(const struct cfg *cfg, int layer)
{
	const struct layer *l = &cfg->l[layer];
	long until = -1, burn = (long)l->burnin_update * cfg->net.burn_in;

	if (l->frozen)
		return LONG_MAX;
	until = l->dont_update > 0 ? l->dont_update : until;
	until = burn - 1 > until ? burn - 1 : until;
	for (int i = layer; i < cfg->nl; i++) {
		if (cfg->l[i].train_only_bn || (i > layer && cfg->l[i].stopbackward == 1))
			return LONG_MAX;
		if (cfg->l[i].stopbackward > 1 && cfg->l[i].stopbackward - 1 > until)
			until = cfg->l[i].stopbackward - 1;
	}
	return until;
}

static int
class_of(const struct cfg *cfg, int layer, struct optim_plan *o, struct err *e)
{
	const struct layer *l = &cfg->l[layer];
	long until = frozen_until(cfg, layer);
	int k = 0, most = OPTIM_GROUPS / 3;

	while (k < o->nclass && (o->cls[k].scale != l->lr_scale || o->cls[k].until != until))
		k++;
	if (k == most)
		return err_set(e,
		    "%s:%d: learning_rate and dont_update: at most %d different pairs", cfg->path,
		    l->line, most);
	if (k == o->nclass) {
		o->cls[k].scale = l->lr_scale;
		o->cls[k].until = until;
		o->nclass++;
	}
	return k;
}

int
optim_plan(const struct cfg *cfg, const struct params *par, struct optim_plan *o, struct err *e)
{
	o->group = NULL;
	if (par->ntrain > INT_MAX - OPTIM_UNIT)
		return err_set(e, "%s: %zu parameters: at most %d can be trained", cfg->path,
		    par->ntrain, INT_MAX - OPTIM_UNIT);
	o->nclass = 0;
	o->units = (par->ntrain + OPTIM_UNIT - 1) / OPTIM_UNIT;
	o->group = (unsigned char *)xcalloc(o->units, 1);
	for (int i = 0; i < par->np; i++) {
		const struct param *p = &par->p[i];
		size_t first = p->off / OPTIM_UNIT,
		    end = (p->off + p->n + OPTIM_UNIT - 1) / OPTIM_UNIT;
		int k;

		if (p->kind == P_MEAN || p->kind == P_VAR)
			continue;
		if ((k = class_of(cfg, p->layer, o, e)) < 0) {
			free(o->group);
			o->group = NULL;
			return -1;
		}
		k = 3 * k + (p->kind == P_WEIGHT ? 0 : p->kind == P_BIAS ? 1 : 2);
		for (size_t u = first; u < end; u++)
			o->group[u] = (unsigned char)k;
	}
	return 0;
}

void
optim_rates(const struct optim_plan *o, long b, const struct warm *w, int decay_all,
    struct optim_rates *r)
{
	for (int k = 0; k < 3 * o->nclass; k++) {
		double f = b <= o->cls[k / 3].until ? 0 : o->cls[k / 3].scale;

		r->lr[k] = (float)(f * (k % 3 == 1 ? w->lr_bias : w->lr));
		r->decay[k] = (float)(f != 0 && (decay_all || k % 3 == 0) ? w->decay : 0);
	}
}

double
optim_clip(double sumsq, double max_norm)
{
	double norm = sqrt(sumsq);

	return fmin(1, max_norm / (norm + 1e-6));
}
