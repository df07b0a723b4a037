//! The contract of [`Env`], as one list of behaviours that every environment must show.
//!
//! A behaviour is a function that takes a [`Place`]: an environment and an empty directory in it.
//! The two tables below make a test of each pair, such as `memory::rename_replaces`. What cannot be
//! the same everywhere (crashes and faults, which only the simulator has) is tested where it lives.

#![cfg(not(feature = "shuttle"))]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Batching, Env, File, MemoryEnv, OsEnv, SimEnv, Step, TempDir};

mod background;
mod files;
mod locks;
mod names;
mod reads;
#[cfg(target_os = "linux")]
mod system;

// The environments, each with the places it gives.

mod os {
    crate::behaviours!(crate::Place::on_disk());
    crate::read_behaviours!(crate::Place::on_disk());
    crate::thread_behaviours!(crate::Place::on_disk());
    #[cfg(target_os = "linux")]
    crate::tests! { crate::Place::on_disk();
        system::what_is_not_regular_is_not_opened,
        system::sync_dir_follows_the_name,
        system::workers_give_way,
    }
}

/// The same with the other ways of batching, and on the disk that this was built on, where direct
/// reads may work although they do not where temporary files are.
mod os_reads {
    mod rings {
        crate::read_behaviours!(crate::Place::batching(tamarack_env::Batching::Rings));
    }
    mod threads {
        crate::read_behaviours!(crate::Place::batching(tamarack_env::Batching::Threads));
    }
    mod one_by_one {
        crate::read_behaviours!(crate::Place::batching(tamarack_env::Batching::OneByOne));
    }
}

mod memory {
    crate::behaviours!(crate::Place::in_memory());
    crate::read_behaviours!(crate::Place::in_memory());
    crate::thread_behaviours!(crate::Place::in_memory());
}

mod simulator {
    crate::behaviours!(crate::Place::simulated());
    crate::read_behaviours!(crate::Place::simulated());
}

/// An environment and an empty directory in it.
struct Place {
    env: Arc<dyn Env>,
    dir: PathBuf,
    /// Removed when the test is over.
    _scratch: Option<TempDir>,
}

impl Place {
    fn on_disk() -> Self {
        let scratch = TempDir::new().unwrap();
        Self { env: OsEnv::new(), dir: scratch.path().into(), _scratch: Some(scratch) }
    }

    fn batching(batching: Batching) -> Self {
        let scratch = TempDir::below(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
        Self { env: OsEnv::with_batching(batching), dir: scratch.path().into(), _scratch: Some(scratch) }
    }

    fn in_memory() -> Self {
        Self::with_new_dir(MemoryEnv::new(1))
    }

    fn simulated() -> Self {
        Self::with_new_dir(Arc::new(SimEnv::new(1)))
    }

    fn with_new_dir(env: Arc<dyn Env>) -> Self {
        let dir = PathBuf::from("/contract");
        env.create_dir(&dir, STEP).unwrap();
        Self { env, dir, _scratch: None }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Arc<dyn File> {
        let file = self.env.create(&self.path(name), STEP).unwrap();
        file.write_all_at(bytes, 0, STEP).unwrap();
        file
    }
}

/// Nothing here looks at steps.
const STEP: Step = Step("contract: any");

/// All bytes of a file.
fn bytes_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0xAA; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// What every environment does.
macro_rules! behaviours {
    ($place:expr) => {
        crate::tests! { $place;
            names::create_makes_an_empty_file,
            names::create_refuses_a_taken_name,
            names::what_is_missing_is_not_found,
            names::list_is_sorted_and_shows_one_directory,
            names::rename_replaces,
            names::removed_files_stay_readable,
            names::a_link_is_another_name,
            names::a_link_needs_a_free_name_and_a_file,
            names::handles_share_one_file,
            names::sync_dir_accepts_a_directory,
            names::a_directory_is_not_opened,
            files::reads_end_with_the_file,
            files::gaps_read_as_zero,
            files::set_len_cuts_and_extends,
            files::allocate_only_extends,
            files::reserve_changes_nothing,
            names::space_is_what_it_says,
            files::nothing_written_changes_nothing,
            files::a_queue_keeps_each_result,
            files::a_reader_cannot_write,
            files::a_file_is_a_vector_of_bytes,
            files::threads_read_and_write_at_once,
            locks::a_lock_excludes_every_other,
            locks::a_lock_ends_with_its_value,
            locks::locks_of_other_files_are_free,
            locks::shares_exclude_only_those_who_want_it_alone,
            locks::sharing_changes_nothing,
            background::the_clock_never_goes_back,
            background::random_numbers_differ,
            background::ready_is_asked_first,
            background::a_deadline_ends_a_wait,
            background::sleeping_ends_with_its_time,
            background::the_number_of_cores_is_fixed,
            background::a_worker_steps_until_done,
            background::each_wake_up_is_followed_by_a_step,
            background::an_idle_time_passes,
            background::a_stopped_worker_stays_stopped,
            background::a_wake_up_ends_an_idle_time,
            background::workers_hand_over_to_each_other,
        }
    };
}
use behaviours;

/// What every environment does, and each way in which one carries it out.
macro_rules! read_behaviours {
    ($place:expr) => {
        crate::tests! { $place;
            reads::direct_reads_need_no_alignment,
            reads::aligned_reads_are_what_a_direct_file_asks_for,
            reads::a_queue_gives_what_single_reads_give,
            reads::a_queue_keeps_each_error,
            reads::a_queue_may_grow_by_what_arrives,
            reads::a_queue_may_panic,
            reads::long_reads_come_to_their_end,
            reads::threads_read_queues_at_once,
        }
    };
}
use read_behaviours;

/// What environments with threads of their own do besides.
macro_rules! thread_behaviours {
    ($place:expr) => {
        crate::tests! { $place;
            background::threads_wait_for_each_other,
            background::stopping_from_many_threads,
            background::stop_carries_a_panic_on,
            background::wait_does_not_outlive_a_panic,
        }
    };
}
use thread_behaviours;

macro_rules! tests {
    ($place:expr; $($module:ident::$name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                crate::$module::$name(&$place);
            }
        )*
    };
}
use tests;
