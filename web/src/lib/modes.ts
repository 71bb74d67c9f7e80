// CPU modes and ledger lines. In: nothing. Out: their names, colours and order. Why: bars, strips, plots and legends agree.

export interface Part {
  name: string;
  label: string;
  /** A CSS variable. */
  color: string;
  help: string;
}

/** Bottom of a stack first. */
export const MODES: readonly Part[] = [
  { name: 'user_ns', label: 'user', color: '--user', help: 'user mode' },
  { name: 'nice_ns', label: 'nice', color: '--nice', help: 'niced user mode' },
  { name: 'system_ns', label: 'system', color: '--system', help: 'kernel mode' },
  { name: 'irq_ns', label: 'irq', color: '--irq', help: 'hard interrupts' },
  { name: 'softirq_ns', label: 'softirq', color: '--softirq', help: 'soft interrupts' },
  { name: 'steal_ns', label: 'steal', color: '--steal', help: 'taken by the hypervisor' },
];

export const IDLE_MODES: readonly Part[] = [
  { name: 'iowait_ns', label: 'iowait', color: '--iowait', help: 'nothing to run while a task waits for a disk' },
  { name: 'idle_ns', label: 'idle', color: '--idle', help: 'nothing to run' },
];

/** Capacity is their sum. */
export const LEDGER: readonly Part[] = [
  { name: 'ledger_threads_ns', label: 'threads', color: '--user', help: 'run time of threads alive at the end of the interval' },
  { name: 'ledger_exited_ns', label: 'exited', color: '--exited', help: 'run time of threads that ended in the interval' },
  { name: 'ledger_irq_ns', label: 'irq', color: '--irq', help: 'hard interrupts' },
  { name: 'ledger_softirq_ns', label: 'softirq', color: '--softirq', help: 'soft interrupts' },
  { name: 'ledger_steal_ns', label: 'steal', color: '--steal', help: 'taken by the hypervisor' },
  { name: 'unattributed_ns', label: 'unattributed', color: '--unattributed', help: 'what the other lines leave over; negative when more was booked than there was' },
  { name: 'ledger_idle_ns', label: 'idle', color: '--idle', help: 'idle, iowait included' },
];

/** Lines of a plot, apart from each other for colour-blind eyes too (after Okabe and Ito). */
export const LINE_COLORS = {
  light: ['#0b62b3', '#b45f00', '#00795a', '#a8327c', '#5b4bb5', '#7a6a00', '#c0392b', '#3d7a94'],
  dark: ['#62aef5', '#f0a848', '#35c79a', '#f08cc8', '#a99cf5', '#e0d060', '#ff8a75', '#8fd0ea'],
} as const;

let scheme: MediaQueryList | null = null;

export function isDark(): boolean {
  scheme ??= matchMedia('(prefers-color-scheme: dark)');
  return scheme.matches;
}

export function lineColor(nth: number): string {
  const colors = LINE_COLORS[isDark() ? 'dark' : 'light'];
  return colors[nth % colors.length]!;
}

const resolved = new Map<string, string>();

/** What a CSS variable means now. Canvas needs plain colours; `light-dark()` resolves only in a property. Asked once for each
 * scheme: each look makes the browser work out all styles. */
export function cssColor(name: string): string {
  const key = `${name} ${isDark()}`;
  const known = resolved.get(key);
  if (known) return known;
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  probe.hidden = true;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  resolved.set(key, color);
  return color;
}
