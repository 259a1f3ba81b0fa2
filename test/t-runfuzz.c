/* t-runfuzz.c -- the corpus of yolo-eval as a whole once through its harness. */
#include <stdio.h>

#define LLVMFuzzerTestOneInput fuzz_run
#include "fuzz/evalrun.c"
#include "replay.h"

int
main(void)
{
	int n;

	if (!freopen("/dev/null", "w", stderr))		/* remarks about strange truths */
		return 1;
	n = replay("test/fuzz/corpus/evalrun", fuzz_run);
	fuzz_run((const unsigned char *)"", 0);
	okf(n > 6, "%d inputs", n);
	return done();
}
