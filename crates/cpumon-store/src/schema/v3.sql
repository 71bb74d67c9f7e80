-- Schema version 3: scheduler events of tasks. Meaning of each column: docs/store.md.

ALTER TABLE interval ADD COLUMN sched BLOB NOT NULL DEFAULT x'';
ALTER TABLE chunk ADD COLUMN sched BLOB NOT NULL DEFAULT x'';
