// Times beside an axis. In: a span, and how many times fit. Out: round ones, as text. Why: 20:45 is read at a glance, 20:43:24 is not.
import { clock, day, type Zone } from './format';

const DAY_S = 86_400;
const STEPS_S = [
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800],
  ...[3_600, 7_200, 10_800, 21_600, 43_200, DAY_S, 2 * DAY_S, 7 * DAY_S, 28 * DAY_S],
];

/** Round times within a span, s: at least `fewest` where single seconds are not finer than that. */
export function roundTicks(from: number, until: number, fewest: number, zone: Zone): number[] {
  const step = STEPS_S.findLast((one) => (until - from) / one >= fewest) ?? 1;
  // Days and hours begin with those of the zone.
  const offset = zone === 'utc' ? 0 : new Date(from * 1000).getTimezoneOffset() * -60;
  const first = Math.ceil((from + offset) / step) * step - offset;
  const count = Math.max(0, Math.floor((until - first) / step) + 1);
  return Array.from({ length: count }, (_, nth) => first + nth * step);
}

/** Seconds only where they differ, and the day at midnight. */
export function timeLabels(ticks: readonly number[], zone: Zone): string[] {
  const isFine = ticks.length > 1 && ticks[1]! - ticks[0]! < 60;
  const isCoarse = ticks.length > 1 && ticks[1]! - ticks[0]! >= DAY_S;
  return ticks.map((tick) => {
    if (isCoarse) return day(tick * 1000, zone).slice(5);
    const text = clock(tick * 1000, zone);
    return isFine ? text : text === '00:00:00' ? day(tick * 1000, zone).slice(5) : text.slice(0, 5);
  });
}
