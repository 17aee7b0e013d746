import { Argument, Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { fileArgument, pathFlag } from "./path.ts"

const handlers = () => import("./org/handlers.ts")

const name = Argument.String("org").pipe(Argument.withDescription("Organization name"))

const prepare = Command.make(
  "prepare",
  {},
  lazily(async () => (await handlers()).prepare)
).pipe(
  Command.withShortDescription("Print the key that an export for this installation is encrypted with"),
  Command.withDescription(
    "Print the transfer key of this installation, for `countersign org export` in another one. Only this installation can read what is exported " +
      "for it, as long as it has its present master key. The transfer key itself is no secret."
  )
)

const file = {
  org: name,
  for: Flag.String("for").pipe(
    Flag.withDescription("Output of `countersign org prepare` in the installation that imports")
  ),
  to: pathFlag("to").pipe(Flag.withDescription("New file; - for standard output"))
}

const copy = Command.make(
  "copy",
  file,
  lazily(async () => (await handlers()).copyTo)
).pipe(
  Command.withShortDescription("Copy an organization while it works, before its move"),
  Command.withDescription(
    "Copy most of what an organization has, encrypted for another installation, while it works. After the other installation has imported the " +
      "copy, an export with --since-copy has only what has changed since, so that the organization is frozen for seconds instead of minutes."
  ),
  Command.withExamples([
    {
      command: "countersign org copy acme --for cst1_… --to acme.copy",
      description: "Copy to a file"
    }
  ])
)

const exportCommand = Command.make(
  "export",
  {
    ...file,
    sinceCopy: Flag.String("since-copy").pipe(
      Flag.withDescription(
        "Output of `countersign org import` for the copy: export only what has changed since; - for standard input"
      ),
      Flag.optional
    )
  },
  lazily(async () => (await handlers()).exportTo)
).pipe(
  Command.withShortDescription("Freeze an organization and export everything it has"),
  Command.withDescription(
    "Freeze an organization and export everything it has, encrypted for another installation. From then on it can be read here, but its writes " +
      "get 503, its deliveries wait and its deadlines stand still, until the move is committed or aborted."
  ),
  Command.withExamples([
    {
      command: "countersign org export acme --for cst1_… --to acme.move",
      description: "Export to a file"
    },
    {
      command: "countersign org export acme --for cst1_… --to acme.move --since-copy 5d1c…",
      description: "Export what has changed since a copy"
    },
    {
      command: "countersign org export acme --for cst1_… --to - | ssh cell2.example countersign org import -",
      description: "Export without a file"
    }
  ])
)

const importCommand = Command.make(
  "import",
  {
    file: fileArgument("file").pipe(
      Argument.withDescription(
        "Output of `countersign org copy` or `countersign org export`; - for standard input"
      )
    )
  },
  lazily(async () => (await handlers()).importFrom)
).pipe(
  Command.withShortDescription("Import an exported organization, or a copy of one"),
  Command.withDescription(
    "Import an exported organization: everything or nothing. Prints the receipt that `countersign org commit` needs. The organization is not active " +
      "here until `countersign org activate`. Of a copy, prints the code that `countersign org export --since-copy` needs."
  )
)

const commit = Command.make(
  "commit",
  {
    org: name,
    receipt: Flag.String("receipt").pipe(
      Flag.withDescription(
        "Output of `countersign org import` in the other installation; - for standard input"
      )
    ),
    movedTo: Flag.String("moved-to").pipe(
      Flag.withDescription("Base URL of the other installation, for misdirected requests"),
      Flag.optional
    )
  },
  lazily(async () => (await handlers()).commit)
).pipe(
  Command.withShortDescription("Give an exported organization up to the other installation"),
  Command.withDescription(
    "Give an exported organization up. It belongs to the other installation from then on, and this cannot be undone. Prints the code that " +
      "`countersign org activate` needs there."
  )
)

const activate = Command.make(
  "activate",
  {
    org: name,
    release: Flag.String("release").pipe(
      Flag.withDescription(
        "Output of `countersign org commit` in the other installation; - for standard input"
      )
    )
  },
  lazily(async () => (await handlers()).activate)
).pipe(
  Command.withShortDescription("Activate an imported organization"),
  Command.withDescription(
    "Activate an imported organization: requests are served, deliveries and deadlines go on. Prints the code that `countersign org finish` needs " +
      "in the other installation."
  )
)

const finish = Command.make(
  "finish",
  {
    org: name,
    activation: Flag.String("activation").pipe(
      Flag.withDescription(
        "Output of `countersign org activate` in the other installation; - for standard input"
      )
    )
  },
  lazily(async () => (await handlers()).finish)
).pipe(
  Command.withShortDescription("Delete the copy of an organization that has moved"),
  Command.withDescription("Delete everything that is left here of an organization that has moved away.")
)

const abort = Command.make(
  "abort",
  { org: name },
  lazily(async () => (await handlers()).abort)
).pipe(
  Command.withShortDescription("End a move that is not committed"),
  Command.withDescription(
    "End a move that is not committed. Where it was exported, the organization is active again, and its exported file can no longer be " +
      "activated. Where it was imported, the copy is deleted: do that only before the commit, or the other installation holds the only copy, " +
      "which is frozen."
  )
)

const list = Command.make(
  "moves",
  {},
  lazily(async () => (await handlers()).list)
).pipe(Command.withShortDescription("List moves to and from this installation"))

export const orgCommand = Command.make("org").pipe(
  Command.withShortDescription("Move organizations between installations"),
  Command.withDescription(
    "Move an organization to another installation while it is in use. The steps, in their order: prepare (there), copy (here) and import (there) " +
      "if it is large, export (here), import (there), commit (here), activate (there), finish (here). Each can be repeated if it was interrupted."
  ),
  Command.withSubcommands([
    prepare,
    copy,
    exportCommand,
    importCommand,
    commit,
    activate,
    finish,
    abort,
    list
  ])
)
