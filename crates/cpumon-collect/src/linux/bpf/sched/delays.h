// Run-delay histograms.
// traces:   each run delay that ends, as threads.h reports it.
// produces: `struct delay_histogram` of the CPU on which it ended, of the thread's process, and of the thread if user space
//           selected it. A sum and a maximum do not distinguish one rare long wait from many short ones.
// costs:    17 ns a switch; docs/probes.md.
//
// Histograms are in one array that user space maps, so that a pass reads them without a system call. A process takes a slot off
// a stack at its first delay and is found by a hash; a thread remembers its slots, so that a switch needs two array lookups.
// User space frees a slot when its process has ended and was read. So the slots in use are always the first, and user space maps
// no more than these. A delay without a slot is counted in `drops`.
#pragma once

#include "cpus.h"

#define PROBE_HISTOGRAMS 16

// The layout of the `histogram` crate with these powers; cpumon-model/src/delays.rs: `delay_bucket`.
#define DELAY_GROUPING_POWER 3
#define DELAY_MAX_POWER 34
#define DELAY_BUCKETS ((DELAY_MAX_POWER - DELAY_GROUPING_POWER + 1) << DELAY_GROUPING_POWER)

#define DELAYS_FREE 0
#define DELAYS_PROCESS 1
#define DELAYS_THREAD 2

// 32 bits each: user space reads them long before they come round, and adds up the differences.
struct delay_histogram {
	__u32 kind;
	__u32 owner; // tgid, tid
	__u64 start_ns; // of the owner, CLOCK_BOOTTIME
	__u32 counts[DELAY_BUCKETS];
};

struct delay_key {
	__u32 kind;
	__u32 owner;
	__u64 start_ns;
};

struct delay_page {
	__u64 round; // user space: other threads are selected, or slots are free again
	__u64 drops; // delays that are in no process's histogram, or not in that of a selected thread
	__u64 taken; // bits of the numbers of all slots that the probe ever took: none is above
};

// Slots of a thread. Slot 0 is never in use.
struct delay_slots {
	__u32 process;
	__u32 thread;
	__u64 until; // holds for rounds below
};
ASSERT_SIZE(delay_slots, 16);

volatile struct delay_page delay_page SEC(".bss.delays");

// user space sets the sizes of all four before it loads this
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct delay_histogram);
} delays SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct delay_histogram);
} cpu_delays SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct delay_key);
	__type(value, __u32);
} delay_owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, __u32);
} free_delays SEC(".maps");

static __always_inline __u32 delay_bucket(__u64 ns)
{
	__u32 low, power = 0, shift;

	if (ns >> DELAY_MAX_POWER)
		return DELAY_BUCKETS - 1;
	low = ns;
	if (ns >> 32) {
		power = 32;
		low = ns >> 32;
	}
	if (low >> 16) {
		power += 16;
		low >>= 16;
	}
	if (low >> 8) {
		power += 8;
		low >>= 8;
	}
	if (low >> 4) {
		power += 4;
		low >>= 4;
	}
	if (low >> 2) {
		power += 2;
		low >>= 2;
	}
	power += low >> 1;
	shift = power > DELAY_GROUPING_POWER ? power - DELAY_GROUPING_POWER : 0;
	return (shift << DELAY_GROUPING_POWER) + (__u32)(ns >> shift);
}

// The slot of a process, taken off the stack if it has none yet. 0: there is none.
static __noinline __u32 claim_delays(__u32 tgid, __u64 start_ns)
{
	struct delay_key key = {.kind = DELAYS_PROCESS, .owner = tgid, .start_ns = start_ns};
	__u32 *known = bpf_map_lookup_elem(&delay_owners, &key), slot = 0;
	struct delay_histogram *histogram;

	if (known)
		return *known;
	// Before the first round the stack is being filled, with the last slots first.
	if (!delay_page.round || bpf_map_pop_elem(&free_delays, &slot))
		return 0;
	__sync_fetch_and_or(&delay_page.taken, slot);
	// Another thread of the process may have been faster.
	if (bpf_map_update_elem(&delay_owners, &key, &slot, BPF_NOEXIST)) {
		bpf_map_push_elem(&free_delays, &slot, 0);
		known = bpf_map_lookup_elem(&delay_owners, &key);
		return known ? *known : 0;
	}
	histogram = bpf_map_lookup_elem(&delays, &slot);
	if (!histogram)
		return 0;
	histogram->owner = tgid;
	histogram->start_ns = start_ns;
	histogram->kind = DELAYS_PROCESS;
	return slot;
}

static __noinline __u32 selected_delays(__u32 tid, __u64 start_ns)
{
	struct delay_key key = {.kind = DELAYS_THREAD, .owner = tid, .start_ns = start_ns};
	__u32 *known = bpf_map_lookup_elem(&delay_owners, &key);

	return known ? *known : 0;
}

static __always_inline struct delay_histogram *delays_at(__u32 slot, __u32 kind, __u32 owner)
{
	struct delay_histogram *histogram = slot ? bpf_map_lookup_elem(&delays, &slot) : NULL;

	return histogram && histogram->kind == kind && histogram->owner == owner ? histogram : NULL;
}

static __always_inline void add_delay(struct delay_histogram *histogram, __u32 bucket)
{
	__sync_fetch_and_add(&histogram->counts[bucket & (DELAY_BUCKETS - 1)], 1);
}

// The slow way: at a thread's first delay, when other threads are selected, when slots are free again.
static __noinline int find_delays(struct task_struct *task, struct delay_slots *slots, __u64 round)
{
	struct task_struct *leader = task->group_leader;

	if (!slots)
		return 0;
	slots->until = round + 1;
	// See `fill_record`: of a stale pointer nothing is believed.
	slots->process = leader->pid == task->tgid ? claim_delays(task->tgid, leader->start_boottime) : 0;
	slots->thread = selected_delays(task->pid, task->start_boottime);
	return 0;
}

// A delay of `task` ended on this CPU.
static __always_inline void count_delay(struct task_struct *task, struct delay_slots *slots, __u64 delay, __u32 cpu)
{
	struct delay_histogram *histogram = bpf_map_lookup_elem(&cpu_delays, &cpu);
	__u32 bucket = delay_bucket(delay), tgid = task->tgid;
	__u64 round = delay_page.round;

	// Only this CPU writes to its own.
	if (histogram)
		histogram->counts[bucket & (DELAY_BUCKETS - 1)] += 1;
	if (slots->until <= round)
		find_delays(task, slots, round);
	histogram = delays_at(slots->process, DELAYS_PROCESS, tgid);
	if (histogram)
		add_delay(histogram, bucket);
	else
		__sync_fetch_and_add(&delay_page.drops, 1);
	if (slots->thread) {
		histogram = delays_at(slots->thread, DELAYS_THREAD, task->pid);
		if (histogram)
			add_delay(histogram, bucket);
		else
			slots->thread = 0;
	}
}
