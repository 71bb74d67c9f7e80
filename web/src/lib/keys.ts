// Which key presses are the page's. In: an event. Out: whether a view may take it. Why: every view listens, and each leaves typing,
// dialogs, buttons and the browser's own keys alone in the same way.

/** Whether no dialog is open and the key is none of the browser's or the system's. */
export function isPlain(event: KeyboardEvent): boolean {
  if (document.querySelector('dialog[open]')) return false;
  return !hasModifier(event);
}

/** AltGr and Option type signs: `[` and `]` on many keyboards. Windows reports AltGr as Ctrl and Alt. */
export function hasModifier(
  event: Pick<KeyboardEvent, 'key' | 'altKey' | 'ctrlKey' | 'metaKey' | 'getModifierState'>,
): boolean {
  const typesSign =
    event.getModifierState('AltGraph') || (event.altKey && !event.ctrlKey && /^[^\p{L}\p{N}\s]$/u.test(event.key));
  return event.metaKey || ((event.ctrlKey || event.altKey) && !typesSign);
}

/** Actions of keys; `false`: no action now, and the key is left to others. */
export type Keys = Readonly<Record<string, () => false | void>>;

/** Carries out the action of a key, without the browser's own. */
export function press(event: KeyboardEvent, keys: Keys): boolean {
  const act = Object.hasOwn(keys, event.key) ? keys[event.key] : undefined;
  if (!act || act() === false) return false;
  event.preventDefault();
  return true;
}

/** Whether the user is in a field: the key belongs to the field. */
export function isTyping(event: KeyboardEvent): boolean {
  return event.target instanceof HTMLElement && event.target.closest('input, select, textarea') !== null;
}

/** Whether a view may take the key. A button or link in focus keeps those that press it, and no others. */
export function isOurs(event: KeyboardEvent): boolean {
  if (!isPlain(event) || isTyping(event)) return false;
  const presses = event.key === ' ' || event.key === 'Enter';
  return !(presses && event.target instanceof HTMLElement && event.target.closest('button, a'));
}

/** Where a key leads from one of some points in a row; undefined: it is none that moves. */
export function stepOf(key: string, from: number, last: number): number | undefined {
  const far = Math.ceil(last / 20);
  const by: Readonly<Record<string, number>> = {
    ...{ ArrowLeft: -1, ArrowRight: 1, PageUp: -far, PageDown: far, Home: -last, End: last },
  };
  return by[key] === undefined ? undefined : Math.max(0, Math.min(last, from + by[key]));
}
