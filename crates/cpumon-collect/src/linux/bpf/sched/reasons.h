// Wait reasons.
// traces:   a task that goes to sleep, as threads.h and trace.bpf.c report it.
// produces: WAIT_* with the number of the system call: not only that a thread was blocked, but in which call.
// costs:    a read of the saved registers for each sleep; docs/probes.md.
#pragma once

#include "cut.h"

// Class in the upper four bits, the machine's system call number in the lower twelve.
#define WAIT_SYSCALL 0x1000
#define WAIT_DISK 0x2000 // counted by the kernel as waiting for a disk (in_iowait)
#define WAIT_UNINTERRUPTIBLE 0x3000 // any other uninterruptible sleep, with the system call; 0x3fff: in none
#define WAIT_FAULT 0x4000 // in a page fault or another exception
#define WAIT_STOPPED 0x5000
#define WAIT_TRACED 0x6000
#define WAIT_KERNEL_THREAD 0x7000
#define WAIT_EXIT 0x8000
#define WAIT_OTHER 0x9000
#define WAIT_NO_SYSCALL 0xfff
#define WAIT_MAX_SYSCALL 0xffe

#define TS_COMPAT 0x0002
#define PSR_MODE32 0x10

// How far above the begin of its stack a task's saved registers are: the same for all tasks. 0: no task was asked yet.
static volatile __u64 regs_at SEC(".bss.regs");

// No call in the end, only a type: the verifier replaces it. Since Linux 6.2.
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

// A call of a helper takes longer than all else that a wait reason needs, so only the first task is asked that way.
static __always_inline struct pt_regs *regs_of(struct task_struct *task)
{
	struct pt_regs *regs;

	if (probes & CAN_CAST && regs_at)
		return bpf_rdonly_cast((void *)((__u64)task->stack + regs_at), bpf_core_type_id_kernel(struct pt_regs));
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	// In 32 bits, enough for a stack: Linux 6.1 refuses to subtract a number without known bounds from a pointer.
	regs_at = (__u32)(__u64)regs - (__u32)(__u64)task->stack;
	return regs;
}

// -1: in none; -2: not one that can be named.
static __always_inline long syscall_of(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs = regs_of(task);

	if (bpf_core_field_exists(task->thread_info.status) && task->thread_info.status & TS_COMPAT)
		return -2;
	return regs->orig_ax < 0 ? -1 : regs->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	struct pt_regs *regs = regs_of(task);

	// A program for 32-bit Arm numbers its calls otherwise.
	if (regs->pstate & PSR_MODE32)
		return -2;
	return regs->syscallno < 0 ? -1 : regs->syscallno;
#else
	return -2;
#endif
}

static __always_inline __u16 wait_reason(struct task_struct *task, __u32 state)
{
	bool is_uninterruptible = (state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) == TASK_UNINTERRUPTIBLE;
	long number;

	if (state & TASK_DEAD)
		return WAIT_EXIT;
	if (state & TASK_STOPPED)
		return WAIT_STOPPED;
	if (state & TASK_TRACED)
		return WAIT_TRACED;
	if (is_uninterruptible && BPF_CORE_READ_BITFIELD(task, in_iowait))
		return WAIT_DISK;
	if (task->flags & PF_KTHREAD)
		return WAIT_KERNEL_THREAD;
	number = syscall_of(task);
	if (number < 0)
		return number == -2 ? WAIT_OTHER : is_uninterruptible ? WAIT_UNINTERRUPTIBLE | WAIT_NO_SYSCALL : WAIT_FAULT;
	if (number > WAIT_MAX_SYSCALL)
		return WAIT_OTHER;
	return (is_uninterruptible ? WAIT_UNINTERRUPTIBLE : WAIT_SYSCALL) | number;
}
