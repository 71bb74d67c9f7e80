// The hosts that the store holds. In: a name or an id. Out: the host, and when it sent its last data. Why: a host that died is asked for
// later, and the receiver may have been started again since.
import { ask } from './api';
import { numbers, texts } from './table';

type Table = Parameters<typeof texts>[0];

export interface StoredHost {
  id: string;
  name: string;
  lastMs: number;
}

/** Null: the store has none of this id or name, or several of the name, or there is no store. */
export async function storedHost(host: string, signal?: AbortSignal): Promise<StoredHost | null> {
  const table = await ask<Table>('stored', { limit: 10_000 }, signal);
  const [id, name, last] = [texts(table, 'id'), texts(table, 'hostname'), numbers(table, 'last_ms')];
  const rows = Array.from({ length: table.rows }, (_, row) => row).filter((row) => Number.isFinite(last(row)));
  const found = rows.filter((row) => id(row) === host);
  const named = found.length > 0 ? found : rows.filter((row) => name(row) === host);
  const [row] = named;
  return row === undefined || named.length > 1 ? null : { id: id(row), name: name(row) || id(row), lastMs: last(row) };
}
