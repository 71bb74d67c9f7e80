//! Manual pages and shell completions. In: the command line's definition. Out: roff and shell text.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap_mangen::Man;

use crate::cli::{self, CompletionsArgs, ManArgs};
use crate::exit::Outcome;

/// The definition, with each option's variable named.
fn command() -> clap::Command {
    cli::command().mut_subcommands(|command| {
        let shown = |arg: clap::Arg| arg.hide_env(false);
        command.mut_args(shown).mut_subcommands(|command| command.mut_args(shown))
    })
}

/// `cpumon man [DIR]`.
pub fn man(args: &ManArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let Some(dir) = &args.dir else {
        Man::new(command()).render(out).context("cannot write the manual page")?;
        return Ok(Outcome::Done);
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let root = command();
    for subcommand in root.get_subcommands() {
        let name = format!("cpumon-{}", subcommand.get_name());
        // The page's title and synopsis are made from the name that is set here.
        let page =
            subcommand.clone().name(name.clone()).bin_name(format!("cpumon {}", subcommand.get_name()));
        write_page(dir, &name, page)?;
        for nested in subcommand.get_subcommands().filter(|nested| nested.get_name() != "help") {
            let name = format!("{name}-{}", nested.get_name());
            let line = format!("cpumon {} {}", subcommand.get_name(), nested.get_name());
            write_page(dir, &name, nested.clone().name(name.clone()).bin_name(line))?;
        }
    }
    write_page(dir, "cpumon", root)?;
    Ok(Outcome::Done)
}

fn write_page(dir: &Path, name: &str, page: clap::Command) -> anyhow::Result<()> {
    let path = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// `cpumon completions SHELL`.
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
        for name in ["cpumon", "cpumon-top", "cpumon-serve", "cpumon-export"] {
            let page = std::fs::read_to_string(dir.path().join("man1").join(format!("{name}.1"))).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{name}");
        }
        let serve = std::fs::read_to_string(dir.path().join("man1/cpumon-serve.1")).unwrap();
        assert!(serve.contains("CPUMON_RETAIN_DAYS"), "the environment is documented");
    }

    #[test]
    fn bash_completes_the_commands() {
        let mut text = Vec::new();
        completions(&CompletionsArgs { shell: clap_complete::Shell::Bash }, &mut text).unwrap();
        assert!(String::from_utf8(text).unwrap().contains("--retain-days"));
    }
}
