// The work beside the page: stream, parse, keep, sort, filter. In: orders. Out: reports with flat arrays.
// Why: a snapshot of 10,000 threads is more than a frame's work; the page only draws what is on screen.
import { apiUrl, hostPath, type Fleet, type Snapshot, type Spark } from '../lib/api';
import { has, numbers, texts } from '../lib/table';
import { COUNTER, COUNTERS } from './columns';
import type { CpuModes, Head, Order, Report } from './messages';
import { Stream } from './stream';
import { Tasks, type Task } from './tasks';
import { Texts, ViewMaker, type Spec, type View } from './view';

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
const MOST_OPEN = 64;
/** Steps that wait for an answer; a key that is held down makes no more. */
const MOST_STEPS = 8;

const tasks = new Tasks();
const known = new Texts();
let spec: Spec = { layout: 'list', sort: 'cpu', descending: true, filter: '', open: [], hideIdle: false };
let watched: string[] = [];
let durationNs = 0;
let spark: Spark | undefined;
let subject: { live: string } | { host: string; endNs: string } | null = null;
/** What the open stream or the shown moment asks for. */
let asked = '';
/** End of the interval on screen. */
let shownNs = '';
/** From where a step goes: the interval on screen, or the moment that was asked for and has no data. */
let fromNs = '';
let steps: { host: string; seek: 'before' | 'after' }[] = [];
let isFetching = false;
let turn = 0;

const post = (report: Report): void => self.postMessage(report, { transfer: transfers(report) });
const stream = new Stream(onMessage, (link) => post({ is: 'link', link }));

self.onmessage = (event: MessageEvent<Order>) => void obey(event.data);

async function obey(order: Order): Promise<void> {
  switch (order.do) {
    case 'close':
      leave();
      stream.stop();
      return;
    case 'fleet':
      leave();
      spark = undefined;
      stream.open(apiUrl('fleet/live'));
      return;
    case 'live':
      leave();
      subject = { live: order.host };
      tasks.clear();
      listen(order.host, false);
      return;
    case 'moment':
      stream.stop();
      // Steps that came before anything was on screen go on from this moment; others are overtaken by it.
      if (fromNs !== '') steps = [];
      subject = { host: order.host, endNs: '' };
      await moment(order.host, { [order.seek]: order.ns });
      await advance();
      return;
    case 'step':
      if (steps.length < MOST_STEPS) steps.push({ host: order.host, seek: order.seek });
      await advance();
      return;
    case 'watch':
      watched = order.keys;
      return;
    case 'spec':
      spec = order.spec;
      if (durationNs > 0) post({ is: 'view', view: view() });
      await askForThreads();
      await advance();
  }
}

function leave(): void {
  subject = null;
  steps = [];
  shownNs = '';
  fromNs = '';
  turn += 1;
  isFetching = false;
}

/** Steps that wait, one after the other, each from where the one before came to. */
async function advance(): Promise<void> {
  while (!isFetching && fromNs !== '') {
    const next = steps.shift();
    if (!next) return;
    stream.stop();
    subject = { host: next.host, endNs: '' };
    await moment(next.host, { [next.seek]: fromNs }, true);
  }
}

/** The threads that the rows on screen need. */
function wanted(): string {
  if (spec.layout === 'threads') return 'all';
  return spec.open
    .filter((key) => tasks.processes.has(key))
    .slice(0, MOST_OPEN)
    .join(',');
}

function listen(host: string, carryOn: boolean): void {
  asked = wanted();
  stream.open(apiUrl(hostPath(host, 'live'), { threads: asked || undefined }), carryOn);
}

async function askForThreads(): Promise<void> {
  if (!subject || wanted() === asked) return;
  if ('live' in subject) listen(subject.live, true);
  else if (subject.endNs) await moment(subject.host, { at: (BigInt(subject.endNs) - 1n).toString() });
}

async function moment(host: string, query: Record<string, string>, isStep = false): Promise<void> {
  turn += 1;
  const mine = turn;
  asked = wanted();
  isFetching = true;
  const answer = await fetched(host, query);
  if (mine !== turn) return;
  isFetching = false;
  if (!answer) {
    steps = [];
    post({
      is: 'problem',
      status: 0,
      title: 'Receiver lost',
      detail: 'The receiver does not answer.',
      how: '',
      beforeNs: null,
      afterNs: null,
    });
    return;
  }
  if (answer.status !== 200) {
    steps = [];
    fromNs = query['at'] ?? fromNs;
    post(problem(answer.status, answer.text));
    return;
  }
  const snapshot = JSON.parse(answer.text) as Snapshot;
  // The interval that is on screen already, asked for again (a pause, more threads): rows that rest stay.
  const isSame = shownNs === snapshot.end_ns;
  subject = { host, endNs: snapshot.end_ns };
  show(snapshot, isSame, answer.text.length, isStep);
  await askForThreads();
}

async function fetched(host: string, query: Record<string, string>): Promise<{ status: number; text: string } | null> {
  try {
    const answer = await fetch(apiUrl(hostPath(host, 'at'), { ...query, threads: asked || undefined, limit: 20_000 }));
    return { status: answer.status, text: await answer.text() };
  } catch {
    return null;
  }
}

function problem(status: number, text: string): Report {
  let body: Record<string, unknown> = {};
  try {
    body = JSON.parse(text) as Record<string, unknown>;
  } catch {
    // The status says it all.
  }
  const word = (name: string): string => (typeof body[name] === 'string' ? body[name] : '');
  return {
    is: 'problem',
    status,
    title: word('title') || `HTTP ${status}`,
    detail: word('detail'),
    how: word('how'),
    beforeNs: word('before_ns') || null,
    afterNs: word('after_ns') || null,
  };
}

function onMessage(name: string, data: string): void {
  if (name === 'fleet') {
    const fleet = JSON.parse(data) as Fleet;
    spark = fleet.spark ?? (spark ? roll(spark, fleet) : undefined);
    post({ is: 'fleet', fleet: spark ? { ...fleet, spark } : fleet });
    return;
  }
  if (!subject || !('live' in subject)) return;
  show(JSON.parse(data) as Snapshot, true, data.length);
  void askForThreads();
}

function show(snapshot: Snapshot, follows: boolean, bytes: number, stepped = false): void {
  tasks.apply(snapshot, follows);
  shownNs = snapshot.end_ns;
  fromNs = snapshot.end_ns;
  durationNs = snapshot.duration_ns;
  post({
    is: 'snapshot',
    head: headOf(snapshot, bytes),
    view: view(),
    watched: watched.map((key) => [key, runOf(key)]),
    stepped,
  });
}

function view(): View {
  return new ViewMaker(tasks, spec, durationNs, known).make();
}

/** Utilization of a watched process or thread, 100 = one CPU; NaN if it is not there. */
function runOf(key: string): number {
  const [first = '', second] = key.split('/');
  const process = tasks.processes.get(first);
  const task: Task | undefined = second ? process?.threads.get(key) : process;
  return task && durationNs > 0 ? (task.counters[COUNTER.run_ns]! * 100) / durationNs : NaN;
}

function headOf(snapshot: Snapshot, bytes: number): Head {
  return {
    host: snapshot.host,
    hostname: snapshot.hostname,
    trust: snapshot.trust,
    number: snapshot.number,
    skipped: snapshot.skipped,
    ageMs: (snapshot.age_ns ?? 0) / 1e6,
    cut: cutOf(snapshot),
    beginNs: snapshot.begin_ns,
    endNs: snapshot.end_ns,
    endMs: snapshot.end_ms,
    wallShiftNs: snapshot.wall_shift_ns,
    durationNs: snapshot.duration_ns,
    source: snapshot.source,
    fields: snapshot.fields,
    flags: snapshot.flags,
    summary: snapshot.summary,
    cpus: cpusOf(snapshot),
    irqs: irqsOf(snapshot),
    measured: [...COUNTERS, 'wait_reason'].filter((name) => has(snapshot.processes, name)),
    ownPct: ownOf(snapshot),
    bytes,
  };
}

/** What did not fit of processes and threads. */
function cutOf({ processes, threads = [] }: Snapshot): Head['cut'] {
  const tables = [processes, ...threads].filter((table) => (table.total ?? table.rows) > table.rows);
  if (tables.length === 0) return null;
  return {
    shown: tables.reduce((sum, table) => sum + table.rows, 0),
    total: tables.reduce((sum, table) => sum + (table.total ?? 0), 0),
  };
}

let own = { boot: '', endNs: '', cpuNs: 0 };

/** What the agent used between two snapshots that follow one another. */
function ownOf(snapshot: Snapshot): number | null {
  const before = own;
  const cpuNs = snapshot.summary['own_cpu_ns'];
  if (typeof cpuNs !== 'number') return null;
  own = { boot: snapshot.boot, endNs: snapshot.end_ns, cpuNs };
  const follows = before.boot === own.boot && before.endNs === snapshot.begin_ns && cpuNs >= before.cpuNs;
  return follows && snapshot.duration_ns > 0 ? ((cpuNs - before.cpuNs) * 100) / snapshot.duration_ns : null;
}

function cpusOf(snapshot: Snapshot): CpuModes[] {
  const cpu = numbers(snapshot.cpus, 'cpu');
  const modes = MODES.map((name) => [name, numbers(snapshot.cpus, name)] as const);
  return Array.from({ length: snapshot.cpus.rows }, (_, row) => ({
    cpu: cpu(row),
    modes: Object.fromEntries(modes.map(([name, get]) => [name, get(row)])),
  }));
}

function irqsOf(snapshot: Snapshot): Head['irqs'] {
  const table = snapshot.irqs;
  if (!table) return [];
  const name = texts(table, 'name');
  const time = numbers(table, 'time_ns');
  const counts = numbers(table, 'count');
  return Array.from({ length: table.rows }, (_, row) => ({ name: name(row), timeNs: time(row), count: counts(row) }));
}

/** The sparklines move on by one value a message. */
function roll(before: Spark, fleet: Fleet): Spark {
  const id = texts(fleet.hosts, 'id');
  const busy = numbers(fleet.hosts, 'busy_ratio');
  const age = numbers(fleet.hosts, 'age_ns');
  const lines = new Map(before.host_ids.map((host, at) => [host, before.busy_ratio[at] ?? []]));
  const length = before.busy_ratio[0]?.length ?? 120;
  const host_ids: string[] = [];
  const busy_ratio: (number | null)[][] = [];
  for (let row = 0; row < fleet.hosts.rows; row += 1) {
    const line = lines.get(id(row)) ?? [];
    const isNew = age(row) <= before.step_ns * 1.5;
    const value = busy(row);
    host_ids.push(id(row));
    busy_ratio.push([...line, isNew && Number.isFinite(value) ? value : null].slice(-length));
  }
  return { step_ns: before.step_ns, host_ids, busy_ratio };
}

function transfers(report: Report): Transferable[] {
  if (report.is !== 'snapshot' && report.is !== 'view') return [];
  const { keys, owners, marks, depths, numbers: values, texts: words, flags } = report.view;
  return [keys, owners, marks, depths, values, words, flags].map((array) => array.buffer as ArrayBuffer);
}
