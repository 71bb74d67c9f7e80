// When a switch happens.
// traces:   nothing itself.
// produces: the time of a switch on CLOCK_MONOTONIC, the same in sums (cpus.h) and in traces (trace.bpf.c).
// costs:    a read of the clock once a millisecond and CPU, and for each switch away from idle or from a thread that could go on.
#pragma once

#include "cut.h"

struct run_clock {
	__u64 ahead_ns; // CLOCK_MONOTONIC less the run queue's clock
	__u64 ahead_at_ns; // when that was measured
	__u64 read_ns; // when both were last compared
};

// The run queue of the CPU that `task` runs on. Without group scheduling the kernel keeps no way to it that BPF could go
// everywhere: then steal is inside the run time, the queue's longest is not known, and wakeups are watched (OWN_WAKEUPS).
static __always_inline struct rq *rq_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->se.cfs_rq->rq))
		return task->se.cfs_rq->rq;
	return NULL;
}

// How far CLOCK_MONOTONIC is ahead of the run queue's clock. That one is as old as the queue's last update, mostly some 200 ns;
// after a wakeup that pushes the current thread off, it is as old as that. So the least counts, which may grow by 1/2048 of the
// time gone by (clocks are slewed by 1/2000 at most) or by more than any stand.
static __always_inline void compare_clocks(struct run_clock *clock, const struct rq *rq, __u64 now)
{
	__u64 ahead = now - rq->clock;
	__s64 grown = ahead - clock->ahead_ns - (since(now, clock->ahead_at_ns) >> 11);

	if (grown > 0 && grown < 1000000000 && clock->ahead_at_ns)
		return;
	clock->ahead_ns = ahead;
	clock->ahead_at_ns = now;
}

#define CLOCK_READ_EVERY_NS 1000000
#define COMPARE_EVERY_NS 1000000000

// Time of this switch. Reading the clock is the most expensive part of a switch, and where a thread goes to sleep the
// scheduler has just read it for the run queue: then that reading is used, and both clocks are compared again after a
// millisecond. Where the current thread was pushed off, or is the idle one, the run queue's clock may be as old as the
// wakeup. After a long idle time the difference may have grown so much that such an old reading would pass for a new one:
// then they are compared only where no thread has gone to sleep for a second.
static __always_inline __u64 switch_time(struct run_clock *clock, const struct rq *rq, bool prev_sleeps)
{
	__u64 now;

	if (rq && prev_sleeps) {
		now = rq->clock + clock->ahead_ns;
		if (now - clock->read_ns < CLOCK_READ_EVERY_NS)
			return now;
	}
	now = bpf_ktime_get_ns();
	if (rq && (prev_sleeps || !clock->ahead_at_ns || now - clock->read_ns >= COMPARE_EVERY_NS)) {
		compare_clocks(clock, rq, now);
		clock->read_ns = now;
	}
	return now;
}
