/* losstest.h -- small losses with colliding truths, for the tests of the heads. */
#ifndef LOSSTEST_H
#define LOSSTEST_H

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

enum { LT_TRUTH = 24, LT_IMAGES = 3 };

static const float lt_anchor[12] = { 10, 14, 23, 27, 37, 58, 81, 82, 135, 169, 344, 319 };
static const float lt_cells[6] = { 1.1f, .9f, 2.3f, 3.1f, .6f, 1.7f };

static unsigned
lt_next(unsigned *s)
{
	return *s = *s * 1664525u + 1013904223u;
}

static float
lt_unit(unsigned *s)
{
	return (float)(lt_next(s) >> 8) / 16777216.f;
}

/* Truths of all images, interleaved; every third repeats the box before it with another class. */
static void
lt_truth(struct truth *t, int n, int images, int classes, unsigned seed)
{
	for (int i = 0; i < n; i++) {
		t[i].image = (float)(i / 3 % images);
		t[i].x = .02f + .96f * lt_unit(&seed);
		t[i].y = .02f + .96f * lt_unit(&seed);
		t[i].w = .05f + .6f * lt_unit(&seed);
		t[i].h = .05f + .6f * lt_unit(&seed);
		if (i % 3 == 2) {
			t[i] = t[i - 1];
			t[i].w *= .9f;
		}
		t[i].cls = (float)((lt_next(&seed) >> 16) % (unsigned)classes);
	}
}

/* Two heads on an input of 96 x 64, three anchors each. */
static void
lt_heads(struct loss *s, enum loss_kind kind, int classes, const struct def_yolo *y)
{
	memset(s, 0, sizeof *s);
	loss_defaults(s, kind);
	s->n = LT_IMAGES;
	s->images = LT_IMAGES;
	s->classes = classes;
	s->in_w = 96;
	s->in_h = 64;
	s->anchor = lt_anchor;
	s->nanchor = 6;
	s->nhead = 2;
	for (int h = 0; h < 2; h++) {
		s->head[h].w = 3 << h;
		s->head[h].h = 2 << h;
		s->head[h].nmask = 3;
		s->head[h].yolo = y;
		for (int i = 0; i < 3; i++)
			s->head[h].mask[i] = h ? i : 3 + i;
	}
}

/* [region] on the same input: one head, three anchors in cells. */
static void
lt_region(struct loss *s, int classes, const struct def_yolo *y)
{
	lt_heads(s, LOSS_DARKNET, classes, y);
	s->anchor = lt_cells;
	s->nanchor = 3;
	s->nhead = 1;
	s->head[0].region = 1;
	for (int i = 0; i < 3; i++)
		s->head[0].mask[i] = i;
}

static struct def_yolo
lt_dark(void)
{
	struct def_yolo y = { .max = 90, .ignore_thresh = .4f, .truth_thresh = 1, .scale_x_y = 1,
		.iou_normalizer = .75f, .obj_normalizer = 1, .cls_normalizer = 1,
		.delta_normalizer = 1, .max_delta = FLT_MAX, .iou_thresh = 1, .show_details = 1,
		.thresh = .3f, .coord_scale = 1, .object_scale = 5, .noobject_scale = 1,
		    .class_scale = 1 };

	return y;
}

static int
lt_floats(const struct loss *s, int h)
{
	const struct loss_head *p = &s->head[h];

	return s->n * p->h * p->w * p->nmask * (s->classes + 5);
}

#endif
