//! A control beside a measurement: a thread that writes a little, again and again, to a file of its
//! own. A delay that the control shows as well is hardly the store's.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tamarack_env::histogram::Histogram;

/// What the control writes at a time, once per millisecond, to a file that it goes round in.
pub const CONTROL_BYTES: usize = 4096;
const EVERY: Duration = Duration::from_millis(1);
const FILE_BYTES: u64 = 64 << 20;

/// What `work` says, and the latencies of the control's writes to a file in `dir` meanwhile.
pub fn beside_control<T>(dir: &Path, work: impl FnOnce() -> T) -> io::Result<(T, Histogram)> {
    let file = File::create(dir.join("control"))?;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let control = scope.spawn(|| control(&file, &ended));
        let worked = work();
        ended.store(true, Ordering::Relaxed);
        let latencies = control.join().expect("the control does not panic")?;
        Ok((worked, latencies))
    })
}

fn control(file: &File, ended: &AtomicBool) -> io::Result<Histogram> {
    let (bytes, mut latencies) = ([7; CONTROL_BYTES], Histogram::default());
    for offset in (0..FILE_BYTES).step_by(CONTROL_BYTES).cycle() {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        file.write_all_at(&bytes, offset)?;
        latencies.note(began.elapsed());
        thread::sleep(EVERY);
    }
    Ok(latencies)
}

/// Sleeps if it is worth it, and returns the time then. What is due within a millisecond comes
/// together: waiting for each of it would keep a core busy that the store could use.
pub fn wait_until(due: Instant, now: Instant) -> Instant {
    if due <= now {
        return now;
    }
    thread::sleep((due - now).max(Duration::from_millis(1)));
    Instant::now()
}
