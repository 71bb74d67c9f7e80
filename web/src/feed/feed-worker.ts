// The work beside the page: stream, parse, keep, sort, filter. In: orders. Out: reports with flat arrays.
// Why: a snapshot of 10,000 threads is more than a frame's work; the page only draws the visible part.
import { apiUrl, ask, hostPath, ownShare, refusalOf, type Fleet, type Snapshot, type Spark } from '../lib/api';
import { COUNTER } from './columns';
import { headOf, joinable, roll } from './head';
import type { Order, Report } from './messages';
import { Stream } from './stream';
import { Tasks, type Task } from './tasks';
import { Texts, ViewMaker, type Spec, type View } from './view';

const MOST_OPEN = 64;
/** Steps that wait for an answer; a key that is held down makes no more. */
const MOST_STEPS = 8;

type Seek = 'before' | 'after';

/** Everything that the worker keeps: one subject, one stream, the tasks on screen. */
export class FeedWorker {
  private readonly stream: Pick<Stream, 'open' | 'stop' | 'retry'>;
  private readonly tasks = new Tasks();
  private readonly known = new Texts();
  /** For the agent's own use of CPU. */
  private before: Pick<Snapshot, 'boot' | 'end_ns' | 'summary'> | null = null;
  private spec: Spec = { layout: 'list', sort: 'cpu', descending: true, filter: '', open: [], hideIdle: false };
  private watched: string[] = [];
  private durationNs = 0;
  private spark: Spark | undefined;
  private subject: { live: string } | { host: string; endNs: string } | null = null;
  /** The question of the open stream or of the moment on screen. */
  private asked = '';
  /** End of the interval on screen. */
  private shownNs = '';
  /** From where a step goes: the interval on screen, or the moment that was asked for and has no data. */
  private fromNs = '';
  private steps: { host: string; seek: Seek }[] = [];
  private isFetching = false;
  private turn = 0;

  /** `streamOf`: how a stream is made; tests give one of their own. */
  constructor(
    private readonly post: (report: Report) => void,
    streamOf: (...listeners: ConstructorParameters<typeof Stream>) => Pick<Stream, 'open' | 'stop' | 'retry'> = (
      ...listeners
    ) => new Stream(...listeners),
  ) {
    this.stream = streamOf(
      (name, data) => this.take(name, data),
      (link) => this.post({ is: 'link', link }),
    );
  }

  async obey(order: Order): Promise<void> {
    switch (order.do) {
      case 'close':
        this.leave();
        this.stream.stop();
        return;
      case 'retry':
        this.stream.retry();
        return;
      case 'fleet':
        this.leave();
        this.spark = undefined;
        this.stream.open(apiUrl('fleet/live'));
        return;
      case 'live':
        this.leave();
        this.subject = { live: order.host };
        this.tasks.clear();
        this.listen(order.host, false);
        return;
      case 'moment':
        this.stream.stop();
        // Steps that came before anything was on screen go on from this moment; others are overtaken by it.
        if (this.fromNs !== '') this.steps = [];
        this.subject = { host: order.host, endNs: '' };
        await this.moment(order.host, { [order.seek]: order.ns });
        await this.advance();
        return;
      case 'step':
        if (this.steps.length < MOST_STEPS) this.steps.push({ host: order.host, seek: order.seek });
        await this.advance();
        return;
      case 'watch':
        this.watched = order.keys;
        return;
      case 'spec':
        this.spec = order.spec;
        if (this.durationNs > 0) this.post({ is: 'view', view: this.view() });
        await this.askForThreads();
        await this.advance();
    }
  }

  private leave(): void {
    this.subject = null;
    this.steps = [];
    this.shownNs = '';
    this.fromNs = '';
    this.turn += 1;
    this.isFetching = false;
  }

  /** Steps that wait, one after the other, each from where the one before came to. */
  private async advance(): Promise<void> {
    while (!this.isFetching && this.fromNs !== '') {
      const next = this.steps.shift();
      if (!next) return;
      this.stream.stop();
      this.subject = { host: next.host, endNs: '' };
      await this.moment(next.host, { [next.seek]: this.fromNs }, true);
    }
  }

  /** The threads that the rows on screen need. */
  private wanted(): string {
    if (this.spec.layout === 'threads') return 'all';
    return this.spec.open
      .filter((key) => this.tasks.processes.has(key))
      .slice(0, MOST_OPEN)
      .join(',');
  }

  private listen(host: string, carryOn: boolean): void {
    this.asked = this.wanted();
    this.stream.open(apiUrl(hostPath(host, 'live'), { threads: this.asked || undefined }), carryOn);
  }

  private async askForThreads(): Promise<void> {
    if (!this.subject || this.wanted() === this.asked) return;
    if ('live' in this.subject) this.listen(this.subject.live, true);
    else if (this.subject.endNs)
      await this.moment(this.subject.host, { at: (BigInt(this.subject.endNs) - 1n).toString() });
  }

  private async moment(host: string, query: Record<string, string>, isStep = false): Promise<void> {
    this.turn += 1;
    const mine = this.turn;
    this.asked = this.wanted();
    this.isFetching = true;
    const asked = { ...query, threads: this.asked || undefined, limit: 20_000 };
    const answer = await ask<Snapshot>(hostPath(host, 'at'), asked).catch(refusalOf);
    if (mine !== this.turn) return;
    this.isFetching = false;
    if ('status' in answer) {
      this.steps = [];
      if (answer.status !== 0) this.fromNs = query['at'] ?? this.fromNs;
      this.post({ is: 'problem', refusal: answer });
      return;
    }
    // The interval on screen, requested again (a pause, more threads): idle rows stay.
    const isSame = this.shownNs === answer.end_ns;
    this.subject = { host, endNs: answer.end_ns };
    this.show(answer, { follows: isSame, live: false, stepped: isStep });
    await this.askForThreads();
  }

  private take(name: string, data: string): void {
    if (name === 'fleet') {
      const fleet = JSON.parse(data) as Fleet;
      if (fleet.spark) this.spark = joinable(fleet.spark, fleet);
      else if (this.spark) this.spark = roll(this.spark, fleet);
      this.post({ is: 'fleet', fleet: this.spark ? { ...fleet, spark: this.spark } : fleet });
      return;
    }
    if (!this.subject || !('live' in this.subject)) return;
    this.show(JSON.parse(data) as Snapshot, { follows: true, live: true, stepped: false });
    void this.askForThreads();
  }

  private show(snapshot: Snapshot, how: { follows: boolean; live: boolean; stepped: boolean }): void {
    const { follows, ...came } = how;
    this.tasks.apply(snapshot, follows);
    this.shownNs = snapshot.end_ns;
    this.fromNs = snapshot.end_ns;
    this.durationNs = snapshot.duration_ns;
    const { boot, end_ns, summary } = snapshot;
    const own = this.before?.boot === boot ? ownShare(this.before, snapshot) : null;
    this.before = { boot, end_ns, summary };
    this.post({
      is: 'snapshot',
      head: headOf(snapshot, own),
      view: this.view(),
      watched: this.watched.map((key) => [key, this.runOf(key)]),
      ...came,
    });
  }

  private view(): View {
    return new ViewMaker(this.tasks, this.spec, this.durationNs, this.known).make();
  }

  /** Utilization of a watched process or thread, 100 = one CPU; NaN if it is not there. */
  private runOf(key: string): number {
    const [first = '', second] = key.split('/');
    const process = this.tasks.processes.get(first);
    const task: Task | undefined = second ? process?.threads.get(key) : process;
    return task && this.durationNs > 0 ? (task.counters[COUNTER.run_ns]! * 100) / this.durationNs : NaN;
  }
}
