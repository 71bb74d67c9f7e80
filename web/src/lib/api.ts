// The receiver's HTTP API. In: requests. Out: typed answers, or a Problem that says what to do.
// The types come from the receiver's own description, web/openapi.json (`npm run generate`); a few have other names in the page.
import type { RowOfCell, Snapshot } from './api.generated';

export type * from './api.generated';
export type {
  Hole as ChartHole,
  HostSeries as Series,
  Line as TaskLine,
  ProcessLine as ProcessPage,
} from './api.generated';
export type Summary = RowOfCell;
/** Values by point; null: not measured. */
export type Line = (number | null)[];

/** Why there is no answer. */
export interface Refusal {
  /** 0: nothing answered. */
  status: number;
  title: string;
  /** In the receiver's words. */
  why: string;
  /** The same, with the remedy. */
  detail: string;
  /** Ends of the intervals before and after a moment without data; empty: there is none. */
  before_ns: string;
  after_ns: string;
}

/** An answer that is not the one asked for, or none. */
export class Problem extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.why || refusal.title);
  }
}

/** Nothing answers; or an error of the page itself. */
const lost = (why = 'The receiver does not answer.'): Refusal => ({
  ...{ status: 0, title: 'Receiver lost', why, detail: why },
  ...{ before_ns: '', after_ns: '' },
});

export function refusalOf(error: unknown): Refusal {
  if (error instanceof Problem) return error.refusal;
  return lost(error instanceof Error ? error.message : undefined);
}

/** A figure of an interval; null: not measured. */
export function numberOf(summary: Summary, name: string): number | null {
  const value = summary[name];
  return typeof value === 'number' ? value : null;
}

/** CPU use of the agent itself in an interval, from its sums at the end of this one and of the one before: percent, 100 =
 * one CPU. */
export function ownShare(
  before: Pick<Snapshot, 'end_ns' | 'summary'> | null,
  now: Pick<Snapshot, 'begin_ns' | 'duration_ns' | 'summary'>,
): number | null {
  const [was, is] = [before?.summary['own_cpu_ns'], now.summary['own_cpu_ns']];
  if (before?.end_ns !== now.begin_ns || typeof was !== 'number' || typeof is !== 'number') return null;
  return is >= was && now.duration_ns > 0 ? ((is - was) * 100) / now.duration_ns : null;
}

export type Query = Record<string, string | number | undefined | null>;

export function apiUrl(path: string, query: Query = {}): string {
  const words = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(words.map(([name, value]) => [name, String(value)])).toString();
  return `/api/v1/${path}${search ? `?${search}` : ''}`;
}

export const hostPath = (host: string, rest: string): string => `hosts/${encodeURIComponent(host)}/${rest}`;

/** Called when an answer asks for a login; and with each request: whether an answer came, whatever it says. */
export const on = { login: (): void => undefined, answer: (_came: boolean): void => undefined };

async function answerOf(url: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    on.answer(false);
    throw new Problem(lost());
  }
  on.answer(true);
  if (answer.status === 401) on.login();
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

export async function ask<T>(path: string, query: Query = {}, signal: AbortSignal | null = null): Promise<T> {
  return (await (await answerOf(apiUrl(path, query), { signal })).json()) as T;
}

/** Asks the receiver to do something. */
export async function post<T>(path: string, query: Query = {}): Promise<T> {
  return (await (await answerOf(apiUrl(path, query), { method: 'POST' })).json()) as T;
}

/** A file of the API. */
export async function fetchBlob(url: string, signal: AbortSignal | null = null): Promise<Blob> {
  return (await answerOf(url, { signal })).blob();
}

/** The remedy, for people: a clause that names an address of the API is for programs. */
export function adviceOf(how: string): string {
  const clauses = how.split(/(?<=[.;]) +/).filter((clause) => !clause.includes('/api/'));
  return clauses.join(' ').replace(/;$/, '.');
}

async function problemOf(answer: Response): Promise<Problem> {
  // Without a problem document, the status alone is the message.
  const body = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
  const text = (name: string): string => (typeof body[name] === 'string' ? body[name] : '');
  const [title, why, how] = [text('title') || `HTTP ${answer.status}`, text('detail'), adviceOf(text('how'))];
  const detail = [why, how].filter((words) => words !== '').join(' ');
  const [before_ns, after_ns] = [text('before_ns'), text('after_ns')];
  return new Problem({ status: answer.status, title, why, detail, before_ns, after_ns });
}

export async function login(token: string): Promise<void> {
  const [headers, body] = [{ 'content-type': 'application/json' }, JSON.stringify({ token })];
  await answerOf(apiUrl('login'), { method: 'POST', headers, body });
}

export async function logout(): Promise<void> {
  await fetch(apiUrl('logout'), { method: 'POST' });
}
