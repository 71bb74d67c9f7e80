// Which tasks are in the plot. In: the address and the grid. Out: keys with names. Why: live and history choose alike, and the
// choice is part of the link. A thread's key is `process/thread`.
import { route } from './route.svelte';

export interface Chosen {
  key: string;
  name: string;
}

export class Choice {
  private selected = $state.raw<Chosen | null>(null);

  /** Kept until taken out. */
  get kept(): Chosen[] {
    return (route.query['plot'] ?? '')
      .split(',')
      .filter((part) => part !== '')
      .map((part) => {
        const [key = '', ...name] = part.split('~');
        return { key, name: name.join('~') || key };
      });
  }

  /** What is kept, and the selected row. */
  get all(): Chosen[] {
    const { kept, selected } = this;
    const isShown =
      selected !== null && route.query['sel'] !== undefined && !kept.some((one) => one.key === selected.key);
    return isShown ? [...kept, selected] : kept;
  }

  get marked(): string[] {
    return this.kept.map((one) => one.key);
  }

  select(key: string, name: string): void {
    if (key.startsWith('group:')) this.selected = null;
    else if (this.selected?.key !== key || this.selected.name !== name) this.selected = { key, name };
  }

  toggle(key: string): void {
    const { kept } = this;
    const name = this.selected?.key === key ? this.selected.name : key;
    const rest = kept.filter((one) => one.key !== key);
    const next = rest.length < kept.length ? rest : [...kept, { key, name }];
    route.set({ plot: next.map((one) => `${one.key}~${one.name.replaceAll(/[,~]/g, ' ')}`).join(',') || undefined });
  }

  remove(key: string): void {
    if (this.kept.some((one) => one.key === key)) this.toggle(key);
    else route.set({ sel: undefined });
  }
}
