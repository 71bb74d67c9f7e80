// What jsdom lacks of a browser, for tests of components: media queries, sizes, observers of sizes, modal dialogs. And how long tests wait.
import { configure } from '@testing-library/svelte';

// What is tested is what happens, not when.
configure({ asyncUtilTimeout: 30_000 });

if (typeof window !== 'undefined') {
  window.matchMedia = (query) =>
    ({
      matches: false,
      media: query,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
    }) as never;
  window.ResizeObserver = class {
    observe(): void {}
    unobserve(): void {}
    disconnect(): void {}
  };
  // jsdom has no layout: every element is as large as a usual window.
  Object.defineProperty(HTMLElement.prototype, 'clientHeight', { get: () => 600, configurable: true });
  Object.defineProperty(HTMLElement.prototype, 'clientWidth', { get: () => 1400, configurable: true });
  HTMLDialogElement.prototype.showModal = function (): void {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function (): void {
    this.open = false;
    this.dispatchEvent(new Event('close'));
  };
}
