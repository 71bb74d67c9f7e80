import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { feed } from '../feed/feed.svelte';
import type { Head } from '../feed/messages';
import { LiveLines } from './live-lines.svelte';

const SECOND_NS = 1_000_000_000n;
/** Any time; it ends no bucket. */
const NOW_S = 1_700_000_001;

/** The interval of a second that ends then, with this user time in percent of one CPU. */
function head(endS: number, user: number): Head {
  return {
    begin_ns: (BigInt(endS - 1) * SECOND_NS).toString(),
    end_ns: (BigInt(endS) * SECOND_NS).toString(),
    end_ms: endS * 1000,
    duration_ns: 1e9,
    summary: { user_ns: user * 1e7 },
  } as unknown as Head;
}

/** A past of buckets of two seconds, the last of which has only a part of one interval, with 1.4 % in all of them. */
function past(url: string): unknown {
  const query = new URL(url, 'http://x').searchParams;
  const sinceMs = Number(BigInt(query.get('since')!) / 1_000_000n);
  const untilMs = Number(BigInt(query.get('until')!) / 1_000_000n);
  const count = Math.ceil((untilMs - sinceMs) / 2000);
  const each = <T>(of: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => of(at));
  const covered_ms = each((at) => (at === count - 1 ? 1500 : 2000));
  const times = { begin_ms: each((at) => sinceMs + at * 2000), width_ms: 2000, covered_ms };
  const chart = (...lines: unknown[]) => ({ times, body: { kind: 'lines', lines }, holes: [] });
  return { charts: [chart({ key: 'user_ns', values: each(() => 1.4) }), chart()], kept: null };
}

let listener: (report: { head: Head; watched: [string, number][] }) => void;

beforeEach(() => {
  vi.spyOn(feed, 'order').mockReturnValue(undefined);
  vi.spyOn(feed, 'listen').mockImplementation((given) => {
    listener = given as typeof listener;
    return () => undefined;
  });
  vi.stubGlobal('fetch', async (url: string) => Response.json(past(url)));
});

afterEach(() => {
  feed.head = null;
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

async function opened(spanS: number): Promise<LiveLines> {
  feed.head = head(NOW_S, 52.2);
  const lines = new LiveLines('kitchen', spanS, []);
  lines.start(null);
  await vi.waitFor(() => expect(lines.times.length).toBeGreaterThan(2), { timeout: 30_000 });
  return lines;
}

it('the newest point is the interval that the header shows, not a bucket of two intervals', async () => {
  // 61 s: the past has half a bucket more, which reaches behind the shown range.
  const lines = await opened(61);
  expect(lines.times.at(-1)).toBe(NOW_S);
  expect(lines.values['user_ns']!.at(-1)).toBeCloseTo(52.2);
  expect(lines.values['user_ns']!.at(-2)).toBeCloseTo(1.4);
  listener({ head: head(NOW_S + 1, 7), watched: [] });
  expect(lines.times.slice(-2)).toEqual([NOW_S, NOW_S + 1]);
  expect(lines.values['user_ns']!.slice(-2).map((value) => Math.round(value!))).toEqual([52, 7]);
  expect(lines.gaps).toEqual([]);
});

it('every hole that is longer than an interval is drawn', async () => {
  const lines = await opened(60);
  listener({ head: head(NOW_S + 2, 7), watched: [] });
  listener({ head: head(NOW_S + 3, 7), watched: [] });
  listener({ head: head(NOW_S + 11, 7), watched: [] });
  listener({ head: head(NOW_S + 19, 7), watched: [] });
  const seconds = lines.gaps.map((gap) => [gap.begin_ms / 1000 - NOW_S, gap.end_ms / 1000 - NOW_S]);
  expect(seconds).toEqual([
    [0, 1],
    [3, 10],
    [11, 18],
  ]);
});
