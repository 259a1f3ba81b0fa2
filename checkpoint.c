/* checkpoint.c -- what a run needs to go on: tensors and a few strings in one safetensors file.
 *
 * The strings are what determines the numbers and nothing else: no times, no host, no paths.  So
 * two runs that computed the same have the same file, byte for byte. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

enum { NKEY = 16 };

void
checkpoint_free(struct checkpoint *c)
{
	free(c->data);
	free(c->options);
	free(c->loss);
	free(c->cfg);
	free(c->precision);
	memset(c, 0, sizeof *c);
}

static int
is_utf8(const unsigned char *s)
{
	while (*s) {
		int n = *s < 0x80 ? 0 : *s >= 0xc2 && *s < 0xe0 ? 1 : *s >= 0xe0 && *s < 0xf0 ? 2 :
		    *s >= 0xf0 && *s < 0xf5 ? 3 : -1;

		if (n < 0)
			return 0;
		for (s++; n > 0; n--, s++)
			if ((*s & 0xc0) != 0x80)
				return 0;
	}
	return 1;
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

char *
checkpoint_cfg(const struct st *st)
{
	const char *plain = st_meta(st, "cfg"), *coded = st_meta(st, "cfg.base64");

	return plain ? xstrdup(plain) : coded ? unbase64(coded) : NULL;
}

int
checkpoint_save(const char *path, const struct cfg *cfg, const struct params *par,
    const struct weights *w, const struct checkpoint *c, struct err *e)
{
	int plain = is_utf8((const unsigned char *)c->cfg), r;
	char *text = plain ? xstrdup(c->cfg) : base64(c->cfg);
	char *key[NKEY] = { (char *)"bad", (char *)"batch", (char *)"best", (char *)"best_step",
		(char *)(plain ? "cfg" : "cfg.base64"), (char *)"data", (char *)"loss",
		(char *)"options", (char *)"precision", (char *)"samples", (char *)"seed",
		(char *)"skipped", (char *)"stale", (char *)"step", (char *)"t",
		(char *)"threads" };
	char *value[NKEY] = { xasprintf("%ld", c->bad), xasprintf("%d", c->batch),
		xasprintf("%.17g", c->best),
		xasprintf("%ld", c->best_step), text, xstrdup(c->data), xstrdup(c->loss),
		xstrdup(c->options), xstrdup(c->precision ? c->precision : "fp32"),
		xasprintf("%llu", (unsigned long long)c->samples),
		xasprintf("%llu", (unsigned long long)c->seed), xasprintf("%ld", c->skipped),
		xasprintf("%ld", c->stale), xasprintf("%ld", c->step), xasprintf("%ld", c->t),
		xasprintf("%d", c->threads) };

	r = weights_save(path, cfg, par, w, key, value, NKEY, e);
	for (int i = 0; i < NKEY; i++)
		free(value[i]);
	return r;
}

static int
get(const struct st *st, const char *key, long lo, long *out)
{
	const char *v = st_meta(st, key);

	return v ? num_int(v, lo, 0x7fffffffffffffff, out) : -1;
}

int
checkpoint_read(const char *path, struct checkpoint *c, struct err *e)
{
	struct st *st = st_open(path, e);
	long batch = 0, threads = 0, seed = 0, samples = 0;

	memset(c, 0, sizeof *c);
	if (!st)
		return -1;
	if (!(c->cfg = checkpoint_cfg(st)) || get(st, "step", 0, &c->step) ||
	    get(st, "t", 0, &c->t) ||
	    get(st, "skipped", 0, &c->skipped) || get(st, "bad", 0, &c->bad) ||
	    get(st, "stale", 0, &c->stale) || get(st, "best_step", -1, &c->best_step) ||
	    get(st, "batch", 1, &batch) || get(st, "threads", 1, &threads) ||
	    get(st, "seed", 0, &seed) || get(st, "samples", 1, &samples) || !st_meta(st, "best") ||
	    num_real(st_meta(st, "best"), -1e300, 1e300, &c->best) || !st_meta(st, "options") ||
	    !st_meta(st, "data") || !st_meta(st, "loss")) {
		st_close(st);
		checkpoint_free(c);
		return err_set(e,
		    "%s: no checkpoint of a training run: step, seed or options are missing", path);
	}
	c->batch = (int)batch;
	c->threads = (int)threads;
	c->seed = (uint64_t)seed;
	c->samples = (uint64_t)samples;
	c->options = xstrdup(st_meta(st, "options"));
	c->data = xstrdup(st_meta(st, "data"));
	c->loss = xstrdup(st_meta(st, "loss"));
	if (st_meta(st, "precision"))
		c->precision = xstrdup(st_meta(st, "precision"));
	st_close(st);
	return 0;
}
