// Colours for canvases. In: a name, or the number of a line. Out: a plain colour, as it is on the screen or paper. A
// caller draws again when the scheme changes.
import charts from '../charts.json';
import { display } from './display.svelte';

const named: Readonly<Record<string, readonly string[]>> = charts.colors;
const nth = (): number => (display.isDark ? 1 : 0);

/** Colours of lines. */
export const LINES = charts.lines.length;

/** Lines of a plot, apart from each other for colour-blind eyes too (after Okabe and Ito). */
export function lineColor(line: number): string {
  return charts.lines[line % LINES]![nth()]!;
}

/** A colour of charts.json as it is now. Not asked of the document: before paper is made it still has the colours of the
 * screen, and each such read makes the browser work out all styles. */
export function cssColor(name: string): string {
  return named[name]?.[nth()] ?? '#808080';
}
