// Identity of a task: its number in the recording, its names and its control group.
// traces:   nothing itself.
// produces: RECORD_TASK or RECORD_PROGRAM once, before the first event of a task, and RECORD_GROUP once for each group, in ring buffers
//           of the kernel.
// costs:    a read of the task's storage, unless the task is the one that has the CPU.
#pragma once

#include "../sched/nodes.h"
#include "slots.h"

#define RECORD_TASK 7
#define RECORD_PROGRAM 8
#define RECORD_GROUP 10

#define UNKNOWN_TASK 0xffffffff

#define PROGRAM_BYTES 64

struct task_entry {
	__u64 at_ns;
	__u8 kind;
	__u8 is_kernel;
	__u16 cpu;
	__u32 task;
	__u64 start_ns; // CLOCK_BOOTTIME
	__u64 process_start_ns;
	__u32 tid;
	__u32 pid;
	char comm[16];
	char process_comm[16];
	__u64 group; // 0: not known
};

struct program_entry {
	struct task_entry task;
	char program[PROGRAM_BYTES];
};

struct group_entry {
	__u64 at_ns;
	__u8 kind;
	__u8 reserved;
	__u16 cpu;
	__u32 task;
	__u64 group;
	__u64 parent; // 0: it is the root
	char name[GROUP_NAME_BYTES];
};

// A task's number and names in this trace.
struct traced {
	__u32 number;
	__u32 is_sent;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct traced);
} traced SEC(".maps");

static __u32 last_number SEC(".bss.numbers");

// Sends the names of a group and of those above that were not sent yet. `hierarchy`: in the highest bits.
static __noinline int send_groups(struct kernfs_node *node, __u64 hierarchy, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id();

	for (int depth = 0; depth < MAX_DEPTH && node; depth++) {
		struct kernfs_node *parent = above(node);
		__u64 group = BPF_CORE_READ(node, id) | hierarchy;
		struct group_entry *entry;
		__u32 is_sent = 1;

		if (bpf_map_lookup_elem(&sent_groups, &group))
			return 0;
		entry = reserve_entry(cpu, sizeof(*entry), now);
		if (!entry)
			return 0;
		entry->at_ns = now;
		entry->kind = RECORD_GROUP;
		entry->reserved = 0;
		entry->cpu = cpu;
		entry->task = 0;
		entry->group = group;
		entry->parent = parent ? BPF_CORE_READ(parent, id) | hierarchy : 0;
		if (bpf_probe_read_kernel_str(entry->name, sizeof(entry->name), BPF_CORE_READ(node, name)) < 0)
			entry->name[0] = 0;
		bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP);
		bpf_map_update_elem(&sent_groups, &group, &is_sent, BPF_ANY);
		node = parent;
	}
	return 0;
}

// The number of the task's control group; 0: not known. Where it is in no group of v2, or in that of a container only in another
// hierarchy, the group of that one counts.
static __noinline __u64 group_of(struct task_struct *task, __u64 now)
{
	struct kernfs_node *node;
	__u64 hierarchy = GROUPS_V2;
	struct css_set *set;

	if (!task || !has_groups(task))
		return 0;
	set = task->cgroups;
	node = node_v2(set);
	if (!node)
		return 0;
#pragma unroll
	for (__u64 other = GROUPS_V2 + 1; other < HIERARCHIES; other++) {
		struct kernfs_node *here = node_in(set, other, !systemd_root);

		if (!here || !above(here))
			continue;
		if (!above(node) || (!is_container(node) && is_container(here))) {
			node = here;
			hierarchy = other << HIERARCHY_SHIFT;
		}
	}
	send_groups(node, hierarchy, now);
	return BPF_CORE_READ(node, id) | hierarchy;
}

// A record of the task's identity; `size`: with the data behind it. NULL if it does not fit.
static __always_inline struct task_entry *reserve_task(struct task_struct *task, __u32 number, __u64 size, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 group = group_of(task, now);
	struct task_entry *entry = reserve_entry(cpu, size, now);

	if (!entry)
		return NULL;
	entry->at_ns = now;
	entry->kind = RECORD_TASK;
	entry->is_kernel = !!(task->flags & PF_KTHREAD);
	entry->cpu = cpu;
	entry->task = number;
	entry->start_ns = task->start_boottime;
	entry->process_start_ns = task->group_leader->start_boottime;
	entry->tid = task->pid;
	entry->pid = task->tgid;
	__builtin_memcpy(entry->comm, task->comm, sizeof(entry->comm));
	bpf_probe_read_kernel(entry->process_comm, sizeof(entry->process_comm), task->group_leader->comm);
	entry->group = group;
	return entry;
}

static __noinline int send_identity(struct task_struct *task, __u32 number, __u64 now)
{
	struct task_entry *entry = task ? reserve_task(task, number, sizeof(*entry), now) : NULL;

	if (!entry)
		return 0;
	bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP);
	return 1;
}

// A task that has no number yet, or whose identity did not fit before.
static __noinline __u32 introduce(struct task_struct *task, __u64 now)
{
	struct traced *is;

	if (!task)
		return UNKNOWN_TASK;
	is = bpf_task_storage_get(&traced, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!is)
		return UNKNOWN_TASK;
	if (!is->number)
		is->number = __sync_fetch_and_add(&last_number, 1) + 1;
	if (send_identity(task, is->number, now))
		is->is_sent = 1;
	return is->number;
}

static __always_inline __u32 number_of(struct task_struct *task, __u64 now)
{
	struct traced *is;

	if (!task->pid)
		return 0;
	is = bpf_task_storage_get(&traced, task, 0, 0);
	if (is && is->is_sent)
		return is->number;
	return introduce(task, now);
}

// The number of the task on this CPU, as a rule without a read of its storage. The tid changes when a thread's exec takes
// over its leader's id.
static __always_inline __u32 number_of_running(struct cpu_state *here, struct task_struct *task, __u64 now)
{
	if (here->running == (__u64)task && here->running_tid == task->pid)
		return here->running_number;
	return number_of(task, now);
}
