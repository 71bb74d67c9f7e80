// Written by `npm run generate` from openapi.json. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Ends of the first and of the last interval that are stored of a host. */
        Available: {
            /** @description End of the first interval. */
            first_ns: components["schemas"]["Nanos"];
            /** @description End of the last interval. */
            last_ns: components["schemas"]["Nanos"];
        };
        /** @description A horizontal bar of percentages, e.g. one CPU. */
        Bar: {
            /** @description Name at the left; may come from another machine. */
            name: string;
            /** @description Percent of each part, in the order of the parts; empty is no data. The remainder up to 100 is the background. */
            shares: number[];
        };
        /** @description One kind of segment of a bar, e.g. user time. */
        BarPart: {
            /** @description Colour of the segment. */
            ink: components["schemas"]["Ink"];
            /** @description Name in the legend. */
            label: string;
        };
        /** @description What a group did in the range that a report is compared with. Null: not measured. */
        Before: {
            /**
             * Format: int64
             * @description Its blocked time.
             */
            blocked_ns?: number | null;
            /**
             * Format: double
             * @description Run time in percent of one CPU.
             */
            cpu_pct?: number | null;
            /**
             * Format: int64
             * @description Measured time; null: no data.
             */
            duration_ns?: number | null;
            /**
             * Format: int64
             * @description Time ready, waiting for a CPU.
             */
            run_delay_ns?: number | null;
            /**
             * Format: int64
             * @description Run time.
             */
            run_ns?: number | null;
        };
        /** @description 32 hexadecimal digits; all zero if not reported. */
        BootId: string;
        /** @description Points of a picture, evenly spaced over the range. */
        BucketTimes: {
            /** @description Start of the first point, as intervals stand. */
            begin_ns: components["schemas"]["Nanos"];
            /** @description Measured time in each point; 0: a gap, and every value there is null. */
            covered_ns: number[];
            /** @description What was read: `interval`s, or sums of a `minute` or an `hour`. */
            resolution: string;
            /**
             * Format: int64
             * @description From one point to the next.
             */
            width_ns: number;
        };
        /** @description One cause. */
        Cause: {
            /** @description What to do, in one sentence. */
            action: string;
            /** @description Its kind. */
            cause: components["schemas"]["CauseKind"];
            /** @description A command that does it, on the host; null: there is none. */
            command?: string | null;
            /** @description Who did it, most time first. */
            culprits: components["schemas"]["Culprit"][];
            /** @description What else was measured of it, in sentences. */
            evidence: string[];
            /** @description The cause in one sentence. */
            sentence: string;
            /**
             * Format: double
             * @description Share of the wanted time (ran, ready, throttled, blocked on others) that it explains, 0 to 1.
             */
            share: number;
            /** @description How much it can be relied on. */
            sure: components["schemas"]["SureLevel"];
        };
        /**
         * @description What makes something slow.
         * @enum {string}
         */
        CauseKind: "saturated" | "quota" | "lock" | "one-thread" | "priority" | "affinity" | "starts" | "disk" | "peer" | "interrupts" | "steal" | "faults" | "unknown";
        /** @description A value of a column (its kind and unit: /api/v1/columns). null: no data, which is not zero. */
        Cell: null | number | string;
        /**
         * @description Which value the cells of a heatmap show.
         * @enum {string}
         */
        Cells: "mean" | "highest";
        /** @description A control group over an interval: its tightest CPU limit, how often that limit was reached, and its pressure. */
        CgroupInterval: {
            /**
             * Format: int64
             * @description Number of the group; 0 if read from a store.
             * @default 0
             */
            id: number;
            /**
             * @description The tightest limit on its path, at the end of the interval.
             * @default unknown
             */
            limit: components["schemas"]["CpuLimit"];
            /**
             * Format: int32
             * @description Length in bytes of the path prefix that names the limiting group.
             * @default 0
             */
            limiter_bytes: number;
            /**
             * @description Path of the group.
             * @default
             */
            path: string;
            /** @default null */
            pressure: components["schemas"]["Pressure"] | null;
            /** @default null */
            throttle: components["schemas"]["Throttle"] | null;
        };
        /** @description Everything that is drawn in one picture (`chart::draw` of `cpumon-export`). */
        Chart: {
            /** @description Ranges in which the process of the chart did not exist; empty for charts of anything else. */
            absences: components["schemas"]["Hole"][];
            /** @description The values. */
            body: components["schemas"]["ChartBody"];
            /** @description Text in the middle of a chart without data. */
            empty?: string | null;
            /** @description Ranges without data, in order of time. */
            holes: components["schemas"]["Hole"][];
            /** @description Further lines below the chart, e.g. how many rows are not shown. */
            notes: string[];
            /**
             * Format: double
             * @description Start of the time axis, ms since the UNIX epoch.
             */
            since_ms: number;
            /** @description The points of lines and heatmaps. */
            times: components["schemas"]["ChartTimes"];
            /** @description Title; may hold names from another machine. */
            title: string;
            /** @description Unit of the values, for people: `%CPU: 100 = one CPU`. */
            unit: string;
            /**
             * Format: double
             * @description End of the time axis, ms since the UNIX epoch.
             */
            until_ms: number;
        };
        /** @description The values of a chart, by the way in which they are drawn. */
        ChartBody: {
            /** @enum {string} */
            kind: "lines";
            /** @description The bottom of a stack comes first. */
            lines: components["schemas"]["ChartLine"][];
            /**
             * Format: double
             * @description Top of the value axis; `None` derives it from the values.
             */
            max?: number | null;
        } | {
            /** @description Which values of a row are drawn. */
            cells: components["schemas"]["Cells"];
            /** @enum {string} */
            kind: "heatmap";
            /**
             * Format: double
             * @description The value with the strongest colour.
             */
            max: number;
            /** @description From top to bottom. */
            rows: components["schemas"]["HeatmapRow"][];
        } | {
            /** @description From the top of the first column on. */
            bars: components["schemas"]["Bar"][];
            /** @enum {string} */
            kind: "bars";
            /** @description The segments of every bar, from the left. */
            parts: components["schemas"]["BarPart"][];
            /** @description The remainder up to 100. */
            rest: components["schemas"]["BarPart"];
        } | {
            /** @enum {string} */
            kind: "sparklines";
            /**
             * Format: double
             * @description The value at the top of each row; a higher value raises it.
             */
            max: number;
            /** @description From top to bottom. */
            rows: components["schemas"]["Sparkline"][];
        };
        /** @description One series of a chart of lines. */
        ChartLine: {
            /** @description The highest single interval in each point, where it is known: a faint band above the line. */
            highest: (number | null)[];
            /** @description Colour of the line and of its mark in the legend. */
            ink: components["schemas"]["Ink"];
            /**
             * @description Identity of the series: the key of a task, a group as in [`ReportRow::id`](crate::report::ReportRow::id), or the column of a CPU
             *     mode or ledger line; null for all other series.
             */
            key?: string | null;
            /** @description Name in the legend; may come from another machine. */
            label: string;
            /** @description How the values are drawn. */
            stroke: components["schemas"]["Stroke"];
            /** @description One value for each point; null: no data, or, in a measured point, the task was not running. */
            values: (number | null)[];
        };
        /** @description Points in time, evenly spaced. */
        ChartTimes: {
            /** @description Start of each point, ms since the UNIX epoch. */
            begin_ms: number[];
            /** @description Measured time in each point, ms; 0: nothing was measured, and no line or row has a value there. */
            covered_ms: number[];
            /**
             * Format: double
             * @description From one point to the next, ms.
             */
            width_ms: number;
        };
        /** @description A device's clock, measured against the receiver's. */
        Clock: {
            /**
             * Format: int64
             * @description How much faster the device's clock runs than the receiver's, parts per billion; absent until exchanges span 60 s.
             * @default null
             */
            drift_ppb: number | null;
            /**
             * Format: int64
             * @description The device's wall clock less the receiver's, ns.
             * @default 0
             */
            offset_ns: number;
            /**
             * Format: int64
             * @description Round trip of the exchange that gave the offset, ns: the offset is known to within half of this time.
             * @default 0
             */
            round_trip_ns: number;
            /**
             * Format: int64
             * @description Times the clock was set since the receiver began to watch it.
             * @default 0
             */
            steps: number;
        };
        /** @description One column. */
        ColumnHelp: {
            /** @description Meaning, one sentence. */
            help: string;
            /** @description `integer`, `real` or `text`. */
            kind: string;
            /** @description Name in tables. */
            name: string;
            /** @description What a source must measure for it to have data: names of `fields`. */
            needs: string[];
            /** @description The tables that have it: `processes`, `threads`, `cpus`, `host`. */
            tables: string[];
            /** @description Unit; empty for names, ids and counts. */
            unit: string;
        };
        /** @description Answer of `/api/v1/columns`. */
        Columns: {
            /** @description Every column, in order. */
            columns: components["schemas"]["ColumnHelp"][];
        };
        Comm: string | number[];
        /** @description Two spans side by side. */
        Compare: {
            /** @description Start and end of the second span, as asked for. */
            after: components["schemas"]["Nanos"][];
            /**
             * Format: int64
             * @description Measured time of the second span, ns; 0: it holds no data.
             */
            after_covered_ns: number;
            /** @description Start and end of the first span, as asked for. */
            before: components["schemas"]["Nanos"][];
            /**
             * Format: int64
             * @description Measured time of the first span, ns; 0: it holds no data.
             */
            before_covered_ns: number;
            /** @description A row a group, the largest change first, with the columns of `cpumon export compare` (docs/export.md). */
            rows: components["schemas"]["Table"];
        };
        /** @description Counts of TLS connections since the receiver started. */
        Connections: {
            /**
             * Format: int64
             * @description Connections that were accepted.
             * @default 0
             */
            accepted: number;
            /**
             * @description TCP address it listens on.
             * @default
             */
            address: string;
            /**
             * Format: int64
             * @description Bytes of messages from devices.
             * @default 0
             */
            bytes: number;
            /**
             * Format: int64
             * @description Devices that are connected now.
             * @default 0
             */
            devices: number;
            /** @default null */
            discovery: components["schemas"]["Discovery"] | null;
            /**
             * Format: int64
             * @description Devices that were enrolled.
             * @default 0
             */
            enrolled: number;
            /**
             * @description Why not all enrolled hosts are known: an entry cannot be read, so its host is refused. Empty: all are known.
             * @default
             */
            enrolled_error: string;
            /**
             * Format: int64
             * @description Handshakes that failed: no TLS 1.3, a certificate that is not of this receiver or has expired, too slow.
             * @default 0
             */
            handshakes_failed: number;
            /**
             * Format: int64
             * @description Connections ended because of what the device sent, and snapshots in it that could not be used.
             * @default 0
             */
            protocol_errors: number;
            /**
             * @description Sources of refusals and errors, most first; at most 64 are shown, all further ones together as `others`.
             * @default []
             */
            refused_by: components["schemas"]["Rejects"][];
            /**
             * Format: int64
             * @description Devices refused although their certificate is good: revoked, or too many are connected.
             * @default 0
             */
            refused_devices: number;
            /**
             * Format: int64
             * @description Connections refused before the handshake: too many at once, or too many a second.
             * @default 0
             */
            refused_early: number;
            /**
             * Format: int64
             * @description Tokens that were refused: unknown, used, expired.
             * @default 0
             */
            refused_tokens: number;
            /**
             * Format: int64
             * @description Certificates that were renewed.
             * @default 0
             */
            renewed: number;
            /**
             * Format: int64
             * @description Devices without a token that requested enrolment.
             * @default 0
             */
            requests: number;
            /**
             * Format: int64
             * @description Requests that the user accepted.
             * @default 0
             */
            requests_accepted: number;
            /**
             * Format: int64
             * @description Requests that were refused: by the user, after 10 minutes without a decision, for a newer request of the same host, because too many
             *     asked, or because the receiver takes tokens only.
             * @default 0
             */
            requests_refused: number;
            /**
             * Format: int64
             * @description Requests that wait for the user now.
             * @default 0
             */
            requests_waiting: number;
        };
        /** @description One CPU over an interval. */
        CpuInterval: {
            /**
             * Format: int32
             * @description Number of the CPU, from 0.
             * @default 0
             */
            cpu: number;
            /**
             * @description What the scheduler's events report of the interval.
             * @default {
             *       "run_queue_max": 0,
             *       "run_queue_ns": 0,
             *       "softirq_ns": [
             *         0,
             *         0,
             *         0,
             *         0,
             *         0,
             *         0,
             *         0,
             *         0,
             *         0,
             *         0
             *       ],
             *       "switches": 0,
             *       "unknown_ns": 0
             *     }
             */
            sched: components["schemas"]["CpuSched"];
            /**
             * @description Times in the interval. A mode that fell (the kernel's idle and iowait can) counts as 0 and sets `went_back`.
             * @default {
             *       "guest_nice_ns": 0,
             *       "guest_ns": 0,
             *       "idle_ns": 0,
             *       "iowait_ns": 0,
             *       "irq_ns": 0,
             *       "nice_ns": 0,
             *       "softirq_ns": 0,
             *       "steal_ns": 0,
             *       "system_ns": 0,
             *       "user_ns": 0
             *     }
             */
            times: components["schemas"]["CpuTimes"];
            /**
             * @description Some mode or other count of this CPU went backwards.
             * @default false
             */
            went_back: boolean;
        };
        /** @description How much CPU time a group may use. */
        CpuLimit: "unknown" | "unlimited" | {
            /**
             * Format: int64
             * @description Millionths of a CPU: 500,000 is half a CPU.
             */
            millionths: number;
        };
        /** @description A CPU's modes added up. */
        CpuModes: {
            /**
             * Format: int64
             * @description Measured time.
             */
            covered_ns: number;
            /** @description Time in each mode. */
            times: components["schemas"]["CpuTimes"];
            /**
             * Format: int64
             * @description Time that no switch event attributes to a thread.
             */
            unknown_ns: number;
        };
        /**
         * @description What the scheduler's events report of one CPU: cumulative in a sample, differences in an interval, but for
         *     `run_queue_max`. Known where the source measures `SCHED`.
         */
        CpuSched: {
            /**
             * Format: int32
             * @description Longest run queue since the snapshot before, tasks. A maximum: never summed over time.
             * @default 0
             */
            run_queue_max: number;
            /**
             * Format: int64
             * @description Integral of the run queue's length over time, the running task included: task-nanoseconds. Divided by the length
             *     of the interval it is the mean length.
             * @default 0
             */
            run_queue_ns: number;
            /**
             * @description Time in soft interrupts, ns: hi, timer, `net_tx`, `net_rx`, block, `irq_poll`, tasklet, sched, hrtimer, rcu; known where `IRQ` is
             *     measured.
             * @default [
             *       0,
             *       0,
             *       0,
             *       0,
             *       0,
             *       0,
             *       0,
             *       0,
             *       0,
             *       0
             *     ]
             */
            softirq_ns: number[];
            /**
             * Format: int64
             * @description Number of context switches on this CPU.
             * @default 0
             */
            switches: number;
            /**
             * Format: int64
             * @description Time during which no switch event says which thread ran, ns. That of threads read from /proc is in it: it is not known on which CPU they
             *     ran.
             * @default 0
             */
            unknown_ns: number;
        };
        /**
         * @description Times of one CPU by mode, ns (/proc/stat, proc(5)). `guest` is part of `user`, `guest_nice` part of `nice`.
         *     Cumulative in a [`CpuSample`], differences in a [`CpuInterval`].
         */
        CpuTimes: {
            /**
             * Format: int64
             * @description Running niced guests, inside `nice_ns`.
             * @default 0
             */
            guest_nice_ns: number;
            /**
             * Format: int64
             * @description Running guests, inside `user_ns`.
             * @default 0
             */
            guest_ns: number;
            /**
             * Format: int64
             * @description Time with nothing to run, iowait excluded.
             * @default 0
             */
            idle_ns: number;
            /**
             * Format: int64
             * @description Nothing to run while some task of this CPU waits for a disk.
             * @default 0
             */
            iowait_ns: number;
            /**
             * Format: int64
             * @description Time in hard interrupts.
             * @default 0
             */
            irq_ns: number;
            /**
             * Format: int64
             * @description Time of niced threads in user mode.
             * @default 0
             */
            nice_ns: number;
            /**
             * Format: int64
             * @description Time in soft interrupts.
             * @default 0
             */
            softirq_ns: number;
            /**
             * Format: int64
             * @description Taken by the hypervisor.
             * @default 0
             */
            steal_ns: number;
            /**
             * Format: int64
             * @description Time in kernel mode, interrupts excluded.
             * @default 0
             */
            system_ns: number;
            /**
             * Format: int64
             * @description User mode, default priority or higher.
             * @default 0
             */
            user_ns: number;
        };
        /** @description A program that makes others wait, or a thread of it. */
        Culprit: {
            /**
             * Format: double
             * @description The same in the time before; null: nothing was measured.
             */
            before_cpu_pct?: number | null;
            /** @description Whether it began in this time. */
            began: boolean;
            /**
             * Format: double
             * @description Its run time in percent of one CPU.
             */
            cpu_pct: number;
            /** @description Whether `ns` is concluded from what it ran: who was in front was not measured. */
            is_estimated: boolean;
            /** @description Name of the program, or of the thread where `tid` is given; hostile. */
            name: string;
            /**
             * Format: int64
             * @description Time for which it made the subject wait, ns, summed over threads; estimated where `is_estimated`.
             */
            ns: number;
            /**
             * Format: int32
             * @description The pid of the process that costs most.
             */
            pid?: number | null;
            /** @description The pids of its processes, those that cost most first, at most 8. */
            pids: number[];
            /**
             * Format: int64
             * @description Its processes.
             */
            processes: number;
            /** @description How it is scheduled where that is not the default: `real-time 50`, `nice 19`. */
            scheduling?: string | null;
            /**
             * Format: int32
             * @description The thread.
             */
            tid?: number | null;
        };
        /** @description A part of a host's data that cannot be read. */
        Damage: {
            /** @description What does not fit. */
            detail: string;
            /** @description End of the first interval in it, ns since the epoch on the host's time line. */
            first_end_ns: components["schemas"]["Nanos"];
            /** @description The host. */
            host: components["schemas"]["HostId"];
            /**
             * Format: int64
             * @description Intervals in it; `None`: not known.
             */
            intervals?: number | null;
            /** @description End of the last one. */
            last_end_ns: components["schemas"]["Nanos"];
        };
        /** @description What a reader could not read. */
        DamageReport: {
            /**
             * @description By host, in order of time.
             * @default []
             */
            holes: components["schemas"]["Damage"][];
            /**
             * Format: int64
             * @description Holes that are not listed.
             * @default 0
             */
            more: number;
            /**
             * Format: int64
             * @description Tasks without a key and a name, because those cannot be read.
             * @default 0
             */
            nameless: number;
            /**
             * Format: int64
             * @description Run delays, waits and control groups of minutes and hours that cannot be read.
             * @default 0
             */
            sums: number;
        };
        /** @description Bucket and count, ascending. Buckets are log-linear: 8 for each power of two. */
        DelayHistogram: number[][];
        /** @description The owner of a histogram of run delays. */
        DelayOf: {
            /**
             * Format: int32
             * @description Of every thread that got this CPU.
             */
            cpu: number;
        } | {
            /** @description Of a process's threads. */
            process: components["schemas"]["ProcessKey"];
        } | {
            /** @description Of a selected thread. */
            thread: Record<string, never>[];
        };
        /** @description A histogram and whose it is. Shared, because most do not change from one snapshot to the next. */
        Delays: {
            /** @description Number of delays by length: cumulative in a snapshot, differences in an interval. */
            histogram: components["schemas"]["DelayHistogram"];
            /** @description The CPU, process or thread whose delays these are. */
            of: components["schemas"]["DelayOf"];
        };
        /**
         * @description Growth of [`Counters`] over an interval. Signed, because an impossible value is shown and flagged, not clamped:
         *     `Interval::between` makes none, but the original's devices sent negative times.
         */
        Delta: {
            /**
             * Format: int64
             * @description Involuntary switches in the interval.
             * @default 0
             */
            involuntary_switches: number;
            /**
             * Format: int64
             * @description Major page faults in the interval.
             * @default 0
             */
            major_faults: number;
            /**
             * Format: int64
             * @description Minor page faults in the interval.
             * @default 0
             */
            minor_faults: number;
            /**
             * Format: int64
             * @description Run delay in the interval, ns.
             * @default 0
             */
            run_delay_ns: number;
            /**
             * Format: int64
             * @description Run time in the interval, ns.
             * @default 0
             */
            run_ns: number;
            /**
             * Format: int64
             * @description System time in the interval, ns.
             * @default 0
             */
            system_ns: number;
            /**
             * Format: int64
             * @description User time in the interval, ns.
             * @default 0
             */
            user_ns: number;
            /**
             * Format: int64
             * @description Voluntary switches in the interval.
             * @default 0
             */
            voluntary_switches: number;
        };
        /** @description Answers to devices that search for a receiver, since the receiver started. */
        Discovery: {
            /**
             * Format: int64
             * @description Answers that were sent.
             * @default 0
             */
            answered: number;
            /**
             * Format: int64
             * @description Answers that could not be sent.
             * @default 0
             */
            failed: number;
            /**
             * @description Fingerprint of the receiver's key, to be compared by people.
             * @default
             */
            key: string;
            /**
             * Format: int64
             * @description Datagrams that are no query.
             * @default 0
             */
            malformed: number;
            /**
             * Format: int64
             * @description Queries that could be read.
             * @default 0
             */
            queries: number;
            /**
             * Format: int64
             * @description Queries beyond the limits, in all or of one address.
             * @default 0
             */
            too_many: number;
            /**
             * Format: int64
             * @description Messages about other services.
             * @default 0
             */
            unrelated: number;
        };
        /** @description The command line that gives the same file. */
        ExportCommand: {
            /** @description For a POSIX shell. One that names a store is to be run where the store is. */
            command: string;
        };
        Fields: string[];
        /** @description What a search found. */
        Findings: {
            /** @description Those that were asked for, most run time first. */
            rows: components["schemas"]["Found"][];
            /** @description Rows there are. */
            total: number;
        };
        Flags: string[];
        /** @description Answer of `/api/v1/fleet`, and a message of its stream. */
        Fleet: components["schemas"]["FleetBase"] & {
            /**
             * Format: int64
             * @description Fleet snapshots before this one that this reader did not get because it was too slow.
             */
            skipped: number;
            spark?: components["schemas"]["Spark"] | null;
        };
        /** @description All hosts, without the parts that differ between readers. */
        FleetBase: {
            /**
             * @description A row a host: `id`, `hostname`, `trust`, `source`, `address`, `agent`, `kernel`, `arch`, `cpu_count`,
             *     `interval_ns`, `state` (`reporting`, `late`, `silent`; `stored`: not since the receiver started, the store has its
             *     past), `health` (problems, the most serious first: `silent`, `stored`, `late`, `loss`, `ledger`, `clock`; empty:
             *     none), `age_ns` since its last interval arrived, `clock_offset_ns` (its clock less the receiver's: by exchanges of
             *     time over TLS, which also give `clock_round_trip_ns` and `clock_drift_ppb`; else when that interval arrived),
             *     `end_ms`, `busy_ratio` (of all CPUs); of the last minute `minute_busy_ratio` (mean), `minute_peak_ratio` (highest
             *     interval), `minute_ready` (threads ready on average), `minute_run_queue_per_cpu`, `minute_unattributed_ratio`,
             *     `minute_intervals`, `minute_incomplete` (those that lack lost data); `threads`, `processes`, `top_key`,
             *     `top_name`, `top_cpu_pct`, `top_host_pct`, `capacity_ns`, `unattributed_ns`, `unattributed_ratio`,
             *     `ledger_closed`, `lost`, `rejected`, `store_dropped`, `flags`.
             */
            hosts: components["schemas"]["Table"];
            /** @description Limits at which a mark or a colour changes. */
            limits: components["schemas"]["Limits"];
            /** @description The receiver's clock. */
            now_ns: components["schemas"]["Nanos"];
            /**
             * Format: int64
             * @description Counts fleet snapshots since the receiver started.
             */
            number: number;
            /** @description The receiver itself. */
            receiver: components["schemas"]["ReceiverHealth"];
            /** @description The busiest processes over all hosts: `host_id`, `hostname`, `key`, `name`, `container`, `cpu_pct`, `host_pct`, `run_ns`. */
            top: components["schemas"]["Table"];
        };
        /** @description Answer of `/api/v1/fleet/history`: all hosts over a range. */
        FleetHistory: components["schemas"]["BucketTimes"] & {
            /** @description A list a host: busy share of all CPUs in each point; null: no data. */
            busy_ratio: (number | null)[][];
            /**
             * @description A row a host: `id`, `hostname`, `trust`, `covered_ns`, `busy_ratio` (mean, of all CPUs), `peak_ratio` (the highest single
             *     interval), `peak_ms` (begin of the point it is in), `run_queue_per_cpu`.
             */
            hosts: components["schemas"]["Table"];
            /** @description The highest single interval in each part of time, as `busy_ratio`. */
            peak_ratio: (number | null)[][];
            /** @description The range that was asked for. */
            since_ns: components["schemas"]["Nanos"];
            /** @description Its end. */
            until_ns: components["schemas"]["Nanos"];
        };
        /** @description Something that was found. */
        Found: {
            first_ns?: components["schemas"]["Nanos"] | null;
            /** @description Name of its host; hostile. */
            host: string;
            /** @description Its host: a name may be of several hosts, or empty. */
            host_id: components["schemas"]["HostId"];
            /** @description Kind of the result. */
            kind: components["schemas"]["FoundKind"];
            last_ns?: components["schemas"]["Nanos"] | null;
            /** @description What was found; hostile. */
            name: string;
            /**
             * Format: int64
             * @description Processes with a stored name; a process that calls exec counts under each of its names.
             */
            processes: number;
            /**
             * Format: int64
             * @description Run time, of all that is stored of the host.
             */
            run_ns: number;
            /**
             * Format: double
             * @description In percent of all threads of the host.
             */
            share_pct?: number | null;
        };
        /**
         * @description What a name that was found is of.
         * @enum {string}
         */
        FoundKind: "container" | "name" | "pod" | "service" | "user";
        /** @description A known hole in a host's time. */
        Gap: {
            /** @description Start, ns since the epoch, on the time line of the host's intervals. */
            begin_ns: components["schemas"]["Nanos"];
            /** @description End, on the same time line. */
            end_ns: components["schemas"]["Nanos"];
            /**
             * Format: int64
             * @description Intervals that are known to be missing; 0 if they were not counted.
             */
            intervals: number;
            /** @description Why: `queue full`, `store full`, `not stored`, `damaged`; of an imported log what its device says; `restart` for another boot or agent start; `no data`. */
            reason: string;
            /** @description The device's own clock minus the receiver's time line, ns. */
            wall_shift_ns: components["schemas"]["Nanos"];
        };
        /** @description The holes in a host's time. */
        Gaps: {
            /** @description Those that were asked for. */
            gaps: components["schemas"]["Gap"][];
            /** @description The host. */
            host: components["schemas"]["HostId"];
            /** @description Its name; hostile. */
            name: string;
            /** @description Holes there are, 10,000 at most. */
            total: number;
        };
        /** @description CPU limits of the control groups of some tasks, taken together. */
        GroupLimits: {
            /** @description The tightest limit of any of these groups. */
            limit: components["schemas"]["CpuLimit"];
            pressure?: components["schemas"]["Pressure"] | null;
            throttle?: components["schemas"]["Throttle"] | null;
        };
        /** @description One row of a heatmap: a process, a thread, a group or a host. */
        HeatmapRow: {
            /** @description The highest single interval in each point, where it is known. */
            highest: (number | null)[];
            /** @description Identity of the row: the key of a task, the name of a group or the id of a host; null for the row of all others together. */
            key?: string | null;
            /** @description Life of a task in the range, as far as known: `alive`, `born`, `ended` or `born_ended`; null for rows that are no task. */
            life?: string | null;
            /**
             * Format: double
             * @description The highest single interval of the range; null where it is not known, as for all others together.
             */
            max?: number | null;
            /**
             * Format: double
             * @description Mean of the range.
             */
            mean?: number | null;
            /** @description Name at the left; may come from another machine. */
            name: string;
            /**
             * Format: int64
             * @description Run time in the range, ns; null for a host.
             */
            run_ns?: number | null;
            /**
             * Format: double
             * @description Tasks of a host that were running or ready for each of its CPUs, on average.
             */
            run_queue_per_cpu?: number | null;
            /** @description The mean of each point; null: no data, or, in a measured point, it was not running. */
            values: (number | null)[];
        };
        /** @description A range of time without data. */
        Hole: {
            /**
             * Format: double
             * @description Start, ms since the UNIX epoch.
             */
            begin_ms: number;
            /**
             * Format: double
             * @description End, ms since the UNIX epoch.
             */
            end_ms: number;
            /** @description Why there is no data, for people. */
            reason: string;
        };
        /** @description A host as the receiver sees it now. */
        Host: components["schemas"]["HostInfo"] & {
            /**
             * @description Where the last datagram came from, `address:port`; empty for local.
             * @default
             */
            address: string;
            /** @default null */
            clock: components["schemas"]["Clock"] | null;
            /**
             * @description End of the newest interval, on the device's clocks.
             * @default {
             *       "boot_ns": 0,
             *       "mono_ns": 0,
             *       "wall_ns": 0
             *     }
             */
            last: components["schemas"]["Moment"];
            /**
             * @description What was lost or refused on the way to this receiver.
             * @default {
             *       "bytes": 0,
             *       "datagrams": 0,
             *       "duplicates": 0,
             *       "rejected": 0,
             *       "reordered": 0,
             *       "snapshots": 0,
             *       "snapshots_lost": 0,
             *       "snapshots_partial": 0,
             *       "store_dropped": 0
             *     }
             */
            loss: components["schemas"]["Loss"];
            /**
             * Format: int32
             * @description Processes alive at the end of the newest interval.
             * @default 0
             */
            process_count: number;
            /**
             * Format: int64
             * @description When the receiver got it, ns since the UNIX epoch on the receiver's clock.
             * @default 0
             */
            received_wall_ns: number;
            /**
             * @description The source that measures on the host.
             * @default unknown
             */
            source: components["schemas"]["SourceKind"];
            /**
             * Format: int32
             * @description Threads alive at the end of the newest interval.
             * @default 0
             */
            thread_count: number;
            /**
             * @description How its data came in.
             * @default unauthenticated
             */
            trust: components["schemas"]["Trust"];
        };
        /** @description Charts of a host over one range. */
        HostCharts: {
            /** @description In the order in which they were asked for. */
            charts: components["schemas"]["Chart"][];
            /**
             * Format: int32
             * @description CPUs that it has now.
             */
            cpus: number;
            kept?: components["schemas"]["Kept"] | null;
            /** @description Start of the range that they show. */
            since_ns: components["schemas"]["Nanos"];
            /** @description End of the range. */
            until_ns: components["schemas"]["Nanos"];
        };
        /** @description 32 hexadecimal digits, stable over reboots. */
        HostId: string;
        /** @description A machine as its agent describes it. Sent at start, on change, and repeated now and then. */
        HostInfo: {
            /**
             * @description Agent name and version.
             * @default
             */
            agent: string;
            /**
             * @description Machine architecture, `uname -m`.
             * @default
             */
            arch: string;
            /**
             * @description Identity of the boot.
             * @default 00000000000000000000000000000000
             */
            boot: components["schemas"]["BootId"];
            /**
             * Format: int32
             * @description Number of CPUs online; 0 where unknown.
             * @default 0
             */
            cpu_count: number;
            /**
             * @description The machine's name (`uname -n`); for v1 devices their address.
             * @default
             */
            hostname: string;
            /**
             * @description Identity of the machine, the same over reboots.
             * @default 00000000000000000000000000000000
             */
            id: components["schemas"]["HostId"];
            /**
             * Format: int64
             * @description The interval the agent aims at, ns.
             * @default 0
             */
            interval_ns: number;
            /**
             * @description `uname -sr`, e.g. `Linux 6.18.4`.
             * @default
             */
            kernel: string;
            /**
             * @description Who measures and why that source was chosen, one line.
             * @default
             */
            source_reason: string;
        };
        /** @description A host of a store. */
        HostRecord: components["schemas"]["HostInfo"] & {
            first_ns?: components["schemas"]["Nanos"] | null;
            last_ns?: components["schemas"]["Nanos"] | null;
            /** @description How its data came in. */
            trust: components["schemas"]["Trust"];
        };
        /** @description A host over time. */
        HostSeries: components["schemas"]["BucketTimes"] & {
            /**
             * @description By name; `busy_ns` is the capacity less idle and steal, `run_queue_ns` the tasks running or ready, integrated over time: divided
             *     by `covered_ns` it is their mean number (and of its highest 1e9 is one task). Sums made before store schema 6 do not keep it.
             */
            columns: {
                [key: string]: components["schemas"]["SeriesColumn"];
            };
            /**
             * @description Holes, at most 1000, and points without data that no hole explains; these have the reason `no data`, `before the first data`, or
             *     `after the last data`, where the newest interval ended.
             */
            gaps: components["schemas"]["Gap"][];
            /** @description The host runs Windows: its softirq is time in deferred procedure calls, its irq that in interrupt service routines. */
            is_windows: boolean;
            kept?: components["schemas"]["Kept"] | null;
            /** @description Start of the range that was asked for. */
            since_ns: components["schemas"]["Nanos"];
            /** @description End of the range. */
            until_ns: components["schemas"]["Nanos"];
        };
        /** @description Hosts that reported since the receiver started. */
        Hosts: {
            /** @description By name. */
            hosts: components["schemas"]["ListedHost"][];
            /** @description Hosts there are. */
            total?: number;
        };
        /** @description A colour by its meaning; the theme gives the actual one. */
        Ink: {
            /** @description A name in `web/src/charts.json`. */
            named: string;
        } | {
            /** @description The colour of the nth line; the colours repeat. */
            nth: number;
        };
        /** @description What happened between two snapshots of one host. */
        Interval: {
            /**
             * @description End of the snapshot that begins it.
             * @default {
             *       "boot_ns": 0,
             *       "mono_ns": 0,
             *       "wall_ns": 0
             *     }
             */
            begin: components["schemas"]["Moment"];
            /**
             * @description The boot in which pids and start times count.
             * @default 00000000000000000000000000000000
             */
            boot: components["schemas"]["BootId"];
            /**
             * @description Control groups that have a limit on their path or that waited for a CPU, ascending by id; from a store by path. Where
             *     [`Fields::CGROUPS`] is measured, others have no limit, unless some were left out.
             * @default []
             */
            cgroups: components["schemas"]["CgroupInterval"][];
            /**
             * Format: int32
             * @description Groups in use that are not measured, as of its end.
             * @default 0
             */
            cgroups_left_out: number;
            /**
             * @description Per CPU; empty if unknown.
             * @default []
             */
            cpus: components["schemas"]["CpuInterval"][];
            /**
             * @description Run delays that ended, by owner, ascending; owners without any are left out.
             * @default []
             */
            delays: components["schemas"]["Delays"][];
            /**
             * @description End of the snapshot that ends it. A receiver moves both wall times to its own time line if the device's clock is wrong.
             * @default {
             *       "boot_ns": 0,
             *       "mono_ns": 0,
             *       "wall_ns": 0
             *     }
             */
            end: components["schemas"]["Moment"];
            /**
             * @description Which counters are known.
             * @default []
             */
            fields: components["schemas"]["Fields"];
            /**
             * @description Oddities of the interval as a whole.
             * @default []
             */
            flags: components["schemas"]["Flags"];
            /**
             * @description What the source could not do, cumulative.
             * @default {
             *       "cuts_lost": 0,
             *       "endings_lost": 0,
             *       "execs_lost": 0,
             *       "exits_lost": 0,
             *       "hidden_left_out": 0,
             *       "histogram_drops": 0,
             *       "intervals_late": 0,
             *       "intervals_skipped": 0,
             *       "malformed": 0,
             *       "own_cpu_ns": 0,
             *       "own_rss_bytes": 0,
             *       "permission_denied": 0,
             *       "probes": [],
             *       "ring_drops": 0,
             *       "run_queue_unknown": 0,
             *       "sched_missed_switches": 0,
             *       "sched_untracked": 0,
             *       "tasks_vanished": 0,
             *       "wakers_unknown": 0,
             *       "wakeups_unknown": 0
             *     }
             */
            health: components["schemas"]["SourceHealth"];
            /**
             * @description The host that was measured.
             * @default 00000000000000000000000000000000
             */
            host: components["schemas"]["HostId"];
            /**
             * @description Interrupt lines that were handled, ascending by number.
             * @default []
             */
            irqs: components["schemas"]["IrqInterval"][];
            /**
             * @description Where the CPU time of the interval went.
             * @default {
             *       "capacity_ns": 0,
             *       "exited_ns": 0,
             *       "idle_ns": 0,
             *       "irq_in_run_time": false,
             *       "irq_ns": 0,
             *       "softirq_ns": 0,
             *       "steal_ns": 0,
             *       "threads_ns": 0,
             *       "unknown_ns": 0
             *     }
             */
            ledger: components["schemas"]["Ledger"];
            /**
             * Format: int64
             * @description How long the ending snapshot's collection pass took, ns.
             * @default 0
             */
            pass_ns: number;
            /** @default null */
            pressure: components["schemas"]["Pressure"] | null;
            /**
             * Format: int32
             * @description Processes alive on the host.
             * @default 0
             */
            process_count: number;
            /**
             * @description Processes, ascending by key: all live ones if the ending snapshot was complete, else those that changed.
             * @default []
             */
            processes: components["schemas"]["ProcessInterval"][];
            /**
             * Format: int64
             * @description Sequence number of the snapshot that ends it.
             * @default 0
             */
            sequence: number;
            /**
             * @description The source that measured.
             * @default unknown
             */
            source: components["schemas"]["SourceKind"];
            /**
             * Format: int32
             * @description Threads alive on the host.
             * @default 0
             */
            thread_count: number;
            /**
             * @description Threads, ascending by key: all live ones if the ending snapshot was complete, else those that changed.
             * @default []
             */
            threads: components["schemas"]["ThreadInterval"][];
            /** @default null */
            trust: components["schemas"]["Trust"] | null;
            /**
             * Format: int64
             * @description The device's own time stamp in a v1 datagram, 100 ns ticks since 0001-01-01 local time; such intervals stand on
             *     the receiver's clock.
             * @default null
             */
            v1_ticks: number | null;
            /**
             * @description Waits of a millisecond and more that ended in it, by who ended them; each key once, ascending. Where a snapshot was lost on the
             *     way, those of its time are missing.
             * @default []
             */
            waits_for: components["schemas"]["WaitFor"][];
            /**
             * Format: int64
             * @description The device's own wall clock at the end less the time in `end`, ns; 0: it is the device's own.
             * @default 0
             */
            wall_shift_ns: number;
        };
        /** @description One interrupt line over an interval. */
        IrqInterval: {
            /**
             * Format: int64
             * @description Times it was handled in the interval.
             * @default 0
             */
            count: number;
            /**
             * Format: int32
             * @description Number of the line.
             * @default 0
             */
            irq: number;
            /**
             * @description Name of the line in /proc/interrupts.
             * @default
             */
            name: string;
            /**
             * Format: int64
             * @description Time in its handlers in the interval, ns.
             * @default 0
             */
            time_ns: number;
        };
        /** @description Stored data of a host, and its configured interval. */
        Kept: components["schemas"]["Available"] & {
            /**
             * Format: int64
             * @description Configured interval of the host, ns: the next one ends this long after `last_ns`. 0: not known.
             */
            interval_ns: number;
        };
        /** @description Where the CPU time of one interval went, ns, whole host. The unattributed rest is shown, never spread or clamped. */
        Ledger: {
            /**
             * Format: int64
             * @description CPUs online × measured length of the interval.
             * @default 0
             */
            capacity_ns: number;
            /**
             * Format: int64
             * @description Run time in this interval of threads that ended in it.
             * @default 0
             */
            exited_ns: number;
            /**
             * Format: int64
             * @description Time with nothing to run, iowait included.
             * @default 0
             */
            idle_ns: number;
            /**
             * @description irq and softirq are not lines of their own: the kernel charges them to the thread that was running.
             * @default false
             */
            irq_in_run_time: boolean;
            /**
             * Format: int64
             * @description Hard interrupts; 0 when they are inside the threads' run time (`irq_in_run_time`).
             * @default 0
             */
            irq_ns: number;
            /**
             * Format: int64
             * @description Soft interrupts; 0 when they are inside the threads' run time.
             * @default 0
             */
            softirq_ns: number;
            /**
             * Format: int64
             * @description Taken by the hypervisor.
             * @default 0
             */
            steal_ns: number;
            /**
             * Format: int64
             * @description Run time of threads that are alive at the end.
             * @default 0
             */
            threads_ns: number;
            /**
             * Format: int64
             * @description The part of the unattributed time that has a counted cause: time that no switch event attributes to a thread, less the run
             *     time of threads flagged `UNWATCHED`. Negative if that run time was counted a clock tick late, and belongs to the unknown time of
             *     the interval before. Not a line of its own; 0 where no switch events are measured.
             * @default 0
             */
            unknown_ns: number;
        };
        /** @description The lines of one host, of one CPU or of one interval, ns. `None`: no data. */
        LedgerLines: {
            /**
             * Format: int64
             * @description Number of CPUs × measured length.
             */
            capacity_ns: number;
            /**
             * Format: int64
             * @description Run time of threads that exited; `None` of a single CPU, whose modes hold it in `threads`.
             */
            exited_ns?: number | null;
            /**
             * Format: int64
             * @description Idle time, waiting for disks included.
             */
            idle_ns: number;
            /**
             * Format: int64
             * @description `None`: inside the threads' run time.
             */
            irq_ns?: number | null;
            /**
             * Format: int64
             * @description `None`: inside the threads' run time.
             */
            softirq_ns?: number | null;
            /**
             * Format: int64
             * @description Time that the hypervisor took.
             */
            steal_ns: number;
            /**
             * Format: int64
             * @description Run time of threads that are alive.
             */
            threads_ns: number;
            /**
             * Format: int64
             * @description Capacity less all others: it can be negative.
             */
            unattributed_ns: number;
            /**
             * Format: int64
             * @description `None`: no switch events were measured.
             */
            unknown_ns?: number | null;
        };
        /** @description Ledgers of one host added up. */
        LedgerSum: {
            /** @description Start of the first interval; `i64::MAX` while there is none. */
            begin_ns: components["schemas"]["Nanos"];
            /**
             * Format: int64
             * @description Sum of the lengths of those intervals, ns.
             */
            covered_ns: number;
            /** @description Each CPU. */
            cpus: {
                [key: string]: components["schemas"]["CpuModes"];
            };
            /** @description End of the last interval; `i64::MIN` while there is none. */
            end_ns: components["schemas"]["Nanos"];
            /** @description Counters that all intervals have. */
            fields: components["schemas"]["Fields"];
            /** @description Why much of the time is unattributed: processes that the agent may not see; null: there are none. */
            hidden?: string | null;
            /** @description Its name; hostile. */
            host: string;
            /**
             * Format: int64
             * @description Intervals with a ledger; those without are left out.
             */
            intervals: number;
            /** @description Whether Windows was measured: its lines have other names. */
            is_windows: boolean;
            /** @description The sources that measured, by name. */
            sources: components["schemas"]["SourceKind"][];
            /** @description All intervals together. */
            sum: components["schemas"]["Ledger"];
            /**
             * Format: int64
             * @description Intervals without CPU times (v1 devices).
             */
            without: number;
            /** @description The intervals with most unattributed, by share of their capacity. */
            worst: components["schemas"]["WorstInterval"][];
        };
        /**
         * @description What became of a task inside the interval.
         * @enum {string}
         */
        Life: "alive" | "born" | "ended" | "born_ended";
        /** @description Limits at which a mark or a colour changes. */
        Limits: {
            /**
             * Format: double
             * @description A ledger is balanced if at most this share of the capacity is not attributed.
             */
            balanced_ratio: number;
            /**
             * Format: double
             * @description A host is late once its newest interval is older than this many of its intervals, and than `late_ns`.
             */
            late_intervals: number;
            /**
             * Format: int64
             * @description The least age of a late host, ns.
             */
            late_ns: number;
            /**
             * Format: double
             * @description A host is silent once its newest interval is older than this many of its intervals, and than `silent_ns`.
             */
            silent_intervals: number;
            /**
             * Format: int64
             * @description The least age of a silent host, ns.
             */
            silent_ns: number;
        };
        /** @description One task, or all processes of a name, over time. */
        Line: {
            began_ns?: components["schemas"]["Nanos"] | null;
            /**
             * @description By name, a value a point: 0 if it was idle or not there, null where nothing was measured. Times and counts are sums;
             *     percentiles of the run delay are those of all delays in the point, the longest run delay is the highest.
             */
            columns: {
                [key: string]: (number | null)[];
            };
            ended_ns?: components["schemas"]["Nanos"] | null;
            first_ns?: components["schemas"]["Nanos"] | null;
            /** @description Key of the task. It is not deserialized, because the text does not say whether it names a process or a thread: lines keep the order of the request. */
            key?: string | null;
            /** @description `process`, `thread` or `name`. */
            kind: string;
            last_ns?: components["schemas"]["Nanos"] | null;
            /**
             * @description The highest run time of a single interval in each point, ns per second. For a name, all its processes together; where sums were
             *     read, a lower bound: the highest of any one process, and at least the mean of all together.
             */
            max_run_ns_per_s: (number | null)[];
            /** @description Its newest name; null if it did nothing in the range. */
            name?: string | null;
        };
        /** @description Chosen tasks over time. */
        Lines: components["schemas"]["BucketTimes"] & {
            /**
             * @description Holes, at most 1000, and points without data that no hole explains; these have the reason `no data`, `before the first data`, or
             *     `after the last data`, where the newest interval ended.
             */
            gaps: components["schemas"]["Gap"][];
            /** @description In the order they were asked for. */
            lines: components["schemas"]["Line"][];
            /** @description Start of the range that was asked for. */
            since_ns: components["schemas"]["Nanos"];
            /** @description End of the range. */
            until_ns: components["schemas"]["Nanos"];
        };
        /** @description A host as it is listed. */
        ListedHost: components["schemas"]["Host"] & {
            /**
             * Format: int64
             * @description The device's wall clock less the receiver's, ns: by exchanges of time over TLS, else as the newest interval arrived, the
             *     way included.
             */
            clock_offset_ns: number;
        };
        /** @description The token that a person types. */
        Login: {
            /** @description A token that `cpumon login-token add` made. */
            token: string;
        };
        /** @description What was lost, doubled or refused between a host and this receiver; cumulative since the receiver started. */
        Loss: {
            /**
             * Format: int64
             * @description Bytes of those datagrams.
             * @default 0
             */
            bytes: number;
            /**
             * Format: int64
             * @description Datagrams that arrived from this host.
             * @default 0
             */
            datagrams: number;
            /**
             * Format: int64
             * @description Datagrams that arrived a second time.
             * @default 0
             */
            duplicates: number;
            /**
             * Format: int64
             * @description Datagrams that could not be decoded.
             * @default 0
             */
            rejected: number;
            /**
             * Format: int64
             * @description Datagrams that arrived after a later one.
             * @default 0
             */
            reordered: number;
            /**
             * Format: int64
             * @description Snapshots put together completely.
             * @default 0
             */
            snapshots: number;
            /**
             * Format: int64
             * @description Snapshots lost as a whole: none of their fragments arrived (sequence gaps).
             * @default 0
             */
            snapshots_lost: number;
            /**
             * Format: int64
             * @description Snapshots lost in part: some of their fragments never arrived. The rest was used.
             * @default 0
             */
            snapshots_partial: number;
            /**
             * Format: int64
             * @description Intervals thrown away because the store's queue was full.
             * @default 0
             */
            store_dropped: number;
        };
        /** @description Tasks over time, as `sort` says. */
        Matrix: components["schemas"]["BucketTimes"] & {
            /**
             * @description Holes, at most 1000, and points without data that no hole explains; these have the reason `no data`, `before the first data`, or
             *     `after the last data`, where the newest interval ended.
             */
            gaps: components["schemas"]["Gap"][];
            /** @description All others together, run time a point. */
            other: (number | null)[];
            /** @description Those that are shown. */
            rows: components["schemas"]["MatrixRow"][];
            /** @description Start of the range that was asked for. */
            since_ns: components["schemas"]["Nanos"];
            /** @description All tasks of the range, shown or not. */
            total: number;
            /** @description End of the range. */
            until_ns: components["schemas"]["Nanos"];
        };
        /** @description One task of a matrix. */
        MatrixRow: {
            /** @description Start of the first span in which it did something. */
            first_ns: components["schemas"]["Nanos"];
            /** @description Its key; null for processes of a name. */
            key?: string | null;
            /** @description End of the last one. */
            last_ns: components["schemas"]["Nanos"];
            /** @description Life in the range, as far as known: `alive`, `born`, `ended` or `born_ended`. */
            life: string;
            /**
             * @description The highest run time of a single interval in each point, ns per second. For several processes read from sums: the highest of any one
             *     process, and at least the mean of all together.
             */
            max: (number | null)[];
            /** @description Its name. */
            name: string;
            /**
             * Format: int64
             * @description Run time in the range.
             */
            total_ns: number;
            /** @description Run time a point: 0 if it was idle or not there, null where nothing was measured. */
            values: (number | null)[];
        };
        /** @description One instant on three clocks. */
        Moment: {
            /**
             * Format: int64
             * @description `CLOCK_BOOTTIME`, ns: start times are on this clock (it runs on during suspend).
             * @default 0
             */
            boot_ns: number;
            /**
             * Format: int64
             * @description `CLOCK_MONOTONIC`, ns: lengths are measured on this clock.
             * @default 0
             */
            mono_ns: number;
            /**
             * Format: int64
             * @description `CLOCK_REALTIME`, ns since the UNIX epoch: for people; may jump.
             * @default 0
             */
            wall_ns: number;
        };
        /** @description Nanoseconds, as text: a browser's numbers end at 2^53. Of moments since the UNIX epoch, of starts in keys since boot. */
        Nanos: string;
        /** @description Nothing was measured at that moment. */
        NothingThen: components["schemas"]["Problem"] & {
            after_ns?: components["schemas"]["Nanos"] | null;
            before_ns?: components["schemas"]["Nanos"] | null;
        };
        /** @description The highest single interval of a group. */
        Peak: {
            /** @description End of the interval; end of a whole minute or hour if its intervals are no longer stored. */
            end_ns: components["schemas"]["Nanos"];
            /** @description Whether no interval can be higher. Not where a group has many processes and only their sums are left. */
            is_exact: boolean;
            /**
             * Format: int64
             * @description Run time, ns per second.
             */
            ns_per_s: number;
        };
        /** @description Time in which tasks waited for a CPU (Documentation/accounting/psi.rst), waiting for a new period included. */
        Pressure: {
            /**
             * Format: int64
             * @description All that were not idle waited, ns. 0 for a whole host, and before Linux 5.13, which do not count it.
             * @default 0
             */
            full_ns: number;
            /**
             * Format: int64
             * @description At least one waited, ns.
             * @default 0
             */
            some_ns: number;
        };
        Probes: string[];
        /** @description An error, RFC 9457. */
        Problem: {
            /** @description The error and its reason. */
            detail: string;
            /** @description The error of a question for programs: its kind and its figures. Absent: another error. */
            error?: Record<string, never> | null;
            /** @description The remedy. */
            how?: string;
            /**
             * Format: int32
             * @description HTTP status code.
             */
            status: number;
            /** @description The status in words. */
            title: string;
            /** @description `about:blank`: the status says it all. */
            type: string;
        };
        /** @description Description of a process. It changes on exec, setuid or a move between cgroups, so it is shared and replaced, not edited. */
        ProcessInfo: {
            /**
             * Format: int32
             * @description Base priority of a process of Windows, 0 to 31; `None`: not known, or another system.
             * @default null
             */
            base_priority: number | null;
            /**
             * @description cgroup v2 path (or the v1 `cpu` controller's path); empty if none or unreadable.
             * @default
             */
            cgroup: string;
            /**
             * @description Full command line, scrubbed of secrets, arguments joined by spaces; empty unless `--cmdline`.
             * @default
             */
            cmdline: string;
            /**
             * @description The main thread's comm.
             * @default
             */
            comm: string;
            /**
             * @description Container or systemd unit name derived from the cgroup; empty if none.
             * @default
             */
            container: string;
            /**
             * @description Base name of the executable that runs the script; empty where `name` is the executable.
             * @default
             */
            interpreter: string;
            /**
             * @description Whether it works for the kernel only.
             * @default false
             */
            is_kernel: boolean;
            /**
             * @description Name shown for the process: the base name of the script that it runs, else of its executable where known, else the main
             *     thread's comm.
             * @default
             */
            name: string;
            /**
             * @description Product name in the version resource of the executable, which its author chose: shown beside the name, and never a key.
             *     Empty: none, not known, or another system than Windows.
             * @default
             */
            product: string;
            /**
             * Format: int32
             * @description Session of Windows: 0 is that of services, each login has one; `None`: not known, or another system.
             * @default null
             */
            session: number | null;
            /**
             * Format: int32
             * @description Real user id of the process.
             * @default 0
             */
            uid: number;
            /**
             * @description Name of that user on its host; empty if unknown.
             * @default
             */
            user: string;
        };
        /** @description One process over an interval: the sum of its threads, ended ones included. */
        ProcessInterval: {
            /**
             * @description Sum over its threads (and over those that ended without a row).
             * @default {}
             */
            delta: components["schemas"]["Delta"];
            /**
             * @description Oddities, those of its threads included.
             * @default []
             */
            flags: components["schemas"]["Flags"];
            /**
             * @description Name, user, cgroup and command line.
             * @default {
             *       "name": ""
             *     }
             */
            info: components["schemas"]["ProcessInfo"];
            /**
             * @description Id and start; unique within a boot.
             * @default {
             *       "pid": 0,
             *       "start_ns": 0
             *     }
             */
            key: components["schemas"]["ProcessKey"];
            /**
             * @description Whether it began or ended in the interval.
             * @default alive
             */
            life: components["schemas"]["Life"];
            /**
             * Format: int32
             * @description Pid of the parent process; 0 for none.
             * @default 0
             */
            parent_pid: number;
            /**
             * @description Sum over its threads, those that only waited included, with or without a row of their own.
             * @default {}
             */
            sched: components["schemas"]["SchedDelta"];
            /**
             * Format: int32
             * @description Number of the process's threads, ended ones included: those with a row, and those at rest once a receiver has added them.
             * @default 0
             */
            thread_rows: number;
        };
        /** @description A process (thread group) under a host and boot. */
        ProcessKey: {
            /**
             * Format: int32
             * @description Process id as users know it (the kernel: thread group id).
             * @default 0
             */
            pid: number;
            /**
             * Format: int64
             * @description Start of the process, ns since boot (`CLOCK_BOOTTIME`); 0 where the sender does not know it (v1).
             * @default 0
             */
            start_ns: number;
        };
        /** @description A process over time. */
        ProcessLine: components["schemas"]["Lines"] & {
            /** @description Its description. */
            process: components["schemas"]["ProcessThen"];
            /** @description Its waits, the longest first; empty where waits were not measured (sums of a minute do not keep them). */
            waits: components["schemas"]["WaitLine"][];
        };
        /** @description A process. */
        ProcessThen: {
            /** @description cgroup path. */
            cgroup: string;
            /** @description Command line, only if the agent is set to send it. */
            cmdline: string;
            /** @description The main thread's name. */
            comm: string;
            /** @description Container or unit name. */
            container: string;
            /** @description Base name of the executable that runs the script; empty where the name is the executable's. */
            interpreter: string;
            /** @description A kernel thread. */
            is_kernel: boolean;
            /** @description Its key. */
            key: string;
            /** @description Base name of the script that it runs, else of its executable, else the main thread's name. */
            name: string;
            /**
             * Format: int32
             * @description Parent's pid; 0 for none.
             */
            parent_pid: number;
            /**
             * Format: int32
             * @description Process id.
             */
            pid: number;
            /** @description Priority class on Windows; a base priority that belongs to no class, as a number; null on other systems. */
            priority_class?: string | null;
            /** @description Product name in the version resource of its executable on Windows; null: none, or another system. */
            product?: string | null;
            /**
             * Format: int32
             * @description Session on Windows: 0 is that of services; null on other systems.
             */
            session?: number | null;
            /**
             * Format: int32
             * @description Real user id.
             */
            uid: number;
            /** @description Name of that user on its host; empty if not known. */
            user: string;
        };
        /** @description Counters over all senders since the receiver started. */
        Receiver: {
            /**
             * @description Whether v2 datagrams that are not encrypted are taken.
             * @default false
             */
            accepts_plain: boolean;
            /**
             * @description Whether v1 datagrams are taken.
             * @default false
             */
            accepts_v1: boolean;
            /**
             * Format: int64
             * @description Bytes of these datagrams.
             * @default 0
             */
            bytes: number;
            /**
             * Format: int64
             * @description Hosts whose name was the id of another one: they are shown as `host-ID`.
             * @default 0
             */
            changed_names: number;
            /**
             * Format: int64
             * @description Datagrams taken from the kernel.
             * @default 0
             */
            datagrams: number;
            /**
             * Format: int64
             * @description Threads that were not received any more and whose end was in no datagram: their last CPU time is not known.
             * @default 0
             */
            ended_unseen: number;
            /**
             * Format: int64
             * @description Intervals that were decoded and shown.
             * @default 0
             */
            intervals: number;
            /**
             * Format: int64
             * @description Datagrams the kernel threw away because the socket's buffer was full (`SO_RXQ_OVFL`, socket(7)).
             * @default 0
             */
            kernel_dropped: number;
            /**
             * @description Names of the group's keys in use.
             * @default []
             */
            keys: string[];
            /**
             * Format: int64
             * @description Encrypted datagrams that were decrypted.
             * @default 0
             */
            opened: number;
            /**
             * Format: int64
             * @description Failed receive calls.
             * @default 0
             */
            receive_errors: number;
            /**
             * Format: int64
             * @description Datagrams that could not be used.
             * @default 0
             */
            rejected: number;
            /**
             * @description Senders of rejected datagrams, most rejects first; at most 64 are shown, all further ones together as `others`.
             * @default []
             */
            rejected_by: components["schemas"]["Rejects"][];
            /**
             * @description How many were rejected for which kind of reason; what did not happen is left out: `malformed`, `host_limit` (too many
             *     hosts), `plain` and `v1` (not encrypted, and not allowed), `unknown_key`, `bad_seal`, `replayed`, `rate_limit`
             *     (its source sent more than one may).
             * @default {}
             */
            rejected_for: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Rows that were left out because a host has more processes, threads or control groups than are taken.
             * @default 0
             */
            rows_over_limit: number;
            /**
             * @description How full the tables of hosts are that send datagrams.
             * @default {
             *       "encrypted_hosts": 0,
             *       "held_bytes": 0,
             *       "max_hosts": 0,
             *       "plain_hosts": 0,
             *       "v1_hosts": 0
             *     }
             */
            tables: components["schemas"]["Tables"];
        };
        /** @description Data that the receiver itself lost since it started; `/api/v1/status` has the details. */
        ReceiverHealth: {
            /**
             * Format: int64
             * @description Datagrams that came.
             */
            datagrams: number;
            /**
             * Format: int64
             * @description Datagrams that the kernel threw away because the socket's buffer was full.
             */
            kernel_dropped: number;
            /**
             * Format: int64
             * @description Datagrams that could not be used, and connections and snapshots of devices that could not.
             */
            rejected: number;
            /** @description The source of most of those, and why its last one could not be used; empty: none. */
            rejected_why: string;
            /** @description Whether intervals are being kept. */
            store: components["schemas"]["StoreState"];
            /** @description Why the receiver's clock cannot be right; nothing is deleted by age meanwhile. Empty: no doubt. */
            store_clock: string;
            /**
             * Format: int64
             * @description Intervals that were shown and not stored.
             */
            store_dropped: number;
            /** @description Why not; empty while they are. */
            store_error: string;
            /** @description Why hosts that do not report may be missing in the list: the store cannot be read. Empty: none is. */
            stored_error: string;
            /** @description TCP address for enrolled devices; null: none. */
            tls?: string | null;
            /** @description UDP addresses that it listens on. */
            udp: string[];
        };
        /** @description A recording on request, of the receiver's own machine. */
        Recording: {
            /**
             * Format: int64
             * @description Bytes written so far.
             */
            bytes: number;
            /** @description Why there is no trace, or why it is not stored yet; empty otherwise. */
            detail: string;
            /**
             * Format: int64
             * @description Events so far.
             */
            events: number;
            /**
             * Format: int64
             * @description Time until it ends, ms.
             */
            left_ms: number;
            /**
             * Format: int64
             * @description Events that did not fit in the buffers.
             */
            lost: number;
            /**
             * Format: int64
             * @description Number of the recording since the receiver started, from 1.
             */
            number: number;
            /** @description State of the recording. */
            state: components["schemas"]["RecordingState"];
            /** @description Number of the stored trace; text in JSON. */
            trace?: string | null;
        };
        /**
         * @description How far a recording is.
         * @enum {string}
         */
        RecordingState: "recording" | "storing" | "stored" | "failed";
        /** @description What was rejected from one sender. */
        Rejects: {
            /**
             * @description How many for which kind of reason; only of datagrams.
             * @default {}
             */
            by_kind: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Datagrams rejected.
             * @default 0
             */
            count: number;
            /**
             * @description Why the last one was rejected.
             * @default
             */
            reason: string;
            /**
             * @description IP address of the sender (spoofable); `others` for those beyond the table's bound.
             * @default
             */
            source: string;
        };
        /** @description Who used the CPU. */
        Report: {
            before?: components["schemas"]["TimeRange"] | null;
            /** @description The hosts that have data in the range. */
            hosts: components["schemas"]["ReportHost"][];
            /** @description The range that was asked for. */
            range: components["schemas"]["TimeRange"];
            /** @description Groups that come first, then one row of those that are not shown, then one of run time that is in no group. */
            rows: components["schemas"]["ReportRow"][];
            /** @description Groups there are, at most 50,000 a host; the row `rest` has what came later. */
            total: number;
            /**
             * Format: int64
             * @description Run time of all threads of all hosts by their ledgers: exactly the sum of `run_ns` of all rows.
             */
            used_ns: number;
        };
        /** @description What was read of one host. */
        ReportHost: {
            /**
             * Format: int64
             * @description Measured time.
             */
            covered_ns: number;
            /** @description The host. */
            host: components["schemas"]["HostId"];
            /** @description Its name; hostile. */
            name: string;
            /** @description The range that was read: wider than asked for where only sums are left of its ends. */
            range: components["schemas"]["TimeRange"];
            /** @description The coarsest data that was read: `interval`, `minute` or `hour`. */
            resolution: string;
            /** @description Points over time of the rows. */
            times: components["schemas"]["BucketTimes"];
            /** @description Run time of all threads a point; null: nothing was measured. */
            used: (number | null)[];
            /**
             * Format: int64
             * @description Run time of all threads by the ledger.
             */
            used_ns: number;
        };
        /** @description A row of a report. Null: not measured, or not of this kind of row. */
        ReportRow: {
            before?: components["schemas"]["Before"] | null;
            /**
             * Format: double
             * @description Threads that were blocked on average.
             */
            blocked_mean?: number | null;
            /**
             * Format: int64
             * @description Blocked time of threads in intervals in which they were active.
             */
            blocked_ns?: number | null;
            /**
             * Format: double
             * @description By how much the utilization changed, percent of one CPU.
             */
            change_cpu_pct?: number | null;
            /**
             * Format: double
             * @description Run time in percent of one CPU.
             */
            cpu_pct?: number | null;
            /**
             * Format: int64
             * @description Measured time of its host; null: of several hosts.
             */
            duration_ns?: number | null;
            first_ns?: components["schemas"]["Nanos"] | null;
            /** @description Name of its host; hostile. Null: of several hosts. */
            host?: string | null;
            /**
             * Format: int64
             * @description Switches by which it was pushed off while it could run.
             */
            involuntary_switches?: number | null;
            /** @description Kind of the row. */
            kind: components["schemas"]["RowKind"];
            last_ns?: components["schemas"]["Nanos"] | null;
            limits?: components["schemas"]["GroupLimits"] | null;
            /**
             * Format: int64
             * @description Page faults that needed the disk.
             */
            major_faults?: number | null;
            /**
             * Format: int64
             * @description Page faults that needed no disk.
             */
            minor_faults?: number | null;
            /** @description The group; hostile. */
            name: string;
            peak?: components["schemas"]["Peak"] | null;
            /**
             * Format: int32
             * @description The pid of its process, where a row is a process or a thread.
             */
            pid?: number | null;
            /** @description Run time a point of its host's times; null: nothing was measured. Empty for rows of several groups. */
            points: (number | null)[];
            process_start_ns?: components["schemas"]["Nanos"] | null;
            /**
             * Format: double
             * @description Threads that were ready on average.
             */
            ready_mean?: number | null;
            /**
             * Format: int64
             * @description Time ready, waiting for a CPU.
             */
            run_delay_ns?: number | null;
            /**
             * Format: int64
             * @description Run time.
             */
            run_ns?: number | null;
            /**
             * Format: double
             * @description Run time in percent of that of all threads.
             */
            share_pct?: number | null;
            start_ns?: components["schemas"]["Nanos"] | null;
            /**
             * Format: int64
             * @description Run time in kernel mode.
             */
            system_ns?: number | null;
            /**
             * Format: int32
             * @description Id of its thread.
             */
            tid?: number | null;
            /**
             * Format: int64
             * @description Run time in user mode.
             */
            user_ns?: number | null;
            /**
             * Format: int64
             * @description Switches to wait.
             */
            voluntary_switches?: number | null;
            /** @description The longest wait, summed over threads; empty: none, or not known over the whole range. */
            waits: components["schemas"]["Waits"];
        };
        /**
         * @description What a row of a report is.
         * @enum {string}
         */
        RowKind: "group" | "short-lived" | "rest" | "not attributed";
        RowOfCell: {
            [key: string]: null | number | string;
        };
        /** @description Growth of [`SchedTimes`] over an interval. */
        SchedDelta: {
            /**
             * Format: int64
             * @description Blocked time in the interval, ns.
             * @default 0
             */
            blocked_ns: number;
            /**
             * Format: int64
             * @description Run delay after wakeups in the interval, ns.
             * @default 0
             */
            delay_after_wakeup_ns: number;
            /**
             * Format: int64
             * @description Longest single run delay that ended in the interval or was open at its end, ns; a process shows its threads' longest.
             * @default 0
             */
            longest_delay_ns: number;
            /**
             * Format: int64
             * @description Migrations in the interval.
             * @default 0
             */
            migrations: number;
            /**
             * @description Reason of the wait that was open at the interval's end; none for a process.
             * @default 0
             */
            open_wait: components["schemas"]["WaitReason"];
            /**
             * @description Blocked time by reason in the interval.
             * @default []
             */
            waits: components["schemas"]["Waits"];
            /**
             * Format: int64
             * @description Wakeups in the interval.
             * @default 0
             */
            wakeups: number;
        };
        /** @description One column over time. */
        SeriesColumn: {
            /** @description The highest rate of a single interval, ns per second; of counts, the highest count. */
            max?: (number | null)[] | null;
            /** @description The lowest rate of a single interval, ns per second. */
            min?: (number | null)[] | null;
            /** @description Sum in each point; divided by `covered_ns` it is the mean rate. */
            sum?: (number | null)[] | null;
        };
        /** @description Features of this receiver for its reader. */
        Session: {
            /** @description Limits at which a mark or a colour changes. */
            limits: components["schemas"]["Limits"];
            /** @description Whether one did, or need not. */
            logged_in: boolean;
            /** @description Whether one must log in. */
            login_required: boolean;
            /** @description The receiver's clock. */
            now_ns: components["schemas"]["Nanos"];
            /** @description Whether the past is kept. */
            store: boolean;
            /** @description The receiver's version. */
            version: string;
            /** @description Wait reasons in words: `futex` is a `lock`. Reasons that are not named here are clear by their name. */
            wait_words: {
                [key: string]: string;
            };
        };
        /** @description An interval with the serial number that the receiver gave it: pass it as `?newer_than=` to wait for the next one. */
        Shown: {
            /** @description The interval. */
            interval: components["schemas"]["Interval"];
            /**
             * Format: int64
             * @description Counts this host's intervals, from 1; 0 if it comes from the store.
             */
            number?: number;
            /**
             * Format: int64
             * @description Rises with every interval of any host, from 1; begins again when the receiver starts. 0: from the store.
             */
            serial: number;
        };
        /** @description One interval of one host. */
        Snapshot: components["schemas"]["SnapshotBase"] & {
            /**
             * Format: int64
             * @description How long ago the host's newest interval came to the receiver; absent in answers about the past.
             */
            age_ns?: number | null;
            /**
             * Format: int64
             * @description Intervals before this one that this reader did not get: it was too slow, or they had left memory.
             */
            skipped: number;
            /** @description Threads of the processes that were asked for, a table a process (or one for all); column `process` has its key. */
            threads: components["schemas"]["Table"][];
        };
        /** @description One interval of one host, without the parts that differ between readers. */
        SnapshotBase: {
            /** @description Start, on the device's wall clock, or on the receiver's time line where that clock is wrong. */
            begin_ns: components["schemas"]["Nanos"];
            /** @description Boot id. */
            boot: string;
            /**
             * @description A row a control group that has a CPU limit on its path, or whose limit is unknown. Where `CGROUPS` is measured and
             *     `cgroups_left_out` is 0, others have none.
             */
            cgroups: components["schemas"]["Table"];
            /** @description A row a CPU. */
            cpus: components["schemas"]["Table"];
            /**
             * Format: int64
             * @description Measured length on the monotonic clock, ns. Rates divide by it.
             */
            duration_ns: number;
            /**
             * Format: double
             * @description End in ms, for drawing.
             */
            end_ms: number;
            /** @description End, likewise. */
            end_ns: components["schemas"]["Nanos"];
            /** @description The measured counters; any other one is unknown, not zero. */
            fields: string[];
            /** @description Oddities of the whole interval. */
            flags: string[];
            /** @description Host id. */
            host: string;
            /** @description Its name. Hostile text unless `trust` is `local`. */
            hostname: string;
            /** @description A row an interrupt line that was handled, most time first; no columns where lines are not measured. */
            irqs: components["schemas"]["Table"];
            /**
             * Format: int64
             * @description Counts the host's intervals since the receiver started; 0: from the store.
             */
            number: number;
            /** @description A row a process, most run time first. One that is not listed did nothing. */
            processes: components["schemas"]["Table"];
            /** @description Source of the measurement: `procfs`, `bpf`, `v1`, … */
            source: string;
            /** @description Ledger, CPU modes of all CPUs together, counts, health: the columns of table `host`. */
            summary: components["schemas"]["RowOfCell"];
            /** @description `local`, `authenticated`, `sealed`, `unauthenticated` or `imported`. */
            trust: string;
            /**
             * Format: int64
             * @description The device's own wall clock at the end less `end_ns`, ns; 0 where that clock is right.
             */
            wall_shift_ns: number;
        };
        /** @description What a source could not do, cumulative since it was opened. Each count reaches the user. */
        SourceHealth: {
            /**
             * Format: int64
             * @description Counters at the instant of a snapshot, of threads that ended while it was made, among `ring_drops`: the run time of these
             *     threads up to that instant is in the next interval.
             * @default 0
             */
            cuts_lost: number;
            /**
             * Format: int64
             * @description Threads on their way out among `ring_drops`: one is missed only if a snapshot falls between the lost event and its last switch.
             * @default 0
             */
            endings_lost: number;
            /**
             * Format: int64
             * @description Execs among `ring_drops`: a process shows under its earlier name until it is read again.
             * @default 0
             */
            execs_lost: number;
            /**
             * Format: int64
             * @description Exit records lost because the kernel's buffer was full.
             * @default 0
             */
            exits_lost: number;
            /**
             * Format: int64
             * @description Threads that BPF does not see and that are not read from /proc either, because there are too many; as of this snapshot, not
             *     cumulative.
             * @default 0
             */
            hidden_left_out: number;
            /**
             * Format: int64
             * @description Run delays without space for a histogram of their process or thread; those of the CPUs have them.
             * @default 0
             */
            histogram_drops: number;
            /**
             * Format: int64
             * @description Intervals that began late (more than a tenth of the interval).
             * @default 0
             */
            intervals_late: number;
            /**
             * Format: int64
             * @description Intervals skipped because the previous pass was still running.
             * @default 0
             */
            intervals_skipped: number;
            /**
             * Format: int64
             * @description Lines of /proc or BPF records that made no sense.
             * @default 0
             */
            malformed: number;
            /**
             * Format: int64
             * @description CPU time of the measuring process itself, ns.
             * @default 0
             */
            own_cpu_ns: number;
            /**
             * Format: int64
             * @description Resident memory of the measuring process, bytes.
             * @default 0
             */
            own_rss_bytes: number;
            /**
             * Format: int64
             * @description Tasks or files the kernel refused to show (EPERM, hidepid).
             * @default 0
             */
            permission_denied: number;
            /**
             * @description What ran in the kernel for this snapshot; not cumulative.
             * @default []
             */
            probes: components["schemas"]["Probes"];
            /**
             * Format: int64
             * @description Events (exits, execs, threads on their way out) that did not fit the kernel's ring buffer or in the list behind
             *     it: the sum of those below, of `exits_lost`, and of lost names of control groups. An older sender reports only this sum.
             * @default 0
             */
            ring_drops: number;
            /**
             * Format: int64
             * @description Snapshots at whose instant the run queues were not known: events were lost, and threads that waited for a CPU may be missing.
             * @default 0
             */
            run_queue_unknown: number;
            /**
             * Format: int64
             * @description Switch events that were missed: one names another task as running than the event before it switched to.
             * @default 0
             */
            sched_missed_switches: number;
            /**
             * Format: int64
             * @description Threads for which the kernel's own counters stood in, because the switch events had no place for them.
             * @default 0
             */
            sched_untracked: number;
            /**
             * Format: int64
             * @description Tasks that vanished while being read (normal).
             * @default 0
             */
            tasks_vanished: number;
            /**
             * Format: int64
             * @description Waits of 1 ms and more that are in no row of who ended them: the kernel's table had no place, the process that waited ended
             *     without a record, or there were too many rows.
             * @default 0
             */
            wakers_unknown: number;
            /**
             * Format: int64
             * @description Switches to a thread whose wakeup time is not known: its whole wait counts as blocked.
             * @default 0
             */
            wakeups_unknown: number;
        };
        /** @description Who measured: procfs, bpf, v1, … */
        SourceKind: string;
        /** @description Utilization of the newest minutes. */
        Spark: {
            /** @description A list a host, the newest value last; null: nothing came. */
            busy_ratio: (number | null)[][];
            /** @description Which hosts, in order. */
            host_ids: string[];
            /**
             * Format: int64
             * @description Time between two values.
             */
            step_ns: number;
        };
        /** @description A small line with its mean, last and highest value beside it, e.g. one host. */
        Sparkline: {
            /** @description Text in the middle of a row without data. */
            empty?: string | null;
            /** @description The highest single interval in each point. */
            highest: (number | null)[];
            /** @description Ranges without data, in order of time. */
            holes: components["schemas"]["Hole"][];
            /**
             * Format: double
             * @description Mean of the whole range.
             */
            mean?: number | null;
            /** @description Name at the left; may come from another machine. */
            name: string;
            /** @description The points. Rows may have different ones: a host may be read from intervals while another one is read from sums. */
            times: components["schemas"]["ChartTimes"];
            /** @description One value for each point; `None` is no data. */
            values: (number | null)[];
        };
        /** @description A receiver: version, addresses, counters, store, hosts. */
        Status: {
            /**
             * @description Every host, by name.
             * @default []
             */
            hosts: components["schemas"]["ListedHost"][];
            /**
             * @description Address of the HTTP API.
             * @default
             */
            http: string;
            /**
             * Format: int64
             * @description Its clock now.
             * @default 0
             */
            now_wall_ns: number;
            /**
             * Format: int32
             * @description Its process id.
             * @default 0
             */
            pid: number;
            /**
             * @description Datagrams in total.
             * @default {
             *       "accepts_plain": false,
             *       "accepts_v1": false,
             *       "bytes": 0,
             *       "changed_names": 0,
             *       "datagrams": 0,
             *       "ended_unseen": 0,
             *       "intervals": 0,
             *       "kernel_dropped": 0,
             *       "keys": [],
             *       "opened": 0,
             *       "receive_errors": 0,
             *       "rejected": 0,
             *       "rejected_by": [],
             *       "rejected_for": {},
             *       "rows_over_limit": 0,
             *       "tables": {
             *         "encrypted_hosts": 0,
             *         "held_bytes": 0,
             *         "max_hosts": 0,
             *         "plain_hosts": 0,
             *         "v1_hosts": 0
             *       }
             *     }
             */
            receiver: components["schemas"]["Receiver"];
            /**
             * Format: int64
             * @description When it started.
             * @default 0
             */
            started_wall_ns: number;
            /**
             * @description The store.
             * @default {
             *       "clock": "",
             *       "dropped": 0,
             *       "error": "",
             *       "path": "",
             *       "queue": 0,
             *       "queue_capacity": 0,
             *       "refused": 0,
             *       "size_bytes": 0,
             *       "state": "ok",
             *       "written": 0
             *     }
             */
            store: components["schemas"]["Store"];
            /** @default null */
            stream: components["schemas"]["Connections"] | null;
            /** @default null */
            traces: components["schemas"]["Traces"] | null;
            /**
             * @description UDP addresses it listens on.
             * @default []
             */
            udp: string[];
            /**
             * @description The receiver's version.
             * @default
             */
            version: string;
        };
        /** @description The store as the receiver sees it. */
        Store: {
            /**
             * @description Why the receiver's clock cannot be right; nothing is deleted by age meanwhile. Empty: no doubt.
             * @default
             */
            clock: string;
            /**
             * @description What answers lacked because it cannot be read, the first 20 holes; absent: nothing so far.
             * @default {
             *       "holes": [],
             *       "more": 0,
             *       "nameless": 0,
             *       "sums": 0
             *     }
             */
            damage: components["schemas"]["DamageReport"];
            /**
             * Format: int64
             * @description Intervals thrown away because the queue was full or writing failed.
             * @default 0
             */
            dropped: number;
            /**
             * @description Why not; empty while they are.
             * @default
             */
            error: string;
            /**
             * @description File.
             * @default
             */
            path: string;
            /**
             * Format: int64
             * @description Intervals waiting to be written.
             * @default 0
             */
            queue: number;
            /**
             * Format: int64
             * @description Most that may wait.
             * @default 0
             */
            queue_capacity: number;
            /**
             * Format: int64
             * @description Intervals that were shown but not stored: unauthenticated hosts began boots more often than one may.
             * @default 0
             */
            refused: number;
            /**
             * Format: int64
             * @description Size of the file with its write-ahead log, bytes.
             * @default 0
             */
            size_bytes: number;
            /**
             * @description Whether intervals are being stored.
             * @default ok
             */
            state: components["schemas"]["StoreState"];
            /**
             * Format: int64
             * @description Intervals written.
             * @default 0
             */
            written: number;
        };
        /**
         * @description Whether intervals are being stored.
         * @enum {string}
         */
        StoreState: "ok" | "failing" | "none";
        /** @description Hosts of a store, whether they report now or not. */
        StoredHosts: {
            /** @description Those that were asked for, by name. */
            hosts: components["schemas"]["HostRecord"][];
            /** @description Hosts there are. */
            total: number;
        };
        /** @description A trace that is stored. */
        StoredTrace: {
            /** @description When what caused it happened, ns since the UNIX epoch, on the receiver's time line as the host's intervals. */
            at_ns: components["schemas"]["Nanos"];
            /**
             * Format: int64
             * @description Length of the file.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Events in it.
             */
            events: number;
            /** @description Its first moment. */
            first_ns: components["schemas"]["Nanos"];
            /** @description The host that it shows. */
            host: components["schemas"]["HostId"];
            /** @description Its number, which is never given to another one: `/api/v1/traces/{id}/file` has the file. Text in JSON. */
            id: string;
            /** @description Its last moment. */
            last_ns: components["schemas"]["Nanos"];
            /**
             * Format: int64
             * @description Events that its recorder lost.
             */
            lost: number;
            /** @description Why it was written, as the device says: a rule of `--flight-when`, `request`, `SIGUSR1`, or `recorded by a user`. */
            reason: string;
            /** @description When it was received, by the receiver's clock. */
            received_ns: components["schemas"]["Nanos"];
        };
        /** @description The traces of a host. */
        StoredTraces: {
            /** @description The host. */
            host: components["schemas"]["HostId"];
            /** @description Its name; hostile. */
            name: string;
            /** @description Traces there are, 10,000 at most. */
            total: number;
            /** @description Those that were asked for, the oldest first. */
            traces: components["schemas"]["StoredTrace"][];
        };
        /**
         * @description How the values of a line are drawn.
         * @enum {string}
         */
        Stroke: "area" | "solid" | "dashed";
        /** @description A span of time as if it were one interval. */
        Sum: {
            /**
             * Format: int64
             * @description Measured time; rates divide by it.
             */
            covered_ns: number;
            /** @description A row a process or a name, most run time first. */
            processes: components["schemas"]["Table"];
            /**
             * @description Resolution of the data: `interval`, or sums of a `minute` or an `hour`, with single intervals at both ends where
             *     these are stored.
             */
            resolution: string;
            /** @description The range that was asked for. */
            since_ns: components["schemas"]["Nanos"];
            /** @description Ledger and CPU modes, summed. */
            summary: components["schemas"]["RowOfCell"];
            /** @description Threads of the processes that were asked for, a table each. */
            threads: components["schemas"]["Table"][];
            /** @description Its end. */
            until_ns: components["schemas"]["Nanos"];
        };
        /**
         * @description How much an answer can be relied on.
         * @enum {string}
         */
        SureLevel: "low" | "medium" | "high";
        /** @description How much an answer can be relied on, and why. */
        Sureness: {
            /** @description Of the first cause. */
            level: components["schemas"]["SureLevel"];
            /** @description What was not measured. */
            not_measured: string[];
            /** @description What it rests on. */
            rests_on: string[];
            /** @description All of it in sentences. */
            sentences: string[];
        };
        /** @description Rows as lists of values, a list a column. A column without any data is absent. */
        Table: {
            columns: {
                [key: string]: components["schemas"]["Cell"][] | {
                    index: number[];
                    values: components["schemas"]["Cell"][];
                } | components["schemas"]["Cell"];
            };
            /** @description Rows in this answer. */
            rows: number;
            /** @description Rows there are. */
            total: number;
        };
        TableColumn: components["schemas"]["Cell"][] | {
            index: number[];
            values: components["schemas"]["Cell"][];
        } | components["schemas"]["Cell"];
        /**
         * @description Hosts that send datagrams, and the memory that they take. A host that completed no interval yet is in a table and not among
         *     `hosts`.
         */
        Tables: {
            /**
             * Format: int64
             * @description Hosts that encrypt.
             * @default 0
             */
            encrypted_hosts: number;
            /**
             * Format: int64
             * @description Memory for the state of all these hosts, bytes.
             * @default 0
             */
            held_bytes: number;
            /**
             * Format: int64
             * @description Places in each of the three tables.
             * @default 0
             */
            max_hosts: number;
            /**
             * Format: int64
             * @description Hosts that do not encrypt.
             * @default 0
             */
            plain_hosts: number;
            /**
             * Format: int64
             * @description Hosts of protocol v1.
             * @default 0
             */
            v1_hosts: number;
        };
        /**
         * Format: int32
         * @description A task's state as one letter of proc(5): R running, S sleeping, D uninterruptible, Z zombie, T stopped, t traced,
         *     X dead, I idle kernel thread, P parked; `?` not known.
         */
        TaskState: number;
        /** @description One thread over an interval. */
        ThreadInterval: {
            /**
             * @description Its name at the end.
             * @default
             */
            comm: components["schemas"]["Comm"];
            /**
             * @description Growth of the counters in the interval.
             * @default {}
             */
            delta: components["schemas"]["Delta"];
            /**
             * @description Oddities that a reader must know before trusting the row.
             * @default []
             */
            flags: components["schemas"]["Flags"];
            /**
             * @description Id and start; unique within a boot.
             * @default {
             *       "start_ns": 0,
             *       "tid": 0
             *     }
             */
            key: components["schemas"]["ThreadKey"];
            /**
             * Format: int32
             * @description The CPU it last ran on.
             * @default 0
             */
            last_cpu: number;
            /**
             * @description Whether it began or ended in the interval.
             * @default alive
             */
            life: components["schemas"]["Life"];
            /**
             * Format: int32
             * @description Nice value, −20 to 19.
             * @default 0
             */
            nice: number;
            /**
             * Format: int32
             * @description Kernel priority: 20 + nice, or −1 − `rt_priority`.
             * @default 0
             */
            priority: number;
            /**
             * @description The process it belongs to.
             * @default {
             *       "pid": 0,
             *       "start_ns": 0
             *     }
             */
            process: components["schemas"]["ProcessKey"];
            /**
             * @description Times and counts from the scheduler's events. Blocked time alone does not make a row active: `delta` decides.
             * @default {}
             */
            sched: components["schemas"]["SchedDelta"];
            /**
             * @description Its state at the end.
             * @default 63
             */
            state: components["schemas"]["TaskState"];
        };
        /** @description A thread under a host and boot. */
        ThreadKey: {
            /**
             * Format: int64
             * @description Start of the thread, ns since boot (`CLOCK_BOOTTIME`); 0 where the sender does not know it (v1).
             * @default 0
             */
            start_ns: number;
            /**
             * Format: int32
             * @description Thread id (gettid(2)).
             * @default 0
             */
            tid: number;
        };
        /** @description How often a limit was reached. */
        Throttle: {
            /**
             * Format: int64
             * @description Periods in which the group had something to run.
             * @default 0
             */
            periods: number;
            /**
             * Format: int64
             * @description Time in which it was not allowed to run, ns, summed over CPUs as the kernel does.
             * @default 0
             */
            throttled_ns: number;
            /**
             * Format: int64
             * @description Periods in which the group used up its quota.
             * @default 0
             */
            throttled_periods: number;
        };
        /**
         * @description A range of time, ns since the UNIX epoch: after `since_ns`, up to and including `until_ns`.
         *
         *     Intervals are placed by their end, so neighbouring ranges share no interval.
         */
        TimeRange: {
            /** @description Start, not in the range itself. */
            since_ns: components["schemas"]["Nanos"];
            /** @description End, which is in the range. */
            until_ns: components["schemas"]["Nanos"];
        };
        /** @description A part of the time of threads. */
        TimeShare: {
            /**
             * Format: double
             * @description Share of this state in the time before; null: nothing was measured then, or this is that time.
             */
            before?: number | null;
            /**
             * Format: int64
             * @description Number of waits; null: not counted.
             */
            count?: number | null;
            /** @description The state in words: `ran`, `lock (futex)`, `asleep: sleep (clock_nanosleep)`. */
            label: string;
            /** @description What is known of `on`, in words: `mostly behind db`, `by itself`; empty: nothing. */
            note: string;
            /**
             * Format: int64
             * @description Time, ns, summed over threads.
             */
            ns: number;
            /** @description Program, thread or kind of interrupt that had what it waited for, or ended the wait; hostile. Null: not known. */
            on?: string | null;
            /**
             * Format: double
             * @description Share of the time of all states, 0 to 1.
             */
            share: number;
            /** @description The state. */
            state: components["schemas"]["TimeState"];
            /** @description What it waited in, in words: `lock (futex)`; null: not of this state. */
            wait?: string | null;
        };
        /** @description Where the time of a program's threads went; of a machine that of its CPUs. */
        TimeSplit: {
            /**
             * Format: int64
             * @description Measured time.
             */
            measured_ns: number;
            /** @description The range. */
            range: components["schemas"]["TimeRange"];
            /** @description The states; of waits the longest ones. */
            states: components["schemas"]["TimeShare"][];
            /**
             * Format: int64
             * @description Time of all states.
             */
            total_ns: number;
        };
        /**
         * @description A state of threads.
         * @enum {string}
         */
        TimeState: "ran" | "ready" | "throttled" | "blocked" | "asleep" | "rest";
        /** @description The device writes a trace. */
        TraceAsked: {
            /** @description The id of the host that was asked. Its trace is listed once it has arrived, some seconds later. */
            host: string;
        };
        /** @description Whom threads waited behind. */
        TraceBehind: {
            /** @description The longest first, 20 at most. */
            by: components["schemas"]["TraceShare"][];
            /** @description Threads that are not named here. */
            more: number;
            /**
             * Format: int64
             * @description Time for which no thread is named: the CPU was idle or unknown, or there was too much to compare.
             */
            rest_ns: number;
        };
        /** @description One CPU. */
        TraceCpuTrack: {
            /** @description Of buckets: thousandths in which a thread ran. */
            busy: number[];
            /**
             * Format: int32
             * @description Its number.
             */
            cpu: number;
            /** @description Begins of the parts, ascending. Idle times have none. */
            from_ns: number[];
            /** @description Parts are single slices, each with its length; else they are buckets. */
            is_exact: boolean;
            /** @description Lengths; empty for buckets. */
            length_ns: number[];
            /** @description Hundredths of a thread that waited in its queue, in the mean of each of the `count` buckets. */
            queue: number[];
            /** @description Of buckets: thousandths that are unknown. */
            unknown: number[];
            /** @description Number of the thread, or of a bucket the one that ran longest; −1: unknown, −2: not followed. */
            who: number[];
        };
        /** @description A program that waited for CPUs which another one had. It may be the same: threads of one program delay each other, too. */
        TraceDelay: {
            /** @description Name of the one that ran meanwhile. Hostile. */
            behind: string;
            /**
             * Format: int64
             * @description How long: once for each thread that waited, ns.
             */
            ns: number;
            /** @description Name of the program that waited, of the thread where the trace names no program. Hostile. */
            waited: string;
        };
        /** @description Pairs of programs: one waited while the other ran. */
        TraceDelays: {
            /**
             * Format: int64
             * @description Sum over all pairs, ns.
             */
            all_ns: number;
            /**
             * Format: int64
             * @description Time waited before `until_ns` that no pair accounts for, ns: the CPU was idle, who ran is unknown, or a limit was reached.
             */
            rest_ns: number;
            /** @description The requested rows, longest time first. */
            rows: components["schemas"]["TraceDelay"][];
            /** @description Pairs, before `offset` and `limit`. */
            total: number;
            /**
             * Format: int64
             * @description The answer covers the window up to here; it ends early if there was too much to compare.
             */
            until_ns: number;
        };
        /** @description Facts about a trace, and the part that the receiver has in memory. */
        TraceHead: {
            began_ns?: components["schemas"]["Nanos"] | null;
            /** @description Memory of the part, bytes. */
            bytes: number;
            /** @description CPUs with events. */
            cpus: number[];
            /**
             * Format: int64
             * @description Events of the whole trace.
             */
            events: number;
            /**
             * Format: int64
             * @description Start of the part in memory.
             */
            from_ns: number;
            /** @description Whether interrupts were recorded. */
            has_interrupts: boolean;
            /** @description Name of the machine. Hostile. */
            host: string;
            /** @description Whether the part ends before the trace because its memory was used up; `part` gives the rest. */
            is_cut: boolean;
            /**
             * Format: int64
             * @description Length of the trace.
             */
            length_ns: number;
            /** @description What the file lacks, a sentence each. */
            problems: string[];
            /** @description The ledger of the part. */
            sums: components["schemas"]["TraceLedger"];
            /** @description Threads. */
            threads: number;
            /**
             * Format: int64
             * @description End of the part in memory.
             */
            until_ns: number;
        };
        /** @description Times of CPUs: capacity = idle + run + irq + softirq + unknown. */
        TraceLedger: {
            /**
             * Format: int64
             * @description Sum of all times.
             */
            capacity_ns: number;
            /**
             * Format: int32
             * @description Number of the CPU; null: several CPUs together.
             */
            cpu?: number | null;
            /**
             * Format: int64
             * @description Switches from a thread that was not switched to: events are missing.
             */
            holes: number;
            /**
             * Format: int64
             * @description Time without a thread.
             */
            idle_ns: number;
            /**
             * Format: int64
             * @description Time in hard interrupts.
             */
            irq_ns: number;
            /**
             * Format: int64
             * @description Events that the recorder lost.
             */
            lost: number;
            /**
             * Format: int64
             * @description Time with a thread.
             */
            run_ns: number;
            /**
             * Format: int64
             * @description Time in soft interrupts.
             */
            softirq_ns: number;
            /**
             * Format: int64
             * @description Time that no event explains.
             */
            unknown_ns: number;
        };
        /** @description Time of idle CPUs while threads waited behind others, ns. */
        TraceOverload: {
            /**
             * Format: int64
             * @description The same, by idle CPU.
             */
            cpu_ns: number;
            /**
             * Format: int64
             * @description Work that could have run: the smaller of idle CPUs and waiting threads, times time.
             */
            thread_ns: number;
            /**
             * Format: int64
             * @description Time in which any CPU was idle while any thread waited behind another.
             */
            wall_ns: number;
        };
        /** @description All CPUs together, by bucket. */
        TraceOverview: {
            /** @description Thousandths of all CPUs. */
            busy: number[];
            /** @description Hundredths of threads that waited. */
            queue: number[];
        };
        /** @description Time blocked for one reason. */
        TraceReason: {
            /**
             * Format: int64
             * @description How long.
             */
            ns: number;
            /** @description Its name. */
            reason: string;
        };
        /** @description Time and whom it is of. */
        TraceShare: {
            /**
             * Format: int64
             * @description How long.
             */
            ns: number;
            /** @description Who. */
            who: components["schemas"]["TraceThread"];
        };
        /** @description A state of a thread. */
        TraceSlice: {
            /** @description What it was in next. */
            after?: string | null;
            /** @description What it was in before. */
            before?: string | null;
            /**
             * Format: int32
             * @description The CPU that the thread was on, or waited for.
             */
            cpu: number;
            /**
             * Format: int64
             * @description Begin.
             */
            from_ns: number;
            /** @description The state ended; else the trace or its part in memory ends. */
            is_over: boolean;
            /**
             * Format: int64
             * @description Length.
             */
            length_ns: number;
            /**
             * Format: int64
             * @description Begin of its next one.
             */
            next_ns?: number | null;
            /**
             * Format: int64
             * @description Begin of its last slice on a CPU before.
             */
            previous_ns?: number | null;
            /** @description For what it is blocked. */
            reason?: string | null;
            /** @description `running`, `ready`, `preempted`, `blocked`, `unknown`. */
            state: string;
            wait?: components["schemas"]["TraceWait"] | null;
            /** @description Whose. */
            who: components["schemas"]["TraceThread"];
            /** @description Whom it woke while it ran, the first 64. */
            woke: components["schemas"]["TraceWoken"][];
            woken_by?: components["schemas"]["TraceThread"] | null;
        };
        /** @description How a trace of a host can be had now. */
        TraceSources: {
            /** @description The receiver records this host on request: `POST /api/v1/hosts/{host}/recording`. */
            can_record: boolean;
            /** @description A flight recorder has, or may have, the last seconds of this host: `POST /api/v1/hosts/{host}/traces` takes them. */
            can_take: boolean;
            /** @description Missing requirement, and how to meet it; empty if nothing is missing. */
            how: string;
            /**
             * Format: double
             * @description Number of these seconds; null: not known.
             */
            last_seconds?: number | null;
            recording?: components["schemas"]["Recording"] | null;
        };
        /** @description What an area adds up to. */
        TraceSums: {
            /** @description Sum over these CPUs. */
            all: components["schemas"]["TraceLedger"];
            /** @description Blocked time by reason, the most first. */
            blocked: components["schemas"]["TraceReason"][];
            /** @description Ledger of each CPU. */
            cpus: components["schemas"]["TraceLedger"][];
            /** @description Threads that ran while these waited. */
            culprits: components["schemas"]["TraceBehind"];
            /**
             * Format: int64
             * @description Start of the area's part in memory.
             */
            from_ns: number;
            /** @description Idle CPUs while threads waited behind others, over all CPUs. */
            idle_while_overloaded: components["schemas"]["TraceOverload"];
            /** @description Number of threads in the area. */
            threads: number;
            /** @description Sum over these threads. */
            totals: components["schemas"]["TraceTotals"];
            /**
             * Format: int64
             * @description End of the area's part in memory.
             */
            until_ns: number;
        };
        /** @description Who a thread is. */
        TraceThread: {
            /** @description It works for the kernel only. */
            is_kernel: boolean;
            /** @description Name. Hostile. */
            name: string;
            /**
             * Format: int32
             * @description Process id.
             */
            pid?: number | null;
            /** @description Name of its program. Hostile. */
            program: string;
            /**
             * Format: int64
             * @description Its number; −1: unknown, −2: a thread that is not followed, −3: none, the CPU was idle.
             */
            thread: number;
            /**
             * Format: int32
             * @description Thread id; null: the trace does not say.
             */
            tid?: number | null;
        };
        /** @description One thread in a window, in detail. */
        TraceThreadPage: {
            /** @description Its antagonists. */
            behind: components["schemas"]["TraceBehind"];
            /** @description Blocked time by reason, the most first. */
            blocked: components["schemas"]["TraceReason"][];
            /** @description The thread and its totals. */
            row: components["schemas"]["TraceThreadRow"];
        };
        /** @description A thread in a window. */
        TraceThreadRow: components["schemas"]["TraceThread"] & components["schemas"]["TraceTotals"];
        /** @description One thread. */
        TraceThreadTrack: {
            /** @description The CPU it was on, or waited for. */
            cpu: number[];
            /** @description Begins of the parts, ascending. */
            from_ns: number[];
            /** @description Parts are single states, each with its length; else they are buckets. */
            is_exact: boolean;
            /** @description Lengths; empty for buckets. */
            length_ns: number[];
            /** @description For what it was blocked: a place in `reasons`, −1 if it was not. Of buckets: the main one. */
            reason: number[];
            /** @description Of buckets: thousandths in each state, in the order running, woken, preempted, blocked, unknown. */
            shares: number[][];
            /** @description Of single states: 0 unknown, 1 running, 2 ready since a wakeup, 3 ready since it was pushed off, 4 blocked. */
            state: number[];
            /**
             * Format: int32
             * @description Its number.
             */
            thread: number;
        };
        /** @description Threads of a window. */
        TraceThreads: {
            /** @description Threads of the page. */
            rows: components["schemas"]["TraceThreadRow"][];
            /** @description Threads that match, before `offset` and `limit`. */
            total: number;
        };
        /** @description Times and counts of a thread or of several. */
        TraceTotals: {
            /**
             * Format: int64
             * @description Neither.
             */
            blocked_ns: number;
            /**
             * Format: int64
             * @description Times it was pushed off.
             */
            involuntary_switches: number;
            /**
             * Format: int64
             * @description In hard interrupts that came while it had a CPU.
             */
            irq_ns: number;
            /**
             * Format: int64
             * @description When that began.
             */
            longest_delay_at_ns: number;
            /**
             * Format: int64
             * @description The longest wait for a CPU that the window has a part of, up to the window's end.
             */
            longest_delay_ns: number;
            /** Format: int64 */
            migrations: number;
            /**
             * Format: int64
             * @description Runnable since it was pushed off.
             */
            ready_preempted_ns: number;
            /**
             * Format: int64
             * @description Runnable since a wakeup.
             */
            ready_woken_ns: number;
            /**
             * Format: int64
             * @description On a CPU, interrupts left out.
             */
            run_ns: number;
            /**
             * Format: int64
             * @description In soft interrupts.
             */
            softirq_ns: number;
            /**
             * Format: int64
             * @description No event says.
             */
            unknown_ns: number;
            /**
             * Format: int64
             * @description Switches to wait.
             */
            voluntary_switches: number;
            /**
             * Format: int64
             * @description Wakeups.
             */
            wakeups: number;
        };
        /** @description What is drawn of a window. */
        TraceTracks: {
            all?: components["schemas"]["TraceOverview"] | null;
            /**
             * Format: int64
             * @description Length of each.
             */
            bucket_ns: number;
            /** @description How many. */
            count: number;
            /** @description CPUs, as they were named. */
            cpus: components["schemas"]["TraceCpuTrack"][];
            /**
             * Format: int64
             * @description Begin of the first bucket.
             */
            from_ns: number;
            /** @description Who the threads of this answer are. */
            names: components["schemas"]["TraceThread"][];
            /** @description Names of wait reasons. */
            reasons: string[];
            /** @description Threads, as they were named. */
            threads: components["schemas"]["TraceThreadTrack"][];
        };
        /** @description A wait for a CPU. */
        TraceWait: {
            /** @description What the CPU ran meanwhile. */
            behind: components["schemas"]["TraceBehind"];
            /**
             * Format: int64
             * @description Its begin.
             */
            from_ns: number;
            /** @description It began with a wakeup; else the thread was pushed off, or yielded. */
            is_woken: boolean;
            /**
             * Format: int64
             * @description Its length.
             */
            length_ns: number;
            waker?: components["schemas"]["TraceThread"] | null;
            /**
             * Format: int32
             * @description Where that ran.
             */
            waker_cpu?: number | null;
        };
        /** @description A thread that was woken. */
        TraceWoken: {
            /**
             * Format: int64
             * @description When.
             */
            at_ns: number;
            /**
             * Format: int32
             * @description Which.
             */
            cpu?: number | null;
            /**
             * Format: int64
             * @description When it came to a CPU.
             */
            ran_ns?: number | null;
            /** @description Who. */
            who: components["schemas"]["TraceThread"];
        };
        /** @description Traces that devices sent, beside the store. */
        Traces: {
            /**
             * Format: int64
             * @description Their bytes.
             * @default 0
             */
            bytes: number;
            /**
             * Format: int64
             * @description Deleted: too old, or because others needed the space.
             * @default 0
             */
            deleted: number;
            /**
             * @description The last of those; empty if a trace was stored after it.
             * @default
             */
            error: string;
            /**
             * Format: int64
             * @description Failures of the disk or the store.
             * @default 0
             */
            failed: number;
            /**
             * Format: int64
             * @description Files now.
             * @default 0
             */
            files: number;
            /**
             * Format: int64
             * @description The limit of those (`--trace-bytes`).
             * @default 0
             */
            max_bytes: number;
            /**
             * Format: int64
             * @description Put off: too many, no space, or the disk or the store failed; the device offers them again.
             * @default 0
             */
            postponed: number;
            /**
             * Format: int64
             * @description Refused for good: too large, or no trace.
             * @default 0
             */
            refused: number;
            /**
             * Format: int64
             * @description Stored since the receiver started.
             * @default 0
             */
            stored: number;
        };
        /** @description `local`, `authenticated` (over TLS, from the device enrolled under this host), `sealed` (encrypted datagrams), `unauthenticated` (plain datagrams: anyone could have sent them) or `imported`. */
        Trust: string;
        /** @description Time that the threads of a process waited, by what for and on whom. */
        WaitFor: {
            /**
             * Format: int64
             * @description Number of these waits.
             * @default 0
             */
            count: number;
            /**
             * @description What for.
             * @default ready
             */
            kind: components["schemas"]["WaitKind"];
            /**
             * Format: int64
             * @description Sum of the waits that ended in the interval, ns; of several threads more than the interval is long.
             * @default 0
             */
            ns: number;
            /**
             * @description On whom.
             * @default others
             */
            on: components["schemas"]["WaitedOn"];
            /**
             * @description The process that waited.
             * @default {
             *       "pid": 0,
             *       "start_ns": 0
             *     }
             */
            waiter: components["schemas"]["ProcessKey"];
        };
        /** @description What a thread waited for. */
        WaitKind: "ready" | "throttled" | {
            /** @description It was blocked, for this reason. */
            blocked: components["schemas"]["WaitReason"];
        };
        /** @description What a process was blocked by, over time. */
        WaitLine: {
            /** @description A system call, `disk`, `page fault`, …; `other` has all that have no line of their own. */
            reason: string;
            /**
             * Format: int64
             * @description Blocked time in the range, summed over threads.
             */
            total_ns: number;
            /** @description Blocked time a point: 0 if it was not blocked by it, null where waits were not measured. */
            values: (number | null)[];
        };
        /** @description Code of a reason; 0: none. */
        WaitReason: number;
        /** @description Who had what a thread waited for, or ended its wait. */
        WaitedOn: "others" | "interrupt" | {
            /** @description A thread of another process. */
            process: components["schemas"]["ProcessKey"];
        } | {
            /** @description Another thread of the same process. */
            thread: components["schemas"]["ThreadKey"];
        };
        Waits: {
            /** @description The reason as a stable number. */
            code: components["schemas"]["WaitReason"];
            /**
             * Format: int64
             * @description Time blocked by this reason, ns.
             */
            ns: number;
            /** @description Name of the reason: a system call, `disk`, `page fault` and others. */
            reason?: string;
        }[];
        /** @description Why something is slow, and who did it. */
        Why: {
            /** @description What to do, in one sentence. */
            action: string;
            before?: components["schemas"]["TimeSplit"] | null;
            /** @description The causes, the largest share first; empty: nothing delays it. */
            causes: components["schemas"]["Cause"][];
            /** @description The host. */
            host: components["schemas"]["HostId"];
            /** @description Its name; hostile. */
            host_name: string;
            /** @description Commands that show more. */
            more: string[];
            /** @description Start of the time that is explained: where it became slow, if that is within the time that was asked for. */
            since_ns: components["schemas"]["Nanos"];
            slow_since_ns?: components["schemas"]["Nanos"] | null;
            /** @description What is slow. */
            subject: components["schemas"]["WhyTarget"];
            /** @description The answer in two to four sentences. */
            summary: string[];
            /** @description How much the answer can be relied on. */
            sure: components["schemas"]["Sureness"];
            /** @description Where the time went. */
            time: components["schemas"]["TimeSplit"];
            /** @description Its end. */
            until_ns: components["schemas"]["Nanos"];
        };
        /** @description What is slow. */
        WhyTarget: {
            /** @description Grouping of its name: `name`, `process`, `user`, `service` or `container`; null: the machine. */
            by?: string | null;
            /** @description Its name, that of the host for a machine; hostile. */
            name: string;
            /**
             * Format: int32
             * @description The pid, where it is one process.
             */
            pid?: number | null;
            /**
             * Format: int64
             * @description Its processes that did something, short-lived ones aside.
             */
            processes: number;
            /**
             * Format: int64
             * @description Their threads that did something; null: not read.
             */
            threads?: number | null;
        };
        /** @description An interval among the worst. */
        WorstInterval: {
            /**
             * Format: int64
             * @description Its measured length, ns.
             */
            duration_ns: number;
            /** @description Its end, ns since the UNIX epoch. */
            end_ns: components["schemas"]["Nanos"];
            /** @description Where its capacity went. */
            lines: components["schemas"]["LedgerLines"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type Available = components['schemas']['Available'];
export type Bar = components['schemas']['Bar'];
export type BarPart = components['schemas']['BarPart'];
export type Before = components['schemas']['Before'];
export type BootId = components['schemas']['BootId'];
export type BucketTimes = components['schemas']['BucketTimes'];
export type Cause = components['schemas']['Cause'];
export type CauseKind = components['schemas']['CauseKind'];
export type Cell = components['schemas']['Cell'];
export type Cells = components['schemas']['Cells'];
export type CgroupInterval = components['schemas']['CgroupInterval'];
export type Chart = components['schemas']['Chart'];
export type ChartBody = components['schemas']['ChartBody'];
export type ChartLine = components['schemas']['ChartLine'];
export type ChartTimes = components['schemas']['ChartTimes'];
export type Clock = components['schemas']['Clock'];
export type ColumnHelp = components['schemas']['ColumnHelp'];
export type Columns = components['schemas']['Columns'];
export type Comm = components['schemas']['Comm'];
export type Compare = components['schemas']['Compare'];
export type Connections = components['schemas']['Connections'];
export type CpuInterval = components['schemas']['CpuInterval'];
export type CpuLimit = components['schemas']['CpuLimit'];
export type CpuModes = components['schemas']['CpuModes'];
export type CpuSched = components['schemas']['CpuSched'];
export type CpuTimes = components['schemas']['CpuTimes'];
export type Culprit = components['schemas']['Culprit'];
export type Damage = components['schemas']['Damage'];
export type DamageReport = components['schemas']['DamageReport'];
export type DelayHistogram = components['schemas']['DelayHistogram'];
export type DelayOf = components['schemas']['DelayOf'];
export type Delays = components['schemas']['Delays'];
export type Delta = components['schemas']['Delta'];
export type Discovery = components['schemas']['Discovery'];
export type ExportCommand = components['schemas']['ExportCommand'];
export type Fields = components['schemas']['Fields'];
export type Findings = components['schemas']['Findings'];
export type Flags = components['schemas']['Flags'];
export type Fleet = components['schemas']['Fleet'];
export type FleetBase = components['schemas']['FleetBase'];
export type FleetHistory = components['schemas']['FleetHistory'];
export type Found = components['schemas']['Found'];
export type FoundKind = components['schemas']['FoundKind'];
export type Gap = components['schemas']['Gap'];
export type Gaps = components['schemas']['Gaps'];
export type GroupLimits = components['schemas']['GroupLimits'];
export type HeatmapRow = components['schemas']['HeatmapRow'];
export type Hole = components['schemas']['Hole'];
export type Host = components['schemas']['Host'];
export type HostCharts = components['schemas']['HostCharts'];
export type HostId = components['schemas']['HostId'];
export type HostInfo = components['schemas']['HostInfo'];
export type HostRecord = components['schemas']['HostRecord'];
export type HostSeries = components['schemas']['HostSeries'];
export type Hosts = components['schemas']['Hosts'];
export type Ink = components['schemas']['Ink'];
export type Interval = components['schemas']['Interval'];
export type IrqInterval = components['schemas']['IrqInterval'];
export type Kept = components['schemas']['Kept'];
export type Ledger = components['schemas']['Ledger'];
export type LedgerLines = components['schemas']['LedgerLines'];
export type LedgerSum = components['schemas']['LedgerSum'];
export type Life = components['schemas']['Life'];
export type Limits = components['schemas']['Limits'];
export type Line = components['schemas']['Line'];
export type Lines = components['schemas']['Lines'];
export type ListedHost = components['schemas']['ListedHost'];
export type Login = components['schemas']['Login'];
export type Loss = components['schemas']['Loss'];
export type Matrix = components['schemas']['Matrix'];
export type MatrixRow = components['schemas']['MatrixRow'];
export type Moment = components['schemas']['Moment'];
export type Nanos = components['schemas']['Nanos'];
export type NothingThen = components['schemas']['NothingThen'];
export type Peak = components['schemas']['Peak'];
export type Pressure = components['schemas']['Pressure'];
export type Probes = components['schemas']['Probes'];
export type Problem = components['schemas']['Problem'];
export type ProcessInfo = components['schemas']['ProcessInfo'];
export type ProcessInterval = components['schemas']['ProcessInterval'];
export type ProcessKey = components['schemas']['ProcessKey'];
export type ProcessLine = components['schemas']['ProcessLine'];
export type ProcessThen = components['schemas']['ProcessThen'];
export type Receiver = components['schemas']['Receiver'];
export type ReceiverHealth = components['schemas']['ReceiverHealth'];
export type Recording = components['schemas']['Recording'];
export type RecordingState = components['schemas']['RecordingState'];
export type Rejects = components['schemas']['Rejects'];
export type Report = components['schemas']['Report'];
export type ReportHost = components['schemas']['ReportHost'];
export type ReportRow = components['schemas']['ReportRow'];
export type RowKind = components['schemas']['RowKind'];
export type RowOfCell = components['schemas']['RowOfCell'];
export type SchedDelta = components['schemas']['SchedDelta'];
export type SeriesColumn = components['schemas']['SeriesColumn'];
export type Session = components['schemas']['Session'];
export type Shown = components['schemas']['Shown'];
export type Snapshot = components['schemas']['Snapshot'];
export type SnapshotBase = components['schemas']['SnapshotBase'];
export type SourceHealth = components['schemas']['SourceHealth'];
export type SourceKind = components['schemas']['SourceKind'];
export type Spark = components['schemas']['Spark'];
export type Sparkline = components['schemas']['Sparkline'];
export type Status = components['schemas']['Status'];
export type Store = components['schemas']['Store'];
export type StoreState = components['schemas']['StoreState'];
export type StoredHosts = components['schemas']['StoredHosts'];
export type StoredTrace = components['schemas']['StoredTrace'];
export type StoredTraces = components['schemas']['StoredTraces'];
export type Stroke = components['schemas']['Stroke'];
export type Sum = components['schemas']['Sum'];
export type SureLevel = components['schemas']['SureLevel'];
export type Sureness = components['schemas']['Sureness'];
export type Table = components['schemas']['Table'];
export type TableColumn = components['schemas']['TableColumn'];
export type Tables = components['schemas']['Tables'];
export type TaskState = components['schemas']['TaskState'];
export type ThreadInterval = components['schemas']['ThreadInterval'];
export type ThreadKey = components['schemas']['ThreadKey'];
export type Throttle = components['schemas']['Throttle'];
export type TimeRange = components['schemas']['TimeRange'];
export type TimeShare = components['schemas']['TimeShare'];
export type TimeSplit = components['schemas']['TimeSplit'];
export type TimeState = components['schemas']['TimeState'];
export type TraceAsked = components['schemas']['TraceAsked'];
export type TraceBehind = components['schemas']['TraceBehind'];
export type TraceCpuTrack = components['schemas']['TraceCpuTrack'];
export type TraceDelay = components['schemas']['TraceDelay'];
export type TraceDelays = components['schemas']['TraceDelays'];
export type TraceHead = components['schemas']['TraceHead'];
export type TraceLedger = components['schemas']['TraceLedger'];
export type TraceOverload = components['schemas']['TraceOverload'];
export type TraceOverview = components['schemas']['TraceOverview'];
export type TraceReason = components['schemas']['TraceReason'];
export type TraceShare = components['schemas']['TraceShare'];
export type TraceSlice = components['schemas']['TraceSlice'];
export type TraceSources = components['schemas']['TraceSources'];
export type TraceSums = components['schemas']['TraceSums'];
export type TraceThread = components['schemas']['TraceThread'];
export type TraceThreadPage = components['schemas']['TraceThreadPage'];
export type TraceThreadRow = components['schemas']['TraceThreadRow'];
export type TraceThreadTrack = components['schemas']['TraceThreadTrack'];
export type TraceThreads = components['schemas']['TraceThreads'];
export type TraceTotals = components['schemas']['TraceTotals'];
export type TraceTracks = components['schemas']['TraceTracks'];
export type TraceWait = components['schemas']['TraceWait'];
export type TraceWoken = components['schemas']['TraceWoken'];
export type Traces = components['schemas']['Traces'];
export type Trust = components['schemas']['Trust'];
export type WaitFor = components['schemas']['WaitFor'];
export type WaitKind = components['schemas']['WaitKind'];
export type WaitLine = components['schemas']['WaitLine'];
export type WaitReason = components['schemas']['WaitReason'];
export type WaitedOn = components['schemas']['WaitedOn'];
export type Waits = components['schemas']['Waits'];
export type Why = components['schemas']['Why'];
export type WhyTarget = components['schemas']['WhyTarget'];
export type WorstInterval = components['schemas']['WorstInterval'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
