// Whether a host reports. In: how old its newest interval is, and how long one is. Out: the receiver's own word for it (`/fleet`, column
// `state`). Why: that the receiver answers says nothing about the agent, and both views must draw the line at the same place.

export type Alive = 'reporting' | 'late' | 'silent';

export function aliveOf(ageMs: number, intervalMs: number): Alive {
  if (ageMs <= Math.max(intervalMs * 2.5, 3_000)) return 'reporting';
  return ageMs <= Math.max(intervalMs * 10, 15_000) ? 'late' : 'silent';
}
