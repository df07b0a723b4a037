//! The rows of the steady state: throughput of each engine, and blocks that gets read.

use common::numbers::mib;

use super::{Cell, Line, RIVALS, count, table, times};
use crate::beside::Results;
use crate::plan::STEADY;

/// The engine of [`RIVALS`] that reads past the page cache and counts blocks, as Tamarack does.
const DIRECT_RIVAL: usize = 0;

/// The section on the steady state; empty if it was not measured.
pub(super) fn section(results: &Results, lines: &[Line<'_>]) -> String {
    let lines: Vec<_> = lines.iter().filter(|line| line.reads == STEADY).collect();
    let caches = results.databases.iter().filter_map(|database| {
        lines.iter().find(|line| line.database.name == database.name)?;
        Some(format!("`{}`: {:.0} MiB", database.name, mib(database.steady_cache_bytes?)))
    });
    let caches: Vec<_> = caches.collect();
    if lines.is_empty() {
        return String::new();
    }
    let rivals: Vec<usize> =
        (0..RIVALS.len()).filter(|rival| lines.iter().any(|line| line.rivals[*rival].is_some())).collect();
    let mut heading = vec!["database", "workload", "threads", "Tamarack"];
    heading.extend(rivals.iter().map(|rival| RIVALS[*rival].0));
    heading.extend(["times RocksDB", "best peer", "times best", "blocks per get", "of RocksDB"]);
    let rows: Vec<_> = lines.iter().map(|line| row(line, &rivals)).collect();
    format!(
        "\n## Steady state\n\nThousands of operations per second, measured for {} s (YCSB A for {} s) after a warm-up of {} s, with direct I/O where an engine has it. Block cache: {}. Each row begins with a fresh copy of the loaded \
         database, in a process of its own, and no other engine runs meanwhile; `YCSB C after A` begins when YCSB A ends, without rest or warm-up. An engine that has done 300,000 operations for each of these seconds stops early. \
         LevelDB, fjall and redb have no direct I/O: their files are evicted from the page cache before a row, and what they have read since comes from there. Blocks per get are counted by Tamarack and RocksDB themselves.\n\n{}",
        results.steady_s,
        2 * results.steady_s,
        results.steady_warm_s,
        caches.join(", "),
        table(&heading, 2, &rows)
    )
}

fn row(line: &Line<'_>, rivals: &[usize]) -> Vec<String> {
    let (own, cells) = (line.own.as_ref(), || line.rivals.iter().zip(RIVALS));
    let rate = |cell: Option<&Cell<'_>>| cell.map_or_else(String::new, |cell| thousands(cell.ops_per_s()));
    let measured = cells().filter_map(|(cell, (name, _))| Some((cell.as_ref()?, name)));
    let best = measured.max_by(|(a, _), (b, _)| a.ops_per_s().total_cmp(&b.ops_per_s()));
    let ratio = |cell: Option<&Cell<'_>>| {
        own.zip(cell).map_or_else(String::new, |(own, cell)| {
            let ratio = own.times(cell);
            if ratio < 1.0 { format!("**{}**", times(ratio)) } else { times(ratio) }
        })
    };
    let direct = line.rivals[DIRECT_RIVAL].as_ref();
    let mut words = vec![line.database.name.clone(), line.row.to_owned(), line.threads.to_string(), rate(own)];
    words.extend(rivals.iter().map(|rival| rate(line.rivals[*rival].as_ref())));
    words.push(ratio(direct));
    words.push(best.map_or_else(String::new, |(_, name)| name.to_owned()));
    words.push(ratio(best.map(|(cell, _)| cell)));
    words.extend([own, direct].map(|cell| cell.map_or_else(String::new, blocks_per_get)));
    words
}

fn thousands(ops_per_s: f64) -> String {
    if ops_per_s < 1e5 { format!("{:.1}", ops_per_s / 1e3) } else { count(ops_per_s / 1e3) }
}

/// Of all rounds together.
fn blocks_per_get(cell: &Cell<'_>) -> String {
    let counted =
        cell.samples.iter().filter_map(|sample| Some((sample.blocks? * sample.operations as f64, sample.gets)));
    let (blocks, gets) = counted.fold((0.0, 0), |sum, (blocks, gets)| (sum.0 + blocks, sum.1 + gets));
    if gets == 0 { String::new() } else { format!("{:.3}", blocks / gets as f64) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::table::markdown;

    /// Figures as they are kept, without those that old ones lack.
    fn kept(reads: &str, samples: &[(&str, Value)]) -> Value {
        let engine = |name: &str| json!({"name": name, "version": "1", "setup": "", "has_one_shape": name == "redb"});
        let slice = |(engine, sample): &(&str, Value)| json!({"database": "large", "reads": reads, "row": "YCSB B", "threads": 1, "engine": engine, "round": 0, "sample": sample});
        let engines = ["tamarack", "rocksdb", "fjall"].map(engine);
        json!({
            "date": "", "commit": "", "machine": "", "file_system": "", "command": "", "busy": [], "minutes": 1.0, "rounds": 1,
            "troubles": [], "slice_ms": 200, "loads": [], "opened": [],
            "databases": [{"name": "large", "title": "", "entries": 10, "key_bytes": 24, "value_bytes": 1000, "bytes": 10_240, "buffer_bytes": 1,
                           "cache_bytes": [1, 1]}],
            "engines": engines,
            "slices": samples.iter().map(slice).collect::<Vec<_>>(),
        })
    }

    fn sample(ops_per_s: f64, blocks: Option<f64>) -> Value {
        json!({"ops_per_s": ops_per_s, "p50_ns": 1, "p99_ns": 2, "cpu_ns": 3.0, "blocks": blocks, "device_bytes": 0.0, "operations": 1000})
    }

    /// Blocks are those of a get, and the best peer is the fastest of all.
    #[test]
    fn rows_name_the_best_peer() {
        let mut samples = [
            ("tamarack", sample(50e3, Some(0.19))),
            ("rocksdb", sample(40e3, Some(0.38))),
            ("fjall", sample(200e3, None)),
        ];
        samples.iter_mut().for_each(|(_, sample)| sample["gets"] = json!(950));
        let mut kept = kept(STEADY, &samples);
        kept["steady_s"] = json!(30);
        kept["databases"][0]["steady_cache_bytes"] = json!(64 << 20);
        let results: Results = from_value(kept).unwrap();
        let text = section(&results, &super::super::lines(&results));
        let words = |line: &str| line.split('|').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with('|')).map(words).collect();
        let row =
            ["", "large", "YCSB B", "1", "50.0", "40.0", "200", "1.25", "fjall", "**0.25**", "0.200", "0.400", ""];
        assert_eq!(rows[2], row, "{text}");
        assert!(text.contains("`large`: 64 MiB") && markdown(&results, "").contains("large steady"));
    }

    /// Figures that were kept before the steady state was measured give the report without it.
    #[test]
    fn old_figures_have_none() {
        let results: Results = from_value(kept("direct", &[("tamarack", sample(1e3, None))])).unwrap();
        let text = markdown(&results, "");
        assert!(text.contains("### , direct") && !text.contains(STEADY) && !text.contains("Steady"), "{text}");
    }
}
