// Where things are on a page. In: a page, elements. Out: boxes that have come to rest. Why: styles follow the window at once, scripts with
// the next frame, so what is measured between the two is neither.
import { expect, type Locator, type Page } from '@playwright/test';

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A text in another font than the page's is wider. */
const twoFrames = (): Promise<boolean> =>
  document.fonts.ready.then(
    () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true)))),
  );

/** Until the page has drawn what is known. A page behind another one has no frames. */
export async function drawn(page: Page): Promise<void> {
  await page.bringToFront();
  await page.evaluate(twoFrames);
}

/** A window of another size, and the page drawn in it. */
export async function resize(page: Page, width: number, height: number): Promise<void> {
  await page.setViewportSize({ width, height });
  await drawn(page);
}

/** Rules of a test, until the page is loaded again. */
export async function styled(page: Page, rules: string): Promise<void> {
  await page.evaluate((text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    document.adoptedStyleSheets = [sheet];
  }, rules);
}

/** Hides what a host says only at times, a quota that is used up, an odd interval, a late agent: it comes and goes while boxes are
 * compared. Once for each page that is opened. */
export const withoutNotices = (page: Page): Promise<void> =>
  styled(page, '.odd, .quota, .banner.late, .banner.last { display: none !important }');

/** The time line of a view of the past once all of it came: the plot by who ran takes the place of another one, with the pointer on it, and
 * a key before that moves nothing. */
export async function timeLineBox(page: Page): Promise<Box> {
  const line = page.getByRole('region', { name: 'time line' });
  await expect(line.locator('.legend')).toContainText('peak interval');
  await expect(line).toHaveAttribute('aria-busy', 'false');
  return boxOf(line.locator('.u-over'));
}

/** Where an element is once it no longer moves. */
export async function boxOf(element: Locator): Promise<Box> {
  for (;;) {
    await expect(element).toBeVisible();
    const before = await element.boundingBox();
    await drawn(element.page());
    const box = await element.boundingBox();
    if (box && JSON.stringify(box) === JSON.stringify(before)) return box;
  }
}
