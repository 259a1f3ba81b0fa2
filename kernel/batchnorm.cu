/* batchnorm.cu -- batch-norm, bias and activation over rows x c tensors, each pass fused.
 *
 * Column sums are taken in strips of rows whose number depends on c alone, then over the strips in
 * a fixed order and in double: they depend on neither threads nor scheduling.  Moments take the sum
 * of a strip, then the squared deviations from its mean while it is in the cache, and are merged
 * with the deviations of the strips' means: a large mean cancels nothing.
 *
 * Biased variance m2 / count normalises, eps stands inside the root; du = dz * act'(u) with
 * u = gamma * xhat + beta, computed again from y, so that only y is kept. */
#include "kernel/kernel.h"
#include "kernel/dev.h"
#include "base/fn.h"

#define EPS 1e-5f
enum { STRIP = 1 << 14 };	/* numbers in a strip, about: they fit a core's cache */

static int
strip_rows(int c)
{
	return STRIP / c > 128 ? 128 : STRIP / c > 8 ? STRIP / c : 8;
}

static int
strips(int rows, int c)
{
	return (rows + strip_rows(c) - 1) / strip_rows(c);
}

DEVICE int
least(int a, int b)
{
	return a < b ? a : b;
}

/* Of a strip, by p: its mean as a float, then the sums of deviations from that and of their
 * squares.  The first tells what the float mean lacks. */
KERNEL
moments_strip_k(const void *y, int rows, int c, int each, int parts, float *mean, float *dev,
    float *lack)
{
	FOLD (p, parts, t, 0, 2 * least(rows - p * each, each), i, c) {
		int n = least(rows - p * each, each), r = p * each + (t < n ? t : t - n);
		int at = p * c + i;
		float v = load(y, r * c + i);

		if (t < n)
			mean[at] = (t ? mean[at] + v : v) * (t == n - 1 ? 1.f / (float)n : 1.f);
		else {
			float d = v - mean[at];

			dev[at] = t > n ? dev[at] + d * d : d * d;
			lack[at] = t > n ? lack[at] + d : d;
		}
	}
}

KERNEL
moments_k(int rows, int c, int each, int parts, const float *strip, const float *dev,
    const float *lack, float *mean, float *m2)
{
	ROWS (i, c) {
		double s = 0, q = 0;

		LANES (p, parts)
			s += (double)strip[p * c + i] * least(rows - p * each, each) +
			    lack[p * c + i];
		s = row_sum(s) / rows;
		LANES (p, parts) {
			double n = least(rows - p * each, each), more = lack[p * c + i] / n;
			double d = strip[p * c + i] + more - s;

			q += dev[p * c + i] - n * more * more + n * d * d;
		}
		q = row_sum(q);
		LEAD {
			mean[i] = (float)s;
			m2[i] = (float)(q < 0 ? 0 : q);
		}
	}
}

static void
moments(struct dev *d, const void *y, int rows, int c, float *mean, float *m2, void *ws)
{
	int each = strip_rows(c), parts = strips(rows, c);
	float *strip = (float *)ws, *dev = strip + (size_t)parts * (size_t)c;
	float *lack = dev + (size_t)parts * (size_t)c;

	RUN(d, moments_strip_k, parts * c, y, rows, c, each, parts, strip, dev, lack);
	RUNROWS(d, moments_k, c, rows, c, each, parts, strip, dev, lack, mean, m2);
}

KERNEL
merge_k(const float *part, int parts, int c, float *out)
{
	EACH (i, c) {
		double n = 0, mean = 0, m2 = 0;

		for (int p = 0; p < parts; p++) {
			const float *from = part + p * (2 * c + 1);
			double add = from[0], d = from[1 + i] - mean;

			if (add <= 0)
				continue;
			mean += d * add / (n + add);
			m2 += from[1 + c + i] + d * d * n * add / (n + add);
			n += add;
		}
		out[1 + i] = (float)mean;
		out[1 + c + i] = (float)m2;
		if (!i)
			out[0] = (float)n;
	}
}

static void
merge(struct dev *d, const float *part, int parts, int c, float *out)
{
	RUN(d, merge_k, c, part, parts, c, out);
}

KERNEL
inv_k(const float *m2, float count, int c, float *inv)
{
	EACH (i, c)
		inv[i] = 1 / sqrtf(m2[i] / count + EPS);
}

KERNEL
apply_k(const void *y, int rows, int c, const float *mean, const float *inv, const float *gamma,
    const float *beta, enum act a, void *z)
{
	BY_ACT(a, EACH2 (r, rows, i, c)
		store(z, r * c + i,
		    fn_act(act, gamma[i] * inv[i] * (load(y, r * c + i) - mean[i]) + beta[i])););
}

static void
apply(struct dev *d, const void *y, int rows, int c, const float *mean, const float *m2,
    float count, const float *gamma, const float *beta, enum act a, void *z, void *ws)
{
	float *inv = (float *)ws;

	RUN(d, inv_k, c, m2, count, c, inv);
	RUN(d, apply_k, rows * c, y, rows, c, mean, inv, gamma, beta, a, z);
}

/* db[p][c] and dg[p][c] of a strip, by p. */
KERNEL
back_strip_k(const void *y, const void *dz, int rows, int c, int each, int parts, const float *mean,
    const float *inv, const float *gamma, const float *beta, enum act a, float *db, float *dg)
{
	BY_ACT(a, FOLD (p, parts, r, p * each, least(rows, p * each + each), i, c) {
		float xhat = (load(y, r * c + i) - mean[i]) * inv[i];
		float du = load(dz, r * c + i) * fn_slope(act, gamma[i] * xhat + beta[i]);

		db[p * c + i] = r == p * each ? du : db[p * c + i] + du;
		dg[p * c + i] = r == p * each ? du * xhat : dg[p * c + i] + du * xhat;
	});
}

KERNEL
add_strips_k(const float *part, int parts, int c, int add, float *sum)
{
	ROWS (i, c) {
		double s = 0;

		LANES (p, parts)
			s += part[p * c + i];
		s = row_sum(s);
		LEAD
			sum[i] = (float)(add ? sum[i] + s : s);
	}
}

static void
back_sums(struct dev *d, const void *y, const void *dz, int rows, int c, const float *mean,
    const float *m2, float count, const float *gamma, const float *beta, enum act a, float *dgamma,
    float *dbeta, void *ws)
{
	int each = strip_rows(c), parts = strips(rows, c);
	float *inv = (float *)ws, *db = inv + c, *dg = db + (size_t)parts * (size_t)c;

	RUN(d, inv_k, c, m2, count, c, inv);
	RUN(d, back_strip_k, parts * c, y, dz, rows, c, each, parts, mean, inv, gamma, beta, a, db,
	    dg);
	RUNROWS(d, add_strips_k, c, db, parts, c, 0, dbeta);
	RUNROWS(d, add_strips_k, c, dg, parts, c, 0, dgamma);
}

KERNEL
back_apply_k(const void *y, void *dz, int rows, int c, const float *mean, const float *inv,
    const float *gamma, const float *beta, enum act a, float one, const float *dgamma,
    const float *dbeta)
{
	BY_ACT(a, EACH2 (r, rows, i, c) {
		float xhat = (load(y, r * c + i) - mean[i]) * inv[i];
		float du = load(dz, r * c + i) * fn_slope(act, gamma[i] * xhat + beta[i]);

		store(dz, r * c + i,
		    gamma[i] * inv[i] * (du - one * dbeta[i] - xhat * (one * dgamma[i])));
	});
}

static void
back_apply(struct dev *d, const void *y, void *dz, int rows, int c, const float *mean,
    const float *m2, float count, const float *gamma, const float *beta, enum act a,
    const float *dgamma, const float *dbeta, void *ws)
{
	float *inv = (float *)ws;

	RUN(d, inv_k, c, m2, count, c, inv);
	RUN(d, back_apply_k, rows * c, y, dz, rows, c, mean, inv, gamma, beta, a, 1 / count, dgamma,
	    dbeta);
}

KERNEL
running_k(int c, const float *mean, const float *m2, float count, float m, float *run_mean,
    float *run_var)
{
	EACH (i, c) {
		float var = m2[i] / (count > 1 ? count - 1 : 1);

		run_mean[i] = (1 - m) * run_mean[i] + m * mean[i];
		run_var[i] = (1 - m) * run_var[i] + m * var;
	}
}

static void
running(struct dev *d, int c, const float *mean, const float *m2, float count, float m,
    float *run_mean, float *run_var)
{
	RUN(d, running_k, c, c, mean, m2, count, m, run_mean, run_var);
}

KERNEL
fold_k(float *w, int rows, int c, const float *gamma, const float *var)
{
	EACH2 (r, rows, i, c)
		w[r * c + i] *= gamma[i] / sqrtf(var[i] + EPS);
}

KERNEL
fold_bias_k(int c, const float *gamma, const float *beta, const float *mean, const float *var,
    float *bias)
{
	EACH (i, c)
		bias[i] = beta[i] - mean[i] * (gamma[i] / sqrtf(var[i] + EPS));
}

static void
fold(struct dev *d, float *w, int rows, int c, const float *gamma, const float *beta,
    const float *mean, const float *var, float *bias)
{
	RUN(d, fold_k, rows * c, w, rows, c, gamma, var);
	RUN(d, fold_bias_k, c, c, gamma, beta, mean, var, bias);
}

KERNEL
bias_act_k(void *u, int rows, int c, const float *bias, enum act a, void *z)
{
	BY_ACT(a, EACH2 (r, rows, i, c) {
		float v = load(u, r * c + i) + bias[i];

		store(u, r * c + i, v);
		store(z, r * c + i, fn_act(act, v));
	});
}

static void
bias_act(struct dev *d, void *u, int rows, int c, const float *bias, enum act a, void *z)
{
	RUN(d, bias_act_k, rows * c, u, rows, c, bias, a, z);
}

KERNEL
bias_back_k(const void *u, void *dz, int rows, int c, int each, int parts, enum act a, float *part)
{
	BY_ACT(a, FOLD (p, parts, r, p * each, least(rows, p * each + each), i, c) {
		float du = load(dz, r * c + i) * fn_slope(act, load(u, r * c + i));

		store(dz, r * c + i, du);
		part[p * c + i] = r == p * each ? du : part[p * c + i] + du;
	});
}

static void
bias_act_back(struct dev *d, const void *u, void *dz, int rows, int c, enum act a, float *dbias,
    void *ws)
{
	int each = strip_rows(c), parts = strips(rows, c);
	float *part = (float *)ws;

	RUN(d, bias_back_k, parts * c, u, dz, rows, c, each, parts, a, part);
	RUNROWS(d, add_strips_k, c, part, parts, c, 1, dbias);
}

static size_t
workspace(struct dev *d, int rows, int c)
{
	(void)d;
	return (3 * (size_t)strips(rows, c) + 1) * (size_t)c * sizeof(float);
}

const struct bn_ops BACKEND(bn) = { workspace, moments, merge, apply, back_sums, back_apply,
	running, fold, bias_act, bias_act_back };
