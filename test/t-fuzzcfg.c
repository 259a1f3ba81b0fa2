/* t-fuzzcfg.c -- the fuzzers of cfgs, weights, checkpoints and settings without a fuzzer: their
 * corpora once, and each input with a few hundred plain mutations. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LLVMFuzzerTestOneInput fuzz_cfg
#include "fuzz/cfg.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_weights
#include "fuzz/weights.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_safetensors
#include "fuzz/safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_checkpoint
#include "fuzz/checkpoint.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_settings
#include "fuzz/settings.c"
#include "replay.h"

static uint32_t state;
static int rounds;			/* mutations of an input */
static one_input *harness;

static uint32_t
draw(uint32_t below)
{
	state = state * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(state >> 8) * below >> 24);
}

/* One of: a bit, a byte, a cut, a piece doubled, a piece dropped, digits made large. */
static size_t
mutate(unsigned char *b, size_t n, size_t room)
{
	size_t at, len;

	if (!n)
		return n;
	at = draw((uint32_t)n);
	len = 1 + draw(40);
	len = len < n - at ? len : n - at;
	switch (draw(6)) {
	case 0: b[at] ^= (unsigned char)(1 << draw(8)); return n;
	case 1: b[at] = (unsigned char)draw(256); return n;
	case 2: return at;
	case 3:
		if (n + len > room)
			return n;
		memmove(b + at + len, b + at, n - at);
		return n + len;
	case 4:
		memmove(b + at, b + at + len, n - at - len);
		return n - len;
	default:
		for (size_t i = at; i < at + len; i++)
			if (b[i] >= '0' && b[i] <= '9')
				b[i] = '9';
		return n;
	}
}

static int
around(const unsigned char *text, size_t n)
{
	size_t room = 2 * n + 100;
	unsigned char *b = (unsigned char *)xmalloc(room);

	state = (uint32_t)n;
	harness(text, n);
	for (int i = 0; i < rounds; i++) {
		size_t len = n;

		memcpy(b, text, n);
		for (uint32_t k = 0; k <= draw(4); k++)
			len = mutate(b, len, room);
		harness(b, len);
	}
	free(b);
	return 0;
}

int
main(void)
{
	static const struct { const char *name; int rounds; one_input *one; } t[] = {
		{ "cfg", 100, fuzz_cfg }, { "weights", 60, fuzz_weights },
		{ "safetensors", 60, fuzz_safetensors },
		{ "checkpoint", 100, fuzz_checkpoint }, { "settings", 100, fuzz_settings },
	};
	int all = sizeof t / sizeof *t, null = open("/dev/null", O_WRONLY);

	dup2(null, 2);			/* warnings of accepted files */
	for (int i = 0; i < all; i++) {
		char *dir = path_join("test/fuzz/corpus", t[i].name);
		int n;

		rounds = t[i].rounds;
		harness = t[i].one;
		n = replay(dir, around);
		free(dir);
		okf(n > 2, "%s: %d inputs, %d mutations of each", t[i].name, n, t[i].rounds);
	}
	return done();
}
