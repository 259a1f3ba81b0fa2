/* t-signals.c -- signals that arrive in the middle of products change no number: thousands of
 * them, from another process, while a product is made again and again. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "yolo.h"
#include "test/tap.h"

enum { M = 576, N = 24, K = 144, LEAST = 300 };
static volatile sig_atomic_t hits;

static void
on_signal(int sig)
{
	(void)sig;
	hits++;
}

static pid_t
pester(int sig)
{
	const struct timespec t = { 0, 500000 };
	pid_t parent = getpid(), p = fork();

	if (p)
		return p;
	while (!kill(parent, sig) && getppid() == parent)
		nanosleep(&t, NULL);
	_exit(0);
}

static int
wrong(struct dev *d, int sig)
{
	float *a = (float *)xcalloc(M * K, sizeof *a), *b = (float *)xcalloc(K * N, sizeof *b);
	float *c = (float *)xcalloc(M * N, sizeof *c), *want = (float *)xcalloc(M * N, sizeof *c);
	struct gemm g = { .m = M, .n = N, .k = K, .alpha = 1, .a = a, .lda = K, .b = b, .ldb = N,
		.c = want, .ldc = N };
	double end = now() + 60;
	int bad = 0;
	pid_t p;

	for (int i = 0; i < M * K; i++)
		a[i] = (float)(i % 7);
	for (int i = 0; i < K * N; i++)
		b[i] = (float)(i % 5);
	d->ops->gemm(d, &g);
	g.c = c;
	hits = 0;
	p = pester(sig);
	while (!bad && hits < LEAST && now() < end) {
		memset(c, 0, M * N * sizeof *c);
		d->ops->gemm(d, &g);
		bad = memcmp(c, want, M * N * sizeof *c) != 0;
	}
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
	free(a);
	free(b);
	free(c);
	free(want);
	return bad || hits < LEAST;
}

int
main(int argc, char **argv)
{
	const int sig[] = { SIGTERM, SIGINT, SIGHUP };
	struct err e;

	(void)argc;
	program(argv, "t-signals");
	signal(SIGHUP, SIG_DFL);
	catch_end(on_signal, 0);
	for (int threads = 1; threads <= 2; threads++) {
		struct dev_opts o = { .threads = threads };
		struct dev *d = dev_open("cpu", &o, &e);

		if (!d)
			die(1, "%s", e.msg);
		for (size_t i = 0; i < sizeof sig / sizeof *sig; i++) {
			int bad = wrong(d, sig[i]);

			okf(!bad, "%d threads: %d of signal %d in products", threads, (int)hits,
			    sig[i]);
		}
		dev_close(d);
	}
	return done();
}
