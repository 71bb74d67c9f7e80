// Control groups of processes that end.
// traces:   nothing itself; the last switch of a process's last thread, as exits.h reports it.
// produces: the number of the group that the process is in, and once for each group, before the first exit in it, its path. A process that
//           lives for a few ms has no files in /proc any more when user space would read its group, and the group may be gone as well.
// costs:    a lookup for each process that ends; docs/probes.md. A walk up to the root for each new group.
//
// A task leaves its group's list before its last switch, but keeps its css_set, and with it the groups, until it is freed.
#pragma once

#include "cut.h"
#include "events.h"
#include "nodes.h"

// Root groups of user space's namespace: the paths that it shows begin there. 0: not known yet.
static __u64 group_roots[HIERARCHIES] SEC(".bss.groups");

// Too large for the stack. Switches are not interrupted by others.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct group_event);
} group_events SEC(".maps");

// Notes where the paths begin that user space, which is reading, finds in /proc.
static __noinline int find_group_roots(void)
{
	struct task_struct *reader = (void *)bpf_get_current_task();
	struct css_set *set;

	if (!has_groups(reader))
		return 0;
	set = BPF_CORE_READ(reader, nsproxy, cgroup_ns, root_cset);
#pragma unroll
	for (__u64 hierarchy = 0; hierarchy < HIERARCHIES; hierarchy++) {
		struct kernfs_node *node = node_in(set, hierarchy, true);

		group_roots[hierarchy] = node ? BPF_CORE_READ(node, id) : 0;
	}
	return 0;
}

// Sends the path up to this root. False if it did not fit the buffer; one that is deeper, longer, or not below the root is not sent.
static __noinline bool send_group(struct kernfs_node *node, __u64 group, __u64 root)
{
	__u32 zero = 0, bytes = 0, size;
	struct group_event *event = bpf_map_lookup_elem(&group_events, &zero);

	if (!event)
		return false;
	for (int depth = 0; depth < MAX_DEPTH && node && BPF_CORE_READ(node, id) != root; depth++) {
		const char *name = BPF_CORE_READ(node, name);
		long length;

		if (bytes > GROUP_PATH_BYTES - GROUP_NAME_BYTES)
			return true;
		length = bpf_probe_read_kernel_str(event->names + bytes, GROUP_NAME_BYTES, name);
		if (length <= 0)
			return true;
		bytes += length;
		node = above(node);
	}
	if (!node || BPF_CORE_READ(node, id) != root || bytes > GROUP_PATH_BYTES)
		return true;
	event->head.kind = EVENT_GROUP;
	event->head.bytes = bytes;
	event->head.group = group;
	size = sizeof(event->head) + bytes;
	// The shortest event is an exit: by it user space reckons how many the buffer holds.
	if (size < sizeof(struct exit_event))
		size = sizeof(struct exit_event);
	if (!bpf_ringbuf_output(&events, event, size, wakeup()))
		return true;
	count_drop(EVENT_GROUP);
	return false;
}

// The number of the task's group; 0: not known. Where hierarchies of both versions have one, the first that is a container's counts,
// else the first.
static __noinline __u64 group_of(struct task_struct *task)
{
	__u64 group = group_roots[GROUPS_V2], root = group;
	struct kernfs_node *node = NULL;
	struct css_set *set;
	__u32 *round, now = control.group_round;
	bool is_found = false;

	if (!has_groups(task) || !group)
		return 0;
	set = task->cgroups;
#pragma unroll
	for (__u64 hierarchy = 0; hierarchy < HIERARCHIES; hierarchy++) {
		struct kernfs_node *here = node_in(set, hierarchy, false);
		__u64 id = here ? BPF_CORE_READ(here, id) : 0;

		if (hierarchy == GROUPS_V2)
			node = here;
		if (!id || id == group_roots[hierarchy])
			continue;
		if (is_found && (is_container(node) || !is_container(here)))
			continue;
		is_found = true;
		root = group_roots[hierarchy];
		group = id | hierarchy << HIERARCHY_SHIFT;
		node = here;
	}
	round = bpf_map_lookup_elem(&sent_groups, &group);
	if ((!round || *round != now) && send_group(node, group, root))
		bpf_map_update_elem(&sent_groups, &group, &now, BPF_ANY);
	return group;
}
