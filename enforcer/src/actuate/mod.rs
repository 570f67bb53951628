//! Changing limits: the journal, the restorer, every write read back.
