// @vitest-environment jsdom
import { afterEach, expect, it } from 'vitest';
import { apiUrl } from './api';
import { route } from './route.svelte';
import { askWhy, forgetWhy, MACHINE, subjectOf, whyQuestion } from './why';

afterEach(() => route.set({ why: undefined, when: undefined, at: undefined }));

it('a row is asked as the process or the group that it is', () => {
  expect(
    [
      '',
      '200-42',
      '200-42/201-42',
      'group:program:kworker',
      'group:service:a:b.service',
      'group:user:ann (1000)',
      'group:service:no service',
      'group:container:no container or unit',
      'group:user:user unknown',
      'group:short:cc1',
      'group:short:1-9:cc1',
    ].map(subjectOf),
  ).toEqual([
    MACHINE,
    'process:200',
    'process:200',
    'program:kworker',
    'service:a:b.service',
    'user:ann (1000)',
    'service:(none)',
    'container:(none)',
    'user:(none)',
    'program:cc1',
    'program:cc1',
  ]);
});

it('the question has the words of the API', () => {
  const asked = (subject: string, when = ''): string => apiUrl('why', whyQuestion(subject, when)).slice(11);
  expect(asked(MACHINE)).toBe('');
  expect(asked('process:200')).toBe('?name=200');
  expect(asked('program:shop')).toBe('?name=shop');
  // As a name it would be a pid, and without one the machine.
  expect(asked('program:7')).toBe('?within=program%3A7');
  expect(asked('program:')).toBe('?within=program%3A');
  expect(asked('user:ann (1000)')).toBe('?within=user%3Aann+%281000%29');
  expect(asked(MACHINE, '1000-2500')).toBe('?since=1000000000&until=2500000000');
  expect(asked(MACHINE, '1767226100000000000')).toBe('?at=1767226100000000000');
  expect(asked(MACHINE, 'yesterday')).toBe('');
});

it('is asked for a span, or for the moment on screen', () => {
  askWhy('process:200', { sinceMs: 1000, untilMs: 2500 });
  expect([route.query['why'], route.query['when']]).toEqual(['process:200', '1000-2500']);
  route.set({ at: '5' });
  askWhy(MACHINE);
  expect([route.query['why'], route.query['when']]).toEqual([MACHINE, '5']);
  forgetWhy();
  expect(route.query).toEqual({ at: '5' });
});
