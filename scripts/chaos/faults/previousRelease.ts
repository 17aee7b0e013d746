/** The release before this one, from the history of the repository, for tests of upgrades. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import previous from "./previousRelease.json" with { type: "json" }

const root = fileURLToPath(new URL("../../..", import.meta.url))

const run = promisify(execFile)

/** A release that can be started, or why it cannot. */
export type PreviousRelease =
  | { readonly program: string; readonly commit: string; readonly schemaVersion: number }
  | { readonly unavailable: string }

const dependenciesOf = (lockfile: string): string => {
  const { packages }: { packages: Record<string, { version?: string }> } = JSON.parse(lockfile)
  // The root's own version is another one.
  return JSON.stringify(
    Object.entries(packages).map(([name, { version }]) => (name === "" ? "" : [name, version]))
  )
}

/**
 * Extracts the sources of the previous release to a directory outside of the repository, once, and gives them this checkout's dependencies.
 * A shallow clone does not have them, and other dependencies would make it another program: then it is unavailable.
 */
export const previousRelease: Effect.Effect<PreviousRelease> = Effect.promise(async () => {
  const { commit, schemaVersion } = previous
  const git = async (...args: ReadonlyArray<string>) =>
    (await run("git", ["-C", root, ...args], { maxBuffer: 64 * 1024 * 1024 })).stdout
  try {
    await git("cat-file", "-e", `${commit}^{commit}`)
  } catch {
    return { unavailable: `the history of the repository lacks commit ${commit}, the previous release` }
  }
  const lockfile = await git("show", `${commit}:package-lock.json`)
  if (
    dependenciesOf(lockfile) !== dependenciesOf(readFileSync(path.join(root, "package-lock.json"), "utf8"))
  ) {
    return { unavailable: `the previous release, ${commit}, has other dependencies than this checkout` }
  }
  // One for each checkout, because it links the dependencies of this one.
  const checkout = createHash("sha256").update(root).digest("hex").slice(0, 12)
  const directory = path.join(
    tmpdir(),
    `countersign-release-${commit}-${checkout}-${process.getuid?.() ?? 0}`
  )
  if (!existsSync(directory)) {
    const temporary = `${directory}.new-${process.pid}`
    mkdirSync(temporary, { mode: 0o700 })
    try {
      const archive = `${temporary}/release.tar`
      await git(
        "archive",
        "--format=tar",
        `--output=${archive}`,
        commit,
        "src",
        "package.json",
        "openapi.json"
      )
      await run("tar", ["-xf", archive, "-C", temporary])
      rmSync(archive)
      symlinkSync(path.join(root, "node_modules"), path.join(temporary, "node_modules"))
      if (!existsSync(directory)) renameSync(temporary, directory)
    } finally {
      rmSync(temporary, { recursive: true, force: true })
    }
  }
  return { program: path.join(directory, "src", "main.ts"), commit, schemaVersion }
})
