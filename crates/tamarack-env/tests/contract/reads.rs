//! Reads past the page cache, and many reads at once: whatever the way, they give what single plain reads give.

use std::io::ErrorKind;
use std::sync::Arc;

use tamarack_env::sync::thread;
use tamarack_env::{Access, AlignedBuffer, File, Random, ReadRequest};

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

/// Reads of all lengths at all positions, the end of the file and what lies beyond it included, into memory at all addresses.
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

/// What a file says of its alignment is true: such reads work, to the end. Only files opened for direct reads name one.
pub(crate) fn aligned_reads_are_what_a_direct_file_asks_for(place: &Place) {
    let bytes = written(place, "file", 1);
    for access in [Access::Read, Access::ReadWrite] {
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

/// Random batches over files of both kinds: of one request and of hundreds, long and short, aligned and not, beyond the end.
pub(crate) fn a_batch_gives_what_single_reads_give(place: &Place) {
    let contents = [written(place, "one", 1), written(place, "two", 2)];
    let open = |name, access| place.env.open(&place.path(name), access).unwrap();
    let files = [Access::Read, Access::ReadDirect].map(|access| [open("one", access), open("two", access)]);
    let random = Random::new(3);
    for (round, count) in [0, 1, 2, 3, 10, 100, 127, 128, 129, 400].into_iter().enumerate() {
        let asked: Vec<_> = (0..count).map(|_| Asked::draw(&random)).collect();
        check_batch(place, &files, &contents, &asked, round);
    }
    // Together more than any buffer in between may hold.
    let long = |file| Asked { file, is_direct: true, offset: 1, length: FILE_BYTES, is_aligned: false };
    check_batch(place, &files, &contents, &[0, 1].map(long).repeat(15), 100);
}

/// One request alone may be more than any buffer in between holds; what a short read leaves is read on demand.
pub(crate) fn long_reads_come_to_their_end(place: &Place) {
    let bytes: Vec<u8> = (0..1_500_000_u32).map(|byte| (byte % 251) as u8).collect();
    place.create("long", &bytes).sync(STEP).unwrap();
    let file = place.env.open(&place.path("long"), Access::ReadDirect).unwrap();
    let mut buffers = [vec![0; 1_400_000], vec![0; 100], vec![0; 1_499_999]];
    let requests = [7, 1_400_000, 1].into_iter().zip(&mut buffers);
    let mut requests: Vec<_> = requests.map(|(offset, buffer)| ReadRequest::new(&*file, offset, buffer)).collect();
    place.env.read_batch(&mut requests);
    requests.into_iter().for_each(|request| request.exact().unwrap());
    assert!(buffers[0] == bytes[7..1_400_007] && buffers[1] == bytes[1_400_000..1_400_100] && buffers[2] == bytes[1..]);
}

/// Batches of several threads at the same time do not mix.
pub(crate) fn threads_read_batches_at_once(place: &Place) {
    let contents = [written(place, "one", 1), written(place, "two", 2)];
    let open = |name, access| place.env.open(&place.path(name), access).unwrap();
    let files = &[Access::Read, Access::ReadDirect].map(|access| [open("one", access), open("two", access)]);
    let contents = &contents;
    thread::scope(|scope| {
        for seed in 0..6 {
            scope.spawn(move || {
                let random = Random::new(seed);
                for round in 0..15 {
                    let asked: Vec<_> = (0..random.below(20)).map(|_| Asked::draw(&random)).collect();
                    check_batch(place, files, contents, &asked, round);
                }
            });
        }
    });
}

/// A request that cannot be satisfied does not spoil the others.
pub(crate) fn a_batch_keeps_each_error(place: &Place) {
    let bytes = written(place, "file", 1);
    for access in [Access::Read, Access::ReadDirect] {
        let file = place.env.open(&place.path("file"), access).unwrap();
        let mut buffers = [[0; 100]; 4];
        let offsets = [0, FILE_BYTES as u64 - 99, FILE_BYTES as u64, 5_000];
        let requests = offsets.iter().zip(&mut buffers);
        let mut requests: Vec<_> = requests.map(|(&offset, buffer)| ReadRequest::new(&*file, offset, buffer)).collect();
        place.env.read_batch(&mut requests);
        let kinds: Vec<_> = requests.into_iter().map(|r| r.exact().err().map(|error| error.kind())).collect();
        let end = Some(ErrorKind::UnexpectedEof);
        assert_eq!(kinds, [None, end, end, None], "{access:?}");
        assert!(buffers[0] == bytes[..100] && buffers[3] == bytes[5_000..5_100], "{access:?}");
    }
}

/// One request to be.
#[derive(Clone, Copy)]
struct Asked {
    file: usize,
    is_direct: bool,
    offset: u64,
    length: usize,
    /// Whether its memory is.
    is_aligned: bool,
}

impl Asked {
    fn draw(random: &Random) -> Self {
        let offset = random.below(FILE_BYTES as u64 + 3_000);
        let is_aligned = random.below(3) == 0;
        Self {
            file: random.below(2) as usize,
            is_direct: random.below(2) == 0,
            offset: if is_aligned { offset / 4096 * 4096 } else { offset },
            length: if is_aligned { 4096 } else { random.below(6_000) as usize },
            is_aligned,
        }
    }
}

/// Carries out a batch and compares every result with the contents.
fn check_batch(place: &Place, files: &[[Arc<dyn File>; 2]; 2], contents: &[Vec<u8>; 2], asked: &[Asked], round: usize) {
    let mut memory: Vec<_> = asked.iter().map(|asked| AlignedBuffer::zeroed(asked.length + 1)).collect();
    let mut requests: Vec<_> = asked
        .iter()
        .zip(&mut memory)
        .map(|(asked, memory)| {
            let start = usize::from(!asked.is_aligned);
            let file = &files[usize::from(asked.is_direct)][asked.file];
            ReadRequest::new(&**file, asked.offset, &mut memory[start..start + asked.length])
        })
        .collect();
    place.env.read_batch(&mut requests);
    for (index, (request, asked)) in requests.into_iter().zip(asked).enumerate() {
        let expected = tail(&contents[asked.file], asked.offset, asked.length);
        let count = *request.result.as_ref().unwrap();
        assert!(count <= expected.len() && (count == 0) == expected.is_empty(), "{round}/{index}: {count} bytes");
        assert!(request.buffer[..count] == expected[..count], "{round}/{index}: {count} bytes at {}", asked.offset);
        let result = request.exact().map_err(|error| error.kind());
        assert_eq!(result.is_ok(), expected.len() == asked.length, "{round}/{index}: {result:?}");
    }
    for (index, (memory, asked)) in memory.iter().zip(asked).enumerate() {
        let start = usize::from(!asked.is_aligned);
        let expected = tail(&contents[asked.file], asked.offset, asked.length);
        if expected.len() == asked.length {
            assert!(memory[start..start + asked.length] == *expected, "{round}/{index}: the rest at {}", asked.offset);
        }
    }
}

/// What is there of so many bytes at `offset`.
fn tail(bytes: &[u8], offset: u64, length: usize) -> &[u8] {
    let start = bytes.len().min(offset as usize);
    &bytes[start..bytes.len().min(start + length)]
}
