/* trainprep.c -- from the command line to what a rank needs: options, cfg, recipe, data.
 *
 * A resumed run takes every option that determines numbers from its checkpoint; options given again
 * must agree. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "train/int.h"

static int train_weigh(struct train_cmd *c, struct err *e);

static int train_data(struct train_cmd *c, struct err *e);

#define HELD "%s: holds a run (last.safetensors): -R goes on with it, -o names another folder"
static const char letters[] = "ALSbenpsw";	/* saved in the checkpoint */

/* All options that determine numbers, one a line, sorted; also those that only end or save. */
static char *
options_text(const struct train_cmd *c)
{
	size_t n = 0;
	char *out = NULL;
	FILE *f = open_memstream(&out, &n);

	if (!f)
		die(1, "out of memory");
	for (const char *p = letters; *p; p++) {
		if (c->arg[(int)*p])
			fprintf(f, "%c=%s\n", *p, c->arg[(int)*p]);
		if (*p != 'L')
			continue;
		for (int i = 0; c->set.tab[i].key; i++)	/* O sorts after L */
			if (c->set.val[i] && strcmp(c->set.tab[i].key, "plan") &&
			    strcmp(c->set.tab[i].key, "check"))
				fprintf(f, "O=%s=%s\n", c->set.tab[i].key, c->set.val[i]);
	}
	fclose(f);
	return out;
}

static int
same_value(const char *a, const char *b)
{
	double x, y;

	return !strcmp(a, b) ||
	    (!num_real(a, -HUGE_VAL, HUGE_VAL, &x) && !num_real(b, -HUGE_VAL, HUGE_VAL, &y) &&
	    x == y);
}

/* The value of a line of the options text that begins so, as in "e=" or "O=lr="; free().  NULL:
 * there is none. */
static char *
saved(const char *options, const char *begin)
{
	size_t n = strlen(begin);

	for (const char *p = options; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		if (!strncmp(p, begin, n))
			return xasprintf("%.*s", (int)strcspn(p + n, "\n"), p + n);
	return NULL;
}

/* What was not given in the first run must not be given now, unless it says what was done. */
static int
nothing_new(const struct train_cmd *c, struct err *e)
{
	char begin[80], *was;
	int bad = 0;

	for (const char *p = letters; *p && !bad; p++) {
		snprintf(begin, sizeof begin, "%c=", *p);
		was = saved(c->from.options, begin);
		if (c->arg[(int)*p] && *p != 'e' && !was)
			bad = err_set(e, "-%c %s: the run was started without it", *p,
			    c->arg[(int)*p]);
		free(was);
	}
	for (int i = 0; c->set.tab[i].key && !bad; i++) {
		const struct setting *t = &c->set.tab[i];

		snprintf(begin, sizeof begin, "O=%s=", t->key);
		was = saved(c->from.options, begin);
		if (c->set.val[i] && !was && !train_free_setting(t->key) &&
		    !(t->dflt && same_value(t->dflt, c->set.val[i])))
			bad = err_set(e, "-O %s=%s: the run was started without it", t->key,
			    c->set.val[i]);
		free(was);
	}
	return bad;
}

/* One saved line into the command, unless the command says the same; -1 where it says another. */
static int
take_saved(struct train_cmd *c, char *line, struct err *e)
{
	char *value = line + 2, *eq;
	const char *has;

	if (line[0] != 'O') {
		has = c->arg[(int)line[0] & 127];
		if (has && strcmp(has, value) && line[0] != 'e')
			return err_set(e, "-%c %s: the run was started with -%c %s", line[0], has,
			    line[0], value);
		if (!has)
			c->arg[(int)line[0] & 127] = value;
		return 0;
	}
	if (!(eq = strchr(value, '=')))
		return err_set(e, "bad option '%s' in the checkpoint", line);
	*eq = 0;
	if (settings_given(&c->set, value)) {
		has = settings_str(&c->set, value);
		if (!same_value(has, eq + 1) && !train_free_setting(value))
			return err_set(e, "-O %s=%s: the run was started with %s=%s", value, has,
			    value, eq + 1);
		return 0;
	}
	*eq = '=';
	return settings_set(&c->set, value, e);
}

void
train_damaged(const char *dir, struct err *e)
{
	char *before = path_join(dir, TRAIN_BEFORE);
	struct checkpoint c;
	struct err was = *e, why;

	if (!checkpoint_read(before, &c, &why)) {
		err_set(e, "%.600s; to go on from step %ld, the checkpoint before: mv %s "
		    "%s/last.safetensors", was.msg, c.step, before, dir);
		checkpoint_free(&c);
	}
	free(before);
}

static int
resume_options(struct train_cmd *c, struct err *e)
{
	char *path = path_join(c->dir, "last.safetensors"), *copy, *save = NULL;
	int r = checkpoint_read(path, &c->from, e);

	free(path);
	if (r)
		train_damaged(c->dir, e);
	if (r || nothing_new(c, e))
		return -1;
	copy = c->saved = xstrdup(c->from.options);
	for (char *line = strtok_r(copy, "\n", &save); !r && line;
	    line = strtok_r(NULL, "\n", &save))
		r = strlen(line) < 2 || line[1] != '=' ?
		    err_set(e, "bad option '%s' in the checkpoint", line) : take_saved(c, line, e);
	return r;
}

static int
whole(const struct train_cmd *c, int letter, long lo, long hi, long otherwise, long *out,
    struct err *e)
{
	const char *s = c->arg[letter];

	*out = otherwise;
	if (s && num_int(s, lo, hi, out))
		return err_set(e, "-%c %s: want a whole number from %ld to %ld", letter, s, lo, hi);
	return 0;
}

/* The next line that is no comment and not empty; NULL: none. */
static const char *
said(const char *p, size_t *len)
{
	for (; *p; p += *len + (p[*len] == '\n')) {
		size_t blank = strspn(p, " \t\r");

		*len = strcspn(p, "\n");
		if (blank < *len && !strchr("#;", p[blank]))
			return p;
	}
	return NULL;
}

static int
same_text(const char *a, const char *b)
{
	size_t n = 0, m = 0;

	do {
		a = said(a + n, &n);
		b = said(b + m, &m);
		if (!a || !b)
			return !a && !b;
	} while (n == m && !memcmp(a, b, n));
	return 0;
}

/* A cfg given to a resumed run must say what the run's own says. */
static int
same_cfg(struct train_cmd *c, struct err *e)
{
	struct cfg *given = cfg_read(c->arg['c'], e);
	char *text;
	int bad = !given, w = 0, h = 0;

	if (given) {
		if (c->arg['s'])
			num_side(c->arg['s'], &w, &h);
		text = recipe_cfg_text(given, c->recipe.train.loss.kind, w, h);
		if (!same_text(text, c->from.cfg))
			bad = err_set(e, "-c %s: the run was started with another: %s/run.cfg",
			    c->arg['c'], c->dir);
		free(text);
	}
	cfg_close(given);
	return bad ? -1 : 0;
}

/* The cfg that is really run: the loss flavour's heads, the size asked for. */
static int
open_cfg(struct train_cmd *c, struct err *e)
{
	struct cfg *raw = c->resume ? cfg_parse("run.cfg", c->from.cfg, strlen(c->from.cfg), e) :
	    cfg_read(c->arg['c'] ? c->arg['c'] : "cfg/demo.cfg", e);
	char *text;
	int w = 0, h = 0, r;

	if (!raw)
		return -1;
	r = cfg_pictures(raw, e) || recipe_make(&c->recipe, raw,
	    c->resume ? c->from.loss : c->arg['L'], c->arg['A'],
	    c->arg['b'] ? atoi(c->arg['b']) : 0, c->arg['e'] ? atof(c->arg['e']) : 0, &c->set, e);
	if (!r && c->resume && c->arg['c'])
		r = same_cfg(c, e);
	if (c->arg['s'])
		num_side(c->arg['s'], &w, &h);
	if (!r) {
		text = recipe_cfg_text(raw, c->recipe.train.loss.kind, w, h);
		c->cfg = cfg_parse(raw->path, text, strlen(text), e);
		free(text);
		r = c->cfg ? 0 : -1;
	}
	if (!r) {			/* raw's lists end with it; messages name its lines */
		cfg_take_lines(c->cfg, raw);
		c->recipe.net.step = c->cfg->net.step;
		c->recipe.net.scale = c->cfg->net.scale;
	}
	if (!r) {
		c->recipe.net.w = c->cfg->net.w;
		c->recipe.net.h = c->cfg->net.h;
		r = recipe_sizes(&c->recipe, c->cfg, &c->set, e);
	}
	if (!r)
		r = recipe_loss(&c->recipe, c->cfg, &c->set, e);
	if (!r)
		r = trainer_freeze(c->cfg, settings_int(&c->set, "freeze"), e);
	if (!r)
		recipe_tell(&c->recipe, raw);
	cfg_close(raw);
	return r;
}

static int
check_classes(const struct train_cmd *c, struct err *e)
{
	int head[MAX_HEADS], n = cfg_heads(c->cfg, head, MAX_HEADS), have;
	const struct layer *l = n ? &c->cfg->l[head[0]] : NULL;
	char **name;
	int64_t *id;

	if (!l)
		return err_set(e, "%s: no [yolo] layer: nothing to train", c->cfg->path);
	have = shard_classes(c->train, &name, &id);
	if (have > l->u.yolo.classes)
		return err_set(e,
		    "%s:%d: classes=%d, but the data has %d: set classes=%d and filters=%d in the "
		    "convolution before", c->cfg->path, l->line, l->u.yolo.classes, have, have,
		    (have + 5) * l->u.yolo.nmask);
	if (have < l->u.yolo.classes && !quiet)
		warn("%s:%d: classes=%d, but the data has %d: the others are learned as absent",
		    c->cfg->path, l->line, l->u.yolo.classes, have);
	return 0;
}

static int
numbers(struct train_cmd *c, struct err *e)
{
	struct dev_opts precision;
	long seed, batch;
	double epochs;
	int w, h;

	if (whole(c, 'g', 1, 256, 1, &c->ranks, e) || whole(c, 'j', 1, 1024, 2, &c->jobs, e) ||
	    whole(c, 'S', 0, 0x7fffffffffffffff, 0, &seed, e) ||
	    whole(c, 'b', 1, 1 << 20, 1, &batch, e))
		return -1;
	c->seed = (uint64_t)seed;
	if (c->arg['e'] && num_real(c->arg['e'], 1e-9, 1e9, &epochs))
		return err_set(e, "-e %s: want a number of epochs above 0", c->arg['e']);
	for (const char *p = letters; *p; p++)
		if (c->arg[(int)*p] && strchr(c->arg[(int)*p], '\n'))
			return err_set(e, "-%c %s: a name of one line is wanted, so that the "
			    "checkpoint can keep it", *p, c->arg[(int)*p]);
	if (c->arg['s'] && num_side(c->arg['s'], &w, &h))
		return err_set(e, "-s %s: want a side such as 416 or 608x352", c->arg['s']);
	return dev_precision(&precision, c->arg['p'], e);
}

/* A process that was killed but that nobody waited for is no more, either. */
static int
alive(long pid)
{
	char *path = xasprintf("/proc/%ld/stat", pid), state = 'R';
	FILE *f = fopen(path, "r");

	free(path);
	if (!f)
		return !kill((pid_t)pid, 0);
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 'R';
	fclose(f);
	return state != 'Z' && state != 'X';
}

/* What a killed run was writing: NAME.tmp.PID.RANDOM of a process that is no more. */
static void
sweep(const char *dir)
{
	static const char *const ours[] = { "last.safetensors", TRAIN_BEFORE, "best.safetensors",
		"best.weights", "run.cfg", "log.tsv", "val.tsv", "train.shard", "val.shard",
		"train.again.shard", "val.again.shard", NULL };
	DIR *d = opendir(dir);
	struct dirent *f;
	long pid;

	while (d && (f = readdir(d))) {
		const char *dot = strstr(f->d_name, ".tmp.");
		char *path, *end;

		pid = dot ? strtol(dot + 5, &end, 10) : 0;
		if (pid < 1 || pid > INT_MAX || (*end && *end != '.') || alive(pid))
			continue;
		for (int i = 0; ours[i]; i++)
			if (!strncmp(ours[i], f->d_name, (size_t)(dot - f->d_name)) &&
			    !ours[i][dot - f->d_name]) {
				path = path_join(dir, f->d_name);
				unlink(path);
				free(path);
			}
	}
	if (d)
		closedir(d);
}

/* One run a folder, which itself is what is locked: nothing is left behind.  The kernel ends the
 * lock with the last of the run's processes, which share it; ranks of a killed run take a moment.
 * Of a launcher's ranks the first locks for all.  A file system without such locks has none. */
static int
lock_dir(struct train_cmd *c, struct err *e)
{
	const struct timespec moment = { 0, 20000000 };
	double end = now() + 2;
	int held;

	if (world_rank())
		return 0;
	c->lock = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->lock < 0) {
		c->lock = 0;
		return err_set(e, "%s: %s", c->dir, strerror(errno));
	}
	while ((held = flock(c->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) && now() < end)
		nanosleep(&moment, NULL);
	return held ? err_set(e, "%s: another run is at work in this folder: -o names another",
	    c->dir) : 0;
}

static void
on_end(int sig)
{
	(void)sig;			/* what is left to do is removing the folder */
}

/* A check of a new run makes no folder of it: what it packs lies beside, and goes again. */
static int
scratch_dir(struct train_cmd *c, struct err *e)
{
	size_t n = strlen(c->dir);
	char *dir, *last = path_join(c->dir, "last.safetensors");
	int there = !access(last, F_OK);

	free(last);
	if (there)
		return err_set(e, HELD, c->dir);
	while (n > 1 && c->dir[n - 1] == '/')
		n--;
	dir = xasprintf("%.*s", (int)n, c->dir);
	c->scratch = path_tmp(dir);
	free(dir);
	tmp_begin(c->scratch);
	catch_end(on_end, .1);
	if (mkdir(c->scratch, 0777))
		return err_set(e, "%s: %s", c->scratch, strerror(errno));
	c->dir = c->scratch;
	return 0;
}

static int
open_dir(struct train_cmd *c, struct err *e)
{
	char *last;
	int there;

	if (settings_int(&c->set, "check") && !c->resume)
		return scratch_dir(c, e);
	if (mkdir(c->dir, 0777) && errno != EEXIST)
		return err_set(e, "%s: %s", c->dir, strerror(errno));
	if (lock_dir(c, e))
		return -1;
	sweep(c->dir);
	last = path_join(c->dir, "last.safetensors");
	there = path_there(last);
	free(last);
	if (there && !c->resume)
		return err_set(e, HELD, c->dir);
	if (!there && c->resume)
		return err_set(e, "%s: no last.safetensors to resume from", c->dir);
	return 0;
}

/* ./yolo-train with no operand trains the set that make drew. */
static int
demo_defaults(struct train_cmd *c, struct err *e)
{
	static char *demo[] = { (char *)"data/demo.shard" };

	if (c->nin || c->resume)
		return 0;
	if (access(demo[0], R_OK))
		return err_set(e, "nothing to train on: want pictures with labels, or a shard, or "
		    "to be run where make drew data/demo.shard");
	c->in = demo;
	c->nin = 1;
	if (!c->arg['v'])
		c->arg['v'] = "data/demo-val.shard";
	return 0;
}

/* The last line of the screen wants the device, as the plan of the memory does. */
static int
check_only(struct train_cmd *c, struct err *e)
{
	struct dev_opts o = { .threads = c->threads, .exact = (int)settings_int(&c->set, "exact"),
		.emulate = (int)settings_int(&c->set, "emulate") };
	struct dev *d = dev_precision(&o, c->arg['p'], e) ? NULL : train_device(c, 0, &o, e);
	int w, h, bad;

	schedule_size_max(&c->recipe.size, &w, &h);
	bad = !d || cfg_resize(c->cfg, w, h, e) || train_memory(c, d, 0, e);
	dev_close(d);
	c->planned = 1;
	return bad ? -1 : 0;
}

static int
print_plan(struct train_cmd *c, struct err *e)
{
	struct dev_opts o = { .threads = c->threads, .exact = (int)settings_int(&c->set, "exact"),
		.emulate = (int)settings_int(&c->set, "emulate") };
	struct net_opts no = { .batch = (c->recipe.batch + (int)c->ranks - 1) / (int)c->ranks,
	    .train = 1 };
	struct net_bytes b;
	struct params par;
	struct dev *d = dev_precision(&o, c->arg['p'], e) ? NULL : train_device(c, 0, &o, e);
	size_t state, ring;
	int r, w, h;

	schedule_size_max(&c->recipe.size, &w, &h);
	if (!d)
		return -1;
	no.batch = (no.batch + c->recipe.train.parts - 1) / c->recipe.train.parts;
	r = cfg_resize(c->cfg, w, h, e) || net_plan(c->cfg, d, &no, &b, e);
	dev_close(d);
	if (r)
		return -1;
	params_plan(c->cfg, &par);
	state = trainer_bytes(&par, &c->recipe.train);
	params_free(&par);
	ring = train_ring_bytes(c);
	printf("#part\tbytes\nparameters\t%zu\ngradients\t%zu\noptimiser\t%zu\nactivations\t%zu\n"
	    "workspace\t%zu\nloader\t%zu\ntotal\t%zu\n", b.params, b.grads, state, b.arena,
	    b.workspace, ring, b.total + state + ring);
	c->planned = 1;
	return 0;
}

/* Names of the classes, one a line, for whoever gets the checkpoint. */
static char *
names_text(struct shard *train)
{
	char **name, *text = NULL;
	int64_t *id;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int n = shard_classes(train, &name, &id);

	if (!f)
		die(1, "out of memory");
	for (int i = 0; i < n; i++)
		fprintf(f, "%s\n", name[i]);
	fclose(f);
	return text;
}

static int
prepare(struct train_cmd *c, struct err *e)
{
	const char *steps;
	char *was;

	c->dir = c->arg['o'] ? c->arg['o'] : "run";
	c->usage = 1;
	if (numbers(c, e))
		return -1;
	c->usage = 0;
	if (demo_defaults(c, e))
		return -1;
	if (c->arg['w'] && !c->resume && access(c->arg['w'], R_OK)) /* before hours of packing */
		return err_set(e, "%s: %s", c->arg['w'], strerror(errno));
	if (c->arg['w'] && !c->resume && weights_foreign(c->arg['w'], e))
		return -1;
	if (c->arg['w'] && !c->resume && !weights_plain(c->arg['w']))
		return err_set(e, "-w %s: want a plain file: each rank reads it", c->arg['w']);
	if (open_dir(c, e) || (c->resume && resume_options(c, e)) || numbers(c, e) ||
	    open_cfg(c, e) || train_data(c, e) || check_classes(c, e) || train_weigh(c, e))
		return -1;
	recipe_length(&c->recipe, shard_count(c->train));
	if (c->recipe.steps > INT_MAX)
		return err_set(e, "a run of %ld steps: want at most %d; -e says how many epochs",
		    c->recipe.steps, INT_MAX);
	if (train_fit(c, e))
		return -1;
	if (c->resume) {
		was = saved(c->from.options, "e=");
		train_tell_length(c, was);
		free(was);
	}
	train_tell_unused(c);
	steps = settings_str(&c->set, "steps");
	if (!c->resume) {
		c->from.seed = c->seed;
		c->from.best = -1;
		c->from.best_step = -1;
		c->from.samples = (uint64_t)shard_count(c->train);
		c->from.batch = c->recipe.batch;
		c->from.data = xstrdup(shard_uuid(c->train));
		c->from.loss = xstrdup(loss_name(c->recipe.train.loss.kind));
		c->from.cfg = xstrdup(c->cfg->text);
	}
	if (!c->from.val)		/* a new run, or a checkpoint from before it was said */
		c->from.val = xstrdup(c->val ? shard_uuid(c->val) : "none");
	free(c->from.options);
	c->from.options = options_text(c);
	free(c->from.names);
	c->from.names = names_text(c->train);
	c->here = c->ranks;
	c->threads = train_threads(c, (int)c->ranks, 0);
	if (steps && atol(steps) < c->from.step)
		warn("-O steps=%s: the run is at step %ld already", steps, c->from.step);
	if (settings_int(&c->set, "check"))
		return check_only(c, e);
	return settings_int(&c->set, "plan") ? print_plan(c, e) : 0;
}

int
train_prepare(struct train_cmd *c, struct err *e)
{
	int bad = prepare(c, e);

	if (c->scratch) {
		path_remove(c->scratch);
		tmp_end(c->scratch);
	}
	return bad;
}

void
train_close(struct train_cmd *c)
{
	shard_close(c->train);
	shard_close(c->val);
	cfg_close(c->cfg);
	checkpoint_free(&c->from);
	settings_close(&c->set);
	if (c->lock > 0)
		close(c->lock);
	free(c->saved);
	free(c->scratch);
	free(c->screen);
	free(c->recipe.cls_weight);
}

/* The pictures of a run: its train.shard and val.shard.
 *
 * What is not a shard is packed once into the run's folder by yolo-prep; a shard elsewhere is
 * linked there, so that -R finds it. */

static int
is_shard(const char *path)
{
	struct err e;
	struct shard *s;

	if (path_isdir(path) || access(path, R_OK) || !strcmp(path, "-"))
		return 0;
	if (!(s = shard_open(path, &e)))
		return 0;
	shard_close(s);
	return 1;
}

/* Run yolo-prep, which stands beside this program, on the inputs; val: of the validation. */
static int
pack(const struct train_cmd *c, char *const *in, int n, int val, const char *out,
    struct err *e)
{
	char self[4096], *prep;
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
	char **argv = (char **)xcalloc((size_t)n + 9, sizeof *argv);
	int k = 0, status;
	pid_t pid, parent = getpid();

	if (len < 0)
		len = 0;
	self[len] = 0;
	*(char *)(path_base(self) - self + self) = 0;
	prep = xasprintf("%syolo-prep", self);
	argv[k++] = prep;
	if (quiet)
		argv[k++] = (char *)"-q";
	if (c->arg['n']) {
		argv[k++] = (char *)"-n";
		argv[k++] = (char *)c->arg['n'];
	}
	if (val)			/* the same rule which part of a set is meant */
		argv[k++] = (char *)"-Osplit=val";
	argv[k++] = (char *)"-o";
	argv[k++] = (char *)out;
	argv[k++] = (char *)"--";
	for (int i = 0; i < n; i++)
		argv[k++] = in[i];
	fflush(NULL);
	if (!(pid = fork())) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);	/* it ends with this program */
		if (getppid() != parent)
			_exit(1);
		execvp(len ? prep : "yolo-prep", argv);
		warn("%s: %s", prep, strerror(errno));
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		status = -1;
	free(prep);
	free(argv);
	if (!status)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) < 3) {
		e->msg[0] = 0;		/* yolo-prep has said why */
		return -1;
	}
	return err_set(e, "packing %s failed", in[0]);
}

/* The link is made under another name: whoever looks finds the old one or the new one. */
static int
link_to(const char *real, const char *path, struct err *e)
{
	char *tmp = path_tmp(path);
	int made = !symlink(real, tmp);
	int bad = !made || rename(tmp, path);

	if (bad) {
		err_set(e, "%s: %s", path, strerror(errno));
		if (made)
			unlink(tmp);
	}
	free(tmp);
	return bad;
}

/* Is there a file at path, no link, that the command names? */
static int
is_input(const struct train_cmd *c, const char *path)
{
	int named = c->arg['v'] && path_same(c->arg['v'], path);
	struct stat st;

	for (int i = 0; i < c->nin; i++)
		named |= path_same(c->in[i], path);
	return named && !lstat(path, &st) && S_ISREG(st.st_mode);
}

/* NAME.shard in the run's folder: packed from the inputs, or a link to a shard.  Named as the only
 * input it stays what it is. */
static struct shard *
data(struct train_cmd *c, const char *name, char *const *in, int n, struct err *e)
{
	char *file = xasprintf("%s.shard", name), *path = path_join(c->dir, file), *real;
	struct shard *s = NULL;

	while (n > 1 && shard_again(in, n - 1))
		n--;			/* the pieces of one set are one shard */
	if (n == 1 && path_same(in[0], path))
		n = 0;
	if (n && is_input(c, path))
		err_set(e, "%s: an input, which would be written over: -o names another folder",
		    path);
	else if (n == 1 && is_shard(in[0]) && (real = realpath(in[0], NULL))) {
		if (!link_to(real, path, e))
			s = shard_open(path, e);
		free(real);
	} else if ((n && !pack(c, in, n, !strncmp(name, "val", 3), path, e)) ||
	    (!n && !access(path, R_OK)))
		s = shard_open(path, e);
	else if (!n)
		err_set(e, "%s: %s; if the data are elsewhere now, name them again, -v those of "
		    "the validation", path, strerror(errno));
	free(file);
	free(path);
	return s;
}

/* Data named again by a resumed run: it may have moved, but it must be the same.  Until that is
 * known the run's own stays where it is.  uuid NULL: what it was is not known any more. */
static struct shard *
same_data(struct train_cmd *c, const char *name, char *const *in, int n, const char *uuid,
    struct err *e)
{
	char *again = xasprintf("%s.again", name), *path = xasprintf("%s/%s.shard", c->dir, name);
	char *other = xasprintf("%s/%s.shard", c->dir, again);
	int own = n == 1 && path_same(in[0], path);
	struct shard *s = own ? data(c, name, NULL, 0, e) : data(c, again, in, n, e);
	int bad = !s;

	if (s && uuid && strcmp(shard_uuid(s), uuid))
		bad = err_set(e, "%s: not the data that the run was started with (uuid %s, was %s)",
		    in[0], shard_uuid(s), uuid);
	else if (s && !own && rename(other, path))
		bad = err_set(e, "%s: %s", path, strerror(errno));
	if (bad) {
		unlink(other);
		shard_close(s);
	}
	free(again);
	free(path);
	free(other);
	return bad ? NULL : s;
}

static int
open_again(struct train_cmd *c, struct err *e)
{
	char *path = path_join(c->dir, "val.shard"), *const in[] = { (char *)c->arg['v'] };
	const char *was = c->from.val;	/* a file alone may be of a first try that failed */
	struct stat st;
	struct err why;
	int had = was ? strcmp(was, "none") != 0 : !lstat(path, &st);
	struct shard *val;

	c->train = c->nin ? same_data(c, "train", c->in, c->nin, c->from.data, e) :
	    data(c, "train", NULL, 0, e);
	if (c->train && strcmp(shard_uuid(c->train), c->from.data)) {
		err_set(e,
		    "%s/train.shard: not the data that the run was started with (uuid %s, was %s)",
		    c->dir, shard_uuid(c->train), c->from.data);
		had = -1;
	} else if (c->arg['v'] && !had) {
		err_set(e, "-v %s: the run was started without it", in[0]);
		had = -1;
	} else if (c->train && c->arg['v']) {
		val = was ? NULL : shard_open(path, &why);
		c->val = same_data(c, "val", in, 1, was ? was : val ? shard_uuid(val) : NULL, e);
		shard_close(val);
	} else if (c->train && had) {
		c->val = data(c, "val", NULL, 0, e);
		if (c->val && was && strcmp(was, shard_uuid(c->val)))
			had = err_set(e, "%s: not the data that the run was validated on (uuid %s, "
			    "was %s)", path, shard_uuid(c->val), was);
	}
	free(path);
	return !c->train || had < 0 || (had && !c->val) ? -1 : 0;
}

/* Class i of the network is class i of the training data; in the validation it must be, too. */
static int
same_classes(const struct train_cmd *c, struct err *e)
{
	char **ours, **theirs;
	int64_t *id;
	int n = shard_classes(c->train, &ours, &id), m = shard_classes(c->val, &theirs, &id);

	for (int i = 0; i < n && i < m; i++)
		if (ours[i] && theirs[i] && strcmp(ours[i], theirs[i]))
			return err_set(e, "-v %s: its class %d is '%s', in the training data that "
			    "is '%s': want both packed with the same list of names (-n)",
			    c->arg['v'], i, theirs[i], ours[i]);
	if (m > n)
		warn("-v %s: it has %d classes, the training data %d: the others are never found",
		    c->arg['v'], m, n);
	return 0;
}

/* Its part: train and val are opened. */
static int
train_data(struct train_cmd *c, struct err *e)
{
	char *const in[] = { (char *)c->arg['v'] };

	if (c->resume) {
		if (open_again(c, e))
			return -1;
	} else if (!(c->train = data(c, "train", c->in, c->nin, e)) ||
	    (in[0] && (!(c->val = data(c, "val", in, 1, e)) || same_classes(c, e))))
		return -1;
	if (shard_count(c->train) < 1)
		return err_set(e, "%s/train.shard: no pictures to train on", c->dir);
	return 0;
}

/* The boxes of each class that are trained on, where weights are to follow from them. */
static int
train_weigh(struct train_cmd *c, struct err *e)
{
	int head[MAX_HEADS], n = cfg_heads(c->cfg, head, MAX_HEADS), bad = 0;
	int classes = n ? c->cfg->l[head[0]].u.yolo.classes : 0;
	const char *say = settings_str(&c->set, "class_counts");
	long *count = (long *)xcalloc((size_t)classes + 1, sizeof *count);
	struct record r;

	for (long i = 0; say && !strcmp(say, "auto") && i < shard_count(c->train) && !bad; i++) {
		bad = shard_labels(c->train, i, &r, e);
		for (int k = 0; !bad && k < r.nbox; k++)
			if (!(r.box[k].flags & (BOX_CROWD | BOX_DIFFICULT)))
				count[r.box[k].cls]++;
	}
	bad = bad || recipe_classes(&c->recipe, c->cfg, &c->set, count, e);
	free(count);
	return bad ? -1 : 0;
}
