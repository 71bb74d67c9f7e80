//! The options of each interpreter, as its manual has them: `python --help`, bash(1), dash(1), `zshmisc`, fish(1), perlrun(1), ruby(1),
//! php(1), `node --help`, `java --help-extra`, lua(1), tclsh(1), expect(1), `julia --help`, ld.so(8). An option that is missing here
//! costs a name; one with the wrong arity gives a secret away. Leave out uncertain options, and each option whose value may be the next
//! word or missing.

use super::interpreter::{FirstWord, Interpreter, Letters, NO_LETTERS, NO_WORDS, PLAIN, Words};

/// File name extensions of JavaScript and TypeScript.
const JAVASCRIPT: FirstWord = FirstWord::Ending(&[".js", ".mjs", ".cjs", ".ts", ".mts", ".jsx", ".tsx"]);

/// bash and dash read the value of `-o` from the next word, wherever in a word the letter is.
const SHELL_LETTERS: Letters =
    Letters { flags: "abefhiklmnpqrtuvxBCDEHIPTV", next: "oO", code: "cs", plus: true, ..NO_LETTERS };

// The options of node: `node --help` of version 20, where each was tried, and those of later versions from its documentation. Options of
// V8 have their value behind `=` only.

/// Options that take no value, or a value after `=`.
const NODE_FLAGS: &str = "\
    --abort-on-uncaught-exception --allow-addons --allow-child-process --allow-inspector \
    --allow-natives-syntax --allow-net --allow-wasi --allow-worker --async-context-frame --check \
    --cpu-prof --deprecation --disable-sigusr1 --disable-wasm-trap-handler \
    --disallow-code-generation-from-strings --enable-etw-stack-walking --enable-fips \
    --enable-network-family-autoselection --enable-source-maps --entry-url --experimental-addon-modules \
    --experimental-async-context-frame --experimental-default-config-file --experimental-detect-module \
    --experimental-eventsource --experimental-fetch --experimental-global-navigator \
    --experimental-import-meta-resolve --experimental-json-modules --experimental-modules \
    --experimental-network-imports --experimental-network-inspection --experimental-permission \
    --experimental-print-required-tla --experimental-repl-await --experimental-require-module \
    --experimental-sqlite --experimental-strip-types --experimental-test-coverage \
    --experimental-test-module-mocks --experimental-test-snapshots --experimental-transform-types \
    --experimental-vm-modules --experimental-wasi-unstable-preview1 --experimental-wasm-modules \
    --experimental-websocket --experimental-webstorage --expose-gc --force-context-aware --force-fips \
    --force-node-api-uncaught-exceptions-policy --frozen-intrinsics --gc-interval --heap-prof \
    --huge-max-old-generation-size --initial-old-space-size --insecure-http-parser --inspect \
    --inspect-brk --inspect-wait --interpreted-frames-native-stack --jitless --lite-mode --max-heap-size \
    --max-old-space-size --max-semi-space-size --min-semi-space-size --node-memory-debug \
    --openssl-legacy-provider --openssl-shared-config --optimize-for-size --pending-deprecation \
    --perf-basic-prof --perf-basic-prof-only-functions --perf-prof --permission --predictable \
    --preserve-symlinks --preserve-symlinks-main --prof --random-seed --report-compact \
    --report-exclude-env --report-exclude-network --report-on-fatalerror --report-on-signal \
    --report-uncaught-exception --single-threaded --stack-size --stack-trace-limit --test \
    --test-force-exit --test-only --throw-deprecation --tls-max-v1.2 --tls-max-v1.3 --tls-min-v1.0 \
    --tls-min-v1.1 --tls-min-v1.2 --tls-min-v1.3 --trace-atomics-wait --trace-deopt --trace-deprecation \
    --trace-env --trace-env-js-stack --trace-env-native-stack --trace-exit --trace-gc --trace-gc-verbose \
    --trace-opt --trace-promises --trace-sigint --trace-sync-io --trace-tls --trace-uncaught \
    --trace-warnings --track-heap-objects --use-bundled-ca --use-env-proxy --use-openssl-ca \
    --use-system-ca --verify-base-objects --warnings --watch --watch-preserve-output --zero-fill-buffers \
    -c";

/// Their value is behind `=`, or else the next word.
const NODE_VALUES: &str = "\
    --allow-fs-read --allow-fs-write --conditions --cpu-prof-dir --cpu-prof-interval --cpu-prof-name \
    --debug-port --diagnostic-dir --disable-proto --disable-warning --dns-result-order --env-file \
    --env-file-if-exists --experimental-config-file --experimental-default-type --experimental-loader \
    --experimental-policy --experimental-test-isolation --heap-prof-dir --heap-prof-interval \
    --heap-prof-name --heapsnapshot-near-heap-limit --heapsnapshot-signal --icu-data-dir --import \
    --input-type --inspect-port --inspect-publish-uid --loader --localstorage-file \
    --max-http-header-size --max-old-space-size-percentage \
    --network-family-autoselection-attempt-timeout --openssl-config --policy-integrity \
    --redirect-warnings --report-dir --report-directory --report-filename --report-signal --require \
    --secure-heap --secure-heap-min --snapshot-blob --test-concurrency --test-coverage-branches \
    --test-coverage-exclude --test-coverage-functions --test-coverage-include --test-coverage-lines \
    --test-global-setup --test-isolation --test-name-pattern --test-reporter --test-reporter-destination \
    --test-rerun-failures --test-shard --test-skip-pattern --test-timeout --title --tls-cipher-list \
    --tls-keylog --trace-event-categories --trace-event-file-pattern --unhandled-rejections \
    --use-largepages --v8-pool-size --watch-kill-signal --watch-path -C -r";

pub(super) const INTERPRETERS: [Interpreter; 22] = [
    Interpreter {
        names: &["python", "pypy"],
        letters: Letters {
            flags: "bBdEhiIOPqRsStuvVx23U?",
            value: "WXQ",
            code: "c",
            script: "m",
            ..NO_LETTERS
        },
        words: Words {
            flags: "--help --help-all --help-env --help-xoptions --version",
            value: "--check-hash-based-pycs",
            ..NO_WORDS
        },
        ..PLAIN
    },
    Interpreter {
        names: &["bash", "rbash", "dash", "ash"],
        letters: SHELL_LETTERS,
        words: Words {
            flags: "\
                --debug --debugger --help --login --noediting --noprofile --norc --posix --restricted \
                --verbose --version",
            value: "--rcfile --init-file",
            ..NO_WORDS
        },
        ..PLAIN
    },
    Interpreter {
        names: &["sh", "ksh", "mksh"],
        // For mksh, `-T` takes a terminal.
        letters: Letters { flags: "abefhiklmnpqrtuvxBCDEHIPV", next: "", last: "o", ..SHELL_LETTERS },
        ..PLAIN
    },
    Interpreter {
        names: &["zsh"],
        letters: Letters {
            // All letters but those of the other lists and `b`, which ends the options.
            flags: "adefghijklmnpqrtuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
            value: "o",
            code: "cs",
            plus: true,
            ..NO_LETTERS
        },
        words: Words { value: "--emulate", ..NO_WORDS },
        ..PLAIN
    },
    Interpreter {
        names: &["fish"],
        letters: Letters { flags: "hPilNnv", value: "CpdfDo", code: "c", ..NO_LETTERS },
        words: Words {
            flags: "--interactive --login --no-config --no-execute --private",
            value: "\
                --init-command --features --debug --debug-output --debug-stack-frames --profile \
                --profile-startup",
            code: "--command",
            ..NO_WORDS
        },
        ..PLAIN
    },
    Interpreter {
        names: &["perl"],
        letters: Letters {
            // `-0777` and `-l012` have digits for a value; `-d:Trace` and `-V:name` have the rest of the word.
            flags: "acdfghlnpsStTuUvVwWX0123456789",
            value: "I",
            rest: "FMmiDC:",
            code: "eE",
            ..NO_LETTERS
        },
        ..PLAIN
    },
    Interpreter {
        names: &["ruby"],
        letters: Letters {
            // `-W:no-deprecated` has the rest of the word for a value.
            flags: "aclnpsSvwyhUWT0123456789",
            value: "ICEXr",
            rest: "Fix:",
            letter: "K",
            code: "e",
            ..NO_LETTERS
        },
        words: Words {
            flags: "\
                --verbose --debug --debug-frozen-string-literal --jit --yjit --rjit --mjit",
            value: "--enable --disable --encoding --external-encoding --internal-encoding",
            begin: "--enable- --disable- --yjit- --rjit- --mjit- --parser=",
            ..NO_WORDS
        },
        ..PLAIN
    },
    Interpreter {
        names: &["php"],
        letters: Letters {
            flags: "CehilmnqHsw?v",
            value: "cdtz",
            code: "BERSra",
            script: "fF",
            ..NO_LETTERS
        },
        words: Words {
            flags: "\
                --no-chdir --profile-info --help --info --syntax-check --modules --no-php-ini \
                --no-header --hide-args --syntax-highlight --syntax-highlighting --strip --version \
                --ini",
            value: "--php-ini --define --docroot --zend-extension",
            script: "--file --process-file",
            ..NO_WORDS
        },
        // Behind two dashes are the arguments of a script on standard input.
        dashes_end_options: false,
        ..PLAIN
    },
    Interpreter {
        names: &["node", "nodejs"],
        words: Words {
            flags: NODE_FLAGS,
            value: NODE_VALUES,
            // Prefixes of options that are on or off.
            begin: "--no- --harmony",
            code: "-e -p -pe -i --eval --print --run --interactive",
            ..NO_WORDS
        },
        commands: &["inspect"],
        ..PLAIN
    },
    Interpreter {
        names: &["deno"],
        words: Words {
            flags: "\
                -A -q --quiet --no-check --no-lock --no-prompt --no-remote --cached-only",
            value: "-c --config --import-map --cert --location --seed -L --log-level --ext",
            begin: "--allow- --deny- --unstable --inspect --v8-flags= --check --watch",
            ..NO_WORDS
        },
        commands: &["run", "serve"],
        target: JAVASCRIPT,
        ..PLAIN
    },
    Interpreter {
        names: &["bun"],
        // The value of `-c`, `--config` and `--inspect` is optional, and of later versions also the next word.
        words: Words {
            flags: "--watch --hot --smol --silent --bun -b --no-clear-screen --no-install",
            value: "-r --preload --require --import --cwd --env-file -d --define --port",
            begin: "--inspect= --inspect-brk= --inspect-wait=",
            ..NO_WORDS
        },
        commands: &["run"],
        target: JAVASCRIPT,
        ..PLAIN
    },
    Interpreter {
        names: &["java"],
        words: Words {
            flags: "\
                -client -server -d32 -d64 -ea -da -esa -dsa -enableassertions -disableassertions \
                -enablesystemassertions -disablesystemassertions -verbose -showversion --show-version \
                --show-module-resolution --enable-preview --dry-run --validate-modules \
                --illegal-access --illegal-native-access --sun-misc-unsafe-memory-access \
                --finalization",
            value: "\
                -cp -classpath --class-path -p --module-path --upgrade-module-path --add-modules \
                --limit-modules --add-opens --add-exports --add-reads --patch-module \
                --enable-native-access --source",
            begin: "\
                -D -X -ea: -da: -enableassertions: -disableassertions: -agentlib: -agentpath: \
                -javaagent: -splash: -verbose:",
            module: "-m --module",
            archive: "-jar",
            ..NO_WORDS
        },
        dashes_end_options: false,
        target: FirstWord::Class(&[".java"]),
        ..PLAIN
    },
    Interpreter {
        names: &["dotnet"],
        words: Words {
            flags: "-d --diagnostics",
            value: "\
                --additionalprobingpath --additional-deps --depsfile --fx-version --roll-forward \
                --roll-forward-on-no-candidate-fx --runtimeconfig",
            ..NO_WORDS
        },
        commands: &["exec"],
        dashes_end_options: false,
        target: FirstWord::Ending(&[".dll", ".exe"]),
        ..PLAIN
    },
    Interpreter {
        names: &["mono", "mono-sgen"],
        words: Words {
            flags: "--debug --server --desktop --llvm --nollvm --interpreter -v",
            value: "--config",
            begin: "--gc= --runtime= --optimize= -O= --security= --trace= --profile=",
            ..NO_WORDS
        },
        dashes_end_options: false,
        target: FirstWord::Ending(&[".exe", ".dll"]),
        ..PLAIN
    },
    Interpreter {
        names: &["lua"],
        letters: Letters { flags: "ivEW", value: "l", code: "e", ..NO_LETTERS },
        ..PLAIN
    },
    Interpreter {
        names: &["luajit"],
        letters: Letters { flags: "ivE", value: "lj", rest: "O", code: "eb", ..NO_LETTERS },
        ..PLAIN
    },
    Interpreter {
        names: &["tclsh"],
        words: Words { next: "-encoding", ..NO_WORDS },
        // Any other option belongs to a script that has no name.
        dashes_end_options: false,
        ..PLAIN
    },
    Interpreter {
        names: &["expect"],
        letters: Letters { flags: "dinNv", value: "D", code: "c", script: "fb", ..NO_LETTERS },
        ..PLAIN
    },
    Interpreter {
        names: &["julia"],
        letters: Letters { flags: "qi", value: "HLJCtp", code: "eEm", ..NO_LETTERS },
        words: Words {
            flags: "\
                --quiet --project --code-coverage --track-allocation --optimize --min-optlevel -O0 -O1 \
                -O2 -O3",
            value: "\
                --banner --check-bounds --color --compiled-modules --cpu-target --depwarn --gcthreads \
                --handle-signals --heap-size-hint --history-file --home --inline --load --machine-file \
                --math-mode --pkgimages --procs --startup-file --sysimage --sysimage-native-code \
                --threads --warn-overwrite --warn-scope",
            ..NO_WORDS
        },
        ..PLAIN
    },
    // The dynamic linker as a command.
    Interpreter {
        names: &["ld-linux", "ld.so", "ld-2", "ld64"],
        words: Words {
            flags: "--inhibit-cache",
            value: "\
                --library-path --glibc-hwcaps-prepend --glibc-hwcaps-mask --inhibit-rpath --audit \
                --preload --argv0",
            ..NO_WORDS
        },
        dashes_end_options: false,
        ..PLAIN
    },
    Interpreter {
        names: &["ld-musl"],
        words: Words { value: "--library-path --preload --argv0", ..NO_WORDS },
        ..PLAIN
    },
    Interpreter {
        names: &["wine", "wine64", "wine-preloader", "wine64-preloader"],
        target: FirstWord::Program,
        ..PLAIN
    },
];
