-- Schema version 4: run-delay histograms inside `cpus` and `sched`; sums of run delay and blocked time, NULL where not known.
-- Meaning of each column: docs/store.md.

ALTER TABLE host_minute ADD COLUMN run_delay_ns INTEGER;
ALTER TABLE host_minute ADD COLUMN blocked_ns INTEGER;
ALTER TABLE host_hour ADD COLUMN run_delay_ns INTEGER;
ALTER TABLE host_hour ADD COLUMN blocked_ns INTEGER;
ALTER TABLE process_minute ADD COLUMN blocked_ns INTEGER;
ALTER TABLE process_hour ADD COLUMN blocked_ns INTEGER;
