/* benchops.c -- yolo-bench ops: what a cfg builds and costs; runs nothing.
 *
 * Parameters are floats of a .weights file, bytes its size: four each, and a header of 20 in the
 * total.  BFLOPs are 2 x multiply-adds of convolutions / 1e9 of one picture forward, as darknet
 * prints them. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "model/model.h"

enum { HEADER = 20 };		/* of a .weights file; 16 in those before version 0.2 */

static const char usage[] = "usage: yolo-bench ops [-hq] [-c cfg] [-o out.tsv] [-s side]\n";

/* "from 33,23" */
static void
sources(const struct layer *l, char out[64 + 12 * LAYER_SRC])
{
	int joins = l->type == L_ROUTE || l->type == L_SHORTCUT, n = joins ? l->u.join.n : 1,
	    at = 0;

	for (int i = 0; i < n; i++)
		at += sprintf(out + at, "%s%d", i ? "," : "from ", joins ? l->u.join.src[i] :
		    l->u.scale.src);
	if (joins && l->u.join.groups > 1)
		sprintf(out + at, " g%d.%d", l->u.join.groups, l->u.join.group_id);
}

/* filters and size/stride (or sources) of a row, "-" where a layer has none. */
static void
describe(const struct layer *l, char filters[32], char size[64 + 12 * LAYER_SRC])
{
	const struct def_conv *d = &l->u.conv;
	const struct def_pool *p = &l->u.pool;

	snprintf(filters, 32, "-");
	snprintf(size, 64, "-");
	switch (l->type) {
	case L_CONV:
		snprintf(filters, 32, "%d", d->k);
		if (d->stride_x != d->stride_y)
			snprintf(size, 64, "%d/%dx%d", d->size, d->stride_x, d->stride_y);
		else
			snprintf(size, 64, "%d/%d", d->size, d->stride_x);
		if (d->groups > 1)
			snprintf(size + strlen(size), 64 - strlen(size), " g%d", d->groups);
		break;
	case L_MAXPOOL:
		if (p->stride_x != p->stride_y)
			snprintf(size, 64, "%d/%dx%d", p->size, p->stride_x, p->stride_y);
		else
			snprintf(size, 64, "%d/%d", p->size, p->stride_x);
		break;
	case L_UPSAMPLE: case L_REORG: case L_REORG3D:
		snprintf(size, 64, "/%d", l->u.stride.stride);
		break;
	case L_ROUTE: case L_SHORTCUT: case L_SCALE: case L_SAM:
		sources(l, size);
		break;
	default:
		break;
	}
}

static void
print(FILE *f, const struct cfg *c)
{
	double flops = 0;
	long floats = 0;

	fprintf(f, "#index\ttype\tfilters\tsize/stride\tinput\toutput\tparams\tBFLOPs"
	    "\tbytes\n");
	for (int i = 0; i < c->nl; i++) {
		const struct layer *l = &c->l[i];
		char filters[32], size[64 + 12 * LAYER_SRC];

		describe(l, filters, size);
		fprintf(f, "%d\t%s\t%s\t%s\t", i, layer_name(l->type), filters, size);
		fprintf(f, "%dx%dx%d\t%dx%dx%d\t%ld\t%.9g\t%ld\n", l->in_w, l->in_h, l->in_c, l->w,
		    l->h, l->c, cfg_floats(c, i), cfg_flops(c, i) / 1e9, 4 * cfg_floats(c, i));
		floats += cfg_floats(c, i);
		flops += cfg_flops(c, i);
	}
	fprintf(f, "total\t%s\t-\t-\t%dx%dx%d\t-\t%ld\t%.9g\t%ld\n", path_base(c->path),
	    c->net.w, c->net.h, c->net.c, floats, flops / 1e9, HEADER + 4 * floats);
}

/* w 0: the cfg's own size. */
static int
run(const char *path, int w, int h, const char *out, struct err *e)
{
	struct cfg *c = cfg_read(path, e);
	struct outfile o;
	int bad = !c;

	if (!bad && w)
		bad = cfg_resize(c, w, h, e);
	if (!bad)
		bad = out_open(&o, out, e);
	if (!bad) {
		for (int i = 0; i < c->nnote; i++)
			warn("%s", c->note[i]);
		print(o.f, c);
		bad = out_commit(&o, e);
	}
	cfg_close(c);
	return bad;
}

int
bench_ops(const struct bench_call *call)
{
	static const struct option longs[] = { { "cfg", 1, NULL, 'c' }, { "help", 0, NULL, 'h' },
		{ "output", 1, NULL, 'o' }, { "quiet", 0, NULL, 'q' }, { "side", 1, NULL, 's' },
		{ NULL, 0, NULL, 0 } };
	const char *cfg = "cfg/yolov3-tiny.cfg", *out = "-";
	struct err e = { "" };
	int opt, w = 0, h = 0;

	while ((opt = getopt_long(call->argc, call->argv, "c:ho:qs:", longs, NULL)) >= 0)
		switch (opt) {
		case 'c': cfg = optarg; break;
		case 'o': out = optarg; break;
		case 'q': quiet = 1; break;
		case 's':
			if (!num_side(optarg, &w, &h))
				break;
			warn("-s %s: want a side such as 416 or 608x352", optarg);
			return 2;
		case 'h': fputs(usage, stdout); return 0;
		default: fputs(usage, stderr); return 2;
		}
	if (optind < call->argc) {
		warn("%s: ops takes no operand; -c names the cfg", call->argv[optind]);
		fputs(usage, stderr);
		return 2;
	}
	if (!run(cfg, w, h, out, &e))
		return 0;
	warn("%s", e.msg);
	return 1;
}
