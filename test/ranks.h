/* ranks.h -- run a test's body on several ranks, and see how it ends.
 *
 * Each case runs in a process of its own that forks the ranks; all of them hold the end of one
 * pipe, so the end of file proves that not one is left. */
#ifndef RANKS_H
#define RANKS_H

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "yolo.h"
#include "base/fn.h"
#include "test/tap.h"

typedef int body(struct sync *);

struct outcome {
	int status;			/* exit status, 256 + signal */
	double secs;
	char text[4096];
	int lines;
};

static inline void
seen(int good, const struct outcome *o, const char *what, int n)
{
	if (!okf(good, "%s, %d ranks", what, n))
		printf("# status %d, %.1f s, said: %s\n", o->status, o->secs, o->text);
}

static inline void
copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
	(void)d;
	memcpy(dst, src, bytes);
}
static const struct dev_ops ops = { .put = copy, .get = copy };
static struct dev dev = { .ops = &ops, .name = "host" };

static inline void
nap(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	while (nanosleep(&t, &t))
		;
}

static inline int
run_world(struct world *w, body *b)
{
	struct err e = { "" };
	struct sync *s = sync_open(w, &dev, &e);
	int r;

	if (!s)
		die(1, "%s", e.msg);
	r = b(s);
	sync_close(s);
	return r;
}

static inline void
start_ranks(body *b, int n, double deadline)
{
	struct world w = { .deadline = deadline };
	int status;

	if (sync_fork(&w, n, &status) < 0)
		_exit(status);
	_exit(run_world(&w, b));
}

/* As a launcher would: n processes that know each other by their environment only. */
static inline void
launch_ranks(body *b, int n, double deadline)
{
	for (int i = 0; i < n; i++)
		if (!fork()) {
			struct world w = { .deadline = deadline };
			struct err e;
			char num[16];

			snprintf(num, sizeof num, "%d", i);
			setenv("OMPI_COMM_WORLD_RANK", num, 1);
			snprintf(num, sizeof num, "%d", n);
			setenv("OMPI_COMM_WORLD_SIZE", num, 1);
			setenv("OMPI_COMM_WORLD_LOCAL_SIZE", num, 1);
			if (world_find(&w, &e) != 1)
				die(1, "%s", e.msg);
			_exit(w.rank == i && w.size == n ? run_world(&w, b) : 9);
		}
	for (int st, bad = 0; ; bad |= !WIFEXITED(st) || WEXITSTATUS(st))
		if (wait(&st) < 0)
			_exit(bad);
}

typedef void starter(body *, int, double);

/* sig, after ms milliseconds, to the parent of the ranks. */
static inline struct outcome
run(starter *start, body *b, int n, double deadline, int sig, int ms)
{
	struct outcome o = { 0 };
	size_t len = 0;
	ssize_t got;
	int p[2], st;
	pid_t pid;

	if (pipe(p))
		die(1, "pipe");
	o.secs = now();
	fflush(stdout);
	if (!(pid = fork())) {
		dup2(p[1], 2);
		dup2(p[1], 1);
		close(p[0]);
		close(p[1]);
		start(b, n, deadline);
	}
	close(p[1]);
	if (sig) {
		nap(ms);
		kill(pid, sig);
	}
	while (len < sizeof o.text - 1 &&
	    (got = read(p[0], o.text + len, sizeof o.text - 1 - len)) > 0)
		len += (size_t)got;
	close(p[0]);
	waitpid(pid, &st, 0);
	o.secs = now() - o.secs;
	o.status = WIFEXITED(st) ? WEXITSTATUS(st) : 256 + WTERMSIG(st);
	for (char *c = o.text; *c; c++)
		if (*c == '\n') {
			o.lines++;
			*c = '|';
		}
	return o;
}

static inline void
must(struct sync *s, int r)
{
	if (r)
		sync_fail(s, "test");
}

#endif
