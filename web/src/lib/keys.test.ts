import { expect, test } from 'vitest';
import { hasModifier } from './keys';

const press = (
  key: string,
  held: { altKey?: boolean; ctrlKey?: boolean; metaKey?: boolean; altGraph?: boolean } = {},
) => ({
  key,
  altKey: false,
  ctrlKey: false,
  metaKey: false,
  ...held,
  getModifierState: (name: string) => name === 'AltGraph' && held.altGraph === true,
});

test('signs that are typed with AltGr or Option are keys of the page, shortcuts of the browser are not', () => {
  expect(hasModifier(press('['))).toBe(false);
  expect(hasModifier(press('[', { altGraph: true, ctrlKey: true, altKey: true }))).toBe(false);
  expect(hasModifier(press(']', { altKey: true }))).toBe(false);
  expect(hasModifier(press('l', { altKey: true }))).toBe(true);
  expect(hasModifier(press('-', { ctrlKey: true }))).toBe(true);
  expect(hasModifier(press('[', { metaKey: true }))).toBe(true);
});
