// The page's clock. In: time. Out: a value that moves on once a second. Why: ages on screen grow without messages.

class Tick {
  nowMs = $state(Date.now());

  constructor() {
    setInterval(() => (this.nowMs = Date.now()), 1000);
  }
}

export const tick = new Tick();
