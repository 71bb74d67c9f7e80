#!/usr/bin/env bash
# The page: form, lint, types, unit tests, weight, and the browser tests against the real receiver. In: nothing. Out: exit 0 when all hold.
# Debian's Chromium (or $CHROMIUM) runs headless; nothing leaves loopback.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build-page.sh
if [ ! -e web/dist/index.html ]; then
  if [ -n "${CI:-}" ]; then echo "test-page: the page was not built" >&2; exit 1; fi
  echo "test-page: SKIPPED, the page was not built (it needs Node.js 20.19 or newer)"
  exit 0
fi
cargo build --quiet --locked --package cpumon --package xtask
cargo build --quiet --locked --package cpumon-store --example picture_store
cargo build --quiet --locked --package cpumon-trace --example report_speed
cd web
npm run --silent lint
npm run --silent generate:check
if long=$(git ls-files -z . ':!:package-lock.json' ':!:openapi.json' ':!:*.generated.ts' ':!:public' ':!:*.png' ':!:src/fonts' | xargs -0 awk 'length > 140 { print FILENAME ":" FNR }') && [ -n "$long" ]; then
  printf 'test-page: lines over 140 columns:\n%s\n' "$long" >&2
  exit 1
fi
# Signatures of the installed packages, checked with the registry's keys: that needs the network.
if signatures=$(timeout 20 npm audit signatures --fetch-retries=0 2>&1); then
  echo "test-page: $(printf '%s' "$signatures" | tail -1)"
else
  case $?$signatures in
    124*) echo "test-page: SKIPPED the signatures of packages, no answer in 20 s" ;;
    *ENOTFOUND* | *EAI_AGAIN* | *ECONNREFUSED* | *ETIMEDOUT* | *ENETUNREACH*) echo "test-page: SKIPPED the signatures of packages, no network" ;;
    *) printf 'test-page: WARNING, signatures of packages:\n%s\n' "$signatures" >&2 ;;
  esac
fi
npm run --silent check
npm run --silent test
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ -z "$chromium" ]; then
  if [ -n "${CI:-}" ]; then echo "test-page: no Chromium" >&2; exit 1; fi
  echo "test-page: SKIPPED the browser tests, no Chromium (set CHROMIUM to its path)"
  exit 0
fi
CHROMIUM=$chromium npm run --silent browser
