# The commands that must always hold. `make` alone lists them.
.PHONY: help run page book test flaky chaos outage flood bench bench-against bench-trace soak truth agent agents agent-windows install uninstall clean screenshots

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## build, then receiver + local agent + store + terminal view on loopback; Ctrl-C ends all
	@scripts/build-trial.sh
	@exec target/trial/cpumon run $(ARGS)

page: ## the page alone: web/dist, which the next build of cpumon embeds
	@scripts/install-deps.sh run
	@scripts/build-page.sh

book: ## the documents by question, with search, commands and API, for any browser: target/book/index.html (CPUMON=FILE: the program whose --help it has)
	@scripts/install-deps.sh book
	@[ -n "$(CPUMON)" ] || scripts/build-trial.sh
	@CPUMON="$(or $(CPUMON),target/trial/cpumon)" scripts/book.py
	@node scripts/test-book.mjs >target/book.log || { cat target/book.log >&2; exit 1; }

test: ## every check: format, lints, direction, unit, integration, browser, privileged, other machines
	@scripts/install-deps.sh run
	@scripts/test.sh

flaky: ## all Rust tests, then all browser tests, again and again, in half of the rounds all at once and beside 4 busy processes; lists every test that ever failed (RUNS=20: 10 rounds)
	@scripts/install-deps.sh test
	@scripts/build-page.sh
	@scripts/build-tests.sh
	scripts/run_tests.py --runs $$(($(or $(RUNS),20) / 2)) --load 4 --browser --log target/flaky.log

chaos: ## the oracle of TLS connections, long: faults from printed seeds (RUNS=200, SEED=…); `make test` runs it once
	@scripts/install-deps.sh test
	CHAOS_RUNS=$(or $(RUNS),200) CHAOS_SEED=$(SEED) cargo test --locked --package cpumon --test it -- chaos --nocapture

outage: ## 50 devices come back after an hour without a receiver, on simulated clocks (DEVICES=n SECONDS=n THREADS=n); `make test` runs it small
	@scripts/install-deps.sh test
	OUTAGE_DEVICES=$(or $(DEVICES),50) OUTAGE_SECONDS=$(or $(SECONDS),3600) OUTAGE_THREADS=$(or $(THREADS),200) cargo test --release --locked --package cpumon --test it -- outage:: --nocapture

flood: ## 200,000 garbage datagrams a second for 10 s on loopback beside devices on TLS, then valid ones of each kind (SECONDS=5 KIND=…); `make test` runs it short
	@scripts/install-deps.sh test
	FLOOD_SECONDS=$(or $(SECONDS),5) FLOOD_KIND="$(KIND)" FLOOD_DATAGRAMS=$(or $(DATAGRAMS),2000000) FLOOD_RATE=$(or $(RATE),200000) cargo test --release --locked --package cpumon --test it -- flood:: --nocapture --test-threads=1

bench: ## measure what the docs quote, peers in the same run; writes docs/lab/results.md (CHAPTERS="storm fleet" prints some)
	@scripts/install-deps.sh bench
	@scripts/build-page.sh
	@scripts/bench.sh $(CHAPTERS)

bench-accounting: ## measure only how well every nanosecond is accounted for; writes its section of docs/lab/results.md
	@scripts/install-deps.sh bench
	@scripts/bench.sh --section accounting

bench-trace: ## measure only traces: recorders beside perf and trace-cmd, flight recorder, reports, timeline; writes its section of docs/lab/results.md (PARTS="flight page" prints some)
	@scripts/install-deps.sh bench
	@scripts/build-page.sh
	@PARTS="$(PARTS)" scripts/bench.sh --section trace

bench-why: ## does `cpumon why` find twelve hidden causes? Culprits beside a trace, healthy spans and speed, too; writes its section of docs/lab/results.md (ONLY="A H" prints some, HEALTHY=n, STORE=FILE, KEEP=DIR, CPUMON=FILE)
	@[ -n "$(CPUMON)" ] || [ -x target/release/cpumon ] || { scripts/install-deps.sh run && scripts/build-page.sh && cargo build --quiet --release --locked --package cpumon; }
	@CPUMON="$(CPUMON)" ONLY="$(ONLY)" HEALTHY="$(HEALTHY)" STORE="$(STORE)" python3 bench/why.py --write $(if $(KEEP),--keep "$(KEEP)")

bench-against: ## an older revision beside this one, in pairs: questions, receiver, agent (REV=HEAD~20 ROUNDS=n); prints ratios
	@scripts/install-deps.sh bench
	@scripts/build-page.sh
	@scripts/bench.sh --against $(or $(REV),HEAD~1)

soak: ## ten minutes of churn beside the agent: does anything grow? Writes its section of docs/lab/results.md (SECONDS=n)
	@scripts/install-deps.sh bench
	@scripts/bench.sh --section soak

truth: ## 48 minutes of storms and mass exits: counts figures that cannot be; writes its section of docs/lab/results.md (SECONDS=n)
	@scripts/install-deps.sh bench
	@scripts/bench.sh --section truth

font: ## cut the page's font to what the page uses: web/src/fonts/inter.woff2 (needs fonttools and brotli of Python)
	@scripts/subset-font.sh

screenshots: ## the pictures of the README and of the book, from the real program, into docs/images
	@scripts/install-deps.sh test
	@scripts/build-page.sh
	@scripts/screenshots.sh

agent: ## the slim agent alone: target/slim/cpumon-agent
	@scripts/install-deps.sh run
	cargo build --profile slim --locked --package cpumon-agent

agents: ## the agent for every kind of device, each in one static file, into target/agents with checksums
	@scripts/install-deps.sh agents
	@scripts/agents.sh

agent-windows: ## the slim agent for Windows: target/agents/cpumon-agent-x86_64-windows.exe
	@scripts/install-deps.sh test
	@scripts/agent-windows.sh

install: ## install programs, manual pages and completions below PREFIX (default /usr/local)
	@scripts/install-deps.sh run
	@scripts/build-page.sh
	@scripts/install.sh "$(or $(PREFIX),/usr/local)"

uninstall: ## remove what `make install` put below PREFIX; recorded data stays
	@scripts/uninstall.sh "$(or $(PREFIX),/usr/local)"

clean: ## remove what was built
	cargo clean
	rm -rf web/dist
