/* safetensors.c -- fuzz target: any bytes as a safetensors file; every element of it is read. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "yolo.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);
int
LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	int fd = memfd_create("fuzz", 0);
	struct err e = { "" };
	char path[64];
	struct st *st;
	volatile double sum = 0;

	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (!(st = st_open(path, &e)))
		assert(e.msg[0]);
	for (int i = 0; st && i < st->nt; i++) {
		assert(st_find(st, st->t[i].name) == &st->t[i]);
		for (size_t k = 0; k < st->t[i].n; k++)
			sum = sum + st_get(&st->t[i], k);
	}
	for (int i = 0; st && i < st->nmeta; i++)
		assert(st_meta(st, st->key[i]));
	st_close(st);
	close(fd);
	return 0;
}
