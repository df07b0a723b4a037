//! [`Arrivals`]: the levels and ingested runs still to be examined, and the progress of the current
//! examination.
//!
//! ```text
//!   a level          full, or outgrown? ──► above the bound on space? ──► garbage due?
//!   an ingested run  full, or outgrown? ──► above the bound on space? ──► still in that level?
//!                           ▲                                               │ no    │ yes
//!                           └───────────────────────────────────────────────┘       ▼
//!                                                                      joins an older run?
//! ```
//!
//! Each question yields at most one compaction, and is settled when that has begun. Levels come
//! first: an ingested run is examined in the tree that earlier arrivals leave.

use std::collections::VecDeque;

use super::garbage;
use super::next::Next;
use super::situation::Situation;
use crate::occupancy::RunId;
use crate::planner::{Cause, Occasion};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrivals {
    /// Levels with an arrival, each once.
    levels: VecDeque<usize>,
    ingested: VecDeque<RunId>,
    examined: Option<Examination>,
}

/// The subject of an examination and its next question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Examination {
    subject: Subject,
    question: Question,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Level(usize),
    /// An ingested run, and its level when it was examined.
    Run(RunId, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Full,
    Space,
    Garbage,
    Join,
}

impl Arrivals {
    pub(super) fn arrived(&mut self, level: usize) {
        if !self.levels.contains(&level) {
            self.levels.push_back(level);
        }
    }

    pub(super) fn ingested(&mut self, run: RunId) {
        self.ingested.push_back(run);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.ingested.is_empty() && self.examined.is_none()
    }

    /// Describes the pending examinations for people.
    pub(super) fn describe(&self) -> Option<String> {
        let examined = self.examined.map(|examination| match examination.subject {
            Subject::Level(level) => format!("level {level}"),
            Subject::Run(run, _) => run.to_string(),
        });
        let levels = self.levels.iter().map(|level| format!("level {level}"));
        let all: Vec<String> =
            examined.into_iter().chain(levels).chain(self.ingested.iter().map(RunId::to_string)).collect();
        (!all.is_empty()).then(|| format!("to examine: {}", all.join(", ")))
    }

    /// Returns the next answer to be carried out.
    pub(super) fn next(&mut self, now: &Situation<'_>) -> Option<Next> {
        loop {
            let Some(Examination { subject, question }) = self.examined else {
                self.examined = Some(self.begin(now)?);
                continue;
            };
            let plan = match (question, subject) {
                (Question::Full, Subject::Level(level) | Subject::Run(_, level)) => {
                    if let Some(shape) = now.larger_shape(level) {
                        return Some(Next::NewShape(shape));
                    }
                    now.plan(Occasion::Arrived { level })
                }
                (Question::Space, _) => now.plan_for_space(),
                (Question::Garbage, _) => {
                    let due = garbage::due(now.contents, now.in_progress);
                    due.and_then(|run| now.plan(Occasion::TombstonesDue { run }))
                }
                (Question::Join, Subject::Run(run, examined)) => match idle_at(run, now) {
                    // The tree has grown, and the run's new level has not been examined.
                    Some(level) if level != examined => {
                        self.examined = Some(Examination::of(Subject::Run(run, level)));
                        continue;
                    }
                    _ => now.plan(Occasion::Ingested { run }),
                },
                (Question::Join, Subject::Level(_)) => None,
            };
            if let Some(plan) = plan {
                return Some(Next::compact(plan));
            }
            self.settle();
        }
    }

    /// Begins the next examination; `None` if nothing has arrived.
    fn begin(&mut self, now: &Situation<'_>) -> Option<Examination> {
        if let Some(level) = self.levels.pop_front() {
            return Some(Examination::of(Subject::Level(level)));
        }
        loop {
            let run = self.ingested.pop_front()?;
            // A run in a compaction, or one that no longer exists, is examined when that compaction
            // ends.
            if let Some(level) = idle_at(run, now) {
                return Some(Examination::of(Subject::Run(run, level)));
            }
        }
    }

    /// Settles the current question if a compaction with this cause answers it.
    pub(super) fn begun(&mut self, cause: Cause) {
        if self.examined.is_some_and(|examination| examination.question.is_answered_by(cause)) {
            self.settle();
        }
    }

    /// Moves on to the next question, or ends the examination.
    fn settle(&mut self) {
        self.examined = self.examined.and_then(|Examination { subject, question }| {
            let question = match (question, subject) {
                (Question::Full, _) => Question::Space,
                (Question::Space, Subject::Level(_)) => Question::Garbage,
                (Question::Space, Subject::Run(..)) => Question::Join,
                (Question::Garbage | Question::Join, _) => return None,
            };
            Some(Examination { subject, question })
        });
    }
}

impl Examination {
    fn of(subject: Subject) -> Self {
        Self { subject, question: Question::Full }
    }
}

impl Question {
    fn is_answered_by(self, cause: Cause) -> bool {
        match self {
            Self::Full => matches!(cause, Cause::Full { .. }),
            Self::Space => cause == Cause::SpaceBound,
            Self::Garbage => matches!(cause, Cause::TombstonesDue { .. }),
            Self::Join => matches!(cause, Cause::Ingested { .. }),
        }
    }
}

/// Returns the level of a run that is in no flush or compaction.
fn idle_at(run: RunId, now: &Situation<'_>) -> Option<usize> {
    let is_busy = now.in_progress.iter().any(|plan| plan.inputs.contains(&run));
    now.occupancy.runs().find(|(_, other)| other.id == run && !is_busy).map(|(level, _)| level)
}
