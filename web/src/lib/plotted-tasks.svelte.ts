// The tasks in the plot. In: the address and the grid. Out: keys with names. Why: Live and History share the selection, and it is
// part of the link. A thread's key is `process/thread`.
import { route } from './route.svelte';

export interface PlottedTask {
  key: string;
  name: string;
}

export class PlottedTasks {
  private selected = $state.raw<PlottedTask | null>(null);

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
