import { Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { pathFlag } from "./path.ts"

const supportBundle = lazily(async () => (await import("./supportBundle/supportBundle.ts")).supportBundle)

export const supportBundleCommand = Command.make(
  "support-bundle",
  {
    output: pathFlag("output").pipe(
      Flag.withDescription(
        "The file to write; - for standard output. Default: countersign-support-TIME.tar.gz in the working directory"
      ),
      Flag.optional
    ),
    log: pathFlag("log").pipe(
      Flag.withDescription("A file with the service's JSON log, whose end is included; - for standard input"),
      Flag.optional
    )
  },
  supportBundle
).pipe(
  Command.withShortDescription("Collect facts for a support request, without secrets"),
  Command.withDescription(
    "Write a tar.gz with the result of countersign doctor, settings, versions, migrations, sizes of tables, settings of PostgreSQL, " +
      "metrics and the end of the log, without secrets, organizations' data and email addresses. Sends nothing anywhere."
  ),
  Command.withExamples([
    { command: "countersign support-bundle", description: "Write a bundle to the working directory" },
    {
      command: "countersign support-bundle --log /var/log/countersign.log --output bundle.tar.gz",
      description: "Include the end of the service's log"
    },
    {
      command: "kubectl exec deploy/countersign -- countersign support-bundle --output - > bundle.tar.gz",
      description: "Get a bundle from a pod, which has no file system to write to"
    }
  ])
)
