//! Man pages and shell completions, made from the command line's definition.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::builder::Resettable;
use clap_mangen::Man;
use cpumon_export::OutputFile;

use crate::cli::examples::{self, EXIT_CODES, Example, VARIABLES};
use crate::cli::{self, CompletionsArgs, ManArgs};
use crate::exit::Outcome;

/// The command-line definition, with each flag's environment variable shown.
fn command() -> clap::Command {
    cli::command().mut_subcommands(|command| {
        let shown = |arg: clap::Arg| arg.hide_env(false);
        command.mut_args(shown).mut_subcommands(|command| command.mut_args(shown))
    })
}

pub fn man(args: &ManArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let Some(dir) = &args.dir else {
        out.write_all(&page(command(), "")?).context("cannot write the man page")?;
        return Ok(Outcome::Done);
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let root = command();
    for subcommand in root.get_subcommands() {
        let name = format!("cpumon-{}", subcommand.get_name());
        // Title and synopsis of the page are made from this name.
        let path = subcommand.get_name();
        let titled = subcommand.clone().name(name.clone()).bin_name(format!("cpumon {path}"));
        write_page(dir, &name, &page(titled, path)?)?;
        for nested in subcommand.get_subcommands().filter(|nested| nested.get_name() != "help") {
            let name = format!("{name}-{}", nested.get_name());
            let path = format!("{path} {}", nested.get_name());
            let titled = nested.clone().name(name.clone()).bin_name(format!("cpumon {path}"));
            write_page(dir, &name, &page(titled, &path)?)?;
        }
    }
    write_page(dir, "cpumon", &page(root, "")?)?;
    Ok(Outcome::Done)
}

/// A page as roff. The examples are a section of their own; `clap_mangen` would call it EXTRA.
fn page(command: clap::Command, path: &str) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(command.after_help(Resettable::Reset)).render(&mut text)?;
    if path.is_empty() {
        write!(text, ".SH ENVIRONMENT\n{}\n.SH \"EXIT STATUS\"\n{}\n", roff(VARIABLES), roff(EXIT_CODES))?;
    }
    writeln!(text, ".SH EXAMPLES")?;
    for Example { purpose, line } in examples::of(path) {
        write!(text, ".PP\n{}:\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n", roff(purpose), roff(line))?;
    }
    Ok(text)
}

/// Escapes characters that roff would read as an escape or a hyphen.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // A line that begins with a dot or an apostrophe would be a request.
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

fn write_page(dir: &Path, name: &str, text: &[u8]) -> anyhow::Result<()> {
    let path = dir.join(format!("{name}.1"));
    // In a directory of another user a link may lead to anywhere.
    let mut file = OutputFile::create(&path)?;
    file.let_others_read()?;
    file.write_all(text).map_err(|error| file.with_path(error.into()))?;
    Ok(file.finish()?)
}

pub fn completions(args: &CompletionsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "cpumon", &mut text);
    out.write_all(&text).context("cannot write the completions")?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_gets_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let args = ManArgs { dir: Some(dir.path().join("man1")) };
        man(&args, &mut std::io::sink()).unwrap();
        for name in ["cpumon", "cpumon-top", "cpumon-serve", "cpumon-export", "cpumon-hosts-revoke"] {
            let page = std::fs::read_to_string(dir.path().join("man1").join(format!("{name}.1"))).unwrap();
            assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH EXAMPLES\n.PP"), "{name}");
            assert!(!page.contains(".SH EXTRA"), "{name}");
        }
        let serve = std::fs::read_to_string(dir.path().join("man1/cpumon-serve.1")).unwrap();
        assert!(serve.contains("CPUMON_RETAIN_DAYS"), "each variable is named");
    }

    /// `cpumon man DIR` wrote through a link that another user had left there.
    #[test]
    fn a_page_is_for_all_to_read_and_follows_no_link_of_another_user() {
        use std::os::unix::fs::{PermissionsExt, lchown, symlink};
        let dir = tempfile::tempdir().unwrap();
        write_page(dir.path(), "new", b"text").unwrap();
        let mode = dir.path().join("new.1").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        let (victim, link) = (dir.path().join("victim"), dir.path().join("cpumon.1"));
        std::fs::write(&victim, "precious").unwrap();
        symlink("victim", &link).unwrap();
        if lchown(&link, Some(65_534), None).is_err() {
            assert!(std::env::var_os("CI").is_none(), "this test must run as root in CI");
            println!("skipped: needs root to give a link to another user");
            return;
        }
        let error = format!("{:#}", write_page(dir.path(), "cpumon", b"text").unwrap_err());
        assert!(error.contains("cpumon.1: it is a symbolic link of user 65534"), "{error}");
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn bash_completes_the_commands() {
        let mut text = Vec::new();
        completions(&CompletionsArgs { shell: clap_complete::Shell::Bash }, &mut text).unwrap();
        assert!(String::from_utf8(text).unwrap().contains("--retain-days"));
    }
}
