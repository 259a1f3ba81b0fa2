/* int.h -- the mapping that the ranks of a host share, for the transports. */
#ifndef SYNC_INT_H
#define SYNC_INT_H

#include "sync/sync.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sync_meet.c, for the transports ------------------------------------------------------- */

struct hosts;
/* sync_meet.c, for the transports.  Functions that can wait give up at the deadline, or as soon as
 * a rank is known to have failed or left; *err says which and where. */
enum { MEET_SMALL = 16384, MEET_SLOT = 1 << 21, MEET_NOTE = 400 };	/* bytes */
struct meet *meet_map(int size, struct err *);		/* before a fork */
/* Between processes that a launcher started on this host: the first waits for the others at the
 * socket "name".  A rank of the run is "first" and a seat; all that follows speaks of seats. */
struct meet *meet_join(int seat, int size, int first, const char *name, double deadline,
    struct err *);
void meet_close(struct meet *);
/* Begin an operation: say what and how much, wait for all, and see that all say the same. */
int meet_begin(struct meet *, int seat, double deadline, const char *what, size_t n, struct err *);
int meet_wait(struct meet *, int seat, double deadline, struct err *);	/* further barriers of it */
void meet_alive(struct meet *, int seat);
void meet_note(struct meet *, const char *text);
/* ": TEXT" of the note, into out; returns out. */
const char *meet_noted(struct meet *, char out[MEET_NOTE]);
/* A watcher that looks around every SLICE asks it each time: for how long this process did not run
 * since the last time (stopped, a laptop closed), which is nobody's stall.  *last begins at 0. */
double meet_slept(double *last);
uint64_t meet_beats(struct meet *, int but);	/* grows while any rank but that one works */
uint64_t meet_worked(struct meet *);		/* the same of this host's ranks alone */
void meet_far(struct meet *);			/* life on another host */
int meet_lost(struct meet *, struct err *);	/* -1: a reason is known, or a process has ended */
void meet_tie(struct meet *, struct hosts *);	/* other hosts, told of a reason; closed with it */
struct hosts *meet_hosts(struct meet *);	/* NULL: none, or another rank speaks to them */
uint64_t meet_op(struct meet *, int seat);	/* number of its last operation */
const char *meet_doing(struct meet *, int seat, char out[80]);	/* "sum 3 (12 numbers)" */
int meet_fail(struct meet *, const char *why);	/* the first reason stays; 1: it is ours */
const char *meet_failed(struct meet *);		/* the reason, NULL: all is well */
void meet_left(struct meet *, int seat);	/* that process has ended */
void *meet_small(struct meet *, int seat, int turn);	/* MEET_SMALL bytes, two for each rank */
void *meet_slot(struct meet *, int i);		/* MEET_SLOT bytes: one a rank, then one more */
void *meet_id(struct meet *);			/* 256 bytes, NCCL's unique id */
int meet_turn(struct meet *);			/* 0, 1, 0, 1 ... */

/* ---- sync_auth.c, sync_tcp.c, sync_hosts.c: several hosts ---------------------------------- */

enum { AUTH_MAC = 32, HOST_NAME = 64 };
void auth_mac(const char *token, const void *text, size_t n, unsigned char mac[AUTH_MAC]);
int auth_same(const unsigned char *a, const unsigned char *b);
struct tcp_place {
	const char *addr, *port, *token;	/* of the host of rank 0 */
	int rank, here, size;			/* this host's first, how many, of all */
	double secs;				/* how long to wait for each other */
	struct meet *meet;			/* this host's */
};
struct far_host { int first, here, fd[2]; char name[HOST_NAME]; };	/* fd: life, numbers */
/* h[size]: the hosts in the order of their ranks; *me: which of *n is this one. */
int tcp_gather(const struct tcp_place *, struct far_host *h, int *n, int *me, struct err *);
struct hosts *hosts_open(const struct tcp_place *, struct err *);
void hosts_close(struct hosts *);
void hosts_tell(struct hosts *, const char *why);
/* Steps of an operation between the hosts; nothing where meet_hosts() is NULL.  -1: s->err.
 * before: the sum of the ranks of all hosts before this one; after: on from this one, then all. */
int hosts_begin(struct sync *, const char *what, size_t n);
int hosts_before(struct sync *, void *sum, size_t bytes);
int hosts_after(struct sync *, void *sum, size_t bytes);
int hosts_bcast(struct sync *, void *buf, size_t bytes);

/* ---- sync_shm.c, sync_nccl.c ---------------------------------------------------------------- */

int shm_begin(struct sync *, const char *what, size_t n);	/* all ranks of all hosts say it */
int shm_bcast_host(struct sync *, void *shared, size_t bytes);	/* of host 0; in a mapping */
int shm_open_sync(struct sync *, struct err *);
int shm_sum_host(struct sync *, double *buf, size_t n);
int shm_barrier(struct sync *);

#ifdef __cplusplus
}
#endif
#endif
