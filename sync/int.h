/* int.h -- the mapping that the ranks of a host share, for the transports. */
#ifndef SYNC_INT_H
#define SYNC_INT_H

#include "sync/sync.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sync_meet.c, for the transports ------------------------------------------------------- */

/* sync_meet.c, for the transports.  Functions that can wait give up at the deadline, or as soon as
 * a rank is known to have failed or left; *err says which and where. */
enum { MEET_SMALL = 16384, MEET_SLOT = 1 << 21, MEET_NOTE = 400 };	/* bytes */
struct meet *meet_map(int size, struct err *);		/* before a fork */
/* Between processes that a launcher started: rank 0 waits for the others at the socket "name". */
struct meet *meet_join(int rank, int size, const char *name, double deadline, struct err *);
void meet_close(struct meet *);
/* Begin an operation: say what and how much, wait for all, and see that all say the same. */
int meet_begin(struct meet *, int rank, double deadline, const char *what, size_t n, struct err *);
int meet_wait(struct meet *, int rank, double deadline, struct err *);	/* further barriers of it */
void meet_alive(struct meet *, int rank);
void meet_note(struct meet *, const char *text);
/* ": TEXT" of the note, into out; returns out. */
const char *meet_noted(struct meet *, char out[MEET_NOTE]);
/* A watcher that looks around every SLICE asks it each time: for how long this process did not run
 * since the last time (stopped, a laptop closed), which is nobody's stall.  *last begins at 0. */
double meet_slept(double *last);
uint64_t meet_beats(struct meet *, int but);	/* grows while any rank but that one works */
int meet_fail(struct meet *, const char *why);	/* the first reason stays; 1: it is ours */
const char *meet_failed(struct meet *);		/* the reason, NULL: all is well */
void meet_left(struct meet *, int rank);	/* that process has ended */
void *meet_small(struct meet *, int rank, int turn);	/* MEET_SMALL bytes, two for each rank */
void *meet_slot(struct meet *, int i);		/* MEET_SLOT bytes: one a rank, then one more */
void *meet_id(struct meet *);			/* 256 bytes, NCCL's unique id */
int meet_turn(struct meet *);			/* 0, 1, 0, 1 ... */
/* sync_shm.c, sync_nccl.c */
int shm_open_sync(struct sync *, struct err *);
int shm_sum_host(struct sync *, double *buf, size_t n);
int shm_barrier(struct sync *);

#ifdef __cplusplus
}
#endif
#endif
