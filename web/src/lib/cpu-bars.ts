// A CPU's time by mode. In: its modes, ns. Out: parts of a bar, in percent, and the words for it. Why: modes that are not measured count
// as zero, and a CPU without any has no share at all.
import type { CpuModes } from '../feed/messages';
import { fixed } from './format';
import { IDLE_MODES, MODES, termed } from './modes';

export interface BarPart {
  label: string;
  /** A CSS variable. */
  color: string;
  /** Where it begins, percent of the bar. */
  from: number;
  /** Percent of the bar. */
  share: number;
}

export interface CpuBar {
  cpu: number;
  /** Percent; NaN: nothing was measured. */
  busy: number;
  parts: BarPart[];
  text: string;
}

/** Parts below this are not named, percent. */
const LEAST_NAMED = 0.05;

/** `length`: of its run queue; null: not measured. `source` decides on the words. */
export function barOf(cpu: CpuModes, length: number | null, source = ''): CpuBar {
  const value = (name: string): number => (Number.isFinite(cpu.modes[name]) ? cpu.modes[name]! : 0);
  const total = [...MODES, ...IDLE_MODES].reduce((sum, mode) => sum + value(mode.name), 0);
  const shareOf = (name: string): number => (total > 0 ? (value(name) * 100) / total : 0);
  let from = 0;
  const parts = termed(MODES, source).map((mode) => {
    const share = shareOf(mode.name);
    const part = { label: mode.label, color: mode.color, from, share };
    from += share;
    return part;
  });
  const iowait = shareOf('iowait_ns');
  const text = [
    ...parts.filter((part) => part.share >= LEAST_NAMED).map((part) => `${part.label} ${fixed(part.share)} %`),
    `iowait ${fixed(iowait)} %`,
    `idle ${fixed(100 - from - iowait)} %`,
    ...(length === null ? [] : [`run queue ${fixed(length)}`]),
  ].join(', ');
  return { cpu: cpu.cpu, busy: total > 0 ? from : NaN, parts, text: total > 0 ? text : 'no data' };
}
