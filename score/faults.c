/* faults.c -- what became of each detection and each truth: error analysis and its lists.
 *
 * One pass at IoU 0.5, no maxDets: detections by falling score take the best free truth of their
 * class (COCO's walk); what falls on an ignored region is set aside.  A false positive is then, in
 * this order (TIDE, Bolya et al. 2020): badly placed (same class, IoU 0.1 to 0.5), of the wrong
 * class (IoU 0.5 with another's truth), a duplicate, background (IoU at most 0.1), or both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score/int.h"

static const double FORE = 0.5, BACK = 0.1, CONF = 0.25, PAIR = 0.45;

struct eval_errors *
eval_errors_open(const struct eval_opts *o, int nclass)
{
	struct eval_errors *x = (struct eval_errors *)xcalloc(1, sizeof *x);

	x->opt = *o;
	x->nclass = nclass;
	return x;
}

void
eval_errors_reset(struct eval_errors *x)
{
	x->n = x->nt = x->npair = 0;
}

void
eval_errors_close(struct eval_errors *x)
{
	if (!x)
		return;
	free(x->f);
	free(x->t);
	free(x->pair);
	free(x->near);
	free(x);
}

static int
is_wrong(const struct eval_fault *f)
{
	return f->kind != EVAL_TP && f->kind != EVAL_IGNORED;
}

/* One picture: ord[] detections by score, g[] the truths that count.  IoUs are computed where they
 * are wanted: a table of them would be too large for a picture of many. */
struct scene {
	const struct eval_image *im;
	int nd, ng, *ord, *g, *owner;	/* owner of a truth: place in ord, -1 none */
	struct eval_fault *f;
	struct eval_found *t;
};

static double
iou_of(const struct scene *s, int d, int g)
{
	return eval_iou(&s->im->det[s->ord[d]].x, &s->im->box[s->g[g]].x, 0);
}

static int
on_ignored(const struct eval_errors *x, const struct eval_image *im, const struct eval_det *d)
{
	for (int i = 0; i < im->nbox; i++)
		if (im->box[i].cls == d->cls &&
		    eval_soft(&x->opt, EV_COCO, im->box[i].flags) == EV_IGNORE &&
		    eval_iou(&d->x, &im->box[i].x, im->box[i].flags & BOX_CROWD) >= FORE)
			return 1;
	return 0;
}

static void
match(struct scene *s)
{
	for (int d = 0; d < s->nd; d++) {
		const struct eval_det *det = s->im->det + s->ord[d];
		double best = FORE, v;
		int m = -1;

		for (int g = 0; g < s->ng; g++)
			if (s->im->box[s->g[g]].cls == det->cls && s->owner[g] < 0 &&
			    (v = iou_of(s, d, g)) >= best) {
				best = v;
				m = g;
			}
		if (m < 0)
			continue;
		s->owner[m] = d;
		s->f[d].kind = EVAL_TP;
		s->f[d].iou = best;
		s->t[m].score = det->score;
	}
}

/* The kind of a false positive; *gt: the truth that mending it would find, if that is free. */
static enum eval_kind
fault(const struct scene *s, int d, int *gt)
{
	int cls = s->im->det[s->ord[d]].cls, same = -1, other = -1, taken = 0;
	double si = -1, oi = -1;

	for (int g = 0; g < s->ng; g++) {
		double v = iou_of(s, d, g);

		if (s->im->box[s->g[g]].cls != cls) {
			if (v > oi) {
				oi = v;
				other = g;
			}
			continue;
		}
		if (v > si) {
			si = v;
			same = g;
		}
		taken |= v >= FORE && s->owner[g] >= 0;
	}
	*gt = -1;
	if (si >= BACK && si <= FORE) {
		*gt = s->owner[same] < 0 ? same : -1;
		return EVAL_LOC;
	}
	if (oi >= FORE) {
		*gt = s->owner[other] < 0 ? other : -1;
		return EVAL_CLS;
	}
	return taken ? EVAL_DUPE : si <= BACK && oi <= BACK ? EVAL_BKG : EVAL_BOTH;
}

/* The best-scored fault that could find a free truth is the one that mending counts for. */
static void
classify(const struct eval_errors *x, struct scene *s)
{
	int gt;

	for (int d = 0; d < s->nd; d++) {
		if (s->f[d].kind == EVAL_TP)
			continue;
		if (on_ignored(x, s->im, s->im->det + s->ord[d])) {
			s->f[d].kind = EVAL_IGNORED;
			continue;
		}
		s->f[d].kind = fault(s, d, &gt);
		if (gt >= 0 && s->t[gt].missed) {
			s->t[gt].missed = 0;
			s->f[d].fix = s->t[gt].cls;
		}
	}
	for (int g = 0; g < s->ng; g++)
		if (s->owner[g] >= 0)
			s->t[g].missed = 0;
}

static void
pair(struct eval_errors *x, int truth, int det)
{
	x->pair = (uint64_t *)xgrow(x->pair, &x->paircap, x->npair + 1, sizeof *x->pair);
	x->pair[x->npair++] = (uint64_t)truth << 32 | (uint32_t)det;
}

struct near { double iou; int d, g; };

static int
nearest(const void *pa, const void *pb)
{
	const struct near *a = (const struct near *)pa, *b = (const struct near *)pb;

	if (a->iou != b->iou)
		return a->iou > b->iou ? -1 : 1;
	return a->d != b->d ? a->d - b->d : a->g - b->g;
}

/* Confusion: detections over 0.25, pairs over IoU 0.45 whatever their class, best IoU first. */
static void
confuse(struct eval_errors *x, const struct scene *s)
{
	unsigned char *dused = (unsigned char *)xcalloc((size_t)(s->nd + s->ng) + 1, 1);
	unsigned char *gused = dused + s->nd;
	size_t n = 0;

	for (int d = 0; d < s->nd && s->f[d].score > CONF; d++)
		for (int g = 0; g < s->ng; g++) {
			double v = iou_of(s, d, g);

			if (v <= PAIR)
				continue;
			x->near =
			    (struct near *)xgrow(x->near, &x->nearcap, n + 1, sizeof *x->near);
			x->near[n++] = (struct near){ v, d, g };
		}
	if (n)
		qsort(x->near, n, sizeof *x->near, nearest);
	for (size_t i = 0; i < n; i++) {
		int d = x->near[i].d, g = x->near[i].g;

		if (dused[d] || gused[g])
			continue;
		dused[d] = gused[g] = 1;
		pair(x, s->t[g].cls, s->f[d].cls);
	}
	for (int d = 0; d < s->nd && s->f[d].score > CONF; d++)
		if (!dused[d] && s->f[d].kind != EVAL_IGNORED)
			pair(x, x->nclass, s->f[d].cls);
	for (int g = 0; g < s->ng; g++)
		if (!gused[g])
			pair(x, s->t[g].cls, x->nclass);
	free(dused);
}

static void
set_scene(struct eval_errors *x, struct scene *s, int pic, const struct eval_image *im)
{
	for (int i = 0; i < im->nbox; i++)
		if (eval_soft(&x->opt, EV_COCO, im->box[i].flags) == EV_TRUTH) {
			s->owner[s->ng] = -1;
			s->t[s->ng] = (struct eval_found){ .score = -HUGE_VAL,
				.area = im->box[i].area, .pic = pic, .cls = im->box[i].cls,
				.box = i, .missed = 1 };
			s->g[s->ng++] = i;
		}
	for (int d = 0; d < s->nd; d++) {
		const struct eval_det *det = im->det + s->ord[d];

		s->f[d] = (struct eval_fault){ .score = det->score, .x = det->x, .y = det->y,
			.w = det->w, .h = det->h, .pic = pic, .cls = det->cls, .fix = -1,
			.kind = EVAL_BOTH };
	}
}

void
eval_errors_add(void *arg, int pic, const struct eval_image *im)
{
	struct eval_errors *x = (struct eval_errors *)arg;
	size_t nd = (size_t)im->ndet, nb = (size_t)im->nbox;
	int *mem = (int *)xmalloc((2 * nd + 2 * nb + 1) * sizeof *mem);
	struct scene s = { .im = im, .nd = im->ndet };

	x->f = (struct eval_fault *)xgrow(x->f, &x->cap, x->n + nd + 1, sizeof *x->f);
	x->t = (struct eval_found *)xgrow(x->t, &x->tcap, x->nt + nb + 1, sizeof *x->t);
	s.f = x->f + x->n;
	s.t = x->t + x->nt;
	s.ord = mem + nd;
	s.g = s.ord + nd;
	s.owner = s.g + nb;
	for (int i = 0; i < im->ndet; i++)
		mem[i] = i;
	eval_rank(im, mem, im->ndet, s.ord);
	set_scene(x, &s, pic, im);
	match(&s);
	classify(x, &s);
	confuse(x, &s);
	x->n += nd;
	x->nt += (size_t)s.ng;
	free(mem);
}

/* What each kind of error costs: TIDE's dAP, and LRP.
 *
 * dAP of a kind is AP50 with that kind alone mended, less AP50: Loc and Cls become true positives
 * where they could find a free truth (the best-scored one for each truth) and vanish otherwise;
 * Dupe, Bkg and Both vanish; Miss takes the missed truths away.  FalsePos: no false positives.
 * FalseNeg: no missed truths.  AP is COCO's at IoU 0.5 without maxDets.
 *
 * LRP (Oksuz et al. 2018), tau 0.5: (sum over true positives of (1 - IoU) / 0.5 + FP + FN) / (TP +
 * FP + FN), least over the score threshold of a class: that is its operating threshold. */

enum { V_BASE = 0, V_MISS = EVAL_IGNORED, V_FP, V_FN };
static const char *const tide_name[EVAL_TIDE] = { "AP50", "Loc", "Cls", "Dupe", "Bkg", "Both",
	"Miss", "FalsePos", "FalseNeg" };

static int
by_score(const void *pa, const void *pb)
{
	const struct eval_fault *a = *(const struct eval_fault *const *)pa;
	const struct eval_fault *b = *(const struct eval_fault *const *)pb;

	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	return a->pic != b->pic ? a->pic - b->pic : (a > b) - (a < b);
}

struct tide {
	const struct eval_errors *x;
	const struct eval_fault **f;	/* [n] by falling score; the stretches of classes follow */
	size_t *start;			/* [nclass + 1] stretch of a class, from f + n */
	struct eval_curve *cv;		/* [nclass] */
	double *npos;			/* [nclass] of the variant */
	uint32_t *mem;
	size_t *truths;			/* [nclass] */
};

/* 1 TP of *cls, 0 FP, -1 not there. */
static int
as_variant(const struct eval_fault *f, int v, int *cls)
{
	*cls = f->cls;
	if (f->kind == EVAL_TP)
		return 1;
	if (f->kind == EVAL_IGNORED || v == V_FP)
		return -1;
	if (v == V_BASE || (int)f->kind != v)
		return 0;
	if (f->fix < 0)
		return -1;
	*cls = f->fix;
	return 1;
}

static double
variant_ap(struct tide *t, int v)
{
	const struct eval_errors *x = t->x;
	double sum = 0;
	int n = 0, c;

	memset(t->npos, 0, (size_t)x->nclass * sizeof *t->npos);
	for (size_t i = 0; i < x->nt; i++)
		if (!(v == V_MISS && x->t[i].missed) && !(v == V_FN && x->t[i].score == -HUGE_VAL))
			t->npos[x->t[i].cls]++;
	for (c = 0; c < x->nclass; c++)
		t->cv[c].n = t->cv[c].tp_all = t->cv[c].fp_all = 0;
	for (size_t i = 0; i < x->n; i++) {
		int r = as_variant(t->f[i], v, &c);
		struct eval_curve *k = t->cv + c;

		if (r > 0) {
			k->tp[k->n] = ++k->tp_all;
			k->fp[k->n++] = k->fp_all;
		} else if (!r)
			k->fp_all++;
	}
	for (c = 0; c < x->nclass; c++) {
		t->cv[c].npos = t->npos[c];
		if (t->truths[c] && (t->npos[c] > 0 || t->cv[c].fp_all)) {
			sum += fmax(eval_ap_coco(t->cv + c), 0);
			n++;
		}
	}
	return n ? sum / n : -1;
}

/* Detections f[n] of a class by falling score; npos truths. */
static struct eval_lrp
class_lrp(const struct eval_fault *const *f, size_t n, double npos)
{
	struct eval_lrp best = { 1, -1, -1, 1, -1 };
	double tp = 0, fp = 0, loss = 0;

	for (size_t i = 0; i < n; i++) {
		double v;

		tp += f[i]->kind == EVAL_TP;
		fp += is_wrong(f[i]);
		loss += f[i]->kind == EVAL_TP ? 1 - f[i]->iou : 0;
		if (i + 1 < n && f[i + 1]->score == f[i]->score) /* all of a score, or none */
			continue;
		v = (loss / 0.5 + fp + npos - tp) / (npos + fp);
		if (tp && v < best.all)
			best = (struct eval_lrp){ v, loss / tp, fp / (tp + fp), 1 - tp / npos,
				f[i]->score };
	}
	return best;
}

static void
tide_open(struct tide *t, const struct eval_errors *x)
{
	size_t nc = (size_t)x->nclass, total = 0, *at;

	memset(t, 0, sizeof *t);
	t->x = x;
	t->f = (const struct eval_fault **)xmalloc((2 * x->n + 1) * sizeof *t->f);
	for (size_t i = 0; i < x->n; i++)
		t->f[i] = x->f + i;
	qsort(t->f, x->n, sizeof *t->f, by_score);
	t->start = (size_t *)xcalloc(2 * (nc + 2), sizeof *t->start);
	at = t->start + nc + 2;
	for (size_t i = 0; i < x->n; i++)
		t->start[x->f[i].cls + 1]++;
	for (size_t c = 0; c < nc; c++)
		at[c + 1] = t->start[c + 1] += t->start[c];
	for (size_t i = 0; i < x->n; i++)
		t->f[x->n + at[t->f[i]->cls]++] = t->f[i];
	t->cv = (struct eval_curve *)xcalloc(nc, sizeof *t->cv);
	t->npos = (double *)xcalloc(nc, sizeof *t->npos);
	t->truths = (size_t *)xcalloc(nc, sizeof *t->truths);
	for (size_t i = 0; i < x->nt; i++)
		t->truths[x->t[i].cls]++;
	t->mem = (uint32_t *)xmalloc((x->nt + nc + 1) * 2 * sizeof *t->mem);
	for (size_t c = 0; c < nc; c++) {
		t->cv[c].tp = t->mem + 2 * total;
		t->cv[c].fp = t->cv[c].tp + t->truths[c];
		total += t->truths[c];
	}
}

static void
tide_close(struct tide *t)
{
	free(t->f);
	free(t->start);
	free(t->cv);
	free(t->npos);
	free(t->truths);
	free(t->mem);
}

/* Means over the classes for which a part is defined. */
static struct eval_lrp
lrp_mean(const struct eval_lrp *l, int n)
{
	double sum[4] = { 0 }, num[4] = { 0 };

	for (int c = 0; c < n; c++) {
		double v[4] = { l[c].all, l[c].loc, l[c].fp, l[c].fn };

		for (int k = 0; k < 4; k++)
			if (v[k] >= 0) {
				sum[k] += v[k];
				num[k]++;
			}
	}
	for (int k = 0; k < 4; k++)
		sum[k] = num[k] ? sum[k] / num[k] : -1;
	return (struct eval_lrp){ sum[0], sum[1], sum[2], sum[3], -1 };
}

void
eval_analyse(struct eval_analysis *a, const struct eval_errors *x)
{
	struct tide t;
	int nc = x->nclass;

	tide_open(&t, x);
	a->tide[0] = variant_ap(&t, V_BASE);
	for (int v = 1; v < EVAL_TIDE; v++)
		a->tide[v] = a->tide[0] < 0 ? -1 : variant_ap(&t, v) - a->tide[0];
	a->lrp = (struct eval_lrp *)xmalloc((size_t)(nc + 1) * sizeof *a->lrp);
	for (int c = 0; c < nc; c++)
		a->lrp[c] = t.truths[c] ? class_lrp(t.f + x->n + t.start[c],
		    t.start[c + 1] - t.start[c], (double)t.truths[c]) :
		    (struct eval_lrp){ -1, -1, -1, -1, -1 };
	a->mean = lrp_mean(a->lrp, nc);
	tide_close(&t);
}

void
eval_analysis_free(struct eval_analysis *a)
{
	free(a->lrp);
	a->lrp = NULL;
}

static void
put_lrp(FILE *f, const char *cls, const struct eval_lrp *l, int with_thr)
{
	static const char *const name[] = { "oLRP", "Loc", "FP", "FN", "thr" };
	double v[5] = { l->all, l->loc, l->fp, l->fn, l->thr };

	for (int k = 0; k < 4 + with_thr; k++) {
		fputs("lrp\t", f);
		tsv_name(f, cls);
		fprintf(f, "\t%s\t%.17g\n", name[k], v[k]);
	}
}

void
eval_analysis_print(FILE *f, const struct eval_analysis *a, const struct eval_truth *truth,
    int per_class)
{
	for (int v = 0; v < EVAL_TIDE; v++)
		fprintf(f, "tide\t-\t%s\t%.17g\n", tide_name[v], a->tide[v]);
	put_lrp(f, "-", &a->mean, 0);
	for (int c = 0; c < truth->nclass && per_class; c++)
		if (a->lrp[c].all >= 0) {
			char id[32];

			put_lrp(f, eval_class_name(truth, c, id), a->lrp + c, 1);
		}
}

/* Lists to look at: worst pictures, suspicious labels, confusions.
 *
 * Right and wrong are judged at the score that makes F1 best over all classes: a detector used
 * there is what a user sees.  Each list is found once, for its table and for the report. */

enum { MOST = 200 };			/* rows of a list */

/* Needs COCO's matching; without that rule 0.25. */
double
eval_operating(struct eval *e)
{
	struct eval_point p = { 0, 0, 0, -1 };

	if (eval_has(&e->opt, EV_COCO))
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

void
eval_put_class(FILE *f, const struct eval_truth *t, int c)
{
	char id[32];

	tsv_name(f, c < 0 ? "-" : eval_class_name(t, c, id));
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
			t[x->f[i].pic].fp += is_wrong(x->f + i);
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
		if (x->f[i].score >= thr && is_wrong(x->f + i) && x->f[i].kind != EVAL_DUPE)
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
		eval_put_class(f, truth, p[i]->cls);
		fprintf(f, "\t%.17g\t%.17g\t%.17g\t%.17g\t%.17g\t-\n", p[i]->score, p[i]->x,
		    p[i]->y, p[i]->w, p[i]->h);
	}
	for (int i = 0; i < nm; i++) {
		const struct box *b = truth->box + truth->pic[m[i]->pic].first + m[i]->box;

		put_name(f, truth, m[i]->pic);
		fprintf(f, "\tmissed\t");
		eval_put_class(f, truth, m[i]->cls);
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
		eval_put_class(f, truth, c[i].truth);
		putc('\t', f);
		eval_put_class(f, truth, c[i].detected);
		fprintf(f, "\t%zu\n", c[i].n);
	}
	free(c);
}
