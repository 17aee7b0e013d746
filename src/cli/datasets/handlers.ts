import { Console, Effect, Schema, Stream } from "effect"
import { Example } from "../../domain/tasks/Dataset.ts"
import { addColumns, csvHeader, csvLine, noColumns } from "../../domain/tasks/exampleCsv.ts"
import type { DatasetId, TaskId } from "../../domain/Ids.ts"
import { Datasets } from "../../server/tasks/Datasets.ts"
import { MAX_LINE_BYTES } from "../../server/tasks/Datasets/importLines.ts"
import { Organizations } from "../../server/identity/Organizations.ts"
import { layerDatasets } from "../../server/main/layerDatasets.ts"
import { readSettings } from "../environment.ts"
import { makeLineProgress, ProgressTerminal, withProgress } from "../progress.ts"
import { readLines } from "../readLines.ts"
import { waitForDrain } from "../stdout.ts"

/** Lines between two progress messages where there is no terminal. */
const PROGRESS_INTERVAL = 10_000

const formatCount = (count: number): string => count.toLocaleString("en")

/** Runs with the datasets of the configured database; an embedded one that is not running is started and stopped. */
const withDatasets = <A, E>(
  organization: string,
  use: (
    datasets: Datasets["Service"],
    org_id: Effect.Success<ReturnType<Organizations["Service"]["findByName"]>>
  ) => Effect.Effect<A, E>
) =>
  Effect.flatMap(readSettings, ({ settings }) =>
    Effect.provide(
      Effect.gen(function* () {
        const org_id = yield* (yield* Organizations).findByName(organization)
        return yield* use(yield* Datasets, org_id)
      }),
      layerDatasets(settings.store)
    )
  )

/** `datasets import` */
export const importExamples = Effect.fnUntraced(function* (flags: {
  readonly org: string
  readonly task: TaskId
  readonly file: string
}) {
  const { isTerminal } = yield* ProgressTerminal
  const { added, dataset, redacted, repeated, replaced } = yield* withProgress(
    { unit: "lines read", hasOutput: false },
    (report) => {
      const addLine = makeLineProgress(flags.file, report)
      const lines = Stream.tap(readLines(flags.file, MAX_LINE_BYTES), (line) =>
        Effect.sync(() => addLine(line))
      )
      return withDatasets(flags.org, (datasets, org_id) =>
        datasets.importLines(org_id, flags.task, lines, (read) =>
          !isTerminal && read % PROGRESS_INTERVAL === 0
            ? Console.error(`${formatCount(read)} lines read`)
            : Effect.void
        )
      )
    }
  )
  yield* Console.error(
    `version ${dataset.version}: ${formatCount(dataset.example_count)} examples, ${formatCount(added)} added, ` +
      `${formatCount(replaced)} replaced`
  )
  if (repeated > 0) {
    yield* Console.error(`${formatCount(repeated)} left out, because a later line has the same input`)
  }
  if (redacted.lines > 0) {
    const more = redacted.lines - redacted.first.length
    yield* Console.error(
      `protected values were removed from line ${redacted.first.join(", ")}${more > 0 ? ` and ${formatCount(more)} more` : ""}`
    )
  }
  // The id alone goes to stdout, so that DATASET=$(countersign datasets import …) captures it.
  yield* Console.log(dataset.id)
})

const encodeExample = Schema.encodeEffect(Schema.toCodecJson(Example))

/** `datasets export` */
export const exportExamples = Effect.fnUntraced(function* (flags: {
  readonly org: string
  readonly id: DatasetId
  readonly format: "jsonl" | "csv"
}) {
  if (flags.format === "csv") return yield* exportCsv(flags)
  let examples = 0
  return yield* withProgress({ unit: "examples", hasOutput: true }, (report) =>
    withDatasets(flags.org, (datasets, org_id) =>
      Effect.flatMap(
        datasets.exportFor(org_id, flags.id),
        Stream.runForEach((example) =>
          encodeExample(example).pipe(
            Effect.flatMap((encoded) => Console.log(JSON.stringify(encoded))),
            Effect.andThen(waitForDrain()),
            Effect.tap(() => Effect.sync(() => report(++examples)))
          )
        )
      )
    )
  )
})

/** Columns of a CSV file at most: a spreadsheet takes 16,384, and an example with a member per record is no table. */
const MAX_COLUMNS = 2_000

/** The examples of a version have too many different members for a table. */
export class TooManyColumns extends Error {
  override readonly name = "TooManyColumns"
  override readonly message = `The examples have more than ${MAX_COLUMNS} different members, too many for CSV. Export JSON Lines.`
}

/** Reads the version twice, first for its columns, so that memory stays bounded. A version never changes. */
const exportCsv = (flags: { readonly org: string; readonly id: DatasetId }) =>
  withDatasets(
    flags.org,
    Effect.fnUntraced(function* (datasets, org_id) {
      const columns = noColumns()
      yield* Stream.runForEach(yield* datasets.exportFor(org_id, flags.id), (example) =>
        addColumns(columns, example) > MAX_COLUMNS ? Effect.fail(new TooManyColumns()) : Effect.void
      )
      yield* Console.log(csvHeader(columns))
      let examples = 0
      const all = yield* datasets.exportFor(org_id, flags.id)
      yield* withProgress({ unit: "examples", hasOutput: true }, (report) =>
        Stream.runForEach(all, (example) =>
          Console.log(csvLine(example, columns)).pipe(
            Effect.andThen(waitForDrain()),
            Effect.tap(() => Effect.sync(() => report(++examples)))
          )
        )
      )
    })
  )

/** The stored examples of a version are not those whose digest was recorded. */
export class DigestDiffers extends Error {
  override readonly name = "DigestDiffers"
  constructor({ computed, recorded }: { readonly computed: string; readonly recorded: string }) {
    super(
      `The stored examples have the digest ${computed}, but ${recorded} was recorded: rows were changed outside the service. ` +
        "Restore the version from a backup."
    )
  }
}

/** `datasets verify` */
export const verifyVersion = Effect.fnUntraced(function* (flags: {
  readonly org: string
  readonly id: DatasetId
}) {
  const verified = yield* withDatasets(flags.org, (datasets, org_id) => datasets.verify(org_id, flags.id))
  if (verified.computed !== verified.recorded) return yield* Effect.fail(new DigestDiffers(verified))
  yield* Console.error(
    `verified: ${formatCount(verified.examples)} examples, ${formatCount(verified.erased)} erased`
  )
  yield* Console.log(verified.computed)
})
