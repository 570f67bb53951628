//! `enforcer overhead model`: what a pod costs as a function of its virtual machine's memory.

use super::{report, stored};
use crate::{
    cgroup::shown,
    cli::{
        Exit, Failure, json,
        options::{self, Json},
        print,
        table::{Align, table},
    },
    overhead::{
        by_size::{Model, Point},
        fit::round_up_mib,
    },
};
use enforcer_gate::Bytes;
use serde::Serialize;
use std::{fmt::Write as _, path::PathBuf};

const WHAT: &str = "can't fit a model";
const READ: &str = "can't fit a model: can't use";

/// Fits what a pod costs to its virtual machine's memory: a + b x memory
///
/// Takes measurements of one runtime with virtual machines of different sizes. The number for another size is that of
/// the line and a margin; how far the measurements lie from the line is told beside it.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// What measure --output json has written, two or more
    #[arg(required = true, num_args = 2..=64, value_name = "FILE")]
    measured: Vec<PathBuf>,
    /// The memory of the virtual machine to tell the overhead of
    #[arg(long, value_name = "QUANTITY", value_parser = options::target)]
    vm_memory: Option<Bytes>,
    /// What is added to it
    #[arg(long, value_name = "QUANTITY", default_value = "1Mi", value_parser = options::target)]
    margin: Bytes,
    #[command(flatten)]
    json: Json,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    points: &'a [Point],
    #[serde(flatten)]
    model: &'a Model,
    pod_fixed: Option<Bytes>,
}

pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut points = Vec::new();
    for file in &options.measured {
        let run = stored::read(READ, file)?;
        let todo = "measure with virtual machines whose monitor has its memory in its command line";
        let point = Point::of(&run).map_err(|error| Failure::new(Exit::Failed, READ, file, &error, todo))?;
        points.push(point);
    }
    let model = Model::fit(&points)
        .map_err(|error| Failure::new(Exit::Usage, WHAT, "", &error, "name measurements of other sizes"))?;
    let fixed =
        options.vm_memory.map(|machine| round_up_mib(model.at(machine).saturating_add(options.margin)));
    if options.json.json {
        print(&json::line(&Document { points: &points, model: &model, pod_fixed: fixed }))?;
    } else {
        print(&text(options, &points, &model, fixed))?;
    }
    Ok(Exit::Done)
}

fn text(options: &Options, points: &[Point], model: &Model, fixed: Option<Bytes>) -> String {
    let mut rows = vec![["", "VM MEMORY", "A POD (p95)", "RESIDUAL"].map(String::from)];
    for ((file, point), residual) in options.measured.iter().zip(points).zip(&model.residuals) {
        rows.push([
            shown(file),
            point.machine.to_string(),
            point.total.to_string(),
            report::signed(*residual),
        ]);
    }
    let mut text = table(0, [Align::Left, Align::Right, Align::Right, Align::Right], &rows);
    // Writing to a String can't fail.
    let _ = writeln!(
        text,
        "a pod costs {} and {} for each GiB of its virtual machine",
        report::signed(model.base),
        report::signed(model.each * f64::from(1 << 30))
    );
    let _ = match model.deviation {
        Some(deviation) => writeln!(text, "standard deviation {}", report::signed(deviation)),
        None => writeln!(text, "a line goes through any two: a third size tells whether it holds"),
    };
    if let (Some(machine), Some(fixed)) = (options.vm_memory, fixed) {
        let _ = writeln!(text, "with {machine}: podFixed: memory {}", report::mib(fixed));
        let sizes = points.iter().map(|point| point.machine);
        if sizes.clone().max().is_some_and(|max| machine > max)
            || sizes.min().is_some_and(|min| machine < min)
        {
            text.push_str("note: that is outside of the sizes that were measured\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::{Run, measured::measured, model::Vm};

    fn run_of(mib: u64, vm: u64) -> Run {
        let mut run = measured(mib, "");
        run.pods.iter_mut().for_each(|pod| pod.vm = Some(Vm { memory: Bytes::from_mib(vm), in_pod: true }));
        run
    }

    fn kept(run: &Run) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), json::line(run)).expect("is written");
        file
    }

    fn options(files: &[tempfile::NamedTempFile], vm: Option<u64>) -> Options {
        Options {
            measured: files.iter().map(|file| file.path().to_path_buf()).collect(),
            vm_memory: vm.map(Bytes::from_mib),
            margin: Bytes::from_mib(1),
            json: Json { json: false },
        }
    }

    #[test]
    fn sizes_make_a_line() {
        let files = [(60, 1024), (64, 2048), (68, 3072)].map(|(mib, vm)| kept(&run_of(mib, vm)));
        let options = options(&files, Some(8192));
        assert_eq!(run(&options), Ok(Exit::Done));
        let points: Vec<Point> = [(60, 1024), (64, 2048), (68, 3072)]
            .map(|(mib, vm)| Point::of(&run_of(mib, vm)).expect("has both"))
            .into();
        let model = Model::fit(&points).expect("three sizes");
        let text = text(&options, &points, &model, Some(Bytes::from_mib(90)));
        for line in
            ["and 4.00Mi for each GiB", "standard deviation 0.00Mi", "podFixed: memory 90Mi", "outside of"]
        {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn one_size_or_no_machine_makes_none() {
        let same = [kept(&run_of(60, 1024)), kept(&run_of(64, 1024))];
        assert_eq!(run(&options(&same, None)).expect_err("one size").exit, Exit::Usage);
        let none = [kept(&measured(60, "")), kept(&run_of(64, 1024))];
        let error = run(&options(&none, None)).expect_err("no machine");
        assert_eq!((error.exit, error.on.is_empty()), (Exit::Failed, false));
    }
}
