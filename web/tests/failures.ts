// What failed, in lines that `scripts/test.sh` and `scripts/run_tests.py` print at their end. In: the results of the browser tests.
// Out: for each that failed its place, its first words of error, and the command that runs it again.
import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import type { Reporter, TestCase, TestResult } from '@playwright/test/reporter';

/** Longest text of an error, in characters. */
const ERROR_CHARACTERS = 300;

export default class Failures implements Reporter {
  private readonly lines: string[] = [];

  onTestEnd(test: TestCase, result: TestResult): void {
    if (result.status === test.expectedStatus || result.status === 'skipped') return;
    const file = `${relative(process.cwd(), test.location.file)}:${test.location.line}`;
    const error = stripVTControlCharacters(result.error?.message ?? result.status).replace(/\s+/g, ' ');
    this.lines.push(`failed: browser ${file} ${test.title}: ${error.slice(0, ERROR_CHARACTERS)}`);
    this.lines.push(`  again: scripts/test-page.sh browser ${file}`);
  }

  onEnd(): void {
    for (const line of this.lines) console.log(line);
  }

  printsToStdio(): boolean {
    return true;
  }
}
