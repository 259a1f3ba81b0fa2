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
/* Shows what train_fit found, once, and the memory, NULL: not known; not with -q. */
void train_screen(struct train_cmd *, const char *memory);
/* trainmem.c: -1: the run does not fit into memory, and the largest batch that does.  Of rank 0 the
 * screen comes before. */
int train_memory(struct train_cmd *c, struct dev *d, int rank, struct err *e);
/* The device of a rank: -d, one of a list, or the best there is. */
struct dev *train_device(const struct train_cmd *, int rank, const struct dev_opts *, struct err *);
/* The checkpoint before the last one, and into a message that the last is damaged. */
#define TRAIN_BEFORE "last-1.safetensors"
void train_damaged(const char *dir, struct err *e);
/* What the files of a run share of a rank. */
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
	long step, last, saved;		/* steps done; end of this run; the step last saved */
	int ready, save_now;		/* the next batch is made; a checkpoint is asked for */
	double since;			/* when the last step ended */
	long images;			/* trained on so far */
};

#ifdef __cplusplus
}
#endif
#endif
