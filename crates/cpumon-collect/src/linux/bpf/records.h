// What the probes hand to user space. Takes in: a kernel task. Gives out: `struct task_record` and what is built on it.
// Why: the iterator and the exit probe must tell the same of a task. This is the definition; records.rs mirrors it and
// both sides assert sizes and offsets. New counters go to the end of `struct task_record`.
#pragma once

#include "kernel.h"

#define ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#define ASSERT_AT(type, field, bytes) _Static_assert(__builtin_offsetof(struct type, field) == (bytes), #type "." #field)

// Bits of task_record.flags.
#define RECORD_KERNEL_THREAD 1 // works for the kernel only (PF_KTHREAD)
#define RECORD_ENDED_LEADER 2 // the leader ended, other threads of its process live on

struct task_record {
	__u64 start_ns; // CLOCK_BOOTTIME
	__u64 process_start_ns; // start of the group leader; 0: the leader is gone
	__u64 run_ns; // se.sum_exec_runtime
	__u64 utime_ns; // as sampled at the tick
	__u64 stime_ns; // as sampled at the tick
	__u64 run_delay_ns; // sched_info.run_delay
	__u64 voluntary_switches;
	__u64 involuntary_switches;
	__u32 tid;
	__u32 pid;
	__u32 parent_pid;
	__u32 uid;
	char comm[16];
	__u32 state; // __state | exit_state
	__u16 cpu;
	__s16 priority;
	__s8 nice;
	__u8 flags;
	__u16 reserved;
	__u32 missed; // 0; for user space
};
ASSERT_SIZE(task_record, 112);
ASSERT_AT(task_record, start_ns, 0);
ASSERT_AT(task_record, process_start_ns, 8);
ASSERT_AT(task_record, run_ns, 16);
ASSERT_AT(task_record, utime_ns, 24);
ASSERT_AT(task_record, stime_ns, 32);
ASSERT_AT(task_record, run_delay_ns, 40);
ASSERT_AT(task_record, voluntary_switches, 48);
ASSERT_AT(task_record, involuntary_switches, 56);
ASSERT_AT(task_record, tid, 64);
ASSERT_AT(task_record, pid, 68);
ASSERT_AT(task_record, parent_pid, 72);
ASSERT_AT(task_record, uid, 76);
ASSERT_AT(task_record, comm, 80);
ASSERT_AT(task_record, state, 96);
ASSERT_AT(task_record, cpu, 100);
ASSERT_AT(task_record, priority, 102);
ASSERT_AT(task_record, nice, 104);
ASSERT_AT(task_record, flags, 105);
ASSERT_AT(task_record, reserved, 106);
ASSERT_AT(task_record, missed, 108);

#define EVENT_EXIT 1
#define EVENT_EXEC 2
#define EVENT_ENDING 3

// Length of an executable's name in an event, its NUL included.
#define EXEC_NAME_BYTES 120

// A thread's last words, or (EVENT_ENDING) those when it began to end: from then on it may be out of every list.
struct exit_event {
	__u32 kind; // EVENT_EXIT, EVENT_ENDING
	__u32 threads_left; // threads of its process that had not begun to end (signal->live)
	__u64 end_ns; // CLOCK_BOOTTIME
	struct task_record task;
};
ASSERT_SIZE(exit_event, 128);
ASSERT_AT(exit_event, kind, 0);
ASSERT_AT(exit_event, threads_left, 4);
ASSERT_AT(exit_event, end_ns, 8);
ASSERT_AT(exit_event, task, 16);

// A process became another program.
struct exec_event {
	__u32 kind; // EVENT_EXEC
	__u32 old_tid; // the thread's id before; differs from task.tid if a thread other than the leader made the call
	__u64 at_ns; // CLOCK_BOOTTIME
	struct task_record task;
	char name[EXEC_NAME_BYTES]; // base name of the executable, NUL-terminated
};
ASSERT_SIZE(exec_event, 248);
ASSERT_AT(exec_event, kind, 0);
ASSERT_AT(exec_event, old_tid, 4);
ASSERT_AT(exec_event, at_ns, 8);
ASSERT_AT(exec_event, task, 16);
ASSERT_AT(exec_event, name, 128);

// Sums over the threads whose exit event did not fit.
struct lost_exits {
	__u64 count;
	__u64 run_ns;
	__u64 utime_ns;
	__u64 stime_ns;
	__u64 run_delay_ns;
	__u64 voluntary_switches;
	__u64 involuntary_switches;
	__u64 execs; // exec events that did not fit
};
ASSERT_SIZE(lost_exits, 64);
ASSERT_AT(lost_exits, count, 0);
ASSERT_AT(lost_exits, run_ns, 8);
ASSERT_AT(lost_exits, utime_ns, 16);
ASSERT_AT(lost_exits, stime_ns, 24);
ASSERT_AT(lost_exits, run_delay_ns, 32);
ASSERT_AT(lost_exits, voluntary_switches, 40);
ASSERT_AT(lost_exits, involuntary_switches, 48);
ASSERT_AT(lost_exits, execs, 56);

#define PF_KTHREAD 0x00200000
#define DEFAULT_PRIO 120
#define MAX_RT_PRIO 100

static __always_inline void fill_record(struct task_record *record, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	record->start_ns = task->start_boottime;
	// A thread that has been released already may outlive its leader. Its pointer is then stale: believe it only if
	// it points at a leader of this very group.
	record->process_start_ns = leader->pid == task->tgid ? leader->start_boottime : 0;
	record->run_ns = task->se.sum_exec_runtime;
	record->utime_ns = task->utime;
	record->stime_ns = task->stime;
	record->run_delay_ns = 0;
	if (bpf_core_field_exists(task->sched_info.run_delay))
		record->run_delay_ns = task->sched_info.run_delay;
	record->voluntary_switches = task->nvcsw;
	record->involuntary_switches = task->nivcsw;
	record->tid = task->pid;
	record->pid = task->tgid;
	record->parent_pid = task->real_parent->tgid;
	record->uid = task->real_cred->uid.val;
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), task->comm);
	record->state = state_of(task) | task->exit_state;
	record->cpu = cpu_of(task);
	record->priority = task->prio - MAX_RT_PRIO;
	record->nice = task->static_prio - DEFAULT_PRIO;
	record->flags = task->flags & PF_KTHREAD ? RECORD_KERNEL_THREAD : 0;
	record->reserved = 0;
	record->missed = 0;
}
