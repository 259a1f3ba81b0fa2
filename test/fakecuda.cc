/* fakecuda.cc -- a CUDA runtime without a GPU: the functions, over fakedevice.cc. */
#include <stdio.h>
#include <string.h>

#include "test/fakedevice.h"

static thread_local cudaError_t last;

static cudaError_t
result(cudaError_t r)
{
	return r == cudaSuccess ? r : last = r;
}

static cudaError_t
begin(void)
{
	return result(fake_begin() ? cudaErrorInitializationError : cudaSuccess);
}

extern "C" {
int __attribute__((weak)) emu_block = 1;
int __attribute__((weak)) emu_grid = 1;

/* ---- devices, errors ---------------------------------------------------------------------- */

cudaError_t
cudaGetDeviceCount(int *n)
{
	cudaError_t r = begin();

	*n = (int)fake_number("FAKE_GPUS", 2);
	return result(r != cudaSuccess ? r : *n > 0 ? cudaSuccess : *n < 0 ?
	    cudaErrorInsufficientDriver : cudaErrorNoDevice);
}

cudaError_t
cudaSetDevice(int d)
{
	int n;
	cudaError_t r = cudaGetDeviceCount(&n);

	if (r == cudaSuccess)
		fake_device = d;
	return result(r != cudaSuccess ? r : d < n ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t
cudaGetDevice(int *d)
{
	*d = fake_device;
	return begin();
}

cudaError_t
cudaDeviceGetAttribute(int *v, cudaDeviceAttr a, int)
{
	*v = (int)fake_number("FAKE_SM", 80) / 10;
	return result(a == cudaDevAttrComputeCapabilityMajor ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
	long sm = fake_number("FAKE_SM", 80);

	memset(p, 0, sizeof *p);
	snprintf(p->name, sizeof p->name, "fake");
	p->major = (int)sm / 10;
	p->minor = (int)sm % 10;
	return begin();
}

const char *
cudaGetErrorString(cudaError_t r)
{
	switch (r) {
	case cudaErrorMemoryAllocation: return "out of memory";
	case cudaErrorNoDevice: return "no CUDA-capable device is detected";
	case cudaErrorInitializationError: return "initialization error";
	case cudaErrorInvalidDevice: return "invalid device ordinal";
	case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
	default: return "unknown error";
	}
}

cudaError_t
cudaGetLastError(void)
{
	cudaError_t r = last;

	last = cudaSuccess;
	return r;
}

/* ---- memory ------------------------------------------------------------------------------- */

cudaError_t
cudaMalloc(void **p, size_t bytes)
{
	cudaError_t r = begin();

	if (r != cudaSuccess)
		return r;
	*p = fake_fails("malloc") ? NULL : fake_alloc(bytes);
	return result(*p ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t
cudaFree(void *p)
{
	if (p)
		fake_free(p);
	return begin();
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind, cudaStream_t s)
{
	if (kind == cudaMemcpyHostToDevice)
		fake_host("copy from", from);
	else
		fake_check("copy from", from, n);
	if (kind == cudaMemcpyDeviceToHost)
		fake_host("copy to", to);
	else
		fake_check("copy to", to, n);
	fake_queue(s, "copy", [=] { memmove(to, from, n); });
	return result(fake_fails("copy") ? cudaErrorUnknown : cudaSuccess);
}

cudaError_t
cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s)
{
	fake_check("clear", p, n);
	fake_queue(s, "clear", [=] { memset(p, v, n); });
	return cudaSuccess;
}

/* ---- streams and events ------------------------------------------------------------------- */

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
	if (flags != cudaStreamNonBlocking)
		fake_wrong("a stream that waits for the default stream");
	if (begin() == cudaSuccess)
		*s = fake_stream();
	return begin();
}

cudaError_t
cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int)
{
	return cudaStreamCreateWithFlags(s, flags);
}

cudaError_t
cudaDeviceGetStreamPriorityRange(int *least, int *most)
{
	*least = 0;
	*most = -5;
	return cudaSuccess;
}

cudaError_t
cudaStreamSynchronize(cudaStream_t s)
{
	fake_drain(s);
	return result(fake_fails("sync") ? cudaErrorIllegalAddress : cudaSuccess);
}

cudaError_t
cudaStreamDestroy(cudaStream_t s)
{
	if (!s)
		return result(cudaErrorInvalidResourceHandle);
	fake_stream_end(s);
	return cudaSuccess;
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
	*e = new CUevent_st{ std::make_shared<int>(1) };
	return begin();
}

cudaError_t
cudaEventDestroy(cudaEvent_t e)
{
	if (!e)
		return result(cudaErrorInvalidResourceHandle);
	delete e;
	return cudaSuccess;
}

cudaError_t
cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	e->reached = std::make_shared<int>(0);
	fake_push(s, operation{ "event", nullptr, nullptr, e->reached });
	return cudaSuccess;
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
	fake_push(s, operation{ "wait", nullptr, e->reached, nullptr });
	return cudaSuccess;
}

cudaError_t
cudaEventQuery(cudaEvent_t e)
{
	return result(fake_reached(e) ? cudaSuccess : cudaErrorNotReady);
}
}
