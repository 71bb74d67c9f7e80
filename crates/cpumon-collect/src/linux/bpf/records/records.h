// Records that the probes hand to user space: `struct task_record` and the structs that contain it. The iterator and the
// exit probe must report a task alike. build.rs makes the Rust structs from the type information of the compiled programs.
#pragma once

#include "kernel.h"

#define ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)

// Bits of task_record.flags.
#define RECORD_KERNEL_THREAD 1 // works for the kernel only (PF_KTHREAD)
#define RECORD_ENDED_LEADER 2 // the leader ended, other threads of its process live on
#define RECORD_ONE_CPU 64 // its affinity has one CPU; not set for threads of the kernel

// The counters of a task, as `Counters` of cpumon-model has them: the Rust build fails where they differ.
struct counters {
	__u64 user_ns; // as sampled at the tick
	__u64 system_ns; // as sampled at the tick
	__u64 run_ns; // se.sum_exec_runtime
	__u64 run_delay_ns; // sched_info.run_delay
	__u64 voluntary_switches;
	__u64 involuntary_switches;
	__u64 minor_faults;
	__u64 major_faults;
};

// A thread by its switches: cumulative times at one instant, and its state since `at_ns`. Zero where the switches are not
// watched. Kept in task storage; counts continue from the kernel's own at first sight.
#define WAIT_SLOTS 6

#define STATE_NONE 0 // not watched
#define STATE_BLOCKED 1 // neither running nor runnable; runnable since `ready_ns` if that is not 0
#define STATE_READY 2 // pushed off its CPU while runnable
#define STATE_RUNNING 3

#define TIMES_BROKEN 1 // a switch of this thread was missed: its times fall short
#define TIMES_THROTTLED 4 // ready, but its group has used up its limit
#define TIMES_ENDING 2 // it has begun to end, and reports every switch: it may be out of every list

struct thread_times {
	__u64 at_ns; // CLOCK_MONOTONIC, as all instants here: begin of the open state
	__u64 ready_ns; // woken at; 0: not yet
	__u64 run_ns; // irq, softirq and steal taken out
	__u64 voluntary_switches;
	__u64 involuntary_switches;
	__u64 delay_wakeup_ns; // runnable after a wakeup, waiting for a CPU
	__u64 delay_preempt_ns; // runnable after being pushed off
	__u64 blocked_ns;
	__u64 longest_delay_ns; // since the cut of `longest_cut`
	__u16 cpu; // ran here last, or became ready here
	__u16 reason; // of the open wait: WAIT_* | system call
	__u8 state;
	__u8 flags;
	__u16 reserved;
	__u16 reasons[WAIT_SLOTS]; // of the waits that ended; 0: free
	__u32 longest_cut; // lower half of its instant
	__u64 wait_ns[WAIT_SLOTS]; // sums to blocked_ns
};

struct task_record {
	__u64 start_ns; // CLOCK_BOOTTIME
	__u64 process_start_ns; // start of the group leader; 0: the leader is gone
	struct counters counters;
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
	__u16 missed; // 0; for user space
	__u32 migrations; // se.nr_migrations
	struct thread_times times; // the last field: the iterator leaves it out where there are none
};

// Output of the iterator: a header, and the data that it announces.
#define SENT_SAME 1 // nothing: the thread did not move since it was sent last
#define SENT_TASK 2 // a task_record without its times
#define SENT_TIMES 3 // a whole task_record
#define SENT_TORN 4 // a task_record without its times, which changed at every attempt to read them

struct sent {
	__u32 kind;
	__u32 tid;
};

#define EVENT_EXIT 1
#define EVENT_EXEC 2
#define EVENT_ENDING 3
#define EVENT_CUT 4
#define EVENT_GROUP 5
#define EVENT_SCRIPT 6

// Length of an executable's name in an event, its NUL included.
#define EXEC_NAME_BYTES 120

// A thread's last words, or (EVENT_ENDING) those when it began to end: from then on it may be out of every list. Or
// (EVENT_CUT) how it stood at the cut, because it ends before the iterator can pass by.
struct exit_event {
	__u32 kind; // EVENT_EXIT, EVENT_ENDING, EVENT_CUT
	__u32 threads_left; // threads of its process that had not begun to end (signal->live)
	__u64 end_ns; // CLOCK_BOOTTIME
	__u64 cut_ns; // the newest cut that was past; 0: none
	struct task_record task;
	__u64 group; // EVENT_EXIT: the control group of a process whose last thread ended; 0: unknown
};

// A process became another program.
struct exec_event {
	__u32 kind; // EVENT_EXEC, EVENT_SCRIPT
	__u32 old_tid; // the thread's id before; differs from task.tid if a thread other than the leader made the call
	__u64 at_ns; // CLOCK_BOOTTIME
	__u64 cut_ns; // the newest cut that was past; 0: none
	struct task_record task;
	char name[EXEC_NAME_BYTES]; // base name of the executable, NUL-terminated
};

// The most that is read of the arguments of a program that may run a script.
#define ARGUMENT_BYTES 256

// A process became a program that may run a script, which its arguments name.
struct script_event {
	struct exec_event exec;
	__u32 bytes; // of `arguments`; 0: they could not be read
	__u32 is_cut; // there are more
	char arguments[ARGUMENT_BYTES]; // each NUL-terminated
};

// Hierarchies of control groups, in the order in which they are asked for a process's group. The number of a group is its id with the
// hierarchy in the highest bits: each hierarchy counts for itself.
#define GROUPS_V2 0
#define GROUPS_V1_CPU 1 // with the controller `cpu`, unless v2 has it
#define GROUPS_V1_SYSTEMD 2 // `name=systemd`, without controllers
#define HIERARCHIES 3
#define HIERARCHY_SHIFT 62

// Longest path of a group that is sent, its NULs included; PATH_MAX, as /proc shows it.
#define GROUP_PATH_BYTES 4096

struct group_header {
	__u32 kind; // EVENT_GROUP
	__u32 bytes; // of the names
	__u64 group;
};

// How a group is called; sent before the first exit in it.
struct group_event {
	struct group_header head;
	char names[GROUP_PATH_BYTES]; // from the group up to the root, which has none, each NUL-terminated
};

// Sums over the threads whose exit event did not fit, cumulative since the probe was loaded: their counters since the last snapshot
// that has them. User and system time are whole, because only their proportion counts.
struct lost_exits {
	__u64 count;
	struct counters counters;
	__u64 execs; // exec events that did not fit
};

// A cut divides them: those before it are the pass's, those after it the next one's. Each is added on the side of the newest cut that was
// past, by the cut's lowest bit, which alternates.
struct lost_sides {
	struct lost_exits sides[2];
};

// Events that did not fit the ring buffer, by kind. They are counted here whatever else is done about them: exits are
// summed besides (struct lost_exits).
struct ring_drops {
	__u64 exits;
	__u64 execs;
	__u64 endings;
	__u64 cuts;
	__u64 groups; // names of control groups
};

#define PF_KTHREAD 0x00200000
#define DEFAULT_PRIO 120
#define MAX_RT_PRIO 100

static __always_inline void fill_counters(struct counters *counters, struct task_struct *task)
{
	counters->user_ns = task->utime;
	counters->system_ns = task->stime;
	counters->run_ns = task->se.sum_exec_runtime;
	counters->run_delay_ns = 0;
	if (bpf_core_field_exists(task->sched_info.run_delay))
		counters->run_delay_ns = task->sched_info.run_delay;
	counters->voluntary_switches = task->nvcsw;
	counters->involuntary_switches = task->nivcsw;
	counters->minor_faults = task->min_flt;
	counters->major_faults = task->maj_flt;
}

// All but the times.
static __always_inline void fill_record(struct task_record *record, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	record->start_ns = task->start_boottime;
	// A thread that has been released already may outlive its leader. Its pointer is then stale: believe it only if
	// it points at a leader of this very group.
	record->process_start_ns = leader->pid == task->tgid ? leader->start_boottime : 0;
	fill_counters(&record->counters, task);
	record->tid = task->pid;
	record->pid = task->tgid;
	record->parent_pid = task->real_parent->tgid;
	record->uid = task->real_cred->uid.val;
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), task->comm);
	record->state = state_of(task) | task->exit_state;
	record->cpu = cpu_of(task);
	record->priority = task->prio - MAX_RT_PRIO;
	record->nice = task->static_prio - DEFAULT_PRIO;
	record->flags = task->flags & PF_KTHREAD ? RECORD_KERNEL_THREAD : task->nr_cpus_allowed == 1 ? RECORD_ONE_CPU : 0;
	record->missed = 0;
	record->migrations = task->se.nr_migrations;
}
