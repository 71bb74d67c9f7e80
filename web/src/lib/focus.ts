// The keyboard's place. In: the focused element, and removed elements. Out: the focus on the nearest element that is left. Why: a
// browser gives the focus of a removed element to the body, and users without a mouse would begin again at the top of the page.

const FOCUSABLE =
  'a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), [tabindex]:not([tabindex="-1"])';
/** Where a view is read again, its rows come later than it does. */
const WAIT_MS = 60_000;

interface Held {
  element: HTMLElement;
  /** Its ancestors, the nearest first, and its place among the focusable elements of each. */
  around: readonly { box: Element; nth: number }[];
}

const focusables = (box: Element): HTMLElement[] => Array.from(box.querySelectorAll<HTMLElement>(FOCUSABLE));

function held(element: HTMLElement): Held {
  const around = [];
  // Beyond the view there is only the page.
  for (let box = element.parentElement; box && !box.matches('main, body'); box = box.parentElement)
    around.push({ box, nth: focusables(box).indexOf(element) });
  return { element, around };
}

/** Finds an element again in a view that is drawn again; empty: nothing finds it. */
export function selectorOf(element: Element | null): string {
  if (!element?.closest('main') || element.matches('main')) return '';
  if (element.id !== '') return `#${CSS.escape(element.id)}`;
  const role = element.getAttribute('role');
  if (role === 'treegrid') return '[role=treegrid]';
  const label = element.getAttribute('aria-label');
  const href = element.getAttribute('href');
  if (href !== null) return `a[href="${CSS.escape(href)}"]`;
  return label === null ? '' : `${element.localName}[aria-label="${CSS.escape(label)}"]`;
}

class Focus {
  private last: Held | null = null;
  private stopWaiting: () => void = () => undefined;

  /** Follows the focus from now on. */
  follow(): () => void {
    const note = (event: FocusEvent): void => {
      if (event.target instanceof HTMLElement) this.last = held(event.target);
    };
    // Before the key moves the focus; and after the effect of a key or click.
    const later = (): void => void setTimeout(() => this.keep());
    const key = (): void => {
      this.keep();
      later();
    };
    document.addEventListener('focusin', note);
    addEventListener('keydown', key, true);
    addEventListener('click', later, true);
    return () => {
      document.removeEventListener('focusin', note);
      removeEventListener('keydown', key, true);
      removeEventListener('click', later, true);
      this.stopWaiting();
    };
  }

  /** If the focused element is gone or disabled: focuses the one in its place, else the view. */
  keep(): void {
    const { last } = this;
    if (!last || document.activeElement !== document.body) return;
    if (last.element.isConnected && !last.element.matches(':disabled')) return;
    this.last = null;
    const place = last.around.find(({ box }) => box.isConnected && box.closest('main') && focusables(box).length > 0);
    const all = place ? focusables(place.box) : [];
    const next = all[Math.min(Math.max(place?.nth ?? 0, 0), all.length - 1)];
    (next ?? document.getElementById('main'))?.focus({ preventScroll: true });
  }

  /** Gives the focus to an element as soon as it is there, unless the user has moved it meanwhile. */
  giveTo(selector: string): void {
    this.stopWaiting();
    if (selector === '') return;
    const give = (): boolean => {
      const element = document.querySelector<HTMLElement>(`main ${selector}`);
      element?.focus({ preventScroll: true });
      return element !== null;
    };
    const before = document.activeElement;
    const observer = new MutationObserver(() => {
      const now = document.activeElement;
      const isLost = now === document.body || now?.id === 'main';
      if (isLost ? give() : now !== before) this.stopWaiting();
    });
    const timer = setTimeout(() => this.stopWaiting(), WAIT_MS);
    this.stopWaiting = () => {
      clearTimeout(timer);
      observer.disconnect();
    };
    observer.observe(document.body, { childList: true, subtree: true });
  }
}

export const focus = new Focus();
