import { Command, Flag } from "effect/cli"
import { lazily } from "./lazily.ts"
import { pathFlag } from "./path.ts"

export const restoreCommand = Command.make(
  "restore",
  {
    from: pathFlag("from", "directory").pipe(
      Flag.withDescription("The backup: a directory that backup printed")
    ),
    force: Flag.Boolean("force").pipe(
      Flag.withDescription("Replace the database of the data directory, and keep it under another name"),
      Flag.withDefault(false)
    ),
    verify: Flag.Boolean("verify").pipe(
      Flag.withDescription("Only verify the backup, and change nothing"),
      Flag.withDefault(false)
    ),
    unsigned: Flag.Boolean("unsigned").pipe(
      Flag.withDescription(
        "Also restore a backup without a valid signature of the master key, such as if the key is lost: anybody who could write where it was stored could alter it"
      ),
      Flag.withDefault(false)
    ),
    masterKey: pathFlag("master-key").pipe(
      Flag.withDescription("File with the master key, for a data directory that has none"),
      Flag.optional
    )
  },
  lazily(async () => (await import("./backup/restore.ts")).restore)
).pipe(
  Command.withShortDescription("Restore a backup of the embedded database"),
  Command.withDescription(
    "Restore a backup into the data directory, while no service uses it. The backup's signature by the master key and every file are verified first, and the present database is " +
      "replaced last, in one step: whenever the command is stopped, either the old or the restored database is whole, and the command " +
      "can be repeated."
  ),
  Command.withExamples([
    {
      command:
        "COUNTERSIGN_DATA_DIR=/var/lib/countersign countersign restore --from /mnt/backups/countersign-backup-… --master-key key",
      description: "Restore into a new data directory"
    },
    {
      command: "countersign restore --from /mnt/backups/countersign-backup-… --force",
      description: "Go back to a backup, and keep the present database under another name"
    },
    {
      command: "countersign restore --from /mnt/backups/countersign-backup-… --verify",
      description: "Check a backup, such as after each transfer"
    }
  ])
)
