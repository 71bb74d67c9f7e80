// A host's name for its id. In: an id. Out: the name, as soon as it is known. Why: links carry ids, people read names.
import { feed } from '../feed/feed.svelte';
import { ask, hostPath, refusalOf, type StoredHosts } from './api';
import { called } from './fleet';
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

/** A host that did not report since the receiver started is known to the store only. */
async function nameOf(host: string): Promise<string> {
  try {
    return (await ask<{ hostname: string }>(hostPath(host, 'at'), { limit: 1 })).hostname;
  } catch (error) {
    const stored = refusalOf(error).status === 404 ? await storedHost(host) : null;
    if (stored) return stored.name;
    throw error;
  }
}

class HostNames {
  private readonly known = $state<Record<string, string>>({});
  private readonly asked = new Set<string>();

  /** The name if known, else the given text; asks once for each. */
  of(host: string): string {
    const { head } = feed;
    if (head && (head.host === host || head.hostname === host)) return called(head.hostname, head.host);
    return called(this.known[host] ?? '', host);
  }

  request(host: string): void {
    if (host === '' || this.asked.has(host)) return;
    this.asked.add(host);
    void nameOf(host).then(
      (name) => (this.known[host] = name),
      // Not known or not reachable: the view itself says so.
      () => this.asked.delete(host),
    );
  }
}

export const hostNames = new HostNames();
