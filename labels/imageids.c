/* imageids.c -- the number of a picture in COCO results.
 *
 * Names in a truth file and names of pictures rarely agree to the letter: one has folders before
 * it, the other another extension.  Base names are sorted; among equal ones the longest common end
 * of the whole path decides, and a tie decides nothing. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

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
