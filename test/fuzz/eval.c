/* eval.c -- fuzz the readers of yolo-eval: what stands before the first NUL is a truth (COCO
 * json), what follows detections of any kind; what both accept is scored by every rule.
 *
 * Every metric that comes out must be -1 or lie in 0..1; counts of darknet's are not negative. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yolo.h"
#include "score/int.h"

int LLVMFuzzerTestOneInput(const unsigned char *, size_t);

static const char plain[] =
    "{\"images\":[{\"id\":1,\"file_name\":\"a.jpg\",\"width\":64,\"height\":64},"
    "{\"id\":2,\"file_name\":\"b.jpg\"}],\"categories\":[{\"id\":1,\"name\":\"c\"},{\"id\":2,"
    "\"name\":"
    "\"d\"}],\"annotations\":[{\"id\":1,\"image_id\":1,\"category_id\":1,\"bbox\":[1,1,9,9],"
    "\"iscrowd\":0},"
    "{\"id\":2,\"image_id\":1,\"category_id\":1,\"bbox\":[5,5,9,9],\"iscrowd\":1}]}";

struct heap { const struct eval_truth *t; struct eval_det *d; size_t n, cap; };

static int
take(void *arg, const struct eval_in *in, struct err *e)
{
	struct heap *h = (struct heap *)arg;
	int pic;

	if (!isfinite(in->score) || !isfinite(in->x) || !isfinite(in->w))
		abort();
	if (h->n == 1000)
		return err_set(e, "enough");
	pic = in->image ? eval_names_find(h->t->names, in->image, in->image_len) :
	    eval_names_id(h->t->names, in->image_id);
	if (pic < 0 || !h->t->nclass)
		return 0;
	h->d = (struct eval_det *)xgrow(h->d, &h->cap, h->n + 1, sizeof *h->d);
	h->d[h->n++] = (struct eval_det){ in->score, in->x, in->y, in->w, in->h, pic,
		(int)(((uint64_t)in->cls + in->name_len) % (uint64_t)h->t->nclass) };
	return 0;
}

static void
score(const struct eval_truth *t, const struct heap *h)
{
	static struct eval_row row[EVAL_ROWS];
	struct eval_det *d = (struct eval_det *)xmalloc((h->n + 1) * sizeof *d);
	struct eval_opts o;
	struct eval *e;
	int n;

	eval_defaults(&o);
	o.rules = (1 << EV_RULES) - 1;
	e = eval_open(&o, t->nclass);
	for (int i = 0; i < t->n; i++) {
		struct eval_image im = { i, t->box + t->pic[i].first, d, t->pic[i].n, 0 };

		for (size_t k = 0; k < h->n; k++)
			if (h->d[k].image == i)
				d[im.ndet++] = h->d[k];
		eval_add(e, &im, 1);
	}
	n = eval_total(e, NULL, row);
	for (int k = 0; k < n; k++)
		if (!strcmp(row[k].metric, "TP") || !strcmp(row[k].metric, "FP") ||
		    !strcmp(row[k].metric, "FN")) {
			if (!(row[k].value >= 0))
				abort();
		} else if (strcmp(row[k].metric, "thr") && !(row[k].value == -1 ||
		    (row[k].value >= 0 && row[k].value <= 1 + 1e-9)))
			abort();
	eval_close(e);
	free(d);
}

int
LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	const unsigned char *nul = (const unsigned char *)memchr(p, 0, n);
	size_t nt = nul ? (size_t)(nul - p) : 0;
	struct eval_truth t;
	struct heap h = { &t, NULL, 0, 0 };
	struct scan s;
	struct err e;

	memset(&t, 0, sizeof t);
	if (nt)
		scan_memory(&s, "truth", p, nt);
	else
		scan_memory(&s, "truth", plain, sizeof plain - 1);
	if (!eval_truth_coco(&t, &s, &e) && t.nclass < 1000 && t.n < 1000) {
		scan_close(&s);
		p += nul ? nt + 1 : 0;
		n -= nul ? nt + 1 : 0;
		scan_memory(&s, "comp4_det_x_c.txt", p, n);
		eval_read_scan(&s, take, &h, &e);
		score(&t, &h);
	}
	scan_close(&s);
	eval_truth_close(&t);
	free(h.d);
	return 0;
}
