// The rows of the timeline, from top to bottom. In: CPUs and threads. Out: where each row is, and which are on screen.
import type { TraceThread, TraceThreadRow, TraceTracks } from '../lib/api';
import { LINES } from '../lib/colors';

export const AXIS = 22;
export const CPU_ROW = 26;
export const THREAD_ROW = 20;
/** Between CPUs and threads. */
const BETWEEN = 8;

export interface Row {
  kind: 'cpu' | 'thread';
  id: number;
  top: number;
  height: number;
  label: string;
  more: string;
}

export function rowsOf(cpus: readonly number[], threads: readonly TraceThreadRow[]): Row[] {
  const ofCpus = cpus.map((id, nth): Row => ({
    kind: 'cpu',
    id,
    top: nth * CPU_ROW,
    height: CPU_ROW,
    label: `CPU ${id}`,
    more: '',
  }));
  const begin = cpus.length * CPU_ROW + (cpus.length > 0 ? BETWEEN : 0);
  const ofThreads = threads.map((one, nth): Row => ({
    kind: 'thread',
    id: one.thread,
    top: begin + nth * THREAD_ROW,
    height: THREAD_ROW,
    label: one.name,
    more: one.tid === null || one.tid === undefined ? '' : String(one.tid),
  }));
  return [...ofCpus, ...ofThreads];
}

export const heightOf = (rows: readonly Row[]): number => {
  const last = rows.at(-1);
  return last ? last.top + last.height : 0;
};

export const rowAt = (rows: readonly Row[], y: number): Row | undefined =>
  rows.find((row) => y >= row.top && y < row.top + row.height);

/** `0-3,7`: numbers as ranges. */
export function rangesOf(numbers: readonly number[]): string {
  const parts: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && number <= last[1] + 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([from, until]) => (from === until ? `${from}` : `${from}-${until}`)).join(',');
}

/** The numbers of `all` in a list such as `0-3,7`; all if the list has none. */
export function chosenOf(text: string, all: readonly number[]): number[] {
  const ranges = text.split(',').flatMap((part) => {
    const match = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part);
    return match ? [[Number(match[1]), Number(match[2] ?? match[1])] as const] : [];
  });
  if (ranges.length === 0) return [...all];
  return all.filter((number) => ranges.some(([from, until]) => number >= from && number <= until));
}

/** Space between a name and its number, px. */
export const BEFORE_NUMBER = 6;

/** The part of a row's name and number that fits into `space` px. A number is never cut, because a cut one would be
 * another number: it is left out. */
export function fitting(
  name: string,
  number: string,
  space: number,
  width: (text: string) => number,
): [name: string, number: string] {
  if (width(name) + BEFORE_NUMBER + width(number) <= space) return [name, number];
  if (width(name) <= space) return [name, ''];
  let end = name.length - 1;
  while (end > 1 && width(`${name.slice(0, end)}…`) > space) end -= 1;
  return [`${name.slice(0, end)}…`, ''];
}

/** A program with its colour on the rows of CPUs: those that run most must be apart from each other. */
export interface Program {
  name: string;
  line: number;
}

export const programOf = (names: TraceThread): string => names.program || names.name;

export function usualLine(program: string): number {
  let hash = 7;
  for (const char of program) hash = (hash * 31 + (char.codePointAt(0) ?? 0)) % 65_521;
  return hash % LINES;
}

/** The programs that had the CPUs longest, the longest first, each with a colour of its own. */
export function busiestPrograms(whole: TraceTracks | null, names: ReadonlyMap<number, TraceThread>): Program[] {
  const times = new Map<string, number>();
  for (const { who, is_exact, length_ns, busy } of whole?.cpus ?? [])
    for (const [at, thread] of who.entries()) {
      const its = names.get(thread);
      if (!its || its.is_kernel) continue;
      const program = programOf(its);
      times.set(program, (times.get(program) ?? 0) + ((is_exact ? length_ns : busy)[at] ?? 0));
    }
  const free = new Set(Array.from({ length: LINES }, (_, line) => line));
  const busiest = [...times].sort((a, b) => b[1] - a[1]).slice(0, LINES);
  return busiest.map(([name]) => {
    let line = usualLine(name);
    while (!free.has(line)) line = (line + 1) % LINES;
    free.delete(line);
    return { name, line };
  });
}
