/* end.c -- a program's end by a signal, and what it leaves behind.
 *
 * A thread of its own waits for SIGINT, SIGTERM and SIGHUP, and no other thread gets them: a main
 * thread that hangs in a read (a named pipe without a writer, a file server that is gone) would
 * never come to its handler, and oneDNN 2.6's products keep numbers further below the stack pointer
 * than the 128 bytes that the kernel spares when it puts a handler's frame there.  What does not
 * end by itself within its time is ended from here: exit_group also frees threads that no signal
 * can wake.  Files that are being written are known by name, so that none stays half-written. */
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

static struct {			/* of the process */
	pthread_mutex_t lock;
	char **v;			/* what is being written: files, folders */
	size_t n, cap;
	void (*f)(int), (*save)(int);
	double patience;
} end = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* SIGHUP that is ignored stays so: nohup. */
static void
end_signals(sigset_t *set)
{
	struct sigaction was;

	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	if (sigaction(SIGHUP, NULL, &was) || was.sa_handler != SIG_IGN)
		sigaddset(set, SIGHUP);
	if (end.save)
		sigaddset(set, SIGUSR1);
}

void
leave_signals(void)
{
	sigset_t set;

	end_signals(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void
tmp_begin(const char *path)
{
	pthread_mutex_lock(&end.lock);
	end.v = (char **)xgrow(end.v, &end.cap, end.n + 1, sizeof *end.v);
	end.v[end.n++] = xstrdup(path);
	pthread_mutex_unlock(&end.lock);
}

void
tmp_end(const char *path)
{
	pthread_mutex_lock(&end.lock);
	for (size_t i = end.n; i-- > 0;)
		if (!strcmp(end.v[i], path)) {
			free(end.v[i]);
			end.v[i] = end.v[--end.n];
			break;
		}
	pthread_mutex_unlock(&end.lock);
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *w)
{
	(void)st, (void)kind, (void)w;
	return remove(path) && errno != ENOENT;
}

void
path_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void *
wait_for_end(void *arg)
{
	const sigset_t *set = (const sigset_t *)arg;
	struct timespec t = { 0, 0 };
	struct pollfd p = { STDERR_FILENO, POLLOUT, 0 };	/* a full pipe would wait */
	char line[64];
	int sig, told;

	do {
		while (sigwait(set, &sig))
			;
		(sig == SIGUSR1 ? end.save : end.f)(sig);
	} while (sig == SIGUSR1 || end.patience <= 0);
	t.tv_sec = (time_t)end.patience;
	t.tv_nsec = (long)((end.patience - (double)t.tv_sec) * 1e9);
	while (nanosleep(&t, &t) && errno == EINTR)
		;
	pthread_mutex_lock(&end.lock);		/* for good: no file is finished from now on */
	for (size_t i = 0; i < end.n; i++)
		path_remove(end.v[i]);
	told = snprintf(line, sizeof line, "%s: interrupted\n", prog);
	if (poll(&p, 1, 0) == 1 && p.revents == POLLOUT && write(p.fd, line, (size_t)told) < 0)
		told = 0;			/* nobody who would read it */
	_exit(128 + sig);
}

void
catch_save(void (*f)(int))
{
	end.save = f;
}

void
catch_end(void (*f)(int), double patience)
{
	static sigset_t set;
	pthread_attr_t a;
	pthread_t t;

	end_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	end.f = f;
	end.patience = patience;
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&t, &a, wait_for_end, &set))
		die(1, "no thread to wait for signals with");
	pthread_attr_destroy(&a);
}
