/* benchloader.c -- yolo-bench loader and prep: pictures per second, stage by stage.
 *
 * The ceiling is bare decoding of the same pictures by one thread: a loader of j threads can reach
 * j times that (or as many as there are processors), packing is to be no slower than it is. Without
 * a shard the pictures are made up. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/int.h"
#include "image/image.h"
#include "loader/loader.h"
#include "shard/shard.h"

static const struct setting settings[] = { { "busy", "10", "0..100",
					       "percent of the processors that others may have" },
	{ "images", "128", "int 8..100000", "made-up pictures" },
	{ "kind", "mosaic", "none|darknet|ultralytics-2019|mosaic", "augmentation" },
	{ "n", "20", "int 1..100000", "batches that are timed" },
	{ "seed", "0", "int 0..inf", "of the order and of the augmentation" },
	{ "speed", "0", "0..inf", "pictures a second that a network takes (0: all that come)" },
	{ NULL, NULL, NULL, NULL } };

struct bench {
	const char *in, *out;
	char *made;
	int batch, w, h, jobs, prep;
	struct settings set;
	struct meter meter;
	struct shard *shard;
	long taken; /* pictures of the stages read and decode */
	double read, decode, bytes; /* pictures a second; bytes of a picture */
};

/* Read and verify, then decode, each alone and by one thread. */
static int
stages(struct bench *b, struct err *e)
{
	long n = shard_count(b->shard);
	unsigned char *buf = NULL;
	struct record r;
	struct image im;
	size_t cap = 0;
	double t = 0, u = 0, from;
	int bad = 0;

	n = n < 512 ? n : 512;
	for (long i = 0; i < n && !bad; i++) {
		from = now();
		bad = shard_read(b->shard, i, &r, &buf, &cap, e);
		t += now() - from;
		from = now();
		if (!bad && !(bad = image_decode(r.bytes, r.nbytes, &im, e))) {
			u += now() - from;
			b->bytes += (double)r.nbytes / (double)n;
			image_free(&im);
		}
	}
	free(buf);
	*e->msg = bad ? *e->msg : 0;
	b->taken = n;
	b->read = (double)n / t;
	b->decode = (double)n / u;
	return bad;
}

static uint64_t
digest(uint64_t h, const void *bytes, size_t n)
{
	for (const unsigned char *p = (const unsigned char *)bytes; n--; p++)
		h = (h ^ *p) * 0x100000001b3u;
	return h;
}

struct result {
	double seconds, wait;
	uint64_t sum;
	long images;
};

/* All batches, taken as fast as the network would. */
static int
take(struct bench *b, double *lap, struct result *r, struct err *e)
{
	static const char *const kinds[] = { "none", "darknet", "ultralytics-2019", "mosaic" };
	struct loader_opts o = { .seed = (uint64_t)settings_int(&b->set, "seed"),
		.batch = b->batch,
		.ranks = 1,
		.w = b->w,
		.h = b->h,
		.threads = b->jobs };
	long n = settings_int(&b->set, "n");
	double speed = settings_num(&b->set, "speed"), from = now(), t;
	struct loader *l;
	struct batch *x;
	int kind = 0;

	while (strcmp(kinds[kind], settings_str(&b->set, "kind")))
		kind++;
	augment_defaults(&o.aug, (enum aug_kind)kind);
	if (!(l = loader_open(b->shard, &o, 0, n, e)))
		return -1;
	r->sum = 0xcbf29ce484222325u;
	for (long i = 0; i < n && (t = now(), x = loader_next(l, e)); i++) {
		r->wait += x->wait;
		r->images += x->n;
		lap[i] = now() - t;
		if (speed > 0 && x->n / speed > 0)
			usleep((useconds_t)(x->n / speed * 1e6));
		t = now();
		r->sum = digest(r->sum, x->x, (size_t)x->n * (size_t)(x->w * x->h) * 12);
		r->sum = digest(r->sum, x->truth, (size_t)x->ntruth * sizeof *x->truth);
		from += now() - t; /* the digest is not the loader's */
		loader_free(l, x);
	}
	r->seconds = now() - from;
	loader_close(l);
	return *e->msg ? -1 : 0;
}

static int
loader(struct bench *b, struct err *e)
{
	long n = settings_int(&b->set, "n");
	double *lap = (double *)xcalloc((size_t)n, sizeof *lap), rate, ceiling;
	struct result r = { 0, 0, 0, 0 };
	struct outfile o;
	int lanes = b->jobs < cores() ? b->jobs : cores(), bad;
	struct bench_row *row = &b->meter.row;

	meter_start(&b->meter);
	bad = take(b, lap, &r, e);
	meter_stop(&b->meter);
	if (!bad && !(bad = out_open(&o, b->out, e))) {
		rate = (double)r.images / r.seconds;
		ceiling = b->decode * lanes;
		fprintf(o.f, "#stage\timg_s\tmb_s\tshare\twait_share\tdigest\n");
		fprintf(o.f, "read\t%.1f\t%.2f\t-\t-\t-\n", b->read, b->read * b->bytes / 1e6);
		fprintf(
		    o.f, "decode\t%.1f\t%.2f\t-\t-\t-\n", b->decode, b->decode * b->bytes / 1e6);
		fprintf(o.f, "loader\t%.1f\t%.2f\t%.4f\t%.4f\t%016llx\n", rate,
		    rate * b->bytes / 1e6, rate / ceiling, r.wait / r.seconds,
		    (unsigned long long)r.sum);
		bad = out_commit(&o, e);
		row_set(row, COL_SIZE, "%dx%d", b->w, b->h);
		row_set(row, COL_BATCH, "%d", b->batch);
		row_set(row, COL_THREADS, "%d", b->jobs);
		row_set(row, COL_SHARD, "%s", b->made ? "-" : shard_uuid(b->shard));
		row_set(row, COL_SEED, "%s", settings_str(&b->set, "seed"));
		for (long i = 0; i < n; i++) /* laps are of the consumer; the rate is whole */
			lap[i] = r.seconds / (double)n;
		meter_times(&b->meter, lap, (int)n, b->batch);
		row_set(row, COL_SHARE, "%.4f", rate / ceiling);
		row_set(row, COL_WAIT, "%.4f", r.wait / r.seconds);
	}
	free(lap);
	return bad ? -1 : meter_close(&b->meter, e);
}

/* ---- prep ---- */

/* Seconds to write so many bytes and have them on the disk. */
static double
disk_seconds(const char *path, double bytes, struct err *e)
{
	enum { CHUNK = 1 << 20 };
	char *buf = (char *)xcalloc(1, CHUNK);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	double t = now();

	for (double left = bytes; fd >= 0 && left > 0; left -= CHUNK)
		if (write(fd, buf, left < CHUNK ? (size_t)left : CHUNK) < 0) {
			err_set(e, "%s: %s", path, strerror(errno));
			break;
		}
	if (fd < 0 || fsync(fd))
		err_set(e, "%s: %s", path, strerror(errno));
	t = now() - t;
	if (fd >= 0)
		close(fd);
	unlink(path);
	free(buf);
	return t;
}

/* Refused labels are not what is measured; yolo-prep names them. */
static void
told(void *arg, int kind, const char *line)
{
	(void)arg, (void)kind, (void)line;
}

static int
prep(struct bench *b, struct err *e)
{
	char *in[1] = { b->made ? b->made : (char *)b->in }, *out, *other;
	const char *tmp = getenv("TMPDIR");
	volatile int stop = 0;
	struct pack_opts o = { .in = in, .nin = 1, .threads = b->jobs, .max_bad = -1,
		.report = told, .stop = &stop };
	struct pack_result r;
	struct stat st = { .st_size = 0 };
	struct outfile f;
	double t, disk, rate;
	int bad;

	out = xasprintf("%s/yolo-bench.pack", tmp ? tmp : "/tmp");
	other = path_tmp(out);
	free(out);
	out = xasprintf("%s.shard", other);
	o.out = out;
	t = now();
	bad = pack_run(&o, &r, e);
	t = now() - t;
	if (!bad && stat(out, &st))
		bad = err_set(e, "%s: %s", out, strerror(errno));
	*e->msg = bad ? *e->msg : 0;
	if (!bad && !b->shard && (b->shard = shard_open(out, e)))
		bad = stages(b, e);
	disk = bad ? 1 : disk_seconds(other, (double)st.st_size, e);
	unlink(out);
	bad = bad || *e->msg ? -1 : 0;
	if (!bad && !(bad = out_open(&f, b->out, e))) {
		rate = (double)r.pictures / t;
		fprintf(f.f, "#stage\timg_s\tmb_s\tshare\n");
		fprintf(f.f, "decode\t%.1f\t%.2f\t-\n", b->decode, b->decode * b->bytes / 1e6);
		fprintf(f.f, "disk\t%.1f\t%.2f\t-\n", (double)r.pictures / disk,
		    (double)st.st_size / disk / 1e6);
		fprintf(f.f, "prep\t%.1f\t%.2f\t%.4f\n", rate, (double)st.st_size / t / 1e6,
		    rate / fmin(b->decode * (b->jobs < cores() ? b->jobs : cores()),
			       (double)r.pictures / disk));
		bad = out_commit(&f, e);
	}
	free(out);
	free(other);
	return bad;
}

/* ---- both ---- */

static int
parse(struct bench *b, const struct bench_call *call, const char *usage)
{
	static const struct option longs[] = { { "batch", 1, NULL, 'b' }, { "help", 0, NULL, 'h' },
		{ "history", 1, NULL, 'H' }, { "option", 1, NULL, 'O' }, { "output", 1, NULL, 'o' },
		{ "quiet", 0, NULL, 'q' }, { "side", 1, NULL, 's' }, { "strict", 0, NULL, 'B' },
		{ "threads", 1, NULL, 'j' }, { NULL, 0, NULL, 0 } };
	int opt, bad = 0;

	while (!bad && (opt = getopt_long(call->argc, call->argv,
			    b->prep ? "hj:O:o:q" : "Bb:hH:j:O:o:qs:", longs, NULL)) >= 0)
		switch (opt) {
		case 'B':
			b->meter.strict = 1;
			break;
		case 'b':
			bad = bench_number('b', optarg, 1, 65536, &b->batch);
			break;
		case 'H':
			b->meter.history = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return -1;
		case 'j':
			bad = bench_number('j', optarg, 1, 1024, &b->jobs);
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
			if ((bad = num_side(optarg, &b->w, &b->h)))
				warn("-s %s: want a side such as 416 or 608x352", optarg);
			break;
		default:
			fputs(usage, stderr);
			return 2;
		}
	if (!bad && call->argc - optind > 1) {
		warn("%s: one input at most", call->argv[optind + 1]);
		bad = 1;
	}
	b->in = call->argv[optind];
	return bad ? 2 : 0;
}

static int
run(struct bench *b, struct err *e)
{
	const char *in = b->in;

	if (!in && !(in = b->made = made_shard((int)settings_int(&b->set, "images"), e)))
		return -1;
	if (b->prep && !shard_is(in))
		return prep(b, e);
	if (!(b->shard = shard_open(in, e)) || stages(b, e))
		return -1;
	return b->prep ? prep(b, e) : loader(b, e);
}

static int
bench(const struct bench_call *call, int is_prep, const char *usage)
{
	struct bench b = { .out = "-",
		.batch = 8,
		.w = 416,
		.h = 416,
		.jobs = 2,
		.prep = is_prep,
		.meter = { .commit = call->commit, .format = "tsv", .counter = -1 } };
	struct err e = { "" };
	int r;

	settings_open(&b.set, settings);
	r = parse(&b, call, usage);
	b.meter.limit = settings_num(&b.set, "busy") / 100;
	if (!r && !(r = meter_open(&b.meter, is_prep ? "prep" : "loader", &e)))
		r = run(&b, &e);
	if (*e.msg) {
		warn("%s", e.msg);
		r = 1;
	}
	shard_close(b.shard);
	if (b.made)
		unlink(b.made);
	free(b.made);
	meter_free(&b.meter);
	settings_close(&b.set);
	return r < 0 ? 0 : r;
}

int
bench_loader(const struct bench_call *call)
{
	return bench(call, 0,
	    "usage: yolo-bench loader [-Bhq] [-b batch] [-H history.tsv] "
	    "[-j threads]\n                         [-O key=value] [-o out.tsv] [-s side] "
	    "[shard]\n");
}

int
bench_prep(const struct bench_call *call)
{
	return bench(call, 1,
	    "usage: yolo-bench prep [-hq] [-j threads] [-O key=value] "
	    "[-o out.tsv] [input]\n");
}
