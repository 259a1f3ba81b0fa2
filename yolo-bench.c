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
	{ "doctor", bench_doctor, "is this machine fit, and what to do where it is not" },
	{ "eval", bench_eval, "yolo-eval's reading and scoring against reading the bytes" },
	{ "loader", bench_loader, "batches a second, by stage, against bare decoding" },
	{ "mark", bench_mark, "accept a change: what is worse since then is not" },
	{ "ops", bench_ops, "layers, parameters and BFLOPs of a cfg; runs nothing" },
	{ "prep", bench_prep, "packing against bare decoding and the disk" },
	{ "report", bench_report, "the history as a page with charts" },
	{ "scale", bench_scale, "steps of one, two, four ... ranks" },
	{ "step", bench_step, "a training step against the machine's GEMM rate" },
	{ "steps", bench_steps, "change points over the history" },
	{ "sync", bench_sync, "sums over ranks: time, rates, and whether they are right" },
};
enum { NCOMMANDS = sizeof commands / sizeof *commands };
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
	warn("%s: no such command", argv[1]);
	return usage(stderr);
}
