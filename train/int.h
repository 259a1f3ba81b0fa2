/* int.h -- the state of one rank of a run. */
#ifndef TRAIN_INT_H
#define TRAIN_INT_H

#include "train/train.h"
#include "score/score.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- trainrun.c: what the files of a run share --------------------------------------------- */

size_t train_ring_bytes(struct train_cmd *);	/* what the loader takes */
/* The device of a rank: -d, one of a list, or the best there is. */
struct dev *train_device(const struct train_cmd *, int rank, const struct dev_opts *, struct err *);
/* What trainrun.c and trainkeep.c share of a rank. */
struct train_run {
	struct train_cmd *c;
	struct dev *dev;
	struct sync *sync;
	struct net *net;
	struct trainer *t;
	struct loader *loader;
	struct validator *val;		/* rank 0, with -v */
	struct weights host;		/* rank 0: for checkpoints */
	FILE *log, *vallog;		/* rank 0 */
	long step, last;		/* steps done; end of this run */
	double since;			/* when the last step ended */
	long images;			/* trained on so far */
};
int run_files(struct train_run *, struct err *);	/* rank 0: logs, run.cfg, the validator */
long run_epoch(const struct train_run *, long step);
int run_per_rank(const struct train_cmd *);	/* pictures of a step for one rank, at most */
int run_log(struct train_run *, const struct batch *, const struct step_result *, double lr,
    struct err *);
/* Rank 0: validation at an epoch's end, then the checkpoint; weights that are not finite are an
 * error, and the checkpoint before stays. */
int run_keep(struct train_run *, int epoch_end, struct err *);
int run_done(const struct train_run *);	/* no better for as long as patience allows */
void run_skipped(const struct train_run *, const struct batch *); /* names the pictures */

#ifdef __cplusplus
}
#endif
#endif
