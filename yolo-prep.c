/* yolo-prep.c -- labelled pictures into a shard, and what can be done with one. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"

static volatile int stop;
static int stopped_by;

static const struct option longopt[] = {
	{ "names", 1, NULL, 'n' }, { "side", 1, NULL, 's' }, { "quality", 1, NULL, 'Q' },
	{ "jobs", 1, NULL, 'j' }, { "max-bad", 1, NULL, 'm' }, { "report", 1, NULL, 'l' },
	{ "null", 0, NULL, '0' }, { "output", 1, NULL, 'o' }, { "split", 1, NULL, 'Z' },
	{ "table", 0, NULL, 't' }, { "check", 0, NULL, 'C' }, { "extract", 1, NULL, 'x' },
	{ "format", 1, NULL, 'f' }, { "option", 1, NULL, 'O' }, { "quiet", 0, NULL, 'q' },
	{ "help", 0, NULL, 'h' }, { "version", 0, NULL, 'V' }, { NULL, 0, NULL, 0 },
};
static const struct setting settings[] = {
	{ "exif", "1", "0|1", "turn pictures as EXIF says; 0: boxes are on the pixels as stored" },
	{ "salvage", "0", "int 0..1",
	    "take what is whole from a shard or stream that is cut or damaged" },
	{ "split", "train", "train|val|test|all",
	    "the part of a data.yaml, a .data file or a folder that has several; all: of a folder "
	    "all" },
	{ NULL, NULL, NULL, NULL },
};

struct cmd {
	int mode;			/* 0 pack, 't', 'C', 'x' */
	const char *dir, *format, *report;
	struct pack_opts pack;
	struct settings set;
};
struct report { struct outfile out; int tsv; };

static void
usage(FILE *f)
{
	fputs("usage: yolo-prep [-n names] [-s side] [-Q quality] [-j n] [-m maxbad] [-l "
	      "report.tsv]\n"
	      "                 [-Z bytes] [-0] [-q] [-O key=value] -o OUT.shard INPUT...\n"
	      "       yolo-prep -t SHARD...                   table of the records\n"
	      "       yolo-prep -C SHARD...                   check every byte\n"
	      "       yolo-prep -x DIR [-f yolo|coco|voc] SHARD...   unpack\n"
	      "INPUT: COCO file.json[:imagedir], VOC folder or split file, list, .data[:valid],\n"
	      "       data.yaml[:val], folder of pictures, shard, - (list or shard on stdin)\n",
	    f);
}

/* 1G, 500M, 4096. */
static int
bytes(const char *s, uint64_t *out)
{
	size_t n = strlen(s);
	const char *unit = "KMGT", *u = n > 1 ? strchr(unit, s[n - 1]) : NULL;
	char *digits = xasprintf("%.*s", (int)(n - (u && *u)), s);
	long v;
	int bad = num_int(digits, 1, 1L << 40, &v), shift = u && *u ? (int)(u - unit + 1) * 10 : 0;

	free(digits);
	if (bad || v > INT64_MAX >> shift)
		return -1;
	*out = (uint64_t)v << shift;
	return 0;
}

static void
bad_value(int c, const char *want)
{
	die(2, "-%c %s: want %s", c, optarg, want);
}

static void
mode(struct cmd *c, int m)
{
	if (c->mode && c->mode != m)
		die(2, "-%c and -%c exclude each other", c->mode, m);
	c->mode = m;
}

static void
option(struct cmd *c, int letter)
{
	struct pack_opts *p = &c->pack;
	long v = 0;

	switch (letter) {
	case 'n': p->names = optarg; break;
	case 's':
		if (num_side(optarg, &p->w, &p->h))
			bad_value('s', "a side as in 416 or 608x352");
		break;
	case 'Q':
		if (num_int(optarg, 1, 100, &v))
			bad_value('Q', "1 to 100");
		p->quality = (int)v;
		break;
	case 'j':
		if (num_int(optarg, 1, 4096, &v))
			bad_value('j', "1 to 4096");
		p->threads = (int)v;
		break;
	case 'm':
		if (num_int(optarg, 0, 1L << 40, &p->max_bad))
			bad_value('m', "a number of labels or pictures, from 0");
		break;
	case 'l': c->report = optarg; break;
	case '0': p->nul = 1; break;
	case 'o': p->out = optarg; break;
	case 'Z':
		if (bytes(optarg, &p->limit) || p->limit < 1 << 16)
			bad_value('Z', "bytes as in 1G, at least 64K");
		break;
	case 't': mode(c, 't'); break;
	case 'C': mode(c, 'C'); break;
	case 'x': mode(c, 'x'); c->dir = optarg; break;
	case 'f':
		c->format = optarg;
		if (strcmp(optarg, "yolo") && strcmp(optarg, "coco") && strcmp(optarg, "voc"))
			bad_value('f', "yolo, coco or voc");
		break;
	case 'O': settings_option(&c->set, optarg); break;
	case 'q': quiet = 1; break;
	case 'h': usage(stdout); exit(0);
	case 'V': printf("yolo-prep %s\n", YOLO_VERSION); exit(0);
	default: usage(stderr); exit(2);
	}
}

/* One line of the report: kind, place, message. */
static void
report(void *arg, int kind, const char *line)
{
	static const char *const name[] = { "note", "label", "picture", "part" };
	struct report *r = (struct report *)arg;
	const char *colon = strstr(line, ": ");
	char *place;

	if (!r->tsv) {
		warn("%s%s", kind == SAY_NOTE ? "note: " : "", line);
		return;
	}
	place = xasprintf("%.*s", colon ? (int)(colon - line) : 0, line);
	fprintf(r->out.f, "%s\t", name[kind]);
	tsv_name(r->out.f, place);
	putc('\t', r->out.f);
	tsv_name(r->out.f, colon ? colon + 2 : line);
	putc('\n', r->out.f);
	free(place);
}

static void
on_signal(int sig)
{
	stopped_by = sig;
	stop = 1;
}

/* Before anything is opened: what is read stays. */
static void
check_files(const struct cmd *c)
{
	const char *out[] = { c->pack.out, c->report };
	const char **in = (const char **)xcalloc((size_t)c->pack.nin + 1, sizeof *in);
	struct err e;

	for (int i = 0; i < c->pack.nin; i++)
		in[i] = c->pack.in[i];
	in[c->pack.nin] = c->pack.names;
	if (path_clash(out, 2, in, c->pack.nin + 1, &e))
		die(2, "%s", e.msg);
	free(in);
}

static int
pack(struct cmd *c)
{
	static char *from_stdin[] = { (char *)"-" };
	struct pack_result res;
	struct report rep;
	struct err e, e2;
	int r;

	memset(&rep, 0, sizeof rep);
	rep.tsv = c->report != NULL;
	check_files(c);
	if (c->report && out_open(&rep.out, c->report, &e))
		die(1, "%s", e.msg);
	if (rep.tsv)
		fputs("#kind\tplace\tmessage\n", rep.out.f);
	if (!c->pack.nin) {
		c->pack.in = from_stdin;
		c->pack.nin = 1;
	}
	c->pack.report = report;
	c->pack.arg = &rep;
	c->pack.stop = &stop;
	c->pack.split = settings_str(&c->set, "split");
	c->pack.stored = !settings_int(&c->set, "exif");
	c->pack.salvage = (int)settings_int(&c->set, "salvage");
	catch_end(on_signal, .5);
	r = pack_run(&c->pack, &res, &e);
	if (rep.tsv && out_commit(&rep.out, &e2) && !r) {
		warn("%s", e2.msg);
		return 1;
	}
	if (r)
		warn("%s", e.msg);
	if (!quiet)
		warn("%ld pictures, %ld boxes, %d classes%s; %ld labels refused, %ld pictures left "
		     "out, %ld "
		     "notes%s%s",
		    res.pictures, res.boxes, res.classes, r ? " read" : " packed", res.refused,
		    res.bad, res.notes, c->report ? ", see " : "", c->report ? c->report : "");
	if (!quiet && !r && res.boxes && res.untrained == res.boxes)
		warn("all %ld boxes are crowds or difficult: there is nothing to train on",
		    res.boxes);
	if (stopped_by)
		return 128 + stopped_by;
	return r ? 1 : 0;
}

static int
table(char *const *in, int n)
{
	static const char *const codec[] = { "jpeg", "png", "other", "raw" };
	struct shard *s;
	struct record r;
	struct err e;

	printf("#shard\trecord\timage\tid\tw\th\tcodec\texif\tbytes\tboxes\n");
	for (int i = 0; i < n; i++) {
		if (shard_again(in, i))
			continue;
		if (!(s = shard_open(in[i], &e)))
			die(1, "%s", e.msg);
		for (long k = 0; k < shard_count(s); k++) {
			if (shard_labels(s, k, &r, &e))
				die(1, "%s", e.msg);
			tsv_name(stdout, in[i]);
			printf("\t%ld\t", k);
			tsv_name(stdout, r.name);
			printf("\t%lld\t%d\t%d\t%s\t%d\t%zu\t%d\n", (long long)r.id, r.w, r.h,
			    codec[r.codec & 3], r.orientation & ~REC_TURN, r.nbytes, r.nbox);
		}
		shard_close(s);
	}
	return 0;
}

static int
check(char *const *in, int n)
{
	struct shard *s;
	struct err e;
	long records;
	int bad = 0;

	printf("#shard\trecords\tuuid\tstate\n");
	for (int i = 0; i < n; i++) {
		int r;

		if (shard_again(in, i))
			continue;
		r = shard_check(in[i], &records, &e);
		s = r ? NULL : shard_open(in[i], &e);
		if (!s)
			warn("%s", e.msg);
		bad |= !s;
		tsv_name(stdout, in[i]);
		printf("\t%ld\t%s\t%s\n", records, s ? shard_uuid(s) : "-", s ? "ok" : "bad");
		shard_close(s);
	}
	return bad;
}

static int
unpack(const struct cmd *c, char *const *in, int n)
{
	struct err e;
	long pictures = 0;

	catch_end(on_signal, .5);
	if (unpack_run(c->dir, c->format ? c->format : "yolo", in, n, &pictures, &stop, &e)) {
		warn("%s", e.msg);
		return stopped_by ? 128 + stopped_by : 1;
	}
	if (!quiet)
		warn("%ld pictures in %s", pictures, c->dir);
	return 0;
}

int
main(int argc, char **argv)
{
	struct cmd c;
	int letter, r;

	program(argv, "yolo-prep");
	memset(&c, 0, sizeof c);
	c.pack.max_bad = -1;
	c.pack.threads = cores();
	settings_open(&c.set, settings);
	while (
	    (letter = getopt_long(argc, argv, "n:s:Q:j:m:l:0o:Z:tCx:f:O:qhV", longopt, NULL)) != -1)
		option(&c, letter);
	argc -= optind;
	argv += optind;
	if (c.mode && !argc)
		die(2, "-%c: name a shard", c.mode);
	if (!c.mode && !c.pack.out)
		die(2, "name the output: -o OUT.shard (-h shows the usage)");
	if (c.mode && c.pack.out)
		die(2, "-%c and -o exclude each other", c.mode);
	if (c.format && c.mode != 'x')
		die(2, "-f goes with -x");
	c.pack.in = argv;
	c.pack.nin = argc;
	r = c.mode == 't' ? table(argv, argc) : c.mode == 'C' ? check(argv, argc) :
	    c.mode == 'x' ? unpack(&c, argv, argc) : pack(&c);
	settings_close(&c.set);
	return r;
}
