/* options.c -- fuzz target: words of a command line, one a line: numbers, lists of them, sides,
 * ids, and each as -O's key=value of yolo-train's settings.
 *
 * What is accepted is in its range and is read again as itself. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "train/train.h"

int LLVMFuzzerTestOneInput(const unsigned char *, size_t);

static void
numbers(const char *s)
{
	double v, list[4];
	char again[64];
	int64_t id;
	int w, h, n;
	long k, j;

	if (!num_int(s, -1000, 1000, &k)) {
		assert(k >= -1000 && k <= 1000);
		snprintf(again, sizeof again, "%ld", k);
		assert(!num_int(again, -1000, 1000, &j) && j == k);
	}
	if (!num_real(s, -1e300, 1e300, &v))
		assert(isfinite(v) && fabs(v) <= 1e300);
	if ((n = num_list(s, 4, 0, 100, list)) >= 0)
		for (int i = 0; i < n; i++)
			assert(list[i] >= 0 && list[i] <= 100);
	assert(n <= 4);
	if (!num_side(s, &w, &h))
		assert(w > 0 && h > 0 && w <= 65536 && h <= 65536);
	if (!num_digits(s, strlen(s), &id)) {
		snprintf(again, sizeof again, "%lld", (long long)id);
		assert(id != INT64_MIN);
		assert(strspn(s + (*s == '-'), "0123456789") == strlen(s + (*s == '-')));
	}
}

static void
setting(const char *s)
{
	struct settings set;
	struct err e = { "" };

	if (*s == '@')
		return;				/* a file, which settings.c is about */
	settings_open(&set, train_settings);
	if (settings_set(&set, s, &e))
		assert(e.msg[0] && !strchr(e.msg, '\n'));
	else
		for (int i = 0; set.tab[i].key; i++)
			if (set.val[i] && strstr(set.tab[i].range, ".."))
				assert(isfinite(settings_num(&set, set.tab[i].key)));
	settings_close(&set);
}

int
LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	char *text = (char *)xmalloc(n + 1), *save, *s;

	memcpy(text, p, n);
	text[n] = 0;
	for (s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
		numbers(s);
		setting(s);
	}
	free(text);
	return 0;
}
