-- Schema version 13: sums of threads by the hour; in sums of processes what they waited for, when they were there and when they ran
-- most. Meaning of each column: docs/store.md.

ALTER TABLE process_minute ADD COLUMN waits BLOB;
ALTER TABLE process_minute ADD COLUMN first_ns INTEGER;
ALTER TABLE process_minute ADD COLUMN last_ns INTEGER;
ALTER TABLE process_minute ADD COLUMN max_end_ns INTEGER;
ALTER TABLE process_hour ADD COLUMN waits BLOB;
ALTER TABLE process_hour ADD COLUMN first_ns INTEGER;
ALTER TABLE process_hour ADD COLUMN last_ns INTEGER;
ALTER TABLE process_hour ADD COLUMN max_end_ns INTEGER;
ALTER TABLE host_hour ADD COLUMN thread_intervals INTEGER NOT NULL DEFAULT 0;

CREATE TABLE thread_hour (
    host_id INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    comm ANY NOT NULL,
    user_ns INTEGER NOT NULL,
    system_ns INTEGER NOT NULL,
    run_ns INTEGER NOT NULL,
    run_delay_ns INTEGER NOT NULL,
    voluntary_switches INTEGER NOT NULL,
    involuntary_switches INTEGER NOT NULL,
    max_run_ns_per_s INTEGER NOT NULL,
    blocked_ns INTEGER,
    waits BLOB,
    first_ns INTEGER,
    last_ns INTEGER,
    max_end_ns INTEGER,
    PRIMARY KEY (host_id, hour, process_id, tid, start_ns)
) STRICT, WITHOUT ROWID;
