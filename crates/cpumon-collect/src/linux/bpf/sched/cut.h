// The cut: the counters of all threads and CPUs as of one instant T.
// traces:   nothing itself; user space writes T into a shared page shortly before it comes.
// produces: `control`, and the helpers by which the first transition of each thread and CPU after T saves a copy as of T. A pass
//           over all threads takes milliseconds in which they go on, so it reads the copies.
// costs:    one comparison a transition, and one copy for each thread and CPU that moves during a pass.
//
// The clock is read first and the page after it. So a transition that does not see T yet was timed before T was written,
// and T was still to come then: it belongs before the cut, however long its CPU was held up in between.
#pragma once

#include "../records/records.h"

struct control {
	__u64 cut_ns; // T, CLOCK_MONOTONIC; also the cut's name
	__u32 is_reading; // a pass is on: a thread that ends now leaves a copy of its state at T
	__u32 refresh; // threads whose tid is this modulo REFRESH_PASSES are sent in full
	__u32 send_all; // every thread is sent in full
	__u32 cpus; // that the pass shows
	__u32 rest_mask; // slots of `rests` less one
	__u32 group_round; // a name of a group that was sent in another round is sent again
};

#define REFRESH_PASSES 16

#define NEVER (~0ULL)

// The newest of what another CPU wrote last.
volatile struct control control SEC(".bss.control");

// The probes that run, as `Probes` in cpumon-model: user space sets this constant before loading, and the verifier drops
// code that is off.
#define PROBE_SCHED 2
#define PROBE_WAITS 4
#define PROBE_IRQ 8
#define PROBE_WAITS_FOR 32
#define OWN_WAKEUPS 0x10000 // wakeups are watched, because the run queues' clocks are out of reach
#define CAN_CAST 0x20000 // this kernel has bpf_rdonly_cast
#define ONLY_WAITS 0x80000
#define NAMES_SCRIPTS 0x40000 // arguments of interpreters are read
const volatile __u32 probes = 0;

// Whether threads are sent with the times of their switches, all as of one cut. Else these serve wait_for.h alone.
#define SENDS_TIMES (probes & PROBE_SCHED && !(probes & ONLY_WAITS))

// A reader on another CPU must see the counter odd while the values change. On x86 stores stay in order by themselves.
#if defined(__TARGET_ARCH_x86)
#define FENCE() asm volatile("" ::: "memory")
#else
#define FENCE()                                                                                                        \
	do {                                                                                                               \
		static volatile __u64 fence SEC(".bss.fence");                                                                 \
		__sync_fetch_and_add(&fence, 1);                                                                               \
	} while (0)
#endif

static __always_inline void begin_change(volatile __u64 *changes)
{
	*changes = *changes + 1;
	FENCE();
}

static __always_inline void end_change(volatile __u64 *changes)
{
	FENCE();
	*changes = *changes + 1;
}

static __always_inline __u64 later(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 lesser(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

// 0 where the clock of another CPU was ahead.
static __always_inline __u64 since(__u64 now, __u64 then)
{
	return now > then ? now - then : 0;
}
