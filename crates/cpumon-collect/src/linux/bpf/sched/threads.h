// Account of each thread.
// traces:   switches and births, as sched.bpf.c reports them.
// produces: `struct thread` in task storage, in which run + runnable + blocked adds up to the thread's lifetime. Task storage is
//           found by one lookup and freed with the task, and the iterator reads it in the same pass.
// costs:    docs/probes.md.
//
// tests/it/switches/accounts.rs is the same state machine in Rust, transition by transition; tests compare its results with those
// of these programs for the same events. It takes wakeups as events; here the switch that follows one, or the iterator, reads
// from the scheduler when the thread was queued (`woken_at`).
#pragma once

#include "cpus.h"
#include "delays.h"
#include "wait_for.h"
#include "waits.h"

struct thread {
	__u64 changes; // odd while `now` changes
	__u64 cut_ns; // the cut of `cut`
	struct thread_times now;
	struct thread_times cut; // as of the cut
	// Its id for user space. A thread that calls exec and is not the leader takes over the leader's id and start once
	// all others have ended (de_thread), some time before the exec event.
	__u64 start_ns;
	__u64 old_start_ns;
	__u64 renamed_ns; // when the last such exec was reported; 0: never
	__u32 tid;
	__u32 old_tid;
	__u64 run_delay_ns; // by the kernel's count, when it fell asleep
	__u64 sent_ready_ns; // the wakeup time that the iterator sent
	__u64 stamped_ns; // begin of a sleep in which the scheduler stamped it as queued though it slept on; 0: of none
	struct delay_slots delays;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

// A thread that is seen for the first time starts with the kernel's own counters. `state` begins at `now`.
static __noinline int create_thread(struct task_struct *task, __u64 now, __u8 state, __u16 reason, __u16 cpu)
{
	__u64 cut = control.cut_ns;
	struct thread thread = {
		.cut_ns = now > cut ? cut : 0,
		.start_ns = task->start_boottime,
		.tid = task->pid,
		.run_delay_ns = task->sched_info.run_delay,
		.now = {
			.at_ns = now,
			.run_ns = task->se.sum_exec_runtime,
			.voluntary_switches = task->nvcsw,
			.involuntary_switches = task->nivcsw,
			.delay_preempt_ns = task->sched_info.run_delay,
			.cpu = cpu,
			.reason = reason,
			.state = state,
		},
	};

	thread.cut = thread.now;
	bpf_task_storage_get(&threads, task, &thread, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

// The first transition after a cut keeps how the thread stood at it.
static __noinline int save_thread(struct thread *thread, __u64 cut)
{
	if (!thread)
		return 0;
	__builtin_memcpy(&thread->cut, &thread->now, sizeof(thread->cut));
	FENCE();
	thread->cut_ns = cut;
	FENCE();
	return 0;
}

static __always_inline void keep_cut(struct thread *thread, __u64 now, __u64 cut)
{
	if (thread->cut_ns != cut && now > cut)
		save_thread(thread, cut);
}

static __always_inline void begin_thread(struct thread *thread, __u64 now, __u64 cut)
{
	begin_change(&thread->changes);
	keep_cut(thread, now, cut);
}

// When a thread that slept became runnable; 0: not yet. The scheduler stamps each task that enters a queue with that queue's clock
// (sched_info, the source of /proc/PID/schedstat) and resets the stamp only after the switch event. So the wakeup needs no event where
// that clock can be read. `ahead`: lead of the queue's clock. A time that was sent once stays.
//
// A stamp can be untrue. A thread that the scheduler left in its queue when it fell asleep (`sched_delayed`) is stamped if it is moved
// to another CPU's queue meanwhile, and keeps that stamp when it leaves the queue; a wakeup does not renew it. When such a
// thread was woken is not known: its whole wait counts as blocked, and is counted.
static __always_inline __u64 woken_at(struct thread *thread, struct task_struct *task, __u64 ahead)
{
	__u64 queued = task->sched_info.last_queued;

	if (thread->stamped_ns == thread->now.at_ns)
		return 0;
	if (probes & OWN_WAKEUPS)
		return thread->now.ready_ns;
	if (thread->sent_ready_ns >= thread->now.at_ns)
		return thread->sent_ready_ns;
	// It may have waited in another CPU's queue before.
	return queued ? queued + ahead - since(task->sched_info.run_delay, thread->run_delay_ns) : 0;
}

// The scheduler moves a thread to another queue, and stamps it in there.
static __always_inline void note_move(struct task_struct *task)
{
	struct thread *thread;

	// A wakeup that moves it: it is in no queue, and is stamped rightly.
	if (!task->on_rq || is_runnable(task))
		return;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (thread && thread->now.state == STATE_BLOCKED)
		thread->stamped_ns = thread->now.at_ns;
}

// Adds run time up to `now` in the middle of a slice, at an exec.
static __always_inline struct thread *exec_thread(struct task_struct *task, __u64 now, __u64 cut, __u64 own)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (!thread)
		return NULL;
	begin_thread(thread, now, cut);
	if (thread->now.state == STATE_RUNNING)
		thread->now.run_ns += own;
	thread->now.at_ns = later(now, thread->now.at_ns);
	if (thread->tid != task->pid) {
		thread->old_tid = thread->tid;
		thread->old_start_ns = thread->start_ns;
		thread->tid = task->pid;
		thread->start_ns = task->start_boottime;
		FENCE();
		thread->renamed_ns = now;
	}
	end_change(&thread->changes);
	return thread;
}

static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return task->pid ? bpf_task_storage_get(&threads, task, 0, 0) : NULL;
}

// prev leaves its CPU. `own`: its part of the slice. `thread`: NULL if it is seen for the first time.
static __always_inline void switch_out(struct thread *thread, struct task_struct *task, __u64 now, __u64 cut, __u64 own,
				       bool sleeps, __u32 state, __u16 cpu)
{
	__u16 reason = 0;

	if (probes & PROBE_WAITS && sleeps)
		reason = wait_reason(task, state);
	if (!thread) {
		create_thread(task, now, sleeps ? STATE_BLOCKED : STATE_READY, reason, cpu);
		return;
	}
	begin_thread(thread, now, cut);
	if (thread->now.state == STATE_RUNNING)
		thread->now.run_ns += own;
	else
		thread->now.flags |= TIMES_BROKEN;
	thread->now.at_ns = later(now, thread->now.at_ns);
	thread->now.ready_ns = 0;
	thread->now.cpu = cpu;
	thread->now.reason = reason;
	if (sleeps) {
		thread->run_delay_ns = task->sched_info.run_delay;
		thread->now.state = STATE_BLOCKED;
		thread->now.voluntary_switches += 1;
	} else {
		thread->now.state = STATE_READY;
		thread->now.involuntary_switches += 1;
		if (probes & PROBE_WAITS_FOR && leaves_throttled(task))
			thread->now.flags |= TIMES_THROTTLED;
	}
	end_change(&thread->changes);
}

// It was runnable for `delay`; `elsewhere` is the part spent, as far as is known, in the queue of the CPU that it left.
static __always_inline void account_delay(struct thread_times *times, struct cpu *here, __u64 delay, __u64 elsewhere, __u64 cut)
{
	if (times->longest_cut != (__u32)cut) {
		times->longest_cut = cut;
		times->longest_delay_ns = delay;
	} else if (delay > times->longest_delay_ns) {
		times->longest_delay_ns = delay;
	}
	here->waited_ns += delay - elsewhere;
	if (elsewhere) {
		struct cpu *there = cpu_at(times->cpu);

		if (there)
			__sync_fetch_and_add(&there->pulled_ns, elsewhere);
	}
}

// The part of the delay after a wakeup that was spent in other queues: the run delay that the scheduler had counted
// before it entered this one.
static __always_inline __u64 waited_elsewhere(struct thread *thread, struct task_struct *task, __u64 delay, __u16 cpu)
{
	if (probes & OWN_WAKEUPS)
		return thread->now.cpu == cpu ? 0 : delay;
	return lesser(delay, since(task->sched_info.run_delay, thread->run_delay_ns));
}

// next gets the CPU.
static __always_inline void switch_in(struct thread *thread, struct task_struct *task, struct cpu *here, __u64 now, __u64 cut,
				      __u16 cpu)
{
	struct thread_times *times;
	bool has_waited = false, is_broken;
	__u64 waited = 0, slept = 0;
	__u8 flags;

	if (!thread) {
		create_thread(task, now, STATE_RUNNING, 0, cpu);
		return;
	}
	times = &thread->now;
	begin_change(&thread->changes);
	if (times->state == STATE_BLOCKED) {
		times->ready_ns = woken_at(thread, task, here->clock.ahead_ns);
		here->unknown_wakeups += thread->stamped_ns == times->at_ns;
	}
	keep_cut(thread, now, cut);
	flags = times->flags;
	is_broken = flags & TIMES_BROKEN;
	if (times->state == STATE_BLOCKED) {
		__u64 ready = times->ready_ns ? lesser(later(times->ready_ns, times->at_ns), now) : now;
		__u64 blocked = since(ready, times->at_ns), delay = since(now, ready);

		times->blocked_ns += blocked;
		if (probes & PROBE_WAITS)
			add_wait(times, blocked);
		times->delay_wakeup_ns += delay;
		if (!is_broken)
			account_delay(times, here, delay, waited_elsewhere(thread, task, delay, cpu), cut);
		has_waited = times->ready_ns && !is_broken;
		waited = delay;
		slept = blocked;
	} else if (times->state == STATE_READY) {
		__u64 delay = since(now, times->at_ns);

		times->delay_preempt_ns += delay;
		if (!is_broken)
			account_delay(times, here, delay, times->cpu == cpu ? 0 : delay, cut);
		has_waited = !is_broken;
		waited = delay;
	} else {
		times->flags |= TIMES_BROKEN;
	}
	times->at_ns = later(now, times->at_ns);
	times->ready_ns = 0;
	times->cpu = cpu;
	times->state = STATE_RUNNING;
	if (probes & PROBE_WAITS_FOR)
		times->flags &= ~TIMES_THROTTLED;
	end_change(&thread->changes);
	if (probes & PROBE_WAITS_FOR && !is_broken && waited + slept >= LONG_WAIT_NS) {
		if (slept >= LONG_WAIT_NS)
			blame_waker((__u64)task->tgid << 32 | (__u32)task->pid, now - waited - slept, now - waited, times->reason);
		if (waited >= LONG_WAIT_NS)
			blame_runners(task->tgid, now - waited, now, cpu,
				      flags & TIMES_THROTTLED || (slept && was_woken_throttled(task)));
	}
	if (probes & PROBE_HISTOGRAMS && has_waited)
		count_delay(task, &thread->delays, waited, cpu);
}

// With OWN_WAKEUPS. It became runnable: no more than a mark, for the switch that follows or the iterator. It needs no copy at a
// cut, for each reader compares it with the cut.
static __always_inline void wake(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (!thread || thread->now.state != STATE_BLOCKED || thread->now.ready_ns)
		return;
	thread->now.cpu = cpu_of(task);
	thread->now.ready_ns = bpf_ktime_get_ns();
}
