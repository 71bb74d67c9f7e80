// The limits at which a mark or a colour changes. In: the receiver's answer to /session. Out: the same for every view.
// Why: command line, exports and page must draw the line at the same value.
import type { Limits } from './api';

class ReceiverLimits {
  /** Null until the receiver has answered. */
  known = $state.raw<Limits | null>(null);
}

export const limits = new ReceiverLimits();
