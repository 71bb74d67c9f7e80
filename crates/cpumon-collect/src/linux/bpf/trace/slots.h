// Rings of events that user space maps: a place in a ring is claimed by one atomic addition, without a lock or a call.
// traces:   nothing itself.
// produces: 24 bytes an event. What does not fit is counted for its CPU, and the next event that fits is preceded by a mark with count
//           and span. Nothing wakes user space.
// costs:    docs/trace.md
#pragma once

#include "../sched/clock.h"

#define RECORD_SWITCH 1
#define RECORD_WAKING 2
#define RECORD_MIGRATE 3
#define RECORD_BORN 4
#define RECORD_EXIT 5
#define RECORD_LOST 6
#define RECORD_INTERRUPT 9

// In `kind`, in every second round through the ring: so an event is distinguished from the one that had its slot before.
#define ODD_ROUND 0x80

// Slots that stay free, for claims by several CPUs or interrupts between check and addition.
#define SPARE_SLOTS 1024

// Set by user space before it loads this. CPU n uses ring n modulo `count`.
const volatile struct {
	__u32 count;
	__u32 slots; // of each; a power of two
} ring_sizes SEC(".rodata.rings") = { 1, 4096 };

struct event_record {
	__u64 at_ns; // CLOCK_MONOTONIC
	__u8 kind; // RECORD_*, and ODD_ROUND. It is written last, with the three bytes after it
	__u8 leaves; // LEAVES_*, of `task`, in a switch; INTERRUPT_* in an interrupt
	__u16 cpu;
	__u32 task; // ns since its begin, in an interrupt; count of lost events
	__u32 other; // next, waker or parent; low half of a loss's span in ns
	__u32 value; // reason (switch), CPU (waking, migrate), number (interrupt), high half of a loss's span in ns
};
ASSERT_SIZE(event_record, 24);

// How far a ring is written and read, in slots since the recording began.
struct ring_state {
	__u64 written;
	__u64 reserved[7];
	__u64 read; // by user space; on a cache line of its own
	__u64 reserved_2[7];
};
ASSERT_SIZE(ring_state, 128);

// User space sets how many, and the size of `events`: `ring_sizes.slots` events each.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring_state);
} ring_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 24 * 4096);
} events SEC(".maps");

// Ring buffers for the identities of tasks: few records, of different sizes. User space puts the buffers in.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_RINGBUF);
		__uint(max_entries, 4096);
	});
} rings SEC(".maps");

// State of a CPU: its current task, and the events lost since its last mark.
struct cpu_state {
	__u64 running; // address of the task that a switch brought here last; 0: not known
	__u32 running_tid;
	__u32 running_number;
	struct run_clock clock;
	__u64 lost;
	__u64 last_ns; // time of its last event
	__u64 reserved;
	__u64 first_lost_ns; // on a cache line of its own
	__u64 last_lost_ns;
	__u64 total_lost; // since the recording began
	__u64 reserved_2[5];
};
ASSERT_SIZE(cpu_state, 128);
_Static_assert(__builtin_offsetof(struct cpu_state, first_lost_ns) == 64, "cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_state);
} cpu_states SEC(".maps");

static __noinline int count_loss(__u32 cpu, __u64 now)
{
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);

	if (!state)
		return 0;
	if (!state->lost)
		state->first_lost_ns = now;
	state->last_lost_ns = now;
	__sync_fetch_and_add(&state->lost, 1);
	__sync_fetch_and_add(&state->total_lost, 1);
	return 0;
}

static __always_inline __u32 ring_of(__u32 cpu)
{
	return cpu < ring_sizes.count ? cpu : cpu % ring_sizes.count;
}

// Writes an event, unless the ring is full.
static __always_inline bool write_event(__u32 cpu, __u64 at_ns, __u8 kind, __u8 leaves, __u32 task, __u32 other, __u32 value)
{
	__u32 ring = ring_of(cpu), head;
	struct ring_state *state = bpf_map_lookup_elem(&ring_states, &ring);
	void *slots = bpf_map_lookup_elem(&events, &ring);
	struct event_record *record;
	__u64 at;

	if (!state || !slots || state->written - state->read + SPARE_SLOTS > ring_sizes.slots)
		return false;
	at = __sync_fetch_and_add(&state->written, 1);
	record = slots + (at & (ring_sizes.slots - 1)) * sizeof(*record);
	record->at_ns = at_ns;
	record->task = task;
	record->other = other;
	record->value = value;
	head = (at & ring_sizes.slots ? kind | ODD_ROUND : kind) | (__u32)leaves << 8 | cpu << 16;
#if defined(__TARGET_ARCH_x86)
	// x86 makes stores seen in their order.
	barrier();
	*(volatile __u32 *)&record->kind = head;
#else
	__sync_lock_test_and_set((__u32 *)&record->kind, head);
#endif
	return true;
}

// Called before the first event that fits again. Losses meanwhile are in the next mark.
static __noinline int mark_loss(__u32 cpu)
{
	struct cpu_state *state = bpf_map_lookup_elem(&cpu_states, &cpu);
	__u64 first, last, count;

	if (!state)
		return 0;
	first = state->first_lost_ns;
	last = state->last_lost_ns;
	count = state->lost;
	if (count > 0xffffffff)
		count = 0xffffffff;
	if (write_event(cpu, first, RECORD_LOST, 0, count, last - first, (last - first) >> 32))
		__sync_fetch_and_add(&state->lost, -count);
	return 0;
}

static __always_inline struct cpu_state *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpu_states, &cpu);
}

static __always_inline int send(struct cpu_state *here, __u8 kind, __u8 leaves, __u32 task, __u32 other, __u16 value, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id();

	// An interrupt after the clock was read may have been first.
	if (now < here->last_ns)
		now = here->last_ns;
	here->last_ns = now;
	if (here->lost)
		mark_loss(cpu);
	if (!write_event(cpu, now, kind, leaves, task, other, value))
		count_loss(cpu, now);
	return 0;
}

// Reserves a record in a ring buffer of the kernel. NULL if it does not fit, which is counted.
static __always_inline void *reserve_entry(__u32 cpu, __u64 size, __u64 now)
{
	__u32 ring = ring_of(cpu);
	void *to = bpf_map_lookup_elem(&rings, &ring), *entry = to ? bpf_ringbuf_reserve(to, size, 0) : NULL;

	if (!entry)
		count_loss(cpu, now);
	return entry;
}
