/* evallist.c -- lists to look at: worst pictures, suspicious labels, confusions.
 *
 * Right and wrong are judged at the score that makes F1 best over all classes: a detector used
 * there is what a user sees. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

enum { MOST = 200 };			/* rows of a list */

static double
operating_score(struct eval *e)
{
	struct eval_point p = { 0, 0, 0, -1 };

	if (e->opt.rules >> EV_COCO & 1)
		p = eval_best(e, -1, NULL);
	return p.f1 > 0 ? p.thr : 0.25;
}

static void
put_name(FILE *f, const struct eval_truth *t, int pic)
{
	tsv_name(f, t->pic[pic].name ? t->pic[pic].name : "-");
	if (t->pic[pic].id == EVAL_NOID)
		fputs("\t-", f);
	else
		fprintf(f, "\t%lld", (long long)t->pic[pic].id);
}

static void
put_class(FILE *f, const struct eval_truth *t, int c)
{
	putc('\t', f);
	if (c == t->nclass)
		fputs("background", f);
	else if (t->class_name[c])
		tsv_name(f, t->class_name[c]);
	else
		fprintf(f, "%lld", (long long)t->class_id[c]);
}

struct tally { long tp, fp, fn; int pic; };

static int
worse(const void *pa, const void *pb)
{
	const struct tally *a = (const struct tally *)pa, *b = (const struct tally *)pb;
	long d = b->fp + b->fn - a->fp - a->fn;

	return d ? (d > 0) - (d < 0) : a->pic - b->pic;
}

void
eval_write_worst(FILE *f, struct eval *e, const struct eval_truth *truth, struct eval_errors *x)
{
	struct tally *t = (struct tally *)xcalloc((size_t)truth->n, sizeof *t);
	double thr = operating_score(e);

	for (int i = 0; i < truth->n; i++)
		t[i].pic = i;
	for (size_t i = 0; i < x->n; i++)
		if (x->f[i].score >= thr) {
			t[x->f[i].pic].tp += x->f[i].kind == EVAL_TP;
			t[x->f[i].pic].fp +=
			    x->f[i].kind != EVAL_TP && x->f[i].kind != EVAL_IGNORED;
		}
	for (size_t i = 0; i < x->nt; i++)
		t[x->t[i].pic].fn += x->t[i].score < thr;
	if (truth->n)
		qsort(t, (size_t)truth->n, sizeof *t, worse);
	fprintf(f, "#image\tid\terrors\tTP\tFP\tFN\tthr\n");
	for (int i = 0; i < truth->n && i < MOST && t[i].fp + t[i].fn; i++) {
		put_name(f, truth, t[i].pic);
		fprintf(f, "\t%ld\t%ld\t%ld\t%ld\t%.17g\n", t[i].fp + t[i].fn, t[i].tp, t[i].fp,
		    t[i].fn, thr);
	}
	free(t);
}

static int
fault_order(const void *pa, const void *pb)
{
	const struct eval_fault *a = *(const struct eval_fault *const *)pa;
	const struct eval_fault *b = *(const struct eval_fault *const *)pb;

	return a->score > b->score ? -1 : a->score < b->score ? 1 : a < b ? -1 : a > b;
}

static int
found_order(const void *pa, const void *pb)
{
	const struct eval_found *a = *(const struct eval_found *const *)pa;
	const struct eval_found *b = *(const struct eval_found *const *)pb;

	return a->area > b->area ? -1 : a->area < b->area ? 1 : a < b ? -1 : a > b;
}

static void
sure_faults(FILE *f, const struct eval_truth *truth, struct eval_errors *x, double thr)
{
	static const char *const what[] = { "", "place", "class", "duplicate", "unlabelled",
		"both" };
	const struct eval_fault **p = (const struct eval_fault **)xmalloc((x->n + 1) * sizeof *p);
	size_t n = 0;

	for (size_t i = 0; i < x->n; i++)
		if (x->f[i].score >= thr && x->f[i].kind != EVAL_TP &&
		    x->f[i].kind != EVAL_IGNORED && x->f[i].kind != EVAL_DUPE)
			p[n++] = x->f + i;
	if (n)
		qsort(p, n, sizeof *p, fault_order);
	for (size_t i = 0; i < n && i < MOST; i++) {
		put_name(f, truth, p[i]->pic);
		fprintf(f, "\t%s", what[p[i]->kind]);
		put_class(f, truth, p[i]->cls);
		fprintf(f, "\t%.17g\t%.17g\t%.17g\t%.17g\t%.17g\t-\n", p[i]->score, p[i]->x,
		    p[i]->y, p[i]->w, p[i]->h);
	}
	free(p);
}

/* Sure false positives (the label may be missing or wrong) and large truths that nothing found. */
void
eval_write_suspects(FILE *f, struct eval *e, const struct eval_truth *truth, struct eval_errors *x)
{
	const struct eval_found **p = (const struct eval_found **)xmalloc((x->nt + 1) * sizeof *p);
	size_t n = 0;

	fprintf(f, "#image\tid\twhat\tclass\tscore\tx\ty\tw\th\ttruth\n");
	sure_faults(f, truth, x, operating_score(e));
	for (size_t i = 0; i < x->nt; i++)
		if (x->t[i].missed && x->t[i].area >= x->opt.area[x->opt.narea - 1][0])
			p[n++] = x->t + i;
	if (n)
		qsort(p, n, sizeof *p, found_order);
	for (size_t i = 0; i < n && i < MOST; i++) {
		const struct box *b = truth->box + truth->pic[p[i]->pic].first + p[i]->box;

		put_name(f, truth, p[i]->pic);
		fprintf(f, "\tmissed");
		put_class(f, truth, p[i]->cls);
		fprintf(f, "\t-\t%.17g\t%.17g\t%.17g\t%.17g\t%lld\n", b->x, b->y, b->w, b->h,
		    (long long)b->id);
	}
	free(p);
}

static int
by_pair(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

/* Cells that are not 0. */
void
eval_write_confusion(FILE *f, struct eval *e, const struct eval_truth *truth,
    struct eval_errors *x)
{
	(void)e;
	fprintf(f, "#truth\tdetected\tcount\n");
	if (x->npair)
		qsort(x->pair, x->npair, sizeof *x->pair, by_pair);
	for (size_t i = 0, j; i < x->npair; i = j) {
		for (j = i; j < x->npair && x->pair[j] == x->pair[i]; j++)
			;
		int cell[2] = { (int)(x->pair[i] >> 32), (int)(uint32_t)x->pair[i] };

		for (int k = 0; k < 2; k++) {
			const char *name =
			    cell[k] == truth->nclass ? "background" : truth->class_name[cell[k]];

			if (name)
				tsv_name(f, name);
			else
				fprintf(f, "%lld", (long long)truth->class_id[cell[k]]);
			putc('\t', f);
		}
		fprintf(f, "%zu\n", j - i);
	}
}
