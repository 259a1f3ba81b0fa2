/* t-weightfiles.c -- published weights, and what damage does to one of them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weightstest.h"
#include "yolo.h"
#include "test/tap.h"

static const char shared[] = "../shared/data/weights/";

static int
load(const struct cfg *c, const struct params *p, const char *path, int cutoff, struct weights *w,
    struct err *e)
{
	e->msg[0] = 0;
	weights_init(c, p, 9, w);
	return weights_load(path, c, p, w, cutoff, e);
}

static void
models(void)
{
	static const struct { const char *name; long floats; } t[] = {
		{ "yolo-fastest-1.1-coco/yolo-fastest-1.1", 346062 },
		{ "yolo-fastest-1.1-coco/yolo-fastest-1.1-xl", 923486 },
		{ "yolo-fastest-1.0-coco/yolo-fastest", 356406 },
		{ "mobilenetv2-nano-coco/MobileNetV2-YOLOv3-Nano-coco", 891070 },
		{ "mobilenetv2-fastest-voc-v1/MobileNetV2-YOLO-Fastest-voc", 191214 },
		{ "mobilenetv2-fastest-voc-v2/MobileNetV2-YOLO-Fastest-voc-v2", 209864 },
		{ "yoloface-50k/yoloface-50k", 11248 }, { "nuclei-tiny/nuclei-tiny", 16138 },
	};
	char copy[] = "/tmp/t-weightfiles.XXXXXX";
	int fd = mkstemp(copy);

	close(fd);

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *cfg = xasprintf("%s%s.cfg", shared, t[i].name),
		     *path = xasprintf("%s%s.weights", shared, t[i].name);
		struct err e = { "" };
		struct cfg *c = cfg_read(cfg, &e);
		struct params p = { 0 };
		struct weights w = { 0 };
		int good = c != NULL;
		long floats = 0;

		for (int k = 0; c && k < c->nl; k++)
			floats += cfg_floats(c, k);
		if (c)
			params_plan(c, &p);
		good = good && !load(c, &p, path, -1, &w, &e) && floats == t[i].floats &&
		    !weights_save_darknet(copy, c, &p, &w, -1, &e) && same_files(path, copy, 12);
		if (!ok(good, t[i].name))
			printf("# %s\n", e.msg);
		weights_free(&w);
		params_free(&p);
		cfg_close(c);
		free(cfg);
		free(path);
	}
	unlink(copy);
}

static void
nasty(void)
{
	static const struct { const char *file, *says;
	} t[] = {
		{ "header-0.1-16-bytes", NULL },
		{ "header-0.2-same-values", NULL },
		{ "cut-half", "22486 bytes of numbers" },
		{ "cut-4-bytes", "44988 bytes of numbers" },
		{ "cut-2-bytes", "44990 bytes of numbers" },
		{ "extra-400-bytes", NULL },
		{ "empty", "empty file" },
		{ "header-only", "cut short: 0 bytes" },
		{ "html", "not a weights file" },
		{ "lfs-pointer", "Git LFS" },
		{ "one-nan", "layer " },
		{ "big-endian", "byte order" },
		{ "future-version", "version 9.9" },
	};
	struct err e;
	char *cfg = xasprintf("%syoloface-50k/yoloface-50k.cfg", shared);
	char *ref = xasprintf("%syoloface-50k/yoloface-50k.weights", shared);
	struct cfg *c = cfg_read(cfg, &e);
	struct params p;
	struct weights want;

	params_plan(c, &p);
	load(c, &p, ref, -1, &want, &e);
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *path = xasprintf("%snasty/%s.weights", shared, t[i].file);
		struct weights w;
		int bad = load(c, &p, path, -1, &w, &e);

		if (!ok(t[i].says ? bad && strstr(e.msg, t[i].says) : !bad && same(&p, &w, &want),
			t[i].file))
			printf("# said: %s\n", bad ? e.msg : "(accepted)");
		weights_free(&w);
		free(path);
	}
	weights_free(&want);
	params_free(&p);
	cfg_close(c);
	free(cfg);
	free(ref);
}

/* A published backbone: the first 57 layers of the cfg beside it. */
static void
backbone(void)
{
	char *base = xasprintf("%smobilenetv2-fastest-voc-v1/MobileNetV2-YOLO-Fastest", shared);
	char *cfg = xasprintf("%s-voc.cfg", base), *path = xasprintf("%s.conv.57", base);
	struct err e = { "" };
	struct cfg *c = cfg_read(cfg, &e);
	struct params p;
	struct weights w;

	params_plan(c, &p);
	if (!ok(!load(c, &p, path, 57, &w, &e), "MobileNetV2-YOLO-Fastest.conv.57, cutoff 57"))
		printf("# %s\n", e.msg);
	weights_free(&w);
	if (!ok(load(c, &p, path, -1, &w, &e) && strstr(e.msg, "-O cutoff=57"), "and without"))
		printf("# %s\n", e.msg);
	weights_free(&w);
	params_free(&p);
	cfg_close(c);
	free(base);
	free(cfg);
	free(path);
}

int
main(void)
{
	if (access(shared, R_OK)) {
		skip_all("no ../shared");
	}
	models();
	nasty();
	backbone();
	return done();
}
