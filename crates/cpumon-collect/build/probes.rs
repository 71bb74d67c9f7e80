//! The probes: one object each, and the layouts that user space shares with it, read from the object's type information (BTF).

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use libbpf_rs::btf::types::{Array, Int, IntEncoding, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType, HasSize};

/// `src/linux/bpf/NAME/NAME.bpf.c`.
struct Probe {
    name: &'static str,
    /// Structs that become types of the same layout: name in C, and in Rust.
    layouts: &'static [(&'static str, &'static str)],
    /// Structs that another place has in Rust: it is checked that both are laid out alike.
    known: &'static [(&'static str, &'static str)],
}

const PROBES: [Probe; 2] = [
    Probe {
        name: "sched",
        layouts: &[
            ("task_record", "TaskRecord"),
            ("thread_times", "ThreadTimes"),
            ("sent", "SentHeader"),
            ("exit_event", "ExitEvent"),
            ("exec_event", "ExecEvent"),
            ("script_event", "ScriptEvent"),
            ("group_header", "GroupHeader"),
            ("lost_exits", "LostExits"),
            ("lost_sides", "LostSides"),
            ("ring_drops", "RingDrops"),
            ("run_clock", "RunClock"),
            ("cpu_times", "CpuAccount"),
            ("cpu", "CpuEntry"),
            ("control", "ControlPage"),
            ("irq_times", "IrqEntry"),
            ("delay_histogram", "DelayEntry"),
            ("delay_key", "DelayKey"),
            ("delay_page", "DelayPage"),
            ("interpreter", "InterpreterEntry"),
            ("wait_for", "WaitForEntry"),
            ("wait_for_page", "WaitForPage"),
        ],
        known: &[("counters", "Counters")],
    },
    Probe {
        name: "trace",
        layouts: &[
            ("event_record", "EventRecord"),
            ("task_entry", "TaskEntry"),
            ("program_entry", "ProgramEntry"),
            ("group_entry", "GroupEntry"),
            ("ring_state", "RingState"),
            ("cpu_state", "CpuState"),
        ],
        known: &[("run_clock", "RunClock")],
    },
];

pub fn build() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for probe in &PROBES {
        let object = out.join(format!("{}.bpf.o", probe.name));
        compile(probe.name, &object)?;
        fs::write(out.join(format!("{}.rs", probe.name)), probe.list_layouts(&Btf::from_path(&object)?)?)?;
    }
    Ok(())
}

fn compile(probe: &str, object: &Path) -> Result<(), Box<dyn Error>> {
    let source = Path::new("src/linux/bpf").join(probe).join(format!("{probe}.bpf.c"));
    // v3: atomic operations that return the old value.
    let mut arguments = vec!["-Wall".to_owned(), "-Werror".to_owned(), "-mcpu=v3".to_owned()];
    arguments.extend(kernel_api_headers().map(|dir| format!("-I{}", dir.display())));
    let mut builder = libbpf_cargo::SkeletonBuilder::new();
    builder.source(&source).obj(object).clang_args(arguments);
    // All of clang's messages are in the error's chain of causes, on one line each.
    builder.build().map_err(|error| format!("cannot compile {}: {error:#}", source.display()).into())
}

/// Debian and Ubuntu keep `asm/` below a directory named after the machine, which clang leaves out for BPF.
fn kernel_api_headers() -> Option<PathBuf> {
    let machine = Command::new("gcc").arg("-dumpmachine").output().ok().filter(|out| out.status.success());
    let named = machine.and_then(|out| String::from_utf8(out.stdout).ok()).map(|name| name.trim().to_owned());
    let fallback = format!("{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default());
    let dir = Path::new("/usr/include").join(named.unwrap_or(fallback));
    fs::exists(dir.join("asm")).unwrap_or(false).then_some(dir)
}

fn find<'b>(btf: &'b Btf<'_>, name: &str) -> Option<Struct<'b>> {
    // Variables may have the same name.
    btf.type_by_kind().find(|layout: &Struct<'_>| layout.name().is_some_and(|known| known == name))
}

impl Probe {
    /// The calls of the macros: `layouts! { Name = SIZE { OFFSET field: Type, … } … }`, and `same_layout!` for those that are known.
    fn list_layouts(&self, btf: &Btf<'_>) -> Result<String, Box<dyn Error>> {
        let mut text = "layouts! {\n".to_owned();
        for (name, rust_name) in self.layouts {
            self.list_layout(btf, name, rust_name, &mut text)?;
        }
        text.push_str("}\n");
        for (name, rust_name) in self.known {
            text.push_str("same_layout! {\n");
            self.list_layout(btf, name, rust_name, &mut text)?;
            text.push_str("}\n");
        }
        Ok(text)
    }

    fn list_layout(
        &self,
        btf: &Btf<'_>,
        name: &str,
        rust_name: &str,
        text: &mut String,
    ) -> Result<(), Box<dyn Error>> {
        let layout = find(btf, name).ok_or_else(|| format!("no `struct {name}` in {}", self.name))?;
        writeln!(text, "    {rust_name} = {} {{", layout.size())?;
        for field in layout.iter() {
            let field_name = field.name.and_then(|name| name.to_str()).ok_or("a field without a name")?;
            let MemberAttr::Normal { offset: bits } = field.attr else {
                return Err(format!("{name}.{field_name} is a bit field").into());
            };
            let of: BtfType<'_> = btf.type_by_id(field.ty).ok_or("a field without a type")?;
            let of = self.rust_type(of).map_err(|error| format!("{name}.{field_name}: {error}"))?;
            writeln!(text, "        {} {field_name}: {of},", bits / 8)?;
        }
        text.push_str("    }\n");
        Ok(())
    }

    /// The type of a field: an integer, a struct of the lists, or an array of these.
    fn rust_type(&self, of: BtfType<'_>) -> Result<String, Box<dyn Error>> {
        let of = of.skip_mods_and_typedefs();
        let name = of.name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Ok(array) = Array::try_from(of) {
            return Ok(format!("[{}; {}]", self.rust_type(array.contained_type())?, array.capacity()));
        }
        if let Ok(integer) = Int::try_from(of) {
            // Plain `char` has a sign for some compilers, and holds text.
            let is_signed = matches!(integer.encoding, IntEncoding::Signed) && name != "char";
            return Ok(format!("{}{}", if is_signed { 'i' } else { 'u' }, integer.bits));
        }
        let mut structs = self.layouts.iter().chain(self.known);
        let known = structs.find(|(known, _)| *known == name);
        known
            .map(|(_, rust_name)| (*rust_name).to_owned())
            .ok_or_else(|| format!("`{name}` is not listed").into())
    }
}
