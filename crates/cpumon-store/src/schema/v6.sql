-- Schema version 6: run queues in the sums of a host, NULL where not known. Meaning of each column: docs/store.md.

ALTER TABLE host_minute ADD COLUMN run_queue_ns INTEGER;
ALTER TABLE host_minute ADD COLUMN max_run_queue_ns_per_s INTEGER;
ALTER TABLE host_minute ADD COLUMN run_queue_max INTEGER;
ALTER TABLE host_hour ADD COLUMN run_queue_ns INTEGER;
ALTER TABLE host_hour ADD COLUMN max_run_queue_ns_per_s INTEGER;
ALTER TABLE host_hour ADD COLUMN run_queue_max INTEGER;
