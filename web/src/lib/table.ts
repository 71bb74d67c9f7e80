// The API's column tables. In: parsed JSON. Out: one value of one row, whatever form its column has.
// Why: a column is an array, one value for all rows, or a dictionary with an index; only this file needs to know.
import type { Cell, Table } from './api';

type Getter = (row: number) => Cell;

const NOTHING: Getter = () => null;

/** Reads one column; a column that is absent has no data in any row. */
export function getter(table: Table, name: string): Getter {
  const column = Object.hasOwn(table.columns, name) ? table.columns[name] : undefined;
  if (column === undefined || column === null) return NOTHING;
  if (Array.isArray(column)) return (row) => column[row] ?? null;
  if (typeof column !== 'object') return () => column;
  const { values, index } = column;
  return (row) => values[index[row] ?? -1] ?? null;
}

export function numbers(table: Table, name: string): (row: number) => number {
  const get = getter(table, name);
  return (row) => {
    const value = get(row);
    return typeof value === 'number' ? value : NaN;
  };
}

export function texts(table: Table, name: string): (row: number) => string {
  const get = getter(table, name);
  return (row) => {
    const value = get(row);
    return value === null ? '' : String(value);
  };
}

/** A row with the values of some columns. */
export type RowOf<Columns extends Record<string, (row: number) => unknown>> = {
  [Name in keyof Columns]: ReturnType<Columns[Name]>;
};

/** Rows of the page, each value read from its column. */
export function rowsOf<Row>(rows: number, columns: { [Name in keyof Row]: (row: number) => Row[Name] }): Row[] {
  const names = Object.keys(columns) as (keyof Row)[];
  return Array.from({ length: rows }, (_, row) => {
    const made = {} as Row;
    for (const name of names) made[name] = columns[name](row);
    return made;
  });
}

export function has(table: Table, name: string): boolean {
  return Object.hasOwn(table.columns, name) && table.columns[name] !== null;
}
