// traces:   each switch (tp_btf/sched_switch), wakeup (sched_waking, sched_wakeup_new), move to another queue
//           (sched_migrate_task), birth (task_newtask), exec, rename and the beginning of each end (sched_process_exit). If wanted,
//           begin and end of each interrupt.
// produces: records in ring buffers: 24 bytes an event; who a task is (80 or 144 bytes) once, before its first event, and again
//           after a rename or exec, and the names of its control group and of those above, once each. Events have the task's number, which is in its storage and never reused. No record wakes
//           user space. What does not fit is counted, and the next record that fits is preceded by a mark with count and span.
// costs:    docs/trace.md
#include "../sched/lines.h"
#include "../sched/nodes.h"
#include "../sched/reasons.h"

char LICENSE[] SEC("license") = "GPL";

#define RECORD_SWITCH 1
#define RECORD_WAKING 2
#define RECORD_MIGRATE 3
#define RECORD_BORN 4
#define RECORD_EXIT 5
#define RECORD_LOST 6
#define RECORD_TASK 7
#define RECORD_PROGRAM 8
#define RECORD_INTERRUPT 9
#define RECORD_GROUP 10

#define LEAVES_READY 0
#define LEAVES_ASLEEP 1
#define LEAVES_DEAD 2

#define INTERRUPT_HARD 0
#define INTERRUPT_SOFT 1

#define UNKNOWN_TASK 0xffffffff

#define PROGRAM_BYTES 64

// Set by user space before it loads this. CPU n uses ring buffer n modulo this.
const volatile __u32 ring_count SEC(".rodata.rings") = 1;

struct event_record {
	__u64 at_ns; // CLOCK_MONOTONIC
	__u8 kind; // RECORD_*
	__u8 leaves; // LEAVES_*, of `task`, in a switch; INTERRUPT_* in an interrupt
	__u16 cpu;
	__u32 task; // ns since its begin, in an interrupt
	__u32 other; // next, waker or parent
	__u16 value; // reason (switch), CPU (waking, migrate) or number (interrupt)
	__u16 reserved;
};
ASSERT_SIZE(event_record, 24);

struct lost_record {
	__u64 at_ns; // of the first
	__u8 kind;
	__u8 leaves;
	__u16 cpu;
	__u32 task;
	__u64 until_ns; // of the last
	__u64 count;
};
ASSERT_SIZE(lost_record, 32);

struct task_entry {
	__u64 at_ns;
	__u8 kind;
	__u8 is_kernel;
	__u16 cpu;
	__u32 task;
	__u64 start_ns; // CLOCK_BOOTTIME
	__u64 process_start_ns;
	__u32 tid;
	__u32 pid;
	char comm[16];
	char process_comm[16];
	__u64 group; // 0: not known
};
ASSERT_SIZE(task_entry, 80);

struct program_entry {
	struct task_entry task;
	char program[PROGRAM_BYTES];
};
ASSERT_SIZE(program_entry, 144);

struct group_entry {
	__u64 at_ns;
	__u8 kind;
	__u8 reserved;
	__u16 cpu;
	__u32 task;
	__u64 group;
	__u64 parent; // 0: it is the root
	char name[GROUP_NAME_BYTES];
};
ASSERT_SIZE(group_entry, 288);

// The groups of which the name was sent.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u32);
} sent_groups SEC(".maps");

// User space sets sizes and numbers, and puts the ring buffers in.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_RINGBUF);
		__uint(max_entries, 4096);
	});
} rings SEC(".maps");

// What a task is called in this trace.
struct traced {
	__u32 number;
	__u32 is_sent;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct traced);
} traced SEC(".maps");

// Of a CPU, since its last mark.
struct loss {
	__u64 count;
	__u64 first_ns;
	__u64 last_ns;
	__u64 total; // since the recording began
	__u64 reserved[4]; // a cache line of its own
};
ASSERT_SIZE(loss, 64);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct loss);
} losses SEC(".maps");

static __u32 last_number SEC(".bss.numbers");

static __noinline int count_loss(__u32 cpu, __u64 now)
{
	struct loss *loss = bpf_map_lookup_elem(&losses, &cpu);

	if (!loss)
		return 0;
	if (!loss->count)
		loss->first_ns = now;
	loss->last_ns = now;
	__sync_fetch_and_add(&loss->count, 1);
	__sync_fetch_and_add(&loss->total, 1);
	return 0;
}

// Before the first record that fits again.
static __noinline int mark_loss(void *to, __u32 cpu)
{
	struct loss *loss = bpf_map_lookup_elem(&losses, &cpu);
	struct lost_record *record;

	if (!loss || !to)
		return 0;
	record = bpf_ringbuf_reserve(to, sizeof(*record), 0);
	if (!record)
		return 0;
	record->kind = RECORD_LOST;
	record->leaves = 0;
	record->cpu = cpu;
	record->task = 0;
	record->at_ns = loss->first_ns;
	record->until_ns = loss->last_ns;
	record->count = __sync_lock_test_and_set(&loss->count, 0);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline void *ring_of(__u32 cpu)
{
	__u32 number = cpu % ring_count;

	return bpf_map_lookup_elem(&rings, &number);
}

// NULL if it does not fit, which is counted.
static __always_inline void *reserve(__u32 cpu, __u64 size, __u64 now)
{
	struct loss *loss = bpf_map_lookup_elem(&losses, &cpu);
	void *to = ring_of(cpu), *record;

	if (!to || !loss)
		return NULL;
	if (loss->count)
		mark_loss(to, cpu);
	record = bpf_ringbuf_reserve(to, size, 0);
	if (!record)
		count_loss(cpu, now);
	return record;
}

// Sends the names of a group and of those above that were not sent yet. `hierarchy`: in the highest bits.
static __noinline int send_groups(struct kernfs_node *node, __u64 hierarchy, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id();

	for (int depth = 0; depth < MAX_DEPTH && node; depth++) {
		struct kernfs_node *parent = above(node);
		__u64 group = BPF_CORE_READ(node, id) | hierarchy;
		struct group_entry *entry;
		__u32 is_sent = 1;

		if (bpf_map_lookup_elem(&sent_groups, &group))
			return 0;
		entry = reserve(cpu, sizeof(*entry), now);
		if (!entry)
			return 0;
		entry->at_ns = now;
		entry->kind = RECORD_GROUP;
		entry->reserved = 0;
		entry->cpu = cpu;
		entry->task = 0;
		entry->group = group;
		entry->parent = parent ? BPF_CORE_READ(parent, id) | hierarchy : 0;
		if (bpf_probe_read_kernel_str(entry->name, sizeof(entry->name), BPF_CORE_READ(node, name)) < 0)
			entry->name[0] = 0;
		bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP);
		bpf_map_update_elem(&sent_groups, &group, &is_sent, BPF_ANY);
		node = parent;
	}
	return 0;
}

// The number of the task's control group; 0: not known. Where it is in no group of v2, that of the controller `cpu` counts.
static __noinline __u64 group_of(struct task_struct *task, __u64 now)
{
	struct kernfs_node *node, *older;
	__u64 hierarchy = GROUPS_V2;
	struct css_set *set;

	if (!task || !has_groups(task))
		return 0;
	set = task->cgroups;
	node = node_v2(set);
	if (!node)
		return 0;
	if (!above(node)) {
		older = node_v1_cpu(set);
		if (older && above(older)) {
			node = older;
			hierarchy = (__u64)GROUPS_V1_CPU << HIERARCHY_SHIFT;
		}
	}
	send_groups(node, hierarchy, now);
	return BPF_CORE_READ(node, id) | hierarchy;
}

// A record that says who the task is; `size`: with what follows. NULL if it does not fit.
static __always_inline struct task_entry *reserve_task(struct task_struct *task, __u32 number, __u64 size, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 group = group_of(task, now);
	struct task_entry *entry = reserve(cpu, size, now);

	if (!entry)
		return NULL;
	entry->at_ns = now;
	entry->kind = RECORD_TASK;
	entry->is_kernel = !!(task->flags & PF_KTHREAD);
	entry->cpu = cpu;
	entry->task = number;
	entry->start_ns = task->start_boottime;
	entry->process_start_ns = task->group_leader->start_boottime;
	entry->tid = task->pid;
	entry->pid = task->tgid;
	__builtin_memcpy(entry->comm, task->comm, sizeof(entry->comm));
	bpf_probe_read_kernel(entry->process_comm, sizeof(entry->process_comm), task->group_leader->comm);
	entry->group = group;
	return entry;
}

static __noinline int send_identity(struct task_struct *task, __u32 number, __u64 now)
{
	struct task_entry *entry = task ? reserve_task(task, number, sizeof(*entry), now) : NULL;

	if (!entry)
		return 0;
	bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP);
	return 1;
}

// A task that has no number yet, or whose identity did not fit before.
static __noinline __u32 introduce(struct task_struct *task, __u64 now)
{
	struct traced *is;

	if (!task)
		return UNKNOWN_TASK;
	is = bpf_task_storage_get(&traced, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!is)
		return UNKNOWN_TASK;
	if (!is->number)
		is->number = __sync_fetch_and_add(&last_number, 1) + 1;
	if (send_identity(task, is->number, now))
		is->is_sent = 1;
	return is->number;
}

static __always_inline __u32 number_of(struct task_struct *task, __u64 now)
{
	struct traced *is;

	if (!task->pid)
		return 0;
	is = bpf_task_storage_get(&traced, task, 0, 0);
	if (is && is->is_sent)
		return is->number;
	return introduce(task, now);
}

static __always_inline int send(__u8 kind, __u8 leaves, __u32 task, __u32 other, __u16 value, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct event_record *record = reserve(cpu, sizeof(*record), now);

	if (!record)
		return 0;
	record->at_ns = now;
	record->kind = kind;
	record->leaves = leaves;
	record->cpu = cpu;
	record->task = task;
	record->other = other;
	record->value = value;
	record->reserved = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int on_switch(bool preempt, struct task_struct *prev, struct task_struct *next, __u32 state)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 from = number_of(prev, now), to = number_of(next, now);
	__u8 leaves = LEAVES_READY;
	__u16 reason = 0;

	if (!preempt && state && prev->pid) {
		leaves = state & TASK_DEAD ? LEAVES_DEAD : LEAVES_ASLEEP;
		if (leaves == LEAVES_ASLEEP)
			reason = wait_reason(prev, state);
	}
	return send(RECORD_SWITCH, leaves, from, to, reason, now);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch_4, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	return on_switch(preempt, prev, next, prev_state);
}

// Before Linux 5.18 the event has no state. A wakeup may have changed it already; what it never makes of it is 0.
SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch_3, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return on_switch(preempt, prev, next, state_of(prev));
}

static __always_inline int on_wake(struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 woken = number_of(task, now), waker = number_of(bpf_get_current_task_btf(), now);

	return send(RECORD_WAKING, 0, woken, waker, cpu_of(task), now);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	return on_wake(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	return on_wake(task);
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int to_cpu)
{
	__u64 now = bpf_ktime_get_ns();

	return send(RECORD_MIGRATE, 0, number_of(task, now), 0, to_cpu, now);
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_birth, struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns();

	return send(RECORD_BORN, 0, number_of(task, now), number_of(bpf_get_current_task_btf(), now), 0, now);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns();

	return send(RECORD_EXIT, 0, number_of(task, now), 0, 0, now);
}

// The task still has its old name.
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 number = number_of(task, now);
	struct task_entry *entry = number ? reserve_task(task, number, sizeof(*entry), now) : NULL;

	if (!entry)
		return 0;
	bpf_probe_read_kernel_str(entry->comm, sizeof(entry->comm), comm);
	if (task->pid == task->tgid)
		__builtin_memcpy(entry->process_comm, entry->comm, sizeof(entry->comm));
	bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *program)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 number = number_of(task, now);
	struct program_entry *entry = (void *)reserve_task(task, number, sizeof(*entry), now);

	if (!entry)
		return 0;
	entry->task.kind = RECORD_PROGRAM;
	if (bpf_probe_read_kernel_str(entry->program, sizeof(entry->program), program->file->f_path.dentry->d_name.name) < 0)
		entry->program[0] = 0;
	bpf_ringbuf_submit(entry, BPF_RB_NO_WAKEUP);
	return 0;
}

// Interrupts of a CPU that go on; 0: none. A hard one is not interrupted by another.
struct open_interrupts {
	__u64 hard_ns;
	__u64 soft_ns;
	__u64 reserved[6]; // a cache line of its own
};
ASSERT_SIZE(open_interrupts, 64);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct open_interrupts);
} interrupts SEC(".maps");

static __always_inline struct open_interrupts *interrupts_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&interrupts, &cpu);
}

// One whose begin was not seen is not recorded.
static __always_inline int end_interrupt(__u64 *began_ns, __u8 kind, __u16 number)
{
	__u64 now = bpf_ktime_get_ns(), ran = now - *began_ns;

	if (!*began_ns)
		return 0;
	*began_ns = 0;
	return send(RECORD_INTERRUPT, kind, ran < 0xffffffff ? ran : 0xffffffff, 0, number, now);
}

static __always_inline int enter_irq(void)
{
	struct open_interrupts *open = interrupts_here();

	if (open)
		open->hard_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int leave_irq(__u32 line)
{
	struct open_interrupts *open = interrupts_here();

	return open ? end_interrupt(&open->hard_ns, INTERRUPT_HARD, line) : 0;
}

SEC("?tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_entry, int irq)
{
	return enter_irq();
}

SEC("?tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_exit, int irq)
{
	return leave_irq(irq >= 0 && irq < IRQ_LINES ? irq : IRQ_LINES - 1);
}

SEC("?tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int kind)
{
	struct open_interrupts *open = interrupts_here();

	if (open)
		open->soft_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int kind)
{
	struct open_interrupts *open = interrupts_here();

	return open ? end_interrupt(&open->soft_ns, INTERRUPT_SOFT, kind) : 0;
}

#include "../sched/vectors.h"
