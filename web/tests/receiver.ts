// A real receiver with a real agent, simulated hosts, and a process with a hostile name. In: the built programs. Out: an address,
// and ways to stop and start. Why: the page is tested against what users run; every process started here is ended here.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test as base, type Page } from '@playwright/test';

const target = join(import.meta.dirname, '../../target/debug');
export const CPUMON = process.env['CPUMON_BIN'] ?? join(target, 'cpumon');
const XTASK = process.env['CPUMON_XTASK'] ?? join(target, 'xtask');

const MAKER = process.env['CPUMON_PICTURE_STORE'] ?? join(target, 'examples/picture_store');

/** What a device could call its programs. */
export const SIMULATED = ['sim-00000', 'sim-00001', 'sim-00002'] as const;
export const HOSTILE = '<img src=x onerror="document.title=`owned`">';

export class Receiver {
  url = '';
  private udp = '';
  private serve: ChildProcess | null = null;
  private fleet: ChildProcess | null = null;
  private readonly others: ChildProcess[] = [];
  /** More words for `cpumon serve`. */
  protected readonly more: string[] = [];
  /** Of the program with a hostile name; another worker has one of the same name. */
  hostilePid = 0;
  readonly dir = mkdtempSync(join(tmpdir(), 'cpumon-page-'));

  /** Again at the same addresses, which may be held for a moment. */
  async start(): Promise<void> {
    const isFirst = this.url === '';
    for (let turn = 1; ; turn += 1) {
      try {
        return await this.begin();
      } catch (error) {
        if (isFirst || turn === 300) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  private async begin(): Promise<void> {
    const http = this.url === '' ? '127.0.0.1:0' : new URL(this.url).host;
    const udp = this.udp === '' ? '127.0.0.1:0' : this.udp;
    const args = [
      'serve',
      '--http',
      http,
      '--udp',
      udp,
      '--store',
      join(this.dir, 'store.sqlite'),
      '--interval',
      '500ms',
      ...this.more,
    ];
    // Changes of the page need no build of the receiver: CPUMON_WEB_DIR=dist.
    const { CPUMON_WEB_DIR: web } = process.env;
    if (web) args.push('--web-dir', web);
    this.serve = spawn(CPUMON, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const ready = await firstMatch(this.serve, /ready udp=(\S+) http=(\S+)/);
    this.udp = ready[1] ?? '';
    this.url = `http://${ready[2] ?? ''}`;
  }

  /** Id of the machine that the receiver itself measures. */
  local(): Promise<string> {
    return found('the local agent did not report', async () => {
      const answer = (await (await fetch(`${this.url}/api/v1/hosts`)).json()) as {
        hosts: { id: string; trust: string }[];
      };
      return answer.hosts.find((host) => host.trust === 'local')?.id;
    });
  }

  /** Waits until the store holds data of hosts of these names. */
  async hasStored(...names: readonly string[]): Promise<void> {
    await found('the store does not hold these hosts', async () => {
      const { hosts } = (await (await fetch(`${this.url}/api/v1/stored`)).json()) as {
        hosts: { hostname: string; last_ns?: string | null }[];
      };
      const known = new Set(hosts.filter((host) => host.last_ns).map((host) => host.hostname));
      return names.every((name) => known.has(name)) || undefined;
    });
  }

  /**
   * Waits until the store holds so many seconds of the local machine, and no gap in them: another test may have started the receiver again.
   * Gives the end of what it holds, in whole ms.
   */
  hasRecorded(seconds: number): Promise<number> {
    return this.holds(async (firstMs, lastMs, host) => {
      const beginMs = lastMs - seconds * 1000;
      return beginMs > firstMs && (await this.gapsEnd(host, lastMs)) <= beginMs;
    });
  }

  /** The end of the last gap of ten minutes, ms; 0: there is none. */
  private async gapsEnd(host: string, lastMs: number): Promise<number> {
    const ns = (ms: number): string => `${Math.ceil(ms)}000000`;
    const range = `since=${ns(lastMs - 600_000)}&until=${ns(lastMs)}`;
    const { gaps } = (await (await fetch(`${this.url}/api/v1/hosts/${host}/gaps?${range}`)).json()) as {
      gaps: { end_ns: string }[];
    };
    return Math.max(0, ...gaps.map((gap) => Number(gap.end_ns) / 1e6));
  }

  /** Waits until the store holds what the local machine did now: on a busy one it comes later. Gives that moment. */
  async hasRecordedNow(): Promise<number> {
    const now = Date.now();
    await this.holds((_, lastMs) => Promise.resolve(lastMs >= now));
    return now;
  }

  private async holds(enough: (firstMs: number, lastMs: number, host: string) => Promise<boolean>): Promise<number> {
    const host = await this.local();
    return found('the store does not hold what was waited for', async () => {
      const { kept } = (await (await fetch(`${this.url}/api/v1/hosts/${host}/series?points=10`)).json()) as {
        kept: { first_ns: string; last_ns: string } | null;
      };
      const lastMs = Number(kept?.last_ns ?? NaN) / 1e6;
      const isEnough = !Number.isNaN(lastMs) && (await enough(Number(kept?.first_ns) / 1e6, lastMs, host));
      return isEnough ? Math.floor(lastMs) : undefined;
    });
  }

  /** Key of a process that is at work: the receiver itself. Right after its start it is in no interval yet. */
  async someProcess(): Promise<string> {
    const newest = `${this.url}/api/v1/hosts/${await this.local()}/at?limit=20000`;
    return found('the receiver is not among the processes', async () => {
      const { processes } = (await (await fetch(newest)).json()) as {
        processes?: { columns: { key: string[]; pid: number[] } };
      };
      return processes?.columns.key[processes.columns.pid.indexOf(this.pid)];
    });
  }

  get pid(): number {
    return this.serve?.pid ?? 0;
  }

  async stop(): Promise<void> {
    const { serve } = this;
    this.serve = null;
    if (serve) await ended(serve, 'SIGTERM');
  }

  /** Three made-up hosts with 40 threads each. */
  simulate(): void {
    this.fleet = spawn(
      XTASK,
      ['simulate', '--hosts', '3', '--threads', '40', '--interval-ms', '500', '--seconds', '3600', '--to', this.udp],
      { stdio: 'ignore' },
    );
  }

  async silence(): Promise<void> {
    const { fleet } = this;
    this.fleet = null;
    if (fleet) await ended(fleet, 'SIGKILL');
  }

  /** A program that keeps a little busy under a name that is HTML. */
  hostile(): void {
    const program = join(this.dir, HOSTILE);
    copyFileSync('/bin/bash', program);
    const child = spawn(
      program,
      ['-c', 'exec 3<> <(:); while :; do for ((i = 0; i < 2000; i++)); do :; done; read -t 0.05 -u 3; done'],
      { stdio: 'ignore' },
    );
    this.hostilePid = child.pid ?? 0;
    this.others.push(child);
  }

  async close(): Promise<void> {
    await this.silence();
    for (const child of this.others) await ended(child, 'SIGKILL');
    await this.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A receiver that only has a past, which is the same each time. */
export class PastReceiver extends Receiver {
  protected override readonly more = ['--no-agent', '--retain-days', '0'];

  make(...what: string[]): void {
    execFileSync(MAKER, [join(this.dir, 'store.sqlite'), ...what]);
  }
}

/** A receiver whose own agent measures wait reasons too: it needs root. */
export class ProbingReceiver extends Receiver {
  protected override readonly more = ['--probes', 'sched,waits'];
}

/** A receiver that wants a login on loopback too. */
export class LockedReceiver extends Receiver {
  private readonly tokens = join(this.dir, 'login-tokens');
  protected override readonly more = ['--login', '--login-tokens', this.tokens];

  /** Makes a token and gives it. */
  async token(label: string): Promise<string> {
    const child = spawn(CPUMON, ['login-token', 'add', label, '--login-tokens', this.tokens], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return (await firstMatch(child, /^(\S{20,})$/m))[1] ?? '';
  }

  /** Id of the machine that it measures, asked with a token. */
  hostId(token: string): Promise<string> {
    return found('the local agent did not report', async () => {
      const answer = (await (
        await fetch(`${this.url}/api/v1/hosts`, { headers: { authorization: `Bearer ${token}` } })
      ).json()) as { hosts?: { id: string }[] };
      return answer.hosts?.[0]?.id;
    });
  }

  async revoke(label: string): Promise<void> {
    const child = spawn(CPUMON, ['login-token', 'revoke', label, '--login-tokens', this.tokens], { stdio: 'ignore' });
    await new Promise((resolve) => child.on('exit', resolve));
  }
}

/** Asks until there is an answer: on a busy machine it comes later. */
async function found<T>(otherwise: string, ask: () => Promise<T | undefined>): Promise<T> {
  for (let turn = 0; turn < 600; turn += 1) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(otherwise);
}

function firstMatch(child: ChildProcess, pattern: RegExp): Promise<RegExpMatchArray> {
  return new Promise((resolve, reject) => {
    let seen = '';
    const search = (chunk: Buffer): void => {
      seen += chunk.toString();
      const match = seen.match(pattern);
      if (match) resolve(match);
    };
    child.stdout?.on('data', search);
    child.stderr?.on('data', search);
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`ended with ${code}: ${seen}`)));
  });
}

function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.on('exit', () => resolve());
    child.kill(signal);
  });
}

/** What the browser complained about: a page without faults logs nothing, and sends requests to no other site. */
export class Complaints {
  readonly texts: string[] = [];

  constructor(page: Page, origin: string) {
    page.on('pageerror', (error) => this.texts.push(`error: ${error.message}`));
    page.on('console', (message) => {
      // A browser reports each failed request; tests that cause one check the page's own message.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
        this.texts.push(message.text());
    });
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (url.origin !== origin && url.protocol !== 'blob:' && url.protocol !== 'data:')
        this.texts.push(`asked elsewhere: ${request.url()}`);
    });
  }
}

export const test = base.extend<{ complaints: Complaints }, { receiver: Receiver }>({
  receiver: [
    async ({}, use) => {
      const receiver = new Receiver();
      await receiver.start();
      receiver.hostile();
      receiver.simulate();
      await use(receiver);
      await receiver.close();
    },
    { scope: 'worker' },
  ],
  complaints: [
    async ({ page, receiver }, use) => {
      const complaints = new Complaints(page, receiver.url);
      await use(complaints);
      base.expect(complaints.texts).toEqual([]);
    },
    { auto: true },
  ],
});

/** With a receiver that wants a login, and no session. */
export const lockedTest = base.extend<{ complaints: Complaints }, { locked: LockedReceiver }>({
  locked: [
    async ({}, use) => {
      const locked = new LockedReceiver();
      await locked.token('somebody');
      await locked.start();
      await use(locked);
      await locked.close();
    },
    { scope: 'worker' },
  ],
  complaints: [
    async ({ page, locked }, use) => {
      const complaints = new Complaints(page, locked.url);
      await use(complaints);
      base.expect(complaints.texts).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect } from '@playwright/test';
