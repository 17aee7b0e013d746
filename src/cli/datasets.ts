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

/** Lines between two words of progress. */
const TELL_EVERY = 10_000

const counted = (count: number): string => count.toLocaleString("en")

/** Runs with the datasets of this environment's store; an embedded one that does not run is started and stopped. */
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
      Flag.withDescription("The task's id: tsk_ and 32 hex digits"),
      Flag.withSchema(TaskId)
    ),
    file: Argument.String("file").pipe(
      Argument.withDescription('JSON Lines, {"input": {…}, "answer": {…}} a line; - for standard input')
    )
  },
  Effect.fnUntraced(function* (flags) {
    const { added, dataset, replaced } = yield* withDatasets(flags.org, (datasets, org_id) =>
      datasets.importLines(org_id, flags.task, readLines(flags.file, MAX_LINE_BYTES), (read) =>
        read % TELL_EVERY === 0 ? Console.error(`${counted(read)} lines read`) : Effect.void
      )
    )
    yield* Console.error(
      `version ${dataset.version}: ${counted(dataset.example_count)} examples, ${counted(added)} added, ${counted(replaced)} replaced`
    )
    // Alone on stdout, so that DATASET=$(countersign datasets import …) holds it.
    yield* Console.log(dataset.id)
  })
).pipe(
  Command.withDescription(
    "Make the next version of a task's dataset from a file: all of its examples, or none where a line does not fit the task."
  ),
  Command.withExamples([
    {
      command: "countersign datasets import --org acme --task tsk_01998f… examples.jsonl",
      description: "Examples of a file"
    }
  ])
)

const encodeExample = Schema.encodeEffect(Schema.toCodecJson(Example))

const exportCommand = Command.make(
  "export",
  {
    org,
    id: Argument.String("id").pipe(
      Argument.withDescription("The version's id: dst_ and 32 hex digits"),
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
  Command.withDescription("Print a version of a dataset as JSON Lines, an example a line, newest first."),
  Command.withExamples([
    {
      command: "countersign datasets export --org acme dst_01998f… > examples.jsonl",
      description: "A version in a file"
    }
  ])
)

export const datasetsCommand = Command.make("datasets").pipe(
  Command.withDescription(
    "Bring examples in and out, beside a running service or without one. Needs the store, not a key."
  ),
  Command.withSubcommands([importCommand, exportCommand])
)
