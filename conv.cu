/* conv.cu -- convolution: which kind does it.
 *
 * The first that fits: depthwise without columns, Winograd where it pays (not in bfloat16: rounding
 * its transforms costs digits), and the GEMM on columns, which does every shape.  One workspace
 * serves all directions and batch-norm of the output. */
#include "kernel/kernel.h"
#include "kernel/dev.h"

static const struct conv_kind *const kinds[] = {
	&BACKEND(direct),
#ifndef BF16
	&BACKEND(winograd),
#endif
	&BACKEND(convgemm),
};
enum { NKIND = sizeof kinds / sizeof *kinds };

static const struct conv_kind *
kind(const struct dev *d, const struct conv_shape *s, enum conv_way way)
{
	int i = 0;

	while (i < NKIND - 1 && !kinds[i]->fits(d, s, way))
		i++;
	return kinds[i];
}

static size_t
workspace(struct dev *d, const struct conv_shape *s, int train)
{
	size_t need = train ? d->bn->workspace(d, s->n * s->oh * s->ow, s->k) : 0;

	for (int way = CONV_FORWARD; way <= (train ? CONV_WGRAD : CONV_FORWARD); way++) {
		size_t ws = kind(d, s, (enum conv_way)way)->ops.workspace(d, s, train);

		need = ws > need ? ws : need;
	}
	return need + 64;
}

static void
forward(struct dev *d, const struct conv_shape *s, const void *x, const float *w, void *y, void *ws)
{
	kind(d, s, CONV_FORWARD)->ops.forward(d, s, x, w, y, ws);
}

static void
dgrad(struct dev *d, const struct conv_shape *s, const void *dy, const float *w, void *dx, int add,
    void *ws)
{
	kind(d, s, CONV_DGRAD)->ops.dgrad(d, s, dy, w, dx, add, ws);
}

static void
wgrad(struct dev *d, const struct conv_shape *s, const void *x, const void *dy, float *dw, void *ws)
{
	kind(d, s, CONV_WGRAD)->ops.wgrad(d, s, x, dy, dw, ws);
}

const struct conv_ops BACKEND(conv) = { workspace, forward, dgrad, wgrad };
