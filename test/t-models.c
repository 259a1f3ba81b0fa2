/* t-models.c -- parameters and BFLOPs of the stock cfgs and of every cfg that darknet ships. */
#include <math.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#include "yolo.h"
#include "model/int.h"
#include "test/tap.h"

static const char shared[] = "../shared/data/";

static long
floats(const struct cfg *c)
{
	long n = 0;

	for (int i = 0; i < c->nl; i++)
		n += cfg_floats(c, i);
	return n;
}

static double
gflops(const struct cfg *c)
{
	double n = 0;

	for (int i = 0; i < c->nl; i++)
		n += cfg_flops(c, i);
	return n / 1e9;
}

static void
model(const char *path, long want, double gf, int w, int h)
{
	struct err e = { "" };
	struct cfg *c = cfg_read(path, &e);

	if (c && w)
		cfg_resize(c, w, h, &e);
	if (!ok(c && !e.msg[0] && (!want || floats(c) == want) &&
		    (!gf || fabs(gflops(c) / gf - 1) < .005),
		path))
		printf("# %s%ld floats, want %ld; %.3f GFLOPs, want %.3f\n", e.msg,
		    c ? floats(c) : 0, want, c ? gflops(c) : 0, gf);
	cfg_close(c);
}

static void
stock(void)
{
	model("cfg/yolov3.cfg", 62001757, 65.86, 416, 416);
	model("cfg/yolov3.cfg", 62001757, 140.69, 608, 608);
	model("cfg/yolov3-spp.cfg", 63052381, 141.45, 608, 608);
	model("cfg/yolov3-tiny.cfg", 8858734, 5.56, 416, 416);
	model("cfg/demo.cfg", 0, 0, 0, 0);
	model("cfg/bccd.cfg", 0, 0, 0, 0);
	model("cfg/nuclei.cfg", 0, 0, 0, 0);
}

/* Rows of PARAMS.tsv: the floats of every cfg that is a detector built here; the others say why
 * they are not. */
static void
params_row(const char *repo, const char *name, long want)
{
	static const char *const why[] = { " belongs to ", " is not built here",
		"[net] wants width", "activation=", NULL };
	char *path = xasprintf("%scfg/%s/%s", shared, repo, name);
	struct err e = { "" };
	struct cfg *c = cfg_read(path, &e);
	int named = 0;

	if (c) {
		if (!ok(floats(c) == want, path))
			printf("# %ld floats, want %ld\n", floats(c), want);
	} else {
		for (int i = 0; why[i]; i++)
			named |= strstr(e.msg, why[i]) != NULL;
		if (!ok(named, e.msg))
			printf("# %s\n", path);
	}
	cfg_close(c);
	free(path);
}

static void
params_table(void)
{
	char *path = xasprintf("%scfg/PARAMS.tsv", shared), line[2000], repo[64], name[200];
	FILE *f = fopen(path, "r");
	int loaded = 0;
	long want;

	free(path);
	if (!f) {
		skip("PARAMS.tsv", "no ../shared");
		return;
	}
	while (fgets(line, sizeof line, f))
		if (*line != '#' && sscanf(line, "%63s %199s %ld", repo, name, &want) == 3) {
			params_row(repo, name, want);
			loaded++;
		}
	fclose(f);
	ok(loaded > 100, "PARAMS.tsv was read");
}

/* Every detector family of darknet's must load, whatever else is refused. */
static void
families(void)
{
	static const struct { const char *name; double gf; int side;
	} t[] = {
		{ "yolov2", 0, 0 },
		{ "yolov2-tiny", 0, 0 },
		{ "yolov3", 65.9, 416 },
		{ "yolov3-voc", 0, 0 },
		{ "yolov3-tiny", 5.57, 416 },
		{ "yolov3-spp", 141.5, 608 },
		{ "yolov3_5l", 0, 0 },
		{ "yolov3-tiny_3l", 0, 0 },
		{ "yolov3-openimages", 0, 0 },
		{ "yolov3-tiny-prn", 3.46, 416 },
		{ "yolov4", 128.5, 608 },
		{ "yolov4", 91.1, 512 },
		{ "yolov4", 60.1, 416 },
		{ "yolov4", 35.5, 320 },
		{ "yolov4-tiny", 6.9, 416 },
		{ "yolov4-csp", 120, 640 },
		{ "yolov4-csp", 77, 512 },
		{ "yolov4x-mish", 221, 640 },
		{ "yolov4-csp-x-swish", 221, 640 },
		{ "yolov4-csp-swish", 120, 640 },
		{ "yolov4-p5", 0, 0 },
		{ "yolov4-p6", 0, 0 },
		{ "yolov7-tiny", 0, 0 },
		{ "yolov7", 0, 0 },
		{ "yolov7x", 0, 0 },
		{ "enet-coco", 3.73, 416 },
		{ "csresnext50-panet-spp", 0, 0 },
		{ "csresnext50-panet-spp-original-optimal", 100.5, 608 },
		{ "yolov4-sam-mish-csp-reorg-bfm", 0, 0 },
		{ "cspx-p7-mish", 0, 0 },
		{ "cspx-p7-mish_hp", 0, 0 },
	};

	if (access("../shared/data/cfg", R_OK)) {
		skip("families", "no ../shared");
		return;
	}
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *path = xasprintf("%scfg/alexeyab/%s.cfg", shared, t[i].name);

		model(path, 0, t[i].gf, t[i].side, t[i].side);
		free(path);
	}
}

static int
built(const char *section)
{
	struct cfg c = { .path = (char *)"a.cfg" };
	struct cfg_section s = { (char *)section, 1, NULL, 0 };
	enum layer_type type;
	struct err e;

	return !strcmp(section, "net") || !cfg_section_type(&c, &s, &type, &e);
}

/* No key that anybody uses in the sections built here is unknown. */
static void
keys(void)
{
	char *path = xasprintf("%scfg/KEYS.tsv", shared), line[2000], section[64], key[64];
	FILE *f = fopen(path, "r");
	int unknown = 0, n = 0;

	free(path);
	if (!f) {
		skip("KEYS.tsv", "no ../shared");
		return;
	}
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "[%63[^]]] %63s", section, key) == 2 && built(section)) {
			n++;
			if (!cfg_knows(section, key)) {
				printf("# [%s] %s\n", section, key);
				unknown++;
			}
		}
	fclose(f);
	ok(n > 90 && !unknown, "every key in use is known");
}

static int
noted(const struct cfg *c, const char *what, int lines)
{
	char *say = lines > 1 ? xasprintf(": %s (and %d more line%s)", what, lines - 1,
	    lines > 2 ? "s" : "") : xasprintf(": %s", what);
	size_t n = strlen(say);
	int found = 0;

	for (int i = 0; i < c->nnote; i++) {
		size_t have = strlen(c->note[i]);

		found |= have > n && !strcmp(c->note[i] + have - n, say);
	}
	free(say);
	return found;
}

/* One of a file's oddities, as ODDITIES.txt words it: loaded as darknet does, with a remark. */
static int
oddity(const struct cfg *c, const char *what)
{
	char key[64];
	int times;

	if (!strcmp(what, "no-final-newline"))
		return c->len && c->text[c->len - 1] != '\n' && c->l[c->nl - 1].type == L_YOLO;
	if (sscanf(what, "dupkey [net]%63s", key) == 1)
		return noted(c, key, 1);
	if (sscanf(what, "inline-# in %63s x%d", key, &times) == 2)
		return noted(c, key, times);
	return 0;
}

static void
oddities(void)
{
	char *list = xasprintf("%scfg/ODDITIES.txt", shared), line[2000], *colon, *save;
	FILE *f = fopen(list, "r");
	struct err e;
	int n = 0;

	free(list);
	while (f && fgets(line, sizeof line, f)) {
		char *path;
		struct cfg *c;

		line[strcspn(line, "\n")] = 0;
		if (!(colon = strstr(line, ".cfg: ")))
			continue;
		colon[4] = 0;
		path = xasprintf("%scfg/%s", shared, line);
		if (!(c = cfg_read(path, &e)))
			ok(strstr(e.msg, " belongs to ") || strstr(e.msg, " is not built here") ||
			    strstr(e.msg, "activation="), e.msg);
		for (char *w = strtok_r(colon + 6, ",", &save); c && w;
		    w = strtok_r(NULL, ",", &save)) {
			char *say = xasprintf("%s: %s", line, w + strspn(w, " "));

			for (char *p = say; *p; p++)
				*p = *p == '#' ? '%' : *p;	/* TAP's own sign */
			n += ok(oddity(c, w + strspn(w, " ")), say);
			free(say);
		}
		if (c && strstr(path, "yolov3-openimages"))
			ok(c->net.batch == 1 && c->net.subdivisions == 1,
			    "yolov3-openimages: batch 1");
		cfg_close(c);
		free(path);
	}
	if (f)
		fclose(f);
	if (f)
		ok(n >= 12, "ODDITIES.txt was read");
	else
		skip("ODDITIES.txt", "no ../shared");
}

int
main(void)
{
	stock();
	families();
	params_table();
	keys();
	oddities();
	return done();
}
