/**
 * Chooses the current versions of Debian's packages and writes them, with their digests, to `debian.json`. It needs apt, which verifies
 * the signatures of Debian's lists.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { architectures, debianLockFile, type DebianPackage } from "./sources.ts"

const RELEASE = "trixie"

/** Node.js is linked with the C and C++ libraries. The certificates are for settings that name the system's. */
const SYSTEM = ["base-files", "ca-certificates", "libc6", "libgcc-s1", "libstdc++6"]

/**
 * PostgreSQL's server, the shell that `initdb` starts programs with, time zones, and the libraries that the programs are linked with. Not
 * what the package depends on for other uses: Perl, its scripts, and LLVM, which compiles queries, and which the service turns off.
 */
const POSTGRES = [
  "postgresql-17",
  "dash",
  "tzdata",
  ...["libaudit1", "libcap-ng0", "libcap2", "libcom-err2", "libgssapi-krb5-2", "libicu76", "libk5crypto3"],
  ...["libkeyutils1", "libkrb5-3", "libkrb5support0", "libldap2", "liblz4-1", "liblzma5", "libpam0g"],
  ...["libpcre2-8-0", "libpq5", "libsasl2-2", "libselinux1", "libssl3t64", "libsystemd0", "libxml2"],
  ...["libxxhash0", "libzstd1", "zlib1g"]
]

const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

const run = (args: ReadonlyArray<string>, config: string): string => {
  const { error, status, stderr, stdout } = spawnSync("apt-get", args, {
    encoding: "utf8",
    env: { ...process.env, APT_CONFIG: config, LC_ALL: "C" }
  })
  if (status !== 0) throw new Error(`apt-get ${args.join(" ")}: ${error?.message ?? stderr.trim()}`)
  return stdout
}

/** A line that apt prints for a package: `'URL' FILE SIZE SHA256:DIGEST`. */
const URI = /^'https?:\/\/[^/]+\/[^/]+\/(pool\/[^']+)' (\S+)_(\S+)_\S+\.deb \d+ SHA256:([0-9a-f]{64})$/

export const updatePackages = (now: Date): void => {
  const folder = mkdtempSync(path.join(tmpdir(), "countersign-apt-"))
  try {
    for (const name of ["lists/partial", "cache/archives/partial", "etc/parts"])
      mkdirSync(path.join(folder, name), { recursive: true })
    writeFileSync(path.join(folder, "status"), "")
    const source = (archive: string, suite: string) =>
      `deb [signed-by=${KEYRING}] http://deb.debian.org/${archive} ${suite} main\n`
    writeFileSync(
      path.join(folder, "sources.list"),
      source("debian", RELEASE) +
        source("debian", `${RELEASE}-updates`) +
        source("debian-security", `${RELEASE}-security`)
    )
    const config = path.join(folder, "apt.conf")
    writeFileSync(
      config,
      [
        `Dir::State::lists "${folder}/lists";`,
        `Dir::State::status "${folder}/status";`,
        `Dir::Cache "${folder}/cache";`,
        `Dir::Etc::sourcelist "${folder}/sources.list";`,
        `Dir::Etc::sourceparts "${folder}/etc/parts";`,
        `Dir::Etc::preferencesparts "${folder}/etc/parts";`,
        `APT::Architecture "${architectures[0]}";`,
        `APT::Architectures { ${architectures.map((name) => `"${name}";`).join(" ")} };`,
        `Acquire::Languages "none";`,
        ""
      ].join("\n")
    )
    run(["update"], config)
    const choose = (architecture: string, names: ReadonlyArray<string>): ReadonlyArray<DebianPackage> => {
      const native = `APT::Architecture=${architecture}`
      const lines = run(["-o", native, "download", "--print-uris", ...names], config)
      const found = lines.split("\n").flatMap((line) => {
        const [, file, name, version, digest] = URI.exec(line) ?? []
        if (file === undefined || name === undefined || version === undefined || digest === undefined)
          return []
        return [{ name, version: decodeURIComponent(version), path: file, sha256: digest }]
      })
      const missing = names.filter((name) => !found.some((one) => one.name === name))
      if (missing.length > 0) throw new Error(`${RELEASE} has no package ${missing.join(", ")}`)
      return found.toSorted((left, right) => (left.name < right.name ? -1 : 1))
    }
    const packages = Object.fromEntries(
      architectures.map((architecture) => [
        architecture,
        { system: choose(architecture, SYSTEM), postgres: choose(architecture, POSTGRES) }
      ])
    )
    const snapshot = now.toISOString().replaceAll(/[-:]|\.\d+/g, "")
    writeFileSync(
      debianLockFile,
      `${JSON.stringify({ release: RELEASE, snapshot, packages }, undefined, 2)}\n`
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
