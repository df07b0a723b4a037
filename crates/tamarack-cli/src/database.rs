//! Opening the database that a verb works on.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, value_parser};
use tamarack::{Compression, Db, Durability, Error, Expert, Options};

use crate::outcome::Failure;
use crate::show::Output;
use crate::show::table::plural;
use crate::size;

/// The argument that names the database.
pub(crate) fn path_argument() -> Arg {
    Arg::new("db").value_name("DB").help("The database's directory").required(true).value_parser(value_parser!(PathBuf))
}

/// The options of verbs that write.
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
            .help("The memory for buffers and caches, such as 64MiB or 1GiB")
            .default_value("256MiB")
            .value_parser(size::parse_bytes),
    ]
}

/// The options of verbs that write much: they override what otherwise follows from the memory budget.
pub(crate) fn tuning_arguments() -> [Arg; 4] {
    let size = |name: &'static str, help| {
        let argument = Arg::new(name).long(name).value_name("SIZE").help(help);
        argument.value_parser(size::parse_bytes).help_heading(TUNING)
    };
    [
        size("buffer", "The size at which a buffer is flushed\n[default: an eighth of the memory]"),
        size("cache", "The size of the block cache\n[default: a quarter of the memory]"),
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
    *matches.get_one("memory").expect("it has a default")
}

/// Opens a database that must be there already.
pub(crate) fn open(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&Options::new().create_if_missing(false), matches, output)
}

/// Opens a database that must be there already, as [`write_arguments`] say.
pub(crate) fn open_to_change(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&write_options(matches).create_if_missing(false), matches, output)
}

/// Opens a database as [`write_arguments`] say, and makes it if it is not there.
pub(crate) fn open_or_create(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&write_options(matches), matches, output)
}

/// Opens a database as [`write_arguments`] and [`tuning_arguments`] say, and makes it if it is not there.
pub(crate) fn open_or_create_tuned(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    open_with(&tuned(write_options(matches), matches), matches, output)
}

fn write_options(matches: &ArgMatches) -> Options {
    let durability: Durability = *matches.get_one("durability").expect("it has a default");
    Options::new().durability(durability).memory_bytes(memory_bytes(matches))
}

fn tuned(options: Options, matches: &ArgMatches) -> Options {
    let size = |name| matches.get_one::<u64>(name).copied();
    let mut expert = Expert::new();
    if let Some(bytes) = size("buffer") {
        expert = expert.buffer_bytes(bytes);
    }
    if let Some(bytes) = size("cache") {
        expert = expert.cache_bytes(bytes);
    }
    if let Some(bytes) = size("block-size") {
        expert = expert.block_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    let method: &String = matches.get_one("compression").expect("it has a default");
    let (_, compression) = COMPRESSIONS.iter().find(|(name, _)| name == method).expect("the parser knows the list");
    options.compression(*compression).expert(expert)
}

fn open_with(options: &Options, matches: &ArgMatches, output: &mut Output<'_>) -> Result<Db, Failure> {
    let path: &PathBuf = matches.get_one("db").expect("it is required");
    let db = options.open(path).map_err(|error| match damage(&error) {
        Some(damage) => {
            Failure::Storage(format!("{damage}; the database cannot be opened like this: restore it from a copy"))
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
        output.note(&format!(
            "{}: a crash left the end torn: {} from byte {} on dropped ({}); nothing that was durable is lost",
            dropped.path.display(),
            plural(dropped.bytes, "byte"),
            dropped.offset,
            dropped.why
        ));
    }
}
