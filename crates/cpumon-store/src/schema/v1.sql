-- Schema version 1 of a cpumon store. Frozen: changes are migrations of their own. Meaning of each column: docs/store.md.

CREATE TABLE host (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    trust TEXT NOT NULL
) STRICT;

CREATE TABLE boot (
    id INTEGER PRIMARY KEY,
    host_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    UNIQUE (host_id, key)
) STRICT;

-- How a host described itself, one row for each change.
CREATE TABLE host_change (
    host_id INTEGER NOT NULL,
    since_wall_ns INTEGER NOT NULL,
    boot_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    kernel TEXT NOT NULL,
    arch TEXT NOT NULL,
    agent TEXT NOT NULL,
    source_reason TEXT NOT NULL,
    cpu_count INTEGER NOT NULL,
    interval_ns INTEGER NOT NULL,
    trust TEXT NOT NULL
) STRICT;
CREATE INDEX host_change_host ON host_change (host_id);

-- What a process is; shared by all processes of which the same is known.
CREATE TABLE process_info (
    id INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL,
    name TEXT NOT NULL,
    comm TEXT NOT NULL,
    cmdline TEXT NOT NULL,
    cgroup TEXT NOT NULL,
    container TEXT NOT NULL,
    uid INTEGER NOT NULL,
    is_kernel INTEGER NOT NULL
) STRICT;
CREATE INDEX process_info_hash ON process_info (hash);

-- A process as it was: a change (exec, new parent, other cgroup) is a new row.
CREATE TABLE process (
    id INTEGER PRIMARY KEY,
    boot_id INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    parent_pid INTEGER NOT NULL,
    info_id INTEGER NOT NULL,
    is_short INTEGER NOT NULL,
    last_s INTEGER NOT NULL
) STRICT;

-- Which row of `process` represents all short-lived processes of a description in sums.
CREATE TABLE short_lived (
    info_id INTEGER PRIMARY KEY,
    process_id INTEGER NOT NULL
) STRICT;

-- A thread as it was: a change (name, nice value, priority) is a new row.
CREATE TABLE thread (
    id INTEGER PRIMARY KEY,
    process_id INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    comm ANY NOT NULL,
    nice INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    last_s INTEGER NOT NULL
) STRICT;

-- Fresh intervals; compaction moves them into `chunk`.
CREATE TABLE interval (
    id INTEGER PRIMARY KEY,
    host_id INTEGER NOT NULL,
    boot_id INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    end_mono_ns INTEGER NOT NULL,
    end_wall_ns INTEGER NOT NULL,
    end_boot_ns INTEGER NOT NULL,
    begin_mono_ns INTEGER NOT NULL,
    begin_wall_ns INTEGER NOT NULL,
    begin_boot_ns INTEGER NOT NULL,
    received_wall_ns INTEGER NOT NULL,
    source INTEGER NOT NULL,
    fields INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    v1_ticks INTEGER,
    pass_ns INTEGER NOT NULL,
    thread_count INTEGER NOT NULL,
    process_count INTEGER NOT NULL,
    capacity_ns INTEGER NOT NULL,
    threads_ns INTEGER NOT NULL,
    exited_ns INTEGER NOT NULL,
    irq_ns INTEGER NOT NULL,
    softirq_ns INTEGER NOT NULL,
    steal_ns INTEGER NOT NULL,
    idle_ns INTEGER NOT NULL,
    irq_in_run_time INTEGER NOT NULL,
    tasks_vanished INTEGER NOT NULL,
    permission_denied INTEGER NOT NULL,
    malformed INTEGER NOT NULL,
    exits_lost INTEGER NOT NULL,
    intervals_late INTEGER NOT NULL,
    intervals_skipped INTEGER NOT NULL,
    own_cpu_ns INTEGER NOT NULL,
    own_rss_bytes INTEGER NOT NULL,
    datagrams INTEGER,
    datagram_bytes INTEGER,
    snapshots INTEGER,
    snapshots_lost INTEGER,
    snapshots_partial INTEGER,
    duplicates INTEGER,
    reordered INTEGER,
    rejected INTEGER,
    store_dropped INTEGER,
    cpus BLOB NOT NULL,
    samples BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX interval_time ON interval (host_id, end_wall_ns, boot_id, sequence);

-- Compacted intervals, up to a hundred of one boot in a row.
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    host_id INTEGER NOT NULL,
    boot_id INTEGER NOT NULL,
    first_end_wall_ns INTEGER NOT NULL,
    last_end_wall_ns INTEGER NOT NULL,
    last_received_wall_ns INTEGER NOT NULL,
    intervals INTEGER NOT NULL,
    process_rows INTEGER NOT NULL,
    thread_rows INTEGER NOT NULL,
    meta BLOB NOT NULL,
    processes BLOB NOT NULL,
    threads BLOB NOT NULL
) STRICT;
CREATE INDEX chunk_time ON chunk (host_id, last_end_wall_ns, first_end_wall_ns);
CREATE INDEX chunk_received ON chunk (last_received_wall_ns);

-- Sums over compacted intervals, by the minute or hour in which the interval ended.
CREATE TABLE host_minute (
    host_id INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    intervals INTEGER NOT NULL,
    covered_ns INTEGER NOT NULL,
    capacity_ns INTEGER NOT NULL,
    threads_ns INTEGER NOT NULL,
    exited_ns INTEGER NOT NULL,
    irq_ns INTEGER NOT NULL,
    softirq_ns INTEGER NOT NULL,
    steal_ns INTEGER NOT NULL,
    idle_ns INTEGER NOT NULL,
    max_busy_ppm INTEGER NOT NULL,
    PRIMARY KEY (host_id, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE host_hour (
    host_id INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    intervals INTEGER NOT NULL,
    covered_ns INTEGER NOT NULL,
    capacity_ns INTEGER NOT NULL,
    threads_ns INTEGER NOT NULL,
    exited_ns INTEGER NOT NULL,
    irq_ns INTEGER NOT NULL,
    softirq_ns INTEGER NOT NULL,
    steal_ns INTEGER NOT NULL,
    idle_ns INTEGER NOT NULL,
    max_busy_ppm INTEGER NOT NULL,
    PRIMARY KEY (host_id, hour)
) STRICT, WITHOUT ROWID;

CREATE TABLE process_minute (
    host_id INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    user_ns INTEGER NOT NULL,
    system_ns INTEGER NOT NULL,
    run_ns INTEGER NOT NULL,
    run_delay_ns INTEGER NOT NULL,
    voluntary_switches INTEGER NOT NULL,
    involuntary_switches INTEGER NOT NULL,
    max_run_ns_per_s INTEGER NOT NULL,
    PRIMARY KEY (host_id, minute, process_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE process_hour (
    host_id INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    user_ns INTEGER NOT NULL,
    system_ns INTEGER NOT NULL,
    run_ns INTEGER NOT NULL,
    run_delay_ns INTEGER NOT NULL,
    voluntary_switches INTEGER NOT NULL,
    involuntary_switches INTEGER NOT NULL,
    max_run_ns_per_s INTEGER NOT NULL,
    PRIMARY KEY (host_id, hour, process_id)
) STRICT, WITHOUT ROWID;

-- In which order the original receiver numbered the rows of an imported interval.
CREATE TABLE legacy_order (
    host_id INTEGER NOT NULL,
    end_wall_ns INTEGER NOT NULL,
    idx BLOB NOT NULL,
    PRIMARY KEY (host_id, end_wall_ns)
) STRICT, WITHOUT ROWID;

-- Known holes: what this store did not take.
CREATE TABLE gap (
    host_id INTEGER NOT NULL,
    begin_wall_ns INTEGER NOT NULL,
    end_wall_ns INTEGER NOT NULL,
    intervals INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE INDEX gap_host ON gap (host_id, end_wall_ns);

-- Counts over the life of the store.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
