/* emu.cc -- the emulator's block and grid size, which a test sets, the emulator as a device, and
 * the account of which kernel ran with which block size, which test/kernels.t reads. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

extern "C" {
int emu_block = 1, emu_grid = 3, emu_exact;	/* exact: results must be the CPU's bits */

enum { NOTES = 128, SIZES = 9 };		/* sizes: powers of two, 1 to 256 */
static struct note { const char *file, *kernel; int ran[SIZES], exact[SIZES]; } note[NOTES];
static int nnote;

static void
tell_sizes(const char *what, const int *many)
{
	printf(" %s", what);
	for (int i = 0; i < SIZES; i++)
		if (many[i])
			printf(" %d", 1 << i);
}

static void
tell(void)
{
	for (int i = 0; i < nnote; i++) {
		printf("# kernel %s %s", note[i].file, note[i].kernel);
		tell_sizes("ran", note[i].ran);
		tell_sizes("exact", note[i].exact);
		putchar('\n');
	}
}

void
emu_note(const char *file, const char *kernel)
{
	int i = 0, size = 0;

	while (i < nnote && (strcmp(note[i].file, file) || strcmp(note[i].kernel, kernel)))
		i++;
	if (i == NOTES)
		die(1, "emu: more than %d kernels", NOTES);
	if (i == nnote && !nnote++)
		atexit(tell);
	note[i].file = file;
	note[i].kernel = kernel;
	while (emu_block >> (size + 1))
		size++;
	note[i].ran[size]++;
	note[i].exact[size] += emu_exact;
}

/* Host memory and GEMM are the CPU's, the kernels the emulator's. */
struct dev *
dev_emu(int bf16)
{
	struct dev_opts o = { 1, 0, 1, 1, bf16, 1, 0 };
	struct err e;
	struct dev *d = dev_open("cpu", &o, &e);

	if (!d)
		die(1, "%s", e.msg);
	d->store = bf16 ? &store_emu_bf16 : &store_emu;
	d->conv = bf16 ? &conv_emu_bf16 : &conv_emu;
	d->bn = bf16 ? &bn_emu_bf16 : &bn_emu;
	d->layer = bf16 ? &layers_emu_bf16 : &layers_emu;
	d->yolo = &yololoss_emu;
	d->dark = &darkloss_emu;
	d->optim = &optim_emu;
	return d;
}
}
