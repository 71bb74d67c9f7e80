// What axe finds on a page. In: a page. Out: a failure that names rule and place. Why: every view is held to the same rules (WCAG 2.2 AA
// and axe's best practices), and none may be wider than the window.
import { AxeBuilder } from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

export async function findsNothing(page: Page): Promise<void> {
  const found = await new AxeBuilder({ page }).withTags(RULES).analyze();
  expect(found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`)).toEqual([]);
  const width = page.viewportSize()?.width ?? 0;
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
}
