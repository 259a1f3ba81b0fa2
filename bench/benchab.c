/* benchab.c -- yolo-bench ab: two builds of yolo-bench, run in turn, and how they differ.
 *
 * A B, B A, A B ...: what the machine does in the meantime meets both alike.  The figure is the
 * median of each run.  The ratio B/A is the median of all ratios of a run of B and one of A
 * (Hodges and Lehmann), its interval those values that Mann and Whitney's test does not reject; no
 * distribution is assumed.  A difference is one that the test finds and that is large enough to
 * matter. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/int.h"

static const struct setting settings[] = { { "level", "0.95", "0.5..0.9999", "of the interval" },
	{ "n", "9", "int 3..1000", "runs of each" },
	{ "size", "1", "0..1000", "percent that matters" }, { NULL, NULL, NULL, NULL } };
static const char usage[] = "usage: yolo-bench ab [-hq] [-O key=value] [-o out.tsv] "
			    "bin1 bin2 -- command [option ...]\n";

struct ab {
	struct settings set;
	const char *out;
	char *bin[2], **arg;
	int narg;
	double *x[2];
};

/* The figure of a table: the first row's column of this name. */
static int
figure_of(char *text, double *x)
{
	char *row = strchr(text, '\n'), *name, *value, *n_end, *v_end;

	if (*text != '#' || !row)
		return -1;
	*row++ = 0;
	row[strcspn(row, "\n")] = 0;
	for (name = text + 1, value = row; name && value; name = n_end, value = v_end) {
		if ((n_end = strchr(name, '\t')))
			*n_end++ = 0;
		if ((v_end = strchr(value, '\t')))
			*v_end++ = 0;
		if (!strcmp(name, "step_ms") || !strcmp(name, "ms") || !strcmp(name, "median_ms"))
			return num_real(value, 1e-9, HUGE_VAL, x);
	}
	return -1;
}

/* One run of a build; what it prints on stderr goes there. */
static int
run_one(const struct ab *a, int side, double *x, struct err *e)
{
	char **argv = (char **)xcalloc((size_t)a->narg + 3, sizeof *argv), text[65536];
	size_t n = 0;
	ssize_t got;
	int p[2], status, k = 0;
	pid_t pid;

	argv[k++] = a->bin[side];
	argv[k++] = a->arg[0];
	argv[k++] = (char *)"-q";
	for (int i = 1; i < a->narg; i++)
		argv[k++] = a->arg[i];
	if (pipe(p) || (pid = fork()) < 0) {
		free(argv);
		return err_set(e, "cannot start %s: %s", a->bin[side], strerror(errno));
	}
	if (!pid) {
		dup2(p[1], STDOUT_FILENO);
		close(p[0]);
		close(p[1]);
		execvp(argv[0], argv);
		warn("%s: %s", argv[0], strerror(errno));
		_exit(127);
	}
	close(p[1]);
	free(argv);
	while ((got = read(p[0], text + n, sizeof text - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = 0;
	close(p[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return err_set(e, "%s: ended by signal %d", a->bin[side], WTERMSIG(status));
	if (WEXITSTATUS(status))
		return err_set(e, "%s: ended with status %d", a->bin[side], WEXITSTATUS(status));
	if (figure_of(text, x))
		return err_set(e, "%s %s: prints no table with a column ms, step_ms or median_ms",
		    a->bin[side], a->arg[0]);
	return 0;
}

static void
print(FILE *f, struct ab *a, int n)
{
	double level = settings_num(&a->set, "level"), size = settings_num(&a->set, "size") / 100;
	struct versus v;
	const char *verdict;

	bench_versus(a->x[0], n, a->x[1], n, level, &v);
	verdict = v.p > 1 - level || v.wide || fabs(v.ratio - 1) < size ? "no difference found"
		  : v.ratio > 1						? "the second is slower"
									: "the second is faster";
	fprintf(f, "#n\ta_ms\tb_ms\tratio\tlow\thigh\tlevel\tp\tverdict\n");
	fprintf(f, "%d\t%.6g\t%.6g\t%.5f\t%.5f\t%.5f\t%g\t%.3g\t%s\n", n, bench_median(a->x[0], n),
	    bench_median(a->x[1], n), v.ratio, v.low, v.high, level, v.p, verdict);
}

static int
run(struct ab *a, struct err *e)
{
	int n = (int)settings_int(&a->set, "n"), bad = 0;
	struct outfile o;

	for (int side = 0; side < 2; side++)
		a->x[side] = (double *)xcalloc((size_t)n, sizeof(double));
	for (int i = 0; i < 2 * n && !bad; i++) {
		int side = (i ^ i >> 1) & 1; /* 0 1 1 0 0 1 1 0 */

		progress("run %d of %d", i + 1, 2 * n);
		bad = run_one(a, side, &a->x[side][i / 2], e);
	}
	progress_end();
	if (!bad && !(bad = out_open(&o, a->out, e))) {
		print(o.f, a, n);
		bad = out_commit(&o, e);
	}
	free(a->x[0]);
	free(a->x[1]);
	return bad;
}

int
bench_ab(const struct bench_call *call)
{
	static const struct option longs[] = { { "help", 0, NULL, 'h' }, { "option", 1, NULL, 'O' },
		{ "output", 1, NULL, 'o' }, { "quiet", 0, NULL, 'q' }, { NULL, 0, NULL, 0 } };
	struct ab a = { .out = "-" };
	struct err e = { "" };
	int opt, r = 0;

	settings_open(&a.set, settings);
	while ((opt = getopt_long(call->argc, call->argv, "+hO:o:q", longs, NULL)) >= 0)
		switch (opt) {
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'O':
			settings_option(&a.set, optarg);
			break;
		case 'o':
			a.out = optarg;
			break;
		case 'q':
			quiet = 1;
			break;
		default:
			r = 2;
		}
	a.arg = call->argv + optind + 2;
	a.narg = call->argc - optind - 2;
	if (!r && a.narg > 0 && !strcmp(a.arg[0], "--")) {
		a.arg++;
		a.narg--;
	}
	if (!r && a.narg < 1) {
		warn("want two programs and a command, as in: ab old/yolo-bench ./yolo-bench -- "
		     "step");
		r = 2;
	}
	if (r)
		fputs(usage, stderr);
	else {
		a.bin[0] = call->argv[optind];
		a.bin[1] = call->argv[optind + 1];
		r = run(&a, &e) ? 1 : 0;
	}
	if (*e.msg)
		warn("%s", e.msg);
	settings_close(&a.set);
	return r;
}
