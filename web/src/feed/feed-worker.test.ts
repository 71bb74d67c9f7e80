import { afterEach, expect, it, vi } from 'vitest';
import { FeedWorker } from './feed-worker';
import type { Report } from './messages';

const SECOND = 1_000_000_000n;
const end = (second: number): string => (BigInt(second) * SECOND).toString();

function snapshot(second: number, ownCpuNs?: number): string {
  return JSON.stringify({
    host: 'a',
    hostname: 'kitchen',
    boot: 'b',
    begin_ns: end(second - 1),
    end_ns: end(second),
    end_ms: second * 1000,
    duration_ns: 1e9,
    fields: [],
    flags: [],
    summary: ownCpuNs === undefined ? {} : { own_cpu_ns: ownCpuNs },
    cpus: { columns: {}, rows: 0, total: 0 },
    processes: { columns: { key: ['7-1'], run_ns: [250_000_000] }, rows: 1, total: 1 },
    threads: [],
  });
}

class FakeStream {
  opened: string[] = [];
  stops = 0;
  take: (event: string, data: string) => void = () => undefined;
  open(address: string): void {
    this.opened.push(address);
  }
  retry(): void {}
  stop(): void {
    this.stops += 1;
  }
}

function started() {
  const [reports, stream] = [[] as Report[], new FakeStream()];
  const worker = new FeedWorker(
    (report) => reports.push(report),
    (onMessage) => {
      stream.take = onMessage;
      return stream;
    },
  );
  const shown = () => reports.flatMap((report) => (report.is === 'snapshot' ? [report] : []));
  return { worker, stream, reports, shown };
}

/** Answers to `/at`: the interval that is asked for, by second; null: no data then. */
function answers(of: (query: URLSearchParams) => number | null): string[] {
  const asked: string[] = [];
  vi.stubGlobal('fetch', async (url: string) => {
    const query = new URL(url, 'http://x').searchParams;
    asked.push(
      ['at', 'before', 'after'].flatMap((word) => (query.get(word) ? [`${word} ${query.get(word)}`] : [])).join(),
    );
    const second = of(query);
    return second === null
      ? Response.json({ title: 'None', detail: 'no data', before_ns: end(3) }, { status: 404 })
      : new Response(snapshot(second));
  });
  return asked;
}

afterEach(() => vi.unstubAllGlobals());

it('shows what a stream brings, with the watched tasks and the own cost of the agent', async () => {
  const { worker, stream, shown } = started();
  await worker.obey({ do: 'watch', keys: ['7-1', '9-9'] });
  await worker.obey({ do: 'live', host: 'kitchen' });
  expect(stream.opened).toEqual(['/api/v1/hosts/kitchen/live']);
  stream.take('snapshot', snapshot(5, 1_000_000));
  stream.take('snapshot', snapshot(6, 3_000_000));
  stream.take('snapshot', snapshot(9, 9_000_000));
  expect(shown().map((one) => one.head.ownPct)).toEqual([null, 0.2, null]);
  expect(shown()[0]!.watched).toEqual([
    ['7-1', 25],
    ['9-9', NaN],
  ]);
});

it('ignores what still comes of a stream that was left', async () => {
  const { worker, stream, shown } = started();
  await worker.obey({ do: 'live', host: 'kitchen' });
  await worker.obey({ do: 'close' });
  stream.take('snapshot', snapshot(5));
  expect(shown()).toEqual([]);
});

it('goes step by step from what is on screen, and drops no press of a key', async () => {
  const asked = answers((query) => Number(BigInt(query.get('at') ?? query.get('after') ?? '0') / SECOND) + 1);
  const { worker, shown } = started();
  const moment = worker.obey({ do: 'moment', host: 'a', seek: 'at', ns: end(4) });
  const steps = [1, 2].map(() => worker.obey({ do: 'step', host: 'a', seek: 'after' }));
  await Promise.all([moment, ...steps]);
  expect(asked).toEqual([`at ${end(4)}`, `after ${end(5)}`, `after ${end(6)}`]);
  expect(shown().map((one) => [one.head.end_ns, one.stepped])).toEqual([
    [end(5), false],
    [end(6), true],
    [end(7), true],
  ]);
});

it('names the neighbours of a moment without data, and steps on from it', async () => {
  const asked = answers((query) => (query.get('at') ? null : 3));
  const { worker, reports, shown } = started();
  await worker.obey({ do: 'moment', host: 'a', seek: 'at', ns: end(10) });
  expect(reports.at(-1)).toMatchObject({
    is: 'problem',
    refusal: { status: 404, detail: 'no data', before_ns: end(3), after_ns: '' },
  });
  await worker.obey({ do: 'step', host: 'a', seek: 'before' });
  expect(asked.at(-1)).toBe(`before ${end(10)}`);
  expect(shown().at(-1)!.head.end_ns).toBe(end(3));
});

it('forgets a moment that was overtaken by another one', async () => {
  answers((query) => Number(BigInt(query.get('at')!) / SECOND));
  const { worker, shown } = started();
  await Promise.all([4, 8].map((second) => worker.obey({ do: 'moment', host: 'a', seek: 'at', ns: end(second) })));
  expect(shown().map((one) => one.head.end_ns)).toEqual([end(8)]);
});

it('says that the receiver is lost where nothing answers', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new Error('refused')));
  const { worker, reports } = started();
  await worker.obey({ do: 'moment', host: 'a', seek: 'at', ns: end(4) });
  expect(reports.at(-1)).toMatchObject({ is: 'problem', refusal: { status: 0, title: 'Receiver lost' } });
});
