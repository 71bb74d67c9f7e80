// The plot by who ran. In: a report with points over time. Out: areas of its largest groups and of all others. Why: the colour of a
// group is the same in plot and table, and stays while one zooms.
import type { Line, Report, Series } from './api';
import { cssColor, lineColor } from './colors';
import { MOST_AREAS } from './modes';
import { holesOf, type Kept, rateOf, shareOf, timesOf } from './shares';
import { isGroup, nameOf, rowsOf, type Grouping, type ReportRow } from './report';
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
  return `${by}:${row.kind}:${row.process || row.name}${Number.isNaN(row.tid) ? '' : `/${row.tid}`}`;
}

/** A name that no other area has. */
function labelOf(row: ReportRow, by: Grouping): string {
  const name = nameOf(row, by);
  if (row.kind === 'group' && (by === 'process' || by === 'thread'))
    return `${name} ${by === 'thread' ? row.tid : row.pid}`;
  return row.kind === 'short-lived' ? `${name} (short-lived)` : name;
}

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
  const rows = rowsOf(report).filter(isGroup).slice(0, MOST_AREAS);
  const keys = rows.map((row) => colorKey(row, by));
  const places = colors.assign(keys);
  const lines: PlotLine[] = rows.map((row, nth) => ({
    label: labelOf(row, by),
    color: lineColor(places[nth]!),
    values: shareOf(row.points, report, divide),
    stacked: true,
  }));
  const others = report.used_points.map((used, at) =>
    used === null
      ? null
      : Math.max(
          0,
          rows.reduce((left, row) => left - (row.points[at] ?? 0), used),
        ),
  );
  lines.push({ label: 'others', color: cssColor('--iowait'), values: shareOf(others, report, divide), stacked: true });
  const peak = highestIn(report, series, rateOf(series.columns['busy_ns']?.max, series, divide));
  lines.push({ label: 'peak interval', color: cssColor('--dim'), values: peak, width: 1, dashed: true });
  const data = {
    times: timesOf(report),
    lines,
    gaps: holesOf({ ...measured(report, series), gaps: series.gaps }, kept),
  };
  return { data, colors: new Map(keys.map((key, nth) => [key, places[nth]!])) };
}

/** The points of a report. The interval that goes on beyond its end is in none of its rows, but it was measured. */
function measured(report: Report, series: Series): Pick<Report, 't_ms' | 'width_ns' | 'covered_ns'> {
  const { t_ms, width_ns, covered_ns } = report;
  const end = covered_ns.findLastIndex((ns) => ns > 0) + 1;
  const isOne = (covered_ns.length - end - 1) * width_ns < (series.kept?.interval_ns ?? 0);
  if (!isOne || !((series.covered_ns.at(-1) ?? 0) > 0)) return report;
  return { t_ms: t_ms.slice(0, end), width_ns, covered_ns: covered_ns.slice(0, end) };
}

/** The highest of a finer line in each point of a coarser one. */
export function highestIn(
  coarse: Pick<Report, 't_ms' | 'width_ns'>,
  fine: Pick<Series, 't_ms' | 'width_ns'>,
  values: Line,
): Line {
  const highest: Line = coarse.t_ms.map(() => null);
  const [first = 0, width] = [coarse.t_ms[0], coarse.width_ns / 1e6];
  fine.t_ms.forEach((ms, nth) => {
    const value = values[nth];
    const at = Math.floor((ms + fine.width_ns / 2e6 - first) / width);
    if (value === null || value === undefined || at < 0 || at >= highest.length) return;
    highest[at] = Math.max(highest[at] ?? value, value);
  });
  return highest;
}
