/* yolo-bench.c -- figures: what a net costs, how near a machine comes to its own ceiling.
 *
 * Each subcommand has a file of its own, bench*.c, and prints a table. */
#include <string.h>

#include "yolo.h"

static const struct {
	const char *name;
	int (*run)(const struct bench_call *);
	const char *help;
} commands[] = {
	{ "ab", bench_ab, "two builds, run in turn: is there a difference?" },
	{ "check", bench_check, "is the newest run worse than those before it?" },
	{ "eval", bench_eval, "yolo-eval's reading and scoring against reading the bytes" },
	{ "mark", bench_mark, "accept a change: what is worse since then is not" },
	{ "ops", bench_ops, "layers, parameters and BFLOPs of a cfg; runs nothing" },
	{ "report", bench_report, "the history as a page with charts" },
	{ "step", bench_step, "a training step against the machine's GEMM rate" },
	{ "steps", bench_steps, "change points over the history" },
};
enum { NCOMMANDS = sizeof commands / sizeof *commands };
/* Of the plan, and to come: a call of one is told so, not that there is no such thing. */
static const char *const later[] = { "loader", "prep", "sync", "scale", "doctor", NULL };

static int
usage(FILE *f)
{
	fprintf(f, "usage: yolo-bench command [option ...]; yolo-bench command -h tells more\n");
	for (int i = 0; i < NCOMMANDS; i++)
		fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].help);
	return f == stdout ? 0 : 2;
}

static int
version(void)
{
	char list[4096];

	dev_list(list, sizeof list);
	printf("yolo-bench %s\n%s", YOLO_VERSION, list);
	return 0;
}

int
main(int argc, char **argv)
{
	calm_threads(argv);
	program(argv, "yolo-bench");
	if (argc < 2)
		return usage(stderr);
	if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))
		return usage(stdout);
	if (!strcmp(argv[1], "-V") || !strcmp(argv[1], "--version"))
		return version();
	for (int i = 0; i < NCOMMANDS; i++)
		if (!strcmp(argv[1], commands[i].name)) {
			argv[1] = (char *)prog;	/* getopt's messages begin with it */
			return commands[i].run(&(struct bench_call){ argc - 1, argv + 1,
			    COMMIT });
		}
	for (int i = 0; later[i]; i++)
		if (!strcmp(argv[1], later[i])) {
			warn("%s: not built yet; yolo-bench -h lists what is", argv[1]);
			return 1;
		}
	warn("%s: no such command", argv[1]);
	return usage(stderr);
}
