/* golden_train.c -- short trainings, through the trainer and, for two ranks, the real transport.
 *
 * A process that has used threads cannot fork, so a run of several ranks starts this program anew
 * for the one case. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/golden.h"

struct data { const struct st_tensor *images, *truth, *order; struct st *st; };

static int
open_data(struct data *d, const struct gold *g, struct err *e)
{
	char *dir = path_dir(g->json), *path = path_join(dir, "data.safetensors");

	d->st = st_open(path, e);
	free(dir);
	free(path);
	if (!d->st)
		return -1;
	d->images = st_find(d->st, "images");
	d->truth = st_find(d->st, "truth");
	d->order = st_find(d->st, "order");
	return d->images && d->truth && d->order ? 0 :
	    err_set(e, "data.safetensors: a tensor is missing");
}

/* Slots [from, to) of a step's batch of 8. */
static struct batch
make_batch(const struct data *d, int step, int from, int to, int size)
{
	struct batch b = { .step = step, .first = step * size, .t0 = step * size + from,
		.n = to - from, .n_global = size };
	int h = b.h = (int)d->images->dim[2], w = b.w = (int)d->images->dim[3];
	size_t plane = (size_t)h * w;

	b.x = (float *)xmalloc((size_t)b.n * plane * 3 * sizeof *b.x);
	b.truth = (struct truth *)xmalloc((size_t)size * d->truth->dim[0] * sizeof *b.truth);
	for (int s = from; s < to; s++) {
		size_t img = (size_t)st_get(d->order, (size_t)step * size + s);

		for (size_t p = 0; p < plane; p++)
			for (size_t c = 0; c < 3; c++)
				b.x[((size_t)(s - from) * plane + p) * 3 + c] =
				    (float)st_get(d->images, (img * 3 + c) * plane + p) / 255.f;
		for (size_t i = 0; i < d->truth->dim[0]; i++)
			if ((size_t)st_get(d->truth, i * 6) == img) {
				struct truth *t = &b.truth[b.ntruth++];

				t->image = (float)(s - from);
				t->cls = (float)st_get(d->truth, i * 6 + 1);
				t->x = (float)st_get(d->truth, i * 6 + 2);
				t->y = (float)st_get(d->truth, i * 6 + 3);
				t->w = (float)st_get(d->truth, i * 6 + 4);
				t->h = (float)st_get(d->truth, i * 6 + 5);
			}
	}
	return b;
}

static struct train_opts
options(const struct gold *g)
{
	const char *mode = gold_str(g->j, "mode", "");
	struct train_opts o = { .gain = 1 };

	loss_defaults(&o.loss, LOSS_ULTRA2019);
	o.loss.k = 1;
	o.loss.gain_xy = gold_num(g->j, "gains.xy", 1);
	o.loss.gain_wh = gold_num(g->j, "gains.wh", 1);
	o.loss.gain_cls = gold_num(g->j, "gains.cls", 1);
	o.loss.gain_conf = gold_num(g->j, "gains.conf", 1);
	o.loss.iou_t = gold_num(g->j, "iou_threshold", 0);
	o.parts = strncmp(mode, "accum", 5) ? 1 : (int)gold_num(g->j, "parts", 1);
	o.accum = !strcmp(mode, "accum-mean") ? ACCUM_MEAN : !strcmp(mode, "accum-sum") ?
	    ACCUM_SUM : ACCUM_GLOBAL;
	o.decay = gold_num(g->j, "weight_decay", 0);
	o.bucket = 5000;
	return o;
}

static int
check_step(struct gold *g, int step, const struct step_result *r, struct err *e)
{
	const struct st_tensor *loss = st_find(g->st, "loss"), *norm = st_find(g->st, "grad_norm");
	const struct st_tensor *tol = st_find(g->st, "tolerance_f32");
	double dl = fabs(r->loss / st_get(loss, step) - 1);
	double dn = fabs(r->gnorm / st_get(norm, step) - 1);
	double most = g->bf16 ? step > 9 ? 9e-2 : 1.5e-2 : st_get(tol, step * 3);
	double most_norm = g->bf16 ? .6 : st_get(tol, step * 3 + 1);
	int leaky = !strncmp(gold_str(g->j, "run", ""), "leaky", 5);

	/* README: in leaky-full units flip, in bf16 from the start.  Its bound of 1.5e-2 is thrice
	 * the drift of the smooth runs; the same rule on the reference's own drift in this run. */
	if (leaky && g->bf16)
		most = 3 * st_get(st_find(g->st, "drift_bf16"), step * 3);
	if (leaky && step > 8) {
		most = g->bf16 ? .3 : .1;
		most_norm = INFINITY;
	}
	if (!(dl <= most))
		return err_set(e, "step %d: loss %.9g, want %.9g: off by %.2g, allowed %.2g", step,
		    r->loss, st_get(loss, step), dl, most);
	if (!(dn <= most_norm))
		return err_set(e, "step %d: gradient norm %.9g, want %.9g: off by %.2g, allowed "
		    "%.2g", step, r->gnorm, st_get(norm, step), dn, most_norm);
	return 0;
}

/* |w - w_ref| / |w_ref - w_start| over all that is trained, and the running statistics. */
static int
check_weights(struct gold *g, struct net *net, const struct weights *start, struct err *e)
{
	char *path = xasprintf("%s.weights", g->stem);
	const struct st_tensor *tol = st_find(g->st, "tolerance_f32");
	struct weights got = { 0 }, want = { 0 };
	double a = 0, b = 0, c = 0, d = 0, limit = g->bf16 ? .2 : st_get(tol, tol->n - 1);
	int bad;

	weights_init(net->cfg, &net->par, 0, &got);
	weights_init(net->cfg, &net->par, 0, &want);
	net_get(net, &got);
	bad = weights_load(path, net->cfg, &net->par, &want, -1, e);
	for (size_t i = 0; !bad && i < net->par.ntrain; i++) {
		a += pow((double)got.train[i] - want.train[i], 2);
		b += pow((double)want.train[i] - start->train[i], 2);
	}
	for (size_t i = 0; !bad && i < net->par.nstat; i++) {
		c += pow((double)got.stat[i] - want.stat[i], 2);
		d += pow((double)want.stat[i] - start->stat[i], 2);
	}
	if (!strncmp(gold_str(g->j, "run", ""), "leaky", 5))
		limit = 1;
	if (!bad && !(sqrt(a / b) <= limit && sqrt(c / d) <= limit))
		bad = err_set(e, "final weights off by %.2g, statistics by %.2g, allowed %.2g",
		    sqrt(a / b), sqrt(c / d), limit);
	weights_free(&got);
	weights_free(&want);
	free(path);
	return bad;
}

static int
steps(struct gold *g, struct trainer *t, const struct data *data, struct err *e)
{
	int size = (int)gold_num(g->j, "batch", 8), n = (int)gold_num(g->j, "steps", 30), bad = 0;
	int ranks = t->sync ? t->sync->size : 1, rank = t->sync ? t->sync->rank : 0;

	for (int i = 0; !bad && i < n; i++) {
		struct batch b = make_batch(data, i, size * rank / ranks, size * (rank + 1) / ranks,
		    size);
		double lr = gold_num(g->j, "lr", .01);
		struct warm w = { .lr = lr, .lr_bias = lr,
			.momentum = gold_num(g->j, "momentum", .9),
			.decay = t->opt.decay };
		struct step_result r;

		bad = trainer_step(t, &b, &w, &r, e) ||
		    check_step(g, i, &r, e);
		free(b.x);
		free(b.truth);
	}
	return bad;
}

/* The whole run on this rank. */
static int
run(struct gold *g, struct sync *sync, struct err *e)
{
	char *dir = path_dir(g->json), *cfg_path = path_join(dir, gold_str(g->j, "cfg", ""));
	char *start_path = path_join(dir, gold_str(g->j, "start", ""));
	struct train_opts o = options(g);
	struct net_opts no = { .batch = (int)gold_num(g->j, "batch", 8), .train = 1,
		.bn_momentum = (float)gold_num(g->j, "bn_momentum", .1), .sync = sync,
		.syncbn = !strcmp(gold_str(g->j, "mode", ""), "ranks-sync") };
	struct cfg *cfg = cfg_read(cfg_path, e);
	struct data data = { 0 };
	struct weights w = { 0 };
	struct net *net = NULL;
	struct trainer *t = NULL;
	int bad = !cfg || open_data(&data, g, e) || !(net = net_open(g->dev, cfg, &no, e)) ||
	    !(t = trainer_open(net, sync, &o, e));

	if (!bad) {
		weights_init(cfg, &net->par, 0, &w);
		bad = weights_load(start_path, cfg, &net->par, &w, -1, e);
	}
	if (!bad) {
		trainer_put(t, &w);
		bad = steps(g, t, &data, e) || ((!sync || sync->rank == 0) && check_weights(g, net,
		    &w, e));
	}
	trainer_close(t);
	net_close(net);
	weights_free(&w);
	cfg_close(cfg);
	st_close(data.st);
	free(dir);
	free(cfg_path);
	free(start_path);
	return bad ? -1 : 0;
}

static void
close_case(struct gold *g)
{
	st_close(g->st);
	yajl_tree_free(g->j);
	free(g->stem);
}

/* In a fresh process: golden -p PRECISION -1 CASE.json */
int
gold_train_ranks(const char *json, int bf16)
{
	struct gold g = { .json = json, .bf16 = bf16 };
	struct dev_opts o = { .threads = 1, .exact = 1, .bf16 = bf16, .emulate = 1 };
	struct world world = { 0 };
	struct err e = { "" };
	struct sync *sync;
	char why[100];
	size_t len;
	char *text = file_read(json, 1 << 26, &len, &e), *st;
	int status;

	if (!text || !(g.j = yajl_tree_parse(text, why, sizeof why)))
		die(1, "%s: cannot be read", json);
	free(text);
	g.stem = xasprintf("%.*s", (int)strlen(json) - 5, json);
	st = xasprintf("%s.safetensors", g.stem);
	if (!(g.st = st_open(st, &e)))
		die(1, "%s", e.msg);
	free(st);
	if (sync_fork(&world, (int)gold_num(g.j, "parts", 2), &status) < 0) {
		close_case(&g);
		return status;
	}
	if (!(g.dev = dev_open("cpu", &o, &e)) || !(sync = sync_open(&world, g.dev, &e)))
		die(1, "%s", e.msg);
	if (run(&g, sync, &e))
		die(1, "rank %d: %s", sync->rank, e.msg);
	sync_close(sync);
	dev_close(g.dev);
	close_case(&g);
	exit(0);
}

int
gold_train(struct gold *g, struct err *e)
{
	const char *mode = gold_str(g->j, "mode", "");
	char *cmd, line[900] = "";
	FILE *p;
	int status;

	if (strncmp(mode, "ranks", 5))
		return run(g, NULL, e);
	cmd = xasprintf("/proc/%ld/exe -p %s -1 '%s' 2>&1", (long)getpid(),
	    g->bf16 ? "bf16" : "fp32", g->json);
	fflush(NULL);
	p = popen(cmd, "r");
	free(cmd);
	if (!p)
		return err_set(e, "cannot start the ranks");
	while (fgets(line, sizeof line, p))
		if (!e->msg[0])
			err_set(e, "%.*s", (int)strcspn(line, "\n"), line);
	status = pclose(p);
	if (!status)
		return 0;
	if (!e->msg[0])
		err_set(e, "the ranks ended with status %d", status);
	return -1;
}
