/* settings.c -- fuzz target: any bytes as a file of settings, as -O @file reads it; the settings of
 * yolo-train.  What is accepted is of its range. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "yolo.h"

static void
in_range(const struct settings *s)
{
	for (int i = 0; s->tab[i].key; i++) {
		const struct setting *t = &s->tab[i];
		const char *v = s->val[i], *dots = strstr(t->range, "..");

		if (!v)
			continue;
		assert(dots || !strcmp(t->range, "text") || (*v && !strchr(v, '|') &&
		    strstr(t->range, v)));
		if (dots)
			assert(isfinite(settings_num(s, t->key)) && settings_num(s, t->key) >= 0);
		if (!strncmp(t->range, "int ", 4))
			assert((double)settings_int(s, t->key) == settings_num(s, t->key));
	}
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);
int
LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	int fd = memfd_create("fuzz", 0);
	struct err e = { "" };
	struct settings s;
	char arg[64];

	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		abort();
	snprintf(arg, sizeof arg, "@/proc/self/fd/%d", fd);
	settings_open(&s, train_settings);
	if (settings_set(&s, arg, &e))
		assert(e.msg[0] && !strchr(e.msg, '\n'));
	in_range(&s);
	settings_close(&s);
	close(fd);
	return 0;
}
