import { Argument, Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { org } from "./organization.ts"
import { fileArgument, pathFlag } from "./path.ts"

const handlers = () => import("./audit/handlers.ts")

const exportCommand = Command.make(
  "export",
  { org },
  lazily(async () => (await handlers()).exportLog)
).pipe(
  Command.withShortDescription("Print an organization's audit log as JSON Lines"),
  Command.withDescription(
    "Print an organization's audit log as JSON Lines, oldest entry first, each with its place in the hash chain."
  ),
  Command.withExamples([
    { command: "countersign audit export --org acme > audit.jsonl", description: "Export the log to a file" }
  ])
)

const checkpoint = Command.make(
  "checkpoint",
  { org },
  lazily(async () => (await handlers()).printCheckpoint)
).pipe(
  Command.withShortDescription("Print the newest position of the hash chain"),
  Command.withDescription(
    "Print the newest position of an organization's hash chain and its digest as a line of JSON. Store it where the service and the " +
      "administrators of its database cannot change it: it proves later that no earlier entry was changed or removed."
  ),
  Command.withExamples([
    {
      command: "countersign audit checkpoint --org acme >> /mnt/archive/acme.checkpoints",
      description: "Add a checkpoint to a file on other storage, such as once a day"
    }
  ])
)

const verify = Command.make(
  "verify",
  {
    file: fileArgument("file").pipe(
      Argument.withDescription("Output of `countersign audit export`; - for standard input")
    ),
    checkpoints: pathFlag("checkpoints").pipe(
      Flag.withDescription("File with the output of `countersign audit checkpoint`, a line each"),
      Flag.optional
    )
  },
  lazily(async () => (await handlers()).verifyExport)
).pipe(
  Command.withShortDescription("Verify an exported audit log"),
  Command.withDescription(
    "Verify the hash chain of an exported audit log, and that it contains the checkpoints. Exits with 1 if an entry was changed, " +
      "removed or moved. Needs no database."
  ),
  Command.withExamples([
    {
      command: "countersign audit verify --checkpoints acme.checkpoints audit.jsonl",
      description: "Verify an export against stored checkpoints"
    }
  ])
)

export const auditCommand = Command.make("audit").pipe(
  Command.withShortDescription("Export and verify the audit log"),
  Command.withDescription(
    "Export and verify the audit log. Exports and checkpoints are read from the database, so they need no API key and no running service. `verify` also accepts those of the API."
  ),
  Command.withSubcommands([exportCommand, checkpoint, verify])
)
