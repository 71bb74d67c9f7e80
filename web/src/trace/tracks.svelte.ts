// Data of the picture: the answer for the window, and behind it one for the whole trace. In: windows as they change. Out: the newest
// answers. Why: a picture is never empty while the next answer is on its way, and one question is on its way at a time.
import { apiUrl, ask, refusalOf, type Refusal, type TraceThread, type TraceTracks } from '../lib/api';
import { questionFor, serves, type Question, type Span } from './window';

export interface Wanted {
  span: Span;
  width: number;
  bounds: Span;
  cpus: string;
  threads: string;
}

/** Names are of threads, which stay what they are: those of all answers together. */
const MOST_NAMES = 20_000;

export class Tracks {
  answer = $state.raw<TraceTracks | null>(null);
  whole = $state.raw<TraceTracks | null>(null);
  refusal = $state.raw<Refusal | null>(null);
  readonly names = new Map<number, TraceThread>();
  private wanted: Wanted | null = null;
  private answered: (Question & { cpus: string; threads: string }) | null = null;
  private isAsking = false;
  private isOver = false;

  constructor(
    private readonly path: string,
    private readonly part: string | undefined,
  ) {}

  /** Requests the current window. Returns at once; the answer comes later. */
  want(wanted: Wanted): void {
    this.wanted = wanted;
    if (!this.isAsking) void this.follow();
  }

  stop(): void {
    this.isOver = true;
  }

  private isServed({ span, width, bounds, cpus, threads }: Wanted): boolean {
    const { answered } = this;
    return (
      answered !== null &&
      answered.cpus === cpus &&
      answered.threads === threads &&
      serves(answered, span, width, bounds)
    );
  }

  private async follow(): Promise<void> {
    this.isAsking = true;
    try {
      while (!this.isOver && this.wanted && !this.isServed(this.wanted)) {
        const { span, width, bounds, cpus, threads } = this.wanted;
        const question = questionFor(span, width, bounds);
        const answer = await this.ask({ ...question, cpus, threads });
        this.answered = { ...question, cpus, threads };
        this.answer = answer;
        this.refusal = null;
      }
    } catch (error) {
      this.refusal = refusalOf(error);
    }
    this.isAsking = false;
  }

  private async ask(query: Question & { cpus: string; threads: string; all?: string }): Promise<TraceTracks> {
    const answer = await ask<TraceTracks>(`${this.path}/tracks`, { ...query, part: this.part });
    if (this.names.size > MOST_NAMES) this.names.clear();
    for (const names of answer.names) this.names.set(names.thread, names);
    return answer;
  }

  /** All of the trace, for the strip on top and behind every window. */
  async askWhole(bounds: Span, width: number, cpus: string): Promise<void> {
    try {
      const question = questionFor(bounds, width, bounds);
      this.whole = await this.ask({ ...question, cpus, threads: '', all: 'true' });
    } catch (error) {
      this.refusal = refusalOf(error);
    }
  }

  exportUrl(span: Span): string {
    return apiUrl(`${this.path}/export`, { from_ns: span.from, until_ns: span.until });
  }
}
