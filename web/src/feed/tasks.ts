// The tasks of a host. In: snapshots of a stream or of one past moment. Out: processes and threads with their counters of
// the newest snapshot. Why: a task without a row did nothing, it is not gone; only its `life` ends a task.
import type { Snapshot, Table } from '../lib/api';
import { getter, has, numbers, texts } from '../lib/table';
import { COUNTER, COUNTERS } from './columns';
import { Limits } from './limits';

/** Marks of a row. */
export const BORN = 1;
export const ENDED = 2;
export const ODD = 4;
/** Flags that say nothing wrong: read from /proc some columns are no data, and those that are there are right. */
const RIGHT = new Set(['', 'unwatched', 'one_cpu']);
export const KERNEL = 8;

export interface Task {
  key: string;
  id: number;
  name: string;
  marks: number;
  /** Anomalies, in the receiver's words. */
  flags: string;
  /** Counters of the newest interval in the order of COUNTERS; NaN is no data. */
  counters: Float64Array;
  state: string;
  /** Not the default: `nice 19`, `real-time 50`; of a process that of its main thread. */
  scheduling: string;
  /** Its main wait, with the time; for a group all waits by reason, the longest first. */
  waits: [string, number][];
  /** Its open wait when it was last listed; processes have none. */
  open: string;
  /** BPF observes it; of others some columns are no data. */
  isWatched: boolean;
  /** Number of the newest snapshot that lists it. */
  seen: number;
}

/**
 * Texts of a process, by the names of their columns; empty: not known. `user` is its name on the host, `interpreter` the
 * program that runs the script after which the process is named, `service` the systemd unit, `pod` that of Kubernetes.
 */
const TEXTS = ['name', 'user', 'interpreter', 'product', 'container', 'service', 'pod', 'cgroup', 'cmdline'] as const;
const NO_TEXTS = Object.fromEntries(TEXTS.map((name) => [name, ''])) as Record<(typeof TEXTS)[number], string>;

export interface Process extends Task, Record<(typeof TEXTS)[number], string> {
  parent: number;
  uid: number;
  threads: Map<string, Thread>;
}

export interface Thread extends Task {
  process: string;
}

/** Counters that a source without them does not have; all others are 0 where a row is missing. */
type Measured = Uint8Array;
const NOTHING: Measured = new Uint8Array(COUNTERS.length);

/** Known data of rows that a snapshot leaves out. */
interface Left {
  known: Measured;
  durationNs: number;
  /** Wait reasons are measured. Without them the state of a thread without a row is unknown. */
  hasWaits: boolean;
}

/** Counters of context switches: of a thread that BPF does not observe they are no data. */
const OF_SCHED = new Set<number>([
  COUNTER.blocked_ns,
  COUNTER.longest_run_delay_ns,
  COUNTER.wakeups,
  COUNTER.migrations,
]);

export class Tasks {
  readonly processes = new Map<string, Process>();
  /** Limits in the newest snapshot. */
  limits = new Limits();
  private turn = 0;
  private boot = '';
  private host = '';
  private processMeasured: Measured = new Uint8Array(COUNTERS.length);
  private threadMeasured: Measured = new Uint8Array(COUNTERS.length);

  clear(): void {
    this.processes.clear();
    this.boot = '';
  }

  /** Takes a snapshot in. `follows`: it is the next of a stream, so rows that it leaves out did nothing. */
  apply(snapshot: Snapshot, follows: boolean): void {
    const isOther = snapshot.boot !== this.boot || snapshot.host !== this.host;
    if (!follows || isOther || snapshot.skipped > 0) this.processes.clear();
    this.boot = snapshot.boot;
    this.host = snapshot.host;
    this.turn += 1;
    this.processMeasured = measured(snapshot.processes);
    this.readProcesses(snapshot.processes);
    for (const table of snapshot.threads ?? []) {
      if (table.rows === 0) continue;
      this.threadMeasured = measured(table);
      this.readThreads(table);
    }
    this.settle(snapshot);
    this.limits = new Limits(snapshot);
    for (const process of this.processes.values()) limit(process, this.limits);
  }

  private readProcesses(table: Table): void {
    const key = texts(table, 'key');
    const pid = numbers(table, 'pid');
    const parent = numbers(table, 'parent_pid');
    const uid = numbers(table, 'uid');
    const words = TEXTS.map((name) => [name, texts(table, name)] as const);
    const kernel = getter(table, 'is_kernel');
    const task = taskReader(table);
    for (let row = 0; row < table.rows; row += 1) {
      const id = key(row);
      let process = this.processes.get(id);
      if (!process) {
        process = { ...newTask(id, pid(row)), parent: 0, uid: 0, ...NO_TEXTS, threads: new Map() };
        this.processes.set(id, process);
      }
      process.parent = parent(row);
      process.uid = uid(row);
      for (const [name, read] of words) process[name] = read(row);
      task(process, row, this.turn);
      if (kernel(row)) process.marks |= KERNEL;
    }
  }

  private readThreads(table: Table): void {
    const key = texts(table, 'key');
    const tid = numbers(table, 'tid');
    const name = texts(table, 'name');
    const owner = texts(table, 'process');
    const task = taskReader(table);
    for (let row = 0; row < table.rows; row += 1) {
      const process = this.processes.get(owner(row));
      if (!process) continue;
      // The main thread has the key of its process; rows need one of their own.
      const id = `${process.key}/${key(row)}`;
      let thread = process.threads.get(id);
      if (!thread) {
        thread = { ...newTask(id, tid(row)), process: process.key };
        process.threads.set(id, thread);
      }
      thread.name = name(row);
      task(thread, row, this.turn);
    }
  }

  /** Rows that this snapshot left out: zero if they live, gone if they ended before; unknown where the table was cut. */
  private settle({ processes, threads = [], fields, duration_ns }: Snapshot): void {
    const left = { durationNs: duration_ns, hasWaits: fields.includes('WAITS') };
    const ofProcess: Left = { ...left, known: isWhole(processes) ? this.processMeasured : NOTHING };
    const ofThread: Left = { ...left, known: threads.every(isWhole) ? this.threadMeasured : NOTHING };
    for (const process of this.processes.values()) {
      if (process.seen !== this.turn && !rest(process, ofProcess)) {
        this.processes.delete(process.key);
        continue;
      }
      // All its threads are idle, and their blocked time is in none of its own counters.
      if (process.seen !== this.turn) process.counters[COUNTER.blocked_ns] = NaN;
      for (const thread of process.threads.values()) {
        if (thread.seen === this.turn) continue;
        if (rest(thread, ofThread)) waitOn(thread, ofThread);
        else process.threads.delete(thread.key);
      }
    }
  }
}

function isWhole(table: Table): boolean {
  return (table.total ?? table.rows) <= table.rows;
}

function measured(table: Table): Measured {
  return Uint8Array.from(COUNTERS, (name) => (has(table, name) ? 1 : 0));
}

/** A task without a row: its counters are zero where they are measured. False: it had ended. */
function rest(task: Task, { known }: Left): boolean {
  if (task.marks & ENDED) return false;
  task.marks &= KERNEL;
  task.flags = '';
  task.waits = [];
  for (let at = 0; at < COUNTERS.length; at += 1) {
    const name = COUNTERS[at];
    // These are not counters of the interval; they stay as they were.
    if (name === 'nice' || name === 'last_cpu') continue;
    task.counters[at] = known[at] && (task.isWatched || !OF_SCHED.has(at)) ? 0 : NaN;
  }
  return true;
}

/** All threads of a process are in its control group, as far as a snapshot says. */
function limit(process: Process, limits: Limits): void {
  const { cpus, throttledNs } = limits.of(process.cgroup);
  for (const { counters } of [process, ...process.threads.values()]) {
    counters[COUNTER.cpu_limit] = cpus;
    counters[COUNTER.throttled_ns] = throttledNs;
  }
}

/** A thread without a row continued its wait; an agent sends it again only when it has run. */
function waitOn(thread: Thread, { durationNs, hasWaits }: Left): void {
  const { counters } = thread;
  if (Number.isNaN(counters[COUNTER.blocked_ns])) return;
  if (!hasWaits) counters[COUNTER.blocked_ns] = NaN;
  else if (thread.open !== '') {
    counters[COUNTER.blocked_ns] = durationNs;
    thread.waits = [[thread.open, durationNs]];
  }
}

export function newTask(key: string, id: number): Task {
  return {
    key,
    id,
    name: '',
    marks: 0,
    flags: '',
    counters: new Float64Array(COUNTERS.length).fill(NaN),
    state: '',
    scheduling: '',
    waits: [],
    open: '',
    isWatched: true,
    seen: 0,
  };
}

function taskReader(table: Table): (task: Task, row: number, turn: number) => void {
  const columns = COUNTERS.map((name) => numbers(table, name));
  const life = texts(table, 'life');
  const flags = texts(table, 'flags');
  const state = texts(table, 'state');
  const scheduling = texts(table, 'scheduling');
  const reason = texts(table, 'wait_reason');
  const waited = numbers(table, 'wait_ns');
  const open = texts(table, 'open_wait');
  return (task, row, turn) => {
    for (let at = 0; at < columns.length; at += 1) task.counters[at] = columns[at]!(row);
    const word = life(row);
    task.marks = (word.startsWith('born') ? BORN : 0) | (word.endsWith('ended') ? ENDED : 0);
    task.flags = flags(row);
    if (!RIGHT.has(task.flags)) task.marks |= ODD;
    task.isWatched = !task.flags.split('|').includes('unwatched');
    task.open = open(row);
    task.state = state(row);
    task.scheduling = scheduling(row);
    const why = reason(row);
    task.waits = why === '' ? [] : [[why, waited(row) || 0]];
    task.seen = turn;
  };
}
