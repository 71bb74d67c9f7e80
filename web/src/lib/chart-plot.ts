// A chart of the receiver as a plot. In: the chart, with a word for each value that it leaves out. Out: the plot's lines.
// Why: page, picture and file show the same lines under the same names. The colour of a group is the same in plot and
// table, and stays while one zooms.
import type { PlotData, PlotLine } from '../parts/plot';
import type { Chart } from './api';
import { cssColor, lineColor } from './colors';
import { shownHoles, type Kept } from './shares';

export const NO_PLOT: PlotData = { times: [], lines: [], gaps: [] };

export interface PlotOptions {
  /** Start and end of the stored data. */
  kept?: Kept | null;
  /** Names of tasks that did nothing, by key. */
  names?: ReadonlyMap<string, string>;
  /** The number of the colour of a key; else it is that of the chart. */
  place?: (key: string) => number | undefined;
}

/** Lines of a chart, in the colours of the scheme on screen. */
export function plotOf(chart: Chart | undefined, { kept = null, names, place }: PlotOptions = {}): PlotData {
  if (chart?.body.kind !== 'lines') return NO_PLOT;
  const { begin_ms: begins, width_ms: width } = chart.times;
  const lines = chart.body.lines.map(({ ink, ...line }): PlotLine => {
    const key = line.key ?? '';
    const nth = place?.(key) ?? ('nth' in ink ? ink.nth : null);
    const color = nth === null ? cssColor('named' in ink ? ink.named : '') : lineColor(nth);
    return { ...line, label: names?.get(key) ?? line.label, color };
  });
  return {
    // An interval belongs to the point in which it ends.
    times: begins.map((ms) => (ms + width) / 1000),
    lines,
    gaps: shownHoles(chart.holes, kept),
    absences: chart.absences,
  };
}

/** A group's own name among all groupings. */
export const groupKey = (by: string, id: string): string => `${by}:${id}`;

/** Which colour a group has, and has had. */
export class GroupColors {
  private readonly places = new Map<string, number>();

  /** Gives each of these groups a colour of its own: its former one, else an unused one. */
  assign(keys: readonly string[]): ReadonlyMap<string, number> {
    const places = new Map<string, number>();
    const isFree = (place: number): boolean => ![...places.values()].includes(place);
    for (const key of keys) {
      const had = this.places.get(key);
      if (had !== undefined && isFree(had)) places.set(key, had);
    }
    for (const key of keys.filter((one) => !places.has(one))) {
      let place = 0;
      while (!isFree(place)) place += 1;
      places.set(key, place);
    }
    for (const [key, place] of places) this.places.set(key, place);
    return new Map(keys.map((key) => [key, places.get(key)!]));
  }
}
