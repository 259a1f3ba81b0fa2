/* cfg.c -- fuzz target: any bytes as a cfg: refused with one line, or shapes that hold together. */
#include <assert.h>
#include <string.h>

#include "yolo.h"

static void
check(const struct cfg *c)
{
	assert(c->nl > 0);
	for (int i = 0; i < c->nl; i++) {
		const struct layer *l = &c->l[i];

		assert(
		    l->w > 0 && l->h > 0 && l->c > 0 && l->in_w > 0 && l->in_h > 0 && l->in_c > 0);
		assert((double)l->w * l->h * l->c <= 2147483647.);
		assert(cfg_floats(c, i) >= 0 && cfg_flops(c, i) >= 0);
		if (l->type == L_ROUTE || l->type == L_SHORTCUT)
			for (int k = 0; k < l->u.join.n; k++)
				assert(l->u.join.src[k] >= 0 && l->u.join.src[k] < i);
		if (l->type == L_YOLO)
			for (int k = 0; k < l->u.yolo.nmask; k++)
				assert(l->u.yolo.mask[k] >= 0 && l->u.yolo.mask[k] < l->u.yolo.num);
	}
	assert(cfg_stride(c) > 0);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);
int
LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	struct err e = { "" };
	struct cfg *c = cfg_parse("fuzz.cfg", (const char *)data, n, &e);
	struct params p;

	if (!c) {
		assert(!strncmp(e.msg, "fuzz.cfg", 8) && !strchr(e.msg, '\n'));
		return 0;
	}
	check(c);
	if (!cfg_resize(c, 416, 416, &e))
		check(c);
	if (!cfg_resize(c, 65536, 3, &e))
		check(c);
	check(c);
	params_plan(c, &p);
	params_free(&p);
	cfg_close(c);
	return 0;
}
