/* t-bench.c -- the history of yolo-bench: writers at once, killed and cut short; what is read of
 * it; samples against brute force. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/int.h"

static int tests, bad;
static char dir[] = "/tmp/t-bench.XXXXXX";

static void
ok(int good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, what);
	bad += !good;
}

static void
write_file(const char *path, const char *text, size_t len)
{
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(text, 1, len, f) != len || fclose(f))
		die(1, "%s: cannot be written", path);
}

static void
append(const char *path, int who, int k)
{
	struct bench_row r = { { NULL } };
	struct err e;

	row_set(&r, COL_COMMAND, "step");
	row_set(&r, COL_NOTE, "%d.%d", who, k);
	if (hist_append(path, &r, &e))
		die(1, "%s", e.msg);
	row_free(&r);
}

/* Every line whole, in order for each writer, none twice; how many. */
static int
count(const char *path, int whole_only)
{
	struct hist h;
	struct err e;
	size_t len;
	char *text = file_read(path, 1 << 24, &len, &e);
	int last[200], lines = 0, n;

	for (int i = 0; i < 200; i++)
		last[i] = -1;
	if (!text || hist_read(path, &h, &e))
		die(1, "%s", e.msg);
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	n = h.n;
	for (int i = 0; i < h.n; i++) {
		int who = -1, k = -1;

		if (sscanf(row_get(&h.row[i], COL_NOTE), "%d.%d", &who, &k) != 2 || who < 0 ||
		    who >= 200 || k <= last[who])
			n = -1;
		else
			last[who] = k;
	}
	if (whole_only && (lines != h.n + 2 || text[len - 1] != '\n'))
		n = -1;
	hist_close(&h);
	free(text);
	return n;
}

static void
at_once(void)
{
	char *path = path_join(dir, "once.tsv");
	int good = 1, status;

	for (int who = 0; who < 20; who++)
		if (!fork()) {
			for (int k = 0; k < 10; k++)
				append(path, who, k);
			_exit(0);
		}
	for (int who = 0; who < 20; who++)
		good &= wait(&status) > 0 && !status;
	ok(good && count(path, 1) == 200, "20 writers at once, 10 lines each: 200 lines, one head");
	free(path);
}

/* A writer says through a pipe what it has written; it is killed at any moment. */
static void
killed(void)
{
	char *path = path_join(dir, "kill.tsv");
	int said = 0, most = 0, k, n, status;

	srand(1);
	for (int who = 0; who < 50; who++) {
		int p[2], got = 0;
		pid_t pid;

		if (pipe(p))
			die(1, "no pipe");
		if (!(pid = fork())) {
			for (k = 0;; k++) {
				append(path, who, k);
				if (write(p[1], &k, sizeof k) != sizeof k)
					_exit(1);
			}
		}
		close(p[1]);
		if (read(p[0], &k, sizeof k) == sizeof k)	/* the first, then some time */
			got++;
		usleep((useconds_t)(rand() % 3000));
		kill(pid, SIGKILL);
		while (read(p[0], &k, sizeof k) == sizeof k)
			got++;
		close(p[0]);
		waitpid(pid, &status, 0);
		said += got;
		most += got + 1;
	}
	append(path, 100, 0);
	n = count(path, 1);
	printf("# %d lines were promised, %d are there\n", said + 1, n);
	ok(n >= said + 1 && n <= most + 1, "50 writers killed: no line torn, none lost");
	free(path);
}

/* The last line cut behind any of its bytes, then another run. */
static void
cut(void)
{
	char *path = path_join(dir, "cut.tsv"), *text;
	size_t len, last;
	struct err e;
	int good = 1;

	append(path, 0, 0);
	append(path, 0, 1);
	if (!(text = file_read(path, 1 << 20, &len, &e)))
		die(1, "%s", e.msg);
	for (last = len - 1; text[last - 1] != '\n';)
		last--;
	if (!freopen("/dev/null", "w", stderr))
		die(1, "/dev/null");
	for (size_t at = 0; at < len; at++) {
		int lines = at < last ? 0 : 1;

		write_file(path, text, at);
		append(path, 1, 0);
		if (at < last)		/* of the first line and the heads, what is whole */
			for (size_t i = 0; i < at; i++)
				lines += i && text[i] == '\n' && text[i - 1] == '.';
		if (at == len - 1 || at == last - 1)
			lines++;	/* only its newline is missing */
		good &= count(path, 0) == lines + 1;
	}
	ok(good, "cut behind every byte: what was whole stays, the new line is whole");
	free(text);
	free(path);
}

static void
older(void)
{
	static const char zero[] = "#cfg\tdevice\tprecision\tsize\tbatch\tranks\tstep_ms\timg_s\n"
	    "a.cfg\tcpu\tfp32\t96x96\t2\t1\t12.5\t160\n"
	    "#layer\ttype\toutput\n0\tconvolutional\t96x96x8\n"
	    "#cfg\tdevice\tprecision\tsize\tbatch\tranks\tstep_ms\timg_s\n"
	    "a.cfg\tcpu\tfp32\t96x96\t2\t1\t12.7\t158\n";
	static const char one[] = "#yolo-bench history, schema 1\n#time\tcommand\tfuture\tmedian_ms"
	    "\tend\n2026-01-01T00:00:00Z\tstep\tx\t7\t.\nbroken\tline\n";
	static const char future[] = "#yolo-bench history, schema 2\n";
	char *path = path_join(dir, "old.tsv");
	struct hist h;
	struct err e = { "" };

	write_file(path, zero, sizeof zero - 1);
	ok(!hist_read(path, &h, &e) && h.n == 2 && row_num(&h.row[1], COL_MEDIAN) == 12.7 &&
	    !strcmp(row_get(&h.row[0], COL_KEY), row_get(&h.row[1], COL_KEY)),
	    "what step printed before there was a history is read");
	hist_close(&h);
	append(path, 3, 0);
	ok(!hist_read(path, &h, &e) && h.n == 3 && row_num(&h.row[0], COL_MEDIAN) == 12.5 &&
	    !strcmp(row_get(&h.row[2], COL_NOTE), "3.0"), "and goes on with today's columns");
	hist_close(&h);
	write_file(path, one, sizeof one - 1);
	append(path, 3, 0);
	ok(!hist_read(path, &h, &e) && h.n == 2 && row_num(&h.row[0], COL_MEDIAN) == 7 &&
	    !strcmp(row_get(&h.row[1], COL_NOTE), "3.0"),
	    "columns go by their names; a line of another length is left out");
	hist_close(&h);
	write_file(path, future, sizeof future - 1);
	ok(hist_fit(path, &e) && strstr(e.msg, "schema 2") && hist_read(path, &h, &e) &&
	    strstr(e.msg, "newer yolo-bench"), "a history from the future is refused, with why");
	write_file(path, "[net]\nwidth=32\n", 15);
	ok(hist_fit(path, &e) && strstr(e.msg, "not a history"), "and what is none");
	free(path);
}

/* Mann and Whitney's p over all ways to deal 9 values to 4 and 5. */
static void
versus(void)
{
	static const double all[9] = { 1, 2.5, 3, 4.5, 5, 7, 8, 9.5, 11 };
	struct versus v;
	int good = 1, seen = 0;

	for (int m = 0; m < 512; m++) {
		double a[4], b[5], u = 0, as_far = 0, ways = 0;
		int na = 0, nb = 0;

		if (__builtin_popcount((unsigned)m) != 4)
			continue;
		for (int i = 0; i < 9; i++)
			if (m >> i & 1)
				a[na++] = all[i];
			else
				b[nb++] = all[i];
		for (int i = 0; i < 20; i++)
			u += b[i % 5] < a[i / 5];
		for (int k = 0; k < 512; k++) {
			int below = 0, other = 0;

			if (__builtin_popcount((unsigned)k) != 4)
				continue;
			for (int i = 0; i < 9; i++) {
				if (k >> i & 1)
					below += other;
				else
					other++;
			}
			ways++;
			as_far += fabs(below - 10.) >= fabs(u - 10);
		}
		bench_versus(a, 4, b, 5, .9, &v);
		good &= fabs(v.p - as_far / ways) < 1e-12 && v.low <= v.ratio && v.ratio <= v.high;
		good &= v.wide || (v.low > 1 || v.high < 1) == (v.p <= .1);
		seen++;
	}
	ok(good && seen == 126, "Mann and Whitney's p is that of all deals, the interval agrees");
}

static void
split(void)
{
	static const struct split_opts o = { .level = .005, .least = 3, .shuffles = 199 };
	static const int want[] = { 60, 70, 150 };
	double x[300];
	unsigned state = 1;
	struct split *s;
	int n, good;

	for (int i = 0; i < 300; i++) {
		x[i] = 0;
		for (int k = 0; k < 12; k++)
			x[i] += (double)((state = state * 1664525 + 1013904223) >> 8) / 16777216;
	}
	n = bench_split(x, 300, &o, &s);
	ok(n == 0, "no change point in noise");
	free(s);
	for (int i = 0; i < 300; i++)
		x[i] += i >= 60 && i < 70 ? 5 : i >= 150 ? -2 : 0;
	n = bench_split(x, 300, &o, &s);
	good = n == 3;
	for (int i = 0; i < n && i < 3; i++)
		good &= abs(s[i].at - want[i]) <= 1;
	ok(good, "a short rise and a step are found in their places");
	free(s);
	for (int i = 0; i < 300; i++)
		x[i] = 7;
	n = bench_split(x, 300, &o, &s);
	ok(n == 0, "nor one among equals");
	free(s);
	ok(!bench_split(x, 0, &o, &s), "nor in nothing");
	free(s);
}

int
main(int argc, char **argv)
{
	(void)argc;
	program(argv, "t-bench");
	if (!mkdtemp(dir))
		die(1, "%s: cannot be made", dir);
	setbuf(stdout, NULL);
	at_once();
	killed();
	cut();
	older();
	versus();
	split();
	if (system(xasprintf("rm -rf %s", dir)))
		bad++;
	printf("1..%d\n", tests);
	return bad != 0;
}
