// Whether a host's ledger adds up. In: its summary, the receiver's limit. Out: the share that no line accounts for, and a verdict.
import { numberOf, type Summary } from './api';

export interface Balance {
  /** Unattributed CPU time as a share of the capacity; null: not measured. */
  ratio: number | null;
  /** null: not measured, or the limit is not known yet. */
  isBalanced: boolean | null;
}

export function balanceOf(summary: Summary, limit: number | undefined): Balance {
  const unattributed = numberOf(summary, 'unattributed_ns');
  const capacity = numberOf(summary, 'capacity_ns');
  const ratio = unattributed !== null && capacity !== null && capacity > 0 ? unattributed / capacity : null;
  return { ratio, isBalanced: ratio === null || limit === undefined ? null : Math.abs(ratio) <= limit };
}

export function balanceText({ isBalanced }: Balance): string {
  return isBalanced === null ? 'not balanced: no data' : isBalanced ? '✓ balanced' : '✗ not balanced';
}
