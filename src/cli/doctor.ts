import { Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"

const doctor = lazily(async () => (await import("./doctor/doctor.ts")).doctor)

export const doctorCommand = Command.make(
  "doctor",
  { json: Flag.Boolean("json").pipe(Flag.withDescription("Print JSON"), Flag.withDefault(false)) },
  doctor
).pipe(
  Command.withShortDescription("Check the installation and say what to do"),
  Command.withDescription(
    "Check settings, disk, name servers, mail server, collector, database, migrations, master keys, clock and connections, with " +
      "the environment of the service. Changes and starts nothing, prints no secrets, and works beside a running service. Exits " +
      "with code 1 if a check fails."
  ),
  Command.withExamples([
    { command: "countersign doctor", description: "Check this installation" },
    { command: "countersign doctor --json", description: "Print the result for monitoring" }
  ])
)
