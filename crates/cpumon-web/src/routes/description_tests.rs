//! Parameters that a route does not take.

use super::*;

fn refused(path: &str, query: &str) -> Option<(String, String)> {
    let problem = RouteParameters::new(&openapi()).refuses(path, query)?;
    Some((problem.detail, problem.how.unwrap()))
}

const SERIES: &str = "/api/v1/hosts/{host}/series";

#[test]
fn a_misspelled_name_is_refused_with_those_that_exist() {
    let (detail, how) = refused(SERIES, "since=1&pionts=5").unwrap();
    assert_eq!(detail, "There is no parameter `pionts` here.");
    assert_eq!(how, "Did you mean `points`? This route takes: since, until, points, columns, resolution.");
    let (_, how) = refused(SERIES, "host=past").unwrap();
    assert!(how.starts_with("This route takes: since,"), "the path has no parameters of the query: {how}");
    let (_, how) = refused("/api/v1/status", "a").unwrap();
    assert_eq!(how, "This route takes: no parameters.");
}

#[test]
fn names_are_read_as_the_routes_read_them() {
    for good in ["", "&&", "p%6Fints=5", "since=1&since=2", "points", "points=&until=a%26b=c"] {
        assert_eq!(refused(SERIES, good), None, "{good}");
    }
    for wrong in ["=5", "Points=5", "points%00=5", "%ff=5", "points+=5", "a;points=5"] {
        assert!(refused(SERIES, wrong).is_some(), "{wrong}");
    }
}

#[test]
fn what_came_from_outside_is_cut_and_has_no_control_characters() {
    let hostile = format!("%1b%5B2J%0a%E2%80%AE{}", "x".repeat(5000));
    let (detail, how) = refused(SERIES, &hostile).unwrap();
    assert!(detail.starts_with(r"There is no parameter `\x1b[2J\n\u{202e}xxx"), "{detail}");
    assert!(detail.len() < 200 && !how.contains('x'), "{detail} {how}");
}
