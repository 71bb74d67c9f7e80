#!/usr/bin/env bash
# Builds the page into web/dist, from where cargo embeds it. In: web/. Does nothing if no source is newer than what was built.
# cargo may run beside it: before it embeds the page it waits for the lock that is held here (crates/cpumon-web/build.rs).
set -euo pipefail
cd "$(dirname "$0")/.."
[ -e web/package.json ] || { echo "build-page: no web/package.json, building without a page"; exit 0; }
# Vite needs Node.js 20.19. Without it cpumon is built without a page and says so there.
if ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null; then
  echo "build-page: the page needs Node.js 20.19 or newer, found $(node --version 2>/dev/null || echo none): building without a page" >&2
  [ -z "${CI:-}" ] || exit 1
  exit 0
fi
mkdir -p target
exec 9>>target/page.lock
flock 9
cd web
built=dist/index.html
if [ -e $built ] && [ -z "$(find . -path ./node_modules -prune -o -path ./dist -prune -o -path ./test-results -prune -o -type f -newer $built -print -quit)" ]; then
  exit 0
fi
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --no-audit --no-fund
fi
npm run build
touch $built
