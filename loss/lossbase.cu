/* lossbase.cu -- what all losses share: sums in a fixed order. */
#include "kernel/dev.h"
#include "loss/int.h"

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
extern "C"
#endif
void
BACKEND(loss_sum)(struct dev *d, const struct loss_sums *s, const struct loss_area *a, double *host)
{
	RUNROWS(d, sum_k, s->n, *s, a->part, a->sum);
	d->ops->get(d, host, a->sum, (size_t)s->n * sizeof *host);
}
