// Messages between page and worker. In and out: plain data. Why: both sides compile against one list.
import type { Fleet, Refusal, Snapshot } from '../lib/api';
import type { GroupLimit } from './limits';
import type { Spec, View } from './view';

/** State of a live stream. */
export type Link =
  | { state: 'connecting' }
  | { state: 'live' }
  /** No connection; tried again at `retryMs` (page clock). */
  | { state: 'lost'; retryMs: number }
  /** The receiver refuses it; `several`: hosts that have the name that was asked for. */
  | { state: 'login' | 'forbidden' | 'unknown' | 'several'; detail: string };

export type Order =
  | { do: 'live'; host: string }
  | { do: 'moment'; host: string; seek: 'at' | 'before' | 'after'; ns: string }
  /** One interval back or forth from the view on screen, or from the one being fetched. */
  | { do: 'step'; host: string; seek: 'before' | 'after' }
  | { do: 'fleet' }
  | { do: 'close' }
  /** Connects now, where the stream waits to try again. */
  | { do: 'retry' }
  | { do: 'spec'; spec: Spec }
  | { do: 'watch'; keys: string[] };

/** One CPU's modes, ns; NaN is no data. */
export interface CpuModes {
  cpu: number;
  modes: Record<string, number>;
}

/** Fields that the page takes unchanged. */
type Same =
  | ('host' | 'hostname' | 'trust' | 'skipped' | 'source' | 'flags' | 'summary')
  | ('begin_ns' | 'end_ns' | 'end_ms' | 'wall_shift_ns' | 'duration_ns');

/** Everything of a snapshot that is not a row of the grid. */
export interface Head extends Pick<Snapshot, Same> {
  /** How long it had been with the receiver when it was sent; 0 for a past moment. */
  ageMs: number;
  /** Rows that are here and that there are, where a table was too long to be sent whole. */
  cut: { shown: number; total: number } | null;
  cpus: CpuModes[];
  irqs: { name: string; timeNs: number; count: number }[];
  /** A row of each control group that has a CPU limit, the most throttled first. */
  limiters: GroupLimit[];
  /** Counters that this source measures. */
  measured: string[];
  /** The agent's own use of CPU in this interval, 100 = one CPU; null: not known yet. */
  ownPct: number | null;
  /** Threads that were ready and had no CPU, mean over the interval; null: not measured. */
  readyMean: number | null;
}

export type Report =
  | { is: 'link'; link: Link }
  | { is: 'fleet'; fleet: Fleet }
  /** `live`: it came by the stream. `stepped`: the answer to a step. */
  | { is: 'snapshot'; head: Head; view: View; watched: [string, number][]; live: boolean; stepped: boolean }
  | { is: 'view'; view: View }
  | { is: 'problem'; refusal: Refusal };
