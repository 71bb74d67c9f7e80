// Written by `cargo xtask generate-columns` from crates/cpumon-model/src/columns/screen.rs. Do not edit.

/** How a value is shown: share of the interval, mean number of threads, count per second, time, number as it is, text. */
export type Format = 'share' | 'threads' | 'per_s' | 'ns' | 'plain' | 'text';

export interface ScreenColumn {
  /** Stable name, in addresses and settings. */
  readonly id: string;
  /** Column of the receiver's tables from which the value is computed; null: the page makes the value itself. */
  readonly source: string | null;
  readonly title: string;
  readonly format: Format;
  readonly align: 'left' | 'right';
  readonly help: string;
  /** In the grid of processes and threads. */
  readonly layout?: {
    /** px. */
    readonly width: number;
    /** Smaller comes first where space is short. */
    readonly rank: number;
    /** Not shown unless the user chose it. */
    readonly isSeldom: boolean;
  };
}

export const TASK_COLUMNS = [
  {
    id: 'name',
    source: 'name',
    title: 'Name',
    format: 'text',
    align: 'left',
    help: 'Process: the base name of the script that it runs, else of its executable where known, else its comm. Thread: its comm at the interval\'s end.',
    layout: { width: 200, rank: 0, isSeldom: false },
  },
  {
    id: 'process',
    source: 'process_name',
    title: 'Process',
    format: 'text',
    align: 'left',
    help: 'Name of the process the thread belongs to.',
    layout: { width: 140, rank: 2, isSeldom: true },
  },
  {
    id: 'pid',
    source: 'pid',
    title: 'PID',
    format: 'plain',
    align: 'right',
    help: 'Process id; thread id of a thread; number of processes of a group.',
    layout: { width: 70, rank: 4, isSeldom: false },
  },
  {
    id: 'cpu',
    source: 'run_ns',
    title: '%CPU',
    format: 'share',
    align: 'right',
    help: 'Time on a CPU. %CPU: 100 = one CPU. %host: 100 = all CPUs.',
    layout: { width: 78, rank: 1, isSeldom: false },
  },
  {
    id: 'user',
    source: 'user_ns',
    title: 'user',
    format: 'share',
    align: 'right',
    help: 'Run time in user mode, in the unit of utilization.',
    layout: { width: 58, rank: 9, isSeldom: false },
  },
  {
    id: 'system',
    source: 'system_ns',
    title: 'system',
    format: 'share',
    align: 'right',
    help: 'Run time in kernel mode, in the unit of utilization.',
    layout: { width: 62, rank: 10, isSeldom: false },
  },
  {
    id: 'ready',
    source: 'run_delay_ns',
    title: 'ready',
    format: 'threads',
    align: 'right',
    help: 'Run delay: time runnable but waiting for a CPU within the interval. Shown as the number of threads in that state on average; of a single thread as a percentage of the interval.',
    layout: { width: 66, rank: 3, isSeldom: false },
  },
  {
    id: 'blocked',
    source: 'blocked_ns',
    title: 'blocked',
    format: 'threads',
    align: 'right',
    help: 'Time neither running nor runnable within the interval. Shown as the number of threads in that state on average; of a single thread as a percentage of the interval.',
    layout: { width: 78, rank: 13, isSeldom: false },
  },
  {
    id: 'wait',
    source: 'wait_reason',
    title: 'waits for',
    format: 'text',
    align: 'left',
    help: 'What it was blocked by most: a system call, by name or in words (futex: lock), disk, page fault, stopped, traced (debugger), kernel (work to do), exit, other. On the page with its share of the time of its threads, and ready where it waited longer for a CPU.',
    layout: { width: 150, rank: 11, isSeldom: false },
  },
  {
    id: 'longest',
    source: 'longest_run_delay_ns',
    title: 'max delay',
    format: 'ns',
    align: 'right',
    help: 'Longest single run delay; of a process the longest of its threads. Never summed.',
    layout: { width: 78, rank: 14, isSeldom: false },
  },
  {
    id: 'limit',
    source: 'cpu_limit',
    title: 'CPU limit',
    format: 'plain',
    align: 'right',
    help: 'CPUs that its control group may use: the tightest limit of the group and those above it. Empty without one.',
    layout: { width: 76, rank: 6, isSeldom: false },
  },
  {
    id: 'throttled',
    source: 'throttled_ns',
    title: 'throttled',
    format: 'share',
    align: 'right',
    help: 'Time in which the quota of that limit was used up, so that its tasks could not run, summed over CPUs as the kernel does. Shown as a percentage of the interval, in the unit of utilization. All tasks below a limit have the same value.',
    layout: { width: 78, rank: 5, isSeldom: false },
  },
  {
    id: 'vcsw',
    source: 'voluntary_switches',
    title: 'vcsw/s',
    format: 'per_s',
    align: 'right',
    help: 'Times it left the CPU to wait. Shown per second.',
    layout: { width: 66, rank: 15, isSeldom: false },
  },
  {
    id: 'icsw',
    source: 'involuntary_switches',
    title: 'icsw/s',
    format: 'per_s',
    align: 'right',
    help: 'Times it was pushed off the CPU while runnable. Shown per second.',
    layout: { width: 66, rank: 16, isSeldom: false },
  },
  {
    id: 'wakeups',
    source: 'wakeups',
    title: 'wakes/s',
    format: 'per_s',
    align: 'right',
    help: 'Times it was woken. Shown per second.',
    layout: { width: 70, rank: 20, isSeldom: true },
  },
  {
    id: 'migrations',
    source: 'migrations',
    title: 'migr/s',
    format: 'per_s',
    align: 'right',
    help: 'Times it ran on another CPU than before. Shown per second.',
    layout: { width: 62, rank: 21, isSeldom: true },
  },
  {
    id: 'minflt',
    source: 'minor_faults',
    title: 'minflt/s',
    format: 'per_s',
    align: 'right',
    help: 'Page faults that needed no disk: the page was in memory, or new. On Windows of processes only. Shown per second.',
    layout: { width: 70, rank: 23, isSeldom: true },
  },
  {
    id: 'majflt',
    source: 'major_faults',
    title: 'majflt/s',
    format: 'per_s',
    align: 'right',
    help: 'Page faults for which a page was read from a disk. On Windows of processes only. Shown per second.',
    layout: { width: 70, rank: 24, isSeldom: true },
  },
  {
    id: 'threads',
    source: 'thread_rows',
    title: 'threads',
    format: 'plain',
    align: 'right',
    help: 'Threads of the process, those that ended and those without a row of their own included.',
    layout: { width: 64, rank: 8, isSeldom: false },
  },
  {
    id: 'state',
    source: 'state',
    title: 'S',
    format: 'text',
    align: 'left',
    help: 'State at the interval\'s end: a letter of proc(5).',
    layout: { width: 26, rank: 17, isSeldom: false },
  },
  {
    id: 'nice',
    source: 'nice',
    title: 'nice',
    format: 'plain',
    align: 'right',
    help: 'Nice value, -20 to 19. Windows has none.',
    layout: { width: 44, rank: 19, isSeldom: true },
  },
  {
    id: 'last_cpu',
    source: 'last_cpu',
    title: 'CPU#',
    format: 'plain',
    align: 'right',
    help: 'CPU it last ran on.',
    layout: { width: 48, rank: 18, isSeldom: true },
  },
  {
    id: 'uid',
    source: 'user',
    title: 'owner',
    format: 'text',
    align: 'left',
    help: 'Real user, by name if known.',
    layout: { width: 80, rank: 12, isSeldom: false },
  },
  {
    id: 'container',
    source: 'container',
    title: 'container',
    format: 'text',
    align: 'left',
    help: 'Container, or else systemd unit, out of the cgroup path: name (LXC, nspawn) or first 12 digits of the id; empty if none.',
    layout: { width: 150, rank: 7, isSeldom: false },
  },
  {
    id: 'cmdline',
    source: 'cmdline',
    title: 'command line',
    format: 'text',
    align: 'left',
    help: 'Command line, scrubbed of secrets; empty unless the agent runs with --cmdline.',
    layout: { width: 260, rank: 22, isSeldom: true },
  },
] as const satisfies readonly ScreenColumn[];

export const HOST_COLUMNS = [
  {
    id: 'name',
    source: null,
    title: 'Host',
    format: 'text',
    align: 'left',
    help: 'Name of the machine.',
  },
  {
    id: 'health',
    source: null,
    title: 'health',
    format: 'text',
    align: 'left',
    help: 'Empty of a healthy host. Else what is odd: no data arrives, intervals of the last minute lack lost data, their ledger is not balanced, the clock is wrong.',
  },
  {
    id: 'busy',
    source: null,
    title: 'CPU %',
    format: 'share',
    align: 'right',
    help: 'Busy share of all CPUs: mean of the last minute; the line has the last two minutes. 100 = all CPUs of the host.',
  },
  {
    id: 'peak',
    source: null,
    title: 'peak %',
    format: 'share',
    align: 'right',
    help: 'Highest busy share of a single interval of the last minute. 100 = all CPUs of the host.',
  },
  {
    id: 'ready',
    source: null,
    title: 'ready',
    format: 'plain',
    align: 'right',
    help: 'Threads ready, waiting for a CPU: how many on average over the last minute.',
  },
  {
    id: 'queue',
    source: null,
    title: 'queue/CPU',
    format: 'plain',
    align: 'right',
    help: 'Threads running or ready for each CPU, on average over the last minute. Above 1, threads wait.',
  },
  {
    id: 'top',
    source: null,
    title: 'busiest process, %',
    format: 'text',
    align: 'left',
    help: 'The process with the most run time in the newest interval. 100 = all CPUs of the host.',
  },
  {
    id: 'threads',
    source: 'thread_count',
    title: 'threads',
    format: 'plain',
    align: 'right',
    help: 'Threads alive at the end of the newest interval.',
  },
  {
    id: 'agent',
    source: 'agent',
    title: 'agent',
    format: 'text',
    align: 'left',
    help: 'Version of the agent, and the source that it measures with.',
  },
  {
    id: 'seen',
    source: null,
    title: 'last data',
    format: 'ns',
    align: 'right',
    help: 'Time since the newest interval arrived; of a host that does not report, when that was.',
  },
] as const satisfies readonly ScreenColumn[];

/** Labels by stored column, of hosts that this system runs on. */
export const TERMS = {
  linux: {
    irq_ns: { label: 'irq', help: 'hard interrupts' },
    softirq_ns: { label: 'softirq', help: 'soft interrupts' },
  },
  windows: {
    irq_ns: { label: 'ISR', help: 'interrupt service routines (irq on Linux)' },
    softirq_ns: { label: 'DPC', help: 'deferred procedure calls (softirq on Linux)' },
  },
} as const;

/** Sources that measure Windows. */
export const WINDOWS_SOURCES: readonly string[] = ['nt', 'toolhelp'];
