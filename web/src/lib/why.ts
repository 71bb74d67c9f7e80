// What *Why slow?* asks for. In: a row, a span, a moment. Out: settings of the address, and the question of the API. Why: an answer has a
// link, and every place of the page asks alike.
import { NO_GROUP } from '../feed/view';
import type { Query } from './api';
import { nsOf } from './format';
import { route } from './route.svelte';
import { spanOf, spanText, type Span } from './span';

/** The whole machine; other subjects are `BY:NAME`, as `within` of the API, and `process:PID`. */
export const MACHINE = 'machine';

/** Opens the dialog, for a span, else for the moment on screen; live for the last five minutes. */
export function askWhy(subject: string, span?: Span): void {
  route.set({ why: subject, when: span ? spanText(span) : route.query['at'] });
}

export const forgetWhy = (): void => route.set({ why: undefined, when: undefined });

/** What a row of the grid is asked as, by its key; empty: the machine. */
export function subjectOf(key: string): string {
  const [, layout, name = ''] = /^group:(\w+):(.*)$/s.exec(key) ?? [];
  if (layout === undefined) return key === '' ? MACHINE : `process:${key.split('-')[0] ?? ''}`;
  // In the tree the key of their parent comes first.
  if (layout === 'short') return `program:${name.replace(/^\d+-\d+:/, '')}`;
  return `${layout}:${name === NO_GROUP[layout] ? '(none)' : name}`;
}

/** The question for a subject and a time, as the address has both: a span in ms or a moment in ns. */
export function whyQuestion(subject: string, when: string): Query {
  const span = spanOf(when);
  const time = span
    ? { since: nsOf(span.sinceMs), until: nsOf(span.untilMs) }
    : { at: /^\d+$/.test(when) ? when : undefined };
  const [, by = '', name = ''] = /^(\w+):(.*)$/s.exec(subject) ?? [];
  // A program is asked for as people type it; a number would be a pid.
  if (by === 'process' || (by === 'program' && !/^\d*$/.test(name))) return { ...time, name };
  return { ...time, within: subject === MACHINE ? undefined : subject };
}
