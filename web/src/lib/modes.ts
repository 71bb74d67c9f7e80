// CPU modes, ledger lines, colours. In: charts.json, which the receiver draws pictures with too. Out: names, colours and order. Why:
// bars, strips, plots, legends and saved pictures agree.
import charts from '../charts.json';

export interface Part {
  name: string;
  label: string;
  /** A CSS variable. */
  color: string;
  help: string;
}

type Entry = { name: string; label: string; color: string; help: string };
const partOf = ({ name, label, color, help }: Entry): Part => ({ name, label, color: `--${color}`, help });

/** Bottom of a stack first. */
export const MODES: readonly Part[] = charts.modes.map(partOf);

export const IDLE_MODES: readonly Part[] = [
  { name: 'iowait_ns', label: 'iowait', color: '--iowait', help: 'nothing to run while a task waits for a disk' },
  { name: 'idle_ns', label: 'idle', color: '--idle', help: 'nothing to run' },
];

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
export const LEDGER: readonly Part[] = charts.ledger.map(partOf);

/** What a process does. */
export const STATES: readonly Part[] = charts.states.map(partOf);

/** Percentiles of the run delay. */
export const DELAYS: readonly { name: string; label: string }[] = charts.delays;

/** How many points each kind of chart is read with. */
export const POINTS: { history: number; process: number; matrix: number } = charts.points;

let scheme: MediaQueryList | null = null;

export function isDark(): boolean {
  scheme ??= matchMedia('(prefers-color-scheme: dark)');
  return scheme.matches;
}

/** Lines of a plot, apart from each other for colour-blind eyes too (after Okabe and Ito). */
export function lineColor(nth: number): string {
  return charts.lines[nth % charts.lines.length]![isDark() ? 1 : 0]!;
}

const resolved = new Map<string, string>();

/** What a CSS variable means now. Canvas needs plain colours; `light-dark()` resolves only in a property. LatestAnswer once for each
 * scheme: each read makes the browser work out all styles. */
export function cssColor(name: string): string {
  const key = `${name} ${isDark()}`;
  const known = resolved.get(key);
  if (known) return known;
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  // A chart's colours are its data, where the system's own replace all others too.
  probe.style.setProperty('forced-color-adjust', 'none');
  probe.hidden = true;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  resolved.set(key, color);
  return color;
}
