// Numbers and times as text. In: plain numbers, or none. Out: short text with a unit. Why: one number display the same in every
// view, and "no data" never display like zero.

/** Shown where nothing was measured. */
export const NO_DATA = '–';

export function isNumber(value: number | null | undefined): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

/** 12.3; small values keep their zero so that columns stay aligned. */
export function fixed(value: number | null | undefined, digits = 1): string {
  if (!isNumber(value)) return NO_DATA;
  const text = value.toFixed(digits);
  // A zero has no sign.
  return text.startsWith('-') && Number(text) === 0 ? text.slice(1) : text;
}

/** A share of one, as 12.3 %. */
export function percent(ratio: number | null | undefined, digits = 1): string {
  return isNumber(ratio) ? `${(ratio * 100).toFixed(digits)} %` : NO_DATA;
}

/** A mean number of threads: 0.012, 1.70, 13.1, 131. */
export function mean(value: number | null | undefined): string {
  if (!isNumber(value)) return NO_DATA;
  const size = Math.abs(value);
  if (size >= 99.95) return count(value);
  return fixed(value, size < 0.9995 ? 3 : size < 9.995 ? 2 : 1);
}

/** Counts a second: 0.0, 12.3, 3,210, 1.2 M. */
export function rate(value: number | null | undefined): string {
  if (!isNumber(value)) return NO_DATA;
  if (Math.abs(value) < 100) return value.toFixed(1);
  return count(value);
}

const LARGE = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
] as const;

/** Percent without the sign: 12.3; a value far beyond any machine is cut short, so that it covers nothing beside it. */
export function share(value: number | null | undefined, digits = 1): string {
  return isNumber(value) && Math.abs(value) >= 1e5 ? count(value) : fixed(value, digits);
}

export function count(value: number | null | undefined): string {
  if (!isNumber(value)) return NO_DATA;
  const size = Math.abs(value);
  // Sizes that no machine has, but a datagram may claim.
  if (size >= 1e15) return value.toExponential(1);
  if (size >= 1e6) {
    const [unit, sign] = LARGE.find(([least]) => size >= least)!;
    return `${(value / unit).toFixed(size >= 100 * unit ? 0 : 1)} ${sign}`;
  }
  // Not toLocaleString: it costs more than all else that a row needs.
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** A length of time in the unit that suits it: 830 ns, 12.4 µs, 3.21 ms, 1.50 s, 4 min 03 s. */
export function duration(ns: number | null | undefined): string {
  if (!isNumber(ns)) return NO_DATA;
  const size = Math.abs(ns);
  if (size === 0) return '0 s';
  if (size < 999.5) return `${ns.toFixed(0)} ns`;
  if (size < 999.5e3) return `${short(ns / 1e3)} µs`;
  if (size < 999.5e6) return `${short(ns / 1e6)} ms`;
  if (size < 120e9) return `${short(ns / 1e9)} s`;
  const seconds = Math.round(size / 1e9);
  const sign = ns < 0 ? '-' : '';
  // 1 h and 24 h, as they are asked for; 90 min stays.
  if (seconds % 3600 === 0)
    return seconds % 86_400 === 0 && seconds > 86_400 ? `${sign}${seconds / 86_400} d` : `${sign}${seconds / 3600} h`;
  if (seconds < 7200 && seconds % 60 === 0) return `${sign}${seconds / 60} min`;
  if (seconds < 7200) return `${sign}${Math.floor(seconds / 60)} min ${pad(seconds % 60)} s`;
  if (seconds < 172_800) return `${sign}${Math.floor(seconds / 3600)} h ${pad(Math.floor((seconds % 3600) / 60))} min`;
  return `${sign}${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** How long ago, in whole seconds: 6 s, 4 min 03 s. */
export function age(ms: number | null | undefined): string {
  if (!isNumber(ms)) return NO_DATA;
  const seconds = Math.floor(Math.max(0, ms) / 1000);
  return seconds < 120 ? `${seconds} s` : duration(seconds * 1e9);
}

function short(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
}

export type Zone = 'local' | 'utc';

const formats = new Map<string, Intl.DateTimeFormat>();

/** In the forms of sv-SE: 2026-11-21 and 14:05:03. */
function formatted(ms: number, zone: Zone, options: Intl.DateTimeFormatOptions): string {
  const key = zone + JSON.stringify(options);
  let format = formats.get(key);
  if (!format) {
    format = new Intl.DateTimeFormat('sv-SE', zone === 'utc' ? { ...options, timeZone: 'UTC' } : options);
    formats.set(key, format);
  }
  return format.format(ms);
}

const CLOCK: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false };
const DAY: Intl.DateTimeFormatOptions = { year: 'numeric', month: '2-digit', day: '2-digit' };

/** Texts of moments that were formatted before. Why: Intl takes 20 µs for each, and a plot has the same ticks every second. */
const known = { clock: new Map<string, string>(), day: new Map<string, string>() };
const MOST_FORMATTED = 400;

function once(texts: Map<string, string>, key: string, make: () => string): string {
  const found = texts.get(key);
  if (found !== undefined) return found;
  if (texts.size >= MOST_FORMATTED) texts.clear();
  const made = make();
  texts.set(key, made);
  return made;
}

/** Within the range of a date; a link may hold any number. */
function isMoment(ms: number | null | undefined): ms is number {
  return isNumber(ms) && Math.abs(ms) <= 8.64e15;
}

/** 14:05:03, with `digits` of the second's fraction. */
export function clock(ms: number | null | undefined, zone: Zone, digits = 0): string {
  if (!isMoment(ms)) return NO_DATA;
  const text = once(known.clock, `${zone}${Math.floor(ms / 1000)}`, () => formatted(ms, zone, CLOCK));
  if (digits === 0) return text;
  const fraction = Math.floor(((ms % 1000) + 1000) % 1000);
  return `${text}.${String(fraction).padStart(3, '0').slice(0, digits)}`;
}

/** 2026-11-21. */
export function day(ms: number, zone: Zone): string {
  // No zone changes the day within a minute.
  return once(known.day, `${zone}${Math.floor(ms / 60_000)}`, () => formatted(ms, zone, DAY));
}

export function dateTime(ms: number | null | undefined, zone: Zone, digits = 0): string {
  return isMoment(ms) ? `${day(ms, zone)} ${clock(ms, zone, digits)}` : NO_DATA;
}

/** `local` with its offset, or UTC. */
export function zoneName(zone: Zone, ms = Date.now()): string {
  if (zone === 'utc') return 'UTC';
  const minutes = -new Date(ms).getTimezoneOffset();
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? '−' : '+'}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
}

/** The zone of all moments of a span: where the clocks were changed in it, both offsets. */
export function zoneOf(zone: Zone, sinceMs: number, untilMs: number): string {
  const [first, last] = [zoneName(zone, sinceMs), zoneName(zone, untilMs)];
  return first === last ? first : `${first} → ${last}`;
}

/** The zone by a name that the receiver knows too; its present offset where the browser does not name it. */
export function zoneOfPictures(zone: Zone): string {
  if (zone === 'utc') return 'utc';
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone ?? '';
  if (name === 'UTC' || name === 'Etc/UTC') return 'utc';
  return /^[A-Z]\w*\/\w/.test(name) && !name.startsWith('Etc/')
    ? name
    : zoneName(zone).replace('UTC', '').replace('−', '-') || 'utc';
}

function pad(value: number): string {
  return String(value).padStart(2, '0');
}

/** ns since the UNIX epoch as the API's digits, from milliseconds, exact. */
export function nsOf(ms: number): string {
  const whole = Math.floor(ms);
  return (BigInt(whole) * 1_000_000n + BigInt(Math.round((ms - whole) * 1e6))).toString();
}

/** Milliseconds with a fraction, from the API's digits; NaN where a link holds something else. */
export function msOf(ns: string): number {
  if (!/^-?\d+$/.test(ns)) return NaN;
  const value = BigInt(ns);
  return Number(value / 1_000_000n) + Number(value % 1_000_000n) / 1e6;
}

/** Characters that show nothing, or that turn the direction of text. */
const INVISIBLE = new RegExp(
  '[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f' +
    '\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}]',
  'gu',
);

/** No language puts more marks on a letter; a hundred marks would lie over the lines above and below. */
const MARKS = /(\p{M}{4})\p{M}+/gu;

/** Control and direction characters of names from other machines, made visible; layout cannot be broken by them. */
export function visible(text: string): string {
  return text.replace(MARKS, '$1').replace(INVISIBLE, (char) => {
    const code = char.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : '\ufffd';
  });
}

/** The words of a search. */
export function wordsOf(text: string): string[] {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

/** A name to point at: a task may have none, or one of spaces. */
export function nameText(name: string): string {
  return visible(name).trim() || '(no name)';
}
