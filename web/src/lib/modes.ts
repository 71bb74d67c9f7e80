// CPU modes, ledger lines. In: charts.json, which the receiver draws pictures with too. Out: names, colours' names and order. Why:
// bars, strips, plots, legends and saved pictures agree.
import charts from '../charts.json';
import { TERMS, WINDOWS_SOURCES } from '../feed/columns.generated';
import { numberOf, type Summary } from './api';

/** `color`: its name in charts.json, and that of a CSS variable. */
export type Part = Record<'name' | 'label' | 'color' | 'help', string>;

/** Bottom of a stack first. */
export const MODES: readonly Part[] = charts.modes;

export const IDLE_MODES: readonly Part[] = [
  { name: 'iowait_ns', label: 'iowait', color: 'iowait', help: 'nothing to run while a task waits for a disk' },
  { name: 'idle_ns', label: 'idle', color: 'idle', help: 'nothing to run' },
];

/** All modes together; null where none was measured. */
export function busyOf(mode: (name: string) => number | null): number | null {
  return MODES.reduce<number | null>((sum, { name }) => {
    const value = mode(name);
    return value === null ? sum : (sum ?? 0) + value;
  }, null);
}

/** The share of all CPUs' time that was not idle, percent; null: no CPU was measured. */
export function busyPercent(cpus: readonly Readonly<Record<string, number>>[]): number | null {
  let busyNs = 0;
  let allNs = 0;
  for (const modes of cpus) {
    for (const mode of MODES) busyNs += modes[mode.name] || 0;
    for (const mode of [...MODES, ...IDLE_MODES]) allNs += modes[mode.name] || 0;
  }
  return allNs > 0 ? (busyNs * 100) / allNs : null;
}

/** Capacity is their sum. */
export const LEDGER: readonly Part[] = charts.ledger;

/** The same parts in the words of the source's system: DPC, not softirq, on Windows. */
export function termed(parts: readonly Part[], source: string): readonly Part[] {
  if (!WINDOWS_SOURCES.includes(source)) return parts;
  const terms: Readonly<Record<string, { label: string; help: string }>> = TERMS.windows;
  return parts.map((part) => ({ ...part, ...terms[part.name.replace('ledger_', '')] }));
}

export interface Balance {
  /** Unattributed CPU time as a share of the capacity; null: not measured. */
  ratio: number | null;
  /** null: not measured, or the limit is not known yet. */
  isBalanced: boolean | null;
}

export function balanceOf(summary: Summary, limit: number | undefined): Balance {
  const unattributed = numberOf(summary, 'unattributed_ns');
  const capacity = numberOf(summary, 'capacity_ns');
  const ratio = unattributed !== null && capacity !== null && capacity > 0 ? unattributed / capacity : null;
  return { ratio, isBalanced: ratio === null || limit === undefined ? null : Math.abs(ratio) <= limit };
}

export function balanceText({ isBalanced }: Balance): string {
  return isBalanced === null ? 'not balanced: no data' : isBalanced ? '✓ balanced' : '✗ not balanced';
}
