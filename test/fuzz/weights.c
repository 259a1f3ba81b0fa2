/* weights.c -- fuzz target: any bytes as a weights file for a small net, .weights or safetensors.
 * What is accepted holds finite numbers. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "yolo.h"

static const char net_text[] =
    "[net]\nwidth=8\nheight=8\nchannels=1\n"
    "[convolutional]\nbatch_normalize=1\nfilters=2\nsize=3\nactivation=leaky\n"
    "[convolutional]\nfilters=6\nactivation=linear\n";

static char *
memory_file(const unsigned char *data, size_t n)
{
	int fd = memfd_create("fuzz", 0);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		abort();
	return xasprintf("/proc/self/fd/%d", fd);
}

static void
drop(char *path)
{
	close(atoi(strrchr(path, '/') + 1));
	free(path);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);
int
LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	struct err e = { "" };
	struct cfg *c = cfg_parse("net.cfg", net_text, sizeof net_text - 1, &e);
	char *path = memory_file(data, n);
	struct weights w = { 0 };
	struct params p;
	int cutoff = n ? data[n - 1] % 4 - 1 : -1;

	assert(c);
	params_plan(c, &p);
	weights_init(c, &p, 0, &w);
	if (weights_load(path, c, &p, &w, cutoff, &e))
		assert(e.msg[0] && !strchr(e.msg, '\n'));
	else
		for (size_t i = 0; i < p.ntrain; i++)
			assert(w.train[i] - w.train[i] == 0);
	weights_free(&w);
	params_free(&p);
	cfg_close(c);
	drop(path);
	return 0;
}
