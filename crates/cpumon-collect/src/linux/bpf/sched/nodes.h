// Where a task is in the trees of control groups.
// traces:   nothing itself.
// produces: the directory of a task's group, and the map of the groups whose name was sent.
// costs:    some reads of kernel memory.
#pragma once

#include "../records/records.h"

// Control groups one inside the other, at most.
#define MAX_DEPTH 32
// NAME_MAX and a NUL.
#define GROUP_NAME_BYTES 256
// Digits of a container's id, and how far above a group inside a container (its init.scope, slices and units) one is sought.
#define CONTAINER_ID_BYTES 64
#define MAX_CONTAINER_DEPTH 4

// Groups whose name was sent, with the round, or 1.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u32);
} sent_groups SEC(".maps");

static __always_inline bool has_groups(struct task_struct *task)
{
	return bpf_core_field_exists(task->cgroups) && bpf_core_field_exists(((struct kernfs_node *)0)->id);
}

static __always_inline struct kernfs_node *node_v2(struct css_set *set)
{
	return BPF_CORE_READ(set, dfl_cgrp, kn);
}

// In the hierarchy with the controller `cpu`; NULL if that is v2.
static __always_inline struct kernfs_node *node_v1_cpu(struct css_set *set)
{
	struct cgroup *v2 = BPF_CORE_READ(set, dfl_cgrp), *v1;
	struct cgroup_subsys_state *state = NULL;
	void *states = __builtin_preserve_access_index(&set->subsys);

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		return NULL;
	states += bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id) * sizeof(state);
	bpf_probe_read_kernel(&state, sizeof(state), states);
	v1 = BPF_CORE_READ(state, cgroup);
	return BPF_CORE_READ(v1, root) == BPF_CORE_READ(v2, root) ? NULL : BPF_CORE_READ(v1, kn);
}

static __always_inline struct kernfs_node *above(struct kernfs_node *node)
{
	if (bpf_core_field_exists(node->__parent))
		return BPF_CORE_READ(node, __parent);
	return BPF_CORE_READ((struct kernfs_node___older *)node, parent);
}

// Whether the group, or one close above it, has a name as long as the id of a container. User space knows the forms of names; here the
// length distinguishes a container's group from its engine's. Asked only where hierarchies differ.
static __noinline bool is_container(struct kernfs_node *node)
{
	char name[CONTAINER_ID_BYTES + 8];

	for (int depth = 0; depth < MAX_CONTAINER_DEPTH && node; depth++) {
		// With the zero at its end.
		if (bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(node, name)) > CONTAINER_ID_BYTES)
			return true;
		node = above(node);
	}
	return false;
}
