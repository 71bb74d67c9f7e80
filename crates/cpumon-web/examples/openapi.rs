//! Writes the `OpenAPI` document to `web/openapi.json`, from which the page's TypeScript types are made:
//! `cargo run -p cpumon-web --example openapi`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/openapi.json");
    std::fs::write(path, cpumon_web::openapi_json())
}
