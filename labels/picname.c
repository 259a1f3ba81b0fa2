/* picname.c -- which picture a detection means.
 *
 * Names are looked up exactly; then by path: of the pictures with the same last component the one
 * that shares most components from the end, if it is alone; then by stem, the last component
 * without its extension; a number finds a picture by its id, or, where there are no ids, the
 * picture whose stem ends in that number.  Pictures with one key are chained. */
#include <stdlib.h>
#include <string.h>

#include "labels/labels.h"

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

/* The number of a picture in COCO results.
 *
 * Names in a truth file and names of pictures rarely agree to the letter: one has folders before
 * it, the other another extension.  Base names are sorted; among equal ones the longest common end
 * of the whole path decides, and a tie decides nothing. */

struct entry { const char *key; size_t len; const struct item *item; };	/* base name, or stem */
struct imageids {
	struct entry *base, *stem;
	size_t n;
};

static int
compare(const void *a, const void *b)
{
	const struct entry *s = (const struct entry *)a, *t = (const struct entry *)b;
	int r = memcmp(s->key, t->key, s->len < t->len ? s->len : t->len);

	return r ? r : (s->len > t->len) - (s->len < t->len);
}

static size_t
stem_len(const char *base)
{
	const char *dot = strrchr(base, '.');

	return dot && dot != base ? (size_t)(dot - base) : strlen(base);
}

struct imageids *
imageids_open(const struct dataset *ds)
{
	struct imageids *t = (struct imageids *)xcalloc(1, sizeof *t);

	t->n = (size_t)ds->n;
	t->base = (struct entry *)xcalloc(t->n, sizeof *t->base);
	t->stem = (struct entry *)xcalloc(t->n, sizeof *t->stem);
	for (size_t i = 0; i < t->n; i++) {
		const char *base = path_base(ds->item[i].name);

		t->base[i].key = t->stem[i].key = base;
		t->base[i].item = t->stem[i].item = &ds->item[i];
		t->base[i].len = strlen(base);
		t->stem[i].len = stem_len(base);
	}
	qsort(t->base, t->n, sizeof *t->base, compare);
	qsort(t->stem, t->n, sizeof *t->stem, compare);
	return t;
}

void
imageids_close(struct imageids *t)
{
	if (!t)
		return;
	free(t->base);
	free(t->stem);
	free(t);
}

/* Path components that two names have in common at their end, whole ones; the stems alone count as
 * one where the extensions differ. */
static int
common(const char *a, const char *b)
{
	const char *p = path_base(a), *q = path_base(b);
	int n = 1;

	for (; p > a && q > b; n++) {	/* both stand after a slash */
		const char *i = p - 1, *j = q - 1;

		while (i > a && j > b && i[-1] != '/' && i[-1] == j[-1]) {
			i--;
			j--;
		}
		if ((i > a && i[-1] != '/') || (j > b && j[-1] != '/') || i == p - 1)
			break;
		p = i;
		q = j;
	}
	return n;
}

/* The one entry with this key that shares most of the path. */
static int
best(const struct entry *e, size_t n, const struct entry *want, const char *name, int64_t *id)
{
	size_t lo = 0, hi = n, mid;
	int most = 0, ties = 0;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (compare(&e[mid], want) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < n && !compare(&e[lo], want); lo++) {
		int k = strcmp(e[lo].item->name, name) ? common(e[lo].item->name, name) : 1 << 20;

		ties = k > most ? 1 : ties + (k == most);
		if (k <= most)
			continue;
		most = k;
		*id = e[lo].item->id;
	}
	return ties == 1 ? 0 : -1;
}

int
imageids_find(const struct imageids *t, const char *name, int64_t *id)
{
	const char *base = path_base(name);
	struct entry whole = { base, strlen(base), NULL }, stem = { base, stem_len(base), NULL };

	if (!best(t->base, t->n, &whole, name, id))
		return 0;
	return best(t->stem, t->n, &stem, name, id);
}

int
imageids_digits(const char *name, int64_t *id)
{
	const char *base = path_base(name);
	size_t end = stem_len(base), at = end;

	while (at > 0 && base[at - 1] >= '0' && base[at - 1] <= '9')
		at--;
	if (at == end || end - at > 18)
		return -1;
	*id = strtoll(base + at, NULL, 10);
	return 0;
}
