/* picname.c -- which picture a detection means.
 *
 * Names are looked up exactly; then by path: of the pictures with the same last component the one
 * that shares most components from the end, if it is alone; then by stem, the last component
 * without its extension; a number finds a picture by its id, or, where there are no ids, the
 * picture whose stem ends in that number.  Pictures with one key are chained. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static uint64_t
hash(const char *s, size_t n)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * 1099511628211u;
	return h ^ h >> 29;
}

static size_t
place(const struct eval_hash *t, const char *s, size_t n)
{
	size_t i = hash(s, n) & (t->cap - 1);

	while (t->key[i] && (strncmp(t->key[i], s, n) || t->key[i][n]))
		i = (i + 1) & (t->cap - 1);
	return i;
}

int
eval_hash_get(const struct eval_hash *t, const char *s, size_t n)
{
	size_t i;

	if (!t->cap || memchr(s, 0, n))
		return -1;
	i = place(t, s, n);
	return t->key[i] ? t->value[i] : -1;
}

static void
grow(struct eval_hash *t)
{
	struct eval_hash old = *t;

	t->cap = old.cap ? 2 * old.cap : 64;
	t->key = (char **)xcalloc(t->cap, sizeof *t->key);
	t->value = (int *)xcalloc(t->cap, sizeof *t->value);
	for (size_t i = 0; i < old.cap; i++)
		if (old.key[i]) {
			size_t at = place(t, old.key[i], strlen(old.key[i]));

			t->key[at] = old.key[i];
			t->value[at] = old.value[i];
		}
	free(old.key);
	free(old.value);
}

int
eval_hash_put(struct eval_hash *t, const char *s, size_t n, int value)
{
	size_t i;
	int old;

	n = strnlen(s, n);
	if (2 * t->n >= t->cap)
		grow(t);
	i = place(t, s, n);
	if (t->key[i]) {
		old = t->value[i];
		t->value[i] = value;
		return old;
	}
	t->key[i] = (char *)memcpy(xcalloc(n + 1, 1), s, n);
	t->value[i] = value;
	t->n++;
	return -1;
}

void
eval_hash_free(struct eval_hash *t)
{
	for (size_t i = 0; i < t->cap; i++)
		free(t->key[i]);
	free(t->key);
	free(t->value);
	memset(t, 0, sizeof *t);
}

struct eval_names {
	const struct eval_pic *pic;
	struct eval_hash exact, base, stem, tail;	/* tail: the number that ends the stem */
	int *next_base, *next_stem, *next_tail;
	int64_t *id;			/* open addressing */
	int *id_pic;
	size_t id_cap;
	int has_ids;
};

static size_t
id_place(const struct eval_names *m, int64_t id)
{
	size_t i = (size_t)((uint64_t)id * 0x9e3779b97f4a7c15u >> 20) & (m->id_cap - 1);

	while (m->id_pic[i] >= 0 && m->id[i] != id)
		i = (i + 1) & (m->id_cap - 1);
	return i;
}

struct part { const char *base, *stem_end, *digits; size_t n; };	/* of a name of n bytes */

static struct part
parts(const char *s, size_t n)
{
	struct part p = { s, s + n, NULL, n };

	for (size_t i = 0; i < n; i++)
		if (s[i] == '/' || s[i] == '\\')
			p.base = s + i + 1;
	for (const char *q = p.base + 1; q < s + n; q++)
		if (*q == '.')
			p.stem_end = q;
	for (p.digits = p.stem_end; p.digits > p.base && (unsigned)(p.digits[-1] - '0') < 10;)
		p.digits--;
	while (p.digits + 1 < p.stem_end && *p.digits == '0')
		p.digits++;
	return p;
}

struct eval_names *
eval_names_open(const struct eval_pic *pic, int n)
{
	struct eval_names *m = (struct eval_names *)xcalloc(1, sizeof *m);

	m->pic = pic;
	m->next_base = (int *)xmalloc(3 * (size_t)n * sizeof(int));
	m->next_stem = m->next_base + n;
	m->next_tail = m->next_stem + n;
	for (m->id_cap = 64; m->id_cap < 2 * (size_t)n;)
		m->id_cap *= 2;
	m->id = (int64_t *)xcalloc(m->id_cap, sizeof *m->id);
	m->id_pic = (int *)xmalloc(m->id_cap * sizeof *m->id_pic);
	memset(m->id_pic, -1, m->id_cap * sizeof *m->id_pic);
	for (int i = 0; i < n; i++) {
		const char *s = pic[i].name ? pic[i].name : "";
		struct part p = parts(s, strlen(s));
		size_t at;

		if (pic[i].id != EVAL_NOID) {
			at = id_place(m, pic[i].id);
			m->id[at] = pic[i].id;
			m->id_pic[at] = i;
			m->has_ids = 1;
		}
		m->next_base[i] = m->next_stem[i] = m->next_tail[i] = -1;
		if (!*s)
			continue;
		eval_hash_put(&m->exact, s, p.n, i);
		m->next_base[i] = eval_hash_put(&m->base, p.base, p.n - (size_t)(p.base - s), i);
		m->next_stem[i] = eval_hash_put(&m->stem, p.base, (size_t)(p.stem_end - p.base), i);
		m->next_tail[i] =
		    eval_hash_put(&m->tail, p.digits, (size_t)(p.stem_end - p.digits), i);
	}
	for (int i = 0; i < n; i++)		/* a name counts before an id that is a word */
		if (pic[i].word && eval_hash_get(&m->exact, pic[i].word, strlen(pic[i].word)) < 0)
			eval_hash_put(&m->exact, pic[i].word, strlen(pic[i].word), i);
	return m;
}

void
eval_names_close(struct eval_names *m)
{
	if (!m)
		return;
	eval_hash_free(&m->exact);
	eval_hash_free(&m->base);
	eval_hash_free(&m->stem);
	eval_hash_free(&m->tail);
	free(m->next_base);
	free(m->id);
	free(m->id_pic);
	free(m);
}

/* Path components that two names share, from the end. */
static int
shared(const char *a, size_t na, const char *b, size_t nb)
{
	int n = 0;

	for (;;) {
		if (!na || !nb)
			return n + (na == nb || (na ? a[na - 1] : b[nb - 1]) == '/');
		if (a[na - 1] != b[nb - 1])
			return n;
		n += a[na - 1] == '/';
		na--;
		nb--;
	}
}

int
eval_names_id(const struct eval_names *m, int64_t id)
{
	char s[32];
	int i;

	if (m->has_ids)
		return m->id_pic[id_place(m, id)];
	snprintf(s, sizeof s, "%lld", (long long)id);
	i = eval_hash_get(&m->tail, s, strlen(s));
	return i < 0 ? -1 : m->next_tail[i] >= 0 ? -2 : i;
}

static int
by_path(const struct eval_names *m, const char *s, size_t n, const struct part *p)
{
	int i = eval_hash_get(&m->base, p->base, n - (size_t)(p->base - s)), best = -1, most = 0,
	    many = 0;

	for (; i >= 0; i = m->next_base[i]) {
		int k = shared(s, n, m->pic[i].name, strlen(m->pic[i].name));

		if (k > most) {
			most = k;
			best = i;
			many = 0;
		} else if (k == most)
			many = 1;
	}
	return many ? -2 : best;
}

int
eval_names_find(const struct eval_names *m, const char *s, size_t n)
{
	struct part p = parts(s, n);
	int i = eval_hash_get(&m->exact, s, n), number;
	int64_t v = 0;
	size_t k = 0;

	if (i >= 0)
		return i;
	while (k < n && n < 19 && (unsigned)(s[k] - '0') < 10)
		v = v * 10 + (s[k++] - '0');
	number = k && k == n;		/* a number in quotes */
	if (number && m->has_ids && (i = eval_names_id(m, v)) >= 0)
		return i;
	i = by_path(m, s, n, &p);
	if (i != -1)
		return i;
	i = eval_hash_get(&m->stem, p.base, (size_t)(p.stem_end - p.base));
	if (i < 0)
		return number && !m->has_ids ? eval_names_id(m, v) : -1;
	return m->next_stem[i] >= 0 ? -2 : i;
}
