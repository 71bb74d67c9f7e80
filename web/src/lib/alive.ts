// Whether a host reports. In: how old its newest interval is, how long one is, the receiver's limits. Out: the receiver's own word
// for it (`/fleet`, column `state`). Why: that the receiver answers says nothing about the agent.
import type { Limits } from './api';

export type Alive = 'reporting' | 'late' | 'silent';

/** Without limits, which the receiver has not sent yet, nothing is late. */
export function aliveOf(ageMs: number, intervalMs: number, limits: Limits | null): Alive {
  if (!limits || ageMs <= Math.max(intervalMs * limits.late_intervals, limits.late_ns / 1e6)) return 'reporting';
  return ageMs <= Math.max(intervalMs * limits.silent_intervals, limits.silent_ns / 1e6) ? 'late' : 'silent';
}
