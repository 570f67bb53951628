//! `enforcer oom`: what was recorded.

use super::{
    ListOptions,
    filter::Filter,
    show::{self, COLUMNS},
};
use crate::{
    cli::{Exit, Failure, records::Shown, table::Align},
    oom::Stored,
};

const SHOWN: Shown<'_, Stored, COLUMNS> = Shown {
    what: "can't show the OOM records in",
    maker: "enforcer oom record without one",
    nothing: "no OOM was recorded",
    head: ["TIME", "VICTIM", "RSS", "LIMIT OF", "LIMIT", "WHAT TO DO"],
    // The RSS and the limit are numbers.
    align: [Align::Left, Align::Left, Align::Right, Align::Left, Align::Right, Align::Left],
    row: show::row,
};

pub(super) fn run(options: &ListOptions) -> Result<Exit, Failure> {
    let filter = Filter::new(options);
    SHOWN.run(&options.store.store, &options.show, |stored| filter.wants(stored))
}
