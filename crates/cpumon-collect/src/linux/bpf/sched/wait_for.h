// Who made threads wait.
// traces:   each wakeup in the context of who wakes (sched_waking), and the switches, as sched.bpf.c reports them.
// produces: for waits of LONG_WAIT_NS and more that ended, sums by the process that waited, what for and on whom. A blocked thread waited on
//           who woke it; one that was ready on those that had the CPU on which it ran then, or on the limit of its group.
// costs:    a store at each wakeup and each switch; lookups only where a long wait ends. docs/probes.md
#pragma once

#include "reasons.h"
#include "cpus.h"

#define LONG_WAIT_NS 1000000

// cpumon-model: `WaitKind`, `WaitedOn`.
#define FOR_CPU 0
#define FOR_LIMIT 1
#define FOR_REASON 2
#define ON_OTHERS 0
#define ON_INTERRUPT 1
#define ON_PROCESS 2
#define ON_THREAD 3

// Slots by tid; of two threads that share one the later counts.
#define WAKER_SLOTS 16384
#define HOLDER_SLOTS 4096
#define LAST_SLICES 32

// By whom a thread was woken last.
struct waker {
	__u32 tid; // who was woken
	__u32 by_tid;
	__u32 by_pid;
	__u16 on; // ON_INTERRUPT, ON_PROCESS
	__u16 is_throttled; // its group had used up its limit
};

// For whose sake a thread waited for a lock last.
struct holder {
	__u64 ended_ns;
	__u32 tid;
	__u32 by_tid;
	__u32 by_pid;
	__u32 on;
};

// Who had a CPU, up to when.
struct slice {
	__u64 end_ns;
	__u32 pid; // 0: idle
	__u32 reserved;
};

struct slices {
	__u64 next;
	struct slice last[LAST_SLICES];
};

// Ids have 22 bits at most (PID_MAX_LIMIT), so that a key is one number.
struct wait_for_key {
	__u32 pid;
	__u32 on_id; // of a process or a thread
	__u16 reason; // FOR_REASON: WAIT_*
	__u8 kind; // FOR_*
	__u8 on; // ON_*
};

struct wait_for {
	__u64 key; // pid << 42 | on_id << 20 | reason << 4 | kind << 2 | on; 0: free
	__u64 ns;
	__u64 count;
};

// Two tables: user space reads one while the other is filled.
#define WAIT_FOR_BITS 10
#define WAIT_FOR_TRIES 8

struct wait_for_page {
	__u64 table; // that is filled
	__s64 preempt_count_at; // x86: distance from a CPU's run queue; 0: not known
	__u64 lost; // waits that found no slot
};

volatile struct wait_for_page wait_for_page SEC(".bss.waits");

// User space sets the sizes before it loads this.
#define WAIT_FOR_MAP(name, value_type)                                                                                 \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(map_flags, BPF_F_MMAPABLE);                                                                     \
		__uint(max_entries, 1);                                                                                \
		__type(key, __u32);                                                                                    \
		__type(value, value_type);                                                                             \
	} name SEC(".maps")

WAIT_FOR_MAP(wakers, struct waker);
WAIT_FOR_MAP(holders, struct holder);
WAIT_FOR_MAP(slices_of_cpus, struct slices);
WAIT_FOR_MAP(waits_for, struct wait_for);

// include/linux/preempt.h
#define IN_SOFTIRQ 0x100
#define IN_HARDIRQ 0xff0000 // NMIs too

// Which interrupts this CPU is in. On x86 a variable of each CPU has that, which lies as far from its run queue on every CPU. Where the
// distance is not known, a thread that is in no system call is taken for interrupted.
static __always_inline __u32 preempt_count(struct task_struct *current)
{
#if defined(__TARGET_ARCH_x86)
	struct cpu *cpu = cpu_at(bpf_get_smp_processor_id());
	__s64 distance = wait_for_page.preempt_count_at;
	__u64 address = cpu ? cpu->rq : 0;
	__u32 count = 0;

	if (!address || !distance)
		return !(current->flags & PF_KTHREAD) && syscall_of(current) == -1 ? IN_HARDIRQ : 0;
	address += distance;
	if (probes & CAN_CAST) {
		const struct pt_regs *there = (void *)(address - bpf_core_field_offset(struct pt_regs, orig_ax));

		there = bpf_rdonly_cast(there, bpf_core_type_id_kernel(struct pt_regs));
		return there->orig_ax;
	}
	bpf_probe_read_kernel(&count, sizeof(count), (void *)address);
	return count;
#elif defined(__TARGET_ARCH_arm64)
	return current->thread_info.preempt_count;
#else
	return 0;
#endif
}

#define S_IFMT 0170000
#define S_IFSOCK 0140000

// Whether the descriptor in the first argument of the task's system call is a socket.
static __always_inline bool is_on_socket(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	__u32 number = regs_of(task)->di;
#elif defined(__TARGET_ARCH_arm64)
	__u32 number = regs_of(task)->orig_x0;
#else
	__u32 number = 0;
#endif
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;

	if (number >= BPF_CORE_READ(table, max_fds) || bpf_probe_read_kernel(&file, sizeof(file), files + number))
		return false;
	return (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK;
}

// A soft interrupt that runs at the end of a system call which sends is the sender's work: a socket of this machine. Who takes from one sends
// too: that it has space again.
static __always_inline bool is_sending(struct task_struct *current)
{
	switch (current->pid ? syscall_of(current) : -1) {
#if defined(__TARGET_ARCH_x86)
	case 0: // read
	case 1: // write
	case 19: // readv
	case 20: // writev
	case 40: // sendfile
#elif defined(__TARGET_ARCH_arm64)
	case 63:
	case 64:
	case 65:
	case 66:
	case 71:
#endif
		return is_on_socket(current);
#if defined(__TARGET_ARCH_x86)
	case 3: // close
	case 42: // connect
	case 44: // sendto
	case 45: // recvfrom
	case 46: // sendmsg
	case 47: // recvmsg
	case 48: // shutdown
	case 299: // recvmmsg
	case 307: // sendmmsg
#elif defined(__TARGET_ARCH_arm64)
	case 57:
	case 203:
	case 206:
	case 207:
	case 211:
	case 212:
	case 210:
	case 243:
	case 269:
#endif
	case 426: // io_uring_enter
		return true;
	default:
		return false;
	}
}

static __always_inline bool is_group_throttled(struct task_struct *task)
{
	return bpf_core_field_exists(task->se.cfs_rq) && bpf_core_field_exists(task->se.cfs_rq->throttle_count) &&
	       task->se.cfs_rq->throttle_count > 0;
}

// A thread that could go on leaves its CPU because its group has used up its limit. Since Linux 6.18 each thread is stopped by itself, on
// its way out of the kernel; before, the whole queue of the group was.
static __always_inline bool leaves_throttled(struct task_struct *task)
{
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	return is_group_throttled(task);
}

static __always_inline void note_waker(struct task_struct *task)
{
	struct task_struct *current = bpf_get_current_task_btf();
	__u32 slot = task->pid & (WAKER_SLOTS - 1);
	struct waker *waker = bpf_map_lookup_elem(&wakers, &slot);
	__u32 count = preempt_count(current);

	if (!waker)
		return;
	waker->tid = task->pid;
	waker->by_tid = current->pid;
	waker->by_pid = current->tgid;
	waker->is_throttled = is_group_throttled(task);
	waker->on = ON_PROCESS;
	if (count & IN_HARDIRQ || !current->pid || (count & IN_SOFTIRQ && !is_sending(current)))
		waker->on = ON_INTERRUPT;
}

// `number`: of the CPU, whose thread of process `pid` leaves it.
static __always_inline void note_slice(__u32 number, __u32 pid, __u64 now)
{
	struct slices *slices = bpf_map_lookup_elem(&slices_of_cpus, &number);
	struct slice *last;

	if (!slices)
		return;
	last = &slices->last[(slices->next - 1) & (LAST_SLICES - 1)];
	if (last->pid != pid) {
		last = &slices->last[slices->next & (LAST_SLICES - 1)];
		last->pid = pid;
		slices->next += 1;
	}
	last->end_ns = now;
}

// Global, as those below, so that the verifier checks it once and not for each call. `count`: 1 for the part of a wait that ended it.
__noinline int add_wait_for(struct wait_for_key *key, __u64 ns, __u32 count)
{
	__u64 number, hash;

	if (!(probes & PROBE_WAITS_FOR) || !key || !ns)
		return 0;
	number = (__u64)key->pid << 42 | (__u64)(key->on_id & 0x3fffff) << 20 | key->reason << 4 | key->kind << 2 | key->on;
	hash = number * 0x9e3779b97f4a7c15 >> (64 - WAIT_FOR_BITS);
	for (__u32 again = 0; again < WAIT_FOR_TRIES; again++) {
		__u32 slot = ((hash + again) & ((1 << WAIT_FOR_BITS) - 1)) | (wait_for_page.table & 1) << WAIT_FOR_BITS;
		volatile struct wait_for *sum = bpf_map_lookup_elem(&waits_for, &slot);

		if (!sum)
			return 0;
		// No compare and exchange: Linux has it since 5.12, on arm64 since 5.18. Of two CPUs that take a free slot in the same
		// nanoseconds the later names it.
		if (!sum->key)
			sum->key = number;
		if (sum->key != number)
			continue;
		__sync_fetch_and_add(&sum->ns, ns);
		__sync_fetch_and_add(&sum->count, count);
		return 0;
	}
	__sync_fetch_and_add(&wait_for_page.lost, count);
	return 0;
}

static __always_inline bool is_futex(__u16 reason)
{
#if defined(__TARGET_ARCH_arm64)
	if (reason == (WAIT_SYSCALL | 98))
		return true;
#else
	if (reason == (WAIT_SYSCALL | 202))
		return true;
#endif
	return reason == (WAIT_SYSCALL | 449) || reason == (WAIT_SYSCALL | 455);
}

static __always_inline void set_on(struct wait_for_key *key, __u32 on, __u32 by_pid, __u32 by_tid)
{
	key->on = on;
	key->on_id = 0;
	if (on != ON_PROCESS)
		return;
	key->on_id = by_pid;
	if (by_pid == key->pid) {
		key->on = ON_THREAD;
		key->on_id = by_tid;
	}
}

// A lock goes from hand to hand: the thread that passes it on may have waited for it just as long. The time up to the end of that wait is due to
// the one on whom that thread waited.
static __always_inline __u64 blame_holder(struct wait_for_key *key, const struct waker *waker, __u32 tid, __u64 from, __u64 to)
{
	__u32 slot = waker->by_tid & (HOLDER_SLOTS - 1), own = tid & (HOLDER_SLOTS - 1);
	struct holder *holder = bpf_map_lookup_elem(&holders, &slot);
	struct holder *mine = bpf_map_lookup_elem(&holders, &own);
	__u32 on = waker->on, by_pid = waker->by_pid, by_tid = waker->by_tid;
	__u64 passed = from;

	if (holder && holder->tid == by_tid && holder->by_tid != tid && holder->ended_ns > from && holder->ended_ns < to) {
		passed = holder->ended_ns;
		set_on(key, holder->on, holder->by_pid, holder->by_tid);
		if (passed - from > to - passed) {
			on = holder->on;
			by_pid = holder->by_pid;
			by_tid = holder->by_tid;
		}
		add_wait_for(key, passed - from, 0);
	}
	if (mine) {
		mine->tid = tid;
		mine->ended_ns = to;
		mine->on = on;
		mine->by_pid = by_pid;
		mine->by_tid = by_tid;
	}
	return passed;
}

// The thread was blocked from `from` to `to`. A thread of the kernel that waits has nothing to do: nothing is due to who gives it work.
__noinline int blame_waker(__u64 ids, __u64 from, __u64 to, __u32 reason)
{
	struct wait_for_key key = { .pid = ids >> 32, .reason = reason, .kind = FOR_REASON };
	struct waker waker = {}, *noted;
	__u32 tid = ids, slot = tid & (WAKER_SLOTS - 1);

	if (!(probes & PROBE_WAITS_FOR) || reason == WAIT_KERNEL_THREAD)
		return 0;
	noted = bpf_map_lookup_elem(&wakers, &slot);
	if (noted)
		waker = *noted;
	if (waker.tid == tid) {
		if (waker.on == ON_PROCESS && is_futex(reason))
			from = blame_holder(&key, &waker, tid, from, to);
		set_on(&key, waker.on, waker.by_pid, waker.by_tid);
	}
	add_wait_for(&key, since(to, from), 1);
	return 0;
}

// A thread of the process was ready from `from` to `to`, and gets this CPU.
__noinline int blame_runners(__u32 pid, __u64 from, __u64 to, __u32 number, bool is_throttled)
{
	struct slices *slices = bpf_map_lookup_elem(&slices_of_cpus, &number);
	struct wait_for_key key = { .pid = pid, .kind = FOR_CPU };
	__u64 end = to;

	if (!(probes & PROBE_WAITS_FOR))
		return 0;
	if (is_throttled) {
		key.kind = FOR_LIMIT;
		slices = NULL;
	}
	for (__u32 back = 1; slices && back < LAST_SLICES && end > from; back++) {
		const struct slice *slice = &slices->last[(slices->next - back) & (LAST_SLICES - 1)];
		__u64 begin = later(slices->last[(slices->next - back - 1) & (LAST_SLICES - 1)].end_ns, from);

		set_on(&key, slice->pid ? ON_PROCESS : ON_OTHERS, slice->pid, 0);
		// One thread behind another of its own process waits on the process.
		if (key.on == ON_THREAD) {
			key.on = ON_PROCESS;
			key.on_id = slice->pid;
		}
		add_wait_for(&key, since(end, begin), end == to);
		end = lesser(end, begin);
	}
	key.on = ON_OTHERS;
	key.on_id = 0;
	add_wait_for(&key, since(end, from), end == to);
	return 0;
}

static __always_inline bool was_woken_throttled(struct task_struct *task)
{
	__u32 slot = task->pid & (WAKER_SLOTS - 1);
	struct waker *waker = bpf_map_lookup_elem(&wakers, &slot);

	return waker && waker->tid == task->pid && waker->is_throttled;
}
