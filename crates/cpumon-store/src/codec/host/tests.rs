mod modes {
    use proptest::prelude::*;

    use super::super::*;

    proptest! {
        #[test]
        fn modes_come_back(rows in proptest::collection::vec((any::<u32>(), any::<[u64; 10]>(), any::<bool>(), 0..9_u64), 0..6)) {
            let cpus: Vec<_> = rows.iter().map(|(cpu, modes, went_back, ticks)| {
                let modes = modes.map(|ns| if *ticks > 2 { ticks * 10_000_000 } else { ns });
                CpuInterval { cpu: *cpu, times: CpuTimes::from_array(modes), went_back: *went_back, ..CpuInterval::default() }
            }).collect();
            let (mut bytes, mut back) = (Vec::new(), Interval::default());
            encode_modes(&cpus, &mut bytes);
            decode(&bytes, &mut back).unwrap();
            prop_assert_eq!(back.cpus, cpus);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut back = Interval::default();
            let _ = decode(&bytes, &mut back);
            prop_assert!(back.cpus.len() <= bytes.len());
        }
    }
}

mod events {
    use cpumon_model::{CpuInterval, Ledger};
    use proptest::prelude::*;

    use super::super::*;
    use super::cgroups::any_cgroups;
    use crate::codec::waits_for::tests::any_rows;

    prop_compose! {
        fn any_interval()(
            numbers in any::<[u64; 3]>(), unknown_ns in any::<i64>(), drops in 0..3_u64, ring_drops in prop::array::uniform6(0..2_u64), probes in any::<u16>(),
            cpus in prop::collection::vec((any::<[u64; 3]>(), any::<u32>(), any::<[u64; 10]>()), 0..4),
            cgroups in any_cgroups(), waits_for in prop::option::of(any_rows()), irqs in prop::collection::btree_map(any::<u32>(), ("\\PC{0,9}", any::<u64>(), any::<u64>()), 0..5),
        ) -> Interval {
            let mut interval = Interval {
                fields: Fields::SCHED | Fields::IRQ | if drops == 0 { Fields::empty() } else { Fields::HISTOGRAMS },
                ledger: Ledger { unknown_ns, ..Ledger::default() },
                ..Interval::default()
            };
            if drops > 0 {
                interval.health.histogram_drops = drops;
                let histogram = Arc::new([(9, drops), (255, 1)].into_iter().collect());
                let of = interval.cpus.first().map_or(0, |cpu| cpu.cpu) + 3;
                interval.delays = vec![Delays { of: DelayOf::Cpu(of), histogram }];
            }
            (interval.health.sched_untracked, interval.health.sched_missed_switches) = (numbers[0], numbers[1]);
            let health = &mut interval.health;
            [health.ring_drops, health.execs_lost, health.endings_lost, health.cuts_lost, health.hidden_left_out, health.wakeups_unknown] = ring_drops;
            if probes % 2 == 0 {
                interval.fields |= Fields::CGROUPS;
                cgroups.give(&mut interval);
            }
            if let Some(rows) = waits_for {
                interval.fields |= Fields::WAITS_FOR;
                interval.waits_for = rows;
            }
            interval.health.probes = Probes::from_bits_truncate(probes);
            interval.cpus = (0..).zip(cpus).map(|(cpu, (some, run_queue_max, softirq_ns))| {
                let [unknown_ns, run_queue_ns, switches] = some;
                let sched = CpuSched { unknown_ns, run_queue_ns, run_queue_max, switches, softirq_ns };
                CpuInterval { cpu, sched, ..CpuInterval::default() }
            }).collect();
            interval.irqs = irqs.into_iter().map(|(irq, (name, time_ns, count))| {
                IrqInterval { irq, name: name.into(), time_ns, count }
            }).collect();
            interval
        }
    }

    proptest! {
        #[test]
        fn it_comes_back_behind_the_cpus(interval in any_interval()) {
            let mut bytes = Vec::new();
            encode(&interval, &mut bytes);
            let mut back = Interval { fields: interval.fields, ..Interval::default() };
            decode(&bytes, &mut back).unwrap();
            prop_assert_eq!(back, interval);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut back = Interval { cpus: vec![CpuInterval::default()], ..Interval::default() };
            let _ = decode_events(&mut VarintCursor::new(&bytes), &mut back, true);
            prop_assert!(back.irqs.len() <= bytes.len());
        }
    }
}

mod cgroups {
    use proptest::prelude::*;

    use super::super::*;

    fn any_pressure() -> impl Strategy<Value = Option<Pressure>> {
        prop::option::of(any::<(u64, u64)>().prop_map(|(some_ns, full_ns)| Pressure { some_ns, full_ns }))
    }

    pub(super) fn any_cgroups() -> impl Strategy<Value = Cgroups> {
        let throttle = any::<[u64; 3]>().prop_map(|[periods, throttled_periods, throttled_ns]| Throttle {
            periods,
            throttled_periods,
            throttled_ns,
        });
        let row = (any::<(u64, u16)>(), prop::option::of(throttle), any_pressure());
        let rows = prop::collection::btree_map("(/[ab]{1,3}){1,3}\\PC{0,3}", row, 0..6);
        (any_pressure(), any::<u32>(), rows).prop_map(|(pressure, left_out, rows)| {
            let row = |(path, ((limit, limiter_bytes), throttle, pressure)): (String, ((u64, u16), _, _))| {
                let limit = CpuLimit::from_code(limit);
                CgroupInterval { id: 0, path: path.into(), limit, limiter_bytes, throttle, pressure }
            };
            Cgroups { pressure, left_out, rows: rows.into_iter().map(row).collect() }
        })
    }

    proptest! {
        #[test]
        fn they_come_back(cgroups in any_cgroups()) {
            let mut bytes = Vec::new();
            cgroups.write(&mut bytes);
            let mut cursor = VarintCursor::new(&bytes);
            prop_assert_eq!(Cgroups::read(&mut cursor, MAX_INTERVAL_GROUP_BYTES).unwrap(), cgroups);
            prop_assert_eq!(cursor.remaining(), 0);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(cgroups) = Cgroups::unpack(&bytes) {
                prop_assert!(cgroups.rows.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn as_many_groups_as_a_source_measures_come_back() {
        // What two of these paths share ends within a letter of two bytes.
        let group = |number: u32| CgroupInterval {
            path: format!("/o{}{}", "ö".repeat(2_046), char::from_u32(0x100 + number).unwrap()).into(),
            throttle: Some(Throttle { periods: u64::MAX, ..Throttle::default() }),
            ..CgroupInterval::default()
        };
        let rows: Vec<_> = (0..).take(MAX_CGROUPS).map(group).collect();
        assert_eq!(rows[0].path.len(), 4_096);
        let interval = Interval { fields: Fields::CGROUPS, cgroups: rows, ..Interval::default() };
        let (mut bytes, mut back) = (Vec::new(), Interval::default());
        encode(&interval, &mut bytes);
        decode(&bytes, &mut back).unwrap();
        assert_eq!(back.cgroups, interval.cgroups);
    }

    #[test]
    fn a_path_that_is_not_text_is_refused() {
        // No pressure, none left out, one group: a path of a byte, limit, limiter, nothing known.
        let of = |byte: u8| [0, 0, 1, 0, 1, byte, 0, 0, 0];
        assert_eq!(Cgroups::unpack(&of(b'/')).unwrap().rows.len(), 1);
        assert_eq!(Cgroups::unpack(&of(0xff)).unwrap_err().what, "a path that is not text");
    }

    #[test]
    fn sums_add_what_is_known() {
        let row = |throttled_ns: Option<u64>, parts: u64| CgroupInterval {
            path: "/a".into(),
            limit: CpuLimit::Millionths(parts),
            throttle: throttled_ns.map(|throttled_ns| Throttle {
                periods: 2,
                throttled_periods: 1,
                throttled_ns,
            }),
            ..CgroupInterval::default()
        };
        let mut sum = Cgroups { rows: vec![row(None, 5)], ..Cgroups::default() };
        sum += &Cgroups { rows: vec![row(Some(7), 6)], left_out: 3, ..Cgroups::default() };
        sum += &Cgroups {
            rows: vec![row(None, 7), CgroupInterval { path: "/b".into(), ..row(None, 1) }],
            ..Cgroups::default()
        };
        assert_eq!(sum.rows[0], row(Some(7), 7));
        assert_eq!((sum.rows.len(), sum.left_out, sum.pressure), (2, 3, None));
    }

    /// An hour of ever new groups grew to 64 MiB, took 90 GB of moved memory for each chunk, and then was "damaged and left out".
    #[test]
    fn a_sum_of_ever_new_groups_stays_small_and_readable() {
        for path_bytes in [10, 4_096] {
            let group = |number: usize| CgroupInterval {
                // In reverse order: each comes in front of those that are known.
                path: format!("/{:0>path_bytes$}", 1_000_000 - number).into(),
                ..CgroupInterval::default()
            };
            let mut sum = Cgroups::default();
            for interval in 0..40 {
                let mut rows: Vec<_> = (interval * 256..).take(256).map(group).collect();
                rows.reverse();
                sum += &Cgroups { rows, left_out: 5, ..Cgroups::default() };
                assert!(sum.rows.is_sorted_by(|one, other| one.path < other.path));
            }
            let bytes: usize = sum.rows.iter().map(|row| group_bytes(row.path.len())).sum();
            assert!(bytes <= FREE_GROUP_BYTES && sum.rows.len() <= MAX_SUM_GROUPS, "{path_bytes}: {bytes}");
            assert!(sum.rows.len() == MAX_SUM_GROUPS || bytes > FREE_GROUP_BYTES - 2 * 4_096, "{path_bytes}");
            assert_eq!(sum.left_out, 5 + 256);
            // Those that it has are added all the same.
            let throttle = Some(Throttle { periods: 2, throttled_periods: 1, throttled_ns: 9 });
            sum += &Cgroups { rows: vec![CgroupInterval { throttle, ..group(3) }], ..Cgroups::default() };
            let row = sum.rows.iter().find(|row| row.path == group(3).path).unwrap();
            assert_eq!(row.throttle, throttle);
            assert_eq!(Cgroups::unpack(&sum.pack()).unwrap(), sum);
        }
    }
}
