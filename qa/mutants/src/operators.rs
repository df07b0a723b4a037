//! Finds the mutants of a source file.
//!
//! In: the text of a Rust file. Out: its [`Site`]s. Each mutant is one small change that usually
//! has the type of what it replaces; the compiler rejects the others, which are dropped.
//!
//! | original | mutants |
//! |---|---|
//! | `a < b`, `a <= b`, `a > b`, `a >= b` | the border moves: `<=`, `<`, `>=`, `>` |
//! | `a == b`, `a != b` | the other one |
//! | `a && b`, `a \|\| b` (not with `let`) | the other one |
//! | condition of `if` and `while`, last expression of a function with result `bool` | negated |
//! | guard of a match arm | `true`, `false` |
//! | arm without a guard, before an arm `_` | left out |
//! | `!a`, `-a` | `a` |
//! | `+ - * / % & \| ^ << >>`, and with `=` | one other operator |
//! | number n, `true`, `false` | n + 1, `false`, `true` |
//! | `min`, `saturating_sub`, `any`, `first`, `is_some`, … | their opposites; see [`OPPOSITES`] |
//! | statement that calls or assigns | left out |
//! | body of a function | returns 0, 1, `true`, `false`, `None`, `Ok(())`, … at once |
//!
//! Never mutated: what is evaluated at compile time, patterns, types, attributes, arguments of
//! macros (and so all assertions), tests, `unsafe` code, `fmt` of `Debug`, capacities.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprLit, File, ImplItemFn, Item, ItemFn, ItemImpl, Lit, Pat, ReturnType,
    Signature, Stmt, TraitItemFn, Type, UnOp,
};

use crate::site::{Change, Site};

/// Methods and those that take their places.
pub(crate) const OPPOSITES: &[(&str, &str)] = &[
    ("min", "max"),
    ("min_by_key", "max_by_key"),
    ("min_by", "max_by"),
    ("saturating_sub", "saturating_add"),
    ("wrapping_sub", "wrapping_add"),
    ("checked_sub", "checked_add"),
    ("any", "all"),
    ("first", "last"),
    ("split_first", "split_last"),
    ("is_some", "is_none"),
    ("is_ok", "is_err"),
    ("is_some_and", "is_none_or"),
    ("ceil", "floor"),
    ("skip", "take"),
    ("skip_while", "take_while"),
    ("position", "rposition"),
    ("pop_front", "pop_back"),
    ("push_front", "push_back"),
];

/// Methods whose arguments change no result.
const HINTS: &[&str] = &["with_capacity", "reserve", "reserve_exact"];

/// Finds the mutants of `source`, outer before inner, in the order of the text.
///
/// # Errors
/// If the source is no Rust file.
pub(crate) fn sites(source: &str) -> syn::Result<Vec<Site>> {
    let file: File = syn::parse_file(source)?;
    let mut finder = Finder { source, sites: Vec::new(), in_default: false };
    finder.visit_file(&file);
    let mut sites = finder.sites;
    sites.sort_by_key(|site| (site.range.start, !site.range.is_empty(), std::cmp::Reverse(site.range.end)));
    sites.dedup_by(|later, earlier| later.range == earlier.range && later.change == earlier.change);
    Ok(sites)
}

struct Finder<'a> {
    source: &'a str,
    sites: Vec<Site>,
    /// Inside `impl Default`, whose function cannot return `Default::default()`.
    in_default: bool,
}

impl Finder<'_> {
    fn text(&self, node: &impl Spanned) -> &str {
        &self.source[node.span().byte_range()]
    }

    /// Adds a mutant that evaluates `code` in place of the expression at `range`.
    fn replace(&mut self, range: Range<usize>, code: String, description: String) {
        self.sites.push(Site { range, change: Change::Replace(code), description });
    }

    /// As [`Finder::replace`]; the description shows the whole original.
    fn replace_whole(&mut self, expr: &Expr, code: String) {
        let description = format!("{} -> {}", one_line(self.text(expr)), one_line(&code));
        self.replace(expr.span().byte_range(), code, description);
    }

    fn negate(&mut self, condition: &Expr) {
        let negated = format!("!({})", self.text(condition));
        self.replace_whole(condition, negated);
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        if signature.constness.is_some() || signature.unsafety.is_some() || is_test(attributes) {
            return;
        }
        if !body.stmts.is_empty() {
            self.returns(signature, body);
        }
        if let (ReturnType::Type(_, output), Some(Stmt::Expr(tail, None))) = (&signature.output, body.stmts.last())
            && is_named(output, "bool")
            && !is_negated_elsewhere(tail)
            && !matches!(tail, Expr::If(_) | Expr::Match(_) | Expr::Block(_))
        {
            self.negate(tail);
        }
        self.visit_block(body);
    }

    /// Mutants that return at once.
    fn returns(&mut self, signature: &Signature, body: &Block) {
        let start = body.brace_token.span.open().byte_range().end;
        let only = match &body.stmts[..] {
            [Stmt::Expr(expr, None)] => self.text(expr).to_owned(),
            _ => String::new(),
        };
        let values = match &signature.output {
            ReturnType::Default => vec![String::new()],
            ReturnType::Type(_, output) => stubs(output),
        };
        for value in values {
            if only == value && !only.is_empty() || value.contains("default()") && self.in_default {
                continue;
            }
            let code = format!("return {value};").replace(" ;", ";");
            let description = format!("fn {} -> {}", signature.ident, code.trim_end_matches(';'));
            self.sites.push(Site { range: start..start, change: Change::Insert(code), description });
        }
    }

    fn binary(&mut self, whole: &Expr, left: &Expr, op: &BinOp, right: &Expr) {
        if matches!(op, BinOp::And(_) | BinOp::Or(_)) && (has_let(left) || has_let(right)) {
            return;
        }
        let Some(other) = other_operator(op) else { return };
        let code = format!("({}) {other} ({})", self.text(left), self.text(right));
        let operators = format!("{} -> {other}", self.text(op));
        let description = format!("{}: {operators}", one_line(self.text(whole)));
        self.replace(whole.span().byte_range(), code, description);
    }

    fn literal(&mut self, whole: &Expr, literal: &Lit) {
        let code = match literal {
            Lit::Int(int) => match int.base10_parse::<u128>() {
                Ok(value) => format!("{}{}", value.wrapping_add(1), int.suffix()),
                Err(_) => return,
            },
            Lit::Float(float) => match float.base10_parse::<f64>() {
                Ok(value) => format!("{:?}{}", value + 1.0, float.suffix()),
                Err(_) => return,
            },
            Lit::Bool(value) => (!value.value).to_string(),
            _ => return,
        };
        self.replace_whole(whole, code);
    }

    fn statement(&mut self, statement: &Stmt) {
        let Stmt::Expr(expr, Some(_)) = statement else { return };
        let is_removable = matches!(expr, Expr::MethodCall(_) | Expr::Call(_) | Expr::Assign(_))
            || matches!(expr, Expr::Try(inner) if matches!(*inner.expr, Expr::MethodCall(_) | Expr::Call(_)));
        if is_removable && attributes_of(expr).is_empty() {
            let description = format!("{} -> (left out)", one_line(self.text(statement)));
            self.sites.push(Site { range: statement.span().byte_range(), change: Change::Delete, description });
        }
    }

    fn arm(&mut self, arm: &Arm, can_be_left_out: bool) {
        match &arm.guard {
            Some((_, guard)) if !has_let(guard) => {
                self.replace_whole(guard, "true".into());
                self.replace_whole(guard, "false".into());
            }
            None if can_be_left_out => {
                let end = arm.pat.span().byte_range().end;
                let description = format!("{} => -> (left out)", one_line(self.text(&arm.pat)));
                self.sites.push(Site { range: end..end, change: Change::Unmatch, description });
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Fn(_) | Item::Impl(_) | Item::Mod(_) | Item::Trait(_) => visit::visit_item(self, item),
            // Constants, types, macros, imports.
            _ => {}
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.function(&function.attrs, &function.sig, body);
        }
    }

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        let is_of = |name: &str| of.is_some_and(|segment| segment.ident == name);
        if is_test(&item.attrs) || is_of("Debug") {
            return;
        }
        let outside = std::mem::replace(&mut self.in_default, is_of("Default"));
        visit::visit_item_impl(self, item);
        self.in_default = outside;
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if attributes_of(expr).iter().any(|attribute| attribute.path().is_ident("cfg")) {
            return;
        }
        match expr {
            Expr::Binary(binary) => self.binary(expr, &binary.left, &binary.op, &binary.right),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                let inner = self.text(&unary.expr).to_owned();
                self.replace_whole(expr, inner);
            }
            Expr::Lit(ExprLit { lit, .. }) => self.literal(expr, lit),
            Expr::If(conditional) if !has_let(&conditional.cond) && !is_negated_elsewhere(&conditional.cond) => {
                self.negate(&conditional.cond);
            }
            Expr::While(looping) if !has_let(&looping.cond) && !is_negated_elsewhere(&looping.cond) => {
                self.negate(&looping.cond);
            }
            Expr::Match(choice) => {
                let has_rest = choice.arms.last().is_some_and(|arm| arm.guard.is_none() && matches_all(&arm.pat));
                for (place, arm) in choice.arms.iter().enumerate() {
                    self.arm(arm, has_rest && place + 1 < choice.arms.len());
                }
            }
            Expr::MethodCall(call) => {
                let method = call.method.to_string();
                let other = OPPOSITES.iter().find_map(|&(one, other)| match method.as_str() {
                    name if name == one => Some(other),
                    name if name == other => Some(one),
                    _ => None,
                });
                if let Some(other) = other {
                    let (whole, name) = (expr.span().byte_range(), call.method.span().byte_range());
                    let code = format!(
                        "{}{other}{}",
                        &self.source[whole.start..name.start],
                        &self.source[name.end..whole.end]
                    );
                    let description = format!("{}: {method} -> {other}", one_line(self.text(expr)));
                    self.replace(whole, code, description);
                }
                if HINTS.contains(&method.as_str()) {
                    return self.visit_expr(&call.receiver);
                }
            }
            Expr::Call(call) => {
                if let Expr::Path(path) = &*call.func
                    && path.path.segments.last().is_some_and(|name| HINTS.contains(&name.ident.to_string().as_str()))
                {
                    return;
                }
            }
            // The type of a number may follow from the cast: an `if` between them could change it.
            Expr::Cast(cast) if matches!(*cast.expr, Expr::Lit(_)) => return,
            // The length is a constant.
            Expr::Repeat(repeat) => return self.visit_expr(&repeat.expr),
            Expr::Unsafe(_) | Expr::Const(_) | Expr::Macro(_) => return,
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        self.statement(statement);
        visit::visit_stmt(self, statement);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !local.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) {
            visit::visit_local(self, local);
        }
    }

    fn visit_type(&mut self, _: &'ast Type) {}

    fn visit_pat(&mut self, _: &'ast Pat) {}

    fn visit_path(&mut self, _: &'ast syn::Path) {}

    fn visit_generics(&mut self, _: &'ast syn::Generics) {}

    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

/// The operator that takes this one's place.
fn other_operator(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::Add(_) => "-",
        BinOp::Sub(_) => "+",
        BinOp::Mul(_) => "/",
        BinOp::Div(_) => "*",
        BinOp::Rem(_) => "/",
        BinOp::BitAnd(_) | BinOp::BitXor(_) => "|",
        BinOp::BitOr(_) => "&",
        BinOp::Shl(_) => ">>",
        BinOp::Shr(_) => "<<",
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        BinOp::MulAssign(_) => "/=",
        BinOp::DivAssign(_) => "*=",
        BinOp::RemAssign(_) => "/=",
        BinOp::BitAndAssign(_) | BinOp::BitXorAssign(_) => "|=",
        BinOp::BitOrAssign(_) => "&=",
        BinOp::ShlAssign(_) => ">>=",
        BinOp::ShrAssign(_) => "<<=",
        _ => return None,
    })
}

/// Values that a function of this result returns without computing anything.
fn stubs(output: &Type) -> Vec<String> {
    let name = |output: &Type| match output {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    };
    let wrapped = |wrapper: &str, inner: &Type| -> Vec<String> {
        stubs(inner).into_iter().map(|value| format!("{wrapper}({value})")).collect()
    };
    match output {
        Type::Tuple(tuple) if tuple.elems.is_empty() => return vec!["()".into()],
        Type::Reference(reference) if is_named(&reference.elem, "str") => return vec!["\"\"".into()],
        Type::Path(_) => {}
        _ => return Vec::new(),
    }
    let strings = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    match name(output).as_deref() {
        Some("bool") => strings(&["true", "false"]),
        Some("u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128" | "isize") => {
            strings(&["0", "1"])
        }
        Some("f32" | "f64") => strings(&["0.0", "1.0"]),
        Some("Option") => strings(&["None"]),
        Some("Result") => inner_type(output).map_or_else(Vec::new, |inner| wrapped("Ok", inner)),
        Some("Self") | None => Vec::new(),
        Some(_) => strings(&["Default::default()"]),
    }
}

/// The first generic argument of a type.
fn inner_type(output: &Type) -> Option<&Type> {
    let Type::Path(path) = output else { return None };
    let syn::PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        syn::GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}

fn is_named(output: &Type, name: &str) -> bool {
    matches!(output, Type::Path(path) if path.path.is_ident(name))
}

/// True if another mutant already is the negation.
fn is_negated_elsewhere(condition: &Expr) -> bool {
    match condition {
        Expr::Binary(binary) => matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_)),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Not(_)),
        Expr::Lit(_) => true,
        _ => false,
    }
}

/// True if the pattern matches everything. A capital letter makes a constant: `None`.
fn matches_all(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Ident(name) => name.subpat.is_none() && !name.ident.to_string().starts_with(char::is_uppercase),
        _ => false,
    }
}

/// True if the expression is a chain with `let` in it.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => matches!(binary.op, BinOp::And(_)) && (has_let(&binary.left) || has_let(&binary.right)),
        _ => false,
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

fn attributes_of(expr: &Expr) -> &[Attribute] {
    match expr {
        Expr::MethodCall(expr) => &expr.attrs,
        Expr::Call(expr) => &expr.attrs,
        Expr::Assign(expr) => &expr.attrs,
        Expr::Block(expr) => &expr.attrs,
        Expr::If(expr) => &expr.attrs,
        _ => &[],
    }
}

/// Code on one line, shortened in the middle.
fn one_line(code: &str) -> String {
    const MAX: usize = 90;
    let words: Vec<&str> = code.split_whitespace().collect();
    let line: Vec<char> = words.join(" ").chars().collect();
    if line.len() <= MAX {
        return line.into_iter().collect();
    }
    let (head, tail) = (&line[..MAX * 2 / 3], &line[line.len() - MAX / 3..]);
    format!("{} … {}", head.iter().collect::<String>(), tail.iter().collect::<String>())
}
