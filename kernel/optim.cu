/* optim.cu -- the update of the weights: SGD, Adam, averaging, the norm of the gradient.
 *
 * Parameters, gradients and each state are one flat buffer, so an update is one kernel, bound by
 * memory.  What differs between parameters (rate, decay) is looked up by group, once per unit of
 * 64 floats: neighbouring threads, and the CPU's inner loop, share a unit.
 *
 * Darknet keeps u = minus the sum of gradients, and multiplies it by the momentum after use; with
 * buf = -u/batch before that factor its rule is the one here, decay on kernels only. */
#include <stdint.h>

#include "kernel/dev.h"
#include "kernel/kernel.h"

enum { CHUNK = 8192 };			/* floats to a partial sum of squares */

/* struct update as a kernel takes it */
struct flat {
	int units, n;
	const unsigned char *group;
	float gscale;
	int nesterov;
	struct optim_rates r;
};

KERNEL
sgd_k(struct flat f, float *__restrict__ p, const float *__restrict__ g, float *__restrict__ buf,
    float m)
{
	EACH2 (u, f.units, j, OPTIM_UNIT) {
		int i = u * OPTIM_UNIT + j, k = f.group ? f.group[u] : 0;

		if (i < f.n) {
			float d = f.gscale * g[i] + f.r.decay[k] * p[i], b = m * buf[i] + d;

			buf[i] = b;
			p[i] -= f.r.lr[k] * (f.nesterov ? d + m * b : b);
		}
	}
}

/* a1 = 1 - b1, c1 = 1 / (1 - b1^t); the moments are written as x + a (new - x), so that a constant
 * gradient is their fixed point however b and 1 - b are rounded. */
struct adam_factors { float a1, a2, c1, c2, eps; int decoupled; };

KERNEL
adam_k(struct flat f, struct adam_factors a, float *__restrict__ p, const float *__restrict__ g,
    float *__restrict__ m1, float *__restrict__ m2)
{
	EACH2 (u, f.units, j, OPTIM_UNIT) {
		int i = u * OPTIM_UNIT + j, k = f.group ? f.group[u] : 0;

		if (i < f.n) {
			float lr = f.r.lr[k], decay = f.r.decay[k], w = p[i];
			float d = f.gscale * g[i] + (a.decoupled ? 0 : decay * w);
			float m = m1[i] + a.a1 * (d - m1[i]), v = m2[i] + a.a2 * (d * d - m2[i]);

			m1[i] = m;
			m2[i] = v;
			if (a.decoupled)
				w -= lr * decay * w;
			p[i] = w - lr * (a.c1 * m / (sqrtf(a.c2 * v) + a.eps));
		}
	}
}

/* As a step of 1 - d towards p: d*ema + (1-d)*p with both factors rounded would settle 3e-4 away
 * from p at d = 0.9999. */
KERNEL
ema_k(int n, float *__restrict__ ema, const float *__restrict__ p, float a)
{
	EACH (i, n)
		ema[i] += a * (p[i] - ema[i]);
}

KERNEL
scale_k(int n, float *g, float f)
{
	EACH (i, n)
		g[i] *= f;
}

/* A square of a float is exact in double and n of them cannot overflow: the sum is infinite or
 * NaN only where g is. */
KERNEL
squares_k(int chunks, int n, const float *g, double *part)
{
	ROWS (r, chunks) {
		int first = r * CHUNK, len = n - first < CHUNK ? n - first : CHUNK;
		double sum = 0;

		LANES (j, len)
			sum += (double)g[first + j] * g[first + j];
		sum = row_sum(sum);
		LEAD
			part[r] = sum;
	}
}

KERNEL
total_k(int chunks, const double *part, double *out)
{
	ROWS (r, 1) {
		double sum = 0;

		LANES (j, chunks)
			sum += part[j];
		sum = row_sum(sum);
		LEAD
			out[r] = sum;
	}
}

static struct flat
flat(const struct update *u, int nesterov)
{
	struct flat f = { (int)((u->n + OPTIM_UNIT - 1) / OPTIM_UNIT), (int)u->n, u->group,
		(float)u->gscale, nesterov, *u->rates };

	return f;
}

static void
sgd(struct dev *d, const struct update *u, double m, int nesterov)
{
	struct flat f = flat(u, nesterov);

	RUN(d, sgd_k, f.units * OPTIM_UNIT, f, u->p, u->g, u->m1, (float)m);
}

static void
adam(struct dev *d, const struct update *u, const struct adam *a)
{
	double c1 = 1 / (1 - pow(a->b1, (double)a->t)), c2 = 1 / (1 - pow(a->b2, (double)a->t));
	struct adam_factors k = { (float)(1 - a->b1), (float)(1 - a->b2), (float)c1, (float)c2,
		(float)a->eps, a->decoupled };
	struct flat f = flat(u, 0);

	RUN(d, adam_k, f.units * OPTIM_UNIT, f, k, u->p, u->g, u->m1, u->m2);
}

static void
ema(struct dev *d, size_t n, float *avg, const float *p, double decay)
{
	RUN(d, ema_k, (int)n, (int)n, avg, p, (float)(1 - decay));
}

static void
scale(struct dev *d, size_t n, float *g, double f)
{
	RUN(d, scale_k, (int)n, (int)n, g, (float)f);
}

static int
chunks(size_t n)
{
	return (int)((n + CHUNK - 1) / CHUNK);
}

static size_t
workspace(size_t n)
{
	return ((size_t)chunks(n) + 1) * sizeof(double);
}

static double
sumsq(struct dev *d, size_t n, const float *g, void *ws)
{
	double *out = (double *)ws, *part = out + 1, sum;

	RUNROWS(d, squares_k, chunks(n), chunks(n), (int)n, g, part);
	RUNROWS(d, total_k, 1, chunks(n), part, out);
	d->ops->get(d, &sum, out, sizeof sum);
	return sum;
}

#ifdef __cplusplus
extern "C"
#endif
const struct optim_ops BACKEND(optim) = { sgd, adam, ema, scale, sumsq, workspace };
