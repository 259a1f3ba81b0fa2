/* benchdoctor.c -- yolo-bench doctor: is this machine fit to train on, and what to do where not.
 *
 * A line is a thing, what it is, and "ok" or what to do; the status is 1 where something is to be
 * done.  The ranks' sums are tried, 4 bytes to 1 MB, with a deadline: where they hang, this says
 * so. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/int.h"
#include "device/device.h"
#include "sync/sync.h"

static const char usage[] = "usage: yolo-bench doctor [-hq] [-d device] [-g ranks] [-o out.tsv]\n";
enum { DEADLINE = 20 };

struct doctor {
	FILE *f;
	const char *device;
	int ranks, wrong;
};

/* advice NULL: ok. */
PRINTF(4, 5)
static void
line(struct doctor *d, const char *thing, const char *advice, const char *fmt, ...)
{
	va_list ap;

	fprintf(d->f, "%s\t", thing);
	va_start(ap, fmt);
	vfprintf(d->f, fmt, ap);
	va_end(ap);
	fprintf(d->f, "\t%s\n", advice ? advice : "ok");
	d->wrong += advice != NULL;
}

/* The first line of a file, or "". */
static const char *
first_line(const char *path, char out[256])
{
	FILE *f = fopen(path, "r");

	if (!f || !fgets(out, 256, f))
		*out = 0;
	if (f)
		fclose(f);
	out[strcspn(out, "\n")] = 0;
	return out;
}

static void
devices(struct doctor *d)
{
	char list[4096], *save = NULL;

	dev_list(list, sizeof list);
	for (char *l = strtok_r(list, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		int gpu = access("/dev/nvidiactl", F_OK) == 0 && !strncmp(l, "cuda", 4) &&
			  dev_count("cuda") < 1;

		line(d, "device",
		    gpu ? "there is a GPU that cannot be used: see the message" : NULL, "%s", l);
	}
}

static void
software(struct doctor *d)
{
	struct bench_row r = { { NULL } };
	struct utsname u;
	int gpus = dev_count("cuda");

	host_about(&r);
	if (!uname(&u))
		line(d, "kernel", NULL, "%s %s", u.release, u.machine);
	line(d, "cpu", NULL, "%s, %s", row_get(&r, COL_CPU), row_get(&r, COL_FLAGS));
	line(d, "driver",
	    gpus > 0 && !r.v[COL_DRIVER]
		? "libnvidia-ml.so.1 is missing: energy and clocks cannot be recorded"
		: NULL,
	    "%s, CUDA %s", row_get(&r, COL_DRIVER), row_get(&r, COL_CUDA));
	line(d, "nccl",
	    gpus > 1 && !r.v[COL_NCCL] ? "install libnccl2: without it GPUs sum through the host"
				       : NULL,
	    "%s", row_get(&r, COL_NCCL));
	row_free(&r);
}

/* Which pairs of GPUs reach each other's memory, as nvidia-smi draws it. */
static void
links(struct doctor *d)
{
	FILE *p;
	char text[512];
	int nvlink = 0, rows = 0;

	if (dev_count("cuda") < 2) {
		line(d, "p2p", NULL, "fewer than two GPUs");
		return;
	}
	if (!(p = popen("nvidia-smi topo -m 2>/dev/null", "r")))
		return;
	while (fgets(text, sizeof text, p))
		if (!strncmp(text, "GPU", 3)) {
			rows++;
			nvlink += strstr(text, "NV") != NULL;
			text[strcspn(text, "\n")] = 0;
			for (char *c = text; *c; c++)
				*c = *c == '\t' ? ' ' : *c;
			line(d, "p2p", NULL, "%s", text);
		}
	pclose(p);
	line(d, "nvlink",
	    rows && nvlink < rows ? "GPUs without NVLink sum over PCIe: expect less efficiency"
				  : NULL,
	    "%d of %d GPUs", nvlink, rows);
}

static void
limit(struct doctor *d, const char *name, int which, double want, const char *advice)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)which, &r))
		return;
	if (r.rlim_cur == RLIM_INFINITY)
		line(d, name, NULL, "unlimited");
	else
		line(d, name, (double)r.rlim_cur < want ? advice : NULL, "%llu",
		    (unsigned long long)r.rlim_cur);
}

static void
memory(struct doctor *d)
{
	struct statvfs v;
	char text[256];
	FILE *f = fopen("/proc/meminfo", "r");
	double total = NAN, free_kb = NAN;

	while (f && fgets(text, sizeof text, f)) {
		sscanf(text, "MemTotal: %lf", &total);
		sscanf(text, "MemAvailable: %lf", &free_kb);
	}
	if (f)
		fclose(f);
	line(d, "memory", free_kb < total / 10 ? "most of it is in use: end other programs" : NULL,
	    "%.1f of %.1f GB available", free_kb / 1e6, total / 1e6);
	if (!statvfs("/dev/shm", &v)) {
		double gb = (double)v.f_blocks * (double)v.f_frsize / 1e9;

		line(d, "shm",
		    gb < .5 && dev_count("cuda") > 1
			? "NCCL needs more: docker run --shm-size=1g, or --ipc=host"
			: NULL,
		    "%.2f GB", gb);
	}
	limit(d, "memlock", RLIMIT_MEMLOCK, dev_count("cuda") > 1 ? 64e6 : 0,
	    "NCCL over InfiniBand needs more: ulimit -l unlimited");
	limit(d, "open files", RLIMIT_NOFILE, 1024, "raise it: ulimit -n 4096");
	limit(d, "processes", RLIMIT_NPROC, 256, "raise it: ulimit -u 4096");
	first_line("/sys/kernel/mm/transparent_hugepage/enabled", text);
	line(d, "huge pages",
	    strstr(text, "[never]") ? "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled"
				    : NULL,
	    "%s", *text ? text : "-");
}

static void
processors(struct doctor *d)
{
	char text[256];
	long have = sysconf(_SC_NPROCESSORS_ONLN);

	line(d, "processors", NULL, "%d of %ld may be used (affinity, cgroup, OMP_NUM_THREADS)",
	    cores(), have);
	first_line("/sys/fs/cgroup/cpu.max", text);
	line(d, "cgroup cpu",
	    *text && strncmp(text, "max", 3)
		? "a quota: steps come in bursts; give whole processors (cpuset) instead"
		: NULL,
	    "%s", *text ? text : "no limit seen");
	first_line("/sys/fs/cgroup/memory.max", text);
	line(d, "cgroup memory", NULL, "%s", *text ? text : "no limit seen");
	first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text);
	line(d, "governor",
	    !strcmp(text, "powersave") ? "figures wander: cpupower frequency-set -g performance"
				       : NULL,
	    "%s", *text ? text : "not told");
}

static void
counters(struct doctor *d)
{
	char text[256];
	struct host_now h;
	int fd = host_counter(), why = errno;

	first_line("/proc/sys/kernel/perf_event_paranoid", text);
	line(d, "instructions",
	    fd >= 0 ? NULL
	    : why == EACCES || why == EPERM
		? "not allowed: sysctl kernel.perf_event_paranoid=2"
		: "no counter here (a virtual machine has none as a rule): only time is compared",
	    "perf_event_paranoid %s", *text ? text : "-");
	host_read(fd, &h);
	line(d, "energy", NULL,
	    isnan(h.joules) ? "not told (RAPL: root alone may read it)" : "%.0f J so far",
	    h.joules);
	if (fd >= 0)
		close(fd);
}

/* Sums over ranks, as training does them; its output is one line of ours. */
static void
sums(struct doctor *d)
{
	char *ranks = xasprintf("%d", d->ranks), *argv[] = { (char *)"yolo-bench", (char *)"-g",
		ranks, (char *)"-O", (char *)"most=1048576", (char *)"-O", (char *)"n=3",
		(char *)"-d", (char *)(d->device ? d->device : "cpu"), NULL };
	struct bench_call call = { 9, argv, "-" };
	int status = -1, waited = 0, bad = 0, rows = 0, fd;
	char path[] = "/tmp/yolo-bench.XXXXXX", text[512];
	FILE *f;
	pid_t pid;

	fflush(NULL);
	if ((fd = mkstemp(path)) < 0 || (pid = fork()) < 0) {
		line(d, "sums", "cannot be tried", "%s", strerror(errno));
		free(ranks);
		return;
	}
	if (!pid) {
		setpgid(0, 0);
		dup2(fd, STDOUT_FILENO);
		optind = 0;
		exit(bench_sync(&call));
	}
	while (waitpid(pid, &status, WNOHANG) == 0 && waited++ < DEADLINE * 20)
		usleep(50000);
	if (waited > DEADLINE * 20) {
		kill(-pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	lseek(fd, 0, SEEK_SET);
	for (f = fdopen(fd, "r"); f && fgets(text, sizeof text, f); rows++) {
		char *last = strrchr(text, '\t');

		bad += *text != '#' && last && strcmp(last, "\t0\n");
	}
	if (f)
		fclose(f);
	unlink(path);
	line(d, "sums",
	    waited > DEADLINE * 20 ? "they hang: see NCCL_DEBUG=INFO"
	    : status		   ? "they fail: see the message"
	    : bad		   ? "they are wrong: do not train on this machine"
				   : NULL,
	    "%d ranks, 4 B to 1 MB on %s", d->ranks, d->device ? d->device : "cpu");
	free(ranks);
}

int
bench_doctor(const struct bench_call *call)
{
	static const struct option longs[] = { { "device", 1, NULL, 'd' }, { "help", 0, NULL, 'h' },
		{ "output", 1, NULL, 'o' }, { "quiet", 0, NULL, 'q' }, { "ranks", 1, NULL, 'g' },
		{ NULL, 0, NULL, 0 } };
	struct doctor d = { NULL, NULL, 2, 0 };
	const char *out = "-";
	struct outfile o;
	struct err e;
	int opt;

	while ((opt = getopt_long(call->argc, call->argv, "d:g:ho:q", longs, NULL)) >= 0)
		switch (opt) {
		case 'd':
			d.device = optarg;
			break;
		case 'g':
			if (bench_number('g', optarg, 1, 64, &d.ranks))
				return 2;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'o':
			out = optarg;
			break;
		case 'q':
			quiet = 1;
			break;
		default:
			fputs(usage, stderr);
			return 2;
		}
	if (optind < call->argc) {
		warn("%s: doctor takes no operand", call->argv[optind]);
		return 2;
	}
	if (out_open(&o, out, &e)) {
		warn("%s", e.msg);
		return 1;
	}
	d.f = o.f;
	fputs("#thing\tfound\tverdict\n", d.f);
	sums(&d); /* before a device is touched: it forks */
	devices(&d);
	software(&d);
	links(&d);
	processors(&d);
	memory(&d);
	counters(&d);
	if (out_commit(&o, &e)) {
		warn("%s", e.msg);
		return 1;
	}
	return d.wrong > 0;
}
