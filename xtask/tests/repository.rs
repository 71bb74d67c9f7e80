//! The chores that check this repository.

use std::process::Command;

fn check(chore: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg(chore).output().unwrap();
    let [listed, wrong] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "cargo xtask {chore}:\n{listed}{wrong}");
}

#[test]
fn crates_and_files_import_only_what_they_may() {
    check("check-direction");
}

#[test]
fn functions_take_structs_in_place_of_tuples() {
    check("check-parameters");
}

#[test]
fn code_and_documents_use_the_words_of_the_field() {
    check("check-words");
}
