// Where the user is. In: the address. Out: view, host and settings, and back. Why: every state has a link.
import { focus, selectorOf } from './focus';

export type ViewName = 'fleet' | 'fleet-history' | 'live' | 'history' | 'process' | 'landscape' | 'export' | 'trace';

export interface Place {
  view: ViewName;
  host: string;
  /** Process key, of the process view; id of a trace. */
  process: string;
  query: Record<string, string>;
}

const HOST_VIEWS: readonly string[] = ['live', 'history', 'landscape', 'export'];
/** Views of all hosts. */
const ROOTS: Partial<Record<ViewName, string>> = { fleet: '/', 'fleet-history': '/history' };

export function parse(path: string, search: string): Place {
  const parts = path
    .split('/')
    .filter((part) => part !== '')
    .map(safeDecode);
  const query = Object.fromEntries(new URLSearchParams(search));
  const [kind = '', host = '', view = 'live', process = ''] = parts;
  if (kind === 'history' && parts.length === 1) return { view: 'fleet-history', host: '', process: '', query };
  if (kind === 'trace' && host !== '' && parts.length === 2) return { view: 'trace', host: '', process: host, query };
  if (kind !== 'host' || host === '') return { view: 'fleet', host: '', process: '', query };
  if (view === 'process' && process) return { view, host, process, query };
  return { view: HOST_VIEWS.includes(view) ? (view as ViewName) : 'live', host, process: '', query };
}

function safeDecode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(place: {
  view: ViewName;
  host?: string;
  process?: string;
  query?: Record<string, string | undefined>;
}): string {
  const { view, host = '', process = '', query = {} } = place;
  const parts = ['host', host, ...(view === 'live' ? [] : [view]), ...(view === 'process' ? [process] : [])];
  const path =
    view === 'trace'
      ? `/trace/${encodeURIComponent(process)}`
      : (ROOTS[view] ?? `/${parts.map(encodeURIComponent).join('/')}`);
  const words = Object.entries(query).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && (entry[1] !== '' || entry[0] === 'find'),
  );
  const search = new URLSearchParams(words).toString();
  return search ? `${path}?${search}` : path;
}

class Route {
  place = $state.raw<Place>(parse(location.pathname, location.search));

  constructor() {
    addEventListener('popstate', () => {
      this.place = parse(location.pathname, location.search);
      focus.giveTo(this.state.focus ?? '');
    });
  }

  /** A new page in the history. */
  go(address: string): void {
    this.push(address);
    this.place = parse(location.pathname, location.search);
  }

  /** The page that is left remembers its focused element, for the way back. */
  private push(address: string): void {
    history.replaceState({ ...this.state, focus: selectorOf(document.activeElement) }, '');
    history.pushState({ depth: this.depth + 1 }, '', address);
  }

  private get state(): { depth?: number; focus?: string } {
    return (history.state ?? {}) as { depth?: number; focus?: string };
  }

  /** How many pages of ours the browser can go back to. */
  private get depth(): number {
    return this.state.depth ?? 0;
  }

  /** Where the user came from; after a link from elsewhere the page stays and opens `otherwise`. */
  back(otherwise: string): void {
    if (this.depth > 0) history.back();
    else this.go(otherwise);
  }

  /** Changes settings in the address, without a new page in the history. */
  set(changes: Record<string, string | undefined>, push = false): void {
    const query: Record<string, string | undefined> = { ...this.place.query, ...changes };
    const address = href({ ...this.place, query });
    if (address === location.pathname + location.search) return;
    if (push) this.push(address);
    else history.replaceState(history.state, '', address);
    this.place = parse(location.pathname, location.search);
  }

  get query(): Record<string, string> {
    return this.place.query;
  }
}

export const route = new Route();

/** Links within the page do not reload it. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || link.origin !== location.origin || link.target || link.hasAttribute('download')) return;
  if (link.pathname.startsWith('/api/')) return;
  event.preventDefault();
  route.go(link.pathname + link.search);
}
