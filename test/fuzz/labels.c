/* labels.c -- fuzz the readers of labels: the first byte chooses which.
 *
 * Every box that comes out must be finite, of positive size and of a class that exists, whatever
 * went in; the sanitizers see the rest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "yolo.h"
#include "labels/int.h"

int LLVMFuzzerTestOneInput(const unsigned char *, size_t);

static void
quiet_report(void *arg, int kind, const char *line)
{
	(void)arg, (void)kind;
	if (strchr(line, '\n'))
		abort();
}

static void
look(const struct dataset *d)
{
	for (int i = 0; i < d->n; i++)
		for (int k = 0; k < d->item[i].nbox; k++) {
			const struct box *b = &d->item[i].box[k];

			if (!isfinite(b->x) || !isfinite(b->y) || !(b->w > 0) || !(b->h > 0) ||
			    !isfinite(b->area) || b->cls < 0 || b->cls >= d->nclass)
				abort();
		}
}

int
LLVMFuzzerTestOneInput(const unsigned char *p, size_t n)
{
	static const char *const name[] = { "txt", "json", "xml", "yaml", "data", "names", "list" };
	static char dir[32], path[7][64];
	struct dataset d;
	struct err e;
	struct labels l = { .d = &d, .report = quiet_report, .e = &e };
	int kind = n ? *p % 7 : 0;
	FILE *f;

	if (!*dir) {
		strcpy(dir, "/tmp/fuzz-labels.XXXXXX");
		if (!mkdtemp(dir) || chdir(dir) || mkdir("in", 0777) || chdir("in"))
			abort(); /* what an input names must not lead to real folders */
		for (int i = 0; i < 7; i++)
			snprintf(path[i], sizeof path[i], "%s/x.%s", dir, name[i]);
	}
	if (!n || !(f = fopen(path[kind], "wb")))
		return 0;
	for (size_t i = 1; i < n; i++)
		putc(p[i] == '/' && kind != 1 && kind != 2 ? '_' : p[i], f);
	fclose(f);
	memset(&d, 0, sizeof d);
	if (kind == 0) {
		struct item *it = label_item(&l, "x", "x");

		it->w = 200;
		it->h = 100;
		label_yolo(&l, it, path[0], &e);
		label_keys_close(&l);
	} else if (kind == 5)
		labels_names(&d, path[5], &e);
	else
		labels_read(&d, path[kind], NULL, quiet_report, NULL, &e);
	look(&d);
	labels_close(&d);
	unlink(path[kind]);
	return 0;
}
