// How the page is built. In: src/. Out: dist/, files with a hash in their name, which the receiver embeds.
// `npm run dev` serves from disk with reload and passes /api on to a receiver (CPUMON_URL, default http://127.0.0.1:3080).
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

const receiver = process.env['CPUMON_URL'] ?? 'http://127.0.0.1:3080';

export default defineConfig({
  plugins: [svelte()],
  build: { target: 'es2023', assetsInlineLimit: 0, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 900 },
  worker: { format: 'es' },
  server: { host: '127.0.0.1', proxy: { '/api': { target: receiver, changeOrigin: true } } },
  test: { include: ['src/**/*.test.ts', 'tests/weight.test.ts'] },
});
