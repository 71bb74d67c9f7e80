// Colours for what is drawn on a canvas. In: a name, or the number of a line. Out: a plain colour, as it is on the screen or paper.
import charts from '../charts.json';
import { display } from './display.svelte';

/** Lines of a plot, apart from each other for colour-blind eyes too (after Okabe and Ito). */
export function lineColor(nth: number): string {
  return charts.lines[nth % charts.lines.length]![display.isDark ? 1 : 0]!;
}

const resolved = new Map<string, string>();

/** What a CSS variable means now. Canvas needs plain colours; `light-dark()` resolves only in a property. Once for each
 * scheme: each read makes the browser work out all styles. */
export function cssColor(name: string): string {
  const scheme = display.isDark ? 'dark' : 'light';
  const key = `${name} ${scheme}`;
  const known = resolved.get(key);
  if (known) return known;
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  // Before paper is made, the document still has the colours of the screen.
  probe.style.colorScheme = scheme;
  // A chart's colours are its data, where the system's own replace all others too.
  probe.style.setProperty('forced-color-adjust', 'none');
  probe.hidden = true;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  resolved.set(key, color);
  return color;
}
