/* sync_join.c -- processes that a launcher started find each other on one host.
 *
 * Rank 0 listens at an abstract socket (no file, gone with the process), checks that who comes is
 * this user's and a rank of this world, and hands out the descriptor of the shared memory.  The
 * sockets stay open: they hang up when the process at the other end dies. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "yolo.h"

struct hello { int32_t rank, size; };

static void
nap(void)
{
	struct timespec t = { 0, 20 * 1000000 };

	nanosleep(&t, NULL);
}

/* An abstract address: no file, gone with the socket. */
static socklen_t
address(struct sockaddr_un *a, const char *name)
{
	memset(a, 0, sizeof *a);
	a->sun_family = AF_UNIX;
	snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a->sun_path + 1));
}

/* Only processes of this user may join: the name is no secret. */
static int
own(int fd)
{
	struct ucred c;
	socklen_t len = sizeof c;

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) && c.uid == geteuid();
}

static int
readable(int fd, double until)
{
	double left = until - now();
	struct pollfd p = { fd, POLLIN, 0 };

	return left > 0 && poll(&p, 1, (int)(left * 1000) + 1) > 0;
}

static int
send_fd(int sock, int fd)
{
	union { struct cmsghdr h; char space[CMSG_SPACE(sizeof(int))]; } u;
	struct iovec v = { (char *)"m", 1 };
	struct msghdr m = { 0 };

	memset(&u, 0, sizeof u);
	m.msg_iov = &v;
	m.msg_iovlen = 1;
	m.msg_control = &u;
	m.msg_controllen = sizeof u;
	u.h.cmsg_level = SOL_SOCKET;
	u.h.cmsg_type = SCM_RIGHTS;
	u.h.cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(&u.h), &fd, sizeof fd);
	return sendmsg(sock, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static int
recv_fd(int sock)
{
	union { struct cmsghdr h; char space[CMSG_SPACE(sizeof(int))]; } u;
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { 0 };
	int fd;

	memset(&u, 0, sizeof u);
	m.msg_iov = &v;
	m.msg_iovlen = 1;
	m.msg_control = &u;
	m.msg_controllen = sizeof u;
	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != 1 || m.msg_controllen < CMSG_LEN(sizeof fd) ||
	    u.h.cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(&u.h), sizeof fd);
	return fd;
}

/* Take the others in, each once. */
static int
host(int size, int lsock, int fd, double until, int *peer, struct err *e)
{
	struct hello h;

	for (int missing = size - 1; missing;) {
		int sock;

		if (!readable(lsock, until)) {
			int r = 1;

			while (peer[r] >= 0)
				r++;
			return err_set(e, "rank %d of %d did not come", r, size);
		}
		if ((sock = accept4(lsock, NULL, NULL, SOCK_CLOEXEC)) < 0)
			continue;
		if (!own(sock) || !readable(sock, until) || read(sock, &h, sizeof h) != sizeof h ||
		    h.rank < 1 || h.rank >= size || h.size != size || peer[h.rank] >= 0) {
			close(sock);		/* no rank of this world */
			continue;
		}
		if (send_fd(sock, fd))
			return err_set(e, "rank %d went away again", h.rank);
		peer[h.rank] = sock;
		missing--;
	}
	return 0;
}

int
join_host(int size, const char *name, double until, int fd, int *peer, struct err *e)
{
	int lsock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;
	struct sockaddr_un a;
	socklen_t len = address(&a, name);

	for (int i = 0; i < size; i++)
		peer[i] = -1;
	if (lsock < 0 || bind(lsock, (struct sockaddr *)&a, len) || listen(lsock, size))
		r = err_set(e, "ranks cannot meet at @%s: %s", name, strerror(errno));
	else
		r = host(size, lsock, fd, until, peer, e);
	if (lsock >= 0)
		close(lsock);
	return r;
}

int
join_rank(int rank, int size, const char *name, double until, int *fd, int *peer, struct err *e)
{
	struct hello h = { rank, size };
	struct sockaddr_un a;
	socklen_t len = address(&a, name);
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), late = 0;

	while (sock >= 0 && connect(sock, (struct sockaddr *)&a, len) && !(late = now() > until))
		nap();
	if (late)
		err_set(e, "rank 0 did not come to @%s; are all ranks on one host?", name);
	else if (sock < 0 || !own(sock) || send(sock, &h, sizeof h, MSG_NOSIGNAL) != sizeof h ||
	    !readable(sock, until) || (*fd = recv_fd(sock)) < 0)
		err_set(e, "rank %d was not taken in by rank 0 at @%s", rank, name);
	else {
		*peer = sock;
		return 0;
	}
	if (sock >= 0)
		close(sock);
	return -1;
}
