/* t-evalfuzz.c -- the corpus of yolo-eval's readers once through its harness. */
#include <stdio.h>

#define LLVMFuzzerTestOneInput fuzz_eval
#include "fuzz/eval.c"
#include "replay.h"

int
main(void)
{
	int n;

	if (!freopen("/dev/null", "w", stderr))		/* remarks about strange truths */
		return 1;
	n = replay("test/fuzz/corpus/eval", fuzz_eval);
	fuzz_eval((const unsigned char *)"", 0);
	okf(n > 6, "%d inputs", n);
	return done();
}
