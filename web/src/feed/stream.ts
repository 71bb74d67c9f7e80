// One live stream at a time. In: an address. Out: its messages, and honest words about the connection.
// Why: EventSource hides why it failed; the page must distinguish "log in", "no such host" and "receiver lost".
import type { Link } from './messages';

const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 15_000;
/** The receiver sends a comment at least every 5 s, but EventSource does not show it; its own timeout is the socket's. */
const PROBE = '/api/v1/session';

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

  /** `carryOn`: same subject as before, so what was missed in between is asked for. */
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

/** `lost`: the receiver cannot be reached. `ended`: it can, and it would answer. */
async function reason(address: string): Promise<Link | 'lost' | 'ended'> {
  try {
    const session = await fetch(PROBE);
    if (session.status === 403 || session.status === 421) return { state: 'forbidden', detail: await detail(session) };
    const answer = await fetch(
      address.startsWith('/api/v1/fleet') ? '/api/v1/fleet?limit=1' : address.replace(/\/live.*$/, '/at?limit=1'),
    );
    if (answer.status === 401) return { state: 'login' };
    if (answer.status === 403) return { state: 'forbidden', detail: await detail(answer) };
    if (answer.status === 404) return { state: 'unknown', detail: await detail(answer) };
    if (answer.status === 409) return { state: 'several', detail: await detail(answer) };
    return 'ended';
  } catch {
    return 'lost';
  }
}

async function detail(answer: Response): Promise<string> {
  try {
    const body = (await answer.json()) as { detail?: unknown };
    return typeof body.detail === 'string' ? body.detail : '';
  } catch {
    return '';
  }
}
