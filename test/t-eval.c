/* t-eval.c -- a second opinion: our numbers against test/evalref.h's, on small sets full of ties,
 * crowds, empty classes and boxes without area. */
#include "test/evalref.h"
#include "score/int.h"
#include "test/tap.h"

static int
score(const struct setup *w, int threads, struct eval_row *row)
{
	struct eval_opts o;
	struct eval *e;
	struct eval_image im[MAXI];
	int n;

	eval_defaults(&o);
	o.rules = (1 << EV_RULES) - 1;
	o.maxdet[1] = 3;
	o.threads = threads;
	e = eval_open(&o, w->nc);
	for (int i = w->ni - 1; i >= 0; i--) { /* the wrong way round: keys give the order */
		im[0] = (struct eval_image){ i, w->b[i], w->d[i], w->nb[i], w->nd[i] };
		eval_add(e, im, 1);
	}
	n = eval_total(e, NULL, row);
	eval_close(e);
	return n;
}

static int
same(double got, double want, const char *what, int set)
{
	if (fabs(got - want) <= 1e-12)
		return 1;
	printf("# set %d %s: %.17g, want %.17g\n", set, what, got, want);
	return 0;
}

static void
second_opinion(int sets)
{
	static const char *const name[12] = { "AP", "AP50", "AP75", "APs", "APm", "APl", "AR1",
		"AR3", "AR100", "ARs", "ARm", "ARl" };
	static struct setup w;
	int good[4] = { 1, 1, 1, 1 };

	for (int s = 0; s < sets; s++) {
		struct eval_row row[EVAL_ROWS];
		double v[12];
		int n;

		make(&w);
		n = score(&w, 1, row);
		coco_twelve(&w, v);
		for (int k = 0; k < 12; k++)
			good[0] &= same(eval_get(row, n, "coco", name[k]), v[k], name[k], s);
		good[1] &= same(eval_get(row, n, "voc10", "mAP"), voc_map(&w), "voc10", s);
		good[2] &= same(eval_get(row, n, "darknet", "mAP"), darknet_map(&w), "darknet", s);
		good[3] &=
		    same(eval_get(row, n, "ultralytics", "mAP"), ultra_map(&w), "ultralytics", s);
	}
	ok(good[0], "COCO's twelve on random sets");
	ok(good[1], "VOC's area on random sets");
	ok(good[2], "darknet's mAP on random sets");
	ok(good[3], "ultralytics' mAP on random sets");
}

/* By hand.  One class, three truths; detections by score: A right, B wrong, C right.  Recall
 * 1/3, 1/3, 2/3; precision 1, 1/2, 2/3; the envelope 1, 2/3, 2/3.  The polygon of 2019: (0, 1),
 * (1/3, 1), (1/3, 2/3), (2/3, 2/3), (2/3 + .001, 0).  At recalls 0 .. .33 1, .34 .. .66 2/3, from
 * .67 on 0: the trapezium rule gives .33 + .01 (1 + 2/3) / 2 + .32 * 2/3 + .01 * (2/3) / 2. */
static void
by_hand_2019(void)
{
	static struct setup w;
	struct eval_row row[EVAL_ROWS];
	int n;
	double want = .33 + .01 * (1 + 2 / 3.) / 2 + .32 * 2 / 3 + .01 * (2 / 3.) / 2;

	memset(&w, 0, sizeof w);
	w.ni = w.nc = 1;
	w.nb[0] = 3;
	w.nd[0] = 3;
	for (int k = 0; k < 3; k++)
		w.b[0][k] = (struct box){ 100. * k, 0, 10, 10, 100, k, 0, 0 };
	w.d[0][0] = (struct eval_det){ .9, 0, 0, 10, 10, 0, 0 };
	w.d[0][1] = (struct eval_det){ .8, 50, 0, 10, 10, 0, 0 };
	w.d[0][2] = (struct eval_det){ .7, 100, 0, 10, 10, 0, 0 };
	n = score(&w, 1, row);
	ok(same(eval_get(row, n, "ultralytics-2019", "mAP"), want, "2019 AP", 0),
	    "2019's AP by hand");
	ok(same(eval_get(row, n, "ultralytics-2019", "P"), 2 / 3., "2019 P", 0) &&
	    same(eval_get(row, n, "ultralytics-2019", "R"), 2 / 3., "2019 R", 0),
	    "2019's P and R are the ends of the curve");
	/* IoU must exceed the threshold there: 10 x 10 on 10 x 20 is 0.5 */
	w.nb[0] = w.nd[0] = 1;
	w.b[0][0].h = 20;
	n = score(&w, 1, row);
	ok(eval_get(row, n, "ultralytics-2019", "mAP") == 0 && eval_get(row, n, "ultralytics",
	    "AP50") > .9, "IoU of just 0.5: not in 2019, now it is");
}

/* decimals: the nearest double, always */
static void
decimals(int many)
{
	int good = 1;
	char s[64];

	for (int i = 0; i < many; i++) {
		int whole = rnd(20), frac = rnd(22), n = 0;
		const char *p = s;
		double v;

		s[n++] = "-+1"[rnd(3)];
		for (int k = 0; k < whole; k++)
			s[n++] = (char)('0' + rnd(10));
		s[n++] = (char)('0' + rnd(10));
		if (rnd(4)) {
			s[n++] = '.';
			for (int k = 0; k < frac; k++)
				s[n++] = (char)('0' + rnd(10));
		}
		if (!rnd(3))
			n += sprintf(s + n, "e%d", rnd(80) - 40);
		s[n] = 0;
		if (scan_decimal(&p, &v) || *p || v != strtod(s, NULL)) {
			printf("# %s: %.17g, want %.17g\n", s, v, strtod(s, NULL));
			good = 0;
		}
	}
	ok(good, "a decimal becomes the nearest double");
	const char huge[5 + SCAN_SLACK] = "1e400", *p = huge;
	double v;

	ok(!scan_decimal(&p, &v) && isinf(v), "what is too large becomes an infinity");
}

static void
empties(void)
{
	static struct setup w;
	struct eval_row row[EVAL_ROWS];
	int n;

	memset(&w, 0, sizeof w);
	w.ni = w.nc = 1;
	n = score(&w, 1, row);
	ok(eval_get(row, n, "coco", "AP") == -1, "no truths: undefined");
	w.nb[0] = 1;
	w.b[0][0] = (struct box){ 0, 0, 10, 10, 100, 1, 0, 0 };
	n = score(&w, 1, row);
	ok(eval_get(row, n, "coco", "AP") == 0 && eval_get(row, n, "voc10", "mAP") == 0 &&
	    eval_get(row, n, "ultralytics", "mAP") == 0, "no detections: 0");
	w.b[0][0].flags = BOX_CROWD;
	w.nd[0] = 1;
	w.d[0][0] = (struct eval_det){ .9, 0, 0, 10, 10, 0, 0 };
	n = score(&w, 1, row);
	ok(eval_get(row, n, "coco", "AP") == -1 && eval_get(row, n, "voc10", "mAP") == -1,
	    "a class of crowds alone: undefined");
}

static void
threads(void)
{
	static struct setup w;
	struct eval_row a[EVAL_ROWS], b[EVAL_ROWS];
	int good = 1;

	for (int s = 0; s < 50; s++) {
		make(&w);
		int n = score(&w, 1, a);

		good &= score(&w, 3, b) == n;
		for (int k = 0; k < n; k++)
			good &= a[k].value == b[k].value;
	}
	ok(good, "the number of threads changes nothing");
}

int
main(void)
{
	second_opinion(10000);
	by_hand_2019();
	decimals(200000);
	empties();
	threads();
	return done();
}
