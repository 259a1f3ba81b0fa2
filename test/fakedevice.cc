/* fakedevice.cc -- the device of the fake CUDA (fakecuda.h): its memory and its time.
 *
 * A stream is a list of operations and a thread that works on it while the gate is open, which it
 * is while somebody of the host waits.  Memory can be touched only then.  What the program's end
 * would destroy under the threads' feet is never destroyed. */
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/fakedevice.h"

static std::mutex &lock = *new std::mutex;
static std::condition_variable &news = *new std::condition_variable;
static std::vector<piece> &pieces = *new std::vector<piece>;
static std::vector<cudaStream_t> &streams = *new std::vector<cudaStream_t>;
static int gate, active;		/* who waits; operations at work */
static pid_t owner;
static thread_local const char *at_work;

enum { FILLED = 8 << 20 };		/* bytes: what is larger, a workspace, is 0 */

thread_local int fake_device;

void
fake_wrong(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "fake cuda: ");
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	_exit(70);
}

long
fake_number(const char *name, long otherwise)
{
	const char *s = getenv(name);

	return s ? atol(s) : otherwise;
}

int
fake_fails(const char *what)
{
	static const char *s = getenv("FAKE_FAIL");
	static int left = s && strchr(s, '@') ? atoi(strchr(s, '@') + 1) : 0;
	size_t n = strlen(what);

	return s && !strncmp(s, what, n) && s[n] == '@' && left > 0 && !--left;
}

/* ---- memory ------------------------------------------------------------------------------- */

static const piece *
piece_of(const void *p)
{
	for (const piece &i : pieces)
		if ((const char *)p >= i.at && (const char *)p < i.at + i.room)
			return &i;
	return NULL;
}

static size_t
pages(size_t room)
{
	return (room + 4095) / 4096 * 4096;
}

static void
protect(int how)
{
	for (const piece &i : pieces)
		mprotect(i.at + i.room - pages(i.room), pages(i.room), how);
}

static void
fault(int sig, siginfo_t *info, void *)
{
	static char text[200];
	int n = snprintf(text, sizeof text, "fake cuda: signal %d at %p%s, in %s\n", sig,
	    info->si_addr, piece_of(info->si_addr) ? ", memory of the device" : "",
	    at_work ? at_work : "the host");

	if (write(2, text, (size_t)n) < 0)
		_exit(71);
	_exit(70);
}

int
fake_begin(void)
{
	struct sigaction sa = {};

	if (owner == getpid())
		return 0;
	if (owner)
		return -1;
	owner = getpid();
	sa.sa_sigaction = fault;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	return 0;
}

/* 256-aligned, and ending where the page does, with a page of nothing on either side. */
void *
fake_alloc(size_t bytes)
{
	size_t room = (bytes + 255) / 256 * 256, all = pages(room), used = room;
	std::unique_lock<std::mutex> l(lock);
	char *m;

	for (const piece &i : pieces)
		used += i.device == fake_device ? i.room : 0;
	if (!bytes || used > (size_t)fake_number("FAKE_MEM", 4L << 30))
		return NULL;
	m = (char *)mmap(NULL, all + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	    -1, 0) + 4096;
	mprotect(m, all, PROT_READ | PROT_WRITE);
	if (all <= FILLED)
		memset(m, 0xff, all);	/* NaN */
	if (!gate)
		mprotect(m, all, PROT_NONE);
	pieces.push_back(piece{ m + all - room, room, fake_device });
	return m + all - room;
}

void
fake_check(const char *what, const void *p, size_t bytes)
{
	std::unique_lock<std::mutex> l(lock);
	const piece *i = piece_of(p);

	if (!i && (bytes || p))
		fake_wrong("%s: %p is not memory of the device", what, p);
	if (i && (const char *)p + bytes > i->at + i->room)
		fake_wrong("%s: %zu bytes at %p, of which only %zu are there", what, bytes, p,
		    (size_t)(i->at + i->room - (const char *)p));
	if (i && i->device != fake_device && !at_work)
		fake_wrong("%s: memory of cuda:%d on cuda:%d", what, i->device, fake_device);
}

void
fake_host(const char *what, const void *p)
{
	std::unique_lock<std::mutex> l(lock);

	if (piece_of(p))
		fake_wrong("%s: %p is memory of the device, and should be the host's", what, p);
}

/* A struct's words that look like addresses, and are, of the host; a small number before a hole,
 * in which anything may lie, is none. */
static int
of_host(uint64_t word)
{
	unsigned char in;

	return word >> 32 >= 0x5500 && word >> 32 < 0x8000 && (uint32_t)word >= 65536 &&
	    !piece_of((void *)word) &&
	    !mincore((void *)(word & ~(uint64_t)4095), 1, &in);
}

void
fake_argument(const char *kernel, const void *arg, size_t bytes, int pointer)
{
	std::unique_lock<std::mutex> l(lock);

	for (size_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t word;

		memcpy(&word, (const char *)arg + i, sizeof word);
		if (pointer ? word && !piece_of((void *)word) : of_host(word))
			fake_wrong("kernel %s: argument %p is not memory of the device", kernel,
			    (void *)word);
	}
}

/* ---- time --------------------------------------------------------------------------------- */

static void
open_gate(void)
{
	if (!gate++)
		protect(PROT_READ | PROT_WRITE);
	news.notify_all();
}

static void
close_gate(std::unique_lock<std::mutex> &l)
{
	if (--gate)
		return;
	news.wait(l, [] { return !active || gate; });
	if (!gate)
		protect(PROT_NONE);
}

void
fake_pause(void)
{
	std::unique_lock<std::mutex> l(lock);

	active--;
	news.notify_all();
}

void
fake_resume(void)
{
	std::unique_lock<std::mutex> l(lock);

	news.wait(l, [] { return gate > 0; });
	active++;
}

static int
runnable(const CUstream_st *s)
{
	if (s->q.empty())
		return 0;
	if (s->q.front().wait)
		return *s->q.front().wait;
	return s->q.front().mark || gate > 0;
}

static void
work(cudaStream_t s)
{
	std::unique_lock<std::mutex> l(lock);

	for (;;) {
		operation o;

		news.wait(l, [s] { return runnable(s) || (s->ending && s->q.empty()); });
		if (s->q.empty())
			return;
		o = s->q.front();
		s->q.pop_front();
		s->busy = 1;
		if (o.run) {
			active++;
			l.unlock();
			if (s->slow)
				usleep(300);
			at_work = o.name;
			o.run();
			at_work = NULL;
			l.lock();
			active--;
		}
		if (o.mark)
			*o.mark = 1;
		s->busy = 0;
		news.notify_all();
	}
}

static void
drain(std::unique_lock<std::mutex> &l, cudaStream_t s)
{
	open_gate();
	news.wait(l, [s] { return s->q.empty() && !s->busy; });
	close_gate(l);
}

void
fake_drain(void *stream)
{
	std::unique_lock<std::mutex> l(lock);

	drain(l, (cudaStream_t)stream);
}

void
fake_push(cudaStream_t stream, const operation &o)
{
	std::unique_lock<std::mutex> l(lock);
	int known = 0;

	for (cudaStream_t s : streams)
		known |= s == stream;
	if (!known)
		fake_wrong("%s on a stream that is none", o.name);
	if (o.run && stream->device != fake_device)
		fake_wrong("%s on a stream of cuda:%d, but this thread is on cuda:%d", o.name,
		    stream->device, fake_device);
	stream->q.push_back(o);
	news.notify_all();
}

void
fake_queue(void *stream, const char *name, std::function<void()> op)
{
	fake_push((cudaStream_t)stream, operation{ name, op, nullptr, nullptr });
}

void
fake_free(void *p)
{
	std::unique_lock<std::mutex> l(lock);

	for (cudaStream_t s : streams)
		drain(l, s);
	for (size_t i = 0; i < pieces.size(); i++)
		if (pieces[i].at == p) {
			size_t all = pages(pieces[i].room);

			munmap(pieces[i].at + pieces[i].room - all - 4096, all + 8192);
			pieces.erase(pieces.begin() + (long)i);
			return;
		}
	fake_wrong("free of %p: nothing stands there", p);
}

cudaStream_t
fake_stream(void)
{
	std::unique_lock<std::mutex> l(lock);
	long slow = fake_number("FAKE_SLOW", -1);
	cudaStream_t s = new CUstream_st{ {}, 0, 0, fake_device, slow >= 0 &&
	    slow == (long)streams.size() % 2, {} };

	streams.push_back(s);
	s->worker = std::thread(work, s);
	return s;
}

void
fake_stream_end(cudaStream_t s)
{
	std::unique_lock<std::mutex> l(lock);

	drain(l, s);
	s->ending = 1;
	news.notify_all();
	for (size_t i = 0; i < streams.size(); i++)
		if (streams[i] == s)
			streams.erase(streams.begin() + (long)i);
	l.unlock();
	s->worker.join();
	delete s;
}

int
fake_reached(cudaEvent_t e)
{
	std::unique_lock<std::mutex> l(lock);

	return *e->reached;
}
