// Numbers of interrupts.
// traces:   nothing itself.
// produces: the numbers under which interrupts are reported, by irqs.h in sums and by trace.bpf.c one by one.
// costs:    nothing.
#pragma once

// Lines by number; the last entry is for all above. Interrupts without a line come after them.
#define IRQ_LINES 1024
#define IRQ_TIMER (IRQ_LINES + 0)
#define IRQ_RESCHEDULE (IRQ_LINES + 1)
#define IRQ_CALL (IRQ_LINES + 2)
#define IRQ_CALL_SINGLE (IRQ_LINES + 3)
#define IRQ_WORK (IRQ_LINES + 4)
#define IRQ_IPI (IRQ_LINES + 5)
