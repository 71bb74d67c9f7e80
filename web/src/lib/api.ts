// The receiver's HTTP API. In: what is asked. Out: typed answers, or a Problem that says what to do.
// Types follow /api/v1/openapi.json; only what the page reads is named here.
import type { Table } from './table';

export interface Session {
  version: string;
  login_required: boolean;
  logged_in: boolean;
  store: boolean;
}

export interface Spark {
  step_ns: number;
  host_ids: string[];
  busy_ratio: (number | null)[][];
}

export interface Fleet {
  now_ns: string;
  number: number;
  skipped: number;
  /** What the receiver itself could not take or keep. */
  receiver: {
    store: 'ok' | 'failing' | 'none';
    store_error: string;
    store_dropped: number;
    rejected: number;
    kernel_dropped: number;
  };
  hosts: Table;
  top: Table;
  spark?: Spark;
}

export type Summary = Record<string, number | string | boolean | null | undefined>;

export interface Snapshot {
  host: string;
  hostname: string;
  trust: string;
  boot: string;
  number: number;
  skipped: number;
  /** How long ago the host's newest interval came; absent in answers about the past. */
  age_ns?: number;
  begin_ns: string;
  end_ns: string;
  end_ms: number;
  /** The device's own clock less `end_ns`; 0 where it is right. */
  wall_shift_ns: number;
  duration_ns: number;
  source: string;
  fields: string[];
  flags: string[];
  summary: Summary;
  cpus: Table;
  processes: Table;
  /** One for each process that was asked for, or one for all. */
  threads?: Table[];
  irqs?: Table;
}

export interface Gap {
  begin_ms: number;
  end_ms: number;
  intervals: number;
  reason: string;
}

export type Line = (number | null)[];

export interface Buckets {
  resolution: string;
  width_ns: number;
  t_ms: number[];
  covered_ns: number[];
  gaps: Gap[];
}

export interface Series extends Buckets {
  kept: { first_ns: string; last_ns: string } | null;
  columns: Record<string, { sum?: Line; min?: Line; max?: Line }>;
}

export interface TaskLine {
  kind: string;
  key: string;
  name: string;
  first_ms: number | null;
  last_ms: number | null;
  began_ms: number | null;
  ended_ms: number | null;
  columns: Record<string, Line>;
  max_run_ns_per_s?: Line;
}

export interface Lines extends Buckets {
  lines: TaskLine[];
}

export interface WaitLine {
  reason: string;
  total_ns: number;
  values: Line;
}

export interface ProcessPage extends Lines {
  process: Record<string, string | number | boolean | null>;
  waits?: WaitLine[];
}

export interface MatrixRow {
  /** Null for all processes of a name. */
  key: string | null;
  name: string;
  total_ns: number;
  first_ms: number | null;
  last_ms: number | null;
  life?: string;
  values: Line;
  /** Its highest single interval in each point, ns per second. */
  max: Line;
}

export interface Matrix extends Buckets {
  total: number;
  rows: MatrixRow[];
  other: Line;
}

export interface Compared {
  /** 0: the span holds no data. */
  before_covered_ns: number;
  after_covered_ns: number;
  rows: Table;
}

/** An answer that is not the one asked for, in the receiver's words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly how: string,
    readonly body: Record<string, unknown>,
  ) {
    super(detail || title);
  }
}

/** No answer at all. */
export class Unreachable extends Error {}

export type Query = Record<string, string | number | undefined | null>;

export function apiUrl(path: string, query: Query = {}): string {
  const words = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(words.map(([name, value]) => [name, String(value)])).toString();
  return `/api/v1/${path}${search ? `?${search}` : ''}`;
}

export const hostPath = (host: string, rest: string): string => `hosts/${encodeURIComponent(host)}/${rest}`;

let loginWanted: () => void = () => undefined;

/** Called when an answer asks for a login. */
export function onLoginWanted(listener: () => void): void {
  loginWanted = listener;
}

async function answerOf(url: string, accept: string, signal?: AbortSignal): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, { headers: { accept }, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable('The receiver does not answer.');
  }
  if (answer.status === 401) loginWanted();
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

export async function ask<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await (await answerOf(apiUrl(path, query), 'application/json', signal)).json()) as T;
}

/** A file of the API. */
export async function fetchBlob(url: string, signal?: AbortSignal): Promise<Blob> {
  return (await answerOf(url, '*/*', signal)).blob();
}

async function problemOf(answer: Response): Promise<Problem> {
  let body: Record<string, unknown> = {};
  try {
    body = (await answer.json()) as Record<string, unknown>;
  } catch {
    // Not a problem document: the status says what there is to say.
  }
  const text = (name: string): string => (typeof body[name] === 'string' ? body[name] : '');
  return new Problem(answer.status, text('title') || `HTTP ${answer.status}`, text('detail'), text('how'), body);
}

export async function login(token: string): Promise<void> {
  const answer = await fetch(apiUrl('login'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  });
  if (!answer.ok) throw await problemOf(answer);
}

export async function logout(): Promise<void> {
  await fetch(apiUrl('logout'), { method: 'POST' });
}
