//! A measurement as a page of its own: nothing is fetched, nothing is run.

mod charts;
mod svg;

use super::report;
use crate::overhead::model::Run;
use std::fmt::Write as _;
use svg::escape;

const STYLE: &str = include_str!("style.css");

/// The page.
pub(super) fn page(run: &Run) -> String {
    let title = format!("Overhead of a pod: {}, handler {}", run.runtime, report::handler(&run.handler));
    let mut page = format!(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        escape(&title)
    );
    if let Some(result) = &run.result {
        let verdict = result.acceptance.verdict.name();
        // Writing to a String can't fail.
        let _ = writeln!(
            page,
            "<p class=\"verdict {verdict}\"><strong>{}</strong> <code>podFixed.memory: {}</code><br/>{}</p>",
            verdict,
            report::mib(result.pod_fixed),
            escape(&report::verdict(&result.acceptance)).replace('\n', "<br/>")
        );
        let (stacked, every) = charts::stacked(run);
        page.push_str("<h2>What each pod costs</h2>\n");
        page.push_str(&stacked);
        if every > 1 {
            let _ = writeln!(page, "<p>Of every {every} readings one is shown.</p>");
        }
        page.push_str(&charts::legend(result));
        page.push_str("<h2>The node's word on it</h2>\n");
        page.push_str(&charts::slope(run, result));
        page.push_str(
            "<p>Dots are steps; the full line and its area are what the node misses with each pod, the dashed line what \
             was attributed and can't be reclaimed.</p>\n<h2>How the totals lie</h2>\n",
        );
        page.push_str(&charts::distribution(run, result));
    }
    let _ = write!(
        page,
        "<h2>In figures</h2>\n<pre>{}</pre>\n<h2>RuntimeClass</h2>\n<pre>{}</pre>\n</body>\n</html>\n",
        escape(&report::table(run)),
        escape(&report::yaml(run))
    );
    page
}

#[cfg(test)]
mod tests;
