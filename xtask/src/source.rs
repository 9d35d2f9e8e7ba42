//! A Rust file as the rules see it: its comments, string literals, type and module names, function
//! lengths, its part in the module tree, and the lines that are tests.
//!
//! The file is parsed with `syn`. Comments are not part of the syntax tree; they are what stands
//! between two tokens, and since strings are tokens, a `//` between tokens is always a comment.
//! Code inside macro calls is seen as tokens only: functions written there are not measured.

mod outline;

use std::ops::Range;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};

pub(crate) use outline::{Outline, Scope};

/// A Rust file, taken apart.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) comments: Vec<Comment>,
    /// Plain string literals without their quotes, escapes not resolved.
    pub(crate) literals: Vec<Named>,
    /// Names of types, traits and modules.
    pub(crate) names: Vec<Named>,
    pub(crate) functions: Vec<Function>,
    /// Lines on which the word `unsafe` stands as code.
    pub(crate) unsafe_lines: Vec<usize>,
    pub(crate) forbids_unsafe: bool,
    pub(crate) outline: Outline,
    test_lines: Vec<Range<usize>>,
}

/// A comment with its marks (`//`, `///`, `/*` ...).
pub(crate) struct Comment {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) is_doc: bool,
    /// Nothing but white space stands before it on its line.
    pub(crate) is_alone: bool,
}

/// A word and the line where it stands.
pub(crate) struct Named {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A function with a body.
pub(crate) struct Function {
    pub(crate) line: usize,
    /// The name with the modules, types and traits around it, as in `tests::Pool::grow`.
    pub(crate) path: String,
    /// From the line of `fn` to the line of the closing brace.
    pub(crate) lines: usize,
}

impl Source {
    /// Takes `text` apart.
    ///
    /// # Errors
    /// The line and the reason where `text` is not Rust.
    pub(crate) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let tokens: TokenStream = text
            .parse()
            .map_err(|error: proc_macro2::LexError| (error.span().start().line, error.to_string()))?;
        let mut source = Self::default();
        let mut spans = Vec::new();
        source.read_tokens(text, tokens.clone(), &mut spans);
        source.read_gaps(text, spans);
        let file: syn::File = syn::parse2(tokens)
            .map_err(|error: syn::Error| (error.span().start().line, error.to_string()))?;
        source.forbids_unsafe = file.attrs.iter().any(forbids_unsafe);
        source.outline = Outline::read(&file);
        Reader { source: &mut source, around: Vec::new() }.visit_file(&file);
        Ok(source)
    }

    /// Returns whether a line belongs to a test function or a module under `#[cfg(test)]`.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    fn read_tokens(&mut self, text: &str, tokens: TokenStream, spans: &mut Vec<Range<usize>>) {
        for token in tokens {
            let span = token.span();
            if let Some(doc) = text.get(span.byte_range()).filter(|text| is_comment(text)) {
                // A doc comment comes as an attribute of several tokens, each with the whole
                // comment as its span.
                let new = spans.last() != Some(&span.byte_range());
                if new {
                    self.push_comment(text, span.byte_range().start, doc, true);
                    spans.push(span.byte_range());
                }
                continue;
            }
            match token {
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::None {
                        self.read_tokens(text, group.stream(), spans);
                        continue;
                    }
                    spans.push(group.span_open().byte_range());
                    self.read_tokens(text, group.stream(), spans);
                    spans.push(group.span_close().byte_range());
                }
                TokenTree::Ident(ident) => {
                    if ident == "unsafe" {
                        self.unsafe_lines.push(line_of(span));
                    }
                    spans.push(span.byte_range());
                }
                TokenTree::Literal(literal) => {
                    let literal = literal.to_string();
                    if let Some(inner) = literal.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                        self.literals.push(Named { line: line_of(span), text: inner.to_owned() });
                    }
                    spans.push(span.byte_range());
                }
                TokenTree::Punct(_) => spans.push(span.byte_range()),
            }
        }
    }

    /// Finds the plain comments, in what no token covers.
    fn read_gaps(&mut self, text: &str, mut spans: Vec<Range<usize>>) {
        spans.sort_by_key(|span| (span.start, span.end));
        spans.push(text.len()..text.len());
        let mut end = 0;
        for span in spans {
            if let Some(gap) = text.get(end..span.start) {
                self.read_gap(text, end, gap);
            }
            end = end.max(span.end);
        }
        self.comments.sort_by_key(|comment| comment.line);
    }

    fn read_gap(&mut self, text: &str, start: usize, gap: &str) {
        let mut at = 0;
        while let Some(rest) = gap.get(at..).filter(|rest| !rest.is_empty()) {
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                block_length(rest)
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            };
            self.push_comment(text, start + at, &rest[..length], false);
            at += length;
        }
    }

    fn push_comment(&mut self, text: &str, start: usize, comment: &str, is_doc: bool) {
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        self.comments.push(Comment {
            line: 1 + before.matches('\n').count(),
            text: comment.trim_end().to_owned(),
            is_doc,
            is_alone: before[line_start..].trim().is_empty(),
        });
    }
}

impl Comment {
    /// The lines of the comment without their marks, each with its number.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, text)| {
            let text = text.trim().trim_start_matches(['/', '*', '!']).trim_end_matches("*/").trim();
            (self.line + i, text)
        })
    }
}

fn is_comment(text: &str) -> bool {
    text.starts_with("//") || text.starts_with("/*")
}

/// The length of the block comment that `text` begins with; block comments nest.
fn block_length(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn line_of(span: Span) -> usize {
    span.start().line
}

fn attribute_tokens(attribute: &syn::Attribute) -> String {
    match &attribute.meta {
        syn::Meta::List(list) => list.tokens.to_string(),
        _ => String::new(),
    }
}

fn forbids_unsafe(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("forbid")
        && attribute_tokens(attribute).split(',').any(|lint| lint.trim() == "unsafe_code")
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]` and their like.
fn marks_a_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("test")
        || attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Meta>().is_ok_and(|condition| names_test(&condition))
}

/// Returns whether a condition of `cfg` names `test`, and not below a `not`.
fn names_test(condition: &syn::Meta) -> bool {
    type Conditions = syn::punctuated::Punctuated<syn::Meta, syn::Token![,]>;
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if !list.path.is_ident("not") => list
            .parse_args_with(Conditions::parse_terminated)
            .is_ok_and(|conditions| conditions.iter().any(names_test)),
        _ => false,
    }
}

/// Walks the syntax tree for names, lengths and tests.
struct Reader<'a> {
    source: &'a mut Source,
    around: Vec<String>,
}

impl Reader<'_> {
    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.around.push(name);
        visit(self);
        self.around.pop();
    }

    fn name(&mut self, ident: &syn::Ident) {
        self.source.names.push(Named { line: line_of(ident.span()), text: ident.to_string() });
    }

    fn function(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature, body: &syn::Block) {
        let first = line_of(signature.fn_token.span);
        let last = body.brace_token.span.close().end().line;
        if attributes.iter().any(marks_a_test) {
            self.source.test_lines.push(first..last + 1);
        }
        let mut path = self.around.join("::");
        if !path.is_empty() {
            path.push_str("::");
        }
        path.push_str(&signature.ident.to_string());
        self.source.functions.push(Function { line: first, path, lines: last - first + 1 });
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.name(&item.ident);
        if let Some((brace, _)) = &item.content
            && item.attrs.iter().any(marks_a_test)
        {
            self.source.test_lines.push(line_of(item.mod_token.span)..brace.span.close().end().line + 1);
        }
        self.within(item.ident.to_string(), |reader| visit::visit_item_mod(reader, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => last_word(&path.path),
            _ => "_".to_owned(),
        };
        self.within(name, |reader| visit::visit_item_impl(reader, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.name(&item.ident);
        self.within(item.ident.to_string(), |reader| visit::visit_item_trait(reader, item));
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.name(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.name(&item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.name(&item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
        self.within(item.sig.ident.to_string(), |reader| visit::visit_item_fn(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
        self.within(item.sig.ident.to_string(), |reader| visit::visit_impl_item_fn(reader, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.attrs, &item.sig, body);
        }
        self.within(item.sig.ident.to_string(), |reader| visit::visit_trait_item_fn(reader, item));
    }
}

fn last_word(path: &syn::Path) -> String {
    path.segments.last().map_or_else(|| "_".to_owned(), |segment| segment.ident.to_string())
}

#[cfg(test)]
mod tests;
