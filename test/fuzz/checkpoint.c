/* checkpoint.c -- fuzz target: any bytes as the checkpoint that a run goes on from, and as the
 * weights that one begins with, whose heads may be of other classes. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "yolo.h"

static const char head_text[] =
    "[net]\nwidth=8\nheight=8\nchannels=3\n"
    "[convolutional]\nbatch_normalize=1\nfilters=2\nsize=3\npad=1\nactivation=leaky\n"
    "[convolutional]\nfilters=14\nactivation=linear\n"
    "[yolo]\nclasses=2\nnum=2\nmask=0,1\nanchors=2,3,4,5\n";

/* What is accepted can be computed with. */
static void
goes_on(const struct checkpoint *c)
{
	assert(c->batch > 0 && c->threads > 0 && c->samples > 0 && c->ranks >= 0);
	assert(c->step >= 0 && c->step <= LONG_MAX / c->batch && c->best - c->best == 0);
	assert(c->cfg && c->options && c->loss && c->data);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);
int
LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	struct err e = { "" };
	struct cfg *c = cfg_parse("head.cfg", head_text, sizeof head_text - 1, &e);
	int fd = memfd_create("fuzz", 0);
	struct checkpoint from;
	struct weights w = { 0 };
	struct params p;
	char path[64];

	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	assert(c);
	params_plan(c, &p);
	weights_init(c, &p, 0, &w);
	if (checkpoint_read(path, &from, &e))
		assert(e.msg[0] && !strchr(e.msg, '\n'));
	else
		goes_on(&from);
	checkpoint_free(&from);
	e.msg[0] = 0;
	if (weights_begin(path, c, &p, &w, n ? data[n - 1] % 4 - 1 : -1, &e))
		assert(e.msg[0] && !strchr(e.msg, '\n'));
	for (size_t i = 0; i < p.ntrain; i++)
		assert(w.train[i] - w.train[i] == 0);
	weights_free(&w);
	params_free(&p);
	cfg_close(c);
	close(fd);
	return 0;
}
