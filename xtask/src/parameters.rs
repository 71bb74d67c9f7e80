//! Refuses functions that take tuples: a pair of numbers at a call does not name its parts.

use std::path::Path;

use anyhow::{Context, Result, bail};
use syn::visit::{self, Visit};

use crate::cycles::is_test;
use crate::repository::{root, tracked};

/// Functions that may take a tuple: what a library's trait or an iterator prescribes.
const MOST: usize = 5;

/// Fails when more than a few functions of the crates take tuples, and names them all.
pub fn check() -> Result<()> {
    let root = root()?;
    let mut found = Vec::new();
    for path in tracked(&root)?.iter().filter(|path| is_production(path)) {
        found.extend(in_file(&root, path)?);
    }
    if found.len() > MOST {
        bail!("{} functions take tuples (at most {MOST} may):\n  {}", found.len(), found.join("\n  "));
    }
    Ok(())
}

fn is_production(path: &str) -> bool {
    path.starts_with("crates/")
        && path.contains("/src/")
        && Path::new(path).extension().is_some_and(|ending| ending == "rs")
        && !path.ends_with("tests.rs")
        && !path.contains("/tests/")
}

fn in_file(root: &Path, path: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
    let syntax = syn::parse_file(&text).with_context(|| format!("cannot parse {path}"))?;
    let mut finder = Finder::default();
    finder.visit_file(&syntax);
    Ok(finder.names.into_iter().map(|name| format!("{path}: {name}")).collect())
}

#[derive(Default)]
struct Finder {
    names: Vec<String>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let takes_tuple = signature.inputs.iter().any(|input| match input {
            syn::FnArg::Typed(parameter) => is_tuple(&parameter.ty),
            syn::FnArg::Receiver(_) => false,
        });
        if takes_tuple {
            self.names.push(signature.ident.to_string());
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !function.attrs.iter().any(|attribute| attribute.path().is_ident("test")) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }
}

fn is_tuple(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_by_value_and_by_reference_are_found_and_closures_are_not() {
        let text =
            "fn a((x, y): (u8, u8)) {} fn b(p: &(u8, u8)) {} fn c(f: impl Fn((u8, u8))) {} fn d(x: u8) {}
            #[cfg(test)] mod tests { fn e(p: (u8, u8)) {} }";
        let mut finder = Finder::default();
        finder.visit_file(&syn::parse_file(text).unwrap());
        assert_eq!(finder.names, ["a", "b"]);
    }
}
