//! Answers that no route gives itself: refusals of the guard, the login and the check of parameters. They are added to the
//! description, with how to log in, so that a program made from the description knows all answers.

use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{Content, OpenApi, Ref, Response, ResponseBuilder};

use crate::login::OPEN;

/// Of every route.
const OF_ALL: [(&str, &str); 4] = [
    ("400", "A parameter that this route does not take."),
    ("403", "Another site made this request."),
    ("421", "The Host header does not name this server."),
    ("500", "A fault of cpumon."),
];
/// Of those that need a login, where one is asked for.
const OF_CLOSED: [(&str, &str); 2] = [("401", "Not logged in."), ("429", "Too many wrong tokens.")];

fn problem(text: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new()
        .description(text)
        .content("application/problem+json", Content::new(Some(schema)))
        .build()
}

fn add(operation: &mut Operation, refusals: &[(&str, &str)]) {
    for (status, text) in refusals {
        let responses = &mut operation.responses.responses;
        responses.entry((*status).to_owned()).or_insert_with(|| problem(text).into());
    }
}

/// The document with refusals and logins.
pub(super) fn added(mut document: OpenApi) -> OpenApi {
    for (path, item) in &mut document.paths.paths {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            add(operation, &OF_ALL);
            if !OPEN.contains(&path.as_str()) {
                add(operation, &OF_CLOSED);
            }
        }
    }
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let cookie = ApiKey::Cookie(ApiKeyValue::new("__Host-cpumon"));
    components.add_security_scheme("session", SecurityScheme::ApiKey(cookie));
    // Only where a login is asked for.
    let nothing = SecurityRequirement::default();
    let [token, session] = ["token", "session"].map(|name| SecurityRequirement::new(name, [""; 0]));
    document.security = Some(vec![nothing, token, session]);
    document
}
