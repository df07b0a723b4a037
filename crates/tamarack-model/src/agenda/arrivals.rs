//! [`Arrivals`]: levels and ingested runs that are still to be examined, and how far the present
//! examination has come.
//!
//! ```text
//!   a level          full, or outgrown? ──► above the bound on space? ──► garbage due?
//!   an ingested run  full, or outgrown? ──► above the bound on space? ──► still in that level?
//!                           ▲                                               │ no    │ yes
//!                           └───────────────────────────────────────────────┘       ▼
//!                                                                      joins an older run?
//! ```
//!
//! Each question has at most one compaction as its answer, and is settled when that has begun.
//! Levels come first: an ingested run is examined in the tree that earlier arrivals leave.

use std::collections::VecDeque;

use super::garbage;
use super::next::Next;
use super::situation::Situation;
use crate::occupancy::RunId;
use crate::planner::{Cause, Occasion};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrivals {
    /// Where something arrived, each level once.
    levels: VecDeque<usize>,
    ingested: VecDeque<RunId>,
    examined: Option<Examination>,
}

/// What is being examined, and the question that is to be answered next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Examination {
    subject: Subject,
    question: Question,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Level(usize),
    /// An ingested run, and the level where it stood when it was looked at.
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

    /// For people: what is to be examined.
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

    /// The next answer that is to be carried out.
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
                    // The tree has grown, and no one has examined the level where the run is now.
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

    /// What is examined next; `None` if nothing has arrived.
    fn begin(&mut self, now: &Situation<'_>) -> Option<Examination> {
        if let Some(level) = self.levels.pop_front() {
            return Some(Examination::of(Subject::Level(level)));
        }
        loop {
            let run = self.ingested.pop_front()?;
            // A run that is in a compaction, or gone, is looked at when that ends.
            if let Some(level) = idle_at(run, now) {
                return Some(Examination::of(Subject::Run(run, level)));
            }
        }
    }

    /// A compaction has begun for this cause: if it answers the present question, that is settled.
    pub(super) fn begun(&mut self, cause: Cause) {
        if self.examined.is_some_and(|examination| examination.question.is_answered_by(cause)) {
            self.settle();
        }
    }

    /// Goes on to the next question, or ends the examination.
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

/// The level of a run that is in no flush or compaction.
fn idle_at(run: RunId, now: &Situation<'_>) -> Option<usize> {
    let is_busy = now.in_progress.iter().any(|merge| merge.inputs.contains(&run));
    now.occupancy.runs().find(|(_, other)| other.id == run && !is_busy).map(|(level, _)| level)
}
