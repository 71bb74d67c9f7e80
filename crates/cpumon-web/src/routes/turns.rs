//! What routes that act share: waiting for a device, a few at once, and entries in the audit log.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::http::StatusCode;
use cpumon_files::AuditEvent;
use cpumon_query::Live;
use tokio::time::timeout;

use crate::app::{App, Shared};
use crate::login::Peer;
use crate::problem::Problem;

/// A request waits no longer than this for its turn.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Lets `work` wait for a device on a thread of its own, one of few: the others are for those who only read.
pub(super) async fn wait_for_device<T: Send + 'static>(
    app: &Shared,
    work: impl FnOnce(&dyn Live) -> T + Send + 'static,
) -> Result<T, Problem> {
    let busy = || {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Other requests wait for devices.")
            .how("Ask again in a moment.")
    };
    let turn = timeout(MAX_WAIT, Arc::clone(&app.device_turns).acquire_owned()).await.map_err(|_| busy())?;
    let turn = turn.map_err(|_| busy())?;
    let live = Arc::clone(&app.live);
    let done = tokio::task::spawn_blocking(move || {
        let done = work(&*live);
        // Moved into this thread: the turn ends with the work, not with the request.
        drop(turn);
        done
    });
    done.await.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Adds what a client did to the audit log.
pub(super) fn note(app: &App, peer: Option<Extension<Peer>>, event: AuditEvent, subject: &str, detail: &str) {
    if let Some(audit) = &app.options.audit {
        let by = peer.map_or_else(String::new, |Extension(peer)| peer.0.ip().to_canonical().to_string());
        audit.note(event, &by, subject, detail);
    }
}
