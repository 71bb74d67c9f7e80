// The state of each thread that user space received last.
// traces:   each thread that the iterator visits, and each rename.
// produces: whether a thread has been idle since. Most threads of a host are: for them the iterator sends one word instead of a
//           record. Also the kernel's counters as sent: an exit that is only summed counts less what was shown (lost.h).
// costs:    88 bytes a slot; the first 24 are read for an idle thread. Neither its storage nor most of its task_struct is read, as
//           no cache holds them.
//
// A thread that is off its CPU and in no run queue, and has made no switch since, has not run: its counters are unchanged, and its open
// wait lasts. `others` has the fields that other threads can change meanwhile; its name is reported by an event.
#pragma once

#include "cut.h"

// A thread when it was sent to user space.
struct rest {
	__u64 start_ns; // CLOCK_BOOTTIME
	__u32 switches; // lower half of the switch count in the state that was sent
	__u32 others; // its parent, priorities and affinity, mixed
	__u32 rests;
	__u32 reserved;
	struct counters counters; // as sent
};

ASSERT_SIZE(rest, 88);

// Slots by tid; threads that share one are sent in full. User space sets the size, a power of two, before it loads this.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rest);
} rests SEC(".maps");

static __always_inline struct rest *rest_of(struct task_struct *task)
{
	__u32 slot = task->pid & control.rest_mask;

	return bpf_map_lookup_elem(&rests, &slot);
}

static __always_inline __u32 switches_of(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

static __always_inline bool is_off_cpu(struct task_struct *task)
{
	return !task->on_rq && !(bpf_core_field_exists(task->on_cpu) && task->on_cpu);
}

static __always_inline __u32 others_of(struct task_struct *task)
{
	return task->real_parent->tgid ^ task->prio << 24 ^ task->static_prio << 16 ^ task->nr_cpus_allowed << 8;
}

static __always_inline bool has_rested(struct task_struct *task, const struct rest *rest)
{
	return rest->rests && rest->start_ns == task->start_boottime && rest->switches == switches_of(task) && is_off_cpu(task) &&
	       rest->others == others_of(task) && !control.send_all && (__u32)task->pid % REFRESH_PASSES != control.refresh;
}
