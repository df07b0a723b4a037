//! Reads past the page cache, and many reads at once: whatever the way, they give what single plain
//! reads give.

use std::io::{self, ErrorKind};
use std::panic;
use std::sync::Arc;

use tamarack_env::sync::thread;
use tamarack_env::{Access, AlignedBuffer, File, Random, ReadQueue, ReadRequest, read_together};

use crate::{Place, STEP};

/// The length of the files read here: no multiple of a sector, so that the last one is not full.
const FILE_BYTES: usize = 100_003;

/// A durable file of random bytes, and the bytes.
fn written(place: &Place, name: &str, seed: u64) -> Vec<u8> {
    let random = Random::new(seed);
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|_| random.next() as u8).collect();
    place.create(name, &bytes).sync(STEP).unwrap();
    bytes
}

/// Reads of all lengths at all positions, the end of the file and what lies beyond it included,
/// into memory at all addresses.
pub(crate) fn direct_reads_need_no_alignment(place: &Place) {
    let bytes = written(place, "file", 1);
    let file = place.env.open(&place.path("file"), Access::ReadDirect).unwrap();
    assert_eq!(file.len().unwrap(), FILE_BYTES as u64);
    let (random, mut memory) = (Random::new(2), AlignedBuffer::zeroed(20_000));
    for round in 0..500 {
        let start = random.below(4) as usize * random.below(300) as usize;
        let length = [random.below(5_000), 512, 4096, 8192, 0][random.below(5) as usize] as usize;
        let offset = match random.below(4) {
            0 => random.below(25) * 4096,
            1 => FILE_BYTES as u64 - random.below(600),
            _ => random.below(FILE_BYTES as u64 + 5_000),
        };
        let buffer = &mut memory[start..start + length];
        buffer.fill(0xAA);
        let count = file.read_at(buffer, offset).unwrap();
        let expected = tail(&bytes, offset, length);
        assert!(count <= expected.len() && (count == 0) == expected.is_empty(), "round {round}: {count} bytes");
        assert!(buffer[..count] == expected[..count], "round {round}: {length} bytes at {offset}");
        assert!(buffer[count..].iter().all(|&byte| byte == 0xAA), "round {round}: nothing else is touched");
    }
    let whole = &mut vec![0; FILE_BYTES + 1];
    file.read_exact_at(&mut whole[..FILE_BYTES], 0).unwrap();
    assert!(whole[..FILE_BYTES] == bytes);
    assert_eq!(file.read_exact_at(whole, 0).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

/// What a file says of its alignment is true: such reads work, to the end. Only files opened for
/// direct reads name one.
pub(crate) fn aligned_reads_are_what_a_direct_file_asks_for(place: &Place) {
    let bytes = written(place, "file", 1);
    for access in [Access::Read, Access::ReadRandom, Access::ReadWrite] {
        assert_eq!(place.env.open(&place.path("file"), access).unwrap().direct_alignment(), None, "{access:?}");
    }
    let file = place.env.open(&place.path("file"), Access::ReadDirect).unwrap();
    let alignment = file.direct_alignment().unwrap_or(512);
    assert!(AlignedBuffer::ALIGNMENT.is_multiple_of(alignment), "{alignment}");
    let mut buffer = AlignedBuffer::zeroed(3 * alignment);
    for offset in (0..FILE_BYTES).step_by(alignment) {
        let expected = tail(&bytes, offset as u64, buffer.len());
        let count = file.read_at(&mut buffer, offset as u64).unwrap();
        assert!(count > 0 && buffer[..count] == expected[..count], "{count} bytes at {offset}");
    }
}

/// Random queues over files of both kinds: of one request and of hundreds, long and short, aligned
/// and not, beyond the end.
pub(crate) fn a_queue_gives_what_single_reads_give(place: &Place) {
    let contents = [written(place, "one", 1), written(place, "two", 2)];
    let files = opened(place);
    let random = Random::new(3);
    for (round, count) in [0, 1, 2, 3, 10, 100, 127, 128, 129, 400].into_iter().enumerate() {
        let asked: Vec<_> = (0..count).map(|_| Asked::draw(&random)).collect();
        check(place, &files, &contents, &asked, round);
    }
    // Together more than any buffer in between may hold.
    let long = |file| Asked { file, is_direct: true, offset: 1, length: FILE_BYTES - 1 };
    check(place, &files, &contents, &[0, 1].map(long).repeat(15), 100);
}

/// One request alone may be more than any buffer in between holds.
pub(crate) fn long_reads_come_to_their_end(place: &Place) {
    let bytes: Vec<u8> = (0..1_500_000_u32).map(|byte| (byte % 251) as u8).collect();
    place.create("long", &bytes).sync(STEP).unwrap();
    let file = place.env.open(&place.path("long"), Access::ReadDirect).unwrap();
    let places = [(7, 1_400_000), (1_400_000, 100), (1, 1_499_999)];
    let requests = places.map(|(offset, bytes)| ReadRequest { file: file.clone(), offset, bytes });
    let outcomes = read_together(&*place.env, requests.into());
    for (outcome, (offset, length)) in outcomes.into_iter().zip(places) {
        assert!(outcome.unwrap() == bytes[offset as usize..][..length], "{length} bytes at {offset}");
    }
    let mut buffer = vec![0; 1_499_999];
    file.read_exact_at(&mut buffer, 1).unwrap();
    assert!(buffer == bytes[1..]);
}

/// Queues of several threads at the same time do not mix.
pub(crate) fn threads_read_queues_at_once(place: &Place) {
    let contents = &[written(place, "one", 1), written(place, "two", 2)];
    let files = &opened(place);
    thread::scope(|scope| {
        for seed in 0..6 {
            scope.spawn(move || {
                let random = Random::new(seed);
                for round in 0..15 {
                    let asked: Vec<_> = (0..random.below(20)).map(|_| Asked::draw(&random)).collect();
                    check(place, files, contents, &asked, round);
                }
            });
        }
    });
}

/// A request that cannot be satisfied does not spoil the others.
pub(crate) fn a_queue_keeps_each_error(place: &Place) {
    let bytes = written(place, "file", 1);
    for access in [Access::Read, Access::ReadRandom, Access::ReadDirect] {
        let file = place.env.open(&place.path("file"), access).unwrap();
        let offsets = [0, FILE_BYTES as u64 - 99, FILE_BYTES as u64, 5_000];
        let requests = offsets.map(|offset| ReadRequest { file: file.clone(), offset, bytes: 100 });
        let outcomes = read_together(&*place.env, requests.into());
        let kinds: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(io::Error::kind)).collect();
        let end = Some(ErrorKind::UnexpectedEof);
        assert_eq!(kinds, [None, end, end, None], "{access:?}");
        assert!(outcomes[0].as_ref().unwrap() == &bytes[..100], "{access:?}");
        assert!(outcomes[3].as_ref().unwrap() == &bytes[5_000..5_100], "{access:?}");
    }
}

/// A queue that has more to ask for whenever something arrives is asked again, until nothing comes
/// any more; each read arrives once.
pub(crate) fn a_queue_may_grow_by_what_arrives(place: &Place) {
    struct Chains<'a> {
        bytes: &'a [u8],
        file: Arc<dyn File>,
        /// How much longer each chain gets.
        left: Vec<usize>,
        /// The chains that have a read to ask for.
        ready: Vec<usize>,
        /// The chain and the offset of each read, until it has arrived.
        asked: Vec<Option<(usize, u64)>>,
    }
    impl ReadQueue for Chains<'_> {
        fn next(&mut self) -> Option<ReadRequest> {
            let chain = self.ready.pop()?;
            let offset = (chain * 991 + self.left[chain] * 3_001) as u64 % 90_000;
            self.asked.push(Some((chain, offset)));
            Some(ReadRequest { file: self.file.clone(), offset, bytes: 4_000 })
        }
        fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
            let (chain, offset) = self.asked[number].take().expect("each read arrives once");
            assert!(bytes.unwrap() == &self.bytes[offset as usize..][..4_000], "chain {chain} at {offset}");
            self.left[chain] -= 1;
            if self.left[chain] > 0 {
                self.ready.push(chain);
            }
        }
    }
    let bytes = &written(place, "file", 1);
    for access in [Access::Read, Access::ReadRandom, Access::ReadDirect] {
        let file = place.env.open(&place.path("file"), access).unwrap();
        for count in [1, 7, 200] {
            let left: Vec<_> = (0..count).map(|chain| 1 + chain % 5).collect();
            let reads = left.iter().sum::<usize>();
            let mut chains = Chains { bytes, file: file.clone(), left, ready: (0..count).collect(), asked: Vec::new() };
            place.env.read_queue(&mut chains);
            assert!(chains.left.iter().all(|&left| left == 0) && chains.ready.is_empty(), "{access:?}, {count} chains");
            assert!(
                chains.asked.len() == reads && chains.asked.iter().all(Option::is_none),
                "{access:?}, {count} chains"
            );
        }
    }
}

/// A panic of the queue's goes through, whenever it comes, and the environment reads as before.
pub(crate) fn a_queue_may_panic(place: &Place) {
    struct Panics {
        file: Arc<dyn File>,
        calls_left: usize,
    }
    impl Panics {
        fn count(&mut self) {
            self.calls_left -= 1;
            assert!(self.calls_left > 0, "as planned");
        }
    }
    impl ReadQueue for Panics {
        fn next(&mut self) -> Option<ReadRequest> {
            self.count();
            Some(ReadRequest { file: self.file.clone(), offset: self.calls_left as u64 * 512, bytes: 4_096 })
        }
        fn arrived(&mut self, _: usize, _: io::Result<&[u8]>) {
            self.count();
        }
    }
    let contents = [written(place, "one", 1), written(place, "two", 2)];
    let files = opened(place);
    for calls_left in [1, 10, 30, 140, 180] {
        let mut panics = Panics { file: files[1][0].clone(), calls_left };
        let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| place.env.read_queue(&mut panics)));
        assert!(outcome.is_err());
    }
    let random = Random::new(5);
    let asked: Vec<_> = (0..100).map(|_| Asked::draw(&random)).collect();
    check(place, &files, &contents, &asked, 0);
}

/// The two files, to be read through the page cache and past it.
type Files = [[Arc<dyn File>; 2]; 2];

fn opened(place: &Place) -> Files {
    let open = |name, access| place.env.open(&place.path(name), access).unwrap();
    [Access::Read, Access::ReadDirect].map(|access| [open("one", access), open("two", access)])
}

/// One request to be.
#[derive(Clone, Copy)]
struct Asked {
    file: usize,
    is_direct: bool,
    offset: u64,
    length: usize,
}

impl Asked {
    fn draw(random: &Random) -> Self {
        let offset = random.below(FILE_BYTES as u64 + 3_000);
        let is_aligned = random.below(3) == 0;
        Self {
            file: random.below(2) as usize,
            is_direct: random.below(2) == 0,
            offset: if is_aligned { offset / 4096 * 4096 } else { offset },
            length: if is_aligned { 4096 } else { random.below(20_000) as usize },
        }
    }
}

/// Carries out a queue and compares every outcome with the contents.
fn check(place: &Place, files: &Files, contents: &[Vec<u8>; 2], asked: &[Asked], round: usize) {
    let request = |asked: &Asked| {
        let file = files[usize::from(asked.is_direct)][asked.file].clone();
        ReadRequest { file, offset: asked.offset, bytes: asked.length }
    };
    let outcomes = read_together(&*place.env, asked.iter().map(request).collect());
    for (index, (outcome, asked)) in outcomes.into_iter().zip(asked).enumerate() {
        let expected = tail(&contents[asked.file], asked.offset, asked.length);
        match outcome {
            Ok(bytes) => assert!(bytes == expected, "{round}/{index}: {} bytes at {}", asked.length, asked.offset),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{round}/{index}");
                assert!(expected.len() < asked.length, "{round}/{index}: {} bytes at {}", asked.length, asked.offset);
            }
        }
    }
}

/// What is there of so many bytes at `offset`.
fn tail(bytes: &[u8], offset: u64, length: usize) -> &[u8] {
    let start = bytes.len().min(offset as usize);
    &bytes[start..bytes.len().min(start + length)]
}
