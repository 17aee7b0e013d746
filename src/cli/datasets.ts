import { Argument, Command, Flag } from "effect/cli"
import { DatasetId, TaskId } from "../domain/Ids.ts"
import { lazily } from "./lazily.ts"
import { org } from "./organization.ts"
import { fileArgument } from "./path.ts"

const handlers = () => import("./datasets/handlers.ts")
const importExamples = lazily(async () => (await handlers()).importExamples)
const exportExamples = lazily(async () => (await handlers()).exportExamples)
const verifyVersion = lazily(async () => (await handlers()).verifyVersion)

const importCommand = Command.make(
  "import",
  {
    org,
    task: Flag.String("task").pipe(
      Flag.withDescription("Task id (tsk_ and 32 hex digits)"),
      Flag.withSchema(TaskId)
    ),
    file: fileArgument("file").pipe(
      Argument.withDescription(
        'JSON Lines file with {"input": {…}, "answer": {…}} per line; - for standard input'
      )
    )
  },
  importExamples
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

const exportCommand = Command.make(
  "export",
  {
    org,
    id: Argument.String("id").pipe(
      Argument.withDescription("Dataset version id (dst_ and 32 hex digits)"),
      Argument.withSchema(DatasetId)
    ),
    format: Flag.Literals("format", ["jsonl", "csv"]).pipe(
      Flag.withDescription("jsonl: a JSON object per line; csv: a column per member of inputs and answers"),
      Flag.withDefault("jsonl")
    )
  },
  exportExamples
).pipe(
  Command.withShortDescription("Print a dataset version as JSON Lines or CSV"),
  Command.withDescription(
    "Print a dataset version as JSON Lines or CSV, one example per line, newest first."
  ),
  Command.withExamples([
    {
      command: "countersign datasets export --org acme dst_01998f… > examples.jsonl",
      description: "Export a version to a file"
    }
  ])
)

const verifyCommand = Command.make(
  "verify",
  {
    org,
    id: Argument.String("id").pipe(
      Argument.withDescription("Dataset version id (dst_ and 32 hex digits)"),
      Argument.withSchema(DatasetId)
    )
  },
  verifyVersion
).pipe(
  Command.withShortDescription("Verify the content digest of a dataset version"),
  Command.withDescription(
    "Compute the content digest of a dataset version from its stored examples, and from the tombstones of erased ones, and " +
      "compare it with the recorded digest. Fails if they differ."
  ),
  Command.withExamples([
    {
      command: "countersign datasets verify --org acme dst_01998f…",
      description: "Verify a version"
    }
  ])
)

export const datasetsCommand = Command.make("datasets").pipe(
  Command.withShortDescription("Import, export and verify dataset examples"),
  Command.withDescription(
    "Import, export and verify dataset examples. Connects to the database, so it needs no API key and no running service."
  ),
  Command.withSubcommands([importCommand, exportCommand, verifyCommand])
)
