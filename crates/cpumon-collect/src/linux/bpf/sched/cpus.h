// Account of each CPU: how its time divides into modes.
// traces:   switches and interrupts, as sched.bpf.c and irqs.h report them.
// produces: `struct cpu`; the time in each mode adds up to the time since the CPU was first seen. A thread's run time is what its
//           CPU spent in the mode "run" during its slice, so time of interrupts and of the hypervisor is not in it.
// costs:    one array lookup and one clock comparison a switch; docs/probes.md.
#pragma once

#include "clock.h"

enum {
	MODE_RUN, // a thread
	MODE_IDLE,
	MODE_IOWAIT, // idle while a task of this CPU waits for a disk
	MODE_IRQ,
	MODE_SOFTIRQ,
	MODE_UNKNOWN, // no event shows which thread ran
	MODE_STEAL, // taken by the hypervisor
	MODES = 8, // a power of two
};

#define SOFTIRQS 16 // 10 kinds today; a power of two
#define NO_TID 0xffffffff

struct cpu_times {
	__u64 since_ns; // begin of the open span
	__u64 mode_ns[MODES];
	__u64 slice_ns; // begin of the current thread's slice
	__u64 slice_base_ns; // mode_ns[base] at that time
	__u64 slice_run_ns; // only at a cut: the thread's part of the open slice
	__u64 steal_clock_ns; // the hypervisor's count, as far as it is booked
	__u64 slice_exec_ns; // only at a cut: the kernel's run time of `tid` at its switch-in; 0: no event reported that
	__u64 busy_ns; // in slices of threads, with all that interrupted them
	__u64 switches;
	__u64 breaks; // switches away from another thread than was switched to
	__u64 softirq_ns[SOFTIRQS];
	__u64 queue_cut_ns;
	__u32 queue_max; // since the cut of queue_cut_ns
	__u32 tid; // current thread; 0: idle
	__u8 base; // mode without interrupts
	__u8 mode; // now
	__u8 irq_depth;
	__u8 softirq; // kind + 1 while in one
	__u32 came_unseen; // only at a cut: `tid` was not switched to by any event
};

struct cpu {
	__u64 changes; // odd while `now` changes
	__u64 cut_ns; // the cut of `cut`
	__u64 irq_ns; // begin of the hard interrupt
	__u64 pulled_ns; // waits in this CPU's queue that ended on another CPU
	__u32 is_torn; // `shown` could not be read whole
	__u32 reserved;
	__u64 rq; // address of its struct rq
	__u64 task; // address of the current thread's task_struct
	__u64 exec_ns; // run time of that thread, by the kernel's count, when it was switched to
	struct cpu_times now;
	struct cpu_times cut; // as of the cut
	struct cpu_times shown; // for user space, as of the cut
	struct run_clock clock;
	__u64 unknown_wakeups; // switches to a thread whose wakeup time is unknown
	__u64 waited_ns; // waits in this CPU's queue that ended here
	__u64 padding[7];
};
ASSERT_SIZE(cpu, 1024);

// user space sets the size before it loads this
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

static __always_inline struct cpu *cpu_at(__u32 number)
{
	return bpf_map_lookup_elem(&cpus, &number);
}

// Time stolen by the hypervisor so far. The first field is updated with the run queue's clock, the second at each tick; a
// kernel without PARAVIRT_TIME_ACCOUNTING has only the second. Both only grow.
static __always_inline __u64 steal_clock(const struct rq *rq)
{
	if (bpf_core_field_exists(rq->prev_steal_time_rq) && rq->prev_steal_time_rq)
		return rq->prev_steal_time_rq;
	if (bpf_core_field_exists(rq->prev_steal_time))
		return rq->prev_steal_time;
	return 0;
}

// The steal clock of any CPU, by the run queue address that its last switch left.
static __always_inline __u64 steal_clock_of(const struct cpu *cpu)
{
	struct rq *rq = (void *)cpu->rq;
	__u64 steal = 0;

	if (!rq)
		return 0;
	if (bpf_core_field_exists(rq->prev_steal_time_rq))
		steal = BPF_CORE_READ(rq, prev_steal_time_rq);
	if (!steal && bpf_core_field_exists(rq->prev_steal_time))
		steal = BPF_CORE_READ(rq, prev_steal_time);
	return steal;
}

// Accounts for the open span.
static __always_inline void advance(struct cpu_times *times, __u64 now)
{
	__u64 span = since(now, times->since_ns);

	times->mode_ns[times->mode & (MODES - 1)] += span;
	if (probes & PROBE_IRQ && times->mode == MODE_SOFTIRQ)
		times->softirq_ns[(times->softirq - 1) & (SOFTIRQS - 1)] += span;
	times->since_ns = later(now, times->since_ns);
}

// Run time, by the kernel's count, of the last thread that was switched to; it left its CPU unseen, so the count stopped.
// -1: the thread is gone.
static __always_inline __s64 run_of_lost(const struct cpu *cpu, __u32 tid)
{
	struct task_struct *task = (void *)cpu->task;
	__u64 exec;

	if (!task || BPF_CORE_READ(task, pid) != tid)
		return -1;
	exec = BPF_CORE_READ(task, se.sum_exec_runtime);
	return since(exec, cpu->exec_ns);
}

// The chain is broken: the CPU runs another task than the one that was switched to. The kernel has counted the run time
// of the latter, but no event reports when it ended: unknown time. The rest of the slice belongs to `current_tid`, which
// must have come unseen. If it leaves right now, all of its run time is in this slice. Returns the current thread's part.
static __noinline __u64 account_break(struct cpu_times *times, struct cpu *cpu, __u32 current_tid)
{
	__u8 base = times->base & (MODES - 1);
	__u64 lost = since(times->mode_ns[base], times->slice_base_ns), rest = 0;
	__s64 run = times->tid ? run_of_lost(cpu, times->tid) : -1;

	times->breaks += cpu->task != 0;
	if (run >= 0)
		rest = since(lost, run);
	times->mode_ns[base] -= lost;
	times->mode_ns[MODE_UNKNOWN] += lost - rest;
	times->mode_ns[current_tid ? MODE_RUN : MODE_IDLE] += rest;
	// It was idle since the lost one left.
	if (times->tid && !current_tid)
		times->busy_ns -= rest;
	return current_tid ? rest : 0;
}

// Accounts for everything up to `now`, while the CPU runs `current_tid`; `is_known`: it is the task that was switched to.
// Returns that thread's part of the slice.
static __always_inline __u64 close_slice(struct cpu_times *times, struct cpu *cpu, __u64 now, bool is_known,
					 __u32 current_tid, __u64 steal)
{
	__u8 base = times->base & (MODES - 1);
	__u64 own;

	advance(times, now);
	own = since(times->mode_ns[base], times->slice_base_ns);
	if (steal > times->steal_clock_ns) {
		__u64 stolen = lesser(steal - times->steal_clock_ns, own);

		times->mode_ns[base] -= stolen;
		times->mode_ns[MODE_STEAL] += stolen;
		times->steal_clock_ns = steal;
		own -= stolen;
	}
	if (times->tid != 0)
		times->busy_ns += since(now, times->slice_ns);
	if (!is_known)
		return account_break(times, cpu, current_tid);
	return base == MODE_RUN ? own : 0;
}

static __always_inline void copy_times(struct cpu_times *to, const struct cpu_times *from)
{
	__builtin_memcpy(to, from, sizeof(*to));
}

// Brings a copy to the instant of the cut. `current`: the task that the CPU runs.
static __noinline int finish_cpu(struct cpu_times *times, struct cpu *cpu, __u64 cut, struct task_struct *current)
{
	bool is_known;

	if (!times || !cpu)
		return 0;
	is_known = cpu->task == (__u64)current;
	if (is_known) {
		times->slice_run_ns = close_slice(times, cpu, cut, true, times->tid, steal_clock_of(cpu));
		times->slice_exec_ns = cpu->exec_ns;
	} else {
		__u32 tid = BPF_CORE_READ(current, pid);

		times->slice_run_ns = close_slice(times, cpu, cut, false, tid, steal_clock_of(cpu));
		times->slice_exec_ns = 0;
		times->tid = tid;
	}
	times->came_unseen = !is_known;
	return 0;
}

// The first transition after a cut keeps how the CPU stood at it.
static __noinline int save_cpu(struct cpu *cpu, __u64 cut)
{
	if (!cpu)
		return 0;
	copy_times(&cpu->cut, &cpu->now);
	finish_cpu(&cpu->cut, cpu, cut, (void *)bpf_get_current_task());
	FENCE();
	cpu->cut_ns = cut;
	FENCE();
	return 0;
}

static __always_inline void begin_cpu(struct cpu *cpu, __u64 now, __u64 cut)
{
	begin_change(&cpu->changes);
	if (cpu->cut_ns != cut && now > cut)
		save_cpu(cpu, cut);
}

// The mode while no interrupt runs.
static __always_inline __u8 base_of(__u32 tid, const struct rq *rq)
{
	if (tid)
		return MODE_RUN;
	return rq && rq->nr_iowait.counter > 0 ? MODE_IOWAIT : MODE_IDLE;
}

// A switch. Returns the previous thread's part of the slice that ends. `came_ns`: 0, or when it came, if that was missed.
static __always_inline __u64 switch_cpu(struct cpu *cpu, struct rq *rq, __u64 now, __u64 cut, struct task_struct *prev,
					struct task_struct *next, __u32 next_tid, bool prev_sleeps, __u64 *came_ns)
{
	struct cpu_times *times = &cpu->now;
	__u32 queue = 1;
	__u64 own, steal = 0;
	bool is_known;

	begin_cpu(cpu, now, cut);
	if (rq) {
		steal = steal_clock(rq);
		queue = runnable_in(rq) + prev_sleeps;
	}
	is_known = cpu->task == (__u64)prev;
	own = close_slice(times, cpu, now, is_known, prev->pid, steal);
	*came_ns = is_known ? 0 : since(now, own);
	times->base = times->mode = base_of(next_tid, rq);
	times->irq_depth = times->softirq = 0;
	times->slice_ns = times->since_ns;
	times->slice_base_ns = times->mode_ns[times->base & (MODES - 1)];
	times->tid = next_tid;
	times->switches += 1;
	if (times->queue_cut_ns != cut) {
		times->queue_cut_ns = cut;
		times->queue_max = queue;
	} else if (queue > times->queue_max) {
		times->queue_max = queue;
	}
	cpu->rq = (__u64)rq;
	cpu->task = (__u64)next;
	cpu->exec_ns = next->se.sum_exec_runtime;
	end_change(&cpu->changes);
	return own;
}

// The current thread calls exec, and may take over its leader's id: its slice ends and another begins. Returns its run
// time in the slice that ended.
static __always_inline __u64 exec_cpu(struct cpu *cpu, struct task_struct *task, __u64 now, __u64 cut)
{
	struct cpu_times *times = &cpu->now;
	struct rq *rq = rq_of(task);
	__u64 own;

	if (cpu->task != (__u64)task)
		return 0;
	begin_cpu(cpu, now, cut);
	own = close_slice(times, cpu, now, true, times->tid, rq ? steal_clock(rq) : 0);
	times->slice_ns = times->since_ns;
	times->slice_base_ns = times->mode_ns[times->base & (MODES - 1)];
	times->tid = task->pid;
	end_change(&cpu->changes);
	return own;
}
