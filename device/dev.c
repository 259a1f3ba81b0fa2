/* dev.c -- the table of devices: the one place that knows which were built.
 *
 * A device is its operations (cpu.c, cuda.c) and one table for each kernel file, compiled for it.
 * Opening CUDA is tried at run time: a program built with it starts on a machine without. */
#include <stdlib.h>
#include <string.h>

#include "device/int.h"

static const struct kind {
	const char *name;
	int (*open)(struct dev *, int index, struct err *);
	int (*count)(struct err *);		/* of usable devices; 0: err says why */
	void (*describe)(int index, char *, size_t);
	struct dev tables[2];			/* activations in float, in bfloat16 */
} kinds[] = {
#define TABLES(kind, x) .store = &store_##kind##x, .conv = &conv_##kind##x, .bn = &bn_##kind##x, \
	.layer = &layers_##kind##x, .yolo = &yololoss_##kind, .dark = &darkloss_##kind, \
	.optim = &optim_##kind
#ifdef CUDA
#ifdef NCCL
#define BETWEEN .nccl = nccl_open_sync
#else
#define BETWEEN .nccl = NULL
#endif
	{ "cuda", cuda_open, cuda_count, cuda_describe,
	    { { TABLES(cuda, ), BETWEEN }, { TABLES(cuda, _bf16), BETWEEN } } },
#endif
	{ "cpu", cpu_open, cpu_count, cpu_describe, { { TABLES(cpu, ) }, { TABLES(cpu, _bf16) } } },
};
enum { NKIND = sizeof kinds / sizeof *kinds };

static const struct kind *
pick(const char *spec, int *index, struct err *e)
{
	struct err why;

	*index = 0;
	if (!spec) {			/* kinds stand best first; the CPU is always there */
		for (int i = 0; i < NKIND; i++)
			if (kinds[i].count(&why) > 0)
				return &kinds[i];
		return NULL;
	}
	for (int i = 0; i < NKIND; i++) {
		size_t n = strlen(kinds[i].name);
		long v;

		if (strncmp(spec, kinds[i].name, n) || (spec[n] && spec[n] != ':'))
			continue;
		if (spec[n] && num_int(spec + n + 1, 0, 1023, &v)) {
			err_set(e, "device '%s': the number after ':' is one of 0..1023", spec);
			return NULL;
		}
		*index = spec[n] ? (int)v : 0;
		return &kinds[i];
	}
	if (!strcmp(spec, "cuda") || !strncmp(spec, "cuda:", 5))
		err_set(e, "device '%s': built without CUDA (needs nvcc, package cuda-nvcc)", spec);
	else
		err_set(e, "device '%s': should be cpu, cuda or cuda:N", spec);
	return NULL;
}

int
dev_precision(struct dev_opts *o, const char *name, struct err *e)
{
	o->tf32 = name && !strcmp(name, "tf32");
	o->bf16 = name && !strcmp(name, "bf16");
	if (!name || !strcmp(name, "fp32") || o->tf32 || o->bf16)
		return 0;
	if (!strcmp(name, "fp16"))
		return err_set(e, "-p fp16: not built, wants a loss scale; bf16 does without");
	return err_set(e, "-p %s: want fp32, tf32 (a mode of CUDA's matrix product) or bf16", name);
}

const char *
dev_precision_name(const struct dev *d)
{
	return d->store->bytes == 2 ? "bf16" : d->tf32 ? "tf32" : "fp32";
}

struct dev *
dev_open(const char *spec, const struct dev_opts *o, struct err *e)
{
	struct dev *d;
	const struct kind *k;
	int index, cpu, bf16;

	if (!(k = pick(spec, &index, e)))
		return NULL;
	cpu = k->open == cpu_open;
	bf16 = o->bf16 && (!cpu || o->emulate || cpu_has_bf16());
	if (o->bf16 && !bf16 && !o->silent)
		warn("-p bf16: this processor has neither AVX512_BF16 nor AMX: computing in fp32");
	if (o->tf32 && cpu && !o->silent)
		warn("-p tf32: a mode of CUDA's matrix product: computing in fp32");
	d = (struct dev *)xmalloc(sizeof *d);
	*d = k->tables[bf16];
	d->threads = o->threads > 0 ? o->threads : cores();
	d->tf32 = o->tf32 && !cpu;
	d->exact = o->exact;
	d->deterministic = o->deterministic;
	if (k->open(d, index, e)) {
		free(d);
		return NULL;
	}
	return d;
}

int
dev_count(const char *name)
{
	struct err why;

	for (int i = 0; i < NKIND; i++)
		if (!strcmp(kinds[i].name, name))
			return kinds[i].count(&why);
	return 0;
}

void
dev_close(struct dev *d)
{
	if (!d)
		return;
	d->ops->close(d);
	free(d);
}

int
dev_list(char *out, size_t len)
{
	struct err why;
	size_t at = 0;
	int found = 0;

	if (len)
		*out = '\0';
	for (int i = 0; i < NKIND; i++) {
		int n = kinds[i].count(&why);

		for (int j = 0; j < (n ? n : 1); j++) {
			char line[1100];

			if (n)
				kinds[i].describe(j, line, sizeof line);
			else
				snprintf(line, sizeof line, "%s: %s", kinds[i].name, why.msg);
			if (at + strlen(line) + 2 > len)
				return found;
			at += (size_t)snprintf(out + at, len - at, "%s\n", line);
			found += n > 0;
		}
	}
	return found;
}
