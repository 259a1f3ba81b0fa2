/* sync_hosts.c -- sums and broadcasts over several hosts, between those inside each (sync_shm.c).
 *
 * The first rank of a host speaks for it.  A sum goes from host to host: each adds its ranks'
 * numbers to what those before have summed, so that the order is that of the ranks, and the bits
 * are those of one host.  All goes through host 0, which carries 2 * (hosts - 1) times the numbers.
 *
 * A thread keeps the signs of life and reasons of an end on connections of their own: ten times a
 * second each host says how much its ranks have worked, and host 0 passes that on.  A wait for
 * another host ends when a reason comes, when its connection closes, or when no other host's ranks
 * have shown life for the deadline and LATER: so the host where a rank stalls, which knows more,
 * speaks first. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sync/int.h"

enum { SLICE_MS = 100, LATER = 1, TEXT = 1024 };
enum kind { BEAT, WHY, BYE };

/* On the connection of life; the text follows. */
struct word { int32_t kind, host; uint64_t beats; uint32_t len, zero; };
struct hearing { struct word w; char text[TEXT]; size_t got; };

struct hosts {
	struct meet *meet;
	struct far_host *h;
	int n, me, told, stop;
	double deadline, *since;		/* when a host was last seen at work */
	uint64_t *beats;
	int *bye;
	struct hearing *heard;
	pthread_mutex_t lock;
	pthread_t thread;
};

/* What goes before the numbers of an operation. */
struct head { uint64_t op, n; char what[24]; };

static int
here(const struct hosts *o, int i)
{
	return i != o->me && o->h[i].fd[0] >= 0;
}

/* ---- life and the end --------------------------------------------------------------------- */

/* To be called with the lock.  What does not fit at once finds no reader: the connection is given
 * up, and the wait for that host will say so. */
static void
say(struct hosts *o, int to, enum kind kind, int host, uint64_t beats, const char *text)
{
	struct { struct word w; char text[TEXT]; } m = { { .kind = kind, .host = host,
		.beats = beats, .len = (uint32_t)strlen(text) }, "" };
	size_t n = sizeof m.w + m.w.len;

	memcpy(m.text, text, m.w.len);
	if (send(o->h[to].fd[0], &m, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		shutdown(o->h[to].fd[0], SHUT_WR);
}

static void
say_all(struct hosts *o, int but, enum kind kind, int host, uint64_t beats, const char *text)
{
	for (int i = 0; i < o->n; i++)
		if (i != but && here(o, i))
			say(o, i, kind, host, beats, text);
}

void
hosts_tell(struct hosts *o, const char *why)
{
	pthread_mutex_lock(&o->lock);
	if (!o->told)
		say_all(o, -1, WHY, o->me, 0, why);
	o->told = 1;
	pthread_mutex_unlock(&o->lock);
}

static void
ended(struct hosts *o, int host)
{
	char note[MEET_NOTE];
	struct err e;

	err_set(&e, "rank %d on %s has ended, says rank %d on %s%s", o->h[host].first,
	    o->h[host].name, o->h[o->me].first, o->h[o->me].name, meet_noted(o->meet, note));
	meet_fail(o->meet, e.msg);
}

static void
understand(struct hosts *o, int from, const struct word *w, const char *text)
{
	int host = w->host;

	if (w->kind == WHY)
		meet_fail(o->meet, text);	/* which tells the others */
	if (w->kind == BYE)
		o->bye[from] = 1;
	if (w->kind != BEAT || host < 0 || host >= o->n || host == o->me)
		return;
	pthread_mutex_lock(&o->lock);
	if (o->beats[host] != w->beats) {
		o->since[host] = now();
		meet_far(o->meet);
	}
	o->beats[host] = w->beats;
	if (!o->me)
		say_all(o, from, BEAT, host, w->beats, "");
	pthread_mutex_unlock(&o->lock);
}

/* What has come from a host; 0: there is more. */
static int
listen_to(struct hosts *o, int i)
{
	struct hearing *q = &o->heard[i];
	size_t want = q->got < sizeof q->w ? sizeof q->w : sizeof q->w + q->w.len;
	char *at = q->got < sizeof q->w ? (char *)&q->w + q->got : q->text + q->got - sizeof q->w;
	ssize_t k = recv(o->h[i].fd[0], at, want - q->got, MSG_DONTWAIT);

	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (k > 0)
		q->got += (size_t)k;
	if (k <= 0 || (q->got >= sizeof q->w && q->w.len >= TEXT)) {
		if (!o->bye[i])
			ended(o, i);
		pthread_mutex_lock(&o->lock);
		close(o->h[i].fd[0]);
		o->h[i].fd[0] = -1;
		pthread_mutex_unlock(&o->lock);
		return 1;
	}
	if (q->got < sizeof q->w || q->got < sizeof q->w + q->w.len)
		return 0;
	q->text[q->w.len] = 0;
	q->got = 0;
	understand(o, i, &q->w, q->text);
	return 0;
}

static void *
keep(void *arg)
{
	struct hosts *o = (struct hosts *)arg;
	struct pollfd *q = (struct pollfd *)xcalloc((size_t)o->n, sizeof *q);
	double next = 0;

	while (!__atomic_load_n(&o->stop, __ATOMIC_ACQUIRE)) {
		const char *why = meet_failed(o->meet);

		if (why)
			hosts_tell(o, why);
		if (now() >= next) {
			pthread_mutex_lock(&o->lock);
			say_all(o, -1, BEAT, o->me, meet_worked(o->meet), "");
			pthread_mutex_unlock(&o->lock);
			next = now() + SLICE_MS / 1e3;
		}
		for (int i = 0; i < o->n; i++)
			q[i] = (struct pollfd){ here(o, i) ? o->h[i].fd[0] : -1, POLLIN, 0 };
		if (poll(q, (nfds_t)o->n, SLICE_MS / 2) > 0)
			for (int i = 0; i < o->n; i++)
				while (q[i].revents && !listen_to(o, i))
					;
	}
	free(q);
	return NULL;
}

/* ---- moving numbers ----------------------------------------------------------------------- */

/* Writes the reason down.  A host that ends for a reason has told it before its connections close:
 * that one is waited for. */
static int
give_up(struct sync *s, int host, const char *how)
{
	struct hosts *o = meet_hosts(s->meet);
	struct timespec nap = { 0, 20 * 1000000 };
	char note[MEET_NOTE], doing[80];
	struct err why;

	for (int i = 0; i < 25 && !meet_failed(s->meet); i++)
		nanosleep(&nap, NULL);
	if (o->h[host].here > 1)
		err_set(&why, "ranks %d to %d", o->h[host].first,
		    o->h[host].first + o->h[host].here - 1);
	else
		err_set(&why, "rank %d", o->h[host].first);
	err_set(&s->err, "%s on %s %s: rank %d on %s waits in %s%s", why.msg, o->h[host].name, how,
	    s->rank, o->h[o->me].name, meet_doing(s->meet, s->seat, doing),
	    meet_noted(s->meet, note));
	meet_fail(s->meet, s->err.msg);
	return err_set(&s->err, "%s", meet_failed(s->meet));
}

/* Nothing came or went for a while: is there a reason to give up? */
static int
look(struct sync *s, int host, double begun, double slept)
{
	struct hosts *o = meet_hosts(s->meet);
	double life = begun, oldest;
	char how[96];

	if (meet_lost(s->meet, &s->err))
		return -1;
	pthread_mutex_lock(&o->lock);
	oldest = o->since[host];
	for (int i = 0; i < o->n; i++) {
		o->since[i] += slept;
		if (i == o->me)
			continue;
		if (o->since[i] > life)
			life = o->since[i];
		if (o->since[i] < oldest && o->me) {	/* host 0 knows whom it waits for */
			oldest = o->since[i];
			host = i;
		}
	}
	pthread_mutex_unlock(&o->lock);
	if (now() - life > s->deadline + LATER) {
		snprintf(how, sizeof how, "stalled for %g s, or the network between is cut",
		    s->deadline);
		return give_up(s, host, how);
	}
	meet_far(s->meet);		/* the others of this host wait for this wait */
	return 0;
}

static int
move(struct sync *s, int host, int out, void *buf, size_t n)
{
	struct hosts *o = meet_hosts(s->meet);
	struct pollfd q = { o->h[host].fd[1], (short)(out ? POLLOUT : POLLIN), 0 };
	double begun = now(), last = 0;
	char *p = (char *)buf;

	while (n) {
		ssize_t k = out ? send(q.fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) :
		    recv(q.fd, p, n, MSG_DONTWAIT);

		if (k > 0) {
			p += k;
			n -= (size_t)k;
			begun = now();
			continue;
		}
		if (k == 0 || (errno != EAGAIN && errno != EINTR))
			return give_up(s, host, "has ended");
		if (!poll(&q, 1, SLICE_MS)) {
			double slept = meet_slept(&last);

			begun += slept;
			if (look(s, host, begun, slept))
				return -1;
		}
	}
	return 0;
}

/* ---- operations --------------------------------------------------------------------------- */

int
hosts_begin(struct sync *s, const char *what, size_t n)
{
	struct hosts *o = meet_hosts(s->meet);
	struct head mine = { .n = n }, other;

	if (!o)
		return 0;
	mine.op = meet_op(s->meet, s->seat);
	snprintf(mine.what, sizeof mine.what, "%s", what);
	if (o->me)
		return move(s, 0, 1, &mine, sizeof mine);
	for (int i = 1; i < o->n; i++) {
		if (move(s, i, 0, &other, sizeof other))
			return -1;
		other.what[sizeof other.what - 1] = 0;
		if (!memcmp(&mine, &other, sizeof mine))
			continue;
		err_set(&s->err, "ranks disagree: operation %llu is %s of %llu numbers on rank 0, "
		    "on rank %d operation %llu is %s of %llu", (unsigned long long)mine.op,
		    mine.what, (unsigned long long)n, o->h[i].first, (unsigned long long)other.op,
		    other.what, (unsigned long long)other.n);
		meet_fail(s->meet, s->err.msg);
		return err_set(&s->err, "%s", meet_failed(s->meet));
	}
	return 0;
}

int
hosts_before(struct sync *s, void *sum, size_t bytes)
{
	struct hosts *o = meet_hosts(s->meet);

	return o && o->me ? move(s, 0, 0, sum, bytes) : 0;
}

int
hosts_after(struct sync *s, void *sum, size_t bytes)
{
	struct hosts *o = meet_hosts(s->meet);
	int bad = 0;

	if (!o)
		return 0;
	if (o->me)
		return move(s, 0, 1, sum, bytes) ||
		    (o->me < o->n - 1 && move(s, 0, 0, sum, bytes)) ? -1 : 0;
	for (int i = 1; i < o->n && !bad; i++)
		bad = move(s, i, 1, sum, bytes) || move(s, i, 0, sum, bytes);
	for (int i = 1; i < o->n - 1 && !bad; i++)
		bad = move(s, i, 1, sum, bytes);
	return bad ? -1 : 0;
}

int
hosts_bcast(struct sync *s, void *buf, size_t bytes)
{
	struct hosts *o = meet_hosts(s->meet);
	int bad = 0;

	if (!o)
		return 0;
	if (o->me)
		return move(s, 0, 0, buf, bytes);
	for (int i = 1; i < o->n && !bad; i++)
		bad = move(s, i, 1, buf, bytes);
	return bad ? -1 : 0;
}

/* ---- opening ------------------------------------------------------------------------------ */

struct hosts *
hosts_open(const struct tcp_place *p, struct err *e)
{
	struct hosts *o = (struct hosts *)xcalloc(1, sizeof *o);
	size_t most = (size_t)p->size;

	o->h = (struct far_host *)xcalloc(most, sizeof *o->h);
	if (tcp_gather(p, o->h, &o->n, &o->me, e)) {
		free(o->h);
		free(o);
		return NULL;
	}
	o->meet = p->meet;
	o->since = (double *)xcalloc((size_t)o->n, sizeof *o->since);
	o->beats = (uint64_t *)xcalloc((size_t)o->n, sizeof *o->beats);
	o->bye = (int *)xcalloc((size_t)o->n, sizeof *o->bye);
	o->heard = (struct hearing *)xcalloc((size_t)o->n, sizeof *o->heard);
	for (int i = 0; i < o->n; i++)
		o->since[i] = now();
	pthread_mutex_init(&o->lock, NULL);
	if (pthread_create(&o->thread, NULL, keep, o)) {
		err_set(e, "cannot start a thread");
		o->thread = 0;
		hosts_close(o);
		return NULL;
	}
	return o;
}

void
hosts_close(struct hosts *o)
{
	if (!o)
		return;
	if (o->thread) {
		__atomic_store_n(&o->stop, 1, __ATOMIC_RELEASE);
		pthread_join(o->thread, NULL);
	}
	say_all(o, -1, BYE, o->me, 0, "");
	for (int i = 0; i < o->n; i++)
		for (int k = 0; k < 2; k++)
			if (o->h[i].fd[k] >= 0)
				close(o->h[i].fd[k]);
	pthread_mutex_destroy(&o->lock);
	free(o->h);
	free(o->since);
	free(o->beats);
	free(o->bye);
	free(o->heard);
	free(o);
}
