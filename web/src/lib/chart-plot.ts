// A chart of the receiver as a plot. In: the chart, with a word for each value that it leaves out. Out: what the plot draws. Why: page,
// picture and file show the same lines under the same names. The colour of a group is the same in plot and table, and stays while one
// zooms.
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

  /** Gives each of these groups a colour of its own: the one that it had, else one that none of them has. */
  assign(keys: readonly string[]): ReadonlyMap<string, number> {
    const taken = new Set<number>();
    const had = keys.map((key) => {
      const place = this.places.get(key);
      if (place === undefined || taken.has(place)) return null;
      taken.add(place);
      return place;
    });
    const free = (): number => {
      let place = 0;
      while (taken.has(place)) place += 1;
      taken.add(place);
      return place;
    };
    const places = had.map((place) => place ?? free());
    keys.forEach((key, nth) => this.places.set(key, places[nth]!));
    return new Map(keys.map((key, nth) => [key, places[nth]!]));
  }
}
