/* sync.h -- ranks: how they find each other, sum, and end together.
 *
 * Needs base, and devices by their table.  Promises: sums are the same bits on each rank, and no
 * wait is forever.  It is given pointers and lengths, and knows no network. */
#ifndef SYNC_PART_H
#define SYNC_PART_H

#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dev;
struct sync;
/* ---- nccl_sync.c, sync_world.c: ranks ------------------------------------------------------ */

/* What the ranks of one host share: a mapping that no name leads to and that dies with them; the
 * first of them has the connections to other hosts. */
struct meet;
struct world {
	int rank, size, local_rank;	/* local_rank: chooses the device */
	int seat, seats;		/* which of how many ranks of this host; 0 seats: all */
	double deadline;		/* seconds without progress until a wait fails; 0: 60 */
	const char *transport;		/* "shm", "nccl"; NULL: nccl between GPUs, else shm */
	struct meet *meet;		/* NULL: one rank */
};
/* Join the world that srun, mpirun or torchrun made.  1: joined; 0: there is none, *w is one rank;
 * -1: there is one that cannot be joined.  Before any device or thread pool is touched. */
int world_find(struct world *w, struct err *);
/* All ranks were told the same, or nobody begins.  told: a line "what<TAB>value" for each thing
 * that determines the numbers, the same things in the same order on each.  -1: which rank differs,
 * in what; the same message on all. */
int world_agree(const struct world *, const char *told, struct err *);
int world_rank(void);	/* of this process in such a world, not joined yet; else 0 */
/* Or make one: the parent forks n children, waits, and ends all when one dies.  In a child it
 * returns its rank.  -1: this is the parent, all is over and said; the program exits with
 * *status.  n 1 forks nothing.  Signals that end go on to the children, maybe twice. */
int sync_fork(struct world *w, int n, int *status);

struct sync_ops {
	const char *name;
	/* Sum over ranks, the same bits on each.  Device memory; in the order of the device's
	 * stream: work queued later sees the sums. */
	int (*sum)(struct sync *, float *buf, size_t n);
	/* The same beside the stream: buf is not touched until wait(), which makes work queued
	 * later see all sums started. */
	int (*start)(struct sync *, float *buf, size_t n);
	int (*wait)(struct sync *);
	int (*sum_host)(struct sync *, double *buf, size_t n);	/* host memory; waits */
	int (*bcast)(struct sync *, float *buf, size_t n);	/* from rank 0; device memory */
	int (*barrier)(struct sync *);				/* host; waits */
	void (*close)(struct sync *);
};
/* All ranks call the same operations with the same lengths in the same order.  -1: another rank
 * died, stalled or disagrees, s->err says which; nothing can follow but sync_fail(). */
struct sync {
	const struct sync_ops *ops;
	int rank, size, local_rank, seat, seats;
	double deadline;
	struct dev *dev;
	struct meet *meet;
	struct err err;
	void *priv;
};
struct sync *sync_open(const struct world *, struct dev *, struct err *);	/* size 1 too */
void sync_close(struct sync *);
void sync_alive(struct sync *);		/* "I work": long work between operations is no stall */
/* What this rank adds to a line that it gives up with: how far it is, what is saved. */
void sync_note(struct sync *, const char *text);
void sync_fail(struct sync *, const char *why) NORETURN;	/* tell the others and end */
void world_fail(const struct world *, const char *why) NORETURN;	/* before a sync is open */
int meet_joined(const struct meet *);
int nccl_open_sync(struct sync *, struct err *);	/* what dev->nccl points to */

#ifdef __cplusplus
}
#endif
#endif
