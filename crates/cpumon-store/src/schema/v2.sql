-- Schema version 2: names are folded into blocks. Meaning of each column: docs/store.md.

CREATE TABLE thread_block (
    first_id INTEGER PRIMARY KEY,
    last_id INTEGER NOT NULL,
    last_s INTEGER NOT NULL,
    count INTEGER NOT NULL,
    names BLOB NOT NULL
) STRICT;

CREATE TABLE process_block (
    first_id INTEGER PRIMARY KEY,
    last_id INTEGER NOT NULL,
    last_s INTEGER NOT NULL,
    count INTEGER NOT NULL,
    has_short INTEGER NOT NULL,
    names BLOB NOT NULL
) STRICT;

-- Which descriptions the processes of a block have.
CREATE TABLE process_block_info (
    first_id INTEGER NOT NULL,
    info_id INTEGER NOT NULL,
    PRIMARY KEY (first_id, info_id)
) STRICT, WITHOUT ROWID;
