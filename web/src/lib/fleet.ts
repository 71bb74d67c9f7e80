// The fleet's rows. In: the receiver's tables. Out: hosts and busiest processes, sorted and searched.
import type { Fleet, Query } from './api';
import { numbers, texts } from './table';

export interface HostRow {
  id: string;
  name: string;
  trust: string;
  source: string;
  address: string;
  agent: string;
  kernel: string;
  arch: string;
  state: string;
  ageNs: number | null;
  /** End of its newest interval. */
  endMs: number | null;
  offsetNs: number | null;
  /** What is odd, in the receiver's words, the heaviest first. */
  health: readonly string[];
  /** Of the last minute, shares of all CPUs: mean and highest interval. */
  busy: number | null;
  peak: number | null;
  /** Threads ready on average, and threads running or ready for each CPU. */
  ready: number | null;
  queue: number | null;
  /** Intervals of the last minute, and how many of them lack lost data. */
  intervals: number | null;
  incomplete: number | null;
  threads: number | null;
  topName: string;
  /** 100 = all CPUs of the host. */
  topPct: number | null;
  unattributed: number | null;
  lost: number | null;
  spark: readonly (number | null)[];
}

const HEALTHY: readonly string[] = [];

/** A host without a name is shown by its id. */
export function called(name: string, id: string): string {
  return name.trim() === '' ? id : name;
}

export function hostsOf({ hosts: table, spark }: Pick<Fleet, 'hosts' | 'spark'>): HostRow[] {
  const text = (name: string) => texts(table, name);
  const number = (name: string): ((row: number) => number | null) => {
    const get = numbers(table, name);
    return (row) => (Number.isNaN(get(row)) ? null : get(row));
  };
  const [id, name, trust, source, address, agent, kernel, arch, state, health, topName] = [
    text('id'),
    text('hostname'),
    text('trust'),
    text('source'),
    text('address'),
    text('agent'),
    text('kernel'),
    text('arch'),
    text('state'),
    text('health'),
    text('top_name'),
  ];
  const [age, end, offset, busy, peak, ready, queue, intervals, incomplete, threads, topPct, unattributed, lost] = [
    number('age_ns'),
    number('end_ms'),
    number('clock_offset_ns'),
    number('minute_busy_ratio'),
    number('minute_peak_ratio'),
    number('minute_ready'),
    number('minute_run_queue_per_cpu'),
    number('minute_intervals'),
    number('minute_incomplete'),
    number('threads'),
    number('top_host_pct'),
    number('minute_unattributed_ratio'),
    number('lost'),
  ];
  const sparks = new Map(spark?.host_ids.map((host, at) => [host, spark.busy_ratio[at] ?? []]));
  return Array.from({ length: table.rows }, (_, row) => {
    const words = health(row);
    return {
      id: id(row),
      name: called(name(row), id(row)),
      trust: trust(row),
      source: source(row),
      address: address(row),
      agent: agent(row),
      kernel: kernel(row),
      arch: arch(row),
      state: state(row),
      ageNs: age(row),
      endMs: end(row),
      offsetNs: offset(row),
      health: words === '' ? HEALTHY : words.split(', '),
      busy: busy(row),
      peak: peak(row),
      ready: ready(row),
      queue: queue(row),
      intervals: intervals(row),
      incomplete: incomplete(row),
      threads: threads(row),
      topName: topName(row),
      topPct: topPct(row),
      unattributed: unattributed(row),
      lost: lost(row),
      spark: sparks.get(id(row)) ?? [],
    };
  });
}

export function sortHosts(hosts: readonly HostRow[], sort: string, descending: boolean, filter: string): HostRow[] {
  const words = filter
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const passes = (host: HostRow): boolean =>
    words.every((word) =>
      [host.name, host.id, host.agent, host.topName, host.address, host.state, host.trust, ...host.health].some(
        (text) => text.toLowerCase().includes(word),
      ),
    );
  const sign = descending ? -1 : 1;
  const key = keyOf(sort);
  return hosts.filter(passes).sort((a, b) => {
    const left = key(a);
    const right = key(b);
    if (left === right) return a.name < b.name ? -1 : a.name > b.name ? 1 : a.id < b.id ? -1 : 1;
    if (left === null) return 1;
    if (right === null) return -1;
    return (left < right ? -1 : 1) * sign;
  });
}

/** Of our own agents the version alone: space is short. */
export function shortAgent(agent: string): string {
  return agent.replace(/^cpumon (?=\d)/, '');
}

/** The receiver's word for a column, and whether it puts its largest first. */
const SORTS: Record<string, readonly [string, boolean]> = {
  name: ['name', false],
  busy: ['busy', true],
  top: ['top', false],
  threads: ['threads', true],
  health: ['health', true],
  peak: ['peak', true],
  ready: ['ready', true],
  queue: ['run_queue', true],
  agent: ['agent', false],
  seen: ['last_seen', true],
};

/** How the receiver is asked for the table that is shown, as a file. */
export function fileOf(sort: string, descending: boolean, search: string): Record<string, string> {
  const [word, isLargestFirst] = SORTS[sort] ?? ['name', false];
  return { search: search.trim(), sort: word, reverse: isLargestFirst === descending ? '' : 'true' };
}

/** Hosts that a chart can name. */
const MOST_NAMED = 200;
/** Length of the sparklines. */
const SPARK_NS = 120_000_000_000n;

/** Up to when all reporting hosts have data: what is still on its way would be in one file and not in the next. */
function reportedUntil(hosts: readonly HostRow[], now: bigint): bigint {
  const ends = hosts
    .filter((host) => host.state === 'reporting' && host.endMs !== null)
    .map((host) => BigInt(Math.floor(host.endMs!)) * 1_000_000n);
  return ends.reduce((least, end) => (end < least && end > now - SPARK_NS / 2n ? end : least), now);
}

/** How the receiver is asked for the sparklines as a chart. What it can order itself by is asked for so, anything else by naming the
 * hosts that are shown. */
export function chartOf(
  hosts: readonly HostRow[],
  sort: string,
  descending: boolean,
  search: string,
  nowNs: string,
): Query {
  const until = reportedUntil(hosts, BigInt(nowNs));
  const range = { since: String(until - SPARK_NS), until: String(until) };
  if (search.trim() !== '' || (sort !== 'name' && sort !== 'busy')) {
    return {
      ...range,
      host: hosts
        .slice(0, MOST_NAMED)
        .map((host) => host.id)
        .join(','),
      rows: hosts.length > 60 ? MOST_NAMED : '',
    };
  }
  const isTurned = descending !== (sort === 'busy');
  return { ...range, sort: sort === 'busy' ? 'busy' : '', reverse: isTurned ? 'true' : '' };
}

/** What such a chart leaves out without knowing it. */
export function leftOut(hosts: readonly HostRow[], sort: string, search: string): string {
  const isNamed = search.trim() !== '' || (sort !== 'name' && sort !== 'busy');
  return isNamed && hosts.length > MOST_NAMED
    ? `The first ${MOST_NAMED} of the ${hosts.length} hosts that are shown.`
    : '';
}

/** In the receiver's order: the heaviest is the largest. */
const ODDITIES: readonly string[] = ['clock', 'ledger', 'loss', 'late', 'stored', 'silent'];

function weightOf(oddity: string | undefined): number | null {
  return oddity === undefined ? null : ODDITIES.indexOf(oddity);
}

function keyOf(sort: string): (host: HostRow) => number | string | null {
  switch (sort) {
    case 'busy':
      return (host) => host.busy;
    case 'top':
      return (host) => host.topName.toLowerCase() || null;
    case 'threads':
      return (host) => host.threads;
    case 'peak':
      return (host) => host.peak;
    case 'ready':
      return (host) => host.ready;
    case 'queue':
      return (host) => host.queue;
    case 'health':
      return (host) => weightOf(host.health[0]);
    case 'agent':
      return (host) => host.agent.toLowerCase() || null;
    case 'seen':
      return (host) => host.ageNs;
    default:
      return (host) => host.name.toLowerCase() || null;
  }
}

export interface TopRow {
  hostId: string;
  hostname: string;
  key: string;
  name: string;
  /** 100 = all CPUs of its host. */
  pct: number;
  /** 0..1 of the busiest. */
  share: number;
}

export function topOf(fleet: Fleet): TopRow[] {
  const table = fleet.top;
  const [hostId, hostname, key, name, pct] = [
    texts(table, 'host_id'),
    texts(table, 'hostname'),
    texts(table, 'key'),
    texts(table, 'name'),
    numbers(table, 'host_pct'),
  ];
  const most = Math.max(1, ...Array.from({ length: table.rows }, (_, row) => pct(row) || 0));
  return Array.from({ length: table.rows }, (_, row) => ({
    hostId: hostId(row),
    hostname: called(hostname(row), hostId(row)),
    key: key(row),
    name: name(row),
    pct: pct(row),
    share: (pct(row) || 0) / most,
  }));
}
