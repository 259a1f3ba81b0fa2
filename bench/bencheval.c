/* bencheval.c -- yolo-bench eval: how near reading and scoring come to reading alone.
 *
 * The whole is what yolo-eval does: the truth, the detections, every number asked for.  The ceiling
 * is measured in the same run: the same files read and their bytes added up, once from the page
 * cache into a buffer of a megabyte, which any reader must do.  Rates are of all bytes of both
 * files.  Without a truth the set is made up and written to a temporary folder. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "labels/labels.h"
#include "eval/eval.h"
#include "score/score.h"

static const struct setting settings[] = {
	{ "classes", "80", "int 1..65535", "made-up set: classes" },
	{ "dets", "100", "int 0..100000", "made-up set: detections of a picture" },
	{ "images", "5000", "int 1..1000000", "made-up set: pictures" },
	{ "n", "5", "int 1..100000", "repetitions; the median counts" },
	{ "truths", "7", "int 0..100000", "made-up set: truths of a picture" },
	{ NULL, NULL, NULL, NULL }
};
static const char usage[] = "usage: yolo-bench eval [-Chq] [-f json|tsv] [-j threads] [-m rules]\n"
    "                       [-O key=value] [-o out.tsv] [-t truth] [dets]\n";
enum { TRUTH, PARSE, ALL, NUMBERS, CEILING, NLAP };	/* ALL: parse and match, in one */

struct bench {
	struct settings set;
	struct eval_opts opt;
	const char *truth, *dets, *out, *kind;
	char *folder;			/* of the made-up set */
	int stages;
	double *lap[NLAP], bytes, peak;
	size_t ndet;
	int nimage;
	uint64_t sum;			/* of bytes and of numbers: nothing may be left out */
	double number;
};

/* A set of our own is taken away again, also after a signal. */
static volatile sig_atomic_t asked;

static void
on_signal(int sig)
{
	asked = sig;
}

/* ---- a set of our own ---- */

static uint64_t
draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static double
unit(uint64_t *state)
{
	return (double)(draw(state) >> 11) / 9007199254740992.;
}

static void
write_truth(FILE *f, const struct bench *b)
{
	long images = settings_int(&b->set, "images"), classes = settings_int(&b->set, "classes"),
	     n = settings_int(&b->set, "truths"), id = 1;
	uint64_t state = 1;

	fputs("{\"images\":[", f);
	for (long i = 1; i <= images; i++)
		fprintf(f,
		    "%s{\"id\":%ld,\"width\":640,\"height\":480,\"file_name\":\"%012ld.jpg\"}",
		    i > 1 ? "," : "", i, i);
	fputs("],\n\"categories\":[", f);
	for (long c = 1; c <= classes; c++)
		fprintf(f, "%s{\"id\":%ld,\"name\":\"class%ld\"}", c > 1 ? "," : "", c, c);
	fputs("],\n\"annotations\":[", f);
	for (long i = 1; i <= images && !asked; i++)
		for (long k = 0; k < n; k++, id++) {
			double x = unit(&state) * 500, y = unit(&state) * 400;
			double w = 4 + unit(&state) * 130, h = 4 + unit(&state) * 70;

			fprintf(f,
			    "%s\n{\"id\":%ld,\"image_id\":%ld,\"category_id\":%ld,\"bbox\":"
			    "[%.2f,%.2f,%.2f,%.2f],\"area\":%.2f,\"iscrowd\":0}",
			    id > 1 ? "," : "", id, i, 1 + (long)(draw(&state) % (uint64_t)classes),
			    x, y, w, h, w * h);
		}
	fputs("]}\n", f);
}

/* Near a truth of the picture (its numbers are drawn again), or anywhere. */
static void
write_dets(FILE *f, const struct bench *b, int tsv)
{
	long images = settings_int(&b->set, "images"), classes = settings_int(&b->set, "classes"),
	     n = settings_int(&b->set, "truths"), dets = settings_int(&b->set, "dets");
	uint64_t state = 1, other = 2, truth;

	fputs(tsv ? "#image\tclass\tname\tscore\tx\ty\tw\th\n" : "[", f);
	for (long i = 1; i <= images && !asked; i++) {
		truth = state;
		for (long k = 0; k < dets; k++) {
			uint64_t *s = k < n ? &truth : &other;
			double x = unit(s) * 500, y = unit(s) * 400, w = 4 + unit(s) * 130,
			       h = 4 + unit(s) * 70;
			long c = 1 + (long)(draw(s) % (uint64_t)classes);
			double score = unit(&other), shift = k < n ? 12 * unit(&other) : 0;

			if (tsv)
				fprintf(f,
				    "%012ld.jpg\t%ld\tclass%ld\t%.9g\t%.7g\t%.7g\t%.7g\t%.7g\n", i,
				    c - 1, c, score, x + shift, y, w, h);
			else
				fprintf(f,
				    "%s\n{\"image_id\":%ld,\"category_id\":%ld,\"bbox\":"
				    "[%.2f,%.2f,%.2f,%.2f],\"score\":%.6f}",
				    i > 1 || k ? "," : "", i, c, x + shift, y, w, h, score);
		}
		for (long k = 0; k < 5 * n; k++)
			draw(&state);
	}
	fputs(tsv ? "" : "]\n", f);
}

static int
make_up(struct bench *b, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	int tsv = !strcmp(b->kind, "tsv");
	struct sigaction sa = { .sa_handler = on_signal };
	struct outfile o;
	char *t, *d;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	b->folder = xasprintf("%s/yolo-bench.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(b->folder)) {
		err_set(e, "%s: %s", b->folder, strerror(errno));
		free(b->folder);
		b->folder = NULL;
		return -1;
	}
	b->truth = t = path_join(b->folder, "truth.json");
	b->dets = d = path_join(b->folder, tsv ? "dets.tsv" : "dets.json");
	if (out_open(&o, t, e))
		return -1;
	write_truth(o.f, b);
	if (out_commit(&o, e) || out_open(&o, d, e))
		return -1;
	write_dets(o.f, b, tsv);
	return out_commit(&o, e);
}

static void
forget(struct bench *b)
{
	if (!b->folder)
		return;
	if (b->truth)
		unlink(b->truth);
	if (b->dets)
		unlink(b->dets);
	rmdir(b->folder);
	free((char *)b->truth);
	free((char *)b->dets);
	free(b->folder);
}

/* ---- timing ---- */

static int
add_bytes(struct bench *b, const char *path, struct err *e)
{
	enum { CHUNK = 1 << 20 };
	uint64_t *buf = (uint64_t *)xmalloc(CHUNK), sum = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	while (fd >= 0 && (n = read(fd, buf, CHUNK)) > 0) {
		memset((char *)buf + n, 0, (size_t)(CHUNK - n) < 8 ? (size_t)(CHUNK - n) : 8);
		for (ssize_t i = 0; i < (n + 7) / 8; i++)
			sum += buf[i];
	}
	if (n < 0)
		err_set(e, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(buf);
	b->sum += sum;
	return n < 0 ? -1 : 0;
}

static int
drain(void *arg, const struct eval_in *in, struct err *e)
{
	(void)e;
	*(double *)arg += in->score + in->x + in->y + in->w + in->h;
	return 0;
}

static int
once(struct bench *b, int k, struct err *e)
{
	struct eval_truth truth;
	struct eval_run side;
	struct eval_row row[EVAL_ROWS];
	char *path[1] = { (char *)b->dets };
	double t = now();
	int bad;

	if (add_bytes(b, b->truth, e) || add_bytes(b, b->dets, e))
		return -1;
	b->lap[CEILING][k] = now() - t;
	t = now();
	if (eval_truth_read(&truth, b->truth, NULL, e))
		return -1;
	b->lap[TRUTH][k] = now() - t;
	memset(&side, 0, sizeof side);
	side.opt = &b->opt;
	side.truth = &truth;
	side.min_score = -1e300;
	t = now();
	if (!(bad = eval_run(&side, path, 1, e))) {
		b->lap[ALL][k] = now() - t;
		t = now();
		eval_total(side.ev, NULL, row);
		b->lap[NUMBERS][k] = now() - t;
		b->number += row[0].value;
		b->ndet = side.set.total;
		b->nimage = truth.n;
	}
	eval_run_close(&side);
	if (!bad && b->stages) {	/* apart: the whole does not wait for it */
		t = now();
		bad = eval_read(b->dets, truth.names, drain, &b->number, e);
		b->lap[PARSE][k] = now() - t;
	}
	eval_truth_close(&truth);
	return bad;
}

static double
megabytes(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (double)st.st_size / 1e6;
}

static void
print(FILE *f, struct bench *b, int n)
{
	static const char *const name[] = { "truth", "parse", "match", "numbers" };
	double *whole = (double *)xmalloc((size_t)n * sizeof *whole), median, least, ms[4], ceiling;

	for (int k = 0; k < n; k++)
		whole[k] = b->lap[TRUTH][k] + b->lap[ALL][k] + b->lap[NUMBERS][k];
	median = bench_median(whole, n);
	least = whole[0];
	ceiling = bench_median(b->lap[CEILING], n);
	fprintf(f, "#truth\tdets\tthreads\timages\tdetections\tmb\tms\tmin_ms\tmb_s\tdets_s"
	    "\tceiling_mb_s\tshare\tmem_mb\n");
	tsv_name(f, path_base(b->truth));
	putc('\t', f);
	tsv_name(f, path_base(b->dets));
	fprintf(f, "\t%d\t%d\t%zu\t%.2f\t%.2f\t%.2f\t%.1f\t%.0f\t%.1f\t%.4f\t%.1f\n",
	    b->opt.threads, b->nimage, b->ndet, b->bytes, median * 1e3, least * 1e3,
	    b->bytes / median, (double)b->ndet / median, b->bytes / ceiling, ceiling / median,
	    b->peak);
	if (b->stages) {
		ms[0] = bench_median(b->lap[TRUTH], n);
		ms[1] = bench_median(b->lap[PARSE], n);
		ms[2] = bench_median(b->lap[ALL], n) - ms[1];
		ms[3] = bench_median(b->lap[NUMBERS], n);
		fprintf(f, "#stage\tms\tshare\n");
		for (int k = 0; k < 4; k++)
			fprintf(f, "%s\t%.2f\t%.4f\n", name[k], ms[k] * 1e3, ms[k] / median);
	}
	free(whole);
}

static int
run(struct bench *b, struct err *e)
{
	int n = (int)settings_int(&b->set, "n"), bad = 0;
	struct outfile o;

	if (!b->truth && make_up(b, e))
		return -1;
	b->bytes = megabytes(b->truth) + megabytes(b->dets);
	for (int k = 0; k < NLAP; k++)
		b->lap[k] = (double *)xcalloc((size_t)n, sizeof(double));
	bench_reset_peak();
	for (int k = 0; k < n && !bad && !asked; k++) {
		progress("repetition %d of %d", k + 1, n);
		bad = once(b, k, e);
	}
	progress_end();
	b->peak = bench_peak_mb();
	if (!bad && !asked && !(bad = out_open(&o, b->out, e))) {
		print(o.f, b, n);
		bad = out_commit(&o, e);
	}
	for (int k = 0; k < NLAP; k++)
		free(b->lap[k]);
	return bad;
}

static int
wrong(const char *why)
{
	warn("%s", why);
	fputs(usage, stderr);
	return 2;
}

/* 0, 2 wrong usage, -1 help was asked for and given. */
static int
parse(struct bench *b, int argc, char **argv)
{
	static const struct option longs[] = { { "format", 1, NULL, 'f' }, { "help", 0, NULL, 'h' },
		{ "metrics", 1, NULL, 'm' }, { "option", 1, NULL, 'O' },
		{ "output", 1, NULL, 'o' }, { "per-stage", 0, NULL, 'C' },
		{ "quiet", 0, NULL, 'q' }, { "threads", 1, NULL, 'j' },
		{ "truth", 1, NULL, 't' }, { NULL, 0, NULL, 0 } };
	int opt;

	while ((opt = getopt_long(argc, argv, "Cf:hj:m:O:o:qt:", longs, NULL)) >= 0)
		switch (opt) {
		case 'C': b->stages = 1; break;
		case 'f': b->kind = optarg; break;
		case 'h': fputs(usage, stdout); return -1;
		case 'j':
			if (bench_number('j', optarg, 1, 1024, &b->opt.threads))
				return 2;
			break;
		case 'm':
			if (eval_rules(&b->opt, optarg))
				return wrong("-m: want some of " EVAL_RULE_NAMES);
			break;
		case 'O': settings_option(&b->set, optarg); break;
		case 'o': b->out = optarg; break;
		case 'q': quiet = 1; break;
		case 't': b->truth = optarg; break;
		default: fputs(usage, stderr); return 2;
		}
	b->dets = argv[optind];
	if (strcmp(b->kind, "json") && strcmp(b->kind, "tsv"))
		return wrong("-f: want json or tsv");
	if (argc - optind > 1)
		return wrong("want the detections of one file");
	return !b->truth != !b->dets ? wrong("want both -t truth and dets, or neither") : 0;
}

int
bench_eval(const struct bench_call *call)
{
	struct bench b;
	struct err e = { "" };
	int r;

	memset(&b, 0, sizeof b);
	settings_open(&b.set, settings);
	eval_defaults(&b.opt);
	b.kind = "json";
	b.out = "-";
	r = parse(&b, call->argc, call->argv);
	if (!r && run(&b, &e)) {
		warn("%s", e.msg);
		r = 1;
	}
	r = r ? r : asked ? 128 + (int)asked : 0;
	forget(&b);
	settings_close(&b.set);
	return r < 0 ? 0 : r;
}
