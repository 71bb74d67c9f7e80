-- Schema version 18: product names of executables of Windows; empty: none, or another system. Meaning: docs/store.md.

ALTER TABLE process_info ADD COLUMN product TEXT NOT NULL DEFAULT '';
