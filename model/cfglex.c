/* cfglex.c -- a darknet cfg as sections of keys, with the line of each.
 *
 * Lexing is darknet's: all white space in a line is dropped, '#' and ';' are comments only at its
 * start, a value begins behind the first '='.  Where darknet goes on in silence this does not: what
 * it survives by luck (a key given twice: the first counts; a '#' behind a number) becomes a note,
 * the rest an error with file:line. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "model/int.h"

enum { MAX_KEYS = 256, MAX_SECTIONS = 10000 };	/* of a section, of a file: far beyond any net */

static int
add_key(struct cfg *c, struct cfg_section *s, char *text, int line, struct err *e)
{
	char *eq = strchr(text, '=');
	int twice = 0;

	if (!eq || eq == text)
		return err_set(e, "%s:%d: '%.80s': want key=value, or a section such as [yolo]",
		    c->path, line, text);
	*eq = 0;
	if (!eq[1])
		return err_set(e, "%s:%d: %.80s= has no value", c->path, line, text);
	if (s->n == MAX_KEYS)
		return err_set(
		    e, "%s:%d: more than %d keys in one section", c->path, line, MAX_KEYS);
	for (int i = 0; i < s->n; i++)
		twice |= !strcmp(s->key[i].name, text);
	s->key = (struct cfg_key *)xrealloc(s->key, (size_t)(s->n + 1) * sizeof *s->key);
	s->key[s->n++] = (struct cfg_key){ xstrdup(text), xstrdup(eq + 1), line, 0, twice };
	return 0;
}

/* A section's name; a comment behind it, which darknet takes into the name, is refused. */
static int
add_section(struct cfg *c, struct cfg_sections *all, const char *text, int line, struct err *e)
{
	size_t n = strlen(text);

	if (text[n - 1] != ']')
		return err_set(e, "%s:%d: '%.80s': a section's name ends with ]%s", c->path, line,
		    text,
		    strchr(text, '#') || strchr(text, ';') ? "; a comment has a line of its own"
							   : "");
	if (all->n == MAX_SECTIONS)
		return err_set(e, "%s:%d: more than %d sections", c->path, line, MAX_SECTIONS);
	all->s = (struct cfg_section *)xrealloc(all->s, (size_t)(all->n + 1) * sizeof *all->s);
	all->s[all->n++] =
	    (struct cfg_section){ xasprintf("%.*s", (int)n - 2, text + 1), line, NULL, 0 };
	return 0;
}

static int
one_line(struct cfg *c, struct cfg_sections *all, char *text, int line, struct err *e)
{
	if (!*text || *text == '#' || *text == ';')
		return 0;
	if (*text == '[')
		return add_section(c, all, text, line, e);
	if (!all->n)
		return err_set(e,
		    "%s:%d: '%.80s' stands before any section; a cfg begins with [net]", c->path,
		    line, text);
	return add_key(c, &all->s[all->n - 1], text, line, e);
}

int
cfg_lex(struct cfg *c, struct cfg_sections *all, struct err *e)
{
	const char *p = c->text, *end = p + c->len;
	char *buf = (char *)xmalloc(c->len + 1);
	int line = 0, r = 0;

	memset(all, 0, sizeof *all);
	if (c->len >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
		cfg_note(c, 1, "begins with a byte order mark, which darknet does not survive", "");
		p += 3;
	}
	if (memchr(p, 0, (size_t)(end - p)))
		r = err_set(e, "%s: not a cfg: it holds zero bytes", c->path);
	while (!r && p < end) {
		size_t n = 0;

		for (; p < end && *p != '\n'; p++)
			if (!strchr(" \t\r", *p))
				buf[n++] = *p;
		p += p < end;
		buf[n] = 0;
		r = one_line(c, all, buf, ++line, e);
	}
	free(buf);
	if (!r && (!all->n || (strcmp(all->s[0].name, "net") && strcmp(all->s[0].name, "network"))))
		r = err_set(
		    e, "%s:%d: a cfg begins with [net]", c->path, all->n ? all->s[0].line : 1);
	return r;
}

void
cfg_unlex(struct cfg_sections *all)
{
	for (int i = 0; i < all->n; i++) {
		for (int k = 0; k < all->s[i].n; k++) {
			free(all->s[i].key[k].name);
			free(all->s[i].key[k].value);
		}
		free(all->s[i].name);
		free(all->s[i].key);
	}
	free(all->s);
}

/* ---- remarks ------------------------------------------------------------------------------ */

/* The same remark on several lines is kept once, with a count: cfgs repeat their sections. */
void
cfg_note(struct cfg *c, int line, const char *text, const char *arg)
{
	char *say = xasprintf("%s%s", text, arg);
	size_t n = strlen(say);

	for (int i = 0; i < c->nnote; i++) {
		size_t have = strlen(c->note[i]);

		if (have > n && c->note[i][have - n - 1] == ' ' &&
		    !strcmp(c->note[i] + have - n, say)) {
			c->note_more[i]++;
			free(say);
			return;
		}
	}
	c->note = (char **)xrealloc(c->note, (size_t)(c->nnote + 1) * sizeof *c->note);
	c->note_more = (int *)xrealloc(c->note_more, (size_t)(c->nnote + 1) * sizeof *c->note_more);
	c->note_more[c->nnote] = 0;
	c->note[c->nnote++] = xasprintf("%s:%d: %s", c->path, line, say);
	free(say);
}

int
cfg_bad(struct cfg_reader *r, const char *key, const char *fmt, ...)
{
	int line = r->s->line;
	char say[800];
	va_list ap;

	if (r->bad)
		return -1;
	r->bad = 1;
	for (int i = r->s->n - 1; key && i >= 0; i--)	/* the first of that name is what counts */
		if (!strcmp(r->s->key[i].name, key))
			line = r->s->key[i].line;
	va_start(ap, fmt);
	vsnprintf(say, sizeof say, fmt, ap);
	va_end(ap);
	return err_set(r->e, "%s:%d: %s", r->c->path, line, say);
}

int
cfg_line(const struct cfg_reader *r, const char *key)
{
	for (int i = 0; i < r->s->n; i++)
		if (!strcmp(r->s->key[i].name, key))
			return r->s->key[i].line;
	return r->s->line;
}

/* ---- values ------------------------------------------------------------------------------- */

/* The key, marked as used; NULL where the section lacks it. */
struct cfg_key *
cfg_get(struct cfg_reader *r, const char *name)
{
	for (int i = 0; i < r->s->n; i++)
		if (!strcmp(r->s->key[i].name, name)) {
			r->s->key[i].used = 1;
			return &r->s->key[i];
		}
	return NULL;
}

static void
unwanted(struct cfg_reader *r, const char *key, const char *value, const char *want)
{
	cfg_bad(r, key, "%s=%.80s: want %s%s", key, value, want, strchr(value, '#') ?
	    "; a comment has a line of its own" : "");
}

/* A '#' behind a number ends it for darknet. */
static void
cut_comment(struct cfg_reader *r, struct cfg_key *k)
{
	char *hash = strchr(k->value, '#');

	if (hash && hash > k->value) {
		*hash = 0;
		cfg_note(r->c, k->line, "a comment behind a value, cut off: ", k->name);
	}
}

long
cfg_int(struct cfg_reader *r, const char *name, long otherwise, long lo, long hi)
{
	struct cfg_key *k = cfg_get(r, name);
	char want[80];
	double d;
	long v;

	if (!k)
		return otherwise;
	cut_comment(r, k);
	if (!num_int(k->value, lo, hi, &v))
		return v;
	/* darknet reads 1.9 or 1e3 as 1: only what means the same to it and to people is taken */
	if (!strpbrk(k->value, "eExX") && !num_real(k->value, (double)lo, (double)hi, &d) &&
	    d == floor(d))
		return (long)d;
	snprintf(want, sizeof want, "a whole number from %ld to %ld", lo, hi);
	unwanted(r, name, k->value, want);
	return otherwise;
}

double
cfg_num(struct cfg_reader *r, const char *name, double otherwise, double lo, double hi)
{
	struct cfg_key *k = cfg_get(r, name);
	char want[80];
	double v;

	if (!k)
		return otherwise;
	cut_comment(r, k);
	if (!num_real(k->value, lo, hi, &v))
		return v;
	snprintf(want, sizeof want, "a number from %g to %g", lo, hi);
	unwanted(r, name, k->value, want);
	return otherwise;
}

int
cfg_word(struct cfg_reader *r, const char *name, int otherwise, const char *const *words)
{
	struct cfg_key *k = cfg_get(r, name);
	char want[300] = "";

	if (!k)
		return otherwise;
	for (int i = 0; words[i]; i++)
		if (!strcmp(k->value, words[i]))
			return i;
	for (int i = 0; words[i]; i++)
		snprintf(want + strlen(want), sizeof want - strlen(want), "%s%s",
		    !i		   ? ""
		    : words[i + 1] ? ", "
				   : " or ",
		    words[i]);
	unwanted(r, name, k->value, want);
	return otherwise;
}

static int
list_item(struct cfg_reader *r, const char *name, const struct cfg_key *k, char *item, int whole,
    double *out)
{
	if (!*item)
		return cfg_bad(r, name, "%s=%.80s: nothing between two commas", name, k->value);
	if (num_real(item, -1e9, 1e9, out) || (whole && *out != floor(*out)))
		return cfg_bad(
		    r, name, "%s: '%.40s' is no %s", name, item, whole ? "whole number" : "number");
	return 0;
}

int
cfg_list(struct cfg_reader *r, const char *name, double **out, int max, int whole)
{
	struct cfg_key *k = cfg_get(r, name);
	char *copy, *p, *comma;
	int n = 0;

	*out = NULL;
	if (!k)
		return 0;
	cut_comment(r, k);
	p = copy = xstrdup(k->value);
	*out = (double *)xcalloc((size_t)max, sizeof **out);
	for (; p && !r->bad; p = comma ? comma + 1 : NULL) {
		if ((comma = strchr(p, ',')))
			*comma = 0;
		if (!*p && !comma && n)
			cfg_note(r->c, k->line, "a comma at the end: ", name);
		else if (n == max)
			cfg_bad(r, name, "%s: more than %d numbers", name, max);
		else if (!list_item(r, name, k, p, whole, &(*out)[n]))
			n++;
	}
	free(copy);
	return r->bad ? 0 : n;
}
