import { Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { pathFlag } from "./path.ts"

/** Backups that `--keep` keeps at most: more are a mistyped number. */
const MAX_KEPT = 10_000

export const backupCommand = Command.make(
  "backup",
  {
    to: pathFlag("to", "directory").pipe(
      Flag.withDescription(
        "Directory that gets the backup, as a directory named by the time; outside of the data directory"
      )
    ),
    compress: Flag.Boolean("compress").pipe(
      Flag.withDescription("Compress the files with gzip"),
      Flag.withDefault(false)
    ),
    keep: Flag.Int("keep").pipe(
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_KEPT }))),
      Flag.withDescription("Afterwards remove the oldest backups in the directory, except this many"),
      Flag.optional
    ),
    masterKeyTo: pathFlag("master-key-to").pipe(
      Flag.withDescription(
        "Also copy the generated master key to this file. Store it apart from the backups: it unseals their secrets"
      ),
      Flag.optional
    )
  },
  lazily(async () => (await import("./backup/backup.ts")).backup)
).pipe(
  Command.withShortDescription("Back up the embedded database, while the service runs"),
  Command.withDescription(
    "Copy the embedded database, whether the service runs or not, and print the directory of the backup. The copy is consistent: it has " +
      "every write that was acknowledged before the command ended the backup. It is signed with the master key, which it does not contain. A database of " +
      "DATABASE_URL is backed up by PostgreSQL's own tools."
  ),
  Command.withExamples([
    {
      command: "countersign backup --to /mnt/backups --compress --keep 14",
      description: "Make a compressed backup, and keep the newest 14"
    },
    {
      command: "countersign backup --to /mnt/backups --master-key-to /mnt/vault/countersign-master-key",
      description: "Also copy the generated master key"
    }
  ])
)
