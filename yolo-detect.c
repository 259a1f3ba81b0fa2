/* yolo-detect.c -- detect with a trained network: options, model, and the loop over batches.
 *
 * Workers decode the next batch while this one is computed (inputs.c); detect.c makes boxes of the
 * network's output; detwrite.c writes them.  A picture that cannot be read costs a line and the
 * exit status, not the others. */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"

static const char usage[] =
    "usage: yolo-detect [-hqV] [-b batch] [-c cfg] [-d device] [-f tsv|json|coco|yolo] [-i iou]\n"
    "                   [-j threads] [-k nms] [-n names] [-O key=value] [-o output]\n"
    "                   [-p precision] [-s side] [-t score] [-x dir] -w weights [input ...]\n";

static const struct option longopts[] = {
	{ "batch", 1, NULL, 'b' }, { "cfg", 1, NULL, 'c' }, { "device", 1, NULL, 'd' },
	{ "format", 1, NULL, 'f' }, { "help", 0, NULL, 'h' }, { "iou", 1, NULL, 'i' },
	{ "threads", 1, NULL, 'j' }, { "nms", 1, NULL, 'k' }, { "names", 1, NULL, 'n' },
	{ "option", 1, NULL, 'O' }, { "output", 1, NULL, 'o' }, { "precision", 1, NULL, 'p' },
	{ "quiet", 0, NULL, 'q' }, { "side", 1, NULL, 's' }, { "score", 1, NULL, 't' },
	{ "version", 0, NULL, 'V' }, { "weights", 1, NULL, 'w' }, { "draw", 1, NULL, 'x' },
	{ NULL, 0, NULL, 0 }
};

static const struct setting table[] = {
	{ "bn_eps", "1e-5", "0..1", "added to variances; OpenCV reads darknet files with 1e-6" },
	{ "clip", "1", "0|1", "cut boxes at the picture's edges" },
	{ "cutoff", NULL, "int 1..100000", "load only the first N layers of a .weights file" },
	{ "deterministic", "0", "0|1", "CUDA: the same bits in every run" },
	{ "emulate", "0", "0|1",
	    "bfloat16 by -p also on a CPU without it: the same numbers, slowly" },
	{ "eval", "0", "0|1",
	    "as validation does: -t 0.001 -i 0.6 -k merge, max_det 300, resize stb" },
	{ "exact", "0", "0|1", "plain kernels only" },
	{ "exif", "1", "0|1", "turn pictures as EXIF says; 0: boxes are on the pixels as stored" },
	{ "ids", NULL, "text", "truth whose image and category ids -f coco writes" },
	{ "max_det", NULL, "int 0..1000000000", "most detections of a picture, 0 all (by -k)" },
	{ "rect", "0", "0|1",
	    "pad pictures to whole strides only, not to the network's size: less to compute" },
	{ "resize", NULL, "stb|bilinear|darknet",
	    "how to resize pictures (.weights darknet, else stb)" },
	{ "softmax", NULL, "0|1",
	    "decode classes by softmax (1 where a checkpoint's loss asks for it)" },
	{ "stretch", "0", "0|1", "stretch pictures to the network's size instead of a letterbox" },
	{ "threads", NULL, "int 1..1024", "compute threads (the cores that may be used)" },
	{ NULL, NULL, NULL, NULL }
};

struct cmd {
	const char *arg[128];		/* arguments of the option letters, NULL where not given */
	char **in;
	int nin;
	struct settings set;
	long batch, jobs;
	double score, iou;
	int w, h;			/* -s, else 0 */
};
struct job {
	struct cfg *cfg;
	struct dev *dev;
	struct detector *det;
	struct detwrite *out;
	struct dataset names, truth;
	int darknet, softmax;		/* of the weights file: its kind, its loss */
	long pictures, found, failed, turned;
	double began;
};

static volatile sig_atomic_t asked;
static struct inputs *running;
static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER;

static void
on_signal(int sig)
{
	asked = sig;
	pthread_mutex_lock(&running_lock);
	if (running)
		inputs_stop(running);
	pthread_mutex_unlock(&running_lock);
}

static void
set_running(struct inputs *in)
{
	pthread_mutex_lock(&running_lock);
	running = in;
	pthread_mutex_unlock(&running_lock);
}

/* ---- options ------------------------------------------------------------------------------- */

static void
version(void)
{
	char devs[4096];

	dev_list(devs, sizeof devs);
	printf("yolo-detect %s\n%s", YOLO_VERSION, devs);
}

static void
parse(struct cmd *c, int argc, char **argv)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "b:c:d:f:hi:j:k:n:O:o:p:qs:t:Vw:x:", longopts,
	    NULL)) >= 0)
		switch (opt) {
		case 'h': fputs(usage, stdout); exit(0);
		case 'V': version(); exit(0);
		case 'q': quiet = 1; break;
		case '?': fputs(usage, stderr); exit(2);
		case 'O': settings_option(&c->set, optarg); break;
		default: c->arg[opt] = optarg; break;
		}
	c->in = argv + optind;
	c->nin = argc - optind;
}

static void
check(struct cmd *c)
{
	const char *const *a = c->arg;
	struct dev_opts precision;
	struct err e;

	c->batch = DETECT_BATCH;
	c->jobs = 2;
	if (!a['w'])
		die(2, "no weights: -w names a .weights or .safetensors file");
	if (a['b'] && num_int(a['b'], 1, 65536, &c->batch))
		die(2, "-b %s: want a whole number from 1 to 65536", a['b']);
	if (a['j'] && num_int(a['j'], 1, 1024, &c->jobs))
		die(2, "-j %s: want a whole number from 1 to 1024", a['j']);
	if (a['t'] && num_real(a['t'], 0, 1, &c->score))
		die(2, "-t %s: want a score from 0 to 1", a['t']);
	if (a['i'] && num_real(a['i'], 0, 1, &c->iou))
		die(2, "-i %s: want an IoU from 0 to 1", a['i']);
	if (a['s'] && num_side(a['s'], &c->w, &c->h))
		die(2, "-s %s: want a side such as 416 or 608x352", a['s']);
	if (dev_precision(&precision, a['p'], &e))
		die(2, "%s", e.msg);
	if (a['f'] && strcmp(a['f'], "tsv") && strcmp(a['f'], "json") && strcmp(a['f'], "coco") &&
	    strcmp(a['f'], "yolo"))
		die(2, "-f %s: want tsv, json, coco or yolo", a['f']);
	if (a['f'] && !strcmp(a['f'], "yolo") && (!a['o'] || !strcmp(a['o'], "-")))
		die(2, "-f yolo writes a file a picture: -o names their folder");
}

/* Before anything is opened: what is read stays. */
static void
check_files(const struct cmd *c)
{
	const char **in = (const char **)xcalloc((size_t)c->nin + 4, sizeof *in);
	const char *out = c->arg['o'];
	struct err e;

	for (int i = 0; i < c->nin; i++)
		in[i] = c->in[i];
	in[c->nin] = c->arg['w'];
	in[c->nin + 1] = c->arg['c'];
	in[c->nin + 2] = c->arg['n'];
	in[c->nin + 3] = settings_str(&c->set, "ids");
	if (path_clash(&out, 1, in, c->nin + 4, &e))
		die(2, "%s", e.msg);
	free(in);
}

/* ---- the model ----------------------------------------------------------------------------- */

/* A checkpoint knows how it was trained: -c may change the input's size, not what the layers do. */
static int
agrees(const struct cfg *given, const char *path, const char *text, struct err *e)
{
	struct cfg *own = cfg_parse(path, text, strlen(text), e);
	const char *key;
	int i, line;

	if (!own)
		return -1;
	key = cfg_other(given, own, &i);
	line = i < given->nl ? given->l[i].line : 0;
	cfg_close(own);
	return !key ? 0 : err_set(e, "%s:%d: layer %d was trained with another %s, says %s: "
	    "leave out -c, or name the run.cfg of that training", given->path, line, i, key, path);
}

/* The names that a checkpoint carries, a line each; an empty one is none. */
static void
own_names(struct dataset *d, const char *text)
{
	for (const char *p = text; p && *p; p += strcspn(p, "\n"), p += *p == '\n') {
		char *name = xasprintf("%.*s", (int)strcspn(p, "\n"), p);

		label_new_class(d, *name ? name : NULL, d->nclass);
		free(name);
	}
}

/* The cfg: -c, else what a checkpoint carries; its class names unless -n gives some; and how its
 * loss decodes classes. */
static int
open_cfg(struct job *j, const struct cmd *c, struct err *e)
{
	const char *path = c->arg['w'], *loss = NULL;
	struct st *st = NULL;
	char *text, *names;
	int bad, is;

	if (strcmp(path, "-") && access(path, R_OK))
		return err_set(e, "%s: %s", path, strerror(errno));
	if (weights_foreign(path, e))
		return -1;
	if ((is = weights_is_st(path, e)) < 0)
		return -1;
	j->darknet = !is;
	if (is && !(st = st_open(path, e)))
		return -1;
	if (st && (loss = st_meta(st, "loss")) && loss_kind(loss) >= 0)
		j->softmax = detect_softmax((enum loss_kind)loss_kind(loss));
	text = st ? checkpoint_cfg(st) : NULL;
	names = st && !c->arg['n'] ? checkpoint_names(st) : NULL;
	own_names(&j->names, names);
	free(names);
	if (c->arg['c'])
		j->cfg = cfg_read(c->arg['c'], e);
	else if (text)
		j->cfg = cfg_parse(path, text, strlen(text), e);
	else
		err_set(e, "%s: holds no cfg: -c names the one that it belongs to", path);
	bad = !j->cfg || (c->arg['c'] && text && agrees(j->cfg, path, text, e));
	free(text);
	st_close(st);
	return bad ? -1 : 0;
}

static void
options(const struct job *j, const struct cmd *c, struct detect_opts *o)
{
	const struct settings *s = &c->set;
	const char *resize = settings_str(s, "resize");
	struct nms m;
	struct err e;

	detect_defaults(o, j->cfg);
	if (settings_int(s, "eval"))
		detect_eval(o);
	if (c->arg['k']) {
		if (nms_method(&m, c->arg['k'], &e))
			die(2, "-k: %s", e.msg);
		m.score_thresh = o->nms.score_thresh;
		m.iou_thresh = o->nms.iou_thresh;
		if (settings_int(s, "eval"))
			m.max_det = o->nms.max_det;
		o->nms = m;
	}
	if (c->arg['t'])
		o->nms.score_thresh = c->score;
	if (c->arg['i'])
		o->nms.iou_thresh = c->iou;
	if (settings_given(s, "max_det"))
		o->nms.max_det = (int)settings_int(s, "max_det");
	o->batch = (int)c->batch;
	o->w = c->w;
	o->h = c->h;
	o->clip = (int)settings_int(s, "clip");
	o->stretch = (int)settings_int(s, "stretch");
	o->rect = (int)settings_int(s, "rect");
	if (o->stretch && o->rect)
		die(2, "-O rect=1 is about letterboxes: not with -O stretch=1");
	o->softmax = settings_given(s, "softmax") ? (int)settings_int(s, "softmax") : j->softmax;
	if (!resize)
		resize = j->darknet && !settings_int(s, "eval") ? "darknet" : "stb";
	o->resize = *resize == 's' ? RESIZE_STB : *resize == 'b' ? RESIZE_BILINEAR : RESIZE_DARKNET;
}

/* Batch-norm adds 1e-5 where it is folded; another addend is a change of the variances, also of
 * the averaged ones. */
static void
change_eps(const struct params *p, struct weights *w, double eps)
{
	float *set[2] = { w->stat, w->ema_stat };

	for (int i = 0; i < p->np; i++)
		for (int s = 0; s < 2 && p->p[i].kind == P_VAR && set[s]; s++)
			for (size_t k = p->p[i].off; k < p->p[i].off + p->p[i].n; k++)
				set[s][k] = (float)(set[s][k] + eps - 1e-5);
}

static int
load(struct job *j, const struct cmd *c, struct err *e)
{
	const struct params *p = &j->det->net->par;
	struct weights w;
	int bad, cutoff = settings_given(&c->set, "cutoff") ? (int)settings_int(&c->set, "cutoff") :
	    -1;

	weights_init(j->det->cfg, p, 0, &w);
	bad = weights_load(c->arg['w'], j->det->cfg, p, &w, cutoff, e);
	if (!bad && settings_given(&c->set, "bn_eps"))
		change_eps(p, &w, settings_num(&c->set, "bn_eps"));
	if (!bad)
		detector_put(j->det, &w);
	weights_free(&w);
	return bad;
}

static void
no_report(void *arg, int refused, const char *line)	/* only names and ids are wanted */
{
	(void)arg;
	(void)refused;
	(void)line;
}

/* A shard's names and ids as a data set without boxes. */
static int
ids_of_shard(struct dataset *d, const char *path, struct err *e)
{
	struct shard *s = shard_open(path, e);
	struct record r;
	char **name;
	int64_t *id;
	int bad = !s, n = s ? shard_classes(s, &name, &id) : 0;

	for (int i = 0; i < n; i++)
		label_new_class(d, name[i], id[i]);
	d->item = (struct item *)xcalloc(s ? (size_t)shard_count(s) : 0, sizeof *d->item);
	for (long i = 0; !bad && i < shard_count(s); i++)
		if (!(bad = shard_labels(s, i, &r, e))) {
			d->item[d->n].name = xstrdup(r.name);
			d->item[d->n++].id = r.id;
		}
	shard_close(s);
	return bad ? -1 : 0;
}

/* The truth that gives ids: they must be there. */
static int
open_ids(struct dataset *d, const char *path, struct err *e)
{
	if (shard_is(path) ? ids_of_shard(d, path, e) :
	    labels_read(d, path, NULL, no_report, NULL, e))
		return -1;
	for (int i = 0; i < d->n; i++)
		if (d->item[i].id != -1)
			return 0;
	return err_set(e, "%s: none of its %d pictures has an id: want a COCO json, or a shard "
	    "made of one", path, d->n);
}

static int
open_tables(struct job *j, const struct cmd *c, struct err *e)
{
	const char *ids = settings_str(&c->set, "ids"), *names = c->arg['n'];
	const struct layer *head = &j->det->cfg->l[j->det->net->head[0]];

	if (names && labels_names(&j->names, names, e))
		return -1;
	if (names && j->names.nclass != j->det->classes)
		return err_set(e, "%s:%d: classes=%d, but %s has %d names: want the names that the "
		    "network was trained with", j->det->cfg->path, head->line, j->det->classes,
		    names, j->names.nclass);
	return ids ? open_ids(&j->truth, ids, e) : 0;
}

static int
open_job(struct job *j, const struct cmd *c, struct err *e)
{
	struct dev_opts o = { .exact = (int)settings_int(&c->set, "exact"),
		.emulate = (int)settings_int(&c->set, "emulate"),
		.deterministic = (int)settings_int(&c->set, "deterministic"),
		.threads = settings_given(&c->set, "threads") ? (int)settings_int(&c->set,
		    "threads") : cores() };
	struct detwrite_opts w = { .format = c->arg['f'] ? c->arg['f'] : "tsv",
		.out = c->arg['o'] ? c->arg['o'] : "-", .draw = c->arg['x'] };
	struct detect_opts d;

	if (open_cfg(j, c, e))
		return -1;
	options(j, c, &d);
	if (dev_precision(&o, c->arg['p'], e) || !(j->dev = dev_open(c->arg['d'], &o, e)) ||
	    !(j->det = detector_open(j->dev, j->cfg, &d, e)) || load(j, c, e) ||
	    open_tables(j, c, e))
		return -1;
	w.names = j->names.nclass ? &j->names : NULL;
	w.truth = settings_str(&c->set, "ids") ? &j->truth : NULL;
	w.classes = j->det->classes;
	return (j->out = detwrite_open(&w, e)) ? 0 : -1;
}

static void
close_job(struct job *j)
{
	detector_close(j->det);
	if (j->dev)
		dev_close(j->dev);
	cfg_close(j->cfg);
	labels_close(&j->names);
	labels_close(&j->truth);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void
failed(struct job *j, const char *name, const char *why)
{
	warn("%s: %s", name, why);
	j->failed++;
}

static int
batch(struct job *j, struct pictures *p, struct detections *found, struct err *e)
{
	struct err why;
	int r;

	if (detector_run(j->det, p, found, e))
		return -1;
	for (int i = 0; i < p->n; i++) {
		struct picture *pic = &p->pic[i];

		j->pictures++;
		if (pic->why) {
			failed(j, pic->name, pic->why);
			continue;
		}
		if (pic->note)
			warn("%s: %s", pic->name, pic->note);
		j->found += found[i].n;
		j->turned += pic->orientation > 1;
		if ((r = detwrite_add(j->out, pic, &found[i], &why)) < 0) {
			*e = why;
			return -1;
		}
		if (r)
			failed(j, pic->name, why.msg);
	}
	progress("%ld pictures  %ld detections  %.1f img/s", j->pictures, j->found,
	    (double)j->pictures / (now() - j->began));
	return detwrite_flush(j->out, e);
}

static int
detect(struct job *j, const struct cmd *c, struct err *e)
{
	struct input_opts o = detector_inputs(j->det, (int)c->jobs);
	struct detections *found = (struct detections *)xcalloc((size_t)o.batch, sizeof *found);
	struct inputs *in;
	struct pictures *p;
	int r = 0;

	o.keep = c->arg['x'] != NULL;
	o.stored = !settings_int(&c->set, "exif");
	j->began = now();
	in = inputs_open(c->in, c->nin, &o);
	set_running(in);
	while (!r && !asked && (p = inputs_next(in))) {
		r = batch(j, p, found, e);
		inputs_free(in, p);
	}
	set_running(NULL);
	inputs_close(in);
	free(found);
	progress_end();
	return r;
}

int
main(int argc, char **argv)
{
	struct cmd c;
	struct job j;
	struct err e = { "" }, why;
	int r;

	calm_threads(argv);
	program(argv, "yolo-detect");
	memset(&c, 0, sizeof c);
	memset(&j, 0, sizeof j);
	settings_open(&c.set, table);
	parse(&c, argc, argv);
	check(&c);
	check_files(&c);
	catch_end(on_signal, .5);
	r = open_job(&j, &c, &e) || detect(&j, &c, &e);
	if (detwrite_close(j.out, !r && !asked, &why) && !r) {
		e = why;
		r = 1;
	}
	if (r)
		warn("%s", e.msg);
	if (j.failed && j.pictures > 1)
		warn("%ld of %ld pictures failed", j.failed, j.pictures);
	if (j.turned && !quiet)
		warn("%ld pictures ask to be shown turned (EXIF): boxes are those of the stored "
		    "pixels", j.turned);
	close_job(&j);
	settings_close(&c.set);
	return r ? 1 : asked ? 128 + (int)asked : j.failed > 0;
}
