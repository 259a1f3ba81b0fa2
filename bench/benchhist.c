/* benchhist.c -- the history: a line of tab-separated values a run, appended for years.
 *
 * The first line says what the file is and its schema; the second names the columns, and so does
 * any later line that begins with #: a reader goes by names, so that columns can come and go.  What
 * yolo-bench step printed before there was a history (schema 0) is read likewise.
 *
 * A line is written under a lock (flock), by one write of O_APPEND, and synced.  A writer that was
 * killed, or a disk that filled up, may have left a part of a line: the next one finds no newline
 * at the end, and no end mark in the last column, and takes that part away.  Nothing else is ever
 * taken away. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/int.h"

enum { SCHEMA = 1, COLUMNS = 128 }; /* COLUMNS: more than any schema's */
static const char magic[] = "#yolo-bench history, schema ";
static const char old_head[] = "#cfg\tdevice\t"; /* of schema 0 */

const char *const bench_col_name[BENCH_COLS] = { "time", "key", "command", "commit", "build",
	"host", "cpu", "flags", "cores", "gpu", "driver", "cuda", "nccl", "kernel", "cfg",
	"cfg_digest", "device", "precision", "size", "batch", "ranks", "threads", "shard", "seed",
	"warmup", "n", "min_ms", "p10_ms", "median_ms", "p90_ms", "mad_ms", "cpu_ms", "img_s",
	"gflops", "gemm_peak", "share", "copy_gb_s", "copy_share", "wait_share", "mem_mb",
	"coco_117263_min", "coco_118287_min", "instructions", "joules", "load", "others", "steal",
	"mhz", "temp", "thermal", "throttled", "busy", "note", "end" };

/* What runs must have in common to be compared. */
static const enum bench_col alike[] = { COL_COMMAND, COL_HOST, COL_CPU, COL_FLAGS, COL_CORES,
	COL_GPU, COL_CFG, COL_CFG_DIGEST, COL_DEVICE, COL_PRECISION, COL_SIZE, COL_BATCH, COL_RANKS,
	COL_THREADS, COL_SHARD, COL_SEED };
enum { ALIKE = sizeof alike / sizeof *alike };

void
row_set(struct bench_row *r, enum bench_col c, const char *fmt, ...)
{
	va_list ap;

	free(r->v[c]);
	va_start(ap, fmt);
	if (vasprintf(&r->v[c], fmt, ap) < 0)
		die(1, "out of memory");
	va_end(ap);
}

const char *
row_get(const struct bench_row *r, enum bench_col c)
{
	return r->v[c] && *r->v[c] ? r->v[c] : "-";
}

double
row_num(const struct bench_row *r, enum bench_col c)
{
	double v;

	return r->v[c] && !num_real(r->v[c], -HUGE_VAL, HUGE_VAL, &v) ? v : NAN;
}

void
row_free(struct bench_row *r)
{
	for (int c = 0; c < BENCH_COLS; c++)
		free(r->v[c]);
	memset(r, 0, sizeof *r);
}

/* FNV-1a. */
void
row_key(struct bench_row *r)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (int i = 0; i < ALIKE; i++)
		for (const char *p = row_get(r, alike[i]);; p++) {
			h = (h ^ (unsigned char)*p) * 0x100000001b3u;
			if (!*p)
				break;
		}
	row_set(r, COL_KEY, "%08x", (unsigned)(h ^ h >> 32));
}

/* "step demo.cfg 160x160, batch 8, fp32 on cpu, 2 threads, host" and what else is there. */
char *
row_alike(const struct bench_row *r)
{
	static const struct {
		enum bench_col c;
		const char *before, *after;
	} part[] = { { COL_COMMAND, "", "" }, { COL_CFG, " ", "" }, { COL_SIZE, " ", "" },
		{ COL_BATCH, ", batch ", "" }, { COL_PRECISION, ", ", "" },
		{ COL_DEVICE, " on ", "" }, { COL_RANKS, ", ", " ranks" },
		{ COL_THREADS, ", ", " threads" }, { COL_GPU, ", ", "" },
		{ COL_SHARD, ", shard ", "" }, { COL_HOST, ", ", "" } };
	char *s = xstrdup(""), *t;

	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		const char *v = row_get(r, part[i].c);

		if (!strcmp(v, "-") || (part[i].c == COL_RANKS && !strcmp(v, "1")))
			continue;
		t = xasprintf("%s%s%s%s", s, part[i].before, v, part[i].after);
		free(s);
		s = t;
	}
	return s;
}

/* ---- a file as it is ---- */

/* 0: not there or empty; 1: a history of ours; -1: something else, or from the future. */
static int
recognise(const char *path, const char *text, size_t len, struct err *e)
{
	size_t m = sizeof magic - 1;
	long schema;

	if (!len)
		return 0;
	if (len >= sizeof old_head - 1 && !memcmp(text, old_head, sizeof old_head - 1))
		return 1;
	if (memcmp(text, magic, len < m ? len : m))
		return err_set(e,
		    "%s:1: not a history of yolo-bench: want a new file, or one that "
		    "begins \"%s\"",
		    path, magic);
	if (len <= m || !memchr(text, '\n', len))
		return 0; /* cut within the first line */
	schema = strtol(text + m, NULL, 10);
	if (schema > SCHEMA)
		return err_set(e,
		    "%s:1: history of schema %ld, this program knows %d and older: "
		    "want a newer yolo-bench",
		    path, schema, SCHEMA);
	return 1;
}

static int
is_file(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_set(e, "%s: %s", path, strerror(errno));
	return S_ISREG(st.st_mode) ? 0 : err_set(e, "%s: not a plain file", path);
}

int
hist_fit(const char *path, struct err *e)
{
	char head[512];
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK), bad;
	ssize_t n;

	if (fd < 0 && errno == ENOENT) {
		char *dir = path_dir(path);

		bad = access(dir, W_OK) ? err_set(e, "%s: %s", path, strerror(errno)) : 0;
		free(dir);
		return bad;
	}
	if (fd < 0)
		return err_set(e, "%s: %s", path, strerror(errno));
	bad = is_file(fd, path, e);
	if (!bad && (n = pread(fd, head, sizeof head, 0)) < 0)
		bad = err_set(e, "%s: %s", path, strerror(errno));
	if (!bad)
		bad = recognise(path, head, (size_t)n, e) < 0 ? -1 : 0;
	close(fd);
	return bad;
}

/* Does a line end as a whole one does, in TAB and a point? */
static int
whole(const char *line, size_t n)
{
	return n > 2 && line[n - 2] == '\t' && line[n - 1] == '.';
}

/* What text the line must go behind: "" or a newline, or a head.  Takes a torn tail away.  The file
 * is locked. */
static int
repair(int fd, const char *path, const char **before, int *head, struct err *e)
{
	size_t len = 0, tail, line;
	off_t size = lseek(fd, 0, SEEK_END);
	char *text = size > 0 ? file_read(path, (size_t)size, &len, e) : xstrdup(""), *last;
	int known = text ? recognise(path, text, len, e) : -1;

	*before = "";
	*head = 1;
	if (known < 0) {
		free(text);
		return -1;
	}
	for (line = tail = 0; tail < len; tail++) /* behind the last newline */
		if (text[tail] == '\n')
			line = tail + 1;
	if (line < len && known && whole(text + line, len - line))
		*before = "\n";
	else if (line < len) {
		warn("%s: %zu bytes at the end are a line that was never finished: taken away",
		    path, len - line);
		if (ftruncate(fd, (off_t)line)) {
			err_set(e, "%s: %s", path, strerror(errno));
			free(text);
			return -1;
		}
		text[line] = 0;
	}
	for (last = text; (last = strstr(last, "\n#time\t"));) { /* the last head's */
		char *end = strchr(++last, '\n'), *p = last + 1;

		for (int c = *head = 0; c < BENCH_COLS; c++) {
			size_t n = strlen(bench_col_name[c]);

			*head |= strncmp(p, bench_col_name[c], n) || !strchr("\t\n", p[n]);
			p += *head ? 0 : n + 1;
		}
		*head |= !end || p != end + 1;
	}
	free(text);
	return 0;
}

static void
put_row(FILE *f, const struct bench_row *r)
{
	for (int c = 0; c < BENCH_COLS; c++) {
		const char *v = c == COL_END ? "." : row_get(r, (enum bench_col)c);

		if (c)
			putc('\t', f);
		for (; *v; v++)
			putc((unsigned char)*v < ' ' || *v == 127 ? ' ' : *v, f);
	}
	putc('\n', f);
}

static int
write_line(int fd, const char *path, const struct bench_row *r, struct err *e)
{
	const char *before;
	char *text = NULL;
	size_t len = 0;
	ssize_t n;
	int head;
	FILE *f;
	off_t size;

	if (repair(fd, path, &before, &head, e))
		return -1;
	size = lseek(fd, 0, SEEK_END);
	if (!(f = open_memstream(&text, &len)))
		die(1, "out of memory");
	fputs(before, f);
	if (!size)
		fprintf(f, "%s%d\n", magic, SCHEMA);
	for (int c = 0; head && c < BENCH_COLS; c++)
		fprintf(f, "%s%s%s", c ? "\t" : "#", bench_col_name[c],
		    c == BENCH_COLS - 1 ? "\n" : "");
	put_row(f, r);
	fclose(f);
	do
		n = write(fd, text, len);
	while (n < 0 && errno == EINTR);
	free(text);
	if (n == (ssize_t)len && !fdatasync(fd))
		return 0;
	err_set(e, "%s: %s", path,
	    n >= 0 && n < (ssize_t)len ? "no room for the line" : strerror(errno));
	if (n > 0 && ftruncate(fd, size))
		warn("%s: holds a part of a line, which the next run takes away", path);
	return -1;
}

int
hist_append(const char *path, struct bench_row *r, struct err *e)
{
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666), bad;

	if (fd < 0)
		return err_set(e, "%s: %s", path, strerror(errno));
	bad = is_file(fd, path, e);
	while (!bad && flock(fd, LOCK_EX))
		if (errno != EINTR)
			bad = err_set(e, "%s: lock: %s", path, strerror(errno));
	bad = bad || write_line(fd, path, r, e) ? -1 : 0;
	close(fd); /* and with it the lock */
	return bad;
}

/* ---- reading ---- */

/* Names that schema 0 had for columns of today. */
static const char *const older[][2] = { { "step_ms", "median_ms" }, { NULL, NULL } };

struct columns {
	int to[COLUMNS], n;
}; /* to: the column of ours, -1: none */

static void
learn(struct columns *c, char *line)
{
	c->n = 0;
	for (char *name = line + 1; name && c->n < COLUMNS; c->n++) {
		char *tab = strchr(name, '\t');

		if (tab)
			*tab++ = 0;
		for (int i = 0; older[i][0]; i++)
			if (!strcmp(name, older[i][0]))
				name = (char *)older[i][1];
		c->to[c->n] = -1;
		for (int i = 0; i < BENCH_COLS; i++)
			if (!strcmp(name, bench_col_name[i]))
				c->to[c->n] = i;
		name = tab;
	}
}

/* -1: another number of columns than the head has. */
static int
take(struct hist *h, const struct columns *c, char *line)
{
	struct bench_row *r;
	int n = 1;

	for (const char *p = line; *p; p++)
		n += *p == '\t';
	if (n != c->n)
		return -1;
	h->row = (struct bench_row *)xgrow(h->row, &h->cap, (size_t)h->n + 1, sizeof *h->row);
	r = &h->row[h->n++];
	memset(r, 0, sizeof *r);
	for (int i = 0; i < n; i++) {
		char *tab = strchr(line, '\t');

		if (tab)
			*tab++ = 0;
		if (c->to[i] >= 0 && strcmp(line, "-"))
			row_set(r, (enum bench_col)c->to[i], "%s", line);
		line = tab;
	}
	if (!r->v[COL_COMMAND]) { /* schema 0 was of step alone */
		row_set(r, COL_COMMAND, "step");
		row_key(r);
	}
	return 0;
}

int
hist_read(const char *path, struct hist *h, struct err *e)
{
	struct columns c = { .n = 0 };
	size_t len;
	char *text = file_read(path, (size_t)1 << 30, &len, e), *next;
	int line = 0, bad = 0, first = 0, old, skip = 0;

	memset(h, 0, sizeof *h);
	if (!text)
		return -1;
	if (strlen(text) != len || recognise(path, text, len, e) < 0) {
		if (strlen(text) != len)
			err_set(e, "%s: not a history: it holds zero bytes", path);
		free(text);
		return -1;
	}
	old = !strncmp(text, old_head, sizeof old_head - 1);
	for (char *p = text; *p; p = next) {
		size_t n = strcspn(p, "\n");

		line++;
		next = p + n + (p[n] == '\n');
		if (!p[n] && !whole(p, n) && !old)
			break; /* being written, or torn: the next writer sees */
		p[n] = 0;
		if (*p == '#') {
			skip = old && strncmp(p, old_head, sizeof old_head - 1) &&
			       strncmp(p, "#time\t", 6); /* a table of layers */
			if (strncmp(p, magic, sizeof magic - 1))
				learn(&c, p);
		} else if (n && !skip && take(h, &c, p) && !bad++)
			first = line;
	}
	if (bad)
		warn("%s:%d: not as many columns as its head names; %d such line%s left out", path,
		    first, bad, bad > 1 ? "s" : "");
	free(text);
	return 0;
}

void
hist_close(struct hist *h)
{
	for (int i = 0; i < h->n; i++)
		row_free(&h->row[i]);
	free(h->row);
	memset(h, 0, sizeof *h);
}
