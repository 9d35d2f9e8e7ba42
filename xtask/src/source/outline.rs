//! The part of a Rust file in the module tree: the modules that it declares, the items that it
//! defines, what it imports, and the paths that its code names.
//!
//! Tests are left out. Inside macro calls only tokens are seen: paths are found there, `use`
//! declarations are not.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::{line_of, marks_a_test};

/// The module of a file, and those that it holds inline.
#[derive(Default)]
pub(crate) struct Outline {
    /// The file's own module comes first.
    pub(crate) scopes: Vec<Scope>,
    /// Macros that `#[macro_export]` moves to the crate's root.
    pub(crate) exported_macros: BTreeSet<String>,
}

/// One module.
#[derive(Default)]
pub(crate) struct Scope {
    /// The inline modules around it and its own name; empty for the file's own module.
    pub(crate) path: Vec<String>,
    /// Modules that lie in files of their own.
    pub(crate) children: Vec<String>,
    /// Names of the items that the module defines.
    pub(crate) items: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    /// Paths of two segments or more that code names.
    pub(crate) mentions: Vec<Mention>,
}

/// One name that a `use` declaration imports, or a glob.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
    /// The name that it has here; `None` for a glob.
    pub(crate) name: Option<String>,
    /// Visible outside of the module: a re-export.
    pub(crate) is_public: bool,
}

/// A path in code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
}

impl Outline {
    /// Reads the syntax tree of a file.
    pub(super) fn read(file: &syn::File) -> Self {
        let outline = Self { scopes: vec![Scope::default()], ..Self::default() };
        let mut reader = Reader { outline, scope: 0 };
        reader.visit_file(file);
        reader.outline
    }
}

struct Reader {
    outline: Outline,
    /// The scope that is being read, by its place in `outline`.
    scope: usize,
}

impl Reader {
    fn scope(&mut self) -> &mut Scope {
        &mut self.outline.scopes[self.scope]
    }

    fn define(&mut self, ident: &syn::Ident) {
        self.scope().items.insert(ident.to_string());
    }

    fn mention(&mut self, line: usize, path: Vec<String>) {
        if path.len() > 1 {
            self.scope().mentions.push(Mention { line, path });
        }
    }

    /// Adds every name that `tree` imports below `path`.
    fn import(&mut self, tree: &syn::UseTree, mut path: Vec<String>, is_public: bool) {
        let (ident, name) = match tree {
            syn::UseTree::Path(branch) => {
                path.push(branch.ident.to_string());
                return self.import(&branch.tree, path, is_public);
            }
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, path.clone(), is_public));
            }
            syn::UseTree::Glob(glob) => {
                let line = line_of(glob.star_token.spans[0]);
                return self.scope().imports.push(Import { line, path, name: None, is_public });
            }
            syn::UseTree::Name(leaf) => (&leaf.ident, &leaf.ident),
            syn::UseTree::Rename(leaf) => (&leaf.ident, &leaf.rename),
        };
        // `use a::{self}` imports `a` under its own name.
        let is_whole = ident == "self" && !path.is_empty();
        let name = if is_whole && name == "self" { path.last().cloned() } else { Some(name.to_string()) };
        if !is_whole {
            path.push(ident.to_string());
        }
        let line = line_of(ident.span());
        self.scope().imports.push(Import { line, path, name, is_public });
    }

    /// Finds paths in the tokens of a macro call.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.mention(line, std::mem::take(&mut path));
                    }
                    if path.is_empty() {
                        line = line_of(ident.span());
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.mention(line, std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        self.mention(line, path);
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if attributes(item).iter().any(marks_a_test) {
            return;
        }
        match item {
            syn::Item::Const(item) => self.define(&item.ident),
            syn::Item::Enum(item) => self.define(&item.ident),
            syn::Item::Fn(item) => self.define(&item.sig.ident),
            syn::Item::Static(item) => self.define(&item.ident),
            syn::Item::Struct(item) => self.define(&item.ident),
            syn::Item::Trait(item) => self.define(&item.ident),
            syn::Item::Type(item) => self.define(&item.ident),
            syn::Item::Union(item) => self.define(&item.ident),
            syn::Item::Macro(item) => {
                if let Some(ident) = &item.ident {
                    self.define(ident);
                    if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
                        self.outline.exported_macros.insert(ident.to_string());
                    }
                }
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !item.attrs.iter().any(marks_a_test) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let Some((_, items)) = &item.content else {
            let name = item.ident.to_string();
            return self.scope().children.push(name);
        };
        let mut path = self.scope().path.clone();
        path.push(item.ident.to_string());
        let around = std::mem::replace(&mut self.scope, self.outline.scopes.len());
        self.outline.scopes.push(Scope { path, ..Scope::default() });
        items.iter().for_each(|item| self.visit_item(item));
        self.scope = around;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            let is_public = !matches!(item.vis, syn::Visibility::Inherited);
            self.import(&item.tree, Vec::new(), is_public);
        }
    }

    /// Skips visibilities: `pub(in crate::a)` does not use `a`.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
        {
            let line = line_of(first.ident.span());
            self.mention(line, path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.read_tokens(call.tokens.clone());
    }
}

#[cfg(test)]
mod tests;
