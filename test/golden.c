/* golden.c -- run every golden case under a folder: golden [-d device] [-p precision] DIR [WEIGHTS]
 *
 * Walks the folder and reads the JSON files; it knows no case by name.  The kind of a case is the
 * first of these keys that it has: op, method, flavour, run, net, model; else it is an optimiser
 * case.  TAP on stdout.  A CPU without bfloat16 emulates it. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/golden.h"

static const struct {
	const char *key;
	gold_run *run;
} kinds[] = {
	{ "op", gold_layer }, { "method", gold_nms }, { "flavour", gold_loss },
	{ "run", gold_train },
	{ "net", gold_net }, { "model", gold_model }, { NULL, gold_optim },
};

static char **found;
static size_t nfound, cap;

static int
collect(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	size_t n = strlen(path);

	(void)st;
	(void)ftw;
	if (flag == FTW_F && n > 5 && !strcmp(path + n - 5, ".json")) {
		found = (char **)xgrow(found, &cap, nfound + 1, sizeof *found);
		found[nfound++] = xstrdup(path);
	}
	return 0;
}

static int
by_path(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
run_case(struct gold *g, struct err *e)
{
	char *st = xasprintf("%s.safetensors", g->stem);
	size_t i = 0;
	int r = 0;

	g->st = NULL;
	if (!access(st, F_OK) && !(g->st = st_open(st, e)))
		r = -1;
	while (kinds[i].key && !gold_get(g->j, kinds[i].key))
		i++;
	if (!r)
		r = kinds[i].run(g, e);
	st_close(g->st);
	free(st);
	return r;
}

static int
one(struct gold *g, size_t i, const char *root)
{
	struct err e = { "" };
	char why[200];
	size_t len;
	char *text = file_read(found[i], 1 << 26, &len, &e);
	int r = -1;

	g->json = found[i];
	g->stem = xasprintf("%.*s", (int)strlen(found[i]) - 5, found[i]);
	if (text) {
		if ((g->j = yajl_tree_parse(text, why, sizeof why)))
			r = run_case(g, &e);
		else
			err_set(&e, "bad JSON");
		yajl_tree_free(g->j);
	}
	printf("%s %zu - %s", r < 0 ? "not ok" : "ok", i + 1, g->stem + strlen(root) + 1);
	if (r > 0)
		printf(" # SKIP %s", e.msg);
	puts("");
	if (r < 0)
		printf("# %s\n", e.msg);
	fflush(stdout);
	free(text);
	free(g->stem);
	return r;
}

int
main(int argc, char **argv)
{
	struct dev_opts o = { .threads = 0, .exact = 1, .deterministic = 1, .emulate = 1 };
	const char *spec = "cpu", *one_case = NULL;
	char *beside;
	struct gold g = { 0 };
	struct err e;
	int bad = 0, opt;

	calm_threads(argv);
	prog = "golden";
	while ((opt = getopt(argc, argv, "1:d:p:")) >= 0)
		switch (opt) {
		case '1': one_case = optarg; break;
		case 'd': spec = optarg; break;
		case 'p':
			if (dev_precision(&o, optarg, &e))
				die(2, "%s", e.msg);
			break;
		default: return 2;
		}
	g.bf16 = o.bf16;
	if (one_case)
		return gold_train_ranks(one_case, o.bf16);
	argv += optind - 1;
	argc -= optind - 1;
	if (argc < 2) {
		fprintf(stderr, "usage: golden [-d device] [-p precision] dir [weights]\n");
		return 2;
	}
	if (!path_isdir(argv[1])) {
		printf("1..0 # SKIP no %s\n", argv[1]);
		return 0;
	}
	g.weights = beside = xasprintf("%s/../data/weights", argv[1]);
	if (argc > 2 && *argv[2])
		g.weights = argv[2];
	if (!(g.dev = dev_open(spec, &o, &e)))
		die(1, "%s", e.msg);
	nftw(argv[1], collect, 16, FTW_PHYS);
	qsort(found, nfound, sizeof *found, by_path);
	printf("1..%zu\n", nfound);
	for (size_t i = 0; i < nfound; i++)
		bad += one(&g, i, argv[1]) < 0;
	dev_close(g.dev);
	free(beside);
	printf("# %d of %zu failed\n", bad, nfound);
	return bad ? 1 : 0;
}
