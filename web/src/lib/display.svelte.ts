// How the page is shown: colour scheme and width from media queries, time zone from the address.
import { route } from './route.svelte';
import type { Zone } from './format';

class Display {
  isDark = $state(matchMedia('(prefers-color-scheme: dark)').matches);

  /** As wide as the styles' own turn from one column to more. */
  isNarrow = $state(matchMedia('(max-width: 760px)').matches);

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => (this.isDark = event.matches));
    matchMedia('(max-width: 760px)').addEventListener('change', (event) => (this.isNarrow = event.matches));
  }

  get zone(): Zone {
    return route.query['tz'] === 'utc' ? 'utc' : 'local';
  }
}

export const display = new Display();
