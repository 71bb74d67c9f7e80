// The rows that a grid shows. In: tasks, and how the user wants to see them. Out: flat arrays, ready to be sent to the page.
// Why: sorting and filtering 20,000 rows happens beside the page, and the page gets numbers it can draw without thinking.
import { wordsOf } from '../lib/format';
import { mainWait, type MainWait } from '../lib/waits';
import {
  COLUMN_BY_ID,
  COUNTER,
  COUNTERS,
  NUMBER_AT,
  NUMBERS,
  NUMBER_COLUMNS,
  TEXT_IDS,
  TEXTS,
  WAIT_SHARE,
} from './columns';
import type { Limits } from './limits';
import { BORN, ENDED, KERNEL, newTask, ODD, type Process, type Task, type Tasks, type Thread } from './tasks';

export type Layout = 'list' | 'tree' | 'program' | 'user' | 'service' | 'container' | 'threads';

export interface Spec {
  layout: Layout;
  sort: string;
  descending: boolean;
  filter: string;
  /** Keys of rows that are open: their threads are shown, of groups their processes. `-KEY`: children of the tree are not. */
  open: string[];
  hideIdle: boolean;
  /** Words of wait reasons, where rows are sorted by them. */
  waitWords?: Readonly<Record<string, string>>;
}

export const EXPANDABLE = 16;
export const OPEN = 32;
export const IS_THREAD = 64;
export const IS_GROUP = 128;
export { BORN, ENDED, KERNEL, ODD };

/** A list of rows. Numbers and texts lie row after row. */
export interface View {
  rows: number;
  /** Processes and threads that pass the filter. */
  tasks: number;
  /** Processes that ended in the interval, and those alive at its end; rows without a process id are no processes. */
  ended: number;
  alive: number;
  /** Places in the page's list of texts, as are `owners`, `texts` and `flags`. */
  keys: Int32Array;
  /** Key of the process of a thread; else empty. */
  owners: Int32Array;
  marks: Uint16Array;
  depths: Uint8Array;
  numbers: Float64Array;
  texts: Int32Array;
  flags: Int32Array;
  /** Texts to append to the page's list; `restart`: to start it again. */
  fresh: string[];
  restart: boolean;
}

/** Texts that the page has already. Why: copying 50,000 strings each second would cost the page more than drawing. */
export class Texts {
  private readonly places = new Map<string, number>();
  private fresh: string[] = [];
  private restart = true;

  constructor(private readonly most = 200_000) {}

  /** Must stand before a view is made: forgets all when there are too many. */
  begin(): void {
    if (this.places.size <= this.most) return;
    this.places.clear();
    this.fresh = [];
    this.restart = true;
  }

  place(text: string): number {
    let place = this.places.get(text);
    if (place === undefined) {
      place = this.places.size;
      this.places.set(text, place);
      this.fresh.push(text);
    }
    return place;
  }

  take(): { fresh: string[]; restart: boolean } {
    const { fresh, restart } = this;
    this.fresh = [];
    this.restart = false;
    return { fresh, restart };
  }
}

interface Node {
  task: Task;
  process: Process | null;
  kind: number;
  children: Node[];
  /** Sum over the rows below, for sorting and for groups. */
  total: Float64Array;
}

// The page has constants and types from here, the worker the rest: what is marked as pure is not in the page.
const PID = /* @__PURE__ */ NUMBER_AT.get('pid')!;
const WAIT_SHARE_AT = /* @__PURE__ */ NUMBER_AT.get(WAIT_SHARE)!;
/** The text of each text column. */
const TEXT_OF: Record<string, (task: Task, process: Process | null) => string> = {
  name: (task) => task.name,
  process: (_, process) => process?.name ?? '',
  wait: (task) => waitOf(task).reason,
  state: (task) => task.state,
  container: (_, process) => process?.container ?? '',
  cmdline: (_, process) => process?.cmdline ?? '',
  uid: (_, process) => (process ? userName(process) : ''),
  interpreter: (task, process) => (task === process ? process.interpreter : ''),
  scheduling: (task) => task.scheduling,
};
/** In the order in which a view carries them. */
const TEXT_READERS = /* @__PURE__ */ TEXT_IDS.map((id) => TEXT_OF[id] ?? (() => ''));
const MOST_DEPTH = 200;

export class ViewMaker {
  private readonly rows: { node: Node; depth: number; marks: number }[] = [];
  /** Processes that pass the filter: in the tree others are there for their children, in the list some are folded. */
  private found = 0;
  private ended = 0;
  private alive = 0;

  constructor(
    private readonly tasks: Tasks,
    private readonly spec: Spec,
    private readonly durationNs: number,
    private readonly known: Texts,
  ) {}

  make(): View {
    this.known.begin();
    const open = new Set(this.spec.open);
    const isTree = this.spec.layout === 'tree';
    const roots = this.roots();
    const compare = comparer(this.spec);
    const walk = (nodes: Node[], depth: number): void => {
      nodes.sort(compare);
      for (const node of nodes) {
        const isParent = isTree && node.kind === 0 && node.children.length > 0;
        const isOpen = isParent ? !open.has(`-${node.task.key}`) : open.has(node.task.key);
        const canOpen = node.children.length > 0 || this.hasThreads(node);
        const marks = node.kind | (canOpen ? EXPANDABLE : 0) | (isOpen && canOpen ? OPEN : 0);
        this.rows.push({ node, depth, marks: marks | node.task.marks });
        if (!isOpen || depth >= MOST_DEPTH) continue;
        if (node.process && node.kind === 0 && open.has(node.task.key)) walk(this.threadsOf(node.process), depth + 1);
        walk(node.children, depth + 1);
      }
    };
    walk(roots, 0);
    return this.finish(isTree || this.spec.layout === 'list' ? this.found : roots.length);
  }

  private hasThreads(node: Node): boolean {
    if (node.kind !== 0 || !node.process) return false;
    const rows = node.process.counters[COUNTER.thread_rows]!;
    return rows > 1 || node.process.threads.size > 1 || (rows === 1 && node.process.threads.size === 0);
  }

  private threadsOf(process: Process): Node[] {
    const threads: Node[] = [];
    for (const thread of process.threads.values()) {
      if (!this.spec.hideIdle || isBusy(thread)) threads.push(nodeOf(thread, process, IS_THREAD));
    }
    return threads;
  }

  private roots(): Node[] {
    const { layout } = this.spec;
    if (layout === 'threads') return this.allThreads();
    if (layout === 'tree') return this.tree();
    const nodes = this.chosen().map((process) => nodeOf(process, process, 0));
    this.found = nodes.length;
    const { limits } = this.tasks;
    return layout === 'list' ? folded(nodes, limits) : groups(nodes, layout, limits);
  }

  private chosen(): Process[] {
    const passes = filterOf(this.spec.filter);
    const chosen: Process[] = [];
    for (const process of this.tasks.processes.values()) {
      if (this.spec.hideIdle && !isBusy(process)) continue;
      if (!passes(process, process)) continue;
      chosen.push(process);
      if (process.id !== 0) this.count(process);
    }
    return chosen;
  }

  private count({ marks }: Task): void {
    if (marks & ENDED) this.ended += 1;
    else this.alive += 1;
  }

  private allThreads(): Node[] {
    const passes = filterOf(this.spec.filter);
    const nodes: Node[] = [];
    for (const process of this.tasks.processes.values()) {
      for (const thread of process.threads.values()) {
        if (this.spec.hideIdle && !isBusy(thread)) continue;
        if (!passes(thread, process)) continue;
        nodes.push(nodeOf(thread, process, IS_THREAD));
        this.count(thread);
      }
    }
    return nodes;
  }

  /** Parents above children, which are in sight unless the user closed them. A process that passes the filter shows its
   * ancestors too. */
  private tree(): Node[] {
    const byPid = new Map<number, Process>();
    for (const process of this.tasks.processes.values()) byPid.set(process.id, process);
    const wanted = new Set<Process>();
    for (let process of this.chosen()) {
      this.found += 1;
      for (let depth = 0; depth < MOST_DEPTH && !wanted.has(process); depth += 1) {
        wanted.add(process);
        const parent = byPid.get(process.parent);
        if (!parent || parent === process) break;
        process = parent;
      }
    }
    const nodes = new Map<Process, Node>();
    for (const process of wanted) nodes.set(process, nodeOf(process, process, 0));
    const roots: Node[] = [];
    for (const [process, node] of nodes) {
      const parent = byPid.get(process.parent);
      const above = parent && parent !== process ? nodes.get(parent) : undefined;
      (above && parent && !isBelow(process, parent, byPid) ? above.children : roots).push(node);
    }
    roots.forEach((root) => addUp(root, 0));
    // Sums are made, so folded rows count once.
    const { limits } = this.tasks;
    for (const node of nodes.values()) node.children = folded(node.children, limits, `${node.task.key}:`);
    return folded(roots, limits);
  }

  private numbersOf(node: Node): Float64Array {
    const { task } = node;
    const values = new Float64Array(NUMBERS).fill(NaN);
    const interval = this.durationNs > 0 ? 1 / this.durationNs : NaN;
    const factors = { share: 100 * interval, threads: interval, per_s: 1e9 * interval, ns: 1, plain: 1, text: 1 };
    NUMBER_COLUMNS.forEach((column, at) => {
      if (!column.counter) return;
      const raw = task.counters[COUNTER[column.counter]]!;
      values[at] = raw * factors[column.format];
    });
    values[WAIT_SHARE_AT] = waitOf(task).share;
    values[PID] = node.kind & IS_GROUP ? node.children.length : task.id;
    return values;
  }

  private finish(tasks: number): View {
    const count = this.rows.length;
    const [ints, place] = [() => new Int32Array(count), (text: string) => this.known.place(text)];
    const [keys, owners, flags] = [ints(), ints(), ints()];
    const [marks, depths] = [new Uint16Array(count), new Uint8Array(count)];
    const [numbers, texts] = [new Float64Array(count * NUMBERS), new Int32Array(count * TEXTS)];
    this.rows.forEach(({ node, depth, marks: mark }, at) => {
      const { task, process, kind } = node;
      keys[at] = place(task.key);
      owners[at] = place(kind & IS_THREAD && process ? process.key : '');
      flags[at] = place(task.flags);
      marks[at] = mark;
      depths[at] = Math.min(depth, 255);
      numbers.set(this.numbersOf(node), at * NUMBERS);
      TEXT_READERS.forEach((read, nth) => (texts[at * TEXTS + nth] = place(read(task, process))));
    });
    const arrays = { keys, owners, flags, marks, depths, numbers, texts };
    return { rows: count, tasks, ended: this.ended, alive: this.alive, ...arrays, ...this.known.take() };
  }
}

function nodeOf(task: Process | Thread, process: Process | null, kind: number): Node {
  return { task, process, kind, children: [], total: task.counters };
}

/** Of a group its processes together. */
function waitOf({ counters, waits }: Task): MainWait {
  const [run, ready] = [counters[COUNTER.run_ns]!, counters[COUNTER.run_delay_ns]!];
  return mainWait({ run, ready, blocked: counters[COUNTER.blocked_ns]! }, waits[0]);
}

function isBusy(task: Task): boolean {
  return task.counters[COUNTER.run_ns]! > 0 || (task.marks & (BORN | ENDED)) !== 0;
}

/** Texts of a process in which words are searched. */
const SEARCHED = ['name', 'interpreter', 'product', 'user', 'container', 'service', 'pod', 'cmdline'] as const;

/** Words of the filter must all be found; a number finds ids too. */
function filterOf(filter: string): (task: Task, process: Process) => boolean {
  const words = wordsOf(filter);
  if (words.length === 0) return () => true;
  return (task, process) =>
    words.every(
      (word) =>
        task.name.toLowerCase().includes(word) ||
        SEARCHED.some((of) => process[of].toLowerCase().includes(word)) ||
        String(task.id) === word ||
        String(process.id) === word,
    );
}

/** Whether `ancestor` descends from `process`: hostile parent pids can form a ring. */
function isBelow(process: Process, ancestor: Process, byPid: Map<number, Process>): boolean {
  let at: Process | undefined = ancestor;
  for (let depth = 0; at && depth < MOST_DEPTH; depth += 1) {
    if (at === process) return true;
    const above: Process | undefined = byPid.get(at.parent);
    if (above === at) return false;
    at = above;
  }
  return at !== undefined;
}

function addUp(node: Node, depth: number): void {
  if (node.children.length === 0 || depth > MOST_DEPTH) return;
  node.children.forEach((child) => addUp(child, depth + 1));
  node.total = sum([node.task.counters, ...node.children.map((child) => child.total)]);
}

const plus = (a: number, b: number): number => a + b;
/** Counters that do not add up. All tasks below a limit have its throttled time. */
const OVER_TASKS = new Map<number, (a: number, b: number) => number>([
  [COUNTER.longest_run_delay_ns, Math.max],
  [COUNTER.throttled_ns, Math.max],
  [COUNTER.cpu_limit, Math.min],
]);

/** Counters of several tasks; no data only where none has any. */
export function sum(parts: Float64Array[]): Float64Array {
  const total = new Float64Array(COUNTERS.length).fill(NaN);
  for (const part of parts) {
    for (let at = 0; at < COUNTERS.length; at += 1) {
      const value = part[at]!;
      if (Number.isNaN(value)) continue;
      const before = total[at]!;
      total[at] = Number.isNaN(before) ? value : (OVER_TASKS.get(at) ?? plus)(before, value);
    }
  }
  total[COUNTER.nice] = NaN;
  total[COUNTER.last_cpu] = NaN;
  return total;
}

function named(nodes: Node[], nameOf: (node: Node) => string): Map<string, Node[]> {
  const byName = new Map<string, Node[]>();
  for (const node of nodes) {
    const same = byName.get(nameOf(node));
    if (same) same.push(node);
    else byName.set(nameOf(node), [node]);
  }
  return byName;
}

function groups(nodes: Node[], layout: Layout, limits: Limits): Node[] {
  const byName = named(nodes, (node) => groupName(node.process!, layout));
  return Array.from(byName, ([name, children]) => groupOf(`group:${layout}:${name}`, name, children, limits));
}

/** From this many processes of one name that began and ended, they are one row, which opens. */
const FOLD_FROM = 4;

/** `below`: key of their parent in the tree, where only those without children are folded. */
function folded(nodes: Node[], limits: Limits, below = ''): Node[] {
  if (nodes.length < FOLD_FROM) return nodes;
  const isShort = ({ task, children }: Node): boolean =>
    (task.marks & BORN) !== 0 && (task.marks & ENDED) !== 0 && children.length === 0;
  const byName = named(nodes.filter(isShort), (node) => node.task.name);
  const isFolded = (node: Node): boolean => isShort(node) && byName.get(node.task.name)!.length >= FOLD_FROM;
  const rest = nodes.filter((node) => !isFolded(node));
  for (const [name, children] of byName)
    if (children.length >= FOLD_FROM)
      rest.push(groupOf(`group:short:${below}${name}`, name, children, limits, BORN | ENDED));
  return rest;
}

function groupOf(key: string, name: string, children: Node[], limits: Limits, marks = 0): Node {
  const counters = sum(children.map((child) => child.task.counters));
  const limit = limits.ofAll(children.map((child) => child.process?.cgroup ?? ''));
  counters[COUNTER.cpu_limit] = limit.cpus;
  counters[COUNTER.throttled_ns] = limit.throttledNs;
  const waits = new Map<string, number>();
  children.forEach(({ task }) =>
    task.waits.forEach(([reason, ns]) => waits.set(reason, (waits.get(reason) ?? 0) + ns)),
  );
  const longestFirst = Array.from(waits).sort((a, b) => b[1] - a[1]);
  const task: Task = { ...newTask(key, 0), name, marks, counters, waits: longestFirst };
  return { task, process: null, kind: IS_GROUP, children, total: counters };
}

/** Names of the groups of processes that are in no group; elsewhere these are `(none)`. */
export const NO_GROUP: Readonly<Record<string, string>> = {
  user: 'user unknown',
  service: 'no service',
  container: 'no container or unit',
};

function groupName(process: Process, layout: Layout): string {
  if (layout === 'user') return userLabel(process.uid, process.user);
  if (layout === 'service' || layout === 'container') return process[layout] || NO_GROUP[layout]!;
  // kworker/0:1 and its family are one program.
  return process.marks & KERNEL ? (process.name.split('/')[0] ?? process.name) : process.name;
}

/** For agents that send no names only uid 0 is known: it is root on every host. */
function userName({ uid, user }: Process): string {
  return user !== '' ? user : uid === 0 ? 'root' : Number.isNaN(uid) ? '' : String(uid);
}

/** As in `report --by user`: `root`, `ann (1000)`, or the id where no name is known. */
function userLabel(uid: number, name: string): string {
  if (Number.isNaN(uid)) return NO_GROUP['user']!;
  if (uid === 0) return 'root';
  return name === '' ? String(uid) : `${name} (${uid})`;
}

function comparer(spec: Spec): (a: Node, b: Node) => number {
  const column = COLUMN_BY_ID.get(spec.sort);
  const sign = spec.descending ? -1 : 1;
  const byId = (a: Node, b: Node): number => a.task.id - b.task.id || (a.task.key < b.task.key ? -1 : 1);
  if (column?.counter) {
    const at = COUNTER[column.counter];
    return (a, b) => {
      const left = a.total[at]!;
      const right = b.total[at]!;
      if (left === right) return byId(a, b);
      // No data sorts last in both orders.
      if (Number.isNaN(left)) return Number.isNaN(right) ? byId(a, b) : 1;
      if (Number.isNaN(right)) return -1;
      return (left - right) * sign;
    };
  }
  const text = textOf(spec);
  if (text) {
    return (a, b) => {
      const left = text(a);
      const right = text(b);
      return left === right ? byId(a, b) : (left < right ? -1 : 1) * sign;
    };
  }
  return (a, b) => byId(a, b) * sign;
}

/** Names sort without regard to case. */
const IGNORES_CASE = ['name', 'process'];

/** Sorts by the text on screen: two system calls with the same words are side by side. */
function textOf({ sort: id, waitWords = {} }: Spec): ((node: Node) => string) | null {
  const read = TEXT_OF[id];
  if (!read) return null;
  if (id === 'wait') return ({ task, process }) => waitWords[read(task, process)] ?? read(task, process);
  if (!IGNORES_CASE.includes(id)) return (node) => read(node.task, node.process);
  return (node) => read(node.task, node.process).toLowerCase();
}
