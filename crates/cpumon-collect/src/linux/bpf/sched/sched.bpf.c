// traces:   each switch (tp_btf/sched_switch) and birth (task_newtask), who wakes whom (sched_waking), where the kernel has no group scheduling each wakeup too
//           (sched_wakeup, sched_wakeup_new), where threads can leave it late each move to another queue (sched_migrate_task), interrupt
//           (irq_handler_*, softirq_*, and the interrupts that have tracepoints of their own: irq_vectors on x86, ipi
//           on arm64), the beginning of each end (sched_process_exit), each exec and rename; once for each thread while a
//           snapshot reads it (iter/task). The constant `probes` switches off all others; without any probe
//           only the iterator, the last switch of each thread, its end, exec and rename are watched.
// produces: for each thread a `struct sent`, a `struct task_record` and its `struct thread_times`; for each CPU its
//           `struct cpu_times`, all as of one instant (cut.h); exits and execs in a ring buffer (exits.h, execs.h).
// costs:    docs/probes.md
#include "execs.h"
#include "irqs.h"
#include "tasks.h"

char LICENSE[] SEC("license") = "GPL";

// Not used: it puts records that no map has into the object's type information, so that build.rs can make Rust structs for them.
union {
	struct sent sent;
	struct exit_event exit;
	struct script_event script;
} *sent_records SEC(".bss.regs");

static __always_inline int on_switch(bool preempt, struct task_struct *prev, struct task_struct *next, __u32 state)
{
	struct thread *thread = NULL;
	__u64 cut = 0;

	if (probes & PROBE_SCHED) {
		__u32 number = bpf_get_smp_processor_id();
		struct cpu *cpu = cpu_at(number);
		struct rq *rq = rq_of(prev);
		bool sleeps = !preempt && state != 0 && prev->pid;
		struct thread *other = thread_of(next);
		__u32 next_tid = next->pid;
		__u64 now, own, came;

		thread = thread_of(prev);
		if (!cpu)
			return 0;
		now = switch_time(&cpu->clock, rq, sleeps);
		cut = control.cut_ns;
		// Two kinds of memory: the compiler must not make one load of both.
		asm volatile("" : "+r"(next_tid));
		if (other)
			next_tid = other->tid;
		own = switch_cpu(cpu, rq, now, cut, prev, next, next_tid, sleeps, &came);
		if (prev->pid) {
			if (came && thread)
				switch_in(thread, prev, cpu, came, cut, number);
			switch_out(thread, prev, now, cut, own, sleeps, state, number);
		}
		if (probes & PROBE_WAITS_FOR)
			note_slice(number, prev->tgid, now);
		if (next->pid)
			switch_in(other, next, cpu, now, cut, number);
		if (now <= cut)
			cut = 0;
		if (SENDS_TIMES) {
			send_ending(prev, thread, cut);
			send_ending(next, other, cut);
		} else {
			thread = NULL;
			cut = 0;
		}
	}
	// Only now are the counters final: at sched_process_exit the run time is up to a tick old.
	if (state_of(prev) == TASK_DEAD) {
		if (SENDS_TIMES) {
			thread = thread_of(prev);
			send_cut(prev, thread, cut);
		}
		if (!send_exit(prev, thread, EVENT_EXIT, cut))
			count_lost_exit(prev, thread, cut);
	}
	return 0;
}

SEC("tp_btf/sched_switch")
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

SEC("?tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	wake(task);
	return 0;
}

SEC("?tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	wake(task);
	return 0;
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	note_waker(task);
	return 0;
}

SEC("?tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task)
{
	note_move(task);
	return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_birth, struct task_struct *task)
{
	if (task->pid)
		create_thread(task, bpf_ktime_get_ns(), STATE_BLOCKED, WAIT_OTHER, 0);
	return 0;
}

// For idle threads, which only another thread can rename.
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task)
{
	struct rest *rest = rest_of(task);

	if (rest)
		rest->rests = 0;
	return 0;
}

// If this one does not fit, no time is lost: it only bridges the time until the last switch.
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_ending, struct task_struct *task)
{
	struct thread *thread = NULL;
	__u64 cut = 0;

	if (SENDS_TIMES) {
		__u64 now = bpf_ktime_get_ns();

		cut = control.cut_ns;
		if (now <= cut)
			cut = 0;
		thread = bpf_task_storage_get(&threads, task, 0, 0);
		if (thread && cut && control.is_reading && thread->cut_ns != cut)
			save_thread(thread, cut);
		send_cut(task, thread, cut);
		if (thread)
			thread->now.flags |= TIMES_ENDING;
	}
	send_exit(task, thread, EVENT_ENDING, cut);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *program)
{
	struct called called = { .at_ns = bpf_ktime_get_boot_ns(), .old_tid = old_pid };
	struct thread *thread = NULL;

	if (SENDS_TIMES) {
		__u64 now = bpf_ktime_get_ns(), cut = control.cut_ns;
		struct cpu *cpu = cpu_at(bpf_get_smp_processor_id());

		if (!cpu)
			return 0;
		thread = exec_thread(task, now, cut, exec_cpu(cpu, task, now, cut));
		called.cut_ns = now > cut ? cut : 0;
	}
	if (bpf_probe_read_kernel_str(called.name, sizeof(called.name), program->file->f_path.dentry->d_name.name) < 0)
		called.name[0] = 0;
	if (probes & NAMES_SCRIPTS && may_run_script(program, &called))
		return send_script(task, thread, &called);
	return send_exec(task, thread, &called);
}
