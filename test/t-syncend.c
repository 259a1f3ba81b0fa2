/* t-syncend.c -- ranks that disagree, die, stall or are told to end: one line, no one left
 * behind. */
#include "test/ranks.h"
#include "test/tap.h"

static volatile sig_atomic_t stopped;

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
	static const struct { const char *what; body *b; int n; double deadline; int status;
	    double secs;
		const char *says; } t[] = {
		{ "unequal lengths", unequal, 3, 5, 1, 5,
		    "sum of 100 numbers on rank 0, sum of 99 on rank 1" },
		{ "different operations", other_op, 2, 5, 1, 5, "ranks disagree" },
		{ "a rank killed", killed, 3, 0, 1, 5, "t-sync: rank 1 died: signal 9" },
		{ "a rank killed, the others deaf", killed_far, 4, 0, 1, 5,
		    "t-sync: rank 1 died: signal 9" },
		{ "a rank that leaves", quits, 2, 0, 1, 5,
		    "rank 1 has ended: rank 0 waits for it in sum 2" },
		{ "a rank with a status", gives_up, 3, 0, 3, 5,
		    "t-sync: rank 1 ended with status 3" },
		{ "a rank that says why", says_why, 3, 0, 1, 5,
		    "t-sync: rank 1: the disk is full" },
		{ "a rank that sleeps", sleeps, 4, 1, 1, 6, "rank 3 stalled for 1 s: rank " },
	};

	for (int i = 0; i < (int)(sizeof t / sizeof *t); i++) {
		struct outcome o = run(start_ranks, t[i].b, t[i].n, t[i].deadline, 0, 0);

		seen(o.status == t[i].status && o.secs < t[i].secs && o.lines == 1 &&
		    strstr(o.text, t[i].says), &o, t[i].what, t[i].n);
	}
}

static void
test_signals(void)
{
	struct outcome o = run(start_ranks, works, 3, 1, 0, 0);

	seen(o.status == 0 && !o.lines, &o, "long work that shows life", 3);
	o = run(start_ranks, trains, 4, 0, SIGTERM, 500);
	seen(o.status == 143 && !o.lines && o.secs < 5, &o, "SIGTERM to the parent: step, then 143",
	    4);
	o = run(start_ranks, trains, 2, 0, SIGINT, 500);
	seen(o.status == 130 && !o.lines && o.secs < 5, &o, "SIGINT to the parent: step, then 130",
	    2);
	o = run(start_ranks, plain, 3, 0, SIGTERM, 500);
	seen(o.status == 143 && !o.lines && o.secs < 5, &o, "SIGTERM without a handler", 3);
	o = run(start_ranks, trains, 3, 0, SIGKILL, 500);
	seen(o.status == 256 + SIGKILL && o.secs < 5, &o, "the parent killed: no orphan", 3);
}

/* ---- joined worlds ------------------------------------------------------------------------ */

static void
test_launched(void)
{
	struct outcome o = run(launch_ranks, killed, 3, 10, 0, 0);
	struct world w = { 0 };
	struct err e = { "" };
	int r;

	seen(o.status == 1 && o.secs < 5 && o.lines == 1 &&
	    strstr(o.text, "rank 1 has ended: rank "),
	    &o, "started one by one: a rank killed", 3);
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "16", 1);
	setenv("LOCAL_WORLD_SIZE", "8", 1);
	r = world_find(&w, &e);
	seen(r < 0 && strstr(e.msg, "torchrun started 16 ranks on several hosts"), &o,
	    "several hosts", 16);
	setenv("RANK", "16", 1);
	seen(world_find(&w, &e) < 0 && strstr(e.msg, "RANK=16 is no rank"), &o,
	    "a rank out of range", 16);
	setenv("WORLD_SIZE", "1", 1);
	seen(world_find(&w, &e) == 0 && w.size == 1, &o, "a world of one", 1);
	setenv("LOCAL_WORLD_SIZE", "2", 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("RANK", "1", 1);
	w.deadline = .3;
	seen(world_find(&w, &e) < 0 && strstr(e.msg, "rank 0 did not come"), &o, "nobody comes", 2);
}

int
main(void)
{
	prog = "t-sync";
	test_ends();
	test_signals();
	test_launched();
	return done();
}
