// The receiver's HTTP API. In: requests. Out: typed answers, or a Problem that says what to do.
// The types come from the receiver's own description, web/openapi.json (`npm run generate`); here they get the page's names.
import type { components } from './api.generated';

type Schemas = components['schemas'];

export type Session = Schemas['Session'];
/** Limits at which a mark or a colour changes: balanced, late, silent. */
export type Limits = Schemas['Limits'];
export type Spark = Schemas['Spark'];
export type Fleet = Schemas['Fleet'];
export type FleetHistory = Schemas['FleetHistory'];
export type Summary = Schemas['RowOfCell'];
export type Snapshot = Schemas['Snapshot'];
/** A hole in a host's time. */
export type Gap = Schemas['Gap'];
export type Series = Schemas['HostSeries'];
export type TaskLine = Schemas['Line'];
export type Lines = Schemas['Lines'];
export type WaitLine = Schemas['WaitLine'];
export type ProcessPage = Schemas['ProcessLine'];
export type MatrixRow = Schemas['MatrixRow'];
export type Matrix = Schemas['Matrix'];
export type Report = Schemas['Report'];
export type ReportRow = Schemas['ReportRow'];
export type StoredHosts = Schemas['StoredHosts'];
export type Findings = Schemas['Findings'];
export type Found = Schemas['Found'];
export type TraceHead = Schemas['TraceHead'];
export type TraceTracks = Schemas['TraceTracks'];
export type TraceCpuTrack = Schemas['TraceCpuTrack'];
export type TraceThreadTrack = Schemas['TraceThreadTrack'];
export type TraceThread = Schemas['TraceThread'];
export type TraceThreads = Schemas['TraceThreads'];
export type TraceThreadRow = Schemas['TraceThreadRow'];
export type TraceThreadPage = Schemas['TraceThreadPage'];
export type TraceSums = Schemas['TraceSums'];
/** Who delayed whom, by program. */
export type TraceDelays = Schemas['TraceDelays'];
export type TraceSlice = Schemas['TraceSlice'];
/** Traces of a device's flight recorder. */
export type StoredTraces = Schemas['StoredTraces'];
/** How a trace of a host can be had now. */
export type TraceSources = Schemas['TraceSources'];
export type Chart = Schemas['Chart'];
export type ChartHole = Schemas['Hole'];
/** Charts of a host over one range. */
export type HostCharts = Schemas['HostCharts'];
/** Values by point; null: not measured. */
export type Line = (number | null)[];
/** Points evenly spaced over a range. */
export type Times = Omit<Schemas['BucketTimes'], 'resolution'>;

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

/** A figure of an interval; null: not measured. */
export function numberOf(summary: Summary, name: string): number | null {
  const value = summary[name];
  return typeof value === 'number' ? value : null;
}

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

let answerSeen: (came: boolean) => void = () => undefined;

/** Called with each request: whether an answer came, whatever it says. */
export function onAnswer(listener: (came: boolean) => void): void {
  answerSeen = listener;
}

async function answerOf(url: string, accept: string, signal?: AbortSignal, method = 'GET'): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, { method, headers: { accept }, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (signal?.aborted) throw error;
    answerSeen(false);
    throw new Unreachable('The receiver does not answer.');
  }
  answerSeen(true);
  if (answer.status === 401) loginWanted();
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

export async function ask<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await (await answerOf(apiUrl(path, query), 'application/json', signal)).json()) as T;
}

/** Asks the receiver to do something. */
export async function post<T>(path: string, query: Query = {}): Promise<T> {
  return (await (await answerOf(apiUrl(path, query), 'application/json', undefined, 'POST')).json()) as T;
}

/** A file of the API. */
export async function fetchBlob(url: string, signal?: AbortSignal): Promise<Blob> {
  return (await answerOf(url, '*/*', signal)).blob();
}

/** What to do about it, for people: a clause that names an address of the API is for programs. */
export function adviceOf(how: string): string {
  const clauses = how.split(/(?<=[.;]) +/).filter((clause) => !clause.includes('/api/'));
  return clauses.join(' ').replace(/;$/, '.');
}

async function problemOf(answer: Response): Promise<Problem> {
  let body: Record<string, unknown> = {};
  try {
    body = (await answer.json()) as Record<string, unknown>;
  } catch {
    // Not a problem document: the status says what there is to say.
  }
  const { title, detail, how } = reasonOf(answer.status, body);
  return new Problem(answer.status, title, detail, how, body);
}

/** Why an answer is not the one asked for, in the receiver's words. */
export function reasonOf(
  status: number,
  body: Record<string, unknown>,
): Record<'title' | 'detail' | 'how' | 'before_ns' | 'after_ns', string> {
  const text = (name: string): string => (typeof body[name] === 'string' ? body[name] : '');
  return {
    title: text('title') || `HTTP ${status}`,
    detail: text('detail'),
    how: adviceOf(text('how')),
    before_ns: text('before_ns'),
    after_ns: text('after_ns'),
  };
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
