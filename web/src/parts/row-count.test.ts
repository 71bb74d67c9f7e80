import { expect, it } from 'vitest';
import { rowCount, type Counted } from './grid-cells';

const all: Counted = {
  layout: 'list',
  tasks: 152,
  ended: 0,
  alive: 152,
  filter: '',
  hideIdle: false,
  processes: 152,
  threads: 900,
};

it('counts rows by what they are', () => {
  expect(rowCount(all)).toBe('152 processes');
  expect(rowCount({ ...all, layout: 'user', tasks: 1 })).toBe('1 group');
  expect(rowCount({ ...all, tasks: 1, filter: 'x' })).toBe('1 process found');
  expect(rowCount({ ...all, tasks: 157, ended: 5 })).toBe('157 processes, 5 ended');
  // A row of summed children.
  expect(rowCount({ ...all, tasks: 153 })).toBe('153 processes');
  expect(rowCount({ ...all, layout: 'threads', tasks: 901, alive: 900, ended: 1 })).toBe('901 threads, 1 ended');
  expect(rowCount({ ...all, layout: 'user', tasks: 2, ended: 5 })).toBe('2 groups');
});

it('says how many have no row because nothing is stored of idle tasks', () => {
  expect(rowCount({ ...all, tasks: 63, alive: 63 })).toBe('63 active of 152 processes');
  expect(rowCount({ ...all, tasks: 157, alive: 147, ended: 10 })).toBe('147 active of 152 processes, 10 ended');
  expect(rowCount({ ...all, layout: 'threads', tasks: 63, alive: 63 })).toBe('63 active of 900 threads');
  expect(rowCount({ ...all, tasks: 63, alive: 63, processes: undefined })).toBe('63 processes');
});

it('does not call rows missing that the user hid', () => {
  expect(rowCount({ ...all, tasks: 63, alive: 63, hideIdle: true })).toBe('63 processes');
  expect(rowCount({ ...all, tasks: 3, alive: 3, filter: 'x' })).toBe('3 processes found');
});
