//! Arguments about the database, and opening it.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tamarack::{AdvancedOptions, Compression, Db, Dropped, Durability, Error, Options};

use crate::outcome::Failure;
use crate::show::Output;
use crate::show::table::plural;
use crate::{files, size};

/// The argument that names the database.
pub(crate) fn path_argument() -> Arg {
    Arg::new("db")
        .value_name("DB")
        .help("Directory of the database")
        .required(true)
        .value_parser(value_parser!(PathBuf))
}

/// The switch of commands that read many blocks.
pub(crate) fn direct_argument() -> Arg {
    let help = "Read SSTables with direct I/O, past the page cache";
    Arg::new(DIRECT).long(DIRECT).help(help).action(ArgAction::SetTrue)
}

const DIRECT: &str = "direct-io";

/// The options of commands that write.
pub(crate) fn write_arguments() -> [Arg; 2] {
    [
        Arg::new("durability")
            .long("durability")
            .value_name("LEVEL")
            .help("Durability of a write that has returned: buffered (survives\nthe process), sync (survives a crash of the machine),\ninterval:MS (a sync begins at most MS milliseconds later)\n")
            .default_value("buffered")
            .value_parser(size::parse_durability),
        Arg::new("memory")
            .long("memory")
            .value_name("SIZE")
            .help("Memory budget for memtables, filters, indexes and caches,\nsuch as 1GiB; an existing database keeps its memtable size\n[default: 256MiB]")
            .value_parser(size::parse_bytes),
    ]
}

/// The options of commands that run compactions.
pub(crate) fn compaction_arguments() -> [Arg; 6] {
    [
        Arg::new("policy")
            .long("policy")
            .value_name("POLICY")
            .help("Compaction policy; compact --help lists them [default: that of\nthe database; leveling:T=5,first=4 for a new one]")
            .value_parser(value_parser!(String)),
        Arg::new("filter")
            .long("filter")
            .value_name("FILTER")
            .help("Bloom filters: blocked:bits=10 (one cache line per probe),\nbloom:bits=10 (fewer false positives, more cache lines),\nelastic:bits=10 (more memory for SSTables that are looked up\nmore often), or none; bits per key, above 0 and up to 64;\nchucky:bits=12 (one filter for the whole tree, of at least\n10 bits, for trees of many runs).\n,allocation=monkey gives small runs more bits than large ones,\n,allocation=observed also follows where lookups find keys\n[default: that of the database;\nblocked:bits=10,allocation=monkey for a new one]")
            .value_parser(value_parser!(String)),
        Arg::new(NO_DIGESTS)
            .long(NO_DIGESTS)
            .help("Store no key digests in new SSTables: saves 3 to 5 bytes per\nkey on storage, but their filters cannot be rebuilt")
            .action(ArgAction::SetTrue),
        Arg::new(SPACE)
            .long(SPACE)
            .value_name("FACTOR")
            .help("Upper bound on space amplification, at least 1.01, stored with\nthe database; inf removes it. The compactions for it write at most\nFACTOR / (FACTOR - 1) bytes per byte written, or twice that\nbeside other compactions [default: that of the database; none\nfor a new one]")
            .value_parser(value_parser!(f64)),
        Arg::new("threads")
            .long("threads")
            .value_name("COUNT")
            .help("Threads for flushes and compactions [default: one per core, at\nmost 4]")
            .value_parser(value_parser!(u64).range(1..=THREADS_MAX)),
        direct_argument(),
    ]
}

const NO_DIGESTS: &str = "no-digests";
const SPACE: &str = "space-max";

/// More threads than this are a typing error.
const THREADS_MAX: u64 = 1024;

/// Advanced options of commands that write: they override what follows from the memory budget.
pub(crate) fn advanced_arguments() -> [Arg; 4] {
    let size = |name: &'static str, help| {
        let argument = Arg::new(name).long(name).value_name("SIZE").help(help);
        argument.value_parser(size::parse_bytes).help_heading(ADVANCED)
    };
    [
        size(
            "buffer",
            "Size of the memtable (the papers' buffer), which is flushed when\nit is full [default: 1/8 of the memory, or that of the database]",
        ),
        size("cache", "Capacity of the block cache\n[default: what other components leave of the memory]"),
        size("block-size", "Size of data blocks before compression [default: 4KiB]"),
        Arg::new("compression")
            .long("compression")
            .value_name("METHOD")
            .help("Compression of data blocks")
            .default_value("lz4")
            .value_parser(PossibleValuesParser::new(COMPRESSIONS.map(|(name, _)| name)))
            .help_heading(ADVANCED),
    ]
}

const ADVANCED: &str = "Advanced options";

/// The compression methods of this build.
const COMPRESSIONS: [(&str, Compression); if cfg!(feature = "zstd") { 3 } else { 2 }] = [
    ("none", Compression::None),
    ("lz4", Compression::Lz4),
    #[cfg(feature = "zstd")]
    ("zstd", Compression::Zstd { level: 3 }),
];

/// The memory budget that [`write_arguments`] were given.
pub(crate) fn memory_bytes(matches: &ArgMatches) -> u64 {
    matches.get_one("memory").copied().unwrap_or(MEMORY_BYTES_DEFAULT)
}

/// The most bytes that one write may have with that budget.
pub(crate) fn write_bytes_max(matches: &ArgMatches) -> u64 {
    memory_bytes(matches) / 8
}

/// The default memory budget of the engine.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;

/// The database's directory.
pub(crate) fn path(matches: &ArgMatches) -> &Path {
    matches.get_one::<PathBuf>("db").expect("it is required")
}

/// Opens an existing database read-only; several processes can do so at once.
pub(crate) fn open_to_read(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    opened(Options::new().advanced(advanced(matches)).open_read_only(path(matches)), path(matches), output)
}

/// Opens an existing database with its own options.
pub(crate) fn open_as_it_is(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&Options::new().create_if_missing(false).advanced(advanced(matches)), matches, output)
}

/// Opens an existing database with [`write_arguments`].
pub(crate) fn open_to_change(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&write_options(matches).create_if_missing(false), matches, output)
}

/// Opens a database with [`write_arguments`], and creates it if it does not exist.
pub(crate) fn open_or_create(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&write_options(matches), matches, output)
}

/// Opens a database with [`write_arguments`], [`compaction_arguments`] and [`advanced_arguments`],
/// and creates it if it does not exist.
pub(crate) fn open_or_create_tuned(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&tuned_options(matches)?, matches, output)
}

/// Opens an existing database for a benchmark, with the given threads, cache and durability.
pub(crate) fn open_to_measure(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    let advanced = match matches.get_one::<u64>("cache") {
        Some(bytes) => advanced(matches).cache_bytes(*bytes),
        None => advanced(matches),
    };
    let options = with_threads(write_options(matches), matches).create_if_missing(false).advanced(advanced);
    open_with(&options, matches, output)
}

/// The options of [`write_arguments`], [`compaction_arguments`] and [`advanced_arguments`].
pub(crate) fn tuned_options(matches: &ArgMatches) -> Result<Options, Failure> {
    let advanced = with_policy(with_filter(tuned(matches), matches), matches)?;
    let options = with_threads(with_space(write_options(matches), matches), matches);
    Ok(options.compression(compression(matches)).advanced(advanced))
}

/// Opens an existing database with [`compaction_arguments`].
pub(crate) fn open_to_compact(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    let advanced = with_policy(with_filter(advanced(matches), matches), matches)?;
    let options = with_threads(with_space(Options::new(), matches), matches);
    open_with(&options.create_if_missing(false).advanced(advanced), matches, output)
}

fn with_space(options: Options, matches: &ArgMatches) -> Options {
    match matches.get_one::<f64>(SPACE) {
        Some(most) => options.space_amplification_max(*most),
        None => options,
    }
}

/// Opens an existing database with its own policy; read-only for a dry run.
pub(crate) fn open_to_reshape(matches: &ArgMatches, dry: bool, output: &mut Output<'_>) -> Result<Db, Failure> {
    let options = with_threads(with_space(Options::new(), matches), matches);
    let options = options.create_if_missing(false).advanced(with_filter(advanced(matches), matches));
    if dry {
        opened(options.open_read_only(path(matches)), path(matches), output)
    } else {
        open_with(&options, matches, output)
    }
}

fn with_threads(options: Options, matches: &ArgMatches) -> Options {
    match matches.get_one::<u64>("threads") {
        Some(threads) => options.threads(usize::try_from(*threads).expect("the parser bounds it")),
        None => options,
    }
}

fn with_filter(advanced: AdvancedOptions, matches: &ArgMatches) -> AdvancedOptions {
    let advanced = if matches.get_flag(NO_DIGESTS) { advanced.filter_digests(false) } else { advanced };
    match matches.get_one::<String>("filter") {
        Some(words) => advanced.filter(words),
        None => advanced,
    }
}

fn with_policy(advanced: AdvancedOptions, matches: &ArgMatches) -> Result<AdvancedOptions, Failure> {
    Ok(match policy_specification(matches)? {
        Some(words) => advanced.policy(&words),
        None => advanced,
    })
}

/// The policy's specification in argument `policy`, if given; a custom shape is read from its file.
pub(crate) fn policy_specification(matches: &ArgMatches) -> Result<Option<String>, Failure> {
    matches.get_one::<String>("policy").map(|words| specification(words)).transpose()
}

/// A policy's specification as the user wrote it; a custom shape is read from its file.
pub(crate) fn specification(words: &str) -> Result<String, Failure> {
    // Text that begins like a shape is a shape; write ./buffer… for a file of that name.
    match words.strip_prefix("custom:").filter(|shape| !shape.trim_start().starts_with("buffer ")) {
        Some(file) => Ok(custom_specification(&files::read_text(Path::new(file))?)),
        None => Ok(words.to_owned()),
    }
}

/// The specification of a custom shape. Lines remain lines, so that errors name the right one.
fn custom_specification(shape: &str) -> String {
    let lines = shape.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    format!("custom:{}", lines.collect::<Vec<_>>().join("; "))
}

fn write_options(matches: &ArgMatches) -> Options {
    let durability: Durability = *matches.get_one("durability").expect("it has a default");
    let options = Options::new().durability(durability);
    match matches.get_one::<u64>("memory") {
        Some(bytes) => options.memory_bytes(*bytes),
        None => options,
    }
}

fn tuned(matches: &ArgMatches) -> AdvancedOptions {
    let size = |name| matches.get_one::<u64>(name).copied();
    let mut advanced = advanced(matches);
    if let Some(bytes) = size("buffer") {
        advanced = advanced.memtable_bytes(bytes);
    }
    if let Some(bytes) = size("cache") {
        advanced = advanced.cache_bytes(bytes);
    }
    if let Some(bytes) = size("block-size") {
        advanced = advanced.block_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    advanced
}

fn compression(matches: &ArgMatches) -> Compression {
    let method: &String = matches.get_one("compression").expect("it has a default");
    let found = COMPRESSIONS.iter().find(|(name, _)| name == method);
    found.expect("the parser knows the list").1
}

/// Advanced options from [`direct_argument`], where a command has it.
fn advanced(matches: &ArgMatches) -> AdvancedOptions {
    AdvancedOptions::new().direct_io(matches.try_get_one(DIRECT).ok().flatten().copied().unwrap_or(false))
}

fn open_with(options: &Options, matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    opened(options.open(path(matches)), path(matches), output)
}

/// Adds advice to a failure to open, and reports what recovery dropped.
fn opened(outcome: tamarack::Result<Db>, path: &Path, output: &mut Output<'_>) -> Result<Db, Failure> {
    let db = outcome.map_err(|error| match damage(&error) {
        Some(damage) => {
            let repair = format!("run `tamarack repair {}` to see what can be salvaged", path.display());
            Failure::Storage(format!("{damage}; the database cannot be opened: restore it from a backup, or {repair}"))
        }
        None => Failure::from(error),
    })?;
    report_recovery(&db, output);
    Ok(db)
}

/// File, offset and kind of the damage, if `error` is damage; without advice.
pub(crate) fn damage(error: &Error) -> Option<String> {
    match error {
        Error::Corruption { path, offset, what } => {
            Some(format!("{}: damaged at byte {offset}: {what}", path.display()))
        }
        _ => None,
    }
}

/// Reports the torn tails that recovery dropped.
fn report_recovery(db: &Db, output: &mut Output<'_>) {
    for dropped in &db.recovery().dropped {
        output.note(&format!("{}; the tail is dropped, and no durable write is lost", torn(dropped)));
    }
}

/// One line about a torn tail.
pub(crate) fn torn(end: &Dropped) -> String {
    let (path, bytes) = (end.path.display(), plural(end.bytes, "byte"));
    format!("{path}: torn tail of {bytes} at byte {}, left by a crash ({})", end.offset, end.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shape file becomes a specification, line by line.
    #[test]
    fn shapes_become_specifications() {
        let text = "# for the small disk\nbuffer 1MiB\n\nlevel 4MiB in 2 runs  # two; no more\r\n";
        assert_eq!(custom_specification(text), "custom:; buffer 1MiB; ; level 4MiB in 2 runs");
    }
}
