import { Argument, Command, Flag } from "effect/cli"
import { TaskId } from "../domain/Ids.ts"
import { lazily } from "./lazily.ts"
import { fileArgument } from "./path.ts"
import { secretFlags } from "./secretFlag.ts"
import { serviceUrlFlag } from "./serviceUrl.ts"

/** Where `runs import` finds its API key. */
export const importKey = {
  flag: "key",
  variable: "COUNTERSIGN_KEY",
  what: "API key with the scope tasks.run, and feedback.write to import scores"
}

const importRuns = lazily(async () => (await import("./runs/importRuns.ts")).importRuns)

const importCommand = Command.make(
  "import",
  {
    url: serviceUrlFlag,
    ...secretFlags(importKey),
    task: Flag.String("task").pipe(
      Flag.withDescription("Task id (tsk_ and 32 hex digits)"),
      Flag.withSchema(TaskId)
    ),
    path: fileArgument("file").pipe(
      Argument.withDescription(
        'JSON Lines file with {"id": "…", "input": {…}, "answer": {…}, …} per line; - for standard input'
      )
    )
  },
  importRuns
).pipe(
  Command.withShortDescription("Import past runs from a file"),
  Command.withDescription(
    "Import past runs from a JSON Lines file through the API. Each line is a run as in POST /v1/tasks/:id/runs/import, " +
      "which describes its members. Invalid lines are named, and the others are imported. A run is known by its id, so a file " +
      "can be imported again."
  ),
  Command.withExamples([
    {
      command: "COUNTERSIGN_KEY=csk_… countersign runs import --task tsk_01998f… runs.jsonl",
      description: "Import runs from a file"
    }
  ])
)

export const runsCommand = Command.make("runs").pipe(
  Command.withShortDescription("Import past runs"),
  Command.withDescription("Import past runs. Calls a running service with an API key."),
  Command.withSubcommands([importCommand])
)
