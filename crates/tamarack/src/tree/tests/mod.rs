//! Tests of versions, runs and manifests against a slow, obvious model of what edits mean.

mod commits;
mod crashes;
mod damage;
mod model;
mod runs;
mod surveys;
mod versions;
