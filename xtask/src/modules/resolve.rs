//! The names of a crate: the module or the item that a path leads to, as the compiler finds it.

use std::collections::BTreeMap;

use crate::source::{Outline, Scope};
use crate::tree::Tree;

/// How many imports are followed to a definition; a longer chain is a circle of imports.
const MAX_IMPORTS: usize = 16;

/// A node of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// The path below the crate's root, as in `net::worker`; the root has the name of its file.
    pub(crate) name: String,
    pub(crate) file: String,
}

impl Module {
    /// The module at the top of the crate that this one is part of.
    pub(crate) fn top(&self) -> &str {
        self.name.split("::").next().unwrap_or(&self.name)
    }
}

/// The modules of one library or program, each by its path from the root, which is empty for the
/// root itself.
pub(super) struct Namespace<'a> {
    modules: BTreeMap<Vec<String>, Entry<'a>>,
    root_macros: Vec<(&'a str, Vec<String>)>,
}

struct Entry<'a> {
    file: &'a str,
    scope: &'a Scope,
}

/// A definition that a path leads to.
#[derive(Debug)]
struct Found {
    module: Vec<String>,
    /// Set for the module itself, as opposed to an item in it.
    is_module: bool,
}

impl<'a> Namespace<'a> {
    /// Reads the file `root` and all that it declares.
    pub(super) fn read(tree: &'a Tree, root: &str) -> Self {
        let mut namespace = Self { modules: BTreeMap::new(), root_macros: Vec::new() };
        let mut waiting = vec![(Vec::new(), root.to_owned())];
        while let Some((module, path)) = waiting.pop() {
            let Some(file) = tree.file(&path) else { continue };
            let Some(source) = &file.source else { continue };
            namespace.add(&file.path, &module, &source.outline);
            for scope in &source.outline.scopes {
                let inner = [module.as_slice(), &scope.path].concat();
                let folder = [folder_of(&path, module.is_empty()), scope.path.join("/")];
                let folder = folder.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>();
                for child in &scope.children {
                    let stem = format!("{}/{child}", folder.join("/"));
                    let path = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
                    let path = path.into_iter().find(|path| tree.file(path).is_some());
                    let module = [inner.as_slice(), std::slice::from_ref(child)].concat();
                    waiting.extend(path.map(|path| (module, path)));
                }
            }
        }
        namespace
    }

    fn add(&mut self, file: &'a str, module: &[String], outline: &'a Outline) {
        for scope in &outline.scopes {
            self.modules.insert([module, &scope.path].concat(), Entry { file, scope });
        }
        self.root_macros.extend(outline.exported_macros.iter().map(|name| (name.as_str(), module.to_vec())));
    }

    /// All modules that have a file of their own.
    pub(super) fn modules(&self) -> impl Iterator<Item = Module> {
        self.modules.iter().filter(|(_, entry)| entry.scope.path.is_empty()).map(|(path, entry)| Module {
            name: if path.is_empty() { stem_of(entry.file).to_owned() } else { path.join("::") },
            file: entry.file.to_owned(),
        })
    }

    /// Every use of one file by another: the user, the used, and the line.
    pub(super) fn edges(&self) -> Vec<(Module, Module, usize)> {
        let modules: BTreeMap<String, Module> =
            self.modules().map(|module| (module.file.clone(), module)).collect();
        let mut edges = Vec::new();
        for (path, entry) in &self.modules {
            for (target, line) in self.uses(path, entry.scope) {
                let Some(to) = self.modules.get(&target) else { continue };
                if to.file != entry.file
                    && let (Some(from), Some(to)) = (modules.get(entry.file), modules.get(to.file))
                {
                    edges.push((from.clone(), to.clone(), line));
                }
            }
        }
        edges
    }

    /// The modules that define what `scope`, the module at `path`, uses, each with the line of the
    /// use.
    fn uses(&self, path: &[String], scope: &Scope) -> Vec<(Vec<String>, usize)> {
        let mut uses = Vec::new();
        for import in &scope.imports {
            let Some(mut found) = self.resolve(path, &import.path, 0) else { continue };
            if import.name.is_some() {
                found = self.item_beside(found);
            }
            let is_below = found.module.len() > path.len() && found.module.starts_with(path);
            // A module that is imported by its name is used where the name is; a glob uses it at
            // once.
            let counts = !found.is_module || import.name.is_none();
            if counts && !(import.is_public && is_below) {
                uses.push((found.module, import.line));
            }
        }
        for mention in &scope.mentions {
            let Some(first) = mention.path.first() else { continue };
            // What begins with an imported item is that item's use, which its import has counted.
            let names_module = is_keyword(first)
                || self.resolve(path, &mention.path[..1], 0).is_some_and(|found| found.is_module);
            if !names_module {
                continue;
            }
            let found = self.resolve(path, &mention.path, 0).map(|found| self.item_beside(found));
            let found = found.filter(|found| !found.is_module);
            uses.extend(found.map(|found| (found.module, mention.line)));
        }
        uses
    }

    /// The item that has the path of a module, which lies in another of the compiler's name spaces;
    /// or else what was found.
    fn item_beside(&self, found: Found) -> Found {
        let beside = || {
            let (name, parent) = found.module.split_last().filter(|_| found.is_module)?;
            let scope = self.modules.get(parent)?.scope;
            if scope.items.contains(name) {
                return Some(Found { module: parent.to_vec(), is_module: false });
            }
            let item = self.through_imports(parent, scope, std::slice::from_ref(name), 0);
            item.filter(|item| !item.is_module)
        };
        beside().unwrap_or(found)
    }

    /// Finds the definition of `path`, as written in the module `at`; `None` if it lies in another
    /// crate.
    fn resolve(&self, at: &[String], path: &[String], imports: usize) -> Option<Found> {
        let mut module = at.to_vec();
        let mut rest = path;
        while let Some((first, after)) = rest.split_first().filter(|(first, _)| is_keyword(first)) {
            match first.as_str() {
                "crate" => module.clear(),
                "super" => drop(module.pop()?),
                _ => {}
            }
            rest = after;
        }
        // The name of another crate is found by no module, but a path that begins with a keyword
        // stays in this one.
        let is_ours = rest.len() < path.len();
        self.descend(module, rest, imports, is_ours)
    }

    /// Finds the definition of `path`, as seen from inside of `module`.
    fn descend(
        &self,
        mut module: Vec<String>,
        path: &[String],
        imports: usize,
        is_ours: bool,
    ) -> Option<Found> {
        for (i, name) in path.iter().enumerate() {
            module.push(name.clone());
            if self.modules.contains_key(&module) {
                continue;
            }
            module.pop();
            let scope = self.modules.get(&module)?.scope;
            if scope.items.contains(name) {
                return Some(Found { module, is_module: false });
            }
            let imported = self.through_imports(&module, scope, &path[i..], imports);
            let is_import = scope.imports.iter().any(|import| import.name.as_ref() == Some(name));
            if imported.is_some() || is_import {
                return imported;
            }
            if module.is_empty()
                && let Some((_, home)) = self.root_macros.iter().find(|(known, _)| known == name)
            {
                return Some(Found { module: home.clone(), is_module: false });
            }
            // What no declaration names was made by a macro of the module.
            return (is_ours || i > 0).then_some(Found { module, is_module: false });
        }
        Some(Found { module, is_module: true })
    }

    /// Finds the definition of `path` if its first name was imported into `module`, by its name or
    /// by a glob.
    fn through_imports(
        &self,
        module: &[String],
        scope: &Scope,
        path: &[String],
        imports: usize,
    ) -> Option<Found> {
        let (name, rest) = path.split_first()?;
        if imports == MAX_IMPORTS {
            return None;
        }
        let named = scope.imports.iter().filter(|import| import.name.as_ref() == Some(name));
        let mut found = named.filter_map(|import| {
            let path = [import.path.as_slice(), rest].concat();
            self.resolve(module, &path, imports + 1)
        });
        if let Some(found) = found.next() {
            return Some(found);
        }
        scope.imports.iter().filter(|import| import.name.is_none()).find_map(|import| {
            let from = self.resolve(module, &import.path, imports + 1).filter(|found| found.is_module)?;
            if from.module == module || !self.has(&from.module, name, imports + 1) {
                return None;
            }
            self.descend(from.module, path, imports + 1, true)
        })
    }

    /// Returns whether a glob import of `module` brings `name`.
    fn has(&self, module: &[String], name: &String, imports: usize) -> bool {
        let child = [module, std::slice::from_ref(name)].concat();
        let scope = self.modules.get(module).map(|entry| entry.scope);
        self.modules.contains_key(&child)
            || scope.is_some_and(|scope| {
                scope.items.contains(name)
                    || self.through_imports(module, scope, std::slice::from_ref(name), imports).is_some()
            })
    }
}

fn is_keyword(segment: &str) -> bool {
    matches!(segment, "crate" | "self" | "super")
}

/// The folder in which the modules that `file` declares lie.
fn folder_of(file: &str, is_root: bool) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name.strip_suffix(".rs") {
        Some(stem) if !is_root && stem != "mod" => format!("{folder}/{stem}"),
        _ => folder.to_owned(),
    }
}

fn stem_of(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".rs").unwrap_or(name)
}
