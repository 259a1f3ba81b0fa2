/* t-sync.c -- ranks on one host: right sums, and no rank left behind however it ends.
 *
 * Each case runs in a process of its own that forks the ranks; all of them hold the end of one
 * pipe, so the end of file proves that not one is left. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fn.h"

typedef int body(struct sync *);

struct outcome {
	int status;			/* exit status, 256 + signal */
	double secs;
	char text[4096];
	int lines;
};

static int count, failed;
static volatile sig_atomic_t stopped;

static void
ok(int good, const struct outcome *o, const char *what, int n)
{
	printf("%sok %d - %s, %d ranks\n", good ? "" : "not ", ++count, what, n);
	if (!good)
		printf("# status %d, %.1f s, said: %s\n", o->status, o->secs, o->text);
	failed += !good;
	fflush(stdout);
}

static void
copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
	(void)d;
	memcpy(dst, src, bytes);
}
static const struct dev_ops ops = { .put = copy, .get = copy };
static struct dev dev = { .ops = &ops, .name = "host" };

static void
nap(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	while (nanosleep(&t, &t))
		;
}

static int
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

static void
start_ranks(body *b, int n, double deadline)
{
	struct world w = { .deadline = deadline };
	int status;

	if (sync_fork(&w, n, &status) < 0)
		_exit(status);
	_exit(run_world(&w, b));
}

/* As a launcher would: n processes that know each other by their environment only. */
static void
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
static struct outcome
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
	while (len < sizeof o.text - 1 && (got = read(p[0], o.text + len, sizeof o.text - 1 - len)) > 0)
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

/* ---- sums --------------------------------------------------------------------------------- */

static const size_t lengths[] = { 0, 1, 3, 1000, 4096, 4097, 524288, 524289, 10000000 };
enum { NLEN = sizeof lengths / sizeof *lengths };

static uint32_t
word(int rank, size_t i)
{
	uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + 12345u;

	x ^= x >> 15;
	x *= 2246822519u;
	return x ^ x >> 13;
}

static float
small_int(int rank, size_t i)
{
	return (float)(word(rank, i) % 15) - 7;
}

/* Of many sizes and both signs: the order of summation shows. */
static float
wild(int rank, size_t i)
{
	uint32_t w = word(rank, i);

	return ldexpf((float)(w >> 8) - 8388608, (int)(w % 20) - 30);
}

static int
right(const float *x, size_t n, int ranks, float (*f)(int, size_t), int *order)
{
	for (size_t i = 0; i < n; i++) {
		float up = f(0, i), down = f(ranks - 1, i);

		for (int r = 1; r < ranks; r++) {
			up += f(r, i);
			down += f(ranks - 1 - r, i);
		}
		*order |= up != down;
		if (memcmp(&x[i], &up, sizeof up))
			return 0;
	}
	return 1;
}

static int
sums(struct sync *s, float (*f)(int, size_t), int nlen, int *order)
{
	float *x = (float *)xmalloc(sizeof *x * lengths[nlen - 1]);
	int bad = 0;

	for (int k = 0; k < nlen && !bad; k++) {
		size_t n = lengths[k];

		for (size_t i = 0; i < n; i++)
			x[i] = f(s->rank, i);
		if (k % 2 ? s->ops->sum(s, x, n) : s->ops->start(s, x, n) || s->ops->wait(s))
			sync_fail(s, "sum");
		bad |= !right(x, n, s->size, f, order);
	}
	free(x);
	return bad ? 3 : 0;
}

static int
integers(struct sync *s)
{
	int order = 0;

	return sums(s, small_int, NLEN, &order);
}

static int
floats(struct sync *s)
{
	int order = 0, r = sums(s, wild, NLEN - 1, &order);

	if (!r && s->size > 2 && !order)
		return 4;		/* the data cannot tell the order */
	return r;
}

static int
hosts(struct sync *s)
{
	static const size_t n[] = { 0, 1, 2048, 2049, 600000 };
	double *x = (double *)xmalloc(sizeof *x * 600000), v;
	int bad = 0;

	for (int k = 0; k < 5; k++) {
		for (size_t i = 0; i < n[k]; i++)
			x[i] = 1. / (1 + word(s->rank, i));
		bad |= s->ops->sum_host(s, x, n[k]);
		for (size_t i = 0; i < n[k]; i++) {
			v = 1. / (1 + word(0, i));
			for (int r = 1; r < s->size; r++)
				v += 1. / (1 + word(r, i));
			bad |= x[i] != v;
		}
	}
	free(x);
	return bad ? 3 : 0;
}

static int
bcasts(struct sync *s)
{
	static const size_t n[] = { 0, 1, 524288, 1600007 };
	float *x = (float *)xmalloc(sizeof *x * 1600007);
	int bad = 0;

	for (int k = 0; k < 4; k++) {
		for (size_t i = 0; i < n[k]; i++)
			x[i] = small_int(s->rank, i);
		bad |= s->ops->bcast(s, x, n[k]);
		for (size_t i = 0; i < n[k]; i++)
			bad |= x[i] != small_int(0, i);
	}
	free(x);
	return bad ? 3 : 0;
}

/* All operations in a random order and pace: what one leaves behind must not reach the next. */
static int
mixed(struct sync *s)
{
	enum { MAX = 1200000 };
	float *x = (float *)xmalloc(sizeof *x * MAX);
	double d[100];
	int bad = 0;

	for (int k = 0; k < 150 && !bad; k++) {
		uint32_t w = word(99, (size_t)k), len = word(98, (size_t)k);
		size_t n = w % 8 == 7 ? len % MAX : len % 6000;

		if (word(s->rank, (size_t)k) % 16 == 0)
			nap(3);
		for (size_t i = 0; i < n; i++)
			x[i] = wild(s->rank, i + (size_t)k);
		for (int i = 0; i < 100; i++)
			d[i] = s->rank + i;
		if (w % 4 == 1) {
			bad |= s->ops->bcast(s, x, n);
			for (size_t i = 0; i < n; i++)
				bad |= x[i] != wild(0, i + (size_t)k);
		} else if (w % 4 == 2) {
			bad |= s->ops->sum_host(s, d, 100);
			for (int i = 0; i < 100; i++)
				bad |= d[i] != s->size * i + s->size * (s->size - 1) / 2;
		} else if (w % 4 == 3 && w % 8 == 3)
			bad |= s->ops->barrier(s);
		else {
			bad |= s->ops->sum(s, x, n);
			for (size_t i = 0; i < n && !bad; i++) {
				float v = wild(0, i + (size_t)k);

				for (int r = 1; r < s->size; r++)
					v += wild(r, i + (size_t)k);
				bad |= x[i] != v;
			}
		}
	}
	free(x);
	return bad ? 3 : 0;
}

static void
test_sums(int n)
{
	static const struct { const char *what; body *b; } t[] = { { "integers", integers },
		{ "floats in the ranks' order", floats }, { "doubles on the host", hosts },
		{ "broadcast", bcasts }, { "all kinds mixed", mixed } };

	for (int i = 0; i < 5; i++) {
		struct outcome o = run(start_ranks, t[i].b, n, 0, 0, 0);

		ok(o.status == 0 && !o.text[0], &o, t[i].what, n);
	}
}

/* ---- disagreement, death, stalls ---------------------------------------------------------- */

static void
must(struct sync *s, int r)
{
	if (r)
		sync_fail(s, "test");
}

static int
unequal(struct sync *s)
{
	static float x[100];

	must(s, s->ops->sum(s, x, 100));
	must(s, s->ops->sum(s, x, s->rank == 1 ? 99 : 100));
	return 0;
}

static int
other_op(struct sync *s)
{
	static float x[100];

	must(s, s->rank ? s->ops->sum(s, x, 100) : s->ops->bcast(s, x, 100));
	return 0;
}

static void
until_death(struct sync *s)
{
	static float x[5000];

	for (;;)
		must(s, s->ops->sum(s, x, 5000));
}

static int
killed(struct sync *s)
{
	if (s->rank == 1) {
		must(s, s->ops->barrier(s));
		nap(200);
		raise(SIGKILL);
	}
	must(s, s->ops->barrier(s));
	until_death(s);
	return 0;
}

/* The others are in no operation, and deaf. */
static int
killed_far(struct sync *s)
{
	signal(SIGTERM, SIG_IGN);
	must(s, s->ops->barrier(s));
	if (s->rank == 1)
		raise(SIGKILL);
	nap(60000);
	return 0;
}

static int
quits(struct sync *s)
{
	if (s->rank == 1)
		return 0;
	until_death(s);
	return 0;
}

static int
gives_up(struct sync *s)
{
	if (s->rank == 1)
		exit(3);
	until_death(s);
	return 0;
}

static int
says_why(struct sync *s)
{
	if (s->rank == 1)
		sync_fail(s, "the disk is full");
	until_death(s);
	return 0;
}

static int
sleeps(struct sync *s)
{
	must(s, s->ops->barrier(s));
	if (s->rank == s->size - 1)
		nap(30000);
	must(s, s->ops->barrier(s));
	return 0;
}

static int
works(struct sync *s)
{
	for (int i = 0; s->rank == 1 && i < 25; i++) {
		nap(100);
		sync_alive(s);
	}
	must(s, s->ops->barrier(s));
	return 0;
}

static void
on_signal(int sig)
{
	stopped = sig;
}

/* A trainer: all ranks end after the same step, with the status the contract names. */
static int
trains(struct sync *s)
{
	double stop = 0;

	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	do {
		nap(20);
		stop = stopped;
		must(s, s->ops->sum_host(s, &stop, 1));
	} while (!stop);
	return stopped ? 128 + stopped : 99;
}

static int
plain(struct sync *s)
{
	nap(30000);
	return s->rank;
}

static void
test_ends(void)
{
	static const struct { const char *what; body *b; int n; double deadline; int status; double secs;
		const char *says; } t[] = {
		{ "unequal lengths", unequal, 3, 5, 1, 5, "sum of 100 numbers on rank 0, sum of 99 on rank 1" },
		{ "different operations", other_op, 2, 5, 1, 5, "ranks disagree" },
		{ "a rank killed", killed, 3, 0, 1, 5, "t-sync: rank 1 died: signal 9" },
		{ "a rank killed, the others deaf", killed_far, 4, 0, 1, 5, "t-sync: rank 1 died: signal 9" },
		{ "a rank that leaves", quits, 2, 0, 1, 5, "rank 1 has ended: rank 0 waits for it in sum 2" },
		{ "a rank with a status", gives_up, 3, 0, 3, 5, "t-sync: rank 1 ended with status 3" },
		{ "a rank that says why", says_why, 3, 0, 1, 5, "t-sync: rank 1: the disk is full" },
		{ "a rank that sleeps", sleeps, 4, 1, 1, 6, "rank 3 stalled for 1 s: rank " },
	};

	for (int i = 0; i < (int)(sizeof t / sizeof *t); i++) {
		struct outcome o = run(start_ranks, t[i].b, t[i].n, t[i].deadline, 0, 0);

		ok(o.status == t[i].status && o.secs < t[i].secs && o.lines == 1 &&
		    strstr(o.text, t[i].says), &o, t[i].what, t[i].n);
	}
}

static void
test_signals(void)
{
	struct outcome o = run(start_ranks, works, 3, 1, 0, 0);

	ok(o.status == 0 && !o.lines, &o, "long work that shows life", 3);
	o = run(start_ranks, trains, 4, 0, SIGTERM, 500);
	ok(o.status == 143 && !o.lines && o.secs < 5, &o, "SIGTERM to the parent: step, then 143", 4);
	o = run(start_ranks, trains, 2, 0, SIGINT, 500);
	ok(o.status == 130 && !o.lines && o.secs < 5, &o, "SIGINT to the parent: step, then 130", 2);
	o = run(start_ranks, plain, 3, 0, SIGTERM, 500);
	ok(o.status == 143 && !o.lines && o.secs < 5, &o, "SIGTERM without a handler", 3);
	o = run(start_ranks, trains, 3, 0, SIGKILL, 500);
	ok(o.status == 256 + SIGKILL && o.secs < 5, &o, "the parent killed: no orphan", 3);
}

/* ---- joined worlds ------------------------------------------------------------------------ */

static void
test_launched(void)
{
	struct outcome o = run(launch_ranks, mixed, 3, 10, 0, 0);
	struct world w = { 0 };
	struct err e = { "" };
	int r;

	ok(o.status == 0 && !o.lines, &o, "started one by one: all kinds mixed", 3);
	o = run(launch_ranks, killed, 3, 10, 0, 0);
	ok(o.status == 1 && o.secs < 5 && o.lines == 1 && strstr(o.text, "rank 1 has ended: rank "), &o,
	    "started one by one: a rank killed", 3);
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "16", 1);
	setenv("LOCAL_WORLD_SIZE", "8", 1);
	r = world_find(&w, &e);
	ok(r < 0 && strstr(e.msg, "torchrun started 16 ranks on several hosts"), &o, "several hosts", 16);
	setenv("RANK", "16", 1);
	ok(world_find(&w, &e) < 0 && strstr(e.msg, "RANK=16 is no rank"), &o, "a rank out of range", 16);
	setenv("WORLD_SIZE", "1", 1);
	ok(world_find(&w, &e) == 0 && w.size == 1, &o, "a world of one", 1);
	setenv("LOCAL_WORLD_SIZE", "2", 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("RANK", "1", 1);
	w.deadline = .3;
	ok(world_find(&w, &e) < 0 && strstr(e.msg, "rank 0 did not come"), &o, "nobody comes", 2);
}

static void
test_one(void)
{
	struct outcome o = { 0 };
	struct world w = { 0 };
	struct err e = { "" };
	struct sync *s = NULL;
	double d = 2;
	float f = 3;
	int status = 7;

	ok(sync_fork(&w, 1, &status) == 0 && (s = sync_open(&w, &dev, &e)) && s->size == 1 &&
	    !s->ops->sum(s, &f, 1) && !s->ops->sum_host(s, &d, 1) && !s->ops->barrier(s) && f == 3 &&
	    d == 2 && status == 7, &o, "alone", 1);
	sync_close(s);
	w.size = 2;
	w.transport = "nccl";
	ok(!sync_open(&w, &dev, &e) && strstr(e.msg, "device host has none"), &o, "no nccl here", 2);
	w.transport = "pigeon";
	ok(!sync_open(&w, &dev, &e) && strstr(e.msg, "want shm or nccl"), &o, "unknown transport", 2);
}

int
main(void)
{
	prog = "t-sync";
	test_one();
	for (int n = 2; n <= 4; n++)
		test_sums(n);
	test_ends();
	test_signals();
	test_launched();
	printf("1..%d\n", count);
	return failed ? 1 : 0;
}
