//! Tests of the operators, of the rewriting, and of a whole run over a crate of a few lines.

use std::fs;
use std::path::Path;
use std::process::Command;

use tamarack_testing::TestDir;

use crate::args::Args;
use crate::operators::{OPPOSITES, sites};
use crate::rewrite::{Rewritten, rewrite};
use crate::site::{Mutant, number};
use crate::trial::Fate;

/// The mutants of a function with this body, without those that return at once.
fn mutants_of(body: &str) -> Vec<String> {
    let source = format!("impl A {{ fn f(&self) -> &T {{ {body} }} }}");
    let mutants = sites(&source).expect("valid Rust");
    mutants.into_iter().map(|site| site.description).collect()
}

fn all_of(source: &str) -> Vec<String> {
    sites(source).expect("valid Rust").into_iter().map(|site| site.description).collect()
}

fn numbered(source: &str) -> Vec<Mutant> {
    number(source, 0, 1, sites(source).expect("valid Rust"))
}

fn rewritten(source: &str) -> Rewritten {
    rewrite(source, &numbered(source).iter().collect::<Vec<_>>())
}

/// Each operator changes what its row of the table says, and nothing else.
#[test]
fn each_operator_has_its_mutants() {
    let pairs = "< <=|<= <|> >=|>= >|== !=|!= ==|&& \\|\\||\\|\\| &&|+ -|- +|* /|/ *|% /|& \\||^ \\||\\| &|<< >>|>> <<|\
        += -=|-= +=|*= /=|/= *=|%= /=|&= \\|=|\\|= &=|^= \\|=|<<= >>=|>>= <<=";
    for pair in pairs.replace("\\|", "¦").split('|') {
        let (one, other) = pair.split_once(' ').expect("two operators");
        let (one, other) = (one.replace('¦', "|"), other.replace('¦', "|"));
        assert_eq!(mutants_of(&format!("a {one} b")), [format!("a {one} b: {one} -> {other}")]);
    }
    for &(one, other) in OPPOSITES {
        assert_eq!(mutants_of(&format!("a.{one}(b)")), [format!("a.{one}(b): {one} -> {other}")]);
        assert_eq!(mutants_of(&format!("a.{other}(b)")), [format!("a.{other}(b): {other} -> {one}")]);
    }
    assert_eq!(mutants_of("!a"), ["!a -> a"]);
    assert_eq!(mutants_of("-a"), ["-a -> a"]);
    assert_eq!(
        mutants_of("g(1, 0x1F_u64, 1.5, true, 'c', \"s\")"),
        ["1 -> 2", "0x1F_u64 -> 32u64", "1.5 -> 2.5", "true -> false"]
    );
    assert_eq!(mutants_of("if a {}"), ["a -> !(a)"]);
    assert_eq!(mutants_of("while a {}"), ["a -> !(a)"]);
    assert_eq!(mutants_of("if a < b {}"), ["a < b -> !(a < b)", "a < b: < -> <="]);
    assert_eq!(mutants_of("if a == b {}"), ["a == b: == -> !="], "its negation is the same");
    assert_eq!(mutants_of("if !a {}"), ["!a -> a"]);
    assert_eq!(
        mutants_of("a.b(); c(); d = e; f?; g()?; let h = i(); j!(); k"),
        ["a.b(); -> (left out)", "c(); -> (left out)", "d = e; -> (left out)", "g()?; -> (left out)"]
    );
    assert_eq!(
        mutants_of("match a { 1 if b => c, 2 => d, _ => e }"),
        ["b -> true", "b -> false", "2 => -> (left out)"]
    );
    assert_eq!(mutants_of("match a { 1 => c, other => e }"), ["1 => -> (left out)"]);
    assert!(mutants_of("match a { Some(1) => c, None => d }").is_empty(), "no other arm takes its values");
}

/// A function returns each value that its type has for certain; one of a bool also the opposite.
#[test]
fn functions_return_at_once() {
    let returned = |output: &str| {
        let all = all_of(&format!("fn f() {output} {{ g(h) }}"));
        all.into_iter().map(|text| text.replace("fn f -> ", "")).collect::<Vec<_>>()
    };
    assert_eq!(returned(""), ["return"]);
    assert_eq!(returned("-> bool"), ["return true", "return false", "g(h) -> !(g(h))"]);
    assert_eq!(returned("-> u64"), ["return 0", "return 1"]);
    assert_eq!(returned("-> f64"), ["return 0.0", "return 1.0"]);
    assert_eq!(returned("-> Option<u64>"), ["return None"]);
    assert_eq!(returned("-> io::Result<()>"), ["return Ok(())"]);
    assert_eq!(returned("-> Result<bool, E>"), ["return Ok(true)", "return Ok(false)"]);
    assert_eq!(returned("-> &str"), ["return \"\""]);
    assert_eq!(returned("-> Vec<u8>"), ["return Default::default()"]);
    assert!(returned("-> impl Iterator<Item = u8>").is_empty());
    assert_eq!(all_of("fn f() -> bool { true }"), ["fn f -> return false", "true -> false"], "it returns true already");
    assert!(all_of("fn f() {}").is_empty());
    assert!(all_of("impl Default for A { fn default() -> A { g() } }").is_empty(), "it would call itself");
}

/// What must not or cannot change keeps its text.
#[test]
fn constants_macros_tests_and_unsafe_code_are_left_alone() {
    for source in [
        "const A: u64 = 1 + 2;",
        "static A: u64 = 1 + 2;",
        "const fn f() -> bool { 1 < 2 }",
        "unsafe fn f() -> bool { 1 < 2 }",
        "enum A { B = 1 + 2 }",
        "struct A([u8; 1 + 2]);",
        "impl A { const B: u64 = 1 + 2; }",
        "trait A { const B: u64 = 1 + 2; fn f() -> bool; }",
        "macro_rules! m { () => { 1 + 2 } }",
        "#[cfg(test)] mod tests { fn f() -> bool { 1 < 2 } }",
        "#[test] fn f() { g(1 < 2); }",
        "#[cfg(test)] fn f() { g(1 < 2); }",
        "impl fmt::Debug for A { fn fmt(&self) -> bool { 1 < 2 } }",
    ] {
        assert!(all_of(source).is_empty(), "{source}: {:?}", all_of(source));
        assert_eq!(rewritten(source).text, source);
    }
    for body in [
        "assert!(1 < 2); debug_assert_eq!(1, 2); let v = vec![1, 2]; matches!(a, 1)",
        "const A: u64 = 1; a",
        "let a: [u8; 3] = g::<3>(); a",
        "let (1, b) = c else { return d }; b",
        "unsafe { g(1 + 2) }",
        "const { 1 + 2 }",
        "[a; 2]",
        "1 as u64",
        "Vec::with_capacity(1)",
        "match never {}",
        "if let Some(a) = b && c {}",
        "#[cfg(windows)] g(1); a",
        "#[cfg(windows)] let b = 1; a",
    ] {
        let all = mutants_of(body);
        assert!(all.is_empty(), "{body}: {all:?}");
    }
    let in_chain = mutants_of("if let Some(a) = b && c < d && !e {}");
    assert_eq!(in_chain, ["c < d: < -> <=", "!e -> e"], "a chain with let has no other operators");
}

/// The rewritten text in full: one mutant inside the `else` of another, two of one expression, a
/// statement, the start of a body, an arm.
#[test]
fn mutants_are_nested_like_the_source() {
    assert_eq!(
        rewritten("fn f() { a + 1 < b }").text,
        "fn f() { if crate::__mutant::on(1) { return; } \
         (if crate::__mutant::on(2) { ((a + 1) <= (b)) } else { \
         ((if crate::__mutant::on(3) { ((a) - (1)) } else { \
         (a + (if crate::__mutant::on(4) { (2) } else { (1) })) }) < b) }) }"
    );
    assert_eq!(
        rewritten("fn f() -> &T { if a < b {} }").text,
        "fn f() -> &T { if (if crate::__mutant::on(1) { (!(a < b)) } else \
         if crate::__mutant::on(2) { ((a) <= (b)) } else { (a < b) }) {} }"
    );
    assert_eq!(rewritten("fn f() -> &T { g(); h }").text, "fn f() -> &T { if !crate::__mutant::on(1) { g(); } h }");
    assert_eq!(
        rewritten("fn f() -> &T { match a { 1 => b, _ => c } }").text,
        "fn f() -> &T { match a { 1 if !crate::__mutant::on(1) => b, _ => c } }"
    );
}

/// What is rewritten is Rust again, also where operands are blocks, comments, or have several
/// lines; and mutants know their lines and columns.
#[test]
fn rewritten_text_is_rust() {
    let source =
        "fn f() -> bool {\n    let é = match a { _ => 1 } == // one\n        b as usize;\n    é && (c as u8) >= 3\n}\n";
    syn::parse_file(&rewritten(source).text).expect("valid Rust");
    let mutants = numbered(source);
    let place = |text: &str| {
        let mutant = mutants.iter().find(|mutant| mutant.site.description.starts_with(text)).expect("a mutant");
        (mutant.line, mutant.column)
    };
    assert_eq!((place("match"), place("é && (c as u8) >= 3: &&"), place("(c")), ((2, 13), (4, 5), (4, 10)));
    assert!(mutants.iter().map(|mutant| mutant.number).eq(1..=mutants.len() as u32));
}

/// An error inside a mutant's own text drops that mutant; one elsewhere in its site drops all of
/// the site; one outside belongs to no mutant.
#[test]
fn errors_are_traced_to_mutants() {
    let rewritten = rewritten("fn f() -> &T { if a + 1 < b {} }");
    let at = |code: &str| {
        let start = rewritten.text.find(code).expect("in the text");
        rewritten.mutants_at(&(start..start + code.len()))
    };
    assert_eq!(at("(a + 1) <= (b)"), [2]);
    assert_eq!(at("!(a + 1 < b)"), [1]);
    assert_eq!(at("(a) - (1)"), [3]);
    assert_eq!(at("< b) })"), [1, 2]);
    assert_eq!(at("(a + ("), [3]);
    assert!(at("fn f").is_empty());
}

/// A whole run: of a crate of a few lines, one mutant is killed, one survives, one is not reached,
/// and one does not compile. A second run, after the test was sharpened, kills the survivor.
#[test]
fn a_run_tells_what_became_of_each_mutant() {
    let dir = TestDir::new("mutants");
    let root = dir.path();
    let write = |name: &str, text: &str| {
        fs::create_dir_all(root.join(name).parent().expect("a directory")).expect("a directory");
        fs::write(root.join(name), text).expect("a file");
    };
    let source = "\
        pub fn is_small(n: u64) -> &'static bool { if n < 10 { &true } else { &false } }\n\
        pub fn unused(s: &'static str) -> &'static [u8] { let t: &'static u8 = &7; g(t); s.as_bytes() }\n\
        fn g(_: &'static u8) {}\n";
    write("src/lib.rs", source);
    write("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n");
    write("tests/a.rs", "#[test]\nfn a() { assert!(small::is_small(9) & !small::is_small(11)); }\n");
    for words in [&["init", "-q"][..], &["add", "."]] {
        let status = Command::new("git").args(words).current_dir(root).status();
        assert!(status.expect("git runs").success());
    }
    let words = ["src/lib.rs", "--test", "--test a", "--jobs", "2", "--dir", "target/m"].map(str::to_owned);
    let args = Args::parse(words.into_iter()).expect("valid");

    let report = run(&args, root);
    let text = report.text();
    let fate = |what: &str| {
        let found = report.mutants.iter().find(|(mutant, _)| mutant.site.description == what);
        found.unwrap_or_else(|| panic!("{what}: {text}")).1.clone()
    };
    assert_eq!(fate("n < 10 -> !(n < 10)"), Fate::Killed("a".into()));
    assert_eq!(fate("n < 10: < -> <="), Fate::Survived(1));
    assert_eq!(fate("10 -> 11"), Fate::Survived(1), "11 < 11 is false as well");
    assert_eq!(fate("g(t); -> (left out)"), Fate::NotReached);
    assert_eq!(fate("7 -> 8"), Fate::NotViable, "the reference would dangle");
    assert_eq!(report.total().percent(), 25.0, "{text}");
    assert!(text.contains("survived: src/lib.rs:1:47: n < 10: < -> <= (1 tests pass; --only 2)"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    assert_eq!((&json["all"]["viable"], &json["survivors"][0]["line"]), (&4.into(), &1.into()), "{json}");

    write("tests/a.rs", "#[test]\nfn a() { assert!(small::is_small(9) & !small::is_small(10)); }\n");
    let report = run(&args, root);
    assert_eq!(report.total().killed, 3, "{}", report.text());
}

fn run(args: &Args, root: &Path) -> crate::Report {
    crate::run(args, root).expect("a run").expect("a report")
}
