/* benchrun.c -- a run that is measured: the machine looked at before, during and after, times and
 * counts made a line of the history, or lines as MLPerf's logger writes them.
 *
 * A machine is busy when others had more than a tenth of its processors' time in the quarter of a
 * second before the run, or during it, or when it was held back: by heat, or by its control
 * group.  Such a run is marked, and no baseline is made of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/int.h"
#include "kernel/kernel.h"

enum { LOOK_US = 250000 };
static const double coco[2] = { 117263, 118287 }; /* pictures of an epoch */

/* Why the machine was busy between two readings, or NULL; free(). */
static char *
why_busy(
    const struct host_now *a, const struct host_now *b, double limit, double *others, double *steal)
{
	double all = b->total - a->total, mine = b->cpu - a->cpu;

	*others = all > 0 ? fmax(0, (b->busy - a->busy - mine) / all) : NAN;
	*steal = all > 0 ? (b->steal - a->steal) / all : NAN;
	if (*others > limit)
		return xasprintf("others have %.0f %% of the processors", *others * 100);
	if (*steal > limit)
		return xasprintf("the host takes %.0f %% of the processors away", *steal * 100);
	if (a->throttled >= 0 && b->throttled > a->throttled)
		return xstrdup("held back by its control group's quota");
	if (a->thermal >= 0 && b->thermal > a->thermal)
		return xstrdup("held back by heat");
	return NULL;
}

int
meter_open(struct meter *m, const char *command, struct err *e)
{
	struct host_now from, to;
	double others, steal;
	char *why;
	time_t t = time(NULL);
	char text[32];

	m->counter = host_counter();
	if (m->history && hist_fit(m->history, e))
		return -1;
	if (!m->history && !m->strict && strcmp(m->format, "mllog"))
		return 0;
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
	row_set(&m->row, COL_TIME, "%s", text);
	row_set(&m->row, COL_COMMAND, "%s", command);
	row_set(&m->row, COL_COMMIT, "%s", m->commit);
	host_about(&m->row);
	host_read(-1, &from);
	usleep(LOOK_US);
	host_read(-1, &to);
	why = why_busy(&from, &to, m->limit, &others, &steal);
	if (!isnan(to.load))
		row_set(&m->row, COL_LOAD, "%.2f", to.load);
	if (why && m->strict) {
		warn("the machine is busy: %s; not measured (-B)", why);
		free(why);
		return BENCH_BUSY;
	}
	if (why)
		row_set(&m->row, COL_BUSY, "before: %s", why);
	free(why);
	return 0;
}

void
meter_start(struct meter *m)
{
	host_read(m->counter, &m->from);
}

void
meter_stop(struct meter *m)
{
	host_read(m->counter, &m->to);
}

static void
real(struct bench_row *r, enum bench_col c, const char *fmt, double v)
{
	char text[64];

	if (!isfinite(v))
		return;
	snprintf(text, sizeof text, fmt, v);
	row_set(r, c, "%s", text);
}

/* What the machine did between start and stop, for each of n. */
static void
machine(struct meter *m, int n)
{
	const struct host_now *a = &m->from, *b = &m->to;
	double others, steal;
	char *why = why_busy(a, b, m->limit, &others, &steal);

	real(&m->row, COL_CPU_MS, "%.5g", (b->cpu - a->cpu) / n * 1e3);
	if (a->instructions >= 0 && b->instructions > a->instructions)
		real(&m->row, COL_INSTRUCTIONS, "%.9g",
		    (double)(b->instructions - a->instructions) / n);
	if (b->joules >= a->joules)
		real(&m->row, COL_JOULES, "%.4g", (b->joules - a->joules) / n);
	real(&m->row, COL_OTHERS, "%.3f", others);
	real(&m->row, COL_STEAL, "%.3f", steal);
	real(&m->row, COL_MHZ, "%.0f", b->mhz);
	real(&m->row, COL_TEMP, "%.0f", b->temp);
	if (a->thermal >= 0)
		row_set(&m->row, COL_THERMAL, "%ld", b->thermal - a->thermal);
	if (a->throttled >= 0)
		row_set(&m->row, COL_THROTTLED, "%ld", b->throttled - a->throttled);
	if (why && !m->row.v[COL_BUSY])
		row_set(&m->row, COL_BUSY, "%s", why);
	free(why);
}

void
meter_times(struct meter *m, double *t, int n, double images)
{
	struct bench_row *r = &m->row;
	double median = bench_median(t, n);

	row_set(r, COL_N, "%d", n);
	real(r, COL_MIN, "%.5g", t[0] * 1e3);
	real(r, COL_P10, "%.5g", bench_quantile(t, n, .1) * 1e3);
	real(r, COL_MEDIAN, "%.5g", median * 1e3);
	real(r, COL_P90, "%.5g", bench_quantile(t, n, .9) * 1e3);
	real(r, COL_MAD, "%.4g", bench_mad(t, n, median) * 1e3);
	if (images > 0) {
		real(r, COL_IMG_S, "%.5g", images / median);
		real(r, COL_COCO14, "%.5g", coco[0] / images * median / 60);
		real(r, COL_COCO17, "%.5g", coco[1] / images * median / 60);
	}
	machine(m, n);
}

void
meter_cfg(struct meter *m, const char *path, const char *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
	row_set(&m->row, COL_CFG, "%s", path_base(path));
	row_set(&m->row, COL_CFG_DIGEST, "%016llx", (unsigned long long)h);
}

int
meter_close(struct meter *m, struct err *e)
{
	const char *busy = m->row.v[COL_BUSY];

	if (busy && m->strict) {
		warn("the machine was busy during the run: %s; not recorded (-B)", busy);
		return BENCH_BUSY;
	}
	if (!m->history)
		return 0;
	row_key(&m->row);
	return hist_append(m->history, &m->row, e);
}

/* ---- as MLPerf's logger writes it ---- */

/* Text in quotes; a byte that is no UTF-8 becomes a question mark. */
static void
quoted(FILE *f, const char *s)
{
	putc('"', f);
	for (int n; *s; s += n ? n : 1)
		if (!(n = utf8_len(s)) || (unsigned char)*s < ' ')
			putc('?', f);
		else
			fprintf(f, "%s%.*s", *s == '"' || *s == '\\' ? "\\" : "", n, s);
	putc('"', f);
}

struct event {
	FILE *f;
	double ahead;
}; /* ahead: of the monotonic clock, seconds */

static void
event(const struct event *v, double at, const char *type, const char *key)
{
	fprintf(v->f,
	    ":::MLLOG {\"namespace\": \"\", \"time_ms\": %.0f, \"event_type\": \"%s\", "
	    "\"key\": \"%s\", \"value\": ",
	    (at + v->ahead) * 1e3, type, key);
}

static void
event_end(const struct event *v)
{
	fputs(", \"metadata\": {\"file\": \"yolo-bench\", \"lineno\": 0}}\n", v->f);
}

void
meter_mllog(const struct meter *m, FILE *f)
{
	static const struct {
		const char *key;
		enum bench_col c;
		int text;
	} point[] = { { "submission_benchmark", COL_CFG, 1 }, { "submission_platform", COL_CPU, 1 },
		{ "global_batch_size", COL_BATCH, 0 }, { "seed", COL_SEED, 0 } };
	static const char *const bound[] = { "run_start", "run_stop" };
	struct timespec t;
	struct event v = { f, 0 };

	clock_gettime(CLOCK_REALTIME, &t);
	v.ahead = t.tv_sec + t.tv_nsec * 1e-9 - now();
	for (int i = 0; i < 4; i++) {
		const char *value = row_get(&m->row, point[i].c);

		event(&v, m->from.at, "POINT_IN_TIME", point[i].key);
		if (point[i].text || !strcmp(value, "-"))
			quoted(f, value);
		else
			fputs(value, f);
		event_end(&v);
	}
	for (int i = 0; i < 2; i++) {
		event(
		    &v, i ? m->to.at : m->from.at, i ? "INTERVAL_END" : "INTERVAL_START", bound[i]);
		fputs(i ? "{\"status\": \"success\"}" : "null", f);
		event_end(&v);
	}
	event(&v, m->to.at, "POINT_IN_TIME", "tracked_stats");
	fprintf(f, "{\"throughput\": %s, \"step_ms\": %s, \"gemm_share\": %s}",
	    row_get(&m->row, COL_IMG_S), row_get(&m->row, COL_MEDIAN), row_get(&m->row, COL_SHARE));
	event_end(&v);
}

void
meter_free(struct meter *m)
{
	if (m->counter > 0)
		close(m->counter);
	row_free(&m->row);
}

/* Kendall's count of pairs that fall less those that rise: more than half of all pairs is a trend
 * (of eight equal times with noise, one in twenty has it). */
int
bench_warm(const double *t, int n)
{
	int m = n / 3, s = 0;

	if (m < 4)
		return 0;
	for (const double *p = t + n - m; p < t + n; p++)
		for (const double *q = p + 1; q < t + n; q++)
			s += *q < *p ? 1 : -1;
	return 2 * abs(s) <= m * (m - 1) / 2;
}

double
copy_rate(struct dev *d)
{
	size_t bytes = (size_t)64 << 20; /* beyond any cache but a few */
	void *a = d->ops->alloc(d, bytes), *b = d->ops->alloc(d, bytes);
	double best = 0, t;

	for (int i = 0; a && b && i < 6; i++) {
		if (!i)
			d->ops->zero(d, a, bytes);
		t = now();
		for (int k = 0; k < 4; k++)
			d->ops->copy(d, k & 1 ? a : b, k & 1 ? b : a, bytes);
		d->ops->sync(d);
		t = now() - t;
		if (i)
			best = fmax(best, 8e-9 * (double)bytes / t);
	}
	d->ops->free(d, a);
	d->ops->free(d, b);
	return best;
}
