//! The screen as a person uses it, in tmux: keys work as documented, and the terminal is restored.

use std::process::{Command, Output, Stdio};

use crate::skip::skip;
use crate::support::{KillOnDrop, eventually, ok, text};

/// A tmux server of its own; ended when dropped.
pub struct Tmux {
    socket: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

impl Tmux {
    pub fn start(command: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let tmux = Self { socket: dir.path().join("tmux"), _dir: dir };
        let has_tmux = Command::new("tmux").arg("-V").output().is_ok();
        if !has_tmux {
            skip("needs tmux");
            return None;
        }
        let started = tmux.call(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", command]);
        assert!(started.status.success(), "{started:?}");
        Some(tmux)
    }

    fn call(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        command.arg("-S").arg(&self.socket).args(args).output().unwrap()
    }

    fn screen(&self) -> String {
        text(&self.call(&["capture-pane", "-p"]).stdout)
    }

    pub fn keys(&self, keys: &[&str]) {
        let mut args = vec!["send-keys"];
        args.extend(keys);
        assert!(self.call(&args).status.success());
    }

    pub fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(what, || {
                last = self.screen();
                holds(&last).then(|| last.clone())
            })
        }));
        found.unwrap_or_else(|_| panic!("{what}: the screen is\n{last}"))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.call(&["kill-server"]);
    }
}

#[test]
fn keys_work_and_the_terminal_is_restored() {
    let top = format!("{} top -d 200ms --source procfs", env!("CARGO_BIN_EXE_cpumon"));
    let Some(tmux) = Tmux::start("env PS1='prompt> ' sh") else { return };
    tmux.wait_for("a shell", |screen| screen.contains("prompt>"));
    tmux.keys(&["echo before", "Enter"]);
    tmux.keys(&[&top, "Enter"]);
    tmux.wait_for("the grid", |screen| screen.contains("PID") && screen.contains("capacity"));

    tmux.keys(&["/"]);
    tmux.keys(&["-l", "cpumon"]);
    tmux.wait_for("the search", |screen| screen.contains("cpumon"));
    tmux.keys(&["Enter"]);
    tmux.keys(&["H"]);
    tmux.wait_for("threads", |screen| screen.contains("measure"));
    tmux.keys(&["t"]);
    tmux.wait_for("a tree", |screen| screen.contains("├─"));
    tmux.keys(&["q"]);
    let after = tmux.wait_for("the prompt again", |screen| {
        screen.contains("before") && screen.trim_end().ends_with("prompt>")
    });
    assert!(!after.contains("capacity"), "the screen of before is back:\n{after}");
    // Echo and line mode are on again: typed text shows, and Enter runs it.
    tmux.keys(&["echo af''ter", "Enter"]);
    // Text typed ahead is echoed in front of the prompt.
    tmux.wait_for("a working shell", |screen| {
        screen.lines().any(|line| line.trim_start_matches("prompt> ") == "after")
    });
}

#[test]
fn the_screen_of_a_receiver_says_where_its_page_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store.db");
    let cpumon = env!("CARGO_BIN_EXE_cpumon");
    let run = format!("{cpumon} run --udp 127.0.0.1:0 --http 127.0.0.1:0 --store {}", store.display());
    let Some(tmux) = Tmux::start(&run) else { return };
    // The text behind it shows that the title is complete.
    let address = |screen: &str| Some(screen.split("page http://").nth(1)?.split_once(',')?.0.to_owned());
    let screen = tmux.wait_for("the address of the page", |screen| address(screen).is_some());
    let address = address(&screen).unwrap();
    std::net::TcpStream::connect(&address).unwrap_or_else(|error| panic!("{address}: {error}"));
    tmux.keys(&["q"]);
}

#[test]
fn ctrl_z_gives_the_shell_the_terminal_and_fg_brings_the_screen_back() {
    let top = format!("{} top -d 200ms --source procfs", env!("CARGO_BIN_EXE_cpumon"));
    let Some(tmux) = Tmux::start("env PS1='prompt> ' sh -i") else { return };
    tmux.wait_for("a shell", |screen| screen.contains("prompt>"));
    tmux.keys(&[&top, "Enter"]);
    tmux.wait_for("the grid", |screen| screen.contains("PID") && screen.contains("capacity"));
    tmux.keys(&["C-z"]);
    tmux.wait_for("the prompt", |screen| {
        screen.contains("Stopped") && screen.trim_end().ends_with("prompt>") && !screen.contains("capacity")
    });
    tmux.keys(&["echo still''there", "Enter"]);
    tmux.wait_for("a working shell", |screen| screen.contains("stillthere"));
    tmux.keys(&["fg", "Enter"]);
    tmux.wait_for("the grid again", |screen| screen.contains("PID") && screen.contains("capacity"));
    tmux.keys(&["?"]);
    tmux.wait_for("the help: keys are read one by one", |screen| screen.contains("help: Up Down"));
    tmux.keys(&["Escape"]);
    // A terminal takes an Escape and a key right behind it for one key with Alt.
    tmux.wait_for("the grid without the help", |screen| !screen.contains("help: Up Down"));
    tmux.keys(&["q"]);
    tmux.wait_for("the prompt at the end", |screen| screen.trim_end().ends_with("prompt>"));
}

#[test]
fn this_machine_shows_command_lines_on_request_with_secrets_redacted() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line", "--password", "hunter2"]).stdin(Stdio::piped());
    let child = KillOnDrop(shell.spawn().unwrap());
    let top = format!("{} top -d 200ms --source procfs -p {}", env!("CARGO_BIN_EXE_cpumon"), child.0.id());
    if let Some(tmux) = Tmux::start(&format!("{top} --cmdline")) {
        let words = ["COMMAND", "sh -c read line", "--password ***"];
        let has_all = |screen: &str| words.iter().all(|word| screen.contains(word));
        let screen = tmux.wait_for("its command line", has_all);
        assert!(!screen.contains("hunter2"), "{screen}");
        tmux.keys(&["c"]);
        tmux.wait_for("names", |screen| screen.contains(" NAME") && !screen.contains("read line"));
        tmux.keys(&["c", "."]);
        tmux.wait_for("the last part", |screen| screen.contains("no command line on screen goes on"));
    }
    if let Some(tmux) = Tmux::start(&top) {
        let screen = tmux.wait_for("names", |screen| screen.contains(" NAME"));
        assert!(!screen.contains("read line"), "{screen}");
        tmux.keys(&["c"]);
        tmux.wait_for("what to do", |screen| screen.contains("no command lines: start with --cmdline"));
    }
}

#[test]
fn without_a_command_it_shows_this_machine() {
    let Some(tmux) = Tmux::start(env!("CARGO_BIN_EXE_cpumon")) else { return };
    tmux.wait_for("the grid", |screen| screen.contains("PID") && screen.contains("capacity"));
    tmux.keys(&["q"]);
}

/// It looped on the closed terminal with one CPU until it was killed.
#[test]
fn a_terminal_that_goes_away_ends_it() {
    ends_with_its_terminal("sh");
}

/// `su -c` starts a session of its own, which gets no SIGHUP.
#[test]
fn a_terminal_that_goes_away_without_a_signal_ends_it_too() {
    ends_with_its_terminal("setsid -w sh");
}

fn ends_with_its_terminal(shell: &str) {
    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("pid");
    let binary = env!("CARGO_BIN_EXE_cpumon");
    let script = format!("{shell} -c 'echo $$ > {}; exec {binary} top --source procfs'", pid_file.display());
    let Some(tmux) = Tmux::start(&script) else { return };
    tmux.wait_for("the grid", |screen| screen.contains("capacity"));
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    let process = std::path::Path::new("/proc").join(pid.trim());
    assert!(process.exists());
    drop(tmux);
    eventually("the process to end", || (!process.exists()).then_some(()));
}

#[test]
fn csv_shows_escape_sequences_of_names_as_escapes() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("s.db");
    drop(cpumon_store::Writer::open(&store, &cpumon_store::StoreOptions::default()).unwrap());
    let store = store.to_str().unwrap();
    let query = "SELECT 'evil' || char(27) || '[2J' || char(8238) AS name";
    let args = ["sql", "--format", "csv", "--store", store, query];
    assert_eq!(ok(&args), "name\r\n\"evil\\x1b[2J\\u{202e}\"\r\n");
    let line = format!("{} sql --format csv --store {store} \"{query}\"", env!("CARGO_BIN_EXE_cpumon"));
    let Some(tmux) = Tmux::start("env PS1='prompt> ' sh") else { return };
    tmux.wait_for("a shell", |screen| screen.contains("prompt>"));
    tmux.keys(&["-l", &line]);
    tmux.keys(&["Enter"]);
    tmux.wait_for("the name with its escapes", |screen| screen.contains("evil\\x1b[2J\\u{202e}"));
}
