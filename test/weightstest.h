/* weightstest.h -- what the tests of weights share: are they the same, in memory and in files?
 * Bytes are compared, so a NaN is itself and -0 is not 0. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static int
same(const struct params *p, const struct weights *a, const struct weights *b)
{
	return !memcmp(a->train, b->train, p->ntrain * sizeof(float)) &&
	    !memcmp(a->stat, b->stat, p->nstat * sizeof(float));
}

static int
same_files(const char *a, const char *b, size_t from)
{
	size_t n, m;
	struct err e;
	char *x = file_read(a, 1 << 26, &n, &e), *y = file_read(b, 1 << 26, &m, &e);
	int r = x && y && n == m && n > from && !memcmp(x + from, y + from, n - from);

	free(x);
	free(y);
	return r;
}
