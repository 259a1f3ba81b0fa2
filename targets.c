/* targets.c -- assigned truths of all heads, grouped by cell.
 *
 * A group is what one thread of a kernel works on: all truths of one cell and anchor, in the order
 * in which the flavour assigns them, since for most flavours the last of them or their sum counts. */
#include <limits.h>
#include <stdlib.h>

#include "yolo.h"

int
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

void
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

void
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

static void *
carve(struct loss_area *a, char *ws, size_t bytes)
{
	size_t at = a->bytes;

	a->bytes += (bytes + 255) & ~(size_t)255;
	return ws ? ws + at : NULL;
}

/* Depends on no grid: sizes may change from step to step. */
void
loss_layout(const struct loss *s, int nt, void *ws, struct loss_area *a)
{
	size_t rows = (size_t)assign_max(s, nt), heads = (size_t)s->nhead;
	char *p = (char *)ws;

	a->bytes = 0;
	a->sum = (double *)carve(a, p, LOSS_SUMS * sizeof(double));
	a->part = (double *)carve(a, p, (heads * LOSS_CHUNKS + rows) * LOSS_PARTS * sizeof(double));
	a->row = (struct loss_row *)carve(a, p, rows * sizeof(struct loss_row));
	a->first = (int *)carve(a, p, (rows + 1) * sizeof(int));
	a->start = (int *)carve(a, p, ((size_t)s->n + 1) * sizeof(int));
	a->edge = (float *)carve(a, p, (size_t)nt * LOSS_LIST * sizeof(float));
	a->mult = (float *)carve(a, p, (size_t)s->classes * sizeof(float));
}

int
loss_put_lists(struct dev *d, const struct loss *s, int head, const struct truth *t, int nt,
    const struct loss_area *a)
{
	int *index = (int *)xmalloc(((size_t)nt + (size_t)s->n + 1) * sizeof *index), *start = index + nt;
	int n = assign_lists(s, s->head[head].yolo, t, nt, s->n, index, start);
	float *e = (float *)xmalloc((size_t)n * LOSS_LIST * sizeof *e + 1);

	for (int i = 0; i < n; i++) {
		const struct truth *q = &t[index[i]];

		e[i] = q->x - q->w / 2;
		e[n + i] = q->y - q->h / 2;
		e[2 * n + i] = q->x + q->w / 2;
		e[3 * n + i] = q->y + q->h / 2;
		e[4 * n + i] = q->w * q->h;
		e[5 * n + i] = q->x;
		e[6 * n + i] = q->y;
		e[7 * n + i] = q->w;
		e[8 * n + i] = q->h;
		e[9 * n + i] = q->cls;
	}
	d->ops->put(d, a->start, start, ((size_t)s->n + 1) * sizeof *start);
	d->ops->put(d, a->edge, e, (size_t)n * LOSS_LIST * sizeof *e);
	free(index);
	free(e);
	return n;
}
