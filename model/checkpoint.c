/* checkpoint.c -- what a run needs to go on: tensors and a few strings in one safetensors file.
 *
 * The strings are what determines the numbers and nothing else: no times, no host, no paths.  So
 * two runs that computed the same have the same file, byte for byte. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

enum { NKEY = 24 };

void
checkpoint_free(struct checkpoint *c)
{
	free(c->data);
	free(c->options);
	free(c->names);
	free(c->loss);
	free(c->cfg);
	free(c->precision);
	free(c->val);
	free(c->rows);
	memset(c, 0, sizeof *c);
}

static const char b64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static char *
base64(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n = strlen(text), k = 0;
	char *out = (char *)xmalloc(n / 3 * 4 + 5);

	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)s[i] << 16 | (i + 1 < n ? (unsigned)s[i + 1] << 8 : 0) |
		    (i + 2 < n ? s[i + 2] : 0);

		out[k++] = b64[v >> 18];
		out[k++] = b64[v >> 12 & 63];
		out[k++] = i + 1 < n ? b64[v >> 6 & 63] : '=';
		out[k++] = i + 2 < n ? b64[v & 63] : '=';
	}
	out[k] = 0;
	return out;
}

static char *
unbase64(const char *s)
{
	char *out = (char *)xmalloc(strlen(s) + 1);
	unsigned v = 0;
	size_t k = 0;
	int bits = 0;

	for (; *s && *s != '='; s++) {
		const char *p = strchr(b64, *s);

		if (!p)
			continue;
		v = v << 6 | (unsigned)(p - b64);
		if ((bits += 6) >= 8)
			out[k++] = (char)(v >> (bits -= 8));
	}
	out[k] = 0;
	return out;
}

static char *
text_of(const struct st *st, const char *key, const char *coded_key)
{
	const char *plain = st_meta(st, key), *coded = st_meta(st, coded_key);

	return plain ? xstrdup(plain) : coded ? unbase64(coded) : NULL;
}

char *
checkpoint_cfg(const struct st *st)
{
	return text_of(st, "cfg", "cfg.base64");
}

char *
checkpoint_names(const struct st *st)
{
	return text_of(st, "names", "names.base64");
}

struct strings { char *key[NKEY], *value[NKEY]; int n; };

/* The value is freed with the rest. */
static void
put(struct strings *s, const char *key, char *value)
{
	assert(s->n < NKEY);
	s->key[s->n] = (char *)key;
	s->value[s->n++] = value;
}

/* What a file or the user said need not be UTF-8, which a safetensors header is. */
static void
put_text(struct strings *s, const char *key, const char *coded_key, const char *text)
{
	if (utf8_is(text))
		put(s, key, xstrdup(text));
	else
		put(s, coded_key, base64(text));
}

int
checkpoint_save(const char *path, const struct cfg *cfg, const struct params *par,
    const struct weights *w, const struct checkpoint *c, struct err *e)
{
	struct strings s = { .n = 0 };
	int r;

	put(&s, "bad", xasprintf("%ld", c->bad));
	put(&s, "batch", xasprintf("%d", c->batch));
	put(&s, "best", xasprintf("%.17g", c->best));
	put(&s, "best_step", xasprintf("%ld", c->best_step));
	put_text(&s, "cfg", "cfg.base64", c->cfg);
	put(&s, "data", xstrdup(c->data));
	if (c->due)
		put(&s, "due", xstrdup("1"));
	put(&s, "loss", xstrdup(c->loss));
	if (c->names)
		put_text(&s, "names", "names.base64", c->names);
	put_text(&s, "options", "options.base64", c->options);
	put(&s, "precision", xstrdup(c->precision ? c->precision : "fp32"));
	put(&s, "ranks", xasprintf("%ld", c->ranks));
	put(&s, "samples", xasprintf("%llu", (unsigned long long)c->samples));
	put(&s, "seed", xasprintf("%llu", (unsigned long long)c->seed));
	put(&s, "skipped", xasprintf("%ld", c->skipped));
	put(&s, "stale", xasprintf("%ld", c->stale));
	put(&s, "step", xasprintf("%ld", c->step));
	put(&s, "t", xasprintf("%ld", c->t));
	put(&s, "threads", xasprintf("%d", c->threads));
	if (c->val) {
		put(&s, "val", xstrdup(c->val));
		put(&s, "val_rows", xstrdup(c->rows ? c->rows : ""));
	}
	r = weights_save(path, cfg, par, w, s.key, s.value, s.n, e);
	for (int i = 0; i < s.n; i++)
		free(s.value[i]);
	return r;
}

int
checkpoint_export(const char *path, const struct cfg *cfg, const struct params *par,
    const struct weights *w, const char *names, struct err *e)
{
	struct weights only = { .train = w->train, .stat = w->stat };
	struct strings s = { .n = 0 };
	const int *v = w->version;
	int r;

	put_text(&s, "cfg", "cfg.base64", cfg->text);
	if (names)
		put_text(&s, "names", "names.base64", names);
	put(&s, "seen", xasprintf("%llu", (unsigned long long)w->seen));
	if (v[0] || v[1] || v[2])
		put(&s, "version", xasprintf("%d.%d.%d", v[0], v[1], v[2]));
	r = weights_save(path, cfg, par, &only, s.key, s.value, s.n, e);
	for (int i = 0; i < s.n; i++)
		free(s.value[i]);
	return r;
}

static int
get(const struct st *st, const char *key, long lo, long hi, long *out)
{
	const char *v = st_meta(st, key);

	return v ? num_int(v, lo, hi, out) : -1;
}

/* Steps and the like stay far from where products with the batch overflow. */
static int
numbers(const struct st *st, struct checkpoint *c)
{
	const long many = (long)1 << 40, most = LONG_MAX;
	long batch, threads, seed, samples, due = 0;

	if (get(st, "step", 0, many, &c->step) || get(st, "t", 0, many, &c->t) ||
	    get(st, "skipped", 0, many, &c->skipped) || get(st, "bad", 0, many, &c->bad) ||
	    get(st, "stale", 0, many, &c->stale) ||
	    get(st, "best_step", -1, many, &c->best_step) ||
	    get(st, "batch", 1, 1 << 22, &batch) || get(st, "threads", 1, 1 << 20, &threads) ||
	    get(st, "seed", 0, most, &seed) || get(st, "samples", 1, most, &samples) ||
	    !st_meta(st, "best") || num_real(st_meta(st, "best"), -1e300, 1e300, &c->best) ||
	    (st_meta(st, "ranks") && get(st, "ranks", 1, 1 << 20, &c->ranks)) ||
	    (st_meta(st, "due") && get(st, "due", 0, 1, &due)))
		return -1;
	c->due = (int)due;
	c->batch = (int)batch;
	c->threads = (int)threads;
	c->seed = (uint64_t)seed;
	c->samples = (uint64_t)samples;
	return 0;
}

int
checkpoint_read(const char *path, struct checkpoint *c, struct err *e)
{
	struct st *st = st_open(path, e);

	memset(c, 0, sizeof *c);
	if (!st)
		return -1;
	c->cfg = checkpoint_cfg(st);
	c->options = text_of(st, "options", "options.base64");
	c->names = checkpoint_names(st);
	if (!c->cfg || !c->options || !st_meta(st, "data") || !st_meta(st, "loss") ||
	    numbers(st, c)) {
		st_close(st);
		checkpoint_free(c);
		return err_set(e,
		    "%s: no checkpoint of a training run: step, seed or options are missing", path);
	}
	c->data = xstrdup(st_meta(st, "data"));
	c->loss = xstrdup(st_meta(st, "loss"));
	if (st_meta(st, "precision"))
		c->precision = xstrdup(st_meta(st, "precision"));
	if (st_meta(st, "val")) {
		c->val = xstrdup(st_meta(st, "val"));
		c->rows = xstrdup(st_meta(st, "val_rows") ? st_meta(st, "val_rows") : "");
	}
	st_close(st);
	return 0;
}
