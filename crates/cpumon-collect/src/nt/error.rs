//! Why an answer of the system is refused.

/// An answer that does not have the layout it should have. Nothing of it is used.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NtError {
    /// A record reaches beyond the end.
    #[error("the record of a process at byte {at} is cut")]
    Cut {
        /// Where the record begins.
        at: usize,
    },
    /// The next record would begin inside this one.
    #[error("the process at byte {at} says that the next one begins inside of it")]
    Overlap {
        /// Where the record begins.
        at: usize,
    },
    /// The name is somewhere else.
    #[error("the name of the process at byte {at} is outside of the answer")]
    Name {
        /// Where the record begins.
        at: usize,
    },
    /// A length that is no multiple of a record's.
    #[error("{bytes} bytes are no whole number of records of CPUs")]
    Cpus {
        /// How many bytes came.
        bytes: usize,
    },
    /// More services than the answer has bytes for.
    #[error("{count} services do not fit into the answer")]
    Services {
        /// How many there should be.
        count: usize,
    },
    /// The name of a service is somewhere else.
    #[error("the name of service {number} is outside of the answer")]
    ServiceName {
        /// Its number in the list, from 0.
        number: usize,
    },
}
