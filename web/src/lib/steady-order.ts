// The order of the fleet's rows, held still while someone is about to click one. In: sorted rows, whether to hold. Out: the same rows.
// Why: the busiest of a thousand hosts is another one each second, and a row that moves away under the pointer cannot be chosen.

export class SteadyOrder {
  private places = new Map<string, number>();
  private question = '';

  /** `question`: what the rows are sorted and searched by; another one gives another order at once. */
  of<T extends { id: string }>(rows: readonly T[], question: string, isHeld: boolean): readonly T[] {
    if (!isHeld || question !== this.question) {
      this.question = question;
      this.places = new Map(rows.map((row, at) => [row.id, at]));
      return rows;
    }
    // What is new comes last, in its own order.
    rows.forEach((row) => {
      if (!this.places.has(row.id)) this.places.set(row.id, this.places.size);
    });
    return [...rows].sort((a, b) => this.places.get(a.id)! - this.places.get(b.id)!);
  }
}
