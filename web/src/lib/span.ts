// Spans in addresses. In: `SINCE-UNTIL` in ms. Out: moments, and back. Why: a selection and its comparison are parts of a link.
import { nsOf } from './format';

export interface Span {
  sinceMs: number;
  untilMs: number;
}

const WEEK_MS = 604_800_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Spans to compare with: presets in the order of the list, or another span. */
export const PRESETS = [
  ['before', 'the span before'],
  ['yesterday', 'yesterday'],
  ['week', 'last week'],
] as const;

export function spanText({ sinceMs, untilMs }: Span): string {
  return `${Math.round(sinceMs)}-${Math.round(untilMs)}`;
}

/** Null: the text is none. */
export function spanOf(text: string | undefined): Span | null {
  const found = /^(\d{1,13})-(\d{1,13})$/.exec(text ?? '');
  const [sinceMs, untilMs] = [Number(found?.[1]), Number(found?.[2])];
  return found && sinceMs < untilMs ? { sinceMs, untilMs } : null;
}

/** The span that `with` names for `of`; null: nothing is compared. */
export function comparedSpan(of: Span, compare: string | undefined): Span | null {
  const earlier = (byMs: number): Span => ({ sinceMs: of.sinceMs - byMs, untilMs: of.untilMs - byMs });
  switch (compare) {
    case undefined:
      return null;
    case 'before':
      return earlier(of.untilMs - of.sinceMs);
    case 'yesterday':
      return earlier(DAY_MS);
    case 'week':
      return earlier(WEEK_MS);
    default:
      return spanOf(compare);
  }
}

/** The form in links. */
export function spanQuery({ sinceMs, untilMs }: Span): { since: string; until: string } {
  return { since: String(Math.round(sinceMs)), until: String(Math.round(untilMs)) };
}

/** The last hour of a host, up to its newest data. */
export function lastHour(endMs: number): Span {
  const untilMs = Math.ceil(endMs / 1000) * 1000;
  return { sinceMs: untilMs - HOUR_MS, untilMs };
}

/** The form of two moments in the API. */
export function rangeText({ sinceMs, untilMs }: Span): string {
  return `${nsOf(sinceMs)}..${nsOf(untilMs)}`;
}
