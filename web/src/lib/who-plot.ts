// The plot by who ran. In: a report with points over time. Out: areas of its largest groups and of all others. Why: the colour of a
// group is the same in plot and table, and stays while one zooms.
import type { Line, Report, ReportRow, Series, Times } from './api';
import { cssColor, lineColor } from './colors';
import { MOST_AREAS } from './modes';
import { beginsOf, holesOf, type Kept, rateOf, shareOf, timesOf } from './shares';
import { isGroup, nameOf, processOf, type Grouping } from './report';
import { isNumber, msOf } from './format';
import type { PlotData, PlotLine } from '../parts/plot';

/** Which colour a group has, and has had. */
export class GroupColors {
  private readonly places = new Map<string, number>();

  /** Gives each of these groups a colour of its own: the one that it had, else one that none of them has. */
  assign(keys: readonly string[]): number[] {
    const taken = new Set<number>();
    const had = keys.map((key) => {
      const place = this.places.get(key);
      if (place === undefined || taken.has(place)) return null;
      taken.add(place);
      return place;
    });
    return had.map((place, nth) => {
      if (place !== null) return place;
      let free = 0;
      while (taken.has(free)) free += 1;
      taken.add(free);
      this.places.set(keys[nth]!, free);
      return free;
    });
  }

  /** The place of a group in the plot; null: it is one of the others. */
  of(key: string): number | null {
    return this.places.get(key) ?? null;
  }
}

/** A group's own name among all groupings. */
export function colorKey(row: ReportRow, by: Grouping): string {
  return `${by}:${row.kind}:${processOf(row) || row.name}${isNumber(row.tid) ? `/${row.tid}` : ''}`;
}

/** A name that no other area has. */
function labelOf(row: ReportRow, by: Grouping): string {
  const name = nameOf(row, by);
  if (row.kind === 'group' && (by === 'process' || by === 'thread'))
    return `${name} ${by === 'thread' ? row.tid : row.pid}`;
  return row.kind === 'short-lived' ? `${name} (short-lived)` : name;
}

const NOTHING: { times: Times; used: Line } = { times: { begin_ns: '0', width_ns: 0, covered_ns: [] }, used: [] };

export interface WhoPlot {
  data: PlotData;
  /** Groups with an area, by their keys, with the numbers of their colours. */
  colors: ReadonlyMap<string, number>;
}

export interface WhoOptions {
  by: Grouping;
  divide: number;
  colors: GroupColors;
  kept: Kept | null;
}

export function whoPlot(report: Report, series: Series, { by, divide, colors, kept }: WhoOptions): WhoPlot {
  const rows = report.rows.filter(isGroup).slice(0, MOST_AREAS);
  const [{ times, used } = NOTHING] = report.hosts;
  const keys = rows.map((row) => colorKey(row, by));
  const places = colors.assign(keys);
  const lines: PlotLine[] = rows.map((row, nth) => ({
    label: labelOf(row, by),
    color: lineColor(places[nth]!),
    values: shareOf(row.points, times, divide),
    stacked: true,
  }));
  const others = used.map((all, at) =>
    all === null
      ? null
      : Math.max(
          0,
          rows.reduce((left, row) => left - (row.points[at] ?? 0), all),
        ),
  );
  lines.push({ label: 'others', color: cssColor('--iowait'), values: shareOf(others, times, divide), stacked: true });
  const peak = highestIn(times, series, rateOf(series.columns['busy_ns']?.max, series, divide));
  lines.push({ label: 'peak interval', color: cssColor('--dim'), values: peak, width: 1, dashed: true });
  const data = {
    times: timesOf(times),
    lines,
    gaps: holesOf({ ...measured(times, series), gaps: series.gaps }, kept),
  };
  return { data, colors: new Map(keys.map((key, nth) => [key, places[nth]!])) };
}

/** The points of a report. The interval that goes on beyond its end is in none of its rows, but it was measured. */
function measured(times: Times, series: Series): Times {
  const { width_ns, covered_ns } = times;
  const end = covered_ns.findLastIndex((ns) => ns > 0) + 1;
  const isOne = (covered_ns.length - end - 1) * width_ns < (series.kept?.interval_ns ?? 0);
  if (!isOne || !((series.covered_ns.at(-1) ?? 0) > 0)) return times;
  return { ...times, covered_ns: covered_ns.slice(0, end) };
}

/** The highest of a finer line in each point of a coarser one. */
export function highestIn(coarse: Times, fine: Times, values: Line): Line {
  const highest: Line = coarse.covered_ns.map(() => null);
  const [first, width] = [msOf(coarse.begin_ns), coarse.width_ns / 1e6];
  beginsOf(fine).forEach((ms, nth) => {
    const value = values[nth];
    const at = Math.floor((ms + fine.width_ns / 2e6 - first) / width);
    if (value === null || value === undefined || at < 0 || at >= highest.length) return;
    highest[at] = Math.max(highest[at] ?? value, value);
  });
  return highest;
}
