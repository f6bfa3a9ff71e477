//! The file that `TOFT_REPORT` names.

use toft_core::options::Options;
use toft_core::os::process;
use toft_core::report::Writer;

/// Opens the file of reports to append to it. Returns `None` if there is none, and if it cannot be
/// opened: then a line on stderr names it.
pub fn open_report_file(options: &Options) -> Option<i32> {
    let name = options.report_file.as_ref()?.as_c_str();
    let file = process::open_to_append(name);
    if file.is_none() {
        let mut w: Writer<512> = Writer::new(libc::STDERR_FILENO);
        w.text("toft: TOFT_REPORT: cannot write to ").bytes(name.to_bytes());
        w.text("; the report is on stderr only\n");
        w.flush();
    }
    file
}
