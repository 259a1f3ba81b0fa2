/* targets.c -- assigned truths of all heads, grouped by cell.
 *
 * A group is what one thread of a kernel works on: all truths of one cell and anchor, in the order
 * in which the flavour assigns them, since for most flavours the last of them or their sum
 * counts. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "loss/int.h"
#include "kernel/kernel.h"

struct targets {
	struct loss_row *row;		/* by head, cell, order of assignment */
	int nrow;
	int *first;			/* group g (a cell) holds rows first[g] .. first[g+1]-1 */
	int ngroup, group[MAX_HEADS + 1];	/* head h owns groups group[h] .. group[h+1]-1 */
};

/* The most rows of all heads together. */
static int
assign_max(const struct loss *s, int nt)
{
	long n = 0;

	for (int h = 0; h < s->nhead; h++)
		n += s->kind == LOSS_ULTRA2019 || s->kind == LOSS_MULTI ? 1 : s->head[h].nmask;
	n *= s->kind == LOSS_CIOU ? 3 : 1;
	n *= nt;
	return n < INT_MAX ? (int)n : INT_MAX;
}

static int
by_cell(const void *x, const void *y)
{
	const struct loss_row *a = (const struct loss_row *)x, *b = (const struct loss_row *)y;

	if (a->cell != b->cell)
		return a->cell < b->cell ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

/* ultralytics-multi's dense targets hold one truth per cell: the last one's box with the smallest
 * class of all. */
static int
merge(struct loss_row *r, int n)
{
	int m = 0;

	for (int i = 0; i < n; i++) {
		int cls = r[i].cls;

		if (m && r[m - 1].cell == r[i].cell) {
			m--;
			cls = r[m].cls < cls ? r[m].cls : cls;
		}
		r[m] = r[i];
		r[m++].cls = cls;
	}
	return m;
}

/* Rows of one head, sorted; images that are not there are left out. */
static int
head_rows(const struct loss *s, int h, const struct truth *t, int nt, int all_images,
    struct loss_row *row)
{
	int n = assign_head(s, h, t, nt, row), m = 0;

	for (int i = 0; i < n; i++)
		if (all_images || t[row[i].truth].image < (float)s->n)
			row[m++] = row[i];
	if (m > 1)
		qsort(row, (size_t)m, sizeof *row, by_cell);
	return s->kind == LOSS_MULTI ? merge(row, m) : m;
}

void
assign_count(struct loss *s, const struct truth *t, int nt)
{
	struct loss_row *row;

	if (s->kind != LOSS_MULTI) {
		for (int h = 0; h < s->nhead; h++)
			s->count[h] += assign_head(s, h, t, nt, NULL);
		return;
	}
	row = (struct loss_row *)xmalloc(((size_t)nt + 1) * sizeof *row);
	for (int h = 0; h < s->nhead; h++)
		s->count[0] += head_rows(s, h, t, nt, 1, row);
	free(row);
}

/* loss_ops.count */
static void
targets_make(struct targets *g, const struct loss *s, const struct truth *t, int nt)
{
	size_t max = 0;

	for (int h = 0; h < s->nhead; h++)
		max += (size_t)assign_head(s, h, t, nt, NULL);
	g->row = (struct loss_row *)xmalloc((max + 1) * sizeof *g->row);
	g->first = (int *)xmalloc((max + 1) * sizeof *g->first);
	g->nrow = g->ngroup = 0;
	for (int h = 0; h < s->nhead; h++) {
		int n = head_rows(s, h, t, nt, 0, g->row + g->nrow);

		g->group[h] = g->ngroup;
		for (int i = 0; i < n; i++) {
			struct loss_row *r = &g->row[g->nrow + i];

			if (!i || r->cell != r[-1].cell)
				g->first[g->ngroup++] = g->nrow + i;
		}
		g->nrow += n;
	}
	for (int h = s->nhead; h <= MAX_HEADS; h++)
		g->group[h] = g->ngroup;
	g->first[g->ngroup] = g->nrow;
}

static void
targets_free(struct targets *g)
{
	free(g->row);
	free(g->first);
}

int
loss_sums_add(struct loss_sums *s, int len)
{
	int off = s->next;

	s->off[s->n] = off;
	s->len[s->n++] = len;
	s->next += len;
	return off;
}

struct loss_groups
loss_groups(const struct loss_area *a, int h)
{
	struct loss_groups g = { a->group[h + 1] - a->group[h], a->first + a->group[h], a->row };

	return g;
}

static void *
carve(struct loss_area *a, char *ws, size_t bytes)
{
	size_t at = a->bytes;

	a->bytes += (bytes + 255) & ~(size_t)255;
	return ws ? ws + at : NULL;
}

/* Depends on no grid: sizes may change from step to step.  What the host fills in comes first. */
static void
loss_layout(const struct loss *s, int nt, void *ws, struct loss_area *a)
{
	size_t rows = (size_t)assign_max(s, nt), heads = (size_t)s->nhead;
	int dark = s->kind == LOSS_DARKNET || s->kind == LOSS_DARKNET_IOU;
	char *p = (char *)ws;

	a->bytes = 0;
	memset(a->mult, 0, sizeof a->mult);
	a->row = (struct loss_row *)carve(a, p, rows * sizeof(struct loss_row));
	a->first = (int *)carve(a, p, (rows + 1) * sizeof(int));
	for (int h = 0; h < s->nhead && dark; h++) {
		a->start[h] = (int *)carve(a, p, ((size_t)s->n + 1) * sizeof(int));
		a->edge[h] = (float *)carve(a, p, (size_t)nt * LOSS_LIST * sizeof(float));
		a->mult[h] = (float *)carve(a, p, (size_t)s->classes * sizeof(float));
	}
	if (!dark && s->cls_weight)
		a->mult[0] = (float *)carve(a, p, (size_t)s->classes * sizeof(float));
	a->upload = a->bytes;
	a->sum = (double *)carve(a, p, LOSS_SUMS * sizeof(double));
	a->part = (double *)carve(a, p, (heads * LOSS_CHUNKS + rows) * LOSS_PARTS * sizeof(double));
}

size_t
loss_workspace(const struct loss *s, int max_truth)
{
	struct loss_area a;

	loss_layout(s, max_truth, NULL, &a);
	return a.bytes;
}

/* A head's truth lists: index is room for nt of them. */
static int
fill_lists(const struct loss *s, int head, const struct truth *t, int nt, struct truth_lists *l,
    float *e)
{
	int n = assign_lists(s, head, t, nt, l);

	for (int i = 0; i < n; i++) {
		const struct truth *q = &t[l->index[i]];
		float v[LOSS_LIST] = { q->x - q->w / 2, q->y - q->h / 2, q->x + q->w / 2,
		    q->y + q->h / 2, q->w * q->h, q->x, q->y, q->w, q->h, q->cls };

		for (int k = 0; k < LOSS_LIST; k++)
			e[k * n + i] = v[k];
	}
	return n;
}

/* darknet's counters_per_class: max(counts) / count, counts below 1 raised to 1, limited. */
static void
fill_multipliers(const struct loss *s, int head, float *m)
{
	const struct def_yolo *y = s->head[head].yolo;
	double top = 1;

	for (int i = 0; i < s->classes && y->counters; i++)
		top = y->counter[i] > top ? y->counter[i] : top;
	for (int i = 0; i < s->classes; i++) {
		double x = y->counters ? top / (y->counter[i] > 1 ? y->counter[i] : 1) : 1;

		m[i] = (float)(y->max_delta > 0 && x > y->max_delta && y->counters ? y->max_delta :
		    x);
	}
}

void
loss_upload(struct dev *d, const struct loss *s, const struct truth *t, int nt, void *ws,
    struct loss_area *a)
{
	struct loss_area host;
	struct targets g;
	char *stage;
	int *index;

	loss_layout(s, nt, ws, a);
	stage = (char *)xcalloc(1, a->upload + 1);
	loss_layout(s, nt, stage, &host);
	targets_make(&g, s, t, nt);
	memcpy(host.row, g.row, (size_t)g.nrow * sizeof *g.row);
	memcpy(host.first, g.first, ((size_t)g.ngroup + 1) * sizeof *g.first);
	memcpy(a->group, g.group, sizeof a->group);
	targets_free(&g);
	if (s->kind == LOSS_DARKNET || s->kind == LOSS_DARKNET_IOU) {
		index = (int *)xmalloc((size_t)nt * sizeof *index + 1);
		for (int h = 0; h < s->nhead; h++) {
			struct truth_lists l = { s->n, index, host.start[h] };

			a->lists[h] = fill_lists(s, h, t, nt, &l, host.edge[h]);
			fill_multipliers(s, h, host.mult[h]);
		}
		free(index);
	} else if (s->cls_weight)
		memcpy(host.mult[0], s->cls_weight, (size_t)s->classes * sizeof(float));
	d->ops->put(d, ws, stage, a->upload);
	free(stage);
}
