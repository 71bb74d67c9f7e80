// What tasks waited for most. In: their times by state. Out: one reason, with its share of the time of their threads. Why: grid, span and
// the page of a process say it alike, and a reason without its share misleads where they wait for a CPU.
import { percent } from './format';

/** ns in each state; NaN is no data. */
export interface StateTimes {
  run: number;
  ready: number;
  blocked: number;
}

export interface MainWait {
  /** Empty: none. */
  reason: string;
  /** 0..1 of all its time; NaN: not known. */
  share: number;
}

/** The wait for a CPU, beside the reasons of blocked time. */
export const READY = 'ready';
const NONE: MainWait = { reason: '', share: NaN };
/** Shares below this are shown as 0 %: such a wait says nothing. */
const LEAST = 0.005;

export type Wait = readonly [reason: string, ns: number];

/** `longest`: the longest of the waits that `blocked` consists of; *ready* takes its place where that is longer. */
export function mainWait({ run, ready, blocked }: StateTimes, longest?: Wait): MainWait {
  const main: Wait = ready > (longest?.[1] ?? blocked) ? [READY, ready] : (longest ?? ['', NaN]);
  const [reason, ns] = main;
  const share = ns / (run + ready + blocked);
  return share < LEAST ? NONE : { reason, share };
}

/** `ready 74 %` */
export function waitText(words: string, share: number): string {
  return words === '' || !Number.isFinite(share) ? words : `${words} ${percent(share, 0)}`;
}
