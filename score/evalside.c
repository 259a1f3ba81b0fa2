/* evalside.c -- one side: its files read and scored, and what was noticed about them told.
 *
 * yolo-eval has one side, or two with -D; yolo-bench eval has one, silent. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static struct eval *
renew(void *arg, struct eval *old)
{
	struct eval_run *r = (struct eval_run *)arg;

	eval_close(old);
	if (r->errors)
		eval_errors_reset(r->errors);
	return r->ev = eval_open(r->opt, r->truth->nclass);
}

/* "a, b, c": names put together, as many as there is room for. */
static void
list_add(char *list, size_t cap, const char *name)
{
	size_t n = strlen(list);

	if (n + 1 < cap)
		snprintf(list + n, cap - n, "%s%.60s", n ? ", " : "", name);
}

static int
tell_pictures(struct eval_run *r, struct err *e)
{
	struct eval_set *s = &r->set;
	const char *first[5] = { NULL };
	char list[400] = "", several[80] = "";

	if (!s->bad_images)
		return 0;
	for (size_t i = 0; i < s->unknown.cap; i++)
		if (s->unknown.key[i] && s->unknown.value[i] < 5)
			first[s->unknown.value[i]] = s->unknown.key[i];
	for (int k = 0; k < 5 && first[k]; k++)
		list_add(list, sizeof list, first[k]);
	if (s->several)
		snprintf(several, sizeof several, " (%zu have names of more than one picture)",
		    s->several);
	err_set(e, "%zu detections of %zu pictures that are not in the truth%s: %s%s",
	    s->bad_images, s->unknown.n, several, list, s->unknown.n > 5 ? ", ..." : "");
	if (r->unknown <= 0)
		return -1;
	if (r->tell)
		warn("%s; left out", e->msg);
	return 0;
}

static int
tell_classes(struct eval_run *r, struct err *e)
{
	struct eval_set *s = &r->set;
	char list[400] = "", num[32];
	int n = 0;

	if (!s->bad_classes)
		return 0;
	for (int i = 0; i < s->nside; i++)
		if (s->side[i].n && n++ < 5) {
			snprintf(num, sizeof num, "%lld", (long long)s->side[i].cls);
			list_add(list, sizeof list, s->side[i].name ? s->side[i].name : num);
		}
	err_set(e, "%zu detections of %d classes that are not in the truth: %s%s", s->bad_classes,
	    n, list, n > 5 ? ", ..." : "");
	if (r->unknown < 0)
		return -1;
	if (r->tell)
		warn("%s; left out", e->msg);
	return 0;
}

static void
tell_map(const struct eval_run *r)
{
	const struct eval_set *s = &r->set;

	if (!s->by_position || quiet || !r->tell)
		return;
	warn("class names differ; classes are matched by position:");
	for (int i = 0; i < s->nside; i++) {
		char id[32];

		warn("  %lld %s = %s", (long long)s->side[i].cls,
		    s->side[i].name ? s->side[i].name : "-",
		    s->side[i].to < 0 ? "-" : eval_class_name(r->truth, s->side[i].to, id));
	}
}

/* Classes that only one side has. */
static void
tell_absent(const struct eval_run *r)
{
	struct eval *e = r->ev;
	long *truths = (long *)xcalloc((size_t)e->nclass + 1, sizeof *truths), nt = 0, nd = 0,
	     fp = 0;
	char lt[400] = "", ld[400] = "", id[32];

	eval_finish(e);
	for (size_t i = 0; i < e->nt; i++)
		truths[e->tcls[i]]++;
	for (int c = 0; c < e->nclass; c++) {
		size_t n = e->cstart[c + 1] - e->cstart[c];

		if (truths[c] && !n && nt++ < 5)
			list_add(lt, sizeof lt, eval_class_name(r->truth, c, id));
		if (!truths[c] && n) {
			fp += (long)n;
			if (nd++ < 5)
				list_add(ld, sizeof ld, eval_class_name(r->truth, c, id));
		}
	}
	if (nt && !quiet)
		warn("%ld classes of the truth were never detected: %s%s", nt, lt,
		    nt > 5 ? ", ..." : "");
	if (nd && !quiet)
		warn("%ld classes have detections (%ld) and no truth, %s: %s%s", nd, fp,
		    r->opt->absent ? "their AP counts 0" : "means leave them out", ld,
		    nd > 5 ? ", ..." : "");
	free(truths);
}

static int
tell_twice(struct eval_run *r, struct err *e)
{
	const struct eval_set *s = &r->set;
	const struct eval_pic *p = r->truth->pic + s->dup_first;
	char name[80], id[32];

	if (!s->dup_images)
		return 0;
	snprintf(name, sizeof name, "%.60s", p->name ? p->name : eval_pic_id(p, id));
	err_set(e,
	    "%zu pictures have the same detections twice, first %s (a distributed run that pads?)",
	    s->dup_images, name);
	if (s->dup == 2)
		return -1;
	if (r->tell)
		warn("%s%s", e->msg,
		    s->dup ? "; the first of each is used" : "; -O dup=first leaves one");
	return 0;
}

int
eval_run(struct eval_run *r, char *const *path, int n, struct err *e)
{
	struct eval_set *s = &r->set;

	r->ev = eval_open(r->opt, r->truth->nclass);
	eval_set_open(s, r->truth, r->ev);
	s->min_score = r->min_score;
	s->skip_unknown = r->unknown > 0 ? -1 : 0;
	s->dup = r->dup;
	s->names = r->names;
	s->nnames = r->nnames;
	if (r->errors) {
		s->each = eval_errors_add;
		s->arg = r->errors;
	}
	if (eval_set_read(s, path, n, renew, r, e) || tell_pictures(r, e) || tell_classes(r, e) ||
	    tell_twice(r, e))
		return -1;
	tell_map(r);
	if (r->tell)
		tell_absent(r);
	if (r->tell && !quiet)
		warn("%d pictures, %zu truths, %zu detections%s", r->truth->n, r->truth->nbox,
		    s->total, s->low ? " (some under -O score)" : "");
	return 0;
}

void
eval_run_close(struct eval_run *r)
{
	if (!r->ev)
		return;
	eval_set_close(&r->set);
	eval_close(r->ev);
	r->ev = NULL;
}
