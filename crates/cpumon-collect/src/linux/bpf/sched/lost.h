// Exits that did not fit the ring buffer.
// traces:   a task that made its last switch, if its event found no space.
// produces: sums over the host and for each parent executable of what these tasks did since the last snapshot that has them: the
//           rest was charged to them while they lived. Names are lost, CPU time never is, and none is counted twice. Of page faults
//           all are counted again if another thread had taken the task's slot in the records of what was sent.
// costs:    two sums of an atomic addition a counter, for each lost exit.
#pragma once

#include "cpus.h"
#include "rest.h"

// Parents with a sum of their own.
#define MAX_LOST_PARENTS 64

struct parent_name {
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lost_sides);
} lost SEC(".maps");

// The empty name is that of all others. User space puts it in before the programs run.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LOST_PARENTS + 1);
	__type(key, struct parent_name);
	__type(value, struct lost_sides);
} lost_parents SEC(".maps");

static __always_inline void add_lost(struct lost_exits *sums, const struct counters *unsent)
{
	__u64 *sum = (__u64 *)&sums->counters;

#pragma unroll
	for (unsigned int i = 0; i < sizeof(*unsent) / sizeof(*sum); i++)
		__sync_fetch_and_add(&sum[i], ((const __u64 *)unsent)[i]);
	__sync_fetch_and_add(&sums->count, 1);
}

// Initial value for a parent.
static const struct lost_sides no_exits = {};

// Place of the first counter that is no proportion.
#define FIRST_EXACT (__builtin_offsetof(struct counters, run_ns) / sizeof(__u64))

// The part of a task's counters that no snapshot has, by the kernel's own. User and system time stay whole: they only give the
// proportions by which the run time is split. A failed pass has noted counters as sent that no snapshot has: their time stays unattributed.
static __noinline int unsent_by_kernel(struct counters *unsent, struct task_struct *task)
{
	struct rest *sent = rest_of(task);

	if (!unsent)
		return 0;
	fill_counters(unsent, task);
	if (!sent || sent->start_ns != task->start_boottime)
		return 0;
#pragma unroll
	for (unsigned int i = FIRST_EXACT; i < sizeof(*unsent) / sizeof(__u64); i++)
		((__u64 *)unsent)[i] = since(((__u64 *)unsent)[i], ((const __u64 *)&sent->counters)[i]);
	return 0;
}

// The part of an open slice or delay that was counted up to the cut.
static __always_inline __u64 open_run(const struct thread_times *at_cut, __u64 cut, __u32 tid)
{
	struct cpu *cpu = at_cut->state == STATE_RUNNING ? cpu_at(at_cut->cpu) : NULL;

	return cpu && cpu->cut_ns == cut && cpu->cut.tid == tid ? cpu->cut.slice_run_ns : 0;
}

static __always_inline __u64 open_delay(const struct thread_times *at_cut, __u64 cut)
{
	if (at_cut->state == STATE_READY)
		return since(cut, at_cut->at_ns);
	if (at_cut->state == STATE_BLOCKED && at_cut->ready_ns)
		return since(cut, later(at_cut->ready_ns, at_cut->at_ns));
	return 0;
}

static __always_inline __u64 delays_of(const struct thread_times *times)
{
	return times->delay_wakeup_ns + times->delay_preempt_ns;
}

static __noinline int count_lost(struct task_struct *task, const struct counters *unsent, __u32 side)
{
	struct parent_name name = {}, others = {};
	__u32 zero = 0;
	struct lost_sides *sums = bpf_map_lookup_elem(&lost, &zero);

	if (!unsent)
		return 0;
	// Parents first: a reader that sees the host's sum grown finds theirs grown too.
	bpf_probe_read_kernel_str(name.comm, sizeof(name.comm), task->real_parent->group_leader->comm);
	if (sums) {
		struct lost_sides *parent = bpf_map_lookup_elem(&lost_parents, &name);

		if (!parent) {
			bpf_map_update_elem(&lost_parents, &name, &no_exits, BPF_NOEXIST);
			parent = bpf_map_lookup_elem(&lost_parents, &name);
		}
		if (!parent)
			parent = bpf_map_lookup_elem(&lost_parents, &others);
		if (parent)
			add_lost(&parent->sides[side & 1], unsent);
		add_lost(&sums->sides[side & 1], unsent);
	}
	return 0;
}
