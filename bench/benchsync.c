/* benchsync.c -- yolo-bench sync and scale: what ranks cost.
 *
 * sync sums buffers of 4 bytes to 256 MB over the ranks, as a training step sums gradients: time,
 * the rate of the buffer, the rate on the wire of a ring (2(n-1)/n of it), and how many numbers
 * came out wrong, which are sums of small integers and so must be exact.  scale times training
 * steps of one, two, four ... ranks with the same pictures each, and again with the sums left out:
 * the difference is communication that does not hide behind the backward pass. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/int.h"
#include "device/device.h"
#include "loader/loader.h"
#include "model/model.h"
#include "net/net.h"
#include "sync/sync.h"
#include "train/train.h"

enum { MOST_RANKS = 64, LEAST = 4, MOST = 256 << 20, WARM = 3 };
static const double coco = 117263; /* pictures of an epoch */
static const struct setting sync_settings[] = { { "most", "268435456", "int 4..268435456",
						    "bytes of the largest buffer" },
	{ "n", "10", "int 1..100000", "sums that are timed; the mean counts" },
	{ "transport", NULL, "shm|nccl",
	    "how ranks reach each other (nccl between GPUs, else shm)" },
	{ NULL, NULL, NULL, NULL } };
static const struct setting scale_settings[] = {
	{ "busy", "10", "0..100", "percent of the processors that others may have" },
	{ "n", "10", "int 1..100000", "steps that are timed; the median counts" },
	{ "transport", NULL, "shm|nccl",
	    "how ranks reach each other (nccl between GPUs, else shm)" },
	{ NULL, NULL, NULL, NULL }
};

struct bench {
	const char *cfg_path, *device, *out;
	int batch, ranks[MOST_RANKS], nranks, w, h, scale;
	struct settings set;
	struct bench_call call;
	const char *history;
	int strict, to; /* to: the pipe that rank 0 answers through */
};
struct answer {
	double all, alone, seconds;
	int batch, threads;
	char device[64], precision[8];
};

/* A rank's own device: one of several GPUs, or its share of the processors. */
static struct dev *
rank_device(const struct bench *b, struct world *w, struct err *e)
{
	struct dev_opts o = { .threads = cores() / w->size > 0 ? cores() / w->size : 1,
		.silent = w->rank > 0 };
	int gpus = dev_count("cuda"), cuda = b->device ? !strcmp(b->device, "cuda") : gpus > 0;
	char spec[32];

	if (settings_given(&b->set, "transport"))
		w->transport = settings_str(&b->set, "transport");
	snprintf(spec, sizeof spec, "cuda:%d", gpus > 0 ? w->local_rank % gpus : 0);
	if (cuda && gpus < w->size && !w->transport)
		w->transport = "shm"; /* several on one GPU: NCCL refuses that */
	return dev_open(cuda ? spec : b->device ? b->device : "cpu", &o, e);
}

/* ---- sync ---- */

static int
one_size(struct sync *s, float *host, float *buf, size_t bytes, int n, FILE *f)
{
	size_t count = bytes / sizeof(float);
	double t, bad[1] = { 0 };

	for (size_t i = 0; i < count; i++)
		host[i] = (float)(i % 1000 + (size_t)s->rank);
	s->dev->ops->put(s->dev, buf, host, bytes);
	if (s->ops->sum(s, buf, count))
		return -1;
	s->dev->ops->get(s->dev, host, buf, bytes);
	for (size_t i = 0; i < count; i++)
		bad[0] += host[i] != (float)((i % 1000) * (size_t)s->size) +
					 (float)(s->size * (s->size - 1) / 2);
	s->dev->ops->zero(s->dev, buf, bytes);
	s->dev->ops->sync(s->dev);
	if (s->ops->sum_host(s, bad, 1) || s->ops->barrier(s))
		return -1;
	t = now();
	for (int i = 0; i < n; i++)
		if (s->ops->sum(s, buf, count))
			return -1;
	s->dev->ops->sync(s->dev);
	t = (now() - t) / n;
	if (f)
		fprintf(f, "%zu\t%zu\t%s\t%.2f\t%.4f\t%.4f\t%.0f\n", bytes, count, s->ops->name,
		    t * 1e6, (double)bytes / t / 1e9,
		    (double)bytes / t / 1e9 * 2 * (s->size - 1) / s->size, bad[0]);
	return 0;
}

static int
sync_rank(struct bench *b, struct world *w, struct err *e)
{
	struct dev *d = rank_device(b, w, e);
	struct sync *s = d ? sync_open(w, d, e) : NULL;
	size_t most = (size_t)settings_int(&b->set, "most") & ~(size_t)3;
	float *host, *buf;
	struct outfile o = { NULL, NULL, NULL };
	int n = (int)settings_int(&b->set, "n"), bad = 0;

	if (!s)
		return -1;
	if (!(buf = (float *)d->ops->alloc(d, most)))
		return err_set(e, "no memory for a buffer of %zu bytes on %s", most, d->name);
	host = (float *)xmalloc(most);
	if (!w->rank && out_open(&o, b->out, e))
		return -1;
	if (o.f)
		fprintf(o.f, "#bytes\tfloats\ttransport\ttime_us\talgbw_gb_s\tbusbw_gb_s\twrong\n");
	for (size_t bytes = LEAST; bytes <= most && !bad; bytes *= 4)
		bad = one_size(s, host, buf, bytes, n, o.f);
	if (bad)
		*e = s->err;
	else if (o.f)
		bad = out_commit(&o, e);
	free(host);
	d->ops->free(d, buf);
	sync_close(s);
	dev_close(d);
	return bad;
}

/* ---- scale ---- */

/* The median of n steps, all ranks beginning each together. */
static int
time_steps(struct bench *b, struct trainer *t, struct sync *s, const struct batch *x, double *out,
    struct err *e)
{
	int n = (int)settings_int(&b->set, "n");
	double *lap = (double *)xcalloc((size_t)n, sizeof *lap), from;
	struct warm w = { .lr = 1e-6, .lr_bias = 1e-6, .momentum = .9 };
	struct step_result r;
	int bad = 0;

	for (int i = -WARM; i < n && !bad; i++) {
		bad = s->ops->barrier(s);
		from = now();
		bad = bad || trainer_step(t, x, &w, &r, e) ? -1 : 0;
		t->net->dev->ops->sync(t->net->dev);
		if (i >= 0)
			lap[i] = now() - from;
	}
	*out = bench_median(lap, n);
	free(lap);
	return bad;
}

static int
scale_rank(struct bench *b, struct world *w, struct err *e)
{
	struct cfg *cfg = cfg_read(b->cfg_path, e);
	struct net_opts no = { .train = 1, .bn_momentum = .1f, .batch = b->batch };
	struct answer a = { 0 };
	struct recipe recipe;
	struct settings none;
	struct weights wt = { 0 };
	struct batch x;
	struct dev *d;
	struct sync *s;
	struct net *net;
	struct trainer *t = NULL;
	int bad;

	if (!cfg || (b->w && cfg_resize(cfg, b->w, b->h, e)))
		return -1;
	settings_open(&none, train_settings);
	bad = recipe_make(&recipe, cfg, NULL, NULL, b->batch * w->size, 0, &none, e);
	settings_close(&none);
	recipe.train.parts = 1;
	if (bad || !(d = rank_device(b, w, e)) || !(s = sync_open(w, d, e)))
		return -1;
	no.sync = s;
	if (!(net = net_open(d, cfg, &no, e)))
		return -1;
	weights_init(cfg, &net->par, 0, &wt);
	made_batch(&x, b->batch, cfg->l[0].in_w, cfg->l[0].in_h, cfg->l[0].in_c, 8);
	a.batch = x.n_global = b->batch * w->size;
	for (int alone = 0; alone < 2 && !bad; alone++) {
		if (!(t = trainer_open(net, alone ? NULL : s, &recipe.train, e)))
			return -1;
		trainer_put(t, &wt);
		x.n_global = alone ? b->batch : a.batch;
		bad = time_steps(b, t, s, &x, alone ? &a.alone : &a.all, e);
		trainer_close(t);
	}
	a.threads = d->threads;
	snprintf(a.device, sizeof a.device, "%s", d->name);
	snprintf(a.precision, sizeof a.precision, "%s", dev_precision_name(d));
	if (!bad && !w->rank && write(b->to, &a, sizeof a) != sizeof a)
		bad = err_set(e, "pipe: %s", strerror(errno));
	return bad;
}

/* A world of n ranks in a child process, so that no thread or device is there before the fork. */
static int
in_world(struct bench *b, int n, int (*body)(struct bench *, struct world *, struct err *),
    struct answer *a)
{
	int p[2], status = 0;
	pid_t pid;

	fflush(stdout);
	if (pipe(p) || (pid = fork()) < 0)
		die(1, "cannot start ranks: %s", strerror(errno));
	if (!pid) {
		struct world w = { .size = 1 };
		struct err e = { "" };

		close(p[0]);
		b->to = p[1];
		if (sync_fork(&w, n, &status) < 0)
			_exit(status);
		if (body(b, &w, &e)) {
			if (w.size > 1)
				world_fail(&w, e.msg);
			warn("%s", e.msg);
			_exit(1);
		}
		_exit(0);
	}
	close(p[1]);
	if (a && read(p[0], a, sizeof *a) != sizeof *a)
		a->all = 0;
	close(p[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int
record(struct bench *b, struct meter *m, const struct answer *a, int ranks, double efficiency,
    struct err *e)
{
	struct cfg *cfg = cfg_read(b->cfg_path, e);
	double t = a->all;

	if (!cfg || (b->w && cfg_resize(cfg, b->w, b->h, e)))
		return -1;
	meter_cfg(m, cfg->path, cfg->text, cfg->len);
	row_set(&m->row, COL_DEVICE, "%s", a->device);
	row_set(&m->row, COL_PRECISION, "%s", a->precision);
	row_set(&m->row, COL_SIZE, "%dx%d", cfg->l[0].in_w, cfg->l[0].in_h);
	row_set(&m->row, COL_BATCH, "%d", a->batch);
	row_set(&m->row, COL_RANKS, "%d", ranks);
	row_set(&m->row, COL_THREADS, "%d", a->threads);
	row_set(&m->row, COL_SEED, "0");
	meter_times(m, &t, 1, a->batch);
	row_set(&m->row, COL_N, "%ld", settings_int(&b->set, "n"));
	row_set(&m->row, COL_SHARE, "%.4f", efficiency);
	cfg_close(cfg);
	return meter_close(m, e);
}

/* As it was published of the system that this project starts from: YOLOv3 at 416. */
static void
published(FILE *f)
{
	static const struct {
		int gpus, batch;
		double s;
	} row[] = { { 1, 16, .39 }, { 2, 32, .48 }, { 4, 64, .65 } };

	for (int i = 0; i < 3; i++)
		fprintf(f, "%dxP100,published\t%d\t%.3f\t%.2f\t%.1f\t%.4f\t-\n", row[i].gpus,
		    row[i].batch, row[i].s, row[i].batch / row[i].s,
		    coco / row[i].batch * row[i].s / 60,
		    row[i].batch / row[i].s / row[i].gpus / (16 / .39));
}

static int
scale(struct bench *b, struct err *e)
{
	double first = 0, rate;
	struct cfg *cfg = cfg_read(b->cfg_path, e); /* now, not in each rank */
	struct outfile o;
	int bad = 0;

	if (!cfg || (b->w && cfg_resize(cfg, b->w, b->h, e)) || out_open(&o, b->out, e))
		return 1;
	cfg_close(cfg);
	fprintf(o.f, "#ranks\tbatch\ts_batch\timg_s\tcoco_117263_min\tefficiency\texposed\n");
	for (int i = 0; i < b->nranks && !bad; i++) {
		struct meter m = { .commit = b->call.commit,
			.history = b->history,
			.strict = b->strict,
			.format = "tsv",
			.counter = -1,
			.limit = settings_num(&b->set, "busy") / 100 };
		struct answer a = { 0 };

		if (!(bad = meter_open(&m, "scale", e))) {
			meter_start(&m);
			bad = in_world(b, b->ranks[i], scale_rank, &a);
			meter_stop(&m);
		}
		if (!bad) {
			rate = a.batch / a.all / b->ranks[i];
			first = first > 0 ? first : rate;
			fprintf(o.f, "%d\t%d\t%.4f\t%.2f\t%.1f\t%.4f\t%.4f\n", b->ranks[i], a.batch,
			    a.all, rate * b->ranks[i], coco / a.batch * a.all / 60, rate / first,
			    fmax(0, 1 - a.alone / a.all));
			bad = record(b, &m, &a, b->ranks[i], rate / first, e);
		}
		meter_free(&m);
	}
	if (!bad)
		published(o.f);
	if (!bad)
		bad = out_commit(&o, e) ? 1 : 0;
	else
		out_abort(&o);
	return bad < 0 ? 1 : bad;
}

/* ---- both ---- */

static int
take(struct bench *b, int opt)
{
	double list[MOST_RANKS];

	switch (opt) {
	case 'B':
		b->strict = 1;
		break;
	case 'b':
		return bench_number('b', optarg, 1, 65536, &b->batch);
	case 'c':
		b->cfg_path = optarg;
		break;
	case 'd':
		b->device = optarg;
		break;
	case 'g':
		b->nranks = num_list(optarg, b->scale ? MOST_RANKS : 1, 1, MOST_RANKS, list);
		for (int i = 0; i < b->nranks; i++)
			if ((b->ranks[i] = (int)list[i]) != list[i])
				b->nranks = -1;
		if (b->nranks > 0)
			return 0;
		warn("-g %s: want %s from 1 to %d", optarg,
		    b->scale ? "numbers of ranks, such as "
			       "1,2,4,"
			     : "a number of ranks",
		    MOST_RANKS);
		return -1;
	case 'H':
		b->history = optarg;
		break;
	case 'O':
		settings_option(&b->set, optarg);
		break;
	case 'o':
		b->out = optarg;
		break;
	case 'q':
		quiet = 1;
		break;
	case 's':
		if (!num_side(optarg, &b->w, &b->h))
			return 0;
		warn("-s %s: want a side such as 416 or 608x352", optarg);
		return -1;
	default:
		return -1;
	}
	return 0;
}

static int
bench(const struct bench_call *call, int is_scale, const char *letters, const char *usage)
{
	static const struct option longs[] = { { "batch", 1, NULL, 'b' }, { "cfg", 1, NULL, 'c' },
		{ "device", 1, NULL, 'd' }, { "help", 0, NULL, 'h' }, { "history", 1, NULL, 'H' },
		{ "option", 1, NULL, 'O' }, { "output", 1, NULL, 'o' }, { "quiet", 0, NULL, 'q' },
		{ "ranks", 1, NULL, 'g' }, { "side", 1, NULL, 's' }, { "strict", 0, NULL, 'B' },
		{ NULL, 0, NULL, 0 } };
	struct bench b = { .cfg_path = "cfg/yolov3-tiny.cfg",
		.out = "-",
		.batch = 8,
		.ranks = { is_scale ? 1 : 2, 2 },
		.nranks = 1 + is_scale,
		.scale = is_scale,
		.call = *call };
	struct err e = { "" };
	int opt, r = 0;

	settings_open(&b.set, is_scale ? scale_settings : sync_settings);
	while (!r && (opt = getopt_long(call->argc, call->argv, letters, longs, NULL)) >= 0)
		if (opt == 'h') {
			fputs(usage, stdout);
			settings_close(&b.set);
			return 0;
		} else if (opt == '?' || !strchr(letters, opt) || take(&b, opt))
			r = 2;
	if (!r && optind < call->argc) {
		warn("%s: takes no operand", call->argv[optind]);
		r = 2;
	}
	if (r)
		fputs(usage, stderr);
	else
		r = is_scale ? scale(&b, &e) : in_world(&b, b.ranks[0], sync_rank, NULL);
	if (*e.msg)
		warn("%s", e.msg);
	settings_close(&b.set);
	return r;
}

int
bench_sync(const struct bench_call *call)
{
	return bench(call, 0, "d:g:hO:o:q",
	    "usage: yolo-bench sync [-hq] [-d device] [-g ranks] "
	    "[-O key=value] [-o out.tsv]\n");
}

int
bench_scale(const struct bench_call *call)
{
	return bench(call, 1, "Bb:c:d:g:hH:O:o:qs:",
	    "usage: yolo-bench scale [-Bhq] [-b batch] "
	    "[-c cfg] [-d device] [-g ranks]\n                        [-H history.tsv] "
	    "[-O key=value] [-o out.tsv] [-s side]\n");
}
