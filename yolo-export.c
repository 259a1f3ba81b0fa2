/* yolo-export.c -- weights that leave: options, model, and the form that is asked for.
 *
 * The graph is made in export/; here is what goes into it: the cfg, by -c or from a checkpoint, the
 * weights as detection would take them, the class names, and with int8 the scales. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"

static const char usage[] =
    "usage: yolo-export [-hqV] [-b batch] [-c cfg] [-f onnx|darknet|safetensors|cfg]\n"
    "                   [-n names] [-O key=value] [-p fp32|fp16|int8] [-s side] [-w weights]\n"
    "                   -o output\n";

static const struct option longopts[] = {
	{ "batch", 1, NULL, 'b' }, { "cfg", 1, NULL, 'c' }, { "format", 1, NULL, 'f' },
	{ "help", 0, NULL, 'h' }, { "names", 1, NULL, 'n' }, { "option", 1, NULL, 'O' },
	{ "output", 1, NULL, 'o' }, { "precision", 1, NULL, 'p' }, { "quiet", 0, NULL, 'q' },
	{ "side", 1, NULL, 's' }, { "version", 0, NULL, 'V' }, { "weights", 1, NULL, 'w' },
	{ NULL, 0, NULL, 0 }
};

static const struct setting table[] = {
	{ "bn", "0", "0|1", "keep batch-norm as nodes instead of folding it" },
	{ "boxes", "pixels", "pixels|fractions", "unit of boxes: of the network's input" },
	{ "budget", "0", "0..1",
	    "int8: error of the heads above which the costliest layers stay float, 0 any" },
	{ "calib", NULL, "text", "int8: pictures to find scales with: a shard, a folder, a list" },
	{ "cutoff", NULL, "int 1..100000", "only the first N layers of a .weights file" },
	{ "ema", "1", "0|1", "of a checkpoint the averaged weights, where it has them" },
	{ "ends", "boxes", "raw|boxes|nms",
	    "end with the heads' raw values, boxes and scores, or detections" },
	{ "float", NULL, "text", "int8: layers that stay float, as 0,1,75" },
	{ "header", NULL, "16|20", "length of a .weights file's header (the input's, else 20)" },
	{ "input", "chw", "chw|u8hwc",
	    "floats [N,3,H,W] from 0 to 1, or bytes [N,H,W,3] as pictures have them" },
	{ "iou", "0.45", "0..1", "ends=nms: overlap from which the lesser box goes" },
	{ "max_det", "300", "int 1..1000000", "ends=nms: most boxes of a class in a picture" },
	{ "opset", NULL, "int 9..25", "version of ONNX's operators, at least" },
	{ "pictures", "64", "int 1..100000", "int8: most pictures of calib" },
	{ "score", "0.25", "0..1", "ends=nms: least score" },
	{ "softmax", NULL, "0|1",
	    "decode classes by softmax (1 where a checkpoint's loss asks for it)" },
	{ "symmetric", "0", "0|1", "int8: activations as int8 around 0, as TensorRT wants them" },
	{ "threads", NULL, "int 1..1024", "compute threads (the cores that may be used)" },
	{ NULL, NULL, NULL, NULL }
};

struct cmd {
	const char *arg[128];		/* arguments of the option letters, NULL where not given */
	struct settings set;
	long batch;
	int w, h;			/* -s, else 0 */
};
struct job {
	struct cfg *cfg;
	struct dev *dev;
	struct params par;
	struct weights w;
	struct dataset names;
	struct quant quant;
	char *own_names;		/* a checkpoint's, one a line */
	int darknet, softmax;		/* of the weights file: its kind, its loss */
};

/* ---- options ------------------------------------------------------------------------------- */

static int
format_is(const struct cmd *c, const char *name)
{
	return !strcmp(c->arg['f'] ? c->arg['f'] : "onnx", name);
}

static void
version(void)
{
	char devs[4096];

	dev_list(devs, sizeof devs);
	printf("yolo-export %s\n%s", YOLO_VERSION, devs);
}

static void
parse(struct cmd *c, int argc, char **argv)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "b:c:f:hn:O:o:p:qs:Vw:", longopts, NULL)) >= 0)
		switch (opt) {
		case 'h': fputs(usage, stdout); exit(0);
		case 'V': version(); exit(0);
		case 'q': quiet = 1; break;
		case '?': fputs(usage, stderr); exit(2);
		case 'O': settings_option(&c->set, optarg); break;
		default: c->arg[opt] = optarg; break;
		}
	if (optind < argc)
		die(2, "%s: want no operand; -o names the output", argv[optind]);
}

/* A setting that the form asked for does not have would do nothing, or with cutoff leave layers at
 * random. */
static void
check_settings(const struct cmd *c)
{
	static const char *const only[][2] = {
		{ "onnx", "bn" }, { "onnx", "boxes" }, { "onnx", "budget" }, { "onnx", "calib" },
		{ "onnx", "ends" }, { "onnx", "float" }, { "onnx", "input" }, { "onnx", "iou" },
		{ "onnx", "max_det" }, { "onnx", "opset" }, { "onnx", "pictures" },
		{ "onnx", "score" }, { "onnx", "softmax" }, { "onnx", "symmetric" },
		{ "darknet", "cutoff" }, { "darknet", "header" } };

	for (size_t i = 0; i < sizeof only / sizeof *only; i++)
		if (settings_given(&c->set, only[i][1]) && !format_is(c, only[i][0]))
			die(2, "-O %s: only with -f %s", only[i][1], only[i][0]);
}

/* What is about 8 bits goes with them, and they with pictures. */
static void
check_int8(const struct cmd *c)
{
	static const char *const keys[] = { "budget", "calib", "float", "pictures", "symmetric" };
	const char *p = c->arg['p'];

	if (p && !strcmp(p, "int8")) {
		if (!settings_str(&c->set, "calib"))
			die(2, "-p int8: -O calib names pictures to find scales with");
		if (settings_int(&c->set, "bn"))
			die(2, "-p int8: batch-norm is folded: not with -O bn=1");
		return;
	}
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (settings_given(&c->set, keys[i]))
			die(2, "-O %s is about 8 bits: only with -p int8", keys[i]);
}

static void
check(struct cmd *c)
{
	const char *const *a = c->arg;
	const char *in[4] = { a['w'], a['c'], a['n'], settings_str(&c->set, "calib") };
	struct err e;

	c->batch = 1;
	if (!a['o'])
		die(2, "no output: -o names it ('-': standard output)");
	if (!a['w'] && !format_is(c, "cfg"))
		die(2, "no weights: -w names a .weights or .safetensors file");
	if (!a['w'] && !a['c'])
		die(2, "no cfg: -c names it, or -w a checkpoint that holds one");
	if (a['b'] && num_int(a['b'], 0, 65536, &c->batch))
		die(2, "-b %s: want a whole number from 1 to 65536, or 0: any", a['b']);
	if (a['s'] && num_side(a['s'], &c->w, &c->h))
		die(2, "-s %s: want a side such as 416 or 608x352", a['s']);
	if (!format_is(c, "onnx") && !format_is(c, "darknet") && !format_is(c, "safetensors") &&
	    !format_is(c, "cfg"))
		die(2, "-f %s: want onnx, darknet, safetensors or cfg", a['f']);
	if (a['p'] && strcmp(a['p'], "fp32") && strcmp(a['p'], "fp16") && strcmp(a['p'], "int8"))
		die(2, "-p %s: want fp32, fp16 or int8", a['p']);
	check_int8(c);
	check_settings(c);
	if (a['p'] && strcmp(a['p'], "fp32") && !format_is(c, "onnx"))
		die(2, "-p %s: only -f onnx has other numbers than fp32", a['p']);
	if (!strcmp(a['o'], "-") && isatty(1) && !format_is(c, "cfg"))
		die(2, "-o -: standard output is a terminal");
	if (path_clash(&a['o'], 1, in, 4, &e))
		die(2, "%s", e.msg);
}

/* ---- the model ----------------------------------------------------------------------------- */

static int
from_checkpoint(struct job *j, const char *path, char **text, struct err *e)
{
	struct st *st = st_open(path, e);
	const char *loss = st ? st_meta(st, "loss") : NULL;

	if (!st)
		return -1;
	if (loss && loss_kind(loss) >= 0)
		j->softmax = detect_softmax((enum loss_kind)loss_kind(loss));
	*text = checkpoint_cfg(st);
	j->own_names = checkpoint_names(st);
	st_close(st);
	return 0;
}

/* A checkpoint knows how it was trained: -c may change the input's size, not what layers do. */
static int
agrees(const struct cfg *given, const struct cfg *own, const char *path, struct err *e)
{
	int i;
	const char *key = cfg_other(given, own, &i);

	return !key ? 0 : err_set(e, "%s:%d: layer %d was trained with another %s, says %s: "
	    "leave out -c, or name the run.cfg of that training", given->path,
	    i < given->nl ? given->l[i].line : 0, i, key, path);
}

static int
open_cfg(struct job *j, const struct cmd *c, struct err *e)
{
	const char *path = c->arg['w'];
	char *text = NULL;
	struct cfg *own = NULL;
	int bad = 0, is = 0;

	if (path && strcmp(path, "-") && access(path, R_OK))
		return err_set(e, "%s: %s", path, strerror(errno));
	if (path && (is = weights_is_st(path, e)) < 0)
		return -1;
	j->darknet = path && !is;
	if (path && is && from_checkpoint(j, path, &text, e))
		return -1;
	if (text && !(own = cfg_parse(path, text, strlen(text), e)))
		bad = -1;
	else if (c->arg['c']) {
		bad = !(j->cfg = cfg_read(c->arg['c'], e)) ||
		    (own && agrees(j->cfg, own, path, e));
		cfg_close(own);
	} else if (!(j->cfg = own))
		bad = err_set(e, "%s: holds no cfg: -c names the one that it belongs to", path);
	free(text);
	if (!bad && c->w)
		bad = cfg_resize(j->cfg, c->w, c->h, e);
	return bad ? -1 : 0;
}

static int
load(struct job *j, const struct cmd *c, struct err *e)
{
	int cutoff = settings_given(&c->set, "cutoff") ? (int)settings_int(&c->set, "cutoff") : -1;
	float *raw = NULL;

	params_plan(j->cfg, &j->par);
	weights_init(j->cfg, &j->par, 0, &j->w);
	if (weights_load(c->arg['w'], j->cfg, &j->par, &j->w, cutoff, e))
		return -1;
	if (j->w.ema && settings_int(&c->set, "ema")) {
		raw = j->w.train;
		j->w.train = j->w.ema;
		j->w.ema = raw;
		if ((raw = j->w.ema_stat)) {
			j->w.ema_stat = j->w.stat;
			j->w.stat = raw;
		}
	}
	return 0;
}

static int
open_names(struct job *j, const struct cmd *c, struct err *e)
{
	int head, n = cfg_heads(j->cfg, &head, 1);
	const char *path = c->arg['n'];

	if (path && labels_names(&j->names, path, e))
		return -1;
	for (char *p = path ? NULL : j->own_names, *end; p && *p; p = end) {
		if ((end = strchr(p, '\n')))
			*end++ = 0;
		label_new_class(&j->names, p, -1);
	}
	if (path && n && j->names.nclass != j->cfg->l[head].u.yolo.classes)
		return err_set(e, "%s:%d: classes=%d, but %s has %d names: want the names that the "
		    "network was trained with", j->cfg->path, j->cfg->l[head].line,
		    j->cfg->l[head].u.yolo.classes, path, j->names.nclass);
	return 0;
}

/* ---- forms --------------------------------------------------------------------------------- */

enum { MAX_FLOATS = 1000 };

/* The scales of int8; a row for each layer on stdout, unless the file goes there. */
static int
quantise(struct job *j, const struct cmd *c, const struct export_model *m, struct err *e)
{
	const struct settings *s = &c->set;
	double list[MAX_FLOATS];
	struct quant_opts o = { .calib = settings_str(s, "calib"),
		.pictures = (int)settings_int(s, "pictures"),
		.resize = j->darknet ? RESIZE_DARKNET : RESIZE_STB,
		.symmetric = (int)settings_int(s, "symmetric"),
		.budget = settings_num(s, "budget"), .floats = list, .threads = 2,
		.report = quiet || !strcmp(c->arg['o'], "-") ? NULL : stdout };

	if (settings_given(s, "float") && (o.nfloats = num_list(settings_str(s, "float"),
	    MAX_FLOATS, 0, MAX_FLOATS * 10, list)) < 0)
		return err_set(e, "-O float=%s: want layers, as 0,1,75", settings_str(s, "float"));
	return quant_make(&j->quant, m, &o, e);
}

static int
write_onnx(struct job *j, const struct cmd *c, struct err *e)
{
	const struct settings *s = &c->set;
	const char *ends = settings_str(s, "ends");
	struct dev_opts d = { .threads = settings_given(s, "threads") ?
		(int)settings_int(s, "threads") : cores() };
	struct export_model m = { .cfg = j->cfg, .par = &j->par, .w = &j->w };
	struct export_opts o = { .ends = *ends == 'r' ? ENDS_RAW : *ends == 'b' ? ENDS_BOXES :
		ENDS_NMS, .batch = (int)c->batch, .u8hwc = *settings_str(s, "input") == 'u',
		.bn = (int)settings_int(s, "bn"), .fractions = *settings_str(s, "boxes") == 'f',
		.softmax = settings_given(s, "softmax") ? (int)settings_int(s, "softmax") :
		j->softmax, .score = settings_num(s, "score"), .iou = settings_num(s, "iou"),
		.max_det = (int)settings_int(s, "max_det"), .names = j->names.class_name,
		.nnames = j->names.nclass };

	o.opset = settings_given(s, "opset") ? (int)settings_int(s, "opset") : 0;
	o.letterbox = j->darknet ?
	    "sides times min(W/w, H/h), in the middle, border 0.5, corners on corners" :
	    "sides times min(W/w, H/h), in the middle, border 114/255, resized as bytes";
	if (c->arg['p'] && !strcmp(c->arg['p'], "fp16"))
		o.numbers = NUMBERS_FP16;
	if (!(j->dev = m.dev = dev_open("cpu", &d, e)))
		return -1;
	if (c->arg['p'] && !strcmp(c->arg['p'], "int8")) {
		o.numbers = NUMBERS_INT8;
		o.quant = &j->quant;
		if (quantise(j, c, &m, e))
			return -1;
	}
	return export_onnx(c->arg['o'], &m, &o, e);
}

static int
write_darknet(const struct job *j, const struct cmd *c, struct err *e)
{
	const struct settings *s = &c->set;
	const int *had = j->w.version, old[3] = { 0, 1, 0 }, now[3] = { 0, 2, 5 };
	int is_old = had[0] * 10 + had[1] < 2, known = had[0] || had[1] || had[2];
	const int *version = known ? had : now;

	if (settings_given(s, "header") && settings_int(s, "header") == 16 && !(known && is_old))
		version = old;
	if (settings_given(s, "header") && settings_int(s, "header") == 20 && is_old)
		version = now;
	return weights_save_version(c->arg['o'], j->cfg, &j->par, &j->w, version,
	    settings_given(s, "cutoff") ? (int)settings_int(s, "cutoff") : -1, e);
}

static int
write_safetensors(const struct job *j, const struct cmd *c, struct err *e)
{
	char *names = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&names, &len);
	int bad;

	if (!f)
		die(1, "out of memory");
	for (int i = 0; i < j->names.nclass; i++)
		fprintf(f, "%s\n", j->names.class_name[i]);
	fclose(f);
	bad = checkpoint_export(c->arg['o'], j->cfg, &j->par, &j->w, *names ? names : NULL, e);
	free(names);
	return bad;
}

static int
write_cfg(const struct job *j, const struct cmd *c, struct err *e)
{
	char *text = export_cfg_text(j->cfg, e);
	struct outfile o;

	if (!text || out_open(&o, c->arg['o'], e)) {
		free(text);
		return -1;
	}
	fputs(text, o.f);
	free(text);
	return out_commit(&o, e);
}

static int
run(struct job *j, const struct cmd *c, struct err *e)
{
	if (open_cfg(j, c, e))
		return -1;
	if (format_is(c, "cfg"))
		return write_cfg(j, c, e);
	if (load(j, c, e) || open_names(j, c, e))
		return -1;
	if (format_is(c, "darknet"))
		return write_darknet(j, c, e);
	if (format_is(c, "safetensors"))
		return write_safetensors(j, c, e);
	return write_onnx(j, c, e);
}

int
main(int argc, char **argv)
{
	struct cmd c;
	struct job j;
	struct err e = { "" };
	int r;

	calm_threads(argv);
	program(argv, "yolo-export");
	memset(&c, 0, sizeof c);
	memset(&j, 0, sizeof j);
	settings_open(&c.set, table);
	parse(&c, argc, argv);
	check(&c);
	if ((r = run(&j, &c, &e)))
		warn("%s", e.msg);
	if (j.dev)
		dev_close(j.dev);
	quant_free(&j.quant);
	params_free(&j.par);
	weights_free(&j.w);
	cfg_close(j.cfg);
	labels_close(&j.names);
	free(j.own_names);
	settings_close(&c.set);
	return r ? 1 : 0;
}
