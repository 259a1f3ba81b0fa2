/* yolo-eval.c -- the program: score detections against truth.
 *
 * Results are rows `rule class metric value` on stdout; what was noticed about the input goes to
 * stderr.  Truth is read whole, detections pass through (score/match.c). */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"

static const struct setting table[] = {
	{ "absent", "out", "out|zero",
	    "AP of a class with false positives and no truth: not in the means, or 0" },
	{ "areas", "1024,9216", "text", "borders of the area ranges, in pixels" },
	{ "bootstrap", "1000", "int 0..1000000", "resamplings for -D" },
	{ "compat", "none", "none|pycocotools",
	    "pycocotools' known bugs too: truths with id 0, AP at other maxDets" },
	{ "conf", NULL, "text", "write precision, recall, F1 by score to this file" },
	{ "confusion", NULL, "text", "write the confusion matrix to this file" },
	{ "crowd", "original", "original|difficult|remove|truth",
	    "what crowd boxes are to every rule" },
	{ "difficult", "original", "original|difficult|remove|truth", "what difficult boxes are" },
	{ "dup", "warn", "warn|first|error", "the same detections of a picture twice" },
	{ "errors", "0", "0|1", "rows of the error analysis: TIDE, LRP" },
	{ "level", "0.95", "0.5..0.999", "coverage of the intervals of -D" },
	{ "match", "ge", "ge|gt", "VOC: IoU at least, or over, the threshold" },
	{ "pixel", "1", "0|1", "VOC: a box covers w + 1 pixels" },
	{ "points", "0", "0|11|101", "darknet: recalls, 0 is the area" },
	{ "pr", NULL, "text", "write precision-recall curves to this file" },
	{ "recalls", "tenths", "tenths|python", "VOC2007's recalls: i / 10, or numpy's i * 0.1" },
	{ "score", "-inf", "text", "leave out detections under this score" },
	{ "suspects", NULL, "text", "write suspicious labels to this file" },
	{ "thresh", "0.25", "0..1", "darknet: its P R F1 TP FP FN IoU are over this score" },
	{ "unknown", NULL, "skip|error",
	    "pictures or classes not in the truth (error for pictures, skip for category ids)" },
	{ "worst", NULL, "text", "write the worst pictures to this file" },
	{ NULL, NULL, NULL, NULL }
};
static const struct option longs[] = { { "base", 1, NULL, 'D' }, { "help", 0, NULL, 'h' },
	{ "iou", 1, NULL, 'i' }, { "maxdets", 1, NULL, 'M' }, { "metrics", 1, NULL, 'm' },
	{ "names", 1, NULL, 'n' }, { "option", 1, NULL, 'O' }, { "output", 1, NULL, 'o' },
	{ "per-class", 0, NULL, 'C' }, { "quiet", 0, NULL, 'q' }, { "report", 1, NULL, 'r' },
	{ "seed", 1, NULL, 'S' }, { "threads", 1, NULL, 'j' }, { "truth", 1, NULL, 't' },
	{ "version", 0, NULL, 'V' }, { NULL, 0, NULL, 0 } };
static const char usage[] =
    "usage: yolo-eval [-hqVC] [-D base] [-i ious] [-j threads] [-M maxdets] [-m rules]\n"
    "                 [-n names] [-O key=value] [-o out] [-r report.html] [-S seed]\n"
    "                 -t truth [dets ...]\n";

struct cmd {
	struct settings set;
	struct eval_opts opt;
	const char *truth, *base, *names, *out, *report;
	int per_class;
	double min_score;
	long seed;
	char **in;
	int nin;
};

static void
bad_usage(const char *why)
{
	warn("%s", why);
	fputs(usage, stderr);
	exit(2);
}

/* Numbers between commas; FROM:TO:STEP too.  Their number, or -1. */
static int
parse_list(const char *s, double lo, double hi, double *out, int max)
{
	char *copy = xstrdup(s), *p = copy, *word, *c1, *c2;
	int n = 0, bad = 0;

	while (!bad && (word = strsep(&p, ","))) {
		double a, b, step;

		if ((c1 = strchr(word, ':')) && (c2 = strchr(c1 + 1, ':'))) {
			*c1 = *c2 = 0;
			bad = num_real(word, lo, hi, &a) || num_real(c1 + 1, lo, hi, &b) ||
			    num_real(c2 + 1, 1e-6, 1, &step) || b < a || (b - a) / step > max;
			for (int i = 0, k = bad ? -1 : (int)((b - a) / step + .5); i <= k && !bad;
			     i++)
				if (n == max)
					bad = 1;
				else /* as numpy's linspace: equal steps, the last one exact */
					out[n++] = i == k ? b : a + i * ((b - a) / (k ? k : 1));
		} else if (n == max || num_real(word, lo, hi, out + n++))
			bad = 1;
	}
	free(copy);
	for (int i = 1; i < n; i++)
		bad |= out[i] <= out[i - 1];
	return bad ? -1 : n;
}

static void
parse(struct cmd *c, int argc, char **argv)
{
	struct eval_opts *o = &c->opt;
	double v[EVAL_IOUS];
	long n;
	int ch;

	while ((ch = getopt_long(argc, argv, "CD:hi:j:M:m:n:O:o:qr:S:t:V", longs, NULL)) != -1)
		switch (ch) {
		case 'C': c->per_class = 1; break;
		case 'D': c->base = optarg; break;
		case 'h': fputs(usage, stdout); exit(0);
		case 'i':
			if ((o->niou = parse_list(optarg, 1e-6, 1, o->iou, EVAL_IOUS)) < 1)
				bad_usage("-i: want ascending IoUs in (0, 1], at most 16: 0.5,0.75 "
					  "or 0.5:0.95:0.05");
			break;
		case 'j':
			if (num_int(optarg, 1, 1024, &n))
				bad_usage("-j: want 1..1024");
			o->threads = (int)n;
			break;
		case 'M':
			if ((o->nmaxdet = parse_list(optarg, 1, 1e6, v, EVAL_MAXDETS)) < 1)
				bad_usage("-M: want up to 6 ascending whole numbers: 1,10,100");
			for (int i = 0; i < o->nmaxdet; i++)
				if ((o->maxdet[i] = (int)v[i]) != v[i])
					bad_usage("-M: want whole numbers: 1,10,100");
			break;
		case 'm':
			if (eval_rules(o, optarg))
				bad_usage("-m: want some of " EVAL_RULE_NAMES);
			break;
		case 'n': c->names = optarg; break;
		case 'O': settings_option(&c->set, optarg); break;
		case 'o': c->out = optarg; break;
		case 'q': quiet = 1; break;
		case 'r': c->report = optarg; break;
		case 'S':
			if (num_int(optarg, 0, 0x7fffffffffffffff, &c->seed))
				bad_usage("-S: want a whole number from 0");
			break;
		case 't': c->truth = optarg; break;
		case 'V': printf("yolo-eval %s\n", YOLO_VERSION); exit(0);
		default: fputs(usage, stderr); exit(2);
		}
	c->in = argv + optind;
	c->nin = argc - optind;
}

static enum eval_soft
soft(const char *word)
{
	return *word == 'o' ? EV_ORIGINAL : *word == 'd' ? EV_IGNORE : *word == 'r' ? EV_REMOVE :
	    EV_TRUTH;
}

static void
check(struct cmd *c)
{
	static char *standard[] = { (char *)"-" };
	struct eval_opts *o = &c->opt;
	const char *s;
	double edge[EVAL_AREAS];
	int n;

	if (!c->truth)
		bad_usage("no truth: want -t FILE");
	if (!c->nin) {
		c->in = standard;
		c->nin = 1;
	}
	if ((n = parse_list(settings_str(&c->set, "areas"), 0, 1e10, edge, EVAL_AREAS - 2)) < 1)
		bad_usage("-O areas: want up to 6 ascending numbers: 1024,9216");
	o->narea = n + 2;
	for (int i = 0; i <= n; i++) {
		o->area[i + 1][0] = i ? edge[i - 1] : 0;
		o->area[i + 1][1] = i < n ? edge[i] : 1e10;
	}
	o->crowd = soft(settings_str(&c->set, "crowd"));
	o->difficult = soft(settings_str(&c->set, "difficult"));
	o->absent = *settings_str(&c->set, "absent") == 'z';
	o->thresh = settings_num(&c->set, "thresh");
	o->points = (int)settings_int(&c->set, "points");
	o->pixel = (int)settings_int(&c->set, "pixel");
	o->strict = !strcmp(settings_str(&c->set, "match"), "gt");
	o->ulp = *settings_str(&c->set, "recalls") == 'p';
	o->pycocotools = !strcmp(settings_str(&c->set, "compat"), "pycocotools");
	c->min_score = -1e300;
	s = settings_str(&c->set, "score");
	if (strcmp(s, "-inf") && num_real(s, -1e300, 1e300, &c->min_score))
		bad_usage("-O score: want a number");
	if (o->pycocotools)
		warn("-O compat=pycocotools: truths with id 0 stay unmatched, AP is -1 unless "
		    "maxDets end at 100");
}

/* Before anything is opened: what is read stays. */
static void
check_files(const struct cmd *c)
{
	static const char *const key[] = { "pr", "conf", "confusion", "worst", "suspects" };
	enum { KEYS = sizeof key / sizeof *key };
	const char *out[KEYS + 2] = { c->out, c->report };
	const char **in = (const char **)xcalloc((size_t)c->nin + 3, sizeof *in);
	struct err e;

	for (int i = 0; i < KEYS; i++)
		out[i + 2] = settings_str(&c->set, key[i]);
	for (int i = 0; i < c->nin; i++)
		in[i] = c->in[i];
	in[c->nin] = c->truth;
	in[c->nin + 1] = c->base;
	in[c->nin + 2] = c->names;
	if (path_clash(out, KEYS + 2, in, c->nin + 3, &e))
		die(2, "%s", e.msg);
	free(in);
}

/* What is written, in the end. */
struct result {
	struct cmd *c;
	struct eval_truth truth;
	struct dataset names;
	struct eval_run ours, base;
	struct eval_analysis analysis;
	struct eval_versus *versus;
	struct eval_change *change;
	int nversus, nchange;
};

/* ---- reading ---- */

/* What is read from stdin is read once. */
static int
one_stdin(const struct cmd *c, struct err *e)
{
	int n = !strcmp(c->truth, "-") + (c->base && !strcmp(c->base, "-")) +
	    (c->names && !strcmp(c->names, "-"));

	for (int i = 0; i < c->nin; i++)
		n += !strcmp(c->in[i], "-");
	return n > 1 ? err_set(e, "standard input is wanted %d times: it can be read once", n) : 0;
}

static void
prepare(struct result *r, struct eval_run *side)
{
	const char *w = settings_str(&r->c->set, "unknown"), *d = settings_str(&r->c->set, "dup");

	side->opt = &r->c->opt;
	side->truth = &r->truth;
	side->unknown = !w ? 0 : !strcmp(w, "skip") ? 1 : -1;
	side->dup = *d == 'w' ? 0 : *d == 'f' ? 1 : 2;
	side->min_score = r->c->min_score;
	side->names = r->names.class_name;
	side->nnames = r->names.nclass;
	side->tell = 1;
}

static int
read_all(struct result *r, struct err *e)
{
	struct cmd *c = r->c;
	char *base[1] = { (char *)c->base };
	int errors = settings_int(&c->set, "errors") || c->report;

	if (one_stdin(c, e) || eval_truth_read(&r->truth, c->truth, c->names, e) ||
	    (c->names && labels_names(&r->names, c->names, e)))
		return -1;
	prepare(r, &r->ours);
	if (errors || settings_str(&c->set, "confusion") || settings_str(&c->set, "worst") ||
	    settings_str(&c->set, "suspects"))
		r->ours.errors = eval_errors_open(&c->opt, r->truth.nclass);
	if (eval_run(&r->ours, c->in, c->nin, e))
		return -1;
	if (errors)
		eval_analyse(&r->analysis, r->ours.errors);
	if (!c->base)
		return 0;
	prepare(r, &r->base);
	if (eval_run(&r->base, base, 1, e))
		return -1;
	r->versus = eval_versus(r->ours.ev, r->base.ev, (int)settings_int(&c->set, "bootstrap"),
	    settings_num(&c->set, "level"), (uint64_t)c->seed, &r->nversus);
	r->change = eval_changes(r->ours.ev, r->base.ev, &r->nchange);
	return 0;
}

/* ---- writing ---- */

static void
print_rows(FILE *f, const char *cls, const struct eval_row *row, int n)
{
	for (int i = 0; i < n; i++) {
		fprintf(f, "%s\t", row[i].rule);
		tsv_name(f, cls);
		fprintf(f, "\t%s\t%.17g\n", row[i].metric, row[i].value);
	}
}

static void
print_metrics(struct result *r, FILE *f)
{
	struct eval_row row[EVAL_ROWS];
	struct eval_tables tab;
	struct eval *e = r->ours.ev;
	int last = e->opt.maxdet[e->opt.nmaxdet - 1];
	char id[32];

	fprintf(f, "#rule\tclass\tmetric\tvalue\n");
	print_rows(f, "-", row, eval_total(e, NULL, row));
	if (eval_has(&e->opt, EV_COCO) && last != 100)
		fprintf(f, "coco\t-\tmaxdets\t%d\n", last);
	if (!r->c->per_class)
		return;
	eval_tables(&tab, e, NULL);
	for (int c = 0; c < r->truth.nclass; c++)
		print_rows(f, eval_class_name(&r->truth, c, id), row, eval_class(e, &tab, c, row));
	eval_tables_free(&tab);
}

/* A table of its own file: -O key=FILE. */
static int
write_table(struct result *r, const char *key,
    void (*write)(FILE *, struct eval *, const struct eval_truth *, struct eval_errors *),
    struct err *e)
{
	const char *path = settings_str(&r->c->set, key);
	struct outfile o;

	if (!path)
		return 0;
	if (out_open(&o, path, e))
		return -1;
	write(o.f, r->ours.ev, &r->truth, r->ours.errors);
	return out_commit(&o, e);
}

static int
write_report(struct result *r, struct err *e)
{
	struct cmd *c = r->c;
	char *dets = xstrdup(c->in[0]);
	struct outfile o;

	if (c->nin > 1) {
		free(dets);
		dets = xasprintf("%s and %d more", c->in[0], c->nin - 1);
	}
	struct eval_report page = { .truth_path = c->truth, .dets_path = dets,
		.base_path = c->base, .truth = &r->truth, .ev = r->ours.ev,
		.errors = r->ours.errors, .analysis = &r->analysis, .versus = r->versus,
		.change = r->change, .nversus = r->nversus, .nchange = r->nchange,
		.resamplings = (int)settings_int(&c->set, "bootstrap"),
		.level = settings_num(&c->set, "level") };
	int bad = out_open(&o, c->report, e);

	if (!bad) {
		eval_report(o.f, &page);
		bad = out_commit(&o, e);
	}
	free(dets);
	return bad;
}

static int
write_all(struct result *r, struct err *e)
{
	struct outfile o;

	if (out_open(&o, r->c->out ? r->c->out : "-", e))
		return -1;
	print_metrics(r, o.f);
	if (settings_int(&r->c->set, "errors"))
		eval_analysis_print(o.f, &r->analysis, &r->truth, r->c->per_class);
	if (r->versus)
		eval_versus_print(o.f, r->versus, r->nversus, r->change, r->nchange, &r->truth);
	return out_commit(&o, e) || write_table(r, "pr", eval_write_pr, e) ||
	    write_table(r, "conf", eval_write_conf, e) ||
	    write_table(r, "confusion", eval_write_confusion, e) ||
	    write_table(r, "worst", eval_write_worst, e) ||
	    write_table(r, "suspects", eval_write_suspects, e) ||
	    (r->c->report && write_report(r, e)) ? -1 : 0;
}

static int
run(struct cmd *c, struct err *e)
{
	struct result r;
	int bad;

	memset(&r, 0, sizeof r);
	r.c = c;
	bad = read_all(&r, e) || write_all(&r, e);
	eval_run_close(&r.ours);
	eval_run_close(&r.base);
	eval_errors_close(r.ours.errors);
	eval_analysis_free(&r.analysis);
	free(r.versus);
	free(r.change);
	labels_close(&r.names);
	eval_truth_close(&r.truth);
	return bad;
}

/* Nothing is to be saved: it ends at once, without what it was writing. */
static void
on_signal(int sig)
{
	(void)sig;
}

int
main(int argc, char **argv)
{
	struct cmd c;
	struct err e = { "" };
	int r;

	program(argv, "yolo-eval");
	memset(&c, 0, sizeof c);
	settings_open(&c.set, table);
	eval_defaults(&c.opt);
	parse(&c, argc, argv);
	check(&c);
	check_files(&c);
	catch_end(on_signal, 1e-3);
	if ((r = run(&c, &e)))
		warn("%s", e.msg);
	settings_close(&c.set);
	return r ? 1 : 0;
}
