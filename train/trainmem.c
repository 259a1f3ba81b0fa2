/* trainmem.c -- does this run fit into the memory there is?  Known before the first step.
 *
 * What the plan counts is a floor: pictures being decoded and the validation come on top.  So a run
 * that is refused could not have ended well, and one that is not may still be told by the system.
 * Memory of a GPU is asked for in one piece when the network opens, and needs no guess. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "train/int.h"

/* The number behind a key of a file of "key number" lines, key "": the first; -1: none. */
static double
number_in(const char *path, const char *key)
{
	FILE *f = fopen(path, "r");
	char line[256], *end;
	double v = -1, x;

	while (f && v < 0 && fgets(line, sizeof line, f))
		if (!strncmp(line, key, strlen(key))) {
			x = strtod(line + strlen(key), &end);
			v = end > line + strlen(key) && end != line ? x : -1;
			if (!*key)
				break;
		}
	if (f)
		fclose(f);
	return v;
}

static double
number_of(const char *dir, const char *name, const char *key)
{
	char *path = path_join(dir, name);
	double v = number_in(path, key);

	free(path);
	return v;
}

/* Of a control group: its limit less what it has in use, files that it can drop not counted. */
static double
group_left(const char *dir, const char *limit, const char *use)
{
	double max = number_of(dir, limit, ""), now = number_of(dir, use, "");
	double old = number_of(dir, "memory.stat", "inactive_file "),
	    young = number_of(dir, "memory.stat", "active_file ");

	if (max < 0 || now < 0)
		return HUGE_VAL;
	now -= (old > 0 ? old : 0) + (young > 0 ? young : 0);
	return max > now ? max - now : 0;
}

/* Bytes that are free for all ranks, and what bounds them. */
static double
free_bytes(const char **why)
{
	double kb = number_in("/proc/meminfo", "MemAvailable:");
	double swap = number_in("/proc/meminfo", "SwapFree:");
	double left = kb < 0 ? HUGE_VAL : 1024 * (kb + (swap > 0 ? swap : 0));
	double group = group_left("/sys/fs/cgroup", "memory.max", "memory.current");

	if (group == HUGE_VAL)
		group = group_left("/sys/fs/cgroup/memory", "memory.limit_in_bytes",
		    "memory.usage_in_bytes");
	*why = group < left ? "in this container" : "on this machine";
	return group < left ? group : left;
}

enum { THREAD_MB = 24, OTHER_MB = 96 };	/* address space of a thread: stack, pictures; the rest */

/* Bytes that this process may still map for the run, besides its threads and what is small. */
static double
address_left(const struct train_cmd *c)
{
	double threads = (double)c->jobs + c->threads;
	double pages = number_in("/proc/self/statm", "");
	struct rlimit r;

	if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY || pages < 0)
		return HUGE_VAL;
	return (double)r.rlim_cur - pages * (double)sysconf(_SC_PAGESIZE) -
	    1e6 * (threads * THREAD_MB + OTHER_MB);
}

/* Bytes of one rank at a batch.  0: such a network cannot be planned; why is told when it opens. */
static double
rank_bytes(struct train_cmd *c, struct dev *d, int batch)
{
	int was = c->recipe.batch, parts = c->recipe.train.parts > 0 ? c->recipe.train.parts : 1;
	int each = (batch + (int)c->ranks - 1) / (int)c->ranks;
	struct net_opts o = { .train = 1, .batch = (each + parts - 1) / parts };
	struct net_bytes b;
	struct params par;
	struct err e;
	double n;

	if (net_plan(c->cfg, d, &o, &b, &e))
		return 0;
	c->recipe.batch = batch;
	params_plan(c->cfg, &par);
	n = (double)b.total + (double)trainer_bytes(&par, &c->recipe.train) +
	    (double)train_ring_bytes(c);
	params_free(&par);
	c->recipe.batch = was;
	return n;
}

/* room HUGE_VAL: it is not known here. */
static void
show(struct train_cmd *c, double need, double room)
{
	double ranks = (double)c->ranks;
	char text[100];
	int n = snprintf(text, sizeof text, "%.2f GB wanted", need * ranks / 1e9);

	if (room < HUGE_VAL)
		snprintf(text + n, sizeof text - (size_t)n, ", %.2f GB free", room > 0 ?
		    room * ranks / 1e9 : 0);
	train_screen(c, text);
}

int
train_memory(struct train_cmd *c, struct dev *d, int rank, struct err *e)
{
	const char *where, *limit = "within this process's limit (ulimit -v)";
	double all = free_bytes(&where), own = address_left(c), ranks = (double)c->here;
	double room = all / ranks < own ? all / ranks : own;
	double need = rank_bytes(c, d, c->recipe.batch);
	int lo = 0, hi = c->recipe.batch;
	int gpu = !strncmp(d->name, "cuda", 4);
	char advice[120];

	if (!rank)
		show(c, need, gpu ? HUGE_VAL : room);
	if (need <= room || gpu)
		return 0;
	while (hi - lo > 1) {
		int mid = (lo + hi) / 2;

		if (rank_bytes(c, d, mid) <= room)
			lo = mid;
		else
			hi = mid;
	}
	if (c->resume)
		snprintf(advice, sizeof advice, "-R goes on where there is more");
	else if (lo)
		snprintf(advice, sizeof advice, "the largest batch that fits is -b %d, or more "
		    "subdivisions in the cfg", lo);
	else
		snprintf(advice, sizeof advice, "no batch fits; a smaller side (-s) may");
	return err_set(e,
	    "the run needs %.2f GB of memory at batch %d, and %.2f GB are free %s: %s",
	    need * ranks / 1e9, c->recipe.batch, room > 0 ? room * ranks / 1e9 : 0,
	    own < all / ranks ? limit : where, advice);
}
