import { Command } from "effect/cli"
import { logFailure } from "./failureLog.ts"
import { lazily } from "./lazily.ts"

const migrate = lazily(async () => (await import("./migrate/migrate.ts")).migrate)

export const migrateCommand = Command.make("migrate", {}, () => logFailure(migrate())).pipe(
  Command.withShortDescription("Apply pending database migrations and exit"),
  Command.withDescription(
    "Apply pending database migrations and exit. `serve` applies them too; use this command to migrate before a rollout."
  ),
  Command.withExamples([{ command: "countersign migrate", description: "Migrate the configured database" }])
)
