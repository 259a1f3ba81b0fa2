/* weights.c -- parameters in files: darknet's .weights (checkpoints: weights_st.c).
 *
 * A .weights file has a header (three int32 version numbers and the images seen, 32 bits before
 * version 0.2, 64 since) and then bare floats in layer order: biases (beta with batch-norm), and
 * with batch-norm gamma, mean, variance, then the kernels as [o][i][s][s].  Nothing in it says what
 * it belongs to, so its length is compared with what the cfg wants before anything is taken.
 *
 * Version 0.1 is in circulation too (yolov2.weights of 203,934,260 bytes). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "yolo.h"

/* Kernels between the file's [o][i][s][s] and memory's [s][s][i][o], 16 filters at a time: as many
 * streams as a cache keeps. */
void
weights_permute(const struct param *p, const float *from, float *to, int to_memory)
{
	size_t taps = (size_t)p->s * (size_t)p->s, in = (size_t)p->i, out = (size_t)p->o;

	for (size_t first = 0; first < out; first += 16)
		for (size_t k = 0; k < in * taps; k++) {
			size_t mem = (k % taps * in + k / taps) * out;

			for (size_t o = first; o < out && o < first + 16; o++)
				if (to_memory)
					to[mem + o] = from[o * in * taps + k];
				else
					to[o * in * taps + k] = from[mem + o];
		}
}

/* NaN in, NaN out; so with a variance that 1e-5 does not lift above 0 (real files have -7e-44). */
int
weights_check(const char *path, const struct param *p, const float *v, struct err *e)
{
	static const char *const names[] = { "weights", "biases", "scales", "means", "variances" };

	for (size_t i = 0; i < p->n; i++)
		if (!isfinite(v[i]) || (p->kind == P_VAR && v[i] <= -1e-5f))
			return err_set(e, "%s: layer %d: %s[%zu] is %g", path, p->layer,
			    names[p->kind], i, v[i]);
	return 0;
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
		return err_set(e,
		    "%s: a Git LFS pointer, not the weights: fetch them with git lfs pull", path);
	while (text < d->len && text < 64 && (d->b[text] >= 32 ? d->b[text] < 127 :
	    d->b[text] == '\n' || d->b[text] == '\r' || d->b[text] == '\t'))
		text++;
	if (text == d->len || text == 64)
		return err_set(
		    e, "%s: text ('%.30s...'), not a weights file", path, (const char *)d->b);
	if (d->len < 16)
		return err_set(e, "%s: %zu bytes: too short for a weights file", path, d->len);
	major = (uint32_t)little(d->b, 4);
	minor = (uint32_t)little(d->b + 4, 4);
	if (major > 1000 || minor > 1000)
		return err_set(e,
		    "%s: version %u.%u: not a weights file, or one of another byte order", path,
		    major, minor);
	if (major > 0 || minor > 5)
		return err_set(
		    e, "%s: version %u.%u is not known; 0.1 to 0.2 are", path, major, minor);
	d->header = major * 10 + minor >= 2 ? 20 : 16;
	if (d->len < d->header)
		return err_set(e, "%s: %zu bytes: cut in its header", path, d->len);
	d->seen = little(d->b + 12, d->header == 20 ? 8 : 4);
	return 0;
}

/* Does this load of the file take the parameter?  dontload skips nothing in the file: darknet's
 * such layers have no numbers there at all, nor have the statistics of dontloadscales. */
static int
in_file(const struct cfg *c, const struct param *p)
{
	const struct layer *l = &c->l[p->layer];

	return !l->dontload && !(l->dontloadscales && p->kind >= P_GAMMA);
}

static int
take_layer(const char *path, const struct cfg *c, const struct params *par,
    const struct weights *w, int layer, const unsigned char **at, struct err *e)
{
	for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
		const struct param *p = params_find(par, layer, order[k]);
		float *to, *tmp;
		int bad;

		if (!p || !in_file(c, p))
			continue;
		to = place_of(w, p);
		tmp = (float *)xmalloc(p->n * sizeof *tmp);
		memcpy(tmp, *at, p->n * sizeof *tmp);
		*at += p->n * sizeof *tmp;
		bad = weights_check(path, p, tmp, e);
		if (!bad && p->kind == P_WEIGHT)
			weights_permute(p, tmp, to, 1);
		else if (!bad)
			memcpy(to, tmp, p->n * sizeof *to);
		free(tmp);
		if (bad)
			return -1;
	}
	return 0;
}

/* Bytes of numbers of the first n layers. */
static size_t
bytes_of(const struct cfg *c, const struct params *par, int n)
{
	size_t bytes = 0;

	for (int i = 0; i < par->np; i++)
		if (par->p[i].layer < n && in_file(c, &par->p[i]))
			bytes += par->p[i].n * sizeof(float);
	return bytes;
}

/* A file that ends where a layer ends looks like one of darknet's `partial`. */
static int
partial_at(const struct cfg *c, const struct params *par, size_t bytes)
{
	for (int n = c->nl; n > 0; n--)
		if (bytes && bytes_of(c, par, n) == bytes && bytes_of(c, par, n - 1) < bytes)
			return n;
	return 0;
}

/* The first n layers must be there; what is too much is said. */
static int
check_length(const char *path, const struct cfg *c, const struct params *par, size_t bytes, int n,
    struct err *e)
{
	size_t want = bytes_of(c, par, n), all = bytes_of(c, par, c->nl);
	int part;

	if (bytes < want) {
		if (n == c->nl && (part = partial_at(c, par, bytes)))
			return err_set(e,
			    "%s: %zu bytes of numbers, %s wants %zu: the first %d layers "
			    "(-O cutoff=%d loads those)",
			    path, bytes, c->path, want, part, part);
		return err_set(e, "%s: cut short: %zu bytes of numbers, %s wants %zu", path, bytes,
		    c->path, want);
	}
	if (bytes > all)
		warn(
		    "%s: %zu numbers, %s wants %zu: the rest is not used; do they belong together?",
		    path, bytes / 4, c->path, all / 4);
	return 0;
}

static int
load_darknet(const char *path, const unsigned char *b, size_t len, const struct cfg *c,
    const struct params *par, struct weights *w, int cutoff, struct err *e)
{
	struct darknet d = { b, len, 0, 0 };
	int n = cutoff < 0 || cutoff > c->nl ? c->nl : cutoff;
	const unsigned char *at;

	if (read_header(&d, path, e) || check_length(path, c, par, len - d.header, n, e))
		return -1;
	at = b + d.header;
	for (int i = 0; i < n; i++)
		if (take_layer(path, c, par, w, i, &at, e))
			return -1;
	w->seen = cutoff < 0 ? d.seen : 0;
	return 0;
}

static void
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
		weights_permute(p, place_of(w, p), tmp, 0);
		fwrite(tmp, sizeof *tmp, p->n, f);
		free(tmp);
	}
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
	for (int i = 0; i < n && !ferror(o.f); i++)
		put_layer(o.f, par, w, i);
	return out_commit(&o, e);
}

/* safetensors begin with a length and "{". */
static int
begins_so(const unsigned char b[9])
{
	return b[8] == '{' && !b[7] && !b[6];
}

int
weights_plain(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* A pipe would lose its first bytes. */
int
weights_is_st(const char *path)
{
	FILE *f = weights_plain(path) ? fopen(path, "rb") : NULL;
	unsigned char b[9] = "";
	int yes = f && fread(b, 1, sizeof b, f) == sizeof b && begins_so(b);

	if (f)
		fclose(f);
	return yes;
}

int
weights_load(const char *path, const struct cfg *c, const struct params *par, struct weights *w,
    int cutoff, struct err *e)
{
	size_t len;
	char *b;
	int r;

	if (weights_is_st(path))
		return weights_load_st(path, c, par, w, cutoff, e);
	if (!(b = file_read(path, (size_t)1 << 36, &len, e)))
		return -1;
	if (len > 9 && begins_so((unsigned char *)b))
		r = err_set(e, "%s: safetensors are read from a plain file only, not from a pipe",
		    path);
	else
		r = load_darknet(path, (unsigned char *)b, len, c, par, w, cutoff, e);
	free(b);
	return r;
}
