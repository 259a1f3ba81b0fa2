/* t-box.c -- suppression against its definition on random boxes, limits, bad numbers, mapping. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "test/tap.h"

enum { N = 300, CLASSES = 5 };
static float box[N * 4], score[N * CLASSES];
static unsigned seed = 1;

static float
uniform(void)
{
	seed = seed * 1664525u + 1013904223u;
	return (float)(seed >> 8) / 16777216.f;
}

/* Boxes in clusters on a coarse grid, scores in steps: many ties. */
static void
fill(int steps)
{
	for (int i = 0; i < N; i++) {
		float x = 10 * floorf(8 * uniform()), y = 10 * floorf(8 * uniform());

		box[4 * i] = x;
		box[4 * i + 1] = y;
		box[4 * i + 2] = x + 10 + 20 * floorf(2 * uniform());
		box[4 * i + 3] = y + 10 + 20 * floorf(2 * uniform());
		for (int k = 0; k < CLASSES; k++)
			score[i * CLASSES + k] = floorf((float)steps * uniform()) / (float)steps;
	}
}

static double
iou(int i, int j)
{
	const float *a = box + 4 * i, *b = box + 4 * j;
	double w = fmin(a[2], b[2]) - fmax(a[0], b[0]), h = fmin(a[3], b[3]) - fmax(a[1], b[1]);
	double inter = w > 0 && h > 0 ? w * h : 0;

	return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter);
}

/* Greedy suppression as defined: of all that remains take the best, until nothing does. */
static int
define(const struct nms *m, struct det *out)
{
	static unsigned char gone[N][CLASSES];
	int n = 0;

	memset(gone, 0, sizeof gone);
	for (;;) {
		int bi = -1, bk = 0;

		for (int i = 0; i < N; i++)
			for (int k = 0; k < CLASSES; k++)
				if (!gone[i][k] && score[i * CLASSES + k] > m->score_thresh &&
				    (bi < 0 || score[i * CLASSES + k] > score[bi * CLASSES + bk])) {
					bi = i;
					bk = k;
				}
		if (bi < 0 || (m->max_det && n == m->max_det))
			return n;
		out[n].index = bi;
		out[n++].cls = bk;
		gone[bi][bk] = 1;
		for (int i = 0; i < N; i++)
			for (int k = 0; k < CLASSES; k++)
				if ((m->agnostic || k == bk) && iou(i, bi) > m->iou_thresh)
					gone[i][k] = 1;
	}
}

static int
equal(const struct det *a, int na, const struct det *b, int nb)
{
	int good = na == nb;

	for (int i = 0; i < na && good; i++)
		good = a[i].index == b[i].index && a[i].cls == b[i].cls;
	return good;
}

static void
against_definition(void)
{
	static struct det want[N * CLASSES];
	static const int steps[] = { 4, 64, 100000 };
	struct err e;

	for (int c = 0; c < 12; c++) {
		struct det *got;
		struct nms m;
		int n;

		fill(steps[c / 4]);
		nms_method(&m, c % 2 ? "agnostic" : "greedy", &e);
		m.score_thresh = .1;
		m.iou_thresh = .3;
		m.max_det = c % 4 < 2 ? 0 : 17;
		n = nms_run(&m, &(struct nms_in){ box, score, NULL, N, CLASSES }, &got);
		ok(n > 10 && equal(got, n, want, define(&m, want)),
		    "greedy suppression is its definition");
		free(got);
	}
}

/* A limit cuts the unlimited result, for every method. */
static void
limits(void)
{
	static const char *const names[] = { "greedy", "agnostic", "agnostic-best", "best", "diou",
		"diou-darknet", "merge", "merge-all", "merge-partner", "and", "soft-gauss",
		"soft-linear", "soft-fixed", "objectness" };
	struct nms_in in = { box, score, NULL, N, CLASSES };
	float obj[N];
	struct err e;

	fill(1000);
	for (int i = 0; i < N; i++)
		obj[i] = uniform();
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		struct det *all, *some;
		struct nms m;
		int na, ns, order = 1;

		if (nms_method(&m, names[k], &e)) {
			ok(0, names[k]);
			continue;
		}
		in.objectness = k == 13 ? obj : NULL;
		na = nms_run(&m, &in, &all);
		m.max_det = 13;
		ns = nms_run(&m, &in, &some);
		for (int i = 1; i < na; i++)
			order &= all[i - 1].score > all[i].score ||
			    (all[i - 1].score == all[i].score && (all[i - 1].index < all[i].index ||
			    (all[i - 1].index == all[i].index && all[i - 1].cls < all[i].cls)));
		ok(na > 13 && ns == 13 && equal(some, ns, all, 13), names[k]);
		ok(order, "results are in order");
		free(all);
		free(some);
	}
	ok(nms_method(&(struct nms){ 0 }, "gready", &e) && strstr(e.msg, "greedy agnostic"),
	    "an unknown method is refused with the list");
}

static void
bad_numbers(void)
{
	struct det *got;
	struct nms m;
	struct err e;
	int ng;

	nms_method(&m, "greedy", &e);
	fill(64);
	score[7] = NAN;
	score[12] = INFINITY;
	box[40 * 4] = NAN;
	ng = nms_run(&m, &(struct nms_in){ box, score, NULL, N, CLASSES }, &got);
	for (int i = 0; i < ng; i++)
		ok(got[i].index != 40 && isfinite(got[i].score),
		    "nothing that is not finite comes out");
	free(got);
	ok(nms_run(&m, &(struct nms_in){ box, score, NULL, 0, CLASSES }, &got) == 0 && got,
	    "no boxes");
	free(got);
	ok(nms_run(&m, &(struct nms_in){ box, score, NULL, N, 0 }, &got) == 0, "no classes");
	free(got);
}

static void
mapping(void)
{
	struct fit f = { .sx = .5, .sy = .5, .dx = 0, .dy = 52 };	/* 832 x 624 in 416 x 416 */
	struct det d = { .x = 10, .y = 62, .w = 100, .h = 50 }, e = { .x = -5, .y = 40, .w = 500,
	    .h = 400 };

	ok(det_map(&d, &f, 832, 624, 1) && d.x == 20 && d.y == 20 && d.w == 200 && d.h == 100,
	    "back to the picture");
	ok(det_map(&e, &f, 832, 624, 1) && e.x == 0 && e.y == 0 && e.w == 832 && e.h == 624,
	    "clipped");
	e.x = -30;
	e.w = 20;
	ok(!det_map(&e, &f, 832, 624, 1), "outside: nothing is left");
	e.x = -30;
	e.w = 20;
	ok(det_map(&e, &f, 832, 624, 0) && e.x == -60 && e.w == 40, "unclipped");
}

int
main(void)
{
	against_definition();
	limits();
	bad_numbers();
	mapping();
	return done();
}
