/* cfglex.c -- a darknet cfg as sections of keys, with the line of each.
 *
 * Lexing is darknet's: all white space in a line is dropped, '#' and ';' are comments only at its
 * start, a value begins behind the first '='.  Where darknet goes on in silence this does not: what
 * it survives by luck (a key given twice: the first counts; a '#' behind a number) becomes a note,
 * the rest an error with file:line. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

void
cfg_note(struct cfg *c, int line, const char *text, const char *arg)
{
	c->note = (char **)xrealloc(c->note, (size_t)(c->nnote + 1) * sizeof *c->note);
	c->note[c->nnote++] = xasprintf("%s:%d: %s%s", c->path, line, text, arg);
}

static int
add_key(struct cfg *c, struct cfg_section *s, char *text, int line, struct err *e)
{
	char *eq = strchr(text, '=');
	struct cfg_key *k;

	if (!eq || eq == text)
		return err_set(e, "%s:%d: '%.80s': want key=value, or a section such as [yolo]", c->path, line,
		    text);
	*eq = 0;
	if (!eq[1])
		return err_set(e, "%s:%d: %.80s has no value", c->path, line, text);
	s->key = (struct cfg_key *)xrealloc(s->key, (size_t)(s->n + 1) * sizeof *s->key);
	k = &s->key[s->n];
	*k = (struct cfg_key){ xstrdup(text), xstrdup(eq + 1), line, 0 };
	for (int i = 0; i < s->n; i++)
		if (!strcmp(s->key[i].name, text)) {
			cfg_note(c, line, "key given twice, the first counts: ", text);
			k->used = 1;
		}
	s->n++;
	return 0;
}

/* A section's name; a comment behind it, which darknet takes into the name, is refused. */
static int
add_section(struct cfg *c, struct cfg_sections *all, const char *text, int line, struct err *e)
{
	size_t n = strlen(text);

	if (text[n - 1] != ']')
		return err_set(e, "%s:%d: '%.80s': a section's name ends with ]", c->path, line, text);
	all->s = (struct cfg_section *)xrealloc(all->s, (size_t)(all->n + 1) * sizeof *all->s);
	all->s[all->n++] = (struct cfg_section){ xasprintf("%.*s", (int)n - 2, text + 1), line, NULL, 0 };
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
		return err_set(e, "%s:%d: '%.80s' stands before any section; a cfg begins with [net]", c->path,
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
		r = err_set(e, "%s:%d: a cfg begins with [net]", c->path, all->n ? all->s[0].line : 1);
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

static int
fail(struct cfg_reader *r, int line, const char *key, const char *value, const char *want)
{
	if (!r->bad)
		err_set(r->e, "%s:%d: %.80s=%.80s: want %s", r->c->path, line, key, value, want);
	r->bad = 1;
	return -1;
}

/* A '#' behind a number ends it for darknet. */
static int
cut_comment(struct cfg_reader *r, struct cfg_key *k)
{
	char *hash = strchr(k->value, '#');

	if (hash && hash > k->value) {
		*hash = 0;
		cfg_note(r->c, k->line, "a comment behind a value, cut off: ", k->name);
	}
	return 0;
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
	/* darknet reads 1.0 or .5 as a whole number, cut off: only exact ones are taken here */
	if (!num_real(k->value, (double)lo, (double)hi, &d) && d == floor(d))
		return (long)d;
	snprintf(want, sizeof want, "a whole number from %ld to %ld", lo, hi);
	fail(r, k->line, name, k->value, want);
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
	fail(r, k->line, name, k->value, want);
	return otherwise;
}

/* One of a|b|c, as its place in the list. */
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
		snprintf(want + strlen(want), sizeof want - strlen(want), "%s%s", i ? ", " : "", words[i]);
	fail(r, k->line, name, k->value, want);
	return otherwise;
}

/* A list of numbers; *out is fresh memory.  Returns how many, 0 where there is none. */
int
cfg_list(struct cfg_reader *r, const char *name, double **out, int max, int whole)
{
	struct cfg_key *k = cfg_get(r, name);
	char *copy, *save = NULL;
	int n = 0;

	*out = NULL;
	if (!k)
		return 0;
	cut_comment(r, k);
	copy = xstrdup(k->value);
	*out = (double *)xcalloc((size_t)max, sizeof **out);
	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		if (n == max || num_real(p, -1e9, 1e9, &(*out)[n]) ||
		    (whole && (*out)[n] != floor((*out)[n]))) {
			char want[80];

			snprintf(want, sizeof want, "at most %d %s with commas between", max, whole ?
			    "whole numbers" : "numbers");
			fail(r, k->line, name, k->value, want);
			break;
		}
		n++;
	}
	free(copy);
	return r->bad ? 0 : n;
}
