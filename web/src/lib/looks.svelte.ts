// What the user's system and address say about the look. In: media queries, the address. Out: scheme and time zone.
import { route } from './route.svelte';
import type { Zone } from './format';

class Looks {
  isDark = $state(matchMedia('(prefers-color-scheme: dark)').matches);

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => (this.isDark = event.matches));
  }

  get zone(): Zone {
    return route.query['tz'] === 'utc' ? 'utc' : 'local';
  }
}

export const looks = new Looks();
