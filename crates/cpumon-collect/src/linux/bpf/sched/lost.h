// Exits that did not fit the ring buffer.
// traces:   a task that made its last switch, if its event found no space.
// produces: sums over the host and for each parent executable. Names are lost, CPU time never is.
// costs:    two sums of seven atomic additions a lost exit.
#pragma once

#include "../records/records.h"

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
	__type(value, struct lost_exits);
} lost SEC(".maps");

// The empty name is that of all others. User space puts it in before the programs run.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LOST_PARENTS + 1);
	__type(key, struct parent_name);
	__type(value, struct lost_exits);
} lost_parents SEC(".maps");

static __always_inline void add_lost(struct lost_exits *sums, struct task_struct *task, __u64 run, __u64 delay)
{
	__sync_fetch_and_add(&sums->run_ns, run);
	__sync_fetch_and_add(&sums->run_delay_ns, delay);
	__sync_fetch_and_add(&sums->utime_ns, task->utime);
	__sync_fetch_and_add(&sums->stime_ns, task->stime);
	__sync_fetch_and_add(&sums->voluntary_switches, task->nvcsw);
	__sync_fetch_and_add(&sums->involuntary_switches, task->nivcsw);
	__sync_fetch_and_add(&sums->count, 1);
}

// What a parent begins with.
static const struct lost_exits no_exits = {};

static __noinline int count_lost(struct task_struct *task, __u64 run, __u64 delay)
{
	struct parent_name name = {}, others = {};
	__u32 zero = 0;
	struct lost_exits *sums = bpf_map_lookup_elem(&lost, &zero);

	// Parents first: a reader that sees the host's sum grown finds theirs grown too.
	bpf_probe_read_kernel_str(name.comm, sizeof(name.comm), task->real_parent->group_leader->comm);
	if (sums) {
		struct lost_exits *parent = bpf_map_lookup_elem(&lost_parents, &name);

		if (!parent) {
			bpf_map_update_elem(&lost_parents, &name, &no_exits, BPF_NOEXIST);
			parent = bpf_map_lookup_elem(&lost_parents, &name);
		}
		if (!parent)
			parent = bpf_map_lookup_elem(&lost_parents, &others);
		if (parent)
			add_lost(parent, task, run, delay);
		add_lost(sums, task, run, delay);
	}
	return 0;
}
