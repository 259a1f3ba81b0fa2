/* sync_tcp.c -- hosts find each other: a port on the host of rank 0, and a token that all know.
 *
 * The first rank of each host comes with two connections, one for numbers and one for signs of
 * life (sync_hosts.c).  Host 0 sends a challenge; the answer, a MAC under the token, covers it and
 * all that the guest says; host 0 proves itself in the same way.  Guests are read as their bytes
 * come and each has SECS to speak, so whoever is mute, slow or no guest holds up nobody.  Only the
 * address that was asked for is listened at. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sync/int.h"

enum { SECS = 5, GUESTS = 64, SLICE_MS = 50, NONCE = 32 };
#define MAGIC "yolo-1\n"

/* As they cross the network, in the order of bytes of the machine: "order" tells another. */
struct challenge { char magic[8]; unsigned char nonce[NONCE]; };
struct hello {
	char magic[8];
	uint32_t order;
	int32_t kind, first, here, size;	/* kind: 0 signs of life, 1 numbers */
	char name[HOST_NAME];
	unsigned char challenge[NONCE], nonce[NONCE], mac[AUTH_MAC];
};
struct answer { char magic[8]; unsigned char challenge[NONCE], mac[AUTH_MAC]; };
struct entry { int32_t first, here; char name[HOST_NAME]; };

struct guest {
	int fd;			/* -1: a free place */
	double until;
	size_t got;
	struct challenge c;
	struct hello h;
};

static int
look_up(const struct tcp_place *p, int passive, struct addrinfo **a, struct err *e)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM,
		.ai_flags = (passive ? AI_PASSIVE : 0) | AI_NUMERICSERV };
	int r = getaddrinfo(p->addr, p->port, &want, a);

	return r ? err_set(e, "host of rank 0 '%s', port %s: %s", p->addr, p->port,
	    gai_strerror(r)) : 0;
}

static void
tune(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* All of it before the time is up; for the short messages of a start. */
static int
transfer(int fd, int out, void *buf, size_t n, double until)
{
	char *p = (char *)buf;

	while (n) {
		struct pollfd q = { fd, (short)(out ? POLLOUT : POLLIN), 0 };
		ssize_t k;

		if (now() > until)
			return -1;
		if (poll(&q, 1, SLICE_MS) <= 0)
			continue;
		k = out ? send(fd, p, n, MSG_NOSIGNAL) : recv(fd, p, n, 0);
		if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
			return -1;
		if (k > 0) {
			p += k;
			n -= (size_t)k;
		}
	}
	return 0;
}

static int
random_bytes(void *p, size_t n)
{
	return getrandom(p, n, 0) == (ssize_t)n ? 0 : -1;
}

/* ---- host 0 ------------------------------------------------------------------------------- */

static void
welcome(struct guest *g, int lsock)
{
	int at = 0;

	for (int i = 0; i < GUESTS; i++) {	/* a free place, else that of who waits longest */
		if (g[i].fd < 0) {
			at = i;
			break;
		}
		if (g[i].until < g[at].until)
			at = i;
	}
	if (g[at].fd >= 0)
		close(g[at].fd);
	memset(&g[at], 0, sizeof g[at]);
	if ((g[at].fd = accept4(lsock, NULL, NULL, SOCK_CLOEXEC)) < 0)
		return;
	tune(g[at].fd);
	g[at].until = now() + SECS;
	memcpy(g[at].c.magic, MAGIC, sizeof g[at].c.magic);
	if (random_bytes(g[at].c.nonce, NONCE) ||
	    send(g[at].fd, &g[at].c, sizeof g[at].c, MSG_NOSIGNAL) != sizeof g[at].c) {
		close(g[at].fd);
		g[at].fd = -1;
	}
}

/* 1: all of a hello is there and its MAC is right; 0: not yet; -1: no guest of this run. */
static int
heard(struct guest *g, const char *token)
{
	unsigned char mac[AUTH_MAC];
	ssize_t n = recv(g->fd, (char *)&g->h + g->got, sizeof g->h - g->got, 0);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return -1;
	g->got += n > 0 ? (size_t)n : 0;
	if (memcmp(g->h.magic, MAGIC, g->got < 8 ? g->got : 8))
		return -1;
	if (g->got < sizeof g->h)
		return 0;
	auth_mac(token, &g->h, offsetof(struct hello, mac), mac);
	if (memcmp(g->h.challenge, g->c.nonce, NONCE) || !auth_same(mac, g->h.mac))
		return -1;
	g->h.name[HOST_NAME - 1] = 0;
	return 1;
}

/* A guest of this run: its seat, or a reason why the run cannot be. */
static int
seat(struct guest *g, const char *token, int size, struct far_host *h, int *n, struct err *e)
{
	const struct hello *q = &g->h;
	struct answer a = { MAGIC, { 0 }, { 0 } };
	int at = 1;

	if (q->order != 0x01020304 || q->size != size || q->first < 1 || q->here < 1 ||
	    q->first > size - q->here)
		return err_set(e, "%s brings ranks %d to %d of %d, %s has rank 0 of %d", q->name,
		    q->first, q->first + q->here - 1, q->size, h[0].name, size);
	while (at < *n && h[at].first != q->first)
		at++;
	for (int i = 0; i < *n; i++)
		if (i != at && q->first < h[i].first + h[i].here &&
		    h[i].first < q->first + q->here)
			return err_set(e, "%s has ranks %d to %d, %s %d to %d: start the ranks of "
			    "a host one after the other (srun -m block, mpirun --map-by slot)",
			    h[i].name, h[i].first, h[i].first + h[i].here - 1, q->name, q->first,
			    q->first + q->here - 1);
	if (at < *n && h[at].fd[q->kind & 1] >= 0)
		return err_set(e, "%s and %s both bring rank %d", h[at].name, q->name, q->first);
	if (at == *n) {
		h[(*n)++] = (struct far_host){ .first = q->first, .here = q->here,
			.fd = { -1, -1 } };
		memcpy(h[at].name, q->name, HOST_NAME);
	}
	memcpy(a.challenge, q->nonce, NONCE);
	auth_mac(token, &a, offsetof(struct answer, mac), a.mac);
	if (send(g->fd, &a, sizeof a, MSG_NOSIGNAL) != sizeof a)
		return err_set(e, "rank %d on %s went away again", q->first, q->name);
	h[at].fd[q->kind & 1] = g->fd;
	g->fd = -1;
	return 0;
}

static int
complete(const struct far_host *h, int n, int size)
{
	int ranks = h[0].here;

	for (int i = 1; i < n; i++)
		ranks += h[i].fd[0] >= 0 && h[i].fd[1] >= 0 ? h[i].here : 0;
	return ranks == size;
}

static int
absent(const struct far_host *h, int n, int size, double secs, struct err *e)
{
	for (int r = 0; r < size; r++) {
		int there = 0;

		for (int i = 0; i < n; i++)
			there |= r >= h[i].first && r < h[i].first + h[i].here;
		if (!there)
			return err_set(e, "rank %d of %d did not come to %s within %g s: is its "
			    "host up, and YOLO_TOKEN the same there?", r, size, h[0].name, secs);
	}
	return err_set(e, "not all of %d ranks came within %g s", size, secs);
}

static int
receive(const struct tcp_place *p, int lsock, struct guest *g, struct far_host *h, int *n,
    struct err *e)
{
	double until = now() + p->secs;

	while (!complete(h, *n, p->size)) {
		struct pollfd q[GUESTS + 1] = { { lsock, POLLIN, 0 } };

		if (meet_lost(p->meet, e))
			return -1;
		if (now() > until)
			return absent(h, *n, p->size, p->secs, e);
		for (int i = 0; i < GUESTS; i++)
			q[i + 1] = (struct pollfd){ g[i].fd, POLLIN, 0 };
		poll(q, GUESTS + 1, SLICE_MS);
		for (int i = 0; i < GUESTS; i++) {
			int r = q[i + 1].revents ? heard(&g[i], p->token) : 0;

			if (r > 0 && seat(&g[i], p->token, p->size, h, n, e))
				return -1;
			if (g[i].fd >= 0 && (r < 0 || now() > g[i].until)) {
				close(g[i].fd);
				g[i].fd = -1;
			}
		}
		if (q[0].revents)
			welcome(g, lsock);
	}
	return 0;
}

static int
listen_at(const struct tcp_place *p, struct err *e)
{
	struct addrinfo *a;
	int fd, one = 1;

	if (look_up(p, 1, &a, e))
		return -1;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 128)) {
		err_set(e, "cannot listen at %s, port %s: %s", p->addr, p->port, strerror(errno));
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(a);
	return fd;
}

static int
by_rank(const void *a, const void *b)
{
	return ((const struct far_host *)a)->first - ((const struct far_host *)b)->first;
}

static int
tell_table(const struct far_host *h, int n, double until, struct err *e)
{
	struct entry *t = (struct entry *)xcalloc((size_t)n, sizeof *t);
	int32_t head[2] = { n, 0 };
	int bad = 0;

	for (int i = 0; i < n; i++) {
		t[i] = (struct entry){ .first = h[i].first, .here = h[i].here };
		memcpy(t[i].name, h[i].name, HOST_NAME);
	}
	for (int i = 1; i < n && !bad; i++) {
		head[1] = i;
		if (transfer(h[i].fd[0], 1, head, sizeof head, until) ||
		    transfer(h[i].fd[0], 1, t, (size_t)n * sizeof *t, until))
			bad = err_set(e, "rank %d on %s went away again", h[i].first, h[i].name);
	}
	free(t);
	return bad;
}

static int
be_host(const struct tcp_place *p, struct far_host *h, int *n, struct err *e)
{
	struct guest *g;
	int lsock = listen_at(p, e), bad;

	if (lsock < 0)
		return -1;
	g = (struct guest *)xcalloc(GUESTS, sizeof *g);
	for (int i = 0; i < GUESTS; i++)
		g[i].fd = -1;
	bad = receive(p, lsock, g, h, n, e);
	for (int i = 0; i < GUESTS; i++)
		if (g[i].fd >= 0)
			close(g[i].fd);
	free(g);
	close(lsock);
	if (!bad)
		qsort(h, (size_t)*n, sizeof *h, by_rank);
	return bad ? -1 : tell_table(h, *n, now() + SECS, e);
}

/* ---- the other hosts ---------------------------------------------------------------------- */

static int
connect_to(const struct addrinfo *a, double until)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), bad;
	socklen_t len = sizeof bad;
	struct pollfd q = { fd, POLLOUT, 0 };

	if (fd < 0)
		return -1;
	tune(fd);
	bad = connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS;
	while (!bad && !poll(&q, 1, SLICE_MS) && now() < until)
		;
	if (bad || getsockopt(fd, SOL_SOCKET, SO_ERROR, &bad, &len) || bad || !q.revents) {
		close(fd);
		return -1;
	}
	return fd;
}

/* 1: taken in; 0: what answers is no host of this run (or not of this token); -1: nothing does. */
static int
introduce(const struct tcp_place *p, const struct addrinfo *a, int kind, const char *name, int *fd)
{
	double until = now() + SECS;
	struct hello h = { .magic = MAGIC, .order = 0x01020304, .kind = kind, .first = p->rank,
		.here = p->here, .size = p->size };
	unsigned char mac[AUTH_MAC];
	struct challenge c;
	struct answer r;

	if ((*fd = connect_to(a, until)) < 0)
		return -1;
	snprintf(h.name, sizeof h.name, "%s", name);
	if (!transfer(*fd, 0, &c, sizeof c, until) && !memcmp(c.magic, MAGIC, 8) &&
	    !random_bytes(h.nonce, NONCE)) {
		memcpy(h.challenge, c.nonce, NONCE);
		auth_mac(p->token, &h, offsetof(struct hello, mac), h.mac);
		if (!transfer(*fd, 1, &h, sizeof h, until) &&
		    !transfer(*fd, 0, &r, sizeof r, until)) {
			auth_mac(p->token, &r, offsetof(struct answer, mac), mac);
			if (!memcmp(r.challenge, h.nonce, NONCE) && auth_same(mac, r.mac))
				return 1;
		}
	}
	close(*fd);
	*fd = -1;
	return 0;
}

static int
read_table(const struct tcp_place *p, struct far_host *h, int *n, int *me, struct err *e)
{
	double until = now() + p->secs;
	struct entry t;
	int32_t head[2];
	struct pollfd q = { h[0].fd[0], POLLIN, 0 };

	while (!poll(&q, 1, SLICE_MS) && now() < until)
		if (meet_lost(p->meet, e))
			return -1;
	if (transfer(q.fd, 0, head, sizeof head, now() + SECS) || head[0] < 2 ||
	    head[0] > p->size || head[1] < 1 || head[1] >= head[0])
		return err_set(e, "rank 0 at %s gave up: not all of %d ranks came", p->addr,
		    p->size);
	*n = head[0];
	*me = head[1];
	for (int i = 0; i < *n; i++) {
		if (transfer(q.fd, 0, &t, sizeof t, now() + SECS))
			return err_set(e, "rank 0 at %s went away again", p->addr);
		h[i].first = t.first;
		h[i].here = t.here;
		snprintf(h[i].name, HOST_NAME, "%.*s", HOST_NAME - 1, t.name);
		if (i)
			h[i].fd[0] = h[i].fd[1] = -1;
	}
	return 0;
}

static int
be_guest(const struct tcp_place *p, struct far_host *h, int *n, int *me, struct err *e)
{
	struct timespec nap = { 0, SLICE_MS * 1000000L };
	double until = now() + p->secs;
	char *name = xstrdup(h[0].name);
	struct addrinfo *a;
	int bad = look_up(p, 0, &a, e), r = -1, last = -1;

	if (bad) {
		free(name);
		return -1;
	}
	for (int kind = 0; kind < 2 && !bad; ) {
		if ((r = introduce(p, a, kind, name, &h[0].fd[kind])) > 0) {
			kind++;
			continue;
		}
		last = r >= 0 ? r : last;
		if ((bad = meet_lost(p->meet, e)))
			break;
		if (now() > until)
			bad = err_set(e, last < 0 ?
			    "rank 0 did not come to %s, port %s, within %g s" :
			    "rank 0 at %s, port %s, did not take this host in within %g s: is "
			    "YOLO_TOKEN the same on both, and the port no other program's?",
			    p->addr, p->port, p->secs);
		nanosleep(&nap, NULL);
	}
	freeaddrinfo(a);
	free(name);
	return bad ? -1 : read_table(p, h, n, me, e);
}

int
tcp_gather(const struct tcp_place *p, struct far_host *h, int *n, int *me, struct err *e)
{
	int bad;

	*n = 1;
	*me = 0;
	h[0] = (struct far_host){ .first = p->rank, .here = p->here, .fd = { -1, -1 } };
	gethostname(h[0].name, HOST_NAME - 1);
	bad = p->rank ? be_guest(p, h, n, me, e) : be_host(p, h, n, e);
	for (int i = 0; bad && i < *n; i++)
		for (int k = 0; k < 2; k++)
			if (h[i].fd[k] >= 0)
				close(h[i].fd[k]);
	return bad;
}
