/* weights.c -- parameters in files: darknet's .weights and our safetensors checkpoints.
 *
 * A .weights file has a header (three int32 version numbers and the images seen, 32 bits before
 * version 0.2, 64 since) and then bare floats in layer order: biases (beta with batch-norm), and
 * with batch-norm gamma, mean, variance, then the kernels as [o][i][s][s].  Nothing in it says what
 * it belongs to, so its length is compared with what the cfg wants before anything is taken. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

/* Kernels between the file's [o][i][s][s] and memory's [s][s][i][o]. */
static void
permute(const struct param *p, const float *from, float *to, int to_memory)
{
	size_t taps = (size_t)p->s * (size_t)p->s, in = (size_t)p->i, out = (size_t)p->o;

	for (size_t o = 0; o < out; o++)
		for (size_t i = 0; i < in; i++)
			for (size_t t = 0; t < taps; t++) {
				size_t file = (o * in + i) * taps + t, mem = (t * in + i) * out + o;

				if (to_memory)
					to[mem] = from[file];
				else
					to[file] = from[mem];
			}
}

static float *
place_of(const struct weights *w, const struct param *p)
{
	return (p->kind == P_MEAN || p->kind == P_VAR ? w->stat : w->train) + p->off;
}

/* ---- darknet ------------------------------------------------------------------------------ */

/* The file's order inside a layer. */
static const enum param_kind order[] = { P_BIAS, P_GAMMA, P_MEAN, P_VAR, P_WEIGHT };

struct darknet { const unsigned char *b; size_t len, header; uint64_t seen; };

static uint64_t
little(const unsigned char *p, int n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | p[n];
	return v;
}

static int
read_header(struct darknet *d, const char *path, struct err *e)
{
	static const char lfs[] = "version https://git-lfs";
	uint32_t major, minor;
	size_t text = 0;

	if (!d->len)
		return err_set(e, "%s: empty file", path);
	if (d->len >= sizeof lfs && !memcmp(d->b, lfs, sizeof lfs - 1))
		return err_set(e, "%s: a Git LFS pointer, not the weights: fetch them with git lfs pull", path);
	while (text < d->len && text < 64 && (d->b[text] >= 32 ? d->b[text] < 127 :
	    d->b[text] == '\n' || d->b[text] == '\r' || d->b[text] == '\t'))
		text++;
	if (text == d->len || text == 64)
		return err_set(e, "%s: text ('%.30s...'), not a weights file", path, (const char *)d->b);
	if (d->len < 16)
		return err_set(e, "%s: %zu bytes: too short for a weights file", path, d->len);
	major = (uint32_t)little(d->b, 4);
	minor = (uint32_t)little(d->b + 4, 4);
	if (major > 1000 || minor > 1000)
		return err_set(e, "%s: version %u.%u: not a weights file, or one of another byte order", path,
		    major, minor);
	if (major > 0 || minor > 5)
		return err_set(e, "%s: version %u.%u is not known; 0.1 to 0.2 are", path, major, minor);
	d->header = major * 10 + minor >= 2 ? 20 : 16;
	if (d->len < d->header)
		return err_set(e, "%s: %zu bytes: cut in its header", path, d->len);
	d->seen = little(d->b + 12, d->header == 20 ? 8 : 4);
	return 0;
}

static int
check_finite(const char *path, const struct param *p, const float *v, struct err *e)
{
	static const char *const names[] = { "weights", "biases", "scales", "means", "variances" };

	for (size_t i = 0; i < p->n; i++)
		if (!isfinite(v[i]))
			return err_set(e, "%s: layer %d: %s[%zu] is not a finite number", path, p->layer,
			    names[p->kind], i);
	return 0;
}

static int
take_layer(const char *path, const struct params *par, const struct weights *w, int layer,
    const unsigned char **at, struct err *e)
{
	for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
		const struct param *p = params_find(par, layer, order[k]);
		float *to, *tmp;
		int bad;

		if (!p)
			continue;
		to = place_of(w, p);
		tmp = (float *)xmalloc(p->n * sizeof *tmp);
		memcpy(tmp, *at, p->n * sizeof *tmp);
		*at += p->n * sizeof *tmp;
		bad = check_finite(path, p, tmp, e);
		if (!bad && p->kind == P_WEIGHT)
			permute(p, tmp, to, 1);
		else if (!bad)
			memcpy(to, tmp, p->n * sizeof *to);
		free(tmp);
		if (bad)
			return -1;
	}
	return 0;
}

/* How many layers the file's floats cover: a whole file, or one cut at a layer's end. */
static int
layers_covered(const char *path, const struct cfg *c, size_t bytes, int cutoff, struct err *e)
{
	size_t want = 0, all = 0;
	int n = cutoff < 0 || cutoff > c->nl ? c->nl : cutoff;

	for (int i = 0; i < c->nl; i++) {
		all += 4 * (size_t)cfg_floats(c, i);
		if (i < n)
			want = all;
	}
	if (bytes < want)
		return err_set(e, "%s: cut short: %zu bytes of numbers, %s wants %zu (-O cutoff=N loads the "
		    "first N layers of a partial file)", path, bytes, c->path, want);
	if (bytes > all || bytes % 4)
		warn("%s: %zu bytes of numbers, %s wants %zu: the rest is not used; do they belong together?",
		    path, bytes, c->path, all);
	return n;
}

static int
load_darknet(const char *path, const unsigned char *b, size_t len, const struct cfg *c,
    const struct params *par, struct weights *w, int cutoff, struct err *e)
{
	struct darknet d = { b, len, 0, 0 };
	const unsigned char *at;
	int n;

	if (read_header(&d, path, e) ||
	    (n = layers_covered(path, c, len - d.header, cutoff, e)) < 0)
		return -1;
	at = b + d.header;
	for (int i = 0; i < n; i++)
		if (!c->l[i].dontload && take_layer(path, par, w, i, &at, e))
			return -1;
	w->seen = cutoff < 0 ? d.seen : 0;
	return 0;
}

static int
put_layer(FILE *f, const struct params *par, const struct weights *w, int layer)
{
	for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
		const struct param *p = params_find(par, layer, order[k]);
		float *tmp;

		if (!p)
			continue;
		if (p->kind != P_WEIGHT) {
			fwrite(place_of(w, p), sizeof *tmp, p->n, f);
			continue;
		}
		tmp = (float *)xmalloc(p->n * sizeof *tmp);
		permute(p, place_of(w, p), tmp, 0);
		fwrite(tmp, sizeof *tmp, p->n, f);
		free(tmp);
	}
	return ferror(f);
}

int
weights_save_darknet(const char *path, const struct cfg *c, const struct params *par,
    const struct weights *w, int cutoff, struct err *e)
{
	int n = cutoff < 0 || cutoff > c->nl ? c->nl : cutoff;
	uint64_t seen = cutoff < 0 ? w->seen : 0;
	unsigned char head[20] = { 0, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0 };
	struct outfile o;

	for (int i = 0; i < 8; i++)
		head[12 + i] = (unsigned char)(seen >> 8 * i);
	if (out_open(&o, path, e))
		return -1;
	fwrite(head, 1, sizeof head, o.f);
	for (int i = 0; i < n; i++)
		put_layer(o.f, par, w, i);
	return out_commit(&o, e);
}

/* ---- safetensors -------------------------------------------------------------------------- */

static const char *const kinds[] = { [P_WEIGHT] = "weight", [P_BIAS] = "bias", [P_GAMMA] = "gamma",
	[P_MEAN] = "mean", [P_VAR] = "var" };

/* Buffers of a checkpoint: prefix, trained parameters, statistics. */
struct set { const char *prefix; float **train, **stat; };

static int
sets_of(struct weights *w, struct set s[4])
{
	s[0] = (struct set){ "", &w->train, &w->stat };
	s[1] = (struct set){ "momentum.", &w->mom, NULL };
	s[2] = (struct set){ "momentum2.", &w->mom2, NULL };
	s[3] = (struct set){ "ema.", &w->ema, &w->ema_stat };
	return 4;
}

static int
is_stat(const struct param *p)
{
	return p->kind == P_MEAN || p->kind == P_VAR;
}

/* Where the tensor of this set and parameter lies; NULL: not part of the set. */
static float *
member(const struct set *s, const struct param *p)
{
	float **base = is_stat(p) ? s->stat : s->train;

	return base && *base ? *base + p->off : NULL;
}

static struct st_tensor
describe(const struct set *s, const struct param *p, const float *v)
{
	struct st_tensor t = { .name = xasprintf("%slayer.%d.%s", s->prefix, p->layer, kinds[p->kind]),
		.type = ST_F32, .ndim = 1, .dim = { p->n }, .n = p->n };
	float *copy = (float *)xmalloc(p->n * sizeof *copy);

	if (p->kind == P_WEIGHT) {
		size_t dim[4] = { (size_t)p->o, (size_t)p->i, (size_t)p->s, (size_t)p->s };

		t.ndim = 4;
		memcpy(t.dim, dim, sizeof dim);
		permute(p, v, copy, 0);
	} else
		memcpy(copy, v, p->n * sizeof *copy);
	t.data = copy;
	return t;
}

int
weights_save(const char *path, const struct cfg *c, const struct params *par,
    const struct weights *weights, char *const *key, char *const *value, int nmeta, struct err *e)
{
	struct weights w = *weights;
	struct set sets[4];
	struct st_tensor *t;
	int n = 0, bad, nsets = sets_of(&w, sets);

	(void)c;
	t = (struct st_tensor *)xcalloc((size_t)(nsets * par->np) + 1, sizeof *t);
	for (int s = 0; s < nsets; s++)
		for (int i = 0; i < par->np; i++) {
			float *v = member(&sets[s], &par->p[i]);

			if (v)
				t[n++] = describe(&sets[s], &par->p[i], v);
		}
	bad = st_write(path, t, n, key, value, nmeta, e);
	for (int i = 0; i < n; i++) {
		free(t[i].name);
		free((void *)t[i].data);
	}
	free(t);
	return bad;
}

static int
take_tensor(const char *path, const struct st_tensor *t, const struct param *p, float *to,
    struct err *e)
{
	float *tmp;
	int bad;

	if (t->type != ST_F32 || t->n != p->n || (p->kind == P_WEIGHT && (t->ndim != 4 ||
	    t->dim[0] != (size_t)p->o || t->dim[1] != (size_t)p->i || t->dim[2] != (size_t)p->s)))
		return err_set(e, "%s: tensor %s: %zu numbers, the cfg wants %zu%s", path, t->name, t->n, p->n,
		    t->type != ST_F32 ? " of type F32" : "");
	tmp = (float *)xmalloc(p->n * sizeof *tmp);
	memcpy(tmp, t->data, p->n * sizeof *tmp);
	bad = check_finite(path, p, tmp, e);
	if (!bad && p->kind == P_WEIGHT)
		permute(p, tmp, to, 1);
	else if (!bad)
		memcpy(to, tmp, p->n * sizeof *to);
	free(tmp);
	return bad;
}

static int
load_safetensors(const char *path, const struct cfg *c, const struct params *par,
    struct weights *w, int cutoff, struct err *e)
{
	struct st *st = st_open(path, e);
	struct set sets[4];
	int bad = !st, nsets = sets_of(w, sets);

	for (int s = 0; s < nsets && !bad; s++)
		for (int i = 0; i < par->np && !bad; i++) {
			const struct param *p = &par->p[i];
			float **base = is_stat(p) ? sets[s].stat : sets[s].train;
			char *name = xasprintf("%slayer.%d.%s", sets[s].prefix, p->layer, kinds[p->kind]);
			const struct st_tensor *t = st_find(st, name);

			if (t && base && (cutoff < 0 || p->layer < cutoff)) {
				if (!*base)
					*base = (float *)xcalloc((is_stat(p) ? par->nstat : par->ntrain) + 1,
					    sizeof **base);
				bad = take_tensor(path, t, p, *base + p->off, e);
			} else if (!t && !s && (cutoff < 0 || p->layer < cutoff))
				bad = err_set(e, "%s: no tensor %s, which %s wants", path, name, c->path);
			free(name);
		}
	if (!bad && st_meta(st, "step") && st_meta(st, "batch"))
		w->seen = strtoull(st_meta(st, "step"), NULL, 10) * strtoull(st_meta(st, "batch"), NULL, 10);
	st_close(st);
	return bad;
}

int
weights_load(const char *path, const struct cfg *c, const struct params *par, struct weights *w,
    int cutoff, struct err *e)
{
	size_t len;
	char *b = file_read(path, (size_t)1 << 36, &len, e);
	int r;

	if (!b)
		return -1;
	if (len > 9 && b[8] == '{') {
		free(b);
		return load_safetensors(path, c, par, w, cutoff, e);
	}
	r = load_darknet(path, (unsigned char *)b, len, c, par, w, cutoff, e);
	free(b);
	return r;
}
