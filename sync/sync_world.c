/* sync_world.c -- the world that a launcher made: who am I, how many are we, where are the others.
 *
 * Launchers tell in environment variables.  Order matters: under Slurm, mpirun starts its daemons
 * by srun, so that a rank sees Slurm's variables of the daemon; and sbatch sets SLURM_PROCID in the
 * shell of the script, hence the size is that of the step, which only srun sets.
 *
 * Ranks on several hosts meet on each host as on one, and the first of each host meets the others'
 * by TCP: at MASTER_ADDR and MASTER_PORT, which torchrun sets, or what Slurm says. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sync/int.h"

struct launcher {
	const char *name, *rank, *size, *local_rank, *local_size, *nodes;
	const char *id[3];		/* tell this run from others on the host */
	const char *advice;		/* how to give ranks on other hosts a variable */
};
static const struct launcher launchers[] = {
	{ "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL,
	    { "TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT" },
	    "set it on each host" },
	{ "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	    "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, { "PMIX_NAMESPACE", NULL, NULL }, "mpirun -x" },
	{ "MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
	    "MV2_COMM_WORLD_LOCAL_SIZE", NULL, { NULL, NULL, NULL }, "mpirun -env" },
	{ "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL,
	    { NULL, NULL, NULL }, "mpirun -genv" },
	{ "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL,
	    "SLURM_STEP_NUM_NODES", { "SLURM_JOB_ID", "SLURM_STEP_ID", NULL },
	    "srun --export=ALL" },
};

enum { MAXRANKS = 4096 };

/* A whole number of the environment; -1: not there, or not a number. */
static long
env(const char *name)
{
	const char *s = name ? getenv(name) : NULL;
	long v;

	return s && !num_int(s, 0, MAXRANKS, &v) ? v : -1;
}

/* The socket's name: the user, the run; where nothing names the run, the launcher's process. */
static char *
meeting_place(const struct launcher *l, int first)
{
	char *name = xasprintf("yolo-%ld-%d", (long)geteuid(), first);
	int named = 0;

	for (int i = 0; i < 3; i++) {
		const char *v = l->id[i] ? getenv(l->id[i]) : NULL;
		char *longer = v ? xasprintf("%s-%.40s", name, v) : NULL;

		if (!longer)
			continue;
		free(name);
		name = longer;
		named = 1;
	}
	if (!named) {
		char *longer = xasprintf("%s-%ld", name, (long)getppid());

		free(name);
		name = longer;
	}
	if (strlen(name) > 100)
		name[100] = 0;
	return name;
}

/* Slurm counts the tasks of its nodes as "2(x3),1"; -1: it does not. */
static long
slurm_here(void)
{
	const char *s = getenv("SLURM_STEP_TASKS_PER_NODE");
	long node = env("SLURM_NODEID");

	while (s && *s >= '0' && *s <= '9' && node >= 0) {
		char *end;
		long tasks = strtol(s, &end, 10), times = 1;

		if (!strncmp(end, "(x", 2)) {
			times = strtol(end + 2, &end, 10);
			end += *end == ')';
		}
		if (node < times)
			return tasks;
		node -= times;
		s = *end == ',' ? end + 1 : end;
	}
	return -1;
}

/* The first name of Slurm's list "gpu[03-05,9],cpu1". */
static void
slurm_first(char *out, size_t size)
{
	const char *s = getenv("SLURM_STEP_NODELIST");
	size_t n = 0;

	for (; s && *s && *s != ',' && *s != ']' && n + 1 < size; s++)
		if (*s == '-' && strchr(getenv("SLURM_STEP_NODELIST"), '[') &&
		    strchr(getenv("SLURM_STEP_NODELIST"), '[') < s)
			break;
		else if (*s != '[')
			out[n++] = *s;
	out[n] = 0;
}

/* Where the first ranks of the hosts meet.  torchrun's own store has the port it names. */
static int
far_place(const struct launcher *l, struct tcp_place *p, char addr[256], char port[16],
    struct err *e)
{
	const char *a = getenv("MASTER_ADDR"), *s = getenv("MASTER_PORT");
	const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
	int slurm = !strcmp(l->name, "Slurm");
	long n = 0, job = 0;

	if (slurm)
		slurm_first(addr, 256);
	if (a)
		snprintf(addr, 256, "%s", a);
	if (slurm && !s && getenv("SLURM_JOB_ID"))
		job = atol(getenv("SLURM_JOB_ID"));
	if (s ? num_int(s, 1, 65534, &n) : !slurm)
		return err_set(e, "ranks on several hosts meet at MASTER_ADDR, MASTER_PORT (%s): "
		    "MASTER_PORT is '%s', want a free port of the host of rank 0", l->advice,
		    s ? s : "");
	if (!*addr)
		return err_set(e, "ranks on several hosts meet at MASTER_ADDR, MASTER_PORT (%s): "
		    "MASTER_ADDR is not set, want the host of rank 0", l->advice);
	n = s ? n + (store && !strcmp(store, "True")) : 20000 + job % 10000;
	snprintf(port, 16, "%ld", n);
	p->addr = addr;
	p->port = port;
	p->token = getenv("YOLO_TOKEN");
	if (!p->token || strlen(p->token) < 16)
		return err_set(e, "ranks on several hosts know each other by a secret, YOLO_TOKEN "
		    "(%s), of at least 16 characters: export YOLO_TOKEN=$(openssl rand -hex 16)",
		    l->advice);
	return 0;
}

static int
join_hosts(struct world *w, const struct launcher *l, double secs, struct err *e)
{
	struct tcp_place p = { .rank = w->rank, .here = w->seats, .size = w->size, .secs = secs,
		.meet = w->meet };
	char addr[256] = "", port[16];
	struct hosts *o;

	if (far_place(l, &p, addr, port, e) || !(o = hosts_open(&p, e))) {
		meet_fail(w->meet, e->msg);	/* the others of this host need not wait */
		return -1;
	}
	meet_tie(w->meet, o);
	return 0;
}

static int
join(struct world *w, const struct launcher *l, struct err *e)
{
	long here = l->local_size ? env(l->local_size) : slurm_here();
	double secs = w->deadline > 0 ? w->deadline : 60;
	int several = (here > 0 && here < w->size) || env(l->nodes) > 1;
	long seat = several ? env(l->local_rank) : w->rank;
	struct err why = { "" };
	char *place;

	if (several && (here < 1 || seat < 0 || seat >= here || seat > w->rank))
		return err_set(e, "%s started %d ranks on several hosts and does not say which of "
		    "them rank %d is on its own: %s and the count of ranks on a host",
		    l->name, w->size, w->rank, l->local_rank);
	w->seat = (int)seat;
	w->seats = several ? (int)here : w->size;
	place = meeting_place(l, w->rank - w->seat);
	w->meet = meet_join(w->seat, w->seats, w->rank - w->seat, place, secs, &why);
	free(place);
	if (w->meet && several && !w->seat && join_hosts(w, l, secs, &why)) {
		meet_close(w->meet);
		w->meet = NULL;
	}
	return w->meet ? 1 : err_set(e, "%s: rank %d of %d: %s", l->name, w->rank, w->size,
	    why.msg);
}

int
world_rank(void)
{
	for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
		if (env(launchers[i].size) > 1 && getenv(launchers[i].rank))
			return (int)env(launchers[i].rank);
	return 0;
}

int
world_find(struct world *w, struct err *e)
{
	w->rank = w->local_rank = w->seat = 0;
	w->size = w->seats = 1;
	w->meet = NULL;
	for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
		const struct launcher *l = &launchers[i];
		long rank = env(l->rank), size = env(l->size), local = env(l->local_rank);

		if (size < 2 || !getenv(l->rank))
			continue;
		if (rank < 0 || rank >= size)
			return err_set(e, "%s: %s=%s is no rank of %s=%ld", l->name, l->rank,
			    getenv(l->rank), l->size, size);
		w->rank = (int)rank;
		w->size = (int)size;
		w->local_rank = local >= 0 ? (int)local : w->rank;
		return join(w, l, e);
	}
	return 0;
}

/* ---- what the ranks were told -------------------------------------------------------------- */

/* Lines of a and b that differ, as "what A, not B", into out; n: its length. */
static void
differences(const char *a, const char *b, char *out, size_t n)
{
	size_t at = 0;

	out[0] = 0;
	while (*a && *b && at < n) {
		size_t la = strcspn(a, "\n"), lb = strcspn(b, "\n"), key = strcspn(a, "\t\n");
		size_t kb = strcspn(b, "\t\n");

		if (la != lb || memcmp(a, b, la))
			at += (size_t)snprintf(out + at, n - at, "%s%.*s %.*s, not %.*s",
			    at ? "; " : "", (int)key, a, (int)(la - key - (key < la)),
			    a + key + (key < la), (int)(lb - kb - (kb < lb)), b + kb + (kb < lb));
		a += la + (a[la] == '\n');
		b += lb + (b[lb] == '\n');
	}
}

int
world_agree(const struct world *w, const char *told, struct err *e)
{
	struct sync s = { .rank = w->rank, .size = w->size, .seat = w->seat,
		.seats = w->seats ? w->seats : w->size,
		.deadline = w->deadline > 0 ? w->deadline : 60, .meet = w->meet };
	int turn = w->meet ? meet_turn(w->meet) : 0, odd = -1, other = 0;
	char *first, *x, what[700];		/* first: what rank 0 was told, on every host */
	struct err why;

	if (!w->meet)
		return 0;
	first = (char *)meet_slot(w->meet, 0);
	snprintf((char *)meet_small(w->meet, s.seat, turn), MEET_SMALL, "%s", told);
	if (!s.seat)
		snprintf(first, MEET_SMALL, "%s", told);
	if (shm_begin(&s, "agree", 0) || shm_bcast_host(&s, first, MEET_SMALL))
		return err_set(e, "%s", s.err.msg);
	for (int i = 0; i < s.seats && odd < 0; i++)
		odd = strcmp(first, (char *)meet_small(w->meet, i, turn)) ? i : -1;
	if (odd < 0)
		return 0;
	x = (char *)meet_small(w->meet, odd, turn);
	odd += w->rank - s.seat;
	/* Three of which only the first differs: it is the first. */
	if (odd == 1 && s.seats > 2 && !strcmp(x, (char *)meet_small(w->meet, 2, turn))) {
		other = 1;
		odd = 0;
		differences(first, x, what, sizeof what);
	} else
		differences(x, first, what, sizeof what);
	err_set(&why, "rank %d was told something else than rank %d: %s; want the same options, "
	    "data and program for all", odd, other, what);
	meet_fail(w->meet, why.msg);
	return err_set(e, "%s", meet_failed(w->meet));
}
