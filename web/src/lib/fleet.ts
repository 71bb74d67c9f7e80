// The fleet's rows. In: the receiver's tables. Out: hosts and busiest processes, sorted and searched; refused data
// without a row, with a rate.
import type { Fleet, Query } from './api';
import { age, count, duration, isNumber, percent, rate, visible, wordsOf } from './format';
import { numbers, rowsOf, texts, type RowOf } from './table';

const HEALTHY: readonly string[] = [];

/** A host without a name is shown by its id. */
export function called(name: string, id: string): string {
  return name.trim() === '' ? id : name;
}

/** The columns of a host, by the receiver's names. */
function columnsOf({ hosts: table, spark }: Pick<Fleet, 'hosts' | 'spark'>) {
  const text = (name: string) => texts(table, name);
  const number = (name: string): ((row: number) => number | null) => {
    const get = numbers(table, name);
    return (row) => (Number.isNaN(get(row)) ? null : get(row));
  };
  const [id, name, health] = [text('id'), text('hostname'), text('health')];
  const sparks = new Map(spark?.host_ids.map((host, at) => [host, spark.busy_ratio[at] ?? []]));
  return {
    id,
    name: (row: number) => called(name(row), id(row)),
    trust: text('trust'),
    source: text('source'),
    address: text('address'),
    agent: text('agent'),
    kernel: text('kernel'),
    arch: text('arch'),
    state: text('state'),
    ageNs: number('age_ns'),
    /** End of its newest interval. */
    endMs: number('end_ms'),
    offsetNs: number('clock_offset_ns'),
    /** Problems, in the receiver's words, the most serious first. */
    health: (row: number) => (health(row) === '' ? HEALTHY : health(row).split(', ')),
    /** Shares of all CPUs in the last minute: mean and highest interval. */
    busy: number('minute_busy_ratio'),
    peak: number('minute_peak_ratio'),
    /** Threads ready on average, and threads running or ready for each CPU. */
    ready: number('minute_ready'),
    queue: number('minute_run_queue_per_cpu'),
    /** Intervals of the last minute, and how many lack lost data. */
    intervals: number('minute_intervals'),
    incomplete: number('minute_incomplete'),
    threads: number('threads'),
    topName: text('top_name'),
    /** 100 = all CPUs of the host. */
    topPct: number('top_host_pct'),
    unattributed: number('minute_unattributed_ratio'),
    lost: number('lost'),
    spark: (row: number): readonly (number | null)[] => sparks.get(id(row)) ?? [],
  };
}

export type HostRow = RowOf<ReturnType<typeof columnsOf>>;

export function hostsOf(fleet: Pick<Fleet, 'hosts' | 'spark'>): HostRow[] {
  return rowsOf<HostRow>(fleet.hosts.rows, columnsOf(fleet));
}

/** Order and search of rows. */
export interface Order {
  readonly sort: string;
  readonly descending: boolean;
  readonly filter: string;
}

export function sortHosts(hosts: readonly HostRow[], { sort, descending, filter }: Order): HostRow[] {
  const words = wordsOf(filter);
  const passes = (host: HostRow): boolean =>
    words.every((word) =>
      [host.name, host.id, host.agent, host.topName, host.address, host.state, host.trust, ...host.health].some(
        (text) => text.toLowerCase().includes(word),
      ),
    );
  const sign = descending ? -1 : 1;
  const { key } = columnOf(sort);
  return hosts.filter(passes).sort((a, b) => {
    const left = key(a);
    const right = key(b);
    if (left === right) return a.name < b.name ? -1 : a.name > b.name ? 1 : a.id < b.id ? -1 : 1;
    if (left === null) return 1;
    if (right === null) return -1;
    return (left < right ? -1 : 1) * sign;
  });
}

/** For cpumon's own agents the version alone: space is short. */
export function shortAgent(agent: string): string {
  return agent.replace(/^cpumon (?=\d)/, '');
}

type Key = (host: HostRow) => number | string | null;

const byName: Key = (host) => host.name.toLowerCase() || null;
/** By the name of a column: the receiver's word for it, whether that puts its largest first, and the sort key here. */
const COLUMNS: Readonly<Record<string, readonly [word: string, isLargestFirst: boolean, key: Key]>> = {
  name: ['name', false, byName],
  busy: ['busy', true, (host) => host.busy],
  top: ['top', false, (host) => host.topName.toLowerCase() || null],
  threads: ['threads', true, (host) => host.threads],
  health: ['health', true, (host) => weightOf(host.health[0])],
  peak: ['peak', true, (host) => host.peak],
  ready: ['ready', true, (host) => host.ready],
  queue: ['run_queue', true, (host) => host.queue],
  agent: ['agent', false, (host) => host.agent.toLowerCase() || null],
  seen: ['last_seen', true, (host) => host.ageNs],
};

function columnOf(sort: string): { word: string; isLargestFirst: boolean; key: Key } {
  const [word, isLargestFirst, key] = COLUMNS[Object.hasOwn(COLUMNS, sort) ? sort : 'name']!;
  return { word, isLargestFirst, key };
}

/** How the receiver is asked for the table that is shown, as a file. */
export function fileOf({ sort, descending, filter }: Order): Record<string, string> {
  const { word, isLargestFirst } = columnOf(sort);
  return { search: filter.trim(), sort: word, reverse: isLargestFirst === descending ? '' : 'true' };
}

/** Hosts that a chart can name. */
const MOST_NAMED = 200;
/** Length of the sparklines. */
const SPARK_NS = 120_000_000_000n;

/** The time up to which all reporting hosts have data: later data would be in one file and not in the next. */
function reportedUntil(hosts: readonly HostRow[], now: bigint): bigint {
  const ends = hosts
    .filter((host) => host.state === 'reporting' && host.endMs !== null)
    .map((host) => BigInt(Math.floor(host.endMs!)) * 1_000_000n);
  return ends.reduce((least, end) => (end < least && end > now - SPARK_NS / 2n ? end : least), now);
}

const namesHosts = ({ sort, filter }: Order): boolean => filter.trim() !== '' || (sort !== 'name' && sort !== 'busy');

/** Parameters that ask the receiver for the sparklines as a chart. An order that the receiver has is asked for, any other one by naming
 * the hosts that are shown. */
export function chartOf(hosts: readonly HostRow[], order: Order, nowNs: string): Query {
  const { sort, descending } = order;
  const until = reportedUntil(hosts, BigInt(nowNs));
  const range = { since: String(until - SPARK_NS), until: String(until) };
  if (namesHosts(order)) {
    const ids = hosts.slice(0, MOST_NAMED).map((host) => host.id);
    return { ...range, host: ids.join(','), rows: hosts.length > 60 ? MOST_NAMED : '' };
  }
  const isTurned = descending !== (sort === 'busy');
  return { ...range, sort: sort === 'busy' ? 'busy' : '', reverse: isTurned ? 'true' : '' };
}

/** Hosts that such a chart leaves out without notice. */
export function leftOut(hosts: readonly HostRow[], order: Order): string {
  return namesHosts(order) && hosts.length > MOST_NAMED
    ? `The first ${MOST_NAMED} of the ${hosts.length} hosts that are shown.`
    : '';
}

/** In the receiver's order: the heaviest is the largest. */
const ODDITIES: readonly string[] = ['clock', 'ledger', 'loss', 'late', 'stored', 'silent'];

function weightOf(oddity: string | undefined): number | null {
  return oddity === undefined ? null : ODDITIES.indexOf(oddity);
}

function topColumnsOf({ top: table }: Pick<Fleet, 'top'>) {
  const [hostId, hostname, pct] = [texts(table, 'host_id'), texts(table, 'hostname'), numbers(table, 'host_pct')];
  const most = Math.max(1, ...Array.from({ length: table.rows }, (_, row) => pct(row) || 0));
  return {
    hostId,
    hostname: (row: number) => called(hostname(row), hostId(row)),
    key: texts(table, 'key'),
    name: texts(table, 'name'),
    /** 100 = all CPUs of its host. */
    pct,
    /** 0..1 of the busiest. */
    share: (row: number) => (pct(row) || 0) / most,
  };
}

export type TopRow = RowOf<ReturnType<typeof topColumnsOf>>;

export function topOf(fleet: Pick<Fleet, 'top'>): TopRow[] {
  return rowsOf<TopRow>(fleet.top.rows, topColumnsOf(fleet));
}

type Health = Fleet['receiver'];
type Counter = 'rejected' | 'kernel_dropped' | 'store_dropped';

const NAMES: readonly [Counter, string][] = [
  ['rejected', 'datagrams refused'],
  ['kernel_dropped', 'dropped by the kernel'],
  ['store_dropped', 'intervals not stored'],
];
/** Time over which a rate is measured. */
const MINUTE_MS = 60_000;

export interface Loss {
  text: string;
  /** Whether it still happens. */
  isNow: boolean;
  /** The source of most of it and its reason; empty: not known. */
  why: string;
}

/** The counts of the last minute. */
export class Losses {
  private past: { ms: number; health: Health }[] = [];

  /** Takes the newest counts; the first ones are no rate. */
  take(health: Health, nowMs: number): Loss[] {
    const [first] = this.past;
    // Another start of the receiver counts from zero.
    if (first && NAMES.some(([name]) => (health[name] ?? 0) < (first.health[name] ?? 0))) this.past = [];
    this.past = [...this.past.filter((one) => nowMs - one.ms <= MINUTE_MS), { ms: nowMs, health }];
    const oldest = this.past[0]!;
    const seconds = (nowMs - oldest.ms) / 1000;
    return NAMES.flatMap(([name, what]) => {
      // While the store fails, a banner of its own has this number.
      const many = name === 'store_dropped' && health.store === 'failing' ? 0 : (health[name] ?? 0);
      const grown = many - (oldest.health[name] ?? 0);
      if (many === 0) return [];
      const isNow = grown > 0 && seconds > 0;
      const why = name === 'rejected' ? visible(health.rejected_why ?? '') : '';
      return [{ text: `${count(many)} ${what}${isNow ? ` (${rate(grown / seconds)}/s)` : ''}`, isNow, why }];
    });
  }
}

/** A problem of a host in words; a mark that a healthy machine has too says nothing. */
export interface HealthMark {
  text: string;
  kind: 'bad' | 'warn' | 'dim';
  /** One sentence for each thing that is odd. */
  help: string;
}

type Odd = Pick<HostRow, 'health' | 'ageNs' | 'unattributed' | 'offsetNs' | 'intervals' | 'incomplete'>;

const silenceOf = (host: Odd): string => age(isNumber(host.ageNs) ? host.ageNs / 1e6 : null);

function lossOf({ incomplete, intervals }: Odd): string {
  return `${count(incomplete)} of ${count(intervals)}`;
}

/** A short text for the table, and a sentence for its tooltip. */
const WORDS: Record<string, (host: Odd) => readonly [string, string]> = {
  silent: (host) => [
    `silent ${silenceOf(host)}`,
    `Nothing arrived for ${silenceOf(host)}: its agent or its network stopped.`,
  ],
  stored: () => ['not reporting', 'Nothing arrived since the receiver started; its past is in the store.'],
  late: (host) => [`late ${silenceOf(host)}`, `Its newest interval is ${silenceOf(host)} old.`],
  loss: (host) => [
    `${lossOf(host)} incomplete`,
    `${lossOf(host)} intervals of the last minute lack snapshots that were lost on the way; their CPU time is complete.`,
  ],
  ledger: (host) => [
    `ledger ${percent(host.unattributed)} open`,
    `${percent(host.unattributed, 2)} of its CPU time is not attributed.`,
  ],
  clock: (host) => [
    `clock ${duration(host.offsetNs)}`,
    `Its clock is ${duration(host.offsetNs)} from the receiver's, which places its data by its own clock.`,
  ],
};

export function healthOf(host: Odd): HealthMark | null {
  const known = host.health.filter((word) => WORDS[word] !== undefined);
  const [first] = known;
  if (first === undefined) return null;
  const words = known.map((word) => WORDS[word]!(host));
  const more = known.length > 1 ? ` +${known.length - 1}` : '';
  return {
    text: words[0]![0] + more,
    kind: first === 'silent' ? 'bad' : first === 'stored' ? 'dim' : 'warn',
    help: words.map(([, sentence]) => sentence).join(' '),
  };
}
