//! Which file names things that another file defines.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::tree::{Import, Module, ModulePath, ModuleTree, flatten, is_test};

/// A chain of re-exports longer than this is a mistake in the code.
const MAX_RE_EXPORTS: usize = 16;

/// Index pairs of files: the first names an item that the second defines.
pub fn edges(tree: &ModuleTree) -> BTreeSet<(usize, usize)> {
    let uses: Vec<FileUse> =
        tree.files.iter().map(|file| FileUse::read(&file.syntax, &file.module)).collect();
    let mut edges = BTreeSet::new();
    for (file, names) in uses.iter().enumerate() {
        for path in &names.paths {
            edges.extend(defining_file(tree, &path.module, &path.segments, 0).map(|target| (file, target)));
        }
        edges.extend(imported_files(tree, file, names).into_iter().map(|target| (file, target)));
    }
    edges.extend(spread_methods(tree, &uses));
    edges.retain(|(from, to)| from != to);
    edges
}

fn imported_files(tree: &ModuleTree, file: usize, names: &FileUse) -> Vec<usize> {
    let modules = tree.modules.iter().filter(|(_, module)| module.file == file);
    let imports = modules.flat_map(|(path, module)| module.imports.iter().map(move |import| (path, import)));
    // A re-export alone does not use the item that it names.
    let used = imports.filter(|(_, import)| {
        !import.is_public || import.name.as_ref().is_some_and(|name| names.first_segments.contains(name))
    });
    used.filter_map(|(module, import)| {
        let path = absolute(tree, module, &import.target)?;
        // Importing a module itself is no use yet; naming one of its items is.
        if tree.modules.contains_key(&path) && import.name.is_some() { None } else { file_of(tree, &path, 0) }
    })
    .collect()
}

/// A type whose inherent methods are in several files ties the file that defines it to each whose methods it calls.
fn spread_methods(tree: &ModuleTree, uses: &[FileUse]) -> BTreeSet<(usize, usize)> {
    let mut edges = BTreeSet::new();
    for (file, names) in uses.iter().enumerate() {
        for (self_type, methods) in &names.methods {
            let module = &tree.files[file].module;
            let Some(home) = defining_file(tree, module, self_type, 0) else { continue };
            if methods.iter().any(|method| uses[home].calls.contains(method)) {
                edges.insert((home, file));
            }
        }
    }
    edges
}

fn defining_file(tree: &ModuleTree, module: &ModulePath, segments: &[String], depth: usize) -> Option<usize> {
    file_of(tree, &absolute(tree, module, segments)?, depth)
}

/// The path from the crate's root; `None` for what other crates define.
fn absolute(tree: &ModuleTree, module: &ModulePath, segments: &[String]) -> Option<Vec<String>> {
    let (first, rest) = segments.split_first()?;
    let mut path = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => parent(module)?,
        name => {
            let mut child = module.clone();
            child.push(name.to_owned());
            let here = tree.modules.get(module)?;
            let is_import = here.imports.iter().any(|import| import.name.as_deref() == Some(name));
            if tree.modules.contains_key(&child) || here.definitions.contains(name) || is_import {
                child
            } else {
                return None;
            }
        }
    };
    for segment in rest {
        if segment == "super" {
            path = parent(&path)?;
        } else {
            path.push(segment.clone());
        }
    }
    Some(path)
}

fn parent(module: &[String]) -> Option<ModulePath> {
    module.split_last().map(|(_, parent)| parent.to_vec())
}

fn file_of(tree: &ModuleTree, path: &[String], depth: usize) -> Option<usize> {
    let known = (0..=path.len()).rev().find(|&end| tree.modules.contains_key(&path[..end]))?;
    let (module_path, rest) = path.split_at(known);
    let module = &tree.modules[module_path];
    let Some(name) = rest.first() else { return Some(module.file) };
    if module.definitions.contains(name) || depth > MAX_RE_EXPORTS {
        return Some(module.file);
    }
    re_exported(tree, &module_path.to_vec(), module, rest, depth)
}

fn re_exported(
    tree: &ModuleTree,
    path: &ModulePath,
    module: &Module,
    rest: &[String],
    depth: usize,
) -> Option<usize> {
    let follow = |import: &Import, rest: &[String]| {
        let target = [import.target.as_slice(), rest].concat();
        // `use a::a` would be looked up for ever.
        let is_itself = import.target.first() == rest.first() && import.target.len() == 1;
        if is_itself { None } else { defining_file(tree, path, &target, depth + 1) }
    };
    let named = module.imports.iter().find(|import| import.name.as_ref() == rest.first());
    match named {
        Some(import) => follow(import, &rest[1..]),
        None => module
            .imports
            .iter()
            .filter(|import| import.name.is_none())
            .find_map(|import| follow(import, rest)),
    }
}

struct NamedPath {
    module: ModulePath,
    segments: Vec<String>,
}

/// What a file names: paths, methods that it calls, and inherent methods that it adds to types.
#[derive(Default)]
struct FileUse {
    module: ModulePath,
    paths: Vec<NamedPath>,
    first_segments: BTreeSet<String>,
    calls: BTreeSet<String>,
    methods: BTreeMap<Vec<String>, Vec<String>>,
}

impl FileUse {
    fn read(file: &syn::File, module: &ModulePath) -> Self {
        let mut names = Self { module: module.clone(), ..Self::default() };
        names.visit_file(file);
        names
    }

    fn add(&mut self, segments: Vec<String>) {
        if let Some(first) = segments.first() {
            self.first_segments.insert(first.clone());
        }
        if let [first, second] = segments.as_slice()
            && first == "Self"
        {
            self.calls.insert(second.clone());
        }
        if segments.len() > 1 {
            self.paths.push(NamedPath { module: self.module.clone(), segments });
        }
    }

    /// Macro arguments are tokens, not syntax: every `a::b::c` among them is taken as a path.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut segments: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(std::mem::take(&mut segments));
                    }
                    segments.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.add(std::mem::take(&mut segments));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        self.add(segments);
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for FileUse {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(self_type)) = (&block.trait_, block.self_ty.as_ref()) {
            let methods = block.items.iter().filter_map(|item| match item {
                syn::ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
                _ => None,
            });
            self.methods.entry(segments(&self_type.path)).or_default().extend(methods);
        }
        visit::visit_item_impl(self, block);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.calls.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(segments(path));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.add_tokens(mac.tokens.clone());
        visit::visit_macro(self, mac);
    }

    /// A `use` inside a function; those of modules are in the tree.
    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if let syn::Stmt::Item(syn::Item::Use(item)) = statement {
            for import in flatten(&item.tree, false) {
                self.add(import.target);
            }
        }
        visit::visit_stmt(self, statement);
    }
}
