/* trainuse.c -- what the user should know of a run: settings without effect, what -R changes, and
 * the command that a run.cfg came from.
 *
 * recipe_tell() says the same of the cfg's keys.  A setting is named when it is given, nobody
 * looks at it, and its value is not what happens anyway. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/train.h"

enum { OURS = 1 << LOSS_CIOU | 1 << LOSS_ARCHIVE, EVERY = -1,
	NOT_DARK = ~(1 << LOSS_DARKNET | 1 << LOSS_DARKNET_IOU) };
enum { A_NONE = 1 << AUG_NONE, A_DARK = 1 << AUG_DARKNET, A_MOSAIC = 1 << AUG_MOSAIC,
	A_AFFINE = 1 << AUG_MOSAIC | 1 << AUG_ULTRA2019 };

/* Who looks at a setting: losses and augmentations; both must. */
static const struct { const char *key, *neutral; int loss, aug; } uses[] = {
	{ "anchor_t", "4", 1 << LOSS_CIOU, EVERY }, { "box_gain", "", OURS, EVERY },
	{ "obj_gain", "", OURS, EVERY }, { "cls_gain", "", NOT_DARK, EVERY },
	{ "hue", "", EVERY, A_DARK }, { "saturation", "", EVERY, A_DARK },
	{ "exposure", "", EVERY, A_DARK }, { "jitter", "", EVERY, A_DARK },
	{ "flip", "0", EVERY, ~A_NONE }, { "scale", "0", EVERY, A_AFFINE },
	{ "translate", "0", EVERY, A_AFFINE }, { "mosaic", "0", EVERY, A_MOSAIC },
	{ "mosaic_end", "1", EVERY, A_MOSAIC }, { "resize", "stb", EVERY, A_NONE },
};

static const char *const augs[] = { [AUG_NONE] = "none", [AUG_DARKNET] = "darknet",
	[AUG_ULTRA2019] = "ultralytics-2019", [AUG_MOSAIC] = "mosaic" };

/* -R may give these another value: they end a run, save it or compute it, and no more. */
int
train_free_setting(const char *key)
{
	static const char *const list[] = { "check", "patience", "plan", "save", "stall", "steps",
		"threads" };

	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (!strcmp(key, list[i]))
			return 1;
	return 0;
}

/* ---- settings without effect -------------------------------------------------------------- */

struct list { char *text; const struct train_cmd *c; };

/* Onto the list, if it was given, and not as what happens anyway. */
static void
name(struct list *l, int unused, const char *key, const char *neutral)
{
	const char *v = settings_given(&l->c->set, key) ? settings_str(&l->c->set, key) : NULL;
	char *old = l->text;
	double a, b;

	if (!unused || !v || !strcmp(v, neutral) ||
	    (!num_real(v, -1e300, 1e300, &a) && !num_real(neutral, -1e300, 1e300, &b) && a == b))
		return;
	l->text = xasprintf("%s%s%s", old ? old : "", old ? " " : "", key);
	free(old);
}

static void
say(struct list *l, const char *why)
{
	if (l->text)
		warn("no effect %s: -O %s", why, l->text);
	free(l->text);
	l->text = NULL;
}

void
train_tell_unused(const struct train_cmd *c)
{
	const struct recipe *r = &c->recipe;
	const struct train_opts *t = &r->train;
	int cfgs = r->policy == RUN_CFG, cosine = cfgs && r->net.policy == LR_COSINE;
	struct list l = { NULL, c };
	char *why = xasprintf("with -L %s and -A %s", loss_name(t->loss.kind), augs[r->aug.kind]);

	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		name(&l, !(uses[i].loss >> t->loss.kind & uses[i].aug >> r->aug.kind & 1),
		    uses[i].key, uses[i].neutral);
	say(&l, why);
	free(why);
	name(&l, t->rule == RULE_SGD, "beta2", "0.999");
	name(&l, t->rule != RULE_SGD, "nesterov", "1");
	say(&l, t->rule == RULE_SGD ? "with rule sgd" : "with Adam");
	name(&l, !cosine && r->policy != RUN_ARCHIVE, "lr_final", ".01");
	name(&l, !cfgs, "warmup", "");
	name(&l, !cfgs || (!r->net.burn_in && r->net.policy != LR_POLY), "power", "4");
	say(&l, "with this policy and warm-up");
	name(&l, t->ema <= 0, "ema_tau", "200");
	say(&l, "without ema");
	name(&l, t->parts < 2, "accumulate", "global");
	say(&l, "without subdivisions");
	name(&l, !c->val, "best", "AP");
	name(&l, !c->val, "patience", "0");
	name(&l, !c->val, "rect", "0");
	say(&l, "without -v");
	name(&l, !c->arg['w'], "cutoff", "");
	say(&l, "without -w");
	name(&l, !c->arg['p'] || strcmp(c->arg['p'], "bf16"), "emulate", "0");
	say(&l, "without -p bf16");
}

/* ---- what -R changes ---------------------------------------------------------------------- */

/* What of a recipe goes by the length of the run. */
static char *
by_length(const struct recipe *r)
{
	enum lr_policy p = r->net.policy;
	int rate = r->policy != RUN_CFG || r->ndrop || p == LR_POLY || p == LR_COSINE ||
	    (p == LR_SGDR && r->net.sgdr_cycle <= 0);
	int mosaics = r->aug.kind == AUG_MOSAIC && r->mosaic_end < 1;
	int sizes = r->size.rule == SIZE_PJREDDIE || r->size.rule == SIZE_ALEXEY;

	return xasprintf("%s%s%s%s%s", rate ? "the learning rate" : "", rate && mosaics ? ", " : "",
	    mosaics ? "the end of the mosaics" : "", (rate || mosaics) && sizes ? ", " : "",
	    sizes ? "the last sizes" : "");
}

void
train_tell_length(const struct train_cmd *c, const char *epochs)
{
	struct recipe old = c->recipe;
	char *list = by_length(&old), *cut = xstrdup("");
	long left;

	recipe_span(&old, c->cfg, epochs ? atof(epochs) : 0);
	recipe_length(&old, c->recipe.samples);
	left = old.steps * old.batch - old.total;
	if (left && c->from.step >= old.steps && c->recipe.steps > old.steps) {
		free(cut);
		cut = xasprintf("; its last batch was cut, and %ld pictures of that epoch are not "
		    "seen", left);
	}
	if (old.steps != c->recipe.steps && (*list || *cut))
		warn("the run was of %ld steps and is now of %ld%s%s%s%s", old.steps,
		    c->recipe.steps, *list ? ": " : "", list, *list ?
		    " goes by the new length from here on" : "", cut);
	free(list);
	free(cut);
}

void
train_tell_ranks(const struct train_cmd *c)
{
	if (c->from.ranks && c->from.ranks != c->ranks)
		warn("%ld rank%s, the run had %ld: %s", c->ranks, c->ranks > 1 ? "s" : "",
		    c->from.ranks, c->recipe.syncbn ? "sums may round differently" :
		    "each normalises its own share of a batch, so the numbers are others (-O "
		    "syncbn=1: the same but for rounding)");
	if (c->threads != c->from.threads)
		warn("%d compute threads, the run was started with %d: sums may round differently",
		    c->threads, c->from.threads);
}

/* ---- threads ------------------------------------------------------------------------------ */

/* Has somebody given this process some of the processors? */
static int
bound(void)
{
	cpu_set_t set;

	return getenv("OMP_NUM_THREADS") || (!sched_getaffinity(0, sizeof set, &set) &&
	    CPU_COUNT(&set) < sysconf(_SC_NPROCESSORS_ONLN));
}

/* A launcher that binds its ranks, or says their threads, has shared the processors out. */
int
train_threads(const struct train_cmd *c, int ranks, int joined)
{
	int n = cores() / (joined && bound() ? 1 : ranks);

	if (settings_given(&c->set, "threads"))
		return (int)settings_int(&c->set, "threads");
	return n < 1 ? 1 : n;
}

/* ---- the command -------------------------------------------------------------------------- */

static void
quote(FILE *f, const char *s)
{
	if (*s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	    "_./:,=+@%-")]) {
		fputs(s, f);
		return;
	}
	putc('\'', f);
	for (; *s; s++)
		if (*s == '\'')
			fputs("'\\''", f);
		else
			putc(*s, f);
	putc('\'', f);
}

char *
train_command(const struct train_cmd *c)
{
	static const char letters[] = "ASbenpsw";
	size_t n = 0;
	char *out = NULL;
	FILE *f = open_memstream(&out, &n);

	if (!f)
		die(1, "out of memory");
	fprintf(f, "yolo-train -L %s", loss_name(c->recipe.train.loss.kind));
	for (const char *p = letters; *p; p++)
		if (c->arg[(int)*p]) {
			fprintf(f, " -%c ", *p);
			quote(f, c->arg[(int)*p]);
		}
	for (int i = 0; c->set.tab[i].key; i++)
		if (c->set.val[i] && !train_free_setting(c->set.tab[i].key)) {
			fprintf(f, " -O %s=", c->set.tab[i].key);
			quote(f, c->set.val[i]);
		}
	fclose(f);
	return out;
}

/* ---- what a rank was told ------------------------------------------------------------------ */

/* Of a file's bytes, read a piece at a time. */
static uint64_t
file_hash(const char *path)
{
	enum { PIECE = 1 << 20 };
	char *buf = (char *)xmalloc(PIECE);
	FILE *f = fopen(path, "rb");
	uint64_t h[2] = { 0, 0 };
	size_t n;

	while (f && (n = fread(buf, 1, PIECE, f)) > 0) {
		h[1] = keys_hash(buf, n);
		h[0] = keys_hash(h, sizeof h);
	}
	if (f)
		fclose(f);
	free(buf);
	return h[0];
}

/* The checksums of a checkpoint stand for its numbers. */
static uint64_t
checkpoint_hash(const char *dir)
{
	char *path = path_join(dir, "last.safetensors");
	struct err e;
	struct st *st = st_open(path, &e);
	const char *sums = st ? st_meta(st, "checksums") : NULL;
	uint64_t h = sums ? keys_hash(sums, strlen(sums)) : 0;

	st_close(st);
	free(path);
	return h;
}

static void
put_text(FILE *f, const char *what, const char *value)
{
	if (strlen(value) > 80)
		fprintf(f, "%s\t%.40s... (%016llx)\n", what, value,
		    (unsigned long long)keys_hash(value, strlen(value)));
	else
		fprintf(f, "%s\t%s\n", what, value);
}

/* What it is that determines the numbers, not how it was said: -b 8 is the cfg's batch=8. */
char *
train_told(const struct train_cmd *c)
{
	const struct recipe *r = &c->recipe;
	const struct settings *s = &c->set;
	size_t n = 0;
	char *out = NULL;
	FILE *f = open_memstream(&out, &n);

	if (!f)
		die(1, "out of memory");
	fprintf(f, "version\t" YOLO_VERSION "\nbatch\t%d\nseed\t%llu\nloss\t%s\n"
	    "augmentation\t%s\nside\t%dx%d\nprecision\t%s\n", r->batch,
	    (unsigned long long)c->from.seed, loss_name(r->train.loss.kind), augs[r->aug.kind],
	    r->net.w, r->net.h, c->arg['p'] ? c->arg['p'] : "fp32");
	fprintf(f, "learning rate\t%.9g\nlength\t%ld steps, %ld pictures\n", r->net.lr, r->steps,
	    r->total);
	fprintf(f, "training data\t%s\nvalidation\t%s\n", shard_uuid(c->train), c->val ?
	    shard_uuid(c->val) : "none");
	for (int i = 0; s->tab[i].key; i++) {
		const char *key = s->tab[i].key, *v = settings_str(s, key);
		char *what = xasprintf("-O %s", key);

		if (!train_free_setting(key) || !strcmp(key, "save") || !strcmp(key, "steps"))
			put_text(f, what, v ? v : "unset");
		free(what);
	}
	fprintf(f, "cfg\t%016llx\nstep\t%ld\nweights\t%016llx\n",
	    (unsigned long long)keys_hash(c->cfg->text, strlen(c->cfg->text)), c->from.step,
	    (unsigned long long)(c->resume ? checkpoint_hash(c->dir) : c->arg['w'] ?
	    file_hash(c->arg['w']) : 0));
	fclose(f);
	return out;
}
