// The hosts that the store holds. In: a name or an id. Out: the host, and when it sent its last data. Why: a host that died is asked for
// later, and the receiver may have been started again since.
import { ask, type StoredHosts } from './api';
import { msOf } from './format';

export interface StoredHost {
  id: string;
  name: string;
  lastMs: number;
}

/** Null: the store has none of this id or name, or several of the name, or there is no store. */
export async function storedHost(host: string, signal?: AbortSignal): Promise<StoredHost | null> {
  const { hosts } = await ask<StoredHosts>('stored', { limit: 10_000 }, signal);
  const rows = hosts.filter((row) => row.last_ns);
  const found = rows.filter((row) => row.id === host);
  const named = found.length > 0 ? found : rows.filter((row) => row.hostname === host);
  const [row] = named;
  return row?.last_ns && named.length === 1
    ? { id: row.id, name: row.hostname || row.id, lastMs: msOf(row.last_ns) }
    : null;
}
