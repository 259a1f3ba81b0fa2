/* t-labels.c -- labels: the cases of nasty-labels keep the boxes that CASES.tsv says.
 *
 * Its last column holds "3", "1-2", "0 or 3", "3 or error", "1 each"; crowds are not counted. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "labels/int.h"
#include "test/tap.h"

#define DIR "../shared/data/nasty-labels/"

static int lines, badly_formed;

static void
report(void *arg, int kind, const char *line)
{
	(void)arg;
	lines += kind != SAY_NOTE;
	badly_formed += strchr(line, '\n') != NULL || !strchr(line, ':');
}

/* Does the number of boxes agree with the table's word? */
static int
agrees(const char *want, int boxes, int error)
{
	int n[4], k = 0;

	if (error && (strstr(want, "error") || !strncmp(want, "0", 1)))
		return 1;
	for (const char *p = want; *p && *p != '(' && k < 4; p++)
		if (isdigit((unsigned char)*p)) {
			n[k++] = atoi(p);
			while (isdigit((unsigned char)p[1]))
				p++;
		}
	if (k == 2 && strchr(want, '-'))
		return boxes >= n[0] && boxes <= n[1];
	for (int i = 0; i < k; i++)
		if (boxes == n[i])
			return 1;
	return 0;
}

/* The input that a row of the table is about. */
static char *
input(const char *file)
{
	const char *base = path_base(file);
	int stem = (int)strcspn(base, ".");

	if (!strncmp(file, "yolo/", 5))
		return xasprintf(DIR "yolo/images/%.*s.png", stem, base);
	if (!strncmp(file, "yolo-pairing/labels", 19))
		return xstrdup(DIR "yolo-pairing/JPEGImages");
	if (!strncmp(file, "yolo-pairing/", 13))
		return xasprintf(DIR "yolo-pairing/%.*s", (int)strcspn(file + 13, "/"), file + 13);
	return xasprintf(DIR "%s", file);
}

static void
one_case(const char *file, const char *want)
{
	const char *names = !strncmp(file, "yolo/", 5) ? DIR "yolo/three.names" : NULL;
	char *in = input(file);
	struct dataset d;
	struct err e;
	int error, boxes = 0;
	size_t n = strlen(file);

	memset(&d, 0, sizeof d);
	lines = 0;
	if (n > 6 && !strcmp(file + n - 6, ".names")) {
		error = labels_names(&d, in, &e);
		boxes = d.nclass;
	} else {
		error = labels_read(&d, in, names, report, NULL, &e);
		for (int i = 0; i < d.n; i++)
			for (int k = 0; k < d.item[i].nbox; k++)
				boxes += !(d.item[i].box[k].flags & BOX_CROWD) &&
					 !strstr(d.item[i].path,
					     "gone"); /* yolo-prep finds it missing */
		if (strstr(want, "each") && d.n)
			boxes /= d.n;
		if (!strncmp(file, "lists/", 6))
			boxes = *want == '-' ? boxes : d.n;
	}
	if (lines != d.refused + d.bad || (error && !strstr(e.msg, path_base(in))))
		boxes = -1;
	ok(*want == '-' ? !error && boxes == 9 : agrees(want, boxes, error), file);
	labels_close(&d);
	free(in);
}

static void
cases(void)
{
	struct text t;
	struct err e;
	char *s, *last;

	if (text_open(&t, DIR "CASES.tsv", &e)) {
		skip_all("no ../shared");
	}
	text_line(&t);
	while ((s = text_line(&t))) {
		last = strrchr(s, '\t');
		s[strcspn(s, "\t")] = 0;
		one_case(s, last + 1);
	}
	free(t.buf);
	ok(!badly_formed, "every report is one line with its place");
}

static void
total(const char *in, int pictures, long boxes, int classes, long refused)
{
	struct dataset d;
	struct err e;
	long n = 0;
	int r;

	memset(&d, 0, sizeof d);
	r = labels_read(&d, in, NULL, report, NULL, &e);
	for (int i = 0; i < d.n; i++)
		n += d.item[i].nbox;
	ok(!r && d.n == pictures && n == boxes && d.nclass == classes && d.refused == refused &&
		!d.bad,
	    in);
	labels_close(&d);
}

static void
paths(void)
{
	static const char *const t[][3] = {
		{ "a/images/train/x.y.JPG", "a/images/train/x.y.txt", "a/labels/train/x.y.txt" },
		{ "images/images/1.png", "images/images/1.txt", "images/labels/1.txt" },
		{ "JPEGImages/images_1.jpg", "JPEGImages/images_1.txt", "labels/images_1.txt" },
		{ "plain/x.jpg", "plain/x.txt", NULL },
		{ "/images/a/.jpg", "/images/a/.jpg.txt", "/labels/a/.jpg.txt" },
	};
	int good = 1;

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *p[2];

		label_paths(t[i][0], p);
		good &=
		    !strcmp(p[0], t[i][1]) && (t[i][2] ? p[1] && !strcmp(p[1], t[i][2]) : !p[1]);
		free(p[0]);
		free(p[1]);
	}
	ok(good, "where a label lies");
}

int
main(void)
{
	cases();
	paths();
	total("../shared/data/datasets/bccd", 364, 4886, 3, 2);
	total("../shared/data/datasets/bccd/ImageSets/Main/val.txt", 87, 1137, 3, 1);
	total("../shared/data/datasets/nuclei/train.txt", 160, 2854, 1, 0);
	total("../shared/data/datasets/nuclei/instances_val.json", 40, 796, 1, 0);
	total("../shared/data/datasets/coco-cc/upstream-config.yaml", 26, 181, 80, 0);
	total("../shared/data/datasets/coco-cc/upstream-config.yaml:val", 27, 173, 80, 0);
	total("../shared/data/datasets/coco-cc/labels-seg/../images/val2017", 27, 173, 77, 0);
	return done();
}
