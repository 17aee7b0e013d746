/**
 * Makes a checkout ready to run, under any Node from 18 on and without a dependency: installs from the lockfile where that
 * was not done yet, and sees to a Node that is new enough. Everything in place: no output, a few milliseconds.
 *
 * Node 24 comes from the lockfile (`scripts/node`; as `node_modules/.bin/node` npm's scripts find it first); where no such package exists
 * for the platform, or it does not run there, the machine's own Node does if it is new enough.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { alone as lockedAlone, LockHeld } from "./lock.js"

const root = fileURLToPath(new URL("..", import.meta.url))
const bin = join(root, "node_modules", ".bin")
const onWindows = process.platform === "win32"

/** The oldest Node that runs Countersign: [major, minor]. */
const OLDEST = [22, 19]

/** An error for the reader: one line, no stack. */
export class SetupFailed extends Error {}

/** Whether a version such as `24.21.0` is new enough to run Countersign. */
export const isNewEnough = (version) => {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number)
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])
}

const say = (line) => process.stdout.write(`countersign: ${line}\n`)

const stampFile = join(root, "node_modules", ".countersign-setup")

const stamp = () =>
  `${createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex")} ${process.platform} ${process.arch}`

const isStamped = (wanted) => {
  try {
    return readFileSync(stampFile, "utf8") === wanted
  } catch {
    return false
  }
}

/**
 * Whether npm's own record says that everything the lockfile wants is there: an installation by hand counts. What is
 * optional, or made for certain platforms, may be missing.
 */
const isInstalled = () => {
  try {
    const read = (...file) => JSON.parse(readFileSync(join(root, ...file), "utf8")).packages
    const there = read("node_modules", ".package-lock.json")
    return Object.entries(read("package-lock.json")).every(
      ([name, wanted]) =>
        name === "" ||
        wanted.optional === true ||
        wanted.os !== undefined ||
        wanted.cpu !== undefined ||
        there[name]?.integrity === wanted.integrity
    )
  } catch {
    return false
  }
}

/** npm's failures in one line each. */
const whyNpmFailed = (output) => {
  if (/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|network/.test(output)) {
    return "the package registry cannot be reached; the first start needs the network (or a proxy: npm config set proxy ...)"
  }
  if (/EUSAGE/.test(output)) return "package.json and package-lock.json disagree; run `npm install` once"
  if (/ENOSPC/.test(output)) return "the disk is full; free some space"
  if (/EACCES|EROFS|EPERM/.test(output)) return `${root} is not writable for this account`
  return output.trim().split("\n").slice(0, 3).join(" ") || "npm gave no reason"
}

const install = () => {
  say("installing what package-lock.json names (once; about a minute on a slow network)")
  const flags = [
    "ci",
    "--include=dev",
    "--include=optional",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error"
  ]
  // Inside one of npm's scripts, the npm that runs it; a different program may be first in the path.
  const self = process.env.npm_execpath
  const ours = self !== undefined && /npm-cli\.c?js$/.test(self)
  const { error, status, stderr } = ours
    ? spawnSync(process.execPath, [self, ...flags], {
        cwd: root,
        encoding: "utf8",
        stdio: ["ignore", "ignore", "pipe"]
      })
    : spawnSync("npm", flags, {
        cwd: root,
        encoding: "utf8",
        shell: onWindows,
        stdio: ["ignore", "ignore", "pipe"]
      })
  if (error?.code === "ENOENT")
    throw new SetupFailed("npm is not installed; install Node with npm from https://nodejs.org")
  if (error) throw new SetupFailed(`npm could not be run: ${error.message}`)
  if (status !== 0) throw new SetupFailed(`npm ci failed: ${whyNpmFailed(stderr)}`)
}

/** The version that a Node says it is, or `undefined` where it does not run on this machine. */
const versionOf = (program) => {
  const { status, stdout } = spawnSync(program, ["--version"], { encoding: "utf8", shell: onWindows })
  return status === 0 ? stdout.trim() : undefined
}

/** Sees to a Node that runs Countersign. */
const checkNode = () => {
  const ours = join(bin, onWindows ? "node.cmd" : "node")
  if (existsSync(ours)) {
    if (versionOf(ours) !== undefined) return
    // It would be found before the machine's own Node, in every script of npm's.
    for (const name of ["node", "node.cmd", "node.ps1"]) rmSync(join(bin, name), { force: true })
  }
  if (isNewEnough(process.version)) return
  throw new SetupFailed(
    `Node ${OLDEST.join(".")} or newer is needed (this is ${process.version}), and none comes as a package for ` +
      `${process.platform} ${process.arch}; install Node 24 from https://nodejs.org`
  )
}

/** Links the command into the checkout's own `.bin`: `npx` finds it there and has nothing to ask. */
const linkCommand = () => {
  const target = join(root, "scripts", "countersign.js")
  if (onWindows) {
    writeFileSync(join(bin, "countersign.cmd"), `@node "%~dp0\\..\\..\\scripts\\countersign.js" %*\r\n`)
    // package.json's start says `exec`, so that no shell stands between npm's signals and the service.
    writeFileSync(join(bin, "exec.cmd"), "@%*\r\n")
    return
  }
  chmodSync(target, 0o755)
  const link = join(bin, "countersign")
  rmSync(link, { force: true })
  symlinkSync("../../scripts/countersign.js", link)
}

/** One set-up of a checkout at a time: `npm ci` removes node_modules first. */
const alone = (work) => {
  const name = createHash("sha256").update(realpathSync(root)).digest("hex").slice(0, 16)
  const lock = join(tmpdir(), `countersign-setup-${name}.lock`)
  try {
    return lockedAlone(lock, work, () => say(`waiting for another set-up of this checkout (${lock})`))
  } catch (error) {
    throw error instanceof LockHeld ? new SetupFailed(error.message) : error
  }
}

/** Where the console's page is built in a checkout; the service looks for it here. */
const consoleDirectory = join(root, ".console")

/** Every file below a folder. Node reads folders in folders by itself only from 18.17 and 20.1 on. */
const filesBelow = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const place = join(folder, entry.name)
    if (entry.isDirectory()) return filesBelow(place)
    return entry.isFile() ? [place] : []
  })

/** The files that the page is made of. */
const consoleSources = () => {
  const found = ["api", "client", "console", "domain"].flatMap((name) => filesBelow(join(root, "src", name)))
  // In place: the oldest Node that runs this has no `toSorted`.
  // oxlint-disable-next-line unicorn/no-array-sort
  return [...found.sort(), join(root, "scripts", "console.config.ts"), join(root, "package-lock.json")]
}

/** By content: what git checks out anew is not built anew. */
const consoleStamp = () => {
  const digest = createHash("sha256")
  for (const file of consoleSources())
    digest.update(relative(root, file)).update("\0").update(readFileSync(file))
  return digest.digest("hex")
}

const isConsoleBuilt = (wanted) => {
  try {
    return readFileSync(join(consoleDirectory, "stamp"), "utf8") === wanted
  } catch {
    return false
  }
}

/**
 * Builds the page where its sources have changed since it was built, beside the old one, which then makes way: a running service never
 * finds half of it. A page that cannot be built keeps nobody from the API, so that is said and no more.
 */
const buildConsole = () => {
  const wanted = consoleStamp()
  if (isConsoleBuilt(wanted)) return
  alone(() => {
    if (isConsoleBuilt(wanted)) return
    say("building the console's page (a few seconds, when it has changed)")
    const made = `${consoleDirectory}.new`
    const ours = join(bin, onWindows ? "node.cmd" : "node")
    const { status, stderr, stdout } = spawnSync(
      existsSync(ours) ? ours : process.execPath,
      [
        join(root, "node_modules", "vite", "bin", "vite.js"),
        "build",
        "--config",
        join(root, "scripts", "console.config.ts"),
        "--outDir",
        made,
        "--logLevel",
        "warn"
      ],
      { cwd: root, encoding: "utf8", shell: onWindows, env: { ...process.env, NODE_ENV: "production" } }
    )
    if (status !== 0) {
      say(
        `the console's page could not be built; the service starts without it: ${`${stderr}${stdout}`.trim()}`
      )
      return
    }
    writeFileSync(join(made, "stamp"), wanted)
    rmSync(consoleDirectory, { recursive: true, force: true })
    renameSync(made, consoleDirectory)
  })
}

/** Node and what it needs, as the lockfile names them. */
const ensureInstalled = () => {
  const wanted = stamp()
  if (isStamped(wanted)) return
  alone(() => {
    if (isStamped(wanted)) return
    if (!isInstalled()) install()
    mkdirSync(bin, { recursive: true })
    checkNode()
    linkCommand()
    writeFileSync(stampFile, wanted)
  })
}

/** Does whatever is missing. Throws `SetupFailed` where the reader has to act. */
export const setup = () => {
  ensureInstalled()
  buildConsole()
}

if (
  process.argv[1] !== undefined &&
  realpathSync(process.argv[1]) === realpathSync(fileURLToPath(import.meta.url))
) {
  try {
    setup()
  } catch (error) {
    if (!(error instanceof SetupFailed)) throw error
    process.stderr.write(`countersign: ${error.message}\n`)
    process.exitCode = 1
  }
}
