/* loss.c -- the losses by name, their settings, and what kernels need to know of a head. */
#include <string.h>

#include "loss/int.h"

static const char *const names[] = {
	[LOSS_ULTRA2019] = "ultralytics-2019", [LOSS_MULTI] = "ultralytics-multi",
	[LOSS_ARCHIVE] = "ultralytics-archive", [LOSS_DARKNET] = "darknet",
	[LOSS_DARKNET_IOU] = "darknet-iou", [LOSS_CIOU] = "ciou",
};
enum { NKIND = sizeof names / sizeof *names };

const char *
loss_name(enum loss_kind k)
{
	return names[k];
}

int
loss_kind(const char *name)
{
	for (int i = 0; i < NKIND; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

/* Only gains and thresholds: heads, anchors and balance stay as they are. */
void
loss_defaults(struct loss *s, enum loss_kind k)
{
	s->kind = k;
	s->k = k == LOSS_MULTI ? 3 : 1;
	s->gain_xy = s->gain_wh = s->gain_box = s->gain_obj = 1;
	s->gain_cls = .25;
	s->gain_conf = 64;
	s->iou_t = .01;
	s->gr = s->cls_pw = s->obj_pw = 1;
	s->focal_gamma = s->label_smooth = 0;
	s->focal_alpha = .25;
	s->anchor_t = 4;
	if (k == LOSS_ARCHIVE) {
		s->gain_box = 3.54;
		s->gain_obj = 64.3;
		s->gain_cls = 37.4;
		s->iou_t = .2;
	} else if (k == LOSS_CIOU) {
		s->gain_box = .05;
		s->gain_cls = .5;
	}
	for (int h = 0; h < MAX_HEADS; h++)
		if (!(s->balance[h] > 0))
			s->balance[h] = 1;
}

int
loss_rows(const struct loss *s)
{
	int n = 0;

	for (int h = 0; h < s->nhead; h++)
		n += s->head[h].h * s->head[h].w * s->head[h].nmask;
	return n;
}

void
loss_view(const struct loss *s, int head, struct head_view *v)
{
	const struct loss_head *h = &s->head[head];

	memset(v, 0, sizeof *v);
	v->n = s->n;
	v->h = h->h;
	v->w = h->w;
	v->a = h->nmask;
	v->c = s->classes;
	v->in_w = (float)s->in_w;
	v->in_h = (float)s->in_h;
	v->k = s->kind == LOSS_CIOU ? 2 : 1;
	v->square = s->kind == LOSS_CIOU;
	if (h->yolo && s->kind == LOSS_DARKNET_IOU && !h->region) {
		v->k = h->yolo->scale_x_y;
		v->square = h->yolo->new_coords;
	}
	for (int i = 0; i < h->nmask; i++) {
		const float *a = s->anchor + 2 * h->mask[i];

		v->aw[i] = h->region ? a[0] * v->in_w / (float)h->w : a[0];
		v->ah[i] = h->region ? a[1] * v->in_h / (float)h->h : a[1];
	}
	v->raw = h->raw;
	v->grad = h->grad;
}
