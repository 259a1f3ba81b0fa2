/* validate.c -- AP in the middle of a run: what yolo-detect -O eval=1 | yolo-eval would say.
 *
 * The detector is the inference net on its own parameters; pictures and truth come from the open
 * shard in the order of the two programs, and every number of a detection passes through the text
 * that yolo-detect prints, so the figures agree to the last digit. */
#include <stdlib.h>
#include <string.h>

#include "train/train.h"
#include "score/score.h"

const char *const val_name[VAL_COLS] = { "AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10",
	"AR100", "ARs", "ARm", "ARl", "P", "R", "F1", "thr" };

struct found { struct eval_det *det; int n; };
struct validator {
	struct val_opts o;
	struct detector *det;
	struct shard *shard;
	struct eval_truth truth;
	struct eval_opts opt;
	int *cls, nclass;	/* cls: class of the truth for a class of the net, or -1 */
	int *pic;			/* picture of the truth that a record is */
	struct found *found;		/* per picture of the truth */
};

/* The data's class table against the truth's, which is sorted by original id. */
static void
map_classes(struct validator *v)
{
	char **name;
	int64_t *id;
	int n = shard_classes(v->shard, &name, &id);

	v->nclass = v->det->classes;
	v->cls = (int *)xcalloc((size_t)v->nclass, sizeof *v->cls);
	for (int i = 0; i < v->nclass; i++) {
		v->cls[i] = -1;
		for (int k = 0; i < n && k < v->truth.nclass; k++)
			if (v->truth.class_id[k] == id[i])
				v->cls[i] = k;
	}
}

/* The truth has the records in another order, by id. */
static void
map_records(struct validator *v)
{
	v->pic = (int *)xcalloc((size_t)v->truth.n + 1, sizeof *v->pic);
	for (int i = 0; i < v->truth.n; i++)
		v->pic[v->truth.pic[i].nth] = i;
}

struct validator *
validator_open(struct dev *d, const struct cfg *c, const struct val_opts *vo, struct err *e)
{
	struct validator *v = (struct validator *)xcalloc(1, sizeof *v);
	struct detect_opts o;

	detect_defaults(&o, c);
	detect_eval(&o);
	o.batch = vo->batch < DETECT_BATCH ? vo->batch : DETECT_BATCH;
	o.softmax = detect_softmax(vo->loss);
	o.rect = vo->rect;
	o.w = c->net.w;
	o.h = c->net.h;
	v->o = *vo;
	v->shard = vo->shard;
	eval_defaults(&v->opt);
	v->opt.rules = 1u << EV_COCO;
	v->opt.threads = vo->threads;
	if (eval_truth_shard(&v->truth, v->shard, e) || !(v->det = detector_open(d, c, &o, e))) {
		validator_close(v);
		return NULL;
	}
	v->found = (struct found *)xcalloc((size_t)v->truth.n + 1, sizeof *v->found);
	map_classes(v);
	map_records(v);
	return v;
}

static void
forget(struct validator *v)
{
	for (int i = 0; v->found && i < v->truth.n; i++) {
		free(v->found[i].det);
		v->found[i].det = NULL;
		v->found[i].n = 0;
	}
}

void
validator_close(struct validator *v)
{
	if (!v)
		return;
	forget(v);
	free(v->found);
	free(v->cls);
	free(v->pic);
	eval_truth_close(&v->truth);
	detector_close(v->det);
	free(v);
}

static int
keep(struct validator *v, long record, const struct picture *p, const struct detections *d,
    struct err *e)
{
	int pic = v->pic[record];
	struct found *f = &v->found[pic];

	if (p->why)
		return err_set(e, "%s: %s", p->name, p->why);
	f->det = (struct eval_det *)xcalloc((size_t)d->n + 1, sizeof *f->det);
	for (int i = 0; i < d->n; i++) {
		const struct det *t = &d->det[i];
		struct eval_det x = { detect_value(t->score), detect_value(t->x),
			detect_value(t->y), detect_value(t->w), detect_value(t->h), pic,
			    v->cls[t->cls] };

		if (x.cls >= 0)
			f->det[f->n++] = x;
	}
	return 0;
}

static int
detect_all(struct validator *v, struct err *e)
{
	struct input_opts io = detector_inputs(v->det, v->o.threads);
	struct inputs *in = inputs_open_shard(v->shard, &io);
	struct detections *out = (struct detections *)xcalloc((size_t)io.batch, sizeof *out);
	struct pictures *p;
	long done = 0, all = shard_count(v->shard);
	int bad = 0;

	while (!bad && !(bad = v->o.stop && v->o.stop()) && (p = inputs_next(in))) {
		bad = detector_run(v->det, p, out, e);
		for (int i = 0; i < p->n && !bad; i++)
			bad = keep(v, done + i, &p->pic[i], &out[i], e);
		progress("validating: %ld of %ld pictures", done += p->n, all);
		inputs_free(in, p);
		if (v->o.sync)
			sync_alive(v->o.sync);
	}
	inputs_close(in);
	free(out);
	return bad;
}

static void
score(struct validator *v, struct val_result *r)
{
	struct eval *ev = eval_open(&v->opt, v->truth.nclass);
	struct eval_row row[EVAL_ROWS];
	struct eval_point best;
	int n;

	for (int i = 0; i < v->truth.n; i++) {
		const struct eval_pic *p = &v->truth.pic[i];
		struct eval_image im = { i, p->n ? v->truth.box + p->first : NULL,
			v->found[i].det, p->n, v->found[i].n };

		eval_add(ev, &im, 1);
	}
	n = eval_total(ev, NULL, row);
	for (int i = 0; i < 12; i++)
		r->col[i] = eval_get(row, n, "coco", val_name[i]);
	best = eval_best_all(ev);
	r->col[12] = best.p;
	r->col[13] = best.r;
	r->col[14] = best.f1;
	r->col[15] = best.thr;
	eval_close(ev);
}

int
validation_none(struct shard *s, struct val_result *r, struct err *e)
{
	struct validator v = { .shard = s };

	if (eval_truth_shard(&v.truth, s, e))
		return -1;
	eval_defaults(&v.opt);
	v.opt.rules = 1u << EV_COCO;
	v.opt.threads = 1;
	v.found = (struct found *)xcalloc((size_t)v.truth.n + 1, sizeof *v.found);
	score(&v, r);
	free(v.found);
	eval_truth_close(&v.truth);
	return 0;
}

int
validator_run(struct validator *v, const float *train, const float *stat, struct val_result *r,
    struct err *e)
{
	int bad;

	net_fold(v->det->net, train, stat);
	bad = detect_all(v, e);
	if (!bad)
		score(v, r);
	forget(v);
	return bad;
}
