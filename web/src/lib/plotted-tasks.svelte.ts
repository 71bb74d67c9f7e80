// The content of the plot: tasks, and in Live its length and whether it shows the run queue. In: the address and the grid. Out: keys
// with names. Why: Live and History share the selection, and it is part of the link. A thread's key is `process/thread`.
import { route } from './route.svelte';

export interface PlottedTask {
  key: string;
  name: string;
}

/** Spans of the live plot, s. */
export const LIVE_SPANS = [
  [60, '1 min', '1 m'],
  [300, '5 min', '5 m'],
  [900, '15 min', '15 m'],
  [3600, '1 h', '1 h'],
] as const;
const USUAL_SPAN = 300;

export class PlottedTasks {
  private selected = $state.raw<PlottedTask | null>(null);

  get spanS(): number {
    return LIVE_SPANS.find(([seconds]) => seconds === Number(route.query['span']))?.[0] ?? USUAL_SPAN;
  }

  set spanS(seconds: number) {
    route.set({ span: seconds === USUAL_SPAN ? undefined : String(seconds) });
  }

  /** Whether it shows the run queue, not CPU use. */
  get asQueue(): boolean {
    return route.query['chart'] === 'queue';
  }

  toggleQueue(): void {
    route.set({ chart: this.asQueue ? undefined : 'queue' });
  }

  /** Pinned with `m`, until removed. */
  get pinned(): PlottedTask[] {
    return (route.query['plot'] ?? '')
      .split(',')
      .filter((part) => part !== '')
      .map((part) => {
        const [key = '', ...name] = part.split('~');
        return { key, name: name.join('~') || key };
      });
  }

  /** The pinned tasks, and the selected row. */
  get all(): PlottedTask[] {
    const { pinned, selected } = this;
    const isShown =
      selected !== null && route.query['sel'] !== undefined && !pinned.some((one) => one.key === selected.key);
    return isShown ? [...pinned, selected] : pinned;
  }

  get marked(): string[] {
    return this.pinned.map((one) => one.key);
  }

  select(key: string, name: string): void {
    if (key.startsWith('group:')) this.selected = null;
    else if (this.selected?.key !== key || this.selected.name !== name) this.selected = { key, name };
  }

  toggle(key: string): void {
    const { pinned } = this;
    const name = this.selected?.key === key ? this.selected.name : key;
    const rest = pinned.filter((one) => one.key !== key);
    const next = rest.length < pinned.length ? rest : [...pinned, { key, name }];
    route.set({ plot: next.map((one) => `${one.key}~${one.name.replaceAll(/[,~]/g, ' ')}`).join(',') || undefined });
  }

  remove(key: string): void {
    if (this.pinned.some((one) => one.key === key)) this.toggle(key);
    else route.set({ sel: undefined });
  }
}
