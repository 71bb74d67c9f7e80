//! Cells: the [`Value`] of a column in a row of an interval. Exports, SQL tables and screens all read them here, so that a name gives the
//! same value everywhere. Which field of the row that is, the table of columns says.

use super::values::{CellRow, IntervalView, Value};
use super::{ColumnId, Tables};
use crate::{
    CgroupInterval, CpuInterval, Delta, Fields, IrqInterval, ProcessInterval, SchedDelta, ThreadInterval,
    WaitReason,
};

/// Which percentile of the run delays a column shows, if it is one of those; 100 is the highest.
pub fn delay_percent(id: ColumnId) -> Option<u32> {
    Some(match id {
        ColumnId::RunDelayP50Ns => 50,
        ColumnId::RunDelayP90Ns => 90,
        ColumnId::RunDelayP99Ns => 99,
        ColumnId::RunDelayMaxNs => 100,
        _ => return None,
    })
}

/// The table whose rows are like this one.
fn table_of(row: CellRow<'_>) -> Tables {
    match row {
        CellRow::Host => Tables::HOST_INTERVAL,
        CellRow::Process(_) | CellRow::Group(..) => Tables::PROCESS_INTERVAL,
        CellRow::Thread(_) => Tables::THREAD_INTERVAL,
        CellRow::Wait(..) => Tables::WAIT_INTERVAL,
        CellRow::Cpu(_) => Tables::CPU_INTERVAL,
        CellRow::Irq(_) => Tables::IRQ_INTERVAL,
        CellRow::Cgroup(_) => Tables::CGROUP_INTERVAL,
    }
}

impl IntervalView<'_> {
    /// Value of one column of a process row.
    pub fn process<'v>(&'v self, row: &'v ProcessInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Process(row), id)
    }

    /// A cell of several processes together; only what is measured of each of them.
    pub fn group<'v>(&'v self, delta: &'v Delta, sched: &'v SchedDelta, id: ColumnId) -> Value<'v> {
        if !id.column().is_measured_of_tasks() {
            return Value::Null;
        }
        self.cell(CellRow::Group(delta, sched), id)
    }

    /// The number in [`IntervalView::group`], measured or not, to sort by; 0 of what is no number.
    pub fn weight(&self, delta: &Delta, sched: &SchedDelta, id: ColumnId) -> i64 {
        match (id.column().value)(self, CellRow::Group(delta, sched)) {
            Some(Value::Int(number)) => number,
            _ => 0,
        }
    }

    /// Value of one column of a thread row.
    pub fn thread<'v>(&'v self, row: &'v ThreadInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Thread(row), id)
    }

    /// A cell of the table of waits: one reason of one thread.
    pub fn wait<'v>(
        &'v self,
        row: &'v ThreadInterval,
        reason: WaitReason,
        ns: u64,
        id: ColumnId,
    ) -> Value<'v> {
        self.cell(CellRow::Wait(row, reason, ns), id)
    }

    /// A cell of the CPU table.
    pub fn cpu<'v>(&'v self, row: &'v CpuInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Cpu(row), id)
    }

    /// Value of one column of an interrupt line's row.
    pub fn irq<'v>(&'v self, row: &'v IrqInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Irq(row), id)
    }

    /// Value of one column of a control group's row.
    pub fn cgroup<'v>(&'v self, row: &'v CgroupInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Cgroup(row), id)
    }

    /// A cell of the host's interval: the ledger, the CPU modes of all CPUs together, health.
    pub fn host(&self, id: ColumnId) -> Value<'_> {
        self.cell(CellRow::Host, id)
    }

    fn cell<'v>(&'v self, row: CellRow<'v>, id: ColumnId) -> Value<'v> {
        let column = id.column();
        // Where CPUs have rows, they are known, though a sum over intervals that lack some does not say so.
        let is_measured = self.interval.fields.contains(column.needs - Fields::CPUS);
        let is_cell = is_measured && column.tables.contains(table_of(row));
        is_cell.then(|| (column.value)(self, row)).flatten().unwrap_or(Value::Null)
    }
}

#[cfg(test)]
mod tests;
