//! Writes the page's columns and the table of columns in docs/store.md from the tables in `cpumon-model`, so that headings and
//! help are written in one place.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use clap::Args;
use cpumon_model::{
    Align, COLUMNS, Frontends, HOST_COLUMNS, Kind, PageLayout, ScreenColumn, SourceKind, TASK_COLUMNS, Terms,
};

use crate::repository;

/// The page's columns, from the root of the repository.
const PAGE: &str = "web/src/feed/columns.generated.ts";

/// The document that lists the stored columns between two marks.
const DOCUMENT: &str = "docs/store.md";
const BEGIN: &str = "<!-- columns: made by `cargo xtask generate-columns` -->\n";
const END: &str = "<!-- /columns -->";

const HEAD: &str = "\
// Written by `cargo xtask generate-columns` from crates/cpumon-model/src/columns/screen.rs. Do not edit.

/** How a value is shown: share of the interval, mean number of threads, count per second, time, number as it is, text. */
export type Format = 'share' | 'threads' | 'per_s' | 'ns' | 'plain' | 'text';

export interface ScreenColumn {
  /** Stable name, in addresses and settings. */
  readonly id: string;
  /** Column of the receiver's tables from which the value is computed; null: the page makes the value itself. */
  readonly source: string | null;
  readonly title: string;
  readonly format: Format;
  readonly align: 'left' | 'right';
  readonly help: string;
  /** In the grid of processes and threads. */
  readonly layout?: {
    /** px. */
    readonly width: number;
    /** Smaller comes first where space is short. */
    readonly rank: number;
    /** Not shown unless the user chose it. */
    readonly isSeldom: boolean;
  };
}
";

#[derive(Args)]
pub struct ColumnsArgs {
    /// Only check that the files are up to date
    #[arg(long)]
    check: bool,
}

pub fn generate(args: &ColumnsArgs) -> Result<()> {
    let root = repository::root()?;
    let read = |name: &str| {
        let path = root.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let generated = [(PAGE, page_columns()), (DOCUMENT, document(&read(DOCUMENT)?)?)];
    for (name, text) in generated {
        if !args.check {
            std::fs::write(root.join(name), text).with_context(|| format!("cannot write {name}"))?;
        } else if read(name)? != text {
            bail!("{name} differs from the table of columns: run cargo xtask generate-columns");
        }
    }
    Ok(())
}

/// The document with the table of today between its marks.
fn document(text: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("{DOCUMENT} lacks {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{DOCUMENT} lacks {END}"))?;
    Ok([before, BEGIN, &stored_columns(), END, after].concat())
}

fn stored_columns() -> String {
    let mut text = String::from("| column | type, unit | needs | in | meaning |\n|---|---|---|---|---|\n");
    for column in COLUMNS {
        let tables: Vec<_> =
            column.tables.iter_names().map(|(name, _)| format!("`{}`", name.to_lowercase())).collect();
        let tables = if column.tables.is_all() { "all".to_owned() } else { tables.join(" ") };
        let needs: Vec<_> = column.needs.iter_names().map(|(name, _)| name.to_lowercase()).collect();
        let kind = match column.kind {
            Kind::Integer => "integer",
            Kind::Real => "real",
            Kind::Text => "text",
        };
        let unit = if column.unit.is_empty() { String::new() } else { format!(", {}", column.unit) };
        let help = column.help.replace('|', "\\|");
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "| `{}` | {kind}{unit} | {} | {tables} | {help} |", column.name, needs.join(", "));
    }
    text
}

/// The generated TypeScript.
fn page_columns() -> String {
    [HEAD, &table("TASK_COLUMNS", TASK_COLUMNS), &table("HOST_COLUMNS", HOST_COLUMNS), &terms()].concat()
}

/// Words of each operating system.
fn terms() -> String {
    let mut text = String::from(
        "\n/** Labels by stored column, of hosts that this system runs on. */\nexport const TERMS = {\n",
    );
    for (system, terms) in [("linux", Terms::LINUX), ("windows", Terms::WINDOWS)] {
        let _ = writeln!(text, "  {system}: {{");
        for (name, term) in [("irq_ns", terms.irq), ("softirq_ns", terms.softirq)] {
            let _ = writeln!(
                text,
                "    {name}: {{ label: {}, help: {} }},",
                quoted(term.label),
                quoted(term.help)
            );
        }
        text.push_str("  },\n");
    }
    let sources: Vec<_> =
        [SourceKind::Nt, SourceKind::Toolhelp].iter().map(|source| quoted(source.name())).collect();
    let _ = writeln!(text, "}} as const;\n\n/** Sources that measure Windows. */");
    let _ = writeln!(text, "export const WINDOWS_SOURCES: readonly string[] = [{}];", sources.join(", "));
    text
}

fn table(name: &str, columns: &[ScreenColumn]) -> String {
    let mut text = format!("\nexport const {name} = [\n");
    for column in columns.iter().filter(|column| column.frontends.contains(Frontends::PAGE)) {
        let source = column.stored().map_or_else(|| "null".to_owned(), |stored| quoted(stored.name));
        let align = match column.align {
            Align::Left => "left",
            Align::Right => "right",
        };
        let row = [
            ("id", quoted(column.id)),
            ("source", source),
            ("title", quoted(column.title)),
            ("format", quoted(column.format.name())),
            ("align", quoted(align)),
            ("help", quoted(&column.help())),
        ];
        text.push_str("  {\n");
        for (key, value) in row {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "    {key}: {value},");
        }
        if let Some(PageLayout { width_px, rank, is_seldom }) = column.page {
            let _ =
                writeln!(text, "    layout: {{ width: {width_px}, rank: {rank}, isSeldom: {is_seldom} }},");
        }
        text.push_str("  },\n");
    }
    text.push_str("] as const satisfies readonly ScreenColumn[];\n");
    text
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_files_agree_with_the_tables_of_columns() {
        generate(&ColumnsArgs { check: true }).unwrap();
    }
}
