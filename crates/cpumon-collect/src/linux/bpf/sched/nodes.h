// Where a task is in the trees of control groups.
// traces:   nothing itself.
// produces: the directory of a task's group, and the map of the groups whose name was sent.
// costs:    some reads of kernel memory.
#pragma once

#include "../records/records.h"

// Control groups one inside the other, at most.
#define MAX_DEPTH 32
// Hierarchies, at most.
#define MAX_LINKS 32
// NAME_MAX and a NUL.
#define GROUP_NAME_BYTES 256
// Digits of a container's id, and how far above a group inside a container (its init.scope, slices and units) one is sought.
#define CONTAINER_ID_BYTES 64
#define MAX_CONTAINER_DEPTH 4

// Address of systemd's hierarchy, if there is one.
static __u64 systemd_root SEC(".bss.groups");

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

// The group of a hierarchy without controllers is in a list only. `is_search`: which hierarchy it is shall be found out.
static __noinline struct kernfs_node *systemd_node(struct css_set *set, bool is_search)
{
	struct list_head *head = __builtin_preserve_access_index(&set->cgrp_links), *at = BPF_CORE_READ(head, next);

	for (int i = 0; i < MAX_LINKS && at != head; i++) {
		struct cgrp_cset_link *link = (void *)at - bpf_core_field_offset(struct cgrp_cset_link, cgrp_link);
		struct cgroup *group = BPF_CORE_READ(link, cgrp);
		struct cgroup_root *root = BPF_CORE_READ(group, root);

		bool is_it = (__u64)root == systemd_root;

		if (is_search) {
			static const char systemd[8] = "systemd";
			char name[8] = {};

			bpf_probe_read_kernel(name, sizeof(name), __builtin_preserve_access_index(&root->name));
			is_it = *(__u64 *)name == *(const __u64 *)systemd;
		}
		if (is_it) {
			systemd_root = (__u64)root;
			return BPF_CORE_READ(group, kn);
		}
		at = BPF_CORE_READ(at, next);
	}
	if (is_search)
		systemd_root = 0;
	return NULL;
}

// The directory of a group in a hierarchy; NULL: there is none.
static __always_inline struct kernfs_node *node_in(struct css_set *set, __u64 hierarchy, bool is_search)
{
	if (hierarchy == GROUPS_V2)
		return node_v2(set);
	if (hierarchy == GROUPS_V1_SYSTEMD)
		return is_search || systemd_root ? systemd_node(set, is_search) : NULL;
	return node_v1_cpu(set);
}

static __always_inline struct kernfs_node *above(struct kernfs_node *node)
{
	if (bpf_core_field_exists(node->__parent))
		return BPF_CORE_READ(node, __parent);
	return BPF_CORE_READ((struct kernfs_node___older *)node, parent);
}

// A mask of the first bytes of a word.
static __always_inline __u64 first_bytes(int count)
{
	static const char bytes[16] = "\xff\xff\xff\xff\xff\xff\xff\xff";

	return count > 0 ? *(const __u64 *)(bytes + (count < 8 ? 8 - count : 0)) : 0;
}

// Whether a name begins with these bytes, at most 16. By words: BPF has no functions for text, and not every compiler unrolls loops.
static __always_inline bool begins(const __u64 *name, const char *bytes, int count)
{
	__u64 words[2];

	__builtin_memcpy(words, bytes, sizeof(words));
	return !((name[0] ^ words[0]) & first_bytes(count)) && !((name[1] ^ words[1]) & first_bytes(count - 8));
}

#define BEGINS(name, text) begins(name, (const char[16]){ text }, sizeof(text) - 1)
// With the zero at the end.
#define IS(name, text) begins(name, (const char[16]){ text }, sizeof(text))

// Containers that are not named by a long id: of LXC, systemd-nspawn and BuildKit.
static __always_inline bool names_container(const __u64 *name)
{
	return BEGINS(name, "lxc.payload") || BEGINS(name, "machine-") || BEGINS(name, "systemd-nspawn@") ||
	       BEGINS(name, "buildkit-") || BEGINS(name, "docker-buildkit-");
}

// Groups that an engine has its containers in.
static __always_inline bool has_containers(const __u64 *name)
{
	return IS(name, "lxc") || IS(name, "garden") || IS(name, "ecs") || IS(name, "ecstasks") || IS(name, "buildkit");
}

// Whether the group, or one close above it, is a container's: its name is as long as an id, or of a form of `CgroupNames` in
// user space, which has them all. Asked only where hierarchies differ.
static __noinline bool is_container(struct kernfs_node *node)
{
	__u64 name[CONTAINER_ID_BYTES / 8 + 1];

	for (int depth = 0; depth < MAX_CONTAINER_DEPTH && node; depth++) {
		// With the zero at its end.
		if (bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(node, name)) > CONTAINER_ID_BYTES)
			return true;
		if (names_container(name) || (depth && has_containers(name)))
			return true;
		node = above(node);
	}
	return false;
}
