/**
 * Prepares a checkout: installs the dependencies of the lockfile, checks the Node version, generates the files that
 * follow from the contract, builds the console and bundles the service. Runs on Node 18 or later without dependencies.
 * If everything is in place already, it prints nothing and takes a few milliseconds.
 *
 * If the running Node is too old, Node 24 is installed too (`scripts/node`, with a lockfile of its own); npm scripts
 * find it first, as `node_modules/.bin/node`.
 *
 * `node scripts/setup.js agents bench frameworks lint mutants` also installs the coding agents that `npm run verify`
 * runs, the packages of benchmarks, of the adapters' tests and examples, of `npm test` and of `npm run mutants`, which are separate so that starting the service does not
 * download them.
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
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { compareSources, filesBelow, writeStamp } from "./freshness.js"
import { LockHeld, withFileLock } from "./lock.js"

const root = fileURLToPath(new URL("..", import.meta.url))
const bin = join(root, "node_modules", ".bin")
const onWindows = process.platform === "win32"

/** The oldest supported Node version: [major, minor]. */
const OLDEST_NODE = [22, 19]

/** A set-up error that the user can act on. Printed as one line, without a stack. */
export class SetupFailed extends Error {}

/** Whether a Node version such as `24.21.0` is supported. */
export const isNewEnough = (version) => {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number)
  return major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])
}

/** Not on standard output, which belongs to the command: a script or an MCP client reads it. */
const say = (line) => process.stderr.write(`countersign: ${line}\n`)

const stampIn = (directory) => join(directory, "node_modules", ".countersign-setup")

const stampOf = (directory) =>
  `${createHash("sha256")
    .update(readFileSync(join(directory, "package-lock.json")))
    .digest("hex")} ${process.platform} ${process.arch}`

const isStamped = (directory) => {
  try {
    return readFileSync(stampIn(directory), "utf8") === stampOf(directory)
  } catch {
    return false
  }
}

/**
 * Whether npm's own record (`node_modules/.package-lock.json`) lists every package of a lockfile, so that a manual `npm ci` counts too.
 * Optional and platform-specific packages may be missing, and peers that `.npmrc` leaves out.
 */
const isInstalled = (directory) => {
  try {
    const read = (...file) => JSON.parse(readFileSync(join(directory, ...file), "utf8")).packages
    const there = read("node_modules", ".package-lock.json")
    return Object.entries(read("package-lock.json")).every(
      ([name, wanted]) =>
        name === "" ||
        wanted.optional === true ||
        wanted.peer === true ||
        wanted.os !== undefined ||
        wanted.cpu !== undefined ||
        there[name]?.integrity === wanted.integrity
    )
  } catch {
    return false
  }
}

/** One line about a failure of npm. */
const npmFailureReason = (output) => {
  if (/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|network/.test(output)) {
    return "the package registry is unreachable; the first start needs network access (or a proxy: npm config set proxy ...)"
  }
  if (/EUSAGE/.test(output))
    return "package.json and package-lock.json are out of sync; run `npm install` once"
  if (/ENOSPC/.test(output)) return "the disk is full; free some space"
  if (/EACCES|EROFS|EPERM/.test(output)) return `${root} is not writable by this user`
  return output.trim().split("\n").slice(0, 3).join(" ") || "npm printed no reason"
}

/** Tools whose optional packages nothing needs: of the agent frameworks, programs of several 100 MB. */
const WITHOUT_OPTIONAL = new Set(["frameworks"])

/** Installs the packages of a lockfile. */
const install = (directory) => {
  const flags = [
    "ci",
    "--include=dev",
    WITHOUT_OPTIONAL.has(basename(directory)) ? "--omit=optional" : "--include=optional",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error"
  ]
  // Inside an npm script, use the npm that runs it: PATH may have a different one first.
  const npmScript = process.env.npm_execpath
  const isInNpmScript = npmScript !== undefined && /npm-cli\.c?js$/.test(npmScript)
  const options = { cwd: directory, encoding: "utf8", stdio: ["ignore", "ignore", "pipe"] }
  const { error, status, stderr } = isInNpmScript
    ? spawnSync(process.execPath, [npmScript, ...flags], options)
    : spawnSync("npm", flags, { ...options, shell: onWindows })
  if (error?.code === "ENOENT")
    throw new SetupFailed("npm is not installed; install Node with npm from https://nodejs.org")
  if (error) throw new SetupFailed(`npm could not be run: ${error.message}`)
  if (status !== 0) throw new SetupFailed(`npm ci failed: ${npmFailureReason(stderr)}`)
}

/** The folder of the packages with Node, and of what npm installs there. */
const nodePackages = join(root, "scripts", "node")

/** The Node that `installNode` installed for this platform, or `undefined`. */
export const installedNode = () => {
  const system = onWindows ? "win" : process.platform
  return [`node-${system}-${process.arch}`, `node-bin-${system}-${process.arch}`]
    .map((name) => join(nodePackages, "node_modules", name, "bin", onWindows ? "node.exe" : "node"))
    .find((program) => existsSync(program))
}

/** Whether a Node executable runs on this machine. */
const runs = (program) => spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0

/** Links the installed Node into `node_modules/.bin`, which npm scripts search first. */
const linkNode = (program) => {
  if (onWindows) {
    writeFileSync(join(bin, "node.cmd"), `@"${program}" %*\r\n`)
    return
  }
  const link = join(bin, "node")
  rmSync(link, { force: true })
  symlinkSync(relative(bin, program), link)
}

/** Installs Node 24 beside the dependencies, for a machine whose own Node is too old. */
const installNode = () => {
  if (installedNode() === undefined) {
    say("installing Node 24, because this one is too old")
    install(nodePackages)
  }
  const program = installedNode()
  if (program !== undefined && runs(program)) return linkNode(program)
  rmSync(join(bin, "node"), { force: true })
  throw new SetupFailed(
    `Node ${OLDEST_NODE.join(".")} or later is required (this is ${process.version}), and there is no Node package for ` +
      `${process.platform} ${process.arch}. Install Node 24 from https://nodejs.org`
  )
}

/** Whether npm scripts find a supported Node: the running one, or the installed one. */
const hasNode = () => isNewEnough(process.version) || existsSync(join(bin, onWindows ? "node.cmd" : "node"))

/** Folders of packages that nothing here uses; together 180 MB. `*` stands for any name. */
const UNUSED_FOLDERS = [
  // C headers, and the manual.
  ["scripts", "node", "node_modules", "*", "include"],
  ["scripts", "node", "node_modules", "*", "share"],
  // Copies of tsc, oxlint and tsgolint for other uses than `effect-tsgo diagnostics`, which runs the copy for the installed TypeScript.
  ["scripts", "lint", "node_modules", "@effect", "*", "artifacts", "oxlint"],
  ["scripts", "lint", "node_modules", "@effect", "*", "artifacts", "oxlint-tsgolint"],
  ["scripts", "lint", "node_modules", "@effect", "*", "lib", "tsc"]
]

/** The folders in a folder; none if it does not exist. */
const foldersIn = (folder) =>
  existsSync(folder)
    ? readdirSync(folder, { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map((entry) => join(folder, entry.name))
    : []

/** The paths that match a pattern. */
const matching = (pattern) =>
  pattern.reduce(
    (folders, name) => folders.flatMap((folder) => (name === "*" ? foldersIn(folder) : [join(folder, name)])),
    [root]
  )

/** Packages in `scripts` that only some commands need. */
const TOOLS = ["agents", "bench", "frameworks", "lint", "mutants"]

/** Folders outside of `scripts` whose modules import packages of a tool: Node searches `node_modules` upwards from a module. */
const USERS = { frameworks: [join("examples", "frameworks"), join("test", "adapters")] }

/** Every folder of installed packages, apart from Node's. */
const packageFolders = () =>
  [root, ...TOOLS.map((name) => join(root, "scripts", name))]
    .map((directory) => join(directory, "node_modules"))
    .filter((folder) => existsSync(folder))

/** Removes the source maps of the packages in a folder (47 MB). What other programs keep in its `.cache` stays. */
export const removeSourceMaps = (modules) => {
  const packages = foldersIn(modules).filter((folder) => basename(folder) !== ".cache")
  for (const file of packages.flatMap(filesBelow)) if (/\.[cm]?[jt]s\.map$/.test(file)) rmSync(file)
}

/** Removes what `npm ci` installs and nothing uses: unused folders and source maps. */
const prune = () => {
  for (const path of UNUSED_FOLDERS.flatMap(matching)) rmSync(path, { recursive: true, force: true })
  const { version } = JSON.parse(
    readFileSync(join(root, "node_modules", "typescript", "package.json"), "utf8")
  )
  for (const copy of matching([
    "scripts",
    "lint",
    "node_modules",
    "@effect",
    "*",
    "artifacts",
    "typescript",
    "*"
  ]))
    if (basename(copy) !== version) rmSync(copy, { recursive: true, force: true })
  for (const modules of packageFolders()) removeSourceMaps(modules)
}

/** Makes the packages of a tool available to the folders that use them. */
const linkPackages = (name) => {
  for (const user of USERS[name] ?? []) {
    const link = join(root, user, "node_modules")
    if (!existsSync(join(root, user)) || existsSync(link)) continue
    const target = join(root, "scripts", name, "node_modules")
    if (onWindows) symlinkSync(target, link, "junction")
    else symlinkSync(relative(join(root, user), target), link)
  }
}

/** Links `countersign` into `node_modules/.bin`, so that `npx countersign` runs it without asking to install a package. */
const linkCommand = () => {
  const target = join(root, "scripts", "countersign.js")
  if (onWindows) {
    writeFileSync(join(bin, "countersign.cmd"), `@node "%~dp0\\..\\..\\scripts\\countersign.js" %*\r\n`)
    // `npm start` runs `exec node …`, so that signals reach the service and not a shell. Windows has no `exec`.
    writeFileSync(join(bin, "exec.cmd"), "@%*\r\n")
    return
  }
  chmodSync(target, 0o755)
  const link = join(bin, "countersign")
  rmSync(link, { force: true })
  symlinkSync("../../scripts/countersign.js", link)
}

/** Runs one set-up of a checkout at a time: `npm ci` removes node_modules first. */
const exclusively = (work) => {
  const name = createHash("sha256").update(realpathSync(root)).digest("hex").slice(0, 16)
  const lock = join(tmpdir(), `countersign-setup-${name}.lock`)
  try {
    return withFileLock(lock, work, () => say(`waiting for another set-up of this checkout (${lock})`))
  } catch (error) {
    throw error instanceof LockHeld ? new SetupFailed(error.message) : error
  }
}

/** The files of `scripts/generate.ts` that the sources import. The stamp is beside them, because copies of a checkout share node_modules. */
const generated = join(root, "src", "client", "connect", "generated")
const generatedStamp = join(generated, "stamp")
const rulesSchema = join(root, "approval-rules.schema.json")

/** The files in folders of `src`. */
const sourcesIn = (...folders) =>
  folders.flatMap((folder) => filesBelow(join(root, "src", folder))).filter((file) => file !== generatedStamp)

/** The contract and its generators. The lockfile stands for the dependencies. */
const contractSources = () => [
  ...sourcesIn("api", "domain"),
  ...filesBelow(join(root, "scripts", "client")),
  join(root, "scripts", "generate.ts"),
  join(root, "package-lock.json")
]

/** Generates the files that follow from the contract if it has changed. Without them no program runs, so a failure ends the set-up. */
export const generate = () => {
  const compare = () => compareSources(root, contractSources(), generatedStamp)
  const isDone = ({ isFresh }) => isFresh && existsSync(rulesSchema)
  if (isDone(compare())) return
  exclusively(() => {
    const compared = compare()
    if (isDone(compared)) return
    // After a failure the old stamp must not match.
    rmSync(generatedStamp, { force: true })
    const failure = runBuild([join(root, "scripts", "generate.ts")])
    if (failure !== undefined)
      throw new SetupFailed(`could not generate the files that follow from the contract: ${failure}`)
    writeStamp(generatedStamp, compared)
  })
}

/** Build output of the console in a checkout. The service serves it from here. */
const consoleDirectory = join(root, ".console")

/** The sources of the console. */
const consoleSources = () => [
  ...sourcesIn("api", "client", "console", "domain"),
  join(root, "scripts", "console.config.ts"),
  join(root, "package-lock.json")
]

/** Runs a build program of the checkout. Returns its output if it failed. */
const runBuild = (args) => {
  const program = isNewEnough(process.version) ? process.execPath : installedNode()
  const { status, stderr, stdout } = spawnSync(program, args, {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, NODE_ENV: "production" }
  })
  return status === 0 ? undefined : `${stderr}${stdout}`.trim()
}

/**
 * Builds the console if its sources have changed. It is built into a new folder that then replaces the old one, so that a running service
 * never serves half of it. A failed build is reported and does not stop the set-up: the API works without the console.
 */
const buildConsole = () => {
  const compare = () => compareSources(root, consoleSources(), join(consoleDirectory, "stamp"))
  if (compare().isFresh) return
  exclusively(() => {
    if (compare().isFresh) return
    say("building the console (a few seconds, only after its sources changed)")
    const output = `${consoleDirectory}.new`
    const { contents, metadata } = compare()
    const failure = runBuild([
      join(root, "node_modules", "vite", "bin", "vite.js"),
      "build",
      "--config",
      join(root, "scripts", "console.config.ts"),
      "--outDir",
      output,
      "--logLevel",
      "warn"
    ])
    if (failure !== undefined) {
      say(`could not build the console; the service starts without it: ${failure}`)
      return
    }
    writeStamp(join(output, "stamp"), { contents, metadata })
    rmSync(consoleDirectory, { recursive: true, force: true })
    renameSync(output, consoleDirectory)
  })
}

/**
 * Bundles of the command line, in a folder each, named by their sources' digest. They are not in node_modules, which `npm ci` removes: a
 * running service loads parts of its bundle as it needs them.
 */
const bundles = join(root, ".bundles")

/** Bundles that are kept: a running service of an earlier one may still load a part of it. */
const KEPT_BUNDLES = 4

/** Everything that the bundle is made of. The lockfile stands for the dependencies. */
const serviceSources = () => [
  ...sourcesIn("").filter((file) => !file.startsWith(join(root, "src", "console"))),
  join(root, "scripts", "bundle.js"),
  join(root, "tsconfig.json"),
  join(root, "package-lock.json")
]

/**
 * Bundles the command line if its sources have changed, and returns the bundle's entry point; undefined if it cannot be
 * built, in which case the sources are run.
 */
const bundleService = () => {
  const compare = () => compareSources(root, serviceSources(), join(bundles, "stamp"))
  const entryOf = ({ contents }) => join(bundles, contents.slice(0, 16), "main.js")
  const isBuilt = (compared) => compared.isFresh && existsSync(entryOf(compared))
  const found = compare()
  if (isBuilt(found)) return entryOf(found)
  return exclusively(() => {
    const compared = compare()
    const entry = entryOf(compared)
    if (isBuilt(compared)) return entry
    if (!existsSync(entry)) {
      say("bundling the service (a few seconds, only after its sources changed)")
      const output = `${dirname(entry)}.new`
      rmSync(output, { recursive: true, force: true })
      const failure = runBuild([join(root, "scripts", "bundle.js"), output])
      if (failure !== undefined) {
        say(`could not bundle the service; running its sources: ${failure}`)
        return undefined
      }
      // A half-written bundle never has the final name.
      renameSync(output, dirname(entry))
    }
    writeStamp(join(bundles, "stamp"), compared)
    removeOldBundles(dirname(entry))
    return entry
  })
}

const removeOldBundles = (current) => {
  const age = (folder) => Date.now() - statSync(folder).mtimeMs
  const others = readdirSync(bundles, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(bundles, entry.name))
    .filter((folder) => folder !== current)
  // Node 18 has no `toSorted`.
  // oxlint-disable-next-line unicorn/no-array-sort
  for (const folder of others.sort((left, right) => age(left) - age(right)).slice(KEPT_BUNDLES - 1))
    rmSync(folder, { recursive: true, force: true })
}

/** Installs the dependencies, and Node if needed, unless they are in place. */
const ensureInstalled = () => {
  const isDone = () => isStamped(root) && hasNode()
  if (isDone()) return
  exclusively(() => {
    if (isDone()) return
    if (!isInstalled(root)) install(root)
    mkdirSync(bin, { recursive: true })
    if (!isNewEnough(process.version)) installNode()
    prune()
    linkCommand()
    writeFileSync(stampIn(root), stampOf(root))
  })
}

/** Installs one of `TOOLS`, unless it is in place. */
const ensureTools = (name) => {
  const directory = join(root, "scripts", name)
  if (isStamped(directory)) return linkPackages(name)
  exclusively(() => {
    if (isStamped(directory)) return linkPackages(name)
    say(`installing the packages of scripts/${name}`)
    if (!isInstalled(directory)) install(directory)
    prune()
    linkPackages(name)
    writeFileSync(stampIn(directory), stampOf(directory))
  })
}

/**
 * Prepares the checkout. Returns the entry point of the bundled command line; undefined if it could not be bundled.
 * Throws `SetupFailed` if the user has to act.
 */
export const setup = ({ withConsole = true } = {}) => {
  ensureInstalled()
  generate()
  if (withConsole) buildConsole()
  return bundleService()
}

if (
  process.argv[1] !== undefined &&
  realpathSync(process.argv[1]) === realpathSync(fileURLToPath(import.meta.url))
) {
  try {
    setup()
    for (const name of TOOLS) if (process.argv.slice(2).includes(name)) ensureTools(name)
  } catch (error) {
    if (!(error instanceof SetupFailed)) throw error
    process.stderr.write(`countersign: ${error.message}\n`)
    process.exitCode = 1
  }
}
