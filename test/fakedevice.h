/* fakedevice.h -- the device of the fake CUDA, for its runtime: fakedevice.cc, fakecuda.cc. */
#ifndef FAKEDEVICE_H
#define FAKEDEVICE_H

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "test/fakecuda.h"

struct CUevent_st { std::shared_ptr<int> reached; };
struct operation {
	const char *name;
	std::function<void()> run;
	std::shared_ptr<int> wait, mark;	/* of an event; both NULL: work */
};
struct CUstream_st {
	std::deque<operation> q;
	int busy, ending, device, slow;
	std::thread worker;
};
struct piece { char *at; size_t room; int device; };

extern thread_local int fake_device;		/* that cudaSetDevice chose for this thread */

int fake_begin(void);			/* -1: in a child of the process that began */
void fake_push(cudaStream_t, const operation &);
void *fake_alloc(size_t bytes);		/* NULL: more than there is */
void fake_free(void *);
void fake_host(const char *what, const void *p);	/* must not be the device's */
cudaStream_t fake_stream(void);
void fake_stream_end(cudaStream_t);
int fake_reached(cudaEvent_t);

#endif
