//! The description against the server. In: the `OpenAPI` document. Out: questions made from it, sensible and senseless ones; each
//! answer must be one that the document describes: its status, its type, the shape of its body. Nothing may end in a 500.

use std::sync::LazyLock;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use proptest::prelude::*;
use serde_json::Value;
use tower::ServiceExt;

use super::login_tests::Guarded;
use super::past_store::Stored;
use super::tests::{Messages, ask_raw, fake, shown};

/// Values for parameters, by their kind; the last ones fit nowhere.
fn values_of(name: &str) -> &'static [&'static str] {
    match name {
        "host" => &["past", "08080808080808080808080808080808", "unknown", "%00", "0808", "%F0%9F%92%A9"],
        "process" => &["10-9", "20-9", "77-1", "10", "-", "x-y"],
        "view" => &[
            "cpu",
            "who",
            "run-queue",
            "tasks",
            "states",
            "delays",
            "threads",
            "landscape",
            "cpus",
            "fleet",
            "pie",
        ],
        "thread" => &["20-9/21-9", "10-9", "x", "20-9/"],
        "blocked" => &["true", "false", "x"],
        "percent" => &["cpu", "host", "x"],
        "theme" => &["light", "dark", "pink"],
        "zone" => &["utc", "Europe/Berlin", "%2B05:30", "local", "..%2F..%2Fetc%2Fpasswd", ""],
        "width" | "height" => &["320", "700", "2400", "2401", "0", "x"],
        "kind" => &["threads", "pivot", "processes", "ledger", "windows"],
        "processes" | "threads" => &["10-9", "20-9,10-9", "20-9/21-9", "all", "1", ",,", "x"],
        "names" => &["web", "a%252Cb,web", "", ",", "%00"],
        "since" | "at" | "before" | "after" => &[
            "1800000000000000000",
            "1800000100000000000",
            "1800000150000000000",
            "0",
            "-1",
            "-9223372036854775808",
            "x",
        ],
        "until" => &[
            "1800000300000000000",
            "1800000200000000000",
            "9223372036854775807",
            "-9223372036854775807",
            "-9223372036854775808",
            "x",
        ],
        "points" | "rows" | "limit" | "thread_limit" => &["1", "7", "300", "4000", "0", "4001", "-1", "x"],
        "offset" | "thread_offset" => &["0", "1", "1000000000", "-1"],
        "by" => &["name", "process", "program", "container", "x"],
        "resolution" => &["interval", "minute"],
        "sort" => &["name", "busy", "threads", "last_seen", "loss", "x"],
        "columns" => &["user_ns", "user_ns,idle_ns", "nothing", ","],
        "interval_ns" => &["1000000000", "60000000000", "1", "0", "x"],
        "value" => &["run", "pct", "x"],
        "format" => &["csv", "jsonl", "svg", "png", "xml"],
        "legacy" => &["2012", "2013", "2014"],
        _ => &["1", "x", "%00", ""],
    }
}

/// Follows a reference.
fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
        Some(path) => document.pointer(path).unwrap_or_else(|| panic!("{path} is not described")),
        None => schema,
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

/// The first deviation of `value` from the schema.
fn fault(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    let schema = resolved(document, schema);
    let each = |name: &str| schema[name].as_array().into_iter().flatten();
    if let Some(found) = each("allOf").find_map(|part| fault(document, part, value)) {
        return Some(found);
    }
    for choice in ["oneOf", "anyOf"] {
        if schema[choice].is_array() && each(choice).all(|one| fault(document, one, value).is_some()) {
            return Some(format!("{value} is none of {choice}"));
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_type(name, value)) {
        return Some(format!("{value} is no {types:?}"));
    }
    if schema["enum"].is_array() && !each("enum").any(|one| one == value) {
        return Some(format!("{value} is not in {}", schema["enum"]));
    }
    if let Some(list) = value.as_array() {
        return list.iter().find_map(|item| fault(document, &schema["items"], item));
    }
    let object = value.as_object()?;
    let missing = each("required").filter_map(Value::as_str).find(|name| !object.contains_key(*name));
    if let Some(name) = missing {
        return Some(format!("{name} is missing"));
    }
    object.iter().find_map(|(name, value)| {
        let described = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"))?;
        fault(document, described, value).map(|found| format!("{name}: {found}"))
    })
}

/// A path and query made from a route's description; each number chooses a value.
fn question(path: &str, route: &Value, choices: &[u8]) -> String {
    let mut choices = choices.iter().copied().cycle();
    let mut choose = |name: &str| {
        let (values, choice) = (values_of(name), choices.next().unwrap_or(0));
        // Twice in three times a sensible one: those stand first.
        let among = if choice.is_multiple_of(3) { values.len() } else { values.len().div_ceil(2) };
        values[usize::from(choice / 3) % among]
    };
    let (mut path, mut query) = (path.to_owned(), Vec::new());
    for parameter in route["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap();
        let value = choose(name);
        if parameter["in"] == "path" {
            path = path.replace(&format!("{{{name}}}"), value);
        } else if value.len() % 2 == choose(name).len() % 2 {
            query.push(format!("{name}={value}"));
        }
    }
    format!("{path}?{}", query.join("&"))
}

async fn check(router: &Router, document: &Value, path: &str, route: &Value, choices: &[u8]) {
    // Live answers have no end; their messages have tests of their own.
    if !path.ends_with("/live") {
        check_answer(router, document, route, &question(path, route, choices)).await;
    }
}

/// Asks for `asked` and compares the answer with the description of its route.
async fn check_answer(router: &Router, document: &Value, route: &Value, asked: &str) {
    let (status, headers, body) = ask_raw(router.clone(), asked, "localhost").await;
    let described = &route["responses"][status.to_string()];
    assert!(
        described.is_object(),
        "GET {asked}: {status} is not described: {}",
        String::from_utf8_lossy(&body)
    );
    let kind = headers.get(header::CONTENT_TYPE).map_or("", |kind| kind.to_str().unwrap());
    if kind.contains("json") && !kind.contains("jsonl") {
        let value: Value = serde_json::from_slice(&body).unwrap();
        let schema = &described["content"][kind]["schema"];
        assert!(schema.is_object(), "GET {asked}: {status} with {kind} is not described");
        if let Some(fault) = fault(document, schema, &value) {
            panic!("GET {asked}: {fault}\n{value}");
        }
        assert!(status < 400 || value["status"] == status, "GET {asked}: {value}");
        assert!(
            status < 400 || value["how"].as_str().is_some_and(|how| !how.is_empty()),
            "GET {asked}: {value}"
        );
    } else {
        assert!(status < 300, "GET {asked}: {status} with {kind}");
        let kind = kind.split(';').next().unwrap_or_default();
        assert!(
            status == 204 || described["content"][kind].is_object(),
            "GET {asked}: {kind} is not described"
        );
    }
}

static STORED: LazyLock<Stored> = LazyLock::new(|| Stored::new(true));
/// Making it takes longer than most answers.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::to_value(crate::openapi()).unwrap());

thread_local! {
    /// A server for each test: its limits count the questions of one test only.
    static ROUTER: Router = STORED.router();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn every_answer_is_described(choices in proptest::collection::vec(any::<u8>(), 24)) {
        let document = &*DOCUMENT;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (path, route) in document["paths"].as_object().unwrap() {
            if route["get"].is_object() {
                runtime.block_on(check(&ROUTER.with(Clone::clone), document, path, &route["get"], &choices));
            }
        }
    }
}

/// The test above meets a format of a route by chance only.
#[tokio::test]
async fn every_format_of_every_route_is_described() {
    let (document, router) = (&*DOCUMENT, STORED.router());
    let mut asked = 0;
    for (path, route) in document["paths"].as_object().unwrap() {
        let parameters = route["get"]["parameters"].as_array();
        if !parameters.into_iter().flatten().any(|parameter| parameter["name"] == "format") {
            continue;
        }
        let path = question(path, &route["get"], &[1]);
        let path = path.split_once('?').map_or("", |(path, _)| path);
        for format in values_of("format") {
            let range = "since=1800000000000000000&until=1800000300000000000";
            let asked_for = format!("{path}?{range}&format={format}");
            check_answer(&router, document, &route["get"], &asked_for).await;
            asked += 1;
        }
    }
    assert!(asked > 15, "{asked}");
}

#[test]
fn every_operation_has_an_id_of_its_own() {
    let document = &*DOCUMENT;
    let mut ids: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .filter_map(|operation| operation["operationId"].as_str())
        .collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert!(count > 20 && ids.len() == count, "{count} operations have {} ids: {ids:?}", ids.len());
}

/// Streams end never, so their messages are held against the types that their description names.
#[tokio::test(start_paused = true)]
async fn every_message_of_a_stream_is_described() {
    let document = &*DOCUMENT;
    let live = fake();
    live.put(shown(3));
    for (path, schema) in [
        ("/api/v1/hosts/one/live", "Snapshot"),
        ("/api/v1/hosts/one/live?threads=all", "Snapshot"),
        ("/api/v1/hosts/one/live?threads=20-18446744073709551615,99-1", "Snapshot"),
        ("/api/v1/fleet/live", "Fleet"),
    ] {
        let schema = serde_json::json!({"$ref": format!("#/components/schemas/{schema}")});
        let mut stream = Messages::open(&live, path, None).await;
        for number in 4..6 {
            live.put(shown(number));
            let (_, message) = stream.next().await;
            assert_eq!(fault(document, &schema, &message), None, "{path}: {message}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn a_login_of_anything_is_answered_as_described(
        body in prop_oneof![".{0,200}", Just("{}".to_owned()), "\\{\"token\": ?\".{0,80}\"\\}", Just("x".repeat(5000))],
        kind in prop_oneof![Just("application/json"), Just("text/plain"), Just("application/x-www-form-urlencoded")],
    ) {
        let document = &*DOCUMENT;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let guarded = Guarded::new();
        let (status, _, answer) = runtime.block_on(guarded.ask("POST", "/api/v1/login", &[("content-type", kind)], &body));
        let described = &document["paths"]["/api/v1/login"]["post"]["responses"][status.to_string()];
        prop_assert!(described.is_object() && status >= 400, "{status} to {body:?} as {kind}: {answer}");
        let schema = &described["content"]["application/problem+json"]["schema"];
        prop_assert_eq!(fault(document, schema, &answer), None);
    }
}

#[tokio::test]
async fn every_route_refuses_a_parameter_that_it_does_not_take() {
    let (document, router) = (&*DOCUMENT, STORED.router());
    let mut asked = 0;
    for (path, routes) in document["paths"].as_object().unwrap() {
        for (method, route) in routes.as_object().unwrap() {
            let named = question(path, route, &[0]);
            let named = named.split_once('?').map_or("", |(path, _)| path);
            let request =
                Request::builder().method(&*method.to_uppercase()).uri(format!("{named}?n%6Fnsense=1"));
            let request = request.header(header::HOST, "localhost").body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 400, "{method} {named}");
            let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
            let answer: Value = serde_json::from_slice(&body).unwrap();
            let schema = &route["responses"]["400"]["content"]["application/problem+json"]["schema"];
            assert!(schema.is_object(), "{method} {path}: 400 is not described");
            assert_eq!(fault(document, schema, &answer), None, "{method} {path}: {answer}");
            assert!(answer["detail"].as_str().unwrap().contains("`nonsense`"), "{answer}");
            let how = answer["how"].as_str().unwrap();
            let parameters = route["parameters"].as_array().into_iter().flatten();
            for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
                assert!(how.contains(parameter["name"].as_str().unwrap()), "{method} {path}: {how}");
            }
            asked += 1;
        }
    }
    assert!(asked > 25, "{asked}");
}

#[tokio::test]
async fn unknown_parameters_are_checked_after_the_login_and_not_of_the_page() {
    let guarded = Guarded::new();
    for (path, expected) in [
        ("/api/v1/status?x=1", 401),
        ("/api/v1/columns?x=1", 400),
        ("/api/v1/openapi.json?x=1", 400),
        ("/api/v1/nothing?x=1", 401),
        ("/?x=1", 200),
        ("/host/one/history?fine=1", 200),
    ] {
        assert_eq!(guarded.ask("GET", path, &[], "").await.0, expected, "{path}");
    }
    let elsewhere = [("origin", "http://evil.example")];
    assert_eq!(guarded.ask("GET", "/api/v1/columns?x=1", &elsewhere, "").await.0, 403);
    assert_eq!(guarded.ask("POST", "/api/v1/columns?x=1", &[], "").await.0, 405);
}

#[tokio::test]
async fn every_refusal_is_described() {
    let document = &*DOCUMENT;
    let guarded = Guarded::new();
    for (path, route) in document["paths"].as_object().unwrap() {
        let route = &route["get"];
        let asked = [("host", "one"), ("process", "1-1"), ("view", "cpu"), ("kind", "ledger")]
            .into_iter()
            .fold(path.clone(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
        for header in [("x-nothing", ""), ("origin", "http://evil.example"), ("host", "evil.example")] {
            let (status, _, answer) = guarded.ask("GET", &asked, &[header], "").await;
            if route.is_null() || status < 400 {
                continue;
            }
            let schema =
                &route["responses"][status.to_string()]["content"]["application/problem+json"]["schema"];
            assert!(schema.is_object(), "GET {asked} with {header:?}: {status} is not described");
            assert_eq!(fault(document, schema, &answer), None);
        }
    }
}

#[test]
fn the_walker_sees_what_is_wrong() {
    let document = serde_json::json!({"components": {"schemas": {"A": {"type": "object", "required": ["b"],
        "properties": {"b": {"type": ["integer", "null"]}}, "additionalProperties": {"type": "string"}}}}});
    let schema = serde_json::json!({"$ref": "#/components/schemas/A"});
    for (value, is_good) in [
        (serde_json::json!({"b": 1}), true),
        (serde_json::json!({"b": null, "c": "x"}), true),
        (serde_json::json!({"b": 1, "c": 1}), false),
        (serde_json::json!({"b": "1"}), false),
        (serde_json::json!({}), false),
        (serde_json::json!([]), false),
    ] {
        assert_eq!(fault(&document, &schema, &value).is_none(), is_good, "{value}");
    }
}

#[test]
fn the_committed_description_is_that_of_the_routes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let made = crate::openapi_json();
    assert!(
        committed == made,
        "web/openapi.json differs from the routes: run `cargo run -p cpumon-web --example openapi`, then make the page's types"
    );
}
