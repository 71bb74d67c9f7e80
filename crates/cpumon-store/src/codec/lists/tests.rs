mod processes {
    use super::super::*;
    use crate::codec::zip;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_comes_back(rows in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..60)) {
            let mut list: Vec<ListedProcess> =
                rows.into_iter().map(|(id, thread_rows)| ListedProcess { id, thread_rows }).collect();
            list.sort_by_key(|one| one.id);
            prop_assert_eq!(unpack::<ListedProcess>(&pack(&list, 3).unwrap()).unwrap(), list);
        }

        #[test]
        fn damage_is_an_error_or_a_short_list(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let block = zip(&bytes, 3).unwrap();
            prop_assert!(unpack::<ListedProcess>(&block).map_or(0, |list| list.len()) <= bytes.len());
        }
    }
}

mod threads {
    use super::super::*;
    use crate::codec::zip;
    use proptest::prelude::*;

    fn any_thread() -> impl Strategy<Value = ListedThread> {
        let reason = prop_oneof![1_u16..8, 0x1000_u16..0x3001].prop_map(WaitReason);
        (any::<u64>(), any::<u64>(), reason, any::<u16>(), any::<u8>()).prop_map(
            |(process_id, id, reason, last_cpu, state)| ListedThread {
                process_id,
                id,
                reason,
                last_cpu,
                state,
            },
        )
    }

    proptest! {
        #[test]
        fn a_list_comes_back(mut list in proptest::collection::vec(any_thread(), 0..60)) {
            list.sort_unstable();
            prop_assert_eq!(unpack::<ListedThread>(&pack(&list, 3).unwrap()).unwrap(), list);
        }

        #[test]
        fn damage_is_an_error_or_a_short_list(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let block = zip(&bytes, 3).unwrap();
            prop_assert!(unpack::<ListedThread>(&block).map_or(0, |list| list.len()) <= bytes.len());
        }
    }
}
