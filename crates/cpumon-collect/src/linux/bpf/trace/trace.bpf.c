// traces:   each switch (tp_btf/sched_switch), wakeup (sched_waking, sched_wakeup_new), move to another queue
//           (sched_migrate_task), birth (task_newtask), exec, rename and the beginning of each end (sched_process_exit). If wanted,
//           begin and end of each interrupt.
// produces: 24 bytes an event (slots.h); who a task is once, before its first event, and again after a rename or exec (identity.h).
//           Events have the task's number, which is in its storage and never reused.
// costs:    docs/trace.md
#include "../sched/reasons.h"
#include "identity.h"
#include "slots.h"

char LICENSE[] SEC("license") = "GPL";

// Not used: it puts records that no map has into the object's type information, so that build.rs can make Rust structs for them.
union {
	struct event_record event;
	struct program_entry program;
	struct group_entry group;
} *sent_records SEC(".bss.regs");

#define LEAVES_READY 0
#define LEAVES_ASLEEP 1
#define LEAVES_DEAD 2

static __always_inline int on_switch(bool preempt, struct task_struct *prev, struct task_struct *next, __u32 state)
{
	struct cpu_state *here = this_cpu();
	bool sleeps = !preempt && state && prev->pid;
	__u8 leaves = LEAVES_READY;
	__u16 reason = 0;
	__u32 from, to;
	__u64 now;

	if (!here)
		return 0;
	now = switch_time(&here->clock, rq_of(prev), sleeps);
	// A thread that was to be pushed off and goes to sleep before that leaves the queue's clock as old as the wakeup.
	if (now < here->last_ns)
		now = bpf_ktime_get_ns();
	from = number_of_running(here, prev, now);
	to = number_of(next, now);
	here->running = (__u64)next;
	here->running_tid = next->pid;
	here->running_number = to;
	if (sleeps) {
		leaves = state & TASK_DEAD ? LEAVES_DEAD : LEAVES_ASLEEP;
		if (leaves == LEAVES_ASLEEP)
			reason = wait_reason(prev, state);
	}
	return send(here, RECORD_SWITCH, leaves, from, to, reason, now);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch_4, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	return on_switch(preempt, prev, next, prev_state);
}

// Before Linux 5.18 the event has no state. A wakeup may have changed it already, but never to 0.
SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch_3, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return on_switch(preempt, prev, next, state_of(prev));
}

static __always_inline int on_wake(struct task_struct *task)
{
	struct cpu_state *here = this_cpu();
	__u64 now = bpf_ktime_get_ns();
	__u32 waker;

	if (!here)
		return 0;
	waker = number_of_running(here, bpf_get_current_task_btf(), now);
	return send(here, RECORD_WAKING, 0, number_of(task, now), waker, cpu_of(task), now);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	return on_wake(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	return on_wake(task);
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int to_cpu)
{
	struct cpu_state *here = this_cpu();
	__u64 now = bpf_ktime_get_ns();

	return here ? send(here, RECORD_MIGRATE, 0, number_of(task, now), 0, to_cpu, now) : 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_birth, struct task_struct *task)
{
	struct cpu_state *here = this_cpu();
	__u64 now = bpf_ktime_get_ns();
	__u32 parent;

	if (!here)
		return 0;
	parent = number_of_running(here, bpf_get_current_task_btf(), now);
	return send(here, RECORD_BORN, 0, number_of(task, now), parent, 0, now);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct cpu_state *here = this_cpu();
	__u64 now = bpf_ktime_get_ns();

	return here ? send(here, RECORD_EXIT, 0, number_of(task, now), 0, 0, now) : 0;
}

// The task still has its old name.
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 number = number_of(task, now);
	struct task_entry *entry = number ? reserve_task(task, number, sizeof(*entry), now) : NULL;

	if (!entry)
		return 0;
	bpf_probe_read_kernel_str(entry->comm, sizeof(entry->comm), comm);
	if (task->pid == task->tgid)
		__builtin_memcpy(entry->process_comm, entry->comm, sizeof(entry->comm));
	bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *program)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 number = number_of(task, now);
	struct program_entry *entry = (void *)reserve_task(task, number, sizeof(*entry), now);

	if (!entry)
		return 0;
	entry->task.kind = RECORD_PROGRAM;
	if (bpf_probe_read_kernel_str(entry->program, sizeof(entry->program), program->file->f_path.dentry->d_name.name) < 0)
		entry->program[0] = 0;
	bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP);
	return 0;
}

#include "interrupts.h"
