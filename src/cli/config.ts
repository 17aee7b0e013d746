import { Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"

const config = lazily(async () => (await import("./config/config.ts")).config)

export const configCommand = Command.make(
  "config",
  {
    json: Flag.Boolean("json").pipe(Flag.withDescription("Print JSON"), Flag.withDefault(false)),
    set: Flag.Boolean("set").pipe(
      Flag.withDescription("Only variables that differ from their defaults, or are invalid"),
      Flag.withDefault(false)
    ),
    check: Flag.Boolean("check").pipe(
      Flag.withDescription("Also connect to the database, and check its schema and the master keys"),
      Flag.withDefault(false)
    ),
    markdown: Flag.Boolean("markdown").pipe(
      Flag.withDescription(
        "Print the table of variables for the documentation, regardless of the environment"
      ),
      Flag.withDefault(false)
    )
  },
  config
).pipe(
  Command.withShortDescription("Show and check the configuration"),
  Command.withDescription(
    "List every environment variable with its meaning, unit, default and current value. Secrets are hidden. Exits " +
      "with code 1 if the configuration is invalid."
  ),
  Command.withExamples([
    { command: "countersign config", description: "Show and check the configuration" },
    { command: "countersign config --set", description: "Show what differs from the defaults" },
    {
      command: "countersign config --check",
      description: "Also check the database and the master keys, and show the keys' ids"
    },
    { command: "countersign config --json", description: "Print the configuration as JSON" }
  ])
)
