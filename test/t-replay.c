/* t-replay.c -- the fuzzers' corpora once through their harnesses. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

#define LLVMFuzzerTestOneInput fuzz_labels
#include "fuzz/labels.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_shard
#include "fuzz/shard.c"
#include "replay.h"

int
main(void)
{
	char *here = getcwd(NULL, 0), *one = path_join(here, "test/fuzz/corpus/labels");
	char *two = path_join(here, "test/fuzz/corpus/shard");	/* a harness leaves this folder */
	int a = replay(one, fuzz_labels), b = replay(two, fuzz_shard);

	free(here);
	free(one);
	free(two);
	okf(a > 8, "labels: %d inputs", a);
	okf(b > 8, "shard and pictures: %d inputs", b);
	return done();
}
