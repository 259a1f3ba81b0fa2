/* recipeloss.c -- label smoothing, focal loss and class weights: settings, else the cfg's keys.
 *
 * The darknet-iou flavour reads them from the cfg's heads, so a setting is written there; ciou and
 * ultralytics-archive have them in their struct loss.  The other flavours know none of them: a
 * setting is refused, a key of the cfg is named by cfguse.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

#define MOST_WEIGHT 10	/* of a class with ciou: a box or two shall not outweigh all others */

static int
knows(enum loss_kind k)
{
	return k == LOSS_DARKNET_IOU || k == LOSS_ARCHIVE || k == LOSS_CIOU;
}

static int
refuse(const struct recipe *r, const struct settings *s, struct err *e)
{
	static const char *const key[] = { "label_smooth", "focal", "class_counts" };

	for (int i = 0; i < 3; i++)
		if (settings_given(s, key[i]))
			return err_set(e, "-O %s: the loss %s has no such thing; ciou, "
			    "ultralytics-archive and darknet-iou "
			    "have", key[i], loss_name(r->train.loss.kind));
	return 0;
}

int
recipe_loss(struct recipe *r, struct cfg *c, const struct settings *s, struct err *e)
{
	struct loss *l = &r->train.loss;
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);
	const char *smooth = settings_str(s, "label_smooth"), *focal = settings_str(s, "focal");
	double gamma = settings_num(s, "focal");

	if (!knows(l->kind) && refuse(r, s, e))
		return -1;
	if (l->kind == LOSS_DARKNET_IOU && focal && gamma != 0 && gamma != 2)
		return err_set(e, "-O focal=%s: darknet-iou's is 2, or 0 for none", focal);
	for (int i = 0; i < n; i++) {
		struct def_yolo *d = &c->l[head[i]].u.yolo;

		if (smooth)
			d->label_smooth = (float)settings_num(s, "label_smooth");
		if (focal)
			d->focal = gamma > 0;
		l->label_smooth = d->label_smooth;
		l->focal_gamma = focal ? gamma : d->focal ? 2 : 0;
	}
	return 0;
}

/* "none", "auto" or numbers.  1: there are counts, in *out; 0: none; -1 */
static int
counts_said(const char *say, int classes, const long *data, long **out, struct err *e)
{
	double *v = (double *)xcalloc((size_t)classes, sizeof *v);
	int is_auto = !strcmp(say, "auto"), bad;

	bad = !is_auto && num_list(say, classes, 0, 1e9, v) != classes;
	*out = (long *)xcalloc((size_t)classes + 1, sizeof **out);
	for (int i = 0; i < classes && !bad; i++) {
		(*out)[i] = is_auto ? data[i] : (long)v[i];
		bad = !is_auto && v[i] != floor(v[i]);
	}
	free(v);
	if (bad)
		return err_set(e, "-O class_counts=%s: want none, auto or %d whole numbers with "
		    "commas", say, classes);
	return 1;
}

/* The mean over the boxes counted is 1, so that the loss keeps its size. */
static float *
weights_of(const long *count, int n)
{
	float *w = (float *)xcalloc((size_t)n, sizeof *w);
	double all = 0, present = 0;

	for (int i = 0; i < n; i++) {
		all += (double)count[i];
		present += count[i] > 0;
	}
	for (int i = 0; i < n; i++) {
		double x = count[i] > 0 ? all / present / (double)count[i] : 1;

		w[i] = (float)(x > MOST_WEIGHT ? MOST_WEIGHT : x);
	}
	return w;
}

int
recipe_classes(struct recipe *r, struct cfg *c, const struct settings *s, const long *data,
    struct err *e)
{
	const char *say = settings_str(s, "class_counts");
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);
	struct def_yolo *first = &c->l[head[0]].u.yolo;
	long *count = NULL;

	if (!knows(r->train.loss.kind) || (!say && !first->counters))
		return 0;
	if (say && strcmp(say, "none") && counts_said(say, first->classes, data, &count, e) < 0) {
		free(count);
		return -1;
	}
	for (int i = 0; i < n && say; i++) {		/* a setting takes the place of the keys */
		struct def_yolo *d = &c->l[head[i]].u.yolo;

		d->counters = count != NULL;
		d->counter = (int *)xrealloc(d->counter,
		    ((size_t)d->classes + 1) * sizeof *d->counter);
		for (int k = 0; count && k < d->classes; k++)
			d->counter[k] = (int)count[k];
	}
	if (first->counters && r->train.loss.kind != LOSS_DARKNET_IOU) {
		count = (long *)xrealloc(count, (size_t)first->classes * sizeof *count);
		for (int k = 0; k < first->classes; k++)
			count[k] = first->counter[k];
		r->train.loss.cls_weight = r->cls_weight = weights_of(count, first->classes);
	}
	free(count);
	return 0;
}
