//! The HTTP API of a receiver, and its page: routes, login, event streams, the embedded page. Browsers, `cpumon top --host`,
//! `cpumon status` and scripts read a running receiver through it.
//!
//! # Overview
//! [`api`] holds the JSON types. `cpumon-query` answers the questions; `ask` runs those about the past and about traces on threads of their own.
//! [`HttpServer`] is read-only: `routes` has a function a route, [`openapi`] describes them all, `stream` and `fleet` are the
//! event streams, `page` is the embedded page, `guard` refuses requests of other sites, `login` requests without a login, `tls`
//! encrypts. Meanings: docs/http-api.md.

pub mod api;
mod app;
mod ask;
mod fleet;
mod guard;
mod login;
mod packed;
mod page;
mod problem;
mod readers;
mod routes;
mod server;
mod stream;
mod tls;

pub use app::WebOptions;
pub use login::{TokenEntry, TokenError, TokenFile, random_key};
pub use routes::{LONG_POLL, openapi, openapi_json, router};
pub use server::{HttpServer, Shutdown, WebError};
pub use tls::{Tls, TlsError};
