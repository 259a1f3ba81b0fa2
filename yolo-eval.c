/* yolo-eval.c -- the program: score detections against truth.
 *
 * Results are rows `rule class metric value` on stdout; what was noticed about the input goes to
 * stderr.  Truth is read whole, detections pass through (evalset.c). */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"

static const struct setting table[] = { { "areas", "1024,9216", "text",
					    "borders of the area ranges, in pixels" },
	{ "bootstrap", "1000", "int 0..1000000", "resamplings for -D" },
	{ "compat", "none", "none|pycocotools",
	    "pycocotools' known bugs too: truths with id 0, AP at "
	    "other maxDets" },
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
	{ "unknown", NULL, "skip|error",
	    "pictures or classes not in the truth (error for pictures, skip "
	    "for category ids)" },
	{ "worst", NULL, "text", "write the worst pictures to this file" },
	{ NULL, NULL, NULL, NULL } };
static const struct option longs[] = {
	{ "base", 1, NULL, 'D' }, { "help", 0, NULL, 'h' }, { "iou", 1, NULL, 'i' },
	{ "maxdets", 1, NULL, 'M' }, { "metrics", 1, NULL, 'm' }, { "names", 1, NULL, 'n' },
	{ "option", 1, NULL, 'O' }, { "output", 1, NULL, 'o' }, { "per-class", 0, NULL, 'C' },
	{ "quiet", 0, NULL, 'q' }, { "seed", 1, NULL, 'S' }, { "threads", 1, NULL, 'j' },
	{ "truth", 1, NULL, 't' }, { "version", 0, NULL, 'V' }, { NULL, 0, NULL, 0 }
};
static const char usage[] =
    "usage: yolo-eval [-hqVC] [-D base] [-i ious] [-j threads] [-M maxdets] [-m rules]\n"
    "                 [-n names] [-O key=value] [-o out] [-S seed] -t truth [dets ...]\n";

struct cmd {
	struct settings set;
	struct eval_opts opt;
	const char *truth, *base, *names, *out;
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

static int
parse_rules(struct eval_opts *o, const char *s)
{
	o->rules = 0;
	for (;;) {
		size_t n = strcspn(s, ",");
		int r = 0;

		while (r < EV_RULES &&
		       (strlen(eval_rule_name[r]) != n || memcmp(eval_rule_name[r], s, n)))
			r++;
		if (r == EV_RULES)
			return -1;
		o->rules |= 1u << r;
		if (!s[n])
			return 0;
		s += n + 1;
	}
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
	struct err e;
	double v[EVAL_IOUS];
	long n;
	int ch;

	while ((ch = getopt_long(argc, argv, "CD:hi:j:M:m:n:O:o:qS:t:V", longs, NULL)) != -1)
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
					bad_usage("-M: want whole numbers");
			break;
		case 'm':
			if (parse_rules(o, optarg))
				bad_usage("-m: want some of "
					  "coco,voc07,voc10,darknet,ultralytics,ultralytics-2019");
			break;
		case 'n': c->names = optarg; break;
		case 'O':
			if (!strcmp(optarg, "help")) {
				settings_help(&c->set, stdout);
				exit(0);
			}
			if (settings_set(&c->set, optarg, &e))
				bad_usage(e.msg);
			break;
		case 'o': c->out = optarg; break;
		case 'q': quiet = 1; break;
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
	return *word == 'o'   ? EV_ORIGINAL
	       : *word == 'd' ? EV_IGNORE
	       : *word == 'r' ? EV_REMOVE
			      : EV_TRUTH;
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
		     "maxDets end at "
		     "100");
}

/* ---- reading ---- */

struct side_run {
	struct cmd *c;
	const struct eval_truth *truth;
	struct eval_set set;
	struct eval *ev;
	struct eval_errors *errors;	/* NULL: not asked for */
};

static struct eval *
renew(void *arg, struct eval *old)
{
	struct side_run *r = (struct side_run *)arg;

	eval_close(old);
	if (r->errors)
		eval_errors_reset(r->errors);
	return r->ev = eval_open(&r->c->opt, r->truth->nclass);
}

static int
tell_unknown(struct side_run *r, struct err *e)
{
	struct eval_set *s = &r->set;
	const char *w = settings_str(&r->c->set, "unknown");
	char list[400] = "";
	size_t n = 0;

	for (int k = 0; k < 5 && (size_t)k < s->unknown.n; k++)
		for (size_t i = 0; i < s->unknown.cap; i++)
			if (s->unknown.key[i] && s->unknown.value[i] == k && n < sizeof list - 1)
				n += (size_t)snprintf(list + n, sizeof list - n, "%s%.60s",
				    k ? ", " : "", s->unknown.key[i]);
	if (s->bad_images) {
		err_set(e, "%zu detections of %zu pictures that are not in the truth: %s%s",
		    s->bad_images, s->unknown.n, list, s->unknown.n > 5 ? ", ..." : "");
		if (!w || !strcmp(w, "error"))
			return -1;
		warn("%s; left out", e->msg);
	}
	if (s->bad_classes) {
		n = 0;
		for (int i = 0, k = 0; i < s->nside && k < 5; i++)
			if (s->side[i].n && n < sizeof list - 1) {
				char num[32];

				snprintf(num, sizeof num, "%lld", (long long)s->side[i].cls);
				n += (size_t)snprintf(list + n, sizeof list - n, "%s%.60s",
				    k++ ? ", " : "", s->side[i].name ? s->side[i].name : num);
			}
		err_set(e, "%zu detections of classes that are not in the truth: %s",
		    s->bad_classes, list);
		if (w && !strcmp(w, "error"))
			return -1;
		warn("%s; left out", e->msg);
	}
	return 0;
}

static void
tell_classes(const struct side_run *r)
{
	const struct eval_set *s = &r->set;

	if (!s->by_position || quiet)
		return;
	warn("class names differ; classes are matched by position:");
	for (int i = 0; i < s->nside; i++)
		warn("  %lld %s = %s", (long long)s->side[i].cls,
		    s->side[i].name ? s->side[i].name : "-",
		    r->truth->class_name[s->side[i].to] ? r->truth->class_name[s->side[i].to]
							: "-");
}

/* Classes that only one side has. */
static void
tell_absent(const struct side_run *r)
{
	struct eval *e = r->ev;
	long *truths = (long *)xcalloc((size_t)e->nclass + 1, sizeof *truths), nt = 0, nd = 0,
	     fp = 0;

	eval_finish(e);
	for (size_t i = 0; i < e->nt; i++)
		truths[e->tcls[i]]++;
	for (int c = 0; c < e->nclass; c++) {
		size_t n = e->cstart[c + 1] - e->cstart[c];

		nt += truths[c] && !n;
		nd += !truths[c] && n;
		fp += !truths[c] ? (long)n : 0;
	}
	if (nt && !quiet)
		warn("%ld classes of the truth were never detected", nt);
	if (nd && !quiet)
		warn(
		    "%ld classes have detections (%ld) and no truth; means leave them out", nd, fp);
	free(truths);
}

static int
read_side(struct side_run *r, char *const *path, int n, char **names, int nnames, struct err *e)
{
	const char *w = settings_str(&r->c->set, "unknown"), *d = settings_str(&r->c->set, "dup");
	struct eval_set *s = &r->set;

	r->ev = eval_open(&r->c->opt, r->truth->nclass);
	eval_set_open(s, r->truth, r->ev);
	s->min_score = r->c->min_score;
	s->skip_unknown = w && !strcmp(w, "skip") ? -1 : 0;
	s->dup = *d == 'w' ? 0 : *d == 'f' ? 1 : 2;
	s->names = names;
	s->nnames = nnames;
	if (r->errors) {
		s->each = eval_errors_add;
		s->arg = r->errors;
	}
	if (eval_set_read(s, path, n, renew, r, e) || tell_unknown(r, e))
		return -1;
	if (s->dup_images) {
		const struct eval_pic *p = r->truth->pic + s->dup_first;

		err_set(e,
		    "%zu pictures have the same detections twice, first %s (a distributed run that "
		    "pads?)",
		    s->dup_images, p->name ? p->name : "");
		if (s->dup == 2)
			return -1;
		warn("%s%s", e->msg,
		    s->dup ? "; the first of each is used" : "; -O dup=first leaves one");
	}
	tell_classes(r);
	tell_absent(r);
	if (!quiet)
		warn("%d pictures, %zu truths, %zu detections%s", r->truth->n, r->truth->nbox,
		    s->total, s->low ? " (some under -O score)" : "");
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
print_metrics(struct side_run *r, FILE *f)
{
	struct eval_row row[EVAL_ROWS];
	char num[32];
	int n;

	fprintf(f, "#rule\tclass\tmetric\tvalue\n");
	n = eval_total(r->ev, NULL, row);
	print_rows(f, "-", row, n);
	if ((r->c->opt.rules & 1) && r->c->opt.maxdet[r->c->opt.nmaxdet - 1] != 100)
		fprintf(f, "coco\t-\tmaxdets\t%d\n", r->c->opt.maxdet[r->c->opt.nmaxdet - 1]);
	for (int c = 0; c < r->truth->nclass && r->c->per_class; c++) {
		snprintf(num, sizeof num, "%lld", (long long)r->truth->class_id[c]);
		n = eval_class(r->ev, c, row);
		print_rows(f, r->truth->class_name[c] ? r->truth->class_name[c] : num, row, n);
	}
}

/* A table of its own file: -O key=FILE. */
static int
write_table(struct side_run *r, const char *key,
    void (*write)(FILE *, struct eval *, const struct eval_truth *, struct eval_errors *),
    struct err *e)
{
	const char *path = settings_str(&r->c->set, key);
	struct outfile o;

	if (!path)
		return 0;
	if (out_open(&o, path, e))
		return -1;
	write(o.f, r->ev, r->truth, r->errors);
	return out_commit(&o, e);
}

static int
write_all(struct side_run *r, struct side_run *base, struct err *e)
{
	struct outfile o;

	if (out_open(&o, r->c->out ? r->c->out : "-", e))
		return -1;
	print_metrics(r, o.f);
	if (settings_int(&r->c->set, "errors"))
		eval_errors_print(o.f, r->ev, r->truth, r->errors, r->c->per_class);
	if (base->ev)
		eval_compare(o.f, r->ev, base->ev, r->truth,
		    (int)settings_int(&r->c->set, "bootstrap"), settings_num(&r->c->set, "level"),
		    (uint64_t)r->c->seed);
	return out_commit(&o, e) || write_table(r, "pr", eval_write_pr, e) ||
	    write_table(r, "conf", eval_write_conf, e) ||
	    write_table(r, "confusion", eval_write_confusion, e) ||
	    write_table(r, "worst", eval_write_worst, e) ||
	    write_table(r, "suspects", eval_write_suspects, e) ? -1 : 0;
}

static int
run(struct cmd *c, struct err *e)
{
	struct eval_truth t;
	struct dataset names;
	struct side_run a = { .c = c, .truth = &t }, b = { .c = c, .truth = &t };
	char *base[1] = { (char *)c->base };
	int r;

	memset(&names, 0, sizeof names);
	if (eval_truth_read(&t, c->truth, c->names, e))
		return -1;
	if (settings_int(&c->set, "errors") || settings_str(&c->set, "confusion") ||
	    settings_str(&c->set, "worst") || settings_str(&c->set, "suspects"))
		a.errors = eval_errors_open(&c->opt, t.nclass);
	r = (c->names && labels_names(&names, c->names, e)) ||
	    read_side(&a, c->in, c->nin, names.class_name, names.nclass, e) ||
	    (c->base && read_side(&b, base, 1, names.class_name, names.nclass, e)) ||
	    write_all(&a, &b, e);
	eval_errors_close(a.errors);
	if (a.ev)
		eval_set_close(&a.set);
	if (b.ev)
		eval_set_close(&b.set);
	eval_close(a.ev);
	eval_close(b.ev);
	labels_close(&names);
	eval_truth_close(&t);
	return r;
}

int
main(int argc, char **argv)
{
	struct cmd c;
	struct err e = { "" };
	int r;

	prog = "yolo-eval";
	memset(&c, 0, sizeof c);
	settings_open(&c.set, table);
	eval_defaults(&c.opt);
	parse(&c, argc, argv);
	check(&c);
	if ((r = run(&c, &e)))
		warn("%s", e.msg);
	settings_close(&c.set);
	return r ? 1 : 0;
}
