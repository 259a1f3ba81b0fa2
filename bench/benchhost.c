/* benchhost.c -- what a machine is, and what else it is doing.
 *
 * All is read from where Linux says it, and NVIDIA's management library where there is one; what a
 * machine does not say is left unknown, never guessed.  A virtual machine has no counters of
 * instructions or energy as a rule, a container no right to them. */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/int.h"

/* ---- what it is ---- */

/* The value of the first line "name : value" of /proc/cpuinfo, or "". */
static void
cpuinfo(const char *name, char *out, size_t len)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[8192], *colon;
	size_t n = strlen(name);

	*out = 0;
	while (f && !*out && fgets(line, sizeof line, f))
		if (!strncmp(line, name, n) && (colon = strchr(line, ':'))) {
			colon += 1 + strspn(colon + 1, " \t");
			colon[strcspn(colon, "\n")] = 0;
			snprintf(out, len, "%s", colon);
		}
	if (f)
		fclose(f);
}

/* The linker's mark of this program, which changes with any byte of its code. */
static int
find_build(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct bench_row *r = (struct bench_row *)arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + p->p_vaddr),
			   *end = at + p->p_memsz;

		while (p->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)at;
			const unsigned char *id =
			    (const unsigned char *)(n + 1) + ((n->n_namesz + 3) & ~3u);

			if (n->n_type == NT_GNU_BUILD_ID && n->n_descsz >= 6) {
				row_set(r, COL_BUILD, "%02x%02x%02x%02x%02x%02x", id[0], id[1],
				    id[2], id[3], id[4], id[5]);
				return 1;
			}
			at = (const char *)id + ((n->n_descsz + 3) & ~3u);
		}
	}
	return 1; /* the first object is the program itself */
}

/* NVIDIA's library of management, opened where it is; its calls return 0 when done. */
struct nvml {
	void *lib, *gpu;
	int (*text)(char *, unsigned), (*name)(void *, char *, unsigned);
	int (*energy)(void *, unsigned long long *), (*cuda)(int *);
};

static int
nvml_open(struct nvml *n)
{
	int (*init)(void), (*handle)(unsigned, void **);

	memset(n, 0, sizeof *n);
	if (!(n->lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)))
		return -1;
	*(void **)&init = dlsym(n->lib, "nvmlInit_v2");
	*(void **)&handle = dlsym(n->lib, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&n->text = dlsym(n->lib, "nvmlSystemGetDriverVersion");
	*(void **)&n->name = dlsym(n->lib, "nvmlDeviceGetName");
	*(void **)&n->energy = dlsym(n->lib, "nvmlDeviceGetTotalEnergyConsumption");
	*(void **)&n->cuda = dlsym(n->lib, "nvmlSystemGetCudaDriverVersion");
	return init && handle && !init() && !handle(0, &n->gpu) ? 0 : -1;
}

static void
about_gpu(struct bench_row *r)
{
	struct nvml n;
	char s[128];
	int v, (*nccl)(int *);
	void *lib;

	if (nvml_open(&n))
		return;
	if (n.name && !n.name(n.gpu, s, sizeof s))
		row_set(r, COL_GPU, "%s", s);
	if (n.text && !n.text(s, sizeof s))
		row_set(r, COL_DRIVER, "%s", s);
	if (n.cuda && !n.cuda(&v))
		row_set(r, COL_CUDA, "%d.%d", v / 1000, v / 10 % 100);
	if ((lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL))) {
		*(void **)&nccl = dlsym(lib, "ncclGetVersion");
		if (nccl && !nccl(&v))
			row_set(r, COL_NCCL, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
	}
}

void
host_about(struct bench_row *r)
{
	char text[8192];
	struct utsname u;
	unsigned h = 2166136261u;

	dl_iterate_phdr(find_build, r);
	if (!uname(&u)) {
		row_set(r, COL_HOST, "%s", u.nodename);
		row_set(r, COL_KERNEL, "%s", u.release);
	}
	cpuinfo("model name", text, sizeof text);
	row_set(r, COL_CPU, "%s", *text ? text : uname(&u) ? "-" : u.machine);
	cpuinfo("flags", text, sizeof text);
	if (!*text)
		cpuinfo("Features", text, sizeof text);
	for (const char *p = text; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	if (*text) /* thousands of letters: a digest, and what matters most */
		row_set(r, COL_FLAGS, "%08x%s%s%s", h, strstr(text, "avx2") ? ",avx2" : "",
		    strstr(text, "avx512f") ? ",avx512" : "",
		    strstr(text, "amx_bf16") ? ",amx" : "");
	row_set(r, COL_CORES, "%d", cores());
	about_gpu(r);
}

/* ---- counters ---- */

int
host_counter(void)
{
	struct perf_event_attr a;

	memset(&a, 0, sizeof a);
	a.size = sizeof a;
	a.type = PERF_TYPE_HARDWARE;
	a.config = PERF_COUNT_HW_INSTRUCTIONS;
	a.exclude_kernel = a.exclude_hv = 1;
	a.inherit = 1; /* of threads that start later, too */
	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* A number in a file: that behind name and a blank, or the first. */
static double
number_in(const char *path, const char *name)
{
	FILE *f = fopen(path, "r");
	char line[512];
	double v = NAN;
	size_t n = strlen(name);

	while (f && isnan(v) && fgets(line, sizeof line, f))
		if (!strncmp(line, name, n) && (!n || line[n] == ' '))
			if (sscanf(line + n, "%lf", &v) != 1)
				v = NAN;
	if (f)
		fclose(f);
	return v;
}

/* Over files FOLDER/STEM*FILE: their sum, or the largest; NAN: none could be read. */
static double
over_files(const char *folder, const char *stem, const char *file, int largest)
{
	DIR *d = opendir(folder);
	struct dirent *at;
	double all = NAN;

	while (d && (at = readdir(d))) {
		size_t n = strlen(stem);
		char *path;
		double v;

		if (strncmp(at->d_name, stem, n) || !isdigit((unsigned char)at->d_name[n]) ||
		    strchr(at->d_name + n, ':'))
			continue;
		path = xasprintf("%s/%s%s", folder, at->d_name, file);
		v = number_in(path, "");
		free(path);
		if (!isnan(v))
			all = isnan(all) ? v : largest ? fmax(all, v) : all + v;
	}
	if (d)
		closedir(d);
	return all;
}

/* How often this control group was held back: its own file, of version 2 or 1; in a container,
 * where it is the root of what is mounted, that one's. */
static long
throttled(void)
{
	static const char *const known[][2] = { { "0::", "" }, { ":cpu:", "cpu" },
		{ ":cpu,cpuacct:", "cpu,cpuacct" }, { NULL, NULL } };
	FILE *f = fopen("/proc/self/cgroup", "r");
	char line[4096], *path, *at;
	double v = NAN;

	while (f && isnan(v) && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		for (int k = 0; known[k][0] && isnan(v); k++) {
			if (!(at = strstr(line, known[k][0])))
				continue;
			path = xasprintf(
			    "/sys/fs/cgroup/%s%s/cpu.stat", known[k][1], at + strlen(known[k][0]));
			v = number_in(path, "nr_throttled");
			free(path);
		}
	}
	if (f)
		fclose(f);
	if (isnan(v))
		v = number_in("/sys/fs/cgroup/cpu.stat", "nr_throttled");
	if (isnan(v))
		v = number_in("/sys/fs/cgroup/cpu/cpu.stat", "nr_throttled");
	return isnan(v) ? -1 : (long)v;
}

/* Joules so far, of all packages and the GPU; NAN: the machine does not say. */
static double
joules(void)
{
	double all = over_files("/sys/class/powercap", "intel-rapl:", "/energy_uj", 0) / 1e6;
	unsigned long long mj;
	struct nvml n;

	if (!nvml_open(&n) && n.energy && !n.energy(n.gpu, &mj))
		all = (isnan(all) ? 0 : all) + (double)mj / 1e3;
	return all;
}

/* "cpu MHz" is the mean of all processors at this moment. */
static double
mhz(void)
{
	double v = over_files("/sys/devices/system/cpu", "cpu", "/cpufreq/scaling_cur_freq", 1);
	char text[64];

	if (!isnan(v))
		return v / 1e3;
	cpuinfo("cpu MHz", text, sizeof text);
	return *text ? atof(text) : NAN;
}

void
host_read(int counter, struct host_now *h)
{
	double v[8] = { 0 }, tick = (double)sysconf(_SC_CLK_TCK), thermal;
	struct rusage self, kids;
	FILE *f = fopen("/proc/stat", "r");
	long long n;

	memset(h, 0, sizeof *h);
	h->at = now();
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &kids);
	h->cpu = self.ru_utime.tv_sec + self.ru_stime.tv_sec + kids.ru_utime.tv_sec +
		 kids.ru_stime.tv_sec +
		 (self.ru_utime.tv_usec + self.ru_stime.tv_usec + kids.ru_utime.tv_usec +
		     kids.ru_stime.tv_usec) *
		     1e-6;
	if (f) { /* user nice system idle iowait irq softirq steal */
		if (fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", v, v + 1, v + 2, v + 3, v + 4,
			v + 5, v + 6, v + 7) < 4)
			memset(v, 0, sizeof v);
		fclose(f);
	}
	for (int i = 0; i < 8; i++)
		h->total += v[i] / tick;
	h->steal = v[7] / tick;
	h->busy = h->total - (v[3] + v[4] + v[7]) / tick;
	h->load = number_in("/proc/loadavg", "");
	h->mhz = mhz();
	h->temp = over_files("/sys/class/thermal", "thermal_zone", "/temp", 1) / 1e3;
	thermal = over_files(
	    "/sys/devices/system/cpu", "cpu", "/thermal_throttle/core_throttle_count", 0);
	h->thermal = isnan(thermal) ? -1 : (long)thermal;
	h->throttled = throttled();
	h->joules = joules();
	h->instructions = counter >= 0 && read(counter, &n, sizeof n) == sizeof n ? n : -1;
}
