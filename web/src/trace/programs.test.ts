// @vitest-environment jsdom
import { expect, test } from 'vitest';
import type { TraceThread, TraceTracks } from '../lib/api';
import { LINES } from '../lib/colors';
import { busiestPrograms, usualLine } from './rows';

const thread = (number: number, program: string): TraceThread => ({
  thread: number,
  name: 'a thread',
  program,
  tid: number,
  pid: 1,
  is_kernel: program === 'kworker',
});

function tracks(who: number[], busy: number[]): TraceTracks {
  const track = { cpu: 0, from_ns: who.map((_, at) => at), is_exact: false, length_ns: [], queue: [], unknown: [] };
  return { ...({} as TraceTracks), cpus: [{ ...track, who, busy }] };
}

test('the busiest programs have colours of their own, the busiest its usual one', () => {
  const programs = Array.from({ length: 40 }, (_, nth) => `program-${nth}`);
  const names = new Map(programs.map((program, nth) => [nth, thread(nth, program)]));
  names.set(99, thread(99, 'kworker'));
  const who = [...programs.keys(), 99, -1, -2];
  const found = busiestPrograms(tracks(who, [...programs.map((_, nth) => nth + 1), 900, 900, 900]), names);
  expect(found.map(({ name }) => name)).toEqual(programs.slice(-LINES).reverse());
  expect(new Set(found.map(({ line }) => line)).size).toBe(LINES);
  expect(found[0]!.line).toBe(usualLine('program-39'));
  expect(busiestPrograms(null, names)).toEqual([]);
});
