/* evalrun.c -- fuzz yolo-eval as a whole, through files: folders of txt files, VOC's files, any
 * kind.
 *
 * The first byte chooses kinds and options, what follows up to a NUL is the truth, the rest the
 * detections.  What both accept is scored by every rule, analysed, compared with itself and
 * reported; nothing may differ from itself, and no metric may be outside 0..1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "yolo.h"

int LLVMFuzzerTestOneInput(const unsigned char *, size_t);

static char base[64];			/* a folder that lives as long as the process */

static void
put(const char *path, const unsigned char *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	if (!f)
		abort();
	fwrite(p, 1, n, f);
	fclose(f);
}

static void
check(const struct eval_row *row, int n)
{
	for (int k = 0; k < n; k++) {
		const char *m = row[k].metric;

		if (!strcmp(m, "thr"))
			continue;
		if (!strcmp(m, "TP") || !strcmp(m, "FP") || !strcmp(m, "FN")) {
			if (!(row[k].value >= 0))
				abort();
		} else if (!(row[k].value == -1 || (row[k].value >= 0 && row[k].value <= 1 + 1e-9)))
			abort();
	}
}

static void
use(struct eval_run *r, const struct eval_truth *t)
{
	static FILE *null;
	struct eval_analysis a;
	struct eval_row row[EVAL_ROWS];
	struct eval_report page = { "t", "d", "b", t, r->ev, r->errors, &a, NULL, NULL, 0, 0, 3,
	    .95 };

	if (!null && !(null = fopen("/dev/null", "w")))
		abort();
	check(row, eval_total(r->ev, NULL, row));
	eval_analyse(&a, r->errors);
	struct eval_versus *v = eval_versus(r->ev, r->ev, 3, .95, 1, &page.nversus);
	struct eval_change *c = eval_changes(r->ev, r->ev, &page.nchange);

	for (int k = 0; k < page.nversus; k++)
		if (v[k].diff != 0 || v[k].low != 0 || v[k].high != 0)
			abort();
	page.versus = v;
	page.change = c;
	eval_report(null, &page);
	eval_analysis_print(null, &a, t, 1);
	eval_write_pr(null, r->ev, t, r->errors);
	eval_write_suspects(null, r->ev, t, r->errors);
	eval_analysis_free(&a);
	free(v);
	free(c);
}

static void
score(const struct eval_truth *t, const char *dets, int mode)
{
	struct eval_opts o;
	struct eval_run r;
	struct err e;
	char *path[1] = { (char *)dets };

	eval_defaults(&o);
	o.rules = (1 << EV_RULES) - 1;
	o.threads = 1 + (mode >> 2 & 1);
	o.absent = mode >> 3 & 1;
	memset(&r, 0, sizeof r);
	r.opt = &o;
	r.truth = t;
	r.unknown = (mode >> 4 & 3) % 3 - 1;
	r.dup = (mode >> 6 & 3) % 3;
	r.min_score = -1e300;
	r.tell = 1;
	r.errors = eval_errors_open(&o, t->nclass);
	if (!eval_run(&r, path, 1, &e))
		use(&r, t);
	else if (!*e.msg || strchr(e.msg, '\n'))
		abort();
	eval_run_close(&r);
	eval_errors_close(r.errors);
}

static char *folder[2], *file[5];	/* gts, dets; and what is written */

static void
clean(void)
{
	for (int k = 0; k < 5; k++)
		unlink(file[k]);
	for (int k = 0; k < 2; k++)
		rmdir(folder[k]);
	rmdir(base);
}

static void
make_places(void)
{
	snprintf(base, sizeof base, "%s/evalrun.%ld", path_isdir("/dev/shm") ? "/dev/shm" : "/tmp",
	    (long)getpid());
	mkdir(base, 0700);
	mkdir(folder[0] = path_join(base, "gts"), 0700);
	mkdir(folder[1] = path_join(base, "dets"), 0700);
	file[0] = path_join(folder[0], "000007.txt");
	file[1] = path_join(base, "truth.json");
	file[2] = path_join(folder[1], "000007.txt");
	file[3] = path_join(base, "comp4_det_x_c.txt");
	file[4] = path_join(base, "any");
	atexit(clean);
}

int
LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	const unsigned char *nul;
	struct eval_truth t;
	struct err e;
	size_t nt;
	int mode, kind;

	if (!*base)
		make_places();
	if (!n)
		return 0;
	mode = p[0] | p[0] << 4;
	nul = (const unsigned char *)memchr(p + 1, 0, n - 1);
	nt = nul ? (size_t)(nul - p - 1) : n - 1;
	put(file[mode & 1], p + 1, nt);
	kind = 2 + (mode >> 1 & 3) % 3;
	put(file[kind], nul ? nul + 1 : p, nul ? n - nt - 2 : 0);
	if (!eval_truth_read(&t, mode & 1 ? file[1] : folder[0], NULL, &e)) {
		if (t.nclass < 1000 && t.n < 1000)
			score(&t, kind == 2 ? folder[1] : file[kind], mode);
		eval_truth_close(&t);
	} else if (!*e.msg || strchr(e.msg, '\n'))
		abort();
	return 0;
}
