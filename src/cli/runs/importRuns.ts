import { Console, Duration, Effect, Option, Result, Schedule, Schema, Stream } from "effect"
import { ImportedRun, MAX_IMPORTED_RUNS } from "../../api/Runs.ts"
import { Client } from "../../client/Client.ts"
import { isUnavailable, requestedDelay } from "../../client/isTransient.ts"
import type { TaskId } from "../../domain/Ids.ts"
import { describeFirst, describeIssue } from "../../domain/describeIssue.ts"
import { scan } from "../../domain/json/StrictJson.ts"
import { makeLineProgress, withProgress } from "../progress.ts"
import { readLines } from "../readLines.ts"
import { importKey } from "../runs.ts"
import { findSecret, type GivenSecret, SecretMissing } from "../secretFlag.ts"
import { findServiceUrl, makeClientLayer } from "../serviceClient.ts"
import { describeServiceFailure } from "../serviceFailure.ts"

/** Bytes of the lines in one request: the API takes 4 MiB, and a body may be larger than its lines by its commas. */
const MAX_REQUEST_BYTES = 3 * 2 ** 20

/** Problems that are printed; more are counted only. */
const MAX_PRINTED = 100

/** How long a service that is busy or restarts is waited for: about two minutes. */
const retries = { times: 8, baseMillis: 500 } as const

/** Some lines were not imported. The problems were printed. */
export class LinesRefused extends Schema.TaggedError<LinesRefused>()("LinesRefused", {
  message: Schema.String
}) {}

interface NumberedRun {
  readonly line: number
  readonly run: ImportedRun
}

const decodeRun = Schema.decodeUnknownResult(Schema.fromJsonString(Schema.toCodecJson(ImportedRun)), {
  onExcessProperty: "error"
})

/** Parses a line, or returns the problem with it. */
const parseLine = (text: string): Result.Result<ImportedRun, string> => {
  if (Buffer.byteLength(text) > MAX_REQUEST_BYTES)
    return Result.fail(`is longer than ${MAX_REQUEST_BYTES} bytes`)
  const scanned = scan(text)
  if (Result.isFailure(scanned)) return Result.fail(`${scanned.failure.pointer} ${scanned.failure.detail}`)
  return Result.mapError(decodeRun(text), ({ issue }) => describeFirst(describeIssue(issue)))
}

const count = (number: number, one: string, many: string): string =>
  `${number.toLocaleString("en")} ${number === 1 ? one : many}`

/** Imports the runs of a file, one request at a time. Memory is bounded by the lines of one request. */
export const importRuns = Effect.fnUntraced(function* ({
  path,
  task,
  ...flags
}: GivenSecret & { readonly url: Option.Option<string>; readonly task: TaskId; readonly path: string }) {
  const key = yield* findSecret(importKey, flags)
  if (Option.isNone(key)) {
    return yield* new SecretMissing({
      message: "the API key is missing: set COUNTERSIGN_KEY, or use --key-file"
    })
  }
  const url = yield* findServiceUrl(flags.url)
  const client = yield* makeClientLayer({ url, key: key.value })
  const totals = { imported: 0, duplicates: 0, refused: 0 }

  const refuse = (line: number, problem: string) => {
    totals.refused++
    return totals.refused > MAX_PRINTED ? Effect.void : Console.error(`line ${line}: ${problem}`)
  }

  let isRetryReported = false
  /** Tells once that a service that does not respond is tried again, which takes minutes. */
  const reportRetries = (error: unknown) => {
    const described = describeServiceFailure(error) ?? `The service at ${new URL(url).origin} is unavailable.`
    if (isRetryReported) return Effect.void
    isRetryReported = true
    return Console.error(`${described} Retrying for up to two minutes …`)
  }

  const send = Effect.fnUntraced(function* (batch: ReadonlyArray<NumberedRun>) {
    const { runs } = yield* Client
    const { problems, runs: stored } = yield* runs
      .import({ params: { id: task }, payload: { runs: batch.map(({ run }) => run) } })
      .pipe(
        Effect.tapError((error) => (isUnavailable(error) ? reportRetries(error) : Effect.void)),
        // An import that is repeated imports nothing twice.
        Effect.retry({
          times: retries.times,
          while: isUnavailable,
          schedule: Schedule.exponential(Duration.millis(retries.baseMillis)).pipe(
            Schedule.addDelay(({ input }) => Effect.succeed(Duration.millis(requestedDelay(input))))
          )
        })
      )
    for (const { status } of stored) {
      if (status === "imported") totals.imported++
      else totals.duplicates++
    }
    for (const { errors, index } of problems) {
      const described = errors.map(
        ({ detail, pointer }) => `#${pointer.slice(`#/runs/${index}`.length)} ${detail}`
      )
      yield* refuse(batch[index]?.line ?? 0, described.join("; "))
    }
  })

  let batch: Array<NumberedRun> = []
  let bytes = 0
  const flush = Effect.suspend(() => {
    const full = batch
    batch = []
    bytes = 0
    return full.length === 0 ? Effect.void : send(full)
  })

  let line = 0
  yield* withProgress({ unit: "lines", hasOutput: false }, (report) => {
    const addLine = makeLineProgress(path, report)
    return Stream.runForEach(
      readLines(path, MAX_REQUEST_BYTES),
      Effect.fnUntraced(function* (text: string) {
        line++
        addLine(text)
        if (text.trim() === "") return
        const parsed = parseLine(text)
        if (Result.isFailure(parsed)) return yield* refuse(line, parsed.failure)
        const size = Buffer.byteLength(text)
        if (bytes + size > MAX_REQUEST_BYTES || batch.length === MAX_IMPORTED_RUNS) yield* flush
        batch.push({ line, run: parsed.success })
        bytes += size
      })
    )
  }).pipe(Effect.andThen(flush), Effect.provide(client))

  yield* Console.log(
    `${count(totals.imported, "run", "runs")} imported, ${count(totals.duplicates, "duplicate", "duplicates")}`
  )
  if (totals.refused > 0) {
    return yield* new LinesRefused({
      message: `${count(totals.refused, "line was", "lines were")} not imported`
    })
  }
})
