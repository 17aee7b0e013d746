import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"

const SUITE = "https://github.com/json-schema-org/JSON-Schema-Test-Suite.git"
/** Git checks that the content has this id. */
const SUITE_COMMIT = "44401e0c046704b476ec9d2e2fccdaee618f259d"

const VALIDATOR = ["@hyperjump/json-schema@1.18.0", "@hyperjump/browser@1.5.0"]

/** Longest wait for a download. Without a network, some programs wait for minutes. */
const TIMEOUT_MILLIS = 60_000

const run = (program: string, args: ReadonlyArray<string>, cwd: string): string => {
  const { error, status, stderr, stdout } = spawnSync(program, args, {
    cwd,
    encoding: "utf8",
    timeout: TIMEOUT_MILLIS,
    env: { ...process.env, GIT_TERMINAL_PROMPT: "0" }
  })
  if (status !== 0) throw new Error(error?.message ?? (stderr.trim() || stdout.trim()))
  return stdout.trim()
}

/** Installs unless it is there. Returns the reason if it cannot be used; a failed installation leaves nothing behind. */
const prepare = (tool: string, cwd: string, mayInstall: boolean, install: () => void): string | undefined => {
  if (existsSync(tool)) return undefined
  if (!mayInstall) return "it is not installed: `npm run schemas` installs it"
  mkdirSync(cwd, { recursive: true })
  try {
    install()
    return undefined
  } catch (error) {
    rmSync(tool, { recursive: true, force: true })
    const [reason = ""] = (error instanceof Error ? error.message : String(error)).split("\n")
    return `it cannot be installed: ${reason}`
  }
}

/** Downloads the JSON-Schema-Test-Suite into a folder. Returns the reason if that fails. */
export const prepareSuite = (folder: string, mayInstall: boolean): string | undefined =>
  prepare(path.join(folder, "tests"), folder, mayInstall, () => {
    run("git", ["init", "--quiet"], folder)
    run("git", ["fetch", "--quiet", "--depth=1", SUITE, SUITE_COMMIT], folder)
    run("git", ["checkout", "--quiet", "FETCH_HEAD"], folder)
  })

/** Installs the second validator into a folder. Returns the reason if that fails. */
export const prepareValidator = (folder: string, mayInstall: boolean): string | undefined =>
  prepare(path.join(folder, "node_modules", "@hyperjump", "json-schema"), folder, mayInstall, () => {
    // A package of its own, so that npm installs here.
    writeFileSync(path.join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }))
    run("npm", ["install", "--no-audit", "--no-fund", "--save-exact", ...VALIDATOR], folder)
  })
