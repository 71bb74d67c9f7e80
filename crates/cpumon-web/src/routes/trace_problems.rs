//! What can go wrong with a route of a trace, for the description; and what a trace itself lacks.

use cpumon_query::traces::Timeline;

use crate::api;

/// What can go wrong with any route of a trace.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "only described; the answers are made by `Problem`")]
pub(super) enum TraceProblems {
    /// A wrong question.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] api::Problem),
    /// No such trace, or nothing there at that time.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(#[to_schema] api::Problem),
    /// The file cannot be read, or too much is asked at once.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(#[to_schema] api::Problem),
}

/// What a trace lacks, a sentence each: as `cpumon trace report` says it.
pub(super) fn problems_of(timeline: &Timeline) -> Vec<String> {
    let ending = timeline.ending();
    let mut problems = Vec::new();
    let damaged_at = ending.damaged_at.unwrap_or(0);
    if ending.gaps > 0 {
        problems.push(format!(
            "The file is damaged, first at byte {damaged_at}: {} bytes at {} places cannot be read, and what the CPUs did then is unknown.",
            ending.unreadable_bytes, ending.gaps
        ));
    } else if ending.damaged_at.is_some() {
        problems.push(format!("The file is damaged or ends early at byte {damaged_at}."));
    }
    if ending.ended_ns.is_none() && (ending.damaged_at.is_none() || ending.gaps > 0) {
        problems.push(
            "The file has no end mark: it is still being recorded, or its recorder was killed.".to_owned(),
        );
    }
    if ending.malformed > 0 {
        problems.push(format!("{} chunks or records are malformed.", ending.malformed));
    }
    if ending.unnamed > 0 {
        problems.push(format!(
            "{} names do not fit in memory: these threads have numbers in their place.",
            ending.unnamed
        ));
    }
    if ending.unfollowed > 0 {
        problems.push(format!(
            "There are more threads than fit in memory: {} events of further ones are left out of their rows.",
            ending.unfollowed
        ));
    }
    if ending.lost > 0 {
        problems.push(format!("The recorder lost {} events; their time is unknown.", ending.lost));
    }
    problems
}
