//! `GET /metrics`: what Prometheus scrapes, as text 0.0.4 or OpenMetrics 1.0 by `Accept`. `docs/metrics.md` has the families.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use cpumon_query::metrics::MetricsFormat;

use super::params::bad;
use crate::app::SharedApp;
use crate::ask::in_turn;
use crate::problem::Problem;

/// Prometheus gives up after 10 s unless it is set up otherwise.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The host in the query, if there is one.
fn host_of(uri: &Uri) -> Result<Option<String>, Problem> {
    let query = uri.query().unwrap_or_default();
    let mut host = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != "host" || host.is_some() {
            return Err(bad("There is one parameter here, `host`, once.").how("Leave it away for all hosts."));
        }
        host = Some(value.into_owned());
    }
    Ok(host)
}

/// All formats that the reader takes.
fn accepted(headers: &HeaderMap) -> MetricsFormat {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    MetricsFormat::accepted(&values.collect::<Vec<_>>().join(","))
}

pub(super) async fn metrics(
    State(app): State<SharedApp>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (host, format) = (host_of(&uri)?, accepted(&headers));
    let busy =
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Too many scrapes at once.").how("Ask less often.");
    let live = Arc::clone(&app.live);
    let text = in_turn(&app.scrapes, MAX_WAIT, busy, move |_| live.metrics(format, host.as_deref())).await?;
    let text = text.ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "No host has this label.")
            .how("Ask without `host`: cpumon_host_info has all labels.")
    })?;
    Ok(([(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")], text).into_response())
}
