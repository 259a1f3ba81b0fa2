/* yolo-anchors.c -- anchors for a set of boxes: k-means with 1 - IoU as the distance.
 *
 * A box counts by its width and height in the network's input: the picture is letterboxed to the
 * side asked for, as training does it, so the same set has other anchors at another side.  Every
 * box weighs the same.  Two sizes are compared on a common corner.
 *
 * A start draws its first centres from the boxes, each with a chance in proportion to its distance
 * from those drawn before; then boxes go to their best centre and centres to the mean of their
 * boxes, until no box moves.  A mean is not quite the best centre for IoU, so the best state on the
 * way counts, not the last; of several starts the best counts.  All sums run in the order of the
 * boxes: one seed gives one answer on any number of threads. */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fn.h"
#include "yolo.h"

enum { MAX_K = 256, DEFAULT_K = 9, DEFAULT_SIDE = 416 };
enum { DRAW_START = 0x616e6368 };	/* purpose of the generator */

static const char usage[] =
    "usage: yolo-anchors [-hqV] [-c cfg] [-k anchors] [-O key=value] [-o output] [-S seed]\n"
    "                    [-s side] shard ...\n";

static const struct option longopts[] = {
	{ "cfg", 1, NULL, 'c' }, { "help", 0, NULL, 'h' }, { "anchors", 1, NULL, 'k' },
	{ "option", 1, NULL, 'O' }, { "output", 1, NULL, 'o' }, { "quiet", 0, NULL, 'q' },
	{ "seed", 1, NULL, 'S' }, { "side", 1, NULL, 's' }, { "version", 0, NULL, 'V' },
	{ NULL, 0, NULL, 0 }
};

static const struct setting table[] = {
	{ "rounds", "1000", "int 1..1000000", "most rounds of a start" },
	{ "starts", "10", "int 1..100000", "starts, of which the best counts" },
	{ "threads", NULL, "int 1..1024", "compute threads (the cores that may be used)" },
	{ NULL, NULL, NULL, NULL }
};

struct size { float w, h; };
struct anchors {
	struct size *box;
	size_t n, cap;
	long pictures, left_out;
	int w, h, k, threads;		/* the network's input; anchors */
	uint64_t seed;
	long starts, rounds;
};
struct cmd {
	const char *arg[128];
	struct settings set;
	char **in;
	int nin;
};

/* ---- boxes -------------------------------------------------------------------------------- */

static void
add_record(struct anchors *a, const struct record *r)
{
	struct fit f;

	if (r->w < 1 || r->h < 1)
		return;
	f = fit_letterbox(r->w, r->h, a->w, a->h);
	a->pictures++;
	for (int i = 0; i < r->nbox; i++) {
		const struct box *b = &r->box[i];
		struct size s = { (float)(b->w * f.sx), (float)(b->h * f.sy) };

		if (b->flags & (BOX_CROWD | BOX_DIFFICULT) || !(s.w > 0 && s.h > 0)) {
			a->left_out++;		/* training leaves them out too */
			continue;
		}
		a->box = (struct size *)xgrow(a->box, &a->cap, a->n + 1, sizeof *a->box);
		a->box[a->n++] = s;
	}
}

static int
read_shards(struct anchors *a, char *const *path, int n, struct err *e)
{
	for (int i = 0; i < n; i++) {
		struct shard *s;
		struct record r;
		int bad = 0;

		if (shard_again(path, i))
			continue;
		if (!(s = shard_open(path[i], e)))
			return -1;
		for (long k = 0; !bad && k < shard_count(s); k++)
			if (!(bad = shard_labels(s, k, &r, e)))
				add_record(a, &r);
		shard_close(s);
		if (bad)
			return -1;
	}
	return a->n ? 0 : err_set(e, "%s: no boxes", path[0]);
}

/* ---- k-means ------------------------------------------------------------------------------ */

static float
iou(struct size a, struct size b)
{
	float i = (a.w < b.w ? a.w : b.w) * (a.h < b.h ? a.h : b.h);

	return i / (a.w * a.h + b.w * b.h - i);
}

/* Each box's best anchor and its IoU with it; returns how many anchors changed. */
static long
assign(const struct anchors *a, const struct size *c, int k, int *at, float *best)
{
	long moved = 0;

#pragma omp parallel for num_threads(a->threads) reduction(+ : moved)
	for (size_t i = 0; i < a->n; i++) {
		float top = -1;
		int which = 0;

		for (int j = 0; j < k; j++) {
			float v = iou(a->box[i], c[j]);

			if (v > top) {
				top = v;
				which = j;
			}
		}
		moved += at[i] != which;
		at[i] = which;
		best[i] = top;
	}
	return moved;
}

static double
mean(const float *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

/* Centres become the mean of their boxes; one without boxes goes to the box served worst. */
static void
move(const struct anchors *a, struct size *c, const int *at, float *best)
{
	double w[MAX_K] = { 0 }, h[MAX_K] = { 0 };
	long n[MAX_K] = { 0 };

	for (size_t i = 0; i < a->n; i++) {
		w[at[i]] += a->box[i].w;
		h[at[i]] += a->box[i].h;
		n[at[i]]++;
	}
	for (int j = 0; j < a->k; j++) {
		size_t worst = 0;

		if (n[j]) {
			c[j].w = (float)(w[j] / (double)n[j]);
			c[j].h = (float)(h[j] / (double)n[j]);
			continue;
		}
		for (size_t i = 1; i < a->n; i++)
			if (best[i] < best[worst])
				worst = i;
		c[j] = a->box[worst];
		best[worst] = 1;
	}
}

static double
draw(uint64_t seed, long start, int k)
{
	uint32_t word[4];

	fn_philox(seed, (uint64_t)DRAW_START << 32 | (uint64_t)start, (uint64_t)k, word);
	return (word[0] + word[1] / 4294967296.) / 4294967296.;
}

/* First centres: far from each other more likely than near. */
static void
first_centres(const struct anchors *a, long start, struct size *c, float *best)
{
	for (size_t i = 0; i < a->n; i++)
		best[i] = 0;
	for (int j = 0; j < a->k; j++) {
		double left = draw(a->seed, start, j) * (1 - mean(best, a->n)) * (double)a->n;
		size_t at = 0;

		for (size_t i = 0; i < a->n; i++)
			if (best[i] < 1) {	/* else the last that is no centre: sums round */
				at = i;
				if ((left -= 1 - best[i]) < 0)
					break;
			}
		c[j] = a->box[at];
		for (size_t i = 0; i < a->n; i++)
			best[i] = fmaxf(best[i], iou(a->box[i], c[j]));
	}
}

/* The best of all starts into out; returns its average IoU. */
static double
find(const struct anchors *a, struct size *out)
{
	int *at = (int *)xmalloc(a->n * sizeof *at);
	float *best = (float *)xmalloc(a->n * sizeof *best);
	struct size c[MAX_K];
	double top = -1;

	for (long s = 0; s < a->starts; s++) {
		first_centres(a, s, c, best);
		for (size_t i = 0; i < a->n; i++)
			at[i] = -1;
		for (long r = 0; r < a->rounds && assign(a, c, a->k, at, best); r++) {
			double v = mean(best, a->n);

			if (v > top) {
				top = v;
				memcpy(out, c, (size_t)a->k * sizeof *c);
			}
			move(a, c, at, best);
		}
		progress("start %ld of %ld: average IoU %.4f", s + 1, a->starts, top);
	}
	progress_end();
	free(at);
	free(best);
	return top;
}

static double
average(const struct anchors *a, const struct size *c, int k)
{
	int *at = (int *)xcalloc(a->n, sizeof *at);
	float *best = (float *)xmalloc(a->n * sizeof *best);
	double v;

	assign(a, c, k, at, best);
	v = mean(best, a->n);
	free(at);
	free(best);
	return v;
}

static int
by_area(const void *a, const void *b)
{
	const struct size *s = (const struct size *)a, *t = (const struct size *)b;
	float x = s->w * s->h, y = t->w * t->h;

	return x != y ? (x > y) - (x < y) : (s->w > t->w) - (s->w < t->w);
}

static int
by_size(const void *a, const void *b)
{
	const struct size *s = (const struct size *)a, *t = (const struct size *)b;

	return s->w != t->w ? (s->w > t->w) - (s->w < t->w) : (s->h > t->h) - (s->h < t->h);
}

static int
enough(const struct anchors *a, struct err *e)
{
	struct size *s = (struct size *)xmalloc(a->n * sizeof *s);
	long kinds = 1;

	memcpy(s, a->box, a->n * sizeof *s);
	qsort(s, a->n, sizeof *s, by_size);
	for (size_t i = 1; i < a->n; i++)
		kinds += by_size(&s[i - 1], &s[i]) != 0;
	free(s);
	return kinds >= a->k ? 0 : err_set(e, "%d anchors of boxes of %ld different sizes: "
	    "-k %ld at most", a->k, kinds, kinds);
}

/* ---- the cfg ------------------------------------------------------------------------------ */

struct head { const struct layer *l; int n; };	/* n: its anchors */

/* Heads from the finest grid to the coarsest; their number. */
static int
heads_of(const struct cfg *c, struct head head[MAX_HEADS])
{
	int at[MAX_HEADS], n = cfg_heads(c, at, MAX_HEADS);

	for (int i = 0; i < n; i++) {
		struct head h = { &c->l[at[i]], 0 };
		int j = i;

		for (; j > 0 && head[j - 1].l->w < h.l->w; j--)
			head[j] = head[j - 1];
		head[j] = h;
	}
	return n;
}

/* The anchors that the cfg's heads use, in pixels; their number. */
static int
own_anchors(const struct head *head, int n, int w, int h, struct size out[MAX_K])
{
	int k = 0;

	for (int i = 0; i < n; i++) {
		const struct def_yolo *d = &head[i].l->u.yolo;
		int cells = head[i].l->type == L_REGION;

		for (int j = 0; j < d->nmask && k < MAX_K; j++) {
			const float *a = d->anchor + 2 * d->mask[j];

			out[k].w = a[0] * (cells ? (float)w / (float)head[i].l->w : 1);
			out[k++].h = a[1] * (cells ? (float)h / (float)head[i].l->h : 1);
		}
	}
	return k;
}

/* How many of k anchors each head gets: as many as it has where k is their sum, else shares that
 * differ by one at most, the finer heads the larger. */
static int
share(struct head *head, int n, int k, struct err *e)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += head[i].n = head[i].l->u.yolo.nmask;
	if (sum == k)
		return 0;
	if (k < n)
		return err_set(e, "-k %d: the cfg has %d heads, want an anchor for each", k, n);
	for (int i = 0; i < n; i++)
		head[i].n = k / n + (i < k % n);
	return 0;
}

/* The anchors go by area, so the finest head's come first. */
static void
print_heads(FILE *f, const struct cfg *c, const struct head *head, int n)
{
	for (int i = 0, first = 0; i < n; first += head[i++].n) {
		const struct layer *l = head[i].l;

		fprintf(f, "# %s:%d: [%s], stride %d; the convolution before it: filters=%d\n",
		    c->path, l->line, layer_name(l->type), c->net.w / l->w,
		    head[i].n * (l->u.yolo.classes + 5));
		for (int m = 0; l->type == L_YOLO && m < head[i].n; m++)
			fprintf(f, "%s%d%s", m ? "," : "mask=", first + m,
			    m + 1 < head[i].n ? "" : "\n");
	}
}

/* ---- the program -------------------------------------------------------------------------- */

/* In cells for a [region] layer, else in pixels; four digits, and the size is what they say. */
static void
print_anchors(FILE *f, const struct anchors *a, struct size *s, const struct layer *region)
{
	double sx = region ? (double)a->w / region->w : 1;
	double sy = region ? (double)a->h / region->h : 1;
	char text[2][32];

	fprintf(f, "anchors=");
	for (int i = 0; i < a->k; i++) {
		snprintf(text[0], sizeof text[0], "%.4g", s[i].w / sx);
		snprintf(text[1], sizeof text[1], "%.4g", s[i].h / sy);
		s[i].w = (float)(atof(text[0]) * sx);
		s[i].h = (float)(atof(text[1]) * sy);
		fprintf(f, "%s%s,%s", i ? ", " : "", text[0], text[1]);
	}
	fprintf(f, "\nnum=%d\n", a->k);
}

static int
report(const struct anchors *a, const struct cfg *c, struct head *head, int nhead, const char *out,
    struct err *e)
{
	struct size s[MAX_K], old[MAX_K];
	int nold = own_anchors(head, nhead, a->w, a->h, old);
	struct outfile o;

	find(a, s);
	qsort(s, (size_t)a->k, sizeof *s, by_area);
	if (out_open(&o, out, e))
		return -1;
	fprintf(o.f, "# %zu boxes of %ld pictures in a letterbox of %dx%d", a->n, a->pictures, a->w,
	    a->h);
	if (a->left_out)
		fprintf(o.f, "; %ld crowds, difficult or empty ones left out", a->left_out);
	fprintf(o.f, "\n");
	print_anchors(o.f, a, s, nhead && head[0].l->type == L_REGION ? head[0].l : NULL);
	if (c)
		print_heads(o.f, c, head, nhead);
	if (c)
		fprintf(o.f, "# average IoU %.5f with the %d anchors of %s\n",
		    average(a, old, nold), nold, c->path);
	fprintf(o.f, "# average IoU %.5f with these; best of %ld starts, seed %llu\n",
	    average(a, s, a->k), a->starts, (unsigned long long)a->seed);
	return out_commit(&o, e);
}

static int
run(struct anchors *a, const struct cmd *m, struct cfg **c, struct err *e)
{
	struct head head[MAX_HEADS];
	int n = 0;

	a->w = a->w ? a->w : DEFAULT_SIDE;
	a->h = a->h ? a->h : DEFAULT_SIDE;
	if (m->arg['c']) {
		if (!(*c = cfg_read(m->arg['c'], e)))
			return -1;
		if (m->arg['s'] && cfg_resize(*c, a->w, a->h, e))
			return -1;
		a->w = (*c)->net.w;
		a->h = (*c)->net.h;
		if (!(n = heads_of(*c, head)))
			return err_set(e, "%s: no [yolo] or [region] layer", (*c)->path);
		for (int i = 0; i < n && !m->arg['k']; i++)
			a->k += head[i].l->u.yolo.nmask;
	}
	a->k = a->k ? a->k : DEFAULT_K;
	if (a->k > MAX_K)
		return err_set(e, "%s: its heads have %d anchors, %d at most", m->arg['c'], a->k,
		    MAX_K);
	if ((n && share(head, n, a->k, e)) || read_shards(a, m->in, m->nin, e) || enough(a, e))
		return -1;
	return report(a, *c, head, n, m->arg['o'] ? m->arg['o'] : "-", e);
}

static void
parse(struct cmd *m, int argc, char **argv)
{
	int opt;

	settings_open(&m->set, table);
	while ((opt = getopt_long(argc, argv, "c:hk:O:o:qS:s:V", longopts, NULL)) >= 0)
		switch (opt) {
		case 'h': fputs(usage, stdout); exit(0);
		case 'V': printf("yolo-anchors %s\n", YOLO_VERSION); exit(0);
		case 'q': quiet = 1; break;
		case '?': fputs(usage, stderr); exit(2);
		case 'O': settings_option(&m->set, optarg); break;
		default: m->arg[opt] = optarg; break;
		}
	m->in = argv + optind;
	m->nin = argc - optind;
	if (!m->nin) {
		fputs(usage, stderr);
		exit(2);
	}
}

/* Before anything is opened: what is read stays. */
static void
check_files(const struct cmd *m)
{
	const char **in = (const char **)xcalloc((size_t)m->nin + 1, sizeof *in);
	const char *out = m->arg['o'];
	struct err e;

	for (int i = 0; i < m->nin; i++)
		in[i] = m->in[i];
	in[m->nin] = m->arg['c'];
	if (path_clash(&out, 1, in, m->nin + 1, &e))
		die(2, "%s", e.msg);
	free(in);
}

int
main(int argc, char **argv)
{
	struct anchors a = { 0 };
	struct cfg *c = NULL;
	struct cmd m = { 0 };
	struct err e = { "" };
	long k = 0, seed = 0;
	int bad;

	calm_threads(argv);
	program(argv, "yolo-anchors");
	parse(&m, argc, argv);
	if (m.arg['k'] && num_int(m.arg['k'], 1, MAX_K, &k))
		die(2, "-k %s: want a number of anchors from 1 to %d", m.arg['k'], MAX_K);
	if (m.arg['S'] && num_int(m.arg['S'], 0, INT64_MAX, &seed))
		die(2, "-S %s: want a whole number from 0", m.arg['S']);
	if (m.arg['s'] && num_side(m.arg['s'], &a.w, &a.h))
		die(2, "-s %s: want a side such as 416 or 608x352", m.arg['s']);
	check_files(&m);
	a.k = (int)k;
	a.seed = (uint64_t)seed;
	a.starts = settings_int(&m.set, "starts");
	a.rounds = settings_int(&m.set, "rounds");
	a.threads = settings_given(&m.set, "threads") ? (int)settings_int(&m.set, "threads") :
	    cores();
	if ((bad = run(&a, &m, &c, &e)))
		warn("%s", e.msg);
	cfg_close(c);
	free(a.box);
	settings_close(&m.set);
	return bad ? 1 : 0;
}
