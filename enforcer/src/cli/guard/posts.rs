//! The cgroups that were named to be guarded.

use super::options::Stand;
use crate::cgroup::{Cgroup, CgroupError, shown};
use crate::cli::Failure;
use crate::guard::log::Standing;

/// Cgroups that a record of the guard's beginning lists.
const LISTED_MAX: usize = 256;

/// A cgroup that was named.
pub(super) struct Post {
    pub(super) cgroup: Cgroup,
    /// It is guarded itself.
    pub(super) own: bool,
    /// What is below it is guarded.
    pub(super) below: bool,
    /// It was removed, and nothing is at its path yet.
    pub(super) gone: bool,
}

/// The cgroups that were named, each once.
pub(super) fn posts(what: &str, options: &Stand) -> Result<Vec<Post>, Failure> {
    let mut posts: Vec<Post> = Vec::new();
    let own = options.cgroups.iter().map(|path| (path, true));
    for (path, own) in own.chain(options.all_below.iter().map(|path| (path, false))) {
        let cgroup = Cgroup::open(path).map_err(|error| Failure::cgroup(what, path, &error))?;
        if own && cgroup.limit("memory.max").is_err() {
            return Err(Failure::cgroup(what, path, &cgroup.why_no_memory()));
        }
        match posts.iter_mut().find(|post| post.cgroup.id() == cgroup.id()) {
            Some(post) => (post.own, post.below) = (post.own || own, post.below || !own),
            None => posts.push(Post { cgroup, own, below: !own, gone: false }),
        }
    }
    Ok(posts)
}

/// The ancestors of what is guarded that are not guarded themselves, each once: their limits hold inside as well.
pub(super) fn unguarded_above(posts: &[Post]) -> Result<Vec<String>, CgroupError> {
    let guarded = |cgroup: &Cgroup| {
        posts.iter().any(|post| {
            let itself = post.cgroup.id() == cgroup.id();
            if itself { post.own } else { post.below && cgroup.path().starts_with(post.cgroup.path()) }
        })
    };
    let mut above = Vec::new();
    for post in posts {
        // What is named for what is below it is above that.
        let itself = [post.cgroup.clone()].into_iter().filter(|cgroup| !cgroup.is_root());
        for cgroup in itself.chain(post.cgroup.ancestors()?) {
            let name = shown(cgroup.path());
            if !guarded(&cgroup) && cgroup.limit("memory.max").is_ok() && !above.contains(&name) {
                above.push(name);
            }
        }
    }
    Ok(above)
}

/// A cgroup with a limit to look at before anything depends on it: itself, or a child.
pub(super) fn to_look_at(cgroup: &Cgroup) -> Option<Cgroup> {
    let has_limit = |cgroup: &Cgroup| cgroup.limit("memory.max").is_ok();
    if has_limit(cgroup) {
        return Some(cgroup.clone());
    }
    let children = std::fs::read_dir(cgroup.absolute()).ok()?.flatten();
    children.filter_map(|entry| Cgroup::open(&entry.path()).ok()).find(has_limit)
}

/// What the log says that is guarded, and how.
pub(super) fn standing(options: &Stand, posts: &[Post]) -> Standing {
    let cover = options.cover(true, false);
    let named = |which: fn(&Post) -> bool| {
        posts.iter().filter(move |post| which(post)).map(|post| shown(post.cgroup.absolute()))
    };
    let (own, below) = (named(|post| post.own), named(|post| post.below));
    let unlisted = |all: usize| all.saturating_sub(LISTED_MAX) as u64;
    Standing {
        mode: cover.mode.name().into(),
        files: cover.files.iter().map(|file| file.name().into()).collect(),
        margin: cover.margin,
        unlisted: unlisted(own.clone().count()) + unlisted(below.clone().count()),
        cgroups: own.take(LISTED_MAX).collect(),
        below: below.take(LISTED_MAX).collect(),
    }
}
