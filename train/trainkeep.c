/* trainkeep.c -- what a run leaves behind: logs, checkpoints, the best weights, run.cfg.
 *
 * Only rank 0 comes here.  Files are replaced whole; the logs are appended to, and a resumed run
 * first drops the rows after its checkpoint. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "yolo.h"

static const char log_head[] = "#step\tepoch\timages\tsize\tlr\tloss\tbox\tobj\tcls\tgnorm\timg_s"
    "\twait_ms\tmem_mb\n";

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

long
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

int
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
	fputs(line, stdout);
	if (stdout_flush(e))
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

void
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
	struct weights w = { r->host.ema ? r->host.ema : r->host.train,
		r->host.ema_stat ? r->host.ema_stat : r->host.stat, NULL, NULL, NULL, NULL, 0 };
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

static int
validate(struct train_run *r, struct val_result *v, struct err *e)
{
	const float *w = r->t->ema ? r->t->ema : r->net->train;
	const float *s = r->t->ema ? r->t->ema_stat : r->net->stat;
	char line[VAL_COLS * 24 + 50];
	int n;

	if (validator_run(r->val, w, s, r->sync, v, e))
		return -1;
	n = snprintf(line, sizeof line, "%ld\t%ld", r->step, run_epoch(r, r->step));
	for (int i = 0; i < VAL_COLS; i++)
		n += snprintf(line + n, sizeof line - (size_t)n, "\t%.9g", v->col[i]);
	snprintf(line + n, sizeof line - (size_t)n, "\n");
	if (append(r, r->vallog, "val.tsv", line, e))
		return -1;
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

int
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

/* Validation comes first, so that the checkpoint knows the best. */
int
run_keep(struct train_run *r, int epoch_end, struct err *e)
{
	struct val_result v;
	int better = !r->val;		/* no validation: the last is the best */

	trainer_get(r->t, &r->host);
	r->host.seen = (uint64_t)r->step * (uint64_t)r->c->recipe.batch;
	if (check_finite(r, e))
		return -1;
	sync_alive(r->sync);		/* files may be large, and disks slow */
	if (r->val && epoch_end) {
		if (validate(r, &v, e))
			return -1;
		better = judge(r, &v);
	}
	if (better && save_best(r, e))
		return -1;
	sync_alive(r->sync);
	return save(r, "last.safetensors", e);
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

/* A figure that stays undefined has no best. */
static int
check_best(const struct train_run *r, const char *path, struct err *e)
{
	int best = r->c->recipe.best;

	if (validator_undefined(r->val, 0))
		return err_set(e, "%s: no box to validate with in its %ld pictures: want pictures "
		    "with labels, or no -v", path, shard_count(r->c->val));
	if (validator_undefined(r->val, best))
		return err_set(e, "%s: no box that %s is about: -O best names another figure",
		    path, val_name[best]);
	return 0;
}

int
run_files(struct train_run *r, struct err *e)
{
	struct train_cmd *c = r->c;
	char *path, head[200];
	int bad = 0;

	if (r->sync->rank)
		return 0;
	if (write_cfg(r, e) || !(r->log = open_log(c->dir, "log.tsv", log_head, r->step, e)) ||
	    !(r->vallog = open_log(c->dir, "val.tsv", val_head(head), r->step, e)))
		return -1;
	path = path_join(c->dir, "val.shard");
	if (c->val)
		r->val = validator_open(r->dev, c->cfg, c->val, path, run_per_rank(c), (int)c->jobs,
		    c->recipe.train.loss.kind, (int)settings_int(&c->set, "rect"), e);
	if (c->val)
		bad = !r->val || check_best(r, path, e);
	free(path);
	if (bad)
		return -1;
	fputs(log_head, stdout);
	return 0;
}
