// Interrupts that the kernel does not run through a line.
// traces:   begin and end of those that have tracepoints of their own.
// produces: calls of `enter_irq` and `leave_irq`, which the file that includes this has.
// costs:    as theirs.
#pragma once

#include "lines.h"

// `?`: user space takes those that this kernel has.
#define VECTOR(name, line)                                                                                             \
	SEC("?tp_btf/" #name "_entry")                                                                                     \
	int BPF_PROG(on_##name##_entry, int vector)                                                                        \
	{                                                                                                                  \
		return enter_irq();                                                                                            \
	}                                                                                                                  \
	SEC("?tp_btf/" #name "_exit")                                                                                      \
	int BPF_PROG(on_##name##_exit, int vector)                                                                         \
	{                                                                                                                  \
		return leave_irq(line);                                                                                        \
	}

VECTOR(local_timer, IRQ_TIMER)
VECTOR(reschedule, IRQ_RESCHEDULE)
VECTOR(call_function, IRQ_CALL)
VECTOR(call_function_single, IRQ_CALL_SINGLE)
VECTOR(irq_work, IRQ_WORK)
VECTOR(ipi, IRQ_IPI)
