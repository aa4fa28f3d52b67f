//! Writes five steps of a small group with ranks as threads: `heat PATH METHOD [RANKS [STEPS]]`.

use thalweg_comm::{Communicator, threads};
use thalweg_io::{Mode, Session};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or("heat.bp".into());
    let method = arguments.next().unwrap_or("MPI".into());
    let ranks = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(4);
    let steps: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let xml = format!(
        r#"<adios-config host-language="C"><adios-group name="heat">
  <var name="NX" type="integer"/><var name="ranks" type="integer"/><var name="rank" type="integer"/>
  <global-bounds dimensions="ranks,NX" offsets="rank,0"><var name="t" type="double" dimensions="1,NX"/></global-bounds>
  <attribute name="units" path="/t" type="string" value="K"/>
</adios-group><method group="heat" method="{method}"/></adios-config>"#
    );
    let outcomes = threads::run(ranks, |comm| -> thalweg_types::Result<()> {
        let session = Session::from_xml(&xml, "heat.xml", comm.duplicate()?)?;
        for step in 0..steps {
            let mode = if step == 0 { Mode::Write } else { Mode::Append };
            let mut output = session.open("heat", &path, mode, comm.duplicate()?)?;
            output.write_values("NX", &[6i32])?;
            output.write_values("ranks", &[comm.size() as i32])?;
            output.write_values("rank", &[comm.rank() as i32])?;
            let t: Vec<f64> = (0..6).map(|i| f64::from(i + 10 * comm.rank() as i32) + 100.0 * step as f64).collect();
            output.write_values("t", &t)?;
            output.close()?;
        }
        session.finalize()
    });
    if let Some(error) = outcomes.into_iter().find_map(Result::err) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
