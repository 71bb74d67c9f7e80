// traces:   the last switch of each thread (tp_btf/sched_switch with a dead prev: only then are its counters final; at
//           sched_process_exit its run time is up to a tick old), the beginning of its end (tp_btf/sched_process_exit:
//           after it a thread may be out of every list and still run for a while), each exec
//           (tp_btf/sched_process_exec).
// produces: `struct exit_event` and `struct exec_event` in a ring buffer, in the order in which they happened;
//           `struct lost_exits` for those that did not fit.
// costs:    about 50 ns for each switch, 0.4 to 0.7 us for each exit and its ending, 0.5 to 0.8 us for each exec (run_time_ns
//           of `bpftool prog` with kernel.bpf_stats_enabled=1, whose own clock reads are in it). `perf bench sched pipe`
//           on one CPU: 1.03 times as long, median of 5 alternating runs on a busy machine.
#include "../records.h"

char LICENSE[] SEC("license") = "GPL";

// user space sets the size before it loads this
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lost_exits);
} lost SEC(".maps");

// Wakes user space only when the buffer is half full; otherwise the next snapshot empties it.
static __always_inline __u64 wakeup(void)
{
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	__u64 size = bpf_ringbuf_query(&events, BPF_RB_RING_SIZE);

	return waiting > size / 2 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __noinline int count_lost_exit(struct task_struct *task)
{
	__u32 zero = 0;
	struct lost_exits *sums = bpf_map_lookup_elem(&lost, &zero);

	if (!sums)
		return 0;
	__sync_fetch_and_add(&sums->run_ns, BPF_CORE_READ(task, se.sum_exec_runtime));
	__sync_fetch_and_add(&sums->utime_ns, BPF_CORE_READ(task, utime));
	__sync_fetch_and_add(&sums->stime_ns, BPF_CORE_READ(task, stime));
	if (bpf_core_field_exists(task->sched_info.run_delay))
		__sync_fetch_and_add(&sums->run_delay_ns, BPF_CORE_READ(task, sched_info.run_delay));
	__sync_fetch_and_add(&sums->voluntary_switches, BPF_CORE_READ(task, nvcsw));
	__sync_fetch_and_add(&sums->involuntary_switches, BPF_CORE_READ(task, nivcsw));
	__sync_fetch_and_add(&sums->count, 1);
	return 0;
}

static __always_inline bool send_exit(struct task_struct *task, __u32 kind)
{
	struct exit_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return false;
	event->kind = kind;
	event->threads_left = task->signal->live.counter;
	event->end_ns = bpf_ktime_get_boot_ns();
	fill_record(&event->task, task);
	bpf_ringbuf_submit(event, wakeup());
	return true;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(last_switch, bool preempt, struct task_struct *prev)
{
	if (state_of(prev) == TASK_DEAD && !send_exit(prev, EVENT_EXIT))
		count_lost_exit(prev);
	return 0;
}

// If this one does not fit, nothing is lost: it only bridges the time until the last switch.
SEC("tp_btf/sched_process_exit")
int BPF_PROG(ending, struct task_struct *task)
{
	send_exit(task, EVENT_ENDING);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(exec, struct task_struct *task, int old_pid, struct linux_binprm *program)
{
	struct exec_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__u32 zero = 0;
		struct lost_exits *sums = bpf_map_lookup_elem(&lost, &zero);

		if (sums)
			__sync_fetch_and_add(&sums->execs, 1);
		return 0;
	}
	event->kind = EVENT_EXEC;
	event->old_tid = old_pid;
	event->at_ns = bpf_ktime_get_boot_ns();
	fill_record(&event->task, task);
	if (bpf_probe_read_kernel_str(event->name, sizeof(event->name), program->file->f_path.dentry->d_name.name) < 0)
		event->name[0] = 0;
	bpf_ringbuf_submit(event, wakeup());
	return 0;
}
