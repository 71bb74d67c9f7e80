// A host's name for its id. In: an id. Out: the name, as soon as it is known. Why: links carry ids, people read names.
import { feed } from '../feed/feed.svelte';
import { ask, hostPath, refusalOf } from './api';
import { called } from './fleet';
import { storedHost } from './stored-hosts';

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

  /** The name if known, else what was given; asks once for each. */
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
