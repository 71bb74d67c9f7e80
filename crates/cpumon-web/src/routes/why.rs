//! Why something is slow, and who did it: the answer of `cpumon why`.

use axum::Json;
use axum::extract::State;
use cpumon_query::Answers;
use cpumon_query::report::ReportFilter;
use cpumon_query::why::{Why, WhyQuery, WhySubject};
use serde::Deserialize;
use utoipa::IntoParams;

use super::params::{Asked, HostProblems, PathPart, bad};
use super::reports::filter_of;
use crate::app::SharedApp;
use crate::problem::Problem;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WhyParams {
    /// A program by its name, else by a part of it in any case, or a process by its pid; without it and `within` the machine.
    name: Option<String>,
    /// The processes of one group instead: `BY:NAME`, e.g. `service:cron.service`.
    within: Option<String>,
    /// Start: intervals that end after this, ns since the UNIX epoch; without it five minutes before `until`.
    since: Option<i64>,
    /// End: intervals that end at this or before; without it the end of the data. The range is 24 hours at most.
    until: Option<i64>,
    /// The minute around this moment instead, ns since the UNIX epoch.
    at: Option<i64>,
}

impl WhyParams {
    fn query(&self) -> Result<WhyQuery, Problem> {
        let ReportFilter { text, within } = filter_of(self.name.as_deref(), self.within.as_deref())?;
        let subject = match (text, within) {
            (None, None) => WhySubject::Machine,
            (Some(name), None) => WhySubject::Named(name),
            (None, Some((by, name))) => WhySubject::Group(by, name),
            (Some(_), Some(_)) => return Err(bad("Either `name` or `within` names what is slow.")),
        };
        if self.at.is_some() && (self.since.is_some() || self.until.is_some()) {
            return Err(bad("Either `at` or `since` and `until` name the time."));
        }
        Ok(WhyQuery { subject, since_ns: self.since, until_ns: self.until, at_ns: self.at })
    }
}

/// Why a program, a service, a container, a user's programs or the machine is slow, and who did it.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/why",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WhyParams),
    responses((status = 200, body = Why), HostProblems))]
pub(super) async fn why(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(params): Asked<WhyParams>,
) -> Result<Json<Why>, Problem> {
    let query = params.query()?;
    app.past.ask(move |past| past.why(&host, &query)).await.map(Json)
}

#[cfg(test)]
mod tests {
    use cpumon_query::history::History;

    use super::super::past_store::{BEGIN_NS, SECOND_NS, Stored};
    use super::*;

    #[tokio::test]
    async fn an_answer_is_that_of_the_command_line() {
        let stored = Stored::new(false);
        let history = History::of_store(&stored.path()).unwrap();
        for (parameters, subject) in
            [("", WhySubject::Machine), ("name=web", WhySubject::Named("web".into()))]
        {
            let body = stored.of_all("why", parameters).await;
            let query = WhyQuery {
                subject,
                since_ns: Some(BEGIN_NS),
                until_ns: Some(BEGIN_NS + 300 * SECOND_NS),
                at_ns: None,
            };
            let made = history.why("past", &query).unwrap();
            assert_eq!(body, serde_json::to_value(&made).unwrap());
            assert_eq!(
                serde_json::from_value::<Why>(body).unwrap(),
                made,
                "what is read back is what was made"
            );
        }
    }

    #[tokio::test]
    async fn wrong_questions_are_refused() {
        let stored = Stored::new(true);
        for (path, expected) in [
            ("why?name=nothing", 404),
            ("why?name=web&within=name:web", 400),
            ("why?within=web", 400),
            ("why?within=colour:web", 400),
            ("why?since=5&until=5", 400),
            ("why?since=5&until=6", 404),
            ("why?since=0", 400),
            ("why?at=5", 404),
            ("why?at=5&since=4", 400),
        ] {
            let (status, body) = stored.get(&format!("/api/v1/hosts/past/{path}")).await;
            assert_eq!(status, expected, "{path}: {body}");
            assert!(body["detail"].as_str().is_some_and(|text| !text.is_empty()), "{path}: {body}");
        }
        assert_eq!(stored.get("/api/v1/hosts/nowhere/why").await.0, 404);
    }
}
