/* t-replay.c -- the fuzzers' corpora once through their harnesses. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

#define LLVMFuzzerTestOneInput fuzz_labels
#include "fuzz/labels.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_shard
#include "fuzz/shard.c"

static int
replay(const char *dir, int one(const unsigned char *, size_t))
{
	DIR *d = opendir(dir);
	struct dirent *f;
	struct err e;
	int n = 0;

	while (d && (f = readdir(d))) {
		char *path = path_join(dir, f->d_name), *p;
		size_t len;

		if (f->d_name[0] != '.' && (p = file_read(path, 1 << 24, &len, &e))) {
			one((const unsigned char *)p, len);
			free(p);
			n++;
		}
		free(path);
	}
	if (d)
		closedir(d);
	return n;
}

int
main(void)
{
	char *here = getcwd(NULL, 0), *one = path_join(here, "test/fuzz/corpus/labels");
	char *two = path_join(here, "test/fuzz/corpus/shard");	/* a harness leaves this folder */
	int a = replay(one, fuzz_labels), b = replay(two, fuzz_shard);

	free(here);
	free(one);
	free(two);
	printf("%sok 1 - labels: %d inputs\n", a > 8 ? "" : "not ", a);
	printf("%sok 2 - shard and pictures: %d inputs\n1..2\n", b > 8 ? "" : "not ", b);
	return a > 8 && b > 8 ? 0 : 1;
}
