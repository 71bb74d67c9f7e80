mod rows {
    use proptest::prelude::*;

    use super::super::*;

    fn any_row() -> impl Strategy<Value = SchedDelta> {
        let reason = || prop_oneof![0_u16..8, 0x1000_u16..0x3000].prop_map(WaitReason);
        let waits = prop::collection::vec((reason(), 0_u64..1 << 40), 0..6);
        (waits, prop::array::uniform5(0_i64..1 << 40), reason()).prop_map(|(waits, numbers, open_wait)| {
            let waits: Waits = waits.into_iter().map(|(reason, us)| (reason, us * 1_000)).collect();
            let [after, wakeups, migrations, longest, blocked] = numbers;
            let blocked_ns = if waits.is_empty() { blocked * 1_000 } else { signed(waits.total_ns()) };
            SchedDelta {
                delay_after_wakeup_ns: after * 1_000,
                blocked_ns,
                wakeups,
                migrations,
                longest_delay_ns: longest * 1_000,
                waits,
                open_wait,
            }
        })
    }

    proptest! {
        #[test]
        fn rows_come_back_and_processes_are_sums(rows in prop::collection::btree_map(1..9_999_u64, any_row(), 0..9)) {
            let mut encoder = SchedEncoder::default();
            encoder.begin(2);
            encoder.process(77, u32::try_from(rows.len()).unwrap());
            let mut sum = SchedDelta::default();
            for (id, row) in rows.iter().rev() {
                encoder.thread(*id, row);
                sum += row;
            }
            encoder.process(5, 0);
            let delays: DelayHistogram = [(7, 3), (255, 1)].into_iter().collect();
            if let Some(&id) = rows.keys().next() {
                encoder.delays([(77, &delays), (5, &delays)].into_iter());
                encoder.delays([(id, &delays)].into_iter());
            }
            let mut back = SchedRows::default();
            back.read(encoder.as_bytes()).unwrap();
            for (id, row) in &rows {
                prop_assert_eq!(back.thread(*id), *row);
            }
            let open: Vec<_> = rows.iter().map(|(id, row)| (77, *id, row.open_wait)).collect();
            prop_assert!(back.open_waits().eq(open));
            prop_assert_eq!((back.process(77).blocked_ns, back.process(77).wakeups), (sum.blocked_ns, sum.wakeups));
            prop_assert_eq!(back.process(77).longest_delay_ns, sum.longest_delay_ns);
            let expected = rows.keys().next().map(|_| &delays);
            prop_assert_eq!(back.process_delays(77).map(|delays| &**delays), expected);
            prop_assert_eq!(back.thread_delays(rows.keys().next().copied().unwrap_or(0)).map(|delays| &**delays), expected);
            prop_assert_eq!(back.process_delays(6), None);
            let mut part = SchedRows::default();
            part.read_of(encoder.as_bytes(), &mut |id| id == 5).unwrap();
            prop_assert_eq!((part.processes.len(), part.threads.len(), part.process_delays(77)), (1, 0, None));
            prop_assert_eq!(part.process_delays(5).map(|delays| &**delays), expected);
            part.read_of(encoder.as_bytes(), &mut |id| id == 77).unwrap();
            prop_assert_eq!((&part.threads, part.process(77)), (&back.threads, back.process(77)));
            prop_assert_eq!((back.process(5), back.thread(0)), (SchedDelta::default(), SchedDelta::default()));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut back = SchedRows::default();
            let _ = back.read(&bytes);
            prop_assert!(back.threads.len() <= bytes.len());
        }
    }
}

mod histograms {
    use proptest::prelude::*;

    use super::super::*;

    proptest! {
        #[test]
        fn it_comes_back(counts in prop::collection::btree_map(any::<u8>(), 1..u64::MAX, 0..40)) {
            let histogram: DelayHistogram = counts.into_iter().collect();
            prop_assert_eq!(DelayHistogram::unpack(&histogram.pack()).unwrap(), histogram);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = DelayHistogram::unpack(&bytes);
        }
    }
}

mod waits {
    use proptest::prelude::*;

    use super::super::*;

    proptest! {
        #[test]
        fn they_come_back(times in prop::collection::btree_map(1_u64..500, 1..u64::from(u32::MAX), 0..6)) {
            let waits: Waits = times.into_iter().map(|(code, us)| (WaitReason::from_code(code), us * 1_000)).collect();
            prop_assert_eq!(Waits::unpack(&waits.pack()).unwrap(), waits);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Waits::unpack(&bytes);
        }
    }
}
