/* util.c -- messages, memory, numbers, whole files.
 *
 * Errors travel as one line in a struct err; only the programs print them.  Memory that runs out
 * ends the program: no caller has a better answer.  An output file is written under another name,
 * synced and renamed, so that a reader sees all of it or nothing. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

const char *prog = "yolo";
int quiet;
static int progress_len, stdout_told;

int
err_set(struct err *e, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof e->msg)
		memcpy(e->msg + sizeof e->msg - 4, "...", 4);
	for (char *p = e->msg; *p; p++)		/* names may hold anything; a message is one line */
		if (*p == '\n' || *p == '\r')
			*p = ' ';
	return -1;
}

static void
message(const char *fmt, va_list ap)
{
	char line[2048];

	vsnprintf(line, sizeof line, fmt, ap);
	for (char *p = line; *p; p++)	/* names may hold anything: a terminal must not obey it */
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = *p == '\n' || *p == '\r' || *p == '\t' ? ' ' : '?';
		else if ((unsigned char)*p == 0xc2 && (unsigned char)p[1] >= 0x80 &&
		    (unsigned char)p[1] < 0xa0)
			p[0] = p[1] = '?';	/* the same, with the eighth bit, in UTF-8 */
	progress_end();
	fprintf(stderr, "%s: %s\n", prog, line);	/* one write: lines of ranks do not mix */
}

void
warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message(fmt, ap);
	va_end(ap);
}

void
die(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message(fmt, ap);
	va_end(ap);
	exit(status);
}

void
progress(const char *fmt, ...)
{
	char line[256];
	va_list ap;
	int n;

	if (quiet || !isatty(STDERR_FILENO))
		return;
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof line - 1)
		n = sizeof line - 1;
	fprintf(stderr, "\r%s%*s", line, progress_len > n ? progress_len - n : 0, "");
	progress_len = n;
	fflush(stderr);
}

void
progress_end(void)
{
	if (progress_len)
		fprintf(stderr, "\r%*s\r", progress_len, "");
	progress_len = 0;
}

void *
xmalloc(size_t n)
{
	return xrealloc(NULL, n);
}

void *
xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		die(1, "out of memory (%zu x %zu bytes)", n, size);
	return p;
}

void *
xrealloc(void *old, size_t n)
{
	void *p = realloc(old, n ? n : 1);

	if (!p)
		die(1, "out of memory (%zu bytes)", n);
	return p;
}

char *
xstrdup(const char *s)
{
	return (char *)memcpy(xmalloc(strlen(s) + 1), s, strlen(s) + 1);
}

char *
xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		die(1, "out of memory");
	return s;
}

void *
xgrow(void *p, size_t *cap, size_t need, size_t size)
{
	size_t n = *cap ? *cap : 16;

	if (need <= *cap)
		return p;
	while (n < need)
		n += n / 2;
	if (n > SIZE_MAX / size)
		die(1, "out of memory (%zu items)", n);
	*cap = n;
	return xrealloc(p, n * size);
}

double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* A descriptor of 0 to 2 that is closed goes to the next file that is opened, and messages into it:
 * /dev/null takes its place, opened so that use of it fails like that of a closed one. */
static void
std_open(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			exit(1);		/* no place for a message, either */
}

/* A package has the programs that compute built for several processors (make deb): LIB/yolo/LEVEL
 * beside the bin of the plain ones.  The newest that this processor runs; NULL: there is none. */
static const char *
better_build(const char *self, char *path, size_t size)
{
	const char *const level[] = { "x86-64-v4", "x86-64-v3" };
	int has[2] = { 0, 0 };

#if defined(__x86_64__)
	has[1] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	    __builtin_cpu_supports("bmi2");
	has[0] = has[1] && __builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512vl");
#endif
	for (int i = 0; i < 2; i++) {
		int dir = (int)(path_base(self) - self);

		if (has[i] && (size_t)snprintf(path, size, "%.*s../lib/yolo/%s/%s", dir, self,
		    level[i], self + dir) < size && !access(path, X_OK))
			return path;
	}
	return NULL;
}

/* libgomp's threads spin for milliseconds at every barrier, which on a shared machine starves the
 * very thread they wait for (a small net's training took 10 times as long).  It reads its settings
 * before main, so the program starts itself anew once, with a short spin. */
void
calm_threads(char **argv)
{
	char self[4096], path[4200];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	const char *again;
	int calm = getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY");

	std_open();
	if (n < 0)
		return;
	self[n] = 0;			/* its own path, so that ps shows its name */
	again = better_build(self, path, sizeof path);
	if (!calm && !setenv("GOMP_SPINCOUNT", "1000", 1) && !again)
		again = self;
	if (again)
		execv(again, argv);	/* where that fails, nothing is lost but calm or speed */
}

/* A container's share of the CPUs is a quota, not a mask; version 2 in one file, 1 in two.  In
 * whole processors, 0 where there is none. */
static int
quota(void)
{
	const char *file[] = { "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
	    "/sys/fs/cgroup/cpu/cpu.cfs_period_us" };
	long v[3] = { -1, -1, -1 };
	FILE *f;

	if ((f = fopen(file[0], "r"))) {
		if (fscanf(f, "%ld %ld", &v[1], &v[2]) != 2)	/* "max 100000": no quota */
			v[1] = -1;
		fclose(f);
	} else
		for (int i = 1; i < 3; i++)
			if ((f = fopen(file[i], "r"))) {
				if (fscanf(f, "%ld", &v[i]) != 1)
					v[i] = -1;
				fclose(f);
			}
	return v[1] > 0 && v[2] > 0 ? (int)((v[1] + v[2] - 1) / v[2]) : 0;
}

double
memory_bytes(void)
{
	static const char *const file[] = { "/sys/fs/cgroup/memory.max",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes" };
	double most = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), v;
	struct rlimit r;

	for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
		FILE *f = fopen(file[i], "r");

		if (f && fscanf(f, "%lf", &v) == 1 && v > 0 && v < most)
			most = v;
		if (f)
			fclose(f);
	}
	if (!getrlimit(RLIMIT_AS, &r) && r.rlim_cur != RLIM_INFINITY && (double)r.rlim_cur < most)
		most = (double)r.rlim_cur;
	return most;
}

/* OpenMP counts the processors: where it has bound this thread to one place it knows the others.
 * OMP_NUM_THREADS may be a list, of which the first is for the outer loops, the only ones here. */
int
cores(void)
{
	const char *omp = getenv("OMP_NUM_THREADS");
	int n = omp_get_num_procs(), q = quota();
	char *end;
	long v;

	if (q > 0 && q < n)
		n = q;
	if (omp && (v = strtol(omp, &end, 10)) > 0 && v < n && (!*end || strchr(", \t", *end)))
		n = (int)v;
	return n < 1 ? 1 : n;
}

int
num_int(const char *s, long lo, long hi, long *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(s, &end, 10);
	if (end == s || *end || errno || v < lo || v > hi)
		return -1;
	*out = v;
	return 0;
}

int
num_digits(const char *s, size_t n, int64_t *out)
{
	size_t minus = n && *s == '-';
	int64_t v = 0;

	if (n == minus)
		return -1;
	for (size_t i = minus; i < n; i++) {
		unsigned d = (unsigned)(s[i] - '0');

		if (d > 9 || v > (INT64_MAX - d) / 10)
			return -1;
		v = v * 10 + d;
	}
	*out = minus ? -v : v;
	return 0;
}

const char *
num_id(const char *s, size_t n, double v, int64_t *out)
{
	size_t digits = 0;

	if (!num_digits(s, n, out))
		return NULL;
	while (digits < n && (s[digits] == '-' || (s[digits] >= '0' && s[digits] <= '9')))
		digits++;
	if (digits == n || !isfinite(v))
		return "an id is beyond 64 bits";
	if (v != floor(v))
		return "an id is not a whole number";
	if (fabs(v) > 9e15)
		return "an id above 9e15 is not written out in digits";
	*out = (int64_t)v;
	return NULL;
}

int
num_real(const char *s, double lo, double hi, double *out)
{
	static locale_t c;		/* made once; every thread sees the same value */
	locale_t l = c;
	char *end;
	double v;

	if (!l && !(c = l = newlocale(LC_ALL_MASK, "C", (locale_t)0)))
		return -1;
	errno = 0;
	v = strtod_l(s, &end, l);
	if (end == s || *end || !isfinite(v) || v < lo || v > hi)
		return -1;
	*out = v;
	return 0;
}

int
num_list(const char *s, int max, double lo, double hi, double *out)
{
	char *copy = xstrdup(s);
	int n = 0;

	for (char *p = copy, *comma; p && n >= 0; p = comma) {
		if ((comma = strchr(p, ',')))
			*comma++ = 0;
		n = n < max && !num_real(p, lo, hi, &out[n]) ? n + 1 : -1;
	}
	free(copy);
	return n;
}

int
num_side(const char *s, int *w, int *h)
{
	char *end;
	long a = strtol(s, &end, 10), b = a;

	if (end != s && *end == 'x' && end[1] >= '0' && end[1] <= '9')
		b = strtol(end + 1, &end, 10);
	if (end == s || *end || a < 1 || b < 1 || a > 65536 || b > 65536)
		return -1;
	*w = (int)a;
	*h = (int)b;
	return 0;
}

/* What file_read says of it; f stays open. */
static char *
read_all(FILE *f, const char *path, size_t max, size_t *len, struct err *e)
{
	size_t cap = 0, n = 0, got;
	char *buf = NULL;
	int fault;

	do {
		buf = (char *)xgrow(buf, &cap, n + 65537, 1);
		n += got = fread(buf + n, 1, cap - n - 1, f);
	} while (got && n <= max);
	fault = ferror(f) ? errno : 0;
	if (fault || n > max) {
		if (fault)
			err_set(e, "%s: %s", path, strerror(fault));
		else
			err_set(e, "%s: larger than %zu bytes", path, max);
		free(buf);
		return NULL;
	}
	buf[n] = 0;
	*len = n;
	return buf;
}

char *
file_read(const char *path, size_t max, size_t *len, struct err *e)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
	char *buf;

	if (!f) {
		err_set(e, "%s: %s", path, strerror(errno));
		return NULL;
	}
	buf = read_all(f, path, max, len, e);
	if (f != stdin)
		fclose(f);
	return buf;
}

FILE *
plain_open(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	FILE *f = NULL;

	if (fd < 0 || fstat(fd, &st))
		err_set(e, "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		err_set(e, "%s: %s", path, S_ISDIR(st.st_mode) ? strerror(EISDIR) :
		    "a pipe or a device, want a plain file");
	else if (!(f = fdopen(fd, "rb")))
		die(1, "out of memory");
	if (!f && fd >= 0)
		close(fd);
	return f;
}

char *
plain_read(const char *path, size_t max, size_t *len, struct err *e)
{
	FILE *f = plain_open(path, e);
	char *buf = f ? read_all(f, path, max, len, e) : NULL;

	if (f)
		fclose(f);
	return buf;
}

long
file_head(const char *path, void *buf, size_t n, struct err *e)
{
	FILE *f = NULL;
	struct stat st;
	size_t got;
	int fault;

	if (path_there(path) && (stat(path, &st) || S_ISREG(st.st_mode)) &&
	    !(f = plain_open(path, e)))
		return -1;
	if (!f)
		return 0;
	got = fread(buf, 1, n, f);
	fault = ferror(f) ? errno : 0;
	fclose(f);
	return fault ? err_set(e, "%s: %s", path, strerror(fault)) : (long)got;
}

char *
path_join(const char *dir, const char *name)
{
	size_t n = strlen(dir);

	if (*name == '/' || !n || !strcmp(dir, "."))
		return xstrdup(name);
	return xasprintf(dir[n - 1] == '/' ? "%s%s" : "%s/%s", dir, name);
}

char *
path_dir(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return xasprintf("%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* Beside the program, as in a source tree; where "make install" puts it, also for a package's
 * programs of newer processors, which lie in lib/yolo/LEVEL/. */
char *
path_stock(const char *name)
{
	static const char *const place[] = { ".", "../share/yolo", "../../../share/yolo" };
	char self[4096], *dir;
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

	if (path_there(name) || len < 0 || !strcmp(name, "-"))
		return xstrdup(name);
	self[len] = 0;
	dir = path_dir(self);
	for (int i = 0; i < 6; i++) {
		char *path = xasprintf("%s/%s%s/%s", dir, place[i / 2], i % 2 ? "/cfg" : "", name);

		if (!access(path, R_OK)) {
			free(dir);
			return path;
		}
		free(path);
	}
	free(dir);
	return xstrdup(name);
}

const char *
path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

int
path_there(const char *path)
{
	return !access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR &&
	    errno != ENAMETOOLONG);
}

int
path_isdir(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

int
path_same(const char *a, const char *b)
{
	struct stat s, t;

	return !stat(a, &s) && !stat(b, &t) && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

/* An input may be FILE:PART: the file's name, free(). */
static char *
input_file(const char *input)
{
	char *s = xstrdup(input), *colon;

	while (access(s, F_OK) && (colon = strrchr(s, ':')))
		*colon = 0;
	if (!access(s, F_OK))
		return s;
	free(s);
	return xstrdup(input);
}

/* Are both one file, or would they be, of those that are not there yet?  A pipe, a device or a
 * folder is not written over. */
static int
one_file(const char *a, const char *b)
{
	struct stat s, t;
	char *da, *db, *ra, *rb;
	int one;

	if (!stat(a, &s) || !stat(b, &t))
		return path_same(a, b) && !stat(a, &s) && S_ISREG(s.st_mode);
	da = path_dir(a);
	db = path_dir(b);
	ra = realpath(da, NULL);
	rb = realpath(db, NULL);
	one = ra && rb && !strcmp(ra, rb) && !strcmp(path_base(a), path_base(b));
	free(da);
	free(db);
	free(ra);
	free(rb);
	return one;
}

int
path_clash(const char *const *out, int nout, const char *const *in, int nin, struct err *e)
{
	int clash = 0;

	for (int i = 0; i < nout && !clash; i++) {
		if (!out[i] || !strcmp(out[i], "-"))
			continue;
		for (int k = i + 1; k < nout && !clash; k++)
			if (out[k] && strcmp(out[k], "-") && one_file(out[i], out[k]))
				clash = err_set(e, "%s: named for two outputs: the second would be "
				    "written over the first", out[k]);
		for (int k = 0; k < nin && !clash; k++) {
			char *file = in[k] && strcmp(in[k], "-") ? input_file(in[k]) : NULL;

			if (file && one_file(out[i], file))
				clash = err_set(e, "%s: an output that is an input, which would be "
				    "written over", out[i]);
			free(file);
		}
	}
	return clash;
}

char *
path_tmp(const char *path)
{
	enum { MOST = 220 };
	const char *base = path_base(path);
	int len = (int)strlen(base);
	unsigned r;

	if (getrandom(&r, sizeof r, 0) != sizeof r)
		r = (unsigned)(now() * 1e9);	/* an old kernel: whoever makes it says O_EXCL */
	if (len > MOST)			/* a name may have 255 bytes: room for what is added */
		len = MOST;
	return xasprintf("%.*s.tmp.%ld.%08x", (int)(base - path) + len, path, (long)getpid(), r);
}

/* A name nobody could have laid a file or link under before. */
static FILE *
open_tmp(const char *path, char **tmp)
{
	FILE *f;
	int fd;

	do {
		free(*tmp);
		*tmp = path_tmp(path);
		fd = open(*tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	} while (fd < 0 && errno == EEXIST);
	if (fd < 0)
		return NULL;
	tmp_begin(*tmp);
	if (!(f = fdopen(fd, "wb")))
		die(1, "out of memory");
	return f;
}

int
out_open(struct outfile *o, const char *path, struct err *e)
{
	struct stat st;

	memset(o, 0, sizeof *o);
	if (!strcmp(path, "-"))
		o->f = stdout;
	else if (!stat(path, &st) && !S_ISREG(st.st_mode))
		o->f = fopen(path, "wb");	/* a pipe or a device stays what it is */
	else
		o->f = open_tmp(path, &o->tmp);
	if (!o->f) {
		err_set(e, "%s: %s", path, strerror(errno));
		free(o->tmp);
		return -1;
	}
	o->path = xstrdup(path);
	return 0;
}

static void
sync_dir(const char *path)
{
	char *dir = path_dir(path);
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(dir);
}

int
out_commit(struct outfile *o, struct err *e)
{
	int bad;

	if (o->f == stdout)
		bad = stdout_flush(e);
	else {
		bad = ferror(o->f) | fflush(o->f) | (o->tmp && fsync(fileno(o->f)));
		bad |= fclose(o->f);
		if (bad || (o->tmp && rename(o->tmp, o->path)))
			bad = err_set(e, "%s: %s", o->path,
			    errno ? strerror(errno) : "write failed");
	}
	if (o->tmp && bad)
		unlink(o->tmp);
	else if (o->tmp)
		sync_dir(o->path);
	if (o->tmp)
		tmp_end(o->tmp);
	free(o->path);
	free(o->tmp);
	o->f = NULL;
	return bad ? -1 : 0;
}

void
out_abort(struct outfile *o)
{
	if (!o->f)
		return;
	if (o->f != stdout)
		fclose(o->f);
	if (o->tmp) {
		unlink(o->tmp);
		tmp_end(o->tmp);
	}
	free(o->path);
	free(o->tmp);
	o->f = NULL;
}

int
stdout_flush(struct err *e)
{
	int bad = ferror(stdout);

	if (!fflush(stdout) && !bad)
		return 0;
	stdout_told = 1;
	return err_set(e, "stdout: %s", errno ? strerror(errno) : "write failed");
}

/* At exit: what nobody flushed. */
static void
last_flush(void)
{
	struct err e;

	if (stdout_told || !stdout_flush(&e))
		return;
	warn("%s", e.msg);
	_exit(1);
}

void
program(char **argv, const char *name)
{
	std_open();
	prog = name;
	argv[0] = (char *)name;
	atexit(last_flush);
}

int
utf8_len(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	int n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : *s >= 0xe0 && *s < 0xf0 ? 3 :
	    *s >= 0xf0 && *s < 0xf5 ? 4 : 0;

	for (int i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] >= 0xa0) ||
	    (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] >= 0x90))
		return 0;		/* too long a form, half a pair, beyond the last */
	return n;
}

int
utf8_is(const char *s)
{
	int n = 1;

	for (; *s && n; s += n)
		n = utf8_len(s);
	return n > 0;
}

/* A file gets a name as it is; a terminal must not obey it. */
void
tsv_name(FILE *f, const char *s)
{
	for (; *s; s++)
		if (((unsigned char)*s < ' ' || *s == 127) && !strchr("\t\n", *s) &&
		    isatty(fileno(f)))
			putc('?', f);
		else switch (*s) {
		case '\t': fputs("\\t", f); break;
		case '\n': fputs("\\n", f); break;
		case '\\': fputs("\\\\", f); break;
		default: putc(*s, f);
		}
}

int
json_string(FILE *f, const char *text)
{
	int odd = 0;

	putc('"', f);
	for (int n; *text; text += n) {
		n = utf8_len(text);
		if (*text == '"' || *text == '\\')
			fprintf(f, "\\%c", *text);
		else if ((unsigned char)*text < 32)
			fprintf(f, "\\u%04x", *text);
		else if (n)
			fwrite(text, 1, (size_t)n, f);
		else {
			n = 1;
			fputs("\\ufffd", f);
			odd++;
		}
	}
	putc('"', f);
	return odd;
}
