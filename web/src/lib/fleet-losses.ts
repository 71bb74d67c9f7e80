// What never became a row of a host. In: the receiver's counts. Out: words, only for what happened.
import type { Fleet } from './api';
import { count } from './format';

export function lossesOf(receiver: Fleet['receiver'] | undefined): string[] {
  if (!receiver) return [];
  const counts: readonly [number, string][] = [
    [receiver.rejected, 'datagrams refused'],
    [receiver.kernel_dropped ?? 0, 'dropped by the kernel'],
    // While the store fails, a banner of its own has this number.
    [receiver.store === 'failing' ? 0 : receiver.store_dropped, 'intervals not stored'],
  ];
  return counts.filter(([many]) => many > 0).map(([many, what]) => `${count(many)} ${what}`);
}
