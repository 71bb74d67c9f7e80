// Events: threads that end.
// traces:   last switches, and the beginning of each end, as sched.bpf.c reports them.
// produces: events in a ring buffer, in the order in which they happened; those that do not fit are summed (lost.h). A thread
//           that ends between two passes is in no list, so only its event has its final counters.
// costs:    304 bytes of the ring buffer an event; docs/probes.md.
#pragma once

#include "groups.h"
#include "lost.h"
#include "threads.h"

// The last quarter of the buffer is kept for ends of processes and for execs: a process with thousands of threads that is killed
// must not take the names of all others that end in the same moment.
static __always_inline bool is_kept_for_others(struct task_struct *task)
{
	__u64 waiting, size;

	if (task->pid == task->tgid || task->signal->live.counter == 0)
		return false;
	waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	size = bpf_ringbuf_query(&events, BPF_RB_RING_SIZE);
	return waiting > size - size / 4;
}

static __always_inline void fill_times(struct thread_times *to, const struct thread_times *from)
{
	if (from)
		__builtin_memcpy(to, from, sizeof(*to));
	else
		__builtin_memset(to, 0, sizeof(*to));
}

// By its switches. The first switch after the last snapshot has saved the thread's times at the cut; a thread that began
// since has none.
static __always_inline void unsent_by_switches(struct counters *unsent, const struct thread *thread)
{
	const struct thread_times *now = &thread->now, *sent = &thread->cut;
	__u64 cut = thread->cut_ns;

	unsent->run_ns = since(now->run_ns, sent->run_ns + open_run(sent, cut, thread->tid));
	unsent->run_delay_ns = since(delays_of(now), delays_of(sent) + open_delay(sent, cut));
	unsent->voluntary_switches = now->voluntary_switches - sent->voluntary_switches;
	unsent->involuntary_switches = now->involuntary_switches - sent->involuntary_switches;
}

// `cut`: the newest that was past; 0: it was not.
static __noinline int count_lost_exit(struct task_struct *task, struct thread *thread, __u64 cut)
{
	struct counters unsent = {};

	unsent_by_kernel(&unsent, task);
	if (thread && !(thread->now.flags & TIMES_BROKEN))
		unsent_by_switches(&unsent, thread);
	return count_lost(task, &unsent, cut ? cut & 1 : !(control.cut_ns & 1));
}

// The ids of the thread, now or at the instant `as_of`. (For a leader whose id was taken over, the kernel's own ids suffice.)
static __always_inline void identify(struct task_record *record, const struct thread *thread, __u64 as_of)
{
	if (record->tid != record->pid)
		return;
	if (thread->renamed_ns > as_of) {
		record->tid = thread->old_tid;
		record->start_ns = thread->old_start_ns;
	} else if (record->tid != thread->tid) {
		record->tid = thread->tid;
		record->start_ns = thread->start_ns;
	}
}

// `thread`: NULL where the switches are not watched.
static __noinline bool send_exit(struct task_struct *task, const struct thread *thread, __u32 kind, __u64 cut)
{
	struct exit_event *event = NULL;
	__u64 group = 0;

	// Before its exit, so that a reader who finds the exit has the name of the group.
	if (kind == EVENT_EXIT && task->signal->live.counter == 0)
		group = group_of(task);
	if (!is_kept_for_others(task))
		event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_drop(kind);
		return false;
	}
	event->kind = kind;
	event->threads_left = task->signal->live.counter;
	event->end_ns = bpf_ktime_get_boot_ns();
	event->cut_ns = cut;
	event->group = group;
	fill_record(&event->task, task);
	if (thread)
		identify(&event->task, thread, kind == EVENT_CUT ? cut : NEVER);
	fill_times(&event->task.times, !thread ? NULL : kind == EVENT_CUT ? &thread->cut : &thread->now);
	bpf_ringbuf_submit(event, wakeup());
	return true;
}

// A thread that ends during a pass may be gone before the iterator reaches it.
static __always_inline void send_cut(struct task_struct *task, struct thread *thread, __u64 cut)
{
	if (thread && control.is_reading && thread->cut_ns == cut)
		send_exit(task, thread, EVENT_CUT, cut);
}

// A thread that has begun to end may be out of every list, and still runs for a while.
static __always_inline void send_ending(struct task_struct *task, struct thread *thread, __u64 cut)
{
	if (!thread || !(thread->now.flags & TIMES_ENDING) || state_of(task) == TASK_DEAD)
		return;
	send_cut(task, thread, cut);
	send_exit(task, thread, EVENT_ENDING, cut);
}
