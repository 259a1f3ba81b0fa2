/* schedule.c -- learning rates, warm-up and input sizes, each a function of the step.
 *
 * Nothing here has a state: a resumed run asks for step b and gets what the run that never stopped
 * got.  Formulas and tables: golden/optim; darknet's keys: reference/darknet.md 3.8, 3.9. */
#include <math.h>
#include <string.h>

#include "train/train.h"
#include "base/fn.h"

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

/* ---- sizes -------------------------------------------------------------------------------- */

/* AlexeyAB's side for factor f: the +1 always adds one step; a shrunk size never exceeds the
 * cfg's. */
static int
alexey_side(int side, double f, int step)
{
	int s = (int)lround(f * side / step + 1) * step;

	return f < 1 && s > side ? side : s < step ? step : s;
}

static double
factor_of(double random)	/* 1 stands for 1.4, and a factor and its inverse are one */
{
	return random == 1 ? 1.4 : random < 1 ? 1 / random : random;
}

static int
common_multiple(int a, int b)
{
	int m = a;

	while (m % b)
		m += a;
	return m;
}

static int
up(double side, int unit)
{
	int s = (int)ceil(side / unit - 1e-9) * unit;

	return s < unit ? unit : s;
}

/* The yolov5 recipe's range is of whole pixels, rounded down after the draw, so that its ends are
 * rarer than the rest; the archive's is of multiples. */
static void
range_of(struct size_plan *p, double random)
{
	int side = p->w > p->h ? p->w : p->h;
	double f = random == 1 ? 1.5 : factor_of(random);

	p->keep_ratio = 1;
	if (p->rule == SIZE_V5) {
		p->every = 1;
		p->lo = (int)(random == 1 ? .5 * side : side / f);
		p->hi = (int)(f * side);
	} else if (p->rule == SIZE_ARCHIVE) {
		p->lo = (int)nearbyint(side / f / p->unit) * p->unit;
		p->hi = (int)nearbyint(f * side / p->unit) * p->unit;
	} else {
		p->keep_ratio = 0;
		p->lo = up(320, p->unit);
		p->hi = 608 / p->unit * p->unit;
	}
	p->hi = p->hi < p->lo ? p->lo : p->hi;
}

void
schedule_sizes(struct size_plan *p, const struct cfg_net *net, int stride, enum size_rule rule,
    double random)
{
	memset(p, 0, sizeof *p);
	p->rule = random > 0 ? rule : SIZE_FIXED;
	p->w = net->w;
	p->h = net->h;
	p->unit = common_multiple(net->resize_step > 0 ? net->resize_step : 32,
	    stride > 0 ? stride : 1);
	p->every = SIZE_EVERY;
	p->factor = factor_of(random > 0 ? random : 1);
	if (p->rule != SIZE_FIXED && p->rule != SIZE_ALEXEY)
		range_of(p, random);
}

int
schedule_size_range(struct size_plan *p, enum size_rule rule, double lo, double hi)
{
	int side = p->w > p->h ? p->w : p->h;

	if (hi <= SIZE_FACTOR) {
		lo *= side;
		hi *= side;
	}
	p->rule = rule;
	p->every = rule == SIZE_V5 ? 1 : SIZE_EVERY;
	p->keep_ratio = 1;
	p->lo = up(lo, p->unit);
	p->hi = (int)(hi / p->unit + 1e-9) * p->unit;
	p->given = 1;
	return p->lo <= p->hi ? 0 : -1;
}

/* The size that a draw u in 0..1 gives. */
static void
size_of(const struct size_plan *p, double u, int *w, int *h)
{
	int side, most = p->w > p->h ? p->w : p->h, shrink = u < .5;
	double f;

	if (p->rule == SIZE_ALEXEY && !p->given) {
		u = shrink ? 2 * u : 2 * u - 1;
		f = 1 + u * (p->factor - 1);
		f = shrink ? 1 / f : f;
		*w = alexey_side(p->w, f, p->unit);
		*h = alexey_side(p->h, f, p->unit);
		return;
	}
	side = (p->lo + (int)(u * (p->hi + p->unit - p->lo))) / p->unit * p->unit;
	side = side < p->unit ? p->unit : side;
	*w = *h = side;
	if (p->keep_ratio && p->w != p->h) {
		*w = up((double)p->w * side / most, p->unit);
		*h = up((double)p->h * side / most, p->unit);
	}
}

void
schedule_size_max(const struct size_plan *p, int *w, int *h)
{
	*w = p->w;
	*h = p->h;
	if (p->rule == SIZE_ALEXEY && !p->given) {
		*w = alexey_side(p->w, p->factor, p->unit);
		*h = alexey_side(p->h, p->factor, p->unit);
	} else if (p->rule != SIZE_FIXED)
		size_of(p, 1 - 1e-9, w, h);
}

void
schedule_size_try(const struct size_plan *p, int i, int *w, int *h)
{
	*w = p->w;
	*h = p->h;
	if (p->rule != SIZE_FIXED)
		size_of(p, (i + .5) / SIZE_TRIES, w, h);
}

/* Both darknets end at the largest size; AlexeyAB's also starts there, and so does 613ce1b. */
void
schedule_size(const struct size_plan *p, uint64_t seed, long step, long steps, int *w, int *h)
{
	long k = step / p->every, first = k * p->every;
	int last = p->rule == SIZE_PJREDDIE ? first + 200 > steps :
	    p->rule == SIZE_ALEXEY && first > steps - 100;

	schedule_size_max(p, w, h);
	if (p->rule == SIZE_FIXED || last ||
	    (k == 0 && (p->rule == SIZE_ALEXEY || p->rule == SIZE_2019)))
		return;
	size_of(p, draw(seed, DRAW_SIZE, k), w, h);
}
