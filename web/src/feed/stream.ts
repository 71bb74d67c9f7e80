// One live stream at a time. In: an address. Out: its messages, and honest words about the connection.
// Why: EventSource hides why it failed; the page must distinguish "log in", "no such host" and "receiver lost".
import { ask, refusalOf } from '../lib/api';
import type { Link } from './messages';

const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 15_000;

export class Stream {
  private source: EventSource | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private retryMs = FIRST_RETRY_MS;
  private address = '';
  private lastId = '';

  constructor(
    private readonly onMessage: (event: string, data: string) => void,
    private readonly onLink: (link: Link) => void,
  ) {}

  /** `carryOn`: same subject as before, so missed messages are requested. */
  open(address: string, carryOn = false): void {
    this.stop();
    this.address = address;
    if (!carryOn) this.lastId = '';
    this.onLink({ state: 'connecting' });
    this.connect();
  }

  /** Does not wait any longer. */
  retry(): void {
    this.open(this.address, true);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  private connect(): void {
    const joint = this.address.includes('?') ? '&' : '?';
    const resume = this.lastId ? `${joint}last_event_id=${encodeURIComponent(this.lastId)}` : '';
    const source = new EventSource(this.address + resume);
    this.source = source;
    source.onopen = () => {
      this.retryMs = FIRST_RETRY_MS;
      this.onLink({ state: 'live' });
    };
    for (const name of ['snapshot', 'fleet']) {
      source.addEventListener(name, (event) => {
        const message = event as MessageEvent<string>;
        this.lastId = message.lastEventId;
        this.onMessage(name, message.data);
      });
    }
    source.onerror = () => {
      if (this.source !== source) return;
      source.close();
      void this.findOut();
    };
  }

  /** Why the stream broke, and when to try again. */
  private async findOut(): Promise<void> {
    const address = this.address;
    const found = await reason(address);
    if (this.address !== address || this.source?.readyState !== EventSource.CLOSED) return;
    if (found === 'ended') {
      // The receiver is there: it closes streams from time to time.
      this.onLink({ state: 'connecting' });
    } else if (found !== 'lost') {
      this.onLink(found);
      if (found.state !== 'unknown') return;
    }
    const wait = this.retryMs;
    this.retryMs = Math.min(this.retryMs * 2, LAST_RETRY_MS);
    if (found === 'lost') this.onLink({ state: 'lost', retryMs: Date.now() + wait });
    this.timer = setTimeout(() => this.connect(), wait);
  }
}

/** State of a stream by the status of the answer to the same question. */
const REFUSED: Readonly<Record<number, Extract<Link, { detail: string }>['state']>> = {
  401: 'login',
  403: 'forbidden',
  404: 'unknown',
  409: 'several',
  421: 'forbidden',
};

/** `lost`: the receiver cannot be reached. `ended`: it can, and it would answer. */
async function reason(address: string): Promise<Link | 'lost' | 'ended'> {
  try {
    await ask('session');
    const path = address.replace('/api/v1/', '').replace(/\/live.*$/, '');
    await ask(path === 'fleet' ? path : `${path}/at`, { limit: 1 });
    return 'ended';
  } catch (error) {
    const { status, why } = refusalOf(error);
    if (status === 0) return 'lost';
    const state = REFUSED[status];
    return state ? { state, detail: why } : 'ended';
  }
}
