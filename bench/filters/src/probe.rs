//! Cost of one filter probe, by kind, beside the crate `fastbloom` with as many bits: instructions,
//! lines of 64 bytes missed in the first-level cache (by callgrind), and the false positive rate.
//!
//! ```sh
//! cargo run --release -p filters --bin probe       # the table; needs valgrind, takes a minute
//! target/release/probe blocked 10 absent           # the lookups of one row, for profiling
//! ```
//!
//! Probes take a ready digest. A filter over two million keys takes 1.25 MB and more at 5 bits per
//! entry, so hardly a line of it is in the simulated cache of 48 KiB: misses are the filter's lines
//! that a lookup touches, its header's fields excepted.

use std::hint::black_box;
use std::process::Command;

use fastbloom::BloomFilter;
use tamarack_filter::{Digest, Filter, FilterKind, Size};

const ENTRIES: u64 = 2_000_000;
const LOOKUPS: u64 = 100_000;
const BITS: [u32; 4] = [5, 8, 10, 16];
const PEER: &str = "fastbloom";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => table(),
        [kind, bits, keys] => {
            let bits = bits.parse().expect("bits per entry");
            println!("{}", Any::new(kind, bits).lookups(keys == "present", LOOKUPS));
        }
        _ => eprintln!("probe [KIND BITS absent|present]"),
    }
}

enum Any {
    Ours(Filter),
    Peer(BloomFilter),
}

impl Any {
    fn new(kind: &str, bits: u32) -> Self {
        if kind == PEER {
            let mut filter =
                BloomFilter::with_num_bits((ENTRIES * u64::from(bits)) as usize).expected_items(ENTRIES as usize);
            (0..ENTRIES).for_each(|number| {
                filter.insert_hash(digest(number).stored());
            });
            return Self::Peer(filter);
        }
        let kind = FilterKind::ALL.into_iter().find(|other| other.name() == kind).expect("a kind of filter");
        let digests: Vec<Digest> = (0..ENTRIES).map(digest).collect();
        Self::Ours(Filter::build(kind, Size::PerEntry(f64::from(bits)), &digests).expect("bits"))
    }

    /// How many of so many lookups pass.
    fn lookups(&self, present: bool, lookups: u64) -> u64 {
        let first = if present { 0 } else { 1 << 40 };
        let keys = (0..lookups).map(|number| digest(first + number * 19 % ENTRIES));
        match self {
            Self::Ours(filter) => keys.filter(|digest| measured_ours(filter, *digest)).count() as u64,
            Self::Peer(filter) => keys.filter(|digest| measured_peer(filter, digest.stored())).count() as u64,
        }
    }
}

#[inline(never)]
fn measured_ours(filter: &Filter, digest: Digest) -> bool {
    black_box(filter).may_contain(digest)
}

#[inline(never)]
fn measured_peer(filter: &BloomFilter, hash: u64) -> bool {
    black_box(filter).contains_hash(hash)
}

/// SplitMix64: a digest as good as one of a key.
fn digest(number: u64) -> Digest {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    Digest::from_stored(bits ^ (bits >> 31))
}

fn table() {
    println!("| bits per entry | kind | FPR | instructions, absent key | lines | instructions, present key | lines |");
    println!("|---:|---|---:|---:|---:|---:|---:|");
    for bits in BITS {
        for kind in [PEER, "bloom", "blocked", "elastic"] {
            let wrong = Any::new(kind, bits).lookups(false, ENTRIES) as f64 / ENTRIES as f64 * 100.0;
            let ([absent, absent_lines], [present, present_lines]) =
                (counted(kind, bits, "absent"), counted(kind, bits, "present"));
            println!(
                "| {bits} | {kind} | {wrong:.3} % | {absent:.0} | {absent_lines:.2} | {present:.0} | {present_lines:.2} |"
            );
        }
    }
}

/// Instructions, and misses of the first-level data cache, for each lookup.
fn counted(kind: &str, bits: u32, keys: &str) -> [f64; 2] {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--cache-sim=yes", "--D1=49152,12,64"])
        .arg("--toggle-collect=*measured_*")
        .arg(program)
        .args([kind, &bits.to_string(), keys])
        .output()
        .expect("valgrind can be started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // Events: Ir Dr Dw I1mr D1mr D1mw …
    let collected = text.lines().find_map(|line| line.split_once("Collected :")).unwrap_or_else(|| panic!("{text}")).1;
    let numbers: Vec<f64> = collected.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    [numbers[0] / LOOKUPS as f64, numbers[4] / LOOKUPS as f64]
}
