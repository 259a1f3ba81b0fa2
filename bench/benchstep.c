/* benchstep.c -- yolo-bench step: how near a training step comes to the machine's GEMM rate.
 *
 * The ceiling is measured in the same run, before and after the steps: the best of two square-ish
 * matrix products.  Work is counted as 2 x multiply-adds of the convolutions, three times the
 * forward pass less the first layer's gradient of its input, whatever kernels are used. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "bench/int.h"
#include "model/model.h"
#include "kernel/kernel.h"
#include "shard/shard.h"
#include "device/device.h"
#include "net/net.h"
#include "loader/loader.h"
#include "train/train.h"

static const struct setting settings[] = {
	{ "busy", "10", "0..100", "percent of the processors that others may have" },
	{ "emulate", "0", "0|1",
	    "bfloat16 by -p also on a CPU without it: the same numbers, slowly" },
	{ "exact", "0", "0|1", "plain kernels only" },
	{ "loss", NULL, "text", "loss flavour (by the cfg's keys)" },
	{ "n", "5", "int 1..100000", "steps that are timed; the median counts" },
	{ "threads", NULL, "int 1..1024", "compute threads" },
	{ "truths", "8", "int 0..1000", "synthetic objects in a picture" },
	{ "warmup", NULL, "int 0..1000",
	    "steps before that (until their last third shows no trend)" },
	{ NULL, NULL, NULL, NULL }
};

static const char usage[] =
    "usage: yolo-bench step [-BChq] [-b batch] [-c cfg] [-d device] [-f tsv|mllog]\n"
    "                       [-H history.tsv] [-j threads] [-O key=value] [-o out.tsv]\n"
    "                       [-p precision] [-s side] [shard]\n";
enum { WARM_LEAST = 12, WARM_MOST = 60, WARM_SECONDS = 10 };

struct bench {
	const char *cfg_path, *device, *precision, *out, *in;
	int batch, jobs, w, h, layers;	/* w 0: the cfg's own size */
	struct settings set;
	struct cfg *cfg;
	struct recipe recipe;
	struct dev *dev;
	struct net *net;
	struct trainer *t;
	struct loader *loader;
	struct shard *shard;
	struct batch fake;
	double peak, copy, wait, before_mb, peak_mb;
	long steps;
	struct meter meter;
	size_t batches;			/* bytes of the batches in memory */
};

enum { TIMED_US = 5000 };	/* at least: a GPU's product is over before a clock has ticked */

/* Seconds that a product takes, of many in a row. */
static double
gemm_seconds(struct dev *d, const struct gemm *g, int many)
{
	double t = now();

	for (int i = 0; i < many; i++)
		d->ops->gemm(d, g);
	d->ops->sync(d);
	return (now() - t) / many;
}

/* One product, GFLOP/s, best of two; it is asked before and after the steps. */
static double
gemm_rate(struct dev *d, int m, int n, int k)
{
	int half = d->store->bytes == 2;
	void *a = d->ops->alloc(d, sizeof(float) * (size_t)m * (size_t)k);
	void *b = d->ops->alloc(d, sizeof(float) * (size_t)k * (size_t)n);
	void *c = d->ops->alloc(d, sizeof(float) * (size_t)m * (size_t)n);
	struct gemm g = { 0, 0, m, n, k, 1, a, k, b, n, 0, c, n, half, half };
	double best = 0, rate, t;
	int many = 1;

	if (a && b && c) {
		d->ops->zero(d, a, sizeof(float) * (size_t)m * (size_t)k);
		d->ops->zero(d, b, sizeof(float) * (size_t)k * (size_t)n);
		for (int i = 0; i < 3; i++) {
			t = gemm_seconds(d, &g, many);
			rate = 2. * m * n * k / t / 1e9;
			if (i && rate > best)
				best = rate;
			if (i == 1)	/* the first one chose and loaded its kernel */
				many = 1 + (int)(TIMED_US / 1e6 / t);
		}
	}
	d->ops->free(d, a);
	d->ops->free(d, b);
	d->ops->free(d, c);
	return best;
}

static void
measure_peak(struct bench *b)
{
	double p = gemm_rate(b->dev, 2048, 2048, 2048), q = gemm_rate(b->dev, 5408, 1024, 4608);
	double c = copy_rate(b->dev);

	b->copy = c > b->copy ? c : b->copy;

	p = p > q ? p : q;
	b->peak = p > b->peak ? p : b->peak;
}

static double
layer_flops(const struct bench *b, int i)
{
	return cfg_flops(b->cfg, i) * (i ? 3 : 2);
}

/* Bytes that a step must move where no cache helps: what each layer reads and writes, as often as
 * its work is done; and of each parameter itself, gradient and momentum, read and written. */
static double
step_bytes(const struct bench *b)
{
	double numbers = 0;

	for (int i = 0; i < b->cfg->nl; i++) {
		const struct layer *l = &b->cfg->l[i];

		numbers += ((double)l->in_w * l->in_h * l->in_c + (double)l->w * l->h * l->c) *
		    (i ? 3 : 2);
	}
	return numbers * b->recipe.batch * b->dev->store->bytes + (double)b->net->bytes.params * 5;
}

static void
fake_batch(struct bench *b)
{
	const struct layer *l = &b->cfg->l[0];

	b->batches = made_batch(&b->fake, b->recipe.batch, l->in_w, l->in_h, l->in_c,
	    (int)settings_int(&b->set, "truths"));
}

static int
open_bench(struct bench *b, struct err *e)
{
	struct dev_opts o = { .threads = settings_given(&b->set, "threads") ?
		(int)settings_int(&b->set, "threads") : cores(), .exact = (int)settings_int(&b->set,
		"exact"), .emulate = (int)settings_int(&b->set, "emulate") };
	struct net_opts no = { .train = 1, .bn_momentum = .1f };
	struct settings none;
	int bad;

	if (!(b->cfg = cfg_read(b->cfg_path, e)) || (b->w && cfg_resize(b->cfg, b->w, b->h, e)))
		return -1;
	settings_open(&none, train_settings);
	bad = recipe_make(&b->recipe, b->cfg, settings_str(&b->set, "loss"), NULL, b->batch, 0,
	    &none, e);
	settings_close(&none);
	if (bad)
		return -1;
	b->recipe.train.parts = 1;
	no.batch = b->recipe.batch;
	b->before_mb = bench_rss_mb();
	if (dev_precision(&o, b->precision, e) || !(b->dev = dev_open(b->device, &o, e)) ||
	    !(b->net = net_open(b->dev, b->cfg, &no, e)) ||
	    !(b->t = trainer_open(b->net, NULL, &b->recipe.train, e)))
		return -1;
	if (b->in && (cfg_pictures(b->cfg, e) || !(b->shard = shard_open(b->in, e))))
		return -1;
	return 0;
}

static int
load_weights(struct bench *b, struct err *e)
{
	struct weights w = { 0 };
	struct loader_opts lo = { .batch = b->recipe.batch, .ranks = 1, .w = b->cfg->l[0].in_w,
		.h = b->cfg->l[0].in_h, .threads = b->jobs,
		.aug = b->recipe.aug, .grey = b->cfg->net.c == 1 };

	weights_init(b->cfg, &b->net->par, 0, &w);
	trainer_put(b->t, &w);
	weights_free(&w);
	if (!b->shard) {
		fake_batch(b);
		return 0;
	}
	b->batches = loader_bytes(&lo, b->shard);
	b->loader = loader_open(b->shard, &lo, 0, b->steps, e);
	return b->loader ? 0 : -1;
}

static int
step(struct bench *b, double *seconds, struct err *e)
{
	struct batch *batch = b->loader ? loader_next(b->loader, e) : &b->fake;
	struct warm w = { .lr = 1e-6, .lr_bias = 1e-6, .momentum = .9,
		.decay = b->recipe.train.decay };
	struct step_result r;
	double t = now();
	int bad;

	if (!batch)
		return -1;
	bad = trainer_step(b->t, batch, &w, &r, e);
	b->dev->ops->sync(b->dev);
	*seconds = now() - t + batch->wait;
	b->wait = batch->wait;
	if (b->loader)
		loader_free(b->loader, batch);
	return bad;
}

static void
print_layers(const struct bench *b, FILE *f, int n)
{
	fprintf(f, "#layer\ttype\toutput\tms\tforward\tdgrad\twgrad\tother\tgflops\tshare\n");
	for (int i = 0; i < b->cfg->nl; i++) {
		const double *t = b->net->time + NET_LAPS * i;
		double all = 0, work = layer_flops(b, i) * b->recipe.batch / 1e9;

		for (int k = 0; k < NET_LAPS; k++)
			all += t[k] / n;
		fprintf(f, "%d\t%s\t%dx%dx%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.4g\t%.3f\n", i,
		    layer_name(b->cfg->l[i].type), b->cfg->l[i].w, b->cfg->l[i].h, b->cfg->l[i].c,
		    all * 1e3, t[0] / n * 1e3, t[1] / n * 1e3, t[2] / n * 1e3, t[3] / n * 1e3,
		    all > 0 ? work / all : 0, all > 0 ? work / all / b->peak : 0);
	}
}

static void
print_step(struct bench *b, FILE *f, double *t, double wait, int n)
{
	double flops = 0, median, sum = 0;
	struct bench_row *r = &b->meter.row;

	for (int i = 0; i < n; i++)
		sum += t[i];
	median = bench_median(t, n);
	for (int i = 0; i < b->cfg->nl; i++)
		flops += layer_flops(b, i);
	flops *= b->recipe.batch / 1e9;
	row_set(r, COL_GFLOPS, "%.2f", flops / median);
	row_set(r, COL_GEMM_PEAK, "%.2f", b->peak);
	row_set(r, COL_SHARE, "%.4f", flops / median / b->peak);
	row_set(r, COL_COPY, "%.2f", b->copy);
	row_set(r, COL_COPY_SHARE, "%.4f", step_bytes(b) / median / 1e9 / b->copy);
	row_set(r, COL_WAIT, "%.4f", wait / sum);
	row_set(r, COL_MEM, "%.1f", b->peak_mb - b->before_mb);
	if (!strcmp(b->meter.format, "mllog")) {
		meter_mllog(&b->meter, f);
		return;
	}
	fprintf(f, "#cfg\tdevice\tprecision\tsize\tbatch\tranks\tstep_ms\timg_s\tgflops\tgemm_peak"
	    "\tshare\twait_share\tmem_mb\tplan_mb\tthreads\n");
	fprintf(f, "%s\t%s\t%s\t%dx%d\t%d\t1\t%.2f\t%.3f\t%.2f\t%.2f\t%.4f\t%.4f\t%.1f\t%.1f\t%d\n",
	    path_base(b->cfg->path), b->dev->name, dev_precision_name(b->dev), b->cfg->l[0].in_w,
	    b->cfg->l[0].in_h, b->recipe.batch, median * 1e3, b->recipe.batch / median,
	    flops / median, b->peak, flops / median / b->peak, wait / sum,
	    b->peak_mb - b->before_mb, (b->net->bytes.total +
	    trainer_bytes(&b->net->par, &b->recipe.train) + b->batches) / 1e6, b->dev->threads);
}

/* What the run was of, for its row. */
static void
describe(struct bench *b, int warm)
{
	struct bench_row *r = &b->meter.row;

	meter_cfg(&b->meter, b->cfg->path, b->cfg->text, b->cfg->len);
	row_set(r, COL_DEVICE, "%s", b->dev->name);
	row_set(r, COL_PRECISION, "%s", dev_precision_name(b->dev));
	row_set(r, COL_SIZE, "%dx%d", b->cfg->l[0].in_w, b->cfg->l[0].in_h);
	row_set(r, COL_BATCH, "%d", b->recipe.batch);
	row_set(r, COL_RANKS, "1");
	row_set(r, COL_THREADS, "%d", b->dev->threads);
	if (b->shard)
		row_set(r, COL_SHARD, "%s", shard_uuid(b->shard));
	row_set(r, COL_SEED, "0");
	row_set(r, COL_WARMUP, "%d", warm);
}

/* As many steps as were asked for; else until their times fall no more, within some seconds.  Says
 * how many in *done. */
static int
warm_up(struct bench *b, int *done, struct err *e)
{
	double t[WARM_MOST], from = now(), ignore;
	int n = 0, bad = 0, most = WARM_MOST;

	if (settings_given(&b->set, "warmup")) {
		most = (int)settings_int(&b->set, "warmup");
		for (; n < most && !bad; n++)
			bad = step(b, &ignore, e);
	} else
		for (; n < most && !bad; ) {
			bad = step(b, &t[n++], e);
			if (now() - from > WARM_SECONDS || (n >= WARM_LEAST && bench_warm(t, n)))
				break;
		}
	*done = n;
	return bad;
}

static int
write_out(struct bench *b, double *t, double wait, int n, struct err *e)
{
	struct outfile o;

	if (out_open(&o, b->out, e))
		return -1;
	print_step(b, o.f, t, wait, n);
	if (b->layers)
		print_layers(b, o.f, n);
	return out_commit(&o, e);
}

/* 0, -1, or BENCH_BUSY. */
static int
run(struct bench *b, struct err *e)
{
	int n = (int)settings_int(&b->set, "n"), warm = 0;
	double *t = (double *)xcalloc((size_t)n, sizeof *t), ignore, wait = 0;
	int bad = 0;

	measure_peak(b);
	bench_reset_peak();
	bad = warm_up(b, &warm, e);
	meter_start(&b->meter);
	for (int i = 0; i < n && !bad; i++) {
		progress("step %d of %d", i + 1, n);
		bad = step(b, &t[i], e);
		wait += b->wait;
	}
	meter_stop(&b->meter);
	progress_end();
	b->peak_mb = bench_peak_mb();
	measure_peak(b);
	if (!bad) {
		describe(b, warm);
		meter_times(&b->meter, t, n, b->recipe.batch);
	}
	if (!bad && b->layers) {	/* apart: waiting after each layer costs a little */
		b->net->time = (double *)xcalloc(NET_LAPS * (size_t)b->cfg->nl, sizeof(double));
		for (int i = 0; i < n && !bad; i++)
			bad = step(b, &ignore, e);
	}
	if (!bad)
		bad = write_out(b, t, wait, n, e);
	if (!bad)
		bad = meter_close(&b->meter, e);
	free(b->net->time);
	b->net->time = NULL;
	free(t);
	return bad;
}

/* 0, 2 wrong usage, -1 help was asked for and given. */
static int
parse(struct bench *b, int argc, char **argv)
{
	static const struct option longs[] = { { "batch", 1, NULL, 'b' }, { "cfg", 1, NULL, 'c' },
		{ "device", 1, NULL, 'd' }, { "format", 1, NULL, 'f' }, { "help", 0, NULL, 'h' },
		{ "history", 1, NULL, 'H' }, { "option", 1, NULL, 'O' },
		{ "output", 1, NULL, 'o' }, { "per-layer", 0, NULL, 'C' },
		{ "precision", 1, NULL, 'p' }, { "quiet", 0, NULL, 'q' }, { "side", 1, NULL, 's' },
		{ "strict", 0, NULL, 'B' }, { "threads", 1, NULL, 'j' }, { NULL, 0, NULL, 0 } };
	struct dev_opts precision;
	struct err e;
	int opt, bad = 0;

	while (!bad && (opt = getopt_long(argc, argv, "Bb:Cc:d:f:hH:j:O:o:p:qs:", longs, NULL))
	    >= 0)
		switch (opt) {
		case 'B': b->meter.strict = 1; break;
		case 'b': bad = bench_number('b', optarg, 1, 65536, &b->batch); break;
		case 'C': b->layers = 1; break;
		case 'c': b->cfg_path = optarg; break;
		case 'd': b->device = optarg; break;
		case 'f': b->meter.format = optarg; break;
		case 'H': b->meter.history = optarg; break;
		case 'h': fputs(usage, stdout); return -1;
		case 'j': bad = bench_number('j', optarg, 1, 1024, &b->jobs); break;
		case 'O': settings_option(&b->set, optarg); break;
		case 'o': b->out = optarg; break;
		case 'p':
			b->precision = optarg;
			if ((bad = dev_precision(&precision, optarg, &e)))
				warn("%s", e.msg);
			break;
		case 'q': quiet = 1; break;
		case 's':
			if ((bad = num_side(optarg, &b->w, &b->h)))
				warn("-s %s: want a side such as 416 or 608x352", optarg);
			break;
		default: fputs(usage, stderr); return 2;
		}
	if (!bad && argc - optind > 1) {
		warn("%s: one shard at most, or a member of a set", argv[optind + 1]);
		bad = 1;
	}
	if (!bad && strcmp(b->meter.format, "tsv") && strcmp(b->meter.format, "mllog")) {
		warn("-f %s: want tsv or mllog", b->meter.format);
		bad = 1;
	}
	b->in = argv[optind];
	return bad ? 2 : 0;
}

int
bench_step(const struct bench_call *call)
{
	struct bench b = { .cfg_path = "cfg/yolov3-tiny.cfg", .out = "-", .batch = 8, .jobs = 2,
		.meter = { .commit = call->commit, .format = "tsv", .counter = -1 } };
	struct err e = { "" };
	int r;

	settings_open(&b.set, settings);
	r = parse(&b, call->argc, call->argv);
	b.steps = settings_int(&b.set, "n") * (b.layers ? 2 : 1) + (settings_given(&b.set,
	    "warmup") ? settings_int(&b.set, "warmup") : WARM_MOST);
	b.meter.limit = settings_num(&b.set, "busy") / 100;
	if (!r && !(r = meter_open(&b.meter, "step", &e)) && !(r = open_bench(&b, &e)) &&
	    !(r = load_weights(&b, &e)))
		r = run(&b, &e);
	if (*e.msg) {
		warn("%s", e.msg);
		r = 1;
	}
	loader_close(b.loader);
	shard_close(b.shard);
	trainer_close(b.t);
	net_close(b.net);
	dev_close(b.dev);
	cfg_close(b.cfg);
	free(b.fake.x);
	free(b.fake.truth);
	meter_free(&b.meter);
	settings_close(&b.set);
	return r < 0 ? 0 : r;
}
