// Moments that a person types or a link has. In: fields of date and time, `now`, `now-1h`, ms since 1970. Out:
// milliseconds, or an error. Why: a view of the past goes to "yesterday 03:12" in the zone that is shown, a link to the
// last hour moves along, and an unreadable moment is reported instead of showing another span.
import { clock, day, type Zone } from './format';

/** The last moment that the receiver's nanoseconds can hold, in 2262. */
export const LAST_MS = 9_223_372_036_854;

export interface Field {
  /** From, To, or Moment. */
  name: string;
  /** The moment when it began. */
  ms: number;
}

/** In the form of `<input type="datetime-local">`: 2026-11-21T03:12:00. */
export function wallOf(ms: number, zone: Zone): string {
  return `${day(ms, zone)}T${clock(ms, zone)}`;
}

/** NaN: no moment. An hour that comes twice, when clocks go back, is the first of the two; one that is left out is the hour after it. */
export function momentOf(wall: string, zone: Zone): number {
  return /^\d{4,6}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(wall)
    ? Date.parse(zone === 'utc' ? `${wall}Z` : wall)
    : NaN;
}

/** The typed moments, or the error and its field. An unchanged field keeps its fraction of a second, and its hour of two. */
export function readMoments(
  fields: readonly Field[],
  walls: readonly string[],
  zone: Zone,
): number[] | { at: number; error: string } {
  const moments: number[] = [];
  for (const [at, { name, ms }] of fields.entries()) {
    const wall = walls[at] ?? '';
    const moment = momentOf(wall, zone) === momentOf(wallOf(ms, zone), zone) ? ms : momentOf(wall, zone);
    if (Number.isNaN(moment))
      return { at, error: `${name} is incomplete: enter day, month, year, hour, minute and second.` };
    if (moment < 0 || moment > LAST_MS) return { at, error: `${name} must be between 1970 and 2262.` };
    if (at > 0 && moment <= moments[at - 1]!)
      return { at, error: `${name} must be later than ${fields[at - 1]!.name}.` };
    moments.push(moment);
  }
  return moments;
}

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
