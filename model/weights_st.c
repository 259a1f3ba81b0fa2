/* weights_st.c -- parameters as safetensors: layer.I.weight, .bias, .gamma, .mean, .var.
 *
 * Weights stand in the file as [O][I][kh][kw], as everybody else has them; the prefixes momentum.,
 * momentum2. and ema. repeat the names.  A set is there as a whole or not at all. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static const char *const kinds[] = { [P_WEIGHT] = "weight", [P_BIAS] = "bias", [P_GAMMA] = "gamma",
	[P_MEAN] = "mean", [P_VAR] = "var" };

/* Buffers of a checkpoint: prefix, trained parameters, statistics. */
struct set { const char *prefix; float **train, **stat; };

static int
sets_of(struct weights *w, struct set s[4])
{
	s[0] = (struct set){ "", &w->train, &w->stat };
	s[1] = (struct set){ "momentum.", &w->mom, NULL };
	s[2] = (struct set){ "momentum2.", &w->mom2, NULL };
	s[3] = (struct set){ "ema.", &w->ema, &w->ema_stat };
	return 4;
}

static int
is_stat(const struct param *p)
{
	return p->kind == P_MEAN || p->kind == P_VAR;
}

/* Where the tensor of this set and parameter lies; NULL: not part of the set. */
static float *
member(const struct set *s, const struct param *p)
{
	float **base = is_stat(p) ? s->stat : s->train;

	return base && *base ? *base + p->off : NULL;
}

static struct st_tensor
describe(const struct set *s, const struct param *p, const float *v)
{
	struct st_tensor t = { .name =
				   xasprintf("%slayer.%d.%s", s->prefix, p->layer, kinds[p->kind]),
		.type = ST_F32,
		.ndim = 1,
		.dim = { p->n },
		.n = p->n };
	float *copy = (float *)xmalloc(p->n * sizeof *copy);

	if (p->kind == P_WEIGHT) {
		size_t dim[4] = { (size_t)p->o, (size_t)p->i, (size_t)p->s, (size_t)p->s };

		t.ndim = 4;
		memcpy(t.dim, dim, sizeof dim);
		weights_permute(p, v, copy, 0);
	} else
		memcpy(copy, v, p->n * sizeof *copy);
	t.data = copy;
	return t;
}

int
weights_save(const char *path, const struct cfg *c, const struct params *par,
    const struct weights *weights, char *const *key, char *const *value, int nmeta, struct err *e)
{
	struct weights w = *weights;
	struct set sets[4];
	struct st_tensor *t;
	int n = 0, bad, nsets = sets_of(&w, sets);

	(void)c;
	t = (struct st_tensor *)xcalloc((size_t)(nsets * par->np) + 1, sizeof *t);
	for (int s = 0; s < nsets; s++)
		for (int i = 0; i < par->np; i++) {
			float *v = member(&sets[s], &par->p[i]);

			if (v)
				t[n++] = describe(&sets[s], &par->p[i], v);
		}
	bad = st_write(path, t, n, key, value, nmeta, e);
	for (int i = 0; i < n; i++) {
		free(t[i].name);
		free((void *)t[i].data);
	}
	free(t);
	return bad;
}

static int
take_tensor(const char *path, const struct st_tensor *t, const struct param *p, float *to,
    struct err *e)
{
	float *tmp;
	int bad;

	if (t->type != ST_F32 || t->n != p->n || (p->kind == P_WEIGHT && (t->ndim != 4 ||
	    t->dim[0] != (size_t)p->o || t->dim[1] != (size_t)p->i || t->dim[2] != (size_t)p->s ||
	    t->dim[3] != (size_t)p->s)))
		return err_set(e, "%s: tensor %s: %zu numbers, the cfg wants %zu%s", path, t->name,
		    t->n, p->n, t->type != ST_F32 ? " of type F32" : "");
	tmp = (float *)xmalloc(p->n * sizeof *tmp);
	memcpy(tmp, t->data, p->n * sizeof *tmp);
	bad = weights_check(path, p, tmp, e);
	if (!bad && p->kind == P_WEIGHT)
		weights_permute(p, tmp, to, 1);
	else if (!bad)
		memcpy(to, tmp, p->n * sizeof *to);
	free(tmp);
	return bad;
}

/* One set of buffers: the parameters must be there, the others may.  Counts the tensors used. */
static int
load_set(const struct st *st, const char *path, const struct cfg *c, const struct params *par,
    const struct set *s, int must, int cutoff, int *used, struct err *e)
{
	int found = 0, missing = 0, bad = 0;
	char *lacks = NULL;

	for (int i = 0; i < par->np && !bad; i++) {
		const struct param *p = &par->p[i];
		float **base = is_stat(p) ? s->stat : s->train;
		char *name = xasprintf("%slayer.%d.%s", s->prefix, p->layer, kinds[p->kind]);
		const struct st_tensor *t = base ? st_find(st, name) : NULL;

		*used += t != NULL;
		if (base && (cutoff < 0 || p->layer < cutoff)) {
			if (t && !*base)
				*base = (float *)xcalloc(
				    (is_stat(p) ? par->nstat : par->ntrain) + 1, sizeof **base);
			if (t)
				bad = take_tensor(path, t, p, *base + p->off, e);
			else if (!missing++)
				lacks = xstrdup(name);
			found += t != NULL;
		}
		free(name);
	}
	if (!bad && missing && (must || found))
		bad = err_set(e, "%s: no tensor %s, which %s wants", path, lacks, c->path);
	free(lacks);
	return bad;
}

int
weights_load_st(const char *path, const struct cfg *c, const struct params *par,
    struct weights *w, int cutoff, struct err *e)
{
	struct st *st = st_open(path, e);
	struct set sets[4];
	int bad = !st, used = 0, nsets = sets_of(w, sets);

	for (int s = 0; s < nsets && !bad; s++)
		bad = load_set(st, path, c, par, &sets[s], !s, cutoff, &used, e);
	if (!bad && used < st->nt)
		warn("%s: %d of its %d tensors have no place in %s; do they belong together?", path,
		    st->nt - used, st->nt, c->path);
	if (!bad && cutoff < 0 && st_meta(st, "step") && st_meta(st, "batch"))
		w->seen = strtoull(st_meta(st, "step"), NULL, 10) *
		    strtoull(st_meta(st, "batch"), NULL, 10);
	st_close(st);
	return bad ? -1 : 0;
}
