//! The HTTP API of a receiver, and its page. In: requests, and a [`Live`] to read from. Out: JSON, streams, files.
//! Why: browsers, `cpumon top --host`, `cpumon status` and scripts look at a running receiver through it.
//!
//! # Overview
//! [`api`] holds the JSON types. [`Live`] is what the desk's hub offers. [`HttpServer`] answers, read-only: `routes` has a
//! function a route, [`openapi`] describes them all, `stream` and `fleet` are the live streams, `page` is the embedded page,
//! `charts` fills pictures that `cpumon-export` draws,
//! `guard` refuses requests of other sites, `login` those of strangers, `tls` keeps them private. Meanings in words: docs/http-api.md.

pub mod api;
mod app;
mod charts;
mod fleet;
mod guard;
mod history;
mod login;
mod page;
mod problem;
mod routes;
mod server;
mod stream;
mod tls;

pub use app::WebOptions;
pub use charts::{ChartError, Picture, chart_of_store};
pub use fleet::HostOrder;
pub use login::{TokenEntry, TokenError, TokenFile};
pub use routes::{LONG_POLL, openapi, router};
pub use server::{HttpServer, Shutdown, WebError};
pub use tls::{Tls, TlsError};
