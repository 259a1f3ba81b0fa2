/* keys.c -- byte strings numbered as they come: 0 for the first, and what is met again has its
 * number.
 *
 * The strings lie one behind the other in one block; a table of numbers, open addressing, half
 * full at most, finds them.  Whoever wants more than a number has an array beside it. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct key { size_t at, n; uint64_t hash; };	/* n bytes of text, and a NUL */

uint64_t
keys_hash(const void *bytes, size_t n)
{
	const char *s = (const char *)bytes;
	uint64_t h = n, v = 0;
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		memcpy(&v, s + i, 8);
		h = (h ^ h >> 29 ^ v) * 0x9e3779b97f4a7c15u;
	}
	for (v = 0; i < n; i++)
		v = v << 8 | (unsigned char)s[i];
	h = (h ^ h >> 29 ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 32;
}

/* Where the number of these bytes stands in the table, or would. */
static size_t
slot_of(const struct keys *k, const char *s, size_t n, uint64_t h)
{
	size_t i = h & (k->nslot - 1);

	for (; k->slot[i]; i = (i + 1) & (k->nslot - 1)) {
		const struct key *old = &k->key[k->slot[i] - 1];

		if (old->hash == h && old->n == n && !memcmp(k->text + old->at, s, n))
			break;
	}
	return i;
}

int
keys_find(const struct keys *k, const void *bytes, size_t n)
{
	const char *s = (const char *)bytes;

	return k->n ? k->slot[slot_of(k, s, n, keys_hash(s, n))] - 1 : -1;
}

static void
more_slots(struct keys *k)
{
	k->nslot = k->nslot ? 2 * k->nslot : 64;
	free(k->slot);
	k->slot = (int *)xcalloc(k->nslot, sizeof *k->slot);
	for (int i = 0; i < k->n; i++) {
		size_t at = k->key[i].hash & (k->nslot - 1);

		while (k->slot[at])
			at = (at + 1) & (k->nslot - 1);
		k->slot[at] = i + 1;
	}
}

int
keys_add(struct keys *k, const void *bytes, size_t n)
{
	const char *s = (const char *)bytes;
	uint64_t h = keys_hash(s, n);
	size_t at;

	if (2 * (size_t)k->n >= k->nslot)
		more_slots(k);
	at = slot_of(k, s, n, h);
	if (k->slot[at])
		return k->slot[at] - 1;
	k->text = (char *)xgrow(k->text, &k->text_cap, k->ntext + n + 1, 1);
	k->key = (struct key *)xgrow(k->key, &k->cap, (size_t)k->n + 1, sizeof *k->key);
	if (n)
		memcpy(k->text + k->ntext, s, n);
	k->text[k->ntext + n] = 0;
	k->key[k->n] = (struct key){ k->ntext, n, h };
	k->ntext += n + 1;
	return (k->slot[at] = ++k->n) - 1;
}

const char *
keys_text(const struct keys *k, int i)
{
	return k->text + k->key[i].at;
}

void
keys_free(struct keys *k)
{
	free(k->text);
	free(k->key);
	free(k->slot);
	memset(k, 0, sizeof *k);
}
