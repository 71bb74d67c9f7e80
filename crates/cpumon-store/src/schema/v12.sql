-- Schema version 12: which threads waited for what at the time of a list; NULL: not known. Meaning: docs/store.md.

ALTER TABLE process_list ADD COLUMN resting BLOB;
