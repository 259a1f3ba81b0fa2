/* picname.c -- which picture a name means, for whoever has names or numbers of pictures.
 *
 * The rule stands in labels.h.  Six indexes answer it: what a picture is called by (its whole name,
 * an id that is a word, its id, the last component of its name, that without the extension, the
 * number that this ends in) finds the pictures that are called so, chained. */
#include <stdlib.h>
#include <string.h>

#include "labels/labels.h"

enum { WHOLE, WORD, ID, BASE, STEM, TAIL, INDEXES };
struct index { struct keys key; int *first, *next; };	/* first: [key]; next: [picture], -1: end */
struct eval_names {
	const struct eval_pic *pic;
	struct index by[INDEXES];
};

static void
index_put(struct index *x, const void *s, size_t n, int pic)
{
	int had = x->key.n, k = keys_add(&x->key, s, n);

	x->next[pic] = k < had ? x->first[k] : -1;
	x->first[k] = pic;
}

/* The first picture with this key, -1: none. */
static int
index_get(const struct index *x, const void *s, size_t n)
{
	int k = keys_find(&x->key, s, n);

	return k < 0 ? -1 : x->first[k];
}

/* The only picture with this key, -1: none, -2: several. */
static int
index_only(const struct index *x, const void *s, size_t n)
{
	int pic = index_get(x, s, n);

	return pic >= 0 && x->next[pic] >= 0 ? -2 : pic;
}

static int
is_sep(char c)
{
	return c == '/' || c == '\\';
}

/* An extension is a letter and at most four letters or digits: in 2007.000027 there is none. */
static int
is_extension(const char *s, const char *end)
{
	if (end - s < 1 || end - s > 5 || (unsigned)((*s | 32) - 'a') >= 26)
		return 0;
	for (; s < end; s++)
		if ((unsigned)((*s | 32) - 'a') >= 26 && (unsigned)(*s - '0') >= 10)
			return 0;
	return 1;
}

struct part { const char *base, *stem_end, *digits, *end; };	/* digits: at the stem's end */

static struct part
parts(const char *s, size_t n)
{
	struct part p = { s, s + n, NULL, s + n };
	const char *dot = NULL;

	for (const char *q = s; q < p.end; q++)
		if (is_sep(*q))
			p.base = q + 1;
	for (const char *q = p.base; q < p.end; q++)
		if (*q == '.')
			dot = q;
	if (dot && dot > p.base && is_extension(dot + 1, p.end))
		p.stem_end = dot;
	for (p.digits = p.stem_end; p.digits > p.base && (unsigned)(p.digits[-1] - '0') < 10;)
		p.digits--;
	return p;
}

/* The whole name with / between its components; *copy is the caller's to free. */
static const char *
with_slashes(const char *s, size_t n, char **copy)
{
	*copy = NULL;
	if (!memchr(s, '\\', n))
		return s;
	*copy = (char *)memcpy(xmalloc(n + 1), s, n);
	(*copy)[n] = 0;
	for (size_t i = 0; i < n; i++)
		if ((*copy)[i] == '\\')
			(*copy)[i] = '/';
	return *copy;
}

static void
add_picture(struct eval_names *m, int i)
{
	const struct eval_pic *pic = m->pic + i;
	const char *s = pic->name ? pic->name : "";
	struct part p = parts(s, strlen(s));
	int64_t number;
	char *copy;

	if (pic->word)
		index_put(&m->by[WORD], pic->word, strlen(pic->word), i);
	if (pic->id != EVAL_NOID)
		index_put(&m->by[ID], &pic->id, sizeof pic->id, i);
	if (!*s)
		return;
	s = with_slashes(s, strlen(s), &copy);
	index_put(&m->by[WHOLE], s, strlen(s), i);
	free(copy);
	index_put(&m->by[BASE], p.base, (size_t)(p.end - p.base), i);
	index_put(&m->by[STEM], p.base, (size_t)(p.stem_end - p.base), i);
	if (!num_digits(p.digits, (size_t)(p.stem_end - p.digits), &number))
		index_put(&m->by[TAIL], &number, sizeof number, i);
}

struct eval_names *
eval_names_open(const struct eval_pic *pic, int n)
{
	struct eval_names *m = (struct eval_names *)xcalloc(1, sizeof *m);
	int *room = (int *)xmalloc(2 * INDEXES * (size_t)n * sizeof *room);

	m->pic = pic;
	for (int k = 0; k < INDEXES; k++) {
		m->by[k].first = room + 2 * (size_t)k * (size_t)n;
		m->by[k].next = m->by[k].first + n;
	}
	for (int i = 0; i < n; i++)
		add_picture(m, i);
	return m;
}

void
eval_names_close(struct eval_names *m)
{
	if (!m)
		return;
	free(m->by[0].first);
	for (int k = 0; k < INDEXES; k++)
		keys_free(&m->by[k].key);
	free(m);
}

/* Folders that two names share, counted from the last component, which ends before a and b. */
static int
shared(const char *from_a, const char *a, const char *from_b, const char *b)
{
	int n = 0;

	while (a > from_a && b > from_b) {	/* both stand behind a separator */
		const char *p = a - 1, *q = b - 1;

		while (p > from_a && q > from_b && !is_sep(p[-1]) && p[-1] == q[-1]) {
			p--;
			q--;
		}
		if ((p > from_a && !is_sep(p[-1])) || (q > from_b && !is_sep(q[-1])))
			return n;
		n++;
		a = p;
		b = q;
	}
	return n;
}

/* Of the pictures with this key the one that shares most folders with the name s. */
static int
by_path(const struct eval_names *m, int by, const char *s, const struct part *p, const char *end)
{
	int i = index_get(&m->by[by], p->base, (size_t)(end - p->base)), best = -1, most = -1;

	for (; i >= 0; i = m->by[by].next[i]) {
		const char *name = m->pic[i].name;
		int k = shared(s, p->base, name, parts(name, strlen(name)).base);

		if (k >= most)
			best = k == most ? -2 : i;
		most = k > most ? k : most;
	}
	return best;
}

int
eval_names_id(const struct eval_names *m, int64_t id)
{
	return index_only(&m->by[m->by[ID].key.n ? ID : TAIL], &id, sizeof id);
}

int
eval_names_find(const struct eval_names *m, const char *s, size_t n)
{
	struct part p = parts(s, n);
	int number, i;
	int64_t id;
	char *copy;

	i = index_only(&m->by[WHOLE], with_slashes(s, n, &copy), n);
	free(copy);
	if (i == -1)
		i = index_only(&m->by[WORD], s, n);
	number = !num_digits(s, n, &id);
	if (i == -1 && number && m->by[ID].key.n)
		i = eval_names_id(m, id);
	for (int k = 0; i == -1 && k < 4; k++)	/* either of them may lack the extension */
		i = by_path(m, k & 1 ? STEM : BASE, s, &p, k & 2 ? p.stem_end : p.end);
	return i == -1 && number && !m->by[ID].key.n ? eval_names_id(m, id) : i;
}

int
picname_digits(const char *name, int64_t *id)
{
	struct part p = parts(name, strlen(name));

	return num_digits(p.digits, (size_t)(p.stem_end - p.digits), id);
}
