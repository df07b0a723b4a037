//! What a loss of power takes, keeps and tears.

use std::collections::BTreeSet;

use super::*;

#[test]
fn an_unsynced_write_is_lost_in_some_image_and_a_synced_one_in_none() {
    let env = SimEnv::new(1);
    let file = create_durable(&env, "f", b"old");
    file.write_all_at(b"new", 0, WRITE).unwrap();
    assert_eq!(found(&env, |image| text(image, "f")), ["new", "old"]);
    file.sync(SYNC).unwrap();
    assert_eq!(found(&env, |image| text(image, "f")), ["new"]);
}

/// Four sectors of a file are overwritten by one write. Each of the 16 patterns of old and new
/// sectors appears, and none in which a sector is a mixture.
#[test]
fn every_tear_between_sectors_appears_and_none_within() {
    for sector in [Sector::Bytes512, Sector::Bytes4096] {
        let sector_bytes = sector.bytes() as usize;
        let env = SimEnv::new(2);
        let file = create_durable(&env, "f", &vec![0; 4 * sector_bytes]);
        file.write_all_at(&vec![1; 4 * sector_bytes], 0, WRITE).unwrap();
        let mut patterns = BTreeSet::new();
        for seed in 0..2000 {
            let bytes = content(&env.image(Crash::Torn { seed, sector }), "f").unwrap();
            let whole = |sector: &[u8]| sector.iter().all(|byte| *byte == sector[0]);
            assert!(bytes.chunks(sector_bytes).all(whole), "seed {seed}: a sector of {sector_bytes} B is torn");
            patterns.insert(bytes.chunks(sector_bytes).map(|sector| sector[0]).collect::<Vec<_>>());
        }
        assert_eq!(patterns.len(), 16, "sectors of {sector_bytes} B: {patterns:?}");
    }
}

/// A write from the middle of one sector to the middle of the next is torn at the border in the
/// file, not at multiples of its own length.
#[test]
fn tears_lie_at_the_borders_of_the_file() {
    let env = SimEnv::new(3);
    let file = create_durable(&env, "f", &[0; 1024]);
    file.write_all_at(&[1; 512], 256, WRITE).unwrap();
    let kept = found(&env, |image| {
        let bytes = content(image, "f").unwrap();
        (bytes[256..512].iter().map(|b| u64::from(*b)).sum(), bytes[512..768].iter().map(|b| u64::from(*b)).sum())
    });
    assert_eq!(kept, [(0_u64, 0_u64), (0, 256), (256, 0), (256, 256)]);
}

#[test]
fn length_and_data_of_an_append_survive_independently() {
    let env = SimEnv::new(4);
    let file = create_durable(&env, "f", b"");
    file.write_all_at(b"data", 0, WRITE).unwrap();
    assert_eq!(found(&env, |image| text(image, "f")), ["", "\0\0\0\0", "data"]);
}

/// The durable length of a long append may be any of its sector borders, but nothing in between.
#[test]
fn a_long_append_may_end_at_any_sector() {
    let env = SimEnv::new(19);
    let file = create_durable(&env, "f", &[1; 100]);
    file.write_all_at(&[2; 1500], 100, WRITE).unwrap();
    assert_eq!(found(&env, |image| content(image, "f").unwrap().len()), [100, 512, 1024, 1536, 1600]);
}

#[test]
fn an_unsynced_cut_is_there_or_not() {
    let env = SimEnv::new(5);
    let file = create_durable(&env, "f", b"four");
    file.set_len(2, CUT).unwrap();
    assert_eq!(found(&env, |image| text(image, "f")), ["fo", "four"]);
    file.sync(SYNC).unwrap();
    assert_eq!(found(&env, |image| text(image, "f")), ["fo"]);
}

/// Cut and grown again, a file shows zeros in between, on the device as in the cache.
#[test]
fn a_cut_leaves_zeros_behind() {
    let env = SimEnv::new(6);
    let file = create_durable(&env, "f", b"four");
    file.set_len(2, CUT).unwrap();
    file.set_len(4, CUT).unwrap();
    assert_eq!(text(&env, "f"), "fo\0\0");
    file.sync(SYNC).unwrap();
    assert_eq!(found(&env, |image| text(image, "f")), ["fo\0\0"]);
}

#[test]
fn a_synced_file_whose_directory_was_not_synced_may_have_no_name() {
    let env = SimEnv::new(7);
    create(&env, "f", b"data").sync(SYNC).unwrap();
    assert_eq!(found(&env, |image| content(image, "f")), [None, Some(b"data".to_vec())]);
    sync_root(&env);
    assert_eq!(found(&env, |image| content(image, "f")), [Some(b"data".to_vec())]);
}

#[test]
fn a_name_may_be_there_before_its_data() {
    let env = SimEnv::new(8);
    let file = create(&env, "f", b"data");
    sync_root(&env);
    assert_eq!(found(&env, |image| text(image, "f")), ["", "\0\0\0\0", "data"]);
    file.sync(SYNC).unwrap();
    assert_eq!(found(&env, |image| text(image, "f")), ["data"]);
}

#[test]
fn a_lost_directory_takes_its_files_along() {
    let env = SimEnv::new(9);
    let dir = Path::new("/d");
    env.create_dir(dir, CREATE).unwrap();
    create(&env, "/d/f", b"data").sync(SYNC).unwrap();
    env.sync_dir(dir, SYNC_DIR).unwrap();
    assert_eq!(found(&env, |image| image.files().len()), [0, 1]);
    sync_root(&env);
    assert_eq!(found(&env, |image| image.files().len()), [1]);
}

#[test]
fn a_rename_is_whole_or_not_at_all() {
    let env = SimEnv::new(10);
    create_durable(&env, "current", b"old");
    create_durable(&env, "next", b"new");
    env.rename(Path::new("next"), Path::new("current"), RENAME).unwrap();
    let names = |image: &SimEnv| (text(image, "current"), content(image, "next").is_some());
    assert_eq!(found(&env, names), [("new".to_owned(), false), ("old".to_owned(), true)]);
    sync_root(&env);
    assert_eq!(found(&env, names), [("new".to_owned(), false)]);
}

/// Two renames of one file, of which a crash may keep the second alone: the file has one name all
/// the same.
#[test]
fn a_file_never_has_two_names() {
    let env = SimEnv::new(11);
    create_durable(&env, "a", b"data");
    env.rename(Path::new("a"), Path::new("b"), RENAME).unwrap();
    env.rename(Path::new("b"), Path::new("c"), RENAME).unwrap();
    let names = |image: &SimEnv| image.files().into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(found(&env, names), [["/a"].map(PathBuf::from), ["/b"].map(PathBuf::from), ["/c"].map(PathBuf::from)]);
}

/// A link's name is lost or kept with its own directory's changes, and the other name with those of
/// its own; the bytes are the same under both.
#[test]
fn a_link_is_lost_until_its_directory_is_synced() {
    let env = SimEnv::new(20);
    env.create_dir(Path::new("/d"), CREATE).unwrap();
    let file = create_durable(&env, "f", b"old");
    let names = |image: &SimEnv| (content(image, "f"), content(image, "d/l"));
    let old = || Some(b"old".to_vec());
    env.hard_link(Path::new("/f"), Path::new("/d/l"), LINK).unwrap();
    assert_eq!(found(&env, names), [(old(), None), (old(), old())]);
    env.sync_dir(Path::new("/d"), SYNC_DIR).unwrap();
    assert_eq!(found(&env, names), [(old(), old())]);

    file.write_all_at(b"new", 0, WRITE).unwrap();
    let new = || Some(b"new".to_vec());
    assert_eq!(found(&env, names), [(new(), new()), (old(), old())], "it is one file");
    file.sync(SYNC).unwrap();
    env.remove(Path::new("/f"), REMOVE).unwrap();
    assert_eq!(found(&env, names), [(None, new()), (new(), new())]);
    sync_root(&env);
    assert_eq!(found(&env, names), [(None, new())]);
}

/// A file takes its space once, as long as it has a name.
#[test]
fn a_link_takes_no_space() {
    let env = SimEnv::new(21);
    env.create_dir(Path::new("/d"), CREATE).unwrap();
    drop(create_durable(&env, "f", &[1; 5000]));
    let used = env.used_bytes();
    env.set_capacity(Some(used));
    env.hard_link(Path::new("/f"), Path::new("/d/l"), LINK).unwrap();
    assert_eq!(env.used_bytes(), used);
    env.remove(Path::new("/f"), REMOVE).unwrap();
    assert_eq!(env.used_bytes(), used);
    env.remove(Path::new("/d/l"), REMOVE).unwrap();
    assert_eq!(env.used_bytes(), 0);
}

#[test]
fn a_removed_file_comes_back_until_its_removal_is_synced() {
    let env = SimEnv::new(12);
    create_durable(&env, "f", b"data");
    env.remove(Path::new("f"), REMOVE).unwrap();
    assert_eq!(content(&env, "f"), None);
    assert_eq!(found(&env, |image| content(image, "f")), [None, Some(b"data".to_vec())]);
    sync_root(&env);
    assert_eq!(found(&env, |image| content(image, "f")), [None]);
}

/// Changes are numbered across files and directories: a prefix and all-but-one are exact.
#[test]
fn prefixes_and_all_but_one_follow_the_order_of_all_changes() {
    let env = SimEnv::new(13);
    let (a, b) = (create_durable(&env, "a", b"-"), create_durable(&env, "b", b"-"));
    a.write_all_at(b"1", 0, WRITE).unwrap();
    b.write_all_at(b"2", 0, WRITE).unwrap();
    env.rename(Path::new("b"), Path::new("c"), RENAME).unwrap();
    assert_eq!(env.unsynced_changes(), 3);
    let state = |crash| {
        let image = env.image(crash);
        image
            .files()
            .iter()
            .map(|(path, _)| format!("{}{}", path.display(), text(&image, path.to_str().unwrap())))
            .collect()
    };
    let states = |crashes: [Crash; 4]| -> [String; 4] { crashes.map(state) };
    assert_eq!(states([0, 1, 2, 3].map(Crash::Prefix)), ["/a-/b-", "/a1/b-", "/a1/b2", "/a1/c2"]);
    assert_eq!(states([0, 1, 2, 9].map(Crash::AllBut)), ["/a-/c2", "/a1/c-", "/a1/b2", "/a1/c2"]);
}

/// Twenty appends each to two files: `ByFile` keeps all or none of a file, in all four
/// combinations.
#[test]
fn one_file_may_be_there_in_full_and_the_other_not_at_all() {
    let env = SimEnv::new(14);
    let files = [create_durable(&env, "a", b""), create_durable(&env, "b", b"")];
    for i in 0..20 {
        files.iter().for_each(|file| file.write_all_at(b"x", i, WRITE).unwrap());
    }
    let lengths: BTreeSet<_> = (0..100)
        .map(|seed| env.image(Crash::ByFile { seed }))
        .map(|image| (text(&image, "a").len(), text(&image, "b").len()))
        .collect();
    assert_eq!(Vec::from_iter(lengths), [(0, 0), (0, 20), (20, 0), (20, 20)]);
}

#[test]
fn the_death_of_a_process_loses_nothing_and_saves_nothing() {
    let env = SimEnv::new(15);
    let file = create_durable(&env, "f", b"old");
    file.write_all_at(b"new", 0, WRITE).unwrap();
    let survivor = env.process_image();
    assert_eq!(text(&survivor, "f"), "new");
    assert_eq!(found(&survivor, |image| text(image, "f")), ["new", "old"]);
}

#[test]
fn no_lock_survives_an_image_of_any_kind() {
    let env = SimEnv::new(16);
    let path = Path::new("LOCK");
    let _held = env.lock(path).unwrap();
    assert_eq!(env.lock(path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(env.process_image().lock(path).is_ok());
    assert!(env.image(Crash::LoseAll).lock(path).is_ok());
    assert!(env.image(Crash::KeepAll).lock(path).is_ok());
}

#[test]
fn an_image_is_durable_and_independent_of_its_origin() {
    let env = SimEnv::new(17);
    let file = create_durable(&env, "f", &[7; 10_000]);
    file.write_all_at(b"new", 5000, WRITE).unwrap();
    let image = env.image(Crash::KeepAll);
    let before = image.identity();
    assert_eq!(image.image(Crash::LoseAll).identity(), before, "not all of an image is durable");
    file.write_all_at(b"later", 5000, WRITE).unwrap();
    assert_eq!(image.identity(), before, "the origin wrote into its image");
    image.open(Path::new("f"), Access::ReadWrite).unwrap().write_all_at(b"!", 0, WRITE).unwrap();
    assert_eq!(env.content("f").unwrap()[0], 7, "the image wrote into its origin");
}

#[test]
fn equal_crashes_give_equal_images_and_different_contents_different_identities() {
    let env = SimEnv::new(18);
    let file = create_durable(&env, "f", &[0; 4096]);
    file.write_all_at(&[1; 4096], 0, WRITE).unwrap();
    let identities: Vec<u64> = images(&env).map(|(_, image)| image.identity()).collect();
    let contents: Vec<_> = images(&env).map(|(_, image)| content(&image, "f")).collect();
    assert_eq!(identities, images(&env).map(|(_, image)| image.identity()).collect::<Vec<_>>());
    for (i, j) in (0..400).map(|i| (i, (i * 7 + 1) % 400)) {
        assert_eq!(contents[i] == contents[j], identities[i] == identities[j], "images {i} and {j}");
    }
}

/// Random histories of writes, cuts, allocations and syncs on one file. Whatever the crash, every
/// byte of every image is one that it had at some time since the last sync, so nothing older and
/// nothing invented is ever shown; and the length lies between the shortest and the longest.
#[test]
fn an_image_shows_only_what_was_there_since_the_last_sync() {
    for seed in 0..300 {
        let random = crate::random::Random::new(seed);
        let env = SimEnv::new(seed);
        let file = create_durable(&env, "f", b"");
        let mut since_sync: Vec<Vec<u8>> = vec![Vec::new()];
        for _ in 0..random.below(12) + 1 {
            match random.below(8) {
                0 => {
                    file.sync(SYNC).unwrap();
                    since_sync.clear();
                }
                1 => file.set_len(random.below(6000), CUT).unwrap(),
                2 => file.allocate(random.below(6000), CUT).unwrap(),
                _ => {
                    let bytes = vec![1 + random.below(250) as u8; random.below(2000) as usize];
                    file.write_all_at(&bytes, random.below(4000), WRITE).unwrap();
                }
            }
            since_sync.push(env.content("f").unwrap());
        }
        for crash in (0..20).map(|n| Crash::draw(seed * 20 + n, env.unsynced_changes())) {
            let bytes = env.image(crash).content("f").unwrap();
            let (shortest, longest) = (since_sync.iter().map(Vec::len).min(), since_sync.iter().map(Vec::len).max());
            let length = Some(bytes.len());
            assert!(shortest <= length && length <= longest, "seed {seed}, {crash:?}: {length:?}");
            for (i, byte) in bytes.iter().enumerate() {
                let was = |then: &Vec<u8>| then.get(i).copied().unwrap_or(0) == *byte;
                assert!(since_sync.iter().any(was), "seed {seed}, {crash:?}: byte {i} was never {byte}");
            }
        }
    }
}
