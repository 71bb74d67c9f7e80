// What axe finds on a page. In: a page. Out: a failure that names rule and element. Every view follows the same rules: WCAG 2.2 AA
// and axe's best practices; nothing is wider than the window or begins left of it, where no scrolling reaches it; and no panel is
// lower than its content.
import axe, { type RunOnly } from 'axe-core';
import { expect, type Page } from '@playwright/test';

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
/** What another colour scheme can change: the document stays the same. */
const COLOURS = ['color-contrast', 'link-in-text-block'];

/** A table of hundreds of rows says no more than its first ones, and takes most of a minute. */
const REPEATED = 'tbody tr:nth-child(n + 25)';

/** Put into the page once for all checks; only violations are returned, as the rest would take longer than the check. */
async function violationsOf(page: Page, rules: 'all' | 'colours'): Promise<string[]> {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe.source);
  const runOnly: RunOnly = rules === 'colours' ? { type: 'rule', values: COLOURS } : { type: 'tag', values: RULES };
  return page.evaluate(
    async ([only, repeated]) => {
      const { violations } = await (window as unknown as { axe: typeof axe }).axe.run(
        { exclude: [[repeated]] },
        { runOnly: only, resultTypes: ['violations'] },
      );
      return violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`);
    },
    [runOnly, REPEATED] as const,
  );
}

export async function findsNothing(page: Page, rules: 'all' | 'colours' = 'all'): Promise<void> {
  expect(await violationsOf(page, rules)).toEqual([]);
  const width = page.viewportSize()?.width ?? 0;
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
  const lost = await page
    .locator('main :is(button, input, select, fieldset, a)')
    .evaluateAll((all) =>
      all.filter((one) => one.getBoundingClientRect().left < 0).map((one) => one.outerHTML.slice(0, 160)),
    );
  expect(lost).toEqual([]);
  const squeezed = await page
    .locator('main .panel')
    .evaluateAll((all) =>
      all
        .filter((one) => one.scrollHeight > one.clientHeight + 2)
        .map((one) => `${one.ariaLabel ?? one.className}: ${one.scrollHeight} px in ${one.clientHeight}`),
    );
  expect(squeezed).toEqual([]);
}
