// Time in interrupts.
// traces:   begin and end of each hard and soft interrupt (irq_handler_*, softirq_*, and vectors with tracepoints of their own).
// produces: the time in each, in the account of its CPU and, for hard ones, of its line. The kernel charges interrupts to the
//           thread that was running; here they are subtracted.
// costs:    147 to 445 ns a begin or end; docs/probes.md.
#pragma once

#include "exits.h"
#include "lines.h"

#define IRQ_ENTRIES (IRQ_LINES + 16)

struct irq_times {
	__u64 time_ns;
	__u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, IRQ_ENTRIES);
	__type(key, __u32);
	__type(value, struct irq_times);
} irqs SEC(".maps");

// The soft interrupts' programs run with hard ones enabled. A hard interrupt in the middle of a change is left out, begin
// and end alike: its time stays with the interrupted mode, and nothing is booked twice.
static __always_inline bool is_changing(const struct cpu *cpu)
{
	return cpu->changes & 1;
}

static __always_inline int enter_irq(void)
{
	__u64 now = bpf_ktime_get_ns(), cut = control.cut_ns;
	__u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = cpu_at(number);

	if (!cpu || is_changing(cpu))
		return 0;
	begin_cpu(cpu, now, cut);
	advance(&cpu->now, now);
	cpu->now.irq_depth += 1;
	cpu->now.mode = MODE_IRQ;
	end_change(&cpu->changes);
	cpu->irq_ns = now;
	return 0;
}

static __always_inline int leave_irq(__u32 line)
{
	__u64 now = bpf_ktime_get_ns(), cut = control.cut_ns;
	__u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = cpu_at(number);
	struct irq_times *times;

	if (!cpu || is_changing(cpu) || cpu->now.irq_depth == 0)
		return 0;
	begin_cpu(cpu, now, cut);
	advance(&cpu->now, now);
	cpu->now.irq_depth -= 1;
	if (cpu->now.irq_depth == 0)
		cpu->now.mode = cpu->now.softirq ? MODE_SOFTIRQ : cpu->now.base;
	end_change(&cpu->changes);
	times = bpf_map_lookup_elem(&irqs, &line);
	if (times) {
		__sync_fetch_and_add(&times->time_ns, since(now, cpu->irq_ns));
		__sync_fetch_and_add(&times->count, 1);
	}
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_entry, int irq)
{
	return enter_irq();
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_exit, int irq)
{
	return leave_irq(irq >= 0 && irq < IRQ_LINES ? irq : IRQ_LINES - 1);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int kind)
{
	__u64 now = bpf_ktime_get_ns(), cut = control.cut_ns;
	__u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = cpu_at(number);

	if (!cpu)
		return 0;
	begin_cpu(cpu, now, cut);
	advance(&cpu->now, now);
	cpu->now.softirq = (kind & (SOFTIRQS - 1)) + 1;
	cpu->now.mode = MODE_SOFTIRQ;
	end_change(&cpu->changes);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int kind)
{
	__u64 now = bpf_ktime_get_ns(), cut = control.cut_ns;
	__u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = cpu_at(number);

	if (!cpu || !cpu->now.softirq)
		return 0;
	begin_cpu(cpu, now, cut);
	advance(&cpu->now, now);
	cpu->now.softirq = 0;
	cpu->now.mode = cpu->now.base;
	end_change(&cpu->changes);
	return 0;
}

#include "vectors.h"
