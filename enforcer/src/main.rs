//! The `enforcer` command.

fn main() {
    enforcer::actuate::run_restorer_if_asked();
}
