//! `enforcer overhead clean`: removes what a killed measurement left.

use super::{client, failed, node, tokio};
use crate::{
    cli::{
        Exit, Failure, json,
        options::{self, Json},
        print,
    },
    overhead::{pods::clean, run::Turn},
};

const WHAT: &str = "can't clean up";

/// Removes pods, images and cgroups that a killed measurement left
///
/// They are known by their label and name. Refused while a measurement goes on.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    cri: options::Cri,
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let (socket, mount) = node(WHAT, &options.cri)?;
    let _turn = Turn::take(&socket).map_err(|error| failed(WHAT, &error))?;
    let cleaned = tokio(WHAT)?.block_on(async {
        let client = client(WHAT, &options.cri, &socket).await?;
        clean(&client, &mount, None).await.map_err(|error| failed(WHAT, &error))
    })?;
    let text = if options.json.json {
        json::line(&cleaned)
    } else {
        format!("removed {} pods and {} images\n", cleaned.pods, cleaned.images)
    };
    print(&text)?;
    Ok(Exit::Done)
}
