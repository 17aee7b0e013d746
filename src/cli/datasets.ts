import { Console, Effect, Schema, Stream } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { Example } from "../domain/tasks/Dataset.ts"
import { DatasetId, TaskId } from "../domain/Ids.ts"
import { Datasets } from "../server/tasks/Datasets.ts"
import { MAX_LINE_BYTES } from "../server/tasks/Datasets/importLines.ts"
import { Organizations } from "../server/identity/Organizations.ts"
import { layerDatasets } from "../server/main/layerDatasets.ts"
import { readSettings } from "./environment.ts"
import { readLines } from "./readLines.ts"
import { org } from "./organization.ts"
import { waitForDrain } from "./stdout.ts"

/** Lines between two progress messages. */
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

const importCommand = Command.make(
  "import",
  {
    org,
    task: Flag.String("task").pipe(
      Flag.withDescription("Task id (tsk_ and 32 hex digits)"),
      Flag.withSchema(TaskId)
    ),
    file: Argument.String("file").pipe(
      Argument.withDescription(
        'JSON Lines file with {"input": {…}, "answer": {…}} per line; - for standard input'
      )
    )
  },
  Effect.fnUntraced(function* (flags) {
    const { added, dataset, replaced } = yield* withDatasets(flags.org, (datasets, org_id) =>
      datasets.importLines(org_id, flags.task, readLines(flags.file, MAX_LINE_BYTES), (read) =>
        read % PROGRESS_INTERVAL === 0 ? Console.error(`${formatCount(read)} lines read`) : Effect.void
      )
    )
    yield* Console.error(
      `version ${dataset.version}: ${formatCount(dataset.example_count)} examples, ${formatCount(added)} added, ` +
        `${formatCount(replaced)} replaced`
    )
    // The id alone goes to stdout, so that DATASET=$(countersign datasets import …) captures it.
    yield* Console.log(dataset.id)
  })
).pipe(
  Command.withShortDescription("Create the next version of a dataset from a file"),
  Command.withDescription(
    "Create the next version of a task's dataset from a JSON Lines file. The import is atomic: if a line does not " +
      "match the task's schemas, nothing is imported."
  ),
  Command.withExamples([
    {
      command: "countersign datasets import --org acme --task tsk_01998f… examples.jsonl",
      description: "Import examples from a file"
    }
  ])
)

const encodeExample = Schema.encodeEffect(Schema.toCodecJson(Example))

const exportCommand = Command.make(
  "export",
  {
    org,
    id: Argument.String("id").pipe(
      Argument.withDescription("Dataset version id (dst_ and 32 hex digits)"),
      Argument.withSchema(DatasetId)
    )
  },
  Effect.fnUntraced(function* (flags) {
    yield* withDatasets(flags.org, (datasets, org_id) =>
      Effect.flatMap(
        datasets.exportFor(org_id, flags.id),
        Stream.runForEach((example) =>
          encodeExample(example).pipe(
            Effect.flatMap((encoded) => Console.log(JSON.stringify(encoded))),
            Effect.andThen(waitForDrain())
          )
        )
      )
    )
  })
).pipe(
  Command.withShortDescription("Print a dataset version as JSON Lines"),
  Command.withDescription("Print a dataset version as JSON Lines, one example per line, newest first."),
  Command.withExamples([
    {
      command: "countersign datasets export --org acme dst_01998f… > examples.jsonl",
      description: "Export a version to a file"
    }
  ])
)

export const datasetsCommand = Command.make("datasets").pipe(
  Command.withShortDescription("Import and export dataset examples"),
  Command.withDescription(
    "Import and export dataset examples. Connects to the database, so it needs no API key and no running service."
  ),
  Command.withSubcommands([importCommand, exportCommand])
)
