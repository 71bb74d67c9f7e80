//! The modules of a crate, which file each is in, and what each defines and re-exports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use syn::{Attribute, Item, UseTree};

/// Names from the crate's root down: `["tls", "server"]`.
pub type ModulePath = Vec<String>;

pub struct SourceFile {
    pub path: PathBuf,
    pub module: ModulePath,
    pub syntax: syn::File,
}

/// One name that a `use` brings into a module; no name for `*`.
#[derive(Clone)]
pub struct Import {
    pub name: Option<String>,
    pub target: Vec<String>,
    pub is_public: bool,
}

#[derive(Default)]
pub struct Module {
    pub file: usize,
    pub definitions: BTreeSet<String>,
    pub imports: Vec<Import>,
}

pub struct ModuleTree {
    pub files: Vec<SourceFile>,
    pub modules: BTreeMap<ModulePath, Module>,
}

impl ModuleTree {
    /// Reads the crate that begins in the file `root`, without its test modules.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Self { files: Vec::new(), modules: BTreeMap::new() };
        tree.read_file(root, &[])?;
        Ok(tree)
    }

    fn read_file(&mut self, path: &Path, module: &[String]) -> Result<()> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let syntax = syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        let file = self.files.len();
        let items = syntax.items.clone();
        self.files.push(SourceFile { path: path.to_owned(), module: module.to_vec(), syntax });
        self.read_items(&items, file, module)
    }

    fn read_items(&mut self, items: &[Item], file: usize, module: &[String]) -> Result<()> {
        let entry = Module {
            file,
            definitions: items.iter().filter_map(defined_name).collect(),
            imports: items.iter().flat_map(imports_of).collect(),
        };
        self.modules.insert(module.to_vec(), entry);
        for item in items {
            let Item::Mod(child) = item else { continue };
            if is_test(&child.attrs) {
                continue;
            }
            let mut inner = module.to_vec();
            inner.push(child.ident.to_string());
            match &child.content {
                Some((_, items)) => self.read_items(items, file, &inner)?,
                None => self.read_file(&self.file_of(file, child)?, &inner)?,
            }
        }
        Ok(())
    }

    fn file_of(&self, parent: usize, child: &syn::ItemMod) -> Result<PathBuf> {
        let parent = &self.files[parent].path;
        let folder = parent.parent().context("a source file has a folder")?;
        if let Some(path) = path_attribute(&child.attrs) {
            return Ok(folder.join(path));
        }
        let stem = parent.file_stem().unwrap_or_default();
        let owns_folder = ["mod", "lib", "main"].iter().any(|name| stem == *name);
        let folder = if owns_folder { folder.to_owned() } else { folder.join(stem) };
        let candidates =
            [format!("{}.rs", child.ident), format!("{}/mod.rs", child.ident)].map(|name| folder.join(name));
        match candidates.into_iter().find(|candidate| candidate.exists()) {
            Some(found) => Ok(found),
            None => bail!("{} declares `mod {}`, whose file is not there", parent.display(), child.ident),
        }
    }
}

/// `#[cfg(test)]`, also as a part of `all(…)`; `not(test)` is production code.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let text = list.tokens.to_string();
        !text.contains("not") && text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
    })
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("path")).find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
        Some(text.value())
    })
}

fn defined_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn imports_of(item: &Item) -> Vec<Import> {
    match item {
        Item::Use(item) if !is_test(&item.attrs) => {
            flatten(&item.tree, !matches!(item.vis, syn::Visibility::Inherited))
        }
        _ => Vec::new(),
    }
}

/// Each name that a `use` tree imports.
pub fn flatten(tree: &UseTree, is_public: bool) -> Vec<Import> {
    let mut imports = Vec::new();
    flatten_into(tree, &mut Vec::new(), is_public, &mut imports);
    imports
}

fn flatten_into(tree: &UseTree, prefix: &mut Vec<String>, is_public: bool, imports: &mut Vec<Import>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten_into(&path.tree, prefix, is_public, imports);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten_into(tree, prefix, is_public, imports);
            }
        }
        UseTree::Glob(_) => imports.push(Import { name: None, target: prefix.clone(), is_public }),
        UseTree::Name(name) => {
            let ident = name.ident.to_string();
            imports.push(import(prefix, &ident, &ident, is_public));
        }
        UseTree::Rename(rename) => {
            imports.push(import(prefix, &rename.ident.to_string(), &rename.rename.to_string(), is_public));
        }
    }
}

fn import(prefix: &[String], name: &str, alias: &str, is_public: bool) -> Import {
    let mut target = prefix.to_vec();
    // `use a::b::{self}` names the module b itself.
    if name != "self" {
        target.push(name.to_owned());
    }
    let alias = if alias == "self" { target.last().cloned().unwrap_or_default() } else { alias.to_owned() };
    Import { name: Some(alias), target, is_public }
}
