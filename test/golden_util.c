/* golden_util.c -- reading and comparing golden tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/golden.h"

yajl_val
gold_get(yajl_val v, const char *path)
{
	const char *keys[8];
	char *copy = xstrdup(path), *save = NULL;
	int n = 0;

	for (char *p = strtok_r(copy, ".", &save); p && n < 7; p = strtok_r(NULL, ".", &save))
		keys[n++] = p;
	keys[n] = NULL;
	v = yajl_tree_get(v, keys, yajl_t_any);
	free(copy);
	return v;
}

double
gold_num(yajl_val v, const char *path, double dflt)
{
	yajl_val x = gold_get(v, path);

	if (YAJL_IS_TRUE(x) || YAJL_IS_FALSE(x))
		return YAJL_IS_TRUE(x);
	return YAJL_IS_NUMBER(x) ? YAJL_GET_DOUBLE(x) : dflt;
}

const char *
gold_str(yajl_val v, const char *path, const char *dflt)
{
	yajl_val x = gold_get(v, path);

	return YAJL_IS_STRING(x) ? YAJL_GET_STRING(x) : dflt;
}

float *
gold_floats(const struct gold *g, const char *name, struct err *e)
{
	const struct st_tensor *t = g->st ? st_find(g->st, name) : NULL;
	float *f;

	if (!t) {
		err_set(e, "no tensor '%s'", name);
		return NULL;
	}
	f = (float *)xmalloc(t->n * sizeof *f);
	for (size_t i = 0; i < t->n; i++)
		f[i] = (float)st_get(t, i);
	return f;
}

/* dst[b][j][i] = src[b][i][j] for i < m, j < n. */
static float *
transpose(const float *src, int batch, int m, int n)
{
	float *dst = (float *)xmalloc(sizeof *dst * (size_t)batch * (size_t)m * (size_t)n);

	for (int b = 0; b < batch; b++)
		for (int i = 0; i < m; i++)
			for (int j = 0; j < n; j++)
				dst[((size_t)b * n + j) * m + i] = src[((size_t)b * m + i) * n + j];
	return dst;
}

float *
gold_nhwc(const float *x, int n, int c, int h, int w)
{
	return transpose(x, n, c, h * w);
}

float *
gold_nchw(const float *x, int n, int c, int h, int w)
{
	return transpose(x, n, h * w, c);
}

float *
gold_hwio(const float *w, int o, int i, int s)
{
	float *t = transpose(w, o, i, s * s), *r = transpose(t, 1, o, s * s * i);

	free(t);
	return r;
}

float *
gold_oihw(const float *w, int o, int i, int s)
{
	float *t = transpose(w, 1, s * s * i, o), *r = transpose(t, o, s * s, i);

	free(t);
	return r;
}

int
gold_compare(const struct gold *g, const char *name, const float *got, double atol, double rtol,
    struct err *e)
{
	const struct st_tensor *t = g->st ? st_find(g->st, name) : NULL;
	double worst = 0, by = -1;
	size_t at = 0;

	if (!t)
		return err_set(e, "no tensor '%s'", name);
	for (size_t i = 0; i < t->n; i++) {
		double want = st_get(t, i), d = fabs(got[i] - want),
		    over = d - (atol + rtol * fabs(want));

		if (!(over <= 0) && !(over <= by)) {
			by = over;
			worst = d;
			at = i;
		}
	}
	if (by >= 0 || by != by)
		return err_set(e, "%s[%zu] = %.9g, want %.9g: off by %.3g, allowed %.3g", name, at,
		    got[at], st_get(t, at), worst, atol + rtol * fabs(st_get(t, at)));
	return 0;
}

int
gold_compare_l2(const struct gold *g, const char *name, const float *got, double limit,
    struct err *e)
{
	const struct st_tensor *t = g->st ? st_find(g->st, name) : NULL;
	double off = 0, all = 0;

	if (!t)
		return err_set(e, "no tensor '%s'", name);
	for (size_t i = 0; i < t->n; i++) {
		off += pow(got[i] - st_get(t, i), 2);
		all += pow(st_get(t, i), 2);
	}
	return sqrt(off) <= limit * sqrt(all) ? 0 :
	    err_set(e, "%s: off by %.3g of its length, allowed %.3g", name, sqrt(off / all), limit);
}

float *
gold_put(struct dev *d, const float *x, size_t n)
{
	float *p = (float *)d->ops->alloc(d, n * sizeof *p + 64);

	if (!p)
		die(1, "golden: out of device memory");
	if (x)
		d->ops->put(d, p, x, n * sizeof *p);
	return p;
}

float *
gold_get_dev(struct dev *d, const float *x, size_t n)
{
	float *p = (float *)xmalloc(n * sizeof *p);

	d->ops->get(d, p, x, n * sizeof *p);
	return p;
}

void *
gold_put_stored(struct dev *d, const float *x, size_t n)
{
	float *p = gold_put(d, x, n), *q = gold_put(d, NULL, n);

	d->store->narrow(d, (int)n, p, q);
	d->ops->free(d, p);
	return q;
}

float *
gold_get_stored(struct dev *d, const void *x, size_t n)
{
	float *p = gold_put(d, NULL, n), *host;

	d->store->widen(d, (int)n, x, p);
	host = gold_get_dev(d, p, n);
	d->ops->free(d, p);
	return host;
}
