// The rows of a grid as CSV. In: a view, its columns. Out: text, in the order and with the columns that are on screen. Why: "what I see as
// a file" is not the same as all processes of the interval. Texts are quoted as in the receiver's files.
import { TEXT_AT, TEXTS, type GridColumn } from '../feed/columns';
import { IS_GROUP, type View } from '../feed/view';
import { valueAt } from '../parts/grid-cells';
import { visible } from './format';

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
      const value = valueAt(view, row, column.id) / (column.unit === 'share' ? divide : 1);
      return Number.isFinite(value) ? String(value) : '';
    });
    lines.push([String(view.depths[row]!), isGroup ? '1' : '0', ...cells].join(','));
  }
  return `${lines.join('\r\n')}\r\n`;
}
