// Moments as links have them. In: ms since 1970, `now`, `now-1h`, or a date. Out: ms, or that the text is none. Why: a link to the last
// hour moves along, and what cannot be read is reported instead of another span being shown.
import { LAST_MS } from './typed-moments';

const UNITS_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** Whether a text moves along with the clock. */
export function isRelative(text: string | undefined): boolean {
  return text !== undefined && /^now(?:-|$)/.test(text);
}

/** Null: the text is no moment. */
export function momentOfText(text: string, nowMs: number): number | null {
  const back = /^now(?:-(\d{1,9}) ?([a-z]+))?$/.exec(text);
  if (back) {
    const [, amount, unit] = back;
    if (amount === undefined) return nowMs;
    const lengthMs = Object.hasOwn(UNITS_MS, unit ?? '') ? UNITS_MS[unit!]! : NaN;
    return Number.isNaN(lengthMs) ? null : Math.max(0, nowMs - Number(amount) * lengthMs);
  }
  const isDate = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?$/.test(text);
  const value = isDate ? Date.parse(text.replace(' ', 'T')) : text === '' ? NaN : Number(text);
  return Number.isFinite(value) ? Math.min(Math.max(value, 0), LAST_MS) : null;
}

/** A length before now: `now-1h`. */
export function beforeNow(lengthMs: number): string {
  const [unit, of] = (['d', 'h', 'm'] as const)
    .map((name) => [name, UNITS_MS[name]!] as const)
    .find(([, ms]) => lengthMs >= ms && lengthMs % ms === 0) ?? ['s', 1_000];
  return `now-${Math.max(1, Math.round(lengthMs / of))}${unit}`;
}
