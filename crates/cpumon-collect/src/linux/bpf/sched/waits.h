// Waits by reason.
// traces:   a task that went to sleep and came back, as threads.h reports it.
// produces: the table of a thread's waits by the reasons of reasons.h.
// costs:    docs/probes.md.
#pragma once

#include "reasons.h"

// The last slot is for "other" alone.
#define NAMED_SLOTS (WAIT_SLOTS - 1)

// Not in the table. When that is full, the shortest gives up its slot and goes to "other", unless the new one is shorter still.
static __noinline int add_new_wait(struct thread_times *times, __u16 reason, __u64 ns)
{
	__u32 shortest = 0;

	if (!times)
		return 0;
	for (__u32 slot = 0; slot < NAMED_SLOTS; slot++) {
		if (times->reasons[slot] == 0) {
			times->reasons[slot] = reason;
			times->wait_ns[slot] = ns;
			return 0;
		}
		if (times->wait_ns[slot] < times->wait_ns[shortest])
			shortest = slot;
	}
	times->reasons[NAMED_SLOTS] = WAIT_OTHER;
	if (ns > times->wait_ns[shortest] && reason != WAIT_OTHER) {
		times->wait_ns[NAMED_SLOTS] += times->wait_ns[shortest];
		times->reasons[shortest] = reason;
		times->wait_ns[shortest] = ns;
	} else {
		times->wait_ns[NAMED_SLOTS] += ns;
	}
	return 0;
}

static __always_inline void add_wait(struct thread_times *times, __u64 ns)
{
	__u16 reason = times->reason;

	if (times->reasons[0] == reason)
		times->wait_ns[0] += ns;
	else if (times->reasons[1] == reason)
		times->wait_ns[1] += ns;
	else if (times->reasons[2] == reason)
		times->wait_ns[2] += ns;
	else if (times->reasons[3] == reason)
		times->wait_ns[3] += ns;
	else if (times->reasons[4] == reason)
		times->wait_ns[4] += ns;
	else
		add_new_wait(times, reason, ns);
}
