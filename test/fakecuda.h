/* fakecuda.h -- what the parts of the fake CUDA share: its device's queues and memory.
 *
 * libfakecuda.so has the functions of cudart, cublasLt and NCCL that cuda.c and sync_nccl.c call;
 * kernels are the emulator's (emu.h with -DFAKE).  So both files and all host code run as they are,
 * on a machine without a GPU, on a device that is stricter than a real one:
 *
 *	memory	the host gets a fault where it touches it; so does who leaves his allocation; new
 *		memory is NaN (up to 8 MB in a piece)
 *	time	what is queued runs when the host waits, no earlier, a thread to each stream; the
 *		environment's FAKE_SLOW=N holds up the streams N, N + 2, ...: 0 of the device, 1
 *		that of NCCL
 *	calls	arguments, layouts, alignments and pointers are looked at; what is wrong is told
 *		and ends the program
 *
 * FAKE_GPUS, FAKE_SM (80), FAKE_MEM (bytes of a GPU), FAKE_FAIL=WHAT@N (the Nth operation of that
 * name fails) say what the machine is. */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <functional>

void fake_wrong(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void fake_queue(void *stream, const char *name, std::function<void()> op);
/* bytes from p must lie in one piece of device memory. */
void fake_check(const char *what, const void *p, size_t bytes);
/* An argument of a kernel, by value: pointers in it must be the device's. */
void fake_argument(const char *kernel, const void *arg, size_t bytes, int whole);
long fake_number(const char *name, long otherwise);	/* of the environment */
/* An operation that waits for others lets go of the device meanwhile. */
void fake_pause(void);
void fake_resume(void);
void fake_drain(void *stream);
int fake_fails(const char *what);

#endif
