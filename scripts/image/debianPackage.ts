import { spawnSync } from "node:child_process"
import { type FileEntry, type FileTree, file } from "./FileTree.ts"
import { readTar } from "./tar.ts"

/** The most that a member of a package may decompress to, far more than any here. */
const MAX_BYTES = 512 * 1024 * 1024

/** The members of an `ar` archive, by name. */
const readAr = (bytes: Buffer): ReadonlyMap<string, Buffer> => {
  if (bytes.toString("latin1", 0, 8) !== "!<arch>\n") throw new Error("this is no Debian package")
  const members = new Map<string, Buffer>()
  for (let at = 8; at + 60 <= bytes.length;) {
    const name = bytes
      .toString("latin1", at, at + 16)
      .trim()
      .replace(/\/$/, "")
    const size = Number.parseInt(bytes.toString("latin1", at + 48, at + 58), 10)
    members.set(name, bytes.subarray(at + 60, at + 60 + size))
    // Members begin at even offsets.
    at += 60 + size + (size % 2)
  }
  return members
}

/** Node.js has no xz. */
const unxz = (bytes: Buffer): Buffer => {
  const { error, status, stdout } = spawnSync("xz", ["--decompress", "--stdout"], {
    input: bytes,
    maxBuffer: MAX_BYTES
  })
  if (error !== undefined)
    throw new Error(`the program xz, which unpacks Debian packages, does not run: ${error.message}`)
  if (status !== 0) throw new Error("xz cannot unpack the Debian package")
  return stdout
}

/** The archive of a package whose name begins with this text. */
const archiveOf = (members: ReadonlyMap<string, Buffer>, name: "control" | "data"): FileTree => {
  const member = members.get(`${name}.tar.xz`)
  if (member === undefined) throw new Error(`the Debian package has no ${name}.tar.xz`)
  return readTar(unxz(member))
}

/** Parts of packages that the service does not use: manuals, translations, conversions of text, PostgreSQL's compiler. */
const UNUSED = [
  /^usr\/lib\/[^/]+\/gconv\//,
  /^usr\/share\/(?:man|locale|lintian|info|bug|doc-base|bash-completion|gdb|readline|perl5|menu)\//,
  /^usr\/share\/doc\/(?![^/]+\/copyright$)/,
  /^usr\/share\/postgresql(?:-common)?\/[^/]+\/man\//,
  /^usr\/lib\/postgresql\/[^/]+\/lib\/(?:bitcode\/|llvmjit|pgxs\/)/,
  // Extensions that need libraries of their own, and none of which the service creates.
  /^usr\/lib\/postgresql\/[^/]+\/lib\/(?:uuid-ossp|pgxml|sepgsql)\.so$/,
  /^usr\/share\/zoneinfo\/(?:posix|right)\//,
  /^usr\/sbin\//,
  /^etc\/(?:ca-certificates|cron|dpkg|init\.d|logrotate\.d|default|apt|profile\.d|update-motd\.d|ld\.so\.conf)/,
  /^(?:lib|usr\/lib)\/(?:systemd|tmpfiles\.d|udev)\//,
  /^var\/lib\/dpkg\//
]

/** Directories that are links into `usr`; older packages have their files at these paths. */
const MERGED = /^(?:bin|sbin|lib|lib64)\//

/** A package's files that the image needs, and the entry that tells scanners of it. */
export const unpackDebianPackage = (bytes: Buffer): FileTree => {
  const members = readAr(bytes)
  const files = new Map<string, FileEntry>()
  for (const [place, entry] of archiveOf(members, "data")) {
    const path = MERGED.test(place) ? `usr/${place}` : place
    // Directories are made where files are.
    if (entry.kind === "directory" || UNUSED.some((unused) => unused.test(path))) continue
    files.set(path, entry.kind === "file" ? { ...entry, mode: entry.mode & 0o755, owner: 0 } : entry)
  }
  const control = archiveOf(members, "control")
  const facts = control.get("control")
  if (facts?.kind !== "file") throw new Error("the Debian package has no control file")
  const name = /^Package: (\S+)$/m.exec(Buffer.from(facts.content).toString())?.[1]
  if (name === undefined) throw new Error("the Debian package has no name")
  // Where scanners of vulnerabilities look for the packages of images without dpkg.
  files.set(`var/lib/dpkg/status.d/${name}`, file(facts.content))
  const sums = control.get("md5sums")
  if (sums?.kind === "file") files.set(`var/lib/dpkg/status.d/${name}.md5sums`, file(sums.content))
  return files
}
