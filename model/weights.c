/* weights.c -- parameters in files: darknet's .weights and checkpoints.
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

#include "model/int.h"

static int
weights_load_st(const char *path, const struct cfg *c, const struct params *par, struct weights
    *w, int cutoff, struct err *e);

/* 16 filters at a time: as many streams as a cache keeps. */
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
static int
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
	for (int i = 0; i < 3; i++)
		w->version[i] = (int)little(b + 4 * i, 4);
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

/* Its length: 16 before version 0.2, where the images seen have 32 bits, else 20. */
static size_t
put_header(unsigned char head[20], const int version[3], uint64_t seen)
{
	for (int i = 0; i < 12; i++)
		head[i] = (unsigned char)(version[i / 4] >> 8 * (i % 4));
	for (int i = 0; i < 8; i++)
		head[12 + i] = (unsigned char)(seen >> 8 * i);
	return version[0] * 10 + version[1] >= 2 ? 20 : 16;
}

int
weights_save_version(const char *path, const struct cfg *c, const struct params *par,
    const struct weights *w, const int version[3], int cutoff, struct err *e)
{
	int n = cutoff < 0 || cutoff > c->nl ? c->nl : cutoff;
	unsigned char head[20];
	size_t len = put_header(head, version, cutoff < 0 ? w->seen : 0);
	struct outfile o;

	if (out_open(&o, path, e))
		return -1;
	fwrite(head, 1, len, o.f);
	for (int i = 0; i < n && !ferror(o.f); i++)
		put_layer(o.f, par, w, i);
	return out_commit(&o, e);
}

int
weights_save_darknet(const char *path, const struct cfg *c, const struct params *par,
    const struct weights *w, int cutoff, struct err *e)
{
	const int version[3] = { 0, 2, 5 };

	return weights_save_version(path, c, par, w, version, cutoff, e);
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

/* What other programs' models begin with.  PyTorch's zip names its pickle first, its older files
 * are a pickle, ONNX and TensorFlow are protobuf, whose fields have numbers. */
static const char *
foreign(const unsigned char *b, size_t n)
{
	static const struct { size_t at; const char *magic; size_t len; const char *what; }
	known[] = {
		{ 0, "\x89HDF\r\n\x1a\n", 8, "HDF5, as Keras writes it (.h5)" },
		{ 4, "TFL3", 4, "a TensorFlow Lite model (.tflite)" },
		{ 0, "ftrt", 4, "a TensorRT engine" }, { 0, "ptrt", 4, "a TensorRT engine" },
		{ 4, "{\"", 2, "a TensorRT engine as ultralytics writes it" },
		{ 0, "\x80\x02", 2, "a pickle, as PyTorch writes it (.pt, .pth)" },
		{ 0, "\x80\x03", 2, "a pickle, as Python writes it" },
		{ 0, "\x80\x04", 2, "a pickle, as Python writes it" },
		{ 0, "\x80\x05", 2, "a pickle, as Python writes it" },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (n >= known[i].at + known[i].len &&
		    !memcmp(b + known[i].at, known[i].magic, known[i].len))
			return known[i].what;
	if (n >= 4 && !memcmp(b, "PK\3\4", 4))
		return memmem(b, n, ".pkl", 4) ? "a PyTorch file (.pt, .pth)" :
		    "a zip archive (.npz, .keras, .mlpackage)";
	if (n >= 16 && b[0] == 8 && b[1] && b[1] < 32 && (b[2] & 7) == 2 && b[2] < 0x42)
		return "protobuf, as ONNX (.onnx) and TensorFlow (.pb) write it";
	if (n >= 16 && b[0] == 0x0a && (b[1] > 127 ? b[3] : b[2]) == 0x0a)
		return "protobuf, as TensorFlow writes it (.pb)";
	return NULL;
}

static int
not_ours(const char *path, const unsigned char *b, size_t n, struct err *e)
{
	const char *what = foreign(b, n);

	return what ? err_set(e, "%s: %s, which is not read: want darknet's .weights, or a "
	    ".safetensors of yolo-train; the program that made it may write the former", path,
	    what) : 0;
}

int
weights_foreign(const char *path, struct err *e)
{
	unsigned char b[256];
	long n = file_head(path, b, sizeof b, e);

	return n < 0 ? -1 : not_ours(path, b, (size_t)n, e);
}

/* A pipe would lose its first bytes. */
int
weights_is_st(const char *path, struct err *e)
{
	unsigned char b[9];
	long n = file_head(path, b, sizeof b, e);

	return n < 0 ? -1 : n == sizeof b && begins_so(b);
}

int
weights_load(const char *path, const struct cfg *c, const struct params *par, struct weights *w,
    int cutoff, struct err *e)
{
	size_t len;
	char *b;
	int r = weights_is_st(path, e);

	if (r < 0)
		return -1;
	if (r)
		return weights_load_st(path, c, par, w, cutoff, e);
	if (!(b = file_read(path, (size_t)1 << 36, &len, e)))
		return -1;
	if (not_ours(path, (unsigned char *)b, len < 256 ? len : 256, e))
		r = -1;
	else if (len > 9 && begins_so((unsigned char *)b))
		r = err_set(e, "%s: safetensors are read from a plain file only, not from a pipe",
		    path);
	else
		r = load_darknet(path, (unsigned char *)b, len, c, par, w, cutoff, e);
	free(b);
	return r;
}

/* Parameters as safetensors: layer.I.weight, .bias, .gamma, .mean, .var.
 *
 * Weights stand in the file as [O][I][kh][kw], as everybody else has them; the prefixes momentum.,
 * momentum2. and ema. repeat the names.  A set is there as a whole or not at all. */

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
	struct st_tensor t = { .name =
				   xasprintf("%slayer.%d.%s", s->prefix, p->layer, kinds[p->kind]),
		.type = ST_F32,
		.ndim = 1,
		.dim = { p->n },
		.n = p->n };
	float *copy = (float *)xmalloc(p->n * sizeof *copy);

	if (p->kind == P_WEIGHT) {
		size_t dim[4] = { (size_t)p->o, (size_t)p->i, (size_t)p->s, (size_t)p->s };

		t.ndim = 4;
		memcpy(t.dim, dim, sizeof dim);
		weights_permute(p, v, copy, 0);
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
	    t->dim[0] != (size_t)p->o || t->dim[1] != (size_t)p->i || t->dim[2] != (size_t)p->s ||
	    t->dim[3] != (size_t)p->s)))
		return err_set(e, "%s: tensor %s: %zu numbers, the cfg wants %zu%s", path, t->name,
		    t->n, p->n, t->type != ST_F32 ? " of type F32" : "");
	tmp = (float *)xmalloc(p->n * sizeof *tmp);
	memcpy(tmp, t->data, p->n * sizeof *tmp);
	bad = weights_check(path, p, tmp, e);
	if (!bad && p->kind == P_WEIGHT)
		weights_permute(p, tmp, to, 1);
	else if (!bad)
		memcpy(to, tmp, p->n * sizeof *to);
	free(tmp);
	return bad;
}

/* One set of buffers: the parameters must be there, the others may.  Counts the tensors used. */
static int
load_set(const struct st *st, const char *path, const struct cfg *c, const struct params *par,
    const struct set *s, int must, int cutoff, int *used, struct err *e)
{
	int found = 0, missing = 0, bad = 0;
	char *lacks = NULL;

	for (int i = 0; i < par->np && !bad; i++) {
		const struct param *p = &par->p[i];
		float **base = is_stat(p) ? s->stat : s->train;
		char *name = xasprintf("%slayer.%d.%s", s->prefix, p->layer, kinds[p->kind]);
		const struct st_tensor *t = base ? st_find(st, name) : NULL;

		*used += t != NULL;
		if (base && (cutoff < 0 || p->layer < cutoff)) {
			if (t && !*base)
				*base = (float *)xcalloc(
				    (is_stat(p) ? par->nstat : par->ntrain) + 1, sizeof **base);
			if (t)
				bad = take_tensor(path, t, p, *base + p->off, e);
			else if (!missing++)
				lacks = xstrdup(name);
			found += t != NULL;
		}
		free(name);
	}
	if (!bad && missing && (must || found))
		bad = err_set(e, "%s: no tensor %s, which %s wants", path, lacks, c->path);
	free(lacks);
	return bad;
}

static int
weights_load_st(const char *path, const struct cfg *c, const struct params *par,
    struct weights *w, int cutoff, struct err *e)
{
	struct st *st = st_open(path, e);
	struct set sets[4];
	int bad = !st, used = 0, nsets = sets_of(w, sets);

	for (int s = 0; s < nsets && !bad; s++)
		bad = load_set(st, path, c, par, &sets[s], !s, cutoff, &used, e);
	if (!bad && used < st->nt)
		warn("%s: %d of its %d tensors have no place in %s; do they belong together?", path,
		    st->nt - used, st->nt, c->path);
	if (!bad && cutoff < 0 && st_meta(st, "seen"))
		w->seen = strtoull(st_meta(st, "seen"), NULL, 10);
	else if (!bad && cutoff < 0 && st_meta(st, "step") && st_meta(st, "batch"))
		w->seen = strtoull(st_meta(st, "step"), NULL, 10) *
		    strtoull(st_meta(st, "batch"), NULL, 10);
	if (!bad && st_meta(st, "version"))
		sscanf(st_meta(st, "version"), "%d.%d.%d", &w->version[0], &w->version[1],
		    &w->version[2]);
	st_close(st);
	return bad ? -1 : 0;
}
