/* evallist.c -- lists to look at: worst pictures, suspicious labels, confusions.
 *
 * Right and wrong are judged at the score that makes F1 best over all classes: a detector used
 * there is what a user sees.  Each list is found once, for its table and for the report. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

enum { MOST = 200 };			/* rows of a list */

/* Needs COCO's matching; without that rule 0.25. */
double
eval_operating(struct eval *e)
{
	struct eval_point p = { 0, 0, 0, -1 };

	if (e->opt.rules >> EV_COCO & 1)
		p = eval_best_all(e);
	return p.f1 > 0 ? p.thr : 0.25;
}

const char *
eval_class_name(const struct eval_truth *t, int c, char id[32])
{
	if (c == t->nclass)
		return "background";
	if (t->class_name[c])
		return t->class_name[c];
	snprintf(id, 32, "%lld", (long long)t->class_id[c]);
	return id;
}

const char *
eval_pic_id(const struct eval_pic *p, char id[32])
{
	if (p->word)
		return p->word;
	snprintf(id, 32, "%lld", (long long)p->id);
	return p->id == EVAL_NOID ? "-" : id;
}

static void
put_name(FILE *f, const struct eval_truth *t, int pic)
{
	char id[32];

	tsv_name(f, t->pic[pic].name ? t->pic[pic].name : "-");
	putc('\t', f);
	tsv_name(f, eval_pic_id(t->pic + pic, id));
}

static void
put_class(FILE *f, const struct eval_truth *t, int c)
{
	char id[32];

	tsv_name(f, eval_class_name(t, c, id));
}

/* ---- worst pictures ---- */

static int
worse(const void *pa, const void *pb)
{
	const struct eval_tally *a = (const struct eval_tally *)pa,
				*b = (const struct eval_tally *)pb;
	long d = b->fp + b->fn - a->fp - a->fn;

	return d ? (d > 0) - (d < 0) : a->pic - b->pic;
}

struct eval_tally *
eval_worst(const struct eval_errors *x, int npic, double thr, int *n)
{
	struct eval_tally *t = (struct eval_tally *)xcalloc((size_t)npic + 1, sizeof *t);

	for (int i = 0; i < npic; i++)
		t[i].pic = i;
	for (size_t i = 0; i < x->n; i++)
		if (x->f[i].score >= thr) {
			t[x->f[i].pic].tp += x->f[i].kind == EVAL_TP;
			t[x->f[i].pic].fp +=
			    x->f[i].kind != EVAL_TP && x->f[i].kind != EVAL_IGNORED;
		}
	for (size_t i = 0; i < x->nt; i++)
		t[x->t[i].pic].fn += x->t[i].score < thr;
	qsort(t, (size_t)npic, sizeof *t, worse);
	for (*n = 0; *n < npic && *n < MOST && t[*n].fp + t[*n].fn;)
		++*n;
	return t;
}

void
eval_write_worst(FILE *f, struct eval *e, const struct eval_truth *truth, struct eval_errors *x)
{
	double thr = eval_operating(e);
	int n;
	struct eval_tally *t = eval_worst(x, truth->n, thr, &n);

	fprintf(f, "#image\tid\terrors\tTP\tFP\tFN\tthr\n");
	for (int i = 0; i < n; i++) {
		put_name(f, truth, t[i].pic);
		fprintf(f, "\t%ld\t%ld\t%ld\t%ld\t%.17g\n", t[i].fp + t[i].fn, t[i].tp, t[i].fp,
		    t[i].fn, thr);
	}
	free(t);
}

/* ---- suspicious labels ---- */

const char *const eval_fault_name[] = { "", "place", "class", "duplicate", "unlabelled", "both" };

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

/* Sure false positives: the label may be missing or wrong. */
const struct eval_fault **
eval_sure_faults(const struct eval_errors *x, double thr, int *n)
{
	const struct eval_fault **p = (const struct eval_fault **)xmalloc((x->n + 1) * sizeof *p);
	size_t k = 0;

	for (size_t i = 0; i < x->n; i++)
		if (x->f[i].score >= thr && x->f[i].kind != EVAL_TP &&
		    x->f[i].kind != EVAL_IGNORED && x->f[i].kind != EVAL_DUPE)
			p[k++] = x->f + i;
	qsort(p, k, sizeof *p, fault_order);
	*n = k < MOST ? (int)k : MOST;
	return p;
}

/* Truths of the largest area range that nothing came near. */
const struct eval_found **
eval_large_missed(const struct eval_errors *x, int *n)
{
	const struct eval_found **p = (const struct eval_found **)xmalloc((x->nt + 1) * sizeof *p);
	size_t k = 0;

	for (size_t i = 0; i < x->nt; i++)
		if (x->t[i].missed && x->t[i].area >= x->opt.area[x->opt.narea - 1][0])
			p[k++] = x->t + i;
	qsort(p, k, sizeof *p, found_order);
	*n = k < MOST ? (int)k : MOST;
	return p;
}

void
eval_write_suspects(FILE *f, struct eval *e, const struct eval_truth *truth, struct eval_errors *x)
{
	int nf, nm;
	const struct eval_fault **p = eval_sure_faults(x, eval_operating(e), &nf);
	const struct eval_found **m = eval_large_missed(x, &nm);

	fprintf(f, "#image\tid\twhat\tclass\tscore\tx\ty\tw\th\ttruth\n");
	for (int i = 0; i < nf; i++) {
		put_name(f, truth, p[i]->pic);
		fprintf(f, "\t%s\t", eval_fault_name[p[i]->kind]);
		put_class(f, truth, p[i]->cls);
		fprintf(f, "\t%.17g\t%.17g\t%.17g\t%.17g\t%.17g\t-\n", p[i]->score, p[i]->x,
		    p[i]->y, p[i]->w, p[i]->h);
	}
	for (int i = 0; i < nm; i++) {
		const struct box *b = truth->box + truth->pic[m[i]->pic].first + m[i]->box;

		put_name(f, truth, m[i]->pic);
		fprintf(f, "\tmissed\t");
		put_class(f, truth, m[i]->cls);
		fprintf(f, "\t-\t%.17g\t%.17g\t%.17g\t%.17g\t%lld\n", b->x, b->y, b->w, b->h,
		    (long long)b->id);
	}
	free(p);
	free(m);
}

/* ---- confusion ---- */

static int
by_pair(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

struct eval_cell *
eval_confusion(struct eval_errors *x, size_t *n)
{
	struct eval_cell *c = (struct eval_cell *)xmalloc((x->npair + 1) * sizeof *c);

	*n = 0;
	if (x->npair)
		qsort(x->pair, x->npair, sizeof *x->pair, by_pair);
	for (size_t i = 0, j; i < x->npair; i = j) {
		for (j = i; j < x->npair && x->pair[j] == x->pair[i]; j++)
			;
		c[(*n)++] = (struct eval_cell){ (int)(x->pair[i] >> 32),
			(int)(uint32_t)x->pair[i], j - i };
	}
	return c;
}

void
eval_write_confusion(FILE *f, struct eval *e, const struct eval_truth *truth,
    struct eval_errors *x)
{
	size_t n;
	struct eval_cell *c = eval_confusion(x, &n);

	(void)e;
	fprintf(f, "#truth\tdetected\tcount\n");
	for (size_t i = 0; i < n; i++) {
		put_class(f, truth, c[i].truth);
		putc('\t', f);
		put_class(f, truth, c[i].detected);
		fprintf(f, "\t%zu\n", c[i].n);
	}
	free(c);
}
