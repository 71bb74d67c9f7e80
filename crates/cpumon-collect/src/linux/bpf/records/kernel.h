// The kernel types that the probes touch. CO-RE moves every access to where the running kernel keeps the field (preserve_access_index),
// so neither the order of fields nor missing ones matter, and no generated header of several megabytes is needed.
#pragma once

#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct;

typedef struct {
	int counter;
} atomic_t;

struct rq;

struct cfs_rq {
	unsigned int h_nr_queued;
	unsigned int h_nr_runnable;
	int throttle_count;
	struct rq *rq;
};

struct rq {
	unsigned int nr_running;
	struct cfs_rq cfs;
	__u64 clock;
	atomic_t nr_iowait;
	struct task_struct *curr;
	__u64 prev_steal_time;
	__u64 prev_steal_time_rq;
};

// Before Linux 6.14.
struct cfs_rq___older {
	unsigned int h_nr_delayed;
};

struct rq___older {
	struct cfs_rq___older cfs;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 nr_migrations;
	unsigned char sched_delayed;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_queued;
};

struct thread_info {
	__u32 cpu;
	__u32 status;
	__u64 preempt_count; // arm64
};

struct kuid {
	__u32 val;
};

struct cred {
	struct kuid uid;
};

struct signal_struct {
	atomic_t live;
	int nr_threads;
};

struct kernfs_node {
	__u64 id;
	const char *name;
	struct kernfs_node *__parent;
};

// Before Linux 6.15.
struct kernfs_node___older {
	struct kernfs_node *parent;
};

struct cgroup_root {
	char name[64];
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

enum cgroup_subsys_id {
	cpu_cgrp_id,
};

struct list_head {
	struct list_head *next;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
	struct list_head cgrp_links;
};

struct cgrp_cset_link {
	struct cgroup *cgrp;
	struct list_head cgrp_link;
};

struct cgroup_namespace {
	struct css_set *root_cset;
};

struct nsproxy {
	struct cgroup_namespace *cgroup_ns;
};

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int on_rq;
	unsigned in_iowait : 1;
	int prio;
	int static_prio;
	int nr_cpus_allowed;
	struct sched_entity se;
	struct sched_info sched_info;
	bool throttled; // since Linux 6.18
	int exit_state;
	struct mm_struct *mm;
	void *stack;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_boottime;
	unsigned long min_flt;
	unsigned long maj_flt;
	const struct cred *real_cred;
	char comm[16];
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct files_struct *files;
};

// Before Linux 5.14 the state had another name and type, before 5.16 most machines kept the CPU in the task itself.
struct task_struct___older {
	volatile long state;
	unsigned int cpu;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di;
	long orig_ax;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 pstate;
	__u64 orig_x0;
	int syscallno;
};
#else
struct pt_regs;
#endif

struct irqaction {
	unsigned int irq;
};

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
	const char *interp;
};

#pragma clang attribute pop

// include/linux/sched.h. TASK_DEAD: the task's last switch is being made or has been made.
#define TASK_UNINTERRUPTIBLE 0x02
#define TASK_STOPPED 0x04
#define TASK_TRACED 0x08
#define TASK_DEAD 0x80
#define TASK_WAKING 0x200
#define TASK_NOLOAD 0x400

// kernel/sched/sched.h: in a run queue, not on its way to another.
#define TASK_ON_RQ_QUEUED 1
#define TASK_ON_RQ_MIGRATING 2

static __always_inline __u32 state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return BPF_CORE_READ((struct task_struct___older *)task, state);
}

static __always_inline bool is_runnable(struct task_struct *task)
{
	__u32 state = state_of(task);

	return state == 0 || state == TASK_WAKING;
}

// It sleeps. Since Linux 6.12 the scheduler may leave a thread in its queue for some time after that (`sched_delayed`). Without that
// mark a thread in a queue may be runnable whatever its state says: pushed off on its way to sleep, or just being woken.
static __always_inline bool is_asleep(struct task_struct *task)
{
	if (is_runnable(task))
		return false;
	return !task->on_rq || (bpf_core_field_exists(task->se.sched_delayed) && task->se.sched_delayed);
}

// Threads in a queue that can run. `nr_running` has those that sleep, too, as long as the scheduler leaves them there. The kernels that
// do not report how many these are (6.12 without later fixes) count them.
static __always_inline __u32 runnable_in(const struct rq *rq)
{
	struct rq___older *older = (void *)rq;
	__u32 asleep = 0;

	if (bpf_core_field_exists(rq->cfs.h_nr_queued) && bpf_core_field_exists(rq->cfs.h_nr_runnable))
		asleep = rq->cfs.h_nr_queued - rq->cfs.h_nr_runnable;
	else if (bpf_core_field_exists(older->cfs.h_nr_delayed))
		asleep = BPF_CORE_READ(older, cfs.h_nr_delayed);
	return rq->nr_running - asleep;
}

static __always_inline __u32 cpu_of(struct task_struct *task)
{
	struct task_struct___older *older = (void *)task;

	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	if (bpf_core_field_exists(older->cpu))
		return BPF_CORE_READ(older, cpu);
	return 0;
}
