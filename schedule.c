/* schedule.c -- learning rates, warm-up and input sizes, each a function of the step.
 *
 * Nothing here has a state: a resumed run asks for step b and gets what the run that never stopped
 * got.  Formulas and tables: golden/optim; darknet's keys: reference/darknet.md 3.8, 3.9. */
#include <math.h>

#include "fn.h"

enum { DRAW_RATE = 0x72617465, DRAW_SIZE = 0x73697a65 };	/* purposes of the generator */
enum { SIZE_EVERY = 10 };		/* darknet draws a size for ten batches */

static double
draw(uint64_t seed, uint64_t purpose, long t)
{
	uint32_t word[4];

	fn_philox(seed, purpose, (uint64_t)t, word);
	return (word[0] + word[1] / 4294967296.) / 4294967296.;
}

/* The loop ends at the first step above b, so unsorted steps hide later ones, as in darknet. */
static double
steps_factor(const struct cfg_net *net, long b)
{
	double f = 1;

	for (int i = 0; i < net->nstep && net->step[i] <= b; i++)
		f *= net->scale[i];
	return f;
}

/* Warm restarts: cycle after cycle, each sgdr_mult times as long.  A cycle's last iteration has
 * the minimum; the restart shows one later.  A cycle that does not grow past b in steps (length or
 * factor below 1, which cfgparse refuses) is the last one. */
static double
sgdr(const struct cfg_net *net, long b)
{
	double start = 0, len = net->sgdr_cycle > 0 ? net->sgdr_cycle : net->max_batches;
	double lo = net->lr_min;

	if (len < 1)
		return net->lr;
	if (net->sgdr_mult <= 1) {
		start = b > len ? (ceil(b / len) - 1) * len : 0;
	} else
		while (start + len < b) {
			start += len;
			len *= net->sgdr_mult;
		}
	return lo + (net->lr - lo) / 2 * (1 + cos(M_PI * (b - start) / len));
}

double
schedule_lr(const struct cfg_net *net, uint64_t seed, long b)
{
	double lr = net->lr, done = net->max_batches > 0 ? (double)b / net->max_batches : 0;

	if (b < net->burn_in)
		return lr * pow((double)b / net->burn_in, net->power);
	switch (net->policy) {
	case LR_STEP: return lr * pow(net->step_scale, net->step_len > 0 ? b / net->step_len : 0);
	case LR_STEPS: return lr * steps_factor(net, b);
	case LR_EXP: return lr * pow(net->gamma, (double)b);
	case LR_POLY: return lr * pow(done < 1 ? 1 - done : 0, net->power);
	case LR_RANDOM: return lr * pow(draw(seed, DRAW_RATE, b), net->power);
	case LR_SIGMOID: return lr / (1 + exp(net->gamma * (double)(b - net->step_len)));
	case LR_SGDR: return sgdr(net, b);
	case LR_COSINE:
		return net->lr_min + (lr - net->lr_min) / 2 * (1 +
		    cos(M_PI * (done < 1 ? done : 1)));
	default: return lr;
	}
}

/* The cosine goes by whole epochs: the rate moves in stairs.  Weight decay, which the recipe also
 * warms up, acts on kernels only; accumulate is rounded half to even. */
struct warm
schedule_cosine(const struct cosine *c, long it)
{
	double epoch = floor((double)it * c->batch / c->samples), f = 1, lr;
	double n = fmax(nearbyint(c->warmup * c->samples / c->batch), 500);
	struct warm w;

	lr = c->lr0 * (c->lrf + (1 - c->lrf) * (1 + cos(M_PI * fmin(epoch / c->epochs, 1))) / 2);
	if (it <= n)
		f = it / n;
	w.lr = f * lr;
	w.lr_bias = f < 1 ? .1 + f * (lr - .1) : lr;
	w.momentum = f < 1 ? .9 + f * (c->momentum - .9) : c->momentum;
	w.decay = f * c->decay;
	w.accumulate = (int)fmax(1, nearbyint(1 + f * ((double)c->nominal / c->batch - 1)));
	return w;
}

double
schedule_ultralytics(double lr0, enum ultra_lr kind, long batches, long epoch, long i)
{
	double n = fmin(nearbyint(batches / 5. + 1), 1000);

	if (epoch == 0 && i <= n)
		return lr0 * pow(i / n, 4);
	if (kind == ULTRA_EPOCH250)
		return epoch > 250 ? lr0 / 10 : lr0;
	return lr0 * (epoch < 218 ? 1 : epoch < 245 ? .1 : .01);
}

double
schedule_ema(double decay, double tau, long t)
{
	return tau > 0 ? decay * (1 - exp(-(double)t / tau)) : decay;
}

/* AlexeyAB's side for factor f: the +1 always adds one step; a shrunk size never exceeds the
 * cfg's. */
static int
alexey_side(int side, double f, int step)
{
	int s = (int)lround(f * side / step + 1) * step;

	return f < 1 && s > side ? side : s < step ? step : s;
}

static double
alexey_range(double random)
{
	return random == 1 ? 1.4 : random < 1 ? 1 / random : random;
}

void
schedule_size_max(const struct cfg_net *net, enum size_rule rule, double random, int *w, int *h)
{
	int step = net->resize_step > 0 ? net->resize_step : 32;

	*w = net->w;
	*h = net->h;
	if (random > 0 && rule == SIZE_PJREDDIE)
		*w = *h = 608;
	else if (random > 0) {
		*w = alexey_side(net->w, alexey_range(random), step);
		*h = alexey_side(net->h, alexey_range(random), step);
	}
}

void
schedule_size(const struct cfg_net *net, enum size_rule rule, double random, uint64_t seed,
    long step, long steps, int *w, int *h)
{
	int unit = net->resize_step > 0 ? net->resize_step : 32, shrink;
	long ten = step / SIZE_EVERY, first = ten * SIZE_EVERY;
	double u = draw(seed, DRAW_SIZE, ten), f;

	/* both programs end at the largest size, AlexeyAB's also starts there */
	schedule_size_max(net, rule, random, w, h);
	if (random <= 0)
		return;
	if (rule == SIZE_PJREDDIE) {
		if (first + 200 <= steps)
			*w = *h = 32 * (10 + (int)(u * 10));
		return;
	}
	if (ten == 0 || first > steps - 100)
		return;
	shrink = u < .5;
	u = shrink ? 2 * u : 2 * u - 1;
	f = 1 + u * (alexey_range(random) - 1);
	if (shrink)
		f = 1 / f;
	*w = alexey_side(net->w, f, unit);
	*h = alexey_side(net->h, f, unit);
}
