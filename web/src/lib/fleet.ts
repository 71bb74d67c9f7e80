// The fleet's rows. In: the receiver's tables. Out: hosts and busiest processes, sorted and searched.
import type { Fleet, Query } from './api';
import { isNumber, NO_DATA, share } from './format';
import { getter, numbers, texts } from './table';

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
  busy: number | null;
  threads: number | null;
  topName: string;
  topPct: number | null;
  unattributed: number | null;
  closed: boolean | null;
  lost: number | null;
  spark: readonly (number | null)[];
}

/** A host without a name is shown by its id. */
function called(name: string, id: string): string {
  return name.trim() === '' ? id : name;
}

export function hostsOf(fleet: Fleet): HostRow[] {
  const table = fleet.hosts;
  const text = (name: string) => texts(table, name);
  const number = (name: string): ((row: number) => number | null) => {
    const get = numbers(table, name);
    return (row) => (Number.isNaN(get(row)) ? null : get(row));
  };
  const [id, name, trust, source, address, agent, kernel, arch, state, topName] = [
    text('id'),
    text('hostname'),
    text('trust'),
    text('source'),
    text('address'),
    text('agent'),
    text('kernel'),
    text('arch'),
    text('state'),
    text('top_name'),
  ];
  const [age, end, offset, busy, threads, topPct, unattributed, lost] = [
    number('age_ns'),
    number('end_ms'),
    number('clock_offset_ns'),
    number('busy_ratio'),
    number('threads'),
    number('top_cpu_pct'),
    number('unattributed_ratio'),
    number('lost'),
  ];
  const closed = getter(table, 'ledger_closed');
  const sparks = new Map(fleet.spark?.host_ids.map((host, at) => [host, fleet.spark?.busy_ratio[at] ?? []]));
  return Array.from({ length: table.rows }, (_, row) => {
    const word = closed(row);
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
      busy: busy(row),
      threads: threads(row),
      topName: topName(row),
      topPct: topPct(row),
      unattributed: unattributed(row),
      closed: word === null ? null : word === true || word === 1,
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
      [host.name, host.id, host.agent, host.topName, host.address, host.state, host.trust].some((text) =>
        text.toLowerCase().includes(word),
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

/** How a host's ledger balances: a mark with the share that is not attributed, and whether it is good. */
export function ledgerOf(host: Pick<HostRow, 'closed' | 'unattributed'>): {
  text: string;
  kind: 'none' | 'good' | 'warn';
} {
  if (host.closed === null) return { text: NO_DATA, kind: 'none' };
  const percent = share(isNumber(host.unattributed) ? host.unattributed * 100 : null, 2);
  return { text: `${host.closed ? '✓' : '✗'} ${percent} %`, kind: host.closed ? 'good' : 'warn' };
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
  ledger: ['ledger', true],
  loss: ['loss', true],
  offset: ['clock_offset', true],
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

function keyOf(sort: string): (host: HostRow) => number | string | null {
  switch (sort) {
    case 'busy':
      return (host) => host.busy;
    case 'top':
      return (host) => host.topName.toLowerCase() || null;
    case 'threads':
      return (host) => host.threads;
    case 'ledger':
      return (host) => (host.unattributed === null ? null : Math.abs(host.unattributed));
    case 'loss':
      return (host) => host.lost;
    case 'offset':
      return (host) => (host.offsetNs === null ? null : Math.abs(host.offsetNs));
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
    numbers(table, 'cpu_pct'),
  ];
  const most = Math.max(100, ...Array.from({ length: table.rows }, (_, row) => pct(row) || 0));
  return Array.from({ length: table.rows }, (_, row) => ({
    hostId: hostId(row),
    hostname: called(hostname(row), hostId(row)),
    key: key(row),
    name: name(row),
    pct: pct(row),
    share: (pct(row) || 0) / most,
  }));
}
