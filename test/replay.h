/* replay.h -- the corpus of a fuzzer once through its harness; one test includes it. */
#include <dirent.h>
#include <stdlib.h>

#include "yolo.h"
#include "test/tap.h"

typedef int one_input(const unsigned char *, size_t);

static int
replay(const char *dir, one_input *one)		/* how many inputs there were */
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
