// Events: execs.
// traces:   execs, as sched.bpf.c reports them.
// produces: events in the ring buffer, with the beginning of the arguments where these may name a script: a process that ends within
//           milliseconds has no /proc/PID/cmdline when user space would read it. Which executables these are, user space sets, and it
//           makes the name of the arguments, by the same rules as for processes that live.
// costs:    400 or 664 bytes of the ring buffer an event; docs/probes.md.
#pragma once

#include "exits.h"

#define MAX_INTERPRETERS 48

// How executables begin that run scripts: at most 8 bytes of the name, without a version.
struct interpreter {
	__u64 name;
	__u64 mask; // of the bytes that count
	__u64 length; // 0: there are no more; above 8: the rest is not compared
};

// In a section of its own, because user space writes the whole table.
const volatile struct interpreter interpreters[MAX_INTERPRETERS] SEC(".rodata.scripts") = {};

// Data of an exec that is collected before its event.
struct called {
	__u64 at_ns;
	__u64 cut_ns;
	char name[EXEC_NAME_BYTES];
	__u32 old_tid;
};

// Whether the name is an interpreter's, with or without a version. User space knows exactly.
static __noinline bool is_interpreter(const struct called *called)
{
	__u64 begin = *(const __u64 *)called->name;

	for (int i = 0; i < MAX_INTERPRETERS; i++) {
		__u64 length = interpreters[i].length;
		char next;

		if (!length)
			return false;
		if ((begin & interpreters[i].mask) != interpreters[i].name)
			continue;
		next = called->name[length & 15];
		if (length > sizeof(begin) || next == 0 || next == '.' || next == '-' || (next >= '0' && next <= '9'))
			return true;
	}
	return false;
}

// Any program is an interpreter for the kernel if a file's first line (`#!`) names it: it was called for another file than itself.
static __always_inline bool may_run_script(struct linux_binprm *program, const struct called *called)
{
	return program->interp != program->filename || is_interpreter(called);
}

static __always_inline int count_lost_exec(void)
{
	__u32 zero = 0;
	struct lost_sides *sums = bpf_map_lookup_elem(&lost, &zero);

	count_drop(EVENT_EXEC);
	if (sums)
		__sync_fetch_and_add(&sums->sides[0].execs, 1);
	return 0;
}

static __always_inline void fill_exec(struct exec_event *event, struct task_struct *task, const struct thread *thread,
				      const struct called *called)
{
	event->kind = EVENT_EXEC;
	event->old_tid = called->old_tid;
	event->at_ns = called->at_ns;
	event->cut_ns = called->cut_ns;
	fill_record(&event->task, task);
	fill_times(&event->task.times, thread ? &thread->now : NULL);
	__builtin_memcpy(event->name, called->name, sizeof(event->name));
}

static __always_inline int send_exec(struct task_struct *task, const struct thread *thread, const struct called *called)
{
	struct exec_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return count_lost_exec();
	fill_exec(event, task, thread, called);
	bpf_ringbuf_submit(event, wakeup());
	return 0;
}

// The kernel has just written the arguments, so they are in memory; if they are not, the event is without them.
static __always_inline void read_arguments(struct script_event *event, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	__u64 start, bytes;

	event->bytes = 0;
	event->is_cut = 0;
	if (!mm)
		return;
	start = mm->arg_start;
	bytes = mm->arg_end - start;
	if (bytes > ARGUMENT_BYTES) {
		bytes = ARGUMENT_BYTES;
		event->is_cut = 1;
	}
	if (bpf_probe_read_user(event->arguments, bytes, (void *)start) == 0)
		event->bytes = bytes;
}

static __always_inline int send_script(struct task_struct *task, const struct thread *thread, const struct called *called)
{
	struct script_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return count_lost_exec();
	fill_exec(&event->exec, task, thread, called);
	event->exec.kind = EVENT_SCRIPT;
	read_arguments(event, task);
	bpf_ringbuf_submit(event, wakeup());
	return 0;
}
