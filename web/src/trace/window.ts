// The part of a trace that is on screen. In: a window, a key or a wheel. Out: the next window, the ticks of its axis, and
// the parameters for the receiver. Times are ns since the begin of the trace.

export interface Span {
  from: number;
  until: number;
}

/** Shorter than a switch: a line of single ns would have nothing to show. */
const SHORTEST_NS = 500;
/** Buckets of one question at most, as the API allows. */
const MOST_BUCKETS = 8192;
/** A bucket is between this and twice this wide, px. */
const BUCKET_PX = 2;

export const lengthOf = (span: Span): number => span.until - span.from;

/** Within bounds: moved first, then cut. */
export function within(span: Span, bounds: Span): Span {
  const length = Math.min(Math.max(Math.round(lengthOf(span)), SHORTEST_NS), Math.max(lengthOf(bounds), SHORTEST_NS));
  const from = Math.round(Math.min(Math.max(span.from, bounds.from), Math.max(bounds.from, bounds.until - length)));
  return { from, until: from + length };
}

/** Longer or shorter by a factor; the moment `at` stays in place. */
export function zoomed(span: Span, at: number, factor: number, bounds: Span): Span {
  const longest = lengthOf(bounds) / lengthOf(span);
  const most = Math.max(SHORTEST_NS / lengthOf(span), Math.min(factor, longest));
  return within({ from: at - (at - span.from) * most, until: at + (span.until - at) * most }, bounds);
}

/** Moved by a share of its length. */
export function moved(span: Span, share: number, bounds: Span): Span {
  const by = lengthOf(span) * share;
  return within({ from: span.from + by, until: span.until + by }, bounds);
}

/** A window around something, with some space beside it. */
export function around(part: Span, bounds: Span): Span {
  const space = Math.max(lengthOf(part), SHORTEST_NS / 4) * 0.6;
  return within({ from: part.from - space, until: part.until + space }, bounds);
}

export interface Question {
  from_ns: number;
  bucket_ns: number;
  count: number;
}

/** The window with as much beside it on both sides, in buckets whose length is a power of two: the same ones while it moves. */
export function questionFor(span: Span, width: number, bounds: Span): Question {
  const exact = (lengthOf(span) * BUCKET_PX) / Math.max(width, 1);
  const bucket = 2 ** Math.ceil(Math.log2(Math.max(exact, 1)));
  const from = Math.max(bounds.from, span.from - lengthOf(span));
  const until = Math.min(bounds.until, span.until + lengthOf(span));
  const first = Math.floor(from / bucket) * bucket;
  const count = Math.min(MOST_BUCKETS, Math.max(1, Math.ceil((until - first) / bucket)));
  return { from_ns: first, bucket_ns: bucket, count };
}

/** Whether an answer shows the window as well as a new one would. */
export function serves(answer: Question, span: Span, width: number, bounds: Span): boolean {
  const wanted = questionFor(span, width, bounds);
  const until = answer.from_ns + answer.bucket_ns * answer.count;
  return (
    answer.bucket_ns === wanted.bucket_ns &&
    answer.from_ns <= Math.max(span.from, bounds.from) &&
    until >= Math.min(span.until, bounds.until)
  );
}

export interface Tick {
  at: number;
  text: string;
}

/** Ticks at round times, about 110 px apart. */
export function ticksOf(span: Span, width: number): Tick[] {
  const raw = (lengthOf(span) * 110) / Math.max(width, 110);
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((times) => times * size).find((step) => step >= raw) ?? 10 * size;
  const ticks: Tick[] = [];
  for (let nth = Math.ceil(span.from / step); nth * step <= span.until; nth += 1)
    ticks.push({ at: nth * step, text: momentText(nth * step, step) });
  return ticks;
}

/** A moment in seconds, with as many digits as `step` ns needs: 1.250 s, 0.000 012 5 s. */
export function momentText(ns: number, step = 1): string {
  const digits = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(Math.max(step, 1)) - 1e-9)));
  const [whole = '0', fraction = ''] = (ns / 1e9).toFixed(digits).split('.');
  return `${whole}${fraction ? `.${fraction.replace(/(\d{3})(?=\d)/g, '$1\u2009')}` : ''} s`;
}
