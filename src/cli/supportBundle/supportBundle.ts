import { Console, Effect, Exit, Option, Redacted, Result, Schema } from "effect"
import { writeFile } from "node:fs/promises"
import * as os from "node:os"
import { VERSION } from "../../domain/Version.ts"
import { textOfVariable } from "../../server/config/Settings/readVariables.ts"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { defaultDataDir, serverLogPath } from "../../server/store/EmbeddedPostgres.ts"
import { findDatabase } from "../doctor/databaseChecks.ts"
import { diagnose, type Diagnosis } from "../doctor/diagnose.ts"
import { ProcessEnvironment, readSettings } from "../environment.ts"
import { describeFileFailure } from "../fileFailure.ts"
import { readMetrics } from "../readMetrics.ts"
import { databaseFacts } from "./databaseFacts.ts"
import { readTail, showLog } from "./logTail.ts"
import { makeScrub, readGeneratedSecrets } from "./scrub.ts"
import { showSettings } from "./shownSettings.ts"
import { type ArchiveFile, makeArchive } from "./tar.ts"

/** The bundle cannot be written. */
export class BundleFailed extends Schema.TaggedError<BundleFailed>()("BundleFailed", {
  message: Schema.String
}) {}

const README = `A support bundle of Countersign ${VERSION}. Look through it before you pass it on.

  doctor.json      the result of countersign doctor
  settings.json    which settings are set; values only of numbers and switches
  versions.json    versions and sizes of the machine
  postgres.json    settings of PostgreSQL and numbers of connections by state
  tables.json      sizes of tables
  migrations.json  applied migrations
  queue.json       numbers of waiting deliveries
  metrics.txt      metrics of the running service, if COUNTERSIGN_METRICS_TOKEN is set
  service.log      the end of the log given by --log, with a closed list of fields
  postgres.log     the end of the embedded PostgreSQL's log

It contains no row of an organization's data, no secret, no email address and no URL with credentials.
`

/** The diagnosis without quoted settings: an invalid one may be a misplaced secret. */
const withoutQuotes = (diagnosis: Diagnosis): Diagnosis => ({
  ...diagnosis,
  checks: diagnosis.checks.map((check) =>
    check.name === "settings" && check.status === "failure"
      ? { ...check, summary: "settings are invalid; see settings.json" }
      : check
  )
})

const versions = () => ({
  countersign: VERSION,
  node: process.versions.node,
  v8: process.versions.v8,
  openssl: process.versions.openssl,
  platform: process.platform,
  arch: process.arch,
  kernel: os.release(),
  processors: os.availableParallelism(),
  memory_bytes: os.totalmem(),
  free_memory_bytes: os.freemem(),
  load: os.loadavg()
})

/** The bundle's files. */
const collect = Effect.fnUntraced(function* (logFile: string | undefined) {
  const { machine, variables } = yield* ProcessEnvironment
  // Also if the settings are invalid, which may be why the service does not run.
  const dataDir = textOfVariable(variables, "COUNTERSIGN_DATA_DIR") ?? defaultDataDir(machine)
  const scrub = makeScrub(variables, yield* readGeneratedSecrets(dataDir))
  const files: Array<ArchiveFile> = [{ name: "README.txt", text: README }]
  const add = (name: string, content: unknown) =>
    void files.push({
      name,
      text:
        typeof content === "string"
          ? scrub(content)
          : // Each text by itself, so that the JSON stays valid.
            `${JSON.stringify(content, (_, value: unknown) => (typeof value === "string" ? scrub(value) : value), 2)}\n`
    })
  add("doctor.json", withoutQuotes(yield* diagnose))
  add("settings.json", showSettings(variables))
  add("versions.json", versions())
  const decoded = yield* Effect.result(readSettings)
  if (Result.isSuccess(decoded)) {
    const { settings } = decoded.success
    const url = yield* findDatabase(settings.store)
    if (Redacted.isRedacted(url)) {
      const facts = yield* Effect.exit(
        databaseFacts({
          url,
          directUrl: settings.store.kind === "external" ? settings.store.directUrl : undefined
        })
      )
      // Why it failed is in the diagnosis.
      if (Exit.isSuccess(facts)) for (const [name, content] of Object.entries(facts.value)) add(name, content)
    }
    if (settings.metricsToken !== undefined) {
      add(
        "metrics.txt",
        yield* Effect.orElseSucceed(
          readMetrics(settings, settings.metricsToken),
          () => "(the service did not answer)\n"
        )
      )
    }
  }
  if (textOfVariable(variables, "DATABASE_URL") === undefined) {
    const tail = yield* Effect.option(readTail(serverLogPath(dataDir)))
    if (Option.isSome(tail)) add("postgres.log", tail.value)
  }
  if (logFile !== undefined) {
    const tail = yield* Effect.mapError(
      readTail(logFile),
      ({ cause }) => new BundleFailed({ message: `--log: ${describeFileFailure(logFile, cause)}` })
    )
    files.push({ name: "service.log", text: showLog(tail, scrub) })
  }
  return files
})

/** Writes the bundle to a new file that only its owner may read, and prints its path. */
const writeBundle = Effect.fnUntraced(function* (file: string, archive: Uint8Array) {
  yield* Effect.tryPromise({
    try: () => writeFile(file, archive, { flag: "wx", mode: 0o600 }),
    catch: (cause) => new BundleFailed({ message: whyUnwritable(file, cause) })
  })
  yield* Console.log(file)
})

const whyUnwritable = (file: string, cause: unknown): string =>
  errnoCode(cause) === "EEXIST"
    ? `${file} exists: name another file with --output`
    : `${describeFileFailure(file, cause, "write")} Or write to standard output with --output -.`

/** Writes the bundle to standard output, which must not be a terminal. */
const printBundle = (archive: Uint8Array) =>
  Effect.callback<void, BundleFailed>((resume) => {
    process.stdout.write(archive, (error) =>
      resume(
        error === null || error === undefined
          ? Effect.void
          : Effect.fail(
              new BundleFailed({ message: "standard output was closed before the bundle was written" })
            )
      )
    )
  })

/** Writes the bundle to a file or to standard output, and prints its contents to stderr. */
export const supportBundle = Effect.fnUntraced(function* (flags: {
  readonly output: Option.Option<string>
  readonly log: Option.Option<string>
}) {
  const isPrinted = Option.contains(flags.output, "-")
  if (isPrinted && process.stdout.isTTY) {
    return yield* new BundleFailed({
      message: "the bundle is not written to a terminal: redirect it, as in --output - > bundle.tar.gz"
    })
  }
  const files = yield* collect(Option.getOrUndefined(flags.log))
  const now = new Date()
  const stamp = now.toISOString().slice(0, 19).replaceAll(":", "-")
  const archive = makeArchive(files, now.getTime())
  yield* isPrinted
    ? printBundle(archive)
    : writeBundle(
        Option.getOrElse(flags.output, () => `countersign-support-${stamp}Z.tar.gz`),
        archive
      )
  yield* Console.error(
    `Wrote ${files.length} files (${files.map(({ name }) => name).join(", ")}). Look through them before you pass the bundle on.`
  )
})
