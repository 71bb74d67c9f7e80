// What the agent itself used in an interval. In: that interval and the one before it, whose CPU time of the agent is since its start. Out:
// percent, 100 = one CPU.
import type { Head } from '../feed/messages';
import type { Snapshot } from './api';

export function ownShare(
  before: Pick<Snapshot, 'end_ns' | 'summary'> | null,
  now: Pick<Head, 'begin_ns' | 'duration_ns' | 'summary'>,
): number | null {
  const [was, is] = [before?.summary['own_cpu_ns'], now.summary['own_cpu_ns']];
  if (before?.end_ns !== now.begin_ns || typeof was !== 'number' || typeof is !== 'number') return null;
  return is >= was && now.duration_ns > 0 ? ((is - was) * 100) / now.duration_ns : null;
}
