//! The field's terms: words that are not used, what to write instead, and terms that must occur.
//!
//! A reader who knows RocksDB, Pebble or the papers looks for the memtable, for compaction and for
//! the write stall; one word names one thing in code, documentation, command line and messages. The
//! first list holds words that used to stand for these things, the second one the terms themselves
//! with the places where readers look.
//!
//! A phrase is found across line breaks and in any spelling of a name: "held back" is `held back`,
//! `held_back` and `HeldBack`. How many findings are allowed is stored by `ratchet`.

use crate::finding::{Count, Finding, area};
use crate::rust;
use crate::tree::TextFile;

/// Which text a word is looked for in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum In {
    /// Identifiers of Rust code.
    Names,
    /// Comments, string literals and documents.
    Prose,
    /// Both.
    Both,
}

/// One word that is not used, with its forms and compounds.
struct Banned {
    /// The name of the rule in the ratchet.
    rule: &'static str,
    /// Phrases in lower case, separated by `|`.
    phrases: &'static str,
    within: In,
    /// What to write.
    instead: &'static str,
    /// Words that, coming next, make the phrase right.
    unless_next: &'static [&'static str],
    /// Beginnings of paths where the word means something else.
    allowed: &'static [&'static str],
}

const fn banned(rule: &'static str, phrases: &'static str, within: In, instead: &'static str) -> Banned {
    Banned { rule, phrases, within, instead, unless_next: &[], allowed: &[] }
}

const BANNED: &[Banned] = &[
    banned("desk", "desk|desks", In::Both, "scheduler, or the queue that it is"),
    banned("crew", "crew|crews", In::Both, "scheduler, worker threads"),
    banned("workshop", "workshop|workshops", In::Both, "scheduler"),
    banned("shelf", "shelf|shelves", In::Both, "the table's filter slot"),
    banned("heat", "heat|heats", In::Both, "access frequency, hot and cold keys"),
    banned("retune", "retune|retunes|retuned|retuning", In::Both, "filter rebuild; change of policy; reshape"),
    banned("room", "room", In::Names, "slack (of a deadline); free space, capacity"),
    banned("standing", "standing", In::Names, "say what it is: state, position, priority"),
    Banned {
        rule: "held",
        phrases: "held",
        within: In::Names,
        instead: "size (of a level or table); pinned (memory kept by readers)",
        unless_next: &[],
        // Locks are held.
        allowed: &["crates/tamarack-env/"],
    },
    banned(
        "held back",
        "held back|holds back|hold back",
        In::Both,
        "delayed (write throttling), stopped (write stall)",
    ),
    banned("asked in vain", "in vain", In::Both, "false positive; zero-result lookup"),
    banned(
        "said perhaps",
        "said perhaps|says perhaps|say perhaps",
        In::Both,
        "positive (false positive, true positive)",
    ),
    banned(
        "promised",
        "promised rate|promised rates|filters promise|filter promises|than promised|promised false|promised fpr",
        In::Prose,
        "predicted",
    ),
    banned("promise in names", "promise|promises|promised", In::Names, "predicted (of a model)"),
    banned(
        "foretold",
        "foretell|foretells|foretold|foretelling|foresee|foresees|foreseen|forecast|forecasts",
        In::Both,
        "predict, predicted",
    ),
    banned("how many in so long", "in so long|so many in", In::Prose, "throughput, rate"),
    banned("expert", "expert|experts", In::Both, "advanced (options)"),
    banned("verb", "verb|verbs", In::Both, "command"),
    banned(
        "words for a specification",
        "policy words|filter words|words for filters|words for a filter|other words|these words|the words of|the words for",
        In::Prose,
        "specification (`leveling:T=10`)",
    ),
    Banned {
        rule: "level 0",
        phrases: "level 0",
        within: In::Prose,
        instead: "memtable; levels on storage begin at 1",
        unless_next: &[],
        // RocksDB's own names.
        allowed: &["bench/sidebyside/src/stores/rocksdb.rs", "bench/merge/src/engines.rs"],
    },
    banned("sealed", "seal|seals|sealed|sealing|unsealed", In::Both, "immutable (memtable); switching the memtable"),
    banned("live one", "live one|live ones", In::Prose, "space amplification; bytes per live byte"),
    banned("called for", "called for|calls for|call for", In::Prose, "needed, due, pending"),
    Banned {
        rule: "log for WAL",
        phrases: "the log|a log|log segment|log segments|log file|log files|logs",
        within: In::Prose,
        instead: "WAL, WAL segment",
        unless_next: &["scale", "structured"],
        allowed: &["crates/tamarack-model/", "docs/FORMULAS.md", "bench/"],
    },
    Banned {
        rule: "log in names",
        phrases: "log",
        within: In::Names,
        instead: "wal (write-ahead log)",
        unless_next: &[],
        // Logarithms, the simulator's log of calls, and the crate of that name.
        allowed: &[
            "crates/tamarack-model/",
            "crates/tamarack-filter/",
            "crates/tamarack-env/",
            "crates/tamarack-cli/src/show/table.rs",
            "crates/tamarack-cli/src/show/tree.rs",
            "bench/",
            "qa/torture/tests/log.rs",
        ],
    },
    Banned {
        rule: "merge for compaction",
        phrases: "merges|a merge|the merge|each merge|every merge|this merge|that merge|no merge|one merge|of merge",
        within: In::Prose,
        instead: "compaction (plan, job, edit); a merge is the k-way merging iterator or the merge operator",
        unless_next: &["operator", "operators", "operand", "operands", "iterator", "iterators", "policy", "policies"],
        // The iterator and the operator.
        allowed: &["crates/tamarack/src/merge", "crates/tamarack/src/operator", "SECURITY.md"],
    },
    banned(
        "merge for compaction in names",
        "merges|merge job|merge pause|merge bytes|next merge|merge plan",
        In::Names,
        "compaction",
    ),
];

/// The field's terms; of alternatives, separated by `|`, one is enough.
const TERMS: &[&str] = &[
    "memtable",
    "compaction",
    "sstable",
    "wal",
    "write stall",
    "block cache",
    "bloom filter",
    "sequence number",
    "space amplification",
    "write amplification",
    "read amplification",
    "throughput",
    "latency|latencies",
];

/// Where readers look for terms: a name, and the beginnings of its files' paths.
const PLACES: &[(&str, &[&str])] = &[
    ("README", &["README.md"]),
    ("ARCHITECTURE", &["ARCHITECTURE.md"]),
    ("docs", &["docs/FOR", "docs/OPTIONS.md", "docs/STATS.md", "docs/READ_PATH.md", "docs/decisions/"]),
    ("help", &["docs/MANUAL.md"]),
    ("rustdoc", &["crates/tamarack/src/"]),
];

/// Files that name the words in order to speak about them.
const EXEMPT: &[&str] = &["crates/tidy/src/glossary.rs", "crates/tidy/ratchet.txt"];

/// Every use of a word that is not used, by rule and part of the repository.
pub(crate) fn banned_words(files: &[TextFile]) -> Vec<Count> {
    let mut counts: Vec<Count> = BANNED.iter().map(|word| Count::new(word.rule, word.instead)).collect();
    for file in files.iter().filter(|file| is_checked(file)) {
        let (names, prose) = split(file);
        let (names, prose) = (tokens(&names), tokens(&prose));
        for (word, count) in BANNED.iter().zip(&mut counts) {
            if word.allowed.iter().any(|place| file.path.starts_with(place)) {
                continue;
            }
            let texts = [(&names, In::Names), (&prose, In::Prose)];
            for (text, _) in texts.iter().filter(|(_, kind)| word.within == In::Both || word.within == *kind) {
                for at in occurrences(text, word) {
                    count.add(area(&file.path), Finding::at(file, at));
                }
            }
        }
    }
    counts
}

/// Terms that a place lacks; each is one finding there.
pub(crate) fn missing_terms(files: &[TextFile]) -> Vec<Count> {
    let instead = "use the field's term where the thing is explained";
    let mut counts = Vec::new();
    for term in TERMS {
        let mut count = Count::new(&format!("missing: {}", term.split('|').next().unwrap_or(term)), instead);
        for (place, paths) in PLACES {
            let is_there = files
                .iter()
                .filter(|file| paths.iter().any(|path| file.path.starts_with(path)))
                .any(|file| term.split('|').any(|term| has_term(&split(file).1, term)));
            if !is_there {
                count.add(place, Finding::missing(place, term));
            }
        }
        counts.push(count);
    }
    counts
}

fn is_checked(file: &TextFile) -> bool {
    (file.is_rust() || file.path.ends_with(".md")) && !EXEMPT.contains(&file.path.as_str())
}

/// Identifiers and prose of a file, each with everything else blanked.
fn split(file: &TextFile) -> (String, String) {
    if !file.is_rust() {
        return (String::new(), file.text.clone());
    }
    let code = rust::code_only(&file.text);
    let prose =
        file.text.bytes().zip(code.bytes()).map(|(all, code)| if all == code && all != b'\n' { b' ' } else { all });
    (code.clone(), String::from_utf8_lossy(&prose.collect::<Vec<u8>>()).into_owned())
}

/// True if the term occurs as whole words, on one line or across a line break, in any case.
fn has_term(text: &str, term: &str) -> bool {
    let words: Vec<String> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let term: Vec<&str> = term.split(' ').collect();
    words.windows(term.len()).any(|found| {
        found.iter().zip(&term).all(|(word, wanted)| word == wanted || word.strip_suffix('s') == Some(*wanted))
    })
}

/// One word of a text: lower case, where it begins, and whether only a space, a line break or a
/// name's joint separates it from the word before.
#[derive(Debug)]
struct Token {
    word: String,
    at: usize,
    joined: bool,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let (mut word, mut start, mut joined) = (String::new(), 0, false);
    let mut previous = ' ';
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map_or(' ', |(_, next)| *next);
        let camel = c.is_uppercase() && (previous.is_lowercase() || (previous.is_uppercase() && next.is_lowercase()));
        let kind_changes = c.is_ascii_digit() != previous.is_ascii_digit();
        if !word.is_empty() && (!c.is_alphanumeric() || camel || kind_changes) {
            tokens.push(Token { word: std::mem::take(&mut word), at: start, joined });
            joined = true;
        }
        if c.is_alphanumeric() {
            if word.is_empty() {
                start = at;
            }
            word.extend(c.to_lowercase());
        } else if !c.is_whitespace() && !matches!(c, '/' | '!' | '_' | '-') {
            joined = false;
        }
        previous = c;
    }
    if !word.is_empty() {
        tokens.push(Token { word, at: start, joined });
    }
    tokens
}

fn occurrences(text: &[Token], word: &Banned) -> Vec<usize> {
    let mut found = Vec::new();
    for phrase in word.phrases.split('|') {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        for (i, window) in text.windows(phrase.len()).enumerate() {
            let matches = window.iter().zip(&phrase).all(|(token, wanted)| token.word == *wanted)
                && window[1..].iter().all(|token| token.joined);
            let next = text.get(i + phrase.len()).filter(|next| next.joined);
            if matches && !next.is_some_and(|next| word.unless_next.contains(&next.word.as_str())) {
                found.push(window[0].at);
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Shows what counts as an occurrence.
#[test]
fn words_are_found_in_every_spelling() {
    let back = banned("held back", "held back", In::Both, "");
    let count = |text: &str, word: &Banned| occurrences(&tokens(text), word).len();
    assert_eq!(count("fn held_back(HeldBack, HELD_BACK)\n/// held\n/// back. held, back; upheld back", &back), 4);
    let merge = Banned { unless_next: &["operator"], ..banned("", "the merge", In::Both, "") };
    assert_eq!(count("the merge operator, the merge. The Merge", &merge), 2);
    assert_eq!(count("level 0, level(0), level 01, Level0", &banned("", "level 0", In::Both, "")), 2);
    assert!(has_term("the write\n//! stalls of", "write stall") && !has_term("walk the wall", "wal"));
}

/// Shows what is prose and what is a name.
#[test]
fn names_and_prose_are_apart() {
    let file = TextFile { path: "crates/x/src/a.rs".into(), text: "let desk = \"crew\"; // shelf".into() };
    let (names, prose) = split(&file);
    assert!(names.contains("desk") && !names.contains("crew") && !names.contains("shelf"), "{names}");
    assert!(!prose.contains("desk") && prose.contains("crew") && prose.contains("shelf"), "{prose}");
}
