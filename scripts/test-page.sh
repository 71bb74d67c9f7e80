#!/usr/bin/env bash
# The page. In: `checks` (form, lint, types, unit tests, weight), `browser` (the browser tests against the real receiver), or nothing: both.
# Out: exit 0 when all hold. Debian's Chromium (or $CHROMIUM) runs headless; nothing leaves loopback.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "skipped: page: $1"
  [ -z "${CI:-}" ] || { echo "test-page: this must run in CI" >&2; exit 1; }
  exit 0
}

scripts/build-page.sh
[ -e web/dist/index.html ] || skip "the page was not built (it needs Node.js 20.19 or newer)"

checks() {
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
  NO_COLOR=1 npm run --silent test
}

browser() {
  CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
  [ -n "$CHROMIUM" ] || skip "the browser tests need Chromium (set CHROMIUM to its path)"
  export CHROMIUM
  npm run --silent browser -- "$@"
}

part=${1:-all}
[ $# -eq 0 ] || shift
[ "$part" = checks ] || scripts/build-tests.sh
cd web
case $part in
  checks) checks ;;
  browser) browser "$@" ;;
  all) checks && browser ;;
  *) echo "test-page: unknown part '$part': checks or browser" >&2; exit 2 ;;
esac
