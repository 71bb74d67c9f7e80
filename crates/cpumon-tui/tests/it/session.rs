//! One session in a real terminal: tmux runs the demo, keys go in, the picture comes out.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::skip::skip;

/// A tmux server of its own, ended with the test.
struct Tmux(String);

impl Tmux {
    fn command(&self, args: &[&str]) -> Output {
        Command::new("tmux").args(["-L", &self.0, "-f", "/dev/null"]).args(args).output().unwrap()
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.command(&["capture-pane", "-p", "-t", "s"]).stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        for key in keys {
            self.command(&["send-keys", "-t", "s", key]);
        }
    }

    /// Waits until the screen holds a text.
    fn wait_for(&self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(start.elapsed() < Duration::from_mins(2), "no {text:?} on\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.command(&["kill-server"]);
    }
}

/// The demo's executable: cargo builds examples beside this test.
fn demo() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(|deps| deps.parent()).unwrap().join("examples/demo")
}

/// A shell of a size with the demo in it; `None` where tmux is missing (in CI that is a failure).
fn start(name: &str, size: (&str, &str), args: &str) -> Option<Tmux> {
    let has_tmux = Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success());
    if !has_tmux || !demo().exists() {
        skip(format!("needs tmux and the demo, {}", demo().display()));
        return None;
    }
    let tmux = Tmux(format!("cpumon-{name}-{}", std::process::id()));
    tmux.command(&[
        "new-session",
        "-d",
        "-x",
        size.0,
        "-y",
        size.1,
        "-s",
        "s",
        "env PS1='$ ' LANG=C.UTF-8 sh",
    ]);
    tmux.wait_for("$");
    tmux.keys(&[&format!("{} {args}; echo ended $?", demo().display()), "Enter"]);
    Some(tmux)
}

#[test]
fn a_session_from_start_to_end() {
    let Some(tmux) = start("session", ("80", "24"), "") else { return };
    tmux.wait_for("rustc");
    tmux.keys(&["Down", "Enter"]);
    tmux.wait_for("├─·rustc");
    tmux.keys(&["t"]);
    tmux.wait_for("└─▾ sshd");
    tmux.keys(&["t", "g"]);
    tmux.wait_for("▸ ksoftirqd");
    tmux.keys(&["g", "["]);
    tmux.wait_for("PAST");
    tmux.keys(&["b", "3", "0", "Enter"]);
    tmux.wait_for("14:05:30Z");
    tmux.command(&["resize-window", "-t", "s", "-x", "50", "-y", "16"]);
    tmux.wait_for("? help  q quit  H t g");
    tmux.keys(&["?"]);
    tmux.wait_for("help: Up Down scroll, Esc closes");
    tmux.keys(&["Escape"]);
    // A terminal takes an Escape and a key right behind it for one key with Alt.
    tmux.wait_for("? help  q quit  H t g");
    tmux.keys(&["q"]);
    let after = tmux.wait_for("ended 0");
    assert!(!after.contains("rustc"), "the shell's screen is back:\n{after}");
}

#[test]
fn a_panic_gives_the_terminal_back() {
    let Some(tmux) = start("panic", ("100", "30"), "--panic") else { return };
    let after = tmux.wait_for("ended 101");
    assert!(after.contains("made-up panic"), "{after}");
    // A terminal in raw mode would neither show nor run the typed text.
    tmux.keys(&["echo back $((40+2))", "Enter"]);
    tmux.wait_for("back 42");
}

#[test]
fn silence_is_shown() {
    let Some(tmux) = start("silent", ("80", "24"), "--silent") else { return };
    // How long is a second on screen: another test has it.
    tmux.wait_for("NO DATA since");
    tmux.keys(&["q"]);
    tmux.wait_for("ended 0");
}
