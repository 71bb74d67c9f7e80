-- Schema version 17: session and base priority of processes of Windows; null: not known, or another system. Meaning: docs/store.md.

ALTER TABLE process_info ADD COLUMN session INTEGER;
ALTER TABLE process_info ADD COLUMN base_priority INTEGER;
