/* yolo-train.c -- train a detector: options, data, ranks; the loop itself is trainrun.c.
 *
 * The parent parses everything, packs data that is not a shard yet, opens what can fail, and forks
 * the ranks before any device or thread pool exists. */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static const char usage[] =
    "usage: yolo-train [-hqRV] [-A aug] [-b batch] [-c cfg] [-d device] [-e epochs] [-g ranks]\n"
    "                  [-j threads] [-L loss] [-n names] [-O key=value] [-o rundir]\n"
    "                  [-p precision] [-S seed] [-s side] [-v val] [-w weights] [train ...]\n";

static const struct option longopts[] = {
	{ "aug", 1, NULL, 'A' }, { "batch", 1, NULL, 'b' }, { "cfg", 1, NULL, 'c' },
	{ "device", 1, NULL, 'd' }, { "epochs", 1, NULL, 'e' }, { "ranks", 1, NULL, 'g' },
	{ "help", 0, NULL, 'h' }, { "threads", 1, NULL, 'j' }, { "loss", 1, NULL, 'L' },
	{ "names", 1, NULL, 'n' }, { "option", 1, NULL, 'O' }, { "output", 1, NULL, 'o' },
	{ "precision", 1, NULL, 'p' }, { "quiet", 0, NULL, 'q' }, { "resume", 0, NULL, 'R' },
	{ "seed", 1, NULL, 'S' }, { "side", 1, NULL, 's' }, { "val", 1, NULL, 'v' },
	{ "version", 0, NULL, 'V' }, { "weights", 1, NULL, 'w' }, { NULL, 0, NULL, 0 }
};

static void
version(void)
{
	char devs[512];

	dev_list(devs, sizeof devs);
	printf("yolo-train %s\n%s", YOLO_VERSION, devs);
}

static void
parse(struct train_cmd *c, int argc, char **argv)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "A:b:c:d:e:g:hj:L:n:O:o:p:qRS:s:v:Vw:", longopts,
	    NULL)) >= 0)
		switch (opt) {
		case 'h': fputs(usage, stdout); exit(0);
		case 'V': version(); exit(0);
		case 'q': quiet = 1; break;
		case 'R': c->resume = 1; break;
		case '?': fputs(usage, stderr); exit(2);
		case 'O': settings_option(&c->set, optarg); break;
		default: c->arg[opt] = optarg; break;
		}
	c->in = argv + optind;
	c->nin = argc - optind;
}

int
main(int argc, char **argv)
{
	struct train_cmd c = { .ranks = 1 };
	struct world w = { 0 };
	struct err e = { "" };
	sigset_t later;
	char *told;
	int status, joined;

	calm_threads(argv);
	sigemptyset(&later);
	sigaddset(&later, SIGUSR1);	/* "save a checkpoint": there is nothing to save yet */
	sigprocmask(SIG_BLOCK, &later, NULL);
	program(argv, "yolo-train");
	settings_open(&c.set, train_settings);
	parse(&c, argc, argv);
	if (train_prepare(&c, &e)) {
		if (e.msg[0])
			warn("%s", e.msg);
		exit(c.usage ? 2 : 1);
	}
	if (c.planned) {
		train_close(&c);
		return 0;
	}
	w.deadline = settings_num(&c.set, "stall");
	if ((joined = world_find(&w, &e)) < 0)
		die(1, "%s", e.msg);
	if (joined) {
		told = train_told(&c);
		if (world_agree(&w, told, &e))
			world_fail(&w, e.msg);
		free(told);
	}
	if (!joined && sync_fork(&w, (int)c.ranks, &status) < 0) {
		train_close(&c);
		return status;
	}
	c.ranks = w.size;
	c.here = w.seats;
	if (joined)
		c.threads = train_threads(&c, w.seats, 1);
	status = train_rank(&c, &w, &e);
	if (status == 1)
		warn("%s", e.msg);
	train_close(&c);
	return status;
}
