/* emu.cc -- the emulator's block and grid size, which a test sets, and the emulator as a device. */
#include "yolo.h"

extern "C" {
int emu_block = 1, emu_grid = 3;

/* Host memory and GEMM are the CPU's, the kernels the emulator's. */
struct dev *
dev_emu(void)
{
	struct dev_opts o = { 1, 0, 1, 1 };
	struct err e;
	struct dev *d = dev_open("cpu", &o, &e);

	if (!d)
		die(1, "%s", e.msg);
	d->conv = &conv_emu;
	d->bn = &bn_emu;
	d->layer = &layers_emu;
	d->yolo = &yololoss_emu;
	d->dark = &darkloss_emu;
	d->optim = &optim_emu;
	d->yolo = &yololoss_emu;
	d->dark = &darkloss_emu;
	return d;
}
}
