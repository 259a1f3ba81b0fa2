/* opt.c -- settings: -O key=value, -O @file, -O help.
 *
 * A program has one table of settings; its range column is both what the manual shows and what is
 * checked, so the two cannot differ.  The last value given wins. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

void
settings_open(struct settings *s, const struct setting *tab)
{
	size_t n = 0;

	while (tab[n].key)
		n++;
	s->tab = tab;
	s->val = (char **)xcalloc(n + 1, sizeof *s->val);
}

void
settings_close(struct settings *s)
{
	for (int i = 0; s->tab[i].key; i++)
		free(s->val[i]);
	free(s->val);
}

static int
find(const struct settings *s, const char *key, size_t len)
{
	for (int i = 0; s->tab[i].key; i++)
		if (strlen(s->tab[i].key) == len && !memcmp(s->tab[i].key, key, len))
			return i;
	return -1;
}

/* Is the word one of a|b|c? */
static int
one_of(const char *range, const char *word)
{
	size_t n = strlen(word);

	if (strchr(word, '|'))
		return 0;
	for (const char *p = range; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
		if (!strncmp(p, word, n) && (p[n] == '|' || !p[n]))
			return 1;
	return 0;
}

static int
in_range(const char *range, const char *value)
{
	int whole = !strncmp(range, "int ", 4);
	const char *lo = whole ? range + 4 : range, *dots = strstr(lo, "..");
	double v, hi;
	long n;

	if (!strcmp(range, "text"))
		return 1;
	if (!dots)
		return one_of(range, value);
	hi = strcmp(dots + 2, "inf") ? atof(dots + 2) : HUGE_VAL;
	if (whole)
		return !num_int(value, strncmp(lo, "-inf", 4) ? atol(lo) : -0x7fffffffffffffff,
		    hi < 9e18 ? (long)hi : 0x7fffffffffffffff, &n);
	return !num_real(value, strncmp(lo, "-inf", 4) ? atof(lo) : -HUGE_VAL, hi, &v);
}

/* The known key with the most letters in common at the start: a guess for a slip of the pen. */
static const char *
nearest(const struct settings *s, const char *key)
{
	const char *best = NULL;
	size_t most = 1;

	for (int i = 0; s->tab[i].key; i++) {
		size_t n = 0;

		while (key[n] && key[n] == s->tab[i].key[n])
			n++;
		if (n > most) {
			most = n;
			best = s->tab[i].key;
		}
	}
	return best;
}

static int
set_file(struct settings *s, const char *path, struct err *e)
{
	struct err why;
	size_t len;
	char *found = path_stock(path), *text = file_read(found, 1 << 20, &len, e), *save = NULL;
	int line = 0, r = 0;

	free(found);
	if (!text)
		return -1;
	if (memchr(text, 0, len))
		r = err_set(e, "%s: not a file of settings: it holds zero bytes", path);
	for (char *next = text, *p; !r && (p = next) && *p;) {
		line++;
		if ((next = strchr(p, '\n')))
			*next++ = 0;
		p += strspn(p, " \t\r");
		for (save = p + strlen(p); save > p && strchr(" \t\r", save[-1]);)
			*--save = 0;
		if (!*p || *p == '#' || *p == ';')
			continue;
		if (*p == '@')
			r = err_set(e, "%s:%d: a settings file names no further file", path, line);
		else if (settings_set(s, p, &why))
			r = err_set(e, "%s:%d: %s", path, line, why.msg);
	}
	free(text);
	return r;
}

int
settings_set(struct settings *s, const char *arg, struct err *e)
{
	const char *eq = strchr(arg, '='), *guess;
	int i;

	if (*arg == '@')
		return set_file(s, arg + 1, e);
	if (!eq || eq == arg)
		return err_set(e, "-O %s: want key=value, @file or help", arg);
	if ((i = find(s, arg, (size_t)(eq - arg))) < 0) {
		char *key = xasprintf("%.*s", (int)(eq - arg), arg);

		guess = nearest(s, key);
		err_set(e, "-O %s: unknown setting%s%s%s; -O help lists them", key,
		    guess ? ", perhaps '" : "", guess ? guess : "", guess ? "'" : "");
		free(key);
		return -1;
	}
	if (!in_range(s->tab[i].range, eq + 1))
		return err_set(e, "-O %s: want %s", arg, s->tab[i].range);
	free(s->val[i]);
	s->val[i] = xstrdup(eq + 1);
	return 0;
}

int
settings_given(const struct settings *s, const char *key)
{
	int i = find(s, key, strlen(key));

	return i >= 0 && s->val[i];
}

const char *
settings_str(const struct settings *s, const char *key)
{
	int i = find(s, key, strlen(key));

	if (i < 0)
		die(1, "bug: no setting '%s'", key);
	return s->val[i] ? s->val[i] : s->tab[i].dflt;
}

double
settings_num(const struct settings *s, const char *key)
{
	const char *v = settings_str(s, key);
	double d = 0;

	if (v)
		num_real(v, -HUGE_VAL, HUGE_VAL, &d);
	return d;
}

long
settings_int(const struct settings *s, const char *key)
{
	const char *v = settings_str(s, key);

	return v ? strtol(v, NULL, 10) : 0;
}

/* TSV: key default range meaning. */
static void
settings_help(const struct settings *s, FILE *f)
{
	fprintf(f, "#key\tdefault\trange\tmeaning\n");
	for (int i = 0; s->tab[i].key; i++)
		fprintf(f, "%s\t%s\t%s\t%s\n", s->tab[i].key, s->tab[i].dflt ? s->tab[i].dflt : "-",
		    s->tab[i].range, s->tab[i].help);
}

void
settings_option(struct settings *s, const char *arg)
{
	struct err e;

	if (!strcmp(arg, "help")) {
		settings_help(s, stdout);
		exit(0);
	}
	if (settings_set(s, arg, &e))
		die(2, "%s", e.msg);
}
