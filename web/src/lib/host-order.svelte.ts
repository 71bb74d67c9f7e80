// Which hosts the table has, and in which order. In: the address. Out: search, order, selection. Why: the table of now and that of a
// moment are sorted and searched alike.
import type { Order } from './fleet';
import { route } from './route.svelte';

/** Columns that sort the smallest value first. */
const RISING: readonly string[] = ['name', 'top', 'agent', 'seen'];

class HostOrder implements Order {
  get filter(): string {
    return route.query['q'] ?? '';
  }

  get selected(): string {
    return route.query['sel'] ?? '';
  }

  private get word(): string {
    return route.query['sort'] ?? '-busy';
  }

  get sort(): string {
    return this.word.replace(/^-/, '');
  }

  get descending(): boolean {
    return this.word.startsWith('-');
  }

  setSort(id: string): void {
    const down = this.sort === id ? !this.descending : !RISING.includes(id);
    route.set({ sort: (down ? '-' : '') + id });
  }
}

export const hostOrder = new HostOrder();

/**
 * The order of the rows, held still while someone is about to click one: the busiest of a thousand hosts is another one each second, and a
 * row that moves away under the pointer cannot be chosen.
 */
export class SteadyOrder {
  private places = new Map<string, number>();
  private question = '';

  /** `question`: order and search of the rows; another one gives another order at once. */
  of<T extends { id: string }>(rows: readonly T[], question: string, isHeld: boolean): readonly T[] {
    if (!isHeld || question !== this.question) {
      this.question = question;
      this.places = new Map(rows.map((row, at) => [row.id, at]));
      return rows;
    }
    // New hosts come last, in their own order.
    rows.forEach((row) => {
      if (!this.places.has(row.id)) this.places.set(row.id, this.places.size);
    });
    return [...rows].sort((a, b) => this.places.get(a.id)! - this.places.get(b.id)!);
  }
}
