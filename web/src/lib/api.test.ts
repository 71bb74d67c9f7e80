import { expect, it } from 'vitest';
import { adviceOf } from './api';

it('leaves out of an advice what names an address of the API, and only that', () => {
  expect(adviceOf('/api/v1/hosts lists the hosts that report, /api/v1/stored those of which data is stored.')).toBe('');
  const away = 'Ask again in a moment; /api/v1/status shows how the receiver is doing.';
  expect(adviceOf(away)).toBe('Ask again in a moment.');
  expect(adviceOf('Free space; then start it again. See the log.')).toBe(
    'Free space; then start it again. See the log.',
  );
  expect(adviceOf('')).toBe('');
});
