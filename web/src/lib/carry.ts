// The settings that stay when the view changes. In: the current place, the target of a tab. Out: the settings of its
// link. Why: filter, grouping, unit and moment are the user's, not the view's.
import type { Place, ViewName } from './route.svelte';

type Query = Record<string, string | undefined>;

/** Live shows no past span; its link to a view of the past leads back to where that was. */
const OF_THE_PAST = ['at', 'since', 'until'] as const;

/** The span and moment of the past that were on screen last, of one host. */
export class Carried {
  private host = '';
  private past: Query = {};

  /** Call with each place that the user comes to. */
  note(place: Place): void {
    if (place.host === '') return;
    if (place.host !== this.host) this.past = {};
    this.host = place.host;
    const { at, since, until } = place.query;
    if (place.view !== 'live') this.past = { since, until, at: at ?? this.past['at'] };
    else if (at !== undefined) this.past = { ...this.past, at };
  }

  /** The settings of a tab's link. */
  to(view: ViewName, place: Place): Query {
    const query: Query = { ...place.query };
    for (const dialog of ['find', 'why', 'when']) delete query[dialog];
    const isExport = view === 'export';
    // The parameter "of" of Compare has another meaning in Export.
    if (isExport !== (place.view === 'export')) for (const name of ['of', 'process', 'kind']) delete query[name];
    if (isExport && place.process !== '') query['process'] = place.process.split('-')[0];
    if (view === place.view) return query;
    for (const name of OF_THE_PAST) delete query[name];
    return view === 'live' ? query : { ...query, ...this.past };
  }
}
