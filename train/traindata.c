/* traindata.c -- the pictures of a run: its train.shard and val.shard.
 *
 * What is not a shard is packed once into the run's folder by yolo-prep; a shard elsewhere is
 * linked there, so that -R finds it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "yolo.h"

static int
is_shard(const char *path)
{
	struct err e;
	struct shard *s;

	if (path_isdir(path) || access(path, R_OK) || !strcmp(path, "-"))
		return 0;
	if (!(s = shard_open(path, &e)))
		return 0;
	shard_close(s);
	return 1;
}

/* Run yolo-prep, which stands beside this program, on the inputs. */
static int
pack(const struct train_cmd *c, char *const *in, int n, const char *out, struct err *e)
{
	char self[4096], *prep;
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
	char **argv = (char **)xcalloc((size_t)n + 8, sizeof *argv);
	int k = 0, status;
	pid_t pid;

	if (len < 0)
		len = 0;
	self[len] = 0;
	*(char *)(path_base(self) - self + self) = 0;
	prep = xasprintf("%syolo-prep", self);
	argv[k++] = prep;
	if (quiet)
		argv[k++] = (char *)"-q";
	if (c->arg['n']) {
		argv[k++] = (char *)"-n";
		argv[k++] = (char *)c->arg['n'];
	}
	argv[k++] = (char *)"-o";
	argv[k++] = (char *)out;
	argv[k++] = (char *)"--";
	for (int i = 0; i < n; i++)
		argv[k++] = in[i];
	fflush(NULL);
	if (!(pid = fork())) {
		execvp(len ? prep : "yolo-prep", argv);
		warn("%s: %s", prep, strerror(errno));
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		status = -1;
	free(prep);
	free(argv);
	if (!status)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) < 3) {
		e->msg[0] = 0;		/* yolo-prep has said why */
		return -1;
	}
	return err_set(e, "packing %s failed", in[0]);
}

/* The link is made under another name: whoever looks finds the old one or the new one. */
static int
link_to(const char *real, const char *path, struct err *e)
{
	char *tmp = path_tmp(path);
	int made = !symlink(real, tmp);
	int bad = !made || rename(tmp, path);

	if (bad) {
		err_set(e, "%s: %s", path, strerror(errno));
		if (made)
			unlink(tmp);
	}
	free(tmp);
	return bad;
}

/* Is there a file at path, no link, that the command names? */
static int
is_input(const struct train_cmd *c, const char *path)
{
	int named = c->arg['v'] && path_same(c->arg['v'], path);
	struct stat st;

	for (int i = 0; i < c->nin; i++)
		named |= path_same(c->in[i], path);
	return named && !lstat(path, &st) && S_ISREG(st.st_mode);
}

/* NAME.shard in the run's folder: packed from the inputs, or a link to a shard.  Named as the only
 * input it stays what it is. */
static struct shard *
data(struct train_cmd *c, const char *name, char *const *in, int n, struct err *e)
{
	char *file = xasprintf("%s.shard", name), *path = path_join(c->dir, file), *real;
	struct shard *s = NULL;

	while (n > 1 && shard_again(in, n - 1))
		n--;			/* the pieces of one set are one shard */
	if (n == 1 && path_same(in[0], path))
		n = 0;
	if (n && is_input(c, path))
		err_set(e, "%s: an input, which would be written over: -o names another folder",
		    path);
	else if (n == 1 && is_shard(in[0]) && (real = realpath(in[0], NULL))) {
		if (!link_to(real, path, e))
			s = shard_open(path, e);
		free(real);
	} else if ((n && !pack(c, in, n, path, e)) || (!n && !access(path, R_OK)))
		s = shard_open(path, e);
	else if (!n)
		err_set(e, "%s: %s; if the data are elsewhere now, name them again, -v those of "
		    "the validation", path, strerror(errno));
	free(file);
	free(path);
	return s;
}

/* Data named again by a resumed run: it may have moved, but it must be the same.  Until that is
 * known the run's own stays where it is.  uuid NULL: what it was is not known any more. */
static struct shard *
same_data(struct train_cmd *c, const char *name, char *const *in, int n, const char *uuid,
    struct err *e)
{
	char *again = xasprintf("%s.again", name), *path = xasprintf("%s/%s.shard", c->dir, name);
	char *other = xasprintf("%s/%s.shard", c->dir, again);
	int own = n == 1 && path_same(in[0], path);
	struct shard *s = own ? data(c, name, NULL, 0, e) : data(c, again, in, n, e);
	int bad = !s;

	if (s && uuid && strcmp(shard_uuid(s), uuid))
		bad = err_set(e, "%s: not the data that the run was started with (uuid %s, was %s)",
		    in[0], shard_uuid(s), uuid);
	else if (s && !own && rename(other, path))
		bad = err_set(e, "%s: %s", path, strerror(errno));
	if (bad) {
		unlink(other);
		shard_close(s);
	}
	free(again);
	free(path);
	free(other);
	return bad ? NULL : s;
}

static int
open_again(struct train_cmd *c, struct err *e)
{
	char *path = path_join(c->dir, "val.shard"), *const in[] = { (char *)c->arg['v'] };
	struct stat st;
	struct err why;
	int had = !lstat(path, &st);
	struct shard *val;

	c->train = c->nin ? same_data(c, "train", c->in, c->nin, c->from.data, e) :
	    data(c, "train", NULL, 0, e);
	if (c->train && strcmp(shard_uuid(c->train), c->from.data)) {
		err_set(e,
		    "%s/train.shard: not the data that the run was started with (uuid %s, was %s)",
		    c->dir, shard_uuid(c->train), c->from.data);
		had = -1;
	} else if (c->arg['v'] && !had) {
		err_set(e, "-v %s: the run was started without it", in[0]);
		had = -1;
	} else if (c->train && c->arg['v']) {
		val = shard_open(path, &why);
		c->val = same_data(c, "val", in, 1, val ? shard_uuid(val) : NULL, e);
		shard_close(val);
	} else if (c->train && had)
		c->val = data(c, "val", NULL, 0, e);
	free(path);
	return !c->train || had < 0 || (had && !c->val) ? -1 : 0;
}

/* Class i of the network is class i of the training data; in the validation it must be, too. */
static int
same_classes(const struct train_cmd *c, struct err *e)
{
	char **ours, **theirs;
	int64_t *id;
	int n = shard_classes(c->train, &ours, &id), m = shard_classes(c->val, &theirs, &id);

	for (int i = 0; i < n && i < m; i++)
		if (ours[i] && theirs[i] && strcmp(ours[i], theirs[i]))
			return err_set(e, "-v %s: its class %d is '%s', in the training data that "
			    "is '%s': want both packed with the same list of names (-n)",
			    c->arg['v'], i, theirs[i], ours[i]);
	if (m > n)
		warn("-v %s: it has %d classes, the training data %d: the others are never found",
		    c->arg['v'], m, n);
	return 0;
}

int
train_data(struct train_cmd *c, struct err *e)
{
	char *const in[] = { (char *)c->arg['v'] };

	if (c->resume) {
		if (open_again(c, e))
			return -1;
	} else if (!(c->train = data(c, "train", c->in, c->nin, e)) ||
	    (in[0] && (!(c->val = data(c, "val", in, 1, e)) || same_classes(c, e))))
		return -1;
	if (shard_count(c->train) < 1)
		return err_set(e, "%s/train.shard: no pictures to train on", c->dir);
	return 0;
}

/* The boxes of each class that are trained on, where weights are to follow from them. */
int
train_weigh(struct train_cmd *c, struct err *e)
{
	int head[MAX_HEADS], n = cfg_heads(c->cfg, head, MAX_HEADS), bad = 0;
	int classes = n ? c->cfg->l[head[0]].u.yolo.classes : 0;
	const char *say = settings_str(&c->set, "class_counts");
	long *count = (long *)xcalloc((size_t)classes + 1, sizeof *count);
	struct record r;

	for (long i = 0; say && !strcmp(say, "auto") && i < shard_count(c->train) && !bad; i++) {
		bad = shard_labels(c->train, i, &r, e);
		for (int k = 0; !bad && k < r.nbox; k++)
			if (!(r.box[k].flags & (BOX_CROWD | BOX_DIFFICULT)))
				count[r.box[k].cls]++;
	}
	bad = bad || recipe_classes(&c->recipe, c->cfg, &c->set, count, e);
	free(count);
	return bad ? -1 : 0;
}
