// Which program has which colour on the rows of CPUs. In: the picture of the whole trace. Out: numbers of colours. Why: those that run
// most must be apart from each other; a program keeps its colour in every trace unless a busier one has it.
import type { TraceThread, TraceTracks } from '../lib/api';
import { LINES } from '../lib/colors';

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
