// The pass over all threads.
// traces:   every thread of the host, in ascending order of tid, and every CPU, while user space reads the iterator.
// produces: a `struct sent` for each thread with the record that it announces, and `cpu.shown`.
// costs:    0.2 to 0.5 µs a thread, a twentieth of reading a file of /proc for each.
#pragma once

#include "exits.h"
#include "rest.h"

// The first change after a cut copies all, which takes about as long as some attempts.
#define ATTEMPTS 16
#define CPU_ATTEMPTS 64
#define CPUS_A_TASK 64

struct sent_task {
	struct sent sent;
	struct task_record task;
};

// Whether the task's last switch has been made: its exit event was sent before.
static __always_inline bool has_ended(struct task_struct *task)
{
	if (state_of(task) != TASK_DEAD)
		return false;
	return !bpf_core_field_exists(task->on_cpu) || task->on_cpu == 0;
}

// When a blocked thread became runnable, as the pass finds it; 0: it sleeps. The stamp is read before the state: a thread that still
// sleeps then was not woken when it was stamped. A function of its own: clang would move the address of the state in older kernels,
// which no newer one has, out of the loop that calls this.
static __noinline __u64 ready_in_pass(struct thread *thread, struct task_struct *task, __u64 ahead)
{
	__u64 at, ready;

	if (!thread)
		return 0;
	at = thread->now.at_ns;
	ready = woken_at(thread, task, ahead);
	FENCE();
	if (is_runnable(task))
		return ready;
	if (ready && is_asleep(task))
		thread->stamped_ns = at;
	return 0;
}

// How the thread stood at the cut. False if it changed at every attempt.
static __always_inline bool read_thread(struct thread *thread, struct task_struct *task, struct thread_times *into, __u64 cut)
{
	volatile __u64 *changes = &thread->changes, *cut_ns = &thread->cut_ns;
	__u16 number = cpu_of(task);
	struct cpu *cpu = cpu_at(number);

	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		__u64 before = *changes;

		FENCE();
		if (*cut_ns != cut) {
			bool is_between = task->on_rq == TASK_ON_RQ_MIGRATING;

			__builtin_memcpy(into, &thread->now, sizeof(*into));
			if (into->state == STATE_BLOCKED && cpu)
				into->ready_ns = ready_in_pass(thread, task, cpu->clock.ahead_ns);
			// A task on its way to another queue is in neither.
			is_between |= task->on_rq == TASK_ON_RQ_MIGRATING;
			if (into->state == STATE_BLOCKED && into->ready_ns && !is_between) {
				// A concurrent switch to it finds the record of this pass; it counts only while the
				// thread has slept since `at_ns`.
				into->ready_ns = later(into->ready_ns, into->at_ns);
				into->cpu = number;
				thread->sent_ready_ns = into->ready_ns;
			}
			FENCE();
			if (*cut_ns != cut && !(before & 1) && *changes == before && !is_between)
				return true;
		}
		FENCE();
		if (*cut_ns == cut) {
			__builtin_memcpy(into, &thread->cut, sizeof(*into));
			return true;
		}
	}
	return false;
}

// Too large for the stack. One pass runs at a time.
static struct thread adopted SEC(".bss.adopted");

// A thread off its CPU that no event has reported yet. It starts with the kernel's own counters, all in one stroke: if it
// is switched to meanwhile, either this record is there in time or that switch has made its own (the switch event comes
// before the task is marked as on its CPU).
static __always_inline struct thread *adopt(struct task_struct *task, __u64 cut)
{
	__u32 state = state_of(task);
	bool is_ready = !state && task->on_rq == TASK_ON_RQ_QUEUED;

	// A thread that runs is taken on by its next switch. One that is in a run queue though its state says that it sleeps was
	// pushed off on its way, or left there by a scheduler that dequeues late: its next switch decides.
	if (task->on_cpu || state & TASK_DEAD || (!is_ready && (task->on_rq || !state)))
		return NULL;
	adopted.start_ns = task->start_boottime;
	adopted.tid = task->pid;
	adopted.run_delay_ns = task->sched_info.run_delay;
	adopted.now.at_ns = cut;
	adopted.now.run_ns = task->se.sum_exec_runtime;
	adopted.now.voluntary_switches = task->nvcsw;
	adopted.now.involuntary_switches = task->nivcsw;
	adopted.now.delay_preempt_ns = task->sched_info.run_delay;
	adopted.now.cpu = cpu_of(task);
	adopted.now.state = is_ready ? STATE_READY : STATE_BLOCKED;
	adopted.now.reason = 0;
	if (probes & PROBE_WAITS && !is_ready)
		adopted.now.reason = wait_reason(task, state);
	return bpf_task_storage_get(&threads, task, &adopted, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

// The kernel shows a thread asleep that was switched to, or pushed off its CPU while runnable, long ago: the switch by which it went to
// sleep was missed.
static __always_inline bool missed_a_switch(struct task_struct *task, const struct thread_times *times, __u64 cut)
{
	if (task->on_cpu || since(cut, times->at_ns) <= 1000000)
		return false;
	if (times->state == STATE_RUNNING)
		return !task->on_rq;
	return times->state == STATE_READY && is_asleep(task);
}

// Notes the state in which the thread was sent. `switches`: those it had made before. `is_renamed`: it has another start to user
// space, which a copy of its end, sent in the same pass, does not have: it is sent in full, so that both have the same.
static __always_inline void note_rest(struct rest *rest, struct task_struct *task, const struct sent_task *out, __u32 switches,
				      bool is_renamed)
{
	const struct thread_times *times = &out->task.times;
	bool rests = out->sent.kind == SENT_TASK;

	if (out->sent.kind == SENT_TIMES) {
		rests = times->state == STATE_BLOCKED && !times->ready_ns;
		switches = times->voluntary_switches + times->involuntary_switches;
	}
	// One that has ended, or has another id to user space, is sent in full until that is over.
	rests = rests && !is_renamed && !(out->task.flags & RECORD_ENDED_LEADER) && out->task.tid == out->sent.tid;
	rest->start_ns = task->start_boottime;
	rest->counters = out->task.counters;
	rest->switches = switches;
	rest->others = others_of(task);
	rest->rests = rests;
}

// Not inlined: with `out` in the frame of its caller, the chain of calls that shows the CPUs would take more than the 512 bytes of
// stack that the verifier allows (stack.rs).
static __noinline int send_task(struct bpf_iter__task *ctx, struct task_struct *task, __u8 flags)
{
	struct sent_task out;
	__u32 length = sizeof(out) - sizeof(out.task.times), switches = switches_of(task);
	struct rest *rest = rest_of(task);
	struct thread *thread = NULL;

	out.sent.kind = SENT_SAME;
	out.sent.tid = task->pid;
	if (rest && !flags && has_rested(task, rest)) {
		bpf_seq_write(ctx->meta->seq, &out.sent, sizeof(out.sent));
		return 0;
	}
	out.sent.kind = SENT_TASK;
	if (SENDS_TIMES) {
		__u64 cut = control.cut_ns;

		thread = bpf_task_storage_get(&threads, task, 0, 0);
		if (!thread)
			thread = adopt(task, cut);
		if (thread && read_thread(thread, task, &out.task.times, cut)) {
			out.sent.kind = SENT_TIMES;
			length = sizeof(out);
			if (thread->cut_ns != cut && missed_a_switch(task, &out.task.times, cut)) {
				out.task.times.flags |= TIMES_BROKEN;
				// For good: its next switch would end a time that it was not ready.
				if (out.task.times.state == STATE_READY)
					thread->now.flags |= TIMES_BROKEN;
			}
		} else if (thread) {
			out.sent.kind = SENT_TORN;
		}
	} else if (probes & PROBE_SCHED && control.send_all && !bpf_task_storage_get(&threads, task, 0, 0)) {
		// Here memory is at hand, at its next switch it may not be.
		adopt(task, bpf_ktime_get_ns());
	}
	if (out.sent.kind != SENT_TIMES)
		__builtin_memset(&out.task.times, 0, sizeof(out.task.times));
	fill_record(&out.task, task);
	if (thread)
		identify(&out.task, thread, control.cut_ns);
	out.task.flags |= flags;
	// Fails only when the buffer is full; the kernel then calls again for the same task with an empty one.
	if (bpf_seq_write(ctx->meta->seq, &out, length) == 0 && rest)
		note_rest(rest, task, &out, switches, thread && thread->renamed_ns);
	return 0;
}

// The task that a CPU runs, if that is not the one that was switched to. The kernel names the next task before the switch
// event, and until the event has run the previous one is still marked as on its CPU.
static __always_inline struct task_struct *current_of(const struct cpu *cpu, __u32 number)
{
	struct task_struct *known = (void *)cpu->task, *current;
	struct rq *rq = (void *)cpu->rq;

	if (!rq)
		return known;
	current = BPF_CORE_READ(rq, curr);
	if (current == known)
		return known;
	if (bpf_core_field_exists(known->on_cpu) && BPF_CORE_READ(known, on_cpu) &&
	    bpf_core_field_exists(known->thread_info.cpu) && BPF_CORE_READ(known, thread_info.cpu) == number)
		return known;
	return current;
}

// How a CPU stood at the cut. Global, so that the verifier checks it once and not for each CPU.
__noinline int show_cpu(__u32 number)
{
	__u64 cut = control.cut_ns;
	volatile __u64 *changes, *cut_ns;
	struct cpu *cpu = cpu_at(number);

	if (!cpu)
		return 0;
	changes = &cpu->changes;
	cut_ns = &cpu->cut_ns;
	for (int attempt = 0; attempt < CPU_ATTEMPTS; attempt++) {
		__u64 before = *changes;

		FENCE();
		if (*cut_ns != cut) {
			copy_times(&cpu->shown, &cpu->now);
			finish_cpu(&cpu->shown, cpu, cut, current_of(cpu, number));
			FENCE();
			if (*cut_ns != cut && !(before & 1) && *changes == before) {
				cpu->is_torn = 0;
				return 0;
			}
		}
		FENCE();
		if (*cut_ns == cut) {
			copy_times(&cpu->shown, &cpu->cut);
			cpu->is_torn = 0;
			return 0;
		}
	}
	cpu->is_torn = 1;
	return 0;
}

SEC("iter/task")
int each_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u8 flags = 0;

	if (!task)
		return 0;
	if (ctx->meta->seq_num == 0)
		find_group_roots();
	// The first tasks bring all CPUs along.
	if (SENDS_TIMES && ctx->meta->seq_num * CPUS_A_TASK < control.cpus) {
		__u32 first = ctx->meta->seq_num * CPUS_A_TASK;

		for (__u32 at = 0; at < CPUS_A_TASK && first + at < control.cpus; at++)
			show_cpu(first + at);
	}
	if (has_ended(task)) {
		if (task->pid != task->tgid || task->signal->nr_threads <= 1)
			return 0;
		flags = RECORD_ENDED_LEADER;
	}
	return send_task(ctx, task, flags);
}
