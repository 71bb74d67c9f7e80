// The text of a grid's cells, of all rows as CSV, and of their number. In: a view and a row's number. Out: text, ready to be drawn. Why:
// only rows on screen are formatted, and the rules (no data, unit, marks) can be tested without a browser.
import { count, duration, fixed, mean, nameText, NO_DATA, percent, rate, share, visible } from '../lib/format';
import {
  type GridColumn,
  INTERPRETER,
  NUMBER_AT,
  NUMBERS,
  SCHEDULING,
  TEXT_AT,
  TEXTS,
  WAIT_SHARE,
} from '../feed/columns';
import { waitWords } from '../lib/receiver.svelte';
import { waitText } from '../lib/waits';
import {
  BORN,
  ENDED,
  EXPANDABLE,
  IS_GROUP,
  IS_THREAD,
  ODD,
  OPEN,
  type Layout,
  type Spec,
  type View,
} from '../feed/view';

export type PercentUnit = 'cpu' | 'host';

export interface RowText {
  at: number;
  key: string;
  owner: string;
  depth: number;
  isThread: boolean;
  isGroup: boolean;
  /** null: there is nothing to open. */
  isOpen: boolean | null;
  /** `+` began, `†` ended, `‡` both in this interval, `!` odd figures. */
  mark: string;
  markHelp: string;
  /** The interpreter of the script after which the row is named, and its scheduling where that is not the default. */
  beside: string;
  ended: boolean;
  /** `more`: the text with its hidden part. */
  cells: { text: string; isNone: boolean; isZero: boolean; more?: string }[];
  /** 0..1, of the %CPU bar. */
  share: number;
}

export function valueAt(view: View, row: number, column: string): number {
  const at = NUMBER_AT.get(column);
  return at === undefined ? NaN : view.numbers[row * NUMBERS + at]!;
}

export function textAt(view: View, texts: readonly string[], row: number, column: string): string {
  const at = TEXT_AT.get(column);
  return at === undefined ? '' : (texts[view.texts[row * TEXTS + at]!] ?? '');
}

/** How the numbers of a row are shown. */
export interface RowUnit {
  unit: PercentUnit;
  cpus: number;
  isThread: boolean;
}

export function cellText(column: GridColumn, value: number, { unit, cpus, isThread }: RowUnit): string {
  switch (column.format) {
    case 'share':
      return share(unit === 'host' && cpus > 0 ? value / cpus : value);
    case 'threads':
      // Not CPU time, so it is never a part of the host: of a thread a part of the interval, else a number of threads.
      return isThread ? percent(value) : mean(value);
    case 'per_s':
      return rate(value);
    case 'ns':
      return duration(value);
    case 'plain':
      // No limit.
      if (value === Infinity) return '';
      if (column.id === 'limit') return fixed(value, 2);
      if (column.id === 'threads') return count(value);
      return Number.isNaN(value) ? NO_DATA : Math.abs(value) > 9_999 ? String(value) : count(value).replace(',', '');
    case 'text':
      return '';
  }
}

export function rowText(
  view: View,
  texts: readonly string[],
  row: number,
  columns: readonly GridColumn[],
  unit: PercentUnit,
  cpus: number,
  largest: number,
): RowText {
  const marks = view.marks[row]!;
  const run = valueAt(view, row, 'cpu');
  const odd = texts[view.flags[row]!] ?? '';
  const isThread = (marks & IS_THREAD) !== 0;
  return {
    at: row,
    key: texts[view.keys[row]!] ?? '',
    owner: texts[view.owners[row]!] ?? '',
    depth: view.depths[row]!,
    isThread,
    isGroup: (marks & IS_GROUP) !== 0,
    isOpen: marks & EXPANDABLE ? (marks & OPEN) !== 0 : null,
    mark: markOf(marks),
    markHelp: markHelp(marks, odd),
    beside: besideOf(textAt(view, texts, row, INTERPRETER), textAt(view, texts, row, SCHEDULING)),
    ended: (marks & ENDED) !== 0,
    share: run > 0 && largest > 0 ? Math.min(run / largest, 1) : 0,
    cells: columns.map((column) => {
      if (column.format === 'text') {
        const of = textAt(view, texts, row, column.id);
        if (column.id === 'wait') {
          const part = valueAt(view, row, WAIT_SHARE);
          const [text, more] = [waitText(waitWords.short(of), part), waitText(waitWords.full(of), part)];
          return { text, isNone: of === '', isZero: false, more };
        }
        const text = column.id === 'name' ? nameText(of) : visible(of);
        return { text, isNone: text === '', isZero: false };
      }
      const value = valueAt(view, row, column.id);
      return {
        text: groupId(column, marks) + cellText(column, value, { unit, cpus, isThread }),
        isNone: Number.isNaN(value),
        isZero: value === 0,
      };
    }),
  };
}

/** `python3.11 (nice 19)` */
function besideOf(interpreter: string, scheduling: string): string {
  return [visible(interpreter), scheduling && `(${visible(scheduling)})`].filter(Boolean).join(' ');
}

function groupId(column: GridColumn, marks: number): string {
  return column.id === 'pid' && marks & IS_GROUP ? '×' : '';
}

/** Tasks that began and ended in the interval: a sign, and words. */
const LIVES: Readonly<Record<number, readonly [sign: string, words: string]>> = {
  [BORN]: ['+', 'began in this interval'],
  [ENDED]: ['†', 'ended in this interval'],
  [BORN | ENDED]: ['‡', 'began and ended in this interval'],
};
const lifeOf = (marks: number): readonly [string, string] => LIVES[marks & (BORN | ENDED)] ?? ['', ''];

function markOf(marks: number): string {
  return lifeOf(marks)[0] + (marks & ODD ? '!' : '');
}

function markHelp(marks: number, odd: string): string {
  return [lifeOf(marks)[1], odd === '' ? '' : `odd: ${visible(odd)}`].filter((text) => text !== '').join('; ');
}

const quoted = (text: string): string => `"${visible(text).replaceAll('"', '""')}"`;

export interface GridFile {
  view: View;
  texts: readonly string[];
  columns: readonly GridColumn[];
  /** CPUs that utilization is divided by: 1 shows percent of one CPU. */
  divide: number;
}

/** Rows below an open one have a depth; a group has the number of its processes as pid. */
export function csvOf({ view, texts, columns, divide }: GridFile): string {
  const lines = [['depth', 'is_group', ...columns.map((column) => column.id)].map(quoted).join(',')];
  for (let row = 0; row < view.rows; row += 1) {
    const isGroup = (view.marks[row]! & IS_GROUP) !== 0;
    const cells = columns.map((column) => {
      const at = TEXT_AT.get(column.id);
      if (at !== undefined) return quoted(texts[view.texts[row * TEXTS + at]!] ?? '');
      const value = valueAt(view, row, column.id) / (column.format === 'share' ? divide : 1);
      return Number.isFinite(value) ? String(value) : '';
    });
    lines.push([String(view.depths[row]!), isGroup ? '1' : '0', ...cells].join(','));
  }
  return `${lines.join('\r\n')}\r\n`;
}

/** Names of a grid's rows, for one and for several. */
const NOUNS: Partial<Record<Layout, readonly [string, string]>> = {
  list: ['process', 'processes'],
  tree: ['process', 'processes'],
  threads: ['thread', 'threads'],
};

/** A view, how it is asked for, and how many tasks the interval counted; undefined: not known. */
export interface Counted extends Pick<View, 'tasks' | 'ended' | 'alive'>, Pick<Spec, 'layout' | 'filter' | 'hideIdle'> {
  processes: number | undefined;
  threads: number | undefined;
}

/** Idle tasks without a row: the past has no rows of idle threads, and those of idle processes only where a list was
 * stored. */
export function withoutRow({ layout, alive, filter, hideIdle, processes, threads }: Counted): number {
  if (filter !== '' || hideIdle) return 0;
  const all = layout === 'threads' ? threads : layout === 'list' || layout === 'tree' ? processes : undefined;
  return Math.max(0, (all ?? alive) - alive);
}

export function rowCount(of: Counted): string {
  const [one, more] = NOUNS[of.layout] ?? ['group', 'groups'];
  const missing = withoutRow(of);
  const ended = of.ended > 0 && NOUNS[of.layout] ? `, ${count(of.ended)} ended` : '';
  if (missing > 0) return `${count(of.alive)} active of ${count(of.alive + missing)} ${more}${ended}`;
  return `${count(of.tasks)} ${of.tasks === 1 ? one : more}${of.filter !== '' ? ' found' : ''}${ended}`;
}
