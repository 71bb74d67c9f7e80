//! The HTTP API of a receiver. In: requests on a loopback port, and a [`Live`] to read from. Out: JSON.
//! Why: `cpumon top --host` and `cpumon status` look at a running receiver through it, and scripts can too.
//!
//! # Overview
//! [`api`] holds the JSON types, in both directions and without loss against the model, so that a screen fed over HTTP
//! shows what a local one shows. [`Live`] is what the desk's hub offers. [`HttpServer`] answers, read-only:
//!
//! | path | answer |
//! |---|---|
//! | `/api/v1/status` | [`api::Status`]: addresses, counters, the store's state |
//! | `/api/v1/hosts` | [`api::Hosts`]: every host with its losses and how far to trust it |
//! | `/api/v1/hosts/{host}/interval` | [`api::Numbered`]: the newest interval |
//! | … `?newer_than=N` | waits up to [`LONG_POLL`] for an interval with a serial above N; 204 if none came |
//! | … `?at=NS` | the interval that contains this moment, ns since the UNIX epoch, else the newest that ends before it |
//! | … `?before=NS`, `?after=NS` | the newest interval that ends before, the oldest that ends after this moment |
//!
//! `{host}` is a host id (32 hexadecimal digits) or a host name that only one host has. Errors are `application/problem+json` (RFC 9457).

pub mod api;
mod guard;
mod live;
mod problem;
mod routes;
mod server;

pub use live::{Bell, Live, Lookup, Seek, Shown};
pub use routes::{LONG_POLL, router};
pub use server::{HttpServer, Shutdown, WebError};
