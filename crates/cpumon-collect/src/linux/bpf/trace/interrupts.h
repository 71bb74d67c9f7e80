// Begin and end of each interrupt, as an event at its end. Only with --irq.
// traces:   irq_handler_entry and _exit, softirq_entry and _exit, and the vectors of vectors.h.
// produces: RECORD_INTERRUPT.
// costs:    docs/trace.md
#pragma once

#include "../sched/lines.h"
#include "slots.h"

#define INTERRUPT_HARD 0
#define INTERRUPT_SOFT 1

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
	struct cpu_state *here = this_cpu();
	__u64 now = bpf_ktime_get_ns(), ran = now - *began_ns;

	if (!*began_ns || !here)
		return 0;
	*began_ns = 0;
	return send(here, RECORD_INTERRUPT, kind, ran < 0xffffffff ? ran : 0xffffffff, 0, number, now);
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
