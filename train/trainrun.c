/* trainrun.c -- the loop of one rank: batch, step, log, validation, and what is kept.
 *
 * Every rank runs the same loop; rank 0 writes the files and prints.  A signal asks for an end, and
 * the ranks agree on it after the step: the sum of their flags is the same everywhere. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/int.h"

static void run_skipped(const struct train_run *r, const struct batch *b);

static int
run_log(struct train_run *r, const struct batch *b, const struct step_result *s, double lr,
    struct err *e);

static int run_keep(struct train_run *r, int epoch_end, struct err *e);

static int run_validation(struct train_run *r, struct err *e);

enum { AGAIN = 1 };			/* seconds between signals that are two */
enum { ENOUGH = 3 };			/* steps without effect that fail a run at its end */
static const double SLICE = .1;		/* seconds between looks at signals */

static int run_files(struct train_run *r, struct err *e);

static long run_epoch(const struct train_run *r, long step);

static int run_done(const struct train_run *r);

/* The signal that ends the run, and when it first came; is a checkpoint asked for? */
static struct { volatile sig_atomic_t end, save; volatile double since; } asked;

/* The end comes after the step, or within validation; who asks again has it at once.  A terminal's
 * signal and the parent's may both come, so again means later. */
static void
on_end(int sig)
{
	if (asked.end && now() - asked.since > AGAIN)
		_exit(128 + sig);
	if (!asked.end)
		asked.since = now();
	asked.end = sig;
}

static void
on_save(int sig)
{
	(void)sig;
	asked.save = 1;
}

static int
end_asked(void)
{
	return asked.end;
}

/* ---- opening ------------------------------------------------------------------------------ */

static int
run_per_rank(const struct train_cmd *c)
{
	return (c->recipe.batch + (int)c->ranks - 1) / (int)c->ranks;
}

static void
size_at(void *arg, long step, int *w, int *h)
{
	const struct train_cmd *c = (const struct train_cmd *)arg;

	schedule_size(&c->recipe.size, c->from.seed, step, c->recipe.steps, w, h);
}

static struct loader_opts
loader_options(struct train_cmd *c, int rank)
{
	struct loader_opts o = { .seed = c->from.seed, .batch = c->recipe.batch, .rank = rank,
		.ranks = (int)c->ranks, .parts = c->recipe.train.parts, .threads = (int)c->jobs,
		.aug = c->recipe.aug, .size_arg = c, .grey = c->cfg->net.c == 1 };

	if (c->recipe.size.rule != SIZE_FIXED)
		o.size = size_at;
	schedule_size_max(&c->recipe.size, &o.w, &o.h);
	return o;
}

size_t
train_ring_bytes(struct train_cmd *c)
{
	struct loader_opts o = loader_options(c, 0);

	return loader_bytes(&o, c->train);
}

static int
open_weights(struct train_run *r, struct err *e)
{
	struct train_cmd *c = r->c;
	const struct params *p = &r->net->par;
	int cutoff = settings_given(&c->set, "cutoff") ? (int)settings_int(&c->set, "cutoff") : -1;
	char *last;
	int bad = 0;

	weights_init(c->cfg, p, c->from.seed, &r->host);
	if (c->resume) {
		last = path_join(c->dir, "last.safetensors");
		bad = weights_load(last, c->cfg, p, &r->host, -1, e);
		if (bad)
			train_damaged(c->dir, e);
		if (!bad && (!r->host.mom || (r->t->mom2 && !r->host.mom2) ||
		    (r->t->ema && !r->host.ema)))
			bad = err_set(e, "%s: a run goes on with its momentum and averages, and "
			    "they are not all there: begin anew with -w", last);
		free(last);
	} else {
		if (c->recipe.prior)
			recipe_prior(c->cfg, p, &r->host);
		if (c->arg['w'])
			bad = weights_begin(c->arg['w'], c->cfg, p, &r->host, cutoff, e);
	}
	if (bad)
		return -1;
	trainer_put(r->t, &r->host);
	r->t->t = c->from.t;
	r->t->skipped = c->from.skipped;
	return 0;
}

/* The devices that -d lists after "cuda:", 0: no list. */
static int
listed(const struct train_cmd *c)
{
	const char *p = c->arg['d'];
	int n = p && !strncmp(p, "cuda:", 5);

	while (n && (p = strchr(p, ','))) {
		p++;
		n++;
	}
	return n;
}

/* Without -d a machine that has no GPU does; one whose GPU cannot be used does not: nobody should
 * wait for a CPU in its place. */
struct dev *
train_device(const struct train_cmd *c, int rank, const struct dev_opts *o, struct err *e)
{
	const char *want = c->arg['d'], *p;
	int n = listed(c), gpus;
	char spec[32];
	struct err why;

	if (want && strcmp(want, "cuda") && strncmp(want, "cuda:", 5))
		return dev_open(want, o, e);
	snprintf(spec, sizeof spec, "cuda:%d", rank);
	if (n > 1 && n != (int)c->here) {
		err_set(e, "-d %s: %d devices for %ld rank%s; want one for all, or as many", want,
		    n, c->here, c->here > 1 ? "s" : "");
		return NULL;
	}
	if (n) {
		p = want + 5;
		for (int i = 0; i < rank && n > 1; i++)
			p = strchr(p, ',') + 1;
		snprintf(spec, sizeof spec, "cuda:%.*s", (int)strcspn(p, ","), p);
	}
	if ((gpus = dev_count("cuda")) > 0 && !n && rank >= gpus) {
		err_set(e, "%ld ranks want as many GPUs, there %s %d: fewer ranks (-g), -d cpu, or "
		    "-d cuda:0 for all of them", c->here, gpus > 1 ? "are" : "is", gpus);
		return NULL;
	}
	if (want || gpus > 0)
		return dev_open(spec, o, e);
	if (!dev_open(spec, o, &why) && !rank && c->ranks > 1)
		warn("no GPU (%s): %ld ranks on the CPU", why.msg, c->ranks);
	return dev_open("cpu", o, e);
}

/* The arena is planned for the largest size; then all sizes are tried, so that what one of them
 * cannot do, or needs more memory for, is known before the first step. */
static struct net *
open_sizes(struct train_run *r, const struct net_opts *o, struct err *e)
{
	const struct size_plan *p = &r->c->recipe.size;
	struct cfg *c = r->c->cfg;
	struct net *net;
	int w, h, bad;

	schedule_size_max(p, &w, &h);
	if (cfg_resize(c, w, h, e) || train_memory(r->c, r->dev, r->sync->rank, e) ||
	    !(net = net_open(r->dev, c, o, e)))
		return NULL;
	for (int i = bad = 0; i < SIZE_TRIES && p->rule != SIZE_FIXED && !bad; i++) {
		schedule_size_try(p, i, &w, &h);
		bad = net_resize(net, w, h, e);
	}
	if (bad || net_resize(net, p->w, p->h, e)) {
		net_close(net);
		return NULL;
	}
	if (p->rule != SIZE_FIXED && !r->sync->rank && !quiet) {
		schedule_size_max(p, &w, &h);
		warn("multi-scale: sizes up to %dx%d, another one every %d batches (-O "
		    "multiscale=0: none)",
		    w, h, p->every);
	}
	return net;
}

/* The same option computes in something else on another machine. */
static int
same_precision(struct train_cmd *c, const struct dev *d, struct err *e)
{
	const char *now = dev_precision_name(d);

	if (c->from.precision && strcmp(c->from.precision, now))
		return err_set(e, "%s/last.safetensors: the run was in %s, %s would go on in %s",
		    c->dir, c->from.precision, d->name, now);
	if (!c->from.precision)
		c->from.precision = xstrdup(now);
	return 0;
}

static int
open_net(struct train_run *r, const struct world *w, struct err *e)
{
	struct train_cmd *c = r->c;
	struct dev_opts o = { .threads = c->threads, .exact = (int)settings_int(&c->set, "exact"),
		.emulate = (int)settings_int(&c->set, "emulate"), .silent = w->rank > 0,
		.deterministic = (int)settings_int(&c->set, "deterministic") };
	struct net_opts no = { .train = 1, .syncbn = c->recipe.syncbn, .bn_momentum =
		c->recipe.bn_momentum, .seed = c->from.seed };
	int parts = c->recipe.train.parts > 0 ? c->recipe.train.parts : 1;
	struct world own = *w;

	/* A launcher may show each rank a GPU of its own, and no other. */
	if (w->meet && meet_joined(w->meet) && !listed(c) && dev_count("cuda") == 1)
		own.local_rank = 0;
	if (listed(c) == 1)
		own.transport = "shm";	/* all on one GPU: NCCL refuses that */
	no.batch = (run_per_rank(c) + parts - 1) / parts;
	if (dev_precision(&o, c->arg['p'], e) ||
	    !(r->dev = train_device(c, own.local_rank, &o, e)) ||
	    same_precision(c, r->dev, e) || !(r->sync = sync_open(&own, r->dev, e)))
		return -1;
	no.sync = r->sync;
	if (!(r->net = open_sizes(r, &no, e)) ||
	    !(r->t = trainer_open(r->net, r->sync, &c->recipe.train, e)))
		return -1;
	return open_weights(r, e);
}

static int
open_run(struct train_run *r, const struct world *w, struct err *e)
{
	struct train_cmd *c = r->c;
	struct loader_opts lo = loader_options(c, w->rank);
	const char *steps = settings_str(&c->set, "steps");

	r->step = r->saved = c->from.step;
	r->images = r->step * c->recipe.batch;
	r->last = c->recipe.steps;
	if (steps && atol(steps) < r->last)
		r->last = atol(steps);
	if (open_net(r, w, e) || run_files(r, e))
		return -1;
	lo.total = c->recipe.total;
	r->loader = loader_open(c->train, &lo, r->step, r->last > r->step ? r->last - r->step : 0,
	    e);
	return r->loader ? 0 : -1;
}

static void
close_run(struct train_run *r)
{
	progress_end();
	loader_close(r->loader);
	validator_close(r->val);
	trainer_close(r->t);
	net_close(r->net);
	weights_free(&r->host);
	sync_close(r->sync);
	dev_close(r->dev);
	if (r->log)
		fclose(r->log);
	if (r->vallog)
		fclose(r->vallog);
}

/* ---- the loop ----------------------------------------------------------------------------- */

/* Did any rank get a signal?  The same answer on all, also about a checkpoint that is asked for.
 * -1: a rank was lost. */
static int
stop_asked(struct train_run *r, struct err *e)
{
	int save = asked.save;
	double flag[] = { asked.end, save };

	if (save)
		asked.save = 0;		/* one that comes now is served by the same checkpoint */
	if (r->sync->size > 1 && r->sync->ops->sum_host(r->sync, flag, 2))
		return err_set(e, "%s", r->sync->err.msg);
	r->save_now = flag[1] > 0;
	if (flag[0] > 0 && !asked.end)
		asked.end = SIGTERM;	/* another rank's; it holds for this one, too */
	return flag[0] > 0 ? (int)asked.end : 0;
}

/* Until the next batch is there, or the end is asked for: pictures may be slow to read, and that is
 * no stall. */
static void
await_batch(struct train_run *r)
{
	while (!(r->ready = loader_wait(r->loader, SLICE)) && !asked.end)
		sync_alive(r->sync);
}

/* Too many steps in a row without an update: rank 0 saves what can be saved, the others wait. */
static int
give_up(struct train_run *r, struct err *e)
{
	struct err why = { "" };
	double lost = !r->sync->rank && run_keep(r, 0, &why);

	if (r->sync->size > 1 && r->sync->ops->sum_host(r->sync, &lost, 1))
		return err_set(e, "%s", r->sync->err.msg);
	if (lost > 0)
		return err_set(e, "%ld steps in a row were not finite: stopped at step %ld, and "
		    "nothing is saved: "
		    "%s", r->c->from.bad, r->step, *why.msg ? why.msg : "see rank 0");
	return err_set(e, "%ld steps in a row were not finite: stopped at step %ld; "
	    "last.safetensors has the weights of step %ld; a smaller -O lr or -O clip helps most "
	    "often", r->c->from.bad,
	    r->step,
	    r->step - r->c->from.bad);
}

/* How far the run is, should a rank be lost. */
static void
tell_sync(struct train_run *r)
{
	char note[300];

	if (r->c->from.step)
		snprintf(note, sizeof note, "after step %ld; -R goes on from step %ld, that of "
		    "%.200s/last.safetensors", r->step, r->c->from.step, r->c->dir);
	else
		snprintf(note, sizeof note, "after step %ld, and nothing is saved yet", r->step);
	sync_note(r->sync, note);
}

static int
one_step(struct train_run *r, struct err *e)
{
	struct train_cmd *c = r->c;
	struct batch *b = loader_next(r->loader, e);
	struct warm w;
	struct step_result s;
	int bad;

	if (!b)
		return e->msg[0] ? -1 : err_set(e, "the loader ended early: a bug");
	recipe_rates(&c->recipe, c->from.seed, r->step, &w);
	bad = trainer_step(r->t, b, &w, &s, e);
	if (!bad) {
		r->step++;
		r->images += s.images;
		tell_sync(r);
		c->from.bad = s.finite ? 0 : c->from.bad + 1;
		if (!s.finite && !r->sync->rank)
			run_skipped(r, b);
		if (!r->sync->rank)
			bad = run_log(r, b, &s, w.lr, e);
	}
	loader_free(r->loader, b);
	return bad || c->from.bad < c->recipe.nan_stop ? bad : give_up(r, e);
}

/* What rank 0 does after something is kept: 0 goes on, 1 is content to end the run, otherwise the
 * status of one that was stopped in validation.  The same answer on all.  -1: a rank was lost. */
static int
agree_end(struct train_run *r, int stopped, struct err *e)
{
	double flag = r->sync->rank ? 0 : stopped ? stopped : run_done(r);

	if (r->sync->size > 1 && r->sync->ops->sum_host(r->sync, &flag, 1))
		return err_set(e, "%s", r->sync->err.msg);
	r->c->from.step = r->step;
	tell_sync(r);
	r->since = now();
	return (int)flag;
}

/* Checkpoint and validation where they are due.  All ranks pass here together. */
static int
after_step(struct train_run *r, int stop, struct err *e)
{
	const struct recipe *p = &r->c->recipe;
	int epoch_end = r->step && (run_epoch(r, r->step) > run_epoch(r, r->step - 1) ||
	    r->step == p->steps), stopped = 0;
	int due = epoch_end || r->step == r->last || stop || r->save_now ||
	    (p->save && r->step % p->save == 0);

	if (!due)
		return 0;
	if (!r->sync->rank && (stopped = run_keep(r, epoch_end, e)) < 0)
		return -1;
	return agree_end(r, stopped, e);
}

/* The validation that a run was stopped or killed in. */
static int
after_due(struct train_run *r, struct err *e)
{
	int stopped = 0;

	if (!r->sync->rank && (stopped = run_validation(r, e)) < 0)
		return -1;
	r->c->from.due = 0;
	return agree_end(r, stopped, e);
}

/* A run whose last steps, or all of it, were of no effect has not succeeded. */
static int
all_skipped(const struct train_run *r, long start, struct err *e)
{
	long bad = r->c->from.bad, done = r->step - start;

	if (!bad || !done || (bad < done && bad < ENOUGH))
		return 0;
	err_set(e, "the run ends at step %ld, and its last %ld step%s had a loss or gradient that "
	    "is not finite, and no effect; a smaller -O lr or -O clip helps most often", r->step,
	    bad, bad > 1 ? "s" : "");
	return 1;
}

static int
loop(struct train_run *r, struct err *e)
{
	long start = r->step;
	int stop = 0, due = r->c->from.due, end = 0;

	tell_sync(r);
	r->since = now();
	if (due && (end = after_due(r, e)) < 0)
		return 1;
	if (!due)
		end = run_done(r);
	await_batch(r);
	if (!end && ((stop = stop_asked(r, e)) < 0 || (stop && !start && after_step(r, stop, e))))
		return 1;
	while (r->step < r->last && !stop && !end) {
		if (one_step(r, e))
			return 1;
		await_batch(r);
		if ((stop = stop_asked(r, e)) < 0 || (end = after_step(r, stop, e)) < 0)
			return 1;
	}
	if (end > 1)
		return end;
	if (stop)
		return 128 + stop;
	if (!r->sync->rank && r->step == start && !due)
		warn("nothing left to do at step %ld of %ld", r->step, r->last);
	return all_skipped(r, start, e);
}

/* A run that ends before its first validation has no best weights. */
static void
tell_done(const struct train_cmd *c)
{
	char *best = path_join(c->dir, "best.weights");
	const char *name = access(best, R_OK) ? "last.safetensors" : "best.weights";

	warn("done: %s/%s with %s/run.cfg; try: yolo-detect -c %s/run.cfg -w %s/%s PICTURE", c->dir,
	    name, c->dir, c->dir, c->dir, name);
	free(best);
}

int
train_rank(struct train_cmd *c, const struct world *w, struct err *e)
{
	struct train_run r = { .c = c };
	int status;

	catch_save(on_save);
	catch_end(on_end, 0);
	if (c->resume && !w->rank) {
		warn("resuming %s at step %ld", c->dir, c->from.step);
		train_tell_ranks(c);
	}
	status = open_run(&r, w, e) ? 1 : loop(&r, e);
	if (status == 1 && w->size > 1)
		world_fail(w, e->msg);
	if (status > 1 && !r.ready)
		_exit(status);		/* all is saved; the loader may hang in a read */
	close_run(&r);
	if (!status && !w->rank && !quiet)
		tell_done(c);
	return status;
}

/* What a run leaves behind: logs, checkpoints, the best weights, run.cfg.
 *
 * Only rank 0 comes here.  Files are replaced whole; the logs are appended to, and a resumed run
 * first drops the rows after its checkpoint. */

static const char log_head[] = "#step\tepoch\timages\tsize\tlr\tloss\tbox\tobj\tcls\tgnorm\timg_s"
    "\twait_ms\tmem_mb\n";
#define LOST "#lost\t%ld\t%ld"	/* steps whose rows are gone with a log that was moved away */

/* The log so far; NULL: there is none, which is no error.  One that cannot be read must not be
 * begun anew. */
static char *
old_log(const char *path, struct err *e)
{
	struct stat st;
	size_t len;

	e->msg[0] = 0;
	if (stat(path, &st) && errno == ENOENT)
		return NULL;
	return plain_read(path, (size_t)1 << 34, &len, e);
}

/* The rows up to the checkpoint's step; each must be there once, in order. */
static int
keep_rows(FILE *f, const char *path, const char *old, long step, struct err *e)
{
	long next = 1, first, last;

	for (const char *p = old, *nl; (nl = strchr(p, '\n')); p = nl + 1) {
		if (sscanf(p, LOST, &first, &last) == 2)
			next = last + 1;
		if ((*p == '#' && p != old) || (*p != '#' && atol(p) == next && next <= step))
			fwrite(p, 1, (size_t)(nl + 1 - p), f);
		next += *p != '#' && atol(p) == next;
	}
	return next > step ? 0 :
	    err_set(e, "%s: the run is at step %ld, and the row of step %ld is not there: put the "
	    "whole file back, or move it away, and a new one begins at step %ld", path, step, next,
	    step + 1);
}

/* What a log begins with: its head, and what is known of the steps so far.  rows: all of them, as
 * the checkpoint knows them; NULL: those of the file. */
static int
begin_log(FILE *f, const char *path, const char *rows, long step, struct err *e)
{
	char *old = rows || !step ? NULL : old_log(path, e);
	int bad = !rows && step && !old && e->msg[0] ? -1 : 0;

	if (rows)
		fputs(rows, f);
	else if (old)
		bad = keep_rows(f, path, old, step, e);
	else if (step && !bad) {
		warn("%s: not there: it begins at step %ld", path, step + 1);
		fprintf(f, LOST "\n", 1L, step);
	}
	free(old);
	return bad;
}

/* A checkpoint from before it knew the rows of val.tsv: those of the file. */
static int
adopt_rows(struct train_run *r, struct err *e)
{
	char *path = path_join(r->c->dir, "val.tsv"), *old = r->step ? old_log(path, e) : NULL;
	size_t len = 0;
	FILE *f = open_memstream(&r->c->from.rows, &len);

	if (!f)
		die(1, "out of memory");
	for (char *p = old, *nl; p && (nl = strchr(p, '\n')); p = nl + 1)
		if (*p != '#' && atol(p) <= r->step)
			fwrite(p, 1, (size_t)(nl + 1 - p), f);
	fclose(f);
	free(path);
	free(old);
	return r->step && !old && e->msg[0] ? -1 : 0;
}

/* A log for appending, so that a resumed run's is that of a run never stopped. */
static FILE *
open_log(struct train_run *r, const char *name, const char *head, const char *rows, struct err *e)
{
	char *path = path_join(r->c->dir, name);
	struct outfile o;
	FILE *f = NULL;

	if (!out_open(&o, path, e)) {
		fputs(head, o.f);
		if (begin_log(o.f, path, rows, r->step, e))
			out_abort(&o);
		else if (!out_commit(&o, e) && !(f = fopen(path, "a")))
			err_set(e, "%s: %s", path, strerror(errno));
	}
	if (f) {			/* unbuffered: a row that cannot be written is not kept */
		setvbuf(f, NULL, _IONBF, 0);
		fseek(f, 0, SEEK_END);
	}
	free(path);
	return f;
}

static double
peak_mb(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss / 1024.;
}

static long
run_epoch(const struct train_run *r, long step)
{
	return (long)((double)step * r->c->recipe.batch / (double)r->c->from.samples);
}

/* A row is there or not: what a full disk took half of is cut off again. */
static int
append(struct train_run *r, FILE *f, const char *name, const char *row, struct err *e)
{
	off_t before = ftello(f);
	int why;

	if (fputs(row, f) >= 0)
		return 0;
	why = errno;
	if (ftruncate(fileno(f), before))
		warn("%s/%s: its last row is not whole", r->c->dir, name);
	return err_set(e, "%s/%s: %s", r->c->dir, name, strerror(why));
}

/* Standard output may be a pager that does not read: until it does, or the end is asked for. */
static int
show(struct train_run *r, const char *line, struct err *e)
{
	struct pollfd p = { STDOUT_FILENO, POLLOUT, 0 };
	int can;

	while (!(can = poll(&p, 1, 100)) && !asked.end)
		sync_alive(r->sync);
	if (!can || (can < 0 && asked.end))
		return 0;
	fputs(line, stdout);
	return stdout_flush(e) && !asked.end ? -1 : 0;
}

static int
run_log(struct train_run *r, const struct batch *b, const struct step_result *s, double lr,
    struct err *e)
{
	double t = now(), speed = s->images / (t - r->since);
	char line[400];

	snprintf(line, sizeof line,
	    "%ld\t%ld\t%ld\t%dx%d\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\n", r->step,
	    run_epoch(r, r->step - 1), r->images, b->w, b->h, lr, s->loss, s->box, s->obj, s->cls,
	    s->gnorm, speed, b->wait * 1e3, peak_mb());
	r->since = t;
	progress_end();
	if (append(r, r->log, "log.tsv", line, e))
		return -1;
	if (show(r, line, e))
		return -1;
	progress("step %ld of %ld  loss %.4g  %.1f img/s  %.0f s left", r->step, r->last, s->loss,
	    speed, (double)(r->last - r->step) * s->images / speed);
	return 0;
}

enum { NAMED = 12 };			/* pictures named of a batch that is skipped */

/* Which records made the batch, each once; mosaic's partners too. */
static int
records_of(const struct train_run *r, const struct batch *b, long *out)
{
	const struct recipe *p = &r->c->recipe;
	long n = (long)r->c->from.samples, first = b->step * p->batch, pick[AUG_PICTURES];
	int have = 0;

	for (int k = 0; k < AUG_PICTURES; k++)		/* the batch's own first */
		for (long t = first; t < first + b->n_global; t++) {
			int m = augment_picks(&p->aug, r->c->from.seed, t, pick), i = 0;
			long record = k < m ? loader_record(r->c->from.seed, n, pick[k]) : -1;

			while (i < have && out[i] != record)
				i++;
			if (record >= 0 && i == have)
				out[have++] = record;
		}
	return have;
}

/* Names the pictures. */
static void
run_skipped(const struct train_run *r, const struct batch *b)
{
	long *rec = (long *)xcalloc((size_t)b->n_global * AUG_PICTURES, sizeof *rec);
	int n = records_of(r, b, rec);
	struct record label;
	struct err why;
	size_t len;
	char *names = NULL, more[64] = "";
	FILE *f = open_memstream(&names, &len);

	if (!f)
		die(1, "out of memory");
	for (int i = 0; i < n && i < NAMED; i++)
		if (shard_labels(r->c->train, rec[i], &label, &why))
			fprintf(f, "%srecord %ld", i ? ", " : "", rec[i]);
		else
			fprintf(f, "%s%s", i ? ", " : "", label.name);
	fclose(f);
	if (n > NAMED)
		snprintf(more, sizeof more, " and %d more", n - NAMED);
	warn("step %ld: loss or gradient is not finite; the update is skipped, %ld so far; its "
	    "pictures: %s%s", r->step, r->t->skipped, names, more);
	free(names);
	free(rec);
}

/* The checkpoint before keeps another name.  It is one more name first, so that at no moment there
 * is none; where the file system has no such names, there is one checkpoint only. */
static void
keep_before(const char *dir)
{
	char *last = path_join(dir, "last.safetensors"), *before = path_join(dir, TRAIN_BEFORE);
	char *tmp = path_tmp(before);

	if (!link(last, tmp) && (rename(tmp, before) || !access(tmp, F_OK)))
		unlink(tmp);	/* rename() leaves both where both are one file already */
	free(last);
	free(before);
	free(tmp);
}

static int
save(struct train_run *r, const char *name, struct err *e)
{
	struct train_cmd *c = r->c;
	char *path = path_join(c->dir, name);
	int bad;

	c->from.step = r->step;
	c->from.t = r->t->t;
	c->from.skipped = r->t->skipped;
	c->from.threads = c->threads;
	c->from.ranks = c->ranks;
	bad = checkpoint_save(path, c->cfg, &r->net->par, &r->host, &c->from, e);
	free(path);
	return bad;
}

/* What best.weights holds: the averaged weights where there are any. */
static int
save_best(struct train_run *r, struct err *e)
{
	struct weights w = { .train = r->host.ema ? r->host.ema : r->host.train,
		.stat = r->host.ema_stat ? r->host.ema_stat : r->host.stat };
	char *path = path_join(r->c->dir, "best.weights");
	int bad;

	w.seen = (uint64_t)r->step * (uint64_t)r->c->recipe.batch;
	bad = weights_save_darknet(path, r->c->cfg, &r->net->par, &w, -1, e);
	free(path);
	sync_alive(r->sync);
	return bad ? -1 : save(r, "best.safetensors", e);
}

/* What was really run: the cfg, below the settings that it does not say. */
static int
write_cfg(struct train_run *r, struct err *e)
{
	static const char as_run[] = "# as run by ";
	char *path = path_join(r->c->dir, "run.cfg"), *command;
	const char *text = r->c->cfg->text;
	struct outfile o;
	int bad = out_open(&o, path, e);

	free(path);
	if (bad)
		return -1;
	command = train_command(r->c);
	fprintf(o.f, "%s%s\n", as_run, command);
	free(command);
	while (!strncmp(text, as_run, sizeof as_run - 1) && strchr(text, '\n'))
		text = strchr(text, '\n') + 1;	/* of the run that this cfg came from */
	fputs(text, o.f);
	return out_commit(&o, e);
}

/* A row onto what the checkpoint knows of val.tsv. */
static void
remember(struct checkpoint *c, const char *row)
{
	char *was = c->rows;

	c->rows = xasprintf("%s%s", was ? was : "", row);
	free(was);
}

static int
validate(struct train_run *r, struct val_result *v, struct err *e)
{
	const float *w = r->t->ema ? r->t->ema : r->net->train;
	const float *s = r->t->ema ? r->t->ema_stat : r->net->stat;
	char line[VAL_COLS * 24 + 50];
	int n = validator_run(r->val, w, s, v, e);

	if (n)
		return n;
	n = snprintf(line, sizeof line, "%ld\t%ld", r->step, run_epoch(r, r->step));
	for (int i = 0; i < VAL_COLS; i++)
		n += snprintf(line + n, sizeof line - (size_t)n, "\t%.9g", v->col[i]);
	snprintf(line + n, sizeof line - (size_t)n, "\n");
	if (append(r, r->vallog, "val.tsv", line, e))
		return -1;
	remember(&r->c->from, line);
	if (!quiet)
		warn("step %ld: AP %.4f  AP50 %.4f", r->step, v->col[0], v->col[1]);
	return 0;
}

static int
all_finite(const float *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(v[i]))
			return 0;
	return 1;
}

static int
check_finite(const struct train_run *r, struct err *e)
{
	const struct params *p = &r->net->par;
	const struct weights *w = &r->host;

	if (all_finite(w->train, p->ntrain) && all_finite(w->stat, p->nstat) &&
	    (!w->mom || all_finite(w->mom, p->ntrain)) &&
	    (!w->mom2 || all_finite(w->mom2, p->ntrain)))
		return 0;
	return err_set(e, "step %ld: the weights are not finite (%ld updates were skipped): they "
	    "are not saved; %s/last.safetensors, if there, is of an earlier step; a smaller -O lr "
	    "or -O clip helps most often", r->step, r->t->skipped, r->c->dir);
}

/* No better for as long as patience allows. */
static int
run_done(const struct train_run *r)
{
	const struct recipe *p = &r->c->recipe;

	return p->patience > 0 && r->c->from.stale >= p->patience;
}

/* Is this validation the best so far? */
static int
judge(struct train_run *r, const struct val_result *v)
{
	struct checkpoint *f = &r->c->from;
	const struct recipe *p = &r->c->recipe;
	int better = v->col[p->best] >= 0 && (f->best_step < 0 || v->col[p->best] > f->best);

	if (better) {
		f->best = v->col[p->best];
		f->best_step = r->step;
		f->stale = 0;
	} else
		f->stale++;
	if (run_done(r))
		warn("step %ld: %s no better for %ld validations: the run ends; the best, %.4f, "
		    "is of step %ld",
		    r->step, val_name[p->best], f->stale, f->best, f->best_step);
	return better;
}

/* The log first: a checkpoint whose rows a crash took could not go on. */
static int
save_last(struct train_run *r, struct err *e)
{
	sync_alive(r->sync);
	if (fsync(fileno(r->log)) && errno != EINVAL)
		return err_set(e, "%s/log.tsv: %s", r->c->dir, strerror(errno));
	if (r->saved != r->step)	/* after validation it is the same step's again */
		keep_before(r->c->dir);
	r->saved = r->step;
	return save(r, "last.safetensors", e);
}

/* Validation, and the checkpoint that knows it.  A status, 128 and more: a signal came first, and
 * what is saved says that it is still due. */
static int
run_validation(struct train_run *r, struct err *e)
{
	struct val_result v;
	int n = validate(r, &v, e);

	if (n)
		return n < 0 ? -1 : 128 + (int)asked.end;
	r->c->from.due = 0;
	if (judge(r, &v) && save_best(r, e))
		return -1;
	return save_last(r, e);
}

/* Rank 0: the checkpoint, and at an epoch's end validation, whose result is saved again.  Weights
 * that are not finite are an error, and the checkpoint before stays. */
static int
run_keep(struct train_run *r, int epoch_end, struct err *e)
{
	trainer_get(r->t, &r->host);
	r->host.seen = (uint64_t)r->step * (uint64_t)r->c->recipe.batch;
	if (check_finite(r, e))
		return -1;
	sync_alive(r->sync);		/* files may be large, and disks slow */
	r->c->from.due = r->val && epoch_end;
	if (!r->val && save_best(r, e))	/* no validation: the last is the best */
		return -1;
	if (save_last(r, e))
		return -1;
	return r->c->from.due ? run_validation(r, e) : 0;
}

static const char *
val_head(char head[200])
{
	int n = snprintf(head, 200, "#step\tepoch");

	for (int i = 0; i < VAL_COLS; i++)
		n += snprintf(head + n, (size_t)(200 - n), "\t%s", val_name[i]);
	snprintf(head + n, (size_t)(200 - n), "\n");
	return head;
}

/* Rank 0: logs, run.cfg, the validator. */
static int
run_files(struct train_run *r, struct err *e)
{
	struct train_cmd *c = r->c;
	struct val_opts vo = { .shard = c->val, .batch = run_per_rank(c), .threads = (int)c->jobs,
		.loss = c->recipe.train.loss.kind, .rect = (int)settings_int(&c->set, "rect"),
		.sync = r->sync, .stop = end_asked };
	char head[200];

	if (r->sync->rank)
		return 0;
	if (!c->from.rows && adopt_rows(r, e))
		return -1;
	if (write_cfg(r, e) || !(r->log = open_log(r, "log.tsv", log_head, NULL, e)) ||
	    !(r->vallog = open_log(r, "val.tsv", val_head(head), c->from.rows, e)))
		return -1;
	if (c->val && !(r->val = validator_open(r->dev, c->cfg, &vo, e)))
		return -1;
	return show(r, log_head, e);
}
