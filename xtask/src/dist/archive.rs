//! Archives, of the folders as they lie below a prefix. They work wherever they are unpacked.

use super::build::Built;
use super::{Dist, copy, copy_licences, emptied, glibc, run};
use crate::install::{BUILDS, COMMANDS, Place, VERSION, install};
use crate::{files, place};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries and the command; the debug files.
pub fn make(dist: &Dist, built: &Built, page_writer: &Path) -> Result<Vec<PathBuf>, String> {
    let (machine, floor) = (built.machine.name, glibc::FLOOR.number());
    let name = format!("toft-{VERSION}-{machine}-linux-glibc{floor}");
    let stage = dist.work.join(machine).join("archive");
    emptied(&stage)?;
    let mut place = Place::packed(format!("/{name}"), &stage, "lib");
    place.page_writer = Some(page_writer.to_owned());
    install(&built.folder, &place)?;
    // pkg-config finds the folder by where the file is.
    for build in BUILDS {
        let file = format!("{build}.pc");
        let path = stage.join(&name).join("lib/pkgconfig").join(file);
        let moved = files::read(&path)?
            .replace(&format!("prefix=/{name}\n"), "prefix=${pcfiledir}/../..\n");
        files::write(&path, moved)?;
    }
    copy(&place::root().join("README.md"), &stage.join(&name).join("share/doc/toft/README.md"))?;
    let archive = pack(dist, &stage, &name, &name)?;
    // Debuggers look for them in a folder .debug beside the file, so both archives are unpacked in
    // one place.
    emptied(&stage)?;
    for file in files::in_folder(&built.debug)? {
        let own = files::name(&file);
        let is_command = COMMANDS.iter().any(|command| own == format!("{command}.debug"));
        let folder = if is_command { "bin/.debug" } else { "lib/.debug" };
        copy(&file, &stage.join(&name).join(folder).join(own))?;
    }
    Ok(vec![archive, pack(dist, &stage, &name, &format!("{name}-debug"))?])
}

/// The command alone.
pub fn make_command(dist: &Dist, built: &Built) -> Result<Vec<PathBuf>, String> {
    let name = format!("toft-{VERSION}-x86_64-linux-musl");
    let stage = dist.work.join("archive-musl");
    emptied(&stage)?;
    let root = stage.join(&name);
    for command in COMMANDS {
        copy(&built.folder.join(command), &root.join("bin").join(command))?;
    }
    copy_licences(&root.join("share/doc/toft"))?;
    let pages = root.join("share/man/man1");
    files::make_folder(&pages)?;
    run(Command::new(built.folder.join("toft")).args(["man", "-o"]).arg(&pages))?;
    Ok(vec![pack(dist, &stage, &name, &name)?])
}

/// One archive of a folder. Names are in order, and times and owners are the same for all.
fn pack(dist: &Dist, stage: &Path, folder: &str, name: &str) -> Result<PathBuf, String> {
    let path = dist.out.join(format!("{name}.tar.gz"));
    let plain = stage.join(format!("{name}.tar"));
    run(Command::new("tar")
        .args([
            "--create",
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--mode=go+u,go-w",
        ])
        .arg(format!("--mtime=@{}", dist.epoch))
        .arg("--file")
        .arg(&plain)
        .arg("--directory")
        .arg(stage)
        .arg(folder))?;
    run(Command::new("gzip").args(["-9", "--no-name"]).arg(&plain))?;
    copy(&plain.with_extension("tar.gz"), &path)?;
    Ok(path)
}
