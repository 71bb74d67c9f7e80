// Whether the receiver answers the questions of a view. In: each request that is answered, or not. Out: one word that every view shares.
// Why: views of the past have no stream whose loss would show it.
import { onAnswer } from './api';

/** A question that got no answer is asked again after this time. */
export const RETRY_MS = 4_000;

class Reach {
  isLost = $state(false);

  constructor() {
    onAnswer((came) => (this.isLost = !came));
  }
}

export const reach = new Reach();
