// How the browser tests run. In: a built cpumon (CPUMON_BIN, CPUMON_XTASK) and Debian's Chromium. Out: pass or fail.
// Nothing leaves this machine: the receiver of each run listens on loopback ports of its own.
import { availableParallelism } from 'node:os';
import { defineConfig } from '@playwright/test';

/** Features that Chromium must not use. The last list is the one that counts, so the first ones are those of Playwright's own. */
const WITHOUT = [
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'LensOverlay'],
  ...['HttpsFirstBalancedModeAutoEnable', 'MediaRouter', 'PaintHolding', 'ThirdPartyStoragePartitioning'],
  ...['AvoidCorsURLLoaderRestartOnRedirect', 'OptimizationHints', 'NetworkTimeServiceQuerying', 'AimEnabled'],
  'PreconnectToSearch',
  // The list below its address field is a page with a process of its own, made again for each page that a test opens.
  ...['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup'],
];

export default defineConfig({
  testDir: 'tests',
  testMatch: '*.spec.ts',
  outputDir: 'test-results',
  fullyParallel: false,
  /** Each has a receiver of its own. */
  workers: Math.min(2, availableParallelism()),
  retries: 0,
  /** Far more than a fast machine takes: what is tested is what happens, not when. A fraction of two CPUs is enough. */
  timeout: 600_000,
  expect: { timeout: 120_000 },
  forbidOnly: true,
  reporter: [['list'], ['./tests/failures.ts']],
  use: {
    viewport: { width: 1440, height: 900 },
    timezoneId: 'Europe/Berlin',
    launchOptions: {
      executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
      args: [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--enable-unsafe-swiftshader',
        `--disable-features=${WITHOUT.join(',')}`,
      ],
    },
  },
});
