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
struct strips { int rows, c, each, parts; float *mean, *dev, *lack; };

KERNEL
moments_strip_k(struct strips s, const void *y)
{
	FOLD (p, s.parts, t, 0, 2 * least(s.rows - p * s.each, s.each), i, s.c) {
		int n = least(s.rows - p * s.each, s.each), r = p * s.each + (t < n ? t : t - n);
		int at = p * s.c + i;
		float v = load(y, r * s.c + i);

		if (t < n)
			s.mean[at] = (t ? s.mean[at] + v : v) * (t == n - 1 ? 1.f / (float)n : 1.f);
		else {
			float d = v - s.mean[at];

			s.dev[at] = t > n ? s.dev[at] + d * d : d * d;
			s.lack[at] = t > n ? s.lack[at] + d : d;
		}
	}
}

KERNEL
moments_k(struct strips s, float *mean, float *m2)
{
	ROWS (i, s.c) {
		double sum = 0, q = 0;

		LANES (p, s.parts)
			sum += (double)s.mean[p * s.c + i] * least(s.rows - p * s.each, s.each) +
			    s.lack[p * s.c + i];
		sum = row_sum(sum) / s.rows;
		LANES (p, s.parts) {
			double n = least(s.rows - p * s.each, s.each);
			double more = s.lack[p * s.c + i] / n, d = s.mean[p * s.c + i] + more - sum;

			q += s.dev[p * s.c + i] - n * more * more + n * d * d;
		}
		q = row_sum(q);
		LEAD {
			mean[i] = (float)sum;
			m2[i] = (float)(q < 0 ? 0 : q);
		}
	}
}

static void
moments(struct dev *d, const struct bn *b, const void *y, void *ws)
{
	struct strips s = { b->rows, b->c, strip_rows(b->c), strips(b->rows, b->c), (float *)ws,
		NULL, NULL };

	s.dev = s.mean + (size_t)s.parts * (size_t)s.c;
	s.lack = s.dev + (size_t)s.parts * (size_t)s.c;
	RUN(d, moments_strip_k, s.parts * s.c, s, y);
	RUNROWS(d, moments_k, s.c, s, b->mean, b->m2);
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
apply_k(struct bn b, const float *inv, const void *y, void *z)
{
	BY_ACT(b.act, EACH2 (r, b.rows, i, b.c)
		store(z, r * b.c + i, fn_act(act, b.gamma[i] * inv[i] *
		    (load(y, r * b.c + i) - b.mean[i]) + b.beta[i])););
}

static void
apply(struct dev *d, const struct bn *b, const void *y, void *z, void *ws)
{
	float *inv = (float *)ws;

	RUN(d, inv_k, b->c, b->m2, b->count, b->c, inv);
	RUN(d, apply_k, b->rows * b->c, *b, inv, y, z);
}

/* db[p][c] and dg[p][c] of a strip of `each` rows, by p: what b.dbeta and b.dgamma are the
 * sums of. */
struct bn_strips { int each, parts; float *db, *dg; };

KERNEL
back_strip_k(struct bn b, const float *inv, const void *y, const void *dz, struct bn_strips s)
{
	int each = s.each;
	float *db = s.db, *dg = s.dg;

	BY_ACT(b.act, FOLD (p, s.parts, r, p * each,
	    least(b.rows, p * each + each), i, b.c) {
		int at = p * b.c + i;
		float xhat = (load(y, r * b.c + i) - b.mean[i]) * inv[i];
		float du = load(dz, r * b.c + i) * fn_slope(act, b.gamma[i] * xhat + b.beta[i]);

		db[at] = r == p * each ? du : db[at] + du;
		dg[at] = r == p * each ? du * xhat : dg[at] + du * xhat;
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
back_sums(struct dev *d, const struct bn *b, const void *y, const void *dz, void *ws)
{
	int c = b->c, each = strip_rows(c), parts = strips(b->rows, c);
	float *inv = (float *)ws, *db = inv + c, *dg = db + (size_t)parts * (size_t)c;
	struct bn_strips s = { each, parts, db, dg };

	RUN(d, inv_k, c, b->m2, b->count, c, inv);
	RUN(d, back_strip_k, parts * c, *b, inv, y, dz, s);
	RUNROWS(d, add_strips_k, c, db, parts, c, 0, b->dbeta);
	RUNROWS(d, add_strips_k, c, dg, parts, c, 0, b->dgamma);
}

KERNEL
back_apply_k(struct bn b, const float *inv, float one, const void *y, void *dz)
{
	BY_ACT(b.act, EACH2 (r, b.rows, i, b.c) {
		float xhat = (load(y, r * b.c + i) - b.mean[i]) * inv[i];
		float du = load(dz, r * b.c + i) * fn_slope(act, b.gamma[i] * xhat + b.beta[i]);

		store(dz, r * b.c + i, b.gamma[i] * inv[i] *
		    (du - one * b.dbeta[i] - xhat * (one * b.dgamma[i])));
	});
}

static void
back_apply(struct dev *d, const struct bn *b, const void *y, void *dz, void *ws)
{
	float *inv = (float *)ws;

	RUN(d, inv_k, b->c, b->m2, b->count, b->c, inv);
	RUN(d, back_apply_k, b->rows * b->c, *b, inv, 1 / b->count, y, dz);
}

KERNEL
running_k(struct bn b, float m, float *run_mean, float *run_var)
{
	EACH (i, b.c) {
		float var = b.m2[i] / (b.count > 1 ? b.count - 1 : 1);

		run_mean[i] = (1 - m) * run_mean[i] + m * b.mean[i];
		run_var[i] = (1 - m) * run_var[i] + m * var;
	}
}

static void
running(struct dev *d, const struct bn *b, float m, float *run_mean, float *run_var)
{
	RUN(d, running_k, b->c, *b, m, run_mean, run_var);
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
fold(struct dev *d, const struct bn *b, float *w, float *bias)
{
	RUN(d, fold_k, b->rows * b->c, w, b->rows, b->c, b->gamma, b->m2);
	RUN(d, fold_bias_k, b->c, b->c, b->gamma, b->beta, b->mean, b->m2, bias);
}

KERNEL
bias_act_k(struct bn b, void *u, void *z)
{
	BY_ACT(b.act, EACH2 (r, b.rows, i, b.c) {
		float v = load(u, r * b.c + i) + b.beta[i];

		store(u, r * b.c + i, v);
		store(z, r * b.c + i, fn_act(act, v));
	});
}

static void
bias_act(struct dev *d, const struct bn *b, void *u, void *z)
{
	RUN(d, bias_act_k, b->rows * b->c, *b, u, z);
}

KERNEL
bias_back_k(struct bn b, const void *u, void *dz, int each, float *part)
{
	BY_ACT(b.act, FOLD (p, (b.rows + each - 1) / each, r, p * each,
	    least(b.rows, p * each + each), i, b.c) {
		float du = load(dz, r * b.c + i) * fn_slope(act, load(u, r * b.c + i));

		store(dz, r * b.c + i, du);
		part[p * b.c + i] = r == p * each ? du : part[p * b.c + i] + du;
	});
}

static void
bias_act_back(struct dev *d, const struct bn *b, const void *u, void *dz, void *ws)
{
	int each = strip_rows(b->c), parts = strips(b->rows, b->c);
	float *part = (float *)ws;

	RUN(d, bias_back_k, parts * b->c, *b, u, dz, each, part);
	RUNROWS(d, add_strips_k, b->c, part, parts, b->c, 1, b->dbeta);
}

static size_t
workspace(struct dev *d, int rows, int c)
{
	(void)d;
	return (3 * (size_t)strips(rows, c) + 1) * (size_t)c * sizeof(float);
}

const struct bn_ops BACKEND(bn) = { workspace, moments, merge, apply, back_sums, back_apply,
	running, fold, bias_act, bias_act_back };
