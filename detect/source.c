/* source.c -- the operands of a detector as one row of pictures.
 *
 * An operand is a picture, a folder, a list of names or a shard; its content says which, except
 * that a name that ends like a picture is one whatever it holds.  Operands are opened when their
 * turn comes, lists are read line by line: a pipe may go on for ever.  What cannot be had takes its
 * place in the row with the reason, for the caller to tell. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detect/detect.h"

enum { LINE_MAX_BYTES = 1 << 20 };

struct list {
	int fd;				/* -1: none open */
	char *label, *dir;		/* how messages call it; where its relative names may lie */
	char *buf;
	size_t pos, len, cap;
	int eof, begun;			/* begun: its first bytes have been looked at */
};
struct source {
	char *const *arg;
	int narg, at;
	int std_in;			/* no operand: the list on stdin, once */
	char **file;			/* the pictures of a folder, in order */
	size_t nfile, atfile, capfile;
	struct shard *shard, **opened;
	long record;
	int nopened;
	struct list list;
	int wake[2];
	volatile sig_atomic_t stop;
};

static struct source *
new_source(void)
{
	struct source *s = (struct source *)xcalloc(1, sizeof *s);

	s->list.fd = -1;
	if (pipe(s->wake))
		die(1, "pipe: %s", strerror(errno));
	return s;
}

struct source *
source_open(char *const *arg, int n)
{
	struct source *s = new_source();

	s->arg = arg;
	s->narg = n;
	s->std_in = n == 0;
	return s;
}

struct source *
source_shard(struct shard *shard)
{
	struct source *s = new_source();

	s->shard = shard;
	return s;
}

void
source_stop(struct source *s)
{
	int saved = errno;

	s->stop = 1;
	if (write(s->wake[1], "", 1) < 0)
		errno = saved;
	errno = saved;
}

static void
close_list(struct list *l)
{
	if (l->fd > 0)
		close(l->fd);
	free(l->label);
	free(l->dir);
	free(l->buf);
	memset(l, 0, sizeof *l);
	l->fd = -1;
}

void
source_close(struct source *s)
{
	if (!s)
		return;
	close_list(&s->list);
	for (; s->atfile < s->nfile; s->atfile++)
		free(s->file[s->atfile]);
	free(s->file);
	for (int i = 0; i < s->nopened; i++)
		shard_close(s->opened[i]);
	free(s->opened);
	close(s->wake[0]);
	close(s->wake[1]);
	free(s);
}

static int
refuse(struct where *w, const char *name, const char *why)
{
	size_t n = strlen(name);

	w->name = xstrdup(name);
	w->why = xstrdup(!strncmp(why, name, n) && !strncmp(why + n, ": ", 2) ? why + n + 2 : why);
	return 1;
}

/* ---- what an operand is -------------------------------------------------------------------- */

static int
text(const unsigned char *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] < 32 && b[i] != '\t' && b[i] != '\n' && b[i] != '\r')
			return 0;
	return 1;
}

static int
take_shard(struct source *s, const char *path, struct err *e)
{
	struct shard *h = shard_open(path, e);

	if (!h)
		return -1;
	s->opened = (struct shard **)xrealloc(s->opened,
	    (size_t)(s->nopened + 1) * sizeof *s->opened);
	s->opened[s->nopened++] = s->shard = h;
	s->record = 0;
	return 0;
}

static void
open_list(struct source *s, int fd, const char *label)
{
	s->list.fd = fd;
	s->list.label = xstrdup(label);
	s->list.dir = fd ? path_dir(label) : xstrdup(".");
}

/* ---- folders ------------------------------------------------------------------------------- */

/* In yolo-prep's order: what was packed first is told first. */
static int
open_folder(struct source *s, const char *dir, struct err *e)
{
	struct label_files all = { NULL, 0, 0 };
	int r = label_walk(dir, &all, e);

	s->nfile = s->atfile = 0;
	for (size_t i = 0; i < all.n; i++)
		if (!r && image_named(all.v[i])) {
			s->file = (char **)xgrow(s->file, &s->capfile, s->nfile + 1,
			    sizeof *s->file);
			s->file[s->nfile++] = xstrdup(all.v[i]);
		}
	label_files_free(&all);
	return !r && !s->nfile ? err_set(e, "%s: no pictures in this folder", dir) : r;
}

/* ---- lists --------------------------------------------------------------------------------- */

/* Could a line be had without waiting? */
static int
line_ready(struct source *s)
{
	struct list *l = &s->list;
	struct pollfd p = { l->fd, POLLIN, 0 };

	return l->eof || (l->len > l->pos && memchr(l->buf + l->pos, '\n', l->len - l->pos)) ||
	    poll(&p, 1, 0) > 0;
}

/* 1: more bytes, or the end.  0: told to stop.  -1: cannot be read. */
static int
fill(struct source *s)
{
	struct list *l = &s->list;
	struct pollfd p[2] = { { l->fd, POLLIN, 0 }, { s->wake[0], POLLIN, 0 } };
	ssize_t n;

	if (l->pos)
		memmove(l->buf, l->buf + l->pos, l->len - l->pos);
	l->len -= l->pos;
	l->pos = 0;
	l->buf = (char *)xgrow(l->buf, &l->cap, l->len + 8192, 1);
	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return -1;
	if (s->stop)
		return 0;
	if ((n = read(l->fd, l->buf + l->len, l->cap - l->len)) < 0)
		return errno == EINTR || errno == EAGAIN ? 1 : -1;
	l->eof = n == 0;
	l->len += (size_t)n;
	return 1;
}

/* 0: there is no name in the line. */
static int
look_up(struct where *w, const char *line, const char *dir)
{
	struct label_line at;
	int kind = label_line(line, dir, 0, &at);

	if (kind == LINE_EMPTY || kind == LINE_COMMENT) {
		free(at.name);
		return 0;
	}
	w->name = at.name;
	w->path = at.path ? at.path : xstrdup(at.name);
	return 1;
}

/* A picture or a shard where a list of names is read: 1 and why. */
static int
no_list(struct list *l, struct where *w)
{
	const unsigned char *b = (const unsigned char *)l->buf + l->pos;
	size_t n = l->len - l->pos;

	if (text(b, n < 512 ? n : 512) || (image_format(b, n) == IMG_UNKNOWN &&
	    (n < 4 || memcmp(b, "\x89YSH", 4))))
		return 0;
	l->eof = 1;
	l->pos = l->len;
	return refuse(w, l->label, "the bytes of a picture or a shard: want a list of names; a "
	    "file is an operand");
}

/* 1: a line's picture.  0: told to stop.  -1: the list is at its end. */
static int
next_line(struct source *s, struct where *w)
{
	struct list *l = &s->list;
	char *nl, *line;
	size_t n;
	int r;

	for (;;) {
		nl = l->len > l->pos ? (char *)memchr(l->buf + l->pos, '\n', l->len - l->pos) :
		    NULL;
		if (!nl && l->len - l->pos > LINE_MAX_BYTES) {
			l->eof = 1;
			l->pos = l->len;
			return refuse(w, l->label,
			    "a line of over a megabyte: not a list of names");
		}
		if (!nl && !l->eof) {
			if ((r = fill(s)) > 0)
				continue;
			l->eof = 1;
			return r ? refuse(w, l->label, strerror(errno)) : 0;
		}
		if (l->pos == l->len)
			return -1;
		if (!l->begun && no_list(l, w))
			return 1;
		if (!l->begun && l->len - l->pos >= 3 &&
		    !memcmp(l->buf + l->pos, "\xef\xbb\xbf", 3))
			l->pos += 3;	/* a byte order mark */
		l->begun = 1;
		line = l->buf + l->pos;
		n = nl ? (size_t)(nl - line) : l->len - l->pos;
		l->pos += n + (nl != NULL);
		while (n && line[n - 1] == '\r')
			n--;
		line = xasprintf("%.*s", (int)n, line);
		if (strlen(line) < n)
			r = refuse(w, line, "a NUL byte in a list of names: want each on "
			    "a line");
		else
			r = look_up(w, line, l->dir);
		free(line);
		if (r)
			return 1;
	}
}

/* ---- the row ------------------------------------------------------------------------------- */

static int
one_picture(struct where *w, const char *name)
{
	w->name = xstrdup(name);
	w->path = xstrdup(name);
	return 1;
}

/* A file whose name does not say that it is a picture.  1: w is filled, else it is open. */
static int
by_content(struct source *s, const char *arg, struct where *w)
{
	unsigned char head[512];
	int fd = open(arg, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
	struct err e;

	if (n < 0) {
		n = errno;
		if (fd >= 0)
			close(fd);
		return refuse(w, arg, strerror((int)n));
	}
	if (n == 0) {
		close(fd);
		return refuse(w, arg, "an empty file");
	}
	if (text(head, (size_t)n) && !lseek(fd, 0, SEEK_SET)) {
		open_list(s, fd, arg);
		return 0;
	}
	close(fd);
	if (!take_shard(s, arg, &e))
		return 0;
	n = (ssize_t)strlen(arg);
	if (n > 6 && !strcmp(arg + n - 6, ".shard"))
		return refuse(w, arg, e.msg);
	return one_picture(w, arg);
}

/* Open an operand.  1: w is a picture or a refusal; 0: a folder, list or shard is open. */
static int
operand(struct source *s, struct where *w)
{
	const char *arg = s->arg[s->at++];
	struct stat st;
	struct err e;
	int fd;

	if (!strcmp(arg, "-")) {
		open_list(s, 0, "stdin");
		return 0;
	}
	if (stat(arg, &st))
		return refuse(w, arg, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return open_folder(s, arg, &e) ? refuse(w, arg, e.msg) : 0;
	if (!S_ISREG(st.st_mode)) {		/* a pipe: its content can be read but once */
		if ((fd = open(arg, O_RDONLY | O_CLOEXEC)) < 0)
			return refuse(w, arg, strerror(errno));
		open_list(s, fd, arg);
		return 0;
	}
	if (image_named(arg))
		return one_picture(w, arg);
	return shard_again(s->arg, s->at - 1) ? 0 : by_content(s, arg, w);
}

int
source_next(struct source *s, struct where *w)
{
	int r;

	memset(w, 0, sizeof *w);
	while (!s->stop) {
		if (s->atfile < s->nfile) {
			w->path = s->file[s->atfile++];
			w->name = xstrdup(w->path);
			return 1;
		}
		if (s->shard && s->record < shard_count(s->shard)) {
			w->shard = s->shard;
			w->record = s->record++;
			return 1;
		}
		s->shard = NULL;
		if (s->list.fd >= 0) {
			if ((r = next_line(s, w)) >= 0)
				return r;
			close_list(&s->list);
		}
		if (s->std_in)
			open_list(s, s->std_in = 0, "stdin");
		else if (s->at == s->narg)
			return 0;
		else if (operand(s, w))
			return 1;
	}
	return 0;
}

int
source_ready(struct source *s)
{
	if (s->atfile < s->nfile || (s->shard && s->record < shard_count(s->shard)))
		return 1;
	return s->list.fd < 0 || line_ready(s);
}
