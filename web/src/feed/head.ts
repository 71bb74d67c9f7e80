// The part of a snapshot beside the rows of the grid. In: the receiver's JSON. Out: plain data for the page.
import type { Fleet, Snapshot, Spark } from '../lib/api';
import { has, numbers, rowsOf, texts } from '../lib/table';
import { COUNTERS, OF_LIMITS } from './columns';
import { Limits } from './limits';
import type { CpuModes, Head } from './messages';

const MODES = [
  'user_ns',
  'nice_ns',
  'system_ns',
  'irq_ns',
  'softirq_ns',
  'steal_ns',
  'iowait_ns',
  'idle_ns',
  'run_queue_mean',
];

export function headOf(snapshot: Snapshot, ownPct: number | null): Head {
  const { host, hostname, trust, skipped, source, flags, summary, fields } = snapshot;
  const { begin_ns, end_ns, end_ms, wall_shift_ns, duration_ns } = snapshot;
  return {
    ...{ host, hostname, trust, skipped, source, flags, summary },
    ...{ begin_ns, end_ns, end_ms, wall_shift_ns, duration_ns },
    ageMs: (snapshot.age_ns ?? 0) / 1e6,
    cut: cutOf(snapshot),
    cpus: cpusOf(snapshot),
    irqs: irqsOf(snapshot),
    measured: [...COUNTERS, 'wait_reason'].filter((name) =>
      OF_LIMITS.has(name) ? fields.includes('CGROUPS') : has(snapshot.processes, name),
    ),
    limiters: new Limits(snapshot).limiters(),
    ownPct,
    readyMean: readyMeanOf(snapshot),
  };
}

/** The run delay of all processes over the interval's length. */
function readyMeanOf({ processes, duration_ns }: Snapshot): number | null {
  if (!has(processes, 'run_delay_ns') || (processes.total ?? 0) > processes.rows || duration_ns <= 0) return null;
  const delay = numbers(processes, 'run_delay_ns');
  let sumNs = 0;
  for (let row = 0; row < processes.rows; row += 1) sumNs += delay(row) || 0;
  return sumNs / duration_ns;
}

/** Processes and threads that did not fit. */
function cutOf({ processes, threads = [] }: Snapshot): Head['cut'] {
  const tables = [processes, ...threads].filter((table) => (table.total ?? table.rows) > table.rows);
  if (tables.length === 0) return null;
  return {
    shown: tables.reduce((sum, table) => sum + table.rows, 0),
    total: tables.reduce((sum, table) => sum + (table.total ?? 0), 0),
  };
}

function cpusOf(snapshot: Snapshot): CpuModes[] {
  const modes = MODES.map((name) => [name, numbers(snapshot.cpus, name)] as const);
  return rowsOf<CpuModes>(snapshot.cpus.rows, {
    cpu: numbers(snapshot.cpus, 'cpu'),
    modes: (row) => Object.fromEntries(modes.map(([name, get]) => [name, get(row)])),
  });
}

function irqsOf(snapshot: Snapshot): Head['irqs'] {
  const table = snapshot.irqs;
  if (!table) return [];
  return rowsOf<Head['irqs'][number]>(table.rows, {
    name: texts(table, 'name'),
    timeNs: numbers(table, 'time_ns'),
    count: numbers(table, 'count'),
  });
}

/** Newest seconds without an interval that is still on its way: no hole. */
const ON_ITS_WAY = 3;

function hostsOf({ hosts }: Fleet): { id: string; age: number; busy: number }[] {
  const columns = { id: texts(hosts, 'id'), age: numbers(hosts, 'age_ns'), busy: numbers(hosts, 'busy_ratio') };
  return rowsOf(hosts.rows, columns);
}

/** The sparklines of the first message, so that the next value joins them: each line of a host that reports ends with a value. */
export function joinable(spark: Spark, fleet: Fleet): Spark {
  const isReporting = (age: number): boolean => age <= spark.step_ns * ON_ITS_WAY;
  const reporting = new Set(hostsOf(fleet).flatMap(({ id, age }) => (isReporting(age) ? [id] : [])));
  const busy_ratio = spark.busy_ratio.map((line, at) => {
    const last = line.findLastIndex((value) => value !== null);
    const missing = line.length - 1 - last;
    if (last < 0 || missing === 0 || missing > ON_ITS_WAY || !reporting.has(spark.host_ids[at] ?? '')) return line;
    return [...Array.from({ length: missing }, () => null), ...line.slice(0, last + 1)];
  });
  return { ...spark, busy_ratio };
}

/** The sparklines move on by one value a message. */
export function roll(before: Spark, fleet: Fleet): Spark {
  const lines = new Map(before.host_ids.map((host, at) => [host, before.busy_ratio[at] ?? []]));
  const length = before.busy_ratio[0]?.length ?? 120;
  const hosts = hostsOf(fleet);
  const host_ids = hosts.map(({ id }) => id);
  const busy_ratio = hosts.map(({ id, age, busy }) => {
    const isNew = age <= before.step_ns * 1.5;
    return [...(lines.get(id) ?? []), isNew && Number.isFinite(busy) ? busy : null].slice(-length);
  });
  return { step_ns: before.step_ns, host_ids, busy_ratio };
}
