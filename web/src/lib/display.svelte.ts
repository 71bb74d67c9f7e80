// How the page is shown: on a screen or on paper, colour scheme of the system or the one that was chosen, width from media queries,
// time zone from the address.
import { flushSync } from 'svelte';
import { remembered } from './remembered.svelte';
import { route } from './route.svelte';
import type { Zone } from './format';

export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

class Display {
  private isSystemDark = $state(false);

  /** Paper is white, and as wide as it is. */
  isPrinting = $state(false);

  /** The width at which the styles change from one column to more. */
  isNarrow = $state(false);

  /** Less than a picture with many names needs. */
  isCompact = $state(false);

  constructor() {
    this.apply();
    // Canvases are drawn again before the browser takes the page: it waits for nothing that comes later.
    const print = (is: boolean): void => {
      this.isPrinting = is;
      flushSync();
    };
    addEventListener('beforeprint', () => print(true));
    addEventListener('afterprint', () => print(false));
    follow('print', print);
    follow('(prefers-color-scheme: dark)', (is) => (this.isSystemDark = is));
    follow('(max-width: 760px)', (is) => (this.isNarrow = is));
    follow('(max-width: 1000px)', (is) => (this.isCompact = is));
  }

  get theme(): Theme {
    return THEMES.find((theme) => theme === remembered.get('theme')) ?? 'system';
  }

  set theme(theme: Theme) {
    remembered.set('theme', theme === 'system' ? undefined : theme);
    this.apply();
  }

  get isDark(): boolean {
    return !this.isPrinting && this.isScreenDark;
  }

  /** The same for parts that cannot be drawn again for paper. */
  get isScreenDark(): boolean {
    return this.theme === 'system' ? this.isSystemDark : this.theme === 'dark';
  }

  /** A window in which seldom-used parts are folded. Paper folds nothing. */
  get isPhone(): boolean {
    return this.isNarrow && !this.isPrinting;
  }

  /** The colours of the document, before anything reads them. */
  private apply(): void {
    document.documentElement.dataset['theme'] = this.theme;
  }

  get zone(): Zone {
    return route.query['tz'] === 'utc' ? 'utc' : 'local';
  }

  /** Settings that links carry. */
  get keep(): { tz?: string } {
    return this.zone === 'utc' ? { tz: 'utc' } : {};
  }
}

/** Follows the result of a media query, now and from now on. */
function follow(query: string, set: (is: boolean) => void): void {
  const media = matchMedia(query);
  set(media.matches);
  media.addEventListener('change', ({ matches }) => set(matches));
}

export const display = new Display();
