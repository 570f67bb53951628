//! The hook of the guard.

use super::{Hook, Point, at};
use crate::probe::summary::Argument;
use enforcer_abi::{Field, Program};

pub(super) const GUARD: &[Hook] = &[Hook {
    name: "lsm:file_permission",
    attachments: &[at(
        Program::GuardWrite,
        Point::Lsm("file_permission"),
        &[(0, Argument::PointerTo("file")), (1, Argument::Named("int"))],
        &[
            Field::FileInode,
            Field::InodeSb,
            Field::InodePrivate,
            Field::SbMagic,
            Field::KnName,
            Field::KnParent,
            Field::KnPriv,
            Field::KnId,
            Field::CgroupMemoryCss,
            Field::CgroupPopulated,
            Field::CgroupPopulatedDomains,
            Field::CgroupPopulatedThreaded,
            Field::MemcgUsage,
            Field::MemcgMax,
            Field::MemcgHigh,
            Field::MemcgSwapUsage,
            Field::MemcgSwapMax,
            Field::TaskFlags,
            Field::TaskStatus,
            Field::TaskFiles,
            Field::FilesTable,
            Field::TableFds,
            Field::RegsCall,
            Field::RegsFirst,
            Field::RegsSecond,
            Field::RegsThird,
        ],
    )],
    lost: None,
}];
