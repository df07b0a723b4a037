//! Opening the database that a command works on.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tamarack::{Compression, Db, Dropped, Durability, Error, Expert, Options};

use crate::outcome::Failure;
use crate::show::Output;
use crate::show::table::plural;
use crate::{files, size};

/// The argument that names the database.
pub(crate) fn path_argument() -> Arg {
    Arg::new("db").value_name("DB").help("The database's directory").required(true).value_parser(value_parser!(PathBuf))
}

/// The switch of commands that may read much.
pub(crate) fn direct_argument() -> Arg {
    let help = "Read tables past the page cache; what other programs\nhave there stays";
    Arg::new(DIRECT).long(DIRECT).help(help).action(ArgAction::SetTrue)
}

const DIRECT: &str = "direct-io";

/// The options of commands that write.
pub(crate) fn write_arguments() -> [Arg; 2] {
    [
        Arg::new("durability")
            .long("durability")
            .value_name("LEVEL")
            .help("What a stored record survives: buffered (the end of this\nprocess), sync (a crash of the machine), interval:MS (the\nsame, at most MS milliseconds later)")
            .default_value("buffered")
            .value_parser(size::parse_durability),
        Arg::new("memory")
            .long("memory")
            .value_name("SIZE")
            .help("The memory for buffers and caches, such as 1GiB [default:\n256MiB; a database that is there keeps its buffer's size]")
            .value_parser(size::parse_bytes),
    ]
}

/// The options of commands that merge.
pub(crate) fn merge_arguments() -> [Arg; 6] {
    [
        Arg::new("policy")
            .long("policy")
            .value_name("WORDS")
            .help("The policy that gives the tree its shape; compact --help lists\nthem [default: what it has; leveling:T=10 for a new one]")
            .value_parser(value_parser!(String)),
        Arg::new("filter")
            .long("filter")
            .value_name("WORDS")
            .help("The filters of tables that this writes: blocked:bits=10 (one\ncache line for each question), bloom:bits=10 (errs a little\nless), none; bits for each entry, above 0 and up to 64; with\n,allocation=monkey large runs get fewer and small ones more;\nwith ,allocation=observed also by what lookups find where;\nelastic:bits=10 gives tables more that are asked more often\n[default: blocked:bits=10,allocation=monkey]")
            .value_parser(value_parser!(String)),
        Arg::new(NO_DIGESTS)
            .long(NO_DIGESTS)
            .help("Keep no digests of keys in tables that this writes: 3 to 4\nbytes less for each on storage, but filters cannot be made\nanew from them")
            .action(ArgAction::SetTrue),
        Arg::new(SPACE)
            .long(SPACE)
            .value_name("FACTOR")
            .help("The most bytes that the tree may take for each live one, at\nleast 1.01; merges keep to it while this runs, and write at\nmost FACTOR / (FACTOR - 1) bytes more for each one written, up\nto twice that in a busy tree [default: no bound]")
            .value_parser(value_parser!(f64)),
        Arg::new("threads")
            .long("threads")
            .value_name("COUNT")
            .help("How many threads flush and merge [default: one for each core,\nat most 4]")
            .value_parser(value_parser!(u64).range(1..=THREADS_MAX)),
        direct_argument(),
    ]
}

const NO_DIGESTS: &str = "no-digests";
const SPACE: &str = "space-max";

/// More threads than this are a mistake in typing.
const THREADS_MAX: u64 = 1024;

/// The options of commands that write much: they override what otherwise follows from the memory budget.
pub(crate) fn tuning_arguments() -> [Arg; 4] {
    let size = |name: &'static str, help| {
        let argument = Arg::new(name).long(name).value_name("SIZE").help(help);
        argument.value_parser(size::parse_bytes).help_heading(TUNING)
    };
    [
        size(
            "buffer",
            "The size at which a buffer is flushed\n[default: an eighth of the memory, or what the database has]",
        ),
        size("cache", "The most that the block cache takes\n[default: what other parts leave of the memory]"),
        size("block-size", "The size of a table's blocks before compression [default: 4KiB]"),
        Arg::new("compression")
            .long("compression")
            .value_name("METHOD")
            .help("How blocks are compressed")
            .default_value("lz4")
            .value_parser(PossibleValuesParser::new(COMPRESSIONS.map(|(name, _)| name)))
            .help_heading(TUNING),
    ]
}

const TUNING: &str = "Tuning (the defaults are meant to be good)";

/// The methods of compression that this program was built with.
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

/// What the engine takes if it is told nothing.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;

/// The database's directory.
pub(crate) fn path(matches: &ArgMatches) -> &Path {
    matches.get_one::<PathBuf>("db").expect("it is required")
}

/// Opens a database that must be there already, for reading only: several programs can do so at once, and nothing is changed by it.
pub(crate) fn open_to_read(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    opened(Options::new().expert(expert(matches)).open_read_only(path(matches)), path(matches), output)
}

/// Opens a database that must be there already, with the options that it has.
pub(crate) fn open_as_it_is(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&Options::new().create_if_missing(false).expert(expert(matches)), matches, output)
}

/// Opens a database that must be there already, as [`write_arguments`] say.
pub(crate) fn open_to_change(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&write_options(matches).create_if_missing(false), matches, output)
}

/// Opens a database as [`write_arguments`] say, and makes it if it is not there.
pub(crate) fn open_or_create(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&write_options(matches), matches, output)
}

/// Opens a database as [`write_arguments`], [`merge_arguments`] and [`tuning_arguments`] say, and makes it if it is not there.
pub(crate) fn open_or_create_tuned(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&tuned_options(matches)?, matches, output)
}

/// Opens a database that must be there already, to be measured: with threads, cache and durability as they are given, and otherwise as it is.
pub(crate) fn open_to_measure(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    let expert = match matches.get_one::<u64>("cache") {
        Some(bytes) => expert(matches).cache_bytes(*bytes),
        None => expert(matches),
    };
    let options = with_threads(write_options(matches), matches).create_if_missing(false).expert(expert);
    open_with(&options, matches, output)
}

/// What [`write_arguments`], [`merge_arguments`] and [`tuning_arguments`] say.
pub(crate) fn tuned_options(matches: &ArgMatches) -> Result<Options, Failure> {
    let expert = with_policy(with_filter(tuned(matches), matches), matches)?;
    let options = with_threads(with_space(write_options(matches), matches), matches);
    Ok(options.compression(compression(matches)).expert(expert))
}

/// Opens a database that must be there already, as [`merge_arguments`] say.
pub(crate) fn open_to_merge(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    let expert = with_policy(with_filter(expert(matches), matches), matches)?;
    let options = with_threads(with_space(Options::new(), matches), matches);
    open_with(&options.create_if_missing(false).expert(expert), matches, output)
}

fn with_space(options: Options, matches: &ArgMatches) -> Options {
    match matches.get_one::<f64>(SPACE) {
        Some(most) => options.space_amplification_max(*most),
        None => options,
    }
}

/// The same with the policy that it has; for reading only if nothing is to be changed.
pub(crate) fn open_to_reshape(matches: &ArgMatches, dry: bool, output: &mut Output<'_>) -> Result<Db, Failure> {
    let options = with_threads(with_space(Options::new(), matches), matches);
    let options = options.create_if_missing(false).expert(with_filter(expert(matches), matches));
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

fn with_filter(expert: Expert, matches: &ArgMatches) -> Expert {
    let expert = if matches.get_flag(NO_DIGESTS) { expert.filter_digests(false) } else { expert };
    match matches.get_one::<String>("filter") {
        Some(words) => expert.filter(words),
        None => expert,
    }
}

fn with_policy(expert: Expert, matches: &ArgMatches) -> Result<Expert, Failure> {
    Ok(match policy_words(matches)? {
        Some(words) => expert.policy(&words),
        None => expert,
    })
}

/// The words of the policy in argument `policy`, if it was given; those of a shape in a file are read from there.
pub(crate) fn policy_words(matches: &ArgMatches) -> Result<Option<String>, Failure> {
    let Some(words) = matches.get_one::<String>("policy") else { return Ok(None) };
    // What begins like a shape is one; a file of that name can be written as ./buffer…
    Ok(Some(match words.strip_prefix("custom:").filter(|shape| !shape.trim_start().starts_with("buffer ")) {
        Some(file) => custom_words(&files::read_text(Path::new(file))?),
        None => words.clone(),
    }))
}

/// The words of the policy whose shape this text is. Lines stay lines, so that a complaint about one has its number.
fn custom_words(shape: &str) -> String {
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

fn tuned(matches: &ArgMatches) -> Expert {
    let size = |name| matches.get_one::<u64>(name).copied();
    let mut expert = expert(matches);
    if let Some(bytes) = size("buffer") {
        expert = expert.buffer_bytes(bytes);
    }
    if let Some(bytes) = size("cache") {
        expert = expert.cache_bytes(bytes);
    }
    if let Some(bytes) = size("block-size") {
        expert = expert.block_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    expert
}

fn compression(matches: &ArgMatches) -> Compression {
    let method: &String = matches.get_one("compression").expect("it has a default");
    let found = COMPRESSIONS.iter().find(|(name, _)| name == method);
    found.expect("the parser knows the list").1
}

/// What a command says that has [`direct_argument`], and nothing for one that has not.
fn expert(matches: &ArgMatches) -> Expert {
    Expert::new().direct_io(matches.try_get_one(DIRECT).ok().flatten().copied().unwrap_or(false))
}

fn open_with(options: &Options, matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    opened(options.open(path(matches)), path(matches), output)
}

/// Says what there is to say of opening.
fn opened(outcome: tamarack::Result<Db>, path: &Path, output: &mut Output<'_>) -> Result<Db, Failure> {
    let db = outcome.map_err(|error| match damage(&error) {
        Some(damage) => {
            let repair = format!("`tamarack repair {}` shows what can be saved", path.display());
            Failure::Storage(format!(
                "{damage}; the database cannot be opened like this: restore it from a copy, or {repair}"
            ))
        }
        None => Failure::from(error),
    })?;
    report_recovery(&db, output);
    Ok(db)
}

/// What is damaged, and where, if `error` is about that; without advice.
pub(crate) fn damage(error: &Error) -> Option<String> {
    match error {
        Error::Corruption { path, offset, what } => {
            Some(format!("{}: damaged at byte {offset}: {what}", path.display()))
        }
        _ => None,
    }
}

/// Says what opening found damaged and left out: never silently.
fn report_recovery(db: &Db, output: &mut Output<'_>) {
    for dropped in &db.recovery().dropped {
        output.note(&format!("{}; that is left out, and nothing that was durable is lost", torn(dropped)));
    }
}

/// Which end of a file a crash left torn.
pub(crate) fn torn(end: &Dropped) -> String {
    let (path, bytes) = (end.path.display(), plural(end.bytes, "byte"));
    format!("{path}: a crash left the end torn: {bytes} from byte {} on ({})", end.offset, end.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shape in a file becomes the words of its policy, line by line.
    #[test]
    fn shapes_become_words() {
        let text = "# for the small disk\nbuffer 1MiB\n\nlevel 4MiB in 2 runs  # two; no more\r\n";
        assert_eq!(custom_words(text), "custom:; buffer 1MiB; ; level 4MiB in 2 runs");
    }
}
