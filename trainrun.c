/* trainrun.c -- the loop of one rank: batch, step, log, checkpoint, validation.
 *
 * Every rank runs the same loop; rank 0 writes the files and prints.  A signal asks for an end, and
 * the ranks agree on it after the step: the sum of their flags is the same everywhere. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "yolo.h"

struct run {
	struct train_cmd *c;
	struct dev *dev;
	struct sync *sync;
	struct net *net;
	struct trainer *t;
	struct loader *loader;
	struct validator *val;		/* rank 0, with -v */
	struct weights host;		/* rank 0: for checkpoints */
	FILE *log, *vallog;		/* rank 0 */
	long step, last, bad;		/* updates done, end of this run, skipped in a row */
	double since;
	long images;
};

static volatile sig_atomic_t asked;

static void
on_signal(int sig)
{
	asked = sig;
}

static const char log_head[] = "#step\tepoch\timages\tsize\tlr\tloss\tbox\tobj\tcls\tgnorm\timg_s"
    "\twait_ms\tmem_mb\n";
static const char val_head[] = "#step\tepoch\tAP\tAP50\tAP75\tAPs\tAPm\tAPl\tAR1\tAR10\tAR100\tARs"
    "\tARm\tARl\tP\tR\tF1\tthr\n";

/* A log for appending: rows after the checkpoint's step are dropped, so that a resumed run's log is
 * that of a run never stopped. */
static FILE *
open_log(const char *dir, const char *name, const char *head, long step, struct err *e)
{
	char *path = path_join(dir, name), *old = NULL;
	struct outfile o;
	struct err why;
	size_t len = 0;
	FILE *f = NULL;

	if (step > 0)
		old = file_read(path, (size_t)1 << 34, &len, &why);	/* missing: begun anew */
	if (!out_open(&o, path, e)) {
		fputs(head, o.f);
		for (char *p = old, *nl; p && (nl = strchr(p, '\n')); p = nl + 1)
			if (*p != '#' && atol(p) <= step)
				fwrite(p, 1, (size_t)(nl + 1 - p), o.f);
		if (!out_commit(&o, e) && !(f = fopen(path, "a")))
			err_set(e, "%s: %s", path, strerror(errno));
	}
	if (f) {			/* unbuffered: a row that cannot be written is not kept */
		setvbuf(f, NULL, _IONBF, 0);
		fseek(f, 0, SEEK_END);
	}
	free(old);
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
epoch_of(const struct run *r, long step)
{
	return (long)((double)step * r->c->recipe.batch / (double)r->c->from.samples);
}

/* A row is there or not: what a full disk took half of is cut off again. */
static int
append(struct run *r, FILE *f, const char *name, const char *row, struct err *e)
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

static int
log_step(struct run *r, const struct batch *b, const struct step_result *s, double lr,
    struct err *e)
{
	double t = now(), speed = s->images / (t - r->since);
	char line[400];

	snprintf(line, sizeof line,
	    "%ld\t%ld\t%ld\t%dx%d\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\n", r->step,
	    epoch_of(r, r->step - 1), r->images, b->w, b->h, lr, s->loss, s->box, s->obj, s->cls,
	    s->gnorm, speed, b->wait * 1e3, peak_mb());
	r->since = t;
	progress_end();
	if (append(r, r->log, "log.tsv", line, e))
		return -1;
	fputs(line, stdout);
	if (stdout_flush(e))
		return -1;
	progress("step %ld of %ld  loss %.4g  %.1f img/s  %.0f s left", r->step, r->last, s->loss,
	    speed, (double)(r->last - r->step) * s->images / speed);
	return 0;
}

/* ---- files -------------------------------------------------------------------------------- */

static int
save(struct run *r, const char *name, struct err *e)
{
	struct train_cmd *c = r->c;
	char *path = path_join(c->dir, name);
	int bad;

	c->from.step = r->step;
	c->from.t = r->t->t;
	c->from.skipped = r->t->skipped;
	c->from.threads = c->threads;
	bad = checkpoint_save(path, c->cfg, &r->net->par, &r->host, &c->from, e);
	free(path);
	return bad;
}

/* What best.weights holds: the averaged weights where there are any. */
static int
save_best(struct run *r, struct err *e)
{
	struct weights w = { r->host.ema ? r->host.ema : r->host.train,
		r->host.ema_stat ? r->host.ema_stat : r->host.stat, NULL, NULL, NULL, NULL, 0 };
	char *path = path_join(r->c->dir, "best.weights");
	int bad;

	w.seen = (uint64_t)r->step * (uint64_t)r->c->recipe.batch;
	bad = weights_save_darknet(path, r->c->cfg, &r->net->par, &w, -1, e);
	free(path);
	return bad ? -1 : save(r, "best.safetensors", e);
}

static int
write_cfg(struct run *r, struct err *e)
{
	char *path = path_join(r->c->dir, "run.cfg");
	struct outfile o;
	int bad = out_open(&o, path, e);

	free(path);
	if (bad)
		return -1;
	fwrite(r->c->cfg->text, 1, r->c->cfg->len, o.f);
	return out_commit(&o, e);
}

static int
validate(struct run *r, struct val_result *v, struct err *e)
{
	const float *w = r->t->ema ? r->t->ema : r->net->train;
	const float *s = r->t->ema ? r->t->ema_stat : r->net->stat;

	char line[VAL_COLS * 24 + 50];
	int n;

	if (validator_run(r->val, w, s, r->sync, v, e))
		return -1;
	n = snprintf(line, sizeof line, "%ld\t%ld", r->step, epoch_of(r, r->step));
	for (int i = 0; i < VAL_COLS; i++)
		n += snprintf(line + n, sizeof line - (size_t)n, "\t%.9g", v->col[i]);
	snprintf(line + n, sizeof line - (size_t)n, "\n");
	if (append(r, r->vallog, "val.tsv", line, e))
		return -1;
	if (!quiet)
		warn("step %ld: AP %.4f  AP50 %.4f", r->step, v->col[0], v->col[1]);
	return 0;
}

/* Rank 0: validation at an epoch's end, then the checkpoint, in this order, so that the checkpoint
 * knows the best. */
static int
keep(struct run *r, int epoch_end, struct err *e)
{
	struct val_result v;
	int better = !r->val && epoch_end;	/* no validation: the last is the best */

	if (r->val && epoch_end) {
		if (validate(r, &v, e))
			return -1;
		if ((better = v.col[0] > r->c->from.best)) {
			r->c->from.best = v.col[0];
			r->c->from.best_step = r->step;
		}
	}
	trainer_get(r->t, &r->host);
	r->host.seen = (uint64_t)r->step * (uint64_t)r->c->recipe.batch;
	if (better && save_best(r, e))
		return -1;
	return save(r, "last.safetensors", e);
}

/* ---- opening ------------------------------------------------------------------------------ */

static int
per_rank(const struct train_cmd *c)
{
	return (c->recipe.batch + (int)c->ranks - 1) / (int)c->ranks;
}

static struct loader_opts
loader_options(const struct train_cmd *c, int rank)
{
	struct loader_opts o = { .seed = c->from.seed, .batch = c->recipe.batch, .rank = rank,
		.ranks = (int)c->ranks, .w = c->cfg->l[0].in_w, .h = c->cfg->l[0].in_h,
		.threads = (int)c->jobs, .max_truth = 0, .aug = c->recipe.aug };

	return o;
}

size_t
train_ring_bytes(const struct train_cmd *c)
{
	struct loader_opts o = loader_options(c, 0);

	return loader_bytes(&o, c->train);
}

static int
open_weights(struct run *r, struct err *e)
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
		free(last);
	} else {
		if (c->recipe.prior)
			recipe_prior(c->cfg, p, &r->host);
		if (c->arg['w'])
			bad = weights_load(c->arg['w'], c->cfg, p, &r->host, cutoff, e);
	}
	if (bad)
		return -1;
	trainer_put(r->t, &r->host);
	r->t->t = c->from.t;
	r->t->skipped = c->from.skipped;
	return 0;
}

struct dev *
train_device(const struct train_cmd *c, int rank, const struct dev_opts *o, struct err *e)
{
	const char *want = c->arg['d'], *p;
	char spec[32];
	struct dev *d;
	struct err why;

	if (want && strncmp(want, "cuda", 4))
		return dev_open(want, o, e);
	snprintf(spec, sizeof spec, "cuda:%d", rank);
	if (want && want[4] == ':') {	/* one for all, or a list: as many as ranks */
		p = want + 5;
		for (int i = 0; i < rank && strchr(p, ','); i++)
			p = strchr(p, ',') + 1;
		snprintf(spec, sizeof spec, "cuda:%.*s", (int)strcspn(p, ","), p);
	}
	if (want)
		return dev_open(spec, o, e);
	if ((d = dev_open(spec, o, &why)))
		return d;
	if (!rank && c->ranks > 1)
		warn("no GPU (%s): %ld ranks on the CPU", why.msg, c->ranks);
	return dev_open("cpu", o, e);
}

static int
open_net(struct run *r, const struct world *w, struct err *e)
{
	struct train_cmd *c = r->c;
	struct dev_opts o = { .threads = c->threads, .exact = (int)settings_int(&c->set, "exact"),
		.tf32 = c->arg['p'] && !strcmp(c->arg['p'], "tf32"),
		.deterministic = (int)settings_int(&c->set, "deterministic") };
	struct net_opts no = { .train = 1, .syncbn = c->recipe.syncbn, .bn_momentum =
		c->recipe.bn_momentum, .seed = c->from.seed };
	int parts = c->recipe.train.parts > 0 ? c->recipe.train.parts : 1;

	no.batch = (per_rank(c) + parts - 1) / parts;
	if (!(r->dev = train_device(c, w->local_rank, &o, e)) ||
	    !(r->sync = sync_open(w, r->dev, e)))
		return -1;
	no.sync = r->sync;
	if (!(r->net = net_open(r->dev, c->cfg, &no, e)) ||
	    !(r->t = trainer_open(r->net, r->sync, &c->recipe.train, e)))
		return -1;
	return open_weights(r, e);
}

static int
open_files(struct run *r, struct err *e)
{
	struct train_cmd *c = r->c;
	char *path;

	if (r->sync->rank)
		return 0;
	if (write_cfg(r, e) || !(r->log = open_log(c->dir, "log.tsv", log_head, r->step, e)) ||
	    !(r->vallog = open_log(c->dir, "val.tsv", val_head, r->step, e)))
		return -1;
	path = path_join(c->dir, "val.shard");
	if (c->val)
		r->val = validator_open(r->dev, c->cfg, c->val, path, per_rank(c), (int)c->jobs,
		    c->recipe.train.loss.kind, e);
	free(path);
	if (c->val && !r->val)
		return -1;
	fputs(log_head, stdout);
	return 0;
}

static int
open_run(struct run *r, const struct world *w, struct err *e)
{
	struct train_cmd *c = r->c;
	struct loader_opts lo = loader_options(c, w->rank);
	const char *steps = settings_str(&c->set, "steps");

	r->step = c->from.step;
	r->images = r->step * c->recipe.batch;
	r->last = c->recipe.steps;
	if (steps && atol(steps) < r->last)
		r->last = atol(steps);
	if (open_net(r, w, e) || open_files(r, e))
		return -1;
	if (c->recipe.epochs > 0)
		lo.total = (long)(c->recipe.epochs * (double)c->from.samples + .5);
	r->loader = loader_open(c->train, &lo, r->step, r->last - r->step, e);
	return r->loader ? 0 : -1;
}

static void
close_run(struct run *r)
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

/* Did any rank get a signal?  The same answer on all.  -1: a rank was lost. */
static int
stop_asked(struct run *r, struct err *e)
{
	double flag = asked;

	if (r->sync->size == 1)
		return (int)flag;
	if (r->sync->ops->sum_host(r->sync, &flag, 1))
		return err_set(e, "%s", r->sync->err.msg);
	return flag > 0 ? (asked ? (int)asked : SIGTERM) : 0;
}

static int
one_step(struct run *r, struct err *e)
{
	struct train_cmd *c = r->c;
	struct batch *b = loader_next(r->loader, e);
	double lr = recipe_lr(&c->recipe, c->from.seed, r->step);
	struct step_result s;
	int bad;

	if (!b)
		return e->msg[0] ? -1 : err_set(e, "the loader ended early: a bug");
	bad = trainer_step(r->t, b, lr, lr, recipe_momentum(&c->recipe, r->step), &s, e);
	if (!bad) {
		r->step++;
		r->images += s.images;
		r->bad = s.finite ? 0 : r->bad + 1;
		if (!s.finite && !r->sync->rank)
			warn("step %ld: loss or gradient is not finite; the update is skipped "
			    "(pictures: record %ld and the %d after it in the order)", r->step,
			    b->record[0], b->n - 1);
		if (!r->sync->rank)
			bad = log_step(r, b, &s, lr, e);
	}
	loader_free(r->loader, b);
	if (!bad && r->bad >= c->recipe.nan_stop)
		return err_set(e,
		    "%ld steps in a row were not finite: stopped at step %ld; a smaller -O lr or "
		    "-O clip helps most often", r->bad, r->step);
	return bad;
}

/* Checkpoint and validation where they are due.  All ranks pass here together. */
static int
after_step(struct run *r, int stop, struct err *e)
{
	const struct recipe *p = &r->c->recipe;
	int epoch_end = epoch_of(r, r->step) > epoch_of(r, r->step - 1) || r->step == p->steps;
	int due = epoch_end || r->step == r->last || stop || (p->save && r->step % p->save == 0);

	if (!due)
		return 0;
	if (!r->sync->rank && keep(r, epoch_end, e))
		return -1;
	if (r->sync->size > 1 && r->sync->ops->barrier(r->sync))
		return err_set(e, "%s", r->sync->err.msg);
	r->since = now();
	return 0;
}

static int
loop(struct run *r, struct err *e)
{
	long start = r->step;
	int stop = 0;

	r->since = now();
	while (r->step < r->last && !stop) {
		if (one_step(r, e) || (stop = stop_asked(r, e)) < 0 || after_step(r, stop, e))
			return 1;
	}
	if (!r->sync->rank && start >= r->last)
		warn("nothing left to do at step %ld of %ld", r->step, r->last);
	return stop ? 128 + stop : 0;
}

int
train_rank(struct train_cmd *c, const struct world *w, struct err *e)
{
	struct sigaction sa = { 0 };
	struct run r = { .c = c };
	int status;

	sa.sa_handler = on_signal;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	if (c->resume && !w->rank)
		warn("resuming %s at step %ld", c->dir, c->from.step);
	status = open_run(&r, w, e) ? 1 : loop(&r, e);
	if (status == 1 && r.sync && r.sync->size > 1)
		sync_fail(r.sync, e->msg);
	close_run(&r);
	if (!status && !w->rank && !quiet)
		warn("done: %s/best.weights with %s/run.cfg; try: yolo-detect -c %s/run.cfg -w "
		    "%s/best.weights PICTURE", c->dir, c->dir, c->dir, c->dir);
	return status;
}
