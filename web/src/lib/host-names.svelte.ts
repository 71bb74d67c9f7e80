// A host's name for its id. In: an id. Out: the name, as soon as it is known. Why: links carry ids, people read names.
import { feed } from '../feed/feed.svelte';
import { ask, hostPath } from './api';

class HostNames {
  private readonly known = $state<Record<string, string>>({});
  private readonly asked = new Set<string>();

  /** The name if known, else what was given; asks once for each. */
  of(host: string): string {
    const { head } = feed;
    if (head && (head.host === host || head.hostname === host)) return head.hostname;
    return this.known[host] ?? host;
  }

  request(host: string): void {
    if (host === '' || this.asked.has(host)) return;
    this.asked.add(host);
    void ask<{ hostname: string }>(hostPath(host, 'at'), { limit: 1 }).then(
      (answer) => (this.known[host] = answer.hostname),
      // Not known or not reachable: the view itself says so.
      () => this.asked.delete(host),
    );
  }
}

export const hostNames = new HostNames();
