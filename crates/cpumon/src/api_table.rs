//! [`ApiTable`]: a table of the receiver's API. Columns are lists, one value for all rows, or values by index; those without data are
//! absent.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

/// Rows by columns.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ApiTable {
    pub(crate) rows: usize,
    columns: HashMap<String, Value>,
}

impl ApiTable {
    /// A cell; `None`: no data.
    pub(crate) fn cell(&self, name: &str, at: usize) -> Option<&Value> {
        let found = match self.columns.get(name)? {
            Value::Array(each) => each.get(at)?,
            Value::Object(coded) => {
                let index = usize::try_from(coded.get("index")?.get(at)?.as_u64()?).ok()?;
                coded.get("values")?.get(index)?
            }
            all => all,
        };
        (!found.is_null()).then_some(found)
    }

    /// A text; empty without data.
    pub(crate) fn text(&self, name: &str, at: usize) -> &str {
        self.cell(name, at).and_then(Value::as_str).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_found_in_each_form_of_a_column() {
        let text =
            r#"{"rows":2,"columns":{"each":[7,null],"all":"x","coded":{"index":[1,0],"values":["a","b"]}}}"#;
        let table: ApiTable = serde_json::from_str(text).unwrap();
        assert_eq!((table.cell("each", 0), table.cell("each", 1)), (Some(&7.into()), None));
        assert_eq!((table.text("all", 1), table.text("coded", 0), table.text("coded", 1)), ("x", "b", "a"));
        assert_eq!((table.cell("each", 2), table.cell("none", 0), table.text("coded", 2)), (None, None, ""));
    }
}
