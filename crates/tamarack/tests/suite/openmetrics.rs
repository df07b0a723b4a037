//! The OpenMetrics text of a database keeps to the format whatever the database is doing, agrees
//! with its `Stats`, and its counters never fall; and the parser by which that is known refuses
//! mistakes in just this text.
//!
//! On the simulator, with histories from seeds: puts, deletes, lookups and scans, while flushes and
//! compactions are carried out step by step. `TAMARACK_SEED` and `TAMARACK_ROUNDS` as in all
//! suites.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Options, Result, Stats, openmetrics};
use tamarack_env::SimEnv;
use tamarack_testing::{ParsedFamily, ParsedSample, Random, parse_openmetrics, seeds};

fn open(sim: &SimEnv, policy: &str) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).policy(policy);
    let advanced = advanced.memtable_bytes(3000).block_bytes(256).table_bytes(1000).immutable_memtables_max(2);
    Options::new().threads(1).advanced(advanced).open("/db")
}

fn parsed(text: &str) -> Vec<ParsedFamily> {
    parse_openmetrics(text).unwrap_or_else(|rule| panic!("{rule}\n{text}"))
}

/// All samples, by name and labels.
fn samples(families: &[ParsedFamily]) -> BTreeMap<String, f64> {
    let name = |family: &ParsedFamily, sample: &ParsedSample| {
        let labels: Vec<String> = sample.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}{} {}", family.name, sample.suffix, labels.join(" "))
    };
    families
        .iter()
        .flat_map(|family| family.samples.iter().map(|sample| (name(family, sample), sample.value)))
        .collect()
}

/// Some operations of a history.
fn operate(db: &Db, sim: &SimEnv, random: &mut Random) -> Result<()> {
    for _ in 0..random.below(60) {
        let key = (random.below(500) as u32).to_be_bytes();
        match random.below(8) {
            0 => db.delete(key)?,
            1 => _ = db.get(key)?,
            2 => db.scan(key..).take(5).try_for_each(|entry| entry.map(drop))?,
            3 => _ = db.multi_get(&[key, [0; 4]])?,
            _ => db.put(key, vec![b'v'; random.below(100) as usize])?,
        }
    }
    (0..random.below(10)).for_each(|_| _ = sim.step_background());
    Ok(())
}

/// The text is well formed at each moment, has the figures of `Stats`, and what is a counter or a
/// histogram never falls. Families are the same ones at each moment, and the samples of a family
/// have the same labels.
#[test]
fn the_text_keeps_to_the_format() -> Result<()> {
    let policies = ["leveling:T=3", "tiering:T=3", "leveling:T=4,first=2"];
    let (mut jobs, mut immutable) = (0, 0);
    for seed in seeds(6) {
        let (sim, mut random) = (SimEnv::new(seed), Random::new(seed));
        let db = open(&sim, policies[seed as usize % policies.len()])?;
        let names = |families: &[ParsedFamily]| families.iter().map(|family| family.name.clone()).collect::<Vec<_>>();
        let (mut counted, mut expected) = (BTreeMap::new(), None);
        for _ in 0..40 {
            operate(&db, &sim, &mut random)?;
            let stats = db.stats();
            let families = parsed(&stats.to_openmetrics());
            assert_eq!(expected.get_or_insert_with(|| names(&families)), &names(&families), "seed {seed}");
            for family in &families {
                let labels = |sample: &ParsedSample| -> BTreeSet<String> {
                    sample.labels.iter().map(|(name, _)| name.clone()).filter(|name| name != "le").collect()
                };
                let all: BTreeSet<_> = family.samples.iter().map(labels).collect();
                assert!(all.len() <= 1, "seed {seed}: {} has samples with {all:?}", family.name);
            }
            agree(&stats, &samples(&families));
            jobs += stats.jobs.len();
            immutable += stats.memtables.len() - 1;
            let only_grow = families.iter().filter(|family| family.metric_type != "gauge").cloned().collect::<Vec<_>>();
            for (name, value) in samples(&only_grow) {
                let before = counted.insert(name.clone(), value).unwrap_or(0.0);
                assert!(before <= value, "seed {seed}: {name} falls from {before} to {value}");
            }
        }
        assert!(counted["tamarack_entries_written_total "] > 100.0 && counted["tamarack_flushes_total "] > 1.0);
    }
    assert!(jobs > 10 && immutable > 10, "{jobs} jobs and {immutable} immutable memtables were seen");
    Ok(())
}

/// Some figures, each found in another way than by its row.
fn agree(stats: &Stats, samples: &BTreeMap<String, f64>) {
    let sum = |prefix: &str| {
        samples.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, value)| *value).sum::<f64>()
    };
    let levels = |figure: fn(&tamarack::RunStats) -> u64| {
        stats.levels.iter().map(|level| figure(&level.total())).sum::<u64>() as f64
    };
    for (name, expected) in [
        ("tamarack_level_entries level=", levels(|run| run.entries)),
        ("tamarack_level_tables level=", levels(|run| run.tables)),
        ("tamarack_level_filter_bytes level=", levels(|run| run.filter_bits) / 8.0),
        ("tamarack_level_written_raw_bytes_total level=", stats.written_raw_bytes() as f64),
        ("tamarack_memtable_entries state=active", stats.memtables[0].entries as f64),
        ("tamarack_memtables ", stats.memtables.len() as f64),
        ("tamarack_job_left_bytes kind=", stats.debt_bytes as f64),
        ("tamarack_jobs ", stats.jobs.len() as f64),
        ("tamarack_memory_bytes part=", stats.memory.total_bytes as f64),
        ("tamarack_reads_bytes_total reader=", stats.reads.total().bytes as f64),
        ("tamarack_lookups_total ", stats.lookups.lookups as f64),
        ("tamarack_write_stalls_total ", stats.write_stall_times.samples() as f64),
        ("tamarack_write_stall_times_seconds_count ", stats.write_stalls as f64),
        ("tamarack_latency_seconds_count operation=writes", stats.latencies.writes.samples() as f64),
        (format!("tamarack_policy policy={}", stats.policy).as_str(), 1.0),
    ] {
        assert_eq!(sum(name), expected, "{name}: {samples:?}");
    }
}

/// Several databases make one text, whatever their names.
#[test]
fn databases_share_a_text() -> Result<()> {
    let mut random = Random::new(1);
    let sims = [SimEnv::new(1), SimEnv::new(2)];
    let dbs = [open(&sims[0], "tiering:T=3")?, open(&sims[1], "leveling:T=3")?];
    for (db, sim) in dbs.iter().zip(&sims) {
        (0..20).try_for_each(|_| operate(db, sim, &mut random))?;
    }
    let all = dbs.each_ref().map(Db::stats);
    let names = ["orders", "C:\\\"users\"\n}"];
    let text = openmetrics(names.iter().copied().zip(&all));
    let families = parsed(&text);
    let flushes = families.iter().find(|family| family.name == "tamarack_flushes").expect("it is there");
    let found: Vec<_> = flushes.samples.iter().map(|sample| (sample.labels.clone(), sample.value)).collect();
    let label = |name: &str| vec![("database".to_owned(), name.to_owned())];
    assert_eq!(found, [(label(names[0]), all[0].flushes as f64), (label(names[1]), all[1].flushes as f64)]);
    let one = parsed(&all[0].to_openmetrics());
    assert_eq!(samples(&families).len(), samples(&one).len() + samples(&parsed(&all[1].to_openmetrics())).len());
    Ok(())
}

/// Mistakes in the text of a database are refused: what would go wrong with it in practice.
#[test]
fn planted_mistakes_are_refused() -> Result<()> {
    let sim = SimEnv::new(3);
    let db = open(&sim, "tiering:T=3")?;
    operate(&db, &sim, &mut Random::new(3))?;
    let (mut stats, text) = (db.stats(), db.stats().to_openmetrics());
    let refused = |what: &str, text: &str, rule: &str| {
        let found = parse_openmetrics(text).expect_err(what);
        assert!(found.contains(rule), "{what} is refused by another rule: {found}");
    };
    parsed(&text);
    refused("a counter without _total", &text.replace("flushes_total ", "flushes "), "end in _total");
    refused("no end", text.strip_suffix("# EOF\n").expect("it has one"), "last line");
    let family = "# TYPE tamarack_jobs gauge\n";
    refused("a repeated family", &text.replace("# EOF\n", &format!("{family}# EOF\n")), "described once");
    // The samples of two families in turns, as they come from a walk along levels.
    let lines: Vec<&str> = text.lines().collect();
    let [entries, tables] = ["tamarack_level_entries{", "tamarack_level_tables{"]
        .map(|name| lines.iter().position(|line| line.starts_with(name)).expect("there are levels"));
    let mut mixed = lines.clone();
    mixed.swap(entries, tables);
    refused("samples of families in turns", &(mixed.join("\n") + "\n"), "stand together");
    // A name with a quote that nobody escapes.
    stats.policy = "custom:\"".to_owned();
    let escaped = stats.to_openmetrics();
    parsed(&escaped);
    refused("an unescaped quote", &escaped.replace("custom:\\\"", "custom:\""), "quotes in its value are escaped");
    refused("two texts joined", &format!("{}{text}", text.replace("# EOF\n", "")), "described once");
    refused("a unit that is not in the name", &text.replace("flush_bytes bytes", "flush_bytes seconds"), "the unit is");
    refused("buckets that are not cumulative", &not_cumulative(&text), "cumulative");
    Ok(())
}

/// The text with more in the smallest bucket of some latencies than there are of them.
fn not_cumulative(text: &str) -> String {
    let bucket = "tamarack_latency_seconds_bucket{operation=\"writes\",le=\"2.55e-07\"} ";
    assert!(text.contains(bucket), "{text}");
    text.replace(bucket, &format!("{bucket}99"))
}
