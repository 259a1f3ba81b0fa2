/* lossbase.cu -- what all losses share: decoding, and sums in a fixed order. */
#include "kernel/dev.h"
#include "loss/int.h"

/* Rows of the result run over anchor, row, column; the head's cells are stored with the anchors
 * of a cell side by side.  base: boxes of earlier heads, all: boxes of an image. */
DEVICE const float *
source(const struct head_view *v, int r, int *image, int *box, int *cell)
{
	int cells = v->h * v->w, per = v->a * cells;

	*image = r / per;
	*box = r - *image * per;
	*cell = *box % cells;
	return v->raw + ((*image * cells + *cell) * v->a + *box / cells) * (v->c + 5);
}

KERNEL
decode_k(struct head_view v, int base, int all, float *out)
{
	int len = v.c + 5;

	EACH2 (r, fn_boxes(&v), e, len) {
		int image, box, cell;
		const float *p = source(&v, r, &image, &box, &cell);

		out[(image * all + base + box) * len + e] = fn_decode(&v, p, e, box / (v.h * v.w),
		    cell % v.w, cell / v.w);
	}
}

KERNEL
softmax_k(struct head_view v, int base, int all, float *out)
{
	ROWS (r, fn_boxes(&v)) {
		int image, box, cell;
		const float *p = source(&v, r, &image, &box, &cell) + 5;
		float *q = out + (image * all + base + box) * (v.c + 5) + 5, top = p[0];
		double sum = 0;

		for (int j = 1; j < v.c; j++)
			top = p[j] > top ? p[j] : top;
		LANES (j, v.c)
			sum += expf(p[j] - top);
		sum = row_sum(sum);
		LANES (j, v.c)
			q[j] = expf(p[j] - top) / (float)sum;
	}
}

KERNEL
sum_k(struct loss_sums s, const double *part, double *out)
{
	ROWS (i, s.n) {
		double sum = 0;

		LANES (j, s.len[i])
			sum += part[s.off[i] + j];
		sum = row_sum(sum);
		LEAD
			out[i] = sum;
	}
}

#ifdef __cplusplus
extern "C" {
#endif
void
BACKEND(loss_decode)(struct dev *d, const struct loss *s, float *out, void *ws)
{
	int base = 0, all = loss_rows(s);

	for (int h = 0; h < s->nhead; h++) {
		struct head_view v;
		int boxes;

		loss_view(s, h, &v);
		boxes = v.h * v.w * v.a;
		RUN(d, decode_k, v.n * boxes * (v.c + 5), v, base, all, out);
		if (v.softmax)
			RUNROWS(d, softmax_k, v.n * boxes, v, base, all, out);
		base += boxes;
	}
	(void)d;
	(void)ws;
}

void
BACKEND(loss_sum)(struct dev *d, const struct loss_sums *s, const struct loss_area *a, double *host)
{
	RUNROWS(d, sum_k, s->n, *s, a->part, a->sum);
	d->ops->get(d, host, a->sum, (size_t)s->n * sizeof *host);
}
#ifdef __cplusplus
}
#endif
