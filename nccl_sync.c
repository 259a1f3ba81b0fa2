/* nccl_sync.c -- ranks: processes are made and watched here, and the transport is chosen.
 *
 * sync_fork: the parent maps what the ranks share, forks them and then only waits for signals.
 * A rank that dies takes the others along: they are told through the mapping, so that whoever
 * waits for it stops at once, get SIGTERM, and after a grace SIGKILL.  A rank whose parent dies is
 * killed by the kernel.  The parent says why, in one line, once. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sync/int.h"
#include "kernel/kernel.h"

enum { GRACE = 2 };			/* seconds from SIGTERM to SIGKILL when a rank has failed */

struct family {
	struct meet *meet;
	pid_t *pid;			/* 0: has ended */
	int n, alive, status, stop;	/* stop: the signal that asked for the end */
	double kill_at;			/* 0: nothing has failed */
};

static void
signal_all(const struct family *f, int sig)
{
	for (int i = 0; i < f->n; i++)
		if (f->pid[i] > 0)
			kill(f->pid[i], sig);
}

/* The first failure decides the status and is told; the others follow from it. */
static void
fail(struct family *f, int status, const char *why)
{
	if (f->kill_at > 0)
		return;
	f->status = status;
	f->kill_at = now() + GRACE;
	meet_fail(f->meet, why);
	warn("%s", meet_failed(f->meet));	/* a rank may have known the reason before */
	signal_all(f, SIGTERM);
}

static void
ended(struct family *f, int rank, int st)
{
	int sig = WIFSIGNALED(st) ? WTERMSIG(st) : 0, code = WIFEXITED(st) ? WEXITSTATUS(st) : 1;
	struct err why;

	f->pid[rank] = 0;
	f->alive--;
	if (!sig && !code) {
		meet_left(f->meet, rank);
		return;
	}
	if (f->stop && (sig == f->stop || code == 128 + f->stop)) {
		if (f->kill_at <= 0)
			f->status = 128 + f->stop;
		meet_left(f->meet, rank);
		return;
	}
	if (sig)
		err_set(&why, "rank %d died: signal %d (%s)", rank, sig, strsignal(sig));
	else
		err_set(&why, "rank %d ended with status %d", rank, code);
	fail(f, code, why.msg);
	meet_left(f->meet, rank);
}

static void
reap(struct family *f)
{
	int st;

	for (int i = 0; i < f->n; i++)
		if (f->pid[i] > 0 && waitpid(f->pid[i], &st, WNOHANG) == f->pid[i])
			ended(f, i, st);
}

/* A signal from the terminal has reached the whole process group; one from kill() only us. */
static void
pass_on(struct family *f, const siginfo_t *info)
{
	if (info->si_signo != SIGUSR1)
		f->stop = info->si_signo;
	if (info->si_code <= 0)
		signal_all(f, info->si_signo);
}

static void
watch(struct family *f, const sigset_t *set)
{
	while (f->alive > 0) {
		double left = f->kill_at > 0 ? f->kill_at - now() : 1;
		struct timespec t = { (time_t)left, (long)((left - (double)(time_t)left) * 1e9) };
		siginfo_t info;

		if (left <= 0) {
			signal_all(f, SIGKILL);
			f->kill_at = now() + 1;
		} else
			while (sigtimedwait(set, &info, &t) > 0) { /* all, before any is judged */
				if (info.si_signo != SIGCHLD)
					pass_on(f, &info);
				memset(&t, 0, sizeof t);
			}
		reap(f);
		if (f->alive > 0 && meet_failed(f->meet)) /* of a rank that may hang in its end */
			fail(f, 1, meet_failed(f->meet));
	}
}

/* In the child: die with the parent, also when it has died already. */
static void
be_child(pid_t parent, const sigset_t *mask)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	sigprocmask(SIG_SETMASK, mask, NULL);
}

/* -1 in the parent, in a child its rank. */
static int
fork_all(struct family *f, const sigset_t *mask)
{
	pid_t parent = getpid();

	for (int i = 0; i < f->n; i++) {
		pid_t p = fork();

		if (p == 0) {
			be_child(parent, mask);
			return i;
		}
		if (p < 0) {
			struct err why;

			err_set(&why, "cannot start rank %d: %s", i, strerror(errno));
			fail(f, 1, why.msg);
			break;
		}
		f->pid[i] = p;
		f->alive++;
	}
	return -1;
}

int
sync_fork(struct world *w, int n, int *status)
{
	struct family f = { .n = n };
	sigset_t set, mask;
	struct err e;
	int rank;

	w->rank = w->local_rank = w->seat = 0;
	w->size = w->seats = n;
	w->meet = NULL;
	if (n <= 1)
		return 0;
	if (!(f.meet = meet_map(n, &e))) {
		warn("%s", e.msg);
		*status = 1;
		return -1;
	}
	f.pid = (pid_t *)xcalloc((size_t)n, sizeof *f.pid);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &mask);
	signal(SIGCHLD, SIG_DFL);	/* ignored, it would let no one wait */
	fflush(NULL);			/* or each child would write it again */
	rank = fork_all(&f, &mask);
	if (rank < 0) {
		watch(&f, &set);
		sigprocmask(SIG_SETMASK, &mask, NULL);
		meet_close(f.meet);
		*status = f.status;
	} else {
		w->rank = w->local_rank = w->seat = rank;
		w->meet = f.meet;
	}
	free(f.pid);
	return rank;
}

/* ---- one rank ----------------------------------------------------------------------------- */

static int
alone(struct sync *s, float *buf, size_t n)
{
	(void)s, (void)buf, (void)n;
	return 0;
}

static int
alone_host(struct sync *s, double *buf, size_t n)
{
	(void)s, (void)buf, (void)n;
	return 0;
}

static int
alone_wait(struct sync *s)
{
	(void)s;
	return 0;
}

static void
alone_close(struct sync *s)
{
	(void)s;
}

static const struct sync_ops one_rank = { "one", alone, alone, alone_wait, alone_host, alone,
	alone_wait, alone_close };

/* ---- the choice --------------------------------------------------------------------------- */

static int
choose(struct sync *s, const char *transport, struct err *e)
{
	if (s->size == 1) {
		s->ops = &one_rank;
		return 0;
	}
	if (transport && strcmp(transport, "shm") && strcmp(transport, "nccl"))
		return err_set(e, "transport '%s': want shm or nccl", transport);
	if (!s->dev->nccl && transport && !strcmp(transport, "nccl"))
		return err_set(e, "transport nccl: device %s has none", s->dev->name);
	if (s->dev->nccl && !(transport && !strcmp(transport, "shm")))
		return s->dev->nccl(s, e);
	if (!transport && !s->rank && !strncmp(s->dev->name, "cuda", 4))
		warn("built without NCCL (package libnccl-dev): GPUs sum through the host");
	return shm_open_sync(s, e);
}

struct sync *
sync_open(const struct world *w, struct dev *d, struct err *e)
{
	struct sync *s = (struct sync *)xcalloc(1, sizeof *s);

	s->rank = w->rank;
	s->size = w->size > 1 ? w->size : 1;
	s->local_rank = w->local_rank;
	s->seat = w->seats ? w->seat : s->rank;
	s->seats = w->seats ? w->seats : s->size;
	s->deadline = w->deadline > 0 ? w->deadline : 60;
	s->dev = d;
	s->meet = w->meet;
	if (choose(s, w->transport, e)) {
		free(s);
		return NULL;
	}
	if (s->size > 1 && shm_begin(s, s->ops->name, (size_t)s->size)) {
		err_set(e, "%s", s->err.msg);
		s->ops->close(s);
		free(s);
		return NULL;
	}
	return s;
}

void
sync_close(struct sync *s)
{
	if (!s)
		return;
	s->ops->close(s);
	meet_close(s->meet);
	free(s);
}

void
sync_alive(struct sync *s)
{
	if (s && s->meet)
		meet_alive(s->meet, s->seat);
}

void
sync_note(struct sync *s, const char *text)
{
	if (s->meet)
		meet_note(s->meet, text);
}

/* With a parent, the parent tells; else whoever knew first. */
void
world_fail(const struct world *w, const char *why)
{
	struct err line;

	if (!w->meet)
		die(1, "%s", why);
	err_set(&line, "rank %d: %s", w->rank, why);
	if (meet_fail(w->meet, line.msg) && meet_joined(w->meet))
		warn("%s", meet_failed(w->meet));
	exit(1);
}

void
sync_fail(struct sync *s, const char *why)
{
	struct world w = { .rank = s->rank, .meet = s->meet };

	world_fail(&w, why);
}
