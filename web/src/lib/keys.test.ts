import { expect, test } from 'vitest';
import { hasModifier, press, type Keys } from './keys';

const held = (
  key: string,
  more: { altKey?: boolean; ctrlKey?: boolean; metaKey?: boolean; altGraph?: boolean } = {},
) => ({
  key,
  altKey: false,
  ctrlKey: false,
  metaKey: false,
  ...more,
  getModifierState: (name: string) => name === 'AltGraph' && more.altGraph === true,
});

test('signs that are typed with AltGr or Option are keys of the page, shortcuts of the browser are not', () => {
  expect(hasModifier(held('['))).toBe(false);
  expect(hasModifier(held('[', { altGraph: true, ctrlKey: true, altKey: true }))).toBe(false);
  expect(hasModifier(held(']', { altKey: true }))).toBe(false);
  expect(hasModifier(held('l', { altKey: true }))).toBe(true);
  expect(hasModifier(held('-', { ctrlKey: true }))).toBe(true);
  expect(hasModifier(held('[', { metaKey: true }))).toBe(true);
});

test('a key does what it is for and nothing else; one that has nothing to do is left to others', () => {
  const done: string[] = [];
  const event = (key: string) => ({ key, preventDefault: () => done.push('prevented') }) as unknown as KeyboardEvent;
  const keys: Keys = { a: () => void done.push('a'), b: () => false };
  expect([press(event('a'), keys), press(event('b'), keys), press(event('constructor'), keys)]).toEqual([
    true,
    false,
    false,
  ]);
  expect(done).toEqual(['a', 'prevented']);
});
