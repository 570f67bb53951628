//! Reading cgroups, relative to a directory descriptor.
