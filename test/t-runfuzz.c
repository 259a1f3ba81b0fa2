/* t-runfuzz.c -- the corpus of yolo-eval as a whole once through its harness. */
#include <dirent.h>
#include <stdio.h>

#define LLVMFuzzerTestOneInput fuzz_run
#include "fuzz/evalrun.c"

int
main(void)
{
	static const char dir[] = "test/fuzz/corpus/evalrun";
	DIR *d = opendir(dir);
	struct dirent *f;
	struct err e;
	int n = 0;

	if (!freopen("/dev/null", "w", stderr))		/* remarks about strange truths */
		return 1;
	while (d && (f = readdir(d))) {
		char *path = path_join(dir, f->d_name), *p;
		size_t len;

		if (f->d_name[0] != '.' && (p = file_read(path, 1 << 24, &len, &e))) {
			fuzz_run((const unsigned char *)p, len);
			free(p);
			n++;
		}
		free(path);
	}
	if (d)
		closedir(d);
	fuzz_run((const unsigned char *)"", 0);
	printf("%sok 1 - %d inputs\n1..1\n", n > 6 ? "" : "not ", n);
	return n <= 6;
}
